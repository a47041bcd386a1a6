/* Meeting: how the nodes of a run find each other.
 *
 * A folder that all can reach, made for this run and no other. Each node
 * listens, writes where into the file `node-K` there, and waits until the files
 * of all others have appeared: in any order, started by whatever launcher. The
 * file also holds a random number; mixed over all nodes they are the number of
 * the run, which frames of other runs do not have.
 *
 * The socket is a ZeroMQ PULL: of the Unix kind in that folder, or over TCP.
 * Control thread only.
 */
#ifndef PS_MEET_IO_H
#define PS_MEET_IO_H

#include "base/fault.h"

#include <stdint.h>

enum { MEET_ENDPOINT_MAX = 256, MEET_FOLDER_MAX = 1024 };

struct meet {
    uint32_t node, nodes;
    char folder[MEET_FOLDER_MAX];
    char (*endpoint)[MEET_ENDPOINT_MAX]; /* [nodes] once met; owned */
    uint64_t run;
};

/* Binds @pull and says so in @folder (which exists).
 *
 * @listen  what to bind, as ZeroMQ writes it ("tcp://10.0.0.3:*"); NULL: a Unix
 *          socket in the folder, or where its path is too long for one, TCP on
 *          loopback
 *
 * Errors: ERR_INVAL (no such node, path too long), ERR_IO, ERR_NOMEM; in words.
 */
enum err meet_open(struct meet *m, void *pull, const char *folder,
                   const char *listen, uint32_t node, uint32_t nodes,
                   struct fault *f);

/* Waits for the others. Errors: ERR_NODE after @timeout_s, naming who is not
 * there; ERR_FORMAT a file that says nothing of the kind. */
enum err meet_wait(struct meet *m, double timeout_s, struct fault *f);

/* Takes this node's file away. Accepts a zeroed one. */
void meet_close(struct meet *m);

#endif
