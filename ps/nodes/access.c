#include "ps/nodes/access.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct access {
    uint64_t rows;
    uint32_t nodes, workers;
    uint32_t **clocks; /* [workers][rows] in how many it touches the row */
};

/* ---- gathering ----------------------------------------------------------- */

void access_free(struct access *a)
{
    if (!a)
        return;
    for (uint32_t i = 0; a->clocks && i < a->workers; i++)
        mem_free(a->clocks[i]);
    mem_free(a->clocks);
    mem_free(a);
}

enum err access_new(uint64_t rows, uint32_t nodes, uint32_t workers,
                    struct access **out)
{
    struct access *a = mem_calloc(1, sizeof(*a));

    assert(nodes >= 1 && workers >= nodes);
    assert(workers % nodes == 0);
    if (!a)
        return ERR_NOMEM;
    a->rows = rows;
    a->nodes = nodes;
    a->workers = workers;
    a->clocks = mem_calloc(workers, sizeof(*a->clocks));
    for (uint32_t i = 0; a->clocks && i < workers; i++) {
        a->clocks[i] = mem_calloc(rows + 1, sizeof(**a->clocks));
        if (!a->clocks[i]) {
            access_free(a);
            return ERR_NOMEM;
        }
    }
    if (!a->clocks) {
        access_free(a);
        return ERR_NOMEM;
    }
    *out = a;
    return ERR_OK;
}

uint64_t access_bytes(uint64_t rows, uint32_t workers)
{
    return workers * rows * sizeof(uint32_t);
}

void access_weigh(struct access *a, uint32_t worker, uint64_t row,
                  uint32_t clocks)
{
    assert(worker < a->workers);
    assert(row < a->rows);
    a->clocks[worker][row] = clocks;
}

/* ---- where rows should lie ----------------------------------------------- */

/* Clocks in which the node touches the row, if its workers do so in the same
 * ones. */
static uint32_t clocks_of_node(const struct access *a, uint32_t node,
                               uint64_t row)
{
    uint32_t each = a->workers / a->nodes, most = 0;

    for (uint32_t i = node * each; i < (node + 1) * each; i++)
        if (a->clocks[i][row] > most)
            most = a->clocks[i][row];
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

/* The node that touches the row most of those with room left; where even, the
 * one with most room. */
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
        if (a->clocks[i][row])
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
