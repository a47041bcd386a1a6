#include "tests/unit/pace_run.h"

#include "base/clock_io.h"
#include "base/mem.h"
#include "ps/manager.h"
#include "ps/ps.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NODES = 2, WORKERS = 2, SAMPLES_MAX = 20000, AT_ONCE = 64 };

#define SECOND INT64_C(1000000000)

struct sample {
    time_ns before, after;
    uint64_t charged;
};

struct node {
    const struct pace_run_options *opt;
    unsigned number;
    const char *folder;
    struct mlt_ps *_Atomic ps; /* to be sampled */
    _Atomic bool done;
    pthread_t thread;
    int code;
    struct mlt_error error;
    bool exact;
    struct ps_traffic traffic;
    struct sample *sample;
    size_t samples;
};

/* ---- a node -------------------------------------------------------------- */

static int read_once(struct mlt_worker *w, const struct pace_run_options *opt)
{
    uint64_t rows[AT_ONCE];
    const void *out[AT_ONCE];
    int code = 0;

    for (uint64_t first = 0; first < opt->rows && !code; first += AT_ONCE) {
        size_t n = 0;

        for (; n < AT_ONCE && first + n < opt->rows; n++)
            rows[n] = first + n;
        code = mlt_get_rows(w, 0, n, rows, out);
    }
    return code;
}

static uint64_t sum_of(const uint64_t n[PRIORITY_COUNT])
{
    uint64_t sum = 0;

    for (int p = 0; p < PRIORITY_COUNT; p++)
        sum += n[p];
    return sum;
}

/* Nothing is added, again and again. */
static void wait_early(struct mlt_worker *w, struct node *n, const float *zero)
{
    const struct timespec pause = {.tv_nsec = 100000};
    bool pushes = strcmp(n->opt->consistency, "essp") == 0, came = false;
    time_ns end =
        clock_monotonic() + (time_ns)(n->opt->wait_early_s * (double)SECOND);

    while (!came && clock_monotonic() < end) {
        struct ps_traffic t;

        for (uint64_t r = 0; r < n->opt->rows; r++)
            mlt_inc_row(w, 0, r, zero);
        nanosleep(&pause, NULL);
        ps_traffic(atomic_load(&n->ps), &t);
        came = sum_of(t.rows_early) > 0 &&
               (!pushes || sum_of(t.rows_pushed_early) > 0);
    }
}

static int work(struct mlt_worker *w, void *arg)
{
    struct node *node = arg;
    const struct pace_run_options *opt = node->opt;
    float *one = mem_calloc(opt->width, sizeof(*one));
    int code = one ? read_once(w, opt) : 1;

    if (!code && opt->wait_early_s > 0)
        wait_early(w, node, one);
    for (uint32_t j = 0; j < opt->width && one; j++)
        one[j] = 1;
    for (int i = 0; i < opt->clocks && !code; i++) {
        for (uint64_t r = 0; r < opt->rows; r++)
            mlt_inc_row(w, 0, r, one);
        code = mlt_clock(w);
    }
    mem_free(one);
    return code;
}

static bool is_exact(const struct node *n, struct mlt_ps *ps)
{
    const struct pace_run_options *opt = n->opt;
    double *x = mem_calloc(opt->width, sizeof(*x));
    bool exact = x != NULL;

    for (uint64_t r = 0; r < opt->rows && exact; r++) {
        if (!ps_is_here(ps, 0, r))
            continue;
        exact = ps_read_rows(ps, ps_active(ps), "rows", r, 1, x) == ERR_OK;
        for (uint32_t j = 0; j < opt->width; j++)
            exact &= x[j] == (double)opt->clocks * NODES * WORKERS;
    }
    mem_free(x);
    return exact;
}

static int run_node(struct node *n, struct mlt_ps **ps)
{
    const struct pace_run_options *o = n->opt;
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_table_options table = {.size = sizeof(table),
                                      .name = "rows",
                                      .rows = o->rows,
                                      .width = o->width,
                                      .type = MLT_F32,
                                      .rule = o->rule ? o->rule : "add"};
    mlt_table t;
    int code;

    opt.workers = WORKERS;
    opt.memory_limit = 256 << 20;
    opt.consistency = o->consistency;
    opt.staleness = 3;
    opt.nodes = NODES;
    opt.node = n->number;
    opt.meet = n->folder;
    opt.bandwidth_mbps = o->mbps;
    opt.priority = o->priority;
    code = mlt_ps_new(&opt, ps, &n->error);
    if (!code)
        code = mlt_ps_table(*ps, &table, &t, &n->error);
    if (!code)
        code = mlt_ps_start(*ps, &n->error);
    atomic_store(&n->ps, code ? NULL : *ps);
    return code ? code : mlt_ps_run(*ps, work, n);
}

static void *node_main(void *arg)
{
    struct node *n = arg;
    struct mlt_ps *ps = NULL;

    n->code = run_node(n, &ps);
    atomic_store(&n->done, true);
    return ps;
}

/* ---- looking on ---------------------------------------------------------- */

static void take_sample(struct node *n)
{
    struct mlt_ps *ps = atomic_load(&n->ps);
    struct ps_traffic t;
    struct sample *s = &n->sample[n->samples];

    if (!ps || n->samples == SAMPLES_MAX)
        return;
    s->before = clock_monotonic();
    ps_traffic(ps, &t);
    s->after = clock_monotonic();
    s->charged = t.bytes_charged;
    if (n->samples == 0 || t.bytes_charged > s[-1].charged)
        n->samples++;
}

static double above(const struct sample *a, const struct sample *b, double rate)
{
    return (double)(b->charged - a->charged) -
           rate * (double)(b->after - a->before) / (double)SECOND;
}

static void judge(const struct node *n, double rate,
                  struct pace_run_result *out)
{
    const struct sample *s = n->sample;
    size_t first = 0;

    out->samples += n->samples;
    for (size_t i = 0; i < n->samples; i++) {
        while (s[i].after - s[first].before > SECOND)
            first++;
        for (size_t k = first; k < i; k++)
            if (above(&s[k], &s[i], rate) > out->most_above)
                out->most_above = above(&s[k], &s[i], rate);
    }
}

/* Less what the bucket took at once. */
static double used_of(const struct node *n, double rate, double queue)
{
    const struct sample *s = n->sample, *last = s + n->samples - 1;

    if (n->samples < 2)
        return 0;
    return ((double)(last->charged - s->charged) - queue) /
           (rate * (double)(last->after - s->before) / (double)SECOND);
}

static void collect(struct node *n, double rate, struct pace_run_result *out)
{
    double used = used_of(n, rate, out->queue);

    judge(n, rate, out);
    traffic_add(&out->traffic, &n->traffic);
    out->used = used < out->used ? used : out->used;
    out->exact &= n->exact;
    if (n->code && !out->code) {
        out->code = n->code;
        memcpy(out->text, n->error.text, sizeof(out->text));
    }
}

void pace_run(const struct pace_run_options *opt, struct pace_run_result *out)
{
    const struct timespec pause = {.tv_nsec = 500000};
    char folder[] = "/tmp/mltune-pace-XXXXXX";
    double rate = opt->mbps * 1e6 / 8;
    struct node node[NODES] = {{0}};
    time_ns begin = clock_monotonic();
    struct mlt_ps *ps[NODES];
    bool done = false;

    if (!mkdtemp(folder))
        abort();
    for (unsigned i = 0; i < NODES; i++) {
        node[i].opt = opt;
        node[i].number = i;
        node[i].folder = folder;
        node[i].sample = mem_calloc(SAMPLES_MAX, sizeof(*node[i].sample));
        if (!node[i].sample ||
            pthread_create(&node[i].thread, NULL, node_main, &node[i]) != 0)
            abort();
    }
    while (!done) {
        done = true;
        for (unsigned i = 0; i < NODES; i++) {
            take_sample(&node[i]);
            done &= atomic_load(&node[i].done);
        }
        nanosleep(&pause, NULL);
    }
    *out = (struct pace_run_result){.used = 1, .exact = true};
    out->queue = rate * MANAGER_QUEUE_MS / 1000;
    out->seconds = (double)(clock_monotonic() - begin) / (double)SECOND;
    for (unsigned i = 0; i < NODES; i++) {
        void *result;

        pthread_join(node[i].thread, &result);
        ps[i] = result;
        node[i].exact = !node[i].code && is_exact(&node[i], ps[i]);
        ps_traffic(ps[i], &node[i].traffic);
        collect(&node[i], rate, out);
        mem_free(node[i].sample);
    }
    for (unsigned i = 0; i < NODES; i++)
        mlt_ps_free(ps[i]);
    rmdir(folder);
}
