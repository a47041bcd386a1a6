#include "ps/nodes/placement.h"

#include "base/mem.h"
#include "base/rng.h"
#include "ps/nodes/shard.h"

#include <assert.h>
#include <string.h>

void placement_init(struct placement *p, uint32_t node, uint32_t nodes,
                    uint32_t workers, uint64_t rows)
{
    assert(node < nodes);
    assert(workers > 0);
    *p = (struct placement){
        .node = node, .nodes = nodes, .workers = workers, .rows = rows};
}

void placement_deinit(struct placement *p)
{
    for (uint32_t i = 0; p->known && i < p->workers; i++)
        prefetch_list_deinit(&p->known[i]);
    mem_free(p->known);
    mem_free(p->touches);
    access_free(p->all);
    mem_free(p->number);
    mem_free(p->row_at);
    memset(p, 0, sizeof(*p));
}

uint64_t placement_bytes(uint64_t rows, uint32_t nodes)
{
    uint64_t row = 2 * sizeof(uint32_t)                   /* number, row_at */
                   + sizeof(uint32_t) + sizeof(uint64_t); /* touches, place */

    assert(nodes > 0);
    return rows * row + access_bytes(rows, nodes) + access_place_bytes(rows);
}

/* ---- what is expected ---------------------------------------------------- */

static enum err make_known(struct placement *p)
{
    if (p->known)
        return ERR_OK;
    p->known = mem_calloc(p->workers, sizeof(*p->known));
    if (!p->known)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < p->workers; i++)
        prefetch_list_init(&p->known[i], p->rows);
    return ERR_OK;
}

static enum err count_touches(struct placement *p, uint64_t row, uint32_t n)
{
    if (!p->touches)
        p->touches = mem_calloc(p->rows, sizeof(*p->touches));
    if (!p->touches)
        return ERR_NOMEM;
    if (p->touches[row] <= INT32_MAX - n)
        p->touches[row] += n;
    return ERR_OK;
}

/* A row that is read goes one way and a sum the other: they count alike. */
enum err placement_expect(struct placement *p, uint32_t worker, uint64_t part,
                          uint64_t row, bool reads, bool updates, bool places)
{
    enum err err = make_known(p);

    assert(worker < p->workers && row < p->rows);
    if (!err && reads)
        err = prefetch_list_add(&p->known[worker], part, row);
    if (err == ERR_NOMEM || !places)
        return err == ERR_NOMEM ? err : ERR_OK;
    return count_touches(p, row, (uint32_t)reads + (uint32_t)updates);
}

/* ---- what the others are told -------------------------------------------- */

size_t placement_next(const struct placement *p, uint32_t table, uint64_t *from,
                      unsigned char *bytes, size_t room)
{
    const struct frame f = {.kind = FRAME_EXPECT,
                            .values = FRAME_I32,
                            .flags = frame_flags_of(p->rows),
                            .table = table,
                            .width = 1};
    struct frame_writer w;

    assert(bytes && from);
    frame_begin(&w, &f, bytes, room);
    for (; p->touches && *from < p->rows; ++*from)
        if (p->touches[*from] && !frame_add(&w, *from, &p->touches[*from]))
            break;
    return w.count ? frame_end(&w) : 0;
}

static enum err take_counts(struct placement *p, uint32_t node,
                            const struct frame *f, struct fault *fault)
{
    int32_t n;

    for (uint32_t i = 0; i < f->count; i++) {
        frame_row_values(f, i, &n);
        if (frame_row(f, i) >= p->rows || n <= 0)
            return fault_set(fault, ERR_PROTO,
                             "expect frame of node %u: of a row that is not "
                             "there, or is not touched",
                             node);
        access_weigh(p->all, node, frame_row(f, i), (uint32_t)n);
    }
    return ERR_OK;
}

static enum err make_all(struct placement *p)
{
    return p->all ? ERR_OK : access_new(p->rows, p->nodes, p->nodes, &p->all);
}

enum err placement_take(struct placement *p, const struct frame *f,
                        struct fault *fault)
{
    enum err err;

    if (f->width != 1)
        return fault_set(fault, ERR_PROTO,
                         "expect frame of node %u: of more than one count",
                         f->from);
    err = make_all(p);
    if (err)
        return fault_set(fault, err, "no memory to place rows");
    return take_counts(p, f->from, f, fault);
}

/* ---- the permutation ----------------------------------------------------- */

static enum err permute(struct placement *p, const struct table *t)
{
    uint64_t *first = mem_calloc(p->nodes, sizeof(*first));
    uint64_t *count = mem_calloc(p->nodes, sizeof(*count));
    uint64_t *place = mem_calloc(p->rows, sizeof(*place));
    enum err err = first && count && place ? ERR_OK : ERR_NOMEM;

    p->number = mem_calloc(p->rows, sizeof(*p->number));
    p->row_at = mem_calloc(p->rows, sizeof(*p->row_at));
    if (!p->number || !p->row_at)
        err = ERR_NOMEM;
    for (uint32_t i = 0; i < p->nodes && !err; i++)
        shard_part(t, p->nodes, p->workers, i, &first[i], &count[i]);
    if (!err)
        err = access_place(p->all, first, count, place);
    for (uint64_t row = 0; row < p->rows && !err; row++) {
        p->number[row] = (uint32_t)place[row];
        p->row_at[place[row]] = (uint32_t)row;
    }
    mem_free(first);
    mem_free(count);
    mem_free(place);
    return err;
}

static uint32_t hash_of(const struct placement *p)
{
    uint64_t hash = p->rows;

    for (uint64_t row = 0; row < p->rows; row++)
        hash = rng_mix(hash, p->number[row]);
    return (uint32_t)hash | 1;
}

/* From rows to numbers. */
static void renumber(const struct placement *p, struct prefetch_list *k)
{
    for (size_t i = 0; i < k->parts; i++)
        for (size_t j = 0; j < k->list[i].n; j++)
            k->list[i].row[j] = p->number[k->list[i].row[j]];
}

enum err placement_make(struct placement *p, struct table *table)
{
    enum err err;

    assert(!p->number && !table->number);
    if (p->touches && make_all(p) != ERR_OK)
        return ERR_NOMEM;
    for (uint64_t row = 0; p->touches && row < p->rows; row++)
        access_weigh(p->all, p->node, row, p->touches[row]);
    err = p->all ? permute(p, table) : ERR_OK;
    if (err)
        return err;
    for (uint32_t i = 0; p->all && p->known && i < p->workers; i++)
        renumber(p, &p->known[i]);
    access_free(p->all);
    mem_free(p->touches);
    p->all = NULL;
    p->touches = NULL;
    table->number = p->number;
    table->row_at = p->row_at;
    table->placed = p->number ? hash_of(p) : 0;
    return ERR_OK;
}
