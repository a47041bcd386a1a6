/* Physics of the simulated training system: its loss, and the time of its
 * clocks.
 *
 * Two kinds. The *formula* knows learning rate, momentum and batch size:
 * loss = floor + fast + slow + jump. `fast` falls towards a noise ball at a
 * rate that peaks at the best learning rate; `slow` falls at a rate that
 * favours rates five times larger; `jump` is what too large a rate costs at
 * first. Above a cliff the loss grows until it overflows.
 *
 * The *quadratic* is the noisy quadratic of Wu et al. (2018, section 2.2) with
 * momentum: the expected loss of SGD over dimensions of unlike curvature, whose
 * noise grows with the curvature, by the exact recursion of the second moments.
 * Learning rate, momentum and batch size act as they do there; staleness,
 * bandwidth, bits, decay and prefetch act on noise and on what a clock takes.
 *
 * Pure; functions of family, variant and state.
 */
#ifndef TESTS_SIM_PHYSICS_H
#define TESTS_SIM_PHYSICS_H

#include "tests/sim/sim.h"

enum { PHYSICS_DIMS = 8 };

/* Values of the tunables; those not in a family's space have defaults. */
struct knobs {
    double lr, momentum, batch, staleness, bandwidth, bits, decay, prefetch;
};
extern const struct knobs physics_knobs_default;

/* From a setting as messages carry it. */
struct knobs physics_knobs(const json_t *setting);

struct physics {
    const struct sim_family *f; /* borrowed */
    double best_rate;           /* formula: of the fastest; quadratic: the
                                 * inverse of the largest curvature */
    double h[PHYSICS_DIMS];     /* curvatures, the largest 1 */
    double noise;               /* variance of a sample's gradient */
};

struct state {
    double fast, slow, jump;
    double passed;            /* of the wait before the loss moves at all */
    double rate;              /* last used: a larger one jumps */
    uint64_t samples, clocks; /* processed by the lineage */
    uint64_t increments;      /* number of the last that is in it; 0: none */
    /* Quadratic: halves of curvature times E[x x], E[x v], E[v v]. */
    double xx[PHYSICS_DIMS], xv[PHYSICS_DIMS], vv[PHYSICS_DIMS];
    double ball; /* part of the loss that the noise makes */
};

/* @variant: condition and noise of a quadratic vary with it, 0 .. 7. */
void physics_init(struct physics *p, const struct sim_family *f,
                  double best_rate, unsigned variant);

void physics_start(const struct physics *p, struct state *out);

/* One update over @n samples. Without the noise of observing it. */
void physics_advance(const struct physics *p, struct state *x,
                     const struct knobs *k, double n);

/* Above the floor; not finite: diverged. */
double physics_excess(const struct physics *p, const struct state *x);
double physics_loss(const struct physics *p, const struct state *x);

/* Probability that a validation sample is a hit at a loss so far above the
 * floor: 0.98 at best. */
double physics_hits(double excess);

/* Loss above the floor -> above 0. */
double physics_excess_of(double loss);

/* Seconds of a clock of @n samples. */
double physics_cost(const struct physics *p, const struct knobs *k, double n);

/* Samples of the next clock of a branch. */
uint64_t physics_clock(const struct physics *p, const struct knobs *k,
                       uint64_t samples);

/* Seconds that an epoch takes. */
double physics_epoch(const struct physics *p, const struct knobs *k);

/* Runs on for @seconds; true if it is still finite. @took, if not NULL, becomes
 * the seconds of the whole clocks that were run. */
bool physics_run(const struct physics *p, struct state *x,
                 const struct knobs *k, double seconds, double *took);

#endif
