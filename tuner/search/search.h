/* Searches: rounds of trials from one parent that end with a few finalists.
 *
 * A search opens a searcher, measures the loss before with a probe, finds out
 * how long a trial has to be, tries settings until a stop rule holds, and hands
 * over the finalists with their branches. The rounds and their stop rules are
 * here; below, each knowing only those before it:
 *
 *   trials       what was tried: begun, recorded, ended (of contests as well)
 *   probe        the loss before, and the window
 *   judge        speed, label, lead over the setting in use, and their order
 *   trial_time   how long a trial is (Cui 2017, Algorithm 6)
 *   finalists    which trials deserve a longer look
 *   hopeless     which trials cannot win, and are stopped
 *   trial_run    each as far as the trial time goes
 *   share        of the run's time, that a first search may take
 *   proposals    the conversation with the searcher (of contests as well)
 *   primed       what earlier runs found, for a first search
 *   ladder       learning rates that a re-tune looks at first
 *   recall       trials from before a resume
 *
 * Inside tuner/ only; pure; docs/algorithms.md has the rules in words.
 */
#ifndef TUNER_SEARCH_H
#define TUNER_SEARCH_H

#include "tuner/search/finalists.h"
#include "tuner/search/primed.h"
#include "tuner/search/proposals.h"
#include "tuner/search/trial_time.h"

struct history;

enum {
    SEARCH_TOP = 5 /* settings that the stop rule compares */
};

enum search_state { SEARCH_BUSY, SEARCH_DONE };

struct search_plan {
    uint32_t number;      /* of the search, from 1 */
    uint32_t ordinal;     /* the same, without searches that a resume went back
                           * before: decides what is tried */
    uint32_t first_trial; /* number of its first trial */
    bool retune;
    branch_id parent;    /* idle, stays so; the owner's */
    uint32_t trials_max; /* >= 1 */
    double time_max;     /* of the trials, as time is measured (seconds, or
                          * samples with trial_clocks); INFINITY: no bound */
    double share; /* of the run's time limit, that it takes at most; 0: any */
    uint32_t vain_max; /* trials without one ahead of the incumbent, then it is
                        * over; 0: no bound */
    bool has_incumbent;
    struct setting incumbent;
    const struct setting *barred; /* [barred_len], borrowed for the call */
    size_t barred_len;            /* <= PROPOSALS_BARRED_MAX */
    const char *reason; /* a sentence, for the record; borrowed for the call */
    /* NULL: it begins. Else it goes on: its trials in there are known
     * (tuner/search/resumed_search.h). Borrowed for the search's life. */
    const struct history *known;
};

/* Its owner reads `plan`, `trials.n`, `trials.recalled`, `end_reason` and
 * `hurried`; the rest is its own. */
struct search {
    struct board *c;
    struct search_plan plan; /* without `barred` and `reason` */
    enum { SEARCH_OPENING, SEARCH_PROBING, SEARCH_TRYING, SEARCH_OVER } phase;
    double started_s, waited_s; /* waited_s: by the board, when it began */
    uint64_t started_clocks;    /* clocks run by all when it began */
    uint32_t steps;             /* of the ladder, taken */
    uint32_t given_up; /* trials after which it had ended before a resume, since
                        * none converged; 0: it had not */
    struct trials trials;
    struct judge judge;
    struct trial_time time;
    struct proposals proposals;
    struct primed primed;
    char end_reason[RECORD_TEXT_MAX];
    bool hurried; /* it has ended since its share of the time is used up */
};

/* Prepares; allocates nothing yet. */
void search_init(struct search *s, struct board *c,
                 const struct search_plan *plan);

/* Frees all branches but those of @keep (a trial's number; 0: none), and the
 * memory. Accepts a zeroed search. */
void search_deinit(struct search *s, uint32_t keep);

/* Frees the memory without a word to the training system: the run is over. */
void search_abandon(struct search *s);

/* Goes on. After SEARCH_DONE: search_finalists. */
enum search_state search_advance(struct search *s);

/* After SEARCH_DONE: the finalists, best speed first (finalists_of). None:
 * nothing was found. */
size_t search_finalists(const struct search *s,
                        struct trial *out[FINALISTS_MAX]);

/* Where there is none, and some setting has to do: finalists_least_bad. */
size_t search_least_bad(const struct search *s,
                        struct trial *out[FINALISTS_MAX]);

/* Records the end; @winner 0: none. */
void search_record_end(struct search *s, uint32_t winner, const char *reason);

#endif
