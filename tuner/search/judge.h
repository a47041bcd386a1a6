/* Judging the trials of a search: speed, label, lead over the incumbent, and
 * their order.
 *
 * The label itself follows from a curve (tuner/search/summary.h); here the
 * curve is made of the branch's reports and the probe's. Inside tuner/ only;
 * pure.
 */
#ifndef TUNER_JUDGE_H
#define TUNER_JUDGE_H

#include "tuner/search/probe.h"
#include "tuner/search/trials.h"

/* Speeds within this much of the fastest: as fast as can be told at a trial's
 * horizon. */
#define JUDGE_NEAR 0.8

struct judge {
    struct trials *trials; /* borrowed */
    struct probe probe;
    double judged_s; /* of a trace, from its start, that counts; 0: all */
    bool lenient;    /* a trial that only seems ahead counts as ahead */
};

/* @x's summary from what its branch @b has run. */
void judge_trial(struct judge *j, struct trial *x, const struct branch *b);

/* Judges the trials that have arrived and ran since they were last judged;
 * drops what diverged. True if there was any. */
bool judge_arrived(struct judge *j);

/* All trials are judged anew, by the first @seconds of their traces. */
void judge_again(struct judge *j, double seconds);

/* Whether some trial would be converging if it had ended after @seconds. */
bool judge_converging_within(struct judge *j, double seconds);

/* The label that the choice of finalists goes by: DIVERGED where @x diverged as
 * a finalist. */
enum trial_label judge_label(const struct trial *x);

bool judge_any_converging(const struct judge *j);

/* The unit of a trial's speed, whose points are @f's. */
enum speed_unit judge_speed_unit(const struct board *c,
                                 const struct trial_figures *f);

/* A trial that may win: converging; or, where none is, one that got anywhere.
 */
bool judge_eligible(const struct trial *x, bool any_converging);

/* Ahead of the incumbent on the same samples, beyond the standard error of the
 * difference. */
bool judge_ahead(const struct judge *j, const struct trial *x);

/* Whether a trial may replace the incumbent; after a divergence there is
 * none. */
bool judge_challenges(const struct judge *j, const struct trial *x);

/* Whether some trial settles how long trials have to be. */
bool judge_any_clear(const struct judge *j);

/* The fastest distinct eligible trials into out[@max], best first. */
size_t judge_fastest(const struct judge *j, struct trial *out[], size_t max);

/* The live trial that has done worst so far, other than @but; NULL: none. */
struct trial *judge_slowest_live(const struct judge *j,
                                 const struct trial *but);

/* Sets what the searcher is to hear of each trial, by its figures. */
void judge_results(const struct judge *j);

#endif
