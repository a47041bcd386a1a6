/* MLflow: the folders of its file store (mlflow.store.tracking.file_store): an
 * experiment with a run, and a nested run for each trial. */
#include "cli/export/export.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/text.h"
#include "cli/export/mlflow_name.h"
#include "cli/state/job.h"

#include <math.h>
#include <string.h>

#include <unistd.h>

#define EXPERIMENT "1"

/* mlflow.entities.RunStatus. */
enum {
    STATUS_RUNNING = 1,
    STATUS_FINISHED = 3,
    STATUS_FAILED = 4,
    STATUS_KILLED = 5
};

enum { ID_LEN = 32 };

struct mlflow {
    const struct export_source *s;
    const struct export_target *t;
    char parent[ID_LEN + 1];
};

/* An id of 32 hexadecimal digits, the same for the same run and trial. */
static void make_id(const struct export_source *s, uint32_t trial,
                    char out[ID_LEN + 1])
{
    char text[RUN_ID_MAX + 16];
    uint64_t a, b;

    snprintf(text, sizeof(text), "%s/%u", s->run->id, trial);
    a = job_hash(text, strlen(text));
    b = job_hash(s->run->id, strlen(s->run->id)) ^
        (trial * 0x9e3779b97f4a7c15u);
    snprintf(out, ID_LEN + 1, "%016llx%016llx", (unsigned long long)a,
             (unsigned long long)b);
}

static long long milliseconds(const struct export_source *s, double at_s)
{
    return (long long)(export_wall(s, at_s) * 1e3);
}

/* YAML takes a JSON text as a string. */
static void put_quoted(FILE *out, const char *name, const char *text)
{
    json_t *json = json_string(text);
    char *quoted = json ? json_write(json, 0) : NULL;

    fprintf(out, "%s: %s\n", name, quoted ? quoted : "\"\"");
    mem_free(quoted);
    json_decref(json);
}

/* ---- a run's files ------------------------------------------------------- */

static enum err put_in(const struct mlflow *m, const char *id, const char *part,
                       const char *name, export_content *write, const void *ctx,
                       struct fault *f)
{
    char path[256];

    if (snprintf(path, sizeof(path), EXPERIMENT "/%s/%s/%s", id, part, name) >=
        (int)sizeof(path))
        return fault_set(f, ERR_LIMIT, "%s: the name is too long", name);
    return export_file(m->t, path, write, ctx, f);
}

static enum err write_word(const void *ctx, FILE *out, struct fault *f)
{
    (void)f;
    fputs(ctx, out);
    return ERR_OK;
}

static enum err put_word(const struct mlflow *m, const char *id,
                         const char *part, const char *name, const char *text,
                         struct fault *f)
{
    return put_in(m, id, part, name, write_word, text, f);
}

/* "timestamp value step". */
static void put_metric(FILE *file, long long ms, double value, uint64_t step)
{
    char number[TEXT_NUMBER_MAX];

    text_real(value, number);
    fprintf(file, "%lld %s %llu\n", ms, number, (unsigned long long)step);
}

struct one_metric {
    long long ms;
    double value;
};

static enum err write_one_metric(const void *ctx, FILE *out, struct fault *f)
{
    const struct one_metric *one = ctx;

    (void)f;
    put_metric(out, one->ms, one->value, 0);
    return ERR_OK;
}

static enum err put_one_metric(const struct mlflow *m, const char *id,
                               const char *name, double at_s, double value,
                               struct fault *f)
{
    const struct one_metric one = {milliseconds(m->s, at_s), value};

    return put_in(m, id, "metrics", name, write_one_metric, &one, f);
}

static enum err put_params(const struct mlflow *m, const char *id,
                           const json_t *setting, struct fault *f)
{
    const struct space *space = &m->s->space;
    enum err err = ERR_OK;

    for (size_t i = 0; i < space_len(space) && !err; i++) {
        const char *name = space_name(space, i);
        const json_t *value = json_object_get(setting, name);
        char *written =
            value && !json_is_string(value) ? json_write(value, 0) : NULL;
        const char *text = written ? written : json_string_value(value);

        if (value && !text)
            err = fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
        else if (value)
            err = put_word(m, id, "params", name, text, f);
        mem_free(written);
    }
    return err;
}

struct meta {
    const struct mlflow *m;
    const char *id, *name;
    int status;
    double began_s, ended_s; /* NAN: not yet */
};

/* Where MLflow is to look for artefacts of run @id: of an archive, from the
 * folder in which it was unpacked. */
static void put_artefacts(FILE *out, const struct export_target *t,
                          const char *id)
{
    struct text uri = {0};

    text_printf(&uri, "%s/" EXPERIMENT "/%s/artifacts",
                t->place ? t->place : t->prefix, id);
    put_quoted(out, "artifact_uri", text_so_far(&uri));
    text_deinit(&uri);
}

static enum err write_meta(const void *ctx, FILE *out, struct fault *f)
{
    const struct meta *meta = ctx;

    (void)f;
    put_artefacts(out, meta->m->t, meta->id);
    fprintf(out,
            "entry_point_name: ''\nexperiment_id: '%s'\n"
            "lifecycle_stage: active\nrun_id: %s\nrun_uuid: %s\n",
            EXPERIMENT, meta->id, meta->id);
    put_quoted(out, "run_name", meta->name);
    fprintf(out,
            "source_name: ''\nsource_type: 4\nsource_version: ''\n"
            "start_time: %lld\nstatus: %d\ntags: []\nuser_id: ''\n",
            milliseconds(meta->m->s, meta->began_s), meta->status);
    if (isnan(meta->ended_s))
        fputs("end_time: null\n", out);
    else
        fprintf(out, "end_time: %lld\n",
                milliseconds(meta->m->s, meta->ended_s));
    return ERR_OK;
}

static enum err put_meta(const struct mlflow *m, const struct meta *meta,
                         struct fault *f)
{
    char path[64];
    enum err err =
        put_word(m, meta->id, "tags", "mlflow.runName", meta->name, f);

    snprintf(path, sizeof(path), EXPERIMENT "/%s/meta.yaml", meta->id);
    return err ? err : export_file(m->t, path, write_meta, meta, f);
}

/* ---- the run ------------------------------------------------------------- */

struct metric_file {
    const struct export_source *s;
    FILE *file;
    int extra; /* a further metric; -1: the loss */
};

static enum err put_point(void *ctx, const struct lineage_point *p)
{
    const struct metric_file *k = ctx;
    double value = k->extra < 0 ? window_mean(&p->w) : p->extra[k->extra];

    if (p->surviving && !(k->extra >= 0 && isnan(value)))
        put_metric(k->file, milliseconds(k->s, p->at_s), value, p->clock);
    return ferror(k->file) ? ERR_IO : ERR_OK;
}

static enum err write_losses(const void *ctx, FILE *out, struct fault *f)
{
    const struct mlflow *m = ctx;
    struct metric_file k = {m->s, out, -1};

    return export_each_point(m->s, put_point, &k, f);
}

struct extra_file {
    const struct export_source *s;
    int extra;
};

static enum err write_extra(const void *ctx, FILE *out, struct fault *f)
{
    const struct extra_file *x = ctx;
    struct metric_file k = {x->s, out, x->extra};

    return export_each_point(x->s, put_point, &k, f);
}

static enum err write_extra_epochs(const void *ctx, FILE *out, struct fault *f)
{
    const struct extra_file *x = ctx;
    const struct history *h = &x->s->run->history;

    (void)f;
    for (size_t i = 0; i < history_epochs_len(h); i++) {
        const struct history_epoch *e = history_epoch_at(h, i);

        if (e->e.surviving && !isnan(e->extra[x->extra]))
            put_metric(out, milliseconds(x->s, e->at_s), e->extra[x->extra],
                       e->e.epoch);
    }
    return ERR_OK;
}

/* A file without a value is none that MLflow can read. */
static bool epochs_have(const struct history *h, size_t extra)
{
    for (size_t i = 0; i < history_epochs_len(h); i++)
        if (history_epoch_at(h, i)->e.surviving &&
            !isnan(history_epoch_at(h, i)->extra[extra]))
            return true;
    return false;
}

static bool lineage_has(const struct export_source *s, size_t extra)
{
    for (size_t i = 0; i < s->lineage.len; i++) {
        const struct history_branch *b =
            history_branch(&s->run->history, s->lineage.reach[i].branch);

        if (b && history_extra_is_there(b, extra))
            return true;
    }
    return false;
}

static enum err put_extras(const struct mlflow *m, struct fault *f)
{
    const struct extras *names = history_extras(&m->s->run->history);
    char name[EXTRAS_NAME_MAX + 32];
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < names->len && !err; i++) {
        const struct extra_file x = {m->s, (int)i};

        mlflow_name(names, i, "values.", name, sizeof(name));
        if (lineage_has(m->s, i))
            err = put_in(m, m->parent, "metrics", name, write_extra, &x, f);
        mlflow_name(names, i, "epoch_values.", name, sizeof(name));
        if (!err && epochs_have(&m->s->run->history, i))
            err = put_in(m, m->parent, "metrics", name, write_extra_epochs, &x,
                         f);
    }
    return err;
}

struct epochs_file {
    const struct export_source *s;
    bool metric;
};

static enum err write_epochs(const void *ctx, FILE *out, struct fault *f)
{
    const struct epochs_file *k = ctx;
    const struct history *h = &k->s->run->history;

    (void)f;
    for (size_t i = 0; i < history_epochs_len(h); i++) {
        const struct record_epoch_ended *e = &history_epoch_at(h, i)->e;
        double value = k->metric ? e->metric : e->loss;

        if (e->surviving && !(k->metric && isnan(value)))
            put_metric(out, milliseconds(k->s, history_epoch_at(h, i)->at_s),
                       value, e->epoch);
    }
    return ERR_OK;
}

static enum err put_epochs(const struct mlflow *m, const char *name,
                           bool metric, struct fault *f)
{
    const struct epochs_file k = {m->s, metric};

    return put_in(m, m->parent, "metrics", name, write_epochs, &k, f);
}

static int status_of_run(const struct history *h)
{
    if (!history_finished(h))
        return STATUS_RUNNING;
    if (history_end(h)->status == RUN_FINISHED)
        return STATUS_FINISHED;
    return history_end(h)->status == RUN_FAILED ? STATUS_FAILED : STATUS_KILLED;
}

/* The model's folder, where it still is; the tag says where it was. One that
 * has more in it than files costs the export nothing but the model. */
static enum err put_model(const struct mlflow *m, const char *model,
                          struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct fault why = {0};
    enum err err;

    if (!model[0])
        return ERR_OK;
    err = put_word(m, m->parent, "tags", "mltune.model", model, f);
    if (err || file_join(path, model, MODEL_FILE, NULL) ||
        access(path, F_OK) != 0)
        return err;
    snprintf(path, sizeof(path), EXPERIMENT "/%s/artifacts/model", m->parent);
    err = export_files(model, path, m->t, &why);
    if (err == ERR_FORMAT)
        return put_word(m, m->parent, "tags", "mltune.model_left_out", why.text,
                        f);
    return err ? fault_set(f, err, "%s", why.text) : ERR_OK;
}

static enum err put_run(const struct mlflow *m, struct fault *f)
{
    const char *model = json_text_at(m->s->run->result, "/model");
    const struct history *h = &m->s->run->history;
    struct meta meta = {m,
                        m->parent,
                        m->s->run->name,
                        status_of_run(h),
                        0,
                        history_finished(h) ? history_at_s(h) : NAN};
    enum err err = put_meta(m, &meta, f);

    if (!err && history_choices_len(h)) {
        json_t *now = history_choice_setting(h, history_choices_len(h) - 1);

        err = now ? put_params(m, m->parent, now, f) : ERR_NOMEM;
        json_decref(now);
    }
    if (!err)
        err = put_word(m, m->parent, "tags", "mltune.run", m->s->run->id, f);
    if (!err)
        err = put_model(m, model, f);
    if (!err)
        err = put_in(m, m->parent, "metrics", "loss", write_losses, m, f);
    if (!err)
        err = put_epochs(m, "epoch_loss", false, f);
    if (!err && history_run(h)->validation_samples) {
        const struct record_run_started *r = history_run(h);

        err = put_word(m, m->parent, "tags", "mltune.metric", r->metric, f);
        if (!err)
            err = put_word(m, m->parent, "tags", "mltune.metric_direction",
                           metrics_direction(r->metric_higher_better), f);
        if (!err)
            err = put_epochs(m, "epoch_metric", true, f);
    }
    return err ? err : put_extras(m, f);
}

/* ---- trials -------------------------------------------------------------- */

static int status_of_trial(const struct history_trial *t)
{
    if (!t->ended)
        return STATUS_RUNNING;
    switch (t->t.label) {
    case TRIAL_CONVERGING:
    case TRIAL_UNSTABLE:
        return STATUS_FINISHED;
    case TRIAL_STOPPED:
    case TRIAL_INTERRUPTED:
        return STATUS_KILLED;
    default:
        return STATUS_FAILED;
    }
}

static enum err put_trial(const struct mlflow *m, const struct history_trial *t,
                          struct fault *f)
{
    char id[ID_LEN + 1], name[32];
    struct meta meta = {
        m, id, name, status_of_trial(t), t->started_at_s, t->ended_at_s};
    double at_s = isnan(t->ended_at_s) ? t->started_at_s : t->ended_at_s;
    enum err err;

    make_id(m->s, t->t.trial, id);
    snprintf(name, sizeof(name), "trial-%u", t->t.trial);
    err = put_meta(m, &meta, f);
    if (!err)
        err = put_params(m, id, t->t.setting, f);
    if (!err)
        err = put_word(m, id, "tags", "mlflow.parentRunId", m->parent, f);
    if (!err)
        err = put_word(m, id, "tags", "label", trial_label_name(t->t.label), f);
    if (!err)
        err = put_one_metric(m, id, "speed", at_s, t->t.figures.speed, f);
    if (!err)
        err = put_one_metric(m, id, "seconds", at_s, t->t.figures.seconds, f);
    if (!err && t->t.figures.points)
        err = put_one_metric(m, id, "loss", at_s,
                             t->t.figures.loss[t->t.figures.points - 1], f);
    return err;
}

static enum err write_experiment(const void *ctx, FILE *out, struct fault *f)
{
    const struct mlflow *m = ctx;
    long long ms = milliseconds(m->s, 0);

    (void)f;
    fprintf(out,
            "artifact_location: ''\ncreation_time: %lld\nexperiment_id: "
            "'%s'\nlast_update_time: %lld\nlifecycle_stage: active\n",
            ms, EXPERIMENT, ms);
    put_quoted(out, "name", m->s->run->name);
    return ERR_OK;
}

static enum err mlflow_write(const struct export_source *s,
                             const struct export_target *t, struct fault *f)
{
    const struct history *h = &s->run->history;
    struct mlflow m = {.s = s, .t = t};
    enum err err =
        export_file(t, EXPERIMENT "/meta.yaml", write_experiment, &m, f);

    make_id(s, 0, m.parent);
    if (!err)
        err = put_run(&m, f);
    for (size_t i = 0; i < history_trials_len(h) && !err; i++) {
        struct history_trial trial = history_trial_at(h, i);

        trial.t.setting = history_trial_setting(h, i);
        err = trial.t.setting ? put_trial(&m, &trial, f) : ERR_NOMEM;
        json_decref(trial.t.setting);
    }
    return err;
}

const struct export_ops export_mlflow = {
    .name = "mlflow",
    .summary =
        "a folder as MLflow's file store (mlruns): a run, and one nested "
        "in it for each trial",
    .folder = true,
    .write = mlflow_write,
};
