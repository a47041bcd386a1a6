#include "cli/state/model_find.h"

#include "cli/state/model_io.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Neither a model's folder nor a run: the folder of a run has its model. */
static enum err refuse(const char *word, const char *state, struct fault *f)
{
    char path[FILE_PATH_MAX];
    bool inside = (size_t)snprintf(path, sizeof(path), "%s/model/" MODEL_FILE,
                                   word) < sizeof(path) &&
                  access(path, F_OK) == 0;

    return fault_set(f, ERR_NOENT,
                     "%s: expected a model folder (with " MODEL_FILE
                     " in it) or a run of %s, found neither%s%s%s",
                     word, state, inside ? "; did you mean " : "",
                     inside ? word : "", inside ? "/model?" : "");
}

static enum err model_of_run(const char *word, const char *state,
                             struct found_model *out, struct fault *f)
{
    struct replayed run = {.id = ""};
    char path[FILE_PATH_MAX];
    struct journal *j = NULL;
    const char *model;
    enum err err = replay_open(state, path, &j, f);

    if (!err)
        err = replay_run(j, path, word, &run, f);
    journal_close(j);
    if (err == ERR_NOENT)
        return refuse(word, state, f);
    if (err)
        return err;
    model = json_string_value(json_object_get(run.result, "model"));
    if (!model)
        err = fault_set(f, ERR_NOENT,
                        "run %s has written no model yet (it is %s); mltune "
                        "save %s makes one of its last snapshot",
                        run.id, run.ended ? run.status : "not at its end",
                        run.id);
    else if ((size_t)snprintf(out->dir, sizeof(out->dir), "%s", model) >=
             sizeof(out->dir))
        err = fault_set(f, ERR_INVAL, "%s: the path is too long", word);
    snprintf(out->name, sizeof(out->name), "%s", run.id);
    replayed_deinit(&run);
    return err;
}

/* The last name of the folder @word; "model" where it has none (., /). */
static void name_folder(const char *word, char out[FILE_PATH_MAX])
{
    size_t end = strlen(word), begin;

    while (end > 0 && word[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && word[begin - 1] != '/'; begin--)
        ;
    word += begin;
    end -= begin;
    if (end == 0 || word[end - 1] == '.' || end >= FILE_PATH_MAX) {
        word = "model";
        end = strlen(word);
    }
    snprintf(out, FILE_PATH_MAX, "%.*s", (int)end, word);
}

enum err model_find_run(const char *word, const char *state,
                        struct found_model *out, struct fault *f)
{
    assert(word && state && out);
    return model_of_run(word, state, out, f);
}

enum err model_find(const char *word, const char *state,
                    struct found_model *out, struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err;

    assert(word && state && out);
    err = file_join(path, word, MODEL_FILE, f);
    if (err)
        return err;
    if (access(path, F_OK) != 0)
        return model_of_run(word, state, out, f);
    snprintf(out->dir, sizeof(out->dir), "%s", word);
    name_folder(word, out->name);
    return ERR_OK;
}
