/* TensorBoard: event files, two runs in a folder (cli/state/scalars.h), and a
 * run for each trial (cli/state/hparams.h). */
#include "cli/export/export.h"
#include "cli/state/hparams.h"

#include <stdint.h>
#include <stdlib.h>

enum { PIECE = 64 * 1024 }; /* bytes of events that wait for the stream */

struct event_stream {
    struct scalars scalars;
    struct text waiting;
    FILE *out;
};

/* Writes what waits, all of it or what is more than a piece. */
static enum err pass_on(struct event_stream *e, bool all)
{
    if (text_lost(&e->waiting))
        return ERR_NOMEM;
    if (!all && text_length(&e->waiting) < PIECE)
        return ERR_OK;
    fwrite(text_so_far(&e->waiting), 1, text_length(&e->waiting), e->out);
    text_reset(&e->waiting);
    return ferror(e->out) ? ERR_IO : ERR_OK;
}

static enum err put_point(void *ctx, const struct lineage_point *p)
{
    struct event_stream *e = ctx;

    if (!p->surviving)
        return ERR_OK;
    scalars_point(&e->scalars, &e->waiting, p);
    return pass_on(e, false);
}

static enum err write_training(const struct export_source *s,
                               struct event_stream *e, struct fault *f)
{
    const struct history *h = &s->run->history;
    uint32_t epoch = 0;
    branch_id of = BRANCH_NONE;
    enum err err = ERR_OK;

    for (size_t i = 0; i < history_choices_len(h) && !err; i++)
        err = scalars_choice(&e->scalars, &e->waiting, i);
    scalars_epochs(&e->scalars, &e->waiting, &epoch, &of);
    return err ? err : export_each_point(s, put_point, e, f);
}

static enum err write_trials(const struct export_source *s,
                             struct event_stream *e, struct fault *f)
{
    enum err err = ERR_OK;

    (void)f;
    for (size_t i = 0; i < history_trials_len(&s->run->history) && !err; i++) {
        err = scalars_trial(&e->scalars, &e->waiting, i);
        if (!err)
            err = pass_on(e, false);
    }
    return err;
}

struct event_file {
    const struct export_source *s;
    enum err (*write)(const struct export_source *s, struct event_stream *e,
                      struct fault *f);
};

static enum err write_events(const void *ctx, FILE *out, struct fault *f)
{
    const struct event_file *file = ctx;
    struct event_stream e = {export_scalars(file->s), {0}, out};
    enum err err;

    event_version(&e.waiting, e.scalars.began_s);
    err = file->write(file->s, &e, f);
    if (!err)
        err = pass_on(&e, true);
    text_deinit(&e.waiting);
    return err;
}

/* ---- settings, for the plug-in hparams ----------------------------------- */

struct hparams_file {
    struct scalars scalars;
    size_t trial; /* its index; SIZE_MAX: the experiment */
};

static enum err write_hparams(const void *ctx, FILE *out, struct fault *f)
{
    const struct hparams_file *file = ctx;
    struct text events = {0};
    enum err err = file->trial == SIZE_MAX
                       ? hparams_experiment(&file->scalars, &events)
                       : hparams_session(&file->scalars, &events, file->trial);

    if (!err && text_lost(&events))
        err = ERR_NOMEM;
    if (err)
        fault_set(f, err, "%s", err_text(err));
    else
        fwrite(text_so_far(&events), 1, text_length(&events), out);
    text_deinit(&events);
    return err;
}

static enum err put_sessions(const struct export_source *s,
                             const struct export_target *t, struct fault *f)
{
    const struct history *h = &s->run->history;
    struct hparams_file file = {export_scalars(s), SIZE_MAX};
    char name[128];
    enum err err = ERR_OK;

    snprintf(name, sizeof(name), HPARAMS_FOLDER "/" SCALARS_FILE,
             file.scalars.began_s);
    if (hparams_known(&file.scalars))
        err = export_file(t, name, write_hparams, &file, f);
    for (size_t i = 0; i < history_trials_len(h) && !err; i++) {
        struct trial_told told = scalars_told(&file.scalars, i);

        file.trial = i;
        snprintf(name, sizeof(name), HPARAMS_TRIAL "/" SCALARS_FILE,
                 told.number, file.scalars.began_s);
        if (told.ended)
            err = export_file(t, name, write_hparams, &file, f);
    }
    return err;
}

static enum err tensorboard_write(const struct export_source *s,
                                  const struct export_target *t,
                                  struct fault *f)
{
    double began = export_scalars(s).began_s;
    const struct event_file training = {s, write_training};
    const struct event_file trials = {s, write_trials};
    char name[96];
    enum err err;

    snprintf(name, sizeof(name), "training/" SCALARS_FILE, began);
    err = export_file(t, name, write_events, &training, f);
    snprintf(name, sizeof(name), "trials/" SCALARS_FILE, began);
    if (!err)
        err = export_file(t, name, write_events, &trials, f);
    return err ? err : put_sessions(s, t, f);
}

const struct export_ops export_tensorboard = {
    .name = "tensorboard",
    .summary =
        "a log folder: `training` by clock and epoch, `trials` by number, "
        "`hparams` by setting",
    .folder = true,
    .write = tensorboard_write,
};
