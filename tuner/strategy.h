/* Strategies: what is tried, for how long, and what is trained with.
 *
 * A strategy is a state machine inside the tuner. It never sees messages: it
 * looks at the branches that the board (tuner/board.h) keeps, and asks the
 * board for forks, slices, epochs and frees. `advance` is called once after
 * every event, when everything that the event brought has been taken in.
 */
#ifndef TUNER_STRATEGY_H
#define TUNER_STRATEGY_H

#include "base/fault.h"

#include <jansson.h>

struct board;

struct strategy_ops {
    const char *name;     /* as in the configuration, [a-z][a-z0-9_]* */
    const char *summary;  /* one line for `mltune strategies` */
    const char *settings; /* JSON schema of its settings; never NULL */

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
};

extern const struct strategy_ops strategy_mltuner;
extern const struct strategy_ops strategy_fixed;
extern const struct strategy_ops strategy_hyperband;
extern const struct strategy_ops strategy_asha;
extern const struct strategy_ops strategy_complete;

/* All of them, NULL-terminated. */
extern const struct strategy_ops *const strategies_built_in[];

#endif
