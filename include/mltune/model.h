/* mltune consistency models of your own: who may go on, and who waits.
 *
 * A model is two predicates over the status of all workers (Soori et al., STAT
 * and barriers). A program gives its own to its server:
 *
 *     // Two clocks ahead of the slowest that still works, at most.
 *     static int may_read(const struct mlt_model_view *v, void *arg)
 *     {
 *         for (unsigned i = 0; i < v->workers; i++)
 *             if (v->worker[i].alive &&
 *                 v->worker[i].clock + 2 < v->worker[v->self].clock)
 *                 return 0;
 *         return 1;
 *     }
 *
 *     static const struct mlt_model_ops mine = {
 *         .version = MLT_MODEL_VERSION,
 *         .name = "mine",
 *         .summary = "nobody reads far ahead",
 *         .may_read = may_read,
 *     };
 *
 *     mlt_ps_set_model(ps, &mine, NULL, &err);         // before mlt_ps_start
 *
 * A shared object with the symbol `mltune_model` is a plug-in:
 *
 *     MLT_API const struct mlt_model_ops mltune_model = {...};
 *
 *     cc -shared -fPIC -o mine.so mine.c `pkg-config --cflags mltune`
 *     "ps": {"consistency": {"plugin": "mine.so"}}
 *
 * Updates are applied as they come, and a worker takes a copy of what it reads
 * anew in each clock. A worker begins a clock with its first read in it: then
 * `may_begin` is asked, and `may_read` once for each shared table. One that
 * reads nothing is not asked, nor is anybody where there is one worker alone.
 *
 * Loops (mltune/loop.h) have waits of their own, which a predicate does not
 * see: mlt_loop_new refuses them under a model of your own.
 *
 * Predicates are functions of the view and of what does not change while a run
 * lasts: no clock, no random numbers. They are called by any worker's thread,
 * one at a time in a server, under a lock: they must not wait, nor call the
 * server. A predicate is asked again after whatever it could depend on has
 * changed. Once it holds for a worker it should go on to hold until that worker
 * ends its clock.
 *
 * When all workers that are alive wait, and the predicates let none of them go
 * on, nothing can change any more: the run ends with an error that names the
 * model and the worker that is furthest behind (mlt_ps_model_error).
 */
#ifndef MLTUNE_MODEL_H
#define MLTUNE_MODEL_H

#include <mltune/ps.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MLT_MODEL_VERSION 1

/* One worker, as all see it. Numbers count in the present run. */
struct mlt_worker_status {
    int64_t clock;     /* clocks that it has ended */
    int64_t staleness; /* clocks behind the fastest */
    double task_s;     /* mean work time of its clocks, waits left out; 0: it
                        * has ended none */
    int alive;         /* 0: its run is over, it ends no clock any more */
    int busy;          /* 0: it waits for a predicate */
};

struct mlt_model_view {
    size_t size;                            /* sizeof(struct mlt_model_view) */
    const struct mlt_worker_status *worker; /* [workers] */
    unsigned workers;                       /* over all nodes */
    unsigned self;      /* who asks; not busy while it does */
    unsigned staleness; /* the setting of that name */
    unsigned k;         /* the same; 0: not given */
};

enum { /* settings that the model acts on: they can be tuned then */
       MLT_MODEL_STALENESS = 1,
       MLT_MODEL_K = 2
};

/* Whether v->self may go on; not 0: it may. */
typedef int mlt_model_predicate(const struct mlt_model_view *v, void *arg);

struct mlt_model_ops {
    unsigned version;    /* MLT_MODEL_VERSION */
    const char *name;    /* [a-z0-9_]{1,31}, no built-in model's */
    const char *summary; /* one line */
    unsigned uses;       /* MLT_MODEL_STALENESS | MLT_MODEL_K */

    /* May it read the table whose clocks the view has? NULL: it may. */
    mlt_model_predicate *may_read;

    /* May it begin its next clock? The view has clocks of all tables. NULL: it
     * may. One of the two is there. */
    mlt_model_predicate *may_begin;
};

/* The server's consistency model, in place of that of its options; before
 * mlt_ps_start and mlt_loop_new. @ops and @arg are borrowed for the server's
 * life; @arg is handed to the predicates. Errors: another version of this
 * header, no name, no predicate; several nodes (what others' workers do is not
 * known in time): in words. Nothing changed then. */
MLT_API int mlt_ps_set_model(struct mlt_ps *ps, const struct mlt_model_ops *ops,
                             void *arg, struct mlt_error *err);

/* Why the last run failed, where workers would have waited for ever: its model
 * let nobody go on, or a worker did not come to a loop's pass. The code, and
 * words in @err. 0: that is not why. Between runs. */
MLT_API int mlt_ps_model_error(const struct mlt_ps *ps, struct mlt_error *err);

#ifdef __cplusplus
}
#endif
#endif
