#include "apps/mf/mf.h"

#include "apps/mf/mf_app.h"
#include "apps/settings.h"
#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    LINE_BYTES = 64,
    SCRATCH_ALIGN = LINE_BYTES,
    CHUNK_BYTES_MIN = 4096,
    CHUNK_BYTES_MAX = 65536,
    CHUNKS_A_WORKER = 16 /* so that what workers own differs little */
};

/* Standard deviation of initial values. Measured on MovieLens 1M with adagrad
 * at rank 32, best validation RMSE: 0.03 0.855, 0.05 0.856, 0.1 0.859, 0.3
 * 0.866; under sgd smaller values stay longer at the saddle, where all rows are
 * 0. */
static const double initial_deviation = 0.05;

/* The same where the mean is a factor. Measured there under rpcs, rates of 0.1
 * to 0.15: passes to 0.85 are 6 to 8 with 0.01 to 0.03; with 0.05 and 0.08 it
 * is not reached. */
static const double factor_deviation = 0.03;

static const char *const table_name[MF_SIDES] = {"users", "items"};

/* The place up to which a worker has found its part: the first block that it
 * has not. */
struct mf_place {
    uint64_t rating, run, block, block_end;
};

/* clang-format off */
static const char schema[] =
    "{\"type\": \"object\", \"x-task\": \"numbers\","
    " \"required\": [\"data\"], \"properties\": {"
    SETTINGS_SCHEMA("mf", "ratings (user, item, rating)") ","
    "\"test_fraction\": {\"type\": \"number\", \"default\": 0.1,"
    " \"minimum\": 0, \"exclusiveMaximum\": 1, \"description\":"
    " \"share of the ratings split off for validation, by seed, where test"
    " names none\"},"
    "\"clock\": {\"anyOf\": [{\"enum\": [\"auto\", \"pass\"]},"
    " {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 1000000}],"
    " \"default\": \"auto\", \"description\":"
    " \"clocks a pass over the ratings; pass is 1; auto is 10 to 100, with"
    " 32,768 ratings each\"},"
    "\"rank\": {\"type\": \"integer\", \"default\": 32,"
    " \"minimum\": 1, \"maximum\": 4096,"
    " \"description\": \"values a user and an item\"},"
    "\"lambda\": {\"type\": \"number\", \"default\": 0.05, \"minimum\": 0,"
    " \"description\": \"weight of each rating's penalty,"
    " lambda/2 (|L|^2 + |R|^2)\"},"
    "\"mean\": {\"enum\": [\"subtract\", \"factor\"],"
    " \"default\": \"subtract\", \"description\":"
    " \"the ratings' mean is subtracted from them, or each row's first value"
    " begins at its root and is trained on\"},"
    "\"parallel\": {\"enum\": [\"data\", \"loop\"],"
    " \"default\": \"data\", \"description\":"
    " \"data: workers add to items' rows at the same time; loop: no two work"
    " on one row at a time, as if one did after the other\"}"
    "}}";
/* clang-format on */

static const char *const tunables[] = {"learning_rate", "staleness", "warmup",
                                       NULL};

/* ---- tables -------------------------------------------------------------- */

static enum err make_scratch(struct mf *m, struct fault *f)
{
    size_t each = (size_t)2 * MF_BLOCK * m->rank;
    unsigned i;

    m->share = mem_calloc(m->workers, sizeof(*m->share));
    m->scratch = mem_aligned(SCRATCH_ALIGN, m->workers * sizeof(*m->scratch));
    m->gradients =
        mem_aligned(SCRATCH_ALIGN, m->workers * each * sizeof(float));
    if (!m->share || !m->scratch || !m->gradients)
        return fault_set(f, ERR_NOMEM, "mf: out of memory");
    for (i = 0; i < m->workers; i++)
        m->scratch[i].user_gradient = m->gradients + i * each;
    return ERR_OK;
}

/* Small enough that cutting at chunks deals rows out evenly. */
static uint32_t chunk_bytes(const struct mf *m, enum mf_side side)
{
    uint64_t bytes = m->rows[side] * m->rank * sizeof(float);
    uint32_t chunk = CHUNK_BYTES_MAX;

    while (chunk > CHUNK_BYTES_MIN &&
           bytes / chunk < CHUNKS_A_WORKER * (uint64_t)m->workers)
        chunk /= 2;
    return chunk;
}

/* Workers by user: @worker[rows], who has the user's ratings. */
static void find_workers(const struct mf *m, uint32_t worker[])
{
    uint64_t first, count;

    for (uint32_t w = 0; w < m->workers; w++) {
        mlt_owned_rows(m->ps, m->table[MF_USERS], w, &first, &count);
        for (uint64_t i = first; i < first + count; i++)
            worker[i] = w;
    }
}

/* Says which items each worker will touch in each part of a pass: those of its
 * users' ratings, which it goes through in the order of the items.
 * @last[workers
 * * parts]: the last item that was said, less than none. */
static int expect_items(const struct mf *m, struct mlt_ps *ps,
                        const uint32_t worker[], uint64_t last[])
{
    const struct mf_ratings *r = &m->train;
    int err = 0;

    for (uint64_t item = 0; item < r->items; item++)
        for (uint64_t i = r->item_begin[item];
             i < r->item_begin[item + 1] && !err; i++) {
            uint32_t w = worker[r->user[i]];
            uint64_t *said = &last[(uint64_t)w * r->parts + r->part[i]];

            if (*said == item + 1)
                continue;
            *said = item + 1;
            err = mlt_ps_expect(ps, m->table[MF_ITEMS], w, r->part[i],
                                MLT_READS | MLT_UPDATES, 1, &item);
        }
    return err;
}

/* A virtual iteration. */
static int expect_all(const struct mf *m, struct mlt_ps *ps,
                      struct mlt_error *error)
{
    uint32_t *worker = mem_calloc(m->rows[MF_USERS], sizeof(*worker));
    uint64_t *last =
        mem_calloc((uint64_t)m->workers * m->train.parts, sizeof(*last));
    struct fault f = {0};
    int err = worker && last ? 0 : (int)ERR_NOMEM;

    if (!err) {
        find_workers(m, worker);
        err = expect_items(m, ps, worker, last);
    }
    mem_free(worker);
    mem_free(last);
    if (!err)
        return 0;
    fault_set(&f, (enum err)err, "mf: out of memory");
    return settings_fault(&f, error);
}

static int mf_declare(void *app, struct mlt_ps *ps, struct mlt_error *error)
{
    struct mf *m = app;
    struct fault f = {0};
    enum mf_side side;
    int err = 0;

    m->ps = ps;
    if (make_scratch(m, &f))
        return settings_fault(&f, error);
    for (side = MF_USERS; side < MF_SIDES && !err; side++) {
        const struct mlt_table_options opt = {
            .size = sizeof(opt),
            .name = table_name[side],
            .rows = m->rows[side],
            .width = m->rank,
            .type = MLT_F32,
            .access =
                side == MF_USERS || m->as_loop ? MLT_EXCLUSIVE : MLT_SHARED,
            .flags = MLT_NO_MOMENTUM,
            .chunk_bytes = chunk_bytes(m, side),
        };

        err = mlt_ps_table(ps, &opt, &m->table[side], error);
    }
    if (err || m->evaluate)
        return err;
    return m->as_loop ? mf_loop_plan(m, ps, error) : expect_all(m, ps, error);
}

/* Where a row's first value begins: the product of both sides' is what ratings
 * as they are trained on have for their mean. */
static double first_factor(const struct mf *m, enum mf_side side)
{
    double rest = m->mean - m->offset, root = sqrt(fabs(rest));

    return side == MF_ITEMS && rest < 0 ? -root : root;
}

/* Normal values from a generator of the row's own. */
static void initial_row(const struct mf *m, enum mf_side side, uint64_t row,
                        float values[])
{
    const double deviation = m->factor ? factor_deviation : initial_deviation;
    struct rng rng;
    uint32_t k;

    rng_init(&rng, rng_mix(rng_mix(m->seed, side), (uint64_t)m->id[side][row]));
    for (k = 0; k < m->rank; k++)
        values[k] = (float)(deviation * rng_normal(&rng));
    if (m->factor)
        values[0] += (float)first_factor(m, side);
}

static void init_side(const struct mf *m, struct mlt_worker *w,
                      enum mf_side side)
{
    unsigned index = mlt_worker_index(w);
    float *values = m->scratch[index].user_gradient;
    uint64_t first, count, i;

    mlt_owned_rows(m->ps, m->table[side], index, &first, &count);
    for (i = first; i < first + count; i++) {
        uint64_t row = mlt_row_at(m->ps, m->table[side], i);

        initial_row(m, side, row, values);
        mlt_init_row(w, m->table[side], row, values);
    }
}

static int mf_init(void *app, struct mlt_worker *w)
{
    struct mf *m = app;
    unsigned index = mlt_worker_index(w);
    uint64_t first, count;
    enum err err;

    if (m->evaluate)
        return 0;
    init_side(m, w, MF_USERS);
    init_side(m, w, MF_ITEMS);
    if (m->as_loop)
        return 0;
    mlt_owned_rows(m->ps, m->table[MF_USERS], index, &first, &count);
    err = mf_share_init(&m->share[index], &m->train, first, count);
    if (atomic_fetch_sub(&m->to_share, 1) == 1)
        mf_ratings_deinit(&m->train); /* the last one has its share */
    return (int)err;
}

/* ---- training ------------------------------------------------------------ */

/* Where the rows of the @n users from rating @rating are; nothing is read. */
static void find_users(const struct mf *m, struct mlt_worker *w,
                       const struct mf_share *s, uint64_t rating, size_t n,
                       void *user[])
{
    uint64_t rows[MF_BLOCK];
    size_t i;

    assert(n >= 1 && n <= MF_BLOCK);
    for (i = 0; i < n; i++)
        rows[i] = s->user[rating + i];
    mlt_rows(w, m->table[MF_USERS], n, rows, user);
}

/* The runs of the next @n ratings, a block, into @items. */
static void take_runs(const struct mf_share *s, struct mf_place *p, size_t n,
                      struct mf_items *items)
{
    size_t runs = 0;

    for (size_t taken = 0; taken < n; runs++) {
        const struct mf_run *run = &s->run[p->run++];

        items->run[runs] = (uint8_t)run->count;
        items->row[runs] = run->item;
        taken += run->count;
    }
    items->runs = runs;
}

/* The block that follows those found so far, if there is one: where its users'
 * rows are, and its items' values, which are sent for. */
static int find_block(const struct mf *m, struct mlt_worker *w,
                      const struct mf_share *s, struct mf_place *p,
                      struct mf_scratch *c)
{
    struct mf_items *items = &c->items[p->block % 2];
    size_t n = p->block < p->block_end ? s->block[p->block] : 0;

    items->ratings = n;
    if (n == 0)
        return 0;
    find_users(m, w, s, p->rating, n, c->user[p->block % 2]);
    take_runs(s, p, n, items);
    p->rating += n;
    p->block++;
    return mlt_get_rows(w, m->table[MF_ITEMS], items->runs, items->row,
                        items->values);
}

/* Applies the users' gradients; the rest of the next block's rows is on its way
 * meanwhile: fetching all of them while errors are computed would wait for
 * memory there and leave it idle here. */
static void step_users(const struct mf *m, struct mlt_worker *w,
                       const struct mf_block *b, uint32_t row_bytes,
                       float *scratch)
{
    const struct mlt_mix mix = {.n = b->n,
                                .rows = b->user,
                                .own = b->lambda,
                                .scale = b->slope,
                                .with = b->with};
    size_t i;

    for (i = 0; i < b->n; i++)
        for (uint32_t at = b->ahead_bytes; at < row_bytes; at += LINE_BYTES)
            __builtin_prefetch((const char *)b->ahead[i] + at, 1);
    mlt_step_rows_mix(w, m->table[MF_USERS], &mix, scratch);
}

/* Block @block, whose first rating is @rating; it and the next one were found.
 * Everything is computed from the rows as they are, then its users, all
 * different, are changed. Returns the sum of squared errors. */
static double train_block(const struct mf *m, struct mlt_worker *w,
                          const struct mf_share *s, uint64_t block,
                          uint64_t rating, struct mf_scratch *c)
{
    size_t n = s->block[block], next = c->items[(block + 1) % 2].ratings;
    const struct mf_items *items = &c->items[block % 2];
    void **user = c->user[block % 2], **ahead = c->user[(block + 1) % 2];
    uint32_t row_bytes = mlt_row_bytes(w, m->table[MF_USERS]);
    struct mf_block b = {.n = n,
                         .runs = items->runs,
                         .rank = m->rank,
                         .lambda = (float)m->lambda,
                         .user = user,
                         .ahead = ahead,
                         .ahead_bytes = row_bytes / 2,
                         .value = s->value + rating,
                         .run = items->run,
                         .item = (const float *const *)items->values,
                         .item_gradient = c->item_gradient,
                         .slope = c->slope,
                         .with = c->with};
    double sum;

    for (size_t i = 0; i < items->runs; i++)
        c->item_gradient[i] =
            mlt_update_row(w, m->table[MF_ITEMS], items->row[i]);
    for (; next < n; next++) /* a shorter block, or none */
        ahead[next] = user[0];
    sum = mf_train(&b);
    step_users(m, w, &b, row_bytes, c->user_gradient);
    mlt_offer(w);
    return sum;
}

/* While a block is worked on, the next one's rows come. */
static int train_part(const struct mf *m, struct mlt_worker *w, uint64_t part)
{
    unsigned index = mlt_worker_index(w);
    const struct mf_share *s = &m->share[index];
    struct mf_scratch *c = &m->scratch[index];
    struct mf_place p = {
        .rating = mf_share_begin(s, MF_RATING, part),
        .run = mf_share_begin(s, MF_RUN, part),
        .block = mf_share_begin(s, MF_BLOCK_NO, part),
        .block_end = mf_share_begin(s, MF_BLOCK_NO, part + 1),
    };
    const uint64_t first = p.rating;
    uint64_t block = p.block, at = first;
    double sum = 0;
    int err = find_block(m, w, s, &p, c);

    for (; block < p.block_end && !err; block++) {
        uint64_t next = p.rating;

        err = find_block(m, w, s, &p, c);
        if (!err)
            sum += train_block(m, w, s, block, at, c);
        at = next;
    }
    if (!err && p.rating > first)
        mlt_report(w, sum, p.rating - first);
    return err;
}

/* ---- predicting ---------------------------------------------------------- */

/* The next validation ratings that have both rows, from @*i to before @end, as
 * many as there is room for. One without is predicted by the mean. */
static size_t take_pairs(const struct mf *m, struct mf_scratch *c, uint64_t *i,
                         uint64_t end, double *sum)
{
    size_t n = 0;

    for (; n < MF_AT_ONCE && *i < end; ++*i) {
        uint32_t user = m->test.row[MF_USERS][*i];
        uint32_t item = m->test.row[MF_ITEMS][*i];
        float value = m->test.value[*i];

        if (user == MF_ROW_NONE || item == MF_ROW_NONE) {
            value -= (float)(m->mean - m->offset);
            *sum += (double)(value * value);
            continue;
        }
        c->wanted[MF_USERS][n] = user;
        c->wanted[MF_ITEMS][n] = item;
        c->value[n++] = value;
    }
    return n;
}

/* Squared error of validation ratings first .. first + count - 1. */
static int predict(const struct mf *m, struct mlt_worker *w, uint64_t first,
                   uint64_t count, double *sum)
{
    struct mf_scratch *c = &m->scratch[mlt_worker_index(w)];
    uint64_t i = first, end = first + count;
    int err = 0;

    while (i < end && !err) {
        size_t n = take_pairs(m, c, &i, end, sum);

        for (unsigned side = 0; side < MF_SIDES && !err; side++)
            err = mlt_get_rows(w, m->table[side], n, c->wanted[side],
                               c->known[side]);
        for (size_t at = 0; at < n && !err; at += MF_BLOCK)
            *sum +=
                mf_squared_error(n - at < MF_BLOCK ? n - at : MF_BLOCK, m->rank,
                                 (const float *const *)c->known[MF_USERS] + at,
                                 (const float *const *)c->known[MF_ITEMS] + at,
                                 c->value + at, NULL);
    }
    return err;
}

static int report_errors(const struct mf *m, struct mlt_worker *w,
                         uint64_t first, uint64_t count)
{
    double sum = 0;
    int err = predict(m, w, first, count, &sum);

    if (!err && count > 0)
        mlt_report(w, sum, count);
    return err;
}

static int mf_run_clock(void *app, struct mlt_worker *w,
                        const struct mlt_clock_ctx *ctx)
{
    const struct mf *m = app;
    uint64_t index = mlt_worker_index(w), first, end;

    if (ctx->type == MLT_CLOCK_TESTING)
        return report_errors(m, w, ctx->first, ctx->count);
    if (!m->evaluate)
        return m->as_loop ? mf_loop_clock(m, w, ctx->part)
                          : train_part(m, w, ctx->part);
    first = m->test.count * index / m->workers;
    end = m->test.count * (index + 1) / m->workers;
    return report_errors(m, w, first, end - first);
}

const struct mlt_app_ops app_mf = {
    .version = MLT_APP_VERSION,
    .name = "mf",
    .summary = "matrix factorization of ratings; validation RMSE",
    .schema = schema,
    .tunables = tunables,
    .open = mf_open,
    .declare = mf_declare,
    .init = mf_init,
    .run_clock = mf_run_clock,
    .save = mf_save,
    .load = mf_load,
    .close = mf_close,
    .columns = mf_columns,
    .predict = mf_predict,
    .truth = mf_truth,
    .keep = mf_save,
    .plan = mf_loop_text,
};
