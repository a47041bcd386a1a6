#include "ps/rows/rule.h"

#include "base/simd.h"
#include "ps/rows/rule_lanes.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Runs @loop over the batch with the width as a constant where it is a usual
 * one: GCC then unrolls the row and drops the remainder loop. */
#define BY_WIDTH(loop, b)                                                      \
    do {                                                                       \
        switch ((b)->width) {                                                  \
        case 8:                                                                \
            loop(b, 8);                                                        \
            break;                                                             \
        case 16:                                                               \
            loop(b, 16);                                                       \
            break;                                                             \
        case 32:                                                               \
            loop(b, 32);                                                       \
            break;                                                             \
        case 64:                                                               \
            loop(b, 64);                                                       \
            break;                                                             \
        default:                                                               \
            loop(b, (b)->width);                                               \
        }                                                                      \
    } while (0)

/* ---- add: value += sum --------------------------------------------------- */

#define ADD_LOOP(name, T)                                                      \
    KERNEL_PART void name(const struct rule_batch *b, uint32_t width)          \
    {                                                                          \
        for (size_t i = 0; i < b->n; i++) {                                    \
            T *restrict w = b->row[i];                                         \
            const T *restrict d = b->sum[i];                                   \
                                                                               \
            for (uint32_t j = 0; j < width; j++)                               \
                w[j] += d[j];                                                  \
        }                                                                      \
    }

ADD_LOOP(add_f32, float)
ADD_LOOP(add_f64, double)
ADD_LOOP(add_i32, uint32_t) /* unsigned, so that overflow wraps */

KERNEL static void add_apply(const struct rule_batch *b)
{
    if (b->type == MLT_F32)
        BY_WIDTH(add_f32, b);
    else if (b->type == MLT_F64)
        BY_WIDTH(add_f64, b);
    else
        BY_WIDTH(add_i32, b);
}

static unsigned no_slots(unsigned flags)
{
    (void)flags;
    return 0;
}

/* ---- sgd: v = m v + (1 - m) g; w -= lr v --------------------------------- */

KERNEL_PART void sgd_plain(const struct rule_batch *b, uint32_t width)
{
    float lr = b->params.learning_rate;

    for (size_t i = 0; i < b->n; i++) {
        float *restrict w = b->row[i];
        const float *restrict g = b->sum[i];

        for (uint32_t j = 0; j < width; j++)
            w[j] -= lr * g[j];
    }
}

KERNEL_PART void sgd_momentum(const struct rule_batch *b, uint32_t width)
{
    float lr = b->params.learning_rate;
    float m = b->params.momentum;

    for (size_t i = 0; i < b->n; i++) {
        float *restrict w = b->row[i];
        float *restrict v = (float *)b->row[i] + width;
        const float *restrict g = b->sum[i];

        for (uint32_t j = 0; j < width; j++) {
            v[j] = m * v[j] + (1 - m) * g[j];
            w[j] -= lr * v[j];
        }
    }
}

KERNEL static void sgd_apply(const struct rule_batch *b)
{
    if (b->slots == 0)
        BY_WIDTH(sgd_plain, b);
    else
        BY_WIDTH(sgd_momentum, b);
}

static void sgd_apply_mix(const struct rule_batch *b, const struct rule_mix *m)
{
    assert(b->slots == 0);
    rule_lanes_best()->sgd_mix(b, m);
}

static void sgd_apply_cross(const struct rule_batch *b,
                            const struct rule_cross *m)
{
    assert(b->slots == 0);
    rule_lanes_best()->sgd_cross(b, m);
}

static unsigned sgd_slots(unsigned flags)
{
    return flags & MLT_NO_MOMENTUM ? 0 : 1;
}

/* ---- nesterov: v = m v + (1 - m) g; w -= lr (m v + (1 - m) g) ------------ */

/* Sutskever et al. 2013, section 2, in the form that keeps the looked-ahead
 * values as the parameters. */
KERNEL_PART void nesterov_momentum(const struct rule_batch *b, uint32_t width)
{
    float lr = b->params.learning_rate;
    float m = b->params.momentum;

    for (size_t i = 0; i < b->n; i++) {
        float *restrict w = b->row[i];
        float *restrict v = (float *)b->row[i] + width;
        const float *restrict g = b->sum[i];

        for (uint32_t j = 0; j < width; j++) {
            v[j] = m * v[j] + (1 - m) * g[j];
            w[j] -= lr * (m * v[j] + (1 - m) * g[j]);
        }
    }
}

KERNEL static void nesterov_apply(const struct rule_batch *b)
{
    if (b->slots == 0)
        BY_WIDTH(sgd_plain, b);
    else
        BY_WIDTH(nesterov_momentum, b);
}

/* ---- adagrad: s += g g; w -= lr g / sqrt(s + eps) ------------------------ */

static void adagrad_apply(const struct rule_batch *b)
{
    rule_lanes_best()->adagrad(b);
}

static void adagrad_apply_mix(const struct rule_batch *b,
                              const struct rule_mix *m)
{
    rule_lanes_best()->adagrad_mix(b, m);
}

static void adagrad_apply_cross(const struct rule_batch *b,
                                const struct rule_cross *m)
{
    rule_lanes_best()->adagrad_cross(b, m);
}

static unsigned one_slot(unsigned flags)
{
    (void)flags;
    return 1;
}

static unsigned two_slots(unsigned flags)
{
    (void)flags;
    return 2;
}

/* ---- rmsprop: s = d s + (1 - d) g g; w -= lr g / sqrt(s + eps) ----------- */

/* Tieleman and Hinton 2012, lecture 6.5. */
KERNEL_PART void rmsprop_rows(const struct rule_batch *b, uint32_t width)
{
    const float d = RULE_RMSPROP_DECAY;
    float lr = b->params.learning_rate;

    for (size_t i = 0; i < b->n; i++) {
        float *restrict w = b->row[i];
        float *restrict s = (float *)b->row[i] + width;
        const float *restrict g = b->sum[i];

        for (uint32_t j = 0; j < width; j++) {
            s[j] = d * s[j] + (1 - d) * g[j] * g[j];
            w[j] -= lr * g[j] / sqrtf(s[j] + RULE_EPSILON);
        }
    }
}

KERNEL static void rmsprop_apply(const struct rule_batch *b)
{
    BY_WIDTH(rmsprop_rows, b);
}

/* ---- adadelta ------------------------------------------------------------ */

/* Zeiler 2012, algorithm 1, its step times the learning rate (1 there):
 * s = d s + (1 - d) g g; x = g sqrt(u + eps) / sqrt(s + eps);
 * u = d u + (1 - d) x x; w -= lr x. */
KERNEL_PART void adadelta_rows(const struct rule_batch *b, uint32_t width)
{
    const float d = RULE_ADADELTA_DECAY;
    float lr = b->params.learning_rate;

    for (size_t i = 0; i < b->n; i++) {
        float *restrict w = b->row[i];
        float *restrict s = (float *)b->row[i] + width;
        float *restrict u = (float *)b->row[i] + (size_t)2 * width;
        const float *restrict g = b->sum[i];

        for (uint32_t j = 0; j < width; j++) {
            float x;

            s[j] = d * s[j] + (1 - d) * g[j] * g[j];
            x = g[j] * sqrtf((u[j] + RULE_ADADELTA_EPSILON) /
                             (s[j] + RULE_ADADELTA_EPSILON));
            u[j] = d * u[j] + (1 - d) * x * x;
            w[j] -= lr * x;
        }
    }
}

KERNEL static void adadelta_apply(const struct rule_batch *b)
{
    BY_WIDTH(adadelta_rows, b);
}

/* ---- adam ---------------------------------------------------------------- */

/* Kingma and Ba 2015, algorithm 1. The corrections 1 - beta^t obey the same
 * recursion as the averages (c = beta c + 1 - beta, from 0), so the row keeps
 * those two instead of t: no power is taken, and rows that are seldom updated
 * are corrected by their own number of updates. Epsilon is under the root. */
KERNEL_PART void adam_rows(const struct rule_batch *b, uint32_t width)
{
    const float d1 = RULE_ADAM_DECAY_1, d2 = RULE_ADAM_DECAY_2;

    for (size_t i = 0; i < b->n; i++) {
        float *restrict w = b->row[i];
        float *restrict m = (float *)b->row[i] + width;
        float *restrict v = (float *)b->row[i] + (size_t)2 * width;
        float *restrict c = (float *)b->row[i] + (size_t)3 * width;
        const float *restrict g = b->sum[i];
        float step, scale;

        c[0] = d1 * c[0] + (1 - d1);
        c[1] = d2 * c[1] + (1 - d2);
        step = b->params.learning_rate / c[0];
        scale = 1 / c[1];
        for (uint32_t j = 0; j < width; j++) {
            m[j] = d1 * m[j] + (1 - d1) * g[j];
            v[j] = d2 * v[j] + (1 - d2) * g[j] * g[j];
            w[j] -= step * m[j] / sqrtf(scale * v[j] + RULE_EPSILON);
        }
    }
}

KERNEL static void adam_apply(const struct rule_batch *b)
{
    BY_WIDTH(adam_rows, b);
}

/* ---- adarevision --------------------------------------------------------- */

/* McMahan and Streeter 2014, algorithm 3 (AdaptiveRevision). b: what came since
 * the read that g was computed on;
 *
 *     z += g g + 2 g b; z' = max(z, z'); e = lr / sqrt(z');
 *     w -= e g; w += (e before - e) b; sum += g.
 *
 * They start z at 1; here at 0, as adagrad does, so that rates are in the same
 * units: without delays the two are the same. Where b is not 0, a gradient came
 * before, and z' is not 0 either. */
static inline void adarevision_value(float lr, float g, float b, float *w,
                                     float *z, float *most, float *sum)
{
    float before = lr / sqrtf(*most + RULE_EPSILON);
    float after;

    *z += g * g + 2 * g * b;
    *most = *z > *most ? *z : *most;
    after = lr / sqrtf(*most + RULE_EPSILON);
    *w += (before - after) * b - after * g;
    *sum += g;
}

KERNEL_PART void adarevision_row(float lr, uint32_t width, float *restrict w,
                                 const float *restrict g)
{
    float *restrict z = w + width;
    float *restrict most = z + width;
    float *restrict sum = most + width;

    for (uint32_t j = 0; j < width; j++)
        adarevision_value(lr, g[j], 0, &w[j], &z[j], &most[j], &sum[j]);
}

KERNEL_PART void adarevision_late(float lr, uint32_t width, float *restrict w,
                                  const float *restrict g,
                                  const float *restrict seen)
{
    float *restrict z = w + width;
    float *restrict most = z + width;
    float *restrict sum = most + width;

    for (uint32_t j = 0; j < width; j++)
        adarevision_value(lr, g[j], sum[j] - seen[j], &w[j], &z[j], &most[j],
                          &sum[j]);
}

KERNEL static void adarevision_apply(const struct rule_batch *b)
{
    float lr = b->params.learning_rate;

    for (size_t i = 0; i < b->n; i++)
        if (b->seen && b->seen[i])
            adarevision_late(lr, b->width, b->row[i], b->sum[i], b->seen[i]);
        else
            adarevision_row(lr, b->width, b->row[i], b->sum[i]);
}

static unsigned three_slots(unsigned flags)
{
    (void)flags;
    return 3;
}

/* ---- rpcs ---------------------------------------------------------------- */

static void rpcs_apply(const struct rule_batch *b)
{
    rule_lanes_best()->rpcs(b);
}

/* Chin, Zhuang, Juan and Lin 2015, algorithm 2 (reduced per-coordinate
 * schedule): s = mean of g g over the row's values; w -= lr g / sqrt(1 + s).
 * Their two groups of values are here the first and all others, both from the
 * start; and s takes in a gradient before it is used, not after. */
static void rpcs_apply_mix(const struct rule_batch *b, const struct rule_mix *m)
{
    rule_lanes_best()->rpcs_mix(b, m);
}

/* ---- decay --------------------------------------------------------------- */

KERNEL static void scale_values(float *w, uint32_t n, float by)
{
    for (uint32_t j = 0; j < n; j++)
        w[j] *= by;
}

void rule_step_decayed(const struct rule_ops *rule, const struct rule_batch *b,
                       uint32_t undecayed)
{
    struct rule_batch one = *b;
    float keep = rule_keeps(&b->params);

    assert(b->type == MLT_F32 && undecayed <= b->width);
    one.n = 1;
    for (size_t i = 0; i < b->n; i++) {
        one.row = b->row + i;
        one.sum = b->sum + i;
        one.seen = b->seen ? b->seen + i : NULL;
        scale_values(b->row[i], b->width - undecayed, keep);
        rule_step(rule, &one);
    }
}

/* ---- any ----------------------------------------------------------------- */

enum {
    ANY_SLOTS = 2, /* adadelta, adam */
    ANY_KEPT = 2,  /* numbers a row: adam, rpcs */
    ANY_TAIL = ANY_KEPT + 1
};

static unsigned any_slots(unsigned flags)
{
    (void)flags;
    return ANY_SLOTS;
}

/* The mark is the rule's number and 1; 0 in a new row. */
static void any_begin(void *row, uint32_t width, uint32_t rule)
{
    float *slots = (float *)row + width;
    float *mark = slots + (size_t)ANY_SLOTS * width + ANY_KEPT;
    float want = (float)(rule + 1);

    if (*mark == want)
        return;
    memset(slots, 0, ((size_t)ANY_SLOTS * width + ANY_KEPT) * sizeof(float));
    *mark = want;
}

static void any_apply(const struct rule_batch *b)
{
    const struct rule_ops *rule = rule_at(b->params.rule);
    struct rule_batch own = *b;

    assert(rule && rule_is_choice(b->params.rule));
    assert(b->slots == ANY_SLOTS);
    own.slots = rule->slots(0);
    for (size_t i = 0; i < b->n; i++)
        any_begin(b->row[i], b->width, b->params.rule);
    rule->apply(&own);
}

static const struct rule_ops any = {.name = RULE_ANY,
                                    .summary =
                                        "one of the others, chosen by each run",
                                    .types = 1 << MLT_F32,
                                    .uses_learning_rate = true,
                                    .uses_momentum = true,
                                    .slots = any_slots,
                                    .tail = ANY_TAIL,
                                    .apply = any_apply};

/* ---- registry ------------------------------------------------------------ */

enum {
    F32_ONLY = 1 << MLT_F32,
    ALL_TYPES = 1 << MLT_F32 | 1 << MLT_I32 | 1 << MLT_F64
};

static const struct rule_ops rules[] = {
    {.name = "add",
     .summary = "values change by the sum of the updates",
     .types = ALL_TYPES,
     .slots = no_slots,
     .joins = true,
     .apply = add_apply},
    {.name = "sgd",
     .summary = "gradient descent with momentum: v = m v + (1 - m) g; "
                "w -= lr v",
     .types = F32_ONLY,
     .uses_learning_rate = true,
     .uses_momentum = true,
     .slots = sgd_slots,
     .apply = sgd_apply,
     .apply_mix = sgd_apply_mix,
     .apply_cross = sgd_apply_cross},
    {.name = "nesterov",
     .summary = "momentum that looks ahead: v = m v + (1 - m) g; "
                "w -= lr (m v + (1 - m) g)",
     .types = F32_ONLY,
     .uses_learning_rate = true,
     .uses_momentum = true,
     .slots = sgd_slots,
     .apply = nesterov_apply},
    {.name = "adagrad",
     .summary = "s += g g; w -= lr g / sqrt(s), value by value",
     .types = F32_ONLY,
     .uses_learning_rate = true,
     .slots = one_slot,
     .apply = adagrad_apply,
     .apply_mix = adagrad_apply_mix,
     .apply_cross = adagrad_apply_cross},
    {.name = "rmsprop",
     .summary = "s = 0.9 s + 0.1 g g; w -= lr g / sqrt(s), value by value",
     .types = F32_ONLY,
     .uses_learning_rate = true,
     .slots = one_slot,
     .apply = rmsprop_apply},
    {.name = "adadelta",
     .summary = "steps in the units of the values: lr times the rms of past "
                "steps over that of gradients",
     .types = F32_ONLY,
     .uses_learning_rate = true,
     .slots = two_slots,
     .apply = adadelta_apply},
    {.name = "adam",
     .summary = "corrected averages of gradient (0.9) and square (0.999): "
                "w -= lr m / sqrt(v)",
     .types = F32_ONLY,
     .uses_learning_rate = true,
     .slots = two_slots,
     .tail = 2,
     .apply = adam_apply},
    {.name = "adarevision",
     .summary = "adagrad that makes up for late gradients, by what others "
                "changed since the row was read",
     .types = F32_ONLY,
     .uses_learning_rate = true,
     .slots = three_slots,
     .revises = true,
     .apply = adarevision_apply},
    {.name = "rpcs",
     .summary = "adagrad with one rate a row, and one for its first value: "
                "s += mean of g g; w -= lr g / sqrt(1 + s)",
     .types = F32_ONLY,
     .uses_learning_rate = true,
     .slots = no_slots,
     .tail = 2,
     .apply = rpcs_apply,
     .apply_mix = rpcs_apply_mix},
};

enum { RULES = sizeof(rules) / sizeof(rules[0]) };

const struct rule_ops *rule_at(size_t i)
{
    return i < RULES ? &rules[i] : NULL;
}

const struct rule_ops *rule_find(const char *name)
{
    assert(name);
    for (size_t i = 0; i < RULES; i++)
        if (strcmp(rules[i].name, name) == 0)
            return &rules[i];
    return strcmp(name, RULE_ANY) == 0 ? &any : NULL;
}

bool rule_is_choice(uint32_t number)
{
    return number < RULES && !rules[number].revises;
}

enum err rule_choice(const char *name, uint32_t *out, struct fault *f)
{
    for (uint32_t i = 0; i < RULES; i++)
        if (strcmp(rules[i].name, name) == 0 && rule_is_choice(i) &&
            rules[i].uses_learning_rate) {
            *out = i;
            return ERR_OK;
        }
    return fault_set(f, ERR_INVAL,
                     "update_rule: expected one of sgd, nesterov, adagrad, "
                     "rmsprop, adadelta, adam, rpcs, found \"%.40s\"",
                     name);
}

const char *rule_names(void)
{
    return "add, sgd, nesterov, adagrad, rmsprop, adadelta, adam, "
           "adarevision, rpcs";
}

void rule_mix_sums(const struct rule_batch *b, const struct rule_mix *m,
                   float *out)
{
    assert(b->type == MLT_F32);
    rule_lanes_best()->mix_sums(b, m, out);
}

/* ---- sums ---------------------------------------------------------------- */

#define ACCUMULATE(name, T)                                                    \
    KERNEL_PART void name(uint32_t width, void *dst, const void *src)          \
    {                                                                          \
        T *restrict y = dst;                                                   \
        const T *restrict x = src;                                             \
                                                                               \
        for (uint32_t j = 0; j < width; j++)                                   \
            y[j] += x[j];                                                      \
    }

ACCUMULATE(accumulate_f32, float)
ACCUMULATE(accumulate_f64, double)
ACCUMULATE(accumulate_i32, uint32_t)

KERNEL void rule_accumulate(enum mlt_type type, uint32_t width, void *dst,
                            const void *src)
{
    if (type == MLT_F32)
        accumulate_f32(width, dst, src);
    else if (type == MLT_F64)
        accumulate_f64(width, dst, src);
    else
        accumulate_i32(width, dst, src);
}

uint32_t rule_type_bytes(enum mlt_type type)
{
    assert((unsigned)type <= MLT_F64);
    return type == MLT_F64 ? 8 : 4;
}
