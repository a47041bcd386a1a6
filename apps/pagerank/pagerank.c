#include "apps/pagerank/pagerank.h"

#include "apps/data/data.h"
#include "apps/formats/data_stream.h"
#include "apps/pagerank/pagerank_graph.h"
#include "apps/settings.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "base/npy_io.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    ROWS_AT_ONCE = 64,
    CHUNK_BYTES = 4096,
    BYTES_AN_EDGE = 16, /* of the graph and of what workers remember of it */
    BYTES_A_NODE = 48
};

/* A worker's own: nodes whose ranks it reads, and what it computes with. */
struct pagerank_work {
    uint64_t *read; /* [reads] nodes that point to its own: owned */
    size_t reads;
    double *share;         /* [nodes] rank / edges away, of those: owned */
    uint64_t first, count; /* its own nodes */
};

struct pagerank {
    struct pagerank_graph graph;
    int64_t *id; /* [nodes] outside ids: owned */
    double damping, tolerance;
    unsigned workers;
    uint64_t dangling;
    const struct mlt_ps *ps;
    mlt_table ranks, own, lost;
    struct pagerank_work *work; /* [workers] */
};

/* clang-format off */
static const char schema[] =
    "{\"type\": \"object\", \"required\": [\"data\"],"
    " \"x-stop\": {\"target_loss\": \"tolerance\", \"max_epochs\": 10000},"
    " \"properties\": {"
    "\"name\": {\"type\": \"string\", \"const\": \"pagerank\","
    " \"description\": \"the application\"},"
    "\"data\": {\"type\": \"string\", \"minLength\": 1, \"x-file\": \"data\","
    " \"description\": \"a list of edges: a file, a folder, a glob, or"
    " gen:...\"},"
    "\"directed\": {\"type\": \"boolean\", \"default\": true,"
    " \"description\": \"false: each edge counts in both directions\"},"
    "\"damping\": {\"type\": \"number\", \"default\": 0.85, \"minimum\": 0,"
    " \"exclusiveMaximum\": 1,"
    " \"description\": \"share of a rank that follows the edges\"},"
    "\"tolerance\": {\"type\": \"number\", \"default\": 1e-10,"
    " \"minimum\": 0, \"description\":"
    " \"it ends where a step changes the ranks, which sum to 1, by at most"
    " this in all (stop.target_loss, unless that is given)\"}"
    "}}";
/* clang-format on */

/* No staleness: a step from copies that are not new changes nothing, and would
 * pass for the end. */
static const char *const tunables[] = {NULL};

/* ---- opening ------------------------------------------------------------- */

static void pagerank_close(void *app)
{
    struct pagerank *m = app;

    if (!m)
        return;
    for (unsigned i = 0; m->work && i < m->workers; i++) {
        mem_free(m->work[i].read);
        mem_free(m->work[i].share);
    }
    mem_free(m->work);
    mem_free(m->id);
    pagerank_graph_deinit(&m->graph);
    mem_free(m);
}

static enum err take_graph(struct pagerank *m, const struct settings *s,
                           struct edges *e, struct fault *f)
{
    const json_t *directed = json_object_get(s->json, "directed");
    enum err err = data_memory_check(
        s->data, e->count * BYTES_AN_EDGE + e->nodes.count * BYTES_A_NODE,
        data_memory_limit(), f);

    if (err)
        return err;
    err = pagerank_graph_init(&m->graph, e, json_is_false(directed));
    if (err)
        return fault_set(f, err, "%s: out of memory", s->data);
    m->id = mem_alloc(m->graph.nodes * sizeof(*m->id));
    if (!m->id)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", s->data);
    memcpy(m->id, e->nodes.id, m->graph.nodes * sizeof(*m->id));
    for (uint32_t v = 0; v < m->graph.nodes; v++)
        m->dangling += m->graph.out[v] == 0;
    return ERR_OK;
}

static enum err open_pagerank(struct pagerank *m,
                              const struct mlt_app_config *config,
                              struct fault *f)
{
    struct edges e = {0};
    struct settings s;
    enum err err = settings_init(&s, config, f);

    if (err)
        return err;
    data_memory_allow(config->memory_limit);
    m->damping = settings_number(&s, "damping", 0.85);
    m->tolerance = settings_number(&s, "tolerance", 1e-10);
    m->workers = config->workers;
    err = data_load_edges(s.data, s.folder, &e, f);
    if (!err)
        err = take_graph(m, &s, &e, f);
    edges_deinit(&e);
    settings_deinit(&s);
    return err;
}

static int pagerank_open(const struct mlt_app_config *config,
                         struct mlt_app_info *info, void **app,
                         struct mlt_error *error)
{
    struct pagerank *m = mem_calloc(1, sizeof(*m));
    struct fault f = {0};

    assert(config->workers >= 1);
    if (!m || open_pagerank(m, config, &f)) {
        if (!m)
            fault_set(&f, ERR_NOMEM, "pagerank: out of memory");
        pagerank_close(m);
        return settings_fault(&f, error);
    }
    *info = (struct mlt_app_info){.samples = m->graph.nodes,
                                  .order = MLT_ORDER_PARTS,
                                  .parts = 1,
                                  .loss_floor = 0};
    *app = m;
    return 0;
}

/* ---- tables -------------------------------------------------------------- */

static int declare_table(struct mlt_ps *ps, const char *name, uint64_t rows,
                         enum mlt_access access, unsigned flags,
                         mlt_table *table, struct mlt_error *error)
{
    const struct mlt_table_options opt = {
        .size = sizeof(opt),
        .name = name,
        .rows = rows,
        .width = 1,
        .type = MLT_F64,
        .access = access,
        .rule = "add",
        .flags = MLT_NO_MOMENTUM | flags,
        .chunk_bytes = CHUNK_BYTES,
    };

    return mlt_ps_table(ps, &opt, table, error);
}

/* The nodes that point to those of @k, each once, in the order of their rows:
 * @mark[nodes] is zero, and is again. */
static void find_reads(const struct pagerank_graph *g, struct pagerank_work *k,
                       unsigned char mark[])
{
    for (uint64_t v = k->first; v < k->first + k->count; v++)
        for (uint64_t e = g->begin[v]; e < g->begin[v + 1]; e++) {
            k->reads += !mark[g->from[e]];
            mark[g->from[e]] = 1;
        }
    k->read = mem_alloc((k->reads + 1) * sizeof(*k->read));
    k->reads = 0;
    for (uint32_t v = 0; v < g->nodes; v++) {
        if (mark[v] && k->read)
            k->read[k->reads++] = v;
        mark[v] = 0;
    }
}

/* The next of its own nodes from the @v-th on, at most ROWS_AT_ONCE. */
static uint64_t next_own(const struct pagerank_work *k, uint64_t v,
                         uint64_t row[])
{
    uint64_t n = k->count - v < ROWS_AT_ONCE ? k->count - v : ROWS_AT_ONCE;

    for (uint64_t i = 0; i < n; i++)
        row[i] = k->first + v + i;
    return n;
}

static int expect_rows(struct pagerank *m, struct mlt_ps *ps, unsigned index)
{
    struct pagerank_work *k = &m->work[index];
    uint64_t own[ROWS_AT_ONCE];
    int err =
        mlt_ps_expect(ps, m->ranks, index, 0, MLT_READS, k->reads, k->read);

    for (uint64_t v = 0, n; v < k->count && !err; v += n) {
        n = next_own(k, v, own);
        err = mlt_ps_expect(ps, m->ranks, index, 0, MLT_UPDATES, n, own);
    }
    return err;
}

static int make_work(struct pagerank *m, struct mlt_ps *ps)
{
    unsigned char *mark = mem_calloc((size_t)m->graph.nodes + 1, 1);
    int err = mark ? 0 : ERR_NOMEM;

    m->work = mem_calloc(m->workers, sizeof(*m->work));
    err = m->work ? err : ERR_NOMEM;
    for (unsigned i = 0; i < m->workers && !err; i++) {
        struct pagerank_work *k = &m->work[i];

        mlt_owned_rows(ps, m->own, i, &k->first, &k->count);
        find_reads(&m->graph, k, mark);
        k->share = mem_calloc((size_t)m->graph.nodes + 1, sizeof(*k->share));
        err = k->read && k->share ? expect_rows(m, ps, i) : ERR_NOMEM;
    }
    mem_free(mark);
    return err;
}

static int pagerank_declare(void *app, struct mlt_ps *ps,
                            struct mlt_error *error)
{
    struct pagerank *m = app;
    struct fault f = {0};
    int err = declare_table(ps, "ranks", m->graph.nodes, MLT_SHARED, 0,
                            &m->ranks, error);

    m->ps = ps;
    if (!err)
        err = declare_table(ps, "own_ranks", m->graph.nodes, MLT_EXCLUSIVE,
                            MLT_NOT_SAVED, &m->own, error);
    if (!err)
        err = declare_table(ps, "dangling_rank", 1, MLT_SHARED, MLT_NOT_SAVED,
                            &m->lost, error);
    if (err)
        return err;
    err = make_work(m, ps);
    if (!err)
        return 0;
    fault_set(&f, (enum err)err, "pagerank: out of memory");
    return settings_fault(&f, error);
}

static void init_rows(const struct pagerank *m, struct mlt_worker *w,
                      mlt_table table, double value)
{
    uint64_t first, count;

    mlt_owned_rows(m->ps, table, mlt_worker_index(w), &first, &count);
    for (uint64_t i = first; i < first + count; i++)
        mlt_init_row(w, table, mlt_row_at(m->ps, table, i), &value);
}

static int pagerank_init(void *app, struct mlt_worker *w)
{
    const struct pagerank *m = app;
    double each = 1 / (double)m->graph.nodes;

    init_rows(m, w, m->ranks, each);
    init_rows(m, w, m->own, each);
    init_rows(m, w, m->lost, each * (double)m->dangling);
    return 0;
}

/* ---- a step -------------------------------------------------------------- */

static int read_shares(const struct pagerank *m, struct mlt_worker *w,
                       const struct pagerank_work *k)
{
    const void *at[ROWS_AT_ONCE];
    int err = 0;

    for (size_t i = 0, n; i < k->reads && !err; i += n) {
        n = k->reads - i < ROWS_AT_ONCE ? k->reads - i : ROWS_AT_ONCE;
        err = mlt_get_rows(w, m->ranks, n, k->read + i, at);
        for (size_t j = 0; j < n && !err; j++)
            k->share[k->read[i + j]] =
                *(const double *)at[j] / m->graph.out[k->read[i + j]];
    }
    return err;
}

/* By how much the ranks of the nodes @row[n] change; their own rows have the
 * new ones. */
static void move_ranks(const struct pagerank *m, const struct pagerank_work *k,
                       double base, size_t n, const uint64_t row[],
                       void *const own[], double by[])
{
    const struct pagerank_graph *g = &m->graph;

    for (size_t i = 0; i < n; i++) {
        double *rank = own[i], sum = 0;

        for (uint64_t e = g->begin[row[i]]; e < g->begin[row[i] + 1]; e++)
            sum += k->share[g->from[e]];
        by[i] = base + m->damping * sum - *rank;
        *rank += by[i];
    }
}

static void step_own(const struct pagerank *m, struct mlt_worker *w,
                     const struct pagerank_work *k, double base)
{
    double lost = 0, change = 0, by[ROWS_AT_ONCE];
    uint64_t row[ROWS_AT_ONCE];
    void *own[ROWS_AT_ONCE];

    for (uint64_t v = 0, n; v < k->count; v += n) {
        n = next_own(k, v, row);
        mlt_rows(w, m->own, n, row, own);
        move_ranks(m, k, base, n, row, own, by);
        mlt_inc_rows(w, m->ranks, n, row, by);
        for (uint64_t i = 0; i < n; i++) {
            lost += m->graph.out[row[i]] ? 0 : by[i];
            change += fabs(by[i]);
        }
    }
    mlt_inc_row(w, m->lost, 0, &lost);
    /* The mean over all nodes' samples is the sum of changes. */
    mlt_report(w, change * m->graph.nodes, k->count);
}

static int pagerank_run_clock(void *app, struct mlt_worker *w,
                              const struct mlt_clock_ctx *ctx)
{
    const struct pagerank *m = app;
    const struct pagerank_work *k = &m->work[mlt_worker_index(w)];
    const double *lost;
    int err;

    (void)ctx;
    if (k->count == 0)
        return 0;
    lost = mlt_get_row(w, m->lost, 0);
    if (!lost)
        return ERR_CANCELED;
    err = read_shares(m, w, k);
    if (!err)
        step_own(m, w, k,
                 (1 - m->damping + m->damping * *lost) / m->graph.nodes);
    return err;
}

/* ---- the model ----------------------------------------------------------- */

static enum err save_ids(const struct pagerank *m, const char *dir,
                         struct fault *f)
{
    const struct npy_info info = {NPY_I64, m->graph.nodes, 1};
    struct npy_writer *w;
    char path[FILE_PATH_MAX];
    enum err err = file_join(path, dir, "node_ids.npy", f);

    if (!err)
        err = npy_create(path, &info, &w, f);
    if (err)
        return err;
    err = npy_write(w, m->id, m->graph.nodes * sizeof(*m->id), f);
    if (!err)
        return npy_commit(w, NULL, f);
    npy_abort(w);
    return err;
}

static int pagerank_save(void *app, const char *dir, char *json, size_t size,
                         struct mlt_error *error)
{
    const struct pagerank *m = app;
    char damping[TEXT_NUMBER_MAX], tolerance[TEXT_NUMBER_MAX];
    struct fault f = {0};
    int n;

    text_number(m->damping, damping);
    text_number(m->tolerance, tolerance);
    n = snprintf(json, size,
                 "{\"nodes\":%" PRIu32 ",\"edges\":%" PRIu64
                 ",\"dangling\":%" PRIu64 ",\"damping\":%s,\"tolerance\":%s}",
                 m->graph.nodes, m->graph.edges, m->dangling, damping,
                 tolerance);
    if (n < 0 || (size_t)n >= size)
        fault_set(&f, ERR_LIMIT, "pagerank: model.json has no room");
    else
        save_ids(m, dir, &f);
    return f.code ? settings_fault(&f, error) : 0;
}

const struct mlt_app_ops app_pagerank = {
    .version = MLT_APP_VERSION,
    .name = "pagerank",
    .summary = "ranks of a graph's nodes, to a tolerance",
    .schema = schema,
    .tunables = tunables,
    .open = pagerank_open,
    .declare = pagerank_declare,
    .init = pagerank_init,
    .run_clock = pagerank_run_clock,
    .save = pagerank_save,
    .close = pagerank_close,
};
