/* The state folder's journal, opened; where it is damaged so far that nothing
 * of it could be read, it is mended first.
 *
 * What is damaged is never written to. It keeps its bytes under another name,
 * mltune.db.damaged-1 and on, and a mended copy takes its place:
 *
 * - where only its head is damaged, or its first pages, with the head that the
 *   file beside it has (journal_head_io.h): nothing is lost;
 * - else of each run what the journal, where it can be read at all, and the
 *   run's checkpoint have (salvage.h).
 *
 * Whoever mends holds SQLite's own lock, which nobody gets who has the journal
 * open, and which keeps others from opening it. So a second process waits, and
 * finds it mended; and nothing is mended below a tuner or service that lives,
 * nor by one that has it open itself. A reader mends as a writer does.
 * A crash at any moment leaves the damaged journal in its place, or the mended
 * one.
 */
#ifndef CLI_MEND_H
#define CLI_MEND_H

#include "base/file_io.h"
#include "tuner/history/journal_io.h"

enum { MEND_DAMAGED_MAX = 9 /* set aside; then a person has to look */ };

/* As journal_open, of the folder @state (absolute). A mended journal is told on
 * stderr. Where one is damaged and cannot be mended the fault says why: another
 * user's, a folder that cannot be written, no room, another process that has it
 * open, no run of which anything is left. */
enum err mend_open(const char *state, bool writer, int busy_ms,
                   struct journal **out, struct fault *f);

#endif
