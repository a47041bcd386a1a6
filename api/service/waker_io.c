#include "api/service/waker_io.h"

#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

struct waker {
    struct view *view;
    int wake_fd;
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t asked;
    bool stops;
    uint64_t newest, done; /* tickets: given; settled */
    struct {
        char id[RECORD_NAME_MAX];
        struct fault f;
    } slot[WAKER_MAX]; /* ticket n at n % WAKER_MAX */
};

/* Reads the run of ticket @ticket, without the lock. */
static void settle(struct waker *w, uint64_t ticket)
{
    const uint64_t one = 1;
    char id[RECORD_NAME_MAX];
    struct fault f = {0};
    uint64_t mark;

    snprintf(id, sizeof(id), "%s", w->slot[ticket % WAKER_MAX].id);
    pthread_mutex_unlock(&w->lock);
    f.code = view_wake_run(w->view, id, &mark, &f);
    pthread_mutex_lock(&w->lock);
    w->slot[ticket % WAKER_MAX].f = f;
    w->done = ticket;
    /* Cannot fail: the counter is far from full. */
    if (write(w->wake_fd, &one, sizeof(one)) != sizeof(one))
        log_event(LOG_ERROR, "waker_wake_failed", "errno=%d", errno);
}

static void *serve(void *arg)
{
    struct waker *w = arg;

    pthread_setname_np(pthread_self(), "waker");
    pthread_mutex_lock(&w->lock);
    while (!w->stops) {
        if (w->done < w->newest)
            settle(w, w->done + 1);
        else
            pthread_cond_wait(&w->asked, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

enum err waker_start(struct view *view, int wake_fd, struct waker **out,
                     struct fault *f)
{
    struct waker *w = mem_calloc(1, sizeof(*w));
    sigset_t all, old;
    int failed;

    assert(view && wake_fd >= 0);
    if (!w)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    w->view = view;
    w->wake_fd = wake_fd;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->asked, NULL);
    sigfillset(&all); /* they are for the thread that started the program */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    failed = pthread_create(&w->thread, NULL, serve, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed) {
        pthread_cond_destroy(&w->asked);
        pthread_mutex_destroy(&w->lock);
        mem_free(w);
        return fault_errno(f, ERR_IO, failed, "cannot start the waker");
    }
    *out = w;
    return ERR_OK;
}

void waker_stop(struct waker *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stops = true;
    pthread_cond_signal(&w->asked);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->asked);
    pthread_mutex_destroy(&w->lock);
    mem_free(w);
}

uint64_t waker_ask(struct waker *w, const char *id)
{
    uint64_t ticket;

    assert(id[0] && strlen(id) < RECORD_NAME_MAX);
    pthread_mutex_lock(&w->lock);
    ticket = w->done + 1;
    while (ticket <= w->newest &&
           strcmp(w->slot[ticket % WAKER_MAX].id, id) != 0)
        ticket++;
    if (ticket > w->newest && w->newest - w->done == WAKER_MAX) {
        ticket = 0;
    } else if (ticket > w->newest) {
        w->newest = ticket;
        snprintf(w->slot[ticket % WAKER_MAX].id, RECORD_NAME_MAX, "%s", id);
        pthread_cond_signal(&w->asked);
    }
    pthread_mutex_unlock(&w->lock);
    return ticket;
}

enum err waker_collect(struct waker *w, uint64_t ticket, struct fault *f)
{
    enum err err = ERR_AGAIN;

    pthread_mutex_lock(&w->lock);
    assert(ticket > 0 && ticket <= w->newest);
    if (ticket <= w->done) {
        const struct fault *came = &w->slot[ticket % WAKER_MAX].f;

        err = ticket + WAKER_MAX > w->newest ? came->code : ERR_OK;
        if (err)
            *f = *came;
    }
    pthread_mutex_unlock(&w->lock);
    return err;
}
