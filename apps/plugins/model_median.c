/* A consistency model as a shared object: nobody runs away from the middle.
 *
 *     cc -shared -fPIC -O2 -o model_median.so model_median.c \
 *         `pkg-config --cflags mltune`
 *     "ps": {"consistency": {"plugin": "model_median.so"}}
 *
 * A worker reads while it is at most `staleness` clocks ahead of the median of
 * those that are alive. So one straggler holds nobody up, as it would under
 * ssp; half of the workers falling behind does. docs/cluster.md tells of it.
 */
#include <mltune/model.h>

/* Those of clocks below @clock that are alive; and all that are alive. */
static unsigned behind(const struct mlt_model_view *v, int64_t clock,
                       unsigned *alive)
{
    unsigned n = 0;

    *alive = 0;
    for (unsigned i = 0; i < v->workers; i++) {
        if (!v->worker[i].alive)
            continue;
        ++*alive;
        n += v->worker[i].clock < clock;
    }
    return n;
}

/* More than half of them are too far behind: then the median is. The slowest
 * has nobody behind it, so somebody always goes on. */
static int median_may_read(const struct mlt_model_view *v, void *arg)
{
    int64_t least = v->worker[v->self].clock - (int64_t)v->staleness;
    unsigned alive, n = behind(v, least, &alive);

    (void)arg;
    return 2 * n <= alive;
}

MLT_API const struct mlt_model_ops mltune_model = {
    .version = MLT_MODEL_VERSION,
    .name = "median",
    .summary = "reads may lag `staleness` clocks behind the median worker",
    .uses = MLT_MODEL_STALENESS,
    .may_read = median_may_read,
};
