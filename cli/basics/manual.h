/* Manual: what a verb's table of options makes beside its help: a page of the
 * manual.
 *
 * Pure; the text is the caller's (mem_free), NULL when out of memory.
 */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include "base/text.h"
#include "cli/basics/options.h"

/* Adds text that roff prints as it is: no request, no escape. */
void manual_plain(struct text *t, const char *s);

/* Adds an argument of a macro: quoted, so that nothing in it is a macro. */
void manual_quoted(struct text *t, const char *s);

/* mltune-VERB(1) in mdoc(7). */
char *manual_page(const struct usage *u);

#endif
