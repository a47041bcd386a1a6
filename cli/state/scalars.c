#include "cli/state/scalars.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

double scalars_wall(const struct scalars *s, double at_s)
{
    double wall = history_wall_of(s->h, at_s);

    return isnan(wall) ? s->began_s : wall;
}

/* Numbers of a setting; @setting is released. */
static enum err put_setting(struct text *out, double wall_s, uint64_t step,
                            json_t *setting)
{
    char tag[EVENT_TAG_MAX];
    const char *name;
    json_t *value;

    if (!setting)
        return ERR_NOMEM;
    json_object_foreach(setting, name, value)
    {
        snprintf(tag, sizeof(tag), "setting/%s", name);
        if (json_is_number(value))
            event_scalar(out, wall_s, step, tag, json_number_value(value));
    }
    json_decref(setting);
    return ERR_OK;
}

/* Further metrics, those that have a value. */
static void put_extras(const struct scalars *s, struct text *out, double wall_s,
                       uint64_t step, const char *group, const double value[])
{
    const struct extras *names = history_extras(s->h);
    char tag[EVENT_TAG_MAX];

    for (uint32_t i = 0; i < names->len; i++) {
        snprintf(tag, sizeof(tag), "%s/%s", group, names->name[i]);
        if (!isnan(value[i]))
            event_scalar(out, wall_s, step, tag, value[i]);
    }
}

enum err scalars_choice(const struct scalars *s, struct text *out, size_t i)
{
    struct history_choice c = history_choice_at(s->h, i);

    return put_setting(out, scalars_wall(s, c.at_s), c.c.clock,
                       history_choice_setting(s->h, i));
}

static void put_epoch(const struct scalars *s, struct text *out,
                      const struct history_epoch *e)
{
    double wall = scalars_wall(s, e->at_s);

    assert(e->e.epoch > 0);
    event_scalar(out, wall, e->e.epoch, "epoch/loss", e->e.loss);
    if (!isnan(e->e.metric))
        event_scalar(out, wall, e->e.epoch, "epoch/metric", e->e.metric);
    put_extras(s, out, wall, e->e.epoch, "epoch/values", e->extra);
}

void scalars_epochs(const struct scalars *s, struct text *out, uint32_t *epoch,
                    branch_id *of)
{
    for (size_t i = 0; i < history_epochs_len(s->h); i++) {
        const struct history_epoch *e = history_epoch_at(s->h, i);

        if (!e->e.surviving || e->e.epoch <= *epoch)
            continue;
        put_epoch(s, out, e);
        *epoch = e->e.epoch;
        *of = e->e.branch;
    }
}

bool scalars_has_epoch(const struct scalars *s, uint32_t epoch, branch_id of)
{
    const struct history_epoch *e = history_epoch_of(s->h, epoch, of);

    return e && e->e.surviving;
}

void scalars_point(const struct scalars *s, struct text *out,
                   const struct lineage_point *p)
{
    double wall = scalars_wall(s, p->at_s);

    event_scalar(out, wall, p->clock, "loss", window_mean(&p->w));
    put_extras(s, out, wall, p->clock, "values", p->extra);
}

struct trial_told scalars_told(const struct scalars *s, size_t i)
{
    struct history_trial trial = history_trial_at(s->h, i);
    const struct trial_figures *figures = &trial.t.figures;

    return (struct trial_told){
        .number = trial.t.trial,
        .search = trial.t.search,
        .ended = trial.ended,
        .label = trial.t.label,
        .began_s = scalars_wall(s, trial.started_at_s),
        .ended_s = scalars_wall(s, trial.ended_at_s),
        .speed = figures->speed,
        .seconds = figures->seconds,
        .loss = figures->points ? figures->loss[figures->points - 1] : NAN};
}

enum err scalars_trial(const struct scalars *s, struct text *out, size_t i)
{
    struct trial_told t = scalars_told(s, i);

    event_scalar(out, t.began_s, t.number, "trial/speed", t.speed);
    event_scalar(out, t.began_s, t.number, "trial/seconds", t.seconds);
    if (!isnan(t.loss))
        event_scalar(out, t.began_s, t.number, "trial/loss", t.loss);
    return put_setting(out, t.began_s, t.number,
                       history_trial_setting(s->h, i));
}
