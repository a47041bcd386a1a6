#include "base/host/notify_io.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BEATS = 3 /* in an interval: one may be late */ };

/* Connected to the socket @name, or -1. A name that begins with '@' is in the
 * abstract name space. */
static int dial(const char *name)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    int fd;

    if ((name[0] != '/' && name[0] != '@') || len >= sizeof(to.sun_path))
        return -1;
    memcpy(to.sun_path, name, len);
    if (name[0] == '@')
        to.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, size) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Microseconds that the manager waits for a sign of life of this process; 0: it
 * does not. */
static unsigned long long watchdog_us(void)
{
    const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

    if (!us || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    return strtoull(us, NULL, 10);
}

void notify_open(struct notify *n)
{
    static const char *const names[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC",
                                        "WATCHDOG_PID"};
    const char *name = getenv(names[0]);
    unsigned long long us = watchdog_us();

    assert(n);
    *n = (struct notify){.fd = name ? dial(name) : -1};
    if (n->fd >= 0 && us > 0 && us < INT64_MAX / 1000)
        n->every = (time_ns)(us * 1000 / BEATS);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unsetenv(names[i]);
}

void notify_close(struct notify *n)
{
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}

void notify_say(const struct notify *n, const char *text)
{
    assert(text[0]);
    /* Nobody to tell, or a manager that does not listen: it sees that. */
    if (n->fd >= 0)
        (void)!send(n->fd, text, strlen(text), MSG_NOSIGNAL);
}

void notify_beat(struct notify *n, time_ns now)
{
    if (n->every == 0 || now < n->next)
        return;
    notify_say(n, "WATCHDOG=1");
    n->next = now + n->every;
}
