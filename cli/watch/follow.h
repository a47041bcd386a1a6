/* Follows a run: its records as they come, at a server by its event stream, of
 * a state folder by its journal.
 *
 * A server that goes away is asked again until it answers; what it kept
 * meanwhile comes then. One that opens no stream is asked for the records, if
 * all of them are wanted, once a second. Nothing here waits: the caller polls,
 * and steps when something is ready and once in a while. One owner thread.
 */
#ifndef CLI_FOLLOW_H
#define CLI_FOLLOW_H

#include "cli/state/source.h"
#include "cli/watch/event_reader.h"

#include <poll.h>

enum {
    FOLLOW_LOOK_MS = 200,  /* how often a journal is looked at */
    FOLLOW_RETRY_MS = 1000 /* how often a server that does not answer */
};

/* Event @id: its kind and the record's JSON, one line; borrowed. Errors end the
 * following. */
typedef enum err follow_visit(void *ctx, uint64_t id, const char *kind,
                              const char *json);

struct follow {
    struct source *source; /* borrowed, with the run found */
    char id[RUN_ID_MAX + 1];
    follow_visit *visit;
    void *ctx;
    uint64_t last; /* event that was seen last */
    bool after;    /* go on after `last`; else with what comes next */
    bool changed;  /* something has happened since the caller set it to false */
    bool over;     /* nothing comes any more */
    bool away;     /* the server does not answer; why is in trouble */
    struct fault trouble;
    time_ns away_since, next; /* next: when to look or ask again */
    uint64_t missed;          /* events that the server did not keep */
    uint64_t visited;         /* events that it had */
    /* Where a server is followed: */
    bool all;     /* every record is wanted */
    bool ending;  /* set by the caller: the run is over, what is left is due */
    bool drained; /* ... and all of it has come */
    bool polls;   /* it opens no stream, why is in trouble, but is asked */
    bool open, asks; /* asks: what is open is no stream */
    struct client_exchange exchange;
    struct event_reader reader;
    /* Where a state folder is: */
    struct journal *journal;
    char state[FILE_PATH_MAX];
    bool looked;
    int64_t version;
};

/* Begins to follow run @id, which @source has found; with @all from its first
 * record that is kept. On error there is nothing to close. */
enum err follow_open(struct follow *w, struct source *source, const char *id,
                     bool all, follow_visit *visit, void *ctx, struct fault *f);
void follow_close(struct follow *w);

/* The descriptor to poll, if any (returns 0 or 1), and until when. */
nfds_t follow_poll(const struct follow *w, struct pollfd *out, time_ns *until);

/* Goes on as far as it can. Errors: those of the journal and of @visit;
 * ERR_INVAL the server refuses its records. That it is away, or that something
 * else answers for it, is none. */
enum err follow_step(struct follow *w, struct fault *f);

#endif
