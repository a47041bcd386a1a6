/* `mltune eval MODEL DATA`: a saved model's loss and metric on other data. */
#include "base/json/json.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/state/replay.h"
#include "cli/verbs/model_use.h"

#include <math.h>
#include <stdio.h>

static const char details[] =
    MODEL_OPERAND "DATA is what the\napplication reads: a file, a folder, a "
                  "glob, or gen:... Of data with a test set of\ntheir own "
                  "that is evaluated, else all of them.";

struct verdict {
    struct host_score score;
    char metric[33]; /* "" without one */
};

static enum err evaluate(struct model_use *u, struct verdict *out,
                         struct fault *f)
{
    const char *metric = host_facts(u->host)->info.metric;
    enum err err = host_evaluate(u->host, &out->score, f);

    if (!err && metric)
        snprintf(out->metric, sizeof(out->metric), "%s", metric);
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

static int eval(const char *name, const char *state, const char *data,
                bool json)
{
    struct verdict v = {.score = {.loss = NAN, .metric = NAN}};
    struct model_use use;
    struct fault f = {0};
    enum err err = model_use_open(name, state, data, false, &use, &f);
    int code;

    if (err) {
        console_error("%s", f.text);
        return exit_code_of(err);
    }
    err = evaluate(&use, &v, &f);
    if (err) {
        console_error("%s", f.text);
        code = exit_code_of(err);
    } else {
        code =
            json ? print_json(&use.model, use.dir, data, &v) : print_text(&v);
    }
    model_use_close(&use);
    return code;
}

int verb_eval(int argc, char **argv)
{
    const char *state = STATE_DEFAULT;
    bool json = false;
    const struct option_spec options[] = {
        STATE_OPTION(state),
        {"json", 0, OPTION_FLAG, NULL,
         "the result as one JSON object on stdout", &json},
    };
    const struct usage usage = {
        .verb = "eval",
        .operands = "MODEL DATA",
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
    return eval(operands_at(&operands, 0), state, operands_at(&operands, 1),
                json);
}
