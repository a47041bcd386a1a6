#include "base/commands/box_io.h"

#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum stage {
    STAGE_EMPTY,
    STAGE_POSTED,
    STAGE_TAKEN, /* its request is the owner's; the bytes here own nothing */
    STAGE_ANSWERED
};

struct slot {
    enum stage stage;
    enum command_id command;
    box_ticket ticket; /* grows: the oldest is the least */
    int wake_fd;       /* -1: nobody waits */
    char key[COMMAND_KEY_MAX + 1];
    /* Of a pair (owned; NULL until it is first used); the answer of ANSWERED.
     */
    void *request, *answer;
    /* Owned: a pair for what is remembered of it, so that its key has room once
     * it is posted. NULL: not needed yet. */
    void *spare;
};

/* An answer that its key gets again. */
struct kept {
    char key[COMMAND_KEY_MAX + 1]; /* "": the place is free */
    /* Of a pair (owned; NULL until it is first used), whose bytes own nothing.
     */
    void *request, *answer;
};

struct box {
    struct box_options o;
    int fd; /* an eventfd, not 0 while something is posted */
    pthread_mutex_t lock;
    /* Guarded by it: */
    bool closed;
    box_ticket last;
    struct slot *slot; /* [o.slots], owned */
    struct kept *kept; /* [o.keys], owned; a ring */
    size_t next_kept;
};

/* ---- life ---------------------------------------------------------------- */

static size_t aligned(size_t size)
{
    const size_t to = _Alignof(max_align_t);

    return (size + to - 1) / to * to;
}

/* A request and an answer behind it, at the request; NULL: no memory. */
static void *pair_new(const struct box *b)
{
    return mem_calloc(1,
                      aligned(b->o.request_size) + aligned(b->o.answer_size));
}

static void *answer_of(const struct box *b, void *pair)
{
    return (char *)pair + aligned(b->o.request_size);
}

enum err box_new(const struct box_options *options, struct box **out)
{
    struct box *b = mem_calloc(1, sizeof(*b));

    assert(options->slots > 0 && options->request_size > 0);
    assert(options->reads <= options->rows && options->rows <= options->slots);
    assert(!options->keys == !options->same &&
           !options->keys == !options->keep);
    if (!b)
        return ERR_NOMEM;
    b->o = *options;
    b->fd = -1;
    b->slot = mem_calloc(b->o.slots, sizeof(*b->slot));
    b->kept = mem_calloc(b->o.keys + 1, sizeof(*b->kept));
    pthread_mutex_init(&b->lock, NULL);
    if (!b->slot || !b->kept) {
        box_free(b);
        return ERR_NOMEM;
    }
    b->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (b->fd < 0) {
        box_free(b);
        return ERR_IO;
    }
    *out = b;
    return ERR_OK;
}

void box_free(struct box *b)
{
    if (!b)
        return;
    for (size_t i = 0; b->slot && i < b->o.slots; i++) {
        struct slot *s = &b->slot[i];

        if (s->stage == STAGE_POSTED)
            b->o.release_request(s->request);
        else if (s->stage == STAGE_ANSWERED)
            b->o.release_answer(s->answer);
        mem_free(s->request);
        mem_free(s->spare);
    }
    for (size_t i = 0; b->kept && i < b->o.keys; i++)
        mem_free(b->kept[i].request);
    if (b->fd >= 0)
        close(b->fd);
    pthread_mutex_destroy(&b->lock);
    mem_free(b->slot);
    mem_free(b->kept);
    mem_free(b);
}

/* ---- under the lock ------------------------------------------------------ */

/* The counter is far from full, so it does not fail. */
static void ring(int fd)
{
    uint64_t one = 1;

    if (fd >= 0 && write(fd, &one, sizeof(one)) != sizeof(one))
        log_event(LOG_ERROR, "wake_failed", "errno=%d", errno);
}

static struct slot *slot_of(struct box *b, box_ticket ticket)
{
    for (size_t i = 0; i < b->o.slots; i++)
        if (b->slot[i].stage != STAGE_EMPTY && b->slot[i].ticket == ticket)
            return &b->slot[i];
    assert(!"no such ticket");
    return NULL;
}

static size_t count_of(const struct box *b, enum command_id command)
{
    size_t n = 0;

    for (size_t i = 0; i < b->o.slots; i++)
        n += b->slot[i].stage != STAGE_EMPTY && b->slot[i].command == command;
    return n;
}

/* Changes nothing: of rows, or of a service's folders. */
static bool is_read(enum command_id command)
{
    return command == COMMAND_READ || command == COMMAND_DATA ||
           command == COMMAND_UPLOADED;
}

/* An empty slot; NULL. Reads leave places for increments, and both for all
 * others. */
static struct slot *free_slot(struct box *b, enum command_id command)
{
    size_t rows = count_of(b, COMMAND_READ);
    size_t reads =
        rows + count_of(b, COMMAND_DATA) + count_of(b, COMMAND_UPLOADED);

    if (is_read(command) && reads >= b->o.reads)
        return NULL;
    if ((command == COMMAND_READ || command == COMMAND_ADD) &&
        rows + count_of(b, COMMAND_ADD) >= b->o.rows)
        return NULL;
    for (size_t i = 0; i < b->o.slots; i++)
        if (b->slot[i].stage == STAGE_EMPTY)
            return &b->slot[i];
    return NULL;
}

/* The oldest request that waits; NULL. */
static struct slot *oldest_posted(struct box *b)
{
    struct slot *oldest = NULL;

    for (size_t i = 0; i < b->o.slots; i++) {
        struct slot *s = &b->slot[i];

        if (s->stage == STAGE_POSTED && (!oldest || s->ticket < oldest->ticket))
            oldest = s;
    }
    return oldest;
}

/* Looks @key up: ERR_OK where nothing is known of it, or *@again is the answer
 * of the first time; else as box_post. */
static enum err look_up(const struct box *b, const char *key,
                        const void *request, const void **again)
{
    for (size_t i = 0; i < b->o.slots; i++) {
        const struct slot *s = &b->slot[i];

        if ((s->stage == STAGE_POSTED || s->stage == STAGE_TAKEN) &&
            strcmp(s->key, key) == 0)
            return b->o.same(s->request, request) ? ERR_BUSY : ERR_EXIST;
    }
    for (size_t i = 0; i < b->o.keys; i++) {
        const struct kept *k = &b->kept[i];

        if (strcmp(k->key, key) != 0)
            continue;
        if (!b->o.same(k->request, request))
            return ERR_EXIST;
        *again = k->answer;
        return ERR_OK;
    }
    return ERR_OK;
}

/* Into the pair that @s has for it, which the place's former one then is. */
static void keep(struct box *b, struct slot *s)
{
    struct kept *k = &b->kept[b->next_kept % b->o.keys];
    void *pair = s->spare;

    if (!b->o.keep(s->answer, answer_of(b, pair)))
        return;
    memcpy(k->key, s->key, sizeof(k->key));
    memcpy(pair, s->request, b->o.request_size);
    s->spare = k->request;
    k->request = pair;
    k->answer = answer_of(b, pair);
    b->next_kept++;
}

/* @s has its answer: tells who waits, or drops it where nobody does. */
static void settle(struct box *b, struct slot *s)
{
    int wake_fd = s->wake_fd;

    if (s->stage == STAGE_POSTED)
        b->o.release_request(s->request);
    s->stage = STAGE_ANSWERED;
    if (wake_fd < 0) {
        b->o.release_answer(s->answer);
        s->stage = STAGE_EMPTY;
    }
    ring(wake_fd);
}

static void settle_closed(struct box *b, struct slot *s)
{
    b->o.over(s->answer);
    settle(b, s);
}

/* Nothing waits: the owner need not look again. */
static void quiet(struct box *b)
{
    uint64_t calls;

    /* Empty where nobody has called; that is no error. */
    if (!oldest_posted(b))
        (void)!read(b->fd, &calls, sizeof(calls));
}

/* ---- who asks ------------------------------------------------------------ */

/* Whether @s has a pair, and with a key one to be remembered by. */
static bool furnish(const struct box *b, struct slot *s, bool keyed)
{
    if (!s->request)
        s->request = pair_new(b);
    if (!s->spare && keyed)
        s->spare = pair_new(b);
    if (s->request)
        s->answer = answer_of(b, s->request);
    return s->request && (s->spare || !keyed);
}

static enum err post(struct box *b, enum command_id command, const char *key,
                     const void *request, int wake_fd, box_ticket *out)
{
    struct slot *s = free_slot(b, command);
    const void *again = NULL;
    enum err err =
        b->o.keys && *key ? look_up(b, key, request, &again) : ERR_OK;

    if (err)
        return err;
    if (!s)
        return ERR_LIMIT;
    if (!furnish(b, s, b->o.keys && *key))
        return ERR_NOMEM;
    s->stage = STAGE_POSTED;
    s->command = command;
    s->ticket = *out = ++b->last;
    s->wake_fd = wake_fd;
    snprintf(s->key, sizeof(s->key), "%s", key);
    memcpy(s->request, request, b->o.request_size);
    if (again) {
        memcpy(s->answer, again, b->o.answer_size);
        settle(b, s);
    } else if (b->closed) {
        settle_closed(b, s);
    } else {
        ring(b->fd);
    }
    return ERR_OK;
}

enum err box_post(struct box *b, enum command_id command, const char *key,
                  const void *request, int wake_fd, box_ticket *out)
{
    enum err err;

    assert((unsigned)command < COMMAND_COUNT && wake_fd >= 0);
    assert(strlen(key) <= COMMAND_KEY_MAX);
    pthread_mutex_lock(&b->lock);
    err = post(b, command, key, request, wake_fd, out);
    pthread_mutex_unlock(&b->lock);
    return err;
}

enum err box_collect(struct box *b, box_ticket ticket, void *answer)
{
    enum err err = ERR_AGAIN;
    struct slot *s;

    pthread_mutex_lock(&b->lock);
    s = slot_of(b, ticket);
    assert(s->wake_fd >= 0);
    if (s->stage == STAGE_ANSWERED) {
        memcpy(answer, s->answer, b->o.answer_size);
        s->stage = STAGE_EMPTY;
        err = ERR_OK;
    }
    pthread_mutex_unlock(&b->lock);
    return err;
}

void box_forget(struct box *b, box_ticket ticket)
{
    struct slot *s;

    pthread_mutex_lock(&b->lock);
    s = slot_of(b, ticket);
    assert(s->wake_fd >= 0);
    s->wake_fd = -1;
    if (s->stage == STAGE_ANSWERED) {
        b->o.release_answer(s->answer);
        s->stage = STAGE_EMPTY;
    }
    pthread_mutex_unlock(&b->lock);
}

/* ---- the owner ----------------------------------------------------------- */

int box_fd(const struct box *b)
{
    return b->fd;
}

bool box_take(struct box *b, void *request, box_ticket *ticket)
{
    struct slot *s;

    pthread_mutex_lock(&b->lock);
    s = oldest_posted(b);
    if (s) {
        s->stage = STAGE_TAKEN;
        memcpy(request, s->request, b->o.request_size);
        *ticket = s->ticket;
    }
    quiet(b);
    pthread_mutex_unlock(&b->lock);
    return s != NULL;
}

void box_answer(struct box *b, box_ticket ticket, const void *answer)
{
    struct slot *s;

    pthread_mutex_lock(&b->lock);
    s = slot_of(b, ticket);
    assert(s->stage == STAGE_TAKEN);
    memcpy(s->answer, answer, b->o.answer_size);
    if (b->o.keys && s->key[0])
        keep(b, s);
    settle(b, s);
    pthread_mutex_unlock(&b->lock);
}

void box_abandon(struct box *b, const void *answer)
{
    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < b->o.slots; i++)
        if (b->slot[i].stage == STAGE_TAKEN) {
            memcpy(b->slot[i].answer, answer, b->o.answer_size);
            settle(b, &b->slot[i]);
        }
    pthread_mutex_unlock(&b->lock);
}

void box_close(struct box *b)
{
    assert(b->o.over);
    pthread_mutex_lock(&b->lock);
    b->closed = true;
    for (size_t i = 0; i < b->o.slots; i++)
        if (b->slot[i].stage == STAGE_POSTED || b->slot[i].stage == STAGE_TAKEN)
            settle_closed(b, &b->slot[i]);
    quiet(b);
    pthread_mutex_unlock(&b->lock);
}
