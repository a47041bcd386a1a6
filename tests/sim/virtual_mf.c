#include "tests/sim/virtual_mf.h"

#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANK_MAX = 32, SLOTS_MAX = 3, TRUE_RANK = 4 };
#define LAMBDA 0.05f
#define NOISE 0.1
#define RATING_S 1e-7 /* of work a rating and factor, about a core's */

struct rating {
    uint32_t user, item;
    float value;
};

/* One item's ratings of a worker's part of a pass. */
struct visit {
    uint64_t item;
    size_t first, end;
};

struct part {
    uint64_t *row; /* [visits] */
    struct visit *visit;
    size_t visits, room, rows_room;
};

struct virtual_mf {
    struct virtual_mf_options opt;
    const struct rule_ops *rule;
    unsigned slots;
    struct perm popular;   /* items, the one with most ratings first */
    struct rating *rating; /* by worker, part, item */
    float *user;           /* [users * (1 + slots) * rank] */
    struct part *part;     /* [workers * parts] */
};

static void *zeroed(size_t n, size_t size)
{
    void *p = mem_calloc(n, size);

    if (!p)
        abort();
    return p;
}

/* ---- data ---------------------------------------------------------------- */

static uint32_t worker_of(const struct virtual_mf *mf, uint32_t user)
{
    return user % mf->opt.workers;
}

static int part_of(const struct virtual_mf *mf, const struct rating *r)
{
    uint64_t x = rng_mix(mf->opt.seed, (uint64_t)r->user << 32 | r->item);

    return (int)(x % (uint64_t)mf->opt.parts);
}

static int round_of(const struct virtual_mf *mf, const struct rating *r)
{
    uint64_t x = rng_mix(mf->opt.seed + 1, (uint64_t)r->user << 32 | r->item);

    return mf->opt.rounds ? (int)(x % (uint64_t)mf->opt.rounds) : 0;
}

/* Factors that ratings are made of: about normal, from the number alone. */
static double true_factor(const struct virtual_mf *mf, uint64_t kind,
                          uint64_t number, int k)
{
    struct rng rng;

    rng_init(&rng, rng_mix(rng_mix(mf->opt.seed + kind, number), (uint64_t)k));
    return rng_normal(&rng);
}

/* By the inverse of the distribution. */
static uint64_t popular_item(const struct virtual_mf *mf, struct rng *rng)
{
    double share;

    if (mf->opt.skew <= 0)
        return rng_below(rng, mf->opt.items);
    share = pow(rng_uniform(rng), 1 / (1 - mf->opt.skew));
    return perm_at(&mf->popular, (uint64_t)(share * mf->opt.items));
}

static uint32_t some_item(const struct virtual_mf *mf, struct rng *rng,
                          uint32_t user)
{
    uint64_t n = popular_item(mf, rng);

    if (rng_uniform(rng) < mf->opt.locality) {
        n -= n % mf->opt.workers; /* one of every so many, by the worker */
        n = (n + worker_of(mf, user)) % mf->opt.items;
    }
    return (uint32_t)n;
}

static void make_ratings(struct virtual_mf *mf)
{
    struct rng rng;

    rng_init(&rng, mf->opt.seed);
    for (uint32_t i = 0; i < mf->opt.ratings; i++) {
        struct rating *r = &mf->rating[i];
        double value = NOISE * rng_normal(&rng);

        r->user = (uint32_t)rng_below(&rng, mf->opt.users);
        r->item = some_item(mf, &rng, r->user);
        for (int k = 0; k < TRUE_RANK; k++)
            value += true_factor(mf, 1, r->user, k) *
                     true_factor(mf, 2, r->item, k) / sqrt(TRUE_RANK);
        r->value = (float)value;
    }
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static const struct virtual_mf *sorted; /* for qsort */

static int by_visit(const void *a, const void *b)
{
    const struct rating *x = a, *y = b;
    int order = compare(worker_of(sorted, x->user), worker_of(sorted, y->user));

    if (!order)
        order =
            compare((uint64_t)part_of(sorted, x), (uint64_t)part_of(sorted, y));
    if (!order)
        order = compare((uint64_t)round_of(sorted, x),
                        (uint64_t)round_of(sorted, y));
    if (!order)
        order = compare(x->item, y->item);
    return order ? order : compare(x->user, y->user);
}

static void add_visit(struct part *p, uint64_t item, size_t at)
{
    if (!p->visits || p->visit[p->visits - 1].item != item) {
        if (mem_grow((void **)&p->visit, &p->room, sizeof(*p->visit),
                     p->visits + 1) != 0 ||
            mem_grow((void **)&p->row, &p->rows_room, sizeof(*p->row),
                     p->visits + 1) != 0)
            abort();
        p->row[p->visits] = item;
        p->visit[p->visits++] = (struct visit){item, at, at};
    }
    p->visit[p->visits - 1].end = at + 1;
}

static void make_parts(struct virtual_mf *mf)
{
    sorted = mf;
    qsort(mf->rating, mf->opt.ratings, sizeof(*mf->rating), by_visit);
    for (size_t i = 0; i < mf->opt.ratings; i++) {
        const struct rating *r = &mf->rating[i];
        size_t at = worker_of(mf, r->user) * (size_t)mf->opt.parts +
                    (size_t)part_of(mf, r);

        add_visit(&mf->part[at], r->item, i);
    }
}

/* ---- life ---------------------------------------------------------------- */

static float *user_row(const struct virtual_mf *mf, uint32_t user)
{
    return mf->user + (size_t)user * (1 + mf->slots) * mf->opt.rank;
}

static void fill_small(const struct virtual_mf *mf, uint64_t kind,
                       uint64_t number, float out[])
{
    for (uint32_t k = 0; k < mf->opt.rank; k++)
        out[k] = 0.3f * (float)true_factor(mf, kind, number, (int)k);
}

struct virtual_mf *virtual_mf_new(const struct virtual_mf_options *opt)
{
    struct virtual_mf *mf = zeroed(1, sizeof(*mf));

    mf->opt = *opt;
    mf->rule = rule_find(opt->rule);
    if (!mf->rule || opt->rank > RANK_MAX)
        abort();
    mf->slots = mf->rule->slots(MLT_NO_MOMENTUM);
    mf->rating = zeroed(opt->ratings, sizeof(*mf->rating));
    mf->user =
        zeroed((size_t)opt->users * (1 + mf->slots) * opt->rank, sizeof(float));
    mf->part =
        zeroed((size_t)opt->workers * (size_t)opt->parts, sizeof(*mf->part));
    perm_init(&mf->popular, opt->items, opt->seed);
    make_ratings(mf);
    make_parts(mf);
    for (uint32_t u = 0; u < opt->users; u++)
        fill_small(mf, 3, u, user_row(mf, u));
    return mf;
}

void virtual_mf_free(struct virtual_mf *mf)
{
    for (size_t i = 0; i < (size_t)mf->opt.workers * (size_t)mf->opt.parts;
         i++) {
        mem_free(mf->part[i].visit);
        mem_free(mf->part[i].row);
    }
    mem_free(mf->part);
    mem_free(mf->user);
    mem_free(mf->rating);
    mem_free(mf);
}

void virtual_mf_init(struct virtual_mf *mf, struct virtual *v)
{
    for (uint32_t i = 0; i < mf->opt.items; i++) {
        float row[RANK_MAX];

        fill_small(mf, 4, i, row);
        virtual_init_row(v, i, row);
    }
}

/* ---- the program --------------------------------------------------------- */

static struct part *part_at(const struct virtual_mf *mf, uint32_t worker,
                            int clock)
{
    return &mf->part[worker * (size_t)mf->opt.parts +
                     (size_t)(clock % mf->opt.parts)];
}

static size_t plan(void *self, uint32_t worker, int clock,
                   const uint64_t **rows)
{
    const struct part *p = part_at(self, worker, clock);

    *rows = p->row;
    return p->visits;
}

static float error_of(const struct virtual_mf *mf, const struct rating *r,
                      const float *item)
{
    const float *user = user_row(mf, r->user);
    float e = -r->value;

    for (uint32_t k = 0; k < mf->opt.rank; k++)
        e += user[k] * item[k];
    return e;
}

/* One rating: the item's gradient is added up, the user's step is made. */
static void learn(const struct virtual_mf *mf, const struct rating *r,
                  const float *item, float *sum)
{
    float *user = user_row(mf, r->user);
    float e = error_of(mf, r, item), gradient[RANK_MAX];
    void *rows[1] = {user};
    const void *sums[1] = {gradient};
    struct rule_batch b = {1,       rows,      sums,           mf->opt.rank,
                           MLT_F32, mf->slots, mf->opt.params, NULL};

    for (uint32_t k = 0; k < mf->opt.rank; k++) {
        sum[k] += e * user[k] + LAMBDA * item[k];
        gradient[k] = e * item[k] + LAMBDA * user[k];
    }
    mf->rule->apply(&b);
}

static double visit(void *self, struct virtual *v, uint32_t worker, int clock,
                    size_t i, const void *values)
{
    const struct virtual_mf *mf = self;
    const struct visit *x = &part_at(mf, worker, clock)->visit[i];
    float sum[RANK_MAX] = {0};

    for (size_t k = x->first; k < x->end; k++)
        learn(mf, &mf->rating[k], values, sum);
    virtual_add(v, worker, x->item, sum);
    return (double)(x->end - x->first) * mf->opt.rank * RATING_S *
           (mf->opt.slow > 0 ? mf->opt.slow : 1);
}

void virtual_mf_options(struct virtual_mf *mf, struct virtual_options *out)
{
    out->program = (struct virtual_program){mf, plan, visit};
    out->rows = mf->opt.items;
    out->width = mf->opt.rank;
    out->type = MLT_F32;
    out->rule = mf->opt.rule;
    out->params = mf->opt.params;
}

double virtual_mf_loss(const struct virtual_mf *mf, const struct virtual *v)
{
    double sum = 0;

    for (uint32_t i = 0; i < mf->opt.ratings; i++) {
        const struct rating *r = &mf->rating[i];
        double e = (double)error_of(mf, r, virtual_row(v, r->item));

        sum += e * e;
    }
    return sum / mf->opt.ratings;
}
