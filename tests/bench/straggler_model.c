#include "tests/bench/straggler_model.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

enum {
    SAMPLES = STRAGGLER_SAMPLES,
    COLUMNS = STRAGGLER_COLUMNS,
    BATCH = STRAGGLER_BATCH
};

static const double lambda = 1e-3, near = 1.01;

static double score(const float x[COLUMNS], const double w[COLUMNS])
{
    double z = 0;

    for (int c = 0; c < COLUMNS; c++)
        z += (double)x[c] * w[c];
    return z;
}

static double slope_at(double z, double y)
{
    return -y / (1 + exp(y * z));
}

double straggler_objective(const struct straggler_model *m,
                           const double w[COLUMNS], double *g)
{
    double sum = 0, square = 0;

    if (g)
        memset(g, 0, COLUMNS * sizeof(*g));
    for (int i = 0; i < SAMPLES; i++) {
        double y = (double)m->y[i], z = score(m->x[i], w);

        sum += log1p(exp(-y * z));
        for (int c = 0; g && c < COLUMNS; c++)
            g[c] += slope_at(z, y) * (double)m->x[i][c] / SAMPLES;
    }
    for (int c = 0; c < COLUMNS; c++) {
        square += w[c] * w[c];
        if (g)
            g[c] += lambda * w[c];
    }
    return sum / SAMPLES + lambda / 2 * square;
}

static double least(const struct straggler_model *m)
{
    double w[COLUMNS] = {0}, g[COLUMNS];

    for (int round = 0; round < 3000; round++) {
        straggler_objective(m, w, g);
        for (int c = 0; c < COLUMNS; c++)
            w[c] -= 0.3 * g[c];
    }
    return straggler_objective(m, w, NULL);
}

/* Its samples lie one behind the other, and come in turn. */
static int sample_of(const struct straggler_model *m, unsigned worker,
                     int clock, int i)
{
    int own = SAMPLES / (int)m->workers;

    return (int)worker * own + (clock * BATCH + i) % own;
}

void straggler_step(struct straggler_model *m, unsigned worker, int clock,
                    const double weight[COLUMNS], const double mean[COLUMNS],
                    double by[COLUMNS], double mean_by[COLUMNS])
{
    memset(by, 0, COLUMNS * sizeof(*by));
    memset(mean_by, 0, COLUMNS * sizeof(*mean_by));
    for (int i = 0; i < BATCH; i++) {
        int s = sample_of(m, worker, clock, i);
        double now = slope_at(score(m->x[s], weight), (double)m->y[s]);
        double change = m->saga ? now - (double)m->slope[s] : now;

        for (int c = 0; c < COLUMNS; c++) {
            by[c] += change * (double)m->x[s][c] / BATCH;
            mean_by[c] += change * (double)m->x[s][c] / SAMPLES;
        }
        m->slope[s] = (float)now;
    }
    for (int c = 0; c < COLUMNS; c++) {
        by[c] += lambda * weight[c] + (m->saga ? mean[c] : 0);
        by[c] *= -m->rate / m->workers;
    }
}

static void draw(float x[SAMPLES][COLUMNS], float y[SAMPLES])
{
    double truth[COLUMNS];
    struct rng rng;

    rng_init(&rng, 1);
    for (int c = 0; c < COLUMNS; c++)
        truth[c] = rng_normal(&rng) / 2;
    for (int i = 0; i < SAMPLES; i++) {
        double z = 0;

        for (int c = 0; c < COLUMNS; c++) {
            x[i][c] = c + 1 < COLUMNS ? (float)rng_normal(&rng) : 1;
            z += (double)x[i][c] * truth[c];
        }
        y[i] = rng_uniform(&rng) < 1 / (1 + exp(-z)) ? 1 : -1;
    }
}

void straggler_init(struct straggler_model *m)
{
    draw(m->x, m->y);
    m->target = near * least(m);
}
