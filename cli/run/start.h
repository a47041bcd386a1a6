/* From a configuration to a run: what `mltune run` and `mltune resume` share.
 */
#ifndef CLI_START_H
#define CLI_START_H

#include "cli/config/config.h"

#include <stdbool.h>

/* Command line's part beside the configuration; all borrowed. */
struct start_options {
    const char *resume;  /* id of the run that goes on; NULL: a new one */
    bool reconfigured;   /* the run that goes on: its configuration is new */
    bool from_beginning; /* where none of its snapshots can be used */
    bool other_data;     /* the run that goes on: whatever the data are */
    const char *state;   /* folder */
    const char *out;     /* where the model goes; NULL: the run's folder */
    const char *id_file; /* where a new run's id is written; NULL: nowhere */
    /* Both as configured where none is given; with another address alone there
     * is no TLS. */
    const char *listen, *tls_cert, *tls_key;
    bool json;
};

/* Options of the HTTP service's certificate, into a struct with both members.
 */
#define START_TLS_OPTIONS(a)                                                   \
    {"tls-cert",                                                               \
     0,                                                                        \
     OPTION_TEXT,                                                              \
     "FILE",                                                                   \
     "its certificate (PEM): https, and any address (api.tls.cert)",           \
     &(a).tls_cert},                                                           \
    {                                                                          \
        "tls-key", 0, OPTION_TEXT, "FILE", "the certificate's key (PEM)",      \
            &(a).tls_key                                                       \
    }

/* Runs it, prints the result, returns the exit code. */
int start_run(const struct start_options *options, const struct run_config *c);

#endif
