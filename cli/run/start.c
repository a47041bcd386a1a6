#include "cli/run/start.h"

#include "base/json/json.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/config/config_table.h"
#include "cli/config/program.h"
#include "cli/config/registry.h"
#include "cli/run/rank.h"
#include "cli/run/session.h"
#include "cli/run/warm.h"
#include "tuner/board/earlier.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static void fill_tuner(const struct run_config *c, struct tuner_options *t)
{
    *t = (struct tuner_options)TUNER_OPTIONS;
    t->name = c->name;
    t->app = c->app_name;
    t->program = config_is_program(c);
    t->strategy = c->strategy->ops;
    t->strategy_settings = c->strategy_settings;
    t->space = &c->space;
    t->searcher = c->searcher->ops;
    t->searcher_settings = c->searcher_settings;
    t->initial = c->starts_given ? &c->initial : NULL;
    t->earlier = c->earlier;
    t->retune = c->retune;
    t->max_trials = c->max_trials;
    t->trial_clocks = c->trial_clocks;
    t->metric = c->metric;
    t->target_loss = c->target_loss;
    t->target_metric = c->target_metric;
    t->plateau_epochs = c->plateau_epochs;
    t->plateau_samples = c->plateau_samples;
    t->plateau_hits = c->plateau_hits;
    t->max_epochs = c->max_epochs;
    t->max_time_s = c->max_time_s;
    t->snapshot_every_s = c->snapshot_every_s;
    t->snapshot_keep = c->snapshot_keep;
    t->snapshot_trials = c->snapshot_trials;
    t->seed = c->seed;
}

/* @path from the configuration's folder; NULL stays. */
static const char *from_folder(const struct run_config *c, const char *path,
                               char out[PATH_MAX])
{
    if (!path || *path == '/')
        return path;
    snprintf(out, PATH_MAX, "%s/%s", c->folder, path);
    return out;
}

/* The words of a program's command; the schema bounds them. */
struct start_words {
    char *argv[PROGRAM_WORDS_MAX + 1];
    char python[PATH_MAX];
    struct launch_program program;
};

static const struct launch_program *fill_program(const struct run_config *c,
                                                 struct start_words *out)
{
    const json_t *list = json_object_get(c->app_settings, "command"), *word;
    size_t i;

    if (!c->program_path)
        return NULL;
    assert(json_array_size(list) <= PROGRAM_WORDS_MAX);
    *out = (struct start_words){.program = {.path = c->program_path,
                                            .argv = out->argv,
                                            .folder = c->program_folder}};
    json_array_foreach((json_t *)list, i, word)
    {
        out->argv[i] = (char *)json_string_value(word);
    }
    if (program_python(out->python))
        out->program.python = out->python;
    return &out->program;
}

/* What earlier runs found, where it is to be looked for: into the configuration
 * and @earlier. False: out of memory, which was told. */
static bool begin_warm(const struct start_options *a,
                       const struct run_config *c,
                       struct session_options *session, struct earlier *earlier,
                       struct tuner_options *t)
{
    struct fault f = {0};
    bool changed;
    enum err err = warm_begin(a->state, a->resume, c, &changed, &f);

    if (!err && changed) {
        err = earlier_from_json(
            &c->space, json_at(c->effective, "/tuner/warm_start"), earlier, &f);
        t->earlier = earlier;
        session->reconfigured |= a->resume != NULL;
    }
    if (err)
        console_error("%s", f.text);
    return !err;
}

static int run(const struct start_options *a, const struct run_config *c)
{
    struct start_words words;
    struct tuner_options tuner;
    struct session_options session = {
        .resume = a->resume,
        .reconfigured = a->reconfigured,
        .from_beginning = a->from_beginning,
        .other_data = a->other_data,
        .state = a->state,
        .out = a->out,
        .id_file = a->id_file,
        .listen = a->listen ? a->listen : c->listen,
        .read = json_string_value(json_at(c->effective, "/api/read")),
        .config = c->effective,
        .given = c->given,
        .folder = c->folder,
        .tuner = &tuner,
        .registry = cli_registry(),
        .program = fill_program(c, &words),
        .journal_limit = c->journal_limit,
        .json = a->json,
        .quiet = options_quiet(),
        .verbose = options_verbose(),
    };
    char cert[PATH_MAX], key[PATH_MAX];
    struct earlier earlier;
    json_t *schema = NULL;
    int code;

    assert(a);
    assert(c);
    if (a->tls_cert || a->tls_key) {
        session.tls_cert = a->tls_cert;
        session.tls_key = a->tls_key;
    } else if (!a->listen) {
        session.tls_cert = from_folder(c, c->tls_cert, cert);
        session.tls_key = from_folder(c, c->tls_key, key);
    }
    /* Only for those who ask over HTTP: without it the run goes on. */
    if (config_full_schema(cli_registry(), &schema, NULL) == ERR_OK)
        session.schema = schema;
    fill_tuner(c, &tuner);
    if (!begin_warm(a, c, &session, &earlier, &tuner)) {
        json_decref(schema);
        return EXIT_RUN_FAILED;
    }
    code = session_run(&session);
    json_decref(schema);
    return code;
}

static bool is_launched_by(const struct run_config *c, const char *name)
{
    const char *launcher =
        json_string_value(json_at(c->effective, "/cluster/launcher"));

    return launcher && strcmp(launcher, name) == 0;
}

/* Of who could not meet the others. In a pod it is never that of a failed run,
 * with which the job ends for good (cli/verbs/kube_job.c). */
static int meeting_exit_code(enum err err, bool pods)
{
    int code = exit_code_of(err);

    return pods && code == EXIT_RUN_FAILED ? EXIT_INTERRUPTED : code;
}

int start_run(const struct start_options *a, const struct run_config *c)
{
    bool pods = is_launched_by(c, "kubernetes");
    struct fault f = {0};
    struct own_rank rank;
    enum err err;
    int code;

    assert(a);
    if (!pods && !is_launched_by(c, "mpi"))
        return run(a, c);
    err = pods ? rank_meet_pods(a->state, &rank, &f)
               : rank_meet(a->state, &rank, &f);
    if (err) {
        console_error("%s", f.text);
        return meeting_exit_code(err, pods);
    }
    if (rank.is.rank > 0)
        return rank_serve(&rank);
    code = run(a, c);
    rank_part(&rank, code);
    return code;
}
