/* mltune searcher plug-ins: what proposes the next setting to try.
 *
 * A plug-in is a shared object with one symbol, `mltune_searcher`:
 *
 *     #include <mltune/searcher.h>
 *
 *     static int my_ask(void *state, const struct mlt_searcher_query *q,
 *                       double unit[], struct mlt_searcher_error *err)
 *     {
 *         unit[0] = 0.5;            // one number in 0 .. 1 for every axis
 *         return MLT_SEARCHER_OK;
 *     }
 *
 *     const struct mlt_searcher_ops mltune_searcher = {
 *         .version = MLT_SEARCHER_VERSION,
 *         .name = "middle",
 *         .summary = "the middle of every range",
 *         .ask = my_ask,
 *     };
 *
 *     cc -shared -fPIC -o middle.so middle.c `pkg-config --cflags mltune`
 *     "tuner": {"searcher": {"plugin": "middle.so"}}
 *
 * A searcher maximises *speed*, how fast a trial's training loss falls. It
 * works in the unit cube: mltune turns its numbers into settings with their
 * scales, whole numbers, categories and conditions, and turns settings back
 * into numbers. A setting that was tried already is replaced by one that was
 * not, so a plug-in need not remember what it proposed; and every ask shows all
 * that was told, so it need not remember that either.
 *
 * mltune runs a plug-in in a process of its own. One that crashes, hangs or
 * proposes what is no number costs the run one warning; a built-in searcher
 * goes on. It may therefore block and compute, use threads, files and
 * libraries; stdout goes to stderr, and that into the log.
 *
 * The interface is versioned by MLT_SEARCHER_VERSION: a plug-in built for
 * another version is refused by name. Structures that mltune passes begin with
 * their size; members are only ever added at the end.
 */
#ifndef MLTUNE_SEARCHER_H
#define MLTUNE_SEARCHER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MLT_SEARCHER_VERSION 1

/* Results of ask and open. */
enum mlt_searcher_result {
    MLT_SEARCHER_OK,
    MLT_SEARCHER_WAIT,      /* not now: ask again when a running trial ends */
    MLT_SEARCHER_EXHAUSTED, /* nothing is left to try, whatever is told */
    MLT_SEARCHER_FAILED     /* cannot go on: the error's text says why */
};

struct mlt_searcher_error {
    char text[256]; /* one sentence for the user, terminated */
};

enum mlt_searcher_type {
    MLT_SEARCHER_FLOAT,
    MLT_SEARCHER_INT,
    MLT_SEARCHER_CATEGORICAL
};

/* A tunable that is searched: one axis of the unit cube. */
struct mlt_searcher_axis {
    const char *name; /* "learning_rate" */
    enum mlt_searcher_type type;
    uint64_t values; /* how many it can take; 0: a continuum */
    double min, max; /* as in the configuration; of a category: 0 and
                      * values - 1, its value is its index */
};

/* A setting: what each axis has in the unit cube, and as the configuration
 * writes it. An axis whose condition does not hold has its default. */
struct mlt_searcher_point {
    const double *unit;  /* [axes], 0 .. 1 */
    const double *value; /* [axes] */
};

enum mlt_searcher_outcome {
    MLT_SEARCHER_SPEED,     /* ran its time; `speed` is the result */
    MLT_SEARCHER_DIVERGED,  /* worse than any speed; speed is 0 */
    MLT_SEARCHER_NO_RESULT, /* could not be run (memory): says nothing about
                             * speed, and is not to be proposed again */
    MLT_SEARCHER_STOPPED    /* ended early; `speed` is what it had by then */
};

struct mlt_searcher_trial {
    uint64_t number; /* grows with each trial begun */
    struct mlt_searcher_point at;
    enum mlt_searcher_outcome outcome;
    double speed; /* of one unit in a search, >= 0, finite; higher is better */
    double resource; /* what it rests on (seconds or clocks), >= 0 */
};

/* Arguments of open; all borrowed until open returns, but `axis`, which stays
 * until close. */
struct mlt_searcher_config {
    size_t size; /* of this structure, in the mltune that runs */
    size_t axes; /* may be 0: everything is pinned */
    const struct mlt_searcher_axis *axis; /* [axes] */
    const char *space;    /* the "tunables" of the configuration, as JSON */
    const char *settings; /* "searcher_settings" as JSON, checked against the
                           * plug-in's schema, defaults filled in */
    uint64_t seed;        /* the same seed: the same search */
};

/* Arguments of ask; all borrowed for the call. */
struct mlt_searcher_query {
    size_t size;
    size_t axes;
    size_t told_len;
    const struct mlt_searcher_trial *told; /* by number, one a trial */
    size_t running_len;
    const struct mlt_searcher_point *running; /* begun, not told yet */
    const struct mlt_searcher_point
        *incumbent; /* what the job trains with now; NULL: none. It competes
                     * anyway and need not be proposed */
};

struct mlt_searcher_ops {
    unsigned version;    /* MLT_SEARCHER_VERSION */
    const char *name;    /* [a-z][a-z0-9_]*, below 64 bytes */
    const char *summary; /* one line for `mltune searchers` */
    /* JSON schema of its settings: an object with "properties", each with type,
     * default, description; NULL: it has none. */
    const char *settings;

    /* Optional (NULL). Prepares a search; `*state` is passed to the others.
     * MLT_SEARCHER_OK, or MLT_SEARCHER_FAILED with the reason in @err where it
     * cannot search these axes: nothing may be left behind then. */
    int (*open)(const struct mlt_searcher_config *config, void **state,
                struct mlt_searcher_error *err);

    /* Writes the next setting to try to @unit[axes], each in 0 .. 1, and
     * returns MLT_SEARCHER_OK; or WAIT (only while trials run), EXHAUSTED,
     * FAILED. The proposal should follow from settings, seed and query alone:
     * mltune may ask twice, throw an answer away, and after a crash tells a
     * fresh plug-in the same trials again. */
    int (*ask)(void *state, const struct mlt_searcher_query *query,
               double unit[], struct mlt_searcher_error *err);

    /* Optional (NULL). Releases what open made. */
    void (*close)(void *state);
};

/* The plug-in's one symbol. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
extern const struct mlt_searcher_ops mltune_searcher;

#ifdef __cplusplus
}
#endif
#endif
