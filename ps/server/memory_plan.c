#include "ps/server/memory_plan.h"

#include "ps/nodes/placement.h"
#include "ps/nodes/shard.h"
#include "ps/nodes/sum_stream.h"
#include "ps/rows/slots.h"
#include "ps/rows/sum_tree.h"
#include "ps/rows/update.h"
#include "ps/server/core.h"
#include "ps/server/device.h"
#include "ps/server/keys.h"

#include <assert.h>
#include <math.h>

/* Of an index (ps/rows/slots.h): for 64 rows, and for one that has a slot. */
enum { WORD_BYTES = 12, SLOT_BYTES = 8 };

/* Where half of the rows are touched or more, all may come to have places. */
static uint64_t share(uint64_t bytes, double touched)
{
    return touched < 0.5 ? (uint64_t)((double)bytes * touched) : bytes;
}

uint64_t memory_of_rows(uint64_t rows, uint64_t row_bytes, double touched,
                        bool small)
{
    uint64_t index = slots_bytes(rows, small);
    uint64_t used = rows / 64 * WORD_BYTES + share(rows, touched) * SLOT_BYTES;

    assert(touched > 0 && touched <= 1);
    if (small)
        return rows * row_bytes;
    return share(rows * row_bytes, touched) +
           (touched < 0.5 && used < index ? used : index);
}

/* An update buffer (ps/rows/update.h) of so many rows. */
static uint64_t memory_of_update(uint64_t rows, uint32_t value_bytes,
                                 double touched)
{
    uint64_t values = rows * value_bytes;
    bool small = values <= SLOTS_DENSE_BYTES;
    uint64_t marks = update_bytes(rows, value_bytes, SLOTS_DENSE_BYTES) -
                     values - slots_bytes(rows, small);

    return memory_of_rows(rows, value_bytes, touched, small) + marks;
}

uint64_t memory_of_sums(const struct ps_shape *shape, const struct table *t,
                        double touched)
{
    uint64_t bytes = 0, first, count, limit, each;
    uint32_t end, workers = shape->workers;

    shard_part(t, shape->nodes, workers, shape->node, &first, &count);
    limit = sum_stream_rows(t, count, SUM_STREAM_BYTES);
    for (uint32_t node = 0; node < shape->nodes; node++) {
        end = (node + 1) * workers;
        for (uint32_t i = node * workers; node != shape->node && i < end;
             i += sum_tree_block(i, end))
            if (count) {
                each =
                    memory_of_update(count, t->value_bytes,
                                     fmin(1, touched * sum_tree_block(i, end)));
                bytes += limit ? sum_stream_bytes(t, limit) : each;
            }
    }
    return bytes;
}

bool memory_has_copies(const struct mlt_ps *ps, const struct table *t)
{
    bool direct = ps->shape.all_workers == 1 || ps->shape.consistency->barrier;
    bool alone = ps->shape.nodes > 1 && ps->shape.workers == 1 &&
                 !ps->shape.consistency->pushes && !table_reads_own(t);

    return t->access == MLT_SHARED && !direct && !alone;
}

bool memory_notes_held(const struct mlt_ps *ps, const struct table *t)
{
    return memory_has_copies(ps, t) ||
           (ps->shape.nodes > 1 && t->access != MLT_LOCAL);
}

bool memory_has_slots(const struct mlt_ps *ps, const struct table *t)
{
    return memory_notes_held(ps, t) || (t->flags & MLT_READ_MY_WRITES);
}

/* What a worker keeps of the rows that it reads. */
static uint64_t copies(const struct mlt_ps *ps, const struct table *t,
                       double touched)
{
    uint64_t row_bytes = memory_notes_held(ps, t) ? sizeof(int64_t) : 0;

    if (!memory_has_slots(ps, t))
        return 0;
    if (memory_has_copies(ps, t))
        row_bytes += t->value_bytes;
    if (ps->shape.nodes == 1 && memory_has_copies(ps, t) && t->rule->revises)
        row_bytes += t->value_bytes;
    if (t->flags & MLT_READ_MY_WRITES)
        row_bytes += t->value_bytes;
    return memory_of_rows(t->rows, row_bytes, touched, table_is_small(t));
}

static void add_table(const struct mlt_ps *ps, const struct table *t,
                      double touched, struct mlt_ps_memory *m)
{
    uint64_t workers = ps->shape.workers;
    const struct keys_place place = {ps->shape.node, ps->shape.nodes,
                                     ps->shape.workers};
    bool on_device = device_has(ps->device, (mlt_table)(t - ps->shape.table));

    if (t->access == MLT_LOCAL)
        return;
    if (t->access == MLT_SHARED && !on_device)
        m->updates +=
            workers * memory_of_update(t->rows, t->value_bytes, touched);
    m->caches += workers * copies(ps, t, touched);
    if (shape_gathers(&ps->shape, t)) {
        m->access += workers * PREFETCH_LIST_ENTRY_BYTES *
                     share(prefetch_list_entries_max(t->rows), touched);
        if (ps->shape.places)
            m->access += placement_bytes(t->rows, ps->shape.nodes);
    }
    m->fixed += t->chunks * sizeof(chunk_slot);
    if (table_has_keys(t))
        m->fixed += keys_bytes(&place, t);
}

void memory_plan_buffers(const struct mlt_ps *ps, double touched,
                         struct mlt_ps_memory *out)
{
    uint64_t most;

    *out =
        (struct mlt_ps_memory){.size = sizeof(*out), .limit = ps->memory_limit};
    for (size_t t = 0; t < ps->shape.tables; t++)
        add_table(ps, &ps->shape.table[t], touched, out);
    if (ps->shape.nodes > 1)
        ps->wire->bytes(&ps->shape, touched, out);
    most = 2 * (out->updates + out->caches); /* no more is said in a clock */
    if (out->frames > most)
        out->frames = most;
    /* One to each, one from each: half of them is the other's. */
    out->fixed +=
        (uint64_t)(ps->shape.nodes - 1) * shape_ring_bytes(&ps->shape);
}

uint64_t memory_buffers(const struct mlt_ps_memory *m)
{
    return m->updates + m->caches + m->sums + m->access + m->fixed;
}
