/* Parzen estimator over the axes of a space: a mixture with one component an
 * observation, each a product over the axes, and a broad prior component.
 *
 * On a continuous axis a component is a normal truncated to the unit interval;
 * on ints and listed numbers the mass that it has in the value's cell; on a
 * category (prior share + 1 for the observed one) normalised. Bandwidths are
 * the greater gap to the neighbours along the axis, clipped to [1 / min(100, 1
 * + components), 1] (Bergstra et al. 2011, section 4; the joint form as in
 * Watanabe 2023, arXiv 2304.11127).
 *
 * One owner thread; pure.
 */
#ifndef SEARCHERS_PARZEN_H
#define SEARCHERS_PARZEN_H

#include "base/err.h"
#include "base/rng.h"
#include "searchers/space/space.h"

struct parzen;

/* From @n points @u[n][axes] of the unit cube, oldest first; the newest
 * PARZEN_FULL_WEIGHT weigh 1, older ones fall on a line to 1 / n. n may be 0.
 * @space is borrowed for the estimator's life. Errors: ERR_NOMEM.
 * Cost O(n log n) an axis. */
enum { PARZEN_FULL_WEIGHT = 25 };
enum err parzen_new(const struct space *space, size_t n, const double *u,
                    struct parzen **out);
/* Accepts NULL. */
void parzen_free(struct parzen *p);

/* A point from the mixture, snapped to the cells of discrete axes. */
void parzen_draw(const struct parzen *p, struct rng *rng,
                 double u[TUNABLES_MAX]);

/* Log density (on discrete axes: mass) at @u[axes]. Cost O(n axes). */
double parzen_log_density(const struct parzen *p, const double u[]);

#endif
