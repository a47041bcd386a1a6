/* The desk of rank 0: where pods of a job, which share no folder that can be
 * met in, say what ranks say in files (ranks_io.h), over TCP and to who has the
 * job's key.
 *
 * A pod asks and the desk answers, each in one message; nobody else begins.
 *
 *   ask  K NUMBER 0 HOST   pod K is free      -> work (and what to start), over
 *   run  K NUMBER 0 HOST   it has that node   -> stop
 *   end  K NUMBER CODE HOST  the node ended   -> ended
 *   left K NUMBER 0 HOST   pod K ends         -> ended
 *
 * An answer is that word and the number, a line; "work" has the text of the
 * answer's file behind it. What there is nothing to say to is answered "wait".
 * Who hears no answer asks again: each may come twice.
 */
#ifndef TUNER_RANK_DESK_IO_H
#define TUNER_RANK_DESK_IO_H

#include "tuner/shell/ranks_io.h"

struct rank_desk;

/* Listens at @address of this machine, "*:7700", for pods 1 to @size - 1 that
 * have @key (base/run_key_io.h), in a thread of its own, and keeps what they
 * say in the folder @place. Errors: ERR_IO, ERR_INVAL, ERR_UNSUPPORTED,
 * ERR_NOMEM, with the reason. */
enum err rank_desk_open(const char *address, const char *key, unsigned size,
                        const char *place, struct rank_desk **out,
                        struct fault *f);

/* NULL is accepted. */
void rank_desk_close(struct rank_desk *d);

#endif
