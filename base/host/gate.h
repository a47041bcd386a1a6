/* The gate of a port at which the nodes of a run reach one another: who may
 * connect to it.
 *
 * Over TCP strangers can open connections, which are accepted and end once no
 * key is shown. Each costs a wake-up or two, and a place among the open files
 * for up to ten seconds. So the gate
 *
 * - is shut to everybody while all peers are in, which is nearly always;
 * - is open while one is missing: at the start, and when one's connection
 *   broke;
 * - holds so many strangers at once. When one more comes, who came first is cut
 *   if it had its time, else the new one: a peer shows its key within
 *   milliseconds, and comes again soon where it had no luck. Nobody is cut who
 *   has shown the key: what it has sent since would be lost;
 * - lets in the known addresses of peers alone while strangers crowd.
 *
 * A peer is whoever has shown the key. Counts what is told; gate_io.c does what
 * follows. Times are nanoseconds of one clock. Pure.
 */
#ifndef BASE_HOST_GATE_H
#define BASE_HOST_GATE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    /* Beside the peers that are missing, at once: strangers crowd, and do no
     * more. */
    GATE_STRANGERS_MAX = 64,
    GATE_STRANGERS_AGAIN = 32,
    GATE_TENURE_MS = 100, /* a stranger's time */
    GATE_PEERS_MAX = 1024,
    GATE_FILES_MAX = 1 << 16 /* who has a higher descriptor is not counted */
};

enum gate_state { GATE_OPEN, GATE_KNOWN, GATE_SHUT };

/* Early: has shown the key, and is about to be told of as accepted. */
enum gate_role { GATE_NOBODY, GATE_STRANGER, GATE_EARLY, GATE_PEER };

/* Zeroed, but for @expected: nobody has come. */
struct gate {
    uint32_t expected; /* peers that are to come, 1 to GATE_PEERS_MAX */
    uint32_t peers, strangers;
    bool crowded;
    /* [strangers] as they came; one more until it is cut. */
    struct gate_stranger {
        int fd;
        int64_t came_ns;
    } stranger[GATE_PEERS_MAX + GATE_STRANGERS_MAX + 1];
    unsigned char role[GATE_FILES_MAX]; /* enum gate_role of a descriptor */
};

/* The connection with descriptor @fd was accepted; something has come on it
 * that only who has the key can send (@lives: the connection is there still);
 * it is gone. The second may be told before the first; else what is said of one
 * that was not accepted changes nothing. */
void gate_accepted(struct gate *d, int fd, int64_t now_ns);
void gate_shown(struct gate *d, int fd, bool lives);
void gate_gone(struct gate *d, int fd);

/* The stranger that is to be cut now, after an acceptance: once more until it
 * is told of as gone, or as one that has shown the key. -1: nobody. */
int gate_cut(const struct gate *d, int64_t now_ns);

enum gate_state gate_wants(const struct gate *d);

#endif
