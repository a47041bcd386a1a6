/* The view: what the HTTP threads read while the control loop writes it.
 *
 * The control loop folds each record into a run's history under the lock:
 *
 *     view_lock(v);
 *     history_apply(h, record);
 *     view_changed(v);
 *     view_unlock(v);
 *
 * Routes copy what they need under the lock (plain data, and references to JSON
 * that nobody changes any more) and write their answer after it, so that the
 * control loop never waits for more than a copy. Answers hold good as long as
 * the version stays.
 */
#ifndef API_VIEW_H
#define API_VIEW_H

#include "base/err.h"
#include "base/fault.h"
#include "base/json/registry.h"
#include "tuner/history/history.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct desk;
struct event_log;
struct mailbox;
struct view;

enum {
    VIEW_RUNS_MAX = 4096,
    VIEW_AWAKE_MAX = 8 /* of those that rest, so many are whole at a time */
};

/* All of a run that rests: owned by whoever has it. */
struct view_whole {
    struct history history;
    json_t *config, *result; /* result NULL: it has none */
};

/* All borrowed for the view's life, and not changed in it. */
struct view_options {
    const struct registry *registry; /* NULL: lists are empty */
    const json_t *schema;            /* of the configuration file; NULL: none */
    struct desk *desk; /* takes all writes; NULL: runs take their own */
    const char *state; /* folder that the runs are in; NULL: not told */
    /* Reads all of run @id, which rests, in any thread and without the view's
     * lock. On success the view owns @out. Errors: ERR_NOENT (it is
     * gone), and others, with what is wrong. NULL: no run rests. */
    enum err (*fetch)(void *ctx, const char *id, struct view_whole *out,
                      struct fault *f);
    void *fetch_ctx;
};

enum { VIEW_GROUP_MAX = 65, VIEW_REASON_MAX = 512 };

/* A run's job: facts that a service has beside the history. Zeroed: no service
 * looks after the run. */
struct view_job {
    bool managed;
    bool waits; /* in the queue */
    /* Where the run is, when its records do not say so: "queued", "held", ...;
     * "": they do. */
    char status[16];
    char reason[VIEW_REASON_MAX]; /* why it is there; "" */
    char group[VIEW_GROUP_MAX];
    double submitted_unix_s;
    uint32_t workers;
    uint64_t memory;   /* bytes; 0: not limited */
    uint32_t attempts; /* begun since its last further epoch */
};

struct view_run {
    char id[RECORD_NAME_MAX];
    char name[RECORD_NAME_MAX];
    const struct history *history; /* borrowed; read under the lock only */
    struct mailbox *mailbox;       /* borrowed; NULL: takes no commands */
    struct event_log *events;      /* borrowed; NULL: none are published */
    /* Both borrowed, read under the lock only; NULL: none. */
    const json_t *config, *result;
    struct view_job job;
    json_t *notes; /* owned; NULL: nobody wrote any (api/view/notes.h) */
    /* It rests: its owner keeps a rested history of it (history_rest), which is
     * @own, and no config and result. Whole while it is read: then history,
     * config and result are @whole's. */
    bool rests;
    const struct history *own;
    struct view_whole *whole; /* owned by the view; NULL: none */
    uint64_t used;            /* the larger the later */
    uint64_t sleeps;          /* how often it was put to rest */
};

/* Errors: ERR_NOMEM. */
enum err view_new(const struct view_options *options, struct view **out);
/* Accepts NULL. No reader may be left. */
void view_free(struct view *v);

const struct view_options *view_options(const struct view *v);

/* Lists run @id from now on, also before its history has started. @history is
 * borrowed until view_free; @id and @name are copied.
 * Errors: ERR_EXIST, ERR_LIMIT (VIEW_RUNS_MAX), ERR_NOMEM. Takes the lock. */
enum err view_add_run(struct view *v, const char *id, const char *name,
                      const struct history *history);

/* Run @id, which is listed, is no more: its history is not read again once this
 * has returned. Those after it move up. Takes the lock. */
void view_remove_run(struct view *v, const char *id);

/* Run @id, which is listed, takes commands through @mailbox (borrowed until
 * view_free). Takes the lock. */
void view_steer_run(struct view *v, const char *id, struct mailbox *mailbox);

/* The live events of run @id, which is listed, are in @events (borrowed until
 * view_free). Takes the lock. */
void view_publish_run(struct view *v, const char *id, struct event_log *events);

/* Run @id, which is listed, was begun with @config and, if it has ended,
 * printed
 * @result (NULL: it has not). Both are borrowed as its history is. Takes the
 * lock. */
void view_keep_run(struct view *v, const char *id, const json_t *config,
                   const json_t *result);

/* Run @id, which is listed, rests from now on, or no more; its owner has
 * changed its history under the lock, and calls this under the same. What was
 * whole of it goes. */
void view_rest_run(struct view *v, const char *id, bool rests);

/* Whether run @id rests, and is not whole: reading it takes long. Takes the
 * lock. */
bool view_run_sleeps(struct view *v, const char *id);

/* Makes run @id whole where it rests, for the reads that follow. The one that
 * was read longest ago goes for it. One that is not listed, or does not rest,
 * is fine. *@mark is for view_slept_since. Counts as a change. Takes the lock,
 * but not while it reads. Errors: ERR_NOMEM, and as view_options.fetch. */
enum err view_wake_run(struct view *v, const char *id, uint64_t *mark,
                       struct fault *f);

/* Whether run @id was put to rest since @mark was given: what was read of it
 * in between may be cut off. Takes the lock. */
bool view_slept_since(struct view *v, const char *id, uint64_t mark);

/* Sets the job of run @id, which is listed, to @job (copied). Takes the lock.
 */
void view_set_job(struct view *v, const char *id, const struct view_job *job);

/* People wrote @notes to run @id, which is listed: transferred; NULL: none.
 * Takes the lock. */
void view_set_notes(struct view *v, const char *id, json_t *notes);

/* Answers that never change while the program runs. */
enum view_text { VIEW_OPENAPI, VIEW_ROUTES, VIEW_TEXTS };

/* The text that @make gives, made by the first who asks and kept for the view's
 * life: borrowed. NULL: @make gave none. Any thread, no lock. */
const char *view_text(struct view *v, enum view_text which,
                      char *(*make)(const struct view *));

void view_lock(struct view *v);
void view_unlock(struct view *v);

/* Under the lock: what was changed counts as seen from here. */
void view_changed(struct view *v);

/* Grows with every view_changed; any thread, no lock. An answer built after
 * reading version n shows at least what n stands for. */
uint64_t view_version(const struct view *v);

/* Why the program cannot do its work now, for /readyz: a literal; NULL: it can,
 * as from the start. Any thread. */
void view_set_ready(struct view *v, const char *why_not);
const char *view_not_ready(const struct view *v);

/* Whether runs are yet to be added, as while a service reads those of its
 * folder: one that is not there may come. Not as from the start. Any thread. */
void view_set_filling(struct view *v, bool filling);
bool view_is_filling(const struct view *v);

/* Under the lock: runs in the order of addition; NULL past the last. */
const struct view_run *view_run_at(const struct view *v, size_t index);

/* Under the lock: the run of that id, or NULL. */
const struct view_run *view_run_find(const struct view *v, const char *id);

#endif
