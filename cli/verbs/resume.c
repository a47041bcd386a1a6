/* `mltune resume RUN`: goes on with a run that was interrupted, whoever or
 * whatever interrupted it, with the configuration that it began with. */
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/config/config.h"
#include "cli/config/config_file.h"
#include "cli/config/registry.h"
#include "cli/run/session.h"
#include "cli/run/start.h"
#include "cli/state/replay.h"

#include "base/host/machine_io.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

struct resume_arguments {
    const char *state, *listen, *tls_cert, *tls_key;
    struct option_list sets;
    bool json, from_beginning, other_data;
};

static const char details[] =
    "RUN is an id, the beginning of one, or a name (its newest run). The run "
    "goes on\n"
    "from its last snapshot; so does one that failed, if it has one or trials. "
    "Finished "
    "trials\n"
    "are known; those that may still win run again, as far as they had come\n"
    "(hyperband, asha and pbt go on with all their trials, unless "
    "snapshot.trials\n"
    "is \"anew\"; complete and tupaq begin an interrupted search anew). It "
    "keeps the configuration, and the folder for the model, "
    "that\n"
    "it began with; but where it runs may be changed, from then on: --set\n"
    "cluster.nodes=4,\n"
    "cluster.workers, memory.limit, snapshot.every, journal.limit.";

/* Members that may be set: they change where a run trains, not what. */
static const char *const changeable[] = {"cluster", "memory", "snapshot",
                                         "journal"};

static bool may_be_set(const char *set)
{
    const char *path = set + (set[0] == '/');
    size_t n = strcspn(path, "./=");

    for (size_t i = 0; i < sizeof(changeable) / sizeof(*changeable); i++)
        if (strlen(changeable[i]) == n && strncmp(path, changeable[i], n) == 0)
            return true;
    return false;
}

static int check_sets(const struct option_list *sets)
{
    for (size_t i = 0; i < sets->len; i++)
        if (!may_be_set(sets->item[i])) {
            console_error(
                "--set %s: only cluster, memory, snapshot and "
                "journal can be "
                "changed when a run goes on%s",
                sets->item[i],
                strncmp(sets->item[i] + (sets->item[i][0] == '/'), "stop", 4) ==
                        0
                    ? "; what ends it is changed while it runs: by "
                      "mltune limit, on its page, or by PATCH /api/v1/runs/RUN "
                      "(docs/http/commands.md); once it has "
                      "finished, a new run trains longer"
                    : "");
            return EXIT_USAGE;
        }
    return OPTIONS_GO_ON;
}

static int parse_arguments(struct resume_arguments *a, int argc, char **argv,
                           const char **run)
{
    const struct option_spec options[] = {
        {"state", 0, OPTION_TEXT, "DIR",
         "where runs are kept (" STATE_DEFAULT ")", &a->state},
        {"set", 0, OPTION_LIST, "PATH=VALUE",
         "set a value of cluster, memory, snapshot or journal (as run --set)",
         &a->sets},
        {"from-beginning", 0, OPTION_FLAG, NULL,
         "begin anew where no snapshot can be used (else they are kept)",
         &a->from_beginning},
        {"other-data", 0, OPTION_FLAG, NULL,
         "go on where the data are not those it began with (else refused)",
         &a->other_data},
        {"json", 0, OPTION_FLAG, NULL,
         "the result of the whole run as one JSON object, last line on stdout",
         &a->json},
        {"listen", 0, OPTION_TEXT, "ADDR",
         "address of the HTTP service (as configured)", &a->listen},
        START_TLS_OPTIONS(*a),
    };
    const struct usage usage = {
        .verb = "resume",
        .operands = "RUN",
        .details = details,
        .operands_min = 1,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    *run = operands_at(&operands, 0);
    return check_sets(&a->sets);
}

/* The journal's word on the run. */
struct resume_found {
    char id[RUN_ID_MAX + 1];
    char *config; /* owned: JSON; NULL: the journal's is damaged */
};

/* 0: no; ERR_NOMEM: it cannot be told. */
static enum err damage_of(const struct journal_run *run)
{
    json_t *json = NULL;
    enum err err = run->damaged ? ERR_FORMAT
                                : json_load(run->config, strlen(run->config),
                                            &json, NULL, NULL);

    json_decref(json);
    return err;
}

static enum err take_run(void *ctx, const struct journal_run *run)
{
    struct resume_found *found = ctx;
    enum err err = damage_of(run);

    snprintf(found->id, sizeof(found->id), "%s", run->id);
    if (err)
        return err == ERR_NOMEM ? err : ERR_OK;
    found->config = mem_strdup(run->config);
    return found->config ? ERR_OK : ERR_NOMEM;
}

/* The checkpoint has a copy. Who goes on says that it serves. */
static enum err take_copy(struct journal *j, const char *state,
                          struct resume_found *out, struct fault *f)
{
    struct replayed r;
    enum err err = replay_run(j, state, out->id, &r, f);

    if (err)
        return err;
    out->config = json_write(r.config, 0);
    replayed_deinit(&r);
    return out->config ? ERR_OK : fault_set(f, ERR_NOMEM, "out of memory");
}

/* @path becomes the state folder's absolute name. */
static enum err find(const char *state, const char *word,
                     char path[FILE_PATH_MAX], struct resume_found *out,
                     struct fault *f)
{
    struct journal *j = NULL;
    enum err err = replay_open(state, path, &j, f);

    if (err)
        return err;
    err = journal_find_run(j, word, take_run, out, f);
    if (!err && !out->config)
        err = take_copy(j, path, out, f);
    journal_close(j);
    if (!err && !run_id_valid(out->id))
        err = fault_set(f, ERR_FORMAT, "run \"%s\" has no valid id", out->id);
    return err;
}

static int parse_config(const struct resume_found *found, const char *folder,
                        const struct option_list *sets, struct run_config **out)
{
    const struct config_env env = {.registry = cli_registry(),
                                   .cores = machine_cores("")};
    struct problems problems = {0};
    enum err err = run_config_parse(&env, found->config, strlen(found->config),
                                    folder, sets, out, &problems);

    if (err)
        run_config_say("the run's configuration", &problems);
    if (err && err != ERR_INVAL)
        console_error("the run's configuration: %s", err_text(err));
    problems_deinit(&problems);
    return err == ERR_INVAL ? EXIT_CONFIG : exit_code_of(err);
}

static int resume(const struct resume_arguments *a,
                  const struct resume_found *found, const char *state)
{
    char folder[FILE_PATH_MAX], out[FILE_PATH_MAX];
    struct start_options start = {.resume = found->id,
                                  .reconfigured = a->sets.len > 0,
                                  .from_beginning = a->from_beginning,
                                  .other_data = a->other_data,
                                  .state = a->state,
                                  .listen = a->listen,
                                  .tls_cert = a->tls_cert,
                                  .tls_key = a->tls_key,
                                  .json = a->json};
    struct run_config *config = NULL;
    struct fault f = {0};
    enum err err = session_recall(state, found->id, folder, out, &f);
    int code;

    if (err) {
        console_error("run %s cannot be resumed: %s", found->id, f.text);
        return replay_exit_code(err);
    }
    start.out = out[0] ? out : NULL;
    code = parse_config(found, folder, &a->sets, &config);
    if (code == EXIT_DONE)
        code = start_run(&start, config);
    run_config_free(config);
    return code;
}

int verb_resume(int argc, char **argv)
{
    struct resume_arguments a = {.state = STATE_DEFAULT};
    char state[FILE_PATH_MAX];
    struct resume_found found = {.config = NULL};
    const char *word;
    struct fault f = {0};
    int code = parse_arguments(&a, argc, argv, &word);
    enum err err;

    if (code != OPTIONS_GO_ON)
        return code;
    err = find(a.state, word, state, &found, &f);
    if (err) {
        console_error("%s", f.text);
        code = replay_exit_code(err);
    } else {
        code = resume(&a, &found, state);
    }
    mem_free(found.config);
    return code;
}
