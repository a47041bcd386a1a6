/* `mltune run CONFIG`: trains and tunes in the foreground. */
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/config/config.h"
#include "cli/config/config_file.h"
#include "cli/config/config_table.h"
#include "cli/config/registry.h"
#include "cli/run/plan.h"
#include "cli/run/start.h"
#include "cli/state/replay.h"
#include "cli/verbs/rehearsal.h"
#include "tuner/board/strategy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Command line's part beside the configuration. */
struct run_arguments {
    struct option_list sets;
    struct text seed_set, name_set, board_set; /* more of them */
    const char *state, *out, *id_file, *name, *board, *listen, *tls_cert,
        *tls_key;
    struct option_uint seed;
    bool no_tune, dry_run, json;
};

static const char details[] =
    "CONFIG is a JSON file (- is stdin); `mltune schema` tells what may stand "
    "in\nit, `mltune validate` what is wrong with it. The result goes to "
    "stdout, talk\nto stderr. Ctrl-C ends the run after a snapshot, a second "
    "one at once.";

static int parse_arguments(struct run_arguments *a, int argc, char **argv,
                           const char **config)
{
    const struct option_spec options[] = {
        {"set", 0, OPTION_LIST, "PATH=VALUE",
         "set a value (dotted path or JSON pointer; JSON, else text)",
         &a->sets},
        {"no-tune", 0, OPTION_FLAG, NULL,
         "search nothing: train with each tunable's default", &a->no_tune},
        {"dry-run", 0, OPTION_FLAG, NULL,
         "check everything, the data too, print the plan, do nothing",
         &a->dry_run},
        {"seed", 0, OPTION_UINT, "N", "seed of all random numbers", &a->seed},
        {"state", 0, OPTION_TEXT, "DIR",
         "where runs are kept (" STATE_DEFAULT ")", &a->state},
        {"out", 0, OPTION_TEXT, "DIR",
         "where the model goes (the run's folder in the state)", &a->out},
        {"id-file", 0, OPTION_TEXT, "FILE",
         "where the run's id is written, once it can be resumed", &a->id_file},
        {"name", 0, OPTION_TEXT, "NAME", "name of the run", &a->name},
        {"tensorboard", 0, OPTION_TEXT, "DIR",
         "where TensorBoard's event files go while it runs", &a->board},
        {"json", 0, OPTION_FLAG, NULL,
         "the result as one JSON object, last line on stdout", &a->json},
        {"listen", 0, OPTION_TEXT, "ADDR",
         "address of the HTTP service (any free port on loopback)", &a->listen},
        START_TLS_OPTIONS(*a),
    };
    const struct usage usage = {
        .verb = "run",
        .operands = "CONFIG",
        .details = details,
        .operands_min = 1,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code == OPTIONS_GO_ON)
        *config = operands_at(&operands, 0);
    return code;
}

static int add_set(struct run_arguments *a, const struct text *set)
{
    if (set->no_memory) {
        console_error("out of memory");
        return EXIT_RUN_FAILED;
    }
    if (a->sets.len == OPTION_VALUES_MAX) {
        console_error("more than %d values are set", OPTION_VALUES_MAX);
        return EXIT_USAGE;
    }
    a->sets.item[a->sets.len++] = set->s;
    return EXIT_DONE;
}

/* As JSON, so that a name like 12 stays a text. */
static int add_text_set(struct run_arguments *a, struct text *set,
                        const char *key, const char *value)
{
    json_t *text = json_string(value);
    char *json = text ? json_write(text, 0) : NULL;

    json_decref(text);
    if (!json) {
        console_error("--%s: expected a text in UTF-8", key);
        return EXIT_USAGE;
    }
    text_printf(set, "%s=%s", key, json);
    mem_free(json);
    return add_set(a, set);
}

/* A folder of the command line starts here, not at the configuration. */
static int add_board_set(struct run_arguments *a)
{
    char path[FILE_PATH_MAX];
    struct fault f = {0};
    enum err err = folder_absolute(a->board, path, &f);

    if (err) {
        console_error("--tensorboard: %s", f.text);
        return err == ERR_IO ? EXIT_IO : EXIT_USAGE;
    }
    return add_text_set(a, &a->board_set, "tensorboard", path);
}

/* --seed, --name and --tensorboard are values of the configuration: put in
 * behind those of --set, they are checked and kept like them. */
static int add_own_sets(struct run_arguments *a)
{
    int code = EXIT_DONE;

    if (a->seed.given) {
        text_printf(&a->seed_set, "seed=%llu",
                    (unsigned long long)a->seed.value);
        code = add_set(a, &a->seed_set);
    }
    if (a->name && code == EXIT_DONE)
        code = add_text_set(a, &a->name_set, "name", a->name);
    if (a->board && code == EXIT_DONE)
        code = add_board_set(a);
    return code;
}

/* --no-tune: the effective configuration says so too, so that it can be run
 * again as it is. */
static int drop_tuning(struct run_config *c)
{
    json_t *tuner = json_object_get(c->effective, "tuner");

    c->strategy =
        registry_find(cli_registry(), REGISTRY_STRATEGY, strategy_fixed.name);
    c->strategy_settings = NULL;
    c->starts_given = false;
    if (!tuner ||
        json_object_set_new(tuner, "strategy",
                            json_string(strategy_fixed.name)) ||
        json_object_set_new(tuner, "strategy_settings", json_object())) {
        console_error("out of memory");
        return EXIT_RUN_FAILED;
    }
    json_object_del(tuner, "initial");
    return EXIT_DONE;
}

/* The plan, once a run of it would begin. */
static int dry_run(const struct run_config *c, bool json)
{
    int code = rehearse(c, !json);

    return code == EXIT_DONE ? plan_print(c, json) : code;
}

int verb_run(int argc, char **argv)
{
    struct run_arguments a = {.state = STATE_DEFAULT};
    struct start_options start;
    struct run_config *config = NULL;
    const char *path;
    int code = parse_arguments(&a, argc, argv, &path);

    if (code != OPTIONS_GO_ON)
        return code;
    start = (struct start_options){.state = a.state,
                                   .out = a.out,
                                   .id_file = a.id_file,
                                   .listen = a.listen,
                                   .tls_cert = a.tls_cert,
                                   .tls_key = a.tls_key,
                                   .json = a.json};
    code = add_own_sets(&a);
    if (code == EXIT_DONE)
        code = run_config_load(path, &a.sets, &config);
    if (code == EXIT_DONE && a.no_tune)
        code = drop_tuning(config);
    if (code == EXIT_DONE && a.dry_run)
        code = dry_run(config, a.json);
    else if (code == EXIT_DONE)
        code = start_run(&start, config);
    run_config_free(config);
    text_deinit(&a.seed_set);
    text_deinit(&a.name_set);
    text_deinit(&a.board_set);
    return code;
}
