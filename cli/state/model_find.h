/* Where a saved model is: the folder that a word names, or that of a run. */
#ifndef CLI_MODEL_FIND_H
#define CLI_MODEL_FIND_H

#include "base/fault.h"
#include "base/file_io.h"
#include "cli/state/replay.h"

/* The operand MODEL, in a verb's help. */
#define MODEL_OPERAND                                                          \
    "MODEL is a model folder, or a run (its id, the beginning of one, or its " \
    "name),\nwhose model it is then. "

struct found_model {
    char dir[FILE_PATH_MAX];
    char name[FILE_PATH_MAX]; /* the run's id, or the folder's last name */
};

/* As model_find, but @word is never a folder: it comes from somebody else, or
 * names a run that is known. */
enum err model_find_run(const char *word, const char *state,
                        struct found_model *out, struct fault *f);

/* @word is a folder with model.json in it, else a run of the folder @state. A
 * run has a model once its end says so. Errors: ERR_NOENT (neither; a run
 * without a model), those of the journal. */
enum err model_find(const char *word, const char *state,
                    struct found_model *out, struct fault *f);

#endif
