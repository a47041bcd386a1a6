/* Exports: a run as other programs read it.
 *
 * What is many (points of progress, records) is read from the journal one by
 * one while it is written; what stays in memory is the run's history, which is
 * bounded but for its trials. Nothing is changed in the state folder, and a run
 * that is under way can be exported as it is.
 */
#ifndef CLI_EXPORT_H
#define CLI_EXPORT_H

#include "cli/replay.h"
#include "searchers/space.h"

#include <stdio.h>

/* How far a branch belongs to the surviving lineage. */
struct export_reach {
    branch_id branch;
    clock_no clocks; /* branch clocks up to which it does; UINT64_MAX: all */
};

struct export_source {
    struct journal *journal;
    const struct replayed *run;
    struct space space; /* len 0 where the configuration has none */
    /* The surviving lineage, newest first; owned. */
    struct export_reach *reach;
    size_t reaches;
};

/* @run stays the caller's and must outlive it. Errors: ERR_NOMEM. */
enum err export_open(struct export_source *s, struct journal *journal,
                     const struct replayed *run);
void export_close(struct export_source *s);

/* Wall time of @at_s of the run, seconds since the epoch. */
double export_wall(const struct export_source *s, double at_s);

/* One window of progress. */
struct export_point {
    branch_id branch;
    clock_no clock;        /* global, of its first clock */
    clock_no branch_clock; /* of the lineage, at its end */
    double at_s;           /* of its report */
    struct record_window w;
    bool surviving;
};

/* Every window of progress of the run, in the order of the journal. @visit
 * ends the walk by an error, which is passed on. */
typedef enum err export_point_visit(void *ctx, const struct export_point *p);
enum err export_each_point(const struct export_source *s,
                           export_point_visit *visit, void *ctx,
                           struct fault *f);

/* Mean loss of a window; NAN of an empty one. */
double export_loss(const struct record_window *w);

/* A format. */
struct export_ops {
    const char *name, *summary;
    bool folder; /* makes a folder of files; else one file */
    /* Writes to @out, an open file, or (folder) to files in @path, an empty
     * folder. Errors: ERR_IO (errno in @f), ERR_NOMEM, those of the journal. */
    enum err (*write)(const struct export_source *s, FILE *out,
                      const char *path, struct fault *f);
};

extern const struct export_ops export_csv;
extern const struct export_ops export_jsonl;
extern const struct export_ops export_tensorboard;
extern const struct export_ops export_mlflow;
extern const struct export_ops export_optuna;

/* For writers of folders: opens @name in @path to be written. NULL: @f says
 * why. export_done closes it; ERR_IO where anything has failed. */
FILE *export_file(const char *path, const char *name, struct fault *f);
enum err export_done(FILE *file, enum err err, const char *name,
                     struct fault *f);

#endif
