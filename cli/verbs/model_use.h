/* A saved model, opened by a verb that uses it: the model folder, or the run
 * that wrote it. One owner thread.
 */
#ifndef CLI_MODEL_USE_H
#define CLI_MODEL_USE_H

#include "base/fault.h"
#include "base/file_io.h"
#include "cli/state/model_find.h"
#include "cli/state/model_io.h"
#include "ps/node/host_io.h"

#include <jansson.h>
#include <stdbool.h>

struct model_use {
    struct model model;
    char dir[FILE_PATH_MAX]; /* the model folder */
    struct host *host;       /* owned */
    json_t *config;          /* owned */
};

/* Most memory of a verb that uses a model: @text, as of model_use_open. */
#define MODEL_MEMORY_OPTION(text)                                              \
    {                                                                          \
        "memory", 0, OPTION_TEXT, "SIZE",                                      \
            "most memory for data and model (half of what is free)", &(text)   \
    }

/* Opens the application of @model with @data, relative to the current folder,
 * and the model's tables: to evaluate, or to @predict. @state is where runs are
 * looked up; @memory bounds data and model, "8GiB" (NULL: half of what is
 * free). On error there is nothing to close. Errors: ERR_NOENT (neither a
 * model folder nor a run with a model), those of model_read, of the journal and
 * of host_open; ERR_UNSUPPORTED (a program of the user's own; cannot predict).
 */
enum err model_use_open(const char *model, const char *state, const char *data,
                        const char *memory, bool predict, struct model_use *out,
                        struct fault *f);
void model_use_close(struct model_use *u);

#endif
