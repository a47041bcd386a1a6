/* What `mltune doctor` has found so far. Inside cli/verbs/doctor*.c only. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "cli/basics/table.h"

#include <jansson.h>
#include <stdbool.h>

/* NOTE: good to have; BAD: nothing works without. */
enum verdict { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_BAD, DOCTOR_VERDICTS };

struct doctor {
    const char *state;  /* folder */
    const char *server; /* URL; NULL: MLTUNE_SERVER, else found in @state */
    struct table table;
    json_t *list; /* owned */
    bool bad;
};

/* One line; @advice: what to do, "" where nothing is to be done. */
void doctor_say(struct doctor *d, enum verdict v, const char *what,
                const char *advice, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* The server that is named, or that has the state folder: whether it answers,
 * is ready, and takes the token. Says nothing where there is none. */
void doctor_look_at_server(struct doctor *d);

#endif
