/* `mltune compare CONFIG --strategies A,B`: the same job under several
 * strategies, with the same seeds, one run after another.
 *
 * Each run is a child `mltune run --json`: what one run does (a crash, memory,
 * threads, signals) cannot touch another or the table, every run is measured as
 * a user's own would be, and it is a run like any other in the state folder.
 * Seeds go round before strategies repeat, so that a machine that is slow for a
 * while is so for all, and a table that is cut short is fair. */
#include "base/clock_io.h"
#include "base/deadlines.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/talk_io.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/progress.h"
#include "cli/basics/signals.h"
#include "cli/basics/verbs.h"
#include "cli/compare/comparison.h"
#include "cli/compare/contender.h"
#include "cli/compare/subrun.h"
#include "cli/config/config_file.h"
#include "cli/state/replay.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SEEDS_DEFAULT = 3, FILES_MAX = 100 };

struct compare {
    const char *config_path, *strategies, *searchers, *state, *name;
    struct option_list sets;
    struct option_uint seeds, seed;
    bool json;
    struct contenders contenders;
    struct run_config *config;
    struct comparison table;
    char folder[FILE_PATH_MAX]; /* the state's, absolute */
    char json_path[FILE_PATH_MAX], csv_path[FILE_PATH_MAX];
    int signal_fd, signal; /* the first that came; 0: none */
    size_t made, whole;    /* runs */
    size_t unread;         /* of them */
};

/* ---- arguments ----------------------------------------------------------- */

static int parse_arguments(struct compare *c, int argc, char **argv)
{
    const struct option_spec options[] = {
        {"strategies", 0, OPTION_TEXT, "LIST",
         "what to compare: STRATEGY[:SEARCHER][+KEY=VALUE]..., with commas",
         &c->strategies},
        {"searchers", 0, OPTION_TEXT, "LIST",
         "each strategy without a searcher with each of these", &c->searchers},
        {"seeds", 0, OPTION_UINT, "N", "runs of each, with seeds in a row (3)",
         &c->seeds},
        {"seed", 0, OPTION_UINT, "N", "the first seed (the configuration's)",
         &c->seed},
        {"set", 0, OPTION_LIST, "PATH=VALUE",
         "set a value for all runs, as in mltune run", &c->sets},
        {"state", 0, OPTION_TEXT, "DIR",
         "where runs and tables are kept (" STATE_DEFAULT ")", &c->state},
        {"name", 0, OPTION_TEXT, "NAME", "name of the runs and the table",
         &c->name},
        {"json", 0, OPTION_FLAG, NULL,
         "the table as one JSON object, last line on stdout", &c->json},
    };
    const struct usage usage = {
        .verb = "compare",
        .operands = "CONFIG",
        .details =
            "For example: --strategies mltuner,hyperband,fixed+schedule=cosine "
            "--seeds 5\nRuns go one after another; each is a run as any other "
            "(mltune ls, show).\nThe table goes to stdout and, as JSON and "
            "CSV, to STATE/compare. Time to\ntarget needs stop.target_metric "
            "or stop.target_loss; \">30 s\" is a run that\ntook 30 s without "
            "reaching it. Ctrl-C ends with the table so far.",
        .operands_min = 1,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code == OPTIONS_GO_ON)
        c->config_path = operands_at(&operands, 0);
    return code;
}

static int check_arguments(const struct compare *c)
{
    if (!c->strategies) {
        console_error(
            "--strategies is missing: what is to be compared? (mltune "
            "strategies lists them)");
        return EXIT_USAGE;
    }
    if (strcmp(c->config_path, "-") == 0) {
        console_error("CONFIG must be a file: each run reads it");
        return EXIT_USAGE;
    }
    if (c->seeds.given &&
        (c->seeds.value < 1 || c->seeds.value > COMPARISON_SEEDS_MAX)) {
        console_error("--seeds: expected 1 to %d", COMPARISON_SEEDS_MAX);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

/* The user's sets and those of @k; EXIT_USAGE where they are too many. */
static int join_sets(const struct compare *c, const struct contender *k,
                     struct option_list *out)
{
    *out = c->sets;
    if (out->len + k->sets_len > OPTION_VALUES_MAX) {
        console_error("more than %zu values are set",
                      OPTION_VALUES_MAX - k->sets_len);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < k->sets_len; i++)
        out->item[out->len++] = k->set[i];
    return EXIT_DONE;
}

/* The configuration as each contender has it is checked before anything runs.
 */
static int check_contender(const struct compare *c, const struct contender *k)
{
    struct problems problems = {0};
    struct run_config *config = NULL;
    struct option_list sets;
    int code = join_sets(c, k, &sets);

    if (code == EXIT_DONE)
        code = run_config_check(c->config_path, &sets, &config, &problems);
    if (code != EXIT_DONE) {
        run_config_say(c->config_path, &problems);
        console_error("%s cannot run", k->label);
    }
    run_config_free(config);
    problems_deinit(&problems);
    return code;
}

static int read_contenders(struct compare *c)
{
    struct fault f = {0};
    enum err err =
        contenders_read(c->strategies, c->searchers, &c->contenders, &f);
    int code;

    if (err) {
        console_error("%s", f.text);
        return err == ERR_NOMEM ? EXIT_RUN_FAILED : EXIT_USAGE;
    }
    code = run_config_load(c->config_path, &c->sets, &c->config);
    if (code != EXIT_DONE)
        return code;
    err = contenders_sets(&c->contenders, c->config, &f);
    if (err) {
        console_error("%s", f.text);
        return EXIT_RUN_FAILED;
    }
    for (size_t i = 0; i < c->contenders.len && code == EXIT_DONE; i++)
        code = check_contender(c, &c->contenders.item[i]);
    return code;
}

/* ---- the table's files --------------------------------------------------- */

static enum err file_name(struct compare *c, const char *folder, int n,
                          struct fault *f)
{
    char began[32], name[96];
    time_t now = (time_t)(clock_wall() / 1000000000);
    struct tm tm;
    enum err err;

    if (!gmtime_r(&now, &tm) ||
        strftime(began, sizeof(began), "%Y%m%d-%H%M%S", &tm) == 0)
        began[0] = '\0';
    snprintf(name, sizeof(name), "%s-%d.json", began, n);
    err = file_join(c->json_path, folder, name, f);
    snprintf(name, sizeof(name), "%s-%d.csv", began, n);
    return err ? err : file_join(c->csv_path, folder, name, f);
}

/* STATE/compare/TIME-N.json and .csv, N the first that is free. */
static enum err choose_files(struct compare *c, struct fault *f)
{
    char folder[FILE_PATH_MAX];
    enum err err = state_make(c->state, c->folder, f);

    if (!err)
        err = file_join(folder, c->folder, "compare", f);
    if (!err)
        err = folder_make(folder, f);
    for (int n = 1; !err && n <= FILES_MAX; n++) {
        err = file_name(c, folder, n, f);
        if (!err && access(c->json_path, F_OK) != 0)
            return ERR_OK;
    }
    return err ? err : fault_set(f, ERR_EXIST, "%s is full", folder);
}

static enum err save(const struct compare *c, struct fault *f)
{
    json_t *o = comparison_json(&c->table);
    char *json = o ? json_write(o, 2) : NULL;
    char *csv = comparison_csv(&c->table);
    enum err err = ERR_NOMEM;

    if (json && csv) {
        err = file_write(c->json_path, json, strlen(json), f);
        if (!err)
            err = file_write(c->csv_path, csv, strlen(csv), f);
    } else {
        fault_set(f, err, "out of memory");
    }
    json_decref(o);
    mem_free(json);
    mem_free(csv);
    return err;
}

/* ---- one run ------------------------------------------------------------- */

static double number_in(const json_t *o, const char *name)
{
    const json_t *x = json_object_get(o, name);

    return json_is_number(x) ? json_number_value(x) : NAN;
}

static void text_in(const json_t *o, const char *name, char *out, size_t size)
{
    const char *s = json_string_value(json_object_get(o, name));

    if (s)
        snprintf(out, size, "%s", s);
}

/* The result object: the last line that the child printed. */
static json_t *last_line(struct text *out)
{
    json_t *o = NULL;
    char *line;

    while (out->len > 0 && out->s[out->len - 1] == '\n')
        out->s[--out->len] = '\0';
    if (out->len == 0)
        return NULL;
    line = strrchr(out->s, '\n');
    line = line ? line + 1 : out->s;
    if (json_load(line, strlen(line), &o, NULL, NULL) || json_is_object(o))
        return o;
    json_decref(o);
    return NULL;
}

static void take_result(struct comparison_run *r, const json_t *o)
{
    const json_t *best = json_object_get(o, "best");
    const json_t *tuning = json_object_get(o, "tuning");

    text_in(o, "run", r->run, sizeof(r->run));
    text_in(o, "status", r->status, sizeof(r->status));
    text_in(o, "reason", r->reason, sizeof(r->reason));
    r->seconds = number_in(o, "seconds");
    r->loss = number_in(best, "loss");
    r->metric = number_in(best, "metric");
    r->tuning_s = number_in(tuning, "seconds");
    r->epochs = (uint64_t)json_integer_value(json_object_get(o, "epochs"));
    r->trials = (uint64_t)json_integer_value(json_object_get(tuning, "trials"));
    r->setting = json_copied(json_object_get(o, "setting"));
    r->whole = strcmp(r->status, "finished") == 0;
}

/* A run that said nothing: how its process ended is the reason. */
static void take_silence(struct comparison_run *r, int code)
{
    snprintf(r->status, sizeof(r->status), "failed");
    snprintf(r->reason, sizeof(r->reason), "%s_%d",
             code < 0 ? "signal" : "exit", abs(code));
}

static bool reaches(const struct comparison *t,
                    const struct record_epoch_ended *e)
{
    if (e->loss <= t->target_loss) /* a NAN compares false */
        return true;
    return t->higher_better ? e->metric >= t->target_metric
                            : e->metric <= t->target_metric;
}

/* From the journal: when the first epoch, of whatever trial, reached the
 * target. (The run's own seconds also hold the saving of the model.) */
static void take_target(struct comparison *t, struct comparison_run *r,
                        const struct history *h)
{
    if (history_started(h)) {
        snprintf(t->metric, sizeof(t->metric), "%s", history_run(h)->metric);
        t->higher_better = history_run(h)->metric_higher_better;
    }
    for (size_t i = 0; i < history_epochs_len(h); i++)
        if (reaches(t, &history_epoch_at(h, i)->e)) {
            r->target_s =
                history_epoch_at(h, i)->at_s - history_first_clock_at_s(h);
            return;
        }
}

/* A run whose records cannot be read counts in no figure: what its metric is,
 * and when it reached the target, is not known. */
static void look_into_journal(struct compare *c, struct comparison_run *r)
{
    char path[FILE_PATH_MAX];
    struct journal *j = NULL;
    struct replayed run;
    struct fault f = {0};

    if (r->run[0] == '\0')
        return;
    if (replay_open(c->state, path, &j, &f) == ERR_OK &&
        replay_run(j, path, r->run, &run, &f) == ERR_OK) {
        take_target(&c->table, r, &run.history);
        replayed_deinit(&run);
    } else {
        console_error("run %s is left out: %s", r->run, f.text);
        r->whole = false;
        r->unread = true;
        c->unread++;
    }
    journal_close(j);
}

enum { ARGV_MAX = 24 + 2 * OPTION_VALUES_MAX };

static int start_run(struct compare *c, const struct contender *k,
                     uint64_t seed, struct subrun *child, struct fault *f)
{
    char *argv[ARGV_MAX] = {"mltune", "run",     (char *)c->config_path,
                            "--json", "--state", (char *)c->state,
                            "--seed"};
    char number[32], name[RECORD_NAME_MAX];
    struct option_list sets;
    size_t n = 7;
    int code = join_sets(c, k, &sets);

    if (code != EXIT_DONE)
        return code;
    snprintf(number, sizeof(number), "%llu", (unsigned long long)seed);
    snprintf(name, sizeof(name), "%.30s-%.30s", c->table.name, k->strategy);
    argv[n++] = number;
    argv[n++] = "--name";
    argv[n++] = name;
    if (options_quiet() || options_verbose())
        argv[n++] = options_quiet() ? "-q" : "-v";
    for (size_t i = 0; i < sets.len; i++) {
        argv[n++] = "--set";
        argv[n++] = (char *)sets.item[i];
    }
    argv[n] = NULL;
    return subrun_start(child, argv, f) ? EXIT_IO : EXIT_DONE;
}

static void tell(const struct compare *c, const struct contender *k,
                 const struct comparison_run *r)
{
    double quality = comparison_quality(&c->table, r);
    char seconds[32] = "-", target[64] = "", best[32] = "-";

    if (!isnan(r->seconds))
        progress_duration(r->seconds, seconds, sizeof(seconds));
    if (!isnan(r->target_s)) {
        char text[32];

        progress_duration(r->target_s, text, sizeof(text));
        snprintf(target, sizeof(target), ", target after %s", text);
    }
    if (!isnan(quality)) /* else it came to no epoch */
        snprintf(best, sizeof(best), "%.5g", quality);
    console_note("  %s seed %llu: %s (%s) in %s%s, best %s %s", k->label,
                 (unsigned long long)r->seed, r->status, r->reason, seconds,
                 target, c->table.metric[0] ? c->table.metric : "loss", best);
}

static int run_one(struct compare *c, size_t row, size_t column)
{
    const struct contender *k = &c->contenders.item[row];
    struct comparison_run *r = &c->table.row[row].run[column];
    struct text out = {0};
    struct subrun child;
    struct fault f = {0};
    json_t *result;
    int ended, code;

    *r = (struct comparison_run){.seed = c->seed.value + column,
                                 .ran = true,
                                 .seconds = NAN,
                                 .target_s = NAN,
                                 .loss = NAN,
                                 .metric = NAN,
                                 .tuning_s = NAN};
    console_note("%zu of %zu: %s, seed %llu", c->made + 1,
                 c->table.rows * c->table.seeds, k->label,
                 (unsigned long long)r->seed);
    code = start_run(c, k, r->seed, &child, &f);
    if (code != EXIT_DONE) {
        r->ran = false;
        console_error("%s", f.text);
        return code;
    }
    ended = subrun_wait(&child, c->signal_fd, &out, &c->signal);
    result = last_line(&out);
    if (result) {
        take_result(r, result);
        text_in(result, "searcher", c->table.row[row].searcher,
                sizeof(c->table.row[row].searcher));
    } else {
        take_silence(r, ended);
        if (ended == 0) { /* it was said, and there was no memory for it */
            console_error("%s, seed %llu, is left out: out of memory", k->label,
                          (unsigned long long)r->seed);
            c->unread++;
        }
    }
    look_into_journal(c, r);
    json_decref(result);
    text_deinit(&out);
    c->made++;
    c->whole += r->whole;
    tell(c, k, r);
    return EXIT_DONE;
}

/* ---- all of them --------------------------------------------------------- */

static int run_all(struct compare *c)
{
    struct fault f = {0};

    for (size_t column = 0; column < c->table.seeds; column++)
        for (size_t row = 0; row < c->table.rows; row++) {
            int code = run_one(c, row, column);

            if (code != EXIT_DONE)
                return code;
            if (save(c, &f)) {
                console_error("%s", f.text);
                return EXIT_IO;
            }
            if (c->signal)
                return EXIT_SIGNAL + c->signal;
        }
    if (c->unread)
        return EXIT_IO;
    /* Some rows may have failed: they say so. */
    return c->whole > 0 ? EXIT_DONE : EXIT_RUN_FAILED;
}

static enum err make_table(struct compare *c)
{
    struct comparison *t = &c->table;
    enum err err = comparison_init(
        t, c->contenders.len, c->seeds.given ? c->seeds.value : SEEDS_DEFAULT);

    if (err)
        return err;
    snprintf(t->name, sizeof(t->name), "%s",
             c->name ? c->name : c->config->name);
    snprintf(t->config, sizeof(t->config), "%s", c->config_path);
    t->target_loss = c->config->target_loss;
    t->target_metric = c->config->target_metric;
    if (!c->seed.given)
        c->seed.value = c->config->seed;
    for (size_t i = 0; i < t->rows; i++) {
        const struct contender *k = &c->contenders.item[i];

        memcpy(t->row[i].label, k->label, sizeof(k->label));
        memcpy(t->row[i].strategy, k->strategy, sizeof(k->strategy));
        memcpy(t->row[i].searcher, k->searcher, sizeof(k->searcher));
    }
    return ERR_OK;
}

static int print_table(const struct compare *c)
{
    json_t *o;
    int code;

    if (c->json) {
        o = comparison_json(&c->table);
        code = console_json(o, 0);
        json_decref(o);
        return code;
    }
    if (comparison_print(&c->table, stdout) == 0) {
        printf("saved     %s\n          %s\n", c->json_path, c->csv_path);
        return EXIT_DONE;
    }
    console_error("out of memory");
    return EXIT_RUN_FAILED;
}

/* How long it may take, before it begins. */
static void say_length(const struct compare *c)
{
    size_t runs = c->table.rows * c->table.seeds;
    double each = c->config->max_time_s;
    char one[32], all[32];

    progress_duration(each, one, sizeof(one));
    progress_duration(each * (double)runs, all, sizeof(all));
    if (isfinite(each))
        console_note("%zu runs, one after another, of at most %s each: at most "
                     "%s, and what it takes to start them",
                     runs, one, all);
    else
        console_note("%zu runs, one after another; --set stop.max_time=60s "
                     "would bound each of them",
                     runs);
}

static int compare(struct compare *c)
{
    struct fault f = {0};
    enum err err =
        signals_open_guarded(&c->signal_fd, DEADLINE_STOP_SERVICE_MS, true, &f);
    int code, printed;

    if (!err)
        err = choose_files(c, &f);
    if (!err && make_table(c))
        err = fault_set(&f, ERR_NOMEM, "out of memory");
    if (err) {
        console_error("%s", f.text);
        return err == ERR_NOMEM ? EXIT_RUN_FAILED : EXIT_IO;
    }
    say_length(c);
    talk_hurry(true);
    code = run_all(c);
    talk_hurry(false);
    printed = c->made ? print_table(c) : EXIT_DONE;
    return code != EXIT_DONE ? code : printed;
}

int verb_compare(int argc, char **argv)
{
    struct compare c = {.state = STATE_DEFAULT, .signal_fd = -1};
    int code = parse_arguments(&c, argc, argv);

    if (code != OPTIONS_GO_ON)
        return code;
    code = check_arguments(&c);
    if (code == EXIT_DONE)
        code = read_contenders(&c);
    if (code == EXIT_DONE)
        code = compare(&c);
    comparison_deinit(&c.table);
    contenders_deinit(&c.contenders);
    run_config_free(c.config);
    signals_close(c.signal_fd);
    return code;
}
