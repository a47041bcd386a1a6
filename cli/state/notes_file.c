#include "cli/state/notes_file.h"

#include "api/view/notes.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/run_files.h"
#include "cli/state/mend.h"
#include "tuner/history/journal_list_io.h"
#include "tuner/shell/state_io.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each byte of a text may be six in JSON. */
enum {
    BYTES_MAX = 6 * (NOTES_TEXT_MAX + NOTES_TAGS_MAX * (NOTES_TAG_MAX + 8)),
    VERSION = 1
};

static enum err path_of(const char *state, const char *id,
                        char out[FILE_PATH_MAX], struct fault *f)
{
    char name[RUN_ID_MAX + 24];

    assert(id[0]);
    snprintf(name, sizeof(name), "runs/%s/" RUN_NOTES, id);
    return file_join(out, state, name, f);
}

/* Without its version it is what people may send. */
static enum err from_json(json_t *json, const char *path, json_t **out,
                          struct fault *f)
{
    json_int_t version = json_integer_value(json_object_get(json, "version"));
    struct response_faults faults = {0};

    if (version > VERSION)
        return fault_set(f, ERR_VERSION, "%s: a later mltune wrote it", path);
    json_object_del(json, "version");
    if (version != VERSION || !notes_check(json, &faults))
        return fault_set(
            f, ERR_FORMAT, "%s is damaged: %s %s", path, faults.item[0].pointer,
            faults.len ? faults.item[0].detail : "expected version 1");
    *out = notes_changed(NULL, json);
    return *out ? ERR_OK : fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
}

enum err notes_file_read(const char *state, const char *id, json_t **out,
                         struct fault *f)
{
    char path[FILE_PATH_MAX], *text = NULL;
    json_t *json = NULL;
    struct stat st;
    size_t len;
    enum err err = path_of(state, id, path, f);

    if (!err && lstat(path, &st) != 0)
        return ERR_NOENT;
    if (!err)
        err = file_read(path, BYTES_MAX, &text, &len, f);
    if (!err)
        err = json_load(text, len, &json, NULL, f);
    if (!err)
        err = from_json(json, path, out, f);
    json_decref(json);
    mem_free(text);
    return err;
}

/* On the disk on return. @notes: as notes_changed gives them. Errors: ERR_IO,
 * ERR_NOMEM; then nothing has changed. */
static enum err notes_file_write(const char *state, const char *id,
                                 const json_t *notes, struct fault *f)
{
    char path[FILE_PATH_MAX];
    json_t *json =
        json_pack("{s:i, s:O, s:O}", "version", VERSION, "tags",
                  notes_tags(notes), "note", json_object_get(notes, "note"));
    char *text = json ? json_write(json, 2) : NULL;
    enum err err = path_of(state, id, path, f);

    json_decref(json);
    if (!err && !text)
        err = fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    if (!err)
        err = file_write(path, text, strlen(text), f);
    mem_free(text);
    return err;
}

/* What the index of the journal shows of the run has other notes. Where the
 * journal cannot be written, `mltune ls --json` shows those for a while: that
 * is why it is done before the change, too, and may fail once. */
static void unlist(const char *state, const char *id)
{
    char path[FILE_PATH_MAX];
    struct journal *j = NULL;

    if (file_join(path, state, "mltune.db", NULL) == ERR_OK &&
        access(path, F_OK) == 0 &&
        mend_open(state, true, JOURNAL_BUSY_MS, &j, NULL) == ERR_OK)
        journal_unlist(j, id, NULL);
    journal_close(j);
}

enum err notes_file_change(const char *state, const char *id,
                           const json_t *change, json_t **out, struct fault *f)
{
    struct response_faults faults = {0};
    json_t *had = NULL, *now = NULL;
    enum err err;

    if (!notes_check(change, &faults))
        return fault_set(f, ERR_INVAL, "%s: %s", faults.item[0].pointer,
                         faults.item[0].detail);
    err = notes_file_read(state, id, &had, f);
    if (err == ERR_NOENT)
        err = ERR_OK;
    if (!err) {
        unlist(state, id);
        now = notes_changed(had, change);
        err = now ? notes_file_write(state, id, now, f)
                  : fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    }
    json_decref(had);
    if (err) {
        json_decref(now);
        return err;
    }
    unlist(state, id);
    *out = now;
    return ERR_OK;
}

void notes_file_tell(const char *id, const struct fault *f, enum err err)
{
    if (err && err != ERR_NOENT)
        log_event(LOG_ERROR, "notes_not_read", "run=%s reason=\"%s\"", id,
                  f->text);
}

uint64_t notes_file_mark(const char *state, const char *id)
{
    char path[FILE_PATH_MAX];
    struct stat st;

    if (path_of(state, id, path, NULL) != ERR_OK || lstat(path, &st) != 0)
        return 0;
    /* It is never changed in place: each is a new file. */
    return (uint64_t)st.st_ino * 1000003 + (uint64_t)st.st_ctim.tv_sec * 1009 +
           (uint64_t)st.st_ctim.tv_nsec + 1;
}
