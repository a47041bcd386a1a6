#include "ps/node/node_internal.h"

#include <assert.h>

/* @setting: becomes the branch's; NULL of one that is kept. */
static enum err check_fork(const struct node *n, const struct msg_fork *m,
                           struct node_setting *setting, struct fault *f)
{
    const struct node_branch *parent =
        node_ledger_live(&n->ledger, m->parent, f);
    enum err err;

    if (!parent)
        return ERR_NOENT;
    if (m->type == BRANCH_TESTING && n->validation_samples == 0)
        return fault_set(f, ERR_UNSUPPORTED,
                         "this application has no validation data to test on");
    if (setting) {
        err = node_setting_read(&n->model.defaults, m->setting,
                                n->model.tunables, setting, f);
        if (err)
            return err;
    }
    return node_ledger_check_room(&n->ledger, m->branch,
                                  node_ledger_shares(parent, m->type), f);
}

static enum err check_schedule(const struct node *n,
                               const struct msg_schedule *m, struct fault *f)
{
    const struct node_branch *b = node_ledger_live(&n->ledger, m->branch, f);

    if (!b)
        return ERR_NOENT;
    if (b->type == BRANCH_KEPT || b->type == BRANCH_INIT)
        return fault_set(f, ERR_INVAL, "branch %u is %s: no clock runs in it",
                         m->branch, branch_type_name(b->type));
    if (m->first < n->next_clock)
        return fault_set(f, ERR_INVAL,
                         "clock %llu belongs to another slice; the next free "
                         "one is %llu",
                         (unsigned long long)m->first,
                         (unsigned long long)n->next_clock);
    if (m->count > UINT64_MAX - m->first)
        return fault_set(f, ERR_INVAL, "count: clocks would overflow");
    if ((m->count - 1) / m->report_every >= PROTO_WINDOWS_MAX)
        return fault_set(f, ERR_INVAL,
                         "report_every: a slice has at most %d windows",
                         PROTO_WINDOWS_MAX);
    return ERR_OK;
}

static enum err check_snapshot(const struct node *n, const struct msg_path *m,
                               struct fault *f)
{
    const struct node_branch *b = node_ledger_live(&n->ledger, m->branch, f);

    if (!b)
        return ERR_NOENT;
    if (b->type != BRANCH_KEPT && b->type != BRANCH_INIT)
        return fault_set(f, ERR_INVAL, "branch %u is %s, not kept", m->branch,
                         branch_type_name(b->type));
    if (n->snapshot_asked)
        return fault_set(f, ERR_BUSY, "another snapshot is being written");
    return b->type == BRANCH_KEPT ? ERR_OK
                                  : node_ledger_check_units(&n->ledger, f);
}

static enum err check_rows(const struct node *n, const struct msg_rows *m,
                           struct fault *f)
{
    const struct node_branch *b = node_ledger_live(&n->ledger, m->branch, f);

    if (!b)
        return ERR_NOENT;
    if (m->increment && (b->type == BRANCH_KEPT || b->type == BRANCH_INIT))
        return fault_set(f, ERR_INVAL, "branch %u is %s: it cannot be changed",
                         m->branch, branch_type_name(b->type));
    return ERR_OK;
}

static enum err check_state(const struct node *n, struct fault *f)
{
    if (n->phase == NODE_WAITING)
        return fault_set(f, ERR_PROTO, "there was no `config` yet");
    if (n->phase == NODE_LOADING)
        return fault_set(f, ERR_BUSY, "the application is being loaded");
    if (n->queue_len >= NODE_QUEUE_MAX)
        return fault_set(f, ERR_LIMIT, "%d operations wait already",
                         NODE_QUEUE_MAX);
    return ERR_OK;
}

enum err node_check(const struct node *n, const struct msg *m,
                    struct node_setting *setting, struct fault *f)
{
    enum err err = check_state(n, f);

    assert(!setting || m->kind == MSG_FORK);
    if (err)
        return err;
    if (m->op <= n->last_op)
        return fault_set(f, ERR_PROTO, "op %llu comes after op %llu",
                         (unsigned long long)m->op,
                         (unsigned long long)n->last_op);
    switch (m->kind) {
    case MSG_FORK:
        return check_fork(n, &m->fork, setting, f);
    case MSG_FREE:
        return node_ledger_live(&n->ledger, m->free.branch, f) ? ERR_OK
                                                               : ERR_NOENT;
    case MSG_SCHEDULE:
        return check_schedule(n, &m->schedule, f);
    case MSG_SNAPSHOT:
        return check_snapshot(n, &m->snapshot, f);
    case MSG_RESTORE:
        return node_ledger_check_room(&n->ledger, m->restore.branch, false, f);
    case MSG_SAVE:
        return node_ledger_live(&n->ledger, m->save.branch, f) ? ERR_OK
                                                               : ERR_NOENT;
    default:
        return check_rows(n, &m->rows, f);
    }
}
