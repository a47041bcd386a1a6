#include "cli/state/tune_folder.h"

#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CONFIG_BYTES_MAX = 1 << 22 };

#define PROGRAM_FILE "/program.json" /* what app.command names in it */

/* The configuration of run @id; owned by the caller. Errors: ERR_NOENT it has
 * none; others, it cannot be read. */
static enum err read_config(const char *state, const char *id, json_t **out)
{
    char path[FILE_PATH_MAX];
    char *text = NULL;
    size_t len = 0;
    enum err err;

    if (snprintf(path, sizeof(path), "%s/runs/%s/config.json", state, id) >=
        (int)sizeof(path))
        return ERR_INVAL;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return ERR_NOENT;
    err = file_read(path, CONFIG_BYTES_MAX, &text, &len, NULL);
    if (!err)
        err = json_load(text, len, out, NULL, NULL);
    mem_free(text);
    return err;
}

/* NAME of ".../tune/NAME/program.json" into @out. False: @word is no such path.
 */
static bool name_in(const char *word, char out[NAME_MAX + 1])
{
    size_t n = strlen(word), end = strlen(PROGRAM_FILE), at, len;

    if (n <= end || strcmp(word + n - end, PROGRAM_FILE) != 0)
        return false;
    at = n - end;
    while (at > 0 && word[at - 1] != '/')
        at--;
    len = n - end - at;
    if (len == 0 || len > NAME_MAX || word[at] == '.' || at < 6 ||
        strncmp(word + at - 6, "/tune/", 6) != 0)
        return false;
    memcpy(out, word + at, len);
    out[len] = '\0';
    return true;
}

/* Name of the folder of run @id; "": it has none, or (false) it is not known
 * which. */
static bool find_name(const char *state, const char *id, char out[NAME_MAX + 1])
{
    json_t *config = NULL;
    const json_t *word;
    size_t i;
    enum err err = read_config(state, id, &config);

    *out = '\0';
    if (!err)
        json_array_foreach(json_at(config, "/app/command"), i, word)
        {
            if (!*out && json_is_string(word))
                name_in(json_string_value(word), out);
        }
    json_decref(config);
    return !err || err == ERR_NOENT;
}

/* Whether the configuration of a run other than @id names folder @name, or may:
 * one that cannot be read now may be read another time. */
static bool is_shared(const char *state, const char *id, const char *name)
{
    char path[FILE_PATH_MAX], other[NAME_MAX + 1];
    struct dirent *entry;
    bool found = false;
    DIR *runs;

    if (file_join(path, state, "runs", NULL) != ERR_OK ||
        !(runs = opendir(path)))
        return true; /* not known: it stays */
    while (!found && (entry = readdir(runs))) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, id) == 0)
            continue;
        found =
            !find_name(state, entry->d_name, other) || strcmp(other, name) == 0;
    }
    closedir(runs);
    return found;
}

enum err tune_folder_remove(const char *state, const char *id, struct fault *f)
{
    char name[NAME_MAX + 1], tune[FILE_PATH_MAX], path[FILE_PATH_MAX];
    enum err err;

    assert(state[0] == '/');
    assert(id[0]);
    find_name(state, id, name);
    if (!*name || is_shared(state, id, name))
        return ERR_OK;
    err = file_join(tune, state, "tune", f);
    if (!err)
        err = file_join(path, tune, name, f);
    return err ? err : folder_remove(path, f);
}
