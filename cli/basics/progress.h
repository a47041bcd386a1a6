/* Progress: what a person sees of a run on stderr while it goes on.
 *
 * On a terminal one live line, as wide as that: trial or branch, loss, best so
 * far, clock, time, setting. Where stderr is no terminal the same as a line of
 * its own every few seconds. With -v, a line for each epoch, trial and decision
 * besides. Log lines and the live line keep out
 * of each other's way. One thread draws; log lines may come from any.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "base/log.h"
#include "tuner/history/history.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    PROGRESS_LINE_MAX = 512,
    PROGRESS_TICK_MS = 100,  /* between two drawings of the live line */
    PROGRESS_LOOK_MS = 1000, /* how often it is asked for, without a terminal */
    PROGRESS_PLAIN_S = 5     /* between two lines then */
};

struct progress {
    bool live;            /* stderr is a terminal, and the user wants to see */
    bool plain;           /* it is none, and the user wants to see */
    bool verbose;         /* a line an event */
    enum log_level level; /* of the log lines that the user sees */
    int log_fd;           /* the run's log; -1: none; borrowed */
    double drawn_at_s;
    pthread_mutex_t lock;         /* guards line and the order on stderr */
    char line[PROGRESS_LINE_MAX]; /* on the screen now; "": none */
};

/* Takes over the log: events of level info and above go to @log_fd, those that
 * the user wants to see to stderr as well. */
void progress_start(struct progress *p, bool quiet, bool verbose, int log_fd);

/* The log goes to stderr again; the live line is gone. */
void progress_stop(struct progress *p);

/* Redraws the live line unless that was less than a tick ago; or writes a line,
 * unless that was less than PROGRESS_PLAIN_S ago. */
void progress_draw(struct progress *p, const struct history *h, double now_s);

/* A line of its own for @record, where verbose and worth it. @h has it. */
void progress_record(struct progress *p, const struct history *h,
                     const struct record *record);

/* "mltune: @text" on a line of its own, also when quiet. */
void progress_note(struct progress *p, const char *text);

/* ---- pure parts ---------------------------------------------------------- */

/* The live line. @now_s: seconds since the run began. */
void progress_line(const struct history *h, double now_s, char *out,
                   size_t size);

/* Length of the part of @line that has at most @columns characters, and no part
 * of a word; of a first word that is longer, so much of it. */
size_t progress_fit(const char *line, size_t columns);

/* The line for @record into @out[@size]; false where it has none. */
bool progress_event(const struct history *h, const struct record *record,
                    char *out, size_t size);

/* "learning_rate=0.0123 batch_size=64"; "-" for an empty setting. */
void progress_setting(const json_t *setting, char *out, size_t size);

/* "48 ms", "3.2 s", "1m 05s", "2h 03m". */
void progress_duration(double seconds, char *out, size_t size);

#endif
