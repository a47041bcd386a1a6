/* A job: what a service keeps on disk of a run that it looks after, beside what
 * every run has: STATE/runs/ID/job.json. Whether the run waits, runs or has
 * ended is not in it: the journal and the lock of its folder say that. */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include "base/fault.h"
#include "base/file_io.h"
#include "cli/state/queue.h"
#include "tuner/shell/state_io.h"

#include <stdbool.h>
#include <stdint.h>

enum { JOB_KEY_MAX = 64, JOB_REASON_MAX = 512, JOB_BY_MAX = 64 };

struct job {
    char group[QUEUE_GROUP_MAX];
    char by[JOB_BY_MAX + 1];     /* who submitted it (api/view/desk.h); "" it is
                                  * not known */
    uint64_t number;             /* order of submission */
    int64_t submitted_ns;        /* wall clock, since the epoch */
    bool held;                   /* not to be begun */
    bool other_data;             /* its next start takes whatever data there
                                  * are */
    char reason[JOB_REASON_MAX]; /* why it is held; "" */
    char key[JOB_KEY_MAX + 1];   /* Idempotency-Key of its submission; "" */
    uint64_t body_hash;          /* of what was submitted with it */
};

/* FNV-1a. */
uint64_t job_hash(const char *text, size_t len);

/* True where a service looks after run @id. */
bool job_exists(const char *state, const char *id);

/* Errors: ERR_NOENT (none looks after it), ERR_FORMAT, ERR_IO, ERR_NOMEM. */
enum err job_read(const char *state, const char *id, struct job *out,
                  struct fault *f);

/* On the disk on return. Errors: ERR_IO, ERR_LIMIT, ERR_NOMEM; then nothing
 * has changed. */
enum err job_write(const char *state, const char *id, const struct job *job,
                   struct fault *f);

#endif
