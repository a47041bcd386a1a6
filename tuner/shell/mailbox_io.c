#include "tuner/shell/mailbox_io.h"

#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

void mailbox_request_deinit(struct mailbox_request *r)
{
    mem_free(r->add);
    r->add = NULL;
    r->rows.add = NULL;
}

enum slot_state { SLOT_FREE, SLOT_POSTED, SLOT_TAKEN, SLOT_ANSWERED };

struct slot {
    enum slot_state state;
    mailbox_ticket ticket; /* grows: the oldest is the least */
    int wake_fd;           /* -1: nobody waits */
    struct mailbox_request request;
    struct tuner_answer answer;
};

/* A request with a key, and its answer. */
struct remembered {
    bool used;
    struct mailbox_request request;
    struct tuner_answer answer;
};

struct mailbox {
    int fd; /* an eventfd; its count is that of the requests posted */
    pthread_mutex_t lock;
    /* Guarded by it: */
    bool closed;
    mailbox_ticket last;
    struct slot slot[MAILBOX_SLOTS];
    struct remembered key[MAILBOX_KEYS]; /* a ring */
    size_t next_key;
};

enum err mailbox_new(struct mailbox **out)
{
    struct mailbox *m = mem_calloc(1, sizeof(*m));

    if (!m)
        return ERR_NOMEM;
    m->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (m->fd < 0) {
        mem_free(m);
        return ERR_IO;
    }
    pthread_mutex_init(&m->lock, NULL);
    *out = m;
    return ERR_OK;
}

void mailbox_free(struct mailbox *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < MAILBOX_SLOTS; i++) {
        assert(m->slot[i].state == SLOT_FREE || m->slot[i].wake_fd < 0);
        mailbox_request_deinit(&m->slot[i].request);
    }
    close(m->fd);
    pthread_mutex_destroy(&m->lock);
    mem_free(m);
}

/* The counter is far from full, so it does not fail. */
static void ring(int fd)
{
    uint64_t one = 1;

    if (fd >= 0 && write(fd, &one, sizeof(one)) != sizeof(one))
        log_event(LOG_ERROR, "wake_failed", "errno=%d", errno);
}

/* ---- under the lock ------------------------------------------------------ */

static struct slot *slot_of(struct mailbox *m, mailbox_ticket ticket)
{
    for (size_t i = 0; i < MAILBOX_SLOTS; i++)
        if (m->slot[i].state != SLOT_FREE && m->slot[i].ticket == ticket)
            return &m->slot[i];
    return NULL;
}

static size_t count_of(const struct mailbox *m, enum command_id command)
{
    size_t n = 0;

    for (size_t i = 0; i < MAILBOX_SLOTS; i++)
        n += m->slot[i].state != SLOT_FREE &&
             m->slot[i].request.command == command;
    return n;
}

/* Reads leave places for increments, and both for all others. */
static struct slot *free_slot(struct mailbox *m, enum command_id command)
{
    size_t reads = count_of(m, COMMAND_READ);

    if (command == COMMAND_READ && reads >= MAILBOX_READS)
        return NULL;
    if ((command == COMMAND_READ || command == COMMAND_ADD) &&
        reads + count_of(m, COMMAND_ADD) >= MAILBOX_ROWS)
        return NULL;
    for (size_t i = 0; i < MAILBOX_SLOTS; i++)
        if (m->slot[i].state == SLOT_FREE)
            return &m->slot[i];
    return NULL;
}

static bool same_number(double a, double b)
{
    return a == b || (a != a && b != b);
}

static bool same_rows(const struct mailbox_request *a,
                      const struct mailbox_request *b)
{
    return a->rows.branch == b->rows.branch && a->rows.first == b->rows.first &&
           a->rows.count == b->rows.count && a->rows.from == b->rows.from &&
           a->rows.values == b->rows.values && a->add_hash == b->add_hash &&
           strcmp(a->rows.table, b->rows.table) == 0;
}

/* Enough to tell a repetition from a mistake. */
static uint64_t hash_of(const double x[], size_t n)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a, of words */

    for (size_t i = 0; i < n; i++) {
        uint64_t word;

        memcpy(&word, &x[i], sizeof(word));
        hash = (hash ^ word) * UINT64_C(1099511628211);
        hash ^= hash >> 29;
    }
    return hash;
}

static bool same_request(const struct mailbox_request *a,
                         const struct mailbox_request *b)
{
    const struct record_limits *x = &a->limits.to, *y = &b->limits.to;

    return a->command == b->command && a->limits.set == b->limits.set &&
           a->fork.branch == b->fork.branch &&
           a->fork.epochs == b->fork.epochs &&
           a->fork.clocks == b->fork.clocks &&
           strcmp(a->fork.setting, b->fork.setting) == 0 &&
           a->suggest.exhausted == b->suggest.exhausted &&
           a->suggest.single == b->suggest.single &&
           strcmp(a->suggest.settings, b->suggest.settings) == 0 &&
           same_rows(a, b) && same_number(x->target_loss, y->target_loss) &&
           same_number(x->target_metric, y->target_metric) &&
           same_number(x->max_time_s, y->max_time_s) &&
           x->plateau_epochs == y->plateau_epochs &&
           x->max_epochs == y->max_epochs;
}

/* What is known of @r's key: ERR_OK nothing; ERR_EXIST, ERR_BUSY as
 * mailbox_post; or the answer of the first time in *@again. */
static enum err look_up(struct mailbox *m, const struct mailbox_request *r,
                        const struct tuner_answer **again)
{
    for (size_t i = 0; i < MAILBOX_SLOTS; i++) {
        const struct slot *s = &m->slot[i];

        if (s->state != SLOT_FREE && s->state != SLOT_ANSWERED &&
            strcmp(s->request.key, r->key) == 0)
            return same_request(&s->request, r) ? ERR_BUSY : ERR_EXIST;
    }
    for (size_t i = 0; i < MAILBOX_KEYS; i++) {
        const struct remembered *k = &m->key[i];

        if (!k->used || strcmp(k->request.key, r->key) != 0)
            continue;
        if (!same_request(&k->request, r))
            return ERR_EXIST;
        *again = &k->answer;
        return ERR_OK;
    }
    return ERR_OK;
}

/* Nobody will collect its answer. */
static void drop_slot(struct slot *s)
{
    mem_free(s->answer.value);
    s->answer.value = NULL;
    s->state = SLOT_FREE;
}

/* Takes what @answer owns; what is remembered owns nothing. */
static void settle(struct mailbox *m, struct slot *s,
                   const struct tuner_answer *answer, bool remember)
{
    struct remembered *k;

    mailbox_request_deinit(&s->request);
    s->answer = *answer;
    if (s->request.key[0] && remember) {
        k = &m->key[m->next_key++ % MAILBOX_KEYS];
        *k = (struct remembered){true, s->request, *answer};
        k->answer.value = NULL;
        k->answer.values = 0;
    }
    if (s->wake_fd < 0)
        drop_slot(s);
    else
        s->state = SLOT_ANSWERED;
    ring(s->wake_fd);
}

static void settle_closed(struct mailbox *m, struct slot *s)
{
    struct tuner_answer over = {.err = ERR_CANCELED, .branch = BRANCH_NONE};

    snprintf(over.text, sizeof(over.text), "the run has ended");
    settle(m, s, &over, false);
}

/* ---- who asks ------------------------------------------------------------ */

static enum err post(struct mailbox *m, struct mailbox_request *r, int wake_fd,
                     mailbox_ticket *out)
{
    struct slot *s = free_slot(m, r->command);
    const struct tuner_answer *again = NULL;
    enum err err = r->key[0] ? look_up(m, r, &again) : ERR_OK;

    if (err)
        return err;
    if (!s)
        return ERR_LIMIT;
    *s = (struct slot){SLOT_POSTED, ++m->last, wake_fd, .request = *r};
    r->add = NULL;
    r->rows.add = NULL;
    *out = s->ticket;
    if (again)
        settle(m, s, again, false);
    else if (m->closed)
        settle_closed(m, s);
    else
        ring(m->fd);
    return ERR_OK;
}

enum err mailbox_post(struct mailbox *m, struct mailbox_request *r, int wake_fd,
                      mailbox_ticket *out)
{
    enum err err;

    assert((unsigned)r->command < COMMAND_COUNT && wake_fd >= 0);
    r->rows.add = r->add;
    r->add_hash = r->add ? hash_of(r->add, r->rows.values) : 0;
    pthread_mutex_lock(&m->lock);
    err = post(m, r, wake_fd, out);
    pthread_mutex_unlock(&m->lock);
    return err;
}

enum err mailbox_collect(struct mailbox *m, mailbox_ticket ticket,
                         struct tuner_answer *out)
{
    enum err err = ERR_AGAIN;
    struct slot *s;

    pthread_mutex_lock(&m->lock);
    s = slot_of(m, ticket);
    assert(s);
    if (s->state == SLOT_ANSWERED) {
        *out = s->answer;
        s->answer.value = NULL;
        s->state = SLOT_FREE;
        err = ERR_OK;
    }
    pthread_mutex_unlock(&m->lock);
    return err;
}

void mailbox_forget(struct mailbox *m, mailbox_ticket ticket)
{
    struct slot *s;

    pthread_mutex_lock(&m->lock);
    s = slot_of(m, ticket);
    assert(s);
    s->wake_fd = -1;
    if (s->state == SLOT_ANSWERED)
        drop_slot(s);
    pthread_mutex_unlock(&m->lock);
}

/* ---- the control loop ---------------------------------------------------- */

int mailbox_fd(const struct mailbox *m)
{
    return m->fd;
}

static struct slot *oldest_posted(struct mailbox *m)
{
    struct slot *oldest = NULL;

    for (size_t i = 0; i < MAILBOX_SLOTS; i++) {
        struct slot *s = &m->slot[i];

        if (s->state == SLOT_POSTED && (!oldest || s->ticket < oldest->ticket))
            oldest = s;
    }
    return oldest;
}

bool mailbox_take(struct mailbox *m, struct mailbox_request *out,
                  mailbox_ticket *ticket)
{
    uint64_t count;
    struct slot *s;

    /* Empty when nothing was posted. */
    if (read(m->fd, &count, sizeof(count)) != sizeof(count))
        return false;
    pthread_mutex_lock(&m->lock);
    s = oldest_posted(m);
    if (s) {
        s->state = SLOT_TAKEN;
        *out = s->request;
        *ticket = s->ticket;
        s->request.add = NULL;
        s->request.rows.add = NULL;
    }
    pthread_mutex_unlock(&m->lock);
    return s != NULL;
}

/* What was not done for want of something, or of a sound answer, may be asked
 * again with the same key. */
static bool is_final(enum err err)
{
    return err != ERR_AGAIN && err != ERR_LIMIT && err != ERR_NOMEM &&
           err != ERR_PROTO;
}

void mailbox_answer(struct mailbox *m, mailbox_ticket ticket,
                    struct tuner_answer *answer)
{
    struct slot *s;

    pthread_mutex_lock(&m->lock);
    s = slot_of(m, ticket);
    assert(s && s->state == SLOT_TAKEN);
    settle(m, s, answer, is_final(answer->err));
    pthread_mutex_unlock(&m->lock);
    answer->value = NULL;
}

void mailbox_abandon(struct mailbox *m, const char *text)
{
    struct tuner_answer again = {.err = ERR_AGAIN, .branch = BRANCH_NONE};

    snprintf(again.text, sizeof(again.text), "%s", text);
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < MAILBOX_SLOTS; i++)
        if (m->slot[i].state == SLOT_TAKEN)
            settle(m, &m->slot[i], &again, false);
    pthread_mutex_unlock(&m->lock);
}

void mailbox_close(struct mailbox *m)
{
    pthread_mutex_lock(&m->lock);
    m->closed = true;
    for (size_t i = 0; i < MAILBOX_SLOTS; i++)
        if (m->slot[i].state == SLOT_POSTED || m->slot[i].state == SLOT_TAKEN)
            settle_closed(m, &m->slot[i]);
    pthread_mutex_unlock(&m->lock);
}
