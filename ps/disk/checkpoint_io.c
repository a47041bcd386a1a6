/* Checkpoints as the installed interface has them: a kept fork of the active
 * branch, written in the background, dropped when it is on the disk. */
#include "base/mem.h"
#include "ps/disk/backup_io.h"
#include "ps/server/errors.h"
#include "ps/server/forks.h"
#include "ps/server/peers.h"
#include "ps/server/saving.h"

#include <assert.h>
#include <string.h>

enum { MOVERS_MAX = STORE_TABLES_MAX };

static enum err begin(struct mlt_ps *ps, const char *dir, struct fault *f)
{
    branch_id id = forks_next_id(ps);
    enum err err;

    assert(dir);
    ps_snapshot_count(ps);
    if (ps_saving(ps)->checkpoint != BRANCH_NONE)
        return fault_set(f, ERR_BUSY, "another checkpoint is being written");
    if (ps_active(ps) == BRANCH_NONE)
        return fault_set(f, ERR_INVAL, "checkpoint: no branch is active");
    if (forks_failed(ps, ps_active(ps)))
        return fault_set(f, ERR_INVAL,
                         "checkpoint: a run failed in the active branch, or in "
                         "what it was forked from");
    err = ps_fork(ps, id, ps_active(ps), BRANCH_KEPT);
    if (err)
        return fault_set(f, err, "checkpoint %s: %s", dir, err_text(err));
    err = ps_snapshot_begin(ps, id, dir, f);
    if (err)
        ps_drop(ps, id);
    else
        ps_saving(ps)->checkpoint = id;
    return err;
}

int mlt_ps_checkpoint(struct mlt_ps *ps, const char *dir, struct mlt_error *err)
{
    struct fault f = {0};

    assert(dir);
    if (!ps_shape(ps)->worker)
        ps_misuse("mlt_ps_checkpoint before mlt_ps_start");
    return begin(ps, dir, &f) ? ps_give_error(err, &f) : ERR_OK;
}

int mlt_ps_checkpoint_done(const struct mlt_ps *ps)
{
    return ps_saving_now(ps)->checkpoint == BRANCH_NONE || ps_snapshot_done(ps);
}

int mlt_ps_checkpoint_end(struct mlt_ps *ps, struct mlt_error *err)
{
    struct fault f = {0};
    branch_id id = ps_saving(ps)->checkpoint;
    enum err code = ps_snapshot_end(ps, NULL, &f);

    assert(id == BRANCH_NONE || ps_has(ps, id));
    if (id != BRANCH_NONE)
        ps_drop(ps, id);
    ps_saving(ps)->checkpoint = BRANCH_NONE;
    return code ? ps_give_error(err, &f) : ERR_OK;
}

int mlt_ps_set_mover(struct mlt_ps *ps, mlt_table table, mlt_mover *mover,
                     void *arg)
{
    const struct ps_shape *shape = ps_shape(ps);
    struct ps_saving *saving = ps_saving(ps);

    if (table >= shape->tables || !table_is_local(&shape->table[table]))
        ps_misuse("mlt_ps_set_mover: table %u is no local table", table);
    if (!saving->mover)
        saving->mover = mem_calloc(MOVERS_MAX, sizeof(*saving->mover));
    if (!saving->mover)
        return ERR_NOMEM;
    saving->mover[table] = (struct mover){mover, arg};
    return ERR_OK;
}
