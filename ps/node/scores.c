#include "ps/node/scores.h"

#include "base/mem.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct scores_pair {
    double probability;
    bool second;
};

enum err scores_init(struct scores *s, unsigned classes, uint64_t samples)
{
    assert(s);
    *s = (struct scores){.classes = classes, .room = samples};
    if (classes > SCORES_CLASSES_MAX)
        return ERR_LIMIT;
    if (classes == 0)
        return ERR_OK;
    s->matrix = mem_calloc((size_t)classes * classes, sizeof(*s->matrix));
    if (classes == 2)
        s->pair = mem_calloc(samples + 1, sizeof(*s->pair));
    if (s->matrix && (s->pair || classes != 2))
        return ERR_OK;
    scores_deinit(s);
    return ERR_NOMEM;
}

void scores_deinit(struct scores *s)
{
    if (!s)
        return;
    mem_free(s->matrix);
    mem_free(s->pair);
    memset(s, 0, sizeof(*s));
}

void scores_reset(struct scores *s)
{
    struct scores kept;

    assert(s);
    kept = *s;
    *s = (struct scores){.classes = kept.classes,
                         .room = kept.room,
                         .matrix = kept.matrix,
                         .pair = kept.pair};
    if (s->matrix)
        memset(s->matrix, 0,
               (size_t)s->classes * s->classes * sizeof(*s->matrix));
}

static bool is_class(const struct scores *s, double k)
{
    return k >= 0 && k < s->classes && k <= floor(k); /* NAN is none */
}

bool scores_fit(const struct scores *s, const double *row, double truth)
{
    assert(s && row);
    if (s->classes == 0)
        return true;
    for (unsigned k = 0; k < s->classes; k++)
        if (isnan(row[1 + k]))
            return false;
    return is_class(s, row[0]) && is_class(s, truth);
}

static void add_class(struct scores *s, const double *row, unsigned truth)
{
    unsigned predicted = (unsigned)row[0];

    assert(truth < s->classes);
    assert(predicted < s->classes);
    s->matrix[(size_t)truth * s->classes + predicted]++;
    s->log_sum -= log(fmax(row[1 + truth], DBL_EPSILON));
    if (s->pair)
        s->pair[s->count] = (struct scores_pair){row[2], truth == 1};
}

/* Welford 1962: the truth's mean and its sum of squared deviations. */
static void add_number(struct scores *s, double predicted, double truth)
{
    double error = predicted - truth, from = truth - s->mean;

    s->absolute += fabs(error);
    s->squares += error * error;
    s->mean += from / (double)(s->count + 1);
    s->spread += from * (truth - s->mean);
}

void scores_add(struct scores *s, const double *row, double truth)
{
    assert(s->count < s->room);
    assert(scores_fit(s, row, truth));
    if (s->classes)
        add_class(s, row, (unsigned)truth);
    else
        add_number(s, row[0], truth);
    s->count++;
}

/* The means and deviations of both, as Chan, Golub and LeVeque 1979 join
 * them. */
static void join_numbers(struct scores *s, const struct scores *from)
{
    double n = (double)s->count, more = (double)from->count;
    double apart = from->mean - s->mean;

    s->absolute += from->absolute;
    s->squares += from->squares;
    s->mean += apart * more / (n + more);
    s->spread += from->spread + apart * apart * n * more / (n + more);
}

void scores_join(struct scores *s, const struct scores *from)
{
    assert(s && from && s != from);
    assert(s->classes == from->classes);
    assert(from->count <= s->room - s->count);
    if (from->count == 0)
        return;
    for (size_t i = 0; i < (size_t)s->classes * s->classes; i++)
        s->matrix[i] += from->matrix[i];
    s->log_sum += from->log_sum;
    if (s->pair)
        memcpy(s->pair + s->count, from->pair,
               (size_t)from->count * sizeof(*s->pair));
    if (s->classes == 0)
        join_numbers(s, from);
    s->count += from->count;
}

uint64_t scores_of(const struct scores *s, unsigned truth, unsigned predicted)
{
    assert(truth < s->classes);
    assert(predicted < s->classes);
    return s->matrix[(size_t)truth * s->classes + predicted];
}

/* ---- metrics ------------------------------------------------------------- */

static int by_probability(const void *a, const void *b)
{
    double x = ((const struct scores_pair *)a)->probability;
    double y = ((const struct scores_pair *)b)->probability;

    return (x > y) - (x < y);
}

/* The share of pairs of a sample of each class that are in order, of equal ones
 * half: by the sum of ranks (Mann and Whitney 1947). */
static double area_under_curve(struct scores *s)
{
    double below = 0, wins = 0, second = 0;

    qsort(s->pair, s->count, sizeof(*s->pair), by_probability);
    for (uint64_t i = 0, end; i < s->count; i = end) {
        double equal[2] = {0, 0};

        for (end = i; end < s->count &&
                      s->pair[end].probability <= s->pair[i].probability;
             end++)
            equal[s->pair[end].second]++;
        wins += equal[1] * (below + equal[0] / 2);
        below += equal[0];
        second += equal[1];
    }
    return wins / (below * second); /* NAN where a class does not occur */
}

static void sums_of(const struct scores *s, unsigned k, double *own,
                    double *predicted)
{
    *own = *predicted = 0;
    for (unsigned j = 0; j < s->classes; j++) {
        *own += (double)scores_of(s, k, j);
        *predicted += (double)scores_of(s, j, k);
    }
}

/* Values in the order of base/metrics.h. */
static void class_values(struct scores *s, double out[METRICS_MAX])
{
    double right = 0, recall = 0, f1 = 0, occur = 0, known = 0;
    double n = (double)s->count;

    for (unsigned k = 0; k < s->classes; k++) {
        double own, predicted, hits = (double)scores_of(s, k, k);

        sums_of(s, k, &own, &predicted);
        right += hits;
        occur += own > 0;
        known += own + predicted > 0;
        recall += own > 0 ? hits / own : 0;
        f1 += own + predicted > 0 ? 2 * hits / (own + predicted) : 0;
    }
    out[0] = right / n;
    out[1] = recall / occur;
    out[2] = f1 / known;
    out[3] = s->log_sum / n;
    out[4] = s->pair ? area_under_curve(s) : (double)NAN;
}

static void number_values(const struct scores *s, double out[METRICS_MAX])
{
    double n = (double)s->count;

    out[0] = sqrt(s->squares / n);
    out[1] = s->absolute / n;
    out[2] = s->spread > 0 ? 1 - s->squares / s->spread : (double)NAN;
}

size_t scores_metrics(struct scores *s, struct score out[METRICS_MAX])
{
    double value[METRICS_MAX];
    const struct metric *m;
    size_t n, kept = 0;

    assert(s && out);
    m = metrics_of(s->classes ? METRICS_OF_CLASSES : METRICS_OF_NUMBERS, &n);
    if (s->classes)
        class_values(s, value);
    else
        number_values(s, value);
    for (size_t i = 0; i < n; i++)
        if (metrics_has(&m[i], s->classes))
            out[kept++] = (struct score){&m[i], value[i]};
    return kept;
}

double scores_value(struct scores *s, const struct metric *m)
{
    struct score got[METRICS_MAX];
    size_t n = scores_metrics(s, got), i = 0;

    while (i < n && got[i].metric != m)
        i++;
    assert(i < n);
    return got[i].value;
}
