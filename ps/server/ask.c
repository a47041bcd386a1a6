#include "ps/server/ask.h"

#include "ps/server/clock.h"
#include "ps/server/core.h"
#include "ps/server/errors.h"
#include "ps/server/runtime.h"

#include <assert.h>
#include <string.h>

/* The status of all, with room for what a predicate is shown. */
struct look {
    struct worker_status status[WORKERS_MAX];
    struct mlt_worker_status shown[WORKERS_MAX];
};

static const struct mlt_worker *worker_at(const struct mlt_ps *ps, unsigned i)
{
    return ps_worker((struct mlt_ps *)ps, i);
}

static struct consistency_view look_at(const struct mlt_worker *w,
                                       mlt_table table, struct look *look)
{
    const struct mlt_ps *ps = w->ps;

    clock_status(ps, table, look->status);
    for (unsigned i = 0; i < shape_own_workers(&ps->shape); i++)
        look->status[i].busy =
            look->status[i].available && !worker_at(ps, i)->asks;
    return (struct consistency_view){
        .worker = look->status,
        .workers = shape_own_workers(&ps->shape),
        .self = w->index,
        .staleness = ps->staleness,
        .rule = barrier_rule_with(shape_rule(&ps->shape), ps->quorum),
        .base = ps->run_base,
        .shown = look->shown};
}

/* Whether the model lets @w, which asks, go on. @view is by the clocks of the
 * table that it asks for. */
static bool may_go_on(const struct mlt_worker *w, struct look *look,
                      struct consistency_view *view)
{
    const struct consistency_ops *m = shape_consistency(&w->ps->shape);

    assert(w->asks);
    if (!w->begun) {
        *view = look_at(w, WORKER_ALL_TABLES, look);
        if (!consistency_may_begin(m, view))
            return false;
    }
    *view = look_at(w, w->asks - 1, look);
    return consistency_may_read(m, view);
}

/* A worker that does not wait will end a clock or its run: then somebody may go
 * on. Where all wait, clocks and times stand still, and so do the predicates.
 */
static bool nobody_goes_on(const struct mlt_ps *ps, struct look *look)
{
    struct consistency_view view;

    for (unsigned i = 0; i < shape_own_workers(&ps->shape); i++) {
        const struct mlt_worker *w = worker_at(ps, i);

        if (!w->asks &&
            atomic_load_explicit(&w->available, memory_order_acquire))
            return false;
    }
    for (unsigned i = 0; i < shape_own_workers(&ps->shape); i++)
        if (worker_at(ps, i)->asks && may_go_on(worker_at(ps, i), look, &view))
            return false;
    return true;
}

/* The one that waits at the earliest clock is named. */
static void tell_stuck(struct mlt_ps *ps)
{
    const struct mlt_worker *last = NULL;
    unsigned waiting = 0;

    for (unsigned i = 0; i < shape_own_workers(&ps->shape); i++) {
        const struct mlt_worker *w = worker_at(ps, i);

        if (!w->asks)
            continue;
        waiting++;
        if (!last ||
            clock_of(w, WORKER_ALL_TABLES) < clock_of(last, WORKER_ALL_TABLES))
            last = w;
    }
    assert(last);
    fault_set(&ps->stuck, ERR_APP,
              "consistency model %s lets nobody go on: worker %u, the furthest "
              "behind, waits in its clock %lld to read table %s, and so do all "
              "%u that are alive",
              shape_model(&ps->shape), last->number,
              (long long)(clock_of(last, WORKER_ALL_TABLES) - ps->run_base),
              table_name(last->view[last->asks - 1].table), waiting);
}

enum answer { GO_ON, GO_ON_AGAIN, WAIT, WAIT_ANEW, STUCK };

/* @w is granted its read, or is known to wait for it. */
static enum answer ask(struct mlt_worker *w, struct worker_view *v)
{
    struct mlt_ps *ps = w->ps;
    struct consistency_view view;
    struct look look;
    bool anew;
    enum answer answer;

    stripe_lock(&ps->asking);
    anew = !w->asks;
    w->asks = v->index + 1;
    if (may_go_on(w, &look, &view)) {
        w->asks = 0;
        w->begun = true;
        clock_grant(shape_consistency(&ps->shape), &view, v);
        answer = anew ? GO_ON : GO_ON_AGAIN;
    } else if (nobody_goes_on(ps, &look)) {
        if (!runtime_failed(ps)) /* else one that failed is not alive */
            tell_stuck(ps);
        answer = STUCK;
    } else {
        answer = anew ? WAIT_ANEW : WAIT;
    }
    stripe_unlock(&ps->asking);
    return answer;
}

int ask_wait(struct mlt_worker *w, struct worker_view *v)
{
    for (;;) {
        uint32_t ticket = runtime_ticket(w->ps);

        if (runtime_failed(w->ps))
            return ERR_CANCELED;
        switch (ask(w, v)) {
        case GO_ON_AGAIN: /* one more is busy, the same */
            runtime_progress(w->ps);
            return ERR_OK;
        case GO_ON:
            return ERR_OK;
        case STUCK:
            ps_run_cancel(w->ps, ERR_APP);
            return ERR_CANCELED;
        case WAIT_ANEW: /* one less is busy: others may have waited for that */
            runtime_progress(w->ps);
            break;
        case WAIT:
            runtime_wait(w, ticket);
        }
    }
}

int mlt_ps_set_model(struct mlt_ps *ps, const struct mlt_model_ops *ops,
                     void *arg, struct mlt_error *err)
{
    struct fault f = {0};

    assert(ps && ops);
    if (ps->started)
        ps_misuse("mlt_ps_set_model after mlt_ps_start");
    if (consistency_user(ops, arg, "the model", &ps->own_model, &f))
        return ps_give_error(err, &f);
    if (ps_nodes(ps) > 1) {
        fault_set(&f, ERR_UNSUPPORTED,
                  "consistency model %s: a model of your own acts in one "
                  "process, and there are %u nodes; of several nodes barrier "
                  "with a rule",
                  ops->name, ps_nodes(ps));
        return ps_give_error(err, &f);
    }
    shape_set_model(&ps->shape, &ps->own_model);
    return ERR_OK;
}

const char *ps_user_model(const struct mlt_ps *ps)
{
    return shape_user_model(&ps->shape);
}

enum err ps_model_error(const struct mlt_ps *ps, struct fault *f)
{
    if (ps->stuck.code && f)
        *f = ps->stuck;
    return ps->stuck.code;
}

int mlt_ps_model_error(const struct mlt_ps *ps, struct mlt_error *err)
{
    return ps->stuck.code ? ps_give_error(err, &ps->stuck) : ERR_OK;
}
