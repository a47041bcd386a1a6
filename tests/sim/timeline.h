/* Timeline: events in virtual time, a heap. */
#ifndef TESTS_SIM_TIMELINE_H
#define TESTS_SIM_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum event_kind { ARRIVES, PUMP, WAKE, ROOM_AGAIN, BREAKS, COMES_BACK };

struct event {
    double at;
    uint64_t order; /* of two at one time the one that was put first */
    enum event_kind kind;
    uint32_t from, to; /* WAKE: node, worker; ROOM_AGAIN: node */
    size_t bytes;
    unsigned char *frame; /* owned by whoever takes the event */
    bool bad;             /* to be refused */
    unsigned connection;  /* that it is on its way over */
};

struct timeline {
    struct event *heap; /* [events] */
    size_t events, room;
    uint64_t order;
};

/* Frees the frames that nobody took, too. */
void timeline_deinit(struct timeline *t);

/* Aborts without memory. */
void timeline_put(struct timeline *t, struct event e);

/* The next; there is one. */
struct event timeline_take(struct timeline *t);

#endif
