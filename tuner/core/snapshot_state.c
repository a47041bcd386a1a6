#include "tuner/core/snapshot_state.h"

#include "tuner/board/branch.h"
#include "tuner/board/branches.h"
#include "tuner/board/saved.h"
#include "tuner/board/slices.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- as it is written ---------------------------------------------------- */

/* A branch's lineage. */
struct lineage {
    uint64_t clocks;
    uint32_t epochs;
    struct epoch_sums now;
    uint64_t increments;
    double all_sum;
    uint64_t all_samples;
    uint32_t results;
    struct epoch_result result[BOARD_EPOCHS_KEPT];
    uint64_t own_clocks; /* of a trial's, since its fork; 0: not told */
    uint32_t merge, windows;
    struct trace_window window[TRACE_WINDOWS_MAX];
};

static const struct json_field result_fields[] = {
    {FIELD_OF(epoch_result, U32, epoch), .min = 1},
    {FIELD_OF(epoch_result, REAL, loss)},
    {FIELD_OF(epoch_result, REAL, seconds)},
    {FIELD_OF(epoch_result, U64, clock)},
    {.name = NULL},
};
static const struct field_list results = {
    .fields = result_fields,
    .item = sizeof(struct epoch_result),
    .count = offsetof(struct lineage, results),
};
static const struct json_field lineage_fields[] = {
    {FIELD_OF(lineage, U64, clocks)},
    {FIELD_OF(lineage, U32, epochs)},
    {FIELD_AS("sum", lineage, REAL, now.sum)},
    {FIELD_AS("seconds", lineage, REAL, now.seconds)},
    {FIELD_AS("samples", lineage, U64, now.samples)},
    {FIELD_AS("epoch_clocks", lineage, U64, now.clocks)},
    /* Snapshots may be older than increments. */
    {FIELD_OF(lineage, U64, increments), .optional = true},
    {FIELD_OF(lineage, REAL, all_sum), .optional = true},
    {FIELD_OF(lineage, U64, all_samples), .optional = true},
    {.name = "results",
     .kind = FIELD_OBJECTS,
     .offset = offsetof(struct lineage, result),
     .max = BOARD_EPOCHS_KEPT,
     .list = &results},
    {.name = NULL},
};

static const struct json_field window_fields[] = {
    {FIELD_OF(trace_window, REAL, sum)},
    {FIELD_OF(trace_window, REAL, seconds)},
    {FIELD_OF(trace_window, U64, samples)},
    {FIELD_OF(trace_window, U32, reported)},
    {FIELD_OF(trace_window, U32, epoch)},
    {.name = NULL},
};
static const struct field_list windows = {
    .fields = window_fields,
    .item = sizeof(struct trace_window),
    .count = offsetof(struct lineage, windows),
};
/* Snapshots may be older than these. */
static const struct json_field own_fields[] = {
    {FIELD_OF(lineage, U64, own_clocks), .optional = true},
    {FIELD_OF(lineage, U32, merge), .optional = true},
    {.name = "trace",
     .kind = FIELD_TUPLES,
     .optional = true,
     .offset = offsetof(struct lineage, window),
     .max = TRACE_WINDOWS_MAX,
     .list = &windows},
    {.name = NULL},
};

static json_t *lineage_to_json(const void *member)
{
    const struct lineage *l = member;
    json_t *o = saved_new(lineage_fields, l);

    return o && l->own_clocks ? saved_add(o, own_fields, l) : o;
}

static bool lineage_from_json(const json_t *value, void *member)
{
    return saved_read(value, lineage_fields, member) &&
           saved_read(value, own_fields, member);
}

static const struct field_custom lineage_codec = {lineage_to_json,
                                                  lineage_from_json};

static const char *status_name(unsigned status)
{
    return run_status_name((enum run_status)status);
}

static const struct json_field end_fields[] = {
    {.name = "status",
     .kind = FIELD_ENUM,
     .offset = offsetof(struct tuner_finish, status),
     .max = RUN_STATUS_COUNT - 1,
     .name_of = status_name},
    {FIELD_OF(tuner_finish, TEXT, reason)},
    {FIELD_OF(tuner_finish, REASON, message)},
    {.name = NULL},
};

struct state {
    json_t *strategy; /* owned */
    json_t *end;      /* owned */
    struct lineage main;
    bool beginning; /* it is branch 0 */
    uint64_t workers, samples_per_clock;
};

static const struct json_field state_fields[] = {
    {FIELD_OF(state, OBJECT, strategy), .optional = true},
    {FIELD_OF(state, OBJECT, end), .optional = true},
    {FIELD_OF(state, CUSTOM, main), .custom = &lineage_codec},
    {FIELD_OF(state, BOOL, beginning), .optional = true},
    {FIELD_OF(state, U64, workers), .optional = true},
    {FIELD_OF(state, U64, samples_per_clock)},
    {.name = NULL},
};

/* The members of a state that has a best model. */
struct state_best {
    struct lineage best;
    double loss, metric;
};

static const struct json_field best_fields[] = {
    {FIELD_OF(state_best, CUSTOM, best), .custom = &lineage_codec},
    {FIELD_AS("best_loss", state_best, REAL, loss)},
    {FIELD_AS("best_metric", state_best, REAL, metric)},
    {.name = NULL},
};

/* ---- writing ------------------------------------------------------------- */

static struct lineage lineage_of(const struct branch *b, bool own)
{
    struct lineage l = {.clocks = b->clocks,
                        .epochs = b->epochs,
                        .now = b->now,
                        .increments = b->increments,
                        .all_sum = b->all_sum,
                        .all_samples = b->all_samples};

    for (size_t i = 0; i < BOARD_EPOCHS_KEPT; i++)
        if (b->result[i].epoch > 0)
            l.result[l.results++] = b->result[i];
    if (!own)
        return l;
    l.own_clocks = b->own_clocks;
    l.merge = b->trace.merge;
    l.windows = b->trace.len;
    memcpy(l.window, b->trace.window, l.windows * sizeof(l.window[0]));
    return l;
}

struct state_trial {
    uint32_t trial, number;
    branch_id of;
    struct lineage line;
};

static const struct json_field trial_fields[] = {
    {FIELD_OF(state_trial, U32, trial), .min = 1},
    {FIELD_OF(state_trial, U32, number), .min = 1},
    {FIELD_OF(state_trial, ID, of)},
    {FIELD_OF(state_trial, CUSTOM, line), .custom = &lineage_codec},
    {.name = NULL},
};

json_t *snapshot_state_trial(const struct snapshot_trial *t,
                             const struct branch *b)
{
    const struct state_trial x = {t->trial, t->number, t->of,
                                  lineage_of(b, true)};

    return saved_new(trial_fields, &x);
}

static json_t *add_trials(json_t *o, const struct snapshot_parts *of)
{
    json_t *a = o ? json_array() : NULL;
    int failed = a == NULL;

    for (uint32_t i = 0; !failed && i < of->trials; i++)
        failed |= json_array_append(a, of->trial[i]);
    if (!failed && !json_object_set(o, "trials", a)) {
        json_decref(a);
        return o;
    }
    json_decref(a);
    json_decref(o);
    return NULL;
}

json_t *snapshot_state(const struct board *c, const struct snapshot_parts *of)
{
    const struct state state = {.strategy = of->saved,
                                .end = of->end ? saved_new(end_fields, of->end)
                                               : NULL,
                                .main = lineage_of(of->main, of->own),
                                .beginning = of->main->id == 0,
                                .workers = board_system(c)->workers,
                                .samples_per_clock = slices_samples_seen(c)};
    json_t *o = of->end && !state.end ? NULL : saved_new(state_fields, &state);

    assert(of->saved || of->end);
    json_decref(state.end);
    if (o && of->best) {
        const struct state_best b = {lineage_of(of->best, false),
                                     of->outcome->loss, of->outcome->metric};

        o = saved_add(o, best_fields, &b);
    }
    return of->trials ? add_trials(o, of) : o;
}

/* ---- reading ------------------------------------------------------------- */

/* The position within an epoch must be one that a clock can be run from. */
static bool plausible(const struct board *c, const struct branch *b)
{
    return isfinite(b->now.sum) && branches_position(c, b) < board_units(c) &&
           b->clocks >= b->now.clocks && b->epochs <= b->clocks;
}

static bool take_own(const struct lineage *l, struct branch *b)
{
    if (l->own_clocks == 0)
        return true;
    if (l->own_clocks > l->clocks || l->windows == 0 ||
        l->window[l->windows - 1].epoch > l->epochs ||
        !trace_restore(&b->trace, l->merge, l->window, l->windows) ||
        b->trace.samples > l->all_samples)
        return false;
    b->own_clocks = l->own_clocks;
    b->own_samples = b->trace.samples;
    for (uint32_t i = 0; i < l->windows; i++)
        b->own_sum += l->window[i].sum;
    return true;
}

static bool take_lineage(const struct board *c, const struct lineage *l,
                         struct branch *b)
{
    b->clocks = l->clocks;
    b->epochs = l->epochs;
    b->now = l->now;
    b->increments = l->increments;
    b->all_sum = l->all_sum;
    b->all_samples = l->all_samples;
    for (uint32_t i = 0; i < l->results; i++) {
        if (l->result[i].epoch > b->epochs)
            return false;
        b->result[l->result[i].epoch % BOARD_EPOCHS_KEPT] = l->result[i];
    }
    return plausible(c, b) && take_own(l, b) &&
           (b->epochs == 0 ||
            b->result[b->epochs % BOARD_EPOCHS_KEPT].epoch == b->epochs);
}

static bool take_best(const struct board *c, const json_t *state,
                      struct branch *best, struct best *out)
{
    struct state_best read = {0};

    if (!saved_read(state, best_fields, &read) ||
        !take_lineage(c, &read.best, best))
        return false;
    *out = (struct best){.branch = best->id,
                         .epoch = best->epochs,
                         .loss = read.loss,
                         .metric = read.metric};
    return true;
}

/* The largest clock is no smaller than the mean, unless other workers ran a
 * part: then it is not known. */
static bool seen(const struct state *s)
{
    return s->main.clocks == 0 ||
           s->samples_per_clock >= s->main.all_samples / s->main.clocks;
}

bool snapshot_state_read(const struct board *c, const json_t *state,
                         struct branch *main, struct branch *best,
                         struct snapshot_numbers *out)
{
    struct state read = {0};
    bool good = saved_read(state, state_fields, &read);

    assert(out);
    fields_deinit(state_fields, &read);
    *out = (struct snapshot_numbers){.best.branch = BRANCH_NONE};
    if (!good)
        return false;
    out->samples_per_clock = seen(&read) ? read.samples_per_clock : 0;
    out->workers = read.workers;
    if (main && !take_lineage(c, &read.main, main))
        return false;
    return !best || take_best(c, state, best, &out->best);
}

bool snapshot_state_trials(const json_t *state, struct snapshot_trial *out,
                           uint32_t max, uint32_t *n)
{
    const json_t *a = json_object_get(state, "trials");

    *n = (uint32_t)json_array_size(a);
    for (uint32_t i = 0; i < *n && i < max; i++) {
        struct state_trial x = {0};

        if (!saved_read(json_array_get(a, i), trial_fields, &x))
            return false;
        out[i] = (struct snapshot_trial){x.trial, x.number, x.of, NULL};
    }
    return !a || json_is_array(a);
}

bool snapshot_state_read_trial(const struct board *c, const json_t *state,
                               uint32_t i, struct branch *b)
{
    struct state_trial x = {0};

    return saved_read(json_array_get(json_object_get(state, "trials"), i),
                      trial_fields, &x) &&
           take_lineage(c, &x.line, b);
}

const json_t *snapshot_state_strategy(const json_t *state)
{
    return json_object_get(state, "strategy");
}

bool snapshot_state_end(const json_t *state, struct tuner_finish *out)
{
    struct tuner_finish read = {.reason = ""};

    if (!saved_read(json_object_get(state, "end"), end_fields, &read) ||
        !run_status_is_end(read.status))
        return false;
    *out = read;
    return true;
}

bool snapshot_state_begins(const json_t *state)
{
    return json_is_true(json_object_get(state, "beginning"));
}
