/* What a loop's body calls. */
#include "ps/loop/apart.h"
#include "ps/loop/loop_internal.h"
#include "ps/server/errors.h"

#include <assert.h>

enum { ROWS_AT_ONCE = 64 };

static const struct mlt_loop *loop_of(const struct mlt_block *b)
{
    return ((const struct loop_seat *)b->inside)->loop;
}

static const struct loop_access *access_of(const struct mlt_block *b,
                                           unsigned touch, const char *call)
{
    const struct mlt_loop *l = loop_of(b);

    if (__builtin_expect(touch >= l->nest.accesses, 0))
        ps_misuse("loop %s: %s of touch %u, of %u", l->name, call, touch,
                  l->nest.accesses);
    return &l->nest.access[touch];
}

/* A row in a chunk that was not lent yet in this pass. */
static unsigned char *lend_chunk(const struct mlt_block *b, unsigned touch,
                                 uint64_t row)
{
    struct loop_seat *seat = b->inside;
    const struct lend_layout *y = &seat->loop->layout[touch];
    uint64_t in_chunk = row & ((1ULL << y->row_shift) - 1);
    void *out =
        seat->loop->travel ? travel_visitor(seat->loop, touch, row) : NULL;

    if (!out)
        lend_rows(b->worker, seat->loop->nest.access[touch].id, 1, &row, &out);
    seat->chunk[touch][row >> y->row_shift] =
        (unsigned char *)out - in_chunk * y->stride;
    return out;
}

/* A row of a table that the loop updates in place; @row is in the table. */
static inline void *lent_row(const struct mlt_block *b, unsigned touch,
                             uint64_t row)
{
    const struct loop_seat *seat = b->inside;
    const struct lend_layout *y = &seat->loop->layout[touch];
    unsigned char *chunk = seat->chunk[touch][row >> y->row_shift];

    if (__builtin_expect(!chunk, 0))
        return lend_chunk(b, touch, row);
    return chunk + (row & ((1ULL << y->row_shift) - 1)) * y->stride;
}

/* Reads were granted before the block began (loop_pass.c): on one node none
 * fails. Over several, of rows that the data choose, one may, since the run
 * has failed: the body goes on with rows of zeroes. */
static void give_rows(const struct mlt_block *b, unsigned touch, size_t n,
                      const uint64_t rows[], void *out[])
{
    const struct mlt_loop *l = loop_of(b);
    mlt_table table = l->nest.access[touch].id;
    int err = ERR_OK;

    if (l->written[touch])
        for (size_t i = 0; i < n; i++)
            out[i] = lent_row(b, touch, rows[i]);
    else
        err = mlt_get_rows(b->worker, table, n, rows, (const void **)out);
    assert(!err || l->travel);
    for (size_t i = 0; i < n && err; i++)
        out[i] = (void *)travel_spare(l);
}

/* Most loops' only case: rows updated in place, by one index. */
static bool is_lent_by_index(const struct mlt_loop *l, unsigned touch)
{
    const struct loop_access *a = &l->nest.access[touch];

    return l->written[touch] && a->axes == 1 &&
           a->at[0].kind == MLT_SUBSCRIPT_INDEX && !a->buffered;
}

static void give_lent(const struct mlt_block *b, unsigned touch, size_t first,
                      size_t n, void *out[])
{
    const struct loop_seat *seat = b->inside;
    const struct mlt_loop *l = seat->loop;
    const struct mlt_subscript *at = &l->nest.access[touch].at[0];
    const struct lend_layout y = l->layout[touch];
    const uint64_t in_chunk = (1ULL << y.row_shift) - 1;
    unsigned char *const *chunk = seat->chunk[touch];
    const uint32_t *key = b->key + first * l->nest.dims + at->dim;

    for (size_t i = 0; i < n; i++, key += l->nest.dims) {
        uint64_t row = (uint64_t)(*key + at->plus);
        unsigned char *begin = chunk[row >> y.row_shift];

        out[i] = __builtin_expect(!begin, 0)
                     ? lend_chunk(b, touch, row)
                     : begin + (row & in_chunk) * y.stride;
    }
}

void mlt_loop_rows(const struct mlt_block *b, unsigned touch, size_t first,
                   size_t n, void *out[])
{
    const struct loop_access *a = access_of(b, touch, "rows");
    const struct mlt_loop *l = loop_of(b);
    uint64_t rows[ROWS_AT_ONCE];

    if (a->buffered || !access_is_static(a) || first > b->n || n > b->n - first)
        ps_misuse(
            "loop %s: rows of touch %u, table %s: it is buffered, depends "
            "on the data, or iterations are not the block's",
            l->name, touch, a->table);
    if (is_lent_by_index(l, touch)) {
        give_lent(b, touch, first, n, out);
        return;
    }
    while (n > 0) {
        size_t now = n < ROWS_AT_ONCE ? n : ROWS_AT_ONCE;

        for (size_t i = 0; i < now; i++)
            rows[i] = access_row(a, b->key + (first + i) * l->nest.dims);
        give_rows(b, touch, now, rows, out);
        first += now, out += now, n -= now;
    }
}

void *mlt_loop_row(const struct mlt_block *b, unsigned touch, size_t i)
{
    const struct mlt_loop *l = loop_of(b);
    const struct loop_access *a = access_of(b, touch, "row");
    void *row;

    if (is_lent_by_index(l, touch) && i < b->n)
        return lent_row(b, touch,
                        (uint64_t)(b->key[i * l->nest.dims + a->at[0].dim] +
                                   a->at[0].plus));
    mlt_loop_rows(b, touch, i, 1, &row);
    return row;
}

size_t mlt_loop_apart(const struct mlt_block *b, size_t first)
{
    const struct loop_seat *seat = b->inside;
    const uint64_t *runs = seat->loop->runs;
    size_t left = first < b->n ? b->n - first : 0, run = 1;

    if (runs && left)
        run = apart_run(runs, seat->first + first);
    return run < left ? run : left;
}

/* Debug builds: the iteration declared this row. */
static void check_declared(const struct mlt_block *b, unsigned touch, size_t i,
                           uint64_t row)
{
#ifdef MLT_DEBUG
    const struct mlt_loop *l = loop_of(b);
    const struct loop_access *a = &l->nest.access[touch];

    assert(i < b->n);
    if (!access_admits(a, b->key + i * l->nest.dims, row))
        ps_misuse("loop %s: its body touches row %llu of table %s by touch %u, "
                  "which does not declare it",
                  l->name, (unsigned long long)row, a->table, touch);
#else
    (void)b, (void)touch, (void)i, (void)row;
#endif
}

void *mlt_loop_row_at(const struct mlt_block *b, unsigned touch, size_t i,
                      uint64_t row)
{
    const struct loop_access *a = access_of(b, touch, "row");
    void *out;

    if (a->buffered || row >= a->rows)
        ps_misuse("mlt_loop_row_at: row %llu by touch %u of table %s, which %s",
                  (unsigned long long)row, touch, a->table,
                  a->buffered ? "is buffered" : "has fewer rows");
    check_declared(b, touch, i, row);
    give_rows(b, touch, 1, &row, &out);
    return out;
}

void mlt_loop_add(const struct mlt_block *b, unsigned touch, size_t i,
                  uint64_t row, const void *delta)
{
    const struct loop_access *a = access_of(b, touch, "add");

    if (!a->buffered)
        ps_misuse("mlt_loop_add: touch %u, table %s, is not buffered", touch,
                  a->table);
    check_declared(b, touch, i, row);
    mlt_inc_row(b->worker, a->id, row, delta);
}
