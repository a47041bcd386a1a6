/* What event files say of a run to TensorBoard's plug-in "hparams", the table
 * and the parallel coordinates of settings and what came of them.
 *
 * A run has an experiment: which tunables there are and what they may be, and
 * which scalars are measures. Each trial is a session: its setting, its
 * measures, how it ended. TensorBoard takes a session for one where it has a
 * folder of its own.
 */
#ifndef CLI_HPARAMS_H
#define CLI_HPARAMS_H

#include "cli/state/scalars.h"

/* The folder of a run's; TRIAL within it has a session. */
#define HPARAMS_FOLDER "hparams"
#define HPARAMS_TRIAL HPARAMS_FOLDER "/trial-%u"

/* Whether the first search, and what it may change, is known. */
bool hparams_known(const struct scalars *s);

/* The file of the experiment, which is known. Errors: ERR_NOMEM, as below. */
enum err hparams_experiment(const struct scalars *s, struct text *out);

/* The file of trial @i of the history's list, which has ended. */
enum err hparams_session(const struct scalars *s, struct text *out, size_t i);

#endif
