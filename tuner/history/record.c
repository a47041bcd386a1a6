#include "tuner/history/record.h"

#include "base/json/json.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char *const kind_names[] = {
#define NAME(name, lower) [RECORD_##name] = #lower,
    RECORD_LIST(NAME)
#undef NAME
};

static const char *const status_names[] = {
#define NAME(name, lower) [RUN_##name] = #lower,
    RUN_STATUS_LIST(NAME)
#undef NAME
};

static const char *const label_names[] = {
#define NAME(name, lower) [TRIAL_##name] = #lower,
    TRIAL_LABEL_LIST(NAME)
#undef NAME
};

static const char *const suggestion_names[] = {
#define NAME(name, lower) [SUGGESTION_##name] = #lower,
    SUGGESTION_STATE_LIST(NAME)
#undef NAME
};

static const char *const asking_names[] = {
#define NAME(name, lower) [ASKING_##name] = #lower,
    ASKING_LIST(NAME)
#undef NAME
};

const char *record_kind_name(enum record_kind kind)
{
    assert((unsigned)kind < RECORD_KIND_COUNT);
    return kind_names[kind];
}

const char *run_status_name(enum run_status status)
{
    assert((unsigned)status < RUN_STATUS_COUNT);
    return status_names[status];
}

const char *trial_label_name(enum trial_label label)
{
    assert((unsigned)label < TRIAL_LABEL_COUNT);
    return label_names[label];
}

const char *suggestion_state_name(enum suggestion_state state)
{
    assert((unsigned)state < SUGGESTION_STATE_COUNT);
    return suggestion_names[state];
}

const char *asking_name(enum asking asking)
{
    assert((unsigned)asking < ASKING_COUNT);
    return asking_names[asking];
}

bool run_status_is_end(enum run_status status)
{
    return status == RUN_FINISHED || status == RUN_FAILED ||
           status == RUN_INTERRUPTED || status == RUN_STOPPED;
}

/* ---- members as a table -------------------------------------------------- */

enum member_type {
    TEXT,   /* char[size] */
    U32,    /* uint32_t */
    U64,    /* uint64_t */
    BRANCH, /* branch_id; BRANCH_NONE is null */
    REAL,   /* double, may be non-finite */
    BOOL,
    STATUS, /* enum run_status */
    LABEL,  /* enum trial_label */
    TYPE,   /* enum branch_type */
    STATE,  /* enum suggestion_state */
    ASKING, /* enum asking */
    OBJECT, /* json_t *, owned; absent when NULL */
    ARRAY   /* the same */
};

struct member {
    const char *name;
    enum member_type type;
    size_t offset, size;
    bool optional; /* newer than some journals: zero where it is missing */
};

#define MEMBER(type, part, field)                                              \
    {                                                                          \
#field, type, offsetof(struct record, part.field),                     \
            sizeof(((struct record *)0)->part.field), false                    \
    }
#define LATER(type, part, field)                                               \
    {                                                                          \
#field, type, offsetof(struct record, part.field),                     \
            sizeof(((struct record *)0)->part.field), true                     \
    }
/* Of a struct in a struct; all newer than the first journals. */
#define INNER(type, part, inner, field)                                        \
    {                                                                          \
#field, type, offsetof(struct record, part.inner.field),               \
            sizeof(((struct record *)0)->part.inner.field), true               \
    }
#define LIMITS(part)                                                           \
    INNER(REAL, part, limits, target_loss),                                    \
        INNER(REAL, part, limits, target_metric),                              \
        INNER(REAL, part, limits, max_time_s),                                 \
        INNER(U32, part, limits, plateau_epochs),                              \
        INNER(U32, part, limits, max_epochs)
#define END                                                                    \
    {                                                                          \
        NULL, TEXT, 0, 0, false                                                \
    }

static const struct member run_started[] = {
    MEMBER(TEXT, run_started, run),
    MEMBER(TEXT, run_started, name),
    MEMBER(TEXT, run_started, app),
    MEMBER(TEXT, run_started, strategy),
    MEMBER(TEXT, run_started, searcher),
    MEMBER(U64, run_started, seed),
    MEMBER(REAL, run_started, started_unix_s),
    MEMBER(U64, run_started, samples),
    MEMBER(U64, run_started, validation_samples),
    MEMBER(U64, run_started, parts),
    MEMBER(U32, run_started, workers),
    MEMBER(TEXT, run_started, metric),
    MEMBER(BOOL, run_started, metric_higher_better),
    LIMITS(run_started),
    END};
static const struct member run_status[] = {
    MEMBER(STATUS, run_status, status), MEMBER(TEXT, run_status, reason), END};
static const struct member run_finished[] = {
    MEMBER(STATUS, run_finished, status), MEMBER(TEXT, run_finished, reason),
    MEMBER(TEXT, run_finished, message), LATER(REAL, run_finished, waiting_s),
    END};
static const struct member run_resumed[] = {
    MEMBER(BRANCH, run_resumed, from),
    MEMBER(U32, run_resumed, epoch),
    MEMBER(U32, run_resumed, best_epoch),
    MEMBER(U32, run_resumed, search),
    MEMBER(U32, run_resumed, restarts),
    LATER(REAL, run_resumed, unix_s),
    MEMBER(TEXT, run_resumed, path),
    MEMBER(TEXT, run_resumed, reason),
    END};
static const struct member command[] = {
    MEMBER(TEXT, command, command), MEMBER(BOOL, command, paused),
    MEMBER(BOOL, command, retune), LIMITS(command), END};
static const struct member search_started[] = {
    MEMBER(U32, search_started, search),
    MEMBER(BOOL, search_started, retune),
    MEMBER(BRANCH, search_started, parent),
    MEMBER(U32, search_started, trials_max),
    MEMBER(TEXT, search_started, reason),
    LATER(OBJECT, search_started, tunables),
    END};
static const struct member search_decided[] = {
    MEMBER(U32, search_decided, search), MEMBER(REAL, search_decided, trial_s),
    MEMBER(REAL, search_decided, judged_s), END};
static const struct member search_ended[] = {
    MEMBER(U32, search_ended, search),
    MEMBER(U32, search_ended, trials),
    MEMBER(U32, search_ended, winner),
    MEMBER(REAL, search_ended, trial_s),
    MEMBER(REAL, search_ended, seconds),
    MEMBER(U64, search_ended, clocks),
    MEMBER(TEXT, search_ended, reason),
    LATER(REAL, search_ended, waiting_s),
    END};
static const struct member trial[] = {
    MEMBER(U32, trial, trial),        MEMBER(U32, trial, search),
    MEMBER(BRANCH, trial, branch),    MEMBER(OBJECT, trial, setting),
    MEMBER(BOOL, trial, incumbent),   MEMBER(LABEL, trial, label),
    MEMBER(REAL, trial, speed),       MEMBER(REAL, trial, noise),
    MEMBER(REAL, trial, range),       MEMBER(REAL, trial, seconds),
    MEMBER(U64, trial, samples),      MEMBER(U64, trial, clocks),
    LATER(REAL, trial, lead),         LATER(REAL, trial, lead_se),
    LATER(REAL, trial, pace),         LATER(REAL, trial, paced),
    LATER(REAL, trial, run_s),        LATER(U32, trial, pairs),
    LATER(REAL, trial, window_noise), LATER(TEXT, trial, reason),
    LATER(U32, trial, suggestion),    END};
static const struct member branch_created[] = {
    MEMBER(BRANCH, branch_created, branch),
    MEMBER(BRANCH, branch_created, parent),
    MEMBER(TYPE, branch_created, type),
    MEMBER(OBJECT, branch_created, setting),
    MEMBER(TEXT, branch_created, role),
    END};
static const struct member branch_freed[] = {
    MEMBER(BRANCH, branch_freed, branch), MEMBER(TEXT, branch_freed, reason),
    END};
static const struct member user_branch[] = {
    MEMBER(BRANCH, user_branch, branch),
    MEMBER(BRANCH, user_branch, instead_of),
    MEMBER(BOOL, user_branch, promoted),
    MEMBER(U32, user_branch, epochs),
    MEMBER(U64, user_branch, clocks),
    END};
static const struct member suggestion[] = {MEMBER(U32, suggestion, suggestion),
                                           MEMBER(STATE, suggestion, state),
                                           MEMBER(U32, suggestion, trial),
                                           MEMBER(OBJECT, suggestion, setting),
                                           MEMBER(TEXT, suggestion, reason),
                                           MEMBER(TEXT, suggestion, key),
                                           END};
static const struct member asking[] = {MEMBER(U32, asking, search),
                                       MEMBER(ASKING, asking, asking),
                                       MEMBER(TEXT, asking, reason), END};
static const struct member tables[] = {MEMBER(ARRAY, tables, tables), END};
static const struct member increment[] = {MEMBER(U64, increment, number),
                                          MEMBER(BRANCH, increment, branch),
                                          MEMBER(TEXT, increment, table),
                                          MEMBER(U64, increment, row),
                                          MEMBER(U32, increment, values),
                                          MEMBER(REAL, increment, norm),
                                          END};
static const struct member slice_scheduled[] = {
    MEMBER(BRANCH, slice_scheduled, branch),
    MEMBER(U64, slice_scheduled, first), MEMBER(U64, slice_scheduled, count),
    MEMBER(U64, slice_scheduled, report_every), END};
static const struct member slice_ended[] = {
    MEMBER(BRANCH, slice_ended, branch), MEMBER(U64, slice_ended, first),
    MEMBER(U64, slice_ended, clocks),    MEMBER(REAL, slice_ended, switch_s),
    LATER(U64, slice_ended, data_bytes), LATER(U64, slice_ended, reads),
    LATER(REAL, slice_ended, staleness), END};
static const struct member progress[] = {
    MEMBER(BRANCH, progress, branch), MEMBER(U64, progress, first),
    MEMBER(U64, progress, branch_clock), END};
static const struct member epoch_ended[] = {
    MEMBER(U32, epoch_ended, epoch),      MEMBER(BRANCH, epoch_ended, branch),
    MEMBER(BOOL, epoch_ended, surviving), MEMBER(OBJECT, epoch_ended, setting),
    MEMBER(U64, epoch_ended, clock),      MEMBER(REAL, epoch_ended, loss),
    MEMBER(REAL, epoch_ended, metric),    MEMBER(BOOL, epoch_ended, best),
    MEMBER(REAL, epoch_ended, seconds),   END};
static const struct member setting_chosen[] = {
    MEMBER(U64, setting_chosen, clock), MEMBER(BRANCH, setting_chosen, branch),
    MEMBER(OBJECT, setting_chosen, setting),
    MEMBER(TEXT, setting_chosen, reason), END};
static const struct member decision[] = {MEMBER(TEXT, decision, decision),
                                         MEMBER(TEXT, decision, text), END};
static const struct member snapshot_written[] = {
    MEMBER(BRANCH, snapshot_written, branch),
    MEMBER(U64, snapshot_written, clock),
    MEMBER(U32, snapshot_written, epoch),
    MEMBER(U64, snapshot_written, bytes),
    MEMBER(TEXT, snapshot_written, path),
    LATER(U32, snapshot_written, best_epoch),
    LATER(TEXT, snapshot_written, best_path),
    MEMBER(OBJECT, snapshot_written, state),
    END};
static const struct member model_saved[] = {
    MEMBER(BRANCH, model_saved, branch), MEMBER(U32, model_saved, epoch),
    MEMBER(REAL, model_saved, loss),     MEMBER(REAL, model_saved, metric),
    MEMBER(U64, model_saved, bytes),     MEMBER(TEXT, model_saved, path),
    MEMBER(OBJECT, model_saved, data),   END};

static const struct member node[] = {END}; /* those of a beat */

static const struct member *const members[RECORD_KIND_COUNT] = {
    [RECORD_RUN_STARTED] = run_started,
    [RECORD_RUN_STATUS] = run_status,
    [RECORD_RUN_FINISHED] = run_finished,
    [RECORD_RUN_RESUMED] = run_resumed,
    [RECORD_COMMAND] = command,
    [RECORD_SEARCH_STARTED] = search_started,
    [RECORD_SEARCH_DECIDED] = search_decided,
    [RECORD_SEARCH_ENDED] = search_ended,
    [RECORD_TRIAL_STARTED] = trial,
    [RECORD_TRIAL_UPDATED] = trial,
    [RECORD_TRIAL_ENDED] = trial,
    [RECORD_BRANCH_CREATED] = branch_created,
    [RECORD_BRANCH_FREED] = branch_freed,
    [RECORD_USER_BRANCH] = user_branch,
    [RECORD_SUGGESTION] = suggestion,
    [RECORD_ASKING] = asking,
    [RECORD_TABLES] = tables,
    [RECORD_INCREMENT] = increment,
    [RECORD_SLICE_SCHEDULED] = slice_scheduled,
    [RECORD_SLICE_ENDED] = slice_ended,
    [RECORD_PROGRESS] = progress,
    [RECORD_EPOCH_ENDED] = epoch_ended,
    [RECORD_SETTING_CHOSEN] = setting_chosen,
    [RECORD_DECISION] = decision,
    [RECORD_SNAPSHOT_WRITTEN] = snapshot_written,
    [RECORD_MODEL_SAVED] = model_saved,
    [RECORD_NODE] = node,
};

static bool is_trial(enum record_kind kind)
{
    return members[kind] == trial;
}

/* Bytes of the union that @kind uses: what has to be cleared or copied. */
static size_t kind_size(enum record_kind kind)
{
    switch (kind) {
#define SIZE(name, lower)                                                      \
    case RECORD_##name:                                                        \
        return sizeof(struct record_##lower);
        SIZE(RUN_STARTED, run_started)
        SIZE(RUN_STATUS, run_status)
        SIZE(RUN_FINISHED, run_finished)
        SIZE(RUN_RESUMED, run_resumed)
        SIZE(COMMAND, command)
        SIZE(SEARCH_STARTED, search_started)
        SIZE(SEARCH_DECIDED, search_decided)
        SIZE(SEARCH_ENDED, search_ended)
    case RECORD_TRIAL_STARTED:
    case RECORD_TRIAL_UPDATED:
    case RECORD_TRIAL_ENDED:
        return sizeof(struct record_trial);
        SIZE(BRANCH_CREATED, branch_created)
        SIZE(BRANCH_FREED, branch_freed)
        SIZE(USER_BRANCH, user_branch)
        SIZE(SUGGESTION, suggestion)
        SIZE(ASKING, asking)
        SIZE(TABLES, tables)
        SIZE(INCREMENT, increment)
        SIZE(SLICE_SCHEDULED, slice_scheduled)
        SIZE(SLICE_ENDED, slice_ended)
        SIZE(PROGRESS, progress)
        SIZE(EPOCH_ENDED, epoch_ended)
        SIZE(SETTING_CHOSEN, setting_chosen)
        SIZE(DECISION, decision)
        SIZE(SNAPSHOT_WRITTEN, snapshot_written)
        SIZE(MODEL_SAVED, model_saved)
        SIZE(NODE, node)
#undef SIZE
    case RECORD_KIND_COUNT:
        break;
    }
    assert(!"a record of no kind");
    return 0;
}

void record_init(struct record *r, enum record_kind kind)
{
    memset(r, 0, offsetof(struct record, run_started) + kind_size(kind));
    r->kind = kind;
}

static bool is_json(const struct member *m)
{
    return m->type == OBJECT || m->type == ARRAY;
}

static json_t **object_of(struct record *r)
{
    for (const struct member *m = members[r->kind]; m->name; m++)
        if (is_json(m))
            return (json_t **)((char *)r + m->offset);
    return NULL;
}

/* As it is, JSON members without a count. */
static json_t **copy_members(struct record *to, const struct record *from)
{
    assert((unsigned)from->kind < RECORD_KIND_COUNT);
    memcpy(to, from,
           offsetof(struct record, run_started) + kind_size(from->kind));
    return object_of(to);
}

void record_copy(struct record *to, const struct record *from)
{
    json_t **object = copy_members(to, from);

    if (object)
        json_incref(*object);
}

enum err record_copy_own(struct record *to, const struct record *from)
{
    json_t **object = copy_members(to, from);

    if (!object || !*object)
        return ERR_OK;
    *object = json_deep_copy(*object);
    return *object ? ERR_OK : ERR_NOMEM;
}

void record_deinit(struct record *r)
{
    json_t **object;

    assert((unsigned)r->kind < RECORD_KIND_COUNT);
    object = object_of(r);
    if (object) {
        json_decref(*object);
        *object = NULL;
    }
}

/* ---- to JSON ------------------------------------------------------------- */

static json_t *member_to_json(const struct member *m, const struct record *r)
{
    const void *p = (const char *)r + m->offset;

    switch (m->type) {
    case TEXT:
        return json_string(p);
    case U32:
        return json_integer(*(const uint32_t *)p);
    case U64:
        return json_integer((json_int_t) * (const uint64_t *)p);
    case BRANCH:
        return *(const branch_id *)p == BRANCH_NONE
                   ? json_null()
                   : json_integer(*(const branch_id *)p);
    case REAL:
        return json_of_number(*(const double *)p);
    case BOOL:
        return json_boolean(*(const bool *)p);
    case STATUS:
        return json_string(run_status_name(*(const enum run_status *)p));
    case LABEL:
        return json_string(trial_label_name(*(const enum trial_label *)p));
    case TYPE:
        return json_string(branch_type_name(*(const enum branch_type *)p));
    case STATE:
        return json_string(
            suggestion_state_name(*(const enum suggestion_state *)p));
    case ASKING:
        return json_string(asking_name(*(const enum asking *)p));
    case OBJECT:
    case ARRAY:
        return json_incref(*(json_t *const *)p);
    }
    return NULL;
}

static int put_reals(json_t *o, const char *name, const double v[], uint32_t n)
{
    json_t *a = json_array();

    for (uint32_t i = 0; a && i < n; i++)
        if (json_array_append_new(a, json_of_number(v[i]))) {
            json_decref(a);
            return -1;
        }
    return json_object_set_new(o, name, a);
}

static json_t *window_to_json(const struct record_window *w)
{
    json_t *o = json_object();
    int failed = 0;

    failed |= json_object_set_new(o, "sum", json_of_number(w->sum));
    failed |=
        json_object_set_new(o, "samples", json_integer((json_int_t)w->samples));
    failed |=
        json_object_set_new(o, "clocks", json_integer((json_int_t)w->clocks));
    failed |= json_object_set_new(o, "seconds", json_of_number(w->seconds));
    failed |= json_object_set_new(o, "copy_s", json_of_number(w->copy_s));
    failed |= json_object_set_new(o, "stalled_s", json_of_number(w->stalled_s));
    if (!failed)
        return o;
    json_decref(o);
    return NULL;
}

static int put_windows(json_t *o, const struct record_progress *p)
{
    json_t *a = json_array();

    for (uint32_t i = 0; a && i < p->windows; i++)
        if (json_array_append_new(a, window_to_json(&p->window[i]))) {
            json_decref(a);
            return -1;
        }
    return json_object_set_new(o, "windows", a);
}

static int put_numbers(json_t *o, const struct record_decision *d)
{
    json_t *numbers = json_object();

    for (uint32_t i = 0; numbers && i < d->numbers; i++)
        if (json_object_set_new(numbers, d->number[i].name,
                                json_of_number(d->number[i].value))) {
            json_decref(numbers);
            return -1;
        }
    return json_object_set_new(o, "numbers", numbers);
}

static int put_beat(json_t *o, const struct msg_beat *beat)
{
    json_t *members_of = msg_beat_to_json(beat);
    int failed = members_of ? json_object_update(o, members_of) : -1;

    json_decref(members_of);
    return failed;
}

static int put_arrays(json_t *o, const struct record *r)
{
    if (is_trial(r->kind))
        return put_reals(o, "time_s", r->trial.time_s, r->trial.points) ||
               put_reals(o, "loss", r->trial.loss, r->trial.points);
    if (r->kind == RECORD_PROGRESS)
        return put_windows(o, &r->progress);
    if (r->kind == RECORD_DECISION)
        return put_numbers(o, &r->decision);
    if (r->kind == RECORD_NODE)
        return put_beat(o, &r->node.beat);
    return 0;
}

json_t *record_to_json(const struct record *r)
{
    json_t *o = json_object();
    int failed = 0;

    assert((unsigned)r->kind < RECORD_KIND_COUNT);
    failed |= json_object_set_new(o, "kind", json_string(kind_names[r->kind]));
    failed |= json_object_set_new(o, "at_s", json_of_number(r->at_s));
    failed |= json_object_set_new(o, "next_clock",
                                  json_integer((json_int_t)r->clock));
    for (const struct member *m = members[r->kind]; m->name; m++) {
        const char *p = (const char *)r + m->offset;

        if (is_json(m) && !*(json_t *const *)p)
            continue;
        failed |= json_object_set_new(o, m->name, member_to_json(m, r));
    }
    failed |= put_arrays(o, r);
    if (!failed)
        return o;
    json_decref(o);
    return NULL;
}

/* ---- from JSON ----------------------------------------------------------- */

static bool text_from(const json_t *v, char *p, size_t size)
{
    size_t len = json_string_length(v);

    if (!json_is_string(v) || len >= size ||
        strlen(json_string_value(v)) != len)
        return false;
    memcpy(p, json_string_value(v), len + 1);
    return true;
}

static bool integer_from(const json_t *v, uint64_t max, uint64_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0 ||
        (uint64_t)json_integer_value(v) > max)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static bool name_from(const json_t *v, const char *const names[], size_t n,
                      void *p)
{
    if (!json_is_string(v))
        return false;
    for (size_t i = 0; i < n; i++)
        if (strcmp(json_string_value(v), names[i]) == 0) {
            /* All enumerations here are stored as unsigned int. */
            *(unsigned *)p = (unsigned)i;
            return true;
        }
    return false;
}

static bool type_from(const json_t *v, enum branch_type *p)
{
    if (!json_is_string(v))
        return false;
    *p = branch_type_of(json_string_value(v));
    return *p != BRANCH_TYPE_COUNT;
}

static bool member_from_json(const struct member *m, const json_t *v,
                             struct record *r)
{
    void *p = (char *)r + m->offset;
    uint64_t n = 0;
    bool ok = true;

    switch (m->type) {
    case TEXT:
        return text_from(v, p, m->size);
    case U32:
        ok = integer_from(v, UINT32_MAX, &n);
        *(uint32_t *)p = (uint32_t)n;
        return ok;
    case U64:
        return integer_from(v, INT64_MAX, p);
    case BRANCH:
        n = BRANCH_NONE;
        ok = json_is_null(v) || integer_from(v, UINT32_MAX - 1, &n);
        *(branch_id *)p = (branch_id)n;
        return ok;
    case REAL:
        return json_to_number(v, p);
    case BOOL:
        *(bool *)p = json_is_true(v);
        return json_is_boolean(v);
    case STATUS:
        return name_from(v, status_names, RUN_STATUS_COUNT, p);
    case LABEL:
        return name_from(v, label_names, TRIAL_LABEL_COUNT, p);
    case TYPE:
        return type_from(v, p);
    case STATE:
        return name_from(v, suggestion_names, SUGGESTION_STATE_COUNT, p);
    case ASKING:
        return name_from(v, asking_names, ASKING_COUNT, p);
    case OBJECT:
    case ARRAY:
        if (v && !(m->type == OBJECT ? json_is_object(v) : json_is_array(v)))
            return false;
        *(json_t **)p = json_incref((json_t *)v);
        return true;
    }
    return false;
}

static bool reals_from(const json_t *v, double out[], size_t max, uint32_t *n)
{
    if (!json_is_array(v) || json_array_size(v) > max)
        return false;
    *n = (uint32_t)json_array_size(v);
    for (size_t i = 0; i < *n; i++)
        if (!json_to_number(json_array_get(v, i), &out[i]))
            return false;
    return true;
}

static bool window_from(const json_t *v, struct record_window *w)
{
    return json_to_number(json_object_get(v, "sum"), &w->sum) &&
           integer_from(json_object_get(v, "samples"), INT64_MAX,
                        &w->samples) &&
           integer_from(json_object_get(v, "clocks"), INT64_MAX, &w->clocks) &&
           json_to_number(json_object_get(v, "seconds"), &w->seconds) &&
           json_to_number(json_object_get(v, "copy_s"), &w->copy_s) &&
           json_to_number(json_object_get(v, "stalled_s"), &w->stalled_s);
}

static bool windows_from(const json_t *v, struct record_progress *p)
{
    if (!json_is_array(v) || json_array_size(v) > RECORD_WINDOWS_MAX)
        return false;
    p->windows = (uint32_t)json_array_size(v);
    for (size_t i = 0; i < p->windows; i++)
        if (!window_from(json_array_get(v, i), &p->window[i]))
            return false;
    return true;
}

static bool numbers_from(const json_t *v, struct record_decision *d)
{
    const char *key;
    json_t *value;

    if (!json_is_object(v) || json_object_size(v) > RECORD_NUMBERS_MAX)
        return false;
    json_object_foreach((json_t *)v, key, value)
    {
        size_t len = strlen(key);

        if (len >= sizeof(d->number[0].name) ||
            !json_to_number(value, &d->number[d->numbers].value))
            return false;
        memcpy(d->number[d->numbers++].name, key, len + 1);
    }
    return true;
}

/* Name of the faulty member, or NULL. */
static const char *arrays_from(const json_t *o, struct record *r)
{
    if (is_trial(r->kind)) {
        uint32_t n = 0;

        if (!reals_from(json_object_get(o, "time_s"), r->trial.time_s,
                        RECORD_POINTS_MAX, &r->trial.points))
            return "time_s";
        if (!reals_from(json_object_get(o, "loss"), r->trial.loss,
                        RECORD_POINTS_MAX, &n) ||
            n != r->trial.points)
            return "loss";
    }
    if (r->kind == RECORD_PROGRESS &&
        !windows_from(json_object_get(o, "windows"), &r->progress))
        return "windows";
    if (r->kind == RECORD_DECISION &&
        !numbers_from(json_object_get(o, "numbers"), &r->decision))
        return "numbers";
    if (r->kind == RECORD_NODE)
        return msg_beat_from_json(o, &r->node.beat);
    return NULL;
}

static const char *members_from(const json_t *o, struct record *r)
{
    if (!json_to_number(json_object_get(o, "at_s"), &r->at_s))
        return "at_s";
    if (!integer_from(json_object_get(o, "next_clock"), INT64_MAX, &r->clock))
        return "next_clock";
    for (const struct member *m = members[r->kind]; m->name; m++) {
        const json_t *v = json_object_get(o, m->name);

        if (!v && m->optional)
            continue;
        if (!v && !is_json(m))
            return m->name;
        if (!member_from_json(m, v, r))
            return m->name;
    }
    return arrays_from(o, r);
}

enum err record_from_json(const json_t *json, struct record *out,
                          struct fault *f)
{
    struct record r;
    unsigned kind;
    const char *wrong;

    if (!json_is_object(json))
        return fault_set(f, ERR_FORMAT, "a record must be an object");
    if (!name_from(json_object_get(json, "kind"), kind_names, RECORD_KIND_COUNT,
                   &kind))
        return fault_set(f, ERR_FORMAT, "member kind: no kind of record");
    record_init(&r, (enum record_kind)kind);
    wrong = members_from(json, &r);
    if (wrong) {
        record_deinit(&r);
        return fault_set(f, ERR_FORMAT,
                         "member %s of a %s record is missing or malformed",
                         wrong, kind_names[kind]);
    }
    memcpy(out, &r, sizeof(r));
    return ERR_OK;
}
