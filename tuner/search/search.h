/* Searches: rounds of trials from one parent that end with a few finalists.
 *
 * A search opens a searcher, measures the loss before with a probe, decides how
 * long a trial has to be (Cui 2017, Algorithm 6, with DESIGN's floors and
 * bounds), tries settings until the stop rule holds, and hands over the
 * finalists with their branches (tuner/search/search_finalists.h). Its parts
 * are modules of their own: branches run to goals (search_run), the probe
 * (search_probe), how long a trial is (search_time), the searcher (search_ask),
 * trials (search_trials) and their judgement (search_judge). Inside tuner/
 * only; docs/algorithms.md has the rules in words.
 */
#ifndef TUNER_SEARCH_H
#define TUNER_SEARCH_H

#include "tuner/board/board.h"
#include "tuner/search/summary.h"

struct history;

enum {
    SEARCH_FINALISTS_FIRST = 3, /* of a first search */
    SEARCH_FINALISTS_MAX = 4,   /* of a re-tune */
    SEARCH_BARRED_MAX = 16,
    SEARCH_TOP = 5,      /* settings that the stop rule compares */
    SEARCH_LIVE_MAX = 16 /* branches of trials, while the time is undecided */
};

/* As fast as can be told at a trial's horizon: this much of the fastest. */
#define SEARCH_NEAR 0.8

/* A branch that is run up to a goal. */
struct runner {
    branch_id branch;      /* BRANCH_NONE: none (any more) */
    uint64_t goal;         /* units of position since the fork */
    double goal_time;      /* trial time that the goal is for */
    uint64_t first, piece; /* units of the first slice and of others, so that
                            * it can be looked at on its way; 0: any */
};

struct trial {
    uint32_t number; /* over the whole run, from 1 */
    bool incumbent, ended, judged;
    bool arrived; /* it has run its time, and the probe as far */
    struct setting setting;
    json_t *json; /* owned */
    struct runner run;
    struct summary summary;   /* label RUNNING before the first */
    bool news;                /* that the searcher has not heard yet */
    uint64_t samples, clocks; /* of the branch when it was last looked at */
    double pace;              /* seconds a unit took it; 0: not measured
                                 (tuner/search/pace.h) */
    double paced;             /* the pace its summary is expressed in */
    double seconds; /* it ran, as time is measured here (search_time_of) */
    double own_s;   /* of its own slices, seconds whatever the measure */
    double lead, lead_se; /* over the incumbent, on the same samples */
    uint32_t pairs;       /* that these rest on */
    uint32_t suggestion;  /* that it tries; 0: none */
    bool lost; /* not finished when the run was interrupted: begins again */
    double window_noise; /* standard deviation of a window's mean, measured */
    bool doomed;         /* it cannot win */
    bool stopped;        /* for that, as soon as its slices are over */
    uint32_t looks; /* whether it can win: see tuner/search/search_stop.h */
    double looked;  /* share of its time at the last */
    uint64_t looked_samples;
    char reason[RECORD_TEXT_MAX]; /* why it ended early; "" */
};

enum search_state { SEARCH_BUSY, SEARCH_DONE };

struct search_plan {
    uint32_t number;      /* of the search, from 1 */
    uint32_t first_trial; /* number of its first trial */
    bool retune;
    branch_id parent;    /* idle, stays so; the owner's */
    uint32_t trials_max; /* >= 1 */
    double time_max;     /* of the trials, as time is measured here (seconds, or
                          * samples with trial_clocks); INFINITY: no bound */
    uint32_t vain_max; /* trials without one ahead of the incumbent, then it is
                        * over; 0: no bound */
    bool has_incumbent;
    struct setting incumbent;
    const struct setting *barred; /* [barred_len], borrowed for the call */
    size_t barred_len;
    const char *reason; /* a sentence, for the record */
    /* NULL: it begins. Else it goes on: its trials in there are known
     * (tuner/search/search_recall.h). Borrowed for the search's life. */
    const struct history *known;
};

struct search {
    struct board *c;
    struct search_plan plan; /* barred: see below */
    struct setting barred[SEARCH_BARRED_MAX];
    size_t barred_len;
    struct space space;        /* what this search may change */
    struct searcher *searcher; /* owned; NULL before it could be opened */
    enum { SEARCH_OPENING, SEARCH_PROBING, SEARCH_TRYING, SEARCH_OVER } phase;
    double started_s, waited_s; /* waited_s: by the board, when it began */
    uint64_t started_clocks;    /* clocks run by all when it began */

    struct runner probe;
    double loss_before;
    uint64_t window;     /* units of a window */
    uint32_t epochs_max; /* bound of a trial */
    double unit_s;       /* seconds a unit took the probe */

    double trial_time; /* seconds, or samples with trial_clocks */
    const char *floor; /* what set it, for people; NULL: what trials showed */
    double judged_s;   /* of a trace, from its start, that counts; 0: all */
    bool decided, exhausted, gave_up, asked;
    double decision_s; /* longest of the searcher's answers */
    bool answered;     /* one has come, the searcher has started */
    bool asking;       /* its answer is awaited since asking_s */
    double asking_s;
    uint32_t barred_told; /* proposals that it was told are barred */

    uint32_t steps; /* of the ladder of learning rates, taken (search_ask.c) */

    struct trial *trial;      /* owned, [trials_max + 1] */
    uint32_t trials;          /* begun, the incumbent counted */
    uint32_t recalled;        /* of them, begun before the run was resumed */
    struct setting next;      /* asked for, not begun yet */
    json_t *next_json;        /* owned */
    uint32_t next_suggestion; /* that it is; 0: none */
    char end_reason[RECORD_TEXT_MAX];
};

/* Prepares; allocates nothing yet. */
void search_init(struct search *s, struct board *c,
                 const struct search_plan *plan);

/* Frees all branches but those of @keep (a trial's number; 0: none), and the
 * memory. Accepts a zeroed search. */
void search_deinit(struct search *s, uint32_t keep);

/* The same without a word to the training system: the run is over. */
void search_abandon(struct search *s);

/* Goes on. After SEARCH_DONE: tuner/search/search_finalists.h. */
enum search_state search_advance(struct search *s);

/* A run's first search, whether it is asked for at once or after an epoch with
 * a given initial setting: nothing is known of where good settings are. */
bool search_is_wide(const struct search *s);

/* Trials made, without the incumbent. */
uint32_t search_made(const struct search *s);

/* Records the end; @winner 0: none. */
void search_record_end(struct search *s, uint32_t winner, const char *reason);

#endif
