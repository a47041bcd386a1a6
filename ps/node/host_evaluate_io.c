/* The score of a saved model, and what it predicts. */
#include "ps/node/app_plugin_io.h"
#include "ps/node/host_internal_io.h"

#include <assert.h>
#include <math.h>

static double reduce(double sum, uint64_t samples, enum mlt_reduction how)
{
    double mean = samples ? sum / (double)samples : NAN;

    return how == MLT_SQRT_MEAN  ? sqrt(mean)
           : how == MLT_EXP_MEAN ? exp(mean)
                                 : mean;
}

/* One slice in a fresh fork of branch 0 that is dropped again, as one window.
 */
static enum err measure(struct host *h, enum branch_type type, uint64_t clocks,
                        struct progress_window *out, struct fault *f)
{
    struct node_setting setting = h->facts.defaults;
    struct host_slice slice = {1, type, &setting, clocks, clocks};
    struct host_result result;
    enum err err = ps_fork(h->ps, slice.branch, 0, type);

    if (err)
        return fault_set(f, err, "evaluation: %s", err_text(err));
    setting.learning_rate = 0;
    err = host_slice_begin(h, &slice, f);
    if (!err)
        err = host_slice_end(h, &result, f);
    if (!err && host_slice_windows(h))
        *out = *host_slice_window(h, 0);
    ps_drop(h->ps, slice.branch);
    return err;
}

enum err host_evaluate(struct host *h, struct host_score *out, struct fault *f)
{
    const struct order *o = &h->facts.order;
    uint64_t batch = h->facts.defaults.batch_size * h->workers;
    struct progress_window loss = {0}, metric = {0};
    enum err err;

    assert(h->evaluate);
    err = measure(h, BRANCH_PROBE,
                  o->parts ? o->parts : (o->samples - 1) / batch + 1, &loss, f);
    if (!err && o->validation_samples && h->facts.info.metric)
        err = measure(h, BRANCH_TESTING, 1, &metric, f);
    if (err)
        return err;
    out->samples = o->samples;
    out->loss = reduce(loss.sum, loss.samples, MLT_MEAN);
    out->metric =
        reduce(metric.sum, metric.samples, h->facts.info.metric_reduction);
    return ERR_OK;
}

bool host_tells_truth(const struct host *h)
{
    assert(h);
    return h->evaluate && !h->predict && app_tells_truth(h->facts.app);
}

enum err host_columns(struct host *h, const struct mlt_column **column,
                      uint32_t *count, struct fault *f)
{
    struct mlt_error e = {0};
    int code;

    assert(h->predict || host_tells_truth(h));
    assert(column && count);
    code = h->facts.app->columns(h->app, column, count, &e);
    if (code)
        return host_take_error(code, &e, "columns to predict", f);
    if (*count == 0)
        return fault_set(f, ERR_APP, "%s predicts no column",
                         h->facts.app->name);
    return ERR_OK;
}

/* Samples that the worker is to predict. */
struct task {
    struct host *host;
    uint64_t first, count;
    double *out;
};

static int predict_work(struct mlt_worker *w, void *arg)
{
    const struct task *t = arg;

    return t->host->facts.app->predict(t->host->app, w, t->first, t->count,
                                       t->out);
}

enum err host_predict(struct host *h, uint64_t first, uint64_t count,
                      double *out, struct fault *f)
{
    struct task task = {h, first, count, out};
    const struct mlt_error none = {0};
    int code;

    assert(h->predict || host_tells_truth(h));
    assert(h->workers == 1);
    assert(first <= h->facts.info.samples &&
           count <= h->facts.info.samples - first);
    code = ps_activate(h->ps, 0);
    if (!code)
        code = mlt_ps_run(h->ps, predict_work, &task);
    return code ? host_take_error(code, &none, "predicting", f) : ERR_OK;
}

enum err host_truth(struct host *h, uint64_t first, uint64_t count, double *out,
                    struct fault *f)
{
    const struct mlt_error none = {0};
    int code;

    assert(host_tells_truth(h));
    assert(first <= h->facts.info.samples &&
           count <= h->facts.info.samples - first);
    code = h->facts.app->truth(h->app, first, count, out);
    return code ? host_take_error(code, &none, "what is true", f) : ERR_OK;
}
