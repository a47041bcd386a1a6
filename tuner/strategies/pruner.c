#include "tuner/strategies/pruner.h"

#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { PRUNER_ROOM = 16 };

void pruner_deinit(struct pruner *p)
{
    for (uint32_t i = 0; i < p->past_n; i++)
        mem_free(p->past[i].value);
    for (uint32_t k = 0; k < PRUNER_RUNGS_MAX; k++)
        mem_free(p->rung[k].value);
    mem_free(p->past);
    mem_free(p->means.value);
    memset(p, 0, sizeof(*p));
}

/* ---- room ---------------------------------------------------------------- */

static enum err reserve(struct pruner_list *l)
{
    uint32_t room = l->room ? 2 * l->room : PRUNER_ROOM;
    double *value;

    if (l->n < l->room)
        return ERR_OK;
    value = mem_realloc(l->value, room * sizeof(*value));
    if (!value)
        return ERR_NOMEM;
    l->value = value;
    l->room = room;
    return ERR_OK;
}

static enum err reserve_past(struct pruner *p)
{
    uint32_t room = p->past_room ? 2 * p->past_room : PRUNER_ROOM;
    struct pruner_list *past;

    if (p->past_n < p->past_room)
        return ERR_OK;
    past = mem_realloc(p->past, room * sizeof(*past));
    if (!past)
        return ERR_NOMEM;
    p->past = past;
    p->past_room = room;
    return ERR_OK;
}

/* The rung at whose end @epoch is; PRUNER_RUNGS_MAX: none. */
static uint32_t rung_of(const struct pruner *p, uint32_t epoch)
{
    uint64_t end = p->min_resource;

    for (uint32_t k = 0; k < PRUNER_RUNGS_MAX && end <= epoch; k++) {
        if (end == epoch)
            return k;
        end *= p->eta;
    }
    return PRUNER_RUNGS_MAX;
}

enum err pruner_reserve(struct pruner *p)
{
    enum err err = reserve(&p->means);
    uint32_t k;

    if (!err && p->rule == PRUNER_MEDIAN)
        err = reserve_past(p);
    if (err || p->rule != PRUNER_HALVING)
        return err;
    assert(p->min_resource >= 1 && p->eta >= 2);
    k = rung_of(p, p->means.n + 1);
    return k < PRUNER_RUNGS_MAX ? reserve(&p->rung[k]) : ERR_OK;
}

/* ---- the rules ----------------------------------------------------------- */

/* Places @value in a list that ascends, and has room for it. Returns how many
 * are less. */
static uint32_t insert(struct pruner_list *l, double value)
{
    uint32_t i = 0;

    assert(l->n < l->room);
    while (i < l->n && l->value[i] < value)
        i++;
    memmove(&l->value[i + 1], &l->value[i], (l->n - i) * sizeof(value));
    l->value[i] = value;
    l->n++;
    return i;
}

/* The median of the means up to @epoch of those that came so far; NAN: fewer
 * than `startup` did. */
static double median_at(const struct pruner *p, uint32_t epoch)
{
    double near[2] = {NAN, NAN};
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->past_n; i++)
        n += p->past[i].n >= epoch;
    if (n == 0 || n < p->startup)
        return NAN;
    /* The two in the middle, by rank: memory for a sorted copy may fail. */
    for (uint32_t i = 0; i < p->past_n; i++) {
        uint32_t less = 0, same = 0;
        double x;

        if (p->past[i].n < epoch)
            continue;
        x = p->past[i].value[epoch - 1];
        for (uint32_t k = 0; k < p->past_n; k++) {
            if (p->past[k].n < epoch)
                continue;
            less += p->past[k].value[epoch - 1] < x;
            same += p->past[k].value[epoch - 1] == x;
        }
        for (uint32_t m = 0; m < 2; m++)
            if (less <= (n - 1 + m) / 2 && (n - 1 + m) / 2 < less + same)
                near[m] = x;
    }
    return isinf(near[0]) ? near[0] : (near[0] + near[1]) / 2;
}

static bool median_says(const struct pruner *p, uint32_t epoch)
{
    return epoch > p->warmup && p->best > median_at(p, epoch);
}

static bool halving_says(struct pruner *p, uint32_t epoch, double score)
{
    uint32_t k = rung_of(p, epoch), better, places;

    if (k == PRUNER_RUNGS_MAX)
        return false;
    better = insert(&p->rung[k], score);
    places = p->rung[k].n / p->eta;
    return better >= (places ? places : 1);
}

bool pruner_epoch(struct pruner *p, double score)
{
    double x = isnan(score) ? INFINITY : score;
    uint32_t epoch = p->means.n + 1;

    assert(p->means.n < p->means.room);
    p->best = epoch == 1 ? x : fmin(p->best, x);
    p->sum = epoch == 1 ? x : p->sum + x;
    p->means.value[p->means.n++] = p->sum / epoch;
    if (p->rule == PRUNER_MEDIAN)
        return median_says(p, epoch);
    return p->rule == PRUNER_HALVING && halving_says(p, epoch, x);
}

void pruner_over(struct pruner *p, bool whole)
{
    if (whole && p->rule == PRUNER_MEDIAN && p->means.n > 0) {
        assert(p->past_n < p->past_room);
        p->past[p->past_n++] = p->means;
        p->means = (struct pruner_list){0};
    }
    p->means.n = 0;
}
