#include "tuner/board/snapshot_state.h"

#include "base/json/json.h"
#include "tuner/board/branch.h"
#include "tuner/board/branches.h"
#include "tuner/board/slices.h"

#include <assert.h>
#include <math.h>

/* ---- writing ------------------------------------------------------------- */

static int put(json_t *o, const char *name, json_t *value)
{
    return json_object_set_new(o, name, value);
}

static int put_count(json_t *o, const char *name, uint64_t n)
{
    return put(o, name, json_integer((json_int_t)n));
}

static json_t *complete(json_t *o, int failed)
{
    if (!failed)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *result_to_json(const struct epoch_result *r)
{
    json_t *o = json_object();

    return complete(o, put_count(o, "epoch", r->epoch) |
                           put(o, "loss", json_of_number(r->loss)) |
                           put(o, "seconds", json_of_number(r->seconds)) |
                           put_count(o, "clock", r->clock));
}

static json_t *results_to_json(const struct branch *b)
{
    json_t *a = json_array();
    int failed = 0;

    for (size_t i = 0; i < BOARD_EPOCHS_KEPT; i++)
        if (b->result[i].epoch > 0)
            failed |= json_array_append_new(a, result_to_json(&b->result[i]));
    return complete(a, failed);
}

static json_t *lineage_to_json(const struct branch *b)
{
    json_t *o = json_object();

    return complete(o, put_count(o, "clocks", b->clocks) |
                           put_count(o, "epochs", b->epochs) |
                           put(o, "sum", json_of_number(b->now.sum)) |
                           put(o, "seconds", json_of_number(b->now.seconds)) |
                           put_count(o, "samples", b->now.samples) |
                           put_count(o, "epoch_clocks", b->now.clocks) |
                           put_count(o, "increments", b->increments) |
                           put(o, "results", results_to_json(b)));
}

json_t *snapshot_state(const struct board *c, json_t *saved,
                       const struct branch *main, const struct branch *best,
                       const struct best *outcome)
{
    json_t *o = json_object();
    int failed = put(o, "strategy", json_incref(saved)) |
                 put(o, "main", lineage_to_json(main)) |
                 put(o, "beginning", json_boolean(main->id == 0)) |
                 put_count(o, "workers", board_system(c)->workers) |
                 put_count(o, "samples_per_clock", slices_samples_seen(c));

    assert(saved);
    if (best)
        failed |= put(o, "best", lineage_to_json(best)) |
                  put(o, "best_loss", json_of_number(outcome->loss)) |
                  put(o, "best_metric", json_of_number(outcome->metric));
    return complete(o, failed);
}

/* ---- reading ------------------------------------------------------------- */

static bool count_of(const json_t *o, const char *name, uint64_t *out)
{
    const json_t *v = json_object_get(o, name);

    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static bool number_of(const json_t *o, const char *name, double *out)
{
    return json_to_number(json_object_get(o, name), out);
}

static bool result_from_json(const json_t *o, struct branch *b)
{
    struct epoch_result r = {0};
    uint64_t epoch = 0;

    if (!count_of(o, "epoch", &epoch) || !number_of(o, "loss", &r.loss) ||
        !number_of(o, "seconds", &r.seconds) ||
        !count_of(o, "clock", &r.clock) || epoch < 1 || epoch > b->epochs)
        return false;
    r.epoch = (uint32_t)epoch;
    b->result[epoch % BOARD_EPOCHS_KEPT] = r;
    return true;
}

/* The position within an epoch must be one that a clock can be run from. */
static bool plausible(const struct board *c, const struct branch *b)
{
    return branches_position(c, b) < board_units(c) &&
           b->clocks >= b->now.clocks && b->epochs <= b->clocks;
}

static bool lineage_from_json(const struct board *c, const json_t *o,
                              struct branch *b)
{
    const json_t *results = json_object_get(o, "results");
    uint64_t epochs = 0;

    if (!count_of(o, "clocks", &b->clocks) || !count_of(o, "epochs", &epochs) ||
        epochs > UINT32_MAX || !number_of(o, "sum", &b->now.sum) ||
        !number_of(o, "seconds", &b->now.seconds) ||
        !count_of(o, "samples", &b->now.samples) ||
        !count_of(o, "epoch_clocks", &b->now.clocks) ||
        !json_is_array(results) || !isfinite(b->now.sum))
        return false;
    b->epochs = (uint32_t)epochs;
    if (!count_of(o, "increments", &b->increments))
        b->increments = 0; /* a snapshot that is older than they */
    for (size_t i = 0; i < json_array_size(results); i++)
        if (!result_from_json(json_array_get(results, i), b))
            return false;
    return plausible(c, b) &&
           (b->epochs == 0 ||
            b->result[b->epochs % BOARD_EPOCHS_KEPT].epoch == b->epochs);
}

bool snapshot_state_read(const struct board *c, const json_t *state,
                         struct branch *main, struct branch *best,
                         struct snapshot_numbers *out)
{
    assert(out);
    *out = (struct snapshot_numbers){.best.branch = BRANCH_NONE};
    if (!count_of(state, "samples_per_clock", &out->samples_per_clock))
        return false;
    if (!count_of(state, "workers", &out->workers))
        out->workers = 0;
    if (main && !lineage_from_json(c, json_object_get(state, "main"), main))
        return false;
    if (!best)
        return true;
    if (!lineage_from_json(c, json_object_get(state, "best"), best) ||
        !number_of(state, "best_loss", &out->best.loss) ||
        !number_of(state, "best_metric", &out->best.metric))
        return false;
    out->best.branch = best->id;
    out->best.epoch = best->epochs;
    return true;
}
