/* mf as a loop of the parameter server (mltune/loop.h): no two workers have the
 * same user or item at a time, so that ratings are worked on as if one after
 * another.
 *
 *   pass ─► clock ─► step ─► a worker's part ─► block ─► ratings
 *
 * A block is successive ratings of which no two have a user or an item in
 * common: computed at once, they give what they give one after another. So that
 * blocks are long, ratings come in an order that the seed draws, and within a
 * part each is put to the first of some blocks that has neither of its rows.
 */
#include "apps/mf/mf_app.h"
#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <string.h>

enum {
    LINE_BYTES = 64,
    PLACES = 1024,    /* of a block's rows, by the rows' last bits */
    OPEN_BLOCKS = 16, /* that ratings of a part may be put in */
    SEED_OF_LOOP = 0x100b
};

/* A block found: where its rows are. */
struct mf_found {
    size_t n;
    void *row[MF_SIDES][MF_BLOCK];
};

/* A worker's scratch. */
struct mf_loop_scratch {
    _Alignas(LINE_BYTES) struct mf_found found[2]; /* this block and the next */
    /* Number of the last block with a row in this place: 0 before any. Where
     * two rows share a place a block ends early, which does no harm. */
    uint32_t last[MF_SIDES][PLACES];
    uint32_t block;
    float slope[MF_BLOCK];
    float *before; /* [MF_BLOCK][rank] users as they were */
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

static enum err pass_alloc(struct mf_pass *p, uint64_t count)
{
    p->key = mem_alloc(count * sizeof(*p->key));
    p->value = mem_alloc(count * sizeof(*p->value));
    p->count = count;
    return p->key && p->value ? ERR_OK : ERR_NOMEM;
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

/* ---- blocks that are full ------------------------------------------------ */

/* Ratings by the part that they will be in: rows are cut as the plan does it
 * (ps/loop/parts.c). Where it cut elsewhere blocks would be shorter. */
struct mf_sorting {
    uint32_t groups[MF_SIDES];
    uint32_t *group[MF_SIDES]; /* [rows] owned */
    uint64_t *start;           /* [groups of both + 1] owned */
    uint32_t *order;           /* [count] owned */
};

/* Blocks of a part that have room, the oldest first, and where those go that
 * are closed. */
struct mf_open {
    uint64_t first, end;
    size_t n;
    struct mf_open_block {
        size_t n;
        uint32_t rating[MF_BLOCK];
        uint64_t taken[MF_SIDES][PLACES / 64]; /* places, a bit each */
    } block[OPEN_BLOCKS];
};

static enum err find_groups(const struct mf *m, struct mf_sorting *s,
                            enum mf_side side)
{
    const struct mf_pass *p = &m->pass;
    uint32_t *group = mem_calloc(m->rows[side] + 1, sizeof(*group));
    double before = 0;

    s->group[side] = group;
    if (!group)
        return ERR_NOMEM;
    for (uint64_t i = 0; i < p->count; i++)
        group[p->key[i][side]]++;
    for (uint64_t row = 0; row < m->rows[side]; row++) {
        double count = group[row];
        double middle = (before + count / 2) / (double)p->count;

        group[row] = (uint32_t)(middle * s->groups[side]);
        if (group[row] >= s->groups[side])
            group[row] = s->groups[side] - 1;
        before += count;
    }
    return ERR_OK;
}

static uint64_t group_of(const struct mf_sorting *s, const uint32_t *key)
{
    return (uint64_t)s->group[MF_USERS][key[MF_USERS]] * s->groups[MF_ITEMS] +
           s->group[MF_ITEMS][key[MF_ITEMS]];
}

/* Stable. */
static enum err sort_by_group(const struct mf *m, struct mf_sorting *s)
{
    const struct mf_pass *p = &m->pass;
    uint64_t all = (uint64_t)s->groups[MF_USERS] * s->groups[MF_ITEMS];

    s->start = mem_calloc(all + 2, sizeof(*s->start));
    s->order = mem_alloc(p->count * sizeof(*s->order));
    if (!s->start || !s->order)
        return ERR_NOMEM;
    for (uint64_t i = 0; i < p->count; i++)
        s->start[group_of(s, p->key[i]) + 2]++;
    for (uint64_t g = 2; g < all + 2; g++)
        s->start[g] += s->start[g - 1];
    for (uint64_t i = 0; i < p->count; i++)
        s->order[s->start[group_of(s, p->key[i]) + 1]++] = (uint32_t)i;
    return ERR_OK;
}

static bool is_taken(const struct mf_open_block *b, const uint32_t *key)
{
    bool taken = false;

    for (unsigned side = 0; side < MF_SIDES; side++)
        taken |= b->taken[side][key[side] % PLACES / 64] >> key[side] % 64 & 1;
    return taken;
}

static void put(struct mf_open_block *b, uint32_t rating, const uint32_t *key)
{
    b->rating[b->n++] = rating;
    for (unsigned side = 0; side < MF_SIDES; side++)
        b->taken[side][key[side] % PLACES / 64] |= UINT64_C(1)
                                                   << key[side] % 64;
}

/* The block's ratings are next of their group; one that is not full is last, so
 * that those that are follow one another. */
static void close_block(const struct mf_pass *from, struct mf_open *o,
                        size_t at, struct mf_pass *to)
{
    const struct mf_open_block *b = &o->block[at];
    uint64_t next = b->n == MF_BLOCK ? o->first : o->end - b->n;

    for (size_t i = 0; i < b->n; i++, next++) {
        memcpy(to->key[next], from->key[b->rating[i]], sizeof(*to->key));
        to->value[next] = from->value[b->rating[i]];
    }
    if (b->n == MF_BLOCK)
        o->first = next;
    else
        o->end -= b->n;
    o->n--;
    memmove(&o->block[at], &o->block[at + 1],
            (o->n - at) * sizeof(o->block[0]));
}

/* To the oldest block that has none of its rows. */
static void add_rating(const struct mf_pass *from, struct mf_open *o,
                       uint32_t rating, struct mf_pass *to)
{
    const uint32_t *key = from->key[rating];
    size_t at = 0;

    while (at < o->n && is_taken(&o->block[at], key))
        at++;
    if (at == OPEN_BLOCKS) {
        close_block(from, o, 0, to);
        at--;
    }
    if (at == o->n)
        o->block[o->n++] = (struct mf_open_block){0};
    put(&o->block[at], rating, key);
    if (o->block[at].n == MF_BLOCK)
        close_block(from, o, at, to);
}

static void fill_blocks(const struct mf_pass *from, const struct mf_sorting *s,
                        struct mf_open *open, struct mf_pass *to)
{
    uint64_t all = (uint64_t)s->groups[MF_USERS] * s->groups[MF_ITEMS];

    for (uint64_t g = 0; g < all; g++) {
        open->first = s->start[g];
        open->end = s->start[g + 1];
        for (uint64_t i = s->start[g]; i < s->start[g + 1]; i++)
            add_rating(from, open, s->order[i], to);
        while (open->n > 0)
            close_block(from, open, 0, to);
        assert(open->first == open->end);
    }
}

static enum err order_blocks(struct mf *m)
{
    /* The plan keeps with a worker what has more rows. */
    enum mf_side space =
        m->rows[MF_ITEMS] > m->rows[MF_USERS] ? MF_ITEMS : MF_USERS;
    struct mf_open *open = mem_calloc(1, sizeof(*open));
    struct mf_sorting s = {.order = NULL};
    struct mf_pass to = {0};
    enum err err = open ? pass_alloc(&to, m->pass.count) : ERR_NOMEM;

    s.groups[space] = m->workers;
    s.groups[space == MF_USERS ? MF_ITEMS : MF_USERS] =
        m->workers * m->time_parts;
    for (unsigned side = 0; side < MF_SIDES && !err; side++)
        err = find_groups(m, &s, side);
    if (!err)
        err = sort_by_group(m, &s);
    if (!err) {
        fill_blocks(&m->pass, &s, open, &to);
        free_pass(&m->pass);
        m->pass = to;
        to = (struct mf_pass){0};
    }
    free_pass(&to);
    for (unsigned side = 0; side < MF_SIDES; side++)
        mem_free(s.group[side]);
    mem_free(s.start);
    mem_free(s.order);
    mem_free(open);
    return err;
}

enum err mf_loop_take(struct mf *m, const struct mf_pairs *pairs)
{
    enum err err = pass_alloc(&m->pass, pairs->count);

    m->time_parts = parts_each(m->parts, m->workers);
    /* A clock is a step; of fewer ratings than steps, some. */
    m->parts = m->time_parts * m->workers;
    if (m->parts > pairs->count)
        m->parts = (uint32_t)pairs->count;
    if (err)
        return err;
    shuffle(&m->pass, pairs, m->seed);
    return order_blocks(m);
}

/* ---- the plan ------------------------------------------------------------ */

static enum err make_scratch(struct mf *m)
{
    size_t row = m->rank * sizeof(float);
    size_t each = sizeof(*m->ahead);

    m->ahead = mem_aligned(LINE_BYTES, m->workers * each);
    if (!m->ahead)
        return ERR_NOMEM;
    memset(m->ahead, 0, m->workers * each);
    for (unsigned w = 0; w < m->workers; w++) {
        m->ahead[w].before = mem_aligned(LINE_BYTES, MF_BLOCK * row);
        if (!m->ahead[w].before)
            return ERR_NOMEM;
    }
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
    for (unsigned w = 0; m->ahead && w < m->workers; w++)
        mem_free(m->ahead[w].before);
    mem_free(m->ahead);
    mlt_loop_free(m->loop);
    free_pass(&m->pass);
}

/* ---- training ------------------------------------------------------------ */

/* Whether the row's place is free in this block; it is taken then. */
static bool take_place(struct mf_loop_scratch *c, enum mf_side side,
                       uint32_t row)
{
    uint32_t *last = &c->last[side][row % PLACES];

    if (*last == c->block)
        return false;
    *last = c->block;
    return true;
}

/* Ratings from @first on, of which no two have a row in common. */
static size_t block_length(struct mf_loop_scratch *c, const struct mlt_block *b,
                           size_t first)
{
    const uint32_t(*key)[MF_SIDES] = (const void *)b->key;
    size_t most = b->n - first < MF_BLOCK ? b->n - first : MF_BLOCK, n = 0;

    if (++c->block == 0) { /* numbers begin again */
        memset(c->last, 0, sizeof(c->last));
        c->block = 1;
    }
    while (n < most && take_place(c, MF_USERS, key[first + n][MF_USERS]) &&
           take_place(c, MF_ITEMS, key[first + n][MF_ITEMS]))
        n++;
    return n;
}

/* The block that begins at rating @first, or none; its rows are sent for. */
static void find_block(struct mf_loop_scratch *c, const struct mlt_block *b,
                       size_t first, uint32_t row_bytes, struct mf_found *out)
{
    out->n = block_length(c, b, first);
    for (unsigned side = 0; side < MF_SIDES && out->n > 0; side++) {
        mlt_loop_rows(b, side, first, out->n, out->row[side]);
        for (size_t i = 0; i < out->n; i++)
            for (uint32_t at = 0; at < row_bytes; at += LINE_BYTES)
                __builtin_prefetch((const char *)out->row[side][i] + at, 1);
    }
}

/* Both sides' gradients are of the rows as they were. Returns the sum of
 * squared errors. */
static double train_block(const struct mf *m, struct mlt_worker *w,
                          struct mf_loop_scratch *c, const struct mf_found *f,
                          const float *value)
{
    const float *before[MF_BLOCK];
    float *scratch = m->scratch[mlt_worker_index(w)].user_gradient;
    struct mlt_mix mix = {.n = f->n,
                          .rows = f->row[MF_USERS],
                          .own = (float)m->lambda,
                          .scale = c->slope,
                          .with = (const float *const *)f->row[MF_ITEMS]};
    double sum = mf_squared_error(
        f->n, m->rank, (const float *const *)f->row[MF_USERS],
        (const float *const *)f->row[MF_ITEMS], value, c->slope);

    for (size_t i = 0; i < f->n; i++)
        before[i] = memcpy(c->before + i * m->rank, f->row[MF_USERS][i],
                           m->rank * sizeof(float));
    mlt_step_rows_mix(w, m->table[MF_USERS], &mix, scratch);
    mix.rows = f->row[MF_ITEMS];
    mix.with = before;
    mlt_step_rows_mix(w, m->table[MF_ITEMS], &mix, scratch);
    return sum;
}

/* While a block is worked on, the next one's rows come. */
static int train_part(const struct mlt_block *b, void *arg)
{
    const struct mf *m = arg;
    struct mf_loop_scratch *c = &m->ahead[mlt_worker_index(b->worker)];
    uint32_t row_bytes = mlt_row_bytes(b->worker, m->table[MF_USERS]);
    const float *value = b->value;
    unsigned now = 0;
    double sum = 0;

    find_block(c, b, 0, row_bytes, &c->found[now]);
    for (size_t at = 0; at < b->n; now = !now) {
        const struct mf_found *f = &c->found[now];

        find_block(c, b, at + f->n, row_bytes, &c->found[!now]);
        sum += train_block(m, b->worker, c, f, value + at);
        at += f->n;
    }
    mlt_report(b->worker, sum, b->n);
    return 0;
}

int mf_loop_clock(const struct mf *m, struct mlt_worker *w, uint64_t part)
{
    uint64_t steps = mlt_loop_steps(m->loop), step = part * steps / m->parts;
    int err = 0;

    for (; step < (part + 1) * steps / m->parts && !err; step++)
        err = mlt_loop_step(w, m->loop, (unsigned)step, train_part, (void *)m);
    return err;
}
