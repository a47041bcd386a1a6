/* A node's bandwidth budget as a network sees it: two nodes in network
 * namespaces of their own, joined by a virtual cable that tc holds to a rate,
 * and the cable's counters sampled. Needs root, ip and tc.
 *
 * Up to SPLIT_MBPS packets go over the cable as a real one has them, one by
 * one; beyond, that costs more of these processors than there is (66,000 a
 * second and direction at 800 Mbit/s), and segments go together. The counter
 * then misses their headers, which are added. */
#include "base/clock_io.h"
#include "base/mem.h"
#include "mltune/ps.h"
#include "tests/bench/bench.h"

#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    NODES = 2,
    ROW_BYTES = 1024,
    SECONDS = 8, /* that a node has something to send */
    SETTLE = 1,  /* of them, before what is judged */
    SAMPLE_MS = 5,
    SAMPLES_MAX = 4096,
    QUEUE_MS = 20, /* of budget: what the bucket holds */
    FILL_MS = 50,  /* of budget: updates a clock */
    SPLIT_MBPS = 100
};

/* A segment's bytes with its headers to those without. */
#define SEGMENT_SHARE (1514.0 / 1448)

/* ---- a node, in its namespace -------------------------------------------- */

struct sample {
    double t_s;
    uint64_t bytes;
};

struct node {
    unsigned number;
    double mbps;
    uint64_t rows; /* of a node */
    const char *device;
    unsigned char values[ROW_BYTES];
    _Atomic bool sampling;
    struct sample sample[SAMPLES_MAX];
    size_t samples;
};

/* Bytes that the device has sent, Ethernet headers included. */
static uint64_t bytes_sent(const char *device)
{
    FILE *f = fopen("/proc/self/net/dev", "r");
    unsigned long long sent = 0;
    char line[512];

    bench_must(f != NULL, "read /proc/self/net/dev");
    while (fgets(line, sizeof(line), f)) {
        const char *colon = strchr(line, ':');
        const char *name = line + strspn(line, " ");

        if (colon && (size_t)(colon - name) == strlen(device) &&
            memcmp(name, device, strlen(device)) == 0)
            bench_must(sscanf(colon + 1, "%*u %*u %*u %*u %*u %*u %*u %*u %llu",
                              &sent) == 1,
                       "read the counters");
    }
    fclose(f);
    return sent;
}

static void *take_samples(void *arg)
{
    const struct timespec pause = {.tv_nsec = SAMPLE_MS * 1000000};
    struct node *n = arg;

    while (n->sampling && n->samples < SAMPLES_MAX) {
        n->sample[n->samples++] = (struct sample){
            (double)clock_monotonic() * 1e-9, bytes_sent(n->device)};
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* Updates the rows of the other node, clock after clock. */
static int keep_sending(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    time_ns end = clock_monotonic() + (time_ns)SECONDS * 1000000000;
    uint64_t first = n->number ? 0 : n->rows;
    pthread_t thread;
    int err = 0;

    n->sampling = true;
    pthread_create(&thread, NULL, take_samples, n);
    while (!err && clock_monotonic() < end) {
        for (uint64_t i = 0; i < n->rows; i++)
            mlt_inc_row(w, 0, first + i, n->values);
        err = mlt_clock(w);
    }
    n->sampling = false;
    pthread_join(thread, NULL);
    return err;
}

/* The most bytes in any second, and the share of the budget that was used from
 * one second after the start. */
static void judge(const struct node *n)
{
    double wire = n->mbps > SPLIT_MBPS ? SEGMENT_SHARE : 1;
    double budget = n->mbps * 1e6 / 8, most = 0, used;
    const struct sample *last = &n->sample[n->samples - 1];
    size_t settled = 0;
    char params[64];
    struct bench_series s = {.n = 0};

    for (size_t i = 0, k = 0; i < n->samples; i++) {
        while (n->sample[i].t_s - n->sample[k].t_s > 1)
            k++;
        if (k == 0)
            continue;
        /* From sample k to i it is a second at most. */
        double bytes = (double)(n->sample[i].bytes - n->sample[k].bytes) * wire;
        double t = n->sample[i].t_s - n->sample[k].t_s;

        if (bytes - budget * t > most)
            most = bytes - budget * t;
    }
    while (n->sample[settled].t_s < n->sample[0].t_s + SETTLE)
        settled++;
    used = (double)(last->bytes - n->sample[settled].bytes) * wire /
           (last->t_s - n->sample[settled].t_s) / budget;
    snprintf(params, sizeof(params), "node=%u budget_mbps=%g", n->number,
             n->mbps);
    bench_add(&s, most / (budget * QUEUE_MS * 1e-3));
    bench_print("ps_budget_over", params, &s, "queues");
    s.n = 0;
    bench_add(&s, used);
    bench_print("ps_budget_used", params, &s, "ratio");
}

static int be_node(char **argv)
{
    struct mlt_table_options table = {
        .size = sizeof(table), .name = "rows", .rule = "add"};
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct node *n = mem_calloc(1, sizeof(*n));
    struct mlt_error err;
    struct mlt_ps *ps;
    mlt_table index;
    int ok;

    if (!n)
        return 1;
    n->number = (unsigned)atoi(argv[0]);
    n->mbps = atof(argv[1]);
    n->device = argv[2];
    n->rows = (uint64_t)(n->mbps * 1e6 / 8 * FILL_MS * 1e-3 / ROW_BYTES) + 1;
    table.rows = NODES * n->rows;
    table.width = ROW_BYTES / sizeof(float);
    opt.workers = 1;
    opt.consistency = "async";
    opt.memory_limit = (uint64_t)1 << 30;
    opt.nodes = NODES;
    opt.node = n->number;
    opt.meet = argv[3];
    opt.bandwidth_mbps = n->mbps;
    ok = mlt_ps_new(&opt, &ps, &err) == 0 &&
         mlt_ps_table(ps, &table, &index, &err) == 0 &&
         mlt_ps_start(ps, &err) == 0;
    bench_must(ok, err.text);
    bench_must(mlt_ps_run(ps, keep_sending, n) == 0, "run");
    judge(n);
    mlt_ps_free(ps);
    mem_free(n);
    return 0;
}

/* ---- the network --------------------------------------------------------- */

/* The program with these words, separated by spaces; or -1. */
static pid_t start(char *line)
{
    char *argv[32], *rest = NULL;
    size_t n = 0;
    pid_t pid;

    for (char *word = strtok_r(line, " ", &rest); word && n < 31;
         word = strtok_r(NULL, " ", &rest))
        argv[n++] = word;
    argv[n] = NULL;
    if (n == 0)
        return -1;
    return posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) == 0 ? pid
                                                                       : -1;
}

/* True when it was started and succeeded. */
static bool ended_well(pid_t pid)
{
    int status;

    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* True when every command of the list succeeds; %1$d is this process. */
static bool run_all(const char *const command[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char line[512];

        snprintf(line, sizeof(line), command[i], (int)getpid());
        if (!ended_well(start(line)))
            return false;
    }
    return true;
}

static const char *const up[] = {
    "ip netns add mlt0-%1$d",
    "ip netns add mlt1-%1$d",
    "ip link add mlt-v0 netns mlt0-%1$d type veth "
    "peer name mlt-v1 netns mlt1-%1$d",
    "ip -n mlt0-%1$d addr add 10.77.0.1/24 dev mlt-v0",
    "ip -n mlt1-%1$d addr add 10.77.0.2/24 dev mlt-v1",
    "ip -n mlt0-%1$d link set lo up",
    "ip -n mlt1-%1$d link set lo up",
    "ip -n mlt0-%1$d link set mlt-v0 up",
    "ip -n mlt1-%1$d link set mlt-v1 up",
    "tc -n mlt0-%1$d qdisc add dev mlt-v0 root tbf rate 1gbit burst 128kb "
    "latency 50ms",
    "tc -n mlt1-%1$d qdisc add dev mlt-v1 root tbf rate 1gbit burst 128kb "
    "latency 50ms",
};

static const char *const down[NODES] = {
    "ip netns del mlt0-%1$d",
    "ip netns del mlt1-%1$d",
};

static const char *const split[] = {
    "ip -n mlt0-%1$d link set mlt-v0 gso_max_segs 1",
    "ip -n mlt1-%1$d link set mlt-v1 gso_max_segs 1",
};

static const char *const together[] = {
    "ip -n mlt0-%1$d link set mlt-v0 gso_max_segs 64",
    "ip -n mlt1-%1$d link set mlt-v1 gso_max_segs 64",
};

static void run_nodes(const char *self, double mbps)
{
    pid_t pid[NODES];

    bench_must(run_all(mbps > SPLIT_MBPS ? together : split, NODES), "ip link");
    for (int i = 0; i < NODES; i++) {
        char line[512];

        snprintf(line, sizeof(line),
                 "ip netns exec mlt%d-%d %s node %d %g mlt-v%d "
                 "tcp://10.77.0.1:7000",
                 i, (int)getpid(), self, i, mbps, i);
        pid[i] = start(line);
    }
    for (int i = 0; i < NODES; i++)
        bench_must(ended_well(pid[i]), "a node");
}

int main(int argc, char **argv)
{
    static const double mbps[] = {10, 100, 800};

    if (argc == 6 && strcmp(argv[1], "node") == 0)
        return be_node(argv + 2);
    if (!run_all(up, sizeof(up) / sizeof(*up)))
        bench_skip("ps_budget", "",
                   "no network namespaces here (ip, tc and "
                   "CAP_NET_ADMIN are needed)");
    else
        for (int i = 0; i < 3; i++)
            run_nodes(argv[0], mbps[i]);
    for (int i = 0; i < NODES; i++)
        run_all(down + i, 1);
    return 0;
}
