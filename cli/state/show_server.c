/* `mltune show RUN` at a server: the same picture from what it says over HTTP.
 */
#include "cli/state/show.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/progress.h"
#include "cli/basics/table.h"
#include "cli/state/source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DECISIONS_MAX = 40 };

/* A run with its lists as its server has them. */
struct seen {
    json_t *run, *trials, *epochs, *decisions; /* owned */
};

static void seen_deinit(struct seen *s)
{
    json_decref(s->run);
    json_decref(s->trials);
    json_decref(s->epochs);
    json_decref(s->decisions);
}

static enum err fetch_list(struct source *s, const char *id, const char *name,
                           json_t **out, struct fault *f)
{
    char target[RUN_ID_MAX + 64];

    snprintf(target, sizeof(target), "/api/v1/runs/%s/%s", id, name);
    return source_list(s, target, name, out, f);
}

static enum err fetch(struct source *s, const char *word, struct seen *out,
                      struct fault *f)
{
    char id[RUN_ID_MAX + 1], target[RUN_ID_MAX + 64];
    enum err err = source_find(s, word, id, f);

    if (err)
        return err;
    snprintf(target, sizeof(target), "/api/v1/runs/%s", id);
    err = source_get(s, target, &out->run, f);
    if (!err)
        err = fetch_list(s, id, "trials", &out->trials, f);
    if (!err)
        err = fetch_list(s, id, "epochs", &out->epochs, f);
    if (!err)
        err = fetch_list(s, id, "decisions", &out->decisions, f);
    return err;
}

/* ---- as JSON ------------------------------------------------------------- */

static int print_json(const struct seen *s)
{
    char *text = NULL;

    if (json_object_set(s->run, "trial_list", s->trials) == 0 &&
        json_object_set(s->run, "epoch_list", s->epochs) == 0 &&
        json_object_set(s->run, "decision_list", s->decisions) == 0)
        text = json_write(s->run, 0);
    if (text)
        printf("%s\n", text);
    else
        console_error("out of memory");
    mem_free(text);
    return text ? EXIT_DONE : EXIT_RUN_FAILED;
}

/* ---- as text ------------------------------------------------------------- */

static const char *text_at(const json_t *o, const char *pointer)
{
    const char *text = json_string_value(json_at(o, pointer));

    return text ? text : "";
}

static long long count_at(const json_t *o, const char *pointer)
{
    return json_integer_value(json_at(o, pointer));
}

/* NAN for null. */
static double number_at(const json_t *o, const char *pointer)
{
    double number;

    return json_to_number(json_at(o, pointer), &number) ? number : NAN;
}

static void print_best(const json_t *run, FILE *out)
{
    double metric = number_at(run, "/best/metric");

    if (!json_is_object(json_at(run, "/best"))) {
        fprintf(out, "best      none: no epoch was finished\n");
        return;
    }
    fprintf(out, "best      epoch %lld of %lld: ", count_at(run, "/best/epoch"),
            count_at(run, "/epochs"));
    if (!isnan(metric))
        fprintf(out, "%s %.5g, ", text_at(run, "/job/metric/name"), metric);
    fprintf(out, "training loss %.5g\n", number_at(run, "/best/loss"));
}

void show_answer(const json_t *run, FILE *out)
{
    const char *why = text_at(run, "/reason");
    char setting[512];

    if (!*why)
        why = text_at(run, "/status_reason");
    fprintf(out, "run       %s (%s)\n", text_at(run, "/run"),
            text_at(run, "/name"));
    fprintf(out, "status    %s%s%s\n", text_at(run, "/status"),
            *why ? ": " : "", why);
    if (*text_at(run, "/message"))
        fprintf(out, "          %s\n", text_at(run, "/message"));
    if (json_is_object(json_at(run, "/queue")))
        fprintf(out, "queue     group %s, submitted %s\n",
                text_at(run, "/queue/group"),
                text_at(run, "/queue/submitted_at"));
    if (json_is_object(json_at(run, "/job")))
        fprintf(
            out,
            "job       %s, %lld samples, %lld for validation, %lld workers, "
            "seed %lld\n"
            "tuner     %s, searcher %s\n",
            text_at(run, "/job/app"), count_at(run, "/job/samples"),
            count_at(run, "/job/validation_samples"),
            count_at(run, "/job/workers"), count_at(run, "/seed"),
            text_at(run, "/tuning/strategy"), text_at(run, "/tuning/searcher"));
    print_best(run, out);
    progress_setting(json_at(run, "/setting"), setting, sizeof(setting));
    fprintf(out, "setting   %s\n", setting);
    fprintf(out, "tuning    %lld searches, %lld trials, %lld clocks of %lld\n",
            count_at(run, "/tuning/searches"), count_at(run, "/tuning/trials"),
            count_at(run, "/tuning/clocks"), count_at(run, "/clocks"));
}

static void print_rows(struct table *t, const char *title)
{
    if (t->cells > t->columns) {
        printf("\n%s\n", title);
        if (table_print(t, stdout, "  "))
            console_error("out of memory: rows are missing");
    }
    table_deinit(t);
}

static void print_trials(const json_t *trials)
{
    struct table t = {.columns = 5};
    const json_t *item;
    size_t i;

    table_add(&t, "TRIAL");
    table_add(&t, "LABEL");
    table_add(&t, "SPEED");
    table_add(&t, "CLOCKS");
    table_add(&t, "SETTING");
    json_array_foreach(trials, i, item)
    {
        char setting[256];

        progress_setting(json_at(item, "/setting"), setting, sizeof(setting));
        table_add(&t, "%lld", count_at(item, "/trial"));
        table_add(&t, "%s", text_at(item, "/label"));
        table_add(&t, "%.4g", number_at(item, "/speed"));
        table_add(&t, "%lld", count_at(item, "/clocks"));
        table_add(&t, "%s", setting);
    }
    print_rows(&t, "trials");
}

static void print_epochs(const json_t *epochs, const char *metric)
{
    struct table t = {.columns = 4};
    const json_t *item;
    size_t i;

    table_add(&t, "EPOCH");
    table_add(&t, "LOSS");
    table_add(&t, "%s", *metric ? metric : "METRIC");
    table_add(&t, "%s", "");
    json_array_foreach(epochs, i, item)
    {
        bool surviving = json_is_true(json_at(item, "/surviving"));
        bool best = json_is_true(json_at(item, "/best"));

        table_add(&t, "%lld", count_at(item, "/epoch"));
        table_add(&t, "%.6g", number_at(item, "/loss"));
        table_add(&t, "%.6g", number_at(item, "/metric"));
        table_add(&t, "%s", !surviving ? "finalist" : best ? "best" : "");
    }
    print_rows(&t, "epochs");
}

static void print_decisions(const json_t *decisions)
{
    size_t n = json_array_size(decisions);
    size_t i = n > DECISIONS_MAX ? n - DECISIONS_MAX : 0;

    if (n > 0)
        printf("\ndecisions\n");
    for (; i < n; i++) {
        const json_t *item = json_array_get(decisions, i);

        printf("  %s: %s\n", text_at(item, "/decision"),
               text_at(item, "/text"));
    }
}

int show_at_server(const char *server, const char *word, bool json)
{
    struct seen seen = {.run = NULL};
    struct source source;
    struct fault f = {0};
    int code = EXIT_DONE;
    enum err err = source_open(&source, server, "", &f);

    if (!err)
        err = fetch(&source, word, &seen, &f);
    if (err) {
        console_error("%s", f.text);
        code = source_exit_code(err);
    } else if (json) {
        code = print_json(&seen);
    } else {
        show_answer(seen.run, stdout);
        print_trials(seen.trials);
        print_epochs(seen.epochs, text_at(seen.run, "/job/metric/name"));
        print_decisions(seen.decisions);
    }
    seen_deinit(&seen);
    source_close(&source);
    return code;
}
