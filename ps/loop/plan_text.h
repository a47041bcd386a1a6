/* A loop's plan in words and as a picture, for people.
 *
 * Pure.
 */
#ifndef PS_LOOP_PLAN_TEXT_H
#define PS_LOOP_PLAN_TEXT_H

#include "base/text.h"
#include "ps/loop/parts.h"
#include "ps/loop/schedule.h"

/* @workers: those there are, of which the plan may use fewer. */
void plan_text(struct text *t, const char *name, const struct loop_nest *n,
               const struct depends *ds, const struct loop_plan *plan,
               const struct loop_parts *parts, unsigned workers);

#endif
