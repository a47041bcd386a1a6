/* The queue of a service: which run begins next.
 *
 * Pure. Runs belong to groups, and groups take turns: next is the group with
 * the fewest runs under way, of those the one whose turn was longest ago, of
 * those the one that has waited longest; within a group the oldest run. So
 * nobody who submits a hundred runs keeps out who submits one. Who is next and
 * does not fit (slots, workers, memory) is waited for: nothing smaller passes
 * by, so nothing large waits for ever. A run that is alone always fits.
 */
#ifndef CLI_QUEUE_H
#define CLI_QUEUE_H

#include <stddef.h>
#include <stdint.h>

enum { QUEUE_GROUP_MAX = 65 };

struct queue_limits {
    unsigned slots;   /* runs at a time, >= 1 */
    unsigned workers; /* of all of them together */
    uint64_t memory;  /* bytes, the same; 0: not limited */
};

enum queue_state {
    QUEUE_IDLE,
    QUEUE_WAITS,
    QUEUE_RESTS, /* it waits, but is not to begin yet: others pass by */
    QUEUE_RUNS
};

struct queue_entry {
    enum queue_state state;
    char group[QUEUE_GROUP_MAX];
    uint64_t number;  /* of its submission; larger: later */
    uint64_t turn;    /* of its latest beginning, counted up; 0: never */
    unsigned workers; /* what it takes */
    uint64_t memory;
};

/* Index of the entry that is to begin now; SIZE_MAX: none. O(n^2) at worst. */
size_t queue_next(const struct queue_limits *limits,
                  const struct queue_entry *const entry[], size_t n);

#endif
