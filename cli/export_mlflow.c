/* MLflow: the folders of its file store (mlflow.store.tracking.file_store): an
 * experiment with a run, and a nested run for each trial. */
#include "cli/export.h"

#include "base/json.h"
#include "base/mem.h"
#include "cli/job.h"

#include <math.h>
#include <string.h>

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
    const char *path;
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

static FILE *open_in(const struct mlflow *m, const char *id, const char *part,
                     const char *name, struct fault *f)
{
    char folder[FILE_PATH_MAX], sub[128];

    snprintf(sub, sizeof(sub), EXPERIMENT "/%s/%s", id, part);
    if (file_join(folder, m->path, sub, f) != ERR_OK ||
        folder_make(folder, f) != ERR_OK)
        return NULL;
    return export_file(folder, name, f);
}

static enum err put_word(const struct mlflow *m, const char *id,
                         const char *part, const char *name, const char *text,
                         struct fault *f)
{
    FILE *file = open_in(m, id, part, name, f);

    if (file)
        fputs(text, file);
    return export_done(file, ERR_OK, name, f);
}

/* "timestamp value step". */
static void put_metric(FILE *file, long long ms, double value, uint64_t step)
{
    if (isnan(value))
        fprintf(file, "%lld nan %llu\n", ms, (unsigned long long)step);
    else if (isinf(value))
        fprintf(file, "%lld %sinf %llu\n", ms, value < 0 ? "-" : "",
                (unsigned long long)step);
    else
        fprintf(file, "%lld %.17g %llu\n", ms, value, (unsigned long long)step);
}

static enum err put_one_metric(const struct mlflow *m, const char *id,
                               const char *name, double at_s, double value,
                               struct fault *f)
{
    FILE *file = open_in(m, id, "metrics", name, f);

    if (file)
        put_metric(file, milliseconds(m->s, at_s), value, 0);
    return export_done(file, ERR_OK, name, f);
}

static enum err put_params(const struct mlflow *m, const char *id,
                           const json_t *setting, struct fault *f)
{
    const struct space *space = &m->s->space;
    enum err err = ERR_OK;

    for (size_t i = 0; i < space->len && !err; i++) {
        const char *name = space->tunable[i].name;
        const json_t *value = json_object_get(setting, name);
        char *text =
            value && !json_is_string(value) ? json_write(value, 0) : NULL;

        if (value)
            err = put_word(m, id, "params", name,
                           text ? text : json_string_value(value), f);
        mem_free(text);
    }
    return err;
}

struct meta {
    const char *id, *name;
    int status;
    double began_s, ended_s; /* NAN: not yet */
};

static enum err put_meta(const struct mlflow *m, const struct meta *meta,
                         struct fault *f)
{
    FILE *file = open_in(m, meta->id, "tags", "mlflow.runName", f);
    char folder[FILE_PATH_MAX], sub[64];
    enum err err;

    if (file)
        fputs(meta->name, file);
    err = export_done(file, ERR_OK, "mlflow.runName", f);
    snprintf(sub, sizeof(sub), EXPERIMENT "/%s", meta->id);
    if (!err)
        err = file_join(folder, m->path, sub, f);
    if (err)
        return err;
    file = export_file(folder, "meta.yaml", f);
    if (file) {
        fprintf(file,
                "artifact_uri: ''\nentry_point_name: ''\nexperiment_id: '%s'\n"
                "lifecycle_stage: active\nrun_id: %s\nrun_uuid: %s\n",
                EXPERIMENT, meta->id, meta->id);
        put_quoted(file, "run_name", meta->name);
        fprintf(file,
                "source_name: ''\nsource_type: 4\nsource_version: ''\n"
                "start_time: %lld\nstatus: %d\ntags: []\nuser_id: ''\n",
                milliseconds(m->s, meta->began_s), meta->status);
        if (isnan(meta->ended_s))
            fputs("end_time: null\n", file);
        else
            fprintf(file, "end_time: %lld\n",
                    milliseconds(m->s, meta->ended_s));
    }
    return export_done(file, ERR_OK, "meta.yaml", f);
}

/* ---- the run ------------------------------------------------------------- */

struct metric_file {
    const struct export_source *s;
    FILE *file;
};

static enum err put_point(void *ctx, const struct export_point *p)
{
    const struct metric_file *k = ctx;

    if (p->surviving)
        put_metric(k->file, milliseconds(k->s, p->at_s), export_loss(&p->w),
                   p->clock);
    return ferror(k->file) ? ERR_IO : ERR_OK;
}

static enum err put_losses(const struct mlflow *m, struct fault *f)
{
    struct metric_file k = {m->s, open_in(m, m->parent, "metrics", "loss", f)};
    enum err err = ERR_OK;

    if (k.file)
        err = export_each_point(m->s, put_point, &k, f);
    return export_done(k.file, err, "loss", f);
}

static enum err put_epochs(const struct mlflow *m, const char *name,
                           bool metric, struct fault *f)
{
    const struct history *h = &m->s->run->history;
    FILE *file = open_in(m, m->parent, "metrics", name, f);

    for (size_t i = 0; file && i < h->epochs; i++) {
        const struct record_epoch_ended *e = &h->epoch[i].e;
        double value = metric ? e->metric : e->loss;

        if (e->surviving && !(metric && isnan(value)))
            put_metric(file, milliseconds(m->s, h->epoch[i].at_s), value,
                       e->epoch);
    }
    return export_done(file, ERR_OK, name, f);
}

static int status_of_run(const struct history *h)
{
    if (!h->finished)
        return STATUS_RUNNING;
    if (h->end.status == RUN_FINISHED)
        return STATUS_FINISHED;
    return h->end.status == RUN_FAILED ? STATUS_FAILED : STATUS_KILLED;
}

static enum err put_run(const struct mlflow *m, struct fault *f)
{
    const struct history *h = &m->s->run->history;
    struct meta meta = {m->parent, m->s->run->name, status_of_run(h), 0,
                        h->finished ? h->at_s : NAN};
    enum err err = put_meta(m, &meta, f);

    if (!err && h->choices)
        err = put_params(m, m->parent, h->choice[h->choices - 1].c.setting, f);
    if (!err)
        err = put_word(m, m->parent, "tags", "mltune.run", m->s->run->id, f);
    if (!err)
        err = put_losses(m, f);
    if (!err)
        err = put_epochs(m, "epoch_loss", false, f);
    if (!err && h->run.validation_samples)
        err = put_epochs(m, "epoch_metric", true, f);
    return err;
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
    struct meta meta = {id, name, status_of_trial(t), t->started_at_s,
                        t->ended_at_s};
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
        err = put_one_metric(m, id, "speed", at_s, t->t.speed, f);
    if (!err)
        err = put_one_metric(m, id, "seconds", at_s, t->t.seconds, f);
    if (!err && t->t.points)
        err =
            put_one_metric(m, id, "loss", at_s, t->t.loss[t->t.points - 1], f);
    return err;
}

static enum err put_experiment(const struct mlflow *m, struct fault *f)
{
    long long ms = milliseconds(m->s, 0);
    char folder[FILE_PATH_MAX];
    enum err err = file_join(folder, m->path, EXPERIMENT, f);
    FILE *file;

    if (!err)
        err = folder_make(folder, f);
    if (err)
        return err;
    file = export_file(folder, "meta.yaml", f);
    if (file) {
        fprintf(file,
                "artifact_location: ''\ncreation_time: %lld\nexperiment_id: "
                "'%s'\nlast_update_time: %lld\nlifecycle_stage: active\n",
                ms, EXPERIMENT, ms);
        put_quoted(file, "name", m->s->run->name);
    }
    return export_done(file, ERR_OK, "meta.yaml", f);
}

static enum err mlflow_write(const struct export_source *s, FILE *out,
                             const char *path, struct fault *f)
{
    const struct history *h = &s->run->history;
    struct mlflow m = {.s = s, .path = path};
    enum err err = put_experiment(&m, f);

    (void)out;
    make_id(s, 0, m.parent);
    if (!err)
        err = put_run(&m, f);
    for (size_t i = 0; i < h->trials && !err; i++)
        err = put_trial(&m, &h->trial[i], f);
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
