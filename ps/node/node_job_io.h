/* One slow piece of work in a thread of its own, beside a loop that must not
 * wait: loading data, writing a model.
 *
 * One owner thread starts it, polls the descriptor, and ends it. What the work
 * touches belongs to it in between.
 */
#ifndef PS_NODE_JOB_IO_H
#define PS_NODE_JOB_IO_H

#include "base/fault.h"

#include <pthread.h>
#include <stdbool.h>

typedef void job_work(void *arg);

struct node_job {
    pthread_t thread;
    int fd; /* readable once the work is done; -1: not open */
    bool running;
    job_work *work;
    void *arg;
};

/* Errors: ERR_IO. */
enum err job_open(struct node_job *j, struct fault *f);

/* No work may be running. Accepts one that is not open. */
void job_close(struct node_job *j);

/* Calls @work(@arg) in a new thread. Errors: ERR_IO with the reason; then it
 * was not called. */
enum err job_start(struct node_job *j, job_work *work, void *arg,
                   struct fault *f);

/* Waits for the work; what it wrote can be read after. */
void job_end(struct node_job *j);

#endif
