/* Consistency models of users' own (mltune/model.h). */
#include "ps/rows/consistency.h"

#include <assert.h>
#include <string.h>

enum { NAME_MAX_BYTES = 31 };

static int64_t own_clock(const struct consistency_view *v)
{
    return v->worker[v->self].clock;
}

static bool ask(mlt_model_predicate *may, void *arg,
                const struct consistency_view *v)
{
    const struct mlt_model_view view = {.size = sizeof(view),
                                        .worker = v->shown,
                                        .workers = v->workers,
                                        .self = v->self,
                                        .staleness = v->staleness,
                                        .k = v->rule.k};

    assert(v->shown && v->self < v->workers);
    for (unsigned i = 0; i < v->workers; i++)
        v->shown[i] =
            (struct mlt_worker_status){.clock = v->worker[i].clock - v->base,
                                       .staleness = v->worker[i].staleness,
                                       .task_s = v->worker[i].task_s,
                                       .alive = v->worker[i].available,
                                       .busy = v->worker[i].busy};
    return may(&view, arg) != 0;
}

bool consistency_may_read(const struct consistency_ops *m,
                          const struct consistency_view *v)
{
    if (!m->user)
        return m->may_read(v);
    return !m->user->may_read || ask(m->user->may_read, m->arg, v);
}

bool consistency_may_begin(const struct consistency_ops *m,
                           const struct consistency_view *v)
{
    return !m->user || !m->user->may_begin ||
           ask(m->user->may_begin, m->arg, v);
}

static bool is_name(const char *name)
{
    size_t n = name ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;

    return n > 0 && n <= NAME_MAX_BYTES && name[n] == '\0';
}

enum err consistency_user(const struct mlt_model_ops *ops, void *arg,
                          const char *file, struct consistency_ops *out,
                          struct fault *f)
{
    assert(ops && file && out);
    if (ops->version != MLT_MODEL_VERSION)
        return fault_set(f, ERR_VERSION,
                         "%s was built for version %u of mltune/model.h, this "
                         "mltune has version %d: build it again",
                         file, ops->version, MLT_MODEL_VERSION);
    if (!is_name(ops->name))
        return fault_set(f, ERR_INVAL,
                         "%s: expected a name of 1 to %d of a-z, 0-9 and _",
                         file, NAME_MAX_BYTES);
    if (consistency_find(ops->name))
        return fault_set(f, ERR_INVAL,
                         "%s: a built-in model is called %s already", file,
                         ops->name);
    if (!ops->summary)
        return fault_set(f, ERR_INVAL, "%s: the model %s lacks .summary", file,
                         ops->name);
    if (!ops->may_read && !ops->may_begin)
        return fault_set(f, ERR_INVAL,
                         "%s: the model %s has neither .may_read nor "
                         ".may_begin",
                         file, ops->name);
    if (ops->uses & ~(unsigned)(MLT_MODEL_STALENESS | MLT_MODEL_K))
        return fault_set(f, ERR_INVAL,
                         "%s: the model %s uses settings that there are not",
                         file, ops->name);
    *out = (struct consistency_ops){.name = ops->name,
                                    .summary = ops->summary,
                                    .uses_staleness =
                                        ops->uses & MLT_MODEL_STALENESS,
                                    .uses_barrier_k = ops->uses & MLT_MODEL_K,
                                    .holds = own_clock,
                                    .needs = own_clock,
                                    .user = ops,
                                    .arg = arg};
    return ERR_OK;
}
