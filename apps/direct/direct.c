/* The parameter server without a tuner: logistic regression on two workers, in
 * one process or on several nodes.
 *
 *     direct [-r CHECKPOINT] [DIR]
 *     direct -n NODES -i NODE -m FOLDER [-r CHECKPOINT] [DIR]
 *
 * Trains for a while, forks the state, tries two learning rates from that very
 * state, and goes on with the better one. Given a folder, it writes a
 * checkpoint there while it goes on, and in the end the weights, as
 * weights.npy. With -r it begins with a checkpoint, of however many nodes.
 *
 * Several nodes are several processes, numbered from 0, that find each other in
 * the folder FOLDER, made for this run; nodes.sh starts them on one machine.
 * Uses the installed header alone:
 *
 *     cc -std=c11 direct.c $(pkg-config --cflags --libs mltune) -lm
 */
#include "mltune/ps.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 4000, FEATURES = 20, WORKERS = 2, CLOCKS = 20 };

/* Points with a label each, which a hidden linear rule decides. */
struct data {
    float x[SAMPLES][FEATURES];
    float label[SAMPLES]; /* 0 or 1 */
};

/* Options of the command line. */
struct options {
    unsigned nodes, node;
    const char *meet, *restore, *dir; /* or NULL */
    double learning_rate;
};

/* The loss, and how many are classified well, summed over the samples of all
 * workers: a row that all add to. */
enum { LOSS, CORRECT, SUMS };

struct job {
    const struct data *data;
    mlt_table weights, sums;
    int clocks;         /* of this run; 0 only measures */
    double total[SUMS]; /* over all samples at the end of the run */
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

/* Adds up what the worker has: of n workers, worker i has samples i, i + n, ...
 */
static int measure(const struct job *job, struct mlt_worker *worker)
{
    const struct data *d = job->data;
    const float *w = mlt_get_row(worker, job->weights, 0);
    double sum[SUMS] = {0};
    unsigned step = mlt_worker_count(worker);

    if (!w)
        return 1;
    for (unsigned i = mlt_worker_index(worker); i < SAMPLES; i += step) {
        float p = predict(w, d->x[i]);
        float hit = d->label[i] > 0.5f ? p : 1 - p;

        sum[LOSS] -= log(fmax(hit, 1e-12));
        sum[CORRECT] += hit > 0.5f;
    }
    mlt_inc_row(worker, job->sums, 0, sum);
    return mlt_clock(worker);
}

/* Reads the weights in place, or where they came from another node; adds its
 * part of the gradient, meets the others at the clock. */
static int train(const struct job *job, struct mlt_worker *worker)
{
    const float *w = mlt_get_row(worker, job->weights, 0);
    float *gradient = mlt_update_row(worker, job->weights, 0);
    unsigned step = mlt_worker_count(worker);

    if (!w)
        return 1;
    for (unsigned i = mlt_worker_index(worker); i < SAMPLES; i += step) {
        const float *x = job->data->x[i];
        float error = (predict(w, x) - job->data->label[i]) / SAMPLES;

        for (int j = 0; j < FEATURES; j++)
            gradient[j] += error * x[j];
    }
    return mlt_clock(worker);
}

/* Runs in every worker's thread of every node. */
static int work(struct mlt_worker *worker, void *arg)
{
    struct job *job = arg;
    const double *now = mlt_get_row(worker, job->sums, 0);
    double before[SUMS];
    int err = 0;

    if (!now) /* another node is gone */
        return 1;
    memcpy(before, now, sizeof(before));
    for (int clock = 0; clock < job->clocks && !err; clock++)
        err = train(job, worker);
    if (err)
        return err;
    err = measure(job, worker);
    if (err)
        return err;
    now = mlt_get_row(worker, job->sums, 0);
    if (!now)
        return 1;
    if (mlt_worker_index(worker) % WORKERS == 0) /* one of this node */
        for (int i = 0; i < SUMS; i++)
            job->total[i] = now[i] - before[i];
    return 0;
}

static unsigned self; /* this node's number */

/* On stdout, of one node. */
static void say(const char *fmt, ...)
{
    va_list ap;

    if (self != 0)
        return;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
}

static void check_told(int err, const struct mlt_error *told)
{
    if (err == 0)
        return;
    fprintf(stderr, "direct: %s\n", told->text);
    exit(1);
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
    job->clocks = clocks;
    check(mlt_ps_run(ps, work, job), "run");
    return job->total[LOSS] / SAMPLES;
}

static struct mlt_ps *start(const struct options *o, struct job *job)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_table_options weights = {.size = sizeof(weights),
                                        .name = "weights",
                                        .rows = 1,
                                        .width = FEATURES};
    struct mlt_table_options sums = {.size = sizeof(sums),
                                     .name = "sums",
                                     .rows = 1,
                                     .width = SUMS,
                                     .type = MLT_F64,
                                     .flags = MLT_NOT_SAVED};
    struct mlt_ps *ps = NULL;
    struct mlt_error err;

    opt.workers = WORKERS;
    opt.learning_rate = o->learning_rate;
    opt.momentum = 0.9;
    opt.memory_limit = 16 << 20;
    opt.nodes = o->nodes;
    opt.node = o->node;
    opt.meet = o->meet;
    if (mlt_ps_new(&opt, &ps, &err) ||
        mlt_ps_table(ps, &weights, &job->weights, &err) ||
        mlt_ps_table(ps, &sums, &job->sums, &err) || mlt_ps_start(ps, &err)) {
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
    say("trial learning_rate=%g loss=%.6f->%.6f\n", rate, before, after);
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

/* Begins a checkpoint in @o->dir; training goes on meanwhile. */
static void begin_checkpoint(struct mlt_ps *ps, const struct options *o)
{
    char path[4096];
    struct mlt_error err;

    if (!o->dir)
        return;
    snprintf(path, sizeof(path), "%s/checkpoint", o->dir);
    check_told(mlt_ps_checkpoint(ps, path, &err), &err);
}

static void finish(struct mlt_ps *ps, const struct options *o)
{
    struct mlt_error err;

    if (!o->dir)
        return;
    check_told(mlt_ps_checkpoint_end(ps, &err), &err);
    check_told(mlt_ps_save(ps, o->dir, &err), &err);
}

/* The branch to begin with: the first, or a checkpoint's. */
static uint32_t first_branch(struct mlt_ps *ps, const struct options *o)
{
    uint32_t branch = 0;
    struct mlt_error err;
    uint64_t clocks;

    if (!o->restore)
        return branch;
    check_told(mlt_ps_restore(ps, o->restore, &branch, &err), &err);
    check(mlt_ps_switch(ps, branch), "switch");
    check(mlt_ps_clocks(ps, branch, &clocks), "clocks");
    say("restored clocks=%llu\n", (unsigned long long)clocks);
    return branch;
}

static int usage(void)
{
    fprintf(stderr, "usage: direct [-n NODES -i NODE -m FOLDER] "
                    "[-l LEARNING_RATE] [-r CHECKPOINT] [DIR]\n");
    return 2;
}

/* False where it is not understood. */
static int read_options(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (word[0] != '-') {
            o->dir = word;
            continue;
        }
        if (!value || strlen(word) != 2)
            return 0;
        switch (word[1]) {
        case 'n':
            o->nodes = (unsigned)strtoul(value, NULL, 10);
            break;
        case 'i':
            o->node = (unsigned)strtoul(value, NULL, 10);
            break;
        case 'm':
            o->meet = value;
            break;
        case 'l':
            o->learning_rate = strtod(value, NULL);
            break;
        case 'r':
            o->restore = value;
            break;
        default:
            return 0;
        }
        i++;
    }
    return 1;
}

int main(int argc, char **argv)
{
    static const double rates[2] = {0.01, 10};
    static struct data data;
    struct options o = {.nodes = 1, .learning_rate = 0.1};
    struct job job = {.data = &data};
    struct mlt_ps *ps;
    uint32_t branch;
    double loss;

    if (!read_options(argc, argv, &o))
        return usage();
    self = o.node;
    ps = start(&o, &job);
    make_data(&data);
    branch = first_branch(ps, &o);
    say("start loss=%.6f\n", run(ps, &job, 0));
    say("trained clocks=%d loss=%.6f\n", CLOCKS, run(ps, &job, CLOCKS));
    say("kept learning_rate=%g\n", keep_better(ps, &job, branch, rates));
    begin_checkpoint(ps, &o);
    loss = run(ps, &job, 5 * CLOCKS);
    say("finished loss=%.6f accuracy=%.4f\n", loss,
        job.total[CORRECT] / SAMPLES);
    finish(ps, &o);
    mlt_ps_free(ps);
    return 0;
}
