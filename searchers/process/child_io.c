#include "searchers/process/child_io.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CHILD_PENDING_MAX = 8 * 1024 * 1024 };

/* ---- start --------------------------------------------------------------- */

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Our end of a stream does not block. */
static int keep_end(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

/* Our ends into @c, the child's into @file. */
static bool make_streams(struct child *c, int file[3])
{
    int fd[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0)
        return false;
    c->in_fd = keep_end(fd[0]);
    file[0] = fd[1];
    if (pipe2(fd, O_CLOEXEC) != 0)
        return false;
    c->out_fd = keep_end(fd[0]);
    file[1] = fd[1];
    if (pipe2(fd, O_CLOEXEC) != 0)
        return false;
    c->err_fd = keep_end(fd[0]);
    file[2] = fd[1];
    return true;
}

static void release(struct child *c)
{
    close_fd(&c->in_fd);
    close_fd(&c->out_fd);
    close_fd(&c->err_fd);
    mem_free(c->pending);
    mem_free(c->got);
    c->pending = c->got = NULL;
    c->pending_len = c->got_len = c->taken = 0;
}

enum err child_start(struct child *c, const char *path, char *const argv[],
                     const char *folder, size_t line_max, struct fault *f)
{
    struct subprocess_options o = {
        .path = path,
        .argv = argv,
        .folder = folder,
        .unset = "MLTUNE_TOKEN", /* steers runs: no business of the program's */
        .file = {-1, -1, -1},
        .signals = SUBPROCESS_SIGNALS_USUAL,
        .deaf = true,
        .death_signal = SIGKILL,
    };
    enum err err;

    assert(path && argv && argv[0]);
    assert(line_max > 0);
    memset(c, 0, sizeof(*c));
    c->process.end_fd = c->in_fd = c->out_fd = c->err_fd = -1;
    c->got_max = line_max;
    c->got = mem_alloc(line_max);
    if (!c->got)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    err = make_streams(c, o.file)
              ? subprocess_start(&c->process, &o, f)
              : fault_errno(f, ERR_IO, errno, "cannot start %s", path);
    for (int i = 0; i < 3; i++)
        close_fd(&o.file[i]);
    if (err)
        release(c);
    else
        log_event(LOG_INFO, "searcher_started", "pid=%d path=%s",
                  (int)c->process.pid, path);
    return err;
}

/* ---- end ----------------------------------------------------------------- */

bool child_ended(struct child *c)
{
    if (c->process.ended)
        return true;
    if (!subprocess_poll(&c->process))
        return false;
    log_event(LOG_INFO, "searcher_ended", "pid=%d", (int)c->process.pid);
    return true;
}

/* ---- streams ------------------------------------------------------------- */

enum err child_send(struct child *c, const char *text)
{
    size_t n = strlen(text);

    assert(text);
    if (c->pending_len + n > CHILD_PENDING_MAX)
        return ERR_LIMIT;
    if (mem_grow((void **)&c->pending, &c->pending_capacity, 1,
                 c->pending_len + n) != 0)
        return ERR_NOMEM;
    memcpy(c->pending + c->pending_len, text, n);
    c->pending_len += n;
    return ERR_OK;
}

/* One that does not read any more is noticed by what it fails to answer. */
static void write_pending(struct child *c)
{
    ssize_t n = 0;

    if (c->pending_len == 0 || c->in_fd < 0)
        return;
    n = send(c->in_fd, c->pending, c->pending_len, MSG_NOSIGNAL);
    if (n <= 0)
        return;
    c->pending_len -= (size_t)n;
    memmove(c->pending, c->pending + n, c->pending_len);
}

/* Remembers the last line, for the warning, and logs all. */
static void take_words(struct child *c, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool blank = bytes[i] == '\n' && (c->words_end || c->words_len == 0);

        if (blank)
            continue; /* says nothing, and the last words stay the last */
        if (bytes[i] == '\n') {
            c->words[c->words_len] = '\0';
            text_clean(c->words);
            log_event(LOG_INFO, "searcher_says", "text=\"%s\"", c->words);
            c->words_end = true;
            continue;
        }
        if (c->words_end)
            c->words_len = 0;
        c->words_end = false;
        if (c->words_len + 1 < sizeof(c->words))
            c->words[c->words_len++] = bytes[i];
    }
    c->words[c->words_len] = '\0';
}

static void read_words(struct child *c)
{
    char bytes[1024];
    ssize_t n;

    for (int i = 0; i < 64 && c->err_fd >= 0; i++) {
        n = read(c->err_fd, bytes, sizeof(bytes));
        if (n > 0)
            take_words(c, bytes, (size_t)n);
        else if (n == 0)
            close_fd(&c->err_fd);
        else
            return;
    }
}

/* A complete line that has been read. */
static bool next_line(struct child *c, const char **line, size_t *len)
{
    const char *start = c->got + c->taken;
    const char *end = memchr(start, '\n', c->got_len - c->taken);

    if (!end)
        return false;
    *line = start;
    *len = (size_t)(end - start);
    c->taken += *len + 1;
    return true;
}

static void drop_taken(struct child *c)
{
    c->got_len -= c->taken;
    memmove(c->got, c->got + c->taken, c->got_len);
    c->taken = 0;
}

enum err child_line(struct child *c, const char **line, size_t *len)
{
    assert(line && len);
    ssize_t n;

    write_pending(c);
    read_words(c);
    if (next_line(c, line, len))
        return ERR_OK;
    drop_taken(c);
    if (c->got_len == c->got_max)
        return ERR_LIMIT;
    n = c->out_fd < 0
            ? 0
            : read(c->out_fd, c->got + c->got_len, c->got_max - c->got_len);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? ERR_AGAIN : ERR_IO;
    if (n == 0) {
        close_fd(&c->out_fd);
        return ERR_IO;
    }
    c->got_len += (size_t)n;
    if (next_line(c, line, len))
        return ERR_OK;
    return c->got_len == c->got_max ? ERR_LIMIT : ERR_AGAIN;
}

void child_unread(struct child *c, size_t len)
{
    assert(c->taken > len);
    c->taken -= len + 1;
}

void child_wait(struct child *c, time_ns wait)
{
    struct pollfd item[3] = {
        {.fd = c->out_fd >= 0 ? c->out_fd : c->process.end_fd,
         .events = POLLIN},
        {.fd = c->err_fd, .events = POLLIN},
        {.fd = c->pending_len > 0 ? c->in_fd : -1, .events = POLLOUT}};

    const struct timespec time = {.tv_sec = wait / 1000000000,
                                  .tv_nsec = wait % 1000000000};

    ppoll(item, 3, &time, NULL);
}

void child_stop(struct child *c, time_ns grace)
{
    struct subprocess *p = &c->process;

    if (p->pid > 0 && !p->ended) {
        close_fd(&c->in_fd);
        subprocess_wait(p, (int)(grace / 1000000), -1);
        read_words(c);
        subprocess_stop(p, 0, -1);
        log_event(LOG_INFO, "searcher_ended", "pid=%d", (int)p->pid);
    }
    p->pid = 0;
    if (c->got)
        release(c);
}

void child_verdict(struct child *c, char *out, size_t size)
{
    assert(size > 0);
    if (child_ended(c))
        subprocess_verdict(&c->process, out, size);
    else
        snprintf(out, size, "closed its output");
    if (!c->process.ended) {
        subprocess_stop(&c->process, 0, -1);
        log_event(LOG_INFO, "searcher_ended", "pid=%d", (int)c->process.pid);
    }
    read_words(c);
}
