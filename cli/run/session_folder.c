/* Files of a session: the run's folder, its model, its log. */
#include "base/clock_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/run_files.h"
#include "cli/basics/console.h"
#include "cli/run/session_internal.h"
#include "cli/state/model_io.h"
#include "cli/state/notes_file.h"
#include "cli/state/replay.h"
#include "tuner/board/step.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum err write_json(const char *path, const json_t *value,
                           struct fault *f)
{
    char *text = value ? json_write(value, 2) : NULL;
    enum err err;

    if (!text)
        return fault_set(f, ERR_NOMEM, "write %s: out of memory", path);
    err = file_write(path, text, strlen(text), f);
    mem_free(text);
    return err;
}

/* Folder of the model. One that is there must be empty or an earlier model: it
 * will be replaced. */
static enum err choose_model_dir(struct session *s, struct fault *f)
{
    return s->o->out ? model_place(s->o->out, s->model_dir, f)
                     : file_join(s->model_dir, s->folder.path, "model", f);
}

enum err session_remember(const char *run_path,
                          const struct checkpoint_start *start, struct fault *f)
{
    char path[FILE_PATH_MAX];
    json_t *o = json_pack("{s:s, s:s}", "folder", start->folder, "out",
                          start->out ? start->out : "");
    enum err err = file_join(path, run_path, "session.json", f);

    assert(run_path);
    assert(start->folder);
    if (!err)
        err = write_json(path, o, f);
    json_decref(o);
    if (!err)
        err =
            checkpoint_write(run_path, start, NULL, HISTORY_PACK_ALL, NULL, f);
    return err;
}

static enum err read_text(const json_t *o, const char *name,
                          char out[FILE_PATH_MAX])
{
    const char *text = json_string_value(json_object_get(o, name));

    if (!text || strlen(text) >= FILE_PATH_MAX)
        return ERR_FORMAT;
    memcpy(out, text, strlen(text) + 1);
    return ERR_OK;
}

static enum err read_session(const char *path, char folder[FILE_PATH_MAX],
                             char out[FILE_PATH_MAX], struct fault *f)
{
    /* Two paths of which each byte may be written as \u007f. */
    enum { BYTES_MAX = 2 * 6 * FILE_PATH_MAX + 64 };
    char *text = NULL;
    json_t *o = NULL;
    size_t len = 0;
    enum err err = file_read(path, BYTES_MAX, &text, &len, f);

    if (!err && (json_load(text, len, &o, NULL, NULL) ||
                 read_text(o, "folder", folder) || read_text(o, "out", out) ||
                 folder[0] != '/'))
        err = fault_set(f, ERR_FORMAT, "%s is damaged", path);
    json_decref(o);
    mem_free(text);
    return err;
}

/* Whether the checkpoint has a copy, which goes to @folder and @out. */
static bool take_copy(const char *run_path, char folder[FILE_PATH_MAX],
                      char out[FILE_PATH_MAX])
{
    struct checkpoint c;
    bool has;

    if (checkpoint_read(run_path, &c, NULL, NULL) != ERR_OK)
        return false;
    has = c.has_start && c.start.folder && c.start.folder[0] == '/' &&
          strlen(c.start.folder) < FILE_PATH_MAX &&
          (!c.start.out || strlen(c.start.out) < FILE_PATH_MAX);
    if (has) {
        memcpy(folder, c.start.folder, strlen(c.start.folder) + 1);
        snprintf(out, FILE_PATH_MAX, "%s", c.start.out ? c.start.out : "");
    }
    checkpoint_deinit(&c);
    return has;
}

enum err session_recall(const char *state, const char *id,
                        char folder[FILE_PATH_MAX], char out[FILE_PATH_MAX],
                        struct fault *f)
{
    char path[FILE_PATH_MAX], run_path[FILE_PATH_MAX];
    char read_folder[FILE_PATH_MAX], read_out[FILE_PATH_MAX];
    struct fault why = {0};
    enum err err;

    assert(state);
    assert(id[0]);
    replay_folder(state, id, run_path);
    err = file_join(path, run_path, "session.json", f);
    if (err)
        return err;
    err = read_session(path, read_folder, read_out, &why);
    if (!take_copy(run_path, folder, out)) {
        if (err)
            return fault_set(f, err, "%s", why.text);
        memcpy(folder, read_folder, FILE_PATH_MAX);
        memcpy(out, read_out, FILE_PATH_MAX);
        return ERR_OK;
    }
    if (err || strcmp(folder, read_folder) != 0 || strcmp(out, read_out) != 0)
        console_error(
            "%s is damaged, missing or changed; its copy in the run's "
            "checkpoint serves",
            path);
    return ERR_OK;
}

/* The folder of a run that goes on; without what was being written when it was
 * interrupted. */
static enum err reopen_folder(struct session *s, struct fault *f)
{
    enum err err = run_folder_open(&s->folder, s->state, s->o->resume, f);

    s->recalled = true;
    if (err)
        return err;
    folder_sweep(s->folder.path);
    /* The address of a tuner that was killed: the port may be another program's
     * now. */
    if (file_join(s->url_path, s->folder.path, "url", NULL) == ERR_OK)
        file_remove(s->url_path);
    return ERR_OK;
}

enum { KEPT_TRIALS_MAX = TUNER_BRANCHES_MAX * HISTORY_SNAPSHOTS_MAX };

/* Those that the snapshots count on. Nobody goes on with a run that is
 * finished: its trials go. */
void session_sweep_snapshots(const struct session *s, bool written_now)
{
    static _Thread_local char trial[KEPT_TRIALS_MAX][HISTORY_TRIAL_FOLDER_MAX];
    const char *keep[2 * HISTORY_SNAPSHOTS_MAX + KEPT_TRIALS_MAX];
    const struct history *h = &s->history;
    bool finished =
        history_finished(h) && history_end(h)->status == RUN_FINISHED;
    size_t n = 0, trials = 0;

    assert(s->o);
    for (size_t i = 0; i < history_snapshots_len(h); i++) {
        const struct record_snapshot_written *w = &history_snapshot_at(h, i)->s;

        if (history_snapshots_len(h) - i > s->o->tuner->snapshot_keep)
            continue;
        keep[n++] = w->path;
        keep[n++] = w->best_path;
        for (size_t k = 0; !finished && k < TUNER_BRANCHES_MAX &&
                           history_snapshot_trial(w, k, trial[trials]);
             k++)
            keep[n++] = trial[trials++];
    }
    snapshots_sweep(s->snapshot_dir, keep, n, written_now);
}

/* Whether the folder has snapshots of a run of which nobody knows any more how
 * it began: a run that began anew there would take their place. */
static bool is_without_history(const struct session *s,
                               const struct replayed *r)
{
    return !history_started(&r->history) &&
           access(s->snapshot_dir, F_OK) == 0 &&
           !folder_is_empty(s->snapshot_dir);
}

/* What to do for more than a run's limits allowed: one that has finished does
 * not go on, whatever snapshot it has. */
static const char *longer(const struct replayed *r)
{
    if (strcmp(r->status, run_status_name(RUN_FINISHED)) != 0)
        return "";
    return "; " REPLAY_TRAIN_LONGER;
}

/* The lock of the folder is held: nobody adds to the journal any more. */
static enum err recall_history(struct session *s, struct fault *f)
{
    struct replayed r;
    enum err err = replay_run(s->journal, s->state, s->folder.id, &r, f);

    if (err)
        return err;
    if (!replay_resumable(&r)) {
        err = fault_set(f, ERR_INVAL,
                        "run %s has ended as %s%s%s: there is nothing to "
                        "resume%s",
                        r.id, r.status, r.reason[0] ? ": " : "", r.reason,
                        longer(&r));
    } else if (is_without_history(s, &r)) {
        err = fault_set(f, ERR_FORMAT,
                        "run %s cannot go on: its history is lost, for its "
                        "checkpoints are damaged or gone%s%s; its snapshots "
                        "are kept in %s; put %s/checkpoint back, or begin "
                        "another run",
                        r.id, r.damage[0] ? ": " : "", r.damage,
                        s->snapshot_dir, s->folder.path);
    } else {
        snprintf(s->reason, sizeof(s->reason),
                 r.ended ? "resumed by the user"
                         : "resumed by the user after its tuner was killed");
        s->unclosed = !r.ended;
        s->kept.began_ns = r.began_ns;
        s->kept.mends = r.mends;
        s->kept.due = r.passed_over > 0 || r.mends;
        if (r.damage[0])
            console_error("%s%s", r.damage,
                          r.passed_over ? "; the run goes on without what it "
                                          "said"
                                        : "; a copy serves");
        history_deinit(&s->history);
        s->history = r.history;
        history_init(&r.history);
        /* The state folder may have been moved, or copied, since. */
        err = history_move_snapshots(&s->history, s->snapshot_dir);
        if (err)
            fault_set(f, err, "path too long: %.200s...", s->snapshot_dir);
    }
    replayed_deinit(&r);
    return err;
}

/* ---- the data that it began with ------------------------------------------
 *
 * The list of them is written by who loads (ps/node/data_files_io.h). Where
 * that writes another, or a first one, it counts once the run trains: until
 * then the data may be refused for other reasons, and the old list is back. */

static enum err data_lists(const struct session *s, char list[FILE_PATH_MAX],
                           char was[FILE_PATH_MAX], struct fault *f)
{
    enum err err = file_join(list, s->folder.path, RUN_KEPT_FILES, f);

    return err ? err : file_join(was, s->folder.path, RUN_KEPT_FILES_WAS, f);
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* One that is aside was left by a tuner that was killed. */
static enum err data_begin(struct session *s, struct fault *f)
{
    char list[FILE_PATH_MAX], was[FILE_PATH_MAX];
    enum err err = data_lists(s, list, was, f);

    if (!err && is_there(was))
        err = file_rename(was, list, f);
    if (!err && s->o->other_data && is_there(list))
        err = file_rename(list, was, f);
    s->data_tried = !err && !is_there(list);
    return err;
}

void session_data_end(struct session *s, bool trained)
{
    char list[FILE_PATH_MAX], was[FILE_PATH_MAX];

    if (!s->data_tried || data_lists(s, list, was, NULL) != ERR_OK)
        return;
    s->data_tried = false;
    if (trained)
        file_remove(was);
    else if (!is_there(was))
        file_remove(list);
    else if (file_rename(was, list, NULL) != ERR_OK)
        log_event(LOG_WARN, "data_list_aside", "path=\"%s\"", was);
}

enum err session_make_folder(struct session *s, struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err = s->o->resume ? reopen_folder(s, f)
                                : run_folder_new(&s->folder, s->state,
                                                 s->o->tuner->name, f);

    assert(s->o);
    if (!err)
        err = choose_model_dir(s, f);
    if (!err)
        err = file_join(s->snapshot_dir, s->folder.path, "snapshots", f);
    if (!err)
        err = file_join(s->kept_dir, s->folder.path, RUN_KEPT, f);
    if (!err)
        err = file_join(s->log_path, s->folder.path, "log", f);
    if (!err)
        err = file_join(path, s->folder.path, "config.json", f);
    if (!err && s->o->resume)
        err = recall_history(s, f);
    if (!err && s->o->resume)
        err = data_begin(s, f);
    if (!err && (!s->o->resume || s->o->reconfigured))
        err = write_json(path, s->o->config, f);
    if (!err && !s->o->resume && s->o->given)
        err = file_join(path, s->folder.path, RUN_GIVEN, f);
    if (!err && !s->o->resume && s->o->given)
        err = write_json(path, s->o->given, f);
    if (!err && !s->o->resume)
        s->kept.began_ns = clock_wall();
    if (!err)
        err = session_kept_begin(s, f);
    if (!err && !s->o->resume)
        err = session_remember(s->folder.path, &s->kept.start, f);
    if (err)
        return err;
    s->sweep_due = s->o->resume != NULL;
    s->went_on = !s->sweep_due;
    return file_open_log(s->log_path, &s->log_fd, f);
}

/* For who starts it, and may have to go on with it: one of which they do not
 * hear is no run. */
static enum err tell_id(struct session *s, struct fault *f)
{
    enum err err;

    if (!s->o->id_file)
        return ERR_OK;
    err = file_write_line(s->o->id_file, s->folder.id, f);
    if (err)
        fault_wrap(f, "--id-file");
    s->untold = err != ERR_OK;
    return err;
}

enum err session_register(struct session *s, struct fault *f)
{
    char *config;
    enum err err;

    assert(s->o);
    config = json_write(s->o->config, 0);
    if (!config)
        return fault_set(f, ERR_NOMEM, "out of memory");
    if (s->o->resume)
        err = journal_take_run(s->journal, s->folder.id, f);
    else
        err = journal_begin_run(s->journal, s->folder.id, s->o->tuner->name,
                                config, s->kept.began_ns, f);
    if (!err && s->o->resume)
        journal_skip(s->journal, history_records(&s->history));
    if (!err && s->o->resume && journal_last(s->journal) > 0)
        history_skip(&s->history, journal_last(s->journal));
    /* One that could not be flushed is there all the same. */
    s->begun = !err || journal_has_run(s->journal);
    mem_free(config);
    return err || s->o->resume ? err : tell_id(s, f);
}

enum err session_reopen(struct session *s, struct fault *f)
{
    char *config = NULL; /* it keeps its own */
    enum err err;

    assert(s->begun);
    if (!s->o->resume)
        return ERR_OK;
    if (s->o->reconfigured) {
        config = json_write(s->o->config, 0);
        if (!config)
            return fault_set(f, ERR_NOMEM, "out of memory");
    }
    err = journal_reopen_run(s->journal, s->folder.id, config, f);
    mem_free(config);
    return err;
}

/* ---- the model ----------------------------------------------------------- */

enum err session_complete_model(void *ctx, const char *dir, const json_t *data,
                                struct fault *f)
{
    struct session *s = ctx;

    assert(dir);
    return model_write_epoch(dir, &s->history, history_best_epoch(&s->history),
                             s->folder.id, s->o->folder, s->o->config, data, f);
}

/* One that is damaged keeps what was shown before. */
void session_notes_look(struct session *s)
{
    uint64_t mark = notes_file_mark(s->state, s->folder.id);
    json_t *notes = NULL;
    struct fault f = {0};
    enum err err;

    if (mark == s->notes_mark)
        return;
    s->notes_mark = mark;
    err = notes_file_read(s->state, s->folder.id, &notes, &f);
    notes_file_tell(s->folder.id, &f, err);
    if (!err || err == ERR_NOENT)
        view_set_notes(s->view, s->folder.id, notes);
}
