/* Checks of a program: starts it as `mltune run` does, carries messages between
 * it and the player (player.h), waits for both.
 */
#ifndef CLI_CHECK_IO_H
#define CLI_CHECK_IO_H

#include "base/fault.h"
#include "cli/check/player.h"
#include "tuner/shell/launcher_io.h"

enum { CHECK_NODES_MAX = 16 };

/* All borrowed. */
struct check_options {
    struct player_options player; /* but for work, which is made here */
    const struct launch_program *program;
    int signal_fd; /* readable: somebody wants an end; -1: none */
    void (*tell)(void *ctx, const struct check_result *r); /* as they come */
    void *ctx;
};

/* Makes all checks. On success the caller owns @out (player_free). Errors:
 * ERR_IO nothing could be started, ERR_NOENT no such check, ERR_CANCELED by a
 * signal, ERR_NOMEM. No process and no file is left. */
enum err check_run(const struct check_options *o, struct player **out,
                   struct fault *f);

#endif
