/* Slices: stretches of clocks that branches run, and what they report.
 *
 * Part of the board (tuner/board/parts.h), as its other parts see it;
 * strategies see what board.h declares. Pure.
 */
#ifndef TUNER_SLICES_H
#define TUNER_SLICES_H

#include "tuner/board/board.h"

struct operation;

/* Errors: ERR_NOMEM. */
enum err slices_init(struct board *c);
void slices_deinit(struct board *c);

/* Scheduled and not answered. */
uint32_t slices_out(const struct board *c);

/* Cuts the slice that runs, if it was sent before operation @before, but not a
 * validation: that is short, and of no use in part. */
void slices_cut_training(struct board *c, op_id before);

/* Samples in the largest clock that was seen; 0: none ran. A restored run has
 * seen @samples. */
uint64_t slices_samples_seen(const struct board *c);
void slices_see_samples(struct board *c, uint64_t samples);

/* Memory for what slices_report, which comes next, records of @m. Errors:
 * ERR_NOMEM, nothing has changed. */
enum err slices_reserve(struct board *c, const struct msg_report *m);

/* Takes a report in. Errors: ERR_PROTO (@f says what did not fit). */
enum err slices_report(struct board *c, const struct msg_report *m,
                       struct fault *f);

/* Slice @op, which is out no more, has ended, or failed. */
void slices_ended(struct board *c, const struct operation *op,
                  const struct msg_done *m);
void slices_failed(struct board *c, const struct operation *op,
                   const struct msg_failed *m);

#endif
