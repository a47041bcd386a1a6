/* `mltune watch`: what the two ways of showing a run share.
 *
 * A watch follows a run (cli/watch/follow.h) and asks for its answers
 * (cli/watch/picture_source.h) when something has happened. On a terminal it
 * draws them; else the verb prints a line an event (cli/verbs/watch.c).
 */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "cli/watch/follow.h"
#include "cli/watch/picture_source.h"

struct watch {
    struct source source;
    char id[RUN_ID_MAX + 1];
    struct follow follow;
    struct picture_source docs;
    int signal_fd;
    int wait_s; /* a server that is away for longer is given up; 0: never */
    bool ascii;
    /* From the newest run_finished; "" before, and once it was resumed. */
    char status[RECORD_NAME_MAX], reason[RECORD_NAME_MAX];
    char message[RECORD_TEXT_MAX];
    time_ns ask_at;       /* when its answers may be asked for again */
    time_ns asked_at;     /* when they were last */
    time_ns away_since;   /* of its answers; 0: the server answers */
    bool fresh;           /* what is shown has come since the caller looked */
    struct fault trouble; /* why the server does not answer */
};

/* Goes on with both. @run_only, @spans: as picture_source_ask. Errors: those of
 * the journal, of a visit; ERR_NODE a server that is away for too long. */
enum err watch_step(struct watch *w, bool run_only, int spans, struct fault *f);

/* Notes what a record says of the run's end, or that it goes on. */
void watch_note(struct watch *w, const char *kind, const char *json);

/* Whether the run has ended and all of it was seen. */
bool watch_is_over(const struct watch *w);

/* Whether the server is away, and since when. */
bool watch_is_away(const struct watch *w, time_ns *since);

/* Waits for something to step for, or for @more[n]. Returns the number of the
 * signal that came, else 0. */
int watch_wait(struct watch *w, struct pollfd more[], nfds_t n, time_ns until);

/* On the terminal that stdout is, until the run ends or the user has enough
 * (*@left). Returns ERR_OK, *@number the signal that came, else 0. */
enum err watch_on_screen(struct watch *w, int *number, bool *left,
                         struct fault *f);

#endif
