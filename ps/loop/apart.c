#include "ps/loop/apart.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum {
    PLACES = 1024, /* of a block's rows of one table, by the rows' last bits */
    WORD_BITS = 64,
    OPEN_BLOCKS = 16
};

struct block {
    unsigned n;
    uint32_t iteration[MLT_LOOP_APART_MAX];
    /* Places of each table, a bit each. Where two rows share one, an iteration
     * goes to another block, which does no harm. */
    uint64_t taken[MLT_LOOP_TOUCHES_MAX][PLACES / WORD_BITS];
};

struct sorting {
    const struct loop_nest *nest;
    unsigned apart;
    /* Touches whose rows count, and the number of each one's table. */
    unsigned touches, tables;
    unsigned touch[MLT_LOOP_TOUCHES_MAX], table[MLT_LOOP_TOUCHES_MAX];
    const uint32_t *from;
    uint32_t *to;
    /* Of the part: where the next full block goes, and where others end. */
    uint64_t first, end;
    unsigned n;                      /* that are open, the oldest first */
    struct block *open[OPEN_BLOCKS]; /* beyond them: free */
    struct block block[OPEN_BLOCKS];
};

static bool is_updated(const struct loop_nest *n, mlt_table id)
{
    for (unsigned t = 0; t < n->accesses; t++)
        if (n->access[t].id == id && n->access[t].updates &&
            !n->access[t].buffered)
            return true;
    return false;
}

static unsigned table_number(struct sorting *s, mlt_table id)
{
    for (unsigned i = 0; i < s->touches; i++)
        if (s->nest->access[s->touch[i]].id == id)
            return s->table[i];
    return s->tables++;
}

static void find_touches(struct sorting *s)
{
    for (unsigned t = 0; t < s->nest->accesses; t++) {
        const struct loop_access *a = &s->nest->access[t];

        if (!access_is_static(a) || !is_updated(s->nest, a->id))
            continue;
        s->table[s->touches] = table_number(s, a->id);
        s->touch[s->touches++] = t;
    }
}

static bool is_taken(const struct sorting *s, const struct block *b,
                     const unsigned place[])
{
    for (unsigned i = 0; i < s->touches; i++)
        if (b->taken[s->table[i]][place[i] / WORD_BITS] >>
                place[i] % WORD_BITS &
            1)
            return true;
    return false;
}

static struct block *open_block(struct sorting *s)
{
    struct block *b = s->open[s->n++];

    b->n = 0;
    memset(b->taken, 0, s->tables * sizeof(b->taken[0]));
    return b;
}

static void close_block(struct sorting *s, unsigned at)
{
    struct block *b = s->open[at];
    bool full = b->n == s->apart;

    if (!full)
        s->end -= b->n;
    memcpy(s->to + (full ? s->first : s->end), b->iteration,
           b->n * sizeof(*s->to));
    if (full)
        s->first += b->n;
    s->n--;
    memmove(&s->open[at], &s->open[at + 1],
            (s->n - at) * sizeof(struct block *));
    s->open[s->n] = b;
}

static void add(struct sorting *s, uint32_t iteration)
{
    const uint32_t *key = nest_key(s->nest, iteration);
    unsigned place[MLT_LOOP_TOUCHES_MAX], at = 0;
    struct block *b;

    for (unsigned i = 0; i < s->touches; i++)
        place[i] =
            (unsigned)(access_row(&s->nest->access[s->touch[i]], key) % PLACES);
    while (at < s->n && is_taken(s, s->open[at], place))
        at++;
    if (at == OPEN_BLOCKS) {
        close_block(s, 0);
        at--;
    }
    b = at < s->n ? s->open[at] : open_block(s);
    b->iteration[b->n++] = iteration;
    for (unsigned i = 0; i < s->touches; i++)
        b->taken[s->table[i]][place[i] / WORD_BITS] |= UINT64_C(1)
                                                       << place[i] % WORD_BITS;
    if (b->n == s->apart)
        close_block(s, at);
}

static void order_part(struct sorting *s, uint64_t first, uint64_t end)
{
    s->first = first;
    s->end = end;
    for (uint64_t i = first; i < end; i++)
        add(s, s->from[i]);
    while (s->n > 0)
        close_block(s, 0);
    assert(s->first == s->end);
}

/* ---- runs ---------------------------------------------------------------- */

struct runs {
    struct sorting touched; /* its touches and tables alone */
    /* Number of the last run with a row in this place: 0 before any. */
    uint32_t last[MLT_LOOP_TOUCHES_MAX][PLACES];
    uint32_t run;
    unsigned n; /* iterations of it so far */
};

/* Whether the run has room for the iteration, and none of its rows. */
static bool joins(struct runs *r, const uint32_t *key)
{
    const struct sorting *s = &r->touched;
    bool free = r->n < s->apart;

    for (unsigned i = 0; i < s->touches && free; i++) {
        uint64_t row = access_row(&s->nest->access[s->touch[i]], key);

        free = r->last[s->table[i]][row % PLACES] != r->run;
    }
    return free;
}

static void take_places(struct runs *r, const uint32_t *key)
{
    const struct sorting *s = &r->touched;

    for (unsigned i = 0; i < s->touches; i++) {
        uint64_t row = access_row(&s->nest->access[s->touch[i]], key);

        r->last[s->table[i]][row % PLACES] = r->run;
    }
    r->n++;
}

static void find_runs(struct runs *r, const struct loop_parts *p, uint64_t *out)
{
    const struct loop_nest *nest = r->touched.nest;
    size_t parts = (size_t)p->space.parts * p->time.parts;

    for (size_t b = 0; b < parts; b++)
        for (uint64_t i = p->start[b]; i < p->start[b + 1]; i++) {
            const uint32_t *key = nest_key(nest, p->order[i]);

            if (i == p->start[b] || !joins(r, key)) {
                out[i / WORD_BITS] |= UINT64_C(1) << i % WORD_BITS;
                r->run++; /* no more than iterations, which 32 bits count */
                r->n = 0;
            }
            take_places(r, key);
        }
}

enum err apart_runs(const struct loop_nest *n, unsigned apart,
                    const struct loop_parts *p, uint64_t **out)
{
    /* One more is read beyond the last. */
    uint64_t words = n->iterations / WORD_BITS + 2;
    struct runs *r;

    assert(apart <= MLT_LOOP_APART_MAX);
    *out = NULL;
    if (apart <= 1)
        return ERR_OK;
    r = mem_calloc(1, sizeof(*r));
    *out = mem_calloc(words, sizeof(**out));
    if (!r || !*out) {
        mem_free(r);
        mem_free(*out);
        *out = NULL;
        return ERR_NOMEM;
    }
    r->touched.nest = n;
    r->touched.apart = apart;
    find_touches(&r->touched);
    find_runs(r, p, *out);
    (*out)[n->iterations / WORD_BITS] |= UINT64_C(1)
                                         << n->iterations % WORD_BITS;
    mem_free(r);
    return ERR_OK;
}

/* ---- the order ----------------------------------------------------------- */

enum err apart_order(const struct loop_nest *n, unsigned apart,
                     struct loop_parts *p)
{
    size_t parts = (size_t)p->space.parts * p->time.parts;
    uint32_t *to;
    struct sorting *s;

    assert(apart <= MLT_LOOP_APART_MAX);
    if (apart <= 1)
        return ERR_OK;
    assert(!n->ordered);
    s = mem_calloc(1, sizeof(*s));
    to = mem_alloc((n->iterations + 1) * sizeof(*to));
    if (!s || !to) {
        mem_free(s);
        mem_free(to);
        return ERR_NOMEM;
    }
    s->nest = n;
    s->apart = apart;
    s->from = p->order;
    s->to = to;
    for (unsigned i = 0; i < OPEN_BLOCKS; i++)
        s->open[i] = &s->block[i];
    find_touches(s);
    for (size_t b = 0; b < parts; b++)
        order_part(s, p->start[b], p->start[b + 1]);
    mem_free(p->order);
    p->order = to;
    mem_free(s);
    return ERR_OK;
}
