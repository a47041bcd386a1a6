/* The route of the whole run's loss curve, and of what a plot needs of many
 * trials and branches: answers whose size does not grow with the run.
 *
 * What is long is read in pieces, the view's lock given up between them, so
 * that the control loop waits for one piece at most; what the run gains
 * meanwhile may be in the answer or not. */
#ifndef API_CURVE_ROUTES_H
#define API_CURVE_ROUTES_H

#include "api/http/route.h"
#include "api/http/shape.h"

enum {
    CURVE_SPANS_MAX = 2000,
    CURVE_SPANS_DEFAULT = 500,
    SURVEY_TRIALS_MAX = 10000,
    SURVEY_TRIALS_DEFAULT = 2000,
    TREE_BRANCHES_MAX = 2000,
    TREE_BRANCHES_DEFAULT = 200
};

/* Training loss by global clock, of the surviving lineage and of all other
 * branches: first, lowest, highest, last (and one not finite) of `spans` equal
 * parts of the clocks `from` .. `to`. */
void handle_curve(const struct route_call *call, struct response *out);

/* Trials as columns: at most `max_trials` of them, evenly spread, and the
 * fastest of each stretch that was left out; each with its standing in its
 * search. */
void handle_survey(const struct route_call *call, struct response *out);

/* The branches that training and trials ran in at clocks `from` .. `to`: at
 * most `max_branches`, the surviving lineage first (of more than half of them
 * what ran longest), then what lives, then those that ran longest, the newest
 * of what ran as long; each with the nearest ancestor that is shown. */
void handle_tree(const struct route_call *call, struct response *out);

struct record_trial;

/* The last loss of a trial's trace; NAN: it has none. */
double survey_loss(const struct record_trial *t);

extern const struct shape curve_shapes[];

extern const struct shape survey_shapes[];

extern const struct shape tree_shapes[];

#endif
