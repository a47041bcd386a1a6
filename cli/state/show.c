#include "cli/state/show.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/options.h"
#include "cli/basics/progress.h"
#include "cli/basics/table.h"
#include "cli/basics/verbs.h"
#include "cli/state/replay.h"
#include "cli/state/source.h"

#include <math.h>
#include <string.h>

enum { SHOW_DECISIONS_MAX = 40 }; /* latest; --json has all that are kept */

/* ---- the summary --------------------------------------------------------- */

static void print_outcome(const char *word, double loss, double metric,
                          const struct history *h, FILE *out)
{
    fprintf(out, "%s", word);
    if (!isnan(metric))
        fprintf(out, "%s %.5g, ", h->run.metric, metric);
    fprintf(out, "training loss %.5g\n", loss);
}

static void print_best(const struct history *h, FILE *out)
{
    const struct history_epoch *best = history_best_epoch(h);
    char word[64];

    if (!best) {
        fprintf(out, "best      none: no epoch was finished\n");
        return;
    }
    snprintf(word, sizeof(word), "best      epoch %u of %u: ", best->e.epoch,
             history_epochs(h));
    print_outcome(word, best->e.loss, best->e.metric, h, out);
}

static void print_time(const struct history *h, FILE *out)
{
    double whole =
        isnan(h->first_clock_at_s) ? 0 : h->at_s - h->first_clock_at_s;
    double tuning = history_tuning(h).seconds;
    char time[32], spent[32];

    progress_duration(whole, time, sizeof(time));
    progress_duration(tuning, spent, sizeof(spent));
    fprintf(out, "time      %s, %llu clocks\n", time,
            (unsigned long long)h->clocks);
    if (h->searches > 0)
        fprintf(out, "tuning    %zu search%s, %zu trials, %s (%.0f %% of it)\n",
                h->searches, h->searches == 1 ? "" : "es", h->trials, spent,
                whole > 0 ? 100 * fmin(tuning / whole, 1) : 0);
    if (h->finished && whole > 0)
        fprintf(out, "waiting   %.3g s for decisions (%.2g %% of it)\n",
                h->end.waiting_s, 100 * h->end.waiting_s / whole);
}

static void print_settings(const struct history *h, FILE *out)
{
    char setting[512];

    for (size_t i = 0; i < h->choices; i++) {
        const struct record_setting_chosen *c = &h->choice[i].c;

        progress_setting(c->setting, setting, sizeof(setting));
        if (i == 0)
            fprintf(out, "setting   %s\n", setting);
        else
            fprintf(out, "          from clock %llu: %s\n",
                    (unsigned long long)c->clock, setting);
    }
}

/* What several nodes have said to each other, and how fresh what they read
 * was. */
static void print_nodes(const struct history *h, FILE *out)
{
    struct staleness seen = nodes_staleness(&h->nodes);

    if (h->nodes.count < 2)
        return;
    fprintf(out, "nodes     %zu, %.4g MB between them", h->nodes.count,
            (double)nodes_sent(&h->nodes) * 1e-6);
    if (seen.reads)
        fprintf(out, "; reads missed %.3g clocks in the mean",
                -1 - staleness_mean(&seen));
    fprintf(out, "\n");
}

void show_summary(const struct history *h, FILE *out)
{
    const struct history_snapshot *snapshot = history_last_snapshot(h);

    print_best(h, out);
    print_settings(h, out);
    print_time(h, out);
    print_nodes(h, out);
    if (h->model.path[0])
        fprintf(out, "model     %s\n", h->model.path);
    if (snapshot)
        fprintf(out, "snapshot  %s (epoch %u)\n", snapshot->s.path,
                snapshot->s.epoch);
}

/* ---- as text ------------------------------------------------------------- */

static void heading(struct table *t, const char *const names[])
{
    for (t->columns = 0; names[t->columns]; t->columns++)
        table_add(t, "%s", names[t->columns]);
}

static void finish_table(struct table *t)
{
    if (table_print(t, stdout, "  "))
        fprintf(stderr, "mltune: out of memory: rows are missing\n");
    table_deinit(t);
}

static void print_trials(const struct history *h)
{
    static const char *const names[] = {"TRIAL",  "SEARCH", "LABEL",   "SPEED",
                                        "CLOCKS", "TIME",   "SETTING", NULL};
    struct table t = {0};

    if (h->trials == 0)
        return;
    printf("\ntrials\n");
    heading(&t, names);
    for (size_t i = 0; i < h->trials; i++) {
        const struct record_trial *trial = &h->trial[i].t;
        char time[32], setting[256];

        progress_duration(trial->seconds, time, sizeof(time));
        progress_setting(trial->setting, setting, sizeof(setting));
        table_add(&t, "%u%s", trial->trial, trial->incumbent ? "*" : "");
        table_add(&t, "%u", trial->search);
        table_add(&t, "%s", trial_label_name(trial->label));
        table_add(&t, "%.4g", trial->speed);
        table_add(&t, "%llu", (unsigned long long)trial->clocks);
        table_add(&t, "%s", time);
        table_add(&t, "%s", setting);
    }
    finish_table(&t);
}

static void print_epochs(const struct history *h)
{
    const char *const names[] = {
        "EPOCH", "LOSS", h->run.metric[0] ? h->run.metric : "METRIC",
        "TIME",  "",     "SETTING",
        NULL};
    struct table t = {0};

    if (h->epochs == 0)
        return;
    printf("\nepochs\n");
    heading(&t, names);
    for (size_t i = 0; i < h->epochs; i++) {
        const struct record_epoch_ended *e = &h->epoch[i].e;
        char time[32], setting[256];

        progress_duration(e->seconds, time, sizeof(time));
        progress_setting(e->setting, setting, sizeof(setting));
        table_add(&t, "%u", e->epoch);
        table_add(&t, "%.6g", e->loss);
        table_add(&t, "%.6g", e->metric);
        table_add(&t, "%s", time);
        table_add(&t, "%s", e->surviving ? e->best ? "best" : "" : "finalist");
        table_add(&t, "%s", setting);
    }
    finish_table(&t);
}

/* The numbers behind a decision, under its sentence. */
static void print_numbers(const struct record_decision *d)
{
    for (uint32_t i = 0; i < d->numbers; i++)
        printf("%s%s=%.6g", i == 0 ? "            " : " ", d->number[i].name,
               d->number[i].value);
    if (d->numbers > 0)
        putchar('\n');
}

static void print_decisions(const struct history *h)
{
    size_t first = h->decisions > SHOW_DECISIONS_MAX
                       ? h->decisions - SHOW_DECISIONS_MAX
                       : 0;
    uint64_t left_out = first + h->decisions_dropped;
    char time[32];

    if (h->decisions == 0)
        return;
    printf("\ndecisions\n");
    if (left_out > 0)
        printf("  (%llu earlier ones are left out)\n",
               (unsigned long long)left_out);
    for (size_t i = first; i < h->decisions; i++) {
        progress_duration(h->decision[i].at_s, time, sizeof(time));
        printf("  %8s  %s: %s\n", time, h->decision[i].d.decision,
               h->decision[i].d.text);
        print_numbers(&h->decision[i].d);
    }
}

static void print_run(const struct replayed *r, const char *state)
{
    const struct record_run_started *run = &r->history.run;
    char began[32];

    replay_time(r->began_ns, began, sizeof(began));
    printf("run       %s (%s)\n", r->id, r->name);
    printf("status    %s%s%s\n", r->status, r->reason[0] ? ": " : "",
           r->reason);
    if (r->history.finished && r->history.end.message[0])
        printf("          %s\n", r->history.end.message);
    if (!r->alive && replay_resumable(r)) {
        printf("resume    mltune resume %s", r->id);
        if (strcmp(state, STATE_DEFAULT) != 0)
            printf(" --state %s", state);
        printf("\n");
    }
    printf("began     %s\n", began);
    if (r->history.started)
        printf("job       %s, %llu samples, %llu for validation, %u workers, "
               "seed %llu\n"
               "tuner     %s, searcher %s\n",
               run->app, (unsigned long long)run->samples,
               (unsigned long long)run->validation_samples, run->workers,
               (unsigned long long)run->seed, run->strategy, run->searcher);
    show_summary(&r->history, stdout);
    print_trials(&r->history);
    print_epochs(&r->history);
    print_decisions(&r->history);
}

/* ---- as JSON ------------------------------------------------------------- */

/* NAN is null. */
static json_t *number(double x)
{
    return isnan(x) ? json_null() : json_of_number(x);
}

static json_t *trial_object(const struct record_trial *t)
{
    return json_pack("{s:I, s:I, s:O, s:s, s:b, s:o, s:I, s:I, s:o, s:o, s:s}",
                     "trial", (json_int_t)t->trial, "search",
                     (json_int_t)t->search, "setting", t->setting, "label",
                     trial_label_name(t->label), "incumbent", t->incumbent,
                     "speed", number(t->speed), "clocks", (json_int_t)t->clocks,
                     "samples", (json_int_t)t->samples, "seconds",
                     number(t->seconds), "window_noise",
                     number(t->window_noise), "reason", t->reason);
}

static json_t *epoch_object(const struct record_epoch_ended *e)
{
    return json_pack("{s:I, s:I, s:b, s:O, s:I, s:o, s:o, s:b, s:o}", "epoch",
                     (json_int_t)e->epoch, "branch", (json_int_t)e->branch,
                     "surviving", e->surviving, "setting", e->setting, "clock",
                     (json_int_t)e->clock, "loss", number(e->loss), "metric",
                     number(e->metric), "best", e->best, "seconds",
                     number(e->seconds));
}

static json_t *decision_object(const struct history_decision *d)
{
    json_t *numbers = json_object();
    int failed = 0;

    for (uint32_t i = 0; i < d->d.numbers; i++)
        failed |= json_object_set_new(numbers, d->d.number[i].name,
                                      number(d->d.number[i].value));
    if (failed) {
        json_decref(numbers);
        return NULL;
    }
    return json_pack("{s:o, s:I, s:s, s:s, s:o}", "at_s", number(d->at_s),
                     "clock", (json_int_t)d->clock, "decision", d->d.decision,
                     "text", d->d.text, "numbers", numbers);
}

static int put_lists(json_t *o, const struct history *h)
{
    json_t *trials = json_array(), *epochs = json_array();
    json_t *decisions = json_array();
    int failed = 0;

    for (size_t i = 0; i < h->trials; i++)
        failed |= json_array_append_new(trials, trial_object(&h->trial[i].t));
    for (size_t i = 0; i < h->epochs; i++)
        failed |= json_array_append_new(epochs, epoch_object(&h->epoch[i].e));
    for (size_t i = 0; i < h->decisions; i++)
        failed |=
            json_array_append_new(decisions, decision_object(&h->decision[i]));
    failed |= json_object_set_new(o, "trial_list", trials);
    failed |= json_object_set_new(o, "epoch_list", epochs);
    failed |= json_object_set_new(o, "decision_list", decisions);
    return failed;
}

/* What the run printed at its end if it did; else the same from its records. */
static json_t *result_object(const struct replayed *r, const char *state)
{
    json_t *o = r->result ? json_copy(r->result)
                          : history_result(&r->history, state, NULL);

    if (!o)
        return NULL;
    if (json_object_set_new(o, "run", json_string(r->id)) ||
        json_object_set_new(o, "status", json_string(r->status)) ||
        json_object_set_new(o, "reason", json_string(r->reason)) ||
        json_object_set_new(o, "name", json_string(r->name)) ||
        json_object_set_new(o, "alive", json_boolean(r->alive)) ||
        json_object_set_new(o, "resumable",
                            json_boolean(!r->alive && replay_resumable(r))) ||
        json_object_set_new(o, "started_unix_s",
                            json_real((double)r->began_ns * 1e-9)) ||
        json_object_set(o, "config", r->config) || put_lists(o, &r->history)) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static enum err print_json(const struct replayed *r, const char *state,
                           struct fault *f)
{
    json_t *o = result_object(r, state);
    char *text = o ? json_write(o, 0) : NULL;

    json_decref(o);
    if (!text)
        return fault_set(f, ERR_NOMEM, "out of memory");
    printf("%s\n", text);
    mem_free(text);
    return ERR_OK;
}

static enum err show_run(const char *state, const char *word, bool json,
                         struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct journal *j = NULL;
    struct replayed run;
    enum err err = replay_open(state, path, &j, f);

    if (err)
        return err;
    err = replay_run(j, path, word, &run, f);
    journal_close(j);
    if (err)
        return err;
    if (json)
        err = print_json(&run, path, f);
    else
        print_run(&run, state);
    replayed_deinit(&run);
    return err;
}

int verb_show(int argc, char **argv)
{
    const char *state = STATE_DEFAULT, *server = NULL;
    bool json = false;
    const struct option_spec options[] = {
        {"state", 0, OPTION_TEXT, "DIR", "state folder (" STATE_DEFAULT ")",
         &state},
        {"server", 0, OPTION_TEXT, "URL", REPLAY_SERVER_HELP, &server},
        CLIENT_CACERT_OPTION,
        {"json", 0, OPTION_FLAG, NULL,
         "one JSON object: the members of run --json, and config, trial_list, "
         "epoch_list, decision_list (of a server: the run as over HTTP, and "
         "these lists)",
         &json},
    };
    const struct usage usage = {
        .verb = "show",
        .operands = "RUN",
        .summary = "what a run did: settings, trials, epochs, decisions",
        .details = "RUN is an id, the beginning of one, or a name (its newest "
                   "run).",
        .operands_min = 1,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    struct fault f = {0};
    int code = options_parse(&usage, argc, argv, &operands);
    enum err err;

    if (code != OPTIONS_GO_ON)
        return code;
    server = source_server(server);
    if (server)
        return show_at_server(server, operands.item[0], json);
    err = show_run(state, operands.item[0], json, &f);
    if (err)
        console_error("%s", f.text);
    return replay_exit_code(err);
}
