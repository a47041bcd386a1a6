#include "cli/service/seat.h"

#include "base/clock_io.h"
#include "base/deadlines.h"
#include "cli/basics/console.h"
#include "cli/state/address_io.h"
#include "cli/state/serve.h"

#include <assert.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

enum { LOCK_TRY_MS = 50 };

/* One that makes room ends its runs first. */
static const time_ns MAKE_ROOM =
    (DEADLINE_STOP_SERVICE_MS + DEADLINE_KILLED_MS) * (time_ns)1000000;

static bool path_of(const struct seat *seat, const char *name,
                    char out[FILE_PATH_MAX])
{
    return file_join(out, seat->state, name, NULL) == ERR_OK;
}

/* Asks the process @pid to end, as long as it has the lock @path: by a handle,
 * since another process may get the number once it is gone. */
static void end_holder(const char *path, pid_t pid)
{
    int fd = pidfd_open(pid, 0);
    pid_t now = 0;

    if (fd < 0)
        return; /* it has ended */
    if (file_locked(path, &now) && now == pid)
        pidfd_send_signal(fd, SIGTERM, NULL, 0);
    close(fd);
}

/* As file_lock of @path, but a service that gives way ends first. */
static enum err lock(struct seat *seat, const char *path, bool gives_way,
                     int signal_fd, struct fault *f)
{
    time_ns until = clock_monotonic() + MAKE_ROOM;
    enum err err = file_lock(path, &seat->lock_fd, f);
    char leaves[FILE_PATH_MAX];
    pid_t pid = 0;

    if (err != ERR_BUSY || gives_way || !file_locked(path, &pid) || pid <= 0 ||
        !path_of(seat, SERVE_LEAVES, leaves) || access(leaves, F_OK) != 0)
        return err;
    console_note("the service that mltune open began (process %ld) makes room",
                 (long)pid);
    end_holder(path, pid);
    while (err == ERR_BUSY && clock_monotonic() < until) {
        struct pollfd ended = {.fd = signal_fd, .events = POLLIN};

        if (poll(&ended, 1, LOCK_TRY_MS) > 0)
            break;
        err = file_lock(path, &seat->lock_fd, f);
    }
    return err;
}

/* Says in the folder whether this one gives way. */
static enum err mark(const struct seat *seat, bool gives_way, struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err = file_join(path, seat->state, SERVE_LEAVES, f);

    if (!err && gives_way)
        return file_write(path, "\n", 1, f);
    if (!err)
        file_remove(path); /* of one that was killed */
    return err;
}

enum err seat_take(struct seat *seat, const char *state, bool gives_way,
                   int signal_fd, struct fault *f)
{
    char path[FILE_PATH_MAX];
    pid_t pid = 0;
    enum err err = file_join(path, state, SERVE_LOCK, f);

    assert(seat->lock_fd < 0);
    if (err)
        return err;
    snprintf(seat->state, sizeof(seat->state), "%s", state);
    err = lock(seat, path, gives_way, signal_fd, f);
    if (!err)
        err = file_join(seat->url_path, state, SERVE_URL, f);
    /* The address of one that was killed: its port may be another program's. */
    if (!err)
        file_remove(seat->url_path);
    if (!err)
        err = mark(seat, gives_way, f);
    if (err != ERR_BUSY)
        return err;
    file_locked(path, &pid);
    return fault_set(f, ERR_BUSY,
                     "a service (process %ld) has the state folder %s already: "
                     "use that one, or name another --state",
                     (long)pid, state);
}

enum err seat_say(const struct seat *seat, const char *url, bool socket,
                  struct fault *f)
{
    return address_write(seat->url_path, url, socket, f);
}

void seat_page(const struct seat *seat, const char *code)
{
    char path[FILE_PATH_MAX], line[128];

    if (!path_of(seat, SERVE_PAGE, path))
        return;
    snprintf(line, sizeof(line), "enter?code=%s", code);
    if (!code[0] || file_write(path, line, strlen(line), NULL) != ERR_OK)
        file_remove(path);
}

void seat_leave(struct seat *seat)
{
    static const char *const names[] = {SERVE_URL, SERVE_PAGE, SERVE_LEAVES};
    char path[FILE_PATH_MAX];

    if (seat->lock_fd < 0)
        return;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (path_of(seat, names[i], path))
            file_remove(path);
    close(seat->lock_fd);
    seat->lock_fd = -1;
}
