/* Strategies: what is tried, for how long, and what is trained with.
 *
 * A strategy is a state machine inside the tuner. It never sees messages: it
 * looks at the branches that the board (tuner/board/board.h) keeps, asks the
 * board for forks, slices, epochs and frees, and sees where the run stands
 * (tuner/core/lifecycle.h). `advance` is called once after
 * every event, when everything that the event brought has been taken in.
 */
#ifndef TUNER_STRATEGY_H
#define TUNER_STRATEGY_H

#include "base/fault.h"
#include "base/proto/branch.h"

#include <jansson.h>
#include <stdbool.h>

struct board;

/* More branches than that do not live (TUNER_BRANCHES_MAX). */
enum { STRATEGY_WAITING_MAX = 64 };

struct strategy_waiting {
    uint32_t n;
    struct {
        uint32_t trial;
        branch_id branch; /* kept, or a training branch, as of save */
    } x[STRATEGY_WAITING_MAX];
};

/* The source of the settings that a strategy tries. */
enum strategy_proposer {
    PROPOSER_SEARCHER, /* the run's searcher */
    PROPOSER_SAMPLING, /* the run's searcher where its setting `sampling` is
                        * "searcher", else random draws */
    PROPOSER_NONE      /* nothing is searched */
};

struct strategy_ops {
    const char *name;     /* as in the configuration, [a-z][a-z0-9_]* */
    const char *summary;  /* one line for `mltune strategies` */
    const char *settings; /* JSON schema of its settings; never NULL */
    enum strategy_proposer proposer;
    bool retunes; /* searches again where lifecycle_retune_wanted says so */
    bool recalls; /* a search that was interrupted goes on with the trials that
                   * had finished; else the strategy numbers its searches and
                   * trials on from lifecycle_searches_before and
                   * lifecycle_trials_before, in records and in texts */

    /* Makes a state for a run on @c (borrowed for the state's life; options and
     * space are set, nothing else yet). @settings may be NULL. Errors:
     * ERR_INVAL (in @f what was expected), ERR_NOMEM. */
    enum err (*open)(struct board *c, const json_t *settings, void **state,
                     struct fault *f);

    /* Accepts what open made. */
    void (*close)(void *state);

    /* Goes as far as it can without a further event. Called only while the
     * training system is ready and the run neither pauses nor ends. Must not
     * block nor fail: what lacks memory is tried again at a later event (the
     * board then asks for a timer). Decides on nothing but the board's state,
     * so that two runs with the same events are the same. */
    void (*advance)(void *state);

    /* From now on the run trains @branch, which the user has promoted: a live
     * training branch that is idle, whole and the strategy's from here on. What
     * is searched or trained so far ends and is freed; the board's base and the
     * record of the choice are the strategy's to make. Errors: ERR_AGAIN not
     * now, nothing changed. */
    enum err (*adopt)(void *state, branch_id branch);

    /* State that a resume needs to go on: *@branch is the branch that it goes
     * on from (kept, or a training branch, which is forked as it will be when
     * the slices that are out have ended), *@out a new object. A member
     * "search" is the number of the search that goes on with its finished
     * trials, where there is one. Without @out nothing could go on from here,
     * and *@branch stays as it is, or the strategy's: a resume goes back to the
     * snapshot before, in the end to branch 0. Errors: ERR_AGAIN not now, ask
     * after a later event; ERR_NOMEM. */
    enum err (*save)(void *state, branch_id *branch, json_t **out);

    /* The trials beside *@branch of save whose branches are in the snapshot,
     * as of the same moment; NULL: the strategy has none. A restore finds them
     * again by lifecycle_restored. */
    void (*waiting)(const void *state, struct strategy_waiting *out);

    /* Goes on from @saved, what save made (NULL: from the beginning, where
     * nothing was saved). @branch: a kept branch that is as *@branch was, held
     * by the board until the return (board_hold); 0: the first branch itself.
     * The board's best is set; options.resume has the trials. Called once,
     * after open and before advance. Errors: ERR_FORMAT (@saved is not what
     * save makes), ERR_NOMEM; nothing changed. */
    enum err (*restore)(void *state, const json_t *saved, branch_id branch);
};

extern const struct strategy_ops strategy_mltuner;
extern const struct strategy_ops strategy_fixed;
extern const struct strategy_ops strategy_hyperband;
extern const struct strategy_ops strategy_asha;
extern const struct strategy_ops strategy_complete;
extern const struct strategy_ops strategy_tupaq;
extern const struct strategy_ops strategy_pbt;

/* All of them, NULL-terminated. */
extern const struct strategy_ops *const strategies_built_in[];

#endif
