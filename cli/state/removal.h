/* A run is taken out of its state folder. */
#ifndef CLI_REMOVAL_H
#define CLI_REMOVAL_H

#include "base/fault.h"
#include "tuner/history/journal_io.h"

#include <stdint.h>

/* Removes run @id of the state folder @state (absolute): its folder and that
 * of a function that was handed over to it (tune_folder.h), then what the
 * journal has of it, durable on return. A model written elsewhere (--out)
 * stays. @newest (may be NULL) as of journal_remove_run. Errors: ERR_BUSY its
 * tuner lives, nothing changed; ERR_IO and those of the journal: a part of it
 * may be gone, and the call may be made again. */
enum err removal_of_run(const char *state, const char *id, int64_t *newest,
                        struct fault *f);

/* Removes the folders of runs that were killed before the journal @j of @state
 * knew them: where nothing was trained, no service looks after them, and
 * nothing lies but what a run begins with. Errors are ignored. */
void removal_of_unborn(const char *state, struct journal *j);

#endif
