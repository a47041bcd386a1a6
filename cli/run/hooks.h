/* Hooks: programs that a run starts when something happens to it.
 *
 * A hook is a command of the configuration (hooks.command). For each event that
 * it wants, it is started with one JSON object on its stdin, and MLTUNE_EVENT
 * and MLTUNE_RUN in its environment; it works in the configuration's folder,
 * and what it writes goes to the run's own log. No shell is in between. One
 * runs at a time. It blocks nobody: it is started and looked at between two
 * steps of the run, and waited for only once the run is over. One that takes
 * longer than its deadline is killed; how it ends changes nothing but the log.
 *
 * Events wait in a queue of HOOK_QUEUE_MAX: a best that comes while one waits
 * takes its place, and at the bound the oldest that waits goes. So the end of
 * the run, which comes last, is never lost. One owner thread.
 */
#ifndef CLI_HOOKS_H
#define CLI_HOOKS_H

#include "base/clock_io.h"
#include "base/subprocess_io.h"

#include <jansson.h>
#include <limits.h>

enum { HOOK_QUEUE_MAX = 8, HOOK_WORDS_MAX = 60, HOOK_RUN_MAX = 96 };

enum hook_event {
    HOOK_BEST,    /* a further epoch is the best so far */
    HOOK_FAILURE, /* the run failed, or lost its training system and goes on */
    HOOK_END,     /* the run ended, and has not failed */
    HOOK_EVENT_COUNT
};

struct hook_waiting {
    enum hook_event event;
    char *text; /* owned: the JSON */
};

/* Zeroed: there is none. */
struct hooks {
    bool own; /* its program is this one: a webhook */
    /* Into the configuration, or own below; [0] NULL: none. */
    char *argv[HOOK_WORDS_MAX + 1];
    char secret[PATH_MAX], seconds[16];
    const char *folder;     /* borrowed */
    char run[HOOK_RUN_MAX]; /* MLTUNE_RUN=... */
    int log_fd;             /* borrowed */
    unsigned wanted;        /* events, a bit each */
    time_ns limit;          /* that one may take */
    struct hook_waiting queue[HOOK_QUEUE_MAX];
    size_t len;
    struct subprocess child;
    enum hook_event now; /* of the child */
    time_ns due;         /* when it is killed */
    bool late;           /* it was */
    uint64_t dropped;    /* events that did not fit */
};

/* The hooks of @config, a whole configuration, for run @run, whose log is
 * @log_fd: all borrowed for the hooks' life, as @folder, where they work. */
void hooks_init(struct hooks *h, const json_t *config, const char *folder,
                const char *run, int log_fd);

/* The same of the webhook: events go to hooks.url, by a process of this program
 * (cli/remote/webhook.h). */
void hooks_init_web(struct hooks *h, const json_t *config, const char *folder,
                    const char *run, int log_fd);

/* Whether @event is one that somebody wants to know. */
bool hooks_want(const struct hooks *h, enum hook_event event);

/* @event has happened; @about, an object (transferred; NULL: out of memory, the
 * event is lost and that is logged), is what the hook gets, with the members
 * event and at besides. Starts nothing yet. */
void hooks_tell(struct hooks *h, enum hook_event event, json_t *about);

/* Looks at the hook that runs, and starts the next. Does not block. */
void hooks_turn(struct hooks *h);

/* How long it is waited for hooks. */
struct hooks_patience {
    int most_ms;  /* in all; < 0: any time */
    int hurry_fd; /* not once it is readable; -1: none */
    /* Called meanwhile, each second at least; NULL: nothing is. */
    void (*tick)(void *ctx);
    void *ctx;
};

/* Waits for all that runs or waits, each for no longer than its own deadline
 * and @p; what runs then is killed. */
void hooks_finish(struct hooks *h, const struct hooks_patience *p);

/* Kills what runs, forgets what waits. Accepts a zeroed one. */
void hooks_deinit(struct hooks *h);

#endif
