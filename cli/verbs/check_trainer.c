/* mltune check-trainer COMMAND...: plays a tuner against a program. */
#include "base/deadlines.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/subprocess_io.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/signals.h"
#include "cli/basics/verbs.h"
#include "cli/check/check_io.h"
#include "cli/config/config_file.h"
#include "cli/config/program.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static bool as_json, first;
static const char *settings_text, *folder_name, *config_name, *only, *skip;
static struct option_uint nodes = {.value = 1}, seconds = {.value = 120};

static const struct option_spec options[] = {
    {"json", 0, OPTION_FLAG, NULL,
     "print {\"passed\", \"checks\": [...]} on stdout", &as_json},
    {"settings", 0, OPTION_TEXT, "JSON",
     "the program's settings (config.app.settings): an object", &settings_text},
    {"folder", 0, OPTION_TEXT, "DIR", "where the program works (here)",
     &folder_name},
    {"nodes", 0, OPTION_UINT, "N", "processes that are one program, to 16 (1)",
     &nodes},
    {"config", 0, OPTION_TEXT, "FILE",
     "a run's configuration, sent as it is instead of one made for the checks",
     &config_name},
    {"only", 0, OPTION_TEXT, "CHECK", "make this check, or a,b,c", &only},
    {"skip", 0, OPTION_TEXT, "CHECK",
     "all but this, or a,b,c: `beats` and `loss` wait for seconds", &skip},
    {"first", 0, OPTION_FLAG, NULL,
     "stop at the first failure: later ones may follow from it", &first},
    {"timeout", 0, OPTION_UINT, "S",
     "seconds for a step; loading may take ten times that (120)", &seconds},
};

static const struct usage usage = {
    .verb = "check-trainer",
    .operands = "-- COMMAND...",
    .details = "Plays a tuner: forks, slices, tests, cuts, snapshots, "
               "refusals, strange\nmessages. Each failure says which "
               "sentence of docs/protocol.md it breaks, what\nwas expected "
               "and what came. Exit code 0: all passed; 1: a check failed.",
    .operands_min = 1,
    .operands_max = PROGRAM_WORDS_MAX,
    .n = sizeof(options) / sizeof(*options),
    .option = options};

/* ---- telling ------------------------------------------------------------- */

static const char *outcome_name(enum check_outcome o)
{
    return o == OUTCOME_PASSED   ? "passed"
           : o == OUTCOME_FAILED ? "failed"
                                 : "not_applicable";
}

static void tell(void *ctx, const struct check_result *r)
{
    (void)ctx;
    if (as_json)
        return;
    if (r->outcome == OUTCOME_PASSED) {
        console_line(stdout, "ok      %-14s%s", r->check->name,
                     r->check->title);
    } else if (r->outcome == OUTCOME_NOT_APPLICABLE) {
        console_line(stdout, "-       %-14snot made: %s", r->check->name,
                     r->came);
    } else {
        console_line(stdout, "FAILED  %-14s%s", r->check->name,
                     r->check->title);
        console_line(stdout, "        rule %s: %s", rule_label(r->rule),
                     rule_text(r->rule));
        console_line(stdout, "        expected: %s", r->expected);
        console_line(stdout, "        came: %s", r->came);
        if (r->fatal)
            console_line(stdout, "        nothing else can be checked");
    }
    fflush(stdout);
}

static json_t *result_json(const struct check_result *r)
{
    json_t *o = json_pack("{s:s, s:s, s:s}", "name", r->check->name, "title",
                          r->check->title, "result", outcome_name(r->outcome));

    int failed = 0;

    if (r->outcome == OUTCOME_FAILED)
        failed = json_object_update_new(
            o, json_pack("{s:s, s:s, s:s, s:s}", "rule", rule_label(r->rule),
                         "sentence", rule_text(r->rule), "expected",
                         r->expected, "came", r->came));
    if (r->outcome == OUTCOME_NOT_APPLICABLE)
        failed = json_object_set_new(o, "reason", json_string(r->came));
    return json_whole(o, failed);
}

static int print_json(const struct player *p)
{
    json_t *list = json_array(), *all;
    const struct check_result *r;
    size_t n;
    int code, failed = 0;

    r = player_results(p, &n);
    for (size_t i = 0; i < n; i++)
        failed |= json_array_append_new(list, result_json(&r[i]));
    all = json_pack("{s:b, s:o}", "passed", player_passed(p), "checks",
                    json_whole(list, failed));
    code = console_json(all, 0);
    json_decref(all);
    return code;
}

static int tell_all(const struct player *p)
{
    size_t n, failed = 0, passed = 0;
    const struct check_result *r = player_results(p, &n);
    int code = EXIT_DONE;

    for (size_t i = 0; i < n; i++) {
        failed += r[i].outcome == OUTCOME_FAILED;
        passed += r[i].outcome == OUTCOME_PASSED;
    }
    if (as_json)
        code = print_json(p);
    else
        console_line(stdout, "%zu passed, %zu failed, %zu not made", passed,
                     failed, n - passed - failed);
    return code != EXIT_DONE || failed ? EXIT_RUN_FAILED : EXIT_DONE;
}

/* ---- the configuration --------------------------------------------------- */

static json_t *read_settings(void)
{
    json_error_t e = {.text = ""};
    json_t *o;
    bool lacking;

    if (!settings_text)
        return json_object();
    o = json_parse(settings_text, strlen(settings_text), 0, &e, &lacking);
    if (json_is_object(o))
        return o;
    console_error("--settings: expected a JSON object%s%s", o ? "" : ": ",
                  o ? "" : e.text);
    json_decref(o);
    return NULL;
}

/* As a run of this program would have it. */
static json_t *make_config(const struct operands *words, json_t *settings)
{
    json_t *command = json_array();
    int failed = 0;

    for (size_t i = 0; i < words->len; i++)
        failed |= json_array_append_new(command, json_string(words->item[i]));
    return json_pack(
        "{s:s, s:{s:o, s:s, s:o}, s:{s:I, s:i}, s:{s:I}, s:i,"
        " s:{s:{s:s, s:f, s:f, s:s, s:f}, s:{s:s, s:i, s:i, s:i}}}",
        "name", "check-trainer", "app", "command", json_whole(command, failed),
        "name", "program", "settings", settings, "cluster", "nodes",
        (json_int_t)nodes.value, "workers", 1, "memory", "limit",
        (json_int_t)1 << 32, "seed", 7, "tunables", "learning_rate", "type",
        "float", "min", 1e-6, "max", 1.0, "scale", "log", "default", 0.01,
        "batch_size", "type", "int", "min", 1, "max", 4096, "default", 32);
}

static int load_config(json_t **out)
{
    struct run_config *c = NULL;
    int code = run_config_load(config_name, NULL, &c);

    if (code == EXIT_DONE)
        *out = json_incref(c->effective);
    run_config_free(c);
    return code;
}

static int prepare_config(const struct operands *words, json_t **out)
{
    json_t *settings;

    if (config_name)
        return load_config(out);
    settings = read_settings();
    if (!settings)
        return EXIT_USAGE;
    *out = make_config(words, settings);
    if (*out)
        return EXIT_DONE;
    console_error("out of memory");
    return EXIT_RUN_FAILED;
}

/* ---- the verb ------------------------------------------------------------ */

static int check(json_t *config, const char *folder,
                 const struct launch_program *program)
{
    struct check_options o = {
        .player = {.config = config,
                   .folder = folder,
                   .only = only,
                   .skip = skip,
                   .first = first,
                   .nodes = (uint32_t)nodes.value,
                   .step_s = (double)seconds.value},
        .program = program,
        .signal_fd = -1,
        .tell = tell,
    };
    struct player *p = NULL;
    struct fault f = {0};
    int code;

    if (signals_open_guarded(&o.signal_fd, DEADLINE_STOP_RUN_MS, false, &f) !=
            ERR_OK ||
        check_run(&o, &p, &f) != ERR_OK) {
        console_error("%s", f.text);
        code = f.code == ERR_NOENT      ? EXIT_USAGE
               : f.code == ERR_CANCELED ? EXIT_INTERRUPTED
                                        : exit_code_of(f.code);
    } else {
        code = tell_all(p);
    }
    signals_close(o.signal_fd);
    player_free(p);
    return code;
}

int verb_check_trainer(int argc, char **argv)
{
    char folder[FILE_PATH_MAX], path[PATH_MAX], python[PATH_MAX];
    char *words[PROGRAM_WORDS_MAX + 1] = {NULL}, lacks[SUBPROCESS_LACKS_MAX];
    struct launch_program program = {
        .path = path, .argv = words, .folder = folder};
    struct operands operands;
    struct fault f = {0};
    json_t *config = NULL;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    if (nodes.value < 1 || nodes.value > CHECK_NODES_MAX || !seconds.value) {
        console_error(seconds.value ? "--nodes: expected 1 to 16"
                                    : "--timeout: expected at least 1");
        return EXIT_USAGE;
    }
    if (folder_absolute(folder_name ? folder_name : ".", folder, &f)) {
        console_error("--folder: %s", f.text);
        return EXIT_USAGE;
    }
    if (!program_find(folder, operands.item[0], path)) {
        console_error("%s: there is no such program", operands.item[0]);
        return EXIT_USAGE;
    }
    if (subprocess_lacks(path, lacks)) {
        console_error("%s: %s", operands.item[0], lacks);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < operands.len; i++)
        words[i] = (char *)operands.item[i];
    if (program_python(python))
        program.python = python;
    code = prepare_config(&operands, &config);
    if (code == EXIT_DONE)
        code = check(config, folder, &program);
    json_decref(config);
    return code;
}
