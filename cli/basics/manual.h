/* Manual: what a verb's table of options makes beside its help: a page of the
 * manual and an entry of the shell's completion.
 *
 * Pure; the texts are the caller's (mem_free), NULL when out of memory.
 */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include "cli/basics/options.h"

/* mltune-VERB(1) in mdoc(7). */
char *manual_page(const struct usage *u);

/* "VERB) ... ;;": of the case in the script of cli/verbs/completions.c. */
char *manual_completion(const struct usage *u);

#endif
