#include "api/routes/export_io.h"

#include "api/http/headers_io.h"
#include "base/clock_io.h"
#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <microhttpd.h>

#include <sys/epoll.h>
#include <unistd.h>

enum { NICE = 10 };

struct outgoing {
    struct exports *owner;
    struct outgoing *next;
    struct MHD_Connection *connection;
    struct reaper_entry *entry;
    struct subprocess process;
    uint64_t token; /* whose it is, if that has a name; 0 */
    char run[RESPONSE_RUN_MAX];
    const char *format; /* static */
    int fd;             /* of its pipe, not blocking */
    bool suspended;
    size_t len, at; /* read from the pipe, and taken */
    char block[EXPORT_BLOCK];
};

/* ---- processes ----------------------------------------------------------- */

static enum err start_process(struct outgoing *x, const struct response *r,
                              struct fault *f)
{
    char *const argv[] = {"mltune",   "export",
                          "--format", (char *)r->export_format,
                          "--out",    "-",
                          "--run", /* no folder of that name here */
                          "--state",  (char *)x->owner->state,
                          "--",       (char *)r->export_run,
                          NULL};
    struct subprocess_options o = {
        .argv = argv,
        .file = {SUBPROCESS_NULL, -1, SUBPROCESS_NULL},
        .signals = SUBPROCESS_SIGNALS_USUAL,
        .nice = NICE, /* the training comes first */
    };
    int pipe_fd[2];
    enum err err;

    assert(x->fd < 0);
    assert(r->export_run[0]);
    if (pipe2(pipe_fd, O_CLOEXEC) != 0)
        return fault_errno(f, ERR_IO, errno, "pipe");
    o.file[1] = pipe_fd[1];
    err = subprocess_start(&x->process, &o, f);
    close(pipe_fd[1]);
    if (err) {
        close(pipe_fd[0]);
        return err;
    }
    x->fd = pipe_fd[0];
    fcntl(x->fd, F_SETFL, O_NONBLOCK);
    return ERR_OK;
}

static void bury(struct exports *e)
{
    size_t left = 0;

    for (size_t i = 0; i < e->dying_len; i++)
        if (!subprocess_poll(&e->dying[i]))
            e->dying[left++] = e->dying[i];
    e->dying_len = left;
}

/* It may take a moment to go, with all its memory: nobody waits for that, but
 * where there are many. */
static void give_up(struct outgoing *x)
{
    struct exports *e = x->owner;

    assert(x->process.pid);
    subprocess_signal(&x->process, SIGKILL);
    bury(e);
    if (e->dying_len < EXPORTS_DYING_MAX)
        e->dying[e->dying_len++] = x->process;
    else
        subprocess_wait(&x->process, -1, -1);
    x->process = (struct subprocess){.end_fd = -1};
}

/* ---- pipes --------------------------------------------------------------- */

static void watch_pipe(const struct outgoing *x)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT,
                                .data.ptr = (void *)x};

    if (epoll_ctl(x->owner->wake_fd, EPOLL_CTL_MOD, x->fd, &event) != 0)
        log_event(LOG_ERROR, "export_not_watched", "errno=%d", errno);
}

static void rest(struct outgoing *x)
{
    assert(!x->suspended);
    x->suspended = true;
    reaper_enter(x->entry, REAPER_STREAM, clock_monotonic());
    watch_pipe(x);
    MHD_suspend_connection(x->connection);
}

/* Fills the empty block: ERR_OK, ERR_AGAIN, ERR_NOENT at the end of a whole
 * export, ERR_IO at that of another. At the end of the pipe the process has
 * given back its memory and is about to be gone. */
static enum err refill(struct outgoing *x)
{
    ssize_t n;

    assert(x->at == x->len);
    x->at = x->len = 0;
    do
        n = x->process.ended ? 0 : read(x->fd, x->block, sizeof(x->block));
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return ERR_AGAIN;
    if (n > 0) {
        x->len = (size_t)n;
        return ERR_OK;
    }
    if (n < 0)
        return ERR_IO;
    subprocess_wait(&x->process, -1, -1);
    if (x->process.code == 0)
        return ERR_NOENT;
    log_event(LOG_WARN, "export_failed", "run=%s format=%s code=%d", x->run,
              x->format, x->process.code);
    return ERR_IO;
}

/* The library's question for more. */
static ssize_t on_read(void *cls, uint64_t position, char *buffer, size_t max)
{
    struct outgoing *x = cls;
    enum err err = ERR_OK;
    size_t n;

    (void)position;
    if (x->owner->ending)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (x->at == x->len)
        err = refill(x);
    if (err == ERR_AGAIN) {
        rest(x);
        return 0;
    }
    if (err)
        return err == ERR_NOENT ? MHD_CONTENT_READER_END_OF_STREAM
                                : MHD_CONTENT_READER_END_WITH_ERROR;
    n = x->len - x->at < max ? x->len - x->at : max;
    memcpy(buffer, x->block + x->at, n);
    x->at += n;
    reaper_enter(x->entry, REAPER_STREAM, clock_monotonic());
    return (ssize_t)n;
}

/* ---- life ---------------------------------------------------------------- */

enum err exports_init(struct exports *e, const char *state)
{
    assert(e);
    *e = (struct exports){.state = state, .wake_fd = -1};
    e->wake_fd = epoll_create1(EPOLL_CLOEXEC);
    return e->wake_fd < 0 ? ERR_IO : ERR_OK;
}

static struct outgoing *export_new(struct exports *e,
                                   struct MHD_Connection *connection,
                                   struct reaper_entry *entry)
{
    struct outgoing *x = mem_calloc(1, sizeof(*x));

    assert(e->open < EXPORTS_MAX);
    if (!x)
        return NULL;
    x->owner = e;
    x->connection = connection;
    x->entry = entry;
    x->fd = -1;
    x->next = e->first;
    e->first = x;
    e->open++;
    return x;
}

void exports_drop(struct outgoing *x)
{
    struct outgoing **at;

    if (!x)
        return;
    at = &x->owner->first;
    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
    x->owner->open--;
    if (x->fd >= 0)
        close(x->fd); /* leaves the epoll by that */
    if (x->process.pid && !x->process.ended)
        give_up(x);
    mem_free(x);
}

static void refuse_start(struct response *out, const struct fault *f)
{
    response_problem(out, 503, "export_not_started", NULL,
                     "the process that writes the export cannot be started: %s",
                     f->text);
}

/* One token takes not all places, and those who are no admins not the last. */
static bool has_place(const struct exports *e, const struct asker *by,
                      struct response *out)
{
    unsigned most = by->role >= ROLE_ADMIN ? EXPORTS_MAX : EXPORTS_MAX - 1;
    unsigned own = 0;

    for (const struct outgoing *x = e->first; x; x = x->next)
        own += by->token && x->token == by->token;
    if (e->open < most && own < EXPORTS_EACH)
        return true;
    response_problem(out, 503, "too_many_exports", NULL,
                     "%u exports are on their way, %u of them yours; try again "
                     "later",
                     e->open, own);
    return false;
}

struct outgoing *exports_start(struct exports *e,
                               struct MHD_Connection *connection,
                               struct reaper_entry *entry,
                               const struct asker *by, const struct response *r,
                               struct response *out)
{
    struct epoll_event event = {.events = 0};
    struct outgoing *x;
    struct fault f = {0};
    enum err err;

    assert(r->export_format && r->export_run[0] && entry && by);
    if (!e->state || e->ending) {
        response_problem(out, e->ending ? 503 : 409,
                         e->ending ? "not_ready" : "not_supported", NULL,
                         e->ending ? "the program is about to end"
                                   : "this server exports nothing");
        return NULL;
    }
    if (!has_place(e, by, out))
        return NULL;
    x = export_new(e, connection, entry);
    if (!x) {
        response_json(out, 200, NULL); /* 503 */
        return NULL;
    }
    x->token = by->token;
    snprintf(x->run, sizeof(x->run), "%s", r->export_run);
    x->format = r->export_format;
    err = start_process(x, r, &f);
    event.data.ptr = x;
    if (!err && epoll_ctl(e->wake_fd, EPOLL_CTL_ADD, x->fd, &event) != 0)
        err = fault_errno(&f, ERR_IO, errno, "watch its pipe");
    if (err) {
        refuse_start(out, &f);
        exports_drop(x);
        return NULL;
    }
    rest(x);
    return x;
}

static void on_free(void *cls)
{
    exports_drop(cls);
}

struct MHD_Response *exports_answer(struct outgoing **given,
                                    const struct response *r,
                                    struct response *out)
{
    struct outgoing *x = *given;
    struct MHD_Response *made;
    enum err err = x->owner->ending ? ERR_IO : refill(x);

    assert(x->owner);
    assert(out->status == 0);
    if (err == ERR_AGAIN) {
        rest(x);
        return NULL;
    }
    if (err == ERR_IO) {
        response_problem(out, x->owner->ending ? 503 : 500,
                         x->owner->ending ? "not_ready" : "export_failed", NULL,
                         "the export could not be written; mltune export %s "
                         "--format %s says why",
                         r->export_run, r->export_format);
        return NULL;
    }
    made = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EXPORT_BLOCK,
                                             on_read, x, on_free);
    if (!made)
        response_json(out, 200, NULL); /* 503 */
    else
        *given = NULL;
    if (!made || headers_add(made, r))
        return made;
    MHD_destroy_response(made);
    response_json(out, 200, NULL);
    return NULL;
}

void exports_serve(struct exports *e, time_ns now)
{
    struct epoll_event event[EXPORTS_MAX];
    int n = e->open > 0 ? epoll_wait(e->wake_fd, event, EXPORTS_MAX, 0) : 0;

    for (int i = 0; i < n; i++) {
        struct outgoing *x = event[i].data.ptr;

        if (!x->suspended)
            continue;
        x->suspended = false;
        MHD_resume_connection(x->connection);
    }
    /* Whoever waits for us is not late. */
    for (struct outgoing *x = e->first; x; x = x->next)
        if (x->suspended)
            reaper_enter(x->entry, REAPER_STREAM, now);
    bury(e);
}

void exports_end(struct exports *e)
{
    e->ending = true;
    for (struct outgoing *x = e->first; x; x = x->next) {
        if (!x->suspended)
            continue;
        x->suspended = false;
        MHD_resume_connection(x->connection);
    }
}

void exports_deinit(struct exports *e)
{
    assert(!e->first);
    for (size_t i = 0; i < e->dying_len; i++)
        subprocess_wait(&e->dying[i], -1, -1);
    if (e->wake_fd >= 0)
        close(e->wake_fd);
    *e = (struct exports){.wake_fd = -1};
}
