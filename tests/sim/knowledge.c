#include "tests/sim/knowledge.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

struct knower {
    uint32_t *clocks; /* [rows] in how many it touched the row */
    uint32_t *last;   /* [rows] the latest of them, from 1; 0: none */
    size_t *place;    /* [rows] in `row`, from 1; 0: not there */
    uint64_t *row;    /* [n] those it read; room for all */
    size_t n;
    uint32_t clock; /* the present one, from 1 */
};

struct knowledge {
    uint32_t workers;
    struct knower *knower; /* [workers] */
    struct access *access;
};

static void *zeroed(size_t n, size_t size)
{
    void *p = mem_calloc(n, size);

    if (!p)
        abort();
    return p;
}

struct knowledge *knowledge_new(uint64_t rows, uint32_t nodes, uint32_t workers)
{
    struct knowledge *k = zeroed(1, sizeof(*k));

    if (access_new(rows, nodes, workers, &k->access) != ERR_OK)
        abort();
    k->workers = workers;
    k->knower = zeroed(workers, sizeof(*k->knower));
    for (uint32_t i = 0; i < workers; i++)
        k->knower[i] = (struct knower){zeroed(rows + 1, sizeof(uint32_t)),
                                       zeroed(rows + 1, sizeof(uint32_t)),
                                       zeroed(rows + 1, sizeof(size_t)),
                                       zeroed(rows + 1, sizeof(uint64_t)),
                                       0,
                                       1};
    return k;
}

void knowledge_free(struct knowledge *k)
{
    for (uint32_t i = 0; i < k->workers; i++) {
        mem_free(k->knower[i].clocks);
        mem_free(k->knower[i].last);
        mem_free(k->knower[i].place);
        mem_free(k->knower[i].row);
    }
    mem_free(k->knower);
    access_free(k->access);
    mem_free(k);
}

void knowledge_note(struct knowledge *k, uint32_t worker, uint64_t row,
                    bool reads)
{
    struct knower *w = &k->knower[worker];

    assert(worker < k->workers);
    if (reads && !w->place[row]) {
        w->row[w->n++] = row;
        w->place[row] = w->n;
    }
    if (w->last[row] == w->clock)
        return;
    w->last[row] = w->clock;
    access_weigh(k->access, worker, row, ++w->clocks[row]);
}

void knowledge_end_clock(struct knowledge *k, uint32_t worker)
{
    k->knower[worker].clock++;
}

const uint64_t *knowledge_rows(const struct knowledge *k, uint32_t worker,
                               size_t *n)
{
    *n = k->knower[worker].n;
    return k->knower[worker].row;
}

bool knowledge_has(const struct knowledge *k, uint32_t worker, size_t n,
                   uint64_t row)
{
    size_t place = k->knower[worker].place[row];

    return place > 0 && place <= n;
}

const struct access *knowledge_access(const struct knowledge *k)
{
    return k->access;
}
