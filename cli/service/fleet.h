/* The fleet: every run of a state folder, as a service shows them.
 *
 * The truth about a run is in three places of the state folder, and nothing of
 * it is kept anywhere else: its records are in the journal, whether its tuner
 * lives says the lock of its folder, and what the service was asked to do with
 * it is in job.json. The fleet reads them: it folds new records into histories
 * as they are journaled, whoever writes them, and so shows the runs of `mltune
 * run` in the same folder too. One owner thread; what others read is in the
 * view.
 *
 * A run that is over rests, a minute after its end: of its history what a list
 * shows stays in memory, and who asks for more reads the journal again
 * (fleet_fetch). It is whole again before it goes on. At VIEW_RUNS_MAX the run
 * that was over first is listed no more; it stays in the state folder.
 *
 * One that cannot be read (its files do not open, or are damaged) is listed as
 * unread, with the reason, and read again after pauses of up to a minute. Until
 * that succeeds nothing can be done with it but to delete it.
 */
#ifndef CLI_FLEET_H
#define CLI_FLEET_H

#include "api/view/view.h"
#include "base/clock_io.h"
#include "base/subprocess_io.h"
#include "cli/service/vigil.h"
#include "cli/state/job.h"
#include "cli/state/queue.h"
#include "tuner/history/history.h"
#include "tuner/history/journal_io.h"

#include <jansson.h>

struct event_log;

struct fleet_run {
    char id[RUN_ID_MAX + 1], name[RECORD_NAME_MAX];
    struct history history;  /* changed under the view's lock */
    json_t *config, *result; /* owned; result NULL: it has not ended */
    struct event_log *events;
    uint64_t seq;            /* of the last record that was read */
    bool alive;              /* its tuner lives */
    bool begins;             /* ... and has journaled nothing yet */
    struct subprocess child; /* its tuner; pid 0: not ours, or none */
    pid_t remembered;        /* its tuner, as the guard knows it; 0: none */
    int64_t log_cut;         /* of tuner.log, as log_file_cut knows it */
    struct vigil vigil;      /* of its tuner, as long as that lives */
    bool ended;              /* its end is journaled, as: */
    char status[RECORD_NAME_MAX], reason[RECORD_NAME_MAX];
    struct run_end told; /* of one that the journal has no end of; or zeroed */
    bool managed;        /* the service looks after it: job holds */
    struct job job;
    struct queue_entry entry;
    uint32_t attempts;            /* begun since its last further epoch */
    uint32_t refused;             /* starts in a row of which no process came;
                                   * of an unread one, reads in a row */
    char trouble[JOB_REASON_MAX]; /* why: the last one; "" */
    uint32_t epochs;              /* when it was begun last */
    uint64_t records;             /* the same */
    time_ns not_before;           /* it waits until then; FLEET_ASKED */
    time_ns over_at; /* its log was ended then; 0: it goes on, or is cleared
                      */
    int64_t beat;    /* its last sign of life (run_folder_beaten) before its
                      * end was read */
    bool rests;      /* what it did is not in memory (history_rest) */
    bool unread;     /* it could not be read, for trouble: nothing of it is
                      * known but what stands here; job does not hold */
    time_ns read_at; /* it is read again then */
};

/* It waits until somebody asks for it. */
#define FLEET_ASKED INT64_MAX

enum {
    FLEET_MISSED_MAX =
        16,             /* runs that could not be listed, to be tried again */
    FLEET_TRIES_MAX = 5 /* each so often, as the journal changes */
};

struct fleet {
    char state[FILE_PATH_MAX];
    struct view *view;       /* borrowed */
    struct journal *journal; /* for reading */
    struct fleet_run **run;  /* owned, [runs] */
    size_t runs, capacity;
    int64_t newest, version; /* of the journal */
    uint64_t numbers, turns; /* given so far */
    struct fleet_missed {
        char id[RUN_ID_MAX + 1];
        unsigned tries;
    } missed[FLEET_MISSED_MAX];
    size_t missed_len;
};

/* Reads every run of the state folder @state (absolute); of more than
 * VIEW_RUNS_MAX those that are queued, held or under way, and the newest. One
 * that cannot be read is listed as unread. Errors: those of the journal;
 * fleet_close is due after one, too. */
enum err fleet_open(struct fleet *fleet, const char *state, struct view *view,
                    struct fault *f);

/* After the view's readers are gone. */
void fleet_close(struct fleet *fleet);

/* NULL: there is none. */
struct fleet_run *fleet_find(const struct fleet *fleet, const char *id);

/* Whether the journal knows run @id, or cannot say: also one that is not
 * listed, because it could not be read or is one too many. */
bool fleet_journaled(const struct fleet *fleet, const char *id);

/* Reads what was journaled since the last call, and which tuners live that are
 * not ours. Cheap where nothing has changed. */
enum err fleet_read(struct fleet *fleet, struct fault *f);

/* Reads what is new of one run, its end included, whose tuner has just ended.
 */
enum err fleet_read_end(struct fleet *fleet, struct fleet_run *run,
                        struct fault *f);

/* Registers a run whose folder is at STATE/runs/ID with its files, durable on
 * return. @config: JSON. Errors: those of the journal; ERR_LIMIT VIEW_RUNS_MAX
 * runs that are not over.
 * After one there is no such run, unless not even that could be written:
 * fleet_journaled says so, and the folder must stay. On success it is listed,
 * be it as unread, unless there is no memory even for that. */
enum err fleet_register(struct fleet *fleet, const char *id, const char *name,
                        const char *config, int64_t wall_ns, struct fault *f);

/* view_options.fetch; @state: the folder's absolute name (const char *). In any
 * thread: it opens the journal by itself. */
enum err fleet_fetch(void *state, const char *id, struct view_whole *out,
                     struct fault *f);

/* Makes @run whole, before its tuner is started. Errors: those of the journal.
 */
enum err fleet_wake(struct fleet *fleet, struct fleet_run *run,
                    struct fault *f);

/* Whether it could go on if its tuner does not live. */
bool fleet_resumable(const struct fleet_run *run);

/* Whether nothing will happen to it unless somebody says so. */
bool fleet_over(const struct fleet_run *run);

/* Whether it is in the queue. */
bool fleet_waits(const struct fleet_run *run);

/* Sets the entry's state by what is known, and tells the view. After any change
 * of a run. */
void fleet_show(struct fleet *fleet, struct fleet_run *run);

/* Removes @run, whose tuner does not live: its folder, then what the journal
 * has of it; it is listed no more, and @run is freed. Errors:
 * ERR_BUSY a tuner lives after all, nothing changed; ERR_IO and those of the
 * journal: it is listed still, a part of it may be gone. */
enum err fleet_remove(struct fleet *fleet, struct fleet_run *run,
                      struct fault *f);

/* The same of run @id, which is not listed. */
enum err fleet_remove_unlisted(struct fleet *fleet, const char *id,
                               struct fault *f);

/* The job of @run is now @job, on the disk first. */
enum err fleet_set_job(struct fleet *fleet, struct fleet_run *run,
                       const struct job *job, struct fault *f);

#endif
