#include "cli/basics/verbs.h"

#include "base/commands/commands.h"
#include "base/text.h"

#include <assert.h>
#include <string.h>

/* In order of help. */
static const struct verb rows[] = {
    {"run", "train a model and tune how it trains, in one run", false,
     verb_run},
    {"resume", "go on with a run that was interrupted", false, verb_resume},
    {"save", "a model from a run's snapshot", false, verb_save},
    {"recover", "what is whole of a damaged state folder", false, verb_recover},
    {"compare", "the same job and seeds under several strategies, one table",
     false, verb_compare},
    {"eval", "a saved model's loss and metric on other data", false, verb_eval},
    {"predict", "what a saved model says of new data", false, verb_predict},
    {"topics", "the top words of each topic of a saved model", false,
     verb_topics},
    {"serve", "a service of many runs, submitted over HTTP", false, verb_serve},
    {"submit", "put a run into the queue of a service, or of Slurm", false,
     verb_submit},
    {"deploy", "the objects by which Kubernetes trains it in pods", false,
     verb_deploy},
    {"upload", "a file into the data folder of a service", false, verb_upload},
    {"token", "who may use a service: named tokens, each with a role", false,
     verb_token},
    {"ls", "the runs of a state folder, or of a server, newest first", false,
     verb_ls},
    {"show", "what a run did: settings, trials, epochs, decisions", false,
     verb_show},
    {"open", "the address of the page: all runs, also those that have ended",
     false, verb_open},
    {"watch", "a run as it goes on, in the terminal", false, verb_watch},
    {"log", "what a run's training system wrote to stdout and stderr", false,
     verb_log},
    {"trials", "the settings that a run has tried", false, verb_trials},
    {"branches", "the versions of a run's training state", false,
     verb_branches},
    {NULL, NULL, false, verb_steer}, /* all verbs of the table of commands */
    {"delete", "forget a run that has ended, with its folder", false,
     verb_delete},
    {"note", "tags and a note of a run", false, verb_note},
    {"export", "write a run for other programs", false, verb_export},
    {"validate", "check a configuration: all errors at once", false,
     verb_validate},
    {"check-trainer", "whether a program keeps the rules of the protocol",
     false, verb_check_trainer},
    {"schema", "the JSON schema of the configuration", false, verb_schema},
    {"apps", "training applications, with tunables, settings and defaults",
     false, verb_apps},
    {"searchers", "searchers built in and found, with settings and defaults",
     false, verb_searchers},
    {"strategies", "strategies, with settings and defaults", false,
     verb_strategies},
    {"data", "generate data, say what a data file holds", false, verb_data},
    {"doctor", "what this machine, and a server, can do, and what is missing",
     false, verb_doctor},
    {"completions", "the script that completes words in a shell", false,
     verb_completions},
    {"man", "a verb's page of the manual", false, verb_man},
    {"node", "a training node; started by launchers", true, verb_node},
    {"app-host", "says what an application plug-in is; started by others", true,
     verb_app_host},
    {"rank-node", "a node on another rank of mpirun's; started by tuners", true,
     verb_rank_node},
    {"webhook", "sends an event to a server; started by runs", true,
     verb_webhook},
    {"searcher-host", "hosts a searcher plug-in; started by tuners", true,
     verb_searcher_host},
};
enum { VERBS_MAX = sizeof(rows) / sizeof(*rows) + COMMAND_COUNT };

static struct verb verbs[VERBS_MAX];
static size_t verbs_len;

static void add_verb(struct verb v)
{
    assert(verbs_len < VERBS_MAX && v.name && v.summary);
    verbs[verbs_len++] = v;
}

static void add_commands(void)
{
    for (enum command_id id = 0; id < COMMAND_COUNT; id++) {
        const struct command_verb *v = command_of(id)->verb;

        if (v)
            add_verb((struct verb){v->name, v->summary, false, verb_steer});
    }
}

/* Puts all verbs in place; returns how many. Only the program's first thread
 * asks for verbs. */
static size_t fill(void)
{
    if (verbs_len > 0)
        return verbs_len;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (rows[i].name)
            add_verb(rows[i]);
        else
            add_commands();
    return verbs_len;
}

const struct verb *verb_find(const char *name)
{
    assert(name);
    for (size_t i = 0, n = fill(); i < n; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

const struct verb *verb_at(size_t i)
{
    return i < fill() ? &verbs[i] : NULL;
}

const char *verb_nearest(const char *word)
{
    const char *names[VERBS_MAX];
    size_t n = fill();

    assert(word);
    for (size_t i = 0; i < n; i++)
        names[i] = verbs[i].name;
    return text_nearest(word, names, n);
}
