#include "api/routes/history_routes.h"

#include "api/http/value.h"
#include "api/view/list.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* A trial @h in answers, @t its record: name, type as in shapes, value. */
#define TRIAL_MEMBERS(X)                                                       \
    X(trial, "i", json_integer(t->trial))                                      \
    X(search, "i", json_integer(t->search))                                    \
    X(branch, "i?", number_or_null(t->branch, BRANCH_NONE))                    \
    X(suggestion, "i?", number_or_null(t->suggestion, 0))                      \
    X(setting, "o", json_incref(t->setting))                                   \
    X(incumbent, "b", json_boolean(t->incumbent))                              \
    X(label, "@trial_label", json_string(trial_label_name(t->label)))          \
    X(ended, "b", json_boolean(h->ended))                                      \
    X(speed, "n", value_number(t->figures.speed))                              \
    X(speed_unit, "@speed_unit?", unit_or_null(t->figures.speed_unit))         \
    X(noise, "n", value_number(t->figures.noise))                              \
    X(range, "n", value_number(t->figures.range))                              \
    X(seconds, "n", value_number(t->figures.seconds))                          \
    X(samples, "i", json_integer((json_int_t)t->figures.samples))              \
    X(clocks, "i", json_integer((json_int_t)t->figures.clocks))                \
    X(result, "n?", result_or_null(&t->figures))                               \
    X(window_noise, "n", value_number(t->figures.window_noise))                \
    X(reason, "s", value_text(t->reason))                                      \
    X(points, "[trial_point]", points_to_json(&t->figures))                    \
    X(started_at, "t?", list_time(scope, h->started_at_s))                     \
    X(ended_at, "t?", list_time(scope, h->ended ? h->ended_at_s : NAN))
#define AS_SHAPE(name, type, value) #name ":" type " "

const struct shape history_shapes[] = {
    {"trials", "trials:[trial]" SHAPE_PAGE},
    {"trial", TRIAL_MEMBERS(AS_SHAPE)},
    {"trial_point", "seconds:n loss:n"},
    {"branches", "branches:[branch]" SHAPE_PAGE},
    {"branch",
     "branch:i parent:i? type:@branch_type role:s origin:s live:b setting:o "
     "created_clock:i clocks:i samples:i seconds:n points:i "
     "data_bytes:i reads:i staleness:n? created_at:t? freed_at:t? "
     "freed_reason:s?"},
    {"schedule", "schedule:[choice]" SHAPE_PAGE},
    {"choice", "clock:i branch:i setting:o reason:s at:t?"},
    {"slices", "slices:[slice]" SHAPE_PAGE},
    {"slice", "branch:i first_clock:i scheduled_clocks:i report_every:i "
              "clocks:i? scheduled_at:t? ended_at:t?"},
    {"epochs", "epochs:[epoch]" SHAPE_PAGE},
    {"epoch", "epoch:i branch:i surviving:b best:b clock:i loss:n metric:n? "
              "values:o? setting:o seconds:n ended_at:t?"},
    {"searches", "searches:[search]" SHAPE_PAGE},
    {"search", "search:i retune:b tunables:o? parent:i? max_trials:i reason:s "
               "started_at:t? ended_at:t? result:o?"},
    {"decisions", "decisions:[decision]" SHAPE_PAGE},
    {"decision", "number:i decision:s text:s numbers:o clock:i at:t?"},
    {NULL, NULL},
};

static json_t *unit_or_null(enum speed_unit unit)
{
    return unit == SPEED_UNKNOWN ? json_null()
                                 : json_string(speed_unit_name(unit));
}

static json_t *result_or_null(const struct trial_figures *f)
{
    return f->tested ? value_number(f->result) : json_null();
}

static bool filtered(const struct route_call *call, const char *name,
                     int64_t value)
{
    const struct route_arg *arg = call ? route_arg(call, name) : NULL;

    return arg && arg->given && arg->number != value;
}

/* ---- trials -------------------------------------------------------------- */

static void trials_range(const struct history *h, uint64_t *low, uint64_t *len)
{
    *low = 1 + (uint64_t)h->trials_dropped;
    *len = history_trials_len(h);
}

static bool trial_copy(const struct history *h, const struct route_call *call,
                       size_t index, void *item)
{
    struct history_trial *copy = item;

    *copy = history_trial_at(h, index);
    if (filtered(call, "search", copy->t.search))
        return false;
    copy->t.setting = history_trial_setting(h, index);
    return true;
}

static void trial_release(void *item)
{
    struct history_trial *copy = item;

    json_decref(copy->t.setting);
}

static json_t *points_to_json(const struct trial_figures *t)
{
    json_t *points = json_array();

    for (uint32_t i = 0; points && i < t->points; i++) {
        json_t *point =
            json_pack("{s:o, s:o}", "seconds", value_number(t->time_s[i]),
                      "loss", value_number(t->loss[i]));

        if (json_array_append_new(points, point) < 0) {
            json_decref(points);
            points = NULL;
        }
    }
    return points;
}

static json_t *number_or_null(uint32_t number, uint32_t none)
{
    return number == none ? json_null() : json_integer(number);
}

static json_t *trial_to_json(const struct list_scope *scope, const void *item)
{
    const struct history_trial *h = item;
    const struct record_trial *t = &h->t;
    json_t *o = json_object();
    int failed = 0;

#define PUT(name, type, value) failed |= json_object_set_new(o, #name, value);
    TRIAL_MEMBERS(PUT)
#undef PUT
    if (!failed)
        return o;
    json_decref(o);
    return NULL;
}

static int64_t trial_index(const struct history *h,
                           const struct route_call *call)
{
    int64_t n = route_arg(call, "trial")->number;

    size_t i = n >= 1 && n <= UINT32_MAX ? history_trial_index(h, (uint32_t)n)
                                         : SIZE_MAX;

    return i == SIZE_MAX ? -1 : (int64_t)i;
}

static const struct list_kind trials = {
    .name = "trials",
    .item_size = sizeof(struct history_trial),
    .range = trials_range,
    .copy = trial_copy,
    .to_json = trial_to_json,
    .release = trial_release,
};

void handle_trials(const struct route_call *call, struct response *out)
{
    list_respond(call, &trials, out);
}

void handle_trial(const struct route_call *call, struct response *out)
{
    list_respond_one(call, &trials, trial_index, "trial", out);
}

/* ---- branches ------------------------------------------------------------ */

static void branches_range(const struct history *h, uint64_t *low,
                           uint64_t *len)
{
    *low = 1;
    *len = h->branches;
}

static bool branch_copy(const struct history *h, const struct route_call *call,
                        size_t index, void *item)
{
    struct history_branch *copy = item;

    assert(index < h->branches);
    if (filtered(call, "live", isnan(h->branch[index].freed_at_s)))
        return false;
    *copy = h->branch[index];
    copy->point = NULL; /* its points stay under the lock */
    copy->setting = history_branch_setting(h, &h->branch[index]);
    return true;
}

static void branch_release(void *item)
{
    struct history_branch *copy = item;

    json_decref(copy->setting);
}

static json_t *branch_to_json(const struct list_scope *scope, const void *item)
{
    const struct history_branch *b = item;
    bool live = isnan(b->freed_at_s);

    return json_pack(
        "{s:I, s:o, s:s, s:o, s:s, s:b, s:o, s:I, s:I, s:I, s:o, s:I, s:I, "
        "s:I, s:o, s:o, s:o, s:o}",
        "branch", (json_int_t)b->branch, "parent",
        b->parent == BRANCH_NONE ? json_null() : json_integer(b->parent),
        "type", branch_type_name(b->type), "role", value_text(b->role),
        "origin", strcmp(b->role, "user") == 0 ? "user" : "tuner", "live", live,
        "setting", json_incref(b->setting), "created_clock",
        (json_int_t)b->created_clock, "clocks", (json_int_t)b->clocks,
        "samples", (json_int_t)b->samples, "seconds", value_number(b->seconds),
        "points", (json_int_t)b->points, "data_bytes",
        (json_int_t)b->data_bytes, "reads", (json_int_t)b->reads, "staleness",
        b->reads ? value_number(b->staleness / (double)b->reads) : json_null(),
        "created_at", list_time(scope, b->created_at_s), "freed_at",
        list_time(scope, b->freed_at_s), "freed_reason",
        live ? json_null() : value_text(b->freed_reason));
}

static int64_t branch_index(const struct history *h,
                            const struct route_call *call)
{
    const struct history_branch *b =
        history_branch(h, (branch_id)route_arg(call, "branch")->number);

    return b ? b - h->branch : -1;
}

static const struct list_kind branches = {
    .name = "branches",
    .item_size = sizeof(struct history_branch),
    .range = branches_range,
    .copy = branch_copy,
    .to_json = branch_to_json,
    .release = branch_release,
};

void handle_branches(const struct route_call *call, struct response *out)
{
    list_respond(call, &branches, out);
}

void handle_branch(const struct route_call *call, struct response *out)
{
    list_respond_one(call, &branches, branch_index, "branch", out);
}

/* ---- searches ------------------------------------------------------------ */

static void searches_range(const struct history *h, uint64_t *low,
                           uint64_t *len)
{
    *low = 1 + (uint64_t)h->searches_dropped;
    *len = history_searches_len(h);
}

static bool search_copy(const struct history *h, const struct route_call *call,
                        size_t index, void *item)
{
    struct history_search *copy = item;

    (void)call;
    *copy = history_search_at(h, index);
    copy->started.tunables = history_search_tunables(h, index);
    return true;
}

static void search_release(void *item)
{
    struct history_search *copy = item;

    json_decref(copy->started.tunables);
}

static json_t *search_result(const struct record_search_ended *e)
{
    return json_pack("{s:I, s:o, s:o, s:o, s:I, s:o, s:o}", "trials",
                     (json_int_t)e->trials, "winner",
                     e->winner ? json_integer(e->winner) : json_null(),
                     "trial_seconds", value_number(e->trial_s), "seconds",
                     value_number(e->seconds), "clocks", (json_int_t)e->clocks,
                     "waiting_seconds", value_number(e->waiting_s), "reason",
                     value_text(e->reason));
}

static json_t *search_to_json(const struct list_scope *scope, const void *item)
{
    const struct history_search *s = item;

    return json_pack("{s:I, s:b, s:O, s:I, s:I, s:o, s:o, s:o, s:o}", "search",
                     (json_int_t)s->started.search, "retune", s->started.retune,
                     "tunables", s->started.tunables, "parent",
                     (json_int_t)s->started.parent, "max_trials",
                     (json_int_t)s->started.trials_max, "reason",
                     value_text(s->started.reason), "started_at",
                     list_time(scope, s->started_at_s), "ended_at",
                     list_time(scope, s->ended ? s->ended_at_s : NAN), "result",
                     s->ended ? search_result(&s->end) : json_null());
}

static const struct list_kind searches = {
    .name = "searches",
    .item_size = sizeof(struct history_search),
    .range = searches_range,
    .copy = search_copy,
    .to_json = search_to_json,
    .release = search_release,
};

void handle_searches(const struct route_call *call, struct response *out)
{
    list_respond(call, &searches, out);
}

/* ---- epochs -------------------------------------------------------------- */

static void epochs_range(const struct history *h, uint64_t *low, uint64_t *len)
{
    *low = 1;
    *len = h->epochs;
}

static bool epoch_copy(const struct history *h, const struct route_call *call,
                       size_t index, void *item)
{
    struct history_epoch *copy = item;

    if (filtered(call, "surviving", h->epoch[index].e.surviving))
        return false;
    *copy = h->epoch[index];
    copy->e.setting = history_epoch_setting(h, &h->epoch[index]);
    return true;
}

static void epoch_release(void *item)
{
    struct history_epoch *copy = item;

    json_decref(copy->e.setting);
}

/* Further metrics of an epoch's validation; null where the run has none. */
static json_t *extras_to_json(const struct extras *names,
                              const double value[EXTRAS_MAX])
{
    json_t *o = names->len ? json_object() : json_null();

    for (size_t k = 0; o && k < names->len; k++)
        if (!isnan(value[k]) &&
            json_object_set_new(o, names->name[k], json_real(value[k]))) {
            json_decref(o);
            return NULL;
        }
    return o;
}

static json_t *epoch_to_json(const struct list_scope *scope, const void *item)
{
    const struct history_epoch *epoch = item;
    const struct record_epoch_ended *e = &epoch->e;

    return json_pack(
        "{s:I, s:I, s:b, s:b, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "epoch",
        (json_int_t)e->epoch, "branch", (json_int_t)e->branch, "surviving",
        e->surviving, "best", e->best, "clock", (json_int_t)e->clock, "loss",
        value_number(e->loss), "metric",
        scope->has_metric ? value_number(e->metric) : json_null(), "values",
        extras_to_json(&scope->extras, epoch->extra), "setting",
        json_incref(e->setting), "seconds", value_number(e->seconds),
        "ended_at", list_time(scope, epoch->at_s));
}

static const struct list_kind epochs = {
    .name = "epochs",
    .item_size = sizeof(struct history_epoch),
    .range = epochs_range,
    .copy = epoch_copy,
    .to_json = epoch_to_json,
    .release = epoch_release,
};

void handle_epochs(const struct route_call *call, struct response *out)
{
    list_respond(call, &epochs, out);
}

/* ---- schedule: which setting from which clock ---------------------------- */

static void schedule_range(const struct history *h, uint64_t *low,
                           uint64_t *len)
{
    *low = 1;
    *len = history_choices_len(h);
}

static bool choice_copy(const struct history *h, const struct route_call *call,
                        size_t index, void *item)
{
    struct history_choice *copy = item;

    (void)call;
    *copy = history_choice_at(h, index);
    copy->c.setting = history_choice_setting(h, index);
    return true;
}

static void choice_release(void *item)
{
    struct history_choice *copy = item;

    json_decref(copy->c.setting);
}

static json_t *choice_to_json(const struct list_scope *scope, const void *item)
{
    const struct history_choice *c = item;

    return json_pack("{s:I, s:I, s:o, s:o, s:o}", "clock",
                     (json_int_t)c->c.clock, "branch", (json_int_t)c->c.branch,
                     "setting", json_incref(c->c.setting), "reason",
                     value_text(c->c.reason), "at", list_time(scope, c->at_s));
}

static const struct list_kind schedule = {
    .name = "schedule",
    .item_size = sizeof(struct history_choice),
    .range = schedule_range,
    .copy = choice_copy,
    .to_json = choice_to_json,
    .release = choice_release,
};

void handle_schedule(const struct route_call *call, struct response *out)
{
    list_respond(call, &schedule, out);
}

/* ---- slices: which branch ran at which clocks ---------------------------- */

static void slices_range(const struct history *h, uint64_t *low, uint64_t *len)
{
    *low = h->slices_dropped + 1;
    *len = h->slices;
}

static bool slice_copy(const struct history *h, const struct route_call *call,
                       size_t index, void *item)
{
    (void)call;
    *(struct history_slice *)item = h->slice[index];
    return true;
}

static json_t *slice_to_json(const struct list_scope *scope, const void *item)
{
    const struct history_slice *s = item;

    return json_pack(
        "{s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "branch",
        (json_int_t)s->s.branch, "first_clock", (json_int_t)s->s.first,
        "scheduled_clocks", (json_int_t)s->s.count, "report_every",
        (json_int_t)s->s.report_every, "clocks",
        s->ended ? json_integer((json_int_t)s->clocks) : json_null(),
        "scheduled_at", list_time(scope, s->scheduled_at_s), "ended_at",
        list_time(scope, s->ended ? s->ended_at_s : NAN));
}

static const struct list_kind slices = {
    .name = "slices",
    .item_size = sizeof(struct history_slice),
    .range = slices_range,
    .copy = slice_copy,
    .to_json = slice_to_json,
};

void handle_slices(const struct route_call *call, struct response *out)
{
    list_respond(call, &slices, out);
}

/* ---- decisions ----------------------------------------------------------- */

struct decision_item {
    uint64_t number;
    struct history_decision d;
};

static void decisions_range(const struct history *h, uint64_t *low,
                            uint64_t *len)
{
    *low = h->decisions_dropped + 1;
    *len = h->decisions;
}

static bool decision_copy(const struct history *h,
                          const struct route_call *call, size_t index,
                          void *item)
{
    struct decision_item *copy = item;

    (void)call;
    copy->number = h->decisions_dropped + 1 + index;
    copy->d = h->decision[index];
    return true;
}

static json_t *numbers_to_json(const struct record_decision *d)
{
    json_t *numbers = json_object();

    for (uint32_t i = 0; numbers && i < d->numbers; i++) {
        if (json_object_set_new(numbers, d->number[i].name,
                                value_number(d->number[i].value)) < 0) {
            json_decref(numbers);
            numbers = NULL;
        }
    }
    return numbers;
}

static json_t *decision_to_json(const struct list_scope *scope,
                                const void *item)
{
    const struct decision_item *i = item;

    return json_pack(
        "{s:I, s:o, s:o, s:o, s:I, s:o}", "number", (json_int_t)i->number,
        "decision", value_text(i->d.d.decision), "text",
        value_text(i->d.d.text), "numbers", numbers_to_json(&i->d.d), "clock",
        (json_int_t)i->d.clock, "at", list_time(scope, i->d.at_s));
}

static const struct list_kind decisions = {
    .name = "decisions",
    .item_size = sizeof(struct decision_item),
    .range = decisions_range,
    .copy = decision_copy,
    .to_json = decision_to_json,
};

void handle_decisions(const struct route_call *call, struct response *out)
{
    list_respond(call, &decisions, out);
}
