/* The gate of a node: who may connect to where the other nodes reach it.
 *
 * Over TCP strangers can open connections, which are accepted and end once no
 * key is shown. Each costs the node a wake-up or two, and a place among its
 * open files for up to ten seconds. So the gate
 *
 * - is shut to everybody while all peers are in, which is nearly always;
 * - is open while one is missing: at the start, and when one's connection
 * broke;
 * - lets in the known addresses of peers alone while too many strangers are in.
 *
 * A peer is whoever has shown the key. Counts what is told; gate_io.c does what
 * follows. Pure.
 */
#ifndef PS_GATE_H
#define PS_GATE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    /* Beside the peers that are missing, at once: the gate goes to, and opens
     * again. */
    GATE_STRANGERS_MAX = 64,
    GATE_STRANGERS_AGAIN = 32,
    GATE_FILES_MAX = 1 << 16 /* who has a higher descriptor is not counted */
};

enum gate_state { GATE_OPEN, GATE_KNOWN, GATE_SHUT };

enum gate_role { GATE_NOBODY, GATE_STRANGER, GATE_PEER };

/* Zeroed, but for @expected: nobody has come. */
struct gate {
    uint32_t expected; /* peers that are to come, at least 1 */
    uint32_t peers, strangers;
    bool crowded;
    unsigned char role[GATE_FILES_MAX]; /* enum gate_role of a descriptor */
};

/* The connection with descriptor @fd was accepted; something has come on it
 * that only who has the key can send; it is gone. What is said of one that was
 * not accepted changes nothing. */
void gate_accepted(struct gate *d, int fd);
void gate_shown(struct gate *d, int fd);
void gate_gone(struct gate *d, int fd);

enum gate_state gate_wants(const struct gate *d);

#endif
