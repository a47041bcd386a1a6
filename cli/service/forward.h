/* Forwarding: commands to runs that live go to the run's own server, whose
 * answer becomes the service's. */
#ifndef CLI_FORWARD_H
#define CLI_FORWARD_H

#include "cli/service/supervisor.h"

/* Sends @r on to @run as it came: the run's own server reads it by the same
 * table of routes. False: @out refuses it. */
bool forward_begin(struct supervisor *s, const struct fleet_run *run,
                   const struct desk_request *r, desk_ticket ticket,
                   struct response *out);

/* Answers those whose run has answered. */
void forward_collect(struct supervisor *s);

/* Gives up what is not answered yet. */
void forward_forget(struct supervisor *s);

#endif
