/* The summary of a run: what `mltune run` closes with and `mltune show` begins
 * with. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include "tuner/history/history.h"

#include <stdbool.h>
#include <stdio.h>

/* What was found, how long it took, the share of it spent on tuning, where the
 * model is. */
void show_summary(const struct history *h, FILE *out);

/* The same of @run as the HTTP interface describes it. */
void show_answer(const json_t *run, FILE *out);

/* `mltune show RUN --server URL`: what the server says of run @word. Returns
 * the exit code. */
int show_at_server(const char *server, const char *word, bool json);

#endif
