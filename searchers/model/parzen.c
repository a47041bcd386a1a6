#include "searchers/model/parzen.h"

#include "base/mem.h"
#include "searchers/model/normal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Axis of one component: a normal, or the observed category. */
struct kernel {
    double mean, deviation;
    double log_norm; /* of the density: -log(deviation * mass in 0..1); of
                      * cells: -log(mass) */
};

struct parzen {
    const struct space *space; /* borrowed */
    size_t axes, axis[TUNABLES_MAX];
    double cell[TUNABLES_MAX]; /* width of a discrete axis' cells; 0: none */
    size_t categories[TUNABLES_MAX]; /* 0: not categorical */
    size_t n;                        /* components, the prior last */
    struct kernel *kernel;           /* owned, [n][axes] */
    double *log_weight;              /* [n] */
    double *weight_sum;              /* [n] running sums, to draw from */
    double *scratch;                 /* [n] */
};

static void describe_axes(struct parzen *p)
{
    p->axes = space_axes(p->space, p->axis);
    for (size_t a = 0; a < p->axes; a++) {
        const struct tunable *t = &p->space->tunable[p->axis[a]];
        uint64_t count = tunable_count(t);

        p->cell[a] = count ? 1.0 / (double)count : 0;
        p->categories[a] = t->type == TUNABLE_CATEGORICAL ? (size_t)count : 0;
    }
}

/* Component @i < @n; the last one is the prior. */
static double age_weight(size_t i, size_t n)
{
    size_t observed = n - 1, old = observed > PARZEN_FULL_WEIGHT
                                       ? observed - PARZEN_FULL_WEIGHT
                                       : 0;

    if (i >= old)
        return 1;
    if (old == 1)
        return 1 / (double)observed;
    /* From 1 / n at the oldest to 1 at the newest of the old. */
    return 1 / (double)observed +
           (1 - 1 / (double)observed) * (double)i / (double)(old - 1);
}

static void set_weights(struct parzen *p)
{
    double sum = 0;

    for (size_t i = 0; i < p->n; i++)
        p->weight_sum[i] = sum += age_weight(i, p->n);
    for (size_t i = 0; i < p->n; i++) {
        p->log_weight[i] = log(age_weight(i, p->n) / sum);
        p->weight_sum[i] /= sum;
    }
}

struct parzen_place {
    double mean;
    size_t component;
};

static int by_mean(const void *a, const void *b)
{
    const struct parzen_place *p = a, *q = b;

    if (p->mean != q->mean)
        return p->mean < q->mean ? -1 : 1;
    return (p->component > q->component) - (p->component < q->component);
}

/* Greater gap to the neighbours; the outermost have one neighbour. */
static double gap(const struct parzen_place place[], size_t n, size_t i)
{
    double left = i > 0 ? place[i].mean - place[i - 1].mean : 0;
    double right = i + 1 < n ? place[i + 1].mean - place[i].mean : 0;

    return n == 1 ? 1 : fmax(left, right);
}

static void set_bandwidths(struct parzen *p, size_t a,
                           struct parzen_place place[])
{
    double least = 1 / fmin(100, 1 + (double)p->n);

    for (size_t i = 0; i < p->n; i++)
        place[i] = (struct parzen_place){p->kernel[i * p->axes + a].mean, i};
    qsort(place, p->n, sizeof(place[0]), by_mean);
    for (size_t i = 0; i < p->n; i++) {
        struct kernel *k = &p->kernel[place[i].component * p->axes + a];

        k->deviation = fmin(fmax(gap(place, p->n, i), least), 1);
    }
    p->kernel[(p->n - 1) * p->axes + a].deviation = 1; /* the prior */
}

static void set_norms(struct parzen *p, size_t a)
{
    for (size_t i = 0; i < p->n; i++) {
        struct kernel *k = &p->kernel[i * p->axes + a];

        k->log_norm = -normal_log_mass(-k->mean / k->deviation,
                                       (1 - k->mean) / k->deviation);
        if (p->cell[a] == 0)
            k->log_norm -= log(k->deviation) + 0.5 * log(2 * M_PI);
    }
}

static enum err fill(struct parzen *p, const double *u)
{
    struct parzen_place *place = mem_alloc(p->n * sizeof(*place));

    if (!place)
        return ERR_NOMEM;
    for (size_t i = 0; i < p->n; i++)
        for (size_t a = 0; a < p->axes; a++)
            p->kernel[i * p->axes + a].mean =
                i + 1 < p->n ? u[i * p->axes + a] : 0.5;
    for (size_t a = 0; a < p->axes; a++) {
        if (p->categories[a])
            continue;
        set_bandwidths(p, a, place);
        set_norms(p, a);
    }
    set_weights(p);
    mem_free(place);
    return ERR_OK;
}

enum err parzen_new(const struct space *space, size_t n, const double *u,
                    struct parzen **out)
{
    struct parzen *p = mem_calloc(1, sizeof(*p));
    enum err err = ERR_NOMEM;

    assert(u || n == 0);
    assert(out);
    if (!p)
        return ERR_NOMEM;
    p->space = space;
    p->n = n + 1;
    describe_axes(p);
    assert(p->axes > 0);
    p->kernel = mem_calloc(p->n * p->axes, sizeof(*p->kernel));
    p->log_weight = mem_alloc(3 * p->n * sizeof(double));
    if (p->kernel && p->log_weight) {
        p->weight_sum = p->log_weight + p->n;
        p->scratch = p->weight_sum + p->n;
        err = fill(p, u);
    }
    if (err)
        parzen_free(p);
    else
        *out = p;
    return err;
}

void parzen_free(struct parzen *p)
{
    if (!p)
        return;
    mem_free(p->kernel);
    mem_free(p->log_weight);
    mem_free(p);
}

static size_t category_of(const struct parzen *p, size_t a, double u)
{
    size_t c = (size_t)(u * (double)p->categories[a]);

    return c < p->categories[a] ? c : p->categories[a] - 1;
}

/* The prior component (the last) is uniform over the categories. */
static double category_mass(const struct parzen *p, size_t i, size_t a,
                            size_t category)
{
    double share = 1 / (double)p->n, count = (double)p->categories[a];
    bool own = i + 1 < p->n &&
               category_of(p, a, p->kernel[i * p->axes + a].mean) == category;

    if (i + 1 == p->n)
        return 1 / count;
    return (share + own) / (share * count + 1);
}

static double draw_category(const struct parzen *p, size_t i, size_t a,
                            struct rng *rng)
{
    double u = rng_uniform(rng);
    size_t c = 0;

    while (c + 1 < p->categories[a] && u >= category_mass(p, i, a, c))
        u -= category_mass(p, i, a, c++);
    return ((double)c + 0.5) * p->cell[a];
}

void parzen_draw(const struct parzen *p, struct rng *rng,
                 double u[TUNABLES_MAX])
{
    double pick = rng_uniform(rng);
    struct setting x;
    size_t i = 0;

    while (i + 1 < p->n && pick >= p->weight_sum[i])
        i++;
    for (size_t a = 0; a < p->axes; a++) {
        const struct kernel *k = &p->kernel[i * p->axes + a];

        if (p->categories[a]) {
            u[a] = draw_category(p, i, a, rng);
            continue;
        }
        u[a] = k->mean +
               k->deviation * normal_truncated(-k->mean / k->deviation,
                                               (1 - k->mean) / k->deviation,
                                               rng_uniform(rng));
    }
    space_from_unit(p->space, u, &x);
    space_to_unit(p->space, &x, u);
}

static double log_kernel(const struct parzen *p, size_t i, size_t a, double u)
{
    const struct kernel *k = &p->kernel[i * p->axes + a];
    double z, half;

    if (p->categories[a])
        return log(category_mass(p, i, a, category_of(p, a, u)));
    z = (u - k->mean) / k->deviation;
    if (p->cell[a] == 0)
        return k->log_norm - 0.5 * z * z;
    half = 0.5 * p->cell[a] / k->deviation;
    return k->log_norm + normal_log_mass(z - half, z + half);
}

double parzen_log_density(const struct parzen *p, const double u[])
{
    double most = -INFINITY, sum = 0;

    for (size_t i = 0; i < p->n; i++) {
        double l = p->log_weight[i];

        for (size_t a = 0; a < p->axes; a++)
            l += log_kernel(p, i, a, u[a]);
        p->scratch[i] = l;
        most = fmax(most, l);
    }
    for (size_t i = 0; i < p->n; i++)
        sum += exp(p->scratch[i] - most);
    return most + log(sum);
}
