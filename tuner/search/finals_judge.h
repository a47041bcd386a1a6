/* Judging finals: which finalist is the best by a time, and whether it matters.
 *
 * By validation metric (without one, mean training loss of the epoch) and where
 * that is going. What lies within the sampling error of a metric that has a
 * known one (tuner/search/metric_noise.h) is decided by the training loss,
 * which is far less noisy: with 2,000 images an accuracy of 0.96 has an error
 * of 0.0044, and a run that took such differences for real trained with the
 * slowest of three (docs/results/strategies.md). Functions of what the
 * finalists' epochs brought; pure. Inside tuner/ only.
 */
#ifndef TUNER_FINALS_JUDGE_H
#define TUNER_FINALS_JUDGE_H

#include "tuner/search/finals.h"

/* An epoch's result; less is better. */
double finals_score(const struct finals *f, const struct training_epoch *e);

/* Score of @x at @time; NAN before its first epoch. */
double finals_score_at(const struct finals *f, const struct finalist *x,
                       double time);

/* The best by @time of those that are not out, without @but (may be NULL); NULL
 * where there is none. f->step is known. */
struct finalist *finals_best(struct finals *f, double time,
                             const struct finalist *but);

/* Whether the outlook of @x, a finalist with an epoch, decides: it is
 * validated, by a metric whose sampling error is not known. */
bool finals_has_outlook(const struct finals *f, const struct finalist *x);

/* The best of those that are not out by what each came to with its rate fallen;
 * NULL where one of them was not seen so, or none of them gave a number. */
struct finalist *finals_best_fallen(struct finals *f);

/* Whether neither the metric nor the training loss tells the two apart: then it
 * does not matter which of them is trained with. False where the metric's
 * sampling error is not known. */
bool finals_alike(const struct finals *f, const struct finalist *x,
                  const struct finalist *y, double time);

#endif
