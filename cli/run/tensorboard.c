#include "cli/run/tensorboard.h"

#include "base/clock_io.h"
#include "base/disk_io.h"
#include "base/mem.h"
#include "cli/state/hparams.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

enum { PIECE = 64 * 1024 }; /* bytes of trials that are written at once */

/* What a trial's byte says. */
enum { TRIAL_ABSENT, TRIAL_ADDED, TRIAL_WRITTEN };

enum err tensorboard_init(struct tensorboard *t, const char *folder,
                          const struct history *h, double began_s)
{
    assert(folder && h);
    *t = (struct tensorboard){.folder = mem_strdup(folder),
                              .scalars = {h, began_s},
                              .training.fd = -1,
                              .trials.fd = -1,
                              .trials_open = 1,
                              .sessions_open = 1};
    return t->folder ? ERR_OK : ERR_NOMEM;
}

/* ---- files --------------------------------------------------------------- */

static void close_file(struct tensorboard_file *file)
{
    if (file->fd >= 0)
        disk_system()->close(file->fd);
    file->fd = -1;
}

/* Appends @events, all of them or none, and empties them. */
static enum err put(struct tensorboard_file *file, struct text *events,
                    struct fault *f)
{
    const struct disk_ops *disk = disk_system();
    const char *data = text_so_far(events);
    size_t len = text_length(events), done = 0;
    enum err err =
        text_lost(events)
            ? fault_set(f, ERR_NOMEM, "%s: out of memory", file->path)
            : ERR_OK;

    while (!err && done < len) {
        ssize_t n = disk->write_at(file->fd, data + done, len - done,
                                   file->bytes + done);

        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            err = fault_errno(f, ERR_IO, n == 0 ? ENOSPC : errno, "%s",
                              file->path);
    }
    if (!err)
        file->bytes += len;
    else if (done > 0)
        disk->resize(file->fd, file->bytes);
    text_reset(events);
    return err;
}

/* Seconds in the name of a file of ours; NAN: it is none. */
static double seconds_of(const char *name)
{
    double seconds;
    char again[64];

    if (sscanf(name, "events.out.tfevents.%lf", &seconds) != 1 ||
        !(seconds >= 0 && seconds < 1e15))
        return NAN;
    snprintf(again, sizeof(again), SCALARS_FILE, seconds);
    return strcmp(again, name) == 0 ? seconds : NAN;
}

/* The newest of our files in @folder, by name; -1: there is none. With @keep,
 * the path of one of them, all others are removed. */
static double look_through(const char *folder, const char *keep)
{
    double newest = -1, seconds;
    char path[FILE_PATH_MAX];
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        seconds = seconds_of(entry->d_name);
        newest = fmax(newest, isnan(seconds) ? -1 : seconds);
        if (keep && !isnan(seconds) &&
            file_join(path, folder, entry->d_name, NULL) == ERR_OK &&
            strcmp(path, keep) != 0)
            file_remove(path);
    }
    if (dir)
        closedir(dir);
    return newest;
}

/* A file that comes after all that are in the folder, in the order of names, in
 * which they are read. */
static enum err begin_file(struct tensorboard *t, const char *folder,
                           struct tensorboard_file *out, struct fault *f)
{
    double now = (double)clock_wall() * 1e-9, newest;
    char name[64];
    enum err err = folder_make(folder, f);

    if (err)
        return err;
    newest = look_through(folder, NULL);
    *out = (struct tensorboard_file){.fd = -1};
    snprintf(name, sizeof(name), SCALARS_FILE, fmax(floor(now), newest + 1));
    err = file_join(out->path, folder, name, f);
    if (err)
        return err;
    out->fd = disk_system()->open(
        out->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, DISK_SHARED);
    if (out->fd < 0)
        return fault_errno(f, ERR_IO, errno, "%s", out->path);
    text_reset(&t->events);
    event_version(&t->events, now);
    if (newest >= 0)
        event_restart(&t->events, now);
    return ERR_OK;
}

typedef enum err writer(struct tensorboard *t, struct tensorboard_file *file,
                        struct fault *f);

/* A new file with all that @write has to say, in the place of @file. */
static enum err write_anew(struct tensorboard *t, const char *run,
                           struct tensorboard_file *file, writer *write,
                           struct fault *f)
{
    char folder[FILE_PATH_MAX];
    struct tensorboard_file fresh = {.fd = -1};
    enum err err = file_join(folder, t->folder, run, f);

    if (!err)
        err = begin_file(t, folder, &fresh, f);
    if (!err)
        err = write(t, &fresh, f);
    if (err && fresh.fd >= 0)
        file_remove(fresh.path);
    if (err) {
        close_file(&fresh);
        return err;
    }
    close_file(file);
    *file = fresh;
    look_through(folder, file->path);
    return ERR_OK;
}

/* ---- the lineage --------------------------------------------------------- */

static const struct tensorboard_place nowhere = {
    .choice = BRANCH_NONE, .epoch_of = BRANCH_NONE, .point_of = BRANCH_NONE};

/* Settings of the schedule up to the one at @at; SIZE_MAX: it is in it no
 * more. */
static size_t choices_before(const struct history *h,
                             const struct tensorboard_place *at)
{
    size_t n = history_choices_len(h);

    if (at->choice == BRANCH_NONE)
        return 0;
    for (; n > 0; n--) {
        struct history_choice c = history_choice_at(h, n - 1);

        if (c.c.branch == at->choice && c.c.clock == at->choice_clock)
            return n;
    }
    return SIZE_MAX;
}

/* Whether all that the file says is of the lineage still. */
static bool holds(const struct tensorboard *t, const struct surviving *l)
{
    const struct tensorboard_place *at = &t->at;

    if (choices_before(t->scalars.h, at) == SIZE_MAX)
        return false;
    if (at->epoch_of != BRANCH_NONE &&
        !scalars_has_epoch(&t->scalars, at->epoch, at->epoch_of))
        return false;
    return at->point_of == BRANCH_NONE ||
           lineage_find(l, at->point_of, at->point_clock) != SIZE_MAX;
}

static enum err add_choices(struct tensorboard *t, struct tensorboard_place *at)
{
    const struct history *h = t->scalars.h;
    enum err err = ERR_OK;

    for (size_t i = choices_before(h, at); i < history_choices_len(h) && !err;
         i++) {
        struct history_choice c = history_choice_at(h, i);

        err = scalars_choice(&t->scalars, &t->events, i);
        at->choice = c.c.branch;
        at->choice_clock = c.c.clock;
    }
    return err;
}

struct added_points {
    struct tensorboard *t;
    struct tensorboard_place *at;
};

static enum err add_point(void *ctx, const struct lineage_point *p)
{
    struct added_points *a = ctx;

    scalars_point(&a->t->scalars, &a->t->events, p);
    a->at->point_of = p->branch;
    a->at->point_clock = p->branch_clock;
    return ERR_OK;
}

/* Appends to @file what it lacks from t->at on. */
static enum err append_training(struct tensorboard *t,
                                struct tensorboard_file *file,
                                const struct surviving *l, struct fault *f)
{
    struct tensorboard_place at = t->at;
    struct added_points added = {t, &at};
    enum err err = add_choices(t, &at);

    scalars_epochs(&t->scalars, &t->events, &at.epoch, &at.epoch_of);
    if (!err)
        err = lineage_each_after(l, t->scalars.h, at.point_of, at.point_clock,
                                 add_point, &added);
    if (err) {
        text_reset(&t->events);
        return fault_set(f, err, "%s: out of memory", file->path);
    }
    err = put(file, &t->events, f);
    if (!err)
        t->at = at;
    return err;
}

static enum err write_whole_training(struct tensorboard *t,
                                     struct tensorboard_file *file,
                                     struct fault *f)
{
    struct tensorboard_place before = t->at;
    struct surviving l;
    enum err err = lineage_of(t->scalars.h, &l);

    if (err)
        return fault_set(f, err, "%s: out of memory", file->path);
    t->at = nowhere;
    err = append_training(t, file, &l, f);
    if (err)
        t->at = before;
    lineage_deinit(&l);
    return err;
}

static enum err write_training(struct tensorboard *t, struct fault *f)
{
    struct surviving l;
    enum err err = lineage_of(t->scalars.h, &l);

    if (err)
        return fault_set(f, err, "%s: out of memory", t->folder);
    if (t->training.fd < 0 || !holds(t, &l))
        err = write_anew(t, "training", &t->training, write_whole_training, f);
    else
        err = append_training(t, &t->training, &l, f);
    lineage_deinit(&l);
    return err;
}

/* ---- trials -------------------------------------------------------------- */

/* A byte for each number up to @number. */
static enum err room_for_trial(struct tensorboard *t, uint32_t number)
{
    size_t before = t->trial_capacity;
    enum err err = mem_grow((void **)&t->has_trial, &t->trial_capacity, 1,
                            (size_t)number + 1);

    if (!err)
        memset(t->has_trial + before, TRIAL_ABSENT, t->trial_capacity - before);
    return err;
}

/* Whether trial @number is over and not in the file; @i: its index. */
static bool is_due(const struct tensorboard *t, uint32_t number, size_t *i)
{
    if (t->has_trial[number] != TRIAL_ABSENT)
        return false;
    *i = history_trial_index(t->scalars.h, number);
    if (*i == SIZE_MAX) /* it gave way */
        t->has_trial[number] = TRIAL_WRITTEN;
    return *i != SIZE_MAX && scalars_told(&t->scalars, *i).ended;
}

static enum err put_trials(struct tensorboard *t, struct tensorboard_file *file,
                           uint32_t from, uint32_t to, struct fault *f)
{
    enum err err = put(file, &t->events, f);

    for (uint32_t n = from; n <= to; n++)
        if (t->has_trial[n] == TRIAL_ADDED)
            t->has_trial[n] = err ? TRIAL_ABSENT : TRIAL_WRITTEN;
    return err;
}

static enum err append_trials(struct tensorboard *t,
                              struct tensorboard_file *file, struct fault *f)
{
    uint32_t made = history_trials_made(t->scalars.h), from = t->trials_open;
    size_t i;
    enum err err = room_for_trial(t, made);

    for (uint32_t n = from; n <= made && !err; n++) {
        if (is_due(t, n, &i)) {
            err = scalars_trial(&t->scalars, &t->events, i);
            t->has_trial[n] = TRIAL_ADDED;
        }
        if (!err && text_length(&t->events) > PIECE)
            err = put_trials(t, file, from, n, f);
    }
    if (err == ERR_NOMEM)
        return fault_set(f, err, "%s: out of memory", file->path);
    if (!err)
        err = put_trials(t, file, from, made, f);
    while (t->trials_open <= made &&
           t->has_trial[t->trials_open] == TRIAL_WRITTEN)
        t->trials_open++;
    return err;
}

static enum err write_trials(struct tensorboard *t, struct fault *f)
{
    enum err err;

    if (t->trials.fd >= 0)
        return append_trials(t, &t->trials, f);
    err = write_anew(t, "trials", &t->trials, append_trials, f);
    if (err && t->has_trial) /* what was written of it is gone */
        memset(t->has_trial, TRIAL_ABSENT, t->trial_capacity);
    if (err)
        t->trials_open = 1;
    return err;
}

/* ---- settings, for the plug-in hparams ----------------------------------- */

/* The file of @part of the folder, whole: @write's, given @i. One that an
 * earlier process left is overwritten: it says the same. */
static enum err put_whole(struct tensorboard *t, const char *part,
                          enum err (*write)(const struct scalars *s,
                                            struct text *out, size_t i),
                          size_t i, struct fault *f)
{
    char folder[FILE_PATH_MAX], name[64];
    struct tensorboard_file file = {.fd = -1};
    enum err err = file_join(folder, t->folder, part, f);

    snprintf(name, sizeof(name), SCALARS_FILE, t->scalars.began_s);
    if (!err)
        err = folder_make(folder, f);
    if (!err)
        err = file_join(file.path, folder, name, f);
    if (err)
        return err;
    file.fd = disk_system()->open(
        file.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, DISK_SHARED);
    if (file.fd < 0)
        return fault_errno(f, ERR_IO, errno, "%s", file.path);
    text_reset(&t->events);
    err = write(&t->scalars, &t->events, i);
    if (err)
        fault_set(f, err, "%s: out of memory", file.path);
    else
        err = put(&file, &t->events, f);
    close_file(&file);
    if (err)
        file_remove(file.path);
    text_reset(&t->events);
    return err;
}

static enum err write_experiment(const struct scalars *s, struct text *out,
                                 size_t i)
{
    (void)i;
    return hparams_experiment(s, out);
}

/* Trial @number, once it is over. */
static enum err put_session(struct tensorboard *t, uint32_t number,
                            struct fault *f)
{
    size_t i = history_trial_index(t->scalars.h, number);
    char part[64];
    enum err err = ERR_OK;

    if (i != SIZE_MAX && !scalars_told(&t->scalars, i).ended)
        return ERR_OK;
    snprintf(part, sizeof(part), HPARAMS_TRIAL, number);
    if (i != SIZE_MAX) /* else it gave way */
        err = put_whole(t, part, hparams_session, i, f);
    t->session[number] = !err;
    return err;
}

static enum err write_sessions(struct tensorboard *t, struct fault *f)
{
    uint32_t made = history_trials_made(t->scalars.h);
    enum err err = ERR_OK;

    if (!t->experiment && hparams_known(&t->scalars)) {
        err = put_whole(t, HPARAMS_FOLDER, write_experiment, 0, f);
        t->experiment = !err;
    }
    made = made < TENSORBOARD_SESSIONS_MAX ? made : TENSORBOARD_SESSIONS_MAX;
    for (uint32_t n = t->sessions_open; n <= made && !err; n++)
        if (!t->session[n])
            err = put_session(t, n, f);
    while (t->sessions_open <= made && t->session[t->sessions_open])
        t->sessions_open++;
    return err;
}

/* ---- the whole ----------------------------------------------------------- */

enum err tensorboard_write(struct tensorboard *t, struct fault *f)
{
    enum err (*const part[])(struct tensorboard * t, struct fault * f) = {
        write_training, write_trials, write_sessions};
    enum err err = ERR_OK, other;

    assert(t->folder);
    for (size_t i = 0; i < sizeof(part) / sizeof(*part); i++) {
        other = part[i](t, err ? NULL : f);
        err = err ? err : other;
    }
    return err;
}

void tensorboard_deinit(struct tensorboard *t)
{
    if (t->folder) {
        close_file(&t->training);
        close_file(&t->trials);
    }
    mem_free(t->folder);
    mem_free(t->has_trial);
    text_deinit(&t->events);
    *t = (struct tensorboard){.folder = NULL};
}
