/* Trials: settings that are tried, each on a branch of its own.
 *
 * The list of what was tried from one state of the model: begun (forked and
 * recorded), told to the searcher, ended. A search (tuner/search/search.h) and
 * a contest (tuner/strategies/contest.h) each own one, run the branches in
 * their own ways and say what came of them. What was measured of a trial is
 * its `figures`, which are also its record's: a new one is recorded, and there
 * again when a run is resumed, without a word here.
 *
 * A trial's pointer is valid as long as the list. One owner; pure; inside
 * tuner/ only.
 */
#ifndef TUNER_TRIALS_H
#define TUNER_TRIALS_H

#include "tuner/board/board.h"
#include "tuner/search/runner.h"

enum {
    TRIALS_LIVE_MAX = 16 /* that run at the same time */
};

struct trial {
    uint32_t number; /* from 1 over the whole run; 0: of no search */
    uint32_t search;
    branch_id branch; /* BRANCH_NONE: it has none any more */
    struct setting setting;
    json_t *json;           /* owned: the setting's text form */
    uint32_t suggestion;    /* that it tries; 0: none */
    bool incumbent;         /* the setting in use */
    enum trial_label label; /* RUNNING before it is judged */
    struct trial_figures figures;
    char reason[RECORD_TEXT_MAX]; /* why it ended early; "" */
    bool ended;                   /* its last record is written */
    bool judged; /* its result counts: for the searcher it does not run */
    /* It diverged as a finalist: other finals of the search do without it. No
     * record says so, nor does the label: a search that goes on after a resume
     * has the same finals again. */
    bool fell;
    /* Result that the searcher is to hear, if it is news. */
    bool news;
    bool heard; /* the searcher that is open has heard of it */
    enum outcome outcome;
    double speed, resource;

    /* Members of searches only. */
    struct runner run;
    bool arrived; /* it has run its time, and the probe as far */
    bool lost;    /* its branch was: by an interruption of the run, or trouble
                   * of the machine; it is forked again */
    uint32_t troubles; /* of the machine, that its slices failed for */
    double fork_at_s;  /* no sooner */
    bool again;     /* it is finished; run for its branch's sake, not judged */
    bool doomed;    /* it cannot win (tuner/search/hopeless.h) */
    bool stopped;   /* for that, as soon as its slices are over */
    uint32_t looks; /* whether it can win */
    double looked;  /* share of its time at the last of these */
    uint64_t looked_samples;
};

struct trials {
    struct board *c;
    struct space space; /* what may change */
    uint32_t search;    /* its number, from 1 */
    uint32_t first;     /* number of the first trial; over the whole run */
    uint32_t recalled;  /* of `n`: begun before the run was resumed */
    struct trial *list; /* owned, [max + 1]; NULL before trials_open */
    uint32_t n, max;    /* begun; allowed, an incumbent not counted */
};

/* Prepares; allocates nothing. */
void trials_init(struct trials *t, struct board *c, const struct space *space,
                 uint32_t search, uint32_t first);

/* Makes room for @max trials and an incumbent. Errors: ERR_NOMEM. */
enum err trials_open(struct trials *t, uint32_t max);

/* Gives the memory back, without a word to the training system. Accepts a
 * zeroed list. */
void trials_deinit(struct trials *t);

/* Trials made, without the incumbent. */
uint32_t trials_made(const struct trials *t);

/* Number of trials that have a branch. */
uint32_t trials_live(const struct trials *t);

/* The incumbent's trial, which is the first; NULL without one. */
struct trial *trials_incumbent(const struct trials *t);

/* The trial that has tried @x, or tries it; NULL: none. */
const struct trial *trials_of(const struct trials *t, const struct setting *x);

/* The speed of trial @x; NAN where it is not judged, or had none. */
double trial_speed(const struct trial *x);

/* Makes @x canonical in the space of @t. */
void trials_canonical(const struct trials *t, struct setting *x);

/* Settings of trials that are not judged into out[max]; returns how many. */
size_t trials_running(const struct trials *t, struct setting out[], size_t max);

/* Whether @x's setting differs from those of others[n]. */
bool trials_distinct(const struct trials *t, const struct trial *x,
                     struct trial *const others[], size_t n);

/* ---- a trial's life ------------------------------------------------------ */

/* Fills the place of the next trial, which does not count before trial_begun:
 * its number and setting. @json: the setting's text form (shared). */
struct trial *trials_next(struct trials *t, const struct setting *setting,
                          json_t *json, uint32_t suggestion);

/* Forks its branch from @from. False: no branch is free. */
bool trial_fork(struct board *c, struct trial *x, branch_id from);

/* The trial of trials_next has its branch: it counts, and is recorded. Takes
 * @json over. */
void trial_begun(struct trials *t, struct trial *x);

/* Records @x as it is; the end of one that failed as a decision, too. */
void trial_record(struct board *c, const struct trial *x,
                  enum record_kind kind);

/* @x has failed, not diverged, since @why. */
void trial_failed(struct trial *x, const char *why);

/* Records the end of @x; at most once. Its branch stays. */
void trial_end(struct board *c, struct trial *x);

/* Ends @x and frees its branch. */
void trial_free(struct board *c, struct trial *x, const char *reason);

#endif
