#include "api/routes/log_io.h"

#include "api/view/list.h"
#include "api/view/view.h"
#include "base/file_io.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t place_of(int64_t offset, uint64_t size)
{
    if (offset >= 0)
        return (uint64_t)offset < size ? (uint64_t)offset : size;
    return (uint64_t)-offset < size ? size - (uint64_t)-offset : 0;
}

/* Reads what is there of @len bytes. */
static enum err fill(int fd, struct log_piece *p, size_t len)
{
    while (p->len < len) {
        ssize_t n = pread(fd, p->bytes + p->len, len - p->len,
                          (off_t)(p->from + p->len));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ERR_IO;
        if (n == 0)
            break;
        p->len += (size_t)n;
    }
    p->bytes[p->len] = '\0';
    p->next = p->from + p->len;
    return ERR_OK;
}

/* The first byte that is kept: the older part of a long log is a hole. */
static uint64_t first_kept(int fd, uint64_t size)
{
    off_t first = lseek(fd, 0, SEEK_DATA);

    if (first < 0)
        return errno == ENXIO ? size : 0; /* nothing is; it cannot be told */
    return (uint64_t)first;
}

/* The log may grow meanwhile: what comes is of the next piece. */
static enum err read_open(int fd, int64_t offset, size_t limit,
                          struct log_piece *out)
{
    struct log_piece p = {.bytes = NULL};
    uint64_t size, first, left;
    struct stat st;
    enum err err;

    if (fstat(fd, &st) != 0)
        return ERR_IO;
    if (!S_ISREG(st.st_mode))
        return ERR_INVAL;
    size = (uint64_t)st.st_size;
    first = first_kept(fd, size);
    p.from = place_of(offset, size);
    if (p.from < first)
        p.from = first;
    left = size - p.from;
    if (left > limit)
        left = limit;
    p.bytes = mem_alloc((size_t)left + 1);
    if (!p.bytes)
        return ERR_NOMEM;
    err = fill(fd, &p, (size_t)left);
    if (err)
        mem_free(p.bytes);
    else
        *out = p;
    return err;
}

enum err log_read(const char *path, int64_t offset, size_t limit,
                  struct log_piece *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    enum err err;

    assert(limit <= LOG_PIECE_MAX + 1);
    if (fd < 0)
        return errno == ENOENT  ? ERR_NOENT
               : errno == ELOOP ? ERR_INVAL
                                : ERR_IO;
    err = read_open(fd, offset, limit, out);
    close(fd);
    return err;
}

static void refuse(const struct route_call *call, enum err err,
                   struct response *out)
{
    const char *run = route_arg(call, "run")->text;
    long long node = route_arg(call, "node")->number;

    if (err == ERR_NOENT)
        response_problem(out, 404, "log_not_found", NULL,
                         "run %s has no log of node %lld", run, node);
    else if (err == ERR_NOMEM)
        response_json(out, 200, NULL); /* 503 */
    else
        response_problem(
            out, 500, "log_not_readable", NULL,
            "the log of node %lld of run %s cannot be read: %s", node, run,
            err == ERR_INVAL ? "it is no regular file" : err_text(err));
}

void handle_log(const struct route_call *call, struct response *out)
{
    const char *state = view_options(call->view)->state;
    char name[RECORD_NAME_MAX + 48] = "", path[FILE_PATH_MAX];
    const struct view_run *run;
    struct log_piece piece;
    enum err err;

    /* The path has nothing of the request but a number; the id is the run's
     * own. */
    view_lock(call->view);
    run = list_view_run(call, out);
    if (run)
        snprintf(name, sizeof(name), "runs/%s/node-%lld.log", run->id,
                 (long long)route_arg(call, "node")->number);
    view_unlock(call->view);
    if (!run)
        return;
    err = state ? file_join(path, state, name, NULL) : ERR_NOENT;
    if (!err)
        err = log_read(path, route_arg(call, "offset")->number,
                       (size_t)route_arg(call, "limit")->number, &piece);
    if (err)
        refuse(call, err, out);
    else
        response_log(out, piece.bytes, piece.len, piece.from);
}
