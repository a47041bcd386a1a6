/* `mltune eval MODEL DATA`: a saved model's loss and metric on other data. */
#include "apps/samples/samples.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/state/replay.h"
#include "cli/verbs/model_use.h"
#include "ps/node/scores.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char details[] =
    MODEL_OPERAND "DATA is what the\napplication reads: a file, a folder, a "
                  "glob, or gen:... Of data with a test set of\ntheir own "
                  "that is evaluated, else all of them.\n\n"
                  "Beside loss and metric of the run there are, as far as they "
                  "are of the model's kind:\n"
                  "  classes  accuracy, balanced_accuracy, macro_f1, log_loss, "
                  "of two classes auc;\n"
                  "           a confusion matrix: a row a true class, a column "
                  "a predicted one\n"
                  "  numbers  rmse, mae, r2 (ratings too)";

enum {
    CHUNK_VALUES = 1 << 16, /* predicted at a time, about */
    TEXT_CLASSES_MAX = 30,  /* of a matrix that people can read */
    TEXT_NAME_MAX = 12,     /* bytes of a name above a column */
};

struct verdict {
    struct host_score score;
    char metric[33];                 /* "" without one */
    const struct mlt_column *column; /* of the prediction; NULL: no scores */
    struct scores scores;
    struct score value[METRICS_MAX];
    size_t values;
};

/* ---- finding it out ------------------------------------------------------ */

static enum err compare_chunk(struct host *h, uint64_t at, uint64_t n,
                              uint32_t columns, double *row, double *truth,
                              struct scores *s, struct fault *f)
{
    enum err err = host_predict(h, at, n, row, f);

    if (!err)
        err = host_truth(h, at, n, truth, f);
    for (uint64_t i = 0; !err && i < n; i++)
        if (scores_fit(s, row + i * columns, truth[i]))
            scores_add(s, row + i * columns, truth[i]);
        else
            err = fault_set(f, ERR_APP,
                            "sample %" PRIu64 ": expected a class below %u and "
                            "its probabilities, found class %g where %g is "
                            "true",
                            at + i, s->classes, row[i * columns], truth[i]);
    return err;
}

static enum err compare_all(struct host *h, uint32_t columns, struct scores *s,
                            struct fault *f)
{
    uint64_t chunk = CHUNK_VALUES / columns + 1, n;
    double *row = mem_alloc(chunk * (columns + 1) * sizeof(*row));
    enum err err = ERR_OK;

    if (!row)
        return fault_set(f, ERR_NOMEM, "out of memory");
    for (uint64_t at = 0; at < s->room && !err; at += n) {
        n = s->room - at < chunk ? s->room - at : chunk;
        err =
            compare_chunk(h, at, n, columns, row, row + chunk * columns, s, f);
    }
    mem_free(row);
    return err;
}

/* What is predicted beside what is true, where the application says both: a
 * class and its probabilities, or a number. */
static enum err compare(struct host *h, struct verdict *v, struct fault *f)
{
    uint32_t columns = 0, labels;
    enum err err;

    if (!host_tells_truth(h))
        return ERR_OK;
    err = host_columns(h, &v->column, &columns, f);
    if (err)
        return err;
    labels = v->column->label ? v->column->labels : 0;
    if (columns != labels + 1)
        return fault_set(f, ERR_APP,
                         "expected a probability for each of %u classes, found "
                         "%u columns",
                         labels, columns);
    err = scores_init(&v->scores, labels, host_facts(h)->info.samples);
    if (err)
        return fault_set(f, err, "scores of %u classes: %s", labels,
                         err_text(err));
    err = compare_all(h, columns, &v->scores, f);
    if (!err)
        v->values = scores_metrics(&v->scores, v->value);
    return err;
}

/* The metric that the model was tuned by, where its configuration chose one of
 * the further ones. */
static void take_chosen(const struct model *m, struct verdict *v)
{
    const char *name = json_string_value(json_at(m->json, "/metric/name"));

    if (!name || strcmp(name, v->metric) == 0)
        return;
    for (size_t i = 0; i < v->values; i++)
        if (strcmp(v->value[i].metric->name, name) == 0) {
            snprintf(v->metric, sizeof(v->metric), "%s", name);
            v->score.metric = v->value[i].value;
        }
}

static enum err evaluate(struct model_use *u, struct verdict *out,
                         struct fault *f)
{
    const char *metric = host_facts(u->host)->info.metric;
    enum err err = host_evaluate(u->host, &out->score, f);

    if (err)
        return err;
    if (metric)
        snprintf(out->metric, sizeof(out->metric), "%s", metric);
    err = compare(u->host, out, f);
    if (!err)
        take_chosen(&u->model, out);
    return err;
}

/* ---- telling it ---------------------------------------------------------- */

static json_t *values_json(const struct verdict *v)
{
    json_t *o = json_object();
    int failed = 0;

    for (size_t i = 0; i < v->values; i++)
        failed |= json_object_set_new(o, v->value[i].metric->name,
                                      json_of_number(v->value[i].value));
    return json_whole(o, failed);
}

static json_t *confusion_json(const struct verdict *v)
{
    json_t *names = json_array(), *rows = json_array();
    int failed = 0;

    for (unsigned k = 0; k < v->scores.classes; k++) {
        json_t *row = json_array();

        for (unsigned j = 0; j < v->scores.classes; j++)
            failed |= json_array_append_new(
                row, json_integer((json_int_t)scores_of(&v->scores, k, j)));
        failed |=
            json_array_append_new(rows, row) |
            json_array_append_new(names, json_string(v->column->label[k]));
    }
    return json_pack("{s:o, s:o}", "classes", names, "counts",
                     json_whole(rows, failed));
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
    int code, failed = 0;

    if (v->values) {
        const char *task = v->scores.classes ? "classification" : "regression";

        failed |= json_object_set_new(o, "task", json_string(task));
        failed |= json_object_set_new(o, "metrics", values_json(v));
    }
    if (v->scores.classes)
        failed |= json_object_set_new(o, "confusion", confusion_json(v));
    o = json_whole(o, failed);
    code = console_json(o, 0);
    json_decref(o);
    return code;
}

/* Columns are headed by names where all are short, else by numbers, which then
 * stand before the rows' names too. */
static void print_confusion(const struct verdict *v)
{
    char name[TEXT_CLASSES_MAX][SAMPLES_NAME_BYTES_MAX];
    unsigned n = v->scores.classes;
    int widest = 9, cell; /* of "predicted" */
    bool numbers = false;
    char text[32];

    assert(n <= TEXT_CLASSES_MAX);
    for (unsigned k = 0; k < n; k++) {
        int length;

        snprintf(name[k], sizeof(name[k]), "%s", v->column->label[k]);
        text_clean(name[k]);
        length = (int)strlen(name[k]);
        numbers |= length > TEXT_NAME_MAX;
        widest = length > widest ? length : widest;
    }
    cell = snprintf(text, sizeof(text), "%llu",
                    (unsigned long long)v->scores.count);
    for (unsigned k = 0; k < n && !numbers; k++)
        cell = (int)strlen(name[k]) > cell ? (int)strlen(name[k]) : cell;
    cell = numbers && cell < 2 ? 2 : cell;
    printf("\nconfusion matrix, a row a true class:\n%s%*s",
           numbers ? "   " : "", widest, "predicted");
    for (unsigned k = 0; k < n; k++) {
        snprintf(text, sizeof(text), "%u", k);
        printf("  %*s", cell, numbers ? text : name[k]);
    }
    for (unsigned k = 0; k < n; k++) {
        putchar('\n');
        if (numbers)
            printf("%2u ", k);
        printf("%-*s", widest, name[k]);
        for (unsigned j = 0; j < n; j++)
            printf("  %*llu", cell,
                   (unsigned long long)scores_of(&v->scores, k, j));
    }
    putchar('\n');
}

/* The run's own metric first; it is among the others by the same name. */
static int print_text(const struct verdict *v)
{
    printf("samples %llu\n", (unsigned long long)v->score.samples);
    printf("loss %.6g\n", v->score.loss);
    if (v->metric[0])
        printf("%s %.6g\n", v->metric, v->score.metric);
    for (size_t i = 0; i < v->values; i++) {
        if (strcmp(v->value[i].metric->name, v->metric) != 0)
            printf("%s %.6g\n", v->value[i].metric->name, v->value[i].value);
    }
    if (v->scores.classes > TEXT_CLASSES_MAX)
        console_note("a confusion matrix of %u classes: --json has it",
                     v->scores.classes);
    else if (v->scores.classes)
        print_confusion(v);
    return EXIT_DONE;
}

static int eval(const char *name, const char *state, const char *data,
                const char *memory, bool json)
{
    struct verdict v = {.score = {.loss = NAN, .metric = NAN}};
    struct model_use use;
    struct fault f = {0};
    enum err err = model_use_open(name, state, data, memory, false, &use, &f);
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
    scores_deinit(&v.scores);
    model_use_close(&use);
    return code;
}

int verb_eval(int argc, char **argv)
{
    const char *state = STATE_DEFAULT, *memory = NULL;
    bool json = false;
    const struct option_spec options[] = {
        STATE_OPTION(state),
        MODEL_MEMORY_OPTION(memory),
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
                memory, json);
}
