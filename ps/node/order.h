/* The order in which a branch meets the training samples.
 *
 * An epoch is one seeded permutation of all samples (or of the application's
 * parts), the same in every branch of a run. Where a branch stands in it is its
 * cursor: three whole numbers that lie in a table and are forked with it. The
 * cursor counts samples, not clocks, so that siblings with different batch
 * sizes train on the same samples: trials are paired. Pure functions.
 */
#ifndef PS_ORDER_H
#define PS_ORDER_H

#include "base/fault.h"
#include "mltune/app.h"

#include <stdbool.h>
#include <stdint.h>

enum { ORDER_WHOLE_MAX_BITS = 53 }; /* of numbers held in a double */

/* An order, fixed when the application is loaded. */
struct order {
    enum mlt_order kind;
    uint64_t samples;            /* training samples an epoch, >= 1 */
    uint64_t validation_samples; /* of a testing clock */
    uint64_t parts;              /* clocks an epoch; 0: clocks are batches */
    uint64_t seed;
    unsigned workers;
};

/* A row of three f64 in the local table `_cursor`; all zero is the beginning.
 * Whole numbers below 2^53. */
struct cursor {
    double epoch;
    double position; /* in the epoch: samples, or parts where there are some */
    double clock;    /* clocks that the branch has run */
};

/* One clock of all workers. */
struct order_clock {
    uint64_t epoch, clock; /* before this one */
    uint64_t first, count; /* positions in the epoch's order; testing:
                            * validation samples */
    uint64_t part;         /* MLT_ORDER_PARTS */
};

/* Takes what the application told, checked. Errors: ERR_APP with what is wrong
 * (no samples, no parts where the order is one of parts, more parts than
 * samples, too many samples). */
enum err order_init(struct order *o, const struct mlt_app_info *info,
                    unsigned workers, uint64_t seed, struct fault *f);

/* A clock takes the next @batch samples of the epoch times the workers, or what
 * is left of it; with parts, the next part, whatever @batch. */
void order_clock_at(const struct order *o, const struct cursor *at,
                    uint64_t batch, struct order_clock *out);

/* The clock of a testing branch: the whole validation set. */
void order_testing(const struct order *o, const struct cursor *at,
                   struct order_clock *out);

/* Moves the cursor behind @clock, which order_clock_at gave for it. */
void order_advance(const struct order *o, const struct order_clock *clock,
                   struct cursor *at);

/* The contiguous share of worker @index: shares differ by one at most, the
 * first ones are the larger. */
void order_share(const struct order *o, const struct order_clock *clock,
                 unsigned index, uint64_t *first, uint64_t *count);

/* Samples at positions first .. first + count - 1 of @epoch's order, into
 * @out[count]. MLT_ORDER_SAMPLES only. */
void order_samples(const struct order *o, uint64_t epoch, uint64_t first,
                   uint64_t count, uint64_t out[]);

/* The largest count that order_share gives for any clock of batches of @batch:
 * the room that order_samples needs. */
uint64_t order_share_max(const struct order *o, uint64_t batch);

/* Clocks that @epochs of batches of @batch take, rounded up; @epochs >= 0. */
uint64_t order_clocks(const struct order *o, double epochs, uint64_t batch);

/* Seed of one worker's clock number @clock of a branch. */
uint64_t order_clock_seed(const struct order *o, uint64_t clock,
                          unsigned index);

#endif
