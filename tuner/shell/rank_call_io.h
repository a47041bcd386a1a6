/* What a pod says to the desk of rank 0 (rank_desk_io.h), and hears.
 *
 * Rank 0 may not be there yet, or not any more: its pod is being started, or
 * started again with another address. So each call waits a moment at most, and
 * after some seconds of silence the name is looked up again. One owner thread.
 */
#ifndef TUNER_RANK_CALL_IO_H
#define TUNER_RANK_CALL_IO_H

#include "tuner/shell/ranks_io.h"

enum {
    RANK_CALL_MS = 200,       /* the longest that a call waits for an answer */
    RANK_CALL_AGAIN_MS = 3000 /* of silence, after which it connects anew */
};

enum rank_told {
    RANK_TOLD_NOTHING, /* no answer, or there is nothing to say */
    RANK_TOLD_WORK,    /* to a question: what to start */
    RANK_TOLD_OVER,    /* to a question: there is nothing more to start */
    RANK_TOLD_STOP,    /* of a node that runs: it is to end */
    RANK_TOLD_ENDED    /* the end was taken down */
};

struct rank_call;

/* To the desk at @place, "tcp://HOST:PORT", with the job's @key. Connects to
 * nobody yet. Errors: ERR_INVAL, ERR_UNSUPPORTED, ERR_IO, ERR_NOMEM, in words.
 */
enum err rank_call_open(const char *place, const char *key, unsigned rank,
                        struct rank_call **out, struct fault *f);
/* NULL is accepted. */
void rank_call_close(struct rank_call *c);

/* This pod is free, its asking has @number. @work is owned by the caller where
 * the answer is RANK_TOLD_WORK. */
enum rank_told rank_call_ask(struct rank_call *c, uint64_t number,
                             struct ranks_work *work);
/* It runs what that answer said. */
enum rank_told rank_call_run(struct rank_call *c, uint64_t number);
/* That has ended, with exit code @code. */
enum rank_told rank_call_end(struct rank_call *c, uint64_t number, int code);
/* The pod ends. */
enum rank_told rank_call_leave(struct rank_call *c);

/* Since the last answer, or since it was opened. */
int64_t rank_call_silent_ms(const struct rank_call *c);
/* Why there is none, for people. */
const char *rank_call_why(const struct rank_call *c);

#endif
