/* One run from beginning to end: folder, journal, node, control loop, result.
 *
 * What `mltune run` does once its configuration is known to be good. It owns
 * the process: signals are blocked and read, the log goes to the run's folder,
 * stdout gets the result.
 */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "base/file_io.h"
#include "base/json/registry.h"
#include "tuner/board/step.h"
#include "tuner/history/checkpoint_io.h"
#include "tuner/shell/launcher_io.h"

#include <jansson.h>
#include <stdbool.h>

/* All borrowed for the call. */
struct session_options {
    const char *resume;  /* id of the run that goes on; NULL: a new one */
    bool reconfigured;   /* with another configuration than it had */
    bool from_beginning; /* where none of its snapshots can be used */
    bool other_data;     /* it goes on whatever the data are */
    const char *state;   /* folder; made where it is missing */
    const char *out;     /* where the model goes; NULL: the run's folder */
    const char *id_file; /* where a new run's id is written; NULL: nowhere */
    const char *listen;  /* address of the HTTP service; NULL: any free port */
    const char *tls_cert, *tls_key; /* its files; NULL: no TLS */
    const char *read;               /* api.read; NULL: user */
    const json_t *config;           /* in effect, whole */
    const json_t *given;            /* as it was given; NULL: not known */
    const char *folder; /* absolute; where its relative paths start */
    /* Everything but run, folders and starting time. */
    const struct tuner_options *tuner;
    const struct registry *registry;
    const struct launch_program *program; /* what trains; NULL: our own nodes */
    const json_t *schema;                 /* of the configuration */
    uint64_t journal_limit; /* bytes that the journal of the run may take */
    bool json, quiet, verbose;
};

/* Writes what session_recall reads into the run's folder @run_path: @start's
 * folder and out (absolute, or "") as session.json, and all of it as the run's
 * first checkpoint. Errors: ERR_IO, ERR_LIMIT, ERR_NOMEM. */
enum err session_remember(const char *run_path,
                          const struct checkpoint_start *start,
                          struct fault *f);

/* Reads what a resume needs beside the configuration, from the folder of run
 * @id: where the configuration's paths start, and `out` (empty: NULL). The
 * checkpoint's copy counts, which has a checksum; where session.json is another
 * one, the user is told. Errors: ERR_NOENT the run is older than this file, or
 * its folder is gone; ERR_FORMAT, ERR_IO, ERR_LIMIT. */
enum err session_recall(const char *state, const char *id,
                        char folder[FILE_PATH_MAX], char out[FILE_PATH_MAX],
                        struct fault *f);

/* Runs it, prints the result, returns the exit code. */
int session_run(const struct session_options *options);

#endif
