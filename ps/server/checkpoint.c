/* Checkpoints as the installed interface has them: a kept fork of the active
 * branch, written in the background, dropped when it is on the disk. */
#include "ps/server/core.h"

#include <string.h>

enum { MOVERS_MAX = STORE_TABLES_MAX };

static enum err begin(struct mlt_ps *ps, const char *dir, struct fault *f)
{
    branch_id id = ps->next_id++; /* the same on all nodes, whatever comes */
    enum err err;

    ps_snapshot_count(ps);
    if (ps->checkpoint != BRANCH_NONE)
        return fault_set(f, ERR_BUSY, "another checkpoint is being written");
    if (ps->active == BRANCH_NONE || ps->active_failed)
        return fault_set(f, ERR_INVAL,
                         ps->active_failed
                             ? "checkpoint: a run failed in the active branch"
                             : "checkpoint: no branch is active");
    err = ps_fork(ps, id, ps->active, BRANCH_KEPT);
    if (err)
        return fault_set(f, err, "checkpoint %s: %s", dir, err_text(err));
    err = ps_snapshot_begin(ps, id, dir, f);
    if (err)
        ps_drop(ps, id);
    else
        ps->checkpoint = id;
    return err;
}

int mlt_ps_checkpoint(struct mlt_ps *ps, const char *dir, struct mlt_error *err)
{
    struct fault f = {0};

    if (!ps->started)
        core_misuse("mlt_ps_checkpoint before mlt_ps_start");
    return begin(ps, dir, &f) ? core_give_error(err, &f) : ERR_OK;
}

int mlt_ps_checkpoint_done(const struct mlt_ps *ps)
{
    return ps->checkpoint == BRANCH_NONE || ps_snapshot_done(ps);
}

int mlt_ps_checkpoint_end(struct mlt_ps *ps, struct mlt_error *err)
{
    struct fault f = {0};
    branch_id id = ps->checkpoint;
    enum err code = ps_snapshot_end(ps, NULL, &f);

    if (id != BRANCH_NONE)
        ps_drop(ps, id);
    ps->checkpoint = BRANCH_NONE;
    return code ? core_give_error(err, &f) : ERR_OK;
}

int mlt_ps_set_mover(struct mlt_ps *ps, mlt_table table, mlt_mover *mover,
                     void *arg)
{
    if (table >= ps->tables || ps->table[table].access != MLT_LOCAL)
        core_misuse("mlt_ps_set_mover: table %u is no local table", table);
    if (!ps->mover)
        ps->mover = mem_calloc(MOVERS_MAX, sizeof(*ps->mover));
    if (!ps->mover)
        return ERR_NOMEM;
    ps->mover[table] = (struct mover){mover, arg};
    return ERR_OK;
}
