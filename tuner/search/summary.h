/* Progress summary: how fast a trial converges, and whether to believe it.
 *
 * The label of a trial is decided here. Source: Cui 2017, section 5.3.1, with
 * our departures: K windows over the whole trace, none dropped; the loss
 * before the trial is the first point; what is not finite is diverged, never a
 * number that compares; where the loss has a floor, speed is relative; rises of
 * the first transient are no noise.
 */
#ifndef TUNER_SUMMARY_H
#define TUNER_SUMMARY_H

#include "tuner/board/trace.h"
#include "tuner/history/record.h"

enum {
    SUMMARY_WINDOWS = 10,  /* K: white noise falls K times in a row with
                            * probability < 0.1 % */
    SUMMARY_TRANSIENT = 3, /* windows in which a jump at the start may heal */
};

/* Summary of a trial's curve.
 *
 * @before   mean loss at its start (of a probe)
 * @floor    no loss is ever below; NAN: unknown
 * @out      speed, noise, range, seconds (of the curve), points, time_s and
 *           loss are written, no other member; fewer than K windows give as
 *           many points
 *
 * Returns the label; UNSTABLE without any window.
 *
 * noise: the largest rise between windows, after the first transient: the last
 * of the first SUMMARY_TRANSIENT windows that is not below the loss before.
 * speed = max(summary_progress(last loss + noise) / seconds, 0); converging if
 * range < 0 and noise < |range| / K; diverged if anything is not finite, or,
 * where the floor is known, if the last loss - floor exceeds ten times that
 * before. O(n). */
enum trial_label summary_of(const struct curve *curve, double before,
                            double floor, struct trial_figures *out);

/* Whether speed from @before on is in e-folds: the floor is known, and below.
 */
bool summary_is_relative(double before, double floor);

/* Progress of a loss from @before down to @loss: where the floor is known
 * and below @before, in e-folds of what lies above it (a first fall from far
 * above says little about the rest); else in units of the loss. */
double summary_progress(double before, double loss, double floor);

/* The reverse: how far the loss falls where it comes so far. */
double summary_fall(double before, double progress, double floor);

/* The speed that the points and the noise of @figures make; what they hold is
 * left as it is. With fewer than two points 0. */
double summary_speed(const struct trial_figures *figures, double floor);

/* No summary, as of a trial that runs, or of a trace that reported something
 * that is not finite: the same members are 0. */
void summary_none(struct trial_figures *out);

#endif
