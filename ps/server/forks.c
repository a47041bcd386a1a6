#include "ps/server/forks.h"

#include "base/mem.h"
#include "ps/server/core.h"
#include "ps/server/device.h"
#include "ps/server/errors.h"

#include <assert.h>
#include <string.h>

const struct branch_entry *forks_find(const struct mlt_ps *ps, branch_id id)
{
    for (size_t i = 0; i < ps->branches; i++)
        if (ps->branch[i].id == id)
            return &ps->branch[i];
    return NULL;
}

void forks_count_clocks(struct mlt_ps *ps, uint64_t clocks)
{
    assert(ps->active != BRANCH_NONE);
    for (size_t i = 0; i < ps->branches; i++)
        if (ps->branch[i].id == ps->active)
            ps->branch[i].clocks += clocks;
}

branch_id forks_next_id(struct mlt_ps *ps)
{
    return ps->next_id++;
}

bool forks_failed(const struct mlt_ps *ps, branch_id id)
{
    const struct branch_entry *entry = forks_find(ps, id);

    assert(entry);
    return entry->failed;
}

void forks_fail_active(struct mlt_ps *ps)
{
    const struct branch_entry *entry = forks_find(ps, ps->active);

    assert(entry);
    ps->branch[entry - ps->branch].failed = true;
}

static void assert_between_runs(const struct mlt_ps *ps)
{
    if (!ps->started)
        ps_misuse("a branch operation before mlt_ps_start");
}

bool ps_has(const struct mlt_ps *ps, branch_id id)
{
    return forks_find(ps, id) != NULL;
}

branch_id ps_active(const struct mlt_ps *ps)
{
    return ps->active;
}

static bool is_trained(enum branch_type type)
{
    return type != BRANCH_KEPT && type != BRANCH_TESTING;
}

static void refresh_table(struct mlt_ps *ps, mlt_table t)
{
    for (unsigned i = 0; i < ps->shape.workers; i++) {
        struct mlt_worker *w = &ps->shape.worker[i];
        struct worker_view *v = &w->view[t];

        v->map = store_map(w->store, t);
        if (table_is_local(v->table)) {
            v->chunk = v->map->chunk;
            continue;
        }
        if (table_is_exclusive(v->table))
            v->in_place = !ps->peers && !is_trained(ps->active_type);
        assert(v->map->row_shift == v->row_shift || v->count == 0);
        assert(v->map->stride == v->stride || v->count == 0);
        if (v->count == 0)
            continue;
        for (uint64_t c = 0; c < v->map->chunks; c++)
            atomic_store_explicit(
                &ps->chunk[t][(v->first >> v->row_shift) + c],
                atomic_load_explicit(&v->map->chunk[c], memory_order_relaxed),
                memory_order_relaxed);
    }
}

static void refresh_maps(struct mlt_ps *ps)
{
    for (mlt_table t = 0; t < ps->shape.tables; t++)
        refresh_table(ps, t);
}

void forks_drop_in_first(struct mlt_ps *ps, unsigned shards, branch_id id)
{
    assert(shards <= ps->shape.workers);
    for (unsigned i = 0; i < shards; i++) {
        enum err err = store_drop(ps->shape.worker[i].store, id);

        assert(!err);
        (void)err;
    }
}

enum err forks_reserve(struct mlt_ps *ps)
{
    return mem_grow((void **)&ps->branch, &ps->branches_room,
                    sizeof(*ps->branch), ps->branches + 1) == 0
               ? ERR_OK
               : ERR_NOMEM;
}

void forks_add(struct mlt_ps *ps, const struct branch_entry *entry)
{
    assert(!forks_find(ps, entry->id));
    assert(ps->branches < ps->branches_room);
    ps->branch[ps->branches++] = *entry;
    if (entry->id >= ps->next_id)
        ps->next_id = entry->id + 1;
}

enum err ps_fork(struct mlt_ps *ps, branch_id child, branch_id parent,
                 enum branch_type type)
{
    const struct branch_entry *from;
    struct branch_entry entry;
    unsigned i;

    assert_between_runs(ps);
    if (child == BRANCH_NONE || (unsigned)type >= BRANCH_TYPE_COUNT)
        return ERR_INVAL;
    from = forks_find(ps, parent);
    if (!from)
        return ERR_NOENT;
    if (ps_has(ps, child))
        return ERR_EXIST;
    entry = *from;
    entry.id = child;
    entry.type = type;
    if (type != BRANCH_KEPT)
        entry.of = child;
    if (forks_reserve(ps) != ERR_OK)
        return ERR_NOMEM;
    /* A kept branch is read by other threads, from the store. */
    if (type == BRANCH_KEPT && device_flush(ps, parent) != ERR_OK)
        return ERR_IO;
    for (i = 0; i < ps->shape.workers; i++) {
        enum err err =
            store_fork(ps->shape.worker[i].store, child, parent, type);

        if (err) {
            forks_drop_in_first(ps, i, child);
            return err;
        }
    }
    device_share(entry.image);
    forks_add(ps, &entry);
    return ERR_OK;
}

enum err ps_prepare(struct mlt_ps *ps, unsigned branches)
{
    enum err err = ERR_OK;

    assert(branches > 0);
    assert_between_runs(ps);
    for (unsigned i = 0; i < ps->shape.workers && !err; i++)
        err = store_prepare(ps->shape.worker[i].store, branches);
    return err;
}

enum err ps_drop(struct mlt_ps *ps, branch_id id)
{
    const struct branch_entry *entry;

    assert_between_runs(ps);
    entry = forks_find(ps, id);
    if (!entry)
        return ERR_NOENT;
    if (ps->saving.backup && ps->saving.branch == id)
        return ERR_BUSY;
    forks_drop_in_first(ps, ps->shape.workers, id);
    device_release(entry->image);
    ps->branch[entry - ps->branch] = ps->branch[--ps->branches];
    if (ps->active == id)
        ps->active = BRANCH_NONE;
    return ERR_OK;
}

enum err ps_activate(struct mlt_ps *ps, branch_id id)
{
    const struct branch_entry *entry;

    assert_between_runs(ps);
    entry = forks_find(ps, id);
    if (!entry)
        return ERR_NOENT;
    for (unsigned i = 0; i < ps->shape.workers; i++) {
        enum err err = store_activate(ps->shape.worker[i].store, id);

        assert(!err);
        (void)err;
    }
    ps->active = id;
    ps->active_type = entry->type;
    refresh_maps(ps);
    return ERR_OK;
}

int mlt_ps_fork(struct mlt_ps *ps, uint32_t parent, uint32_t *child)
{
    branch_id id = forks_next_id(ps);
    enum err err = ps_fork(ps, id, parent, BRANCH_TRAINING);

    assert(child);
    if (!err)
        *child = id;
    return (int)err;
}

int mlt_ps_drop(struct mlt_ps *ps, uint32_t branch)
{
    return (int)ps_drop(ps, branch);
}

int mlt_ps_clocks(const struct mlt_ps *ps, uint32_t branch, uint64_t *out)
{
    const struct branch_entry *entry = forks_find(ps, branch);

    assert(out);
    if (!entry)
        return ERR_NOENT;
    *out = entry->clocks;
    return ERR_OK;
}

int mlt_ps_switch(struct mlt_ps *ps, uint32_t branch)
{
    return (int)ps_activate(ps, branch);
}

void ps_stats(const struct mlt_ps *ps, struct store_stats *out)
{
    assert(out);
    memset(out, 0, sizeof(*out));
    for (unsigned i = 0; i < ps->shape.workers; i++) {
        struct store_stats s;

        store_stats(ps->shape.worker[i].store, &s);
        out->limit_bytes += s.limit_bytes;
        out->reserved_bytes += s.reserved_bytes;
        out->in_use_bytes += s.in_use_bytes;
        out->held_bytes += s.held_bytes;
        out->pool_bytes += s.pool_bytes;
        out->chunks_in_use += s.chunks_in_use;
        out->chunks_shared += s.chunks_shared;
        out->chunks_private += s.chunks_private;
        out->chunks_copied += s.chunks_copied;
        out->bytes_copied += s.bytes_copied;
        out->forks = s.forks;
        out->branches = s.branches;
    }
}

size_t ps_branches(const struct mlt_ps *ps)
{
    return ps->branches;
}

branch_id ps_branch_at(const struct mlt_ps *ps, size_t index)
{
    assert(index < ps->branches);
    return ps->branch[index].id;
}

struct store_held ps_held(const struct mlt_ps *ps, branch_id id)
{
    struct store_held sum = {0};

    assert(ps_has(ps, id));
    for (unsigned i = 0; i < ps->shape.workers; i++) {
        struct store_held h = store_held(ps->shape.worker[i].store, id);

        sum.shared_bytes += h.shared_bytes;
        sum.private_bytes += h.private_bytes;
    }
    return sum;
}
