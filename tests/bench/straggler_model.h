/* What the benchmarks of slow workers train: logistic regression with an l2
 * penalty, by mini-batches, with the steps of apps/glm (glm.c, glm_saga.c)
 * divided by the number of workers. The weights lie in the first
 * STRAGGLER_ROWS rows of a table, SAGA's mean gradient in those that follow.
 */
#ifndef TESTS_BENCH_STRAGGLER_MODEL_H
#define TESTS_BENCH_STRAGGLER_MODEL_H

#include <stdbool.h>

enum {
    STRAGGLER_SAMPLES = 4096,
    STRAGGLER_COLUMNS = 32, /* the last one is 1 */
    STRAGGLER_WIDTH = 8,
    STRAGGLER_ROWS = STRAGGLER_COLUMNS / STRAGGLER_WIDTH,
    STRAGGLER_BATCH = 32
};

struct straggler_model {
    bool saga;
    unsigned workers;
    double rate;
    float x[STRAGGLER_SAMPLES][STRAGGLER_COLUMNS];
    float y[STRAGGLER_SAMPLES]; /* 1 or -1 */
    float slope[STRAGGLER_SAMPLES];
    double target; /* an objective near the least one */
};

/* Draws the samples, and finds the target. The rest stays as it is. */
void straggler_init(struct straggler_model *m);

/* The objective at @w; its gradient into @g, where that is not NULL. */
double straggler_objective(const struct straggler_model *m,
                           const double w[STRAGGLER_COLUMNS], double *g);

/* A batch: clock @clock of @worker, whose weights are @weight and whose mean is
 * @mean (SAGA). What they are to change by: @by, @mean_by. */
void straggler_step(struct straggler_model *m, unsigned worker, int clock,
                    const double weight[STRAGGLER_COLUMNS],
                    const double mean[STRAGGLER_COLUMNS],
                    double by[STRAGGLER_COLUMNS],
                    double mean_by[STRAGGLER_COLUMNS]);

#endif
