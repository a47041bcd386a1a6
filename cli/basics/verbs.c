#include "cli/basics/verbs.h"

#include "base/text.h"

#include <string.h>

/* In order of help. */
static const struct verb verbs[] = {
    {"run", "train a model and tune how it trains, in one run", false,
     verb_run},
    {"resume", "go on with a run that was interrupted", false, verb_resume},
    {"compare", "the same job under several strategies, one table", false,
     verb_compare},
    {"eval", "a saved model's loss and metric on other data", false, verb_eval},
    {"topics", "the top words of each topic of a saved model", false,
     verb_topics},
    {"serve", "a service: runs are submitted over HTTP", false, verb_serve},
    {"submit", "put a run into the queue of a service", false, verb_submit},
    {"ls", "the runs of a state folder, or of a server", false, verb_ls},
    {"show", "what a run did", false, verb_show},
    {"watch", "a run as it goes on, in the terminal", false, verb_watch},
    {"trials", "the settings that a run has tried", false, verb_trials},
    {"branches", "the versions of a run's training state", false,
     verb_branches},
    {"pause", "run nothing until it is continued", false, verb_pause},
    {"continue", "go on with a run that is paused", false, verb_continue},
    {"stop", "end a run: its best model is written first", false, verb_stop},
    {"retune", "search again at the next end of an epoch", false, verb_retune},
    {"snapshot", "write a snapshot now", false, verb_snapshot},
    {"limit", "change what ends a run while it goes on", false, verb_limit},
    {"fork", "try a setting from a branch, beside the training", false,
     verb_fork},
    {"suggest", "have a setting tried in the search", false, verb_suggest},
    {"promote", "make a branch what the run trains", false, verb_promote},
    {"free", "give up a branch that was forked by hand", false, verb_free},
    {"delete", "forget a run that has ended, with its folder", false,
     verb_delete},
    {"export", "write a run for other programs", false, verb_export},
    {"validate", "check a configuration: all errors at once", false,
     verb_validate},
    {"schema", "the JSON schema of the configuration", false, verb_schema},
    {"apps", "training applications, with settings and defaults", false,
     verb_apps},
    {"searchers", "searchers, with settings and defaults", false,
     verb_searchers},
    {"strategies", "strategies, with settings and defaults", false,
     verb_strategies},
    {"data", "generate data, say what a data file holds", false, verb_data},
    {"doctor", "what this machine can do, and what is missing", false,
     verb_doctor},
    {"completions", "what completes words in a shell", false, verb_completions},
    {"man", "a verb's page of the manual", false, verb_man},
    {"node", "a training node; started by launchers", true, verb_node},
    {"searcher-host", "hosts a searcher plug-in; started by tuners", true,
     verb_searcher_host},
};
enum { VERBS = sizeof(verbs) / sizeof(*verbs) };

const struct verb *verb_find(const char *name)
{
    for (size_t i = 0; i < VERBS; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

const struct verb *verb_at(size_t i)
{
    return i < VERBS ? &verbs[i] : NULL;
}

const char *verb_nearest(const char *word)
{
    const char *names[VERBS];

    for (size_t i = 0; i < VERBS; i++)
        names[i] = verbs[i].name;
    return text_nearest(word, names, VERBS);
}
