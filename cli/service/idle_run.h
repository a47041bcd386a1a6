/* Idle runs: what a service does itself with runs that wait, are held, or have
 * ended. */
#ifndef CLI_IDLE_RUN_H
#define CLI_IDLE_RUN_H

#include "cli/service/supervisor.h"

/* Answers the command @r, whose body was found good, to @run, which does not
 * live. */
void idle_run_command(struct supervisor *s, struct fleet_run *run,
                      const struct desk_request *r, struct response *out);

/* Forgets run @id with its folder; @run is NULL where the fleet does not list
 * it. The models that it has written elsewhere (--out) stay. */
void idle_run_delete(struct supervisor *s, struct fleet_run *run,
                     const char *id, struct response *out);

#endif
