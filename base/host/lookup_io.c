#include "base/host/lookup_io.h"

#include "base/deadlines.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Whoever leaves last, who asks or the thread, frees it. */
struct lookup {
    pthread_mutex_t lock; /* of all below but the question */
    pthread_cond_t ended;
    bool done, left; /* by the resolver; by who asks */
    int code;        /* getaddrinfo's */
    struct addrinfo *found;
    char host[LOOKUP_HOST_MAX], port[LOOKUP_PORT_MAX];
    struct addrinfo hints;
};

static void free_lookup(struct lookup *l)
{
    if (l->found)
        freeaddrinfo(l->found);
    pthread_cond_destroy(&l->ended);
    pthread_mutex_destroy(&l->lock);
    mem_free(l);
}

static void *resolve(void *arg)
{
    struct lookup *l = arg;
    struct addrinfo *found = NULL;
    int code = getaddrinfo(l->host, l->port, &l->hints, &found);
    bool left;

    pthread_mutex_lock(&l->lock);
    l->code = code;
    l->found = code ? NULL : found;
    l->done = true;
    left = l->left;
    pthread_cond_signal(&l->ended);
    pthread_mutex_unlock(&l->lock);
    if (left)
        free_lookup(l);
    return NULL;
}

/* Signals are for the program's own threads. */
static int start(struct lookup *l)
{
    sigset_t all, before;
    pthread_attr_t alone;
    pthread_t thread;
    int failed = pthread_attr_init(&alone);

    if (failed)
        return failed;
    pthread_attr_setdetachstate(&alone, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&thread, &alone, resolve, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&alone);
    return failed;
}

static struct lookup *new_lookup(const char *host, const char *port,
                                 const struct addrinfo *hints)
{
    struct lookup *l = mem_calloc(1, sizeof(*l));
    pthread_condattr_t monotonic;

    if (!l)
        return NULL;
    snprintf(l->host, sizeof(l->host), "%s", host);
    snprintf(l->port, sizeof(l->port), "%s", port);
    l->hints = *hints;
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&l->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return l;
}

static struct timespec in_seconds(double seconds)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += (long)(fmod(seconds, 1) * 1e9);
    t.tv_sec += (time_t)seconds + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static enum err unknown(int code, struct fault *f)
{
    if (code == EAI_MEMORY)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    return fault_set(f, ERR_NODE, "%s", gai_strerror(code));
}

/* The thread's answer, if it comes by @until: @l is then freed, else left to
 * the thread. */
static enum err await(struct lookup *l, const struct timespec *until,
                      double seconds, struct addrinfo **out, struct fault *f)
{
    enum err err = ERR_OK;
    bool done;

    pthread_mutex_lock(&l->lock);
    while (!l->done &&
           pthread_cond_timedwait(&l->ended, &l->lock, until) != ETIMEDOUT)
        continue;
    done = l->done;
    l->left = true;
    pthread_mutex_unlock(&l->lock);
    if (!done)
        return fault_set(f, ERR_NODE,
                         "this machine's resolver (/etc/resolv.conf) has not "
                         "answered in %g s",
                         seconds);
    if (l->code)
        err = unknown(l->code, f);
    else
        *out = l->found;
    l->found = NULL;
    free_lookup(l);
    return err;
}

enum err lookup_host(const char *host, const char *port,
                     const struct addrinfo *hints, double most_s,
                     struct addrinfo **out, struct fault *f)
{
    struct addrinfo numbers = *hints;
    double seconds = fmin(most_s, DEADLINE_LOOKUP_MS * 1e-3);
    struct timespec until;
    struct lookup *l;
    int code;

    assert(strlen(host) < LOOKUP_HOST_MAX && strlen(port) < LOOKUP_PORT_MAX);
    assert(most_s >= 0);
    assert(!hints->ai_addr && !hints->ai_canonname && !hints->ai_next);
    numbers.ai_flags |= AI_NUMERICHOST;
    code = getaddrinfo(host, port, &numbers, out);
    if (code != EAI_NONAME)
        return code ? unknown(code, f) : ERR_OK;
    l = new_lookup(host, port, hints);
    if (!l)
        return unknown(EAI_MEMORY, f);
    until = in_seconds(seconds);
    code = start(l);
    if (!code)
        return await(l, &until, seconds, out, f);
    free_lookup(l);
    return fault_errno(f, ERR_NOMEM, code, "a thread to look up %.100s", host);
}

enum err lookup_source(const struct sockaddr_in *to, char out[INET_ADDRSTRLEN],
                       struct fault *f)
{
    struct sockaddr_in own = {0};
    socklen_t size = sizeof(own);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    enum err err = ERR_OK;

    assert(to && out);
    if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)) != 0 ||
        getsockname(fd, (struct sockaddr *)&own, &size) != 0 ||
        !inet_ntop(AF_INET, &own.sin_addr, out, INET_ADDRSTRLEN))
        err = fault_set(f, ERR_IO, "%s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return err;
}

enum err lookup_source_to(const char *host, double most_s,
                          char out[INET_ADDRSTRLEN], struct fault *f)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM};
    struct sockaddr_in to;
    struct addrinfo *found;
    enum err err = lookup_host(host, "9", &hints, most_s, &found, f);

    if (err)
        return err;
    memcpy(&to, found->ai_addr, sizeof(to));
    freeaddrinfo(found);
    return lookup_source(&to, out, f);
}
