#include "tuner/history/checkpoint_io.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum { CHECKPOINT_BYTES_MAX = 1 << 30 };

static const char *const names[] = {"checkpoint", "checkpoint.old"};

static enum err write_one(const char *run_path,
                          const struct checkpoint_start *start,
                          const struct history *h, enum history_pack_how how,
                          bool keep, size_t *bytes, struct fault *f)
{
    char path[FILE_PATH_MAX], old[FILE_PATH_MAX];
    struct text t = {0};
    enum err err = file_join(path, run_path, names[0], f);

    if (!err)
        err = file_join(old, run_path, names[1], f);
    if (!err && (err = checkpoint_encode(start, h, how, &t)))
        fault_set(f, err, "%s: %s", path, err_text(err));
    /* The first one has none before it. Where this fails for another reason
     * the next write does, too, or the one before is lost, not this one. */
    if (!err && keep)
        file_rename(path, old, NULL);
    if (!err)
        err = file_write(path, text_so_far(&t), text_length(&t), f);
    if (!err && bytes)
        *bytes = text_length(&t);
    text_deinit(&t);
    return err;
}

enum err checkpoint_write(const char *run_path,
                          const struct checkpoint_start *start,
                          const struct history *h, enum history_pack_how how,
                          size_t *bytes, struct fault *f)
{
    assert(run_path && start);
    return write_one(run_path, start, h, how, true, bytes, f);
}

enum err checkpoint_mend(const char *run_path,
                         const struct checkpoint_start *start,
                         const struct history *h, struct fault *f)
{
    assert(run_path && start);
    return write_one(run_path, start, h, HISTORY_PACK_ALL, false, NULL, f);
}

/* What one of the files has of what is missing still. */
static enum err read_one(const char *run_path, const char *name,
                         struct checkpoint *out, struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct checkpoint c = {.has_start = false};
    char *data = NULL;
    size_t len = 0;
    enum err err = file_join(path, run_path, name, f);

    if (!err)
        err = file_read(path, CHECKPOINT_BYTES_MAX, &data, &len, f);
    if (!err) {
        err = checkpoint_decode(data, len, &c, f);
        if (err)
            fault_wrap(f, "%s", path);
    }
    mem_free(data);
    if (c.has_start && !out->has_start) {
        out->start = c.start;
        out->has_start = true;
        c.start = (struct checkpoint_start){.run = NULL};
    }
    if (c.has_history && !out->has_history) {
        out->history = c.history;
        out->has_history = true;
        c.has_history = false;
    }
    checkpoint_deinit(&c);
    return err;
}

enum err checkpoint_read(const char *run_path, struct checkpoint *out,
                         struct fault *told, struct fault *f)
{
    struct fault first = {0}; /* of a file that is damaged */
    enum err found = ERR_NOENT;

    assert(run_path && out);
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < 2 && !(out->has_start && out->has_history); i++) {
        struct fault why = {0};
        enum err err = read_one(run_path, names[i], out, &why);

        if (err == ERR_NOMEM || err == ERR_VERSION) {
            checkpoint_deinit(out);
            if (told)
                *told = first;
            return fault_set(f, err, "%s", why.text);
        }
        if ((err == ERR_FORMAT || err == ERR_IO) && !first.code)
            first = why;
        if (err != ERR_NOENT)
            found = err;
        /* The first of a run has no history, and none is missing. */
        if (!err)
            break;
    }
    if (told)
        *told = first;
    if (out->has_start || out->has_history)
        return ERR_OK;
    return found == ERR_FORMAT || found == ERR_IO
               ? fault_set(f, found, "%s", first.text)
               : fault_set(f, ERR_NOENT, "%s has no checkpoint", run_path);
}
