/* Ranks: the processes that `mpirun` has started, or the pods of a job of
 * Kubernetes, and how they meet.
 *
 * Rank 0 is the tuner, the others each run a node where they are. What all of
 * them have is the job's name in the environment and the state folder on a file
 * system that they share, so they meet in a folder of that, STATE/mpi/JOB, of
 * mode 0700. No library of MPI is needed. Of pods rank 0 alone looks into the
 * folder, STATE/kubernetes/JOB, and the others reach it over TCP
 * (rank_desk_io.h): their places are not there before they are, and not always
 * the same. The files, K being a rank:
 *
 *   ask-K     rank K is free: a number of this asking alone, and its host
 *   answer-K  that number, and what K is to start (key, log, words by line);
 *             K removes ask and answer when it has read them
 *   stop-K    that number: its node is to end
 *   end-K     that number, and the exit code that its node ended with
 *   over-K    that number: there is nothing more to start
 *   left-K    rank K ends
 *   lock      locked as long as rank 0 lives
 *
 * Each is written whole. An answer to an earlier job of that name, which was
 * killed, has another number. Any thread.
 */
#ifndef TUNER_RANKS_IO_H
#define TUNER_RANKS_IO_H

#include "base/fault.h"
#include "base/file_io.h"
#include "base/run_key_io.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    RANKS_JOB_MAX = 100,      /* bytes of a job's name, with its end */
    RANKS_HOST_MAX = 256,     /* of a host's */
    RANKS_LOOK_MS = 50,       /* between two looks at a file */
    RANKS_WORDS_MAX = 24,     /* of a node's arguments */
    RANKS_TEXT_MAX = 1 << 16, /* bytes of a file */
};

struct ranks {
    unsigned rank, size; /* rank < size */
    char job[RANKS_JOB_MAX];
    bool pods;   /* of Kubernetes */
    int wait_ms; /* for one of them to come, or for rank 0 to answer */
};

/* This process's place among those that were started together, by the
 * environment: of Open MPI, PMIx or PMI. False: it was started alone, or which
 * of them share a job is not told (MLTUNE_JOB says it then). */
bool ranks_find(struct ranks *out);

/* The same of the pods of an Indexed Job: JOB_COMPLETION_INDEX, which
 * Kubernetes sets, and MLTUNE_PODS (how many), MLTUNE_JOB and MLTUNE_POD_WAIT
 * (seconds; DEADLINE_POD_MS where it is not set), which the job does. */
bool ranks_find_pod(struct ranks *out);

/* STATE/mpi/JOB, of pods STATE/kubernetes/JOB, of the absolute folder @state,
 * made. Errors: of folder_make, ERR_LIMIT. */
enum err ranks_place(const char *state, const struct ranks *r,
                     char out[FILE_PATH_MAX], struct fault *f);

/* For rank 0: holds the place's lock (*@fd, to be closed), and removes the
 * places beside it of jobs that have none. Errors: ERR_BUSY another job has
 * that name. */
enum err ranks_hold(const char *place, int *fd, struct fault *f);
bool ranks_held(const char *place);

/* What rank @rank is asked to start. */
struct ranks_work {
    uint64_t number;
    char key[RUN_KEY_LEN + 1], log[FILE_PATH_MAX];
    size_t n;
    char *word[RANKS_WORDS_MAX + 1]; /* NULL at the end; into `text` */
    char *text;                      /* owned */
};

void ranks_work_deinit(struct ranks_work *w);

/* The name of this machine, or "rank-K" where it has none. */
void ranks_own_host(unsigned rank, char out[RANKS_HOST_MAX]);

/* Says that this rank is free, on @host. Errors: of file_write. */
enum err ranks_ask(const char *place, unsigned rank, uint64_t number,
                   const char *host, struct fault *f);
/* Whether @rank is free, with its number and host. */
bool ranks_asked(const char *place, unsigned rank, uint64_t *number,
                 char host[RANKS_HOST_MAX]);

/* Errors: ERR_LIMIT a word has an end of a line in it, or there are too many;
 * of file_write. */
enum err ranks_answer(const char *place, unsigned rank,
                      const struct ranks_work *w, struct fault *f);
/* Whether what @rank was told is still to be read. */
bool ranks_answer_waits(const char *place, unsigned rank);
/* Whether the answer to @number is there: read, and removed with the question.
 * @out is owned by the caller. */
bool ranks_answered(const char *place, unsigned rank, uint64_t number,
                    struct ranks_work *out);

/* The same in two steps, for who hands it on: the text, owned by the caller
 * (mem_free; NULL: there is none to @number), and that it has arrived. */
char *ranks_answer_to(const char *place, unsigned rank, uint64_t number);
void ranks_taken(const char *place, unsigned rank, uint64_t number);
/* What such a text says; @text is transferred. False: it is not whole. */
bool ranks_read_work(char *text, struct ranks_work *out);

/* Words that are but a name and that number. */
enum err ranks_stop(const char *place, unsigned rank, uint64_t number,
                    struct fault *f);
bool ranks_stopped(const char *place, unsigned rank, uint64_t number);
enum err ranks_over(const char *place, unsigned rank, uint64_t number,
                    struct fault *f);
bool ranks_is_over(const char *place, unsigned rank, uint64_t number);
enum err ranks_end(const char *place, unsigned rank, uint64_t number, int code,
                   struct fault *f);
bool ranks_ended(const char *place, unsigned rank, uint64_t number, int *code);

/* The rank ends; whether it has. */
void ranks_leave(const char *place, unsigned rank);
bool ranks_left(const char *place, unsigned rank);

#endif
