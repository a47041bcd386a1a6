/* `mltune ls`: the runs of a state folder, newest first. That there are none is
 * said, and is no error. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/progress.h"
#include "cli/basics/table.h"
#include "cli/basics/verbs.h"
#include "cli/state/replay.h"
#include "cli/state/source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The ids of all runs, newest first: each is then replayed by itself, so that
 * no query is open while another runs. */
struct ids {
    char (*id)[RUN_ID_MAX + 1]; /* owned */
    size_t len, capacity;
};

static enum err take_id(void *ctx, const struct journal_run *run)
{
    struct ids *ids = ctx;
    void *grown = ids->id;

    if (mem_grow(&grown, &ids->capacity, sizeof(*ids->id), ids->len + 1))
        return ERR_NOMEM;
    ids->id = grown;
    snprintf(ids->id[ids->len++], sizeof(*ids->id), "%s", run->id);
    return ERR_OK;
}

static double seconds_of(const struct replayed *r)
{
    return (double)(r->last_ns - r->began_ns) * 1e-9;
}

static void add_row(struct table *t, const struct replayed *r)
{
    const struct history_epoch *best = history_best_epoch(&r->history);
    char began[32], time[32];

    replay_time(r->began_ns, began, sizeof(began));
    progress_duration(seconds_of(r), time, sizeof(time));
    table_add(t, "%s", r->id);
    table_add(t, "%s%s%s", r->status, r->reason[0] ? ": " : "", r->reason);
    table_add(t, "%s", began);
    table_add(t, "%s", time);
    table_add(t, "%u", history_epochs(&r->history));
    table_add(t, "%zu", r->history.trials);
    if (!best)
        table_add(t, "-");
    else if (isnan(best->e.metric))
        table_add(t, "loss %.5g", best->e.loss);
    else
        table_add(t, "%s %.5g", r->history.run.metric, best->e.metric);
}

/* NAN is null. */
static json_t *number(double x)
{
    return isnan(x) ? json_null() : json_of_number(x);
}

static json_t *run_object(const struct replayed *r)
{
    const struct history_epoch *best = history_best_epoch(&r->history);

    return json_pack(
        "{s:s, s:s, s:s, s:s, s:b, s:b, s:f, s:f, s:i, s:i, s:o, s:o}", "run",
        r->id, "name", r->name, "status", r->status, "reason", r->reason,
        "alive", r->alive, "resumable", !r->alive && replay_resumable(r),
        "started_unix_s", (double)r->began_ns * 1e-9, "seconds", seconds_of(r),
        "epochs", (int)history_epochs(&r->history), "trials",
        (int)r->history.trials, "loss", number(best ? best->e.loss : NAN),
        "metric", number(best ? best->e.metric : NAN));
}

static enum err collect(struct journal *j, const char *state,
                        const struct ids *ids, struct table *t, json_t *list,
                        struct fault *f)
{
    for (size_t i = 0; i < ids->len; i++) {
        struct replayed run;
        enum err err = replay_run(j, state, ids->id[i], &run, f);

        if (err)
            return err;
        add_row(t, &run);
        err =
            json_array_append_new(list, run_object(&run)) ? ERR_NOMEM : ERR_OK;
        replayed_deinit(&run);
        if (err || t->no_memory)
            return fault_set(f, ERR_NOMEM, "out of memory");
    }
    return ERR_OK;
}

static void print_list(const struct table *t, const json_t *list, bool json)
{
    char *text = json ? json_write(list, 0) : NULL;

    if (text)
        printf("%s\n", text);
    else if (!json)
        table_print(t, stdout, "");
    mem_free(text);
}

static const char *const heading[] = {"RUN",    "STATUS", "STARTED", "TIME",
                                      "EPOCHS", "TRIALS", "BEST"};
enum { COLUMNS = sizeof(heading) / sizeof(*heading) };

static enum err list_runs(const char *state, bool json, struct fault *f)
{
    struct table table = {.columns = COLUMNS};
    json_t *list = json_array();
    char path[FILE_PATH_MAX];
    struct journal *j = NULL;
    struct ids ids = {0};
    enum err err = replay_open(state, path, &j, f);

    for (size_t i = 0; i < table.columns; i++)
        table_add(&table, "%s", heading[i]);
    if (!err)
        err = journal_each_run(j, take_id, &ids, f);
    if (!err)
        err = collect(j, path, &ids, &table, list, f);
    if (!err && (ids.len > 0 || json))
        print_list(&table, list, json);
    if (!err && ids.len == 0 && !json)
        printf("no runs in %s\n", path);
    mem_free(ids.id);
    journal_close(j);
    json_decref(list);
    table_deinit(&table);
    return err;
}

/* ---- at a server --------------------------------------------------------- */

/* Seconds since the epoch of an RFC 3339 time in UTC; NAN for null. */
static double time_of(const json_t *run, const char *name)
{
    const char *text = json_string_value(json_object_get(run, name));
    struct tm tm = {0};

    if (!text || !strptime(text, "%Y-%m-%dT%H:%M:%S", &tm))
        return NAN;
    return (double)timegm(&tm);
}

static void add_best(struct table *t, const json_t *run)
{
    const char *metric = json_string_value(json_at(run, "/job/metric/name"));
    double value;

    if (metric && json_to_number(json_at(run, "/best/metric"), &value))
        table_add(t, "%s %.5g", metric, value);
    else if (json_to_number(json_at(run, "/best/loss"), &value))
        table_add(t, "loss %.5g", value);
    else
        table_add(t, "-");
}

static const char *text_of(const json_t *run, const char *name)
{
    const char *text = json_string_value(json_object_get(run, name));

    return text ? text : "";
}

static void add_row_of(struct table *t, const json_t *run)
{
    double began = time_of(run, "started_at");
    double last = time_of(run, "updated_at");
    const char *reason = text_of(run, "reason");
    char at[32] = "-", time[32] = "-";

    if (!isnan(began))
        replay_time((int64_t)(began * 1e9), at, sizeof(at));
    if (!isnan(began) && !isnan(last))
        progress_duration(last - began, time, sizeof(time));
    table_add(t, "%s", text_of(run, "run"));
    table_add(t, "%s%s%s", text_of(run, "status"), *reason ? ": " : "", reason);
    table_add(t, "%s", at);
    table_add(t, "%s", time);
    table_add(t, "%lld",
              (long long)json_integer_value(json_object_get(run, "epochs")));
    table_add(t, "%lld",
              (long long)json_integer_value(json_at(run, "/tuning/trials")));
    add_best(t, run);
}

static enum err list_at_server(const char *server, const char *state, bool json,
                               struct fault *f)
{
    struct table table = {.columns = COLUMNS};
    struct source source;
    json_t *runs = NULL;
    const json_t *run;
    size_t i;
    enum err err = source_open(&source, server, state, f);

    if (!err)
        err = source_list(&source, "/api/v1/runs?order=desc", "runs", &runs, f);
    for (i = 0; i < COLUMNS; i++)
        table_add(&table, "%s", heading[i]);
    json_array_foreach(runs, i, run) add_row_of(&table, run);
    if (!err && (json || json_array_size(runs) > 0))
        print_list(&table, runs, json);
    else if (!err)
        printf("no runs at %s\n", server);
    json_decref(runs);
    table_deinit(&table);
    source_close(&source);
    return err;
}

static int ls_at_server(const char *server, const char *state, bool json)
{
    struct fault f = {0};
    enum err err = list_at_server(server, state, json, &f);

    if (err)
        console_error("%s", f.text);
    return source_exit_code(err);
}

int verb_ls(int argc, char **argv)
{
    const char *state = STATE_DEFAULT, *server = NULL;
    bool json = false;
    const struct option_spec options[] = {
        {"state", 0, OPTION_TEXT, "DIR", "state folder (" STATE_DEFAULT ")",
         &state},
        {"server", 0, OPTION_TEXT, "URL", REPLAY_SERVER_HELP, &server},
        CLIENT_CACERT_OPTION,
        {"json", 0, OPTION_FLAG, NULL,
         "one JSON array (of a server: its runs as over HTTP)", &json},
    };
    const struct usage usage = {
        .verb = "ls",
        .operands = "",
        .summary =
            "list the runs of a state folder, or of a server, newest first",
        .details = "",
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
        return ls_at_server(server, state, json);
    err = list_runs(state, json, &f);
    if (err == ERR_NOENT) {
        if (json)
            printf("[]\n");
        else
            printf("no runs in %s\n", state);
        return EXIT_DONE;
    }
    if (err)
        console_error("%s", f.text);
    return replay_exit_code(err);
}
