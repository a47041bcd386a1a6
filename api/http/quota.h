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

/* What all strangers together may cost: their connections, the KiB that come on
 * these, and their requests. Beyond that the way in rests, so
 * that a flood takes a few hundredths of a core from the training, whatever its
 * speed. One owner thread; zeroed: nobody came. */
struct toll {
    time_ns paid_at; /* when all that was asked so far is worked off */
    time_ns until;   /* the way in rests; 0: it does not */
};

enum {
    TOLL_PER_S = 100, /* of 100 us each, and 250 where the machine is busy */
    TOLL_BURST = 500,
    TOLL_TLS = 10,           /* a handshake costs so many times as much */
    TOLL_REST_MS = 50,       /* at least: so that it is no busy loop */
    TOLL_REST_MS_MAX = 1000, /* at most: others wait as long */
    TOLL_DEBT_S = 10         /* worked off in several rests; more is forgiven */
};

/* One more, @times as dear. Much may come before the next rest can begin. */
void toll_take(struct toll *t, unsigned times, time_ns now);

/* Who paid @times as dear is no stranger: it is given back. A rest that has
 * begun goes on. */
void toll_give_back(struct toll *t, unsigned times);

/* How long the way in rests yet at @now; 0: it is open. */
time_ns toll_rest(struct toll *t, time_ns now);

#endif
