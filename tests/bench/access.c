/* Access knowledge on against off, on four node processes of two workers each:
 * messages, bytes and processor time of all of them, a clock.
 *
 *   mf       the application, rank 32, a clock a pass and a hundredth of one
 *   pages    PageRank, rows of 8 bytes, read one by one, on a graph of which
 *            one link in twenty leaves a group of 1,000 pages, and on two that
 *            were found: friends (who are in groups) and followers
 *
 * under `ssp` with staleness 0, so that each row is fetched anew in each clock,
 * and `bsp`, where changed rows are pushed. Modes: off; gather; place, said
 * before; and place with a twentieth of what is said left out. The first clock
 * (pass) is measured apart. Pages' rows are numbered at random, as by a hash of
 * their names.
 *
 * Data: MLTUNE_DATA (MovieLens 1M, ego-Facebook, Slashdot), else generated.
 * BENCH_JOBS: words, of which one must be in a job's name, data or consistency.
 */
#include "apps/formats/data_stream.h"
#include "apps/mf/mf.h"
#include "base/clock_io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ps/node/host_io.h"
#include "tests/bench/bench.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES = 4, EACH = 2, WORKERS = NODES * EACH, MISSING_PERCENT = 5 };

enum mode { OFF, GATHER, PLACE, MISSING, MODES };

static const char *const mode_names[MODES] = {"off", "gather", "place",
                                              "missing"};
static const char *const mode_access[MODES] = {"off", "gather", "place",
                                               "place"};

/* Totals of what all nodes sent and computed. */
struct cost {
    double frames, bytes, cpu_s, wall_s; /* a clock */
};

struct job {
    const char *name;
    const char *data; /* pages: the graph; mf: clocks a pass */
    const char *consistency;
    enum mode mode;
    uint64_t clocks;
    char folder[64];
};

/* Linked in place of the server's own, for all callers: leaves some of what is
 * said out. */
static unsigned missing_percent;
int __real_mlt_ps_expect(struct mlt_ps *ps, mlt_table table, unsigned worker,
                         uint64_t part, unsigned touch, size_t n,
                         const uint64_t rows[]);
int __wrap_mlt_ps_expect(struct mlt_ps *ps, mlt_table table, unsigned worker,
                         uint64_t part, unsigned touch, size_t n,
                         const uint64_t rows[]);

int __wrap_mlt_ps_expect(struct mlt_ps *ps, mlt_table table, unsigned worker,
                         uint64_t part, unsigned touch, size_t n,
                         const uint64_t rows[])
{
    int err = 0;

    for (size_t i = 0; i < n && !err; i++)
        if (rng_mix(rng_mix(worker, part), rows[i]) % 100 >= missing_percent)
            err = __real_mlt_ps_expect(ps, table, worker, part, touch, 1,
                                       &rows[i]);
    return err;
}

/* ---- PageRank ------------------------------------------------------------ */

#define DAMPING 0.85

struct graph {
    uint32_t pages, links;
    uint32_t *begin;             /* [pages + 1] */
    uint32_t *to;                /* [links] by page: rows */
    uint32_t *row;               /* [pages] of each page */
    uint32_t first[WORKERS + 1]; /* pages of each worker: about as many links */
};

struct edges {
    uint32_t (*edge)[2];
    size_t n, room;
};

static void add_edge(struct edges *e, uint32_t from, uint32_t to)
{
    bench_must(
        mem_grow((void **)&e->edge, &e->room, sizeof(*e->edge), e->n + 1) == 0,
        "memory");
    e->edge[e->n][0] = from;
    e->edge[e->n++][1] = to;
}

/* Two numbers a line; lines of others, and of comments, are none. */
static void take_line(struct edges *e, const char *line, bool both)
{
    unsigned from, to;

    if (sscanf(line, "%u %u", &from, &to) != 2)
        return;
    add_edge(e, from, to);
    if (both)
        add_edge(e, to, from);
}

static bool read_edges(const char *name, bool both, struct edges *e)
{
    const char *dir = getenv("MLTUNE_DATA");
    char path[512], line[256], bytes[4096];
    struct data_stream *s;
    size_t n = 0, len = 0;
    struct fault f;

    snprintf(path, sizeof(path), "%s/%s.txt.xz", dir ? dir : "", name);
    if (data_stream_open(path, &s, &f) != ERR_OK)
        return false;
    while (data_stream_read(s, bytes, sizeof(bytes), &n, &f) == ERR_OK && n)
        for (size_t i = 0; i < n; i++) {
            line[len] = bytes[i];
            if (bytes[i] != '\n' && len + 2 < sizeof(line)) {
                len++;
                continue;
            }
            line[len] = '\0';
            take_line(e, line, both);
            len = 0;
        }
    data_stream_close(s);
    return e->n > 0;
}

static void generate_edges(struct edges *e)
{
    enum { PAGES = 40000, LINKS = 12 };
    struct rng rng;

    rng_init(&rng, 1);
    for (uint32_t i = 0; i < PAGES; i++)
        for (int k = 0; k < LINKS; k++) {
            bool far = rng_uniform(&rng) < 0.05;
            uint64_t to = far ? rng_below(&rng, PAGES)
                              : i / 1000 * 1000 + rng_below(&rng, 1000);

            add_edge(e, i, (uint32_t)to);
        }
}

static void *zeroed(size_t n, size_t size)
{
    void *p = mem_calloc(n, size);

    if (!p)
        abort();
    return memset(p, 0, n * size);
}

static void make_graph(const char *name, struct graph *g)
{
    struct edges e = {0};
    struct perm number;
    uint32_t *at;

    if (strcmp(name, "groups") == 0)
        generate_edges(&e);
    else
        bench_must(read_edges(name, strstr(name, "Facebook") != NULL, &e),
                   name);
    bench_must(e.n > 0, "no links");
    *g = (struct graph){.links = (uint32_t)e.n};
    for (size_t i = 0; i < e.n; i++)
        for (int k = 0; k < 2; k++)
            if (e.edge[i][k] >= g->pages)
                g->pages = e.edge[i][k] + 1;
    g->begin = zeroed(g->pages + 1, sizeof(*g->begin));
    g->to = zeroed(g->links, sizeof(*g->to));
    g->row = zeroed(g->pages, sizeof(*g->row));
    at = zeroed(g->pages + 1, sizeof(*at));
    bench_must(g->begin && g->to && g->row && at, "memory");
    perm_init(&number, g->pages, 1);
    for (uint32_t i = 0; i < g->pages; i++)
        g->row[i] = (uint32_t)perm_at(&number, i);
    for (size_t i = 0; i < e.n; i++)
        g->begin[e.edge[i][0] + 1]++;
    for (uint32_t i = 0; i < g->pages; i++)
        at[i + 1] = g->begin[i + 1] += g->begin[i];
    for (size_t i = 0; i < e.n; i++)
        g->to[at[e.edge[i][0]]++] = g->row[e.edge[i][1]];
    for (uint32_t w = 1, page = 0; w <= WORKERS; w++) {
        while (page < g->pages &&
               g->begin[page] < (uint64_t)g->links * w / WORKERS)
            page++;
        g->first[w] = w == WORKERS ? g->pages : page;
    }
    mem_free(at);
    mem_free(e.edge);
}

struct pages {
    struct graph graph;
    struct mlt_ps *ps;
    double *given; /* [pages] what each has given each of its links */
    uint64_t clocks;
};

/* Reads a page's rank and gives what has changed to those that it links to. */
static int visit_pages(struct mlt_worker *w, void *arg)
{
    struct pages *p = arg;
    const struct graph *g = &p->graph;
    unsigned self = mlt_worker_index(w);
    int err = 0;

    for (uint64_t clock = 0; clock < p->clocks && !err; clock++) {
        for (uint32_t i = g->first[self]; i < g->first[self + 1]; i++) {
            uint32_t links = g->begin[i + 1] - g->begin[i];
            const double *rank = links ? mlt_get_row(w, 0, g->row[i]) : NULL;
            double gives, change;

            if (links == 0)
                continue;
            if (!rank)
                return ERR_CANCELED;
            gives = DAMPING * *rank / links;
            change = gives - p->given[i];
            p->given[i] = gives;
            for (uint32_t k = g->begin[i]; k < g->begin[i + 1]; k++)
                mlt_inc_row(w, 0, g->to[k], &change);
        }
        err = mlt_clock(w);
    }
    return err;
}

static int init_pages(struct mlt_worker *w, void *arg)
{
    const struct pages *p = arg;
    const double rank = (1 - DAMPING) / p->graph.pages;
    uint64_t first, count;

    mlt_owned_rows(p->ps, 0, mlt_worker_index(w), &first, &count);
    for (uint64_t i = first; i < first + count; i++)
        mlt_init_row(w, 0, mlt_row_at(p->ps, 0, i), &rank);
    return 0;
}

/* A virtual iteration, of this node's workers. */
static int expect_pages(const struct pages *p, unsigned node)
{
    const struct graph *g = &p->graph;
    uint32_t *last = mem_calloc(g->pages, sizeof(*last));
    int err = last ? 0 : (int)ERR_NOMEM;

    for (unsigned w = node * EACH; w < (node + 1) * EACH && !err; w++)
        for (uint32_t i = g->first[w]; i < g->first[w + 1] && !err; i++) {
            uint64_t row = g->row[i];

            if (g->begin[i] < g->begin[i + 1])
                err = mlt_ps_expect(p->ps, 0, w, 0, MLT_READS, 1, &row);
            for (uint32_t k = g->begin[i]; k < g->begin[i + 1] && !err; k++) {
                row = g->to[k];
                if (last[row] == w + 1)
                    continue;
                last[row] = w + 1;
                err = mlt_ps_expect(p->ps, 0, w, 0, MLT_UPDATES, 1, &row);
            }
        }
    mem_free(last);
    return err;
}

static void pages_open(const struct job *j, unsigned node, struct pages *p)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_table_options ranks = {
        .size = sizeof(ranks), .name = "ranks", .width = 1, .type = MLT_F64};
    struct mlt_error e = {0};
    mlt_table table;

    make_graph(j->data, &p->graph);
    p->given = mem_calloc(p->graph.pages, sizeof(*p->given));
    ranks.rows = p->graph.pages;
    opt.workers = EACH;
    opt.memory_limit = (uint64_t)256 << 20;
    opt.consistency = j->consistency;
    opt.update_rule = "add";
    opt.nodes = NODES;
    opt.node = node;
    opt.meet = j->folder;
    opt.access = mode_access[j->mode];
    bench_must(mlt_ps_new(&opt, &p->ps, &e) == 0, e.text);
    bench_must(mlt_ps_table(p->ps, &ranks, &table, &e) == 0, e.text);
    bench_must(j->mode < PLACE || expect_pages(p, node) == 0, "expect");
    bench_must(mlt_ps_start(p->ps, &e) == 0, e.text);
    bench_must(mlt_ps_run(p->ps, init_pages, p) == 0, "init");
}

static void pages_run(void *self, uint64_t clocks)
{
    struct pages *p = self;

    p->clocks = clocks;
    bench_must(mlt_ps_run(p->ps, visit_pages, p) == 0, "run");
}

/* ---- mf ------------------------------------------------------------------ */

static json_t *mf_config(const struct job *j)
{
    const char *dir = getenv("MLTUNE_DATA");
    char data[512];
    bool pass = strcmp(j->data, "pass") == 0;

    snprintf(data, sizeof(data), "%s/ml1m.train90.tsv.xz", dir ? dir : "");
    if (!dir || access(data, R_OK) != 0)
        snprintf(data, sizeof(data),
                 "gen:ratings?users=6000&items=3700&ratings=900000&rank=8");
    return json_pack("{s{ss ss si so} s{si si} s{ss ss ss} s{ss}}", "app",
                     "name", "mf", "data", data, "rank", 32, "clock",
                     pass ? json_string("pass") : json_integer(atoi(j->data)),
                     "cluster", "nodes", NODES, "workers", EACH, "ps",
                     "consistency", j->consistency, "access",
                     mode_access[j->mode], "update_rule", "adagrad", "memory",
                     "limit", "1GiB");
}

static struct host *mf_open_host(const struct job *j, unsigned node)
{
    json_t *config = mf_config(j);
    struct host_config c = {.app = &app_mf,
                            .config = config,
                            .folder = ".",
                            .seed = 1,
                            .node = node,
                            .meet = j->folder};
    struct fault f = {0};
    struct host *h;

    bench_must(config != NULL, "configuration");
    bench_must(host_open(&c, &h, &f) == ERR_OK, f.text);
    bench_must(ps_fork(host_ps(h), 1, 0, BRANCH_TRAINING) == ERR_OK, "fork");
    json_decref(config);
    return h;
}

static void mf_run(void *self, uint64_t clocks)
{
    struct node_setting setting = host_facts(self)->defaults;
    struct host_slice slice = {.branch = 1,
                               .type = BRANCH_TRAINING,
                               .setting = &setting,
                               .count = clocks,
                               .report_every = clocks};
    struct host_result result;
    struct fault f = {0};

    setting.learning_rate = 0.05;
    bench_must(host_slice_begin(self, &slice, &f) == ERR_OK, f.text);
    bench_must(host_slice_end(self, &result, &f) == ERR_OK, f.text);
}

/* ---- a node -------------------------------------------------------------- */

/* The first pass, and the others; a clock. */
static void measure(struct mlt_ps *ps, void (*run)(void *, uint64_t),
                    void *self, const struct job *j, struct cost out[2])
{
    uint64_t first = strcmp(j->data, "100") == 0 ? 100 : 1;

    for (int i = 0; i < 2; i++) {
        uint64_t clocks = i ? j->clocks : first;
        time_ns cpu = bench_cpu(), wall = clock_monotonic();
        struct ps_traffic before, after;

        ps_traffic(ps, &before);
        run(self, clocks);
        ps_traffic(ps, &after);
        cpu = bench_cpu() - cpu;
        wall = clock_monotonic() - wall;
        out[i] = (struct cost){
            .frames = (double)(after.frames_sent - before.frames_sent),
            .bytes = (double)(after.bytes_sent - before.bytes_sent),
            .cpu_s = (double)cpu * 1e-9,
            .wall_s = (double)wall * 1e-9};
        out[i].frames /= (double)clocks;
        out[i].bytes /= (double)clocks;
        out[i].cpu_s /= (double)clocks;
        out[i].wall_s /= (double)clocks;
    }
}

static void run_node(const struct job *j, unsigned node, struct cost cost[2])
{
    missing_percent = j->mode == MISSING ? MISSING_PERCENT : 0;
    if (strcmp(j->name, "mf") == 0) {
        struct host *h = mf_open_host(j, node);

        measure(host_ps(h), mf_run, h, j, cost);
        host_close(h);
    } else {
        struct pages p = {.clocks = 0};

        pages_open(j, node, &p);
        measure(p.ps, pages_run, &p, j, cost);
        mlt_ps_free(p.ps);
    }
}

/* ---- all nodes ----------------------------------------------------------- */

static void run_job(struct job *j, struct cost sum[2])
{
    struct cost one[2];
    int fd[2] = {-1, -1}, status;

    snprintf(j->folder, sizeof(j->folder), "/tmp/mltune-bench-XXXXXX");
    bench_must(mkdtemp(j->folder) != NULL && pipe(fd) == 0, "folder");
    fflush(stdout);
    for (unsigned i = 0; i < NODES; i++) {
        pid_t pid = fork();

        bench_must(pid >= 0, "fork");
        if (pid > 0)
            continue;
        run_node(j, i, one);
        bench_must(write(fd[1], one, sizeof(one)) == sizeof(one), "pipe");
        _exit(0);
    }
    memset(sum, 0, 2 * sizeof(*sum));
    for (unsigned i = 0; i < NODES; i++) {
        bench_must(wait(&status) > 0 && status == 0, "a node failed");
        bench_must(read(fd[0], one, sizeof(one)) == sizeof(one), "pipe");
        for (int k = 0; k < 2; k++) {
            sum[k].frames += one[k].frames;
            sum[k].bytes += one[k].bytes;
            sum[k].cpu_s += one[k].cpu_s;
            if (one[k].wall_s > sum[k].wall_s)
                sum[k].wall_s = one[k].wall_s;
        }
    }
    close(fd[0]);
    close(fd[1]);
    rmdir(j->folder);
}

static void print_one(const struct job *j, const char *what,
                      const double value[2], double off, const char *unit)
{
    printf("access job=%s data=%s consistency=%s mode=%s what=%s first=%.6g "
           "gain=%.2f %.6g %s\n",
           j->name, j->data, j->consistency, mode_names[j->mode], what,
           value[0], off / value[1], value[1], unit);
}

#define PRINT(j, what, member, off, cost, unit)                                \
    print_one(j, what, (double[]){(cost)[0].member, (cost)[1].member},         \
              (off).member, unit)

static bool is_wanted(const char *name, const char *data, const char *model)
{
    const char *jobs = getenv("BENCH_JOBS");
    char text[128];
    bool wanted = !jobs;

    snprintf(text, sizeof(text), "%s", jobs ? jobs : "");
    for (char *w = strtok(text, " "); w; w = strtok(NULL, " "))
        wanted |= strstr(name, w) || strstr(data, w) || strstr(model, w);
    return wanted;
}

static void bench_job(const char *name, const char *data, const char *model,
                      uint64_t clocks)
{
    struct cost off = {0};

    if (!is_wanted(name, data, model))
        return;
    for (enum mode m = OFF; m < MODES; m++) {
        struct job j = {.name = name,
                        .data = data,
                        .consistency = model,
                        .mode = m,
                        .clocks = clocks};
        struct cost c[2];

        run_job(&j, c);
        if (m == OFF)
            off = c[1];
        PRINT(&j, "messages", frames, off, c, "frames/clock");
        PRINT(&j, "bytes", bytes, off, c, "bytes/clock");
        PRINT(&j, "cpu", cpu_s, off, c, "s/clock");
        PRINT(&j, "wall", wall_s, off, c, "s/clock");
        fflush(stdout);
    }
}

int main(void)
{
    const char *dir = getenv("MLTUNE_DATA");

    bench_job("mf", "pass", "ssp", 6);
    bench_job("mf", "100", "ssp", 300);
    bench_job("mf", "pass", "bsp", 6);
    bench_job("pages", "groups", "ssp", 6);
    bench_job("pages", "groups", "bsp", 6);
    if (!dir) {
        bench_skip("access", "job=pages", "MLTUNE_DATA is not set");
        return 0;
    }
    bench_job("pages", "ego-Facebook", "ssp", 12);
    bench_job("pages", "soc-Slashdot0902", "ssp", 3);
    return 0;
}
