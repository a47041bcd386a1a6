/* mltune update rules of your own: how a sum of updates changes a row.
 *
 * A rule is a function that the server calls for rows whose updates have come
 * (a stored procedure, as Bösen has them). What it remembers lies behind the
 * row's values, so that a branch carries it. Lion (Chen et al. 2023), say:
 *
 *     static void apply(const struct mlt_rule_batch *b, void *arg)
 *     {
 *         for (size_t i = 0; i < b->rows; i++) {
 *             float *w = b->row[i], *m = w + b->width;
 *             const float *g = b->sum[i];
 *
 *             for (uint32_t j = 0; j < b->width; j++) {
 *                 float c = 0.9f * m[j] + 0.1f * g[j];
 *
 *                 w[j] -= b->learning_rate * (float)((c > 0) - (c < 0));
 *                 m[j] = 0.99f * m[j] + 0.01f * g[j];
 *             }
 *         }
 *     }
 *
 *     static const struct mlt_rule_ops lion = {
 *         .version = MLT_RULE_VERSION,
 *         .name = "lion",
 *         .summary = "steps of one size, by the sign of a moving average",
 *         .uses = MLT_RULE_LEARNING_RATE,
 *         .slots = 1,
 *         .apply = apply,
 *     };
 *
 *     mlt_ps_add_rule(ps, &lion, NULL, &err);          // before mlt_ps_table
 *     table.rule = "lion";
 *
 * A shared object with the symbol `mltune_rule` is a plug-in, and then the rule
 * of all tables of f32 that name none:
 *
 *     MLT_API const struct mlt_rule_ops mltune_rule = {...};
 *
 *     cc -shared -fPIC -o lion.so lion.c `pkg-config --cflags mltune`
 *     "ps": {"update_rule": {"plugin": "lion.so"}}
 *
 * Under bsp a row is given the sum of all workers' updates of a clock, once a
 * clock; under the other models what has come, whenever it comes. Tables are of
 * f32, and not on a device. Of several nodes each applies the rule to its own
 * rows: all must have the same rule.
 */
#ifndef MLTUNE_RULE_H
#define MLTUNE_RULE_H

#include <mltune/ps.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MLT_RULE_VERSION 1

enum { MLT_RULE_SLOTS_MAX = 8, MLT_RULE_TAIL_MAX = 1024, MLT_RULES_MAX = 16 };

/* Rows of one table and the update of each. A row may occur twice: rows are
 * worked on in order. */
struct mlt_rule_batch {
    size_t size; /* sizeof(struct mlt_rule_batch) */
    size_t rows;
    float *const *row;       /* [rows] of width values; behind them the slots,
                              * [slots][width], then the tail, [tail] */
    const float *const *sum; /* [rows] of width values: what workers added */
    uint32_t width;
    unsigned slots, tail;
    float learning_rate; /* >= 0: the setting of that name */
    float momentum;      /* 0 <= m < 1: the same */
};

enum { /* settings that the rule acts on: they can be tuned then */
       MLT_RULE_LEARNING_RATE = 1,
       MLT_RULE_MOMENTUM = 2
};

struct mlt_rule_ops {
    unsigned version;    /* MLT_RULE_VERSION */
    const char *name;    /* [a-z0-9_]{1,31}, no built-in rule's */
    const char *summary; /* one line */
    unsigned uses;       /* MLT_RULE_LEARNING_RATE | MLT_RULE_MOMENTUM */
    unsigned slots;      /* numbers that it remembers of each value, at most
                          * MLT_RULE_SLOTS_MAX; all 0 at first */
    unsigned tail;       /* the same of each row, at most MLT_RULE_TAIL_MAX */

    /* Applies sum[i] to row[i], i = 0 .. rows - 1. Called by any worker's
     * thread, several at a time for different rows: it must not wait, nor call
     * the server, nor depend on anything but the row, its sum and the rates; so
     * that any split of a batch gives the same bits. */
    void (*apply)(const struct mlt_rule_batch *batch, void *arg);
};

/* Adds a rule that tables can name; before mlt_ps_table. @ops and @arg are
 * borrowed for the server's life; @arg is handed to apply. Errors: another
 * version of this header, a part that is missing or out of range, a name that a
 * rule has already, MLT_RULES_MAX rules, out of memory: in words. Nothing
 * changed then. */
MLT_API int mlt_ps_add_rule(struct mlt_ps *ps, const struct mlt_rule_ops *ops,
                            void *arg, struct mlt_error *err);

/* The rule of tables of f32 that name none, in place of that of the server's
 * options; @name: built in, or added. Before mlt_ps_table. Errors: no rule of
 * that name. */
MLT_API int mlt_ps_default_rule(struct mlt_ps *ps, const char *name,
                                struct mlt_error *err);

#ifdef __cplusplus
}
#endif
#endif
