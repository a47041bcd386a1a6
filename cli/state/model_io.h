/* model.json: what the arrays of a model folder are and where they come from.
 *
 *   {"version": 1, "mltune": "0.1.0", "run": ID,
 *    "app": NAME, "settings": {the run's "app" object}, "folder": where its
 *    relative paths start, "data": settings.data,
 *    "setting": {tunable: value}, "metric": {"name", "higher_better", "value"}
 *    or null, "loss": mean or null, "epoch": which, "seed": n,
 *    "tables": [{"name", "rows", "width", "type"}, ...],
 *    "details": {what the application adds}}
 *
 * Written and read here and nowhere else.
 */
#ifndef CLI_MODEL_IO_H
#define CLI_MODEL_IO_H

#include "base/fault.h"
#include "base/file_io.h"
#include "tuner/history/history.h"

#include <jansson.h>
#include <stdint.h>

enum { MODEL_VERSION = 1 };

#define MODEL_FILE "model.json"

/* Absolute name of @out (--out), where a model is to be put: a folder that is
 * new, empty, or an earlier model, which is replaced. Errors: ERR_EXIST, it
 * holds something else; those of folder_absolute. */
enum err model_place(const char *out, char dir[FILE_PATH_MAX], struct fault *f);

/* Facts about a model; all borrowed for the call. */
struct model_facts {
    const char *run, *app, *folder;
    const json_t *settings; /* the run's "app" object */
    const json_t *setting;  /* NULL: {} */
    const json_t *saved;    /* `data` of the answer to `save`; NULL: {} */
    const json_t *metric;   /* NULL: null */
    double loss;            /* NAN: null */
    uint32_t epoch;
    uint64_t seed;
};

/* Writes DIR/model.json, whole or not at all. Errors: ERR_IO, ERR_NOMEM. */
enum err model_write(const char *dir, const struct model_facts *facts,
                     struct fault *f);

/* Writes DIR/model.json of run @run: the parameters of epoch @e (NULL: of none
 * that ended) of the history @h. @config: the run's, defaults and all; @folder:
 * where its paths start; @saved: as in the facts. Errors: as model_write. */
enum err model_write_epoch(const char *dir, const struct history *h,
                           const struct history_epoch *e, const char *run,
                           const char *folder, const json_t *config,
                           const json_t *saved, struct fault *f);

/* A model that was read; everything borrowed from `json`. */
struct model {
    json_t *json; /* owned */
    const char *app, *folder;
    const json_t *settings, *setting;
    uint64_t seed;
};

/* Reads DIR/model.json. Errors: ERR_IO (no such folder or file), ERR_FORMAT (no
 * model, with the member that is wrong), ERR_VERSION (of a later mltune),
 * ERR_NOMEM. */
enum err model_read(const char *dir, struct model *out, struct fault *f);

/* Accepts a zeroed one. */
void model_deinit(struct model *m);

#endif
