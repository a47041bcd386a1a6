/* One run from beginning to end: folder, journal, node, control loop, result.
 *
 * What `mltune run` does once its configuration is known to be good. It owns
 * the process: signals are blocked and read, the log goes to the run's folder,
 * stdout gets the result.
 */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "base/registry.h"
#include "tuner/tuner.h"

#include <jansson.h>
#include <stdbool.h>

/* All borrowed for the call. */
struct session_options {
    const char *state;    /* folder; made where it is missing */
    const char *out;      /* where the model goes; NULL: the run's folder */
    const char *listen;   /* address of the HTTP service; NULL: any free port */
    const json_t *config; /* in effect, whole */
    const char *folder;   /* absolute; where its relative paths start */
    /* Everything but run, folders and starting time. */
    const struct tuner_options *tuner;
    const struct registry *registry;
    const json_t *schema; /* of the configuration */
    bool json, quiet, verbose;
};

/* Runs it, prints the result, returns the exit code. */
int session_run(const struct session_options *options);

#endif
