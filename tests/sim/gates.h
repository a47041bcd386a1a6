/* Families and yardsticks of the measured claims about whole runs.
 *
 * Families on the noisy quadratic (tests/sim/physics.h). Most, with the seeds 1
 * to 1000, were used while rules and constants were chosen; those `held_out`,
 * and the seeds 10001 to 11000 of all, were not looked at before the final
 * measurement (docs/results.md).
 */
#ifndef TESTS_SIM_GATES_H
#define TESTS_SIM_GATES_H

#include "tests/sim/physics.h"
#include "tests/sim/sim.h"

enum { GATES_VARIANTS = 8, GATES_HELD_OUT_SEED = 10000 };

struct gates_family {
    struct sim_family f;
    bool held_out, drifts;
    double horizon_epochs; /* of the defaults: what a user would give the job */
};

size_t gates_families(void);
void gates_family(size_t i, struct gates_family *out);

/* The best that one fixed setting can do, known in advance. */
struct gates_oracle {
    double target;      /* loss that the best fixed setting for the horizon has
                         * after a part of it */
    struct knobs knobs; /* fixed setting that is there first; its learning rate
                         * is in units of the physics' best rate */
    double seconds;     /* when; training alone */
};

/* By search over the physics without noise, for all seeds of a variant (seed
 * modulo GATES_VARIANTS): they differ in the scale of the learning rate. */
/* @part: of the horizon, 0.7. */
void gates_oracle(const struct gates_family *g, unsigned variant, double part,
                  struct gates_oracle *out);

/* Virtual seconds of a run of @strategy (NULL: mltuner; "hyperband_finite" is
 * hyperband with its finite horizon) with @seed to the target; INFINITY: not
 * within @most times the oracle's time. */
double gates_time(const struct gates_family *g, const struct gates_oracle *o,
                  const char *strategy, uint64_t seed, double most,
                  struct sim_result *out);

/* What @runs earlier runs of the same job found, for a run with @seed: other
 * samples, the same landscape; @other: one of another learning rate, as if the
 * data were other ones. The runs are whole ones of gates_time. */
void gates_earlier(const struct gates_family *g, const struct gates_oracle *o,
                   uint64_t seed, unsigned runs, bool other,
                   struct earlier *out);

/* Runs with the oracle's setting fixed. */
double gates_time_fixed(const struct gates_family *g,
                        const struct gates_oracle *o, uint64_t seed);

/* Median of x[n]; sorts it. 0 where n = 0. */
double gates_median(double x[], size_t n);

#endif
