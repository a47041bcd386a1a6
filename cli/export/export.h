/* Exports: a run as other programs read it.
 *
 * What is many (points of progress, records) is read from the journal one by
 * one while it is written; what stays in memory is the run's history, which is
 * bounded but for its trials. Nothing is changed in the state folder, and a run
 * that is under way can be exported as it is.
 */
#ifndef CLI_EXPORT_H
#define CLI_EXPORT_H

#include "cli/state/lineage.h"
#include "cli/state/model_io.h"
#include "cli/state/replay.h"
#include "cli/state/scalars.h"
#include "searchers/space/space.h"

#include <stdio.h>

struct export_source {
    struct journal *journal;
    const struct replayed *run;
    struct space space;       /* len 0 where the configuration has none */
    struct surviving lineage; /* that survives; owned */
};

/* @run stays the caller's and must outlive it. Errors: ERR_NOMEM. */
enum err export_open(struct export_source *s, struct journal *journal,
                     const struct replayed *run);
void export_close(struct export_source *s);

/* The same as event files have it. */
struct scalars export_scalars(const struct export_source *s);

/* Wall time of @at_s of the run, seconds since the epoch. */
double export_wall(const struct export_source *s, double at_s);

/* How many of the run's first records were folded into a checkpoint, and are in
 * the journal no more (docs/failures.md). */
enum err export_folded(const struct export_source *s, uint64_t *out,
                       struct fault *f);

/* Every window of progress of the run, in the order of the journal; of one
 * whose first records were folded, the points that its history keeps, branch by
 * branch. */
enum err export_each_point(const struct export_source *s, lineage_visit *visit,
                           void *ctx, struct fault *f);

/* Every record of the run up to those in its history, in order. None is read
 * while another is visited: a reader that is slow to take what is written holds
 * nothing up. */
enum err export_each_record(const struct export_source *s,
                            journal_record_visit *visit, void *ctx,
                            struct fault *f);

struct zip;

/* Destination of a format. */
struct export_target {
    FILE *out;         /* of one file, or an archive of many; borrowed */
    const char *path;  /* an empty folder instead; NULL: out */
    const char *place; /* absolute: where that folder will be; NULL: out */
    /* In an archive: its folder; the time of its files. */
    const char *prefix;
    int64_t mtime_s;
    struct zip *zip; /* the archive is one of zip; NULL: of tar; borrowed */
};

/* Content of a file. May be called twice, and must write the same then. */
typedef enum err export_content(const void *ctx, FILE *out, struct fault *f);

/* Writes file @name, '/' between folders, of a format of many. Errors: ERR_IO,
 * ERR_NOMEM, ERR_LIMIT (the name), those of @write; with @f. */
enum err export_file(const struct export_target *t, const char *name,
                     export_content *write, const void *ctx, struct fault *f);

/* After the last file of an archive. */
enum err export_archive_end(const struct export_target *t, struct fault *f);

/* All files of the folder @dir, a model's, as WITHIN/NAME ("": as NAME). A link
 * among them, or another kind of file, is refused before any is written.
 * Errors: those of export_file, ERR_FORMAT. */
enum err export_files(const char *dir, const char *within,
                      const struct export_target *t, struct fault *f);

/* A model folder to export, and its model.json. */
struct export_model {
    const char *dir;
    struct model model;
};

/* A format, of a run or of its model: one of the two functions. */
struct export_ops {
    const char *name, *summary;
    bool folder; /* of many files (export_file), else one: to out */
    /* Errors: ERR_IO, ERR_FORMAT (a damaged model), ERR_UNSUPPORTED (it has no
     * such form), ERR_LIMIT, ERR_NOMEM. */
    enum err (*write_model)(const struct export_model *m,
                            const struct export_target *t, struct fault *f);
    /* Errors: ERR_IO (errno in @f), ERR_NOMEM, those of the journal. */
    enum err (*write)(const struct export_source *s,
                      const struct export_target *t, struct fault *f);
};

extern const struct export_ops export_csv;
extern const struct export_ops export_jsonl;
extern const struct export_ops export_tensorboard;
extern const struct export_ops export_mlflow;
extern const struct export_ops export_optuna;
extern const struct export_ops export_folder; /* "model": the folder as it is */
extern const struct export_ops export_zip;    /* the same as one file */
extern const struct export_ops export_onnx;

#endif
