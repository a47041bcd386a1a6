/* The parameter server without a tuner: logistic regression on two workers.
 *
 *     direct [DIR]
 *
 * Trains for a while, forks the state, tries two learning rates from that very
 * state, goes on with the better one, and, given a folder, saves the weights
 * there as weights.npy. Uses the installed header alone:
 *
 *     cc -std=c11 direct.c -lmltune -lm
 */
#include "mltune/ps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 4000, FEATURES = 20, WORKERS = 2, CLOCKS = 20 };

/* Points with a label each, which a hidden linear rule decides. */
struct data {
    float x[SAMPLES][FEATURES];
    float label[SAMPLES]; /* 0 or 1 */
};

struct job {
    const struct data *data;
    mlt_table weights;
    int clocks;           /* of this run; 0 only measures */
    double loss[WORKERS]; /* sums over the worker's samples ... */
    int correct[WORKERS]; /* ... at the end of the run */
};

static float uniform(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (float)(1 << 24) * 2 - 1;
}

static void make_data(struct data *d)
{
    float hidden[FEATURES];
    uint32_t state = 1;

    for (int j = 0; j < FEATURES; j++)
        hidden[j] = uniform(&state);
    for (int i = 0; i < SAMPLES; i++) {
        float score = 0;

        for (int j = 0; j < FEATURES; j++) {
            d->x[i][j] = uniform(&state);
            score += hidden[j] * d->x[i][j];
        }
        d->label[i] = score > 0;
    }
}

static float predict(const float *w, const float *x)
{
    float score = 0;

    for (int j = 0; j < FEATURES; j++)
        score += w[j] * x[j];
    return 1 / (1 + expf(-score));
}

/* Worker i has samples i, i + WORKERS, ... */
static void measure(struct job *job, int worker, const float *w)
{
    const struct data *d = job->data;

    job->loss[worker] = 0;
    job->correct[worker] = 0;
    for (int i = worker; i < SAMPLES; i += WORKERS) {
        float p = predict(w, d->x[i]);
        float hit = d->label[i] > 0.5f ? p : 1 - p;

        job->loss[worker] -= log(fmax(hit, 1e-12));
        job->correct[worker] += hit > 0.5f;
    }
}

/* Runs in every worker's thread: reads the weights in place, adds its part of
 * the gradient, meets the others at the clock. */
static int work(struct mlt_worker *worker, void *arg)
{
    struct job *job = arg;
    int index = (int)mlt_worker_index(worker);

    for (int clock = 0; clock < job->clocks; clock++) {
        const float *w = mlt_get_row(worker, job->weights, 0);
        float *gradient = mlt_update_row(worker, job->weights, 0);
        int err;

        for (int i = index; i < SAMPLES; i += WORKERS) {
            const float *x = job->data->x[i];
            float error = (predict(w, x) - job->data->label[i]) / SAMPLES;

            for (int j = 0; j < FEATURES; j++)
                gradient[j] += error * x[j];
        }
        err = mlt_clock(worker);
        if (err)
            return err;
    }
    measure(job, index, mlt_get_row(worker, job->weights, 0));
    return 0;
}

static void check(int err, const char *what)
{
    if (err == 0)
        return;
    fprintf(stderr, "direct: %s: %s\n", what, mlt_error_text(err));
    exit(1);
}

/* Mean loss after @clocks clocks of the active branch. */
static double run(struct mlt_ps *ps, struct job *job, int clocks)
{
    double loss = 0;

    job->clocks = clocks;
    check(mlt_ps_run(ps, work, job), "run");
    for (int i = 0; i < WORKERS; i++)
        loss += job->loss[i];
    return loss / SAMPLES;
}

static double accuracy(const struct job *job)
{
    int correct = 0;

    for (int i = 0; i < WORKERS; i++)
        correct += job->correct[i];
    return (double)correct / SAMPLES;
}

static struct mlt_ps *start(mlt_table *weights)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_table_options table = {
        .size = sizeof(table), .name = "weights", .rows = 1, .width = FEATURES};
    struct mlt_ps *ps = NULL;
    struct mlt_error err;

    opt.workers = WORKERS;
    opt.learning_rate = 0.1;
    opt.momentum = 0.9;
    opt.memory_limit = 16 << 20;
    if (mlt_ps_new(&opt, &ps, &err) ||
        mlt_ps_table(ps, &table, weights, &err) || mlt_ps_start(ps, &err)) {
        fprintf(stderr, "direct: %s\n", err.text);
        mlt_ps_free(ps);
        exit(1);
    }
    return ps;
}

/* Forks @parent, trains the child with @rate, and leaves it the active one. */
static double try_rate(struct mlt_ps *ps, struct job *job, uint32_t parent,
                       double rate, uint32_t *child)
{
    double before, after;

    check(mlt_ps_fork(ps, parent, child), "fork");
    check(mlt_ps_switch(ps, *child), "switch");
    check(mlt_ps_set_learning_rate(ps, rate), "learning rate");
    before = run(ps, job, 0);
    after = run(ps, job, CLOCKS);
    printf("trial learning_rate=%g loss=%.6f->%.6f\n", rate, before, after);
    return after;
}

/* Tries both, drops the parent and the worse one, makes the better active. */
static double keep_better(struct mlt_ps *ps, struct job *job, uint32_t parent,
                          const double rates[2])
{
    uint32_t child[2];
    double loss[2];
    int best;

    for (int i = 0; i < 2; i++)
        loss[i] = try_rate(ps, job, parent, rates[i], &child[i]);
    best = loss[1] < loss[0];
    check(mlt_ps_drop(ps, child[!best]), "drop");
    check(mlt_ps_drop(ps, parent), "drop");
    check(mlt_ps_switch(ps, child[best]), "switch");
    check(mlt_ps_set_learning_rate(ps, rates[best]), "learning rate");
    return rates[best];
}

int main(int argc, char **argv)
{
    static const double rates[2] = {0.01, 10};
    static struct data data;
    struct job job = {.data = &data};
    struct mlt_ps *ps = start(&job.weights);
    struct mlt_error err;
    double loss;
    int code = 0;

    make_data(&data);
    printf("start loss=%.6f\n", run(ps, &job, 0));
    printf("trained clocks=%d loss=%.6f\n", CLOCKS, run(ps, &job, CLOCKS));
    printf("kept learning_rate=%g\n", keep_better(ps, &job, 0, rates));
    loss = run(ps, &job, 5 * CLOCKS);
    printf("finished loss=%.6f accuracy=%.4f\n", loss, accuracy(&job));
    if (argc > 1 && mlt_ps_save(ps, argv[1], &err)) {
        fprintf(stderr, "direct: %s\n", err.text);
        code = 1;
    }
    mlt_ps_free(ps);
    return code;
}
