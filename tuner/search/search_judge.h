/* Judging trials: speed, label, lead over the incumbent, and their order.
 *
 * Part of tuner/search/search.h; inside tuner/ only.
 */
#ifndef TUNER_SEARCH_JUDGE_H
#define TUNER_SEARCH_JUDGE_H

#include "tuner/search/search.h"

/* The trial's losses by time, at the pace of its kind. */
void search_curve(struct search *s, struct trial *t, const struct branch *b,
                  struct curve *curve);

/* Drops what lies beyond @seconds, a twentieth of it forgiven. */
void search_curve_cut(struct curve *curve, double seconds);

/* @t's summary from what its branch has run. */
void search_judge(struct search *s, struct trial *t, const struct branch *b);

/* How much lower than the incumbent's its loss is, on the same samples. */
void search_compare(struct search *s, struct trial *t, const struct branch *b);

/* The incumbent's trial; NULL without one. */
struct trial *search_incumbent(struct search *s);

/* Whether @t's setting differs from those of others[n]. */
bool search_is_distinct(const struct search *s, const struct trial *t,
                        struct trial *const others[], size_t n);

bool search_any_converging(const struct search *s);

/* A trial that may win: converging; or, where none is, one that got anywhere.
 */
bool search_eligible(const struct trial *t, bool any_converging);

/* Samples a second. */
double search_rate_of(const struct trial *t);

/* Ahead of the incumbent on the same samples, beyond the standard error of the
 * difference. */
bool search_ahead(const struct search *s, const struct trial *t);

/* Whether some trial settles how long trials have to be. */
bool search_any_clear(const struct search *s);

/* The fastest distinct eligible trials into out[@max], best first. */
size_t search_fastest(struct search *s, struct trial *out[], size_t max);

#endif
