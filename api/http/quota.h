/* How often a client may ask for what costs the training something: a bucket
 * for each address, of those that have neither token nor cookie and are not the
 * user.
 *
 * Pure: times are given. One owner thread.
 */
#ifndef API_QUOTA_H
#define API_QUOTA_H

#include "base/clock_io.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    QUOTA_CLIENTS = 64, /* remembered; further ones share the oldest's place */
    QUOTA_BURST = 20,
    QUOTA_PER_S = 5,
    QUOTA_STREAMS = 64, /* of a client at a time */
    QUOTA_EXPORTS = 1
};

struct quota_client {
    uint32_t client;
    time_ns full_at; /* when its bucket is full again; 0: nobody */
};

/* Zeroed: nobody has asked. */
struct quota {
    struct quota_client client[QUOTA_CLIENTS];
};

/* Whether @client may ask once more at @now, which is counted then. */
bool quota_take(struct quota *q, uint32_t client, time_ns now);

#endif
