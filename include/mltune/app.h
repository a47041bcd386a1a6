/* mltune training applications: what the runtime asks of them.
 *
 * An application declares tables, fills their initial rows, and computes one
 * clock of one worker at a time; the runtime owns threads, branches, order of
 * the samples, learning rates, reports and the end. Whatever outlives a clock
 * is in tables, so that a fork carries it.
 *
 *   open ─► declare ─► init (each worker) ─► run_clock … run_clock ─► close
 *
 * Nothing here knows about tuning: the same application runs with or without.
 *
 * An application of your own is a shared object with one symbol, `mltune_app`:
 *
 *     #include <mltune/app.h>
 *
 *     const struct mlt_app_ops mltune_app = {MLT_APP_VERSION, "mine", ...};
 *
 *     cc -shared -fPIC -o libmine.so mine.c `pkg-config --cflags mltune`
 *     "app": {"plugin": "libmine.so", ... its settings}
 *
 * It calls the functions of mltune/ps.h and of this file without being linked
 * with them: the node that loads it has them. A program that wants to be the
 * process itself is linked with them, and calls mlt_node_run.
 */
#ifndef MLTUNE_APP_H
#define MLTUNE_APP_H

#include "mltune/ps.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version 2 added `memory_limit`, `model` and `predict` of struct
 * mlt_app_config and `columns` and `predict` of struct mlt_app_ops.
 * Applications of version 1 go on to run; they cannot predict. Version 3 added
 * `truth`, for the further scores of `mltune eval`. Version 4 calls `columns`,
 * `predict` and `truth` while it trains, too, for the configuration's "metric".
 * Version 5 added `data` of struct mlt_app_info. Version 6 added `keep` and
 * `save_kept`, version 7 `plan`. */
#define MLT_APP_VERSION 7

enum { MLT_DATA_MAX = 65536 }; /* bytes of mlt_app_info.data */

/* MLT_WHOLE, since version 4: a value of all samples together, times their
 * number. (A mean between 0 and 1 of which more is better is taken for a share
 * of hits.) */
enum mlt_reduction { MLT_MEAN, MLT_SQRT_MEAN, MLT_EXP_MEAN, MLT_WHOLE };

/* The way the samples of an epoch reach run_clock. */
enum mlt_order {
    /* The runtime shuffles 0 .. samples - 1 anew each epoch and hands each
     * worker its share of the next clock's samples. */
    MLT_ORDER_SAMPLES,
    /* The application has cut its data into `parts` fixed parts a pass; the
     * runtime shuffles the parts and hands out part numbers. */
    MLT_ORDER_PARTS
};

/* Facts that an application tells in open. Zeros, and an unknown floor, before.
 */
struct mlt_app_info {
    uint64_t samples;            /* training samples an epoch */
    uint64_t validation_samples; /* 0: there is no validation */
    enum mlt_order order;
    /* Clocks a pass. MLT_ORDER_PARTS: >= 1. MLT_ORDER_SAMPLES: 0, a clock is a
     * batch; else a clock is that part of the samples, whatever the batch
     * size. At most `samples`. */
    uint64_t parts;
    const char *metric;       /* "accuracy", "rmse", ...; NULL without one */
    int metric_higher_better; /* 1: higher is better */
    enum mlt_reduction metric_reduction;
    double loss_floor; /* no loss is ever below; NAN: unknown */
    /* Since version 5. What the training samples hold, for who looks at the
     * run: one JSON object of at most MLT_DATA_MAX bytes, as docs/data.md has
     * it for tables. Borrowed until close; NULL: nothing is said. */
    const char *data;
};

struct mlt_app_config {
    size_t size;
    const char *settings; /* the "app" object of the configuration, as JSON */
    const char *folder;   /* where relative paths start */
    unsigned workers;     /* over all nodes */
    uint64_t seed;
    int evaluate; /* 1: all data is training and validation data alike, so
                   * that a probe clock gives its loss and a testing clock its
                   * metric; nothing is split off */
    /* Since version 2. Bytes that it may hold besides what the parameter server
     * does, of the user's memory.limit; 0: what the machine has left. Data that
     * need more are to be refused while they are loaded. */
    uint64_t memory_limit;
    /* The model folder to evaluate or to predict with; NULL
     * where a model is trained. */
    const char *model;
    /* 1: as evaluate, which is 1 too, but `predict` is called instead of
     * run_clock, and the data may lack what is to be predicted. */
    int predict;
    /* Where @size reaches so far. 1: the run began before, with these settings,
     * by an older program maybe: what was taken then is to be taken now. */
    int goes_on;
};

/* A column of what an application predicts. */
struct mlt_column {
    const char *name; /* "class", "probability_2", "rating" */
    /* [labels] texts that the column's numbers 0 .. labels - 1 stand for; NULL:
     * the numbers are meant. */
    const char *const *label;
    uint32_t labels;
};

enum mlt_clock_type {
    MLT_CLOCK_TRAINING,
    MLT_CLOCK_PROBE,  /* as training; the runtime drops the branch afterwards */
    MLT_CLOCK_TESTING /* validation data; report the metric, update nothing */
};

/* One clock of one worker. Borrowed, valid during run_clock. */
struct mlt_clock_ctx {
    enum mlt_clock_type type;
    uint64_t clock; /* branch clocks run before this one */
    uint64_t epoch; /* passes over the data before this one, from 0 */
    /* MLT_ORDER_SAMPLES, training and probe: this worker's samples, shuffled;
     * they are those at places first .. first + count - 1 of the epoch's order,
     * whatever the number of workers and the batch size.
     * MLT_CLOCK_TESTING: samples is NULL, the share is the validation samples
     * first .. first + count - 1. */
    const uint64_t *samples; /* [count], each below info.samples */
    uint64_t first;
    uint64_t count; /* may be 0: run_clock is called all the same */
    uint64_t part;  /* MLT_ORDER_PARTS: the part to run, below info.parts */
    uint64_t clock_samples; /* samples of this clock over all workers;
                             * MLT_ORDER_PARTS: were all parts equal */
    uint64_t seed;          /* of this worker and clock, from the branch's own
                             * random state: equal in sibling branches */
};

/* Reports @sum over @samples of the loss (training, probe) or of the metric's
 * terms (testing). Several calls in a clock add up. A non-finite sum means that
 * the branch diverged. */
MLT_API void mlt_report(struct mlt_worker *w, double sum, uint64_t samples);

/* Value of a tunable that the application declared itself; @fallback where this
 * run does not have it. (Learning rate, momentum and staleness act in the
 * parameter server; batch size in the order of the samples.) "learning_rate" is
 * the rate that acts, for steps that the application takes itself. */
MLT_API double mlt_tunable(const struct mlt_worker *w, const char *name,
                           double fallback);

struct mlt_app_ops {
    unsigned version;    /* MLT_APP_VERSION */
    const char *name;    /* "mf" */
    const char *summary; /* one line for `mltune apps` */
    /* JSON schema of its settings ("properties" with type, default, minimum,
     * description); name, data, test, test_fraction, clock included where the
     * application has them. Checked before open is called. */
    const char *schema;
    /* Tunables that act in this application, NULL-terminated: of the known
     * names those that can act, then its own. Weight decay and warm-up are 0
     * where they are not named; both act in the parameter server. (Warm-up
     * counts the clocks that were ordered: who ends several in one has a
     * steeper rise within a slice.) Who names "learning_rate" and gives each of
     * its tables a rule is taken to step by it (mlt_tunable). */
    const char *const *tunables;

    /* Reads the data, checks it, sizes the model. Called once a node, before
     * any thread; may take long. On error nothing is left behind and @err says
     * file, place, and what was expected. */
    int (*open)(const struct mlt_app_config *config, struct mlt_app_info *info,
                void **app, struct mlt_error *err);
    /* Declares its tables. */
    int (*declare)(void *app, struct mlt_ps *ps, struct mlt_error *err);
    /* Fills the initial rows that worker @w owns, and its local tables; runs in
     * every worker at the same time. The values depend on the seed and the row,
     * not on the number of workers. */
    int (*init)(void *app, struct mlt_worker *w);
    /* One clock of one worker. All workers at the same time. Must not block but
     * in calls of ps.h; returns 0, or an error that fails the branch. The
     * runtime calls mlt_clock after it. */
    int (*run_clock)(void *app, struct mlt_worker *w,
                     const struct mlt_clock_ctx *ctx);
    /* Optional (NULL): more files for the model folder beside the tables, such
     * as the outside names of rows; and members for model.json, as one JSON
     * object in @json (at most @size bytes with the end). Written completely or
     * not at all. The first node alone is asked, when all have written theirs
     * of the tables. */
    int (*save)(void *app, const char *dir, char *json, size_t size,
                struct mlt_error *err);
    /* Optional (NULL): makes an app that was opened with `evaluate` ready to
     * evaluate the model in @dir: checks that its shapes fit the data, maps
     * outside names. Called before declare; the runtime then fills the tables
     * from DIR/NAME.npy. */
    int (*load)(void *app, const char *dir, struct mlt_error *err);
    void (*close)(void *app);

    /* Since version 2, optional (both or none).
     * What `predict` says of a sample, of an app that was opened with `predict`
     * and has loaded its model: *@column is [*@count], *count >= 1, the app's,
     * until close. */
    int (*columns)(void *app, const struct mlt_column **column, uint32_t *count,
                   struct mlt_error *err);
    /* Predicts samples @first .. @first + @count - 1 of info.samples, in the
     * order of the data, into @out[count][columns]. In one worker, which may
     * read rows and changes none; returns 0 or an error. */
    int (*predict)(void *app, struct mlt_worker *w, uint64_t first,
                   uint64_t count, double *out);

    /* Since version 3, optional (NULL). What is true of samples @first ..
     * @first + @count - 1, into @out[count], in the unit of the first column:
     * a class's number, or a value. Of an app that was opened with `evaluate`
     * alone; columns and predict are then called of it too. Its columns are
     * one number, or a class with labels and a probability for each class.
     * Returns 0 or an error.
     *
     * Since version 4 all three are also called of an app that trains, where
     * the configuration asks for a metric that is not the app's own. The
     * samples are those of the validation, below info.validation_samples, and
     * `predict` runs in all workers of a node at the same time, as run_clock of
     * a testing clock does. */
    int (*truth)(void *app, uint64_t first, uint64_t count, double *out);

    /* Since version 6, optional (NULL). As `save`, but called once, on the
     * first node, when the data are loaded, and without any table: what `save`
     * takes from the data alone goes into @dir and @json. `mltune save` makes
     * a model of that and of a snapshot, also when the data are gone. Where
     * `save` reads no tables it may be the same function. */
    int (*keep)(void *app, const char *dir, char *json, size_t size,
                struct mlt_error *err);
    /* Optional beside it: the files in @dir, which has the tables, that `save`
     * would have written there: of those that `keep` left in the folder @kept,
     * and of its object @json. NULL: copies of them all. */
    int (*save_kept)(const char *kept, const char *json, const char *dir,
                     struct mlt_error *err);

    /* Since version 7, optional (NULL). How its work is split among workers, in
     * words, for `mltune run --dry-run`: lines that end with a newline; NULL:
     * nothing to say. The app's, until close. Called after declare. */
    const char *(*plan)(void *app);
};

/* The application that a plug-in defines. (In C++, too, this declaration gives
 * it the linkage that it needs.) */
extern MLT_API const struct mlt_app_ops mltune_app;

/* Trains @ops as a node of a tuner until that says that the run is over: what
 * `mltune node` does, for a program that `"app": {"command": [...]}` starts.
 * Returns the exit code that the program is to end with: 0 the tuner said so, 1
 * the application could not be loaded or the node not go on (said on stderr),
 * 69 the tuner is gone, 128 + a signal that asked for the end.
 *
 * The endpoint, the number and the place to meet are read from MLTUNE_TUNER,
 * MLTUNE_NODE and MLTUNE_MEET; of @argv, as main has it, --tuner ENDPOINT,
 * --node N and --meet PLACE come before them, and the rest is the program's.
 * The application's settings are `settings` of the configuration's "app". To be
 * called once, by the program's first thread before it starts others: blocks
 * SIGINT, SIGTERM and SIGHUP and ignores SIGPIPE. Borrowed: all. */
MLT_API int mlt_node_run(const struct mlt_app_ops *ops, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
