#include "ps/nodes/access.h"

#include "base/mem.h"
#include "base/rng.h"
#include "ps/rows/rowset.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What one worker touched. */
struct toucher {
    uint32_t *clocks; /* [rows] in how many it touched the row */
    uint64_t touched; /* rows */
    struct rowset read;
    uint64_t *row; /* [n] those it read, in that order */
    size_t n, room;
    struct rowset now; /* touched in this clock */
    uint64_t *now_row; /* [now_n] the same */
    size_t now_n, now_room;
};

struct access {
    uint64_t rows;
    uint32_t nodes, workers;
    struct toucher *toucher; /* [workers] */
};

/* ---- gathering ----------------------------------------------------------- */

void access_free(struct access *a)
{
    if (!a)
        return;
    for (uint32_t i = 0; a->toucher && i < a->workers; i++) {
        mem_free(a->toucher[i].clocks);
        mem_free(a->toucher[i].row);
        mem_free(a->toucher[i].now_row);
        rowset_deinit(&a->toucher[i].now);
        rowset_deinit(&a->toucher[i].read);
    }
    mem_free(a->toucher);
    mem_free(a);
}

enum err access_new(uint64_t rows, uint32_t nodes, uint32_t workers,
                    struct access **out)
{
    struct access *a = mem_calloc(1, sizeof(*a));

    assert(nodes >= 1 && workers >= nodes && workers % nodes == 0);
    if (!a)
        return ERR_NOMEM;
    a->rows = rows;
    a->nodes = nodes;
    a->workers = workers;
    a->toucher = mem_calloc(workers, sizeof(*a->toucher));
    for (uint32_t i = 0; a->toucher && i < workers; i++) {
        a->toucher[i].clocks = mem_calloc(rows + 1, sizeof(uint32_t));
        if (!a->toucher[i].clocks ||
            rowset_init(&a->toucher[i].now, rows) != ERR_OK ||
            rowset_init(&a->toucher[i].read, rows) != ERR_OK) {
            access_free(a);
            return ERR_NOMEM;
        }
    }
    if (!a->toucher) {
        access_free(a);
        return ERR_NOMEM;
    }
    *out = a;
    return ERR_OK;
}

/* Two sets of rows, a bit each. */
uint64_t access_bytes(uint64_t rows, uint32_t workers)
{
    return workers * (rows * sizeof(uint32_t) + rows / 4);
}

static enum err note_read(struct toucher *t, uint64_t row)
{
    if (rowset_has(&t->read, row))
        return ERR_OK;
    if (mem_grow((void **)&t->row, &t->room, sizeof(*t->row), t->n + 1) != 0)
        return ERR_NOMEM;
    rowset_add(&t->read, row);
    t->row[t->n++] = row;
    return ERR_OK;
}

static enum err note_touch(struct toucher *t, uint64_t row)
{
    if (rowset_has(&t->now, row))
        return ERR_OK;
    if (mem_grow((void **)&t->now_row, &t->now_room, sizeof(*t->now_row),
                 t->now_n + 1) != 0)
        return ERR_NOMEM;
    rowset_add(&t->now, row);
    t->now_row[t->now_n++] = row;
    t->touched += t->clocks[row]++ == 0;
    return ERR_OK;
}

enum err access_note(struct access *a, uint32_t worker, uint64_t row,
                     bool reads)
{
    struct toucher *t = &a->toucher[worker];
    enum err err = ERR_OK;

    assert(worker < a->workers && row < a->rows);
    if (reads)
        err = note_read(t, row);
    return err ? err : note_touch(t, row);
}

void access_weigh(struct access *a, uint32_t worker, uint64_t row,
                  uint32_t clocks)
{
    struct toucher *t = &a->toucher[worker];

    assert(worker < a->workers && row < a->rows);
    t->touched -= t->clocks[row] > 0;
    t->clocks[row] = clocks;
    t->touched += clocks > 0;
}

void access_end_clock(struct access *a, uint32_t worker)
{
    struct toucher *t = &a->toucher[worker];

    assert(worker < a->workers);
    for (size_t i = 0; i < t->now_n; i++)
        rowset_remove(&t->now, t->now_row[i]);
    t->now_n = 0;
}

const uint64_t *access_rows(const struct access *a, uint32_t worker, size_t *n)
{
    assert(worker < a->workers);
    *n = a->toucher[worker].n;
    return a->toucher[worker].row;
}

/* ---- where rows should lie ----------------------------------------------- */

/* Clocks in which the node touches the row, if its workers do so in the same
 * ones. */
static uint32_t clocks_of_node(const struct access *a, uint32_t node,
                               uint64_t row)
{
    uint32_t each = a->workers / a->nodes, most = 0;

    for (uint32_t i = node * each; i < (node + 1) * each; i++)
        if (a->toucher[i].clocks[row] > most)
            most = a->toucher[i].clocks[row];
    return most;
}

struct wish {
    uint64_t row;
    uint32_t loss; /* clocks less at the next best node */
};

/* The two nodes that touch a row in most clocks, by number where even. */
static uint32_t loss_of_second(const struct access *a, uint64_t row)
{
    uint32_t best = 0, second = 0;

    for (uint32_t i = 0; i < a->nodes; i++) {
        uint32_t clocks = clocks_of_node(a, i, row);

        if (clocks > best) {
            second = best;
            best = clocks;
        } else if (clocks > second) {
            second = clocks;
        }
    }
    return best - second;
}

static int by_loss(const void *a, const void *b)
{
    const struct wish *x = a, *y = b;

    if (x->loss != y->loss)
        return x->loss > y->loss ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

/* Of the nodes with room left, the one that touches the row most; where even,
 * the one with most room. */
static uint32_t choose(const struct access *a, uint64_t row,
                       const uint64_t left[])
{
    uint32_t best = UINT32_MAX, most = 0;

    for (uint32_t i = 0; i < a->nodes; i++) {
        uint32_t clocks = left[i] ? clocks_of_node(a, i, row) : 0;

        if (left[i] && (best == UINT32_MAX || clocks > most ||
                        (clocks == most && left[i] > left[best]))) {
            best = i;
            most = clocks;
        }
    }
    assert(best != UINT32_MAX);
    return best;
}

static bool is_touched(const struct access *a, uint64_t row)
{
    for (uint32_t i = 0; i < a->workers; i++)
        if (a->toucher[i].clocks[row])
            return true;
    return false;
}

uint64_t access_place_bytes(uint64_t rows)
{
    return rows * sizeof(struct wish);
}

enum err access_place(const struct access *a, const uint64_t first[],
                      const uint64_t count[], uint64_t place[])
{
    struct wish *wish = mem_calloc(a->rows + 1, sizeof(*wish));
    uint64_t *left = mem_calloc(a->nodes, sizeof(*left));
    size_t n = 0, node = 0;

    if (!wish || !left) {
        mem_free(wish);
        mem_free(left);
        return ERR_NOMEM;
    }
    memcpy(left, count, a->nodes * sizeof(*left));
    for (uint64_t row = 0; row < a->rows; row++)
        if (is_touched(a, row))
            wish[n++] = (struct wish){row, loss_of_second(a, row)};
    qsort(wish, n, sizeof(*wish), by_loss);
    for (size_t i = 0; i < n; i++) {
        uint32_t to = choose(a, wish[i].row, left);

        place[wish[i].row] = first[to] + count[to] - left[to];
        left[to]--;
    }
    for (uint64_t row = 0; row < a->rows; row++) {
        if (is_touched(a, row))
            continue;
        while (left[node] == 0)
            node++;
        place[row] = first[node] + count[node] - left[node];
        left[node]--;
    }
    mem_free(wish);
    mem_free(left);
    return ERR_OK;
}

/* ---- what a worker keeps ------------------------------------------------- */

bool access_is_contended(const struct access *a, uint32_t worker, uint64_t row,
                         double bound)
{
    uint32_t each = a->workers / a->nodes, others = 0;
    uint32_t begin = worker / each * each;

    assert(worker < a->workers && row < a->rows && bound > 0);
    if (a->toucher[worker].clocks[row] == 0)
        return false;
    for (uint32_t i = begin; i < begin + each; i++)
        others += i != worker && a->toucher[i].clocks[row] > 0;
    return others > 0 &&
           1.0 / (double)a->toucher[worker].touched > bound / (double)others;
}

/* ---- finding a row ------------------------------------------------------- */

enum err access_index_init(struct access_index *x, const uint64_t row[],
                           size_t n)
{
    uint64_t room = 16;

    assert(n < ACCESS_NONE);
    while (room < 2 * (uint64_t)n)
        room *= 2;
    x->mask = room - 1;
    x->row = mem_calloc(room, sizeof(*x->row));
    x->slot = mem_calloc(room, sizeof(*x->slot));
    if (!x->row || !x->slot) {
        access_index_deinit(x);
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t at = rng_mix(0, row[i]) & x->mask;

        while (x->row[at])
            at = (at + 1) & x->mask;
        x->row[at] = row[i] + 1;
        x->slot[at] = (uint32_t)i;
    }
    return ERR_OK;
}

void access_index_deinit(struct access_index *x)
{
    mem_free(x->row);
    mem_free(x->slot);
    memset(x, 0, sizeof(*x));
}

uint32_t access_index_find(const struct access_index *x, uint64_t row)
{
    uint64_t at = rng_mix(0, row) & x->mask;

    for (; x->row[at]; at = (at + 1) & x->mask)
        if (x->row[at] == row + 1)
            return x->slot[at];
    return ACCESS_NONE;
}
