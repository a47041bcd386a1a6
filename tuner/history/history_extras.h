/* Further metrics of a branch: a value of each at each of its points.
 *
 * They stand beside the branch's points, are joined as these are, and cost
 * memory where there are some only. A value that is not finite, or not there,
 * is NAN; joined points have the mean of the values over their clocks. Pure.
 */
#ifndef TUNER_HISTORY_EXTRAS_H
#define TUNER_HISTORY_EXTRAS_H

#include "tuner/history/history.h"

/* Makes room for @capacity points of each metric of @values, whose names become
 * @h's where it has room. Errors: ERR_NOMEM; the branch is as it was. */
enum err history_extras_grow(struct history *h, struct history_branch *b,
                             const json_t *values, size_t capacity);

/* Point @index, just added, has the values of window @window of @values. */
void history_extras_set(const struct history *h, struct history_branch *b,
                        size_t index, const json_t *values, size_t window);

/* Point @index of @b has the values @x[@metrics]; it is to have @capacity
 * points. Errors: ERR_NOMEM. */
enum err history_extras_put(struct history_branch *b, size_t index,
                            const double x[], uint32_t metrics,
                            size_t capacity);

/* Point @index, of @clocks clocks, takes in the values of a window of @more. */
void history_extras_take(const struct history *h, struct history_branch *b,
                         size_t index, uint64_t clocks, const json_t *values,
                         size_t window, uint64_t more);

/* Point @to becomes point @from; takes in point @from. Clocks of both. */
void history_extras_move(struct history_branch *b, size_t to, size_t from);
void history_extras_join(struct history_branch *b, size_t to, uint64_t clocks,
                         size_t from, uint64_t more);

/* Keeps room for the branch's points only. */
void history_extras_shrink(struct history_branch *b);

void history_extras_free(struct history_branch *b);

/* The values of an epoch that is over for @branch: means of what its latest
 * testing branch reported; NAN each where there are none. */
void history_extras_epoch(const struct history *h, branch_id branch,
                          double out[EXTRAS_MAX]);

#endif
