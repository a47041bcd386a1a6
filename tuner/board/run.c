#include "tuner/board/run.h"

#include "base/mem.h"
#include "tuner/board/clockwork.h"
#include "tuner/board/parts.h"
#include "tuner/board/strategy.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct run {
    struct tuner_options options; /* its text members point to these: */
    char run[RECORD_NAME_MAX], name[RECORD_NAME_MAX], app[RECORD_NAME_MAX];
    char snapshot_dir[PROTO_PATH_MAX], model_dir[PROTO_PATH_MAX];
    struct space space; /* `acts` as the training system says */
    struct setting initial;

    bool ready, begun;
    struct msg_ready system;
    double beat_s[NODES_MAX]; /* of each node's latest record */

    enum run_status status;
    enum run_status before_pause;
    char why[RECORD_TEXT_MAX]; /* of that status */
};

/* ---- life ---------------------------------------------------------------- */

static const char *copied(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text);
    return out;
}

enum err run_init(struct board *c, const struct tuner_options *o)
{
    struct run *r = mem_calloc(1, sizeof(*r));

    assert(!c->run);
    if (!r)
        return ERR_NOMEM;
    c->run = r;
    for (size_t i = 0; i < NODES_MAX; i++)
        r->beat_s[i] = -INFINITY;
    r->options = *o;
    r->options.run = copied(r->run, sizeof(r->run), o->run);
    r->options.name = copied(r->name, sizeof(r->name), o->name);
    r->options.app = copied(r->app, sizeof(r->app), o->app);
    r->options.snapshot_dir =
        copied(r->snapshot_dir, sizeof(r->snapshot_dir), o->snapshot_dir);
    r->options.model_dir =
        copied(r->model_dir, sizeof(r->model_dir), o->model_dir);
    space_copy(&r->space, o->space);
    r->options.space = &r->space;
    if (o->initial) {
        r->initial = *o->initial;
        r->options.initial = &r->initial;
    }
    r->status = RUN_WAITING;
    return ERR_OK;
}

void run_deinit(struct board *c)
{
    mem_free(c->run);
    c->run = NULL;
}

/* ---- what it was told ---------------------------------------------------- */

const struct tuner_options *run_options(const struct board *c)
{
    return &c->run->options;
}

const struct strategy_ops *run_strategy(const struct board *c)
{
    return c->run->options.strategy;
}

const struct history *board_history(const struct board *c)
{
    return c->run->options.resume;
}

const struct searcher_ops *board_searcher(const struct board *c)
{
    return c->run->options.searcher;
}

const json_t *board_searcher_settings(const struct board *c)
{
    return c->run->options.searcher_settings;
}

void board_set_searcher(struct board *c, const struct searcher_ops *searcher)
{
    assert(searcher);
    c->run->options.searcher = searcher;
    c->run->options.searcher_settings = NULL;
}

const struct setting *board_initial(const struct board *c)
{
    return c->run->options.initial;
}

const struct earlier *board_earlier(const struct board *c)
{
    return c->run->options.earlier;
}

bool board_retunes(const struct board *c)
{
    return c->run->options.retune;
}

uint32_t board_max_trials(const struct board *c)
{
    return c->run->options.max_trials;
}

enum tuner_trial_stops board_trial_stops(const struct board *c)
{
    return c->run->options.trial_stops;
}

uint64_t board_trial_clocks(const struct board *c)
{
    return c->run->options.trial_clocks;
}

uint64_t board_seed(const struct board *c)
{
    return c->run->options.seed;
}

const struct space *board_space(const struct board *c)
{
    return &c->run->space;
}

struct record_limits board_limits(const struct board *c)
{
    const struct tuner_options *o = &c->run->options;

    return (struct record_limits){
        .target_loss = o->target_loss,
        .target_metric = o->target_metric,
        .max_time_s = o->max_time_s,
        .plateau_epochs = o->plateau_epochs,
        .max_epochs = o->max_epochs,
    };
}

void run_set_limits(struct board *c, const struct record_limits *to)
{
    struct tuner_options *o = &c->run->options;

    assert(to->plateau_epochs >= 1);
    assert(to->max_epochs >= 1);
    assert(to->max_time_s > 0);
    o->target_loss = to->target_loss;
    o->target_metric = to->target_metric;
    o->max_time_s = to->max_time_s;
    if (o->plateau_epochs != to->plateau_epochs)
        o->plateau_samples = 0; /* the user says how many */
    o->plateau_epochs = to->plateau_epochs;
    o->max_epochs = to->max_epochs;
}

/* ---- the training system ------------------------------------------------- */

void run_take_ready(struct board *c, const struct msg_ready *m)
{
    struct run *r = c->run;

    assert(!r->ready);
    assert(m->samples > 0);
    assert(m->workers > 0);
    r->ready = true;
    r->system = *m;
    r->system.tunables = r->system.tables = r->system.metrics = NULL;
    r->system.data = NULL;
    for (size_t i = 0; i < r->space.len; i++) {
        struct tunable *t = &r->space.tunable[i];
        bool named = false;

        for (size_t j = 0; j < json_array_size(m->tunables); j++) {
            const char *s = json_string_value(json_array_get(m->tunables, j));

            named |= s && strcmp(s, t->name) == 0;
        }
        /* Whoever asks for it to be searched all the same gets it. */
        named |= r->options.program && t->free;
        t->acts = t->acts && named;
        if (r->options.program && !named && !t->fixed)
            space_pin(&r->space, i, t->preset);
    }
}

/* ", NAME" at the end of @out, or " and more" where it has no room. */
static void add_name(char *out, size_t size, const char *name)
{
    static const char more[] = " and more";
    size_t n = strlen(out);

    if (n + strlen(name) + sizeof(more) + 2 < size)
        snprintf(out + n, size - n, "%s%s", n > 0 ? ", " : "", name);
    else if (n >= sizeof(more) && strcmp(out + n - strlen(more), more) != 0)
        snprintf(out + n, size - n, "%s", more);
}

void run_compare_tunables(struct board *c, const json_t *names)
{
    enum { NAMES_BYTES = RECORD_TEXT_MAX - 160 };
    const struct space *s = &c->run->space;
    char without[NAMES_BYTES] = "", besides[NAMES_BYTES] = "";
    json_t *name;
    size_t i;

    assert(c->run->ready);
    for (i = 0; i < s->len; i++)
        if (!s->tunable[i].acts)
            add_name(without, sizeof(without), s->tunable[i].name);
    json_array_foreach((json_t *)names, i, name)
    {
        const char *text = json_string_value(name);

        if (text && space_find(s, text) < 0)
            add_name(besides, sizeof(besides), text);
    }
    if (without[0])
        board_decision(c, "tunables",
                       "the program does not name %s, which changes nothing "
                       "then: pinned at the default",
                       without);
    if (besides[0])
        board_decision(c, "tunables",
                       "the program also has %s, which the configuration does "
                       "not list: not tuned",
                       besides);
}

bool run_ready(const struct board *c)
{
    return c->run->ready;
}

const struct msg_ready *board_system(const struct board *c)
{
    return &c->run->system;
}

uint64_t board_samples(const struct board *c)
{
    return c->run->system.samples;
}

double board_loss_floor(const struct board *c)
{
    return c->run->system.loss_floor;
}

bool board_validates(const struct board *c)
{
    return c->run->system.validation_samples > 0;
}

bool board_has_parts(const struct board *c)
{
    return c->run->system.parts > 0;
}

void run_record_started(struct board *c)
{
    struct record_run_started *r = board_record_run_started(c);
    const struct tuner_options *o = &c->run->options;
    const struct msg_ready *m = &c->run->system;

    assert(c->run->ready);
    memcpy(r->run, c->run->run, sizeof(r->run));
    memcpy(r->name, c->run->name, sizeof(r->name));
    memcpy(r->app, c->run->app, sizeof(r->app));
    snprintf(r->strategy, sizeof(r->strategy), "%s", o->strategy->name);
    snprintf(r->searcher, sizeof(r->searcher), "%s",
             o->searcher ? o->searcher->name : "");
    r->seed = o->seed & INT64_MAX;
    r->started_unix_s = o->started_unix_s - clockwork_resumed_at_s(c);
    r->samples = m->samples;
    r->validation_samples = m->validation_samples;
    r->parts = m->parts;
    r->workers = m->workers;
    snprintf(r->metric, sizeof(r->metric), "%s", m->metric);
    r->metric_higher_better = m->metric_higher_better;
    r->limits = board_limits(c);
}

void run_begin(struct board *c)
{
    assert(c->run->ready);
    c->run->begun = true;
}

bool run_begun(const struct board *c)
{
    return c->run->begun;
}

void run_take_beat(struct board *c, const struct msg_beat *beat, bool all)
{
    double now = clockwork_now(c), *last;

    assert(beat->node < NODES_MAX);
    last = &c->run->beat_s[beat->node];
    if (!c->run->ready ||
        (!all && now - *last < nodes_interval(clockwork_run_s(c))))
        return;
    board_record_node(c)->beat = *beat;
    *last = now;
}

/* ---- how it stands ------------------------------------------------------- */

static void record_status(struct board *c, const char *reason)
{
    struct record_run_status *r = board_record_run_status(c);

    r->status = c->run->status;
    snprintf(r->reason, sizeof(r->reason), "%s", reason);
    snprintf(c->run->why, sizeof(c->run->why), "%s", reason);
}

void board_set_status(struct board *c, enum run_status status,
                      const char *reason)
{
    if (c->run->status == status)
        return;
    if (status == RUN_PAUSED)
        c->run->before_pause = c->run->status;
    c->run->status = status;
    record_status(c, reason);
}

void board_renew_status(struct board *c, enum run_status status,
                        const char *reason)
{
    if (c->run->status != status)
        board_set_status(c, status, reason);
    else if (strcmp(c->run->why, reason) != 0)
        record_status(c, reason);
}

enum run_status run_status(const struct board *c)
{
    return c->run->status;
}

enum run_status run_status_unpaused(const struct board *c)
{
    return c->run->status == RUN_PAUSED ? c->run->before_pause : c->run->status;
}

void run_set_over(struct board *c, enum run_status status)
{
    assert(run_status_is_end(status));
    c->run->status = status;
}
