/* The reaper: no connection may take for ever, however busy it looks.
 *
 * The server library's time-out is for idle connections only: a client that
 * sends a byte every two seconds keeps its place for good, and some hundred of
 * them keep everybody out (slowloris). So every phase of a connection has an
 * absolute deadline, and a shorter one while few places are left.
 *
 * Who is not known (yet), a stranger or one whose first request has not come,
 * shares with others of its kind: seven eighths of the places, half of them
 * from one address. Where one more comes, the one goes that has been longest in
 * its phase. So whoever fills the places with answers that nobody takes keeps
 * out neither those who are known nor those who come after.
 *
 * Pure: times are given. One owner thread.
 */
#ifndef API_REAPER_H
#define API_REAPER_H

#include "base/clock_io.h"
#include "base/deadlines.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REAPER_CONNECTIONS_MAX = 704,
    REAPER_LOCAL_MAX = 128 /* by the Unix socket, beside those */
};

static const time_ns REAPER_LEFT = 1000000000;

enum reaper_phase {
    REAPER_FREE,    /* no connection */
    REAPER_HEAD,    /* a request has begun, or is awaited for the first time */
    REAPER_IDLE,    /* answered; may send another request */
    REAPER_BODY,    /* of a request with a token */
    REAPER_ANSWER,  /* the response is on its way */
    REAPER_STREAM,  /* the same, without an end; entered again as it is taken */
    REAPER_CLOSING, /* was cut; the library has not noticed yet */
    REAPER_PHASES
};

struct reaper_limits {
    time_ns phase[REAPER_PHASES]; /* all but FREE and CLOSING */
    /* For HEAD and IDLE while over three quarters are used, and for the ANSWER
     * to those who are not known. */
    time_ns crowded;
};
/* A head has a second where it is crowded: no honest client needs more. */
#define REAPER_LIMITS                                                          \
    {                                                                          \
        .phase = {[REAPER_HEAD] = DEADLINE_HTTP_HEAD_MS * 1000000ll,           \
                  [REAPER_IDLE] = DEADLINE_HTTP_IDLE_MS * 1000000ll,           \
                  [REAPER_BODY] = DEADLINE_HTTP_BODY_MS * 1000000ll,           \
                  [REAPER_ANSWER] = DEADLINE_HTTP_ANSWER_MS * 1000000ll,       \
                  [REAPER_STREAM] = DEADLINE_HTTP_ANSWER_MS * 1000000ll},      \
        .crowded = 1000000000                                                  \
    }

struct reaper_entry {
    enum reaper_phase phase;
    int fd;
    time_ns since; /* when the phase began */
    /* Of the server: whose connection it is. */
    enum reaper_owner { REAPER_UNASKED, REAPER_OWN, REAPER_FOREIGN } owner;
    bool known;      /* a request came on it of somebody who is no stranger */
    bool paid;       /* its handshake was counted when it came */
    bool local;      /* by the Unix socket, which lets nobody else in */
    uint32_t client; /* its address, as a number */
    bool counted;    /* a stream or an export of a stranger */
    bool exports;    /* it is an export */
    uint64_t token; /* named, of the last request: its number; 0: it had none */
};

struct reaper {
    struct reaper_limits limits;
    size_t places; /* that there are: 1 to REAPER_CONNECTIONS_MAX */
    size_t used;
    struct reaper_entry entry[REAPER_CONNECTIONS_MAX];
};

void reaper_init(struct reaper *r, const struct reaper_limits *limits,
                 size_t places);

/* Place for a new connection on @fd, or NULL when there is none. */
struct reaper_entry *reaper_add(struct reaper *r, int fd, time_ns now);
/* One of those not known who is to go for @e, which has just been added and has
 * its address (client), now in REAPER_CLOSING, to be shut down by the caller;
 * NULL: nobody further. O(places). */
struct reaper_entry *reaper_surplus(struct reaper *r,
                                    const struct reaper_entry *e);
/* Accepts NULL. */
void reaper_remove(struct reaper *r, struct reaper_entry *e);

/* @e is in @phase since @now; one that is being cut stays so. Accepts NULL. */
void reaper_enter(struct reaper_entry *e, enum reaper_phase phase, time_ns now);

/* A connection past its deadline at @now, now in REAPER_CLOSING, to be shut
 * down by the caller; NULL: no further. */
struct reaper_entry *reaper_next(struct reaper *r, time_ns now);

/* Nobody was served for @ns up to now: that counts for no deadline. */
void reaper_rested(struct reaper *r, time_ns ns);

/* Streams (or @exports) of strangers that @client has open. */
unsigned reaper_count(const struct reaper *r, uint32_t client, bool exports);

/* Whether a connection has a named token. */
bool reaper_has_tokens(const struct reaper *r);

/* A connection whose token @lives no more, now in REAPER_CLOSING, as
 * reaper_next gives them. */
struct reaper_entry *
reaper_revoked(struct reaper *r, bool (*lives)(const void *ctx, uint64_t token),
               const void *ctx);

/* A connection that has awaited words of its client for REAPER_LEFT at @now,
 * though the client has @left (sends no more), now in REAPER_CLOSING, as
 * reaper_next gives them. The library does not notice an end that comes
 * together with the last words. */
struct reaper_entry *reaper_left(struct reaper *r, time_ns now,
                                 bool (*left)(int fd));

/* The earliest deadline; INT64_MAX: none. */
time_ns reaper_deadline(const struct reaper *r);

#endif
