/* A small training application for tests: least squares on generated data.
 *
 * y = <x, w> + noise over `samples` rows of `dims` values; loss the squared
 * error, metric the validation RMSE. Tables: `w` (shared, the run's rule),
 * `seen` (exclusive, "add": how often each sample was met), `_own` (local:
 * clocks of each worker). Settings besides: `parts` (clocks a pass), `order`
 * ("samples", "parts"), `fail_clock` (error at that branch clock, in the last
 * worker), `nan_clock` (non-finite loss there), `slow_us` (each clock busy that
 * long). Tunable of its own: `shrink` multiplies gradients.
 */
#ifndef TESTS_UNIT_LSQ_H
#define TESTS_UNIT_LSQ_H

#include "mltune/app.h"

extern const struct mlt_app_ops lsq_app;

/* The contexts that a worker was called with, if not NULL: called under no
 * lock, from the workers. */
typedef void lsq_watch(unsigned worker, const struct mlt_clock_ctx *ctx);
extern lsq_watch *lsq_watcher;

#endif
