#include "tuner/history/history_extras.h"

#include "base/mem.h"

#include <assert.h>
#include <math.h>

struct history_extras {
    double *of[EXTRAS_MAX]; /* owned: [room] of each metric that has a value */
    size_t room[EXTRAS_MAX];
};

/* ---- room ---------------------------------------------------------------- */

static enum err grow_one(struct history_extras *x, int k, size_t capacity)
{
    double *more;

    if (x->room[k] >= capacity)
        return ERR_OK;
    more = mem_realloc(x->of[k], capacity * sizeof(*more));
    if (!more)
        return ERR_NOMEM;
    for (size_t i = x->room[k]; i < capacity; i++)
        more[i] = NAN;
    x->of[k] = more;
    x->room[k] = capacity;
    return ERR_OK;
}

enum err history_extras_grow(struct history *h, struct history_branch *b,
                             const json_t *values, size_t capacity)
{
    enum err err = ERR_OK;
    const char *name;
    json_t *column;

    if (!b->extras && json_object_size(values) == 0)
        return ERR_OK;
    if (!b->extras)
        b->extras = mem_calloc(1, sizeof(*b->extras));
    if (!b->extras)
        return ERR_NOMEM;
    json_object_foreach((json_t *)values, name, column)
    {
        int k = extras_name_fits(name) ? extras_add(&h->extras, name) : -1;

        if (k >= 0 && !err)
            err = grow_one(b->extras, k, capacity);
    }
    /* Columns that had values before go on. */
    for (int k = 0; k < EXTRAS_MAX && !err; k++)
        if (b->extras->of[k])
            err = grow_one(b->extras, k, capacity);
    return err;
}

void history_extras_shrink(struct history_branch *b)
{
    for (int k = 0; b->extras && b->points && k < EXTRAS_MAX; k++) {
        double *less = b->extras->of[k] ? mem_realloc(b->extras->of[k],
                                                      b->points * sizeof(*less))
                                        : NULL;

        if (less) {
            b->extras->of[k] = less;
            b->extras->room[k] = b->points;
        }
    }
}

void history_extras_free(struct history_branch *b)
{
    for (int k = 0; b->extras && k < EXTRAS_MAX; k++)
        mem_free(b->extras->of[k]);
    mem_free(b->extras);
    b->extras = NULL;
}

/* ---- points -------------------------------------------------------------- */

static double mean(double a, uint64_t of_a, double b, uint64_t of_b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    return (a * (double)of_a + b * (double)of_b) / (double)(of_a + of_b);
}

static double finite_at(const json_t *values, const char *name, size_t index)
{
    double x = extras_at(values, name, index);

    return isfinite(x) ? x : NAN;
}

void history_extras_set(const struct history *h, struct history_branch *b,
                        size_t index, const json_t *values, size_t window)
{
    for (uint32_t k = 0; b->extras && k < h->extras.len; k++)
        if (b->extras->of[k])
            b->extras->of[k][index] =
                finite_at(values, h->extras.name[k], window);
}

enum err history_extras_put(struct history_branch *b, size_t index,
                            const double x[], uint32_t metrics, size_t capacity)
{
    assert(metrics <= EXTRAS_MAX);
    assert(index < capacity);
    if (!b->extras)
        b->extras = mem_calloc(1, sizeof(*b->extras));
    if (!b->extras)
        return ERR_NOMEM;
    for (int k = 0; k < (int)metrics; k++) {
        if (isnan(x[k]) && !b->extras->of[k])
            continue;
        if (grow_one(b->extras, k, capacity))
            return ERR_NOMEM;
        b->extras->of[k][index] = x[k];
    }
    return ERR_OK;
}

void history_extras_take(const struct history *h, struct history_branch *b,
                         size_t index, uint64_t clocks, const json_t *values,
                         size_t window, uint64_t more)
{
    for (uint32_t k = 0; b->extras && k < h->extras.len; k++)
        if (b->extras->of[k])
            b->extras->of[k][index] =
                mean(b->extras->of[k][index], clocks,
                     finite_at(values, h->extras.name[k], window), more);
}

void history_extras_move(struct history_branch *b, size_t to, size_t from)
{
    for (int k = 0; b->extras && k < EXTRAS_MAX; k++)
        if (b->extras->of[k])
            b->extras->of[k][to] = b->extras->of[k][from];
}

void history_extras_join(struct history_branch *b, size_t to, uint64_t clocks,
                         size_t from, uint64_t more)
{
    for (int k = 0; b->extras && k < EXTRAS_MAX; k++)
        if (b->extras->of[k])
            b->extras->of[k][to] = mean(b->extras->of[k][to], clocks,
                                        b->extras->of[k][from], more);
}

double history_extra(const struct history_branch *b, size_t metric,
                     size_t point)
{
    assert(metric < EXTRAS_MAX);
    assert(point < b->points);
    if (!b->extras || !b->extras->of[metric])
        return NAN;
    return b->extras->of[metric][point];
}

bool history_extra_is_there(const struct history_branch *b, size_t metric)
{
    for (size_t i = 0; i < b->points; i++)
        if (!isnan(history_extra(b, metric, i)))
            return true;
    return false;
}

/* ---- epochs -------------------------------------------------------------- */

/* Mean over all that a testing branch ran, by samples. */
static double whole(const struct history_branch *b, size_t metric)
{
    double sum = 0, samples = 0;

    for (size_t i = 0; i < b->points; i++) {
        double x = history_extra(b, metric, i);

        if (isnan(x))
            continue;
        sum += x * (double)b->point[i].w.samples;
        samples += (double)b->point[i].w.samples;
    }
    return samples > 0 ? sum / samples : NAN;
}

void history_extras_epoch(const struct history *h, branch_id branch,
                          double out[EXTRAS_MAX])
{
    const struct history_branch *test = NULL;

    for (size_t i = h->branches; h->extras.len && i > 0 && !test; i--)
        if (h->branch[i - 1].type == BRANCH_TESTING &&
            h->branch[i - 1].parent == branch)
            test = &h->branch[i - 1];
    for (size_t k = 0; k < EXTRAS_MAX; k++)
        out[k] = test ? whole(test, k) : NAN;
}
