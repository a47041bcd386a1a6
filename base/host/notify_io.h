/* What a service manager is told of this process: that it is ready, that it
 * lives, that it ends.
 *
 * A datagram to the Unix socket that NOTIFY_SOCKET names (sd_notify(3)); where
 * nobody set it, nothing is done. Nothing here blocks or fails: whoever is not
 * told in time acts on that. One owner thread.
 */
#ifndef BASE_HOST_NOTIFY_IO_H
#define BASE_HOST_NOTIFY_IO_H

#include "base/clock_io.h"

#include <stdbool.h>

struct notify {
    int fd;        /* -1: nobody is to be told */
    time_ns every; /* between signs of life; 0: none are wanted */
    time_ns next;
};

/* Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment:
 * they are this process's alone. Before any thread is started. */
void notify_open(struct notify *n);

/* Accepts one that was zeroed, with fd -1. */
void notify_close(struct notify *n);

/* "READY=1", "STOPPING=1", "STATUS=..." */
void notify_say(const struct notify *n, const char *text);

/* A sign of life, where one is due: three in each interval of the watchdog. */
void notify_beat(struct notify *n, time_ns now);

#endif
