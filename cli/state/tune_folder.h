/* The tune folder: what `mltune.tune` wrote for a run, in the state folder.
 *
 * A run that a script or a notebook began loads its function from the folder
 * STATE/tune/NAME, which its configuration names by app.command. The folder
 * lives as long as the run, which may be resumed.
 */
#ifndef CLI_TUNE_FOLDER_H
#define CLI_TUNE_FOLDER_H

#include "base/fault.h"

/* Removes the folder of run @id of the state folder @state (absolute), unless
 * another run's configuration names it too, or one cannot be read. A run
 * without one is fine, and so is one whose own configuration cannot be read:
 * what it had stays. The run's own folder is there yet, and locked by the
 * caller. Errors: ERR_IO, ERR_NOMEM. */
enum err tune_folder_remove(const char *state, const char *id, struct fault *f);

#endif
