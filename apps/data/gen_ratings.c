/* gen:ratings (apps/data/gen.h). Each user draws from a generator of its own,
 * so that nothing depends on the order of the work. */
#include "apps/data/gen.h"

#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

enum { KEY_USERS, KEY_ITEMS, KEY_RATINGS, KEY_RANK, KEY_NOISE, KEY_SEED };
enum { REDRAWS_MAX = 64 }; /* for an item that the user has not rated yet */

static const double activity_sigma = 1.2;
static const double popularity_exponent = 1.8;
static const double signal = 0.8;
static const double centre = 3.5;

/* Distinct streams of the seed. */
enum rating_stream {
    STREAM_ACTIVITY,
    STREAM_PLACE,
    STREAM_ITEM_ROW,
    STREAM_USER
};

struct rating_maker {
    uint64_t users, items, ratings, rank, seed;
    double noise;
    uint64_t *share;    /* [users] ratings of each user */
    uint32_t *alias;    /* [items] Walker's table: the other item ... */
    float *alias_below; /* [items] ... taken when the draw is not below this */
    float *row;         /* [items][rank] */
    float *user_row;    /* [rank] */
    uint32_t *rated_by; /* [items] the last user + 1 who rated it */
};

static void maker_deinit(struct rating_maker *m)
{
    mem_free(m->share);
    mem_free(m->alias);
    mem_free(m->alias_below);
    mem_free(m->row);
    mem_free(m->user_row);
    mem_free(m->rated_by);
}

static enum err maker_alloc(struct rating_maker *m)
{
    m->share = mem_calloc(m->users, sizeof(*m->share));
    m->alias = mem_calloc(m->items, sizeof(*m->alias));
    m->alias_below = mem_calloc(m->items, sizeof(*m->alias_below));
    m->row = mem_calloc(m->items * m->rank, sizeof(*m->row));
    m->user_row = mem_calloc(m->rank, sizeof(*m->user_row));
    m->rated_by = mem_calloc(m->items, sizeof(*m->rated_by));
    if (!m->share || !m->alias || !m->alias_below || !m->row || !m->user_row ||
        !m->rated_by)
        return ERR_NOMEM;
    return ERR_OK;
}

static struct rng stream(const struct rating_maker *m, enum rating_stream s,
                         uint64_t index)
{
    struct rng rng;

    rng_init(&rng, rng_mix(rng_mix(m->seed, s), index));
    return rng;
}

/* Ratings of each user: one each where there are enough, the rest in proportion
 * to a log-normal weight, none beyond @most; what that cuts goes to the users
 * that follow. */
static enum err share_out(struct rating_maker *m, uint64_t most)
{
    double *weight = mem_alloc(m->users * sizeof(*weight));
    uint64_t base = m->ratings >= m->users ? 1 : 0;
    uint64_t rest = m->ratings - base * m->users;
    uint64_t given = 0, carry = 0, u;
    double total = 0, sum = 0;

    if (!weight)
        return ERR_NOMEM;
    for (u = 0; u < m->users; u++) {
        struct rng rng = stream(m, STREAM_ACTIVITY, u);

        weight[u] = exp(activity_sigma * rng_normal(&rng));
        total += weight[u];
    }
    for (u = 0; u < m->users; u++) {
        uint64_t upto;

        sum += weight[u];
        upto =
            u + 1 == m->users ? rest : (uint64_t)(sum / total * (double)rest);
        m->share[u] = base + upto - given;
        given = upto;
    }
    for (u = 0; u < 2 * m->users; u++) {
        uint64_t *share = &m->share[u % m->users];
        uint64_t room = *share < most ? most - *share : 0;
        uint64_t add = carry < room ? carry : room;

        if (*share > most) {
            carry += *share - most;
            *share = most;
        }
        *share += add;
        carry -= add;
    }
    mem_free(weight);
    return ERR_OK;
}

/* Walker's alias method (1977) in Vose's form (1991): O(1) a draw. */
static enum err build_alias(struct rating_maker *m)
{
    uint64_t n = m->items, small = 0, large = n, i;
    double *p = mem_alloc(n * sizeof(*p));
    uint32_t *stack = mem_alloc(n * sizeof(*stack));
    struct perm place;
    double total = 0;

    if (!p || !stack) {
        mem_free(p);
        mem_free(stack);
        return ERR_NOMEM;
    }
    perm_init(&place, n, rng_mix(m->seed, STREAM_PLACE));
    for (i = 0; i < n; i++) {
        double at = (double)n / 100 + 1 + (double)perm_at(&place, i);

        p[i] = pow(at, -popularity_exponent);
        total += p[i];
    }
    for (i = 0; i < n; i++) {
        p[i] *= (double)n / total;
        if (p[i] < 1)
            stack[small++] = (uint32_t)i;
        else
            stack[--large] = (uint32_t)i;
    }
    while (small > 0 && large < n) {
        uint32_t s = stack[--small], l = stack[large];

        m->alias_below[s] = (float)p[s];
        m->alias[s] = l;
        p[l] -= 1 - p[s];
        if (p[l] < 1) {
            large++;
            stack[small++] = l;
        }
    }
    while (small > 0)
        m->alias_below[stack[--small]] = 2;
    while (large < n)
        m->alias_below[stack[large++]] = 2;
    mem_free(p);
    mem_free(stack);
    return ERR_OK;
}

static uint32_t draw_item(const struct rating_maker *m, struct rng *rng)
{
    double x = rng_uniform(rng) * (double)m->items;
    uint32_t i = (uint32_t)x;

    return x - (double)i < (double)m->alias_below[i] ? i : m->alias[i];
}

static uint32_t draw_new_item(const struct rating_maker *m, struct rng *rng,
                              uint32_t user)
{
    uint32_t item = draw_item(m, rng);
    int tries;

    for (tries = 0; tries < REDRAWS_MAX && m->rated_by[item] == user + 1;
         tries++)
        item = draw_item(m, rng);
    /* A heavy user has rated all that is popular: take the next one free. */
    while (m->rated_by[item] == user + 1)
        item = item + 1 < m->items ? item + 1 : 0;
    return item;
}

static void draw_row(float *row, uint64_t rank, struct rng *rng)
{
    uint64_t k;

    for (k = 0; k < rank; k++)
        row[k] = (float)rng_normal(rng);
}

static float rate(const struct rating_maker *m, uint32_t item, struct rng *rng)
{
    const float *row = m->row + item * m->rank;
    double dot = 0, value;
    uint64_t k;

    for (k = 0; k < m->rank; k++)
        dot += (double)(m->user_row[k] * row[k]);
    value = centre + signal * dot / sqrt((double)m->rank);
    if (m->noise > 0)
        value += m->noise * rng_normal(rng);
    value = round(2 * value) / 2;
    return (float)(value < 0.5 ? 0.5 : value > 5 ? 5 : value);
}

static enum err make_user(struct rating_maker *m, uint32_t user,
                          struct ratings *r)
{
    struct rng rng = stream(m, STREAM_USER, user);
    enum err err = ERR_OK;
    uint64_t n;

    draw_row(m->user_row, m->rank, &rng);
    for (n = 0; n < m->share[user] && !err; n++) {
        uint32_t item = draw_new_item(m, &rng, user);

        m->rated_by[item] = user + 1;
        err = id_map_add(&r->users, (int64_t)user + 1, &r->user[r->count]);
        if (!err)
            err = id_map_add(&r->items, (int64_t)item + 1, &r->item[r->count]);
        r->value[r->count] = rate(m, item, &rng);
        r->count++;
    }
    return err;
}

/* Bytes beside the ratings. */
static uint64_t own_bytes(const struct rating_maker *m)
{
    return m->items * (m->rank * 4 + 24) + m->users * 24;
}

uint64_t gen_ratings_bytes(const double v[])
{
    const struct rating_maker m = {.users = (uint64_t)v[KEY_USERS],
                                   .items = (uint64_t)v[KEY_ITEMS],
                                   .rank = (uint64_t)v[KEY_RANK]};

    return own_bytes(&m) + (uint64_t)v[KEY_RATINGS] * RATING_BYTES;
}

static enum err make(struct rating_maker *m, uint64_t limit_bytes,
                     struct ratings *r, struct fault *f)
{
    uint64_t own = own_bytes(m);
    uint64_t i;
    enum err err = data_memory_check("gen:ratings", own, limit_bytes, f);

    if (!err)
        err = ratings_reserve(r, m->ratings, limit_bytes - own, f);
    if (err)
        return err;
    err = maker_alloc(m);
    if (!err)
        err = share_out(m, m->items);
    if (!err)
        err = build_alias(m);
    if (err)
        return fault_set(f, err, "gen:ratings: %s", err_text(err));
    for (i = 0; i < m->items; i++) {
        struct rng rng = stream(m, STREAM_ITEM_ROW, i);

        draw_row(m->row + i * m->rank, m->rank, &rng);
    }
    for (i = 0; i < m->users && !err; i++)
        err = make_user(m, (uint32_t)i, r);
    return err ? fault_set(f, err, "gen:ratings: %s", err_text(err)) : ERR_OK;
}

enum err gen_ratings(const char *spec, uint64_t limit_bytes,
                     struct ratings *out, struct fault *f)
{
    const struct gen_kind *kind;
    double v[GEN_KEYS_MAX];
    struct rating_maker m;
    struct ratings r = {0};
    enum err err = gen_parse(spec, &kind, v, f);

    if (err)
        return err;
    if (kind->kind != DATA_RATINGS)
        return fault_set(f, ERR_INVAL, "%s: makes %s; expected ratings", spec,
                         data_kind_text(kind->kind));
    m = (struct rating_maker){.users = (uint64_t)v[KEY_USERS],
                              .items = (uint64_t)v[KEY_ITEMS],
                              .ratings = (uint64_t)v[KEY_RATINGS],
                              .rank = (uint64_t)v[KEY_RANK],
                              .noise = v[KEY_NOISE],
                              .seed = (uint64_t)v[KEY_SEED]};
    if (v[KEY_RATINGS] > v[KEY_USERS] * v[KEY_ITEMS])
        return fault_set(f, ERR_INVAL,
                         "%s: expected at most users x items = %.0f ratings, "
                         "found %.0f",
                         spec, v[KEY_USERS] * v[KEY_ITEMS], v[KEY_RATINGS]);
    err = make(&m, limit_bytes, &r, f);
    maker_deinit(&m);
    if (err) {
        ratings_deinit(&r);
        return err;
    }
    *out = r;
    return ERR_OK;
}
