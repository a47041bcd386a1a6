#include "api/view/desk.h"

#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum stage {
    STAGE_EMPTY,
    STAGE_POSTED,
    STAGE_TAKEN,
    STAGE_ANSWERED,
    STAGE_FORGOTTEN /* taken, and nobody waits for the answer */
};

struct place {
    enum stage stage;
    desk_ticket ticket;
    int wake_fd; /* -1: nobody waits */
    bool reads;
    struct desk_request request;
    struct response answer;
};

struct desk {
    int fd; /* eventfd, readable while something is posted */
    pthread_mutex_t lock;
    /* Guarded by it: */
    desk_ticket next;
    struct place place[DESK_SLOTS];
};

void desk_request_deinit(struct desk_request *r)
{
    mem_free(r->target);
    mem_free(r->body);
    r->target = r->body = NULL;
}

enum err desk_new(struct desk **out)
{
    struct desk *d = mem_calloc(1, sizeof(*d));

    if (!d)
        return ERR_NOMEM;
    d->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (d->fd < 0) {
        mem_free(d);
        return ERR_IO;
    }
    pthread_mutex_init(&d->lock, NULL);
    d->next = 1;
    *out = d;
    return ERR_OK;
}

void desk_free(struct desk *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < DESK_SLOTS; i++) {
        desk_request_deinit(&d->place[i].request);
        response_deinit(&d->place[i].answer);
    }
    pthread_mutex_destroy(&d->lock);
    close(d->fd);
    mem_free(d);
}

/* The counter is far from full, so it does not fail. */
static void ring(int fd)
{
    uint64_t one = 1;

    if (fd >= 0 && write(fd, &one, sizeof(one)) != sizeof(one))
        log_event(LOG_ERROR, "wake_failed", "errno=%d", errno);
}

/* The place of @ticket (0: an empty one); NULL. Under the lock. */
static struct place *find(struct desk *d, desk_ticket ticket)
{
    for (size_t i = 0; i < DESK_SLOTS; i++) {
        struct place *p = &d->place[i];

        if (ticket ? p->stage != STAGE_EMPTY && p->ticket == ticket
                   : p->stage == STAGE_EMPTY)
            return p;
    }
    return NULL;
}

static void empty(struct place *p)
{
    desk_request_deinit(&p->request);
    response_deinit(&p->answer);
    memset(p, 0, sizeof(*p));
}

/* Reads leave places for others. Under the lock. */
static bool has_room(const struct desk *d, enum command_id command)
{
    size_t reads = 0;

    for (size_t i = 0; i < DESK_SLOTS; i++)
        reads += d->place[i].stage != STAGE_EMPTY && d->place[i].reads;
    return command != COMMAND_READ || reads < DESK_READS;
}

/* ---- who asks ------------------------------------------------------------ */

enum err desk_post(struct desk *d, struct desk_request *r, int wake_fd,
                   desk_ticket *out)
{
    struct place *p;

    pthread_mutex_lock(&d->lock);
    p = has_room(d, r->command) ? find(d, 0) : NULL;
    if (p) {
        p->stage = STAGE_POSTED;
        p->ticket = *out = d->next++;
        p->wake_fd = wake_fd;
        p->reads = r->command == COMMAND_READ;
        p->request = *r;
        r->target = r->body = NULL;
    }
    pthread_mutex_unlock(&d->lock);
    if (p)
        ring(d->fd);
    return p ? ERR_OK : ERR_LIMIT;
}

enum err desk_collect(struct desk *d, desk_ticket ticket, struct response *out)
{
    enum err err = ERR_AGAIN;
    struct place *p;

    pthread_mutex_lock(&d->lock);
    p = find(d, ticket);
    assert(p);
    if (p->stage == STAGE_ANSWERED) {
        *out = p->answer;
        p->answer = (struct response){0};
        empty(p);
        err = ERR_OK;
    }
    pthread_mutex_unlock(&d->lock);
    return err;
}

void desk_forget(struct desk *d, desk_ticket ticket)
{
    struct place *p;

    pthread_mutex_lock(&d->lock);
    p = find(d, ticket);
    assert(p);
    p->wake_fd = -1;
    if (p->stage == STAGE_ANSWERED)
        empty(p);
    else if (p->stage == STAGE_TAKEN)
        p->stage = STAGE_FORGOTTEN;
    pthread_mutex_unlock(&d->lock);
}

/* ---- the service --------------------------------------------------------- */

int desk_fd(const struct desk *d)
{
    return d->fd;
}

bool desk_take(struct desk *d, struct desk_request *out, desk_ticket *ticket)
{
    struct place *oldest = NULL;
    uint64_t calls;

    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < DESK_SLOTS; i++) {
        struct place *p = &d->place[i];

        if (p->stage == STAGE_POSTED && (!oldest || p->ticket < oldest->ticket))
            oldest = p;
    }
    if (oldest) {
        *out = oldest->request;
        oldest->request.target = oldest->request.body = NULL;
        *ticket = oldest->ticket;
        oldest->stage = oldest->wake_fd < 0 ? STAGE_FORGOTTEN : STAGE_TAKEN;
    } else {
        /* Empty where nobody has called; that is no error. */
        (void)!read(d->fd, &calls, sizeof(calls));
    }
    pthread_mutex_unlock(&d->lock);
    return oldest != NULL;
}

void desk_answer(struct desk *d, desk_ticket ticket, struct response *answer)
{
    struct place *p;

    assert(answer->status);
    pthread_mutex_lock(&d->lock);
    p = find(d, ticket);
    assert(p && (p->stage == STAGE_TAKEN || p->stage == STAGE_FORGOTTEN));
    if (p->stage == STAGE_FORGOTTEN) {
        empty(p);
    } else {
        p->stage = STAGE_ANSWERED;
        p->answer = *answer;
        *answer = (struct response){0};
        ring(p->wake_fd);
    }
    pthread_mutex_unlock(&d->lock);
    response_deinit(answer);
}
