#include "cli/state/salvage.h"

#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { COMMIT_EVERY = 4096 };

void salvage_lose(struct salvage *s, const char *format, ...)
{
    char text[FAULT_TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    s->losses++;
    if (s->tell)
        s->tell(s->ctx, text);
}

/* ---- which runs there are ------------------------------------------------ */

static enum err add_run(struct salvage *s, const char *id)
{
    if (!run_id_valid(id))
        return ERR_OK;
    if (s->runs == s->capacity &&
        mem_grow((void **)&s->id, &s->capacity, sizeof(*s->id), s->runs + 1))
        return ERR_NOMEM;
    snprintf(s->id[s->runs++], sizeof(*s->id), "%.*s", RUN_ID_MAX, id);
    return ERR_OK;
}

static enum err take_run(void *ctx, const struct journal_run *run)
{
    return add_run(ctx, run->id);
}

enum err salvage_unlisted(struct salvage *s, const char *path, int error,
                          struct fault *f)
{
    assert(s && path);
    if (error == ENOMEM || error == EMFILE || error == ENFILE)
        return fault_errno(f, error == ENOMEM ? ERR_NOMEM : ERR_IO, error,
                           "read the folder %s", path);
    if (error != ENOENT)
        salvage_lose(s, "the folder %s: %s", path, strerror(error));
    return ERR_OK;
}

/* Runs that the journal does not know any more have folders still; @known of
 * the others come first. */
static enum err add_folders(struct salvage *s, size_t known, struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct dirent *entry;
    enum err err = file_join(path, s->from, "runs", f);
    DIR *d = err ? NULL : opendir(path);

    if (!d && !err)
        err = salvage_unlisted(s, path, errno, f);
    while (d && !err && (entry = readdir(d))) {
        bool listed = false;

        for (size_t i = 0; i < known && !listed; i++)
            listed = strcmp(s->id[i], entry->d_name) == 0;
        if (!listed)
            err = add_run(s, entry->d_name);
    }
    if (d)
        closedir(d);
    return err;
}

enum err salvage_list(struct salvage *s, struct fault *f)
{
    struct fault why = {0};
    enum err err = ERR_OK;

    if (s->old)
        err = journal_each_run(s->old, take_run, s, &why);
    if (err && err != ERR_NOMEM) {
        salvage_lose(s, "the journal: %s", why.text);
        journal_close(s->old);
        s->old = NULL;
        err = ERR_OK;
    }
    if (!err)
        err = add_folders(s, s->runs, f);
    return err == ERR_NOMEM ? fault_set(f, err, "out of memory") : err;
}

/* ---- one run ------------------------------------------------------------- */

/* Its history says whether it has ended, and as what. */
static enum err take_end(struct replayed *out)
{
    const struct record_run_finished *end = history_end(&out->history);

    if (!history_finished(&out->history) || end->status == RUN_INTERRUPTED)
        return ERR_OK;
    out->ended = true;
    snprintf(out->status, sizeof(out->status), "%s",
             run_status_name(end->status));
    snprintf(out->reason, sizeof(out->reason), "%s", end->reason);
    out->result = history_result(&out->history, NULL, NULL);
    return out->result ? ERR_OK : ERR_NOMEM;
}

/* From its checkpoint alone. */
static enum err read_checkpoint(struct salvage *s, const char *id,
                                struct replayed *out, struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct checkpoint c;
    struct fault told = {0};
    enum err err;

    memset(out, 0, sizeof(*out));
    history_init(&out->history);
    replay_folder(s->from, id, path);
    err = checkpoint_read(path, &c, &told, f);
    if (err)
        return err;
    snprintf(out->id, sizeof(out->id), "%s", id);
    if (!c.has_start || json_load(c.start.config, strlen(c.start.config),
                                  &out->config, NULL, NULL) != ERR_OK)
        err = fault_set(f, ERR_FORMAT, "its configuration is lost");
    if (!err) {
        snprintf(out->name, sizeof(out->name), "%s", c.start.name);
        out->began_ns = out->last_ns = c.start.began_ns;
    }
    if (!err && c.has_history) {
        out->history = c.history;
        c.has_history = false;
        out->last_ns = (int64_t)(history_wall_of(&out->history,
                                                 history_at_s(&out->history)) *
                                 1e9);
        salvage_lose(s, "its records after the checkpoint, number %llu",
                     (unsigned long long)history_records(&out->history));
        err = take_end(out);
    }
    checkpoint_deinit(&c);
    return err;
}

enum err salvage_find(struct salvage *s, const char *id, struct replayed *out,
                      struct fault *f)
{
    struct fault why = {0};
    enum err err = ERR_NOENT;

    memset(out, 0, sizeof(*out));
    if (s->old)
        err = replay_run(s->old, s->from, id, out, &why);
    if (!err && out->damage[0])
        salvage_lose(s, "%s", out->damage);
    if (!err && out->passed_over)
        salvage_lose(s, "%llu records in all",
                     (unsigned long long)out->passed_over);
    if (err && err != ERR_NOMEM)
        err = read_checkpoint(s, id, out, &why);
    if (err == ERR_NOMEM)
        return fault_set(f, err, "out of memory");
    if (err) {
        salvage_lose(s,
                     "neither the journal nor a checkpoint has it (%s): it "
                     "cannot be resumed; its folder stays as it is",
                     why.text);
        replayed_deinit(out);
        return ERR_NOENT;
    }
    return ERR_OK;
}

/* ---- records ------------------------------------------------------------- */

struct transfer {
    struct salvage *s;
    struct fault *fault;
};

static enum err append(struct transfer *t, const struct journal_record *stored,
                       const char *text, size_t len)
{
    struct salvage *s = t->s;
    enum err err;

    journal_skip(s->new, stored->seq - 1);
    err = journal_append(s->new, stored->kind, text, len, stored->wall_ns,
                         t->fault);
    if (err || ++s->pending < COMMIT_EVERY)
        return err;
    s->pending = 0;
    return journal_commit(s->new, false, t->fault);
}

static enum err append_changed(struct transfer *t,
                               const struct journal_record *stored,
                               json_t *json)
{
    char *text = NULL;
    enum err err = t->s->change(t->s->ctx, stored->kind, json);

    if (!err)
        text = json_write(json, 0);
    if (!text)
        return fault_set(t->fault, err ? err : ERR_NOMEM, "out of memory");
    err = append(t, stored, text, strlen(text));
    mem_free(text);
    return err;
}

static enum err take_record(void *ctx, const struct journal_record *stored)
{
    struct transfer *t = ctx;
    json_t *json = NULL;
    enum err err = json_load(stored->json, stored->len, &json, NULL, NULL);

    if (err && err != ERR_NOMEM)
        return ERR_OK; /* told already */
    if (!err)
        err = t->s->change ? append_changed(t, stored, json)
                           : append(t, stored, stored->json, stored->len);
    json_decref(json);
    return err;
}

static enum err copy_records(struct salvage *s, const struct replayed *run,
                             struct fault *f)
{
    struct transfer t = {s, f};
    enum err err = ERR_OK;

    s->pending = 0;
    if (s->old)
        err = journal_each_record(s->old, run->id, 0, take_record, &t, f);
    if (err == ERR_NOENT)
        err = ERR_OK;
    if (!err)
        journal_skip(s->new, history_records(&run->history));
    return err ? err : journal_commit(s->new, true, f);
}

enum err salvage_open(struct salvage *s, const char *to, struct fault *f)
{
    journal_close(s->new);
    s->new = NULL;
    return journal_open(to, true, JOURNAL_BUSY_MS, &s->new, f);
}

enum err salvage_run(struct salvage *s, const struct replayed *run,
                     const char *config, struct fault *f)
{
    char *result = NULL;
    enum err err =
        journal_begin_run(s->new, run->id, run->name, config, run->began_ns, f);

    if (!err)
        err = copy_records(s, run, f);
    if (err || !run->ended)
        return err;
    result = run->result ? json_write(run->result, 0) : NULL;
    if (run->result && !result)
        return fault_set(f, ERR_NOMEM, "out of memory");
    err = journal_end_run(s->new, run->status, run->reason, result,
                          run->last_ns, f);
    mem_free(result);
    return err;
}

void salvage_deinit(struct salvage *s)
{
    journal_close(s->new);
    journal_close(s->old);
    mem_free(s->id);
    s->new = s->old = NULL;
    s->id = NULL;
}
