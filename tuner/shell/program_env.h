/* Environment of a program of the user's own: how it finds the tuner, and its
 * fellows where there are several. Pure.
 */
#ifndef TUNER_PROGRAM_ENV_H
#define TUNER_PROGRAM_ENV_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { PROGRAM_ENV_MAX = 20 };

/* Facts of one process; all borrowed for the call. */
struct program_place {
    const char *endpoint, *run;
    uint32_t node, nodes;
    const char *meet;        /* where several meet; NULL: one */
    const char *key;         /* of this start; NULL: none */
    uint16_t port;           /* at which rank 0 of several may listen */
    uint32_t threads;        /* OMP_NUM_THREADS of several; 0: as it is */
    const char *python;      /* folder of the Python package, or NULL */
    const char *python_path; /* PYTHONPATH of ours, or NULL */
    bool unbuffered;         /* PYTHONUNBUFFERED is ours to set */
};

/* Entries for subprocess_options.also, owned: "NAME=value", and names without
 * value; NULL at the end. */
struct program_env {
    char *entry[PROGRAM_ENV_MAX + 1];
};

/* Errors: ERR_NOMEM. */
enum err program_env_init(struct program_env *e,
                          const struct program_place *place);

/* Accepts a zeroed one. */
void program_env_deinit(struct program_env *e);

#endif
