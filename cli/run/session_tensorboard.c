/* A session's TensorBoard files: where they are, and when they are written. */
#include "base/json/json.h"
#include "base/log.h"
#include "cli/config/program.h"
#include "cli/run/session_internal.h"

#include <stdio.h>

static void tell(struct session *s, const struct fault *f)
{
    char text[640];

    if (s->board_told)
        return;
    s->board_told = true;
    log_event(LOG_WARN, "tensorboard_not_written", "reason=\"%s\"", f->text);
    snprintf(text, sizeof(text),
             "TensorBoard's files cannot be written, the run goes on: %s",
             f->text);
    if (!s->o->quiet)
        progress_note(&s->progress, text);
}

/* FOLDER/RUN, where the configuration names a folder; true: in the run's. */
static enum err place(const struct session *s, const json_t *wanted,
                      char out[FILE_PATH_MAX], struct fault *f)
{
    char folder[PATH_MAX];

    if (json_is_true(wanted))
        return file_join(out, s->folder.path, "tensorboard", f);
    if (!program_path(s->o->folder, json_string_value(wanted), folder))
        return fault_set(f, ERR_LIMIT, "tensorboard: its path is too long");
    return file_join(out, folder, s->folder.id, f);
}

static enum err begin(struct session *s, struct fault *f)
{
    const json_t *wanted = json_at(s->o->config, "/tensorboard");
    char folder[FILE_PATH_MAX];
    enum err err;

    if (!json_is_true(wanted) && !json_is_string(wanted))
        return ERR_OK;
    err = place(s, wanted, folder, f);
    if (!err && tensorboard_init(&s->board, folder, &s->history,
                                 (double)s->kept.began_ns * 1e-9))
        err = fault_set(f, ERR_NOMEM, "out of memory");
    return err;
}

static void write_files(struct session *s)
{
    struct fault f = {0};

    if (s->board.folder && tensorboard_write(&s->board, &f))
        tell(s, &f);
}

void session_tensorboard_begin(struct session *s)
{
    struct fault f = {0};

    if (begin(s, &f))
        tell(s, &f);
    if (!s->recalled)
        write_files(s); /* a folder that cannot be is told at once */
}

void session_tensorboard_record(struct session *s, const struct record *record)
{
    switch (record->kind) {
    case RECORD_RUN_RESUMED: /* what followed the snapshot counts no more */
        tensorboard_deinit(&s->board);
        session_tensorboard_begin(s);
        write_files(s);
        break;
    case RECORD_EPOCH_ENDED:
    case RECORD_TRIAL_ENDED:
    case RECORD_RUN_FINISHED:
        write_files(s);
        break;
    default:
        break;
    }
}
