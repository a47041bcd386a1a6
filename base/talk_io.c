#include "base/talk_io.h"

#include "base/clock_io.h"
#include "base/deadlines.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENT_MS = 60000 };

/* Guards all of it, and the order of what is said. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool hurries;
static int own = -1;      /* stderr, as it is written to in a hurry; or none */
static time_ns patient;   /* from then on a line may wait again */
static bool torn;         /* the last line has no end */
static unsigned left_out; /* lines since there was room */

/* A description of our own of a pipe or terminal, of which a call takes what
 * fits: others that have stderr open shall find it as it is. Files take all. */
static int describe_anew(void)
{
    struct stat st;

    if (fstat(STDERR_FILENO, &st) != 0 ||
        (!S_ISFIFO(st.st_mode) && !isatty(STDERR_FILENO)))
        return -1;
    return open("/proc/self/fd/2",
                O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void talk_hurry(bool hurry)
{
    pthread_mutex_lock(&lock);
    if (hurry && own < 0)
        own = describe_anew();
    if (!hurry && own >= 0) {
        close(own);
        own = -1;
    }
    hurries = hurry;
    pthread_mutex_unlock(&lock);
}

/* Room in @fd, up to @until (0: for ever). An error is room: the write tells.
 */
static bool has_room(int fd, time_ns until)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    for (;;) {
        time_ns left = until - clock_monotonic();
        int n = poll(&p, 1,
                     until == 0 ? -1
                     : left > 0 ? (int)((left + 999999) / 1000000)
                                : 0);

        if (n >= 0 || errno != EINTR)
            return n != 0;
    }
}

/* How much of it could be said up to @until; all of it where stderr is gone. */
static size_t put(const char *text, size_t len, time_ns until)
{
    int fd = own >= 0 ? own : STDERR_FILENO;
    size_t done = 0;

    while (done < len && has_room(fd, until)) {
        size_t some = len - done < PIPE_BUF ? len - done : PIPE_BUF;
        ssize_t n = write(fd, text + done, some);

        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return len;
        if (n > 0)
            done += (size_t)n;
    }
    return done;
}

/* Says what was left out; false: there is no room for that either. */
static bool catch_up(time_ns until)
{
    char text[96];
    int n = snprintf(text, sizeof(text),
                     "%smltune: nobody read this for a while: %u line%s left "
                     "out\n",
                     torn ? "\n" : "", left_out, left_out == 1 ? "" : "s");

    if (left_out == 0)
        return true;
    if (put(text, (size_t)n, until) < (size_t)n)
        return false;
    left_out = 0;
    torn = false;
    return true;
}

/* Up to when a line may wait for room; 0: for ever. One that does keeps others
 * from it for a while: who reads slowly slows nothing down. */
static time_ns wait_until(void)
{
    const time_ns now = clock_monotonic(), ms = 1000000;

    if (!hurries)
        return 0;
    if (now < patient || has_room(own >= 0 ? own : STDERR_FILENO, now))
        return now;
    patient = now + PATIENT_MS * ms;
    return now + DEADLINE_TALK_MS * ms;
}

void talk(const char *text, size_t len)
{
    size_t said = 0;
    time_ns until;

    assert(text);
    pthread_mutex_lock(&lock);
    until = wait_until();
    if (catch_up(until))
        said = put(text, len, until);
    if (said < len && said > 0)
        torn = true;
    if (said < len && text[len - 1] == '\n')
        left_out++;
    pthread_mutex_unlock(&lock);
}
