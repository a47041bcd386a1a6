/* `mltune eval MODEL DATA`: a saved model's loss and metric on other data. */
#include "base/json/json.h"
#include "base/json/registry.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/config/registry.h"
#include "cli/state/model_io.h"
#include "ps/node/app_plugin_io.h"
#include "ps/node/host_io.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static const char details[] =
    "MODEL is a model folder, DATA what the application reads: a file, a "
    "folder, a\nglob, or gen:... Nothing is split off: loss and metric are "
    "over all of it.";

/* The configuration to open the application with: its settings at training, on
 * other data. NULL when out of memory. */
static json_t *eval_config(const struct model *m, const char *data)
{
    json_t *settings = json_deep_copy(m->settings);

    /* All of DATA is evaluated: there is no split. */
    json_object_del(settings, "test");
    json_object_del(settings, "test_fraction");
    if (!settings ||
        json_object_set_new(settings, "data", json_string(data)) != 0) {
        json_decref(settings);
        return NULL;
    }
    return json_pack("{s:o}", "app", settings);
}

static enum err find_app(const struct model *m, const char *dir,
                         const struct mlt_app_ops **out, struct fault *f)
{
    const struct registry_entry *e =
        registry_find(cli_registry(), REGISTRY_APP, m->app);
    const char *plugin =
        json_string_value(json_object_get(m->settings, "plugin"));
    char names[256];

    if (json_object_get(m->settings, "command"))
        return fault_set(f, ERR_UNSUPPORTED,
                         "%s: the model of a program of your own, %s, which "
                         "alone can evaluate it",
                         dir, m->app);
    if (plugin)
        return app_plugin_open(plugin, out, f);
    if (!e || !e->ops)
        return fault_set(
            f, ERR_UNSUPPORTED, "%s: there is no application %s; there are %s",
            dir, m->app,
            registry_names(cli_registry(), REGISTRY_APP, names, sizeof(names)));
    *out = e->ops;
    return ERR_OK;
}

struct verdict {
    struct host_score score;
    char metric[33]; /* "" without one */
};

static enum err evaluate(const struct model *m, const char *dir,
                         const char *data, struct verdict *out, struct fault *f)
{
    char folder[4096];
    struct host_config c = {.folder = folder, .seed = m->seed, .evaluate = dir};
    json_t *config = NULL;
    struct host *h = NULL;
    enum err err = find_app(m, dir, &c.app, f);

    if (err)
        return err;
    if (!getcwd(folder, sizeof(folder)))
        return fault_set(f, ERR_IO, "the current folder has no name");
    config = eval_config(m, data);
    if (!config)
        return fault_set(f, ERR_NOMEM, "out of memory");
    c.config = config;
    err = host_open(&c, &h, f);
    if (!err)
        err = host_evaluate(h, &out->score, f);
    if (!err && host_facts(h)->info.metric)
        snprintf(out->metric, sizeof(out->metric), "%s",
                 host_facts(h)->info.metric);
    host_close(h);
    json_decref(config);
    return err;
}

static int print_json(const struct model *m, const char *dir, const char *data,
                      const struct verdict *v)
{
    json_t *metric =
        v->metric[0] ? json_of_number(v->score.metric) : json_null();
    json_t *o = json_pack("{s:s, s:s, s:s, s:o, s:o, s:s?, s:I}", "model", dir,
                          "app", m->app, "data", data, "loss",
                          json_of_number(v->score.loss), "metric", metric,
                          "metric_name", v->metric[0] ? v->metric : NULL,
                          "samples", (json_int_t)v->score.samples);
    int code = console_json(o, 0);

    json_decref(o);
    return code;
}

static int print_text(const struct verdict *v)
{
    printf("samples %llu\n", (unsigned long long)v->score.samples);
    printf("loss %.6g\n", v->score.loss);
    if (v->metric[0])
        printf("%s %.6g\n", v->metric, v->score.metric);
    return EXIT_DONE;
}

static int eval(const char *dir, const char *data, bool json)
{
    struct verdict v = {.score = {.loss = NAN, .metric = NAN}};
    struct fault f = {0};
    struct model m = {0};
    enum err err = model_read(dir, &m, &f);
    int code;

    if (!err)
        err = evaluate(&m, dir, data, &v, &f);
    if (err) {
        console_error("%s", f.text);
        code = exit_code_of(err);
    } else {
        code = json ? print_json(&m, dir, data, &v) : print_text(&v);
    }
    model_deinit(&m);
    return code;
}

int verb_eval(int argc, char **argv)
{
    bool json = false;
    const struct option_spec options[] = {
        {"json", 0, OPTION_FLAG, NULL,
         "the result as one JSON object on stdout", &json},
    };
    const struct usage usage = {
        .verb = "eval",
        .operands = "MODEL DATA",
        .summary = "a saved model's loss and metric on other data",
        .details = details,
        .operands_min = 2,
        .operands_max = 2,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    return eval(operands_at(&operands, 0), operands_at(&operands, 1), json);
}
