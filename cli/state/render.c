#include "cli/state/render.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/text.h"
#include "cli/basics/console.h"
#include "cli/basics/fold.h"
#include "cli/basics/printable.h"
#include "cli/basics/progress.h"
#include "cli/basics/table.h"
#include "tuner/history/record.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    DECISIONS_MAX = 40, /* latest; --json has all that are kept */
    SETTING_TEXT_MAX = 2048,
    /* What a screen has room for: of the settings in turn, of further metrics.
     */
    SETTINGS_SHORT = 3,
    VALUES_SHORT = 4
};

/* ---- what is shown ------------------------------------------------------- */

/* Text of others is among it: nothing that a terminal would obey comes out. */
static void put(FILE *out, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void put(FILE *out, const char *fmt, ...)
{
    struct text shown = {0};
    struct printable filter = {.len = 0};
    char *raw = NULL;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    raw = n >= 0 ? mem_alloc((size_t)n + 1) : NULL;
    if (raw) {
        va_start(ap, fmt);
        vsnprintf(raw, (size_t)n + 1, fmt, ap);
        va_end(ap);
        printable_add(&filter, raw, (size_t)n, &shown);
        printable_end(&filter, &shown);
    }
    if (!raw || text_lost(&shown))
        console_error("out of memory: lines are missing");
    else
        fputs(text_so_far(&shown), out);
    text_deinit(&shown);
    mem_free(raw);
}

/* ---- answers ------------------------------------------------------------- */

void run_answers_deinit(struct run_answers *a)
{
    json_decref(a->run);
    json_decref(a->schedule);
    json_decref(a->nodes);
    json_decref(a->config);
    json_decref(a->result);
    json_decref(a->trials);
    json_decref(a->epochs);
    json_decref(a->decisions);
    memset(a, 0, sizeof(*a));
}

/* An answer that is an object; null: it has none. */
static enum err get(struct source *s, const char *id, const char *rest,
                    json_t **out, struct fault *f)
{
    char target[RUN_ID_MAX + 64];
    enum err err;

    snprintf(target, sizeof(target), "/api/v1/runs/%s%s", id, rest);
    err = source_get(s, target, out, f);
    if (!err && !json_is_object(*out) && !json_is_null(*out))
        err =
            fault_set(f, ERR_FORMAT, "what answers at %s is no mltune", s->url);
    return err;
}

/* null where the server is older than what is asked for. */
static enum err get_if_there(struct source *s, const char *id, const char *rest,
                             json_t **out, struct fault *f)
{
    enum err err = get(s, id, rest, out, f);

    if (err == ERR_NOENT) {
        *f = (struct fault){0};
        *out = json_null();
        err = ERR_OK;
    }
    return err;
}

static enum err list(struct source *s, const char *id, const char *name,
                     json_t **out, struct fault *f)
{
    char target[RUN_ID_MAX + 64];

    snprintf(target, sizeof(target), "/api/v1/runs/%s/%s", id, name);
    return source_list(s, target, name, out, f);
}

enum err run_answers_get_few(struct source *s, const char *id,
                             struct run_answers *out, struct fault *f)
{
    enum err err;

    assert(s && id && out);
    memset(out, 0, sizeof(*out));
    err = get(s, id, "", &out->run, f);
    if (!err)
        err = list(s, id, "schedule", &out->schedule, f);
    if (!err)
        err = list(s, id, "nodes", &out->nodes, f);
    if (err)
        run_answers_deinit(out);
    return err;
}

enum err run_answers_get(struct source *s, const char *id,
                         struct run_answers *out, struct fault *f)
{
    enum err err = run_answers_get_few(s, id, out, f);

    assert(id[0]);
    assert(out);
    if (!err)
        err = get_if_there(s, id, "/config", &out->config, f);
    if (!err)
        err = get_if_there(s, id, "/result", &out->result, f);
    if (!err)
        err = list(s, id, "trials", &out->trials, f);
    if (!err)
        err = list(s, id, "epochs", &out->epochs, f);
    if (!err)
        err = list(s, id, "decisions", &out->decisions, f);
    if (err)
        run_answers_deinit(out);
    return err;
}

/* ---- values -------------------------------------------------------------- */

static long long count_at(const json_t *o, const char *pointer)
{
    return json_integer_value(json_at(o, pointer));
}

/* "2026-11-21 03:40:12", local time. */
static void write_time(double unix_s, char *out, size_t size)
{
    bool is_time = fabs(unix_s) < 1e15; /* a damaged journal says anything */
    time_t seconds = is_time ? (time_t)unix_s : 0;
    struct tm tm;

    if (!is_time || !localtime_r(&seconds, &tm) ||
        strftime(out, size, "%Y-%m-%d %H:%M:%S", &tm) == 0)
        snprintf(out, size, "-");
}

/* Why it stands as it does. */
static const char *reason_of(const json_t *run)
{
    const char *reason = json_text_at(run, "/reason");

    return *reason ? reason : json_text_at(run, "/status_reason");
}

/* Whether its tuner lives. */
static bool is_alive(const json_t *run)
{
    const char *status = json_text_at(run, "/status");

    return !run_status_names_end(status) && strcmp(status, "queued") != 0 &&
           strcmp(status, "held") != 0;
}

/* Whether `mltune resume` goes on with it. */
static bool is_resumable(const json_t *run)
{
    return run_status_resumes(
        json_text_at(run, "/status"),
        json_is_object(json_at(run, "/snapshot")) ||
            json_integer_value(json_at(run, "/tuning/trials")) > 0);
}

/* Why it ended; "" for one that goes on, or waits. */
static const char *end_reason_of(const json_t *run)
{
    return run_status_names_end(json_text_at(run, "/status")) ? reason_of(run)
                                                              : "";
}

/* ---- the head ------------------------------------------------------------ */

/* Whether @state is the folder that a verb reads unless it is told otherwise.
 */
static bool is_default_state(const char *state)
{
    char *here = realpath(STATE_DEFAULT, NULL);
    bool same = here && strcmp(here, state) == 0;

    free(here);
    return same;
}

/* Where a verb finds the run, unless it looks there of itself. */
static void render_state(const json_t *run, FILE *out)
{
    const char *state = json_text_at(run, "/state");

    if (*state && !is_default_state(state))
        put(out, " --state %s", state);
}

static void render_resume(const json_t *run, FILE *out)
{
    if (!is_resumable(run))
        return;
    put(out, "resume    mltune resume %s", json_text_at(run, "/run"));
    render_state(run, out);
    if (strcmp(reason_of(run), "load_failed") == 0)
        put(out, ", once that is mended");
    put(out, "\n");
}

static void render_queue(const json_t *run, FILE *out)
{
    const json_t *queue = json_at(run, "/queue");
    char at[32];

    if (!json_is_object(queue))
        return;
    write_time(json_time_at(queue, "/submitted_at"), at, sizeof(at));
    put(out, "queue     group %s, submitted %s\n",
        json_text_at(queue, "/group"), at);
}

/* Lines that a training system wrote before it failed, and which of its
 * processes did. */
static void render_words(const json_t *run, FILE *out)
{
    const json_t *lines = json_object_get(run, "last_words"), *line;
    const json_t *node = json_object_get(run, "last_words_node");
    size_t i;

    if (json_array_size(lines) > 0 && json_is_integer(node))
        put(out, "          process %lld said last:\n",
            (long long)json_integer_value(node));
    json_array_foreach((json_t *)lines, i, line)
    {
        put(out, "          | %s\n", json_text_at(line, ""));
    }
}

void render_head(const json_t *run, FILE *out)
{
    const char *why = reason_of(run);
    char began[32];

    assert(run && out);
    write_time(json_time_at(run, "/started_at"), began, sizeof(began));
    put(out, "run       %s (%s)\n", json_text_at(run, "/run"),
        json_text_at(run, "/name"));
    put(out, "status    %s%s%s\n", json_text_at(run, "/status"),
        *why ? ": " : "", why);
    if (*json_text_at(run, "/message"))
        put(out, "          %s\n", json_text_at(run, "/message"));
    render_words(run, out);
    render_resume(run, out);
    render_queue(run, out);
    put(out, "began     %s\n", began);
    if (json_is_object(json_at(run, "/job")))
        put(out,
            "job       %s, %lld samples, %lld for validation, %lld workers, "
            "seed %lld\n"
            "tuner     %s, searcher %s\n",
            json_text_at(run, "/job/app"), count_at(run, "/job/samples"),
            count_at(run, "/job/validation_samples"),
            count_at(run, "/job/workers"), count_at(run, "/seed"),
            json_text_at(run, "/tuning/strategy"),
            json_text_at(run, "/tuning/searcher"));
}

/* ---- the summary --------------------------------------------------------- */

/* An epoch is no best one where it has no result, or could not be kept. */
static const char *why_no_best(const json_t *run)
{
    bool validates = count_at(run, "/job/validation_samples") > 0;

    if (count_at(run, "/epochs") == 0)
        return "no epoch was finished";
    if (validates && isnan(json_number_at(run, "/last_epoch/metric")))
        return "every validation gave NaN, so that no model is known to be "
               "better than another";
    if (isnan(json_number_at(run, "/last_epoch/loss")))
        return "no epoch had a finite loss";
    return "there was no memory to keep an epoch's end (memory.limit)";
}

static void render_best(const json_t *run, FILE *out)
{
    double metric = json_number_at(run, "/best/metric");
    char setting[SETTING_TEXT_MAX];

    if (!json_is_object(json_at(run, "/best"))) {
        put(out, "best      none: %s\n", why_no_best(run));
        return;
    }
    put(out, "best      epoch %lld of %lld: ", count_at(run, "/best/epoch"),
        count_at(run, "/epochs"));
    if (!isnan(metric))
        put(out, "%s %.5g (%s), ", json_text_at(run, "/job/metric/name"),
            metric,
            metrics_direction(
                json_is_true(json_at(run, "/job/metric/higher_is_better"))));
    put(out, "training loss %.5g\n", json_number_at(run, "/best/loss"));
    /* Of another trial of a contest, or before a later choice. */
    if (json_equal(json_at(run, "/best/setting"), json_at(run, "/setting")))
        return;
    progress_setting(json_at(run, "/best/setting"), setting, sizeof(setting));
    put(out, "          with %s\n", setting);
}

/* Further metrics: the latest of each, its value in the last epoch and in the
 * best one. */
static void render_values(const json_t *run, bool whole, FILE *out)
{
    const json_t *values = json_object_get(run, "values"), *value;
    size_t i;

    json_array_foreach((json_t *)values, i, value)
    {
        static const char *const of[][2] = {{"/training", "training"},
                                            {"/validation", "validation"},
                                            {"/best", "best epoch"}};
        bool some = false;

        if (!whole && i >= VALUES_SHORT) {
            put(out, "          and %zu more (-v)\n",
                json_array_size(values) - i);
            return;
        }
        put(out, "%s%s: ", i ? "          " : "values    ",
            json_text_at(value, "/name"));
        for (size_t k = 0; k < sizeof(of) / sizeof(*of); k++) {
            double x = json_number_at(value, of[k][0]);

            if (!isnan(x))
                put(out, "%s%s %.5g", some ? ", " : "", of[k][1], x);
            some |= !isnan(x);
        }
        put(out, "%s\n", some ? "" : "none: it never had a number");
    }
}

static size_t count_settings(const json_t *schedule)
{
    const json_t *choice, *before = NULL;
    size_t i, n = 0;

    json_array_foreach((json_t *)schedule, i, choice)
    {
        const json_t *setting = json_at(choice, "/setting");

        n += !before || !json_equal(setting, before);
        before = setting;
    }
    return n;
}

/* A choice of the setting that is in use already, as when a run goes on, is no
 * new line. */
static void render_settings(const struct run_answers *a, bool whole, FILE *out)
{
    size_t all = count_settings(a->schedule), shown = 0;
    const json_t *choice, *before = NULL;
    char setting[SETTING_TEXT_MAX];
    size_t i;

    if (!a->schedule && json_is_object(json_at(a->run, "/setting"))) {
        progress_setting(json_at(a->run, "/setting"), setting, sizeof(setting));
        put(out, "setting   %s\n", setting);
    }
    json_array_foreach(a->schedule, i, choice)
    {
        if (before && json_equal(json_at(choice, "/setting"), before))
            continue;
        before = json_at(choice, "/setting");
        shown++;
        if (!whole && all > SETTINGS_SHORT && shown > 1 && shown < all) {
            if (shown == 2)
                put(out, "          then %zu others (-v), at last\n", all - 2);
            continue;
        }
        progress_setting(before, setting, sizeof(setting));
        if (i == 0)
            put(out, "setting   %s\n", setting);
        else
            put(out, "          from clock %lld: %s\n",
                count_at(choice, "/clock"), setting);
    }
}

static void render_time(const json_t *run, FILE *out)
{
    double whole = json_number_at(run, "/seconds");
    double tuning = json_number_at(run, "/tuning/seconds");
    double waiting = json_number_at(run, "/tuning/waiting_seconds");
    long long searches = count_at(run, "/tuning/searches");
    char time[32], spent[32];

    progress_duration(whole, time, sizeof(time));
    progress_duration(tuning, spent, sizeof(spent));
    put(out, "time      %s, %lld clocks\n", time, count_at(run, "/clocks"));
    if (searches > 0)
        put(out, "tuning    %lld search%s, %lld trials, %s (%.0f %% of it)\n",
            searches, searches == 1 ? "" : "es",
            count_at(run, "/tuning/trials"), spent,
            whole > 0 ? 100 * fmin(tuning / whole, 1) : 0);
    if (count_at(run, "/tuning/anew") > 0)
        put(out,
            "          %lld of these searches given up and begun anew by "
            "a resume\n",
            count_at(run, "/tuning/anew"));
    if (count_at(run, "/tuning/failed") > 0)
        put(out, "failed    %lld of these trials, the latest since: %s\n",
            count_at(run, "/tuning/failed"),
            json_text_at(run, "/tuning/failed_reason"));
    if (*json_text_at(run, "/tuning/searcher_failed"))
        put(out, "searcher  %s\n",
            json_text_at(run, "/tuning/searcher_failed"));
    if (*json_text_at(run, "/tuning/warm_start"))
        put(out, "          %s\n", json_text_at(run, "/tuning/warm_start"));
    if (!isnan(waiting) && whole > 0)
        put(out, "waiting   %.3g s for decisions (%.2g %% of it)\n", waiting,
            100 * waiting / whole);
}

/* Traffic between several nodes, and how fresh what they read was. */
static void render_nodes(const json_t *nodes, FILE *out)
{
    double sent = 0, reads = 0, behind = 0;
    const json_t *node;
    size_t i;

    if (json_array_size(nodes) < 2)
        return;
    json_array_foreach(nodes, i, node)
    {
        double n = (double)count_at(node, "/staleness/reads");

        sent += (double)count_at(node, "/traffic/bytes_sent");
        if (n > 0) {
            reads += n;
            behind += n * json_number_at(node, "/staleness/mean");
        }
    }
    put(out, "nodes     %zu, %.4g MB between them", json_array_size(nodes),
        sent * 1e-6);
    if (reads > 0)
        put(out, "; reads missed %.3g clocks in the mean", -1 - behind / reads);
    put(out, "\n");
}

static void render_results(const struct run_answers *a, bool whole, FILE *out)
{
    const json_t *snapshot = json_at(a->run, "/snapshot");

    assert(a->run && out);
    render_best(a->run, out);
    render_values(a->run, whole, out);
    render_settings(a, whole, out);
    render_time(a->run, out);
    render_nodes(a->nodes, out);
    if (*json_text_at(a->run, "/model"))
        put(out, "model     %s%s\n", json_text_at(a->run, "/model"),
            json_is_object(json_at(a->run, "/best"))
                ? ""
                : " (the state when the run ended)");
    if (json_is_object(snapshot))
        put(out, "snapshot  %s (epoch %lld)\n", json_text_at(snapshot, "/path"),
            count_at(snapshot, "/epoch"));
}

/* Whatever was written to @page[@size], in lines that fit @columns. */
static void put_folded(const char *page, unsigned columns, FILE *out)
{
    struct text folded = {0};

    fold_lines(page, columns, &folded);
    if (text_lost(&folded))
        console_error("out of memory: lines are missing");
    fputs(text_so_far(&folded), out);
    text_deinit(&folded);
}

void render_summary(const struct run_answers *a, FILE *out)
{
    char *page = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&page, &size);

    if (to)
        render_results(a, false, to);
    if (!to || fclose(to) != 0)
        console_error("out of memory: lines are missing");
    else
        put_folded(page, fold_width(fileno(out)), out);
    free(page);
}

/* ---- cells --------------------------------------------------------------- */

static void add_text(struct text_table *t, const json_t *item, const char *name)
{
    const char *text = json_string_value(json_object_get(item, name));

    table_add(t, "%s", text ? text : "-");
}

static void add_number(struct text_table *t, const json_t *item,
                       const char *pointer, int digits)
{
    const json_t *value = json_at(item, pointer);
    double number;

    if (json_is_integer(value))
        table_add(t, "%lld", (long long)json_integer_value(value));
    else if (json_to_number(value, &number))
        table_add(t, "%.*g", digits, number);
    else
        table_add(t, "-");
}

static void add_seconds(struct text_table *t, double seconds)
{
    char text[32] = "-";

    if (!isnan(seconds))
        progress_duration(seconds, text, sizeof(text));
    table_add(t, "%s", text);
}

static void add_setting(struct text_table *t, const json_t *item)
{
    char text[SETTING_TEXT_MAX];

    progress_setting(json_object_get(item, "setting"), text, sizeof(text));
    table_add(t, "%s", text);
}

/* ---- rows ---------------------------------------------------------------- */

static void run_row(struct text_table *t, const json_t *run)
{
    double began = json_time_at(run, "/started_at");
    const char *metric = json_text_at(run, "/job/metric/name");
    const char *why = end_reason_of(run);
    char at[32];

    write_time(began, at, sizeof(at));
    add_text(t, run, "run");
    table_add(t, "%s%s%s", json_text_at(run, "/status"), *why ? ": " : "", why);
    table_add(t, "%s", at);
    add_seconds(t, isnan(json_time_at(run, "/first_clock_at"))
                       ? NAN
                       : json_number_at(run, "/seconds"));
    add_number(t, run, "/epochs", 4);
    add_number(t, run, "/tuning/trials", 4);
    if (*metric && !isnan(json_number_at(run, "/best/metric")))
        table_add(t, "%s %.5g", metric, json_number_at(run, "/best/metric"));
    else if (!isnan(json_number_at(run, "/best/loss")))
        table_add(t, "loss %.5g", json_number_at(run, "/best/loss"));
    else
        table_add(t, "-");
}

/* A trial's setting; of one that failed also why. */
static void add_tried(struct text_table *t, const json_t *trial)
{
    const char *reason = json_text_at(trial, "/reason");
    char text[SETTING_TEXT_MAX];

    progress_setting(json_object_get(trial, "setting"), text, sizeof(text));
    if (strcmp(json_text_at(trial, "/label"), "failed") == 0 && *reason)
        table_add(t, "%s (%s)", text, reason);
    else
        table_add(t, "%s", text);
}

static void trial_row(struct text_table *t, const json_t *trial)
{
    bool incumbent = json_is_true(json_object_get(trial, "incumbent"));

    table_add(t, "%lld%s", count_at(trial, "/trial"), incumbent ? "*" : "");
    add_number(t, trial, "/search", 4);
    add_number(t, trial, "/branch", 4);
    add_text(t, trial, "label");
    add_number(t, trial, "/speed", 4);
    add_number(t, trial, "/clocks", 4);
    add_seconds(t, json_number_at(trial, "/seconds"));
    add_tried(t, trial);
}

static void branch_row(struct text_table *t, const json_t *branch)
{
    bool live = json_is_true(json_object_get(branch, "live"));

    add_number(t, branch, "/branch", 4);
    add_number(t, branch, "/parent", 4);
    add_text(t, branch, "type");
    add_text(t, branch, "role");
    table_add(t, "%s", live ? "live" : "freed");
    add_number(t, branch, "/created_clock", 4);
    add_number(t, branch, "/clocks", 4);
    add_seconds(t, json_number_at(branch, "/seconds"));
    add_setting(t, branch);
}

static void epoch_row(struct text_table *t, const json_t *epoch)
{
    bool surviving = json_is_true(json_object_get(epoch, "surviving"));
    bool best = json_is_true(json_object_get(epoch, "best"));

    add_number(t, epoch, "/epoch", 4);
    add_number(t, epoch, "/loss", 6);
    add_number(t, epoch, "/metric", 6);
    add_seconds(t, json_number_at(epoch, "/seconds"));
    table_add(t, "%s", !surviving ? "finalist" : best ? "best" : "");
    add_setting(t, epoch);
}

static const struct {
    const char *heading[TABLE_COLUMNS_MAX];
    void (*row)(struct text_table *t, const json_t *item);
} lists[] = {
    [RENDER_RUNS] = {{"RUN", "STATUS", "STARTED", "TIME", "EPOCHS", "TRIALS",
                      "BEST"},
                     run_row},
    [RENDER_TRIALS] = {{"TRIAL", "SEARCH", "BRANCH", "LABEL", "SPEED", "CLOCKS",
                        "TIME", "SETTING"},
                       trial_row},
    [RENDER_BRANCHES] = {{"BRANCH", "PARENT", "TYPE", "ROLE", "", "FROM",
                          "CLOCKS", "TIME", "SETTING"},
                         branch_row},
    [RENDER_EPOCHS] = {{"EPOCH", "LOSS", "METRIC", "TIME", "", "SETTING"},
                       epoch_row},
};

static void add_heading(struct text_table *t, enum render_list which)
{
    for (; lists[which].heading[t->columns]; t->columns++)
        table_add(t, "%s", lists[which].heading[t->columns]);
}

/* The time is local where and when it is shown: "@" and seconds. */
enum { CELL_STARTED = 2 };

char *render_cells(const json_t *run)
{
    struct text_table t = {.columns = 0};
    struct text out = {0};
    double began = json_time_at(run, "/started_at");

    assert(json_is_object(run));
    run_row(&t, run);
    for (size_t i = 0; i < t.cells; i++) {
        text_puts(&out, i > 0 ? "\t" : "");
        if (i == CELL_STARTED && !isnan(began))
            text_printf(&out, "@%.6f", began);
        else
            text_puts(&out, table_cell(&t, i));
    }
    out.no_memory |= t.no_memory;
    table_deinit(&t);
    return text_take(&out);
}

struct render_rows {
    struct text_table table;
    size_t rows;
};

static enum err add_cells(void *ctx, const char *cells)
{
    struct render_rows *r = ctx;
    unsigned column = 0;

    for (r->rows++; column < r->table.columns; column++) {
        size_t n = strcspn(cells, "\t");
        char at[32];

        if (column == CELL_STARTED && *cells == '@') {
            write_time(strtod(cells + 1, NULL), at, sizeof(at));
            table_add(&r->table, "%s", at);
        } else {
            table_add(&r->table, "%.*s", (int)n, cells);
        }
        cells += n + (cells[n] == '\t');
    }
    return ERR_OK;
}

enum err render_runs(struct source *s, FILE *out, size_t *rows, struct fault *f)
{
    struct render_rows r = {.table.width = fold_width(fileno(out))};
    enum err err;

    assert(s && out && rows);
    add_heading(&r.table, RENDER_RUNS);
    err = source_each_row(s, add_cells, &r, f);
    if (!err && r.rows > 0 && table_print(&r.table, out, ""))
        console_error("out of memory: rows are missing");
    *rows = r.rows;
    table_deinit(&r.table);
    return err;
}

static void print_items(enum render_list which, const json_t *items,
                        const char *metric, const char *indent, unsigned width,
                        FILE *out)
{
    struct text_table t = {.width = width};
    const json_t *item;
    size_t i;

    assert(indent && out);
    for (; lists[which].heading[t.columns]; t.columns++) {
        const char *name = lists[which].heading[t.columns];
        bool renamed = metric && *metric && strcmp(name, "METRIC") == 0;

        table_add(&t, "%s", renamed ? metric : name);
    }
    json_array_foreach(items, i, item) lists[which].row(&t, item);
    if (table_print(&t, out, indent))
        console_error("out of memory: rows are missing");
    table_deinit(&t);
}

void render_table(enum render_list which, const json_t *items,
                  const char *metric, const char *indent, FILE *out)
{
    print_items(which, items, metric, indent, fold_width(fileno(out)), out);
}

/* ---- the whole ----------------------------------------------------------- */

static void render_part(enum render_list which, const char *title,
                        const json_t *items, const char *metric, unsigned width,
                        FILE *out)
{
    if (json_array_size(items) == 0)
        return;
    put(out, "\n%s\n", title);
    print_items(which, items, metric, "  ", width, out);
}

static void render_decision(const json_t *run, const json_t *item, FILE *out)
{
    double at = json_time_at(item, "/at") - json_time_at(run, "/started_at");
    char time[32] = "-";

    if (!isnan(at))
        progress_duration(at, time, sizeof(time));
    put(out, "  %8s  %s: %s\n", time, json_text_at(item, "/decision"),
        json_text_at(item, "/text"));
}

static void render_decisions(const json_t *run, const json_t *decisions,
                             FILE *out)
{
    size_t n = json_array_size(decisions);
    size_t i = n > DECISIONS_MAX ? n - DECISIONS_MAX : 0;
    long long first = count_at(json_array_get(decisions, i), "/number");

    if (n == 0)
        return;
    put(out, "\ndecisions\n");
    if (first > 1)
        put(out, "  (%lld earlier ones are left out)\n", first - 1);
    for (; i < n; i++)
        render_decision(run, json_array_get(decisions, i), out);
}

static void render_whole(const struct run_answers *a, unsigned width, FILE *out)
{
    render_head(a->run, out);
    render_results(a, true, out);
    render_part(RENDER_TRIALS, "trials", a->trials, NULL, width, out);
    render_part(RENDER_EPOCHS, "epochs", a->epochs,
                json_text_at(a->run, "/job/metric/name"), width, out);
    render_decisions(a->run, a->decisions, out);
}

static void render_short(const struct run_answers *a, FILE *out)
{
    render_head(a->run, out);
    render_results(a, false, out);
}

/* Lines of @page, folded; 0 where there is no memory to see. */
static unsigned count_lines(const char *page, unsigned columns)
{
    struct text folded = {0};
    unsigned n = 0;

    fold_lines(page, columns, &folded);
    for (const char *c = text_so_far(&folded); *c; c++)
        n += *c == '\n';
    text_deinit(&folded);
    return n;
}

/* The latest decisions that fit into the @room lines that a screen has left,
 * and where the rest is. */
static void render_latest(const struct run_answers *a, unsigned columns,
                          unsigned room, FILE *out)
{
    size_t n = json_array_size(a->decisions), i = n;

    while (i > 0) {
        char *line = NULL;
        size_t size = 0;
        FILE *to = open_memstream(&line, &size);
        bool fits = false;

        if (to)
            render_decision(a->run, json_array_get(a->decisions, i - 1), to);
        if (to && fclose(to) == 0) {
            unsigned lines = count_lines(line, columns);

            fits = lines < room;
            room -= fits ? lines : 0;
        }
        free(line);
        if (!fits)
            break;
        i--;
    }
    if (i < n)
        put(out, "latest\n");
    for (; i < n; i++)
        render_decision(a->run, json_array_get(a->decisions, i), out);
    put(out, "more      mltune show -v %s", json_text_at(a->run, "/run"));
    render_state(a->run, out);
    put(out, ": its %zu trials, %zu epochs, %zu decisions\n",
        json_array_size(a->trials), json_array_size(a->epochs), n);
}

void render_run(const struct run_answers *a, const struct render_screen *screen,
                FILE *out)
{
    char *page = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&page, &size);
    unsigned lines;

    assert(a->run && a->trials && a->epochs && a->decisions);
    if (to && screen->rows == 0)
        render_whole(a, screen->columns, to);
    else if (to)
        render_short(a, to);
    if (to && screen->rows > 0 && fflush(to) == 0) {
        /* Besides: the title, the last line, whose id may fold it, the prompt.
         */
        lines = count_lines(page, screen->columns) + 4;
        render_latest(a, screen->columns,
                      lines < screen->rows ? screen->rows - lines : 0, to);
    }
    if (!to || fclose(to) != 0)
        console_error("out of memory: lines are missing");
    else
        put_folded(page, screen->columns, out);
    free(page);
}

/* ---- as JSON ------------------------------------------------------------- */

json_t *render_members(const json_t *run)
{
    json_t *o = json_copied_members(run);
    int failed =
        !o ||
        json_object_set_new(o, "reason", json_string(end_reason_of(run))) ||
        json_object_set_new(o, "alive", json_boolean(is_alive(run))) ||
        json_object_set_new(o, "resumable", json_boolean(is_resumable(run)));

    assert(json_is_object(run));
    if (failed) {
        json_decref(o);
        return NULL;
    }
    return o;
}

json_t *render_answers(const struct run_answers *a)
{
    json_t *o = render_members(a->run);
    const json_t *status = json_object_get(o, "status");
    const json_t *reason = json_object_get(o, "reason");
    json_t *result = json_is_object(a->result) ? json_copied_members(a->result)
                                               : json_object();
    /* A service may know better than its records how it stands. */
    int failed = !o || !result ||
                 json_object_set(result, "run", json_object_get(o, "run")) ||
                 json_object_set(result, "status", (json_t *)status) ||
                 json_object_set(result, "reason", (json_t *)reason) ||
                 json_object_update(o, result) ||
                 json_object_set(o, "config", a->config) ||
                 json_object_set(o, "trial_list", a->trials) ||
                 json_object_set(o, "epoch_list", a->epochs) ||
                 json_object_set(o, "decision_list", a->decisions) ||
                 json_object_set(o, "node_list", a->nodes);

    assert(a->run && a->result);
    json_decref(result);
    if (failed) {
        json_decref(o);
        return NULL;
    }
    return o;
}
