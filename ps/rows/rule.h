/* Update rules: how a sum of updates changes a row.
 *
 * A rule is a plug-in: pure, without state of its own. What it remembers per
 * value (a velocity, a sum of squares) lives in slots behind the row's values,
 *
 *     row:  value[width]  slot 0 [width]  slot 1 [width] ...  tail
 *
 * (the tail: what it remembers per row) so that a fork carries it. Slots hold
 * no learning rate and therefore survive a re-tune. All zero bytes is the
 * initial state of slots and tail.
 */
#ifndef PS_RULE_H
#define PS_RULE_H

#include "base/fault.h"
#include "mltune/ps.h"
#include "mltune/rule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rates that a rule is applied with; f32 because the kernels compute in f32. */
struct rule_params {
    float learning_rate; /* >= 0 */
    float momentum;      /* 0 <= m < 1 */
    float weight_decay;  /* >= 0 */
    uint32_t rule;       /* of tables with rule "any": rule_choice */

    /* Warm-up: the rate rises over so many clocks, of which as many were run
     * before the first that is meant (rule_params_at). No rule looks here. */
    uint64_t warmup, warmed; /* 0: it does not; below 2^53 */
};

/* What acts in clock @clock, from 0, of those that @p is for: with warm-up the
 * learning rate times (warmed + clock + 1) / warmup, until that is 1 (Goyal et
 * al. 2017, section 2.2; they begin at the rate of one worker). */
static inline struct rule_params rule_params_at(const struct rule_params *p,
                                                uint64_t clock)
{
    struct rule_params at = *p;
    uint64_t n = p->warmed + clock + 1;

    if (n < p->warmup)
        at.learning_rate *= (float)((double)n / (double)p->warmup);
    return at;
}

/* Rows of one table and the update of each. A row may occur twice: rows are
 * worked on in order. No row overlaps a sum. */
struct rule_batch {
    size_t n;
    void *const *row;       /* [n] values, then slots */
    const void *const *sum; /* [n] of width values each */
    uint32_t width;
    enum mlt_type type;
    unsigned slots; /* as the rule's slots() gave for this table */
    struct rule_params params;
    /* For rules that revise, else NULL: seen[i][width], the row's gradient sum
     * as it was when what gradient i was computed on was read. NULL, of one or
     * of all: no gradient has come since. */
    const void *const *seen;
};

/* Gradients of a batch as sums of the row and another vector (mlt_mix): that of
 * row i is own * row + scale[i] * with[i], multiplied and added in one rounding
 * where the processor can. */
struct rule_mix {
    float own;
    const float *scale;       /* [n] */
    const float *const *with; /* [n] of width values */
};

/* Mixes of both rows of pairs, each with the other as it was: row i of the
 * batch and other[i], a row of the same width and rule. */
struct rule_cross {
    float own;
    const float *scale; /* [n] */
    void *const *other; /* [n]; no row occurs twice, on either side */
};

struct rule_ops {
    const char *name;
    const char *summary; /* one line for help */
    unsigned types;      /* bit 1 << enum mlt_type for each type it knows */
    bool uses_learning_rate, uses_momentum; /* the tunables that can act */

    /* Slots per value for a table with these flags (MLT_NO_MOMENTUM). */
    unsigned (*slots)(unsigned flags);
    unsigned tail; /* f32 numbers per row behind the slots */

    /* Each value changes by its own sum alone, and nothing is remembered: rows
     * side by side may be given as one row of all their values. */
    bool joins;

    /* Makes up for gradients that others applied between a gradient's read and
     * its update (rule_batch.seen). Its last slot is the sum of all gradients
     * (rule_gradient_sum). */
    bool revises;

    /* Applies @b->sum[i] to @b->row[i] once, i = 0 .. n - 1. Never fails or
     * blocks; a non-finite update makes non-finite values (divergence). The
     * result for a row depends on that row and sum alone, so any split of a
     * batch gives the same bits. */
    void (*apply)(const struct rule_batch *b);

    /* Or NULL: apply with the sums that @m gives, @b->sum unread; rows differ,
     * and have the slots of MLT_NO_MOMENTUM. The bits are those of
     * rule_mix_sums and apply. */
    void (*apply_mix)(const struct rule_batch *b, const struct rule_mix *m);

    /* Or NULL, as without apply_mix: the same on both rows of pairs. The bits
     * are those of apply_mix with copies of the rows. */
    void (*apply_cross)(const struct rule_batch *b, const struct rule_cross *m);

    /* A user's (mltune/rule.h), else NULL: then `slots` and `apply` are. Called
     * through rule_slots and rule_apply. */
    const struct mlt_rule_ops *user;
    void *arg;
};

/* ps/rows/user_rule.c: what a user's rule does. */
void rule_apply_user(const struct rule_ops *rule, const struct rule_batch *b);

/* A user's rule as one of ours. @file: what messages call its source. Errors:
 * ERR_VERSION, ERR_INVAL, in words in @f. */
enum err rule_user(const struct mlt_rule_ops *ops, void *arg, const char *file,
                   struct rule_ops *out, struct fault *f);

static inline void rule_step(const struct rule_ops *rule,
                             const struct rule_batch *b)
{
    if (__builtin_expect(rule->user != NULL, 0))
        rule_apply_user(rule, b);
    else
        rule->apply(b);
}

/* Whether a weight decay acts beside the steps of a rule: it has steps of the
 * learning rate's length. */
static inline bool rule_decays(const struct rule_ops *rule,
                               const struct rule_params *p)
{
    return p->weight_decay > 0 && rule->uses_learning_rate;
}

/* What is left of a value before each step: 1 - learning rate times decay. */
static inline float rule_keeps(const struct rule_params *p)
{
    return 1 - p->learning_rate * p->weight_decay;
}

/* rule_step with the decay of all but the last @undecayed values of each row,
 * row by row. */
void rule_step_decayed(const struct rule_ops *rule, const struct rule_batch *b,
                       uint32_t undecayed);

/* The rule, and decoupled weight decay beside it (Loshchilov and Hutter 2019,
 * algorithm 2, with their schedule in the learning rate): each row is, before
 * its step, w *= 1 - rate decay. Slots never see it. As `apply` in all else. */
static inline void rule_apply(const struct rule_ops *rule,
                              const struct rule_batch *b, uint32_t undecayed)
{
    if (__builtin_expect(rule_decays(rule, &b->params), 0))
        rule_step_decayed(rule, b, undecayed);
    else
        rule_step(rule, b);
}

static inline unsigned rule_slots(const struct rule_ops *rule, unsigned flags)
{
    return rule->user ? rule->user->slots : rule->slots(flags);
}

/* Writes the gradients that @m gives: @out[n * width]. */
void rule_mix_sums(const struct rule_batch *b, const struct rule_mix *m,
                   float *out);

enum { RULE_ROW_BATCH = 64 }; /* rows a caller hands over at a time */

/* adagrad, rmsprop and adam divide by the root of an average of squares and
 * this: a value that never had a gradient stays as it is, and the first step is
 * about the learning rate for any gradient well above 1e-8. */
#define RULE_EPSILON 1e-16f

/* Constants as the papers propose them. */
#define RULE_RMSPROP_DECAY 0.9f
#define RULE_ADADELTA_DECAY 0.95f
#define RULE_ADADELTA_EPSILON 1e-6f
#define RULE_ADAM_DECAY_1 0.9f
#define RULE_ADAM_DECAY_2 0.999f
/* A row's two mean squares of rpcs begin here, so that its first steps are at
 * most the learning rate times the gradient. */
#define RULE_RPCS_BEGIN 1.0f

/* The sum of all gradients of a row whose rule revises: [width]. */
static inline const float *rule_gradient_sum(const void *row, uint32_t width,
                                             unsigned slots)
{
    return (const float *)row + (size_t)slots * width;
}

/* The rule of that name, or NULL. */
const struct rule_ops *rule_find(const char *name);

/* "any" is a rule that is chosen anew by each run (rule_params.rule). A row
 * whose last step was another rule's begins with empty slots, and Adam's
 * corrections with them: a mark in its tail says whose they are. So a change of
 * the rule costs nothing, and a fork, a snapshot and the way to another node
 * carry what there is to know. It has the slots of the largest. */
#define RULE_ANY "any"

/* Number of a rule that can be chosen so: one that has a learning rate and
 * revises nothing. Errors: ERR_INVAL, in words. */
enum err rule_choice(const char *name, uint32_t *out, struct fault *f);

/* Whether a frame may say so: number 0 is "add". */
bool rule_is_choice(uint32_t number);

/* Rule number @i in order of listing, NULL after the last. */
const struct rule_ops *rule_at(size_t i);

/* "add, sgd, ...", for messages. */
const char *rule_names(void);

/* dst[i] += src[i], i < width; i32 wraps. */
void rule_accumulate(enum mlt_type type, uint32_t width, void *dst,
                     const void *src);

/* Bytes of one value: 4, 4, 8. */
uint32_t rule_type_bytes(enum mlt_type type);

#endif
