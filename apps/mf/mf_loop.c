/* mf as a loop of the parameter server (mltune/loop.h): no two workers have the
 * same user or item at a time, so that ratings are worked on as if one after
 * another.
 *
 *   pass ─► clock ─► step ─► a worker's part ─► block ─► ratings
 *
 * A block is successive ratings of which no two have a user or an item in
 * common: computed at once, they give what they give one after another. Ratings
 * come in an order that the seed draws; the plan orders those of a part so that
 * blocks are full, and knows where each ends.
 */
#include "apps/mf/mf_app.h"
#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <string.h>

enum { LINE_BYTES = 64, SEED_OF_LOOP = 0x100b };

/* A block found: where its rows are. */
struct mf_found {
    size_t n;
    void *row[MF_SIDES][MF_BLOCK];
};

/* A worker's scratch. */
struct mf_loop_scratch {
    _Alignas(LINE_BYTES) struct mf_found found[2]; /* this block and the next */
    float slope[MF_BLOCK];
};

/* ---- the ratings --------------------------------------------------------- */

/* Parts in time of each worker, so that a pass has as many steps as clocks are
 * wanted, or a few more. */
static uint32_t parts_each(uint32_t clocks, unsigned workers)
{
    uint32_t each = (clocks + workers - 1) / workers;
    uint32_t most = MLT_LOOP_PARTS_MAX / workers;

    assert(clocks >= 1 && workers <= MLT_LOOP_PARTS_MAX);
    return each < most ? each : most;
}

static void free_pass(struct mf_pass *p)
{
    mem_free(p->key);
    mem_free(p->value);
    memset(p, 0, sizeof(*p));
}

static void shuffle(struct mf_pass *p, const struct mf_pairs *pairs,
                    uint64_t seed)
{
    struct rng rng;

    rng_init(&rng, rng_mix(seed, SEED_OF_LOOP));
    /* Inside out (Durstenfeld 1964): the next one goes anywhere. */
    for (uint64_t i = 0; i < pairs->count; i++) {
        uint64_t at = rng_below(&rng, i + 1);

        memcpy(p->key[i], p->key[at], sizeof(p->key[i]));
        p->value[i] = p->value[at];
        p->key[at][MF_USERS] = pairs->row[MF_USERS][i];
        p->key[at][MF_ITEMS] = pairs->row[MF_ITEMS][i];
        p->value[at] = pairs->value[i];
    }
}

enum err mf_loop_take(struct mf *m, const struct mf_pairs *pairs)
{
    struct mf_pass *p = &m->pass;

    m->time_parts = parts_each(m->parts, m->workers);
    /* A clock is a step; of fewer ratings than steps, some. */
    m->parts = m->time_parts * m->workers;
    if (m->parts > pairs->count)
        m->parts = (uint32_t)pairs->count;
    p->key = mem_alloc(pairs->count * sizeof(*p->key));
    p->value = mem_alloc(pairs->count * sizeof(*p->value));
    if (!p->key || !p->value)
        return ERR_NOMEM;
    p->count = pairs->count;
    shuffle(p, pairs, m->seed);
    return ERR_OK;
}

/* ---- the plan ------------------------------------------------------------ */

static enum err make_scratch(struct mf *m)
{
    size_t each = sizeof(*m->ahead);

    m->ahead = mem_aligned(LINE_BYTES, m->workers * each);
    if (!m->ahead)
        return ERR_NOMEM;
    memset(m->ahead, 0, m->workers * each);
    return ERR_OK;
}

int mf_loop_plan(struct mf *m, struct mlt_ps *ps, struct mlt_error *error)
{
    const struct mlt_touch touch[MF_SIDES] = {
        {m->table[MF_USERS], MLT_READS | MLT_UPDATES, {MLT_INDEX(MF_USERS, 0)}},
        {m->table[MF_ITEMS],
         MLT_READS | MLT_UPDATES,
         {MLT_INDEX(MF_ITEMS, 0)}}};
    struct mlt_loop_options o = MLT_LOOP_OPTIONS;
    int err;

    o.name = "mf";
    o.dims = MF_SIDES;
    o.extent[MF_USERS] = m->rows[MF_USERS];
    o.extent[MF_ITEMS] = m->rows[MF_ITEMS];
    o.iterations = m->pass.count;
    o.key = m->pass.key[0];
    o.value = m->pass.value;
    o.value_bytes = sizeof(*m->pass.value);
    o.touch = touch;
    o.touches = MF_SIDES;
    o.time_parts = m->time_parts;
    o.apart = MF_BLOCK;
    err = mlt_loop_new(ps, &o, &m->loop, error);
    if (err)
        return err;
    assert(mlt_loop_steps(m->loop) >= m->parts);
    free_pass(&m->pass);
    err = make_scratch(m);
    if (err && error)
        *error = (struct mlt_error){err, "mf: out of memory"};
    return err;
}

const char *mf_loop_text(void *app)
{
    const struct mf *m = app;

    return m->loop ? mlt_loop_text(m->loop) : NULL;
}

void mf_loop_free(struct mf *m)
{
    mem_free(m->ahead);
    mlt_loop_free(m->loop);
    free_pass(&m->pass);
}

/* ---- training ------------------------------------------------------------ */

/* The block that begins at rating @first, or none. */
static void find_block(const struct mlt_block *b, size_t first,
                       struct mf_found *out)
{
    out->n = mlt_loop_apart(b, first);
    for (unsigned side = 0; side < MF_SIDES && out->n > 0; side++)
        mlt_loop_rows(b, side, first, out->n, out->row[side]);
}

/* Both sides' gradients are of the rows as they were. The rows of @next, a
 * block that may be shorter or none, come meanwhile. Returns the sum of squared
 * errors. */
static double train_block(const struct mf *m, struct mlt_worker *w,
                          struct mf_loop_scratch *c, const struct mf_found *f,
                          struct mf_found *next, const float *value)
{
    unsigned index = mlt_worker_index(w);
    const struct mlt_cross cross = {
        .n = f->n,
        .table = {m->table[MF_USERS], m->table[MF_ITEMS]},
        .rows = {f->row[MF_USERS], f->row[MF_ITEMS]},
        .own = (float)m->lambda,
        .scale = c->slope};
    const struct mf_ahead ahead = {
        .row = {next->row[MF_USERS], next->row[MF_ITEMS]},
        .bytes = mlt_row_bytes(w, m->table[MF_USERS])};
    double sum;

    for (unsigned side = 0; side < MF_SIDES; side++)
        for (size_t i = next->n; i < f->n; i++)
            next->row[side][i] = f->row[side][i];
    sum = mf_pair_errors(f->n, m->rank, (const float *const *)f->row[MF_USERS],
                         (const float *const *)f->row[MF_ITEMS], value,
                         c->slope, &ahead);
    mlt_step_rows_cross(w, &cross, m->scratch[index].user_gradient);
    return sum;
}

static int train_part(const struct mlt_block *b, void *arg)
{
    const struct mf *m = arg;
    struct mf_loop_scratch *c = &m->ahead[mlt_worker_index(b->worker)];
    const float *value = b->value;
    unsigned now = 0;
    double sum = 0;

    find_block(b, 0, &c->found[now]);
    for (size_t at = 0; at < b->n; now = !now) {
        const struct mf_found *f = &c->found[now];
        size_t n = f->n;

        find_block(b, at + n, &c->found[!now]);
        sum += train_block(m, b->worker, c, f, &c->found[!now], value + at);
        at += n;
    }
    mlt_report(b->worker, sum, b->n);
    return 0;
}

int mf_loop_clock(const struct mf *m, struct mlt_worker *w, uint64_t part)
{
    uint64_t steps = mlt_loop_steps(m->loop), step = part * steps / m->parts;
    uint64_t last = (part + 1) * steps / m->parts - 1;
    int err = 0;

    for (; step < last && !err; step++)
        err = mlt_loop_step(w, m->loop, (unsigned)step, train_part, (void *)m);
    return err ? err
               : mlt_loop_last_step(w, m->loop, (unsigned)last, train_part,
                                    (void *)m);
}
