#include "ps/node/host_metric_io.h"

#include "base/mem.h"
#include "base/metrics.h"
#include "ps/node/app_plugin_io.h"
#include "ps/node/host_internal_io.h"
#include "ps/node/scores.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

enum { CHUNK_VALUES = 1 << 14 /* predicted at a time, about */ };

/* One worker's; nobody else touches it before it has arrived. */
struct metric_part {
    struct scores scores; /* of its share; the first one's has room for all */
    double *row;          /* [chunk][columns], then [chunk] truths: owned */
};

struct host_metric {
    struct host *host; /* borrowed */
    const struct metric *metric;
    uint64_t samples; /* of the validation */
    uint64_t chunk;   /* samples predicted at a time */
    uint32_t columns;
    unsigned workers;         /* of this node */
    struct metric_part *part; /* [workers]: owned */
    pthread_mutex_t lock;
    unsigned arrived; /* workers that have predicted theirs; under the lock */
    bool broken;      /* one has met no number; under the lock */
};

/* ---- opening ------------------------------------------------------------- */

static enum err refuse_all(const struct host *h, const char *name,
                           struct fault *f)
{
    const char *own = h->facts.info.metric;

    if (!own)
        return fault_set(f, ERR_INVAL,
                         "/metric: expected none, since this application has "
                         "no metric, found \"%s\"",
                         name);
    return fault_set(f, ERR_INVAL,
                     "/metric: expected \"%s\", the only metric of this "
                     "application, found \"%s\"",
                     own, name);
}

/* Says what @h, whose data are of @classes (0: numbers), could be asked for. */
static enum err refuse(const struct host *h, const char *name, unsigned classes,
                       struct fault *f)
{
    enum metric_task task = classes ? METRICS_OF_CLASSES : METRICS_OF_NUMBERS;
    const struct metric *known = metrics_find(task, name);
    const char *own = h->facts.info.metric;
    char names[METRICS_TEXT_MAX];

    if (!own || metrics_find(task, own))
        own = "";
    return fault_set(f, ERR_INVAL,
                     "/metric: expected one of %s%s%s, found \"%s\"%s", own,
                     *own ? ", " : "", metrics_text(classes, names), name,
                     known ? ", which is of two classes" : "");
}

static enum err part_init(struct host_metric *m, unsigned classes, unsigned i,
                          struct fault *f)
{
    struct metric_part *p = &m->part[i];
    uint64_t room = i == 0 ? m->samples : m->samples / m->workers + 1;
    enum err err = scores_init(&p->scores, classes, room);

    if (err)
        return fault_set(f, err, "metric of %u classes: %s", classes,
                         err_text(err));
    p->row = mem_alloc(m->chunk * (m->columns + 1) * sizeof(*p->row));
    return p->row ? ERR_OK : fault_set(f, ERR_NOMEM, "metric: out of memory");
}

/* A prediction that is right: the truth, and certainty of it. */
static void be_right(struct host_metric *m, double *row, double truth)
{
    memset(row, 0, m->columns * sizeof(*row));
    row[0] = truth;
    if (m->columns > 1 && truth >= 0 && truth < m->columns - 1)
        row[1 + (unsigned)truth] = 1;
}

/* The metric of predictions that are all right is a number, if there is one for
 * such samples at all. */
static enum err check_truth(struct host_metric *m, struct fault *f)
{
    const struct mlt_app_ops *app = m->host->facts.app;
    const struct mlt_error none = {0};
    struct metric_part *p = &m->part[0];
    double *truth = p->row + m->chunk * m->columns;
    uint64_t n;
    int code;

    for (uint64_t at = 0; at < m->samples; at += n) {
        n = m->samples - at < m->chunk ? m->samples - at : m->chunk;
        code = app->truth(m->host->app, at, n, truth);
        if (code)
            return host_take_error(code, &none, "what is true", f);
        for (uint64_t i = 0; i < n; i++) {
            be_right(m, p->row, truth[i]);
            if (!scores_fit(&p->scores, p->row, truth[i]))
                return fault_set(f, ERR_APP,
                                 "validation sample %llu: expected a class "
                                 "below %u, found %g",
                                 (unsigned long long)at + i, p->scores.classes,
                                 truth[i]);
            scores_add(&p->scores, p->row, truth[i]);
        }
    }
    if (isnan(scores_value(&p->scores, m->metric)))
        return fault_set(f, ERR_INVAL,
                         "/metric: expected validation data of which %s has a "
                         "value, found %s in all %llu samples",
                         m->metric->name,
                         p->scores.classes ? "one class" : "one number",
                         (unsigned long long)m->samples);
    return ERR_OK;
}

/* What it is, by what the application's columns are. */
static enum err choose(struct host *h, const char *name, unsigned *classes,
                       const struct metric **out, uint32_t *columns,
                       struct fault *f)
{
    const struct mlt_column *column = NULL;
    struct mlt_error e = {0};
    int code = h->facts.app->columns(h->app, &column, columns, &e);

    if (code)
        return host_take_error(code, &e, "columns to predict", f);
    *classes = *columns > 0 && column->label ? column->labels : 0;
    if (*columns != *classes + 1)
        return refuse_all(h, name, f);
    *out =
        metrics_find(*classes ? METRICS_OF_CLASSES : METRICS_OF_NUMBERS, name);
    if (!*out || !metrics_has(*out, *classes))
        return refuse(h, name, *classes, f);
    return ERR_OK;
}

static enum err fill(struct host_metric *m, unsigned classes, struct fault *f)
{
    enum err err = ERR_OK;

    m->samples = m->host->facts.info.validation_samples;
    m->chunk = CHUNK_VALUES / (m->columns + 1) + 1;
    m->workers = m->host->workers;
    m->part = mem_calloc(m->workers, sizeof(*m->part));
    if (!m->part)
        return fault_set(f, ERR_NOMEM, "metric: out of memory");
    for (unsigned i = 0; i < m->workers && !err; i++)
        err = part_init(m, classes, i, f);
    return err ? err : check_truth(m, f);
}

enum err host_metric_open(struct host *h, const char *name,
                          struct host_metric **out, struct fault *f)
{
    struct mlt_app_info *info = &h->facts.info;
    const struct metric *metric = NULL;
    struct host_metric *m;
    unsigned classes = 0;
    uint32_t columns = 0;
    enum err err;

    assert(h->app && out);
    *out = NULL;
    if (!name || h->evaluate)
        return ERR_OK;
    if (info->validation_samples == 0)
        return fault_set(f, ERR_INVAL,
                         "/metric: expected validation data to measure \"%s\" "
                         "on (app.test, or app.test_fraction above 0), found "
                         "none",
                         name);
    if (info->metric && strcmp(name, info->metric) == 0)
        return ERR_OK;
    if (!app_validates(h->facts.app))
        return refuse_all(h, name, f);
    err = choose(h, name, &classes, &metric, &columns, f);
    if (err)
        return err;
    m = mem_calloc(1, sizeof(*m));
    if (!m || pthread_mutex_init(&m->lock, NULL) != 0) {
        mem_free(m);
        return fault_set(f, ERR_NOMEM, "metric: out of memory");
    }
    assert(metric);
    m->host = h;
    m->metric = metric;
    m->columns = columns;
    err = fill(m, classes, f);
    if (err) {
        host_metric_close(m);
        return err;
    }
    info->metric = metric->name;
    info->metric_higher_better = metric->higher_better;
    info->metric_reduction = metric->share ? MLT_MEAN : MLT_WHOLE;
    *out = m;
    return ERR_OK;
}

void host_metric_close(struct host_metric *m)
{
    if (!m)
        return;
    for (unsigned i = 0; m->part && i < m->workers; i++) {
        scores_deinit(&m->part[i].scores);
        mem_free(m->part[i].row);
    }
    mem_free(m->part);
    pthread_mutex_destroy(&m->lock);
    mem_free(m);
}

/* ---- a testing clock ----------------------------------------------------- */

void host_metric_begin(struct host_metric *m)
{
    assert(m);
    m->arrived = 0;
    m->broken = false;
}

static bool any_nan(const double *row, uint32_t columns)
{
    for (uint32_t k = 0; k < columns; k++)
        if (isnan(row[k]))
            return true;
    return false;
}

/* The next @n samples from @at on. *@broken: one of them is no number. */
static int predict_chunk(struct host_metric *m, struct mlt_worker *w,
                         struct metric_part *p, uint64_t at, uint64_t n,
                         bool *broken)
{
    const struct mlt_app_ops *app = m->host->facts.app;
    double *truth = p->row + m->chunk * m->columns;
    int code = app->predict(m->host->app, w, at, n, p->row);

    if (!code)
        code = app->truth(m->host->app, at, n, truth);
    for (uint64_t i = 0; !code && i < n && !*broken; i++) {
        const double *row = p->row + i * m->columns;

        if (any_nan(row, m->columns))
            *broken = true;
        else if (scores_fit(&p->scores, row, truth[i]))
            scores_add(&p->scores, row, truth[i]);
        else
            code = ERR_APP; /* it says a class that there is not */
    }
    return code;
}

/* Worker @local has predicted its share: whether it is the last one. */
static bool arrive(struct host_metric *m, bool broken)
{
    bool last;

    pthread_mutex_lock(&m->lock);
    m->broken |= broken;
    last = ++m->arrived % m->workers == 0;
    pthread_mutex_unlock(&m->lock);
    return last;
}

/* In the order of the workers, whichever of them is the last. */
static double value_of_all(struct host_metric *m)
{
    for (unsigned i = 1; i < m->workers; i++)
        scores_join(&m->part[0].scores, &m->part[i].scores);
    if (m->broken) {
        m->broken = false;
        return NAN;
    }
    return scores_value(&m->part[0].scores, m->metric);
}

int host_metric_clock(struct host_metric *m, struct mlt_worker *w,
                      unsigned local)
{
    struct metric_part *p = &m->part[local];
    uint64_t first = m->samples * local / m->workers;
    uint64_t end = m->samples * (local + 1) / m->workers, n;
    bool broken = false;
    int code = 0;

    assert(local < m->workers);
    if (ps_node(m->host->ps) != 0)
        return 0;
    scores_reset(&p->scores);
    for (uint64_t at = first; at < end && !code && !broken; at += n) {
        n = end - at < m->chunk ? end - at : m->chunk;
        code = predict_chunk(m, w, p, at, n, &broken);
    }
    if (!code && arrive(m, broken))
        mlt_report(w, value_of_all(m) * (double)m->samples, m->samples);
    return code;
}
