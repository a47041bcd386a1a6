/* What is long over in a run, in few bytes: rows of packed values, each a
 * search, a trial or a chosen setting that nothing will change any more.
 *
 * A trial takes some 2 kB as a struct with its setting as a tree, and 200 bytes
 * as a row; a run that is re-tuned for days is made of little else. A row
 * reads back as it was, but for a trial's course, whose points keep six digits
 * (its last loss keeps all); a trial whose search is kept whole takes some 300
 * bytes, and loses nothing: a run may go back to that search. Pure; for the
 * files history*.c alone, which say what is cold (history_bounds.c) and read it
 * for others (history_read.c).
 */
#ifndef TUNER_HISTORY_COLD_H
#define TUNER_HISTORY_COLD_H

#include "base/json/fields_pack.h"
#include "tuner/history/history.h"

/* Each adds a row for @item, which stays the caller's. Errors: ERR_NOMEM,
 * nothing changed. */
enum err cold_add_search(struct history *h, const struct history_search *item);
enum err cold_add_trial(struct history *h, const struct history_trial *item);
enum err cold_add_choice(struct history *h, const struct history_choice *item);

/* Row @i < rows, without its JSON (NULL). */
struct history_search cold_search(const struct history *h, size_t i);
struct history_trial cold_trial(const struct history *h, size_t i);
struct history_choice cold_choice(const struct history *h, size_t i);

/* The JSON of row @i, new and the caller's: null where it has none. NULL: out
 * of memory. */
json_t *cold_search_tunables(const struct history *h, size_t i);
json_t *cold_trial_setting(const struct history *h, size_t i);
json_t *cold_choice_setting(const struct history *h, size_t i);

/* A setting by itself, in few bytes (*@few, [*@len], owned by the caller:
 * mem_free; NULL: none). Errors: ERR_NOMEM. */
enum err cold_setting(struct history *h, const json_t *setting,
                      unsigned char **few, size_t *len);
/* As cold_trial_setting. */
json_t *cold_setting_read(const struct history *h, const unsigned char *few);

/* What is asked for of all rows at once. */
branch_id cold_trial_branch(const struct history *h, size_t i);
branch_id cold_choice_branch(const struct history *h, size_t i);

/* A row by itself: its bytes, borrowed until the next change; a further one of
 * @bytes[@len], copied. Errors: ERR_NOMEM, nothing changed. */
struct packed_bytes cold_row(const struct cold_rows *rows, size_t i);
enum err cold_row_add(struct cold_rows *rows, const void *bytes, size_t len);

/* Takes all the memory that @most rows like those that are there, at least one,
 * will need, and touches it: what a run takes is known then. Without memory it
 * grows as rows come. Once it has room for so many nothing is done. */
void cold_take_room(struct cold_rows *rows, size_t most);

/* The oldest @n rows go. */
void cold_drop(struct cold_rows *rows, size_t n);

/* Row @i goes. */
void cold_remove(struct cold_rows *rows, size_t i);

/* Releases all of its rows; it is as zeroed. */
void cold_rows_deinit(struct cold_rows *rows);

/* Releases all of them. */
void cold_deinit(struct history *h);

#endif
