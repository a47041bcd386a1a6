/* Parts of initializers that families of simulated runs have in common.
 *
 * A family (tests/sim/sim.h) names a space, numbers of samples and a landscape.
 * Each test says what it is about; the rest is here, once.
 */
#ifndef SIM_FAMILIES_H
#define SIM_FAMILIES_H

/* Tunables of a space, without its braces. */
#define RATE                                                                   \
    "\"learning_rate\": {\"type\": \"float\", \"min\": 1e-5, \"max\": 1, "     \
    "\"scale\": \"log\", \"default\": 0.01}"
#define MOMENTUM                                                               \
    "\"momentum\": {\"type\": \"float\", \"min\": 0, \"max\": 0.99, "          \
    "\"default\": 0.5}"
#define BATCH                                                                  \
    "\"batch_size\": {\"type\": \"int\", \"values\": [16, 64, 256], "          \
    "\"default\": 64}"

/* A landscape that is noisy as training is, on two workers. */
#define SIM_USUAL                                                              \
    .validation = 512, .workers = 2, .noise = 0.3, .jitter = 0.1, .rate = 1,   \
    .cost_noise = 0.03

/* A clock of some ten milliseconds, ten times as long as a switch or a copy,
 * and a cliff: high rates diverge. */
#define SIM_PACED                                                              \
    .ball = 0.01, .cliff = 20, .clock_s = 1e-2, .sample_s = 1e-4,              \
    .switch_s = 1e-3, .copy_s = 1e-3

/* Times of clocks, switches and copies, where they are short. */
#define SIM_QUICK                                                              \
    .clock_s = 1e-3, .sample_s = 1e-5, .switch_s = 1e-4, .copy_s = 1e-4

#endif
