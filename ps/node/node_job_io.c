#include "ps/node/node_job_io.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum err job_open(struct node_job *j, struct fault *f)
{
    memset(j, 0, sizeof(*j));
    j->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return j->fd < 0 ? fault_errno(f, ERR_IO, errno, "event descriptor")
                     : ERR_OK;
}

void job_close(struct node_job *j)
{
    assert(!j->running);
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
}

static void *job_main(void *arg)
{
    struct node_job *j = arg;
    uint64_t one = 1;
    ssize_t n;

    j->work(j->arg);
    n = write(j->fd, &one, sizeof(one));
    assert(n == sizeof(one));
    (void)n;
    return NULL;
}

enum err job_start(struct node_job *j, job_work *work, void *arg,
                   struct fault *f)
{
    int errnum;

    assert(!j->running && j->fd >= 0);
    j->work = work;
    j->arg = arg;
    errnum = pthread_create(&j->thread, NULL, job_main, j);
    if (errnum)
        return fault_errno(f, ERR_IO, errnum, "start a thread");
    j->running = true;
    return ERR_OK;
}

void job_end(struct node_job *j)
{
    uint64_t count;
    ssize_t n;

    assert(j->running);
    pthread_join(j->thread, NULL);
    n = read(j->fd, &count, sizeof(count));
    assert(n == sizeof(count));
    (void)n;
    j->running = false;
}
