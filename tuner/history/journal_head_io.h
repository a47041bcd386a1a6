/* The second copy of a journal's head: STATE/mltune.head.
 *
 * Where the tables of a database are stands on its first page alone; without
 * that page nothing of it can be read. So the file beside it has what is there:
 * the version and the rows of the schema, with a checksum. It is written by
 * whoever writes to the journal first, and never changes after that, but with
 * the schema. What else is on the page (how many pages there are, which are
 * free) follows from the file, or is not needed.
 *
 * Errors of all: those of the journal.
 */
#ifndef TUNER_JOURNAL_HEAD_IO_H
#define TUNER_JOURNAL_HEAD_IO_H

#include "base/fault.h"

#include <stdbool.h>

#define JOURNAL_HEAD "mltune.head"

struct journal;

/* Whether the open journal @j has the head of its copy. Where the two differ
 * the whole of it is looked at; it may be right, and the copy old. ERR_FORMAT:
 * the head is damaged. Where there is no copy, or a damaged one, only what
 * SQLite says counts. Cost: as a rule that of one small file. */
enum err journal_head_check(struct journal *j, struct fault *f);

/* Whether the tables are those of a journal, and SQLite finds nothing wrong
 * with the whole file. Cost: the file is read. */
bool journal_head_sound(struct journal *j);

/* Writes the copy where there is none or another one; @j, for writing, has
 * passed the check. What cannot be written now is written by the next. */
void journal_head_keep(struct journal *j);

/* The schema of the journal in the folder @state is made or changed next. */
void journal_head_drop(const char *state);

/* Whether the folder @state has a copy: its database had tables once. */
bool journal_head_kept(const char *state);

/* Gives the database STATE/mltune.db, which nobody has open, the head that its
 * copy has. Errors: ERR_NOENT there is no copy that is whole. */
enum err journal_head_restore(const char *state, struct fault *f);

#endif
