/* Series: what a branch's clocks reported, one after the other, and how two of
 * them compare. Pure.
 */
#ifndef CLI_CHECK_SERIES_H
#define CLI_CHECK_SERIES_H

#include "base/err.h"
#include "base/proto/window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct check_series {
    double *sum;       /* [len], of a window's loss or metric */
    uint64_t *samples; /* [len] */
    size_t len, room, samples_room;
};

/* A comparison's two sides: what it expected, and what came instead. */
struct mismatch {
    const char *expected; /* static */
    char came[256];
};

/* Releases what it holds; it is empty then. */
void series_deinit(struct check_series *s);

/* One window more, at the end. Errors: ERR_NOMEM. */
enum err series_add(struct check_series *s, const struct progress_window *w);

/* Each is true where it is so; else @out says what is not. */

/* As many windows, the same sums and samples, to the last bit. */
bool series_same(const struct check_series *a, const struct check_series *b,
                 struct mismatch *out);

/* First windows are equal, and a later one differs: of a probe and a branch
 * that learns. */
bool series_part(const struct check_series *a, const struct check_series *b,
                 struct mismatch *out);

/* Two windows of @a add up to one of @b, within 1e-4 of it. */
bool series_halve(const struct check_series *a, const struct check_series *b,
                  struct mismatch *out);

/* The sums of both add up to about the same, within a factor of 1.5; true as
 * well where a sum is not above 0, since nothing follows from it then. */
bool series_alike(const struct check_series *a, const struct check_series *b,
                  struct mismatch *out);

/* Whether they add up to the same within 1e-6: the loss of a sample is no
 * matter of chance. */
bool series_steady(const struct check_series *a, const struct check_series *b);

#endif
