/* Renderer of runs: what the verbs that look print of the HTTP interface's
 * JSON.
 *
 * The JSON comes from a server or from the state folder (cli/state/source.h);
 * nothing here knows from which, so both give the same bytes. A member that is
 * not there, or null, is "-" in a table.
 */
#ifndef CLI_RENDER_H
#define CLI_RENDER_H

#include "cli/state/source.h"

#include <jansson.h>
#include <stdio.h>

/* Answers of a source about one run. Owned; those that were not asked for, or
 * have not come, are NULL. */
struct run_answers {
    json_t *run, *schedule, *nodes;                        /* for a summary */
    json_t *config, *result, *trials, *epochs, *decisions; /* for the whole */
};

/* Asks @s for what render_summary shows of run @id. Errors: as source_get's;
 * then
 * @out is empty. */
enum err run_answers_get_few(struct source *s, const char *id,
                             struct run_answers *out, struct fault *f);

/* Asks for all. Errors: the same. */
enum err run_answers_get(struct source *s, const char *id,
                         struct run_answers *out, struct fault *f);

void run_answers_deinit(struct run_answers *a);

/* ---- one run, as text ---------------------------------------------------- */

/* Head: which run it is, how it stands, how to go on with it, its job. */
void render_head(const json_t *run, FILE *out);

/* Best epoch, settings, time and the share of it spent on tuning, model.
 * Without a schedule the setting in use is shown. */
void render_summary(const struct run_answers *a, FILE *out);

/* Where a run is shown: its lines fit so many columns (0: any), and all of it
 * so many rows; 0: everything is shown, trials, epochs and decisions. */
struct render_screen {
    unsigned columns, rows;
};

/* Head, summary, and as many of the latest decisions as there is room for; or
 * everything. */
void render_run(const struct run_answers *a, const struct render_screen *screen,
                FILE *out);

/* ---- one run, as JSON ---------------------------------------------------- */

/* New object of @run: its members, why it ended ("" when it has not), whether
 * it lives, whether it can be resumed. NULL: out of memory. */
json_t *render_members(const json_t *run);

/* New object of all answers: render_members, over it the members of
 * `mltune run --json`, and config, trial_list, epoch_list, decision_list,
 * node_list. NULL: out of memory. */
json_t *render_answers(const struct run_answers *a);

/* ---- lists, as text ------------------------------------------------------ */

enum render_list { RENDER_RUNS, RENDER_TRIALS, RENDER_BRANCHES, RENDER_EPOCHS };

/* The row of @run in a table of runs, for later: its cells, separated by tabs.
 * Owned by the caller (mem_free); NULL: out of memory. */
char *render_cells(const json_t *run);

/* Prints the runs of the state folder that is @s as RENDER_RUNS; *@rows: how
 * many there are. Errors: as source_each_row's. */
enum err render_runs(struct source *s, FILE *out, size_t *rows,
                     struct fault *f);

/* @items, an array of the interface's, as a table, each line after @indent.
 * @metric names the epochs' column; NULL or "": METRIC. */
void render_table(enum render_list list, const json_t *items,
                  const char *metric, const char *indent, FILE *out);

#endif
