/* Warm starts: what earlier runs in the state folder found, for a new one.
 *
 * Where `tuner.warm_start` is "auto" and the run has not begun, it becomes what
 * was found (tuner/board/earlier.h), in the configuration in effect: a run that
 * is resumed, or repeated by its own configuration, begins from the same.
 *
 * Of use is the newest run, of those that are not under way, whose
 * configuration says the same of application, data, metric and update rule, and
 * which ended trials of a first search of mltuner over tunables of the same
 * names. Whether their data had as many samples is looked at once ours are
 * loaded. What cannot be read, or is of no use, is skipped and named, but for
 * runs that have not begun, and those whose configuration says that they had no
 * first search of mltuner.
 */
#ifndef CLI_WARM_H
#define CLI_WARM_H

#include "cli/config/config.h"

/* @state  folder; where there is none yet, there are no earlier runs
 * @resume id of the run that is to begin, where it is registered; else NULL
 * *@changed: the configuration is another one by now.
 *
 * Errors: ERR_NOMEM, where a cold start instead would be silent. What else goes
 * wrong is told, and nothing is found. Cost: the configurations of up to 1,000
 * runs, and the records of those alike, newest first, until one is of use: of
 * 32 at most. */
enum err warm_begin(const char *state, const char *resume,
                    const struct run_config *c, bool *changed, struct fault *f);

#endif
