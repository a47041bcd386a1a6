/* The insides of `fake`, shared by fake_io.c (memory, streams, events) and
 * fake_work_io.c (what the thread does). All under the one lock. */
#ifndef PS_SPACE_FAKE_INTERNAL_H
#define PS_SPACE_FAKE_INTERNAL_H

#include "base/rng.h"
#include "ps/space/budget.h"
#include "ps/space/stream.h"
#include "ps/space/work.h"

#include <pthread.h>

enum {
    FAKE_LATE = 64,     /* pieces of work that wait before one is done */
    FAKE_POISON = 0xff, /* a byte of it */
};

struct fake_block {
    char *at;
    size_t bytes;
    bool pinned; /* of the host's memory */
    struct fake_block *next;
};

struct fake_event {
    struct space_event base;
    unsigned refs;
    uint64_t recorded, come; /* how often */
    struct fault error;      /* of the stream, when it last came */
};

/* What was where a piece of work will write. */
struct fake_piece {
    char *at;
    size_t bytes;
};

enum fake_item_kind { FAKE_WORK, FAKE_RECORD, FAKE_WAIT };

struct fake_item {
    struct fake_item *next;
    enum fake_item_kind kind;
    struct space_work work;
    void *arg; /* owned: of a call */
    bool begun;
    struct fake_piece
        *piece; /* owned; what it writes is poison since it began */
    size_t pieces, pieces_capacity;
    char *saved; /* owned: the bytes of all pieces */
    size_t saved_bytes;
    struct fake_event *event; /* counted */
    uint64_t time;            /* of the event: its `recorded` */
};

struct fake_stream {
    struct work_stream base;
    struct fake_item *first, **end; /* owned */
    struct fake_stream *next;
};

struct fake {
    struct memory_space base;
    struct space_options options;
    struct space_budget budget;
    struct rng rng;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t asked; /* the thread has something to do */
    pthread_cond_t moved; /* it did something */
    unsigned hurried;     /* who wait for it */
    unsigned permits;     /* steps that were asked for */
    size_t waiting;       /* items */
    uint64_t done;        /* pieces of work */
    bool stop;
    struct fake_block *block; /* owned */
    struct fake_stream *stream;
};

/* Whether [at, at + bytes) is memory of the space, as a whole. */
bool fake_owns(const struct fake *k, const void *at, size_t bytes);

/* Makes what the first item of @st writes poison. */
void fake_begin(struct fake *k, struct fake_stream *st);

/* Takes the first item off @st. */
void fake_pop(struct fake *k, struct fake_stream *st);

void fake_event_release(struct fake_event *e);

/* The thread; @arg: struct fake. */
void *fake_thread(void *arg);

#endif
