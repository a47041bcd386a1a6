/* Settings as users give them: some tunables, over a setting that has all.
 *
 * Inside tuner/ only; pure.
 */
#ifndef TUNER_USER_SETTING_H
#define TUNER_USER_SETTING_H

#include "base/json/problems.h"
#include "tuner/board/board.h"

/* @base with the tunables of @given over it (NULL: none), into @out and, as a
 * new object of the caller's, *@json. All that is wrong goes to @problems, at
 * pointers that start with @pointer: values outside of the ranges, names that
 * are no tunables, and values that would be overruled, because the tunable is
 * fixed or does not act with the others. Errors: ERR_INVAL (see @problems),
 * ERR_NOMEM. */
enum err user_setting_complete(const struct board *c,
                               const struct setting *base, const json_t *given,
                               const char *pointer, struct setting *out,
                               json_t **json, struct problems *problems);

/* Answers who gave it with what is wrong: ERR_INVAL and the first faults. */
void user_setting_refuse(struct board *c, const struct problems *problems);

#endif
