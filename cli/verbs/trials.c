/* `mltune trials RUN`, `mltune branches RUN`: the lists of one run, from its
 * server or from the state folder. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/progress.h"
#include "cli/basics/table.h"
#include "cli/basics/verbs.h"
#include "cli/state/source.h"

#include <stdio.h>
#include <string.h>

/* A list as a table: its heading and how an item becomes a row. */
struct listing {
    const char *verb, *name; /* of the list in the answer */
    const char *const *heading;
    void (*row)(struct table *t, const json_t *item);
};

/* ---- cells --------------------------------------------------------------- */

static void add_text(struct table *t, const json_t *item, const char *name)
{
    const char *text = json_string_value(json_object_get(item, name));

    table_add(t, "%s", text ? text : "-");
}

static void add_number(struct table *t, const json_t *item, const char *name)
{
    const json_t *value = json_object_get(item, name);
    double number;

    if (json_is_integer(value))
        table_add(t, "%lld", (long long)json_integer_value(value));
    else if (json_to_number(value, &number))
        table_add(t, "%.4g", number);
    else
        table_add(t, "-");
}

static void add_seconds(struct table *t, const json_t *item, const char *name)
{
    double seconds;
    char text[32] = "-";

    if (json_to_number(json_object_get(item, name), &seconds))
        progress_duration(seconds, text, sizeof(text));
    table_add(t, "%s", text);
}

static void add_setting(struct table *t, const json_t *item)
{
    char text[256];

    progress_setting(json_object_get(item, "setting"), text, sizeof(text));
    table_add(t, "%s", text);
}

/* ---- rows ---------------------------------------------------------------- */

static void trial_row(struct table *t, const json_t *item)
{
    bool incumbent = json_is_true(json_object_get(item, "incumbent"));

    table_add(t, "%lld%s",
              (long long)json_integer_value(json_object_get(item, "trial")),
              incumbent ? "*" : "");
    add_number(t, item, "search");
    add_number(t, item, "branch");
    add_text(t, item, "label");
    add_number(t, item, "speed");
    add_number(t, item, "clocks");
    add_seconds(t, item, "seconds");
    add_setting(t, item);
}

static void branch_row(struct table *t, const json_t *item)
{
    add_number(t, item, "branch");
    add_number(t, item, "parent");
    add_text(t, item, "type");
    add_text(t, item, "role");
    table_add(t, "%s",
              json_is_true(json_object_get(item, "live")) ? "live" : "freed");
    add_number(t, item, "created_clock");
    add_number(t, item, "clocks");
    add_seconds(t, item, "seconds");
    add_setting(t, item);
}

static const char *const trial_heading[] = {"TRIAL", "SEARCH",  "BRANCH",
                                            "LABEL", "SPEED",   "CLOCKS",
                                            "TIME",  "SETTING", NULL};
static const char *const branch_heading[] = {
    "BRANCH", "PARENT", "TYPE", "ROLE",    "",
    "FROM",   "CLOCKS", "TIME", "SETTING", NULL};

static const struct listing trials = {"trials", "trials", trial_heading,
                                      trial_row};
static const struct listing branches = {"branches", "branches", branch_heading,
                                        branch_row};

/* ---- the verbs ----------------------------------------------------------- */

static int print_table(const struct listing *l, const json_t *items)
{
    struct table t = {.columns = 0};
    const json_t *item;
    size_t i;
    int failed;

    for (; l->heading[t.columns]; t.columns++)
        table_add(&t, "%s", l->heading[t.columns]);
    json_array_foreach(items, i, item) l->row(&t, item);
    failed = table_print(&t, stdout, "");
    table_deinit(&t);
    if (failed)
        console_error("out of memory: rows are missing");
    return failed ? EXIT_RUN_FAILED : EXIT_DONE;
}

static int print_json(const json_t *items)
{
    char *text = json_write(items, 0);

    if (text)
        printf("%s\n", text);
    else
        console_error("out of memory");
    mem_free(text);
    return text ? EXIT_DONE : EXIT_RUN_FAILED;
}

static enum err fetch(struct source *s, const struct listing *l,
                      const char *word, json_t **out, struct fault *f)
{
    char id[RUN_ID_MAX + 1], target[RUN_ID_MAX + 64];
    enum err err = source_find(s, word, id, f);

    if (err)
        return err;
    snprintf(target, sizeof(target), "/api/v1/runs/%s/%s", id, l->name);
    return source_list(s, target, l->name, out, f);
}

static int list_items(const struct listing *l, const char *summary, int argc,
                      char **argv)
{
    const char *state = STATE_DEFAULT, *server = NULL;
    bool json = false;
    const struct option_spec options[] = {
        {"state", 0, OPTION_TEXT, "DIR", "state folder (" STATE_DEFAULT ")",
         &state},
        {"server", 0, OPTION_TEXT, "URL", REPLAY_SERVER_HELP, &server},
        CLIENT_CACERT_OPTION,
        {"json", 0, OPTION_FLAG, NULL,
         "one JSON array, its items as over HTTP (docs/http.md)", &json},
    };
    const struct usage usage = {
        .verb = l->verb,
        .operands = "RUN",
        .summary = summary,
        .details = "RUN is an id, the beginning of one, or a name (its newest "
                   "run).",
        .operands_min = 1,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    struct source source;
    struct fault f = {0};
    json_t *items = NULL;
    int code = options_parse(&usage, argc, argv, &operands);
    enum err err;

    if (code != OPTIONS_GO_ON)
        return code;
    err = source_open(&source, source_server(server), state, &f);
    if (!err)
        err = fetch(&source, l, operands.item[0], &items, &f);
    if (err)
        console_error("%s", f.text);
    code = err    ? source_exit_code(err)
           : json ? print_json(items)
                  : print_table(l, items);
    json_decref(items);
    source_close(&source);
    return code;
}

int verb_trials(int argc, char **argv)
{
    return list_items(&trials, "the settings that a run has tried", argc, argv);
}

int verb_branches(int argc, char **argv)
{
    return list_items(&branches, "the versions of a run's training state", argc,
                      argv);
}
