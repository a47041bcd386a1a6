#include "tests/unit/app_run.h"

#include <math.h>
#include <stdio.h>

#include "tests/unit/check.h"

static enum err open_host(const struct mlt_app_ops *app, uint64_t seed,
                          const char *dir, const char *text, struct host **host,
                          struct fault *f)
{
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);
    struct host_config c = {.app = app,
                            .config = json,
                            .folder = ".",
                            .seed = seed,
                            .evaluate = dir};
    enum err err;

    if (!json)
        fail_msg("%s: %s", error.text, text);
    err = host_open(&c, host, f);
    json_decref(json);
    return err;
}

void app_run_open(struct app_run *r, const struct mlt_app_ops *app,
                  uint64_t seed, const char *setting, const char *format, ...)
{
    struct fault f = {0};
    const struct host_facts *facts;
    char text[1024];
    uint64_t batch;
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    if (open_host(app, seed, NULL, text, &r->host, &f))
        fail_msg("%s\n%s", f.text, text);
    r->setting = json_loads(setting, 0, NULL);
    assert_non_null(r->setting);
    facts = host_facts(r->host);
    batch =
        (uint64_t)json_integer_value(json_object_get(r->setting, "batch_size"));
    batch = (batch ? batch : 64) * facts->order.workers;
    r->clocks = facts->order.parts ? facts->order.parts
                                   : (facts->info.samples + batch - 1) / batch;
    assert_int_equal(ps_fork(host_ps(r->host), 1, 0, BRANCH_TRAINING), ERR_OK);
}

void app_run_close(struct app_run *r)
{
    json_decref(r->setting);
    host_close(r->host);
}

void app_run_refused(const struct mlt_app_ops *app, enum err code,
                     const char *says, const char *format, ...)
{
    struct host *host = NULL;
    struct fault f = {0};
    char text[1024];
    enum err err;
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    err = open_host(app, 1, NULL, text, &host, &f);
    if (err != code || !strstr(f.text, says))
        fail_msg("%s\n%s: %s\nwanted %s: %s", text, err_name(err), f.text,
                 err_name(code), says);
}

static double slice(struct app_run *r, branch_id branch, enum branch_type type,
                    uint64_t count)
{
    struct host_slice s = {branch, type, r->setting, count,
                           (count + 999) / 1000};
    struct host_result result;
    struct fault f = {0};
    double sum = 0;
    uint64_t samples = 0;
    uint32_t i;

    if (host_slice_begin(r->host, &s, &f) ||
        host_slice_end(r->host, &result, &f))
        fail_msg("%s", f.text);
    for (i = 0; i < host_slice_windows(r->host); i++) {
        sum += host_slice_window(r->host, i)->sum;
        samples += host_slice_window(r->host, i)->samples;
    }
    assert_true(samples > 0);
    return sum / (double)samples;
}

double app_run_train(struct app_run *r, unsigned epochs)
{
    double loss = NAN;

    while (epochs-- > 0)
        loss = slice(r, 1, BRANCH_TRAINING, r->clocks);
    return loss;
}

double app_run_metric(struct app_run *r)
{
    double metric;

    assert_int_equal(ps_fork(host_ps(r->host), 9, 1, BRANCH_TESTING), ERR_OK);
    metric = slice(r, 9, BRANCH_TESTING, 1);
    assert_int_equal(ps_drop(host_ps(r->host), 9), ERR_OK);
    if (host_facts(r->host)->info.metric_reduction == MLT_SQRT_MEAN)
        metric = sqrt(metric);
    return metric;
}

void app_run_save(struct app_run *r, const char *dir)
{
    struct fault f = {0};
    json_t *data = NULL;
    uint64_t bytes;

    if (host_save(r->host, 1, dir, &bytes, &data, &f))
        fail_msg("%s", f.text);
    assert_true(json_is_object(json_object_get(data, "app")));
    json_decref(data);
}

struct host_score app_run_evaluate(const struct mlt_app_ops *app,
                                   const char *dir, const char *config)
{
    struct host *host = NULL;
    struct host_score score = {0};
    struct fault f = {0};

    if (open_host(app, 1, dir, config, &host, &f) ||
        host_evaluate(host, &score, &f))
        fail_msg("%s\n%s", f.text, config);
    host_close(host);
    return score;
}

double app_run_value(struct app_run *r, const char *table, uint64_t row,
                     uint32_t width, uint32_t j)
{
    double values[1024];

    assert_true(width <= 1024 && j < width);
    assert_int_equal(ps_read_rows(host_ps(r->host), 1, table, row, 1, values),
                     ERR_OK);
    return values[j];
}
