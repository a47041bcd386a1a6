/* The beginning of a run, rehearsed: its data are opened and its model is sized
 * as a node would, nothing is trained and nothing written.
 *
 * Of data of more than REHEARSAL_BYTES only the heads are read: that they are
 * there, and of a kind that something here loads.
 */
#ifndef CLI_REHEARSAL_H
#define CLI_REHEARSAL_H

#include "cli/config/config.h"

#include <stdbool.h>

/* Some seconds' worth of reading, whatever the form. */
enum { REHEARSAL_BYTES = 128 << 20 };

/* Says on stderr what a run of @c would fail of, or (@aloud) on stdout what was
 * seen. Returns the exit code that the run would end with; EXIT_DONE: it would
 * begin. A program of the user's own reads its data itself: nothing is looked
 * at. Gives up what reading strangers' files does not need
 * (base/host/confine_io.h), unless a plug-in runs here: its code is loaded and
 * called, unconfined. */
int rehearse(const struct run_config *c, bool aloud);

#endif
