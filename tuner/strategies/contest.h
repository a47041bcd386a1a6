/* Contests: settings that train epoch by epoch, wait, go on, and drop out.
 *
 * What the strategies to compare with have in common (hyperband, asha,
 * complete): a search whose trials are lines from the first state of the model.
 * A trial that has run as far as it was asked to waits as a paused branch, so
 * going on with it costs nothing. Who has the best model so far leads: its
 * lineage is the run's, so that a run that ends at any moment has a model, a
 * schedule and a result. Any trial that reaches the target ends the run.
 * Inside tuner/ only.
 */
#ifndef TUNER_CONTEST_H
#define TUNER_CONTEST_H

#include "tuner/board/plateau.h"
#include "tuner/board/training.h"
#include "tuner/search/proposals.h"

#include <limits.h>

enum {
    CONTEST_HOPELESS = 64, /* trials without a single result: no more */
    CONTEST_REFUSED = 5,   /* trials in a row that lacked memory: no more */
    CONTEST_TO_THE_END = INT_MAX
};

struct contestant {
    struct trial *t; /* borrowed from the contest's trials, or `own` */
    uint32_t parent; /* trial whose branch it was forked from; 0: the first
                      * state of the model */
    uint32_t group;  /* of the strategy: which bracket */
    uint32_t rung;   /* of the strategy: how many rungs it has run */
    uint32_t spent;  /* units of the resource that it was run for */
    struct training line;
    bool started;  /* the line is there */
    bool running;  /* has not arrived where it was sent */
    bool parked;   /* waits as the best model: has no branch of its own */
    bool over;     /* converged, or made the last epoch: cannot go on */
    bool out;      /* dropped, diverged, failed: has no branch any more */
    bool diverged; /* after a resume: to be put out as that */
    struct plateau plateau;
    struct training_epoch last; /* latest epoch; epoch 0: none */
    double score;   /* latest, less is better; NAN: none or not finite */
    double best;    /* least so far; NAN: none */
    double seconds; /* of branches that it had before */
    uint64_t clocks, samples;
    uint32_t tries;          /* of its tests' forks that were seen to fail */
    uint32_t refusals;       /* of its own fork, in a row with nothing run */
    uint64_t refused_clocks; /* that all had run by the last of them */
    double fork_at_s;        /* earlier only if more have run */
    branch_id from; /* held, while a restored contest has no branch of it yet */
};

struct contest {
    struct board *c;
    struct setting first; /* tried first, where `initial` is given */
    uint64_t unit_clocks; /* unit of the resource, in clocks; 0: epochs */
    char unit[48];        /* "epochs", "times 100 clocks" */
    bool open;
    bool reopens;   /* the searcher of before a resume is to be opened again */
    bool restoring; /* branches are still to be forked (contest_saved.h) */
    /* Their search is number 1 and their first trial too, or what follows those
     * of before a resume, after which the contest begins anew. */
    struct trials trials;
    struct contestant *x;       /* owned, [trials.max]; trial i is x[i]'s */
    uint32_t searchers;         /* opened so far: each has a seed of its own */
    struct proposals proposals; /* searcher NULL: opened with the next trial */
    uint32_t shortages;         /* times that memory was lacking */
    uint32_t told;              /* of these, that the strategy was told of */
    uint32_t refused;  /* trials in a row that memory was lacking for */
    uint32_t troubles; /* trials in a row given up for trouble of the machine */
    bool in_turns;     /* the strategy runs one trial after another */
    uint32_t turn;     /* the trial whose turn it is; 0: nobody's */
    uint32_t leader;   /* trial with the best model so far; 0: none */
    uint32_t champion; /* trial never dropped for memory; 0: none */
    double reference;  /* score of the first finite epoch; NAN before */
    bool ended;        /* the search is over: the winner goes on alone */
    bool has_adopted;  /* the user has promoted a branch: it is trained alone */
    struct contestant adopted;
    struct trial own; /* of `adopted`: its number is 0 */
    branch_id from;   /* held: what `adopted` is still to be forked from, after
                       * a resume; 0: nothing */
    uint32_t from_epochs; /* that it has handed over */
    double started_s;
    uint64_t started_clocks;
};

enum contest_state { CONTEST_BUSY, CONTEST_ARRIVED, CONTEST_OUT };

/* A state that waits for contest_start. Errors: ERR_INVAL (`initial`). */
enum err contest_init(struct contest *ct, struct board *c, struct fault *f);

/* Gives the memory back, without a word to the training system. Accepts a
 * zeroed contest. */
void contest_deinit(struct contest *ct);

/* Reads the strategy's setting `unit`: "epochs", or a number of clocks. */
void contest_unit(struct contest *ct, const json_t *settings);

/* Members of a JSON schema's "properties": that which contest_searcher reads,
 * and both. */
#define CONTEST_SAMPLING                                                       \
    "\"sampling\": {\"enum\": [\"random\", \"searcher\"], \"default\": "       \
    "\"random\", \"description\": \"random: as published; searcher: the "      \
    "run's searcher proposes, and is told each rung's results; the default "   \
    "where tuner.searcher is given\"}"
#define CONTEST_SETTINGS                                                       \
    "\"unit\": {\"anyOf\": [{\"enum\": [\"epochs\"]}, {\"type\": "             \
    "\"integer\", \"minimum\": 1, \"maximum\": 1000000000}], \"default\": "    \
    "\"epochs\", \"description\": \"what resources are counted in: epochs, "   \
    "or so many clocks\"}, " CONTEST_SAMPLING

/* Reads the strategy's setting `sampling`: "random" draws settings by the
 * searcher `random` whatever the run's own is, as published; "searcher" leaves
 * it to the run's. True in the latter case. */
bool contest_searcher(struct board *c, const json_t *settings);

/* Begins the search, of at most @max trials (cut to the user's max_trials), or
 * one where there is nothing to tune. False: no memory now, call again. */
bool contest_start(struct contest *ct, uint32_t max, const char *reason);

/* Closes the searcher: the next trial's setting comes from a new one with a
 * seed of its own, as if the search began anew. */
void contest_sample_anew(struct contest *ct);

/* Begins a trial; NULL: not now (an event will come), or no other one is to be
 * had (contest_spent). */
struct contestant *contest_begin(struct contest *ct);

/* Begins a trial with @setting that goes on from where @parent waits, which is
 * not out and has a branch: with its epochs and their results. NULL: not now
 * (an event will come). Only while there are trials left (contest_left), and
 * the parent must not run before contest_ready has the child. */
struct contestant *contest_inherit(struct contest *ct,
                                   const struct contestant *parent,
                                   const struct setting *setting);

/* Whether the trial's branch is there. ARRIVED: it is; OUT: it is not to be
 * had. */
enum contest_state contest_ready(struct contest *ct, struct contestant *x);

/* Whether the trial's branch was refused, and is to be forked again. */
bool contest_lacks_memory(const struct contestant *x);

/* How often memory was lacking since the last call. */
uint32_t contest_shortages(struct contest *ct);

/* Trials that were begun, and that may still be. */
uint32_t contest_begun(const struct contest *ct);
uint32_t contest_left(const struct contest *ct);

/* No trial can be begun any more: the number is used up, the searcher has no
 * other setting, or too many trials came to nothing. */
bool contest_spent(const struct contest *ct);

/* Takes a trial up to @goal units of the resource in all: to the end of its
 * lineage's epoch of that number, or so many times unit_clocks. ARRIVED: it is
 * there, or over before; OUT: it diverged or failed. BUSY also when the run has
 * ended meanwhile (a target). */
enum contest_state contest_run(struct contest *ct, struct contestant *x,
                               uint32_t goal);

/* The searcher is to hear how good @x is by now. */
void contest_judge(struct contest *ct, struct contestant *x);

/* Ends a trial that does not run, and frees its branch. */
void contest_drop(struct contest *ct, struct contestant *x, const char *reason);

/* Records a trial: all that it has run, under the label it has. */
void contest_record(struct contest *ct, struct contestant *x,
                    enum record_kind kind);

/* Counts what its branch has run as run before, in @x. */
void contest_count_spent(const struct contest *ct, struct contestant *x);

/* Ends a trial that had diverged before a resume, and has no branch. */
void contest_diverged(struct contest *ct, struct contestant *x);

/* Ranks @a before @b: a better score; those without a number last, of equals
 * the older first. */
bool contest_before(const struct contestant *a, const struct contestant *b);

struct contestant *contest_trial(struct contest *ct, uint32_t number);

/* Number of its trial; 0: what the user has promoted. */
uint32_t contest_number(const struct contestant *x);
const struct setting *contest_setting(const struct contestant *x);

/* `adopted` is from now on what is trained: @branch (BRANCH_NONE: not there
 * yet) with @setting; @json, the same, is transferred. */
void contest_take_over(struct contest *ct, branch_id branch,
                       const struct setting *setting, json_t *json);

/* Where a trial stands in `x`. */
uint32_t contest_index(const struct contest *ct, const struct contestant *x);

/* Ends the search: @winner (NULL: none) is what the run goes on with, if it was
 * not dropped; all others are freed. */
void contest_end(struct contest *ct, struct contestant *winner,
                 const char *reason);

/* After contest_end: trains the winner until the job's stops end the run. */
void contest_train(struct contest *ct, struct contestant *winner);

/* For a strategy whose search is the whole training: ends the search and the
 * run. The model is @winner's best (NULL: contest_failed); the reason is
 * "max_epochs" where it was trained so far, else "converged". */
void contest_finish(struct contest *ct, struct contestant *winner,
                    const char *text);

/* Ends the run because nothing that was tried made progress. */
void contest_failed(struct contest *ct);

/* A score as what a searcher maximises: exp((first - score) / |first|), where
 * @first is the run's first score (1 where that is 0). Falls strictly as the
 * score rises, is above 0, and near the first score a difference of 1 % is one
 * of 1 %. */
double contest_quality(double first, double score);

#endif
