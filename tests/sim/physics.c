#include "tests/sim/physics.h"

#include <math.h>
#include <string.h>

#define FLOOR 0.1

const struct knobs physics_knobs_default = {
    .lr = 0.01,
    .momentum = 0.5,
    .batch = 64,
    .staleness = 0,
    .bandwidth = 100,
    .bits = 32,
    .decay = 1e-4,
    .prefetch = 2,
};

static void take(const json_t *o, const char *name, double *out)
{
    const json_t *v = json_object_get(o, name);

    if (v)
        *out = json_number_value(v);
}

struct knobs physics_knobs(const json_t *setting)
{
    struct knobs k = physics_knobs_default;

    k.lr = 0;
    take(setting, "learning_rate", &k.lr);
    take(setting, "momentum", &k.momentum);
    take(setting, "batch_size", &k.batch);
    take(setting, "staleness", &k.staleness);
    take(setting, "bandwidth", &k.bandwidth);
    take(setting, "bits", &k.bits);
    take(setting, "decay", &k.decay);
    take(setting, "prefetch", &k.prefetch);
    return k;
}

/* ---- the noisy quadratic ------------------------------------------------- */

/* Loss that noise alone makes in the long run at the rate 1, 128 samples. */
static double stationary(const struct physics *p)
{
    double sum = 0;

    for (int i = 0; i < PHYSICS_DIMS; i++)
        sum += p->h[i] / (2 * 128 * (2 - p->h[i]));
    return sum;
}

void physics_init(struct physics *p, const struct sim_family *f,
                  double best_rate, unsigned variant)
{
    /* Half and twice the family's, in eight steps. */
    double more = exp2((double)(variant % 8) / 3.5 - 1);

    memset(p, 0, sizeof(*p));
    p->f = f;
    p->best_rate = best_rate;
    if (f->condition == 0)
        return;
    for (int i = 0; i < PHYSICS_DIMS; i++)
        p->h[i] =
            pow(f->condition * more, -(double)i / (double)(PHYSICS_DIMS - 1));
    p->noise = f->ball / more / stationary(p);
}

void physics_start(const struct physics *p, struct state *out)
{
    memset(out, 0, sizeof(*out));
    out->fast = p->f->converged ? 0 : 1;
    out->slow = p->f->slow;
    for (int i = 0; i < PHYSICS_DIMS; i++)
        out->xx[i] = 1.0 / PHYSICS_DIMS;
}

static bool has_moved(const struct physics *p, const struct state *x)
{
    return p->f->moved != 0 && x->samples >= p->f->moved_after * p->f->samples;
}

static void advance_quadratic(const struct physics *p, struct state *x,
                              const struct knobs *k, double n)
{
    const struct sim_family *f = p->f;
    double lr = k->lr / p->best_rate, m = k->momentum, g = 1 - m;
    double coarse = k->bits < 16 ? 1 : k->bits < 32 ? 0.1 : 0;
    double noise = p->noise / n * (1 + 0.1 * k->staleness) * (1 + coarse) *
                   (1 + 5 * k->decay);

    if (has_moved(p, x) && f->moved < 1)
        lr /= f->moved; /* all curvatures grow */
    if (has_moved(p, x) && f->moved > 1)
        noise *= f->moved;
    x->passed += fmin(lr, 1) * n / (double)f->samples;
    if (x->passed < f->waiting)
        return;
    if (f->cliff > 0 && lr > f->cliff) {
        for (int i = 0; i < PHYSICS_DIMS; i++)
            x->xx[i] = (x->xx[i] + 0.1) * 4;
        return;
    }
    x->ball = 0;
    for (int i = 0; i < PHYSICS_DIMS; i++) {
        double h = p->h[i], xv, vv, ball;

        /* v' = m v + (1 - m) (h x + noise), x' = x - lr v'; a stale gradient
         * misses by as much as the steps in between. */
        vv = m * m * x->vv[i] + 2 * m * g * h * x->xv[i] +
             g * g * h * h * x->xx[i] * (1 + 0.3 * k->staleness) +
             g * g * h * h * noise / 2;
        xv = m * x->xv[i] + g * h * x->xx[i];
        x->xx[i] = x->xx[i] - 2 * lr * xv + lr * lr * vv;
        x->xv[i] = xv - lr * vv;
        x->vv[i] = vv;
        ball = lr * h * noise / 4;
        x->ball += x->xx[i] < ball ? x->xx[i] : ball;
    }
}

/* ---- the formula --------------------------------------------------------- */

static void advance_formula(const struct physics *p, struct state *x,
                            const struct knobs *k, double n)
{
    const struct sim_family *f = p->f;
    double best = has_moved(p, x) ? p->best_rate * f->moved : p->best_rate;
    double u = k->lr / best;
    double share = n / (double)f->samples;
    double aid = (1 - 0.5 * (k->momentum - 0.5) * (k->momentum - 0.5)) *
                 sqrt(64.0 / k->batch);
    double folds = f->rate * u * exp(1 - u) * aid * share;
    double ball = f->ball * u * u;

    if (f->slow > 0) /* larger rates: no worse for long, but they jump */
        folds = f->rate * fmin(u, 1) * aid * share;
    if (f->late_limit > 0 && u > f->late_limit &&
        x->samples >= f->late_after * f->samples) {
        x->fast = INFINITY;
        return;
    }
    if (f->cliff > 0 && u > f->cliff) {
        x->fast = (x->fast + 1) * exp(fmin(400 * u / f->cliff * share, 50));
        return;
    }
    x->passed += folds;
    if (x->passed < f->waiting)
        return;
    if (!f->converged)
        x->fast = ball + (x->fast - ball) * exp(-folds);
    if (f->slow > 0) {
        if (x->rate < u && u > 1)
            x->jump += 0.05 * (u - fmax(x->rate, 1));
        x->rate = u;
        x->slow *= exp(-0.5 * fmin(u, 5) * share);
        x->jump *= exp(-3 * share);
    }
}

/* ---- both ---------------------------------------------------------------- */

void physics_advance(const struct physics *p, struct state *x,
                     const struct knobs *k, double n)
{
    if (p->f->condition > 0)
        advance_quadratic(p, x, k, n);
    else
        advance_formula(p, x, k, n);
    x->samples += (uint64_t)n;
    x->clocks++;
}

double physics_excess(const struct physics *p, const struct state *x)
{
    double sum = 0;

    if (p->f->condition == 0)
        return x->fast + x->slow + x->jump;
    for (int i = 0; i < PHYSICS_DIMS; i++)
        sum += x->xx[i];
    return sum < 1e12 ? sum : INFINITY;
}

double physics_loss(const struct physics *p, const struct state *x)
{
    return FLOOR + physics_excess(p, x);
}

double physics_hits(double excess)
{
    return 0.98 * exp(-excess);
}

double physics_excess_of(double loss)
{
    return loss - FLOOR;
}

double physics_cost(const struct physics *p, const struct knobs *k, double n)
{
    const struct sim_family *f = p->f;
    double wait, sending, away;

    if (f->condition == 0)
        return f->clock_s + f->sample_s * n;
    /* Slack hides half of the wait for others; sending costs by the byte, and a
     * large budget keeps the workers from working. */
    wait = 0.5 + 0.5 / (1 + k->staleness);
    sending = 0.4 * k->bits / 32 * 100 / k->bandwidth;
    away = log2(k->prefetch) - 1;
    return f->clock_s * (wait + sending) * (1 + 0.02 * away * away) +
           f->sample_s * n * (1 + 0.15 * k->bandwidth / 1000);
}

uint64_t physics_clock(const struct physics *p, const struct knobs *k,
                       uint64_t samples)
{
    const struct sim_family *f = p->f;
    uint64_t step =
        f->parts ? f->samples / f->parts : (uint64_t)k->batch * f->workers;
    uint64_t left = f->samples - samples % f->samples;

    return left < step ? left : step;
}

double physics_epoch(const struct physics *p, const struct knobs *k)
{
    double whole = (double)p->f->samples;
    double clocks = whole / (double)physics_clock(p, k, 0);

    return clocks * physics_cost(p, k, whole / clocks);
}

bool physics_run(const struct physics *p, struct state *x,
                 const struct knobs *k, double seconds, double *took)
{
    double whole = (double)physics_clock(p, k, 0);
    double cost = physics_cost(p, k, whole), t = 0;

    while (t < seconds) {
        double n = (double)physics_clock(p, k, x->samples);

        physics_advance(p, x, k, n);
        t += n == whole ? cost : physics_cost(p, k, n);
        if (!(physics_excess(p, x) < INFINITY))
            return false;
    }
    if (took)
        *took = t;
    return true;
}
