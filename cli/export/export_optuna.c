/* Optuna: the log of a JournalStorage
 * (optuna.storages.JournalFileStorage, 3.1), a study a search, since speeds of
 * different searches cannot be compared. */
#include "cli/export/export.h"

#include "base/json/json.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* Values of optuna.storages._journal.storage.JournalOperation. */
enum { OP_CREATE_STUDY = 0, OP_CREATE_TRIAL = 4 };
/* Values of optuna.trial.TrialState and optuna.study.StudyDirection. */
enum { RUNNING = 0, COMPLETE = 1, PRUNED = 2, FAIL = 3, MAXIMIZE = 2 };

static enum err put_line(FILE *out, json_t *line)
{
    char *text = line ? json_write(line, 0) : NULL;

    json_decref(line);
    if (!text)
        return ERR_NOMEM;
    fprintf(out, "%s\n", text);
    mem_free(text);
    return ferror(out) ? ERR_IO : ERR_OK;
}

static json_t *range_of(const char *name, const struct tunable *t, json_t *step)
{
    bool whole = t->type == TUNABLE_INT;

    return json_pack(
        "{s:s, s:{s:o, s:o, s:o, s:b}}", "name", name, "attributes", "step",
        step, "low",
        whole ? json_integer((json_int_t)t->min) : json_real(t->min), "high",
        whole ? json_integer((json_int_t)t->max) : json_real(t->max), "log",
        t->scale != SCALE_LINEAR);
}

static json_t *choices_of(const struct tunable *t)
{
    json_t *a = json_array();
    int failed = 0;

    for (size_t i = 0; i < t->values_len; i++) {
        const char *text = tunable_text(t, i);
        double number = t->values[i].number;
        json_t *one = text ? json_string(text)
                      : t->type == TUNABLE_INT
                          ? json_integer((json_int_t)number)
                          : json_real(number);

        failed |= json_array_append_new(a, one);
    }
    return json_pack("{s:s, s:{s:o}}", "name", "CategoricalDistribution",
                     "attributes", "choices", json_whole(a, failed));
}

/* A distribution is a text of JSON in it. */
static json_t *distribution_of(const struct tunable *t)
{
    json_t *o;
    char *text;
    json_t *out;

    if (t->values_len)
        o = choices_of(t);
    else if (t->type == TUNABLE_INT)
        o = range_of("IntDistribution", t, json_integer(1));
    else
        o = range_of("FloatDistribution", t, json_null());
    text = o ? json_write(o, 0) : NULL;
    out = text ? json_string(text) : NULL;
    mem_free(text);
    json_decref(o);
    return out;
}

/* Index of a listed value, else the number. */
static json_t *internal(const struct tunable *t, const json_t *value)
{
    double number = json_number_value(value);

    if (t->values_len == 0)
        return json_real(number);
    for (size_t i = 0; i < t->values_len; i++) {
        const char *text = tunable_text(t, i);

        if (json_is_string(value)
                ? text && strcmp(text, json_string_value(value)) == 0
                : !text && t->values[i].number == number)
            return json_integer((json_int_t)i);
    }
    return NULL;
}

/* False: out of memory. */
static bool put_params(const struct space *space, const json_t *setting,
                       json_t *params, json_t *distributions)
{
    for (size_t i = 0; i < space->len; i++) {
        const struct tunable *t = &space->tunable[i];
        const json_t *value = json_object_get(setting, t->name);
        json_t *number = value && !t->fixed ? internal(t, value) : NULL;

        if (!number)
            continue;
        if (json_object_set_new(params, t->name, number) != 0 ||
            json_object_set_new(distributions, t->name, distribution_of(t)))
            return false;
    }
    return true;
}

/* ISO 8601 in UTC without an offset, as Optuna writes local times. */
static json_t *time_of(const struct export_source *s, double at_s)
{
    double wall = export_wall(s, at_s);
    time_t seconds = (time_t)wall;
    struct tm parts;
    char text[48];
    size_t n;

    if (isnan(at_s) || !gmtime_r(&seconds, &parts))
        return json_null();
    n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + n, sizeof(text) - n, ".%06d",
             (int)((wall - (double)seconds) * 1e6));
    return json_string(text);
}

static int state_of(const struct history_trial *t)
{
    switch (t->t.label) {
    case TRIAL_CONVERGING:
    case TRIAL_UNSTABLE:
        return t->ended ? COMPLETE : RUNNING;
    case TRIAL_RUNNING:
        return RUNNING;
    case TRIAL_STOPPED:
        return PRUNED;
    default:
        return FAIL;
    }
}

static enum err put_trial(const struct export_source *s, FILE *out,
                          const char *worker, const struct history_trial *t)
{
    int state = state_of(t);
    json_t *params = json_object(), *distributions = json_object(), *line;

    if (!put_params(&s->space, t->t.setting, params, distributions)) {
        json_decref(params);
        json_decref(distributions);
        return ERR_NOMEM;
    }
    line = json_pack(
        "{s:i, s:s, s:I, s:o, s:i, s:o, s:n, s:o, s:o, s:{s:I, s:s, s:b}, "
        "s:{}, s:{}}",
        "op_code", OP_CREATE_TRIAL, "worker_id", worker, "study_id",
        (json_int_t)t->t.search - 1, "datetime_start",
        time_of(s, t->started_at_s), "state", state, "value",
        state == COMPLETE ? json_real(t->t.figures.speed) : json_null(),
        "values", "distributions", distributions, "params", params,
        "user_attrs", "trial", (json_int_t)t->t.trial, "label",
        trial_label_name(t->t.label), "incumbent", t->t.incumbent,
        "system_attrs", "intermediate_values");
    if (t->ended)
        line = json_whole(line, json_object_set_new(line, "datetime_complete",
                                                    time_of(s, t->ended_at_s)));
    return put_line(out, line);
}

static enum err optuna_write(const struct export_source *s,
                             const struct export_target *t, struct fault *f)
{
    const struct history *h = &s->run->history;
    FILE *out = t->out;
    enum err err = ERR_OK;

    (void)f;
    /* Studies have the numbers of searches: also of those that gave way. */
    for (uint32_t i = 0; i < history_searches_made(h) && !err; i++) {
        char name[RUN_ID_MAX + 32];

        snprintf(name, sizeof(name), "%s/search-%u", s->run->id, i + 1);
        err = put_line(out,
                       json_pack("{s:i, s:s, s:s, s:[i]}", "op_code",
                                 OP_CREATE_STUDY, "worker_id", s->run->id,
                                 "study_name", name, "directions", MAXIMIZE));
    }
    for (size_t i = 0; i < history_trials_len(h) && !err; i++) {
        struct history_trial trial = history_trial_at(h, i);

        trial.t.setting = history_trial_setting(h, i);
        err =
            trial.t.setting ? put_trial(s, out, s->run->id, &trial) : ERR_NOMEM;
        json_decref(trial.t.setting);
    }
    return err;
}

const struct export_ops export_optuna = {
    .name = "optuna-journal",
    .summary = "the log of an Optuna JournalStorage: a study a search",
    .write = optuna_write,
};
