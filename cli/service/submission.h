/* Submissions: configurations that become runs of a service. */
#ifndef CLI_SUBMISSION_H
#define CLI_SUBMISSION_H

#include "cli/service/supervisor.h"

/* Answers COMMAND_SUBMIT @r: stores the run, or says all that is wrong. A key
 * that comes again with the same body gets the run of the first time. */
void submission_take(struct supervisor *s, const struct desk_request *r,
                     struct response *out);

/* Answers COMMAND_VALIDATE @r: what is wrong, or the configuration in full. */
void submission_check(struct supervisor *s, const struct desk_request *r,
                      struct response *out);

/* The group of a run whose user named none, from its @name: characters of ids
 * only, so that it is one that could have been named. */
void submission_name_group(const char *name, char out[QUEUE_GROUP_MAX]);

/* Answers that a change could not be written, for the reason in @f. */
void submission_not_stored(enum err err, const struct fault *f,
                           struct response *out);

#endif
