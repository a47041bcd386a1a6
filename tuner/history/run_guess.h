/* Which run may have been meant by a word that names none, or several.
 *
 * Whoever looks for a run goes through all that there are; each is added here,
 * and where none is found the guess says what to type instead. It keeps a few
 * names only, the newest of those that were added last.
 */
#ifndef TUNER_RUN_GUESS_H
#define TUNER_RUN_GUESS_H

#include "base/fault.h"

#include <stddef.h>

enum { RUN_GUESS_MAX = 256, RUN_GUESS_NAMED = 5, RUN_GUESS_NAME_MAX = 80 };

/* Zeroed but for the word. */
struct run_guess {
    const char *word; /* borrowed */
    char name[RUN_GUESS_MAX][RUN_GUESS_NAME_MAX];
    size_t names; /* that were added; those that last came are kept */
    char begun[RUN_GUESS_NAMED][RUN_GUESS_NAME_MAX]; /* ids that begin so */
    size_t begins;
};

/* A run with this @id and @name. */
void run_guess_add(struct run_guess *g, const char *id, const char *name);

/* The sentence: no run of that name @where ("in ./.mltune/mltune.db"), and
 * which is near (ERR_NOENT); or several ids begin so, and which (ERR_INVAL). */
enum err run_guess_fault(const struct run_guess *g, const char *where,
                         struct fault *f);

#endif
