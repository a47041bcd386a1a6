#include "cli/check/player.h"

#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    ASKED_MAX = 32,
    ACTS_MAX = 64,
    CHECKS_MAX = 64,
    UNKNOWN_BRANCH = 4000000,
};

/* Rule W5 says a second, E1 three; a busy machine gets more. */
static const double SILENCE_S = 3.5, STOP_S = 6, LOSS_S = 12, LATE_S = 2;
static const double HELLO_S = 60;

struct player_slot {
    bool live;
    branch_id id;
    enum branch_type type;
    enum check_setting setting;
    uint64_t at, plan; /* in the epoch: samples, or parts; plan: when all that
                        * was scheduled has run */
    uint64_t samples;  /* of this epoch, where @whole */
    bool whole;
};

struct check_series {
    double *sum; /* [len] */
    uint64_t *samples;
    size_t len, room, samples_room;
};

/* A request that is not answered. */
struct player_ask {
    op_id op;
    enum msg_kind kind;
    int slot, series;
    const struct refusal_info *refused; /* it is to fail so */
    clock_no first;
    uint64_t count, every, clocks, windows;
    double asked_at_s, cut_at_s; /* INFINITY: not cut */
    double clock_s;              /* the longest so far */
    bool short_end;              /* its last window has come */
    bool wild;                   /* a sum is not finite */
};

enum player_phase {
    PHASE_IDLE,    /* no program runs */
    PHASE_HELLO,   /* started */
    PHASE_LOADING, /* has its configuration */
    PHASE_PLAYING,
    PHASE_STOPPING, /* told to end */
    PHASE_LOST,     /* its tuner is gone */
    PHASE_OVER
};

struct player {
    struct player_options o;
    enum player_phase phase;
    double phase_at_s, step_at_s;
    uint32_t hellos;
    double *heard_at_s; /* [nodes] INFINITY: not yet */
    struct msg ready;   /* kind READY, or BEAT */
    op_id next_op;
    branch_id next_branch;
    clock_no next_clock;
    uint64_t seen;   /* samples of the largest clock */
    json_t *looking; /* data of the answer that is being looked into */
    bool looks;      /* an ACT_LOOK is not answered */
    double now_s;

    int check;                     /* number of it */
    const struct check_step *step; /* NULL: it has not begun */
    bool begun;                    /* the step waits for something */
    bool reported;                 /* since the step began */
    uint64_t run_left;
    bool run_to_end;
    bool judged; /* the check has its result */
    struct player_slot slot[SLOTS_MAX];
    struct check_series series[SERIES_MAX];
    struct player_slot
        written[SLOTS_MAX]; /* snapshots, by the folder's number */
    struct player_ask asked[ASKED_MAX];
    size_t asked_len;

    struct player_act act[ACTS_MAX];
    size_t acts;
    struct check_result result[CHECKS_MAX];
    size_t results;
};

/* ---- life ---------------------------------------------------------------- */

enum err player_new(const struct player_options *o, struct player **out)
{
    struct player *p = mem_calloc(1, sizeof(*p));
    bool known = !o->only;

    assert(o->nodes > 0 && o->config && o->folder && o->work);
    assert(checks_len <= CHECKS_MAX);
    for (int i = 0; i < checks_len && !known; i++)
        known = strcmp(checks[i].name, o->only) == 0;
    if (!p || !known) {
        mem_free(p);
        return known ? ERR_NOMEM : ERR_NOENT;
    }
    p->o = *o;
    p->ready.kind = MSG_BEAT;
    p->next_branch = 1;
    p->heard_at_s = mem_calloc(o->nodes, sizeof(*p->heard_at_s));
    if (!p->heard_at_s) {
        mem_free(p);
        return ERR_NOMEM;
    }
    *out = p;
    return ERR_OK;
}

static void drop_acts(struct player *p)
{
    for (size_t i = 0; i < p->acts; i++)
        if (p->act[i].kind == ACT_SEND)
            msg_deinit(&p->act[i].message);
    p->acts = 0;
}

void player_free(struct player *p)
{
    if (!p)
        return;
    drop_acts(p);
    for (int i = 0; i < SERIES_MAX; i++) {
        mem_free(p->series[i].sum);
        mem_free(p->series[i].samples);
    }
    msg_deinit(&p->ready);
    json_decref(p->looking);
    mem_free(p->heard_at_s);
    mem_free(p);
}

const struct check_result *player_results(const struct player *p, size_t *n)
{
    *n = p->results;
    return p->result;
}

bool player_passed(const struct player *p)
{
    for (size_t i = 0; i < p->results; i++)
        if (p->result[i].outcome == OUTCOME_FAILED)
            return false;
    return true;
}

const json_t *player_looks_for(const struct player *p)
{
    return p->looking;
}

/* ---- what is to be done -------------------------------------------------- */

static struct player_act *act(struct player *p, enum player_act_kind kind)
{
    struct player_act *a;

    assert(p->acts < ACTS_MAX);
    a = &p->act[p->acts++];
    memset(a, 0, sizeof(*a));
    a->kind = kind;
    return a;
}

bool player_next(struct player *p, struct player_act *out)
{
    if (!p->acts)
        return false;
    *out = p->act[0];
    p->acts--;
    memmove(p->act, p->act + 1, p->acts * sizeof(*p->act));
    return true;
}

static struct msg *request(struct player *p, enum msg_kind kind, int slot)
{
    struct player_act *a = act(p, ACT_SEND);
    struct player_ask *q;

    assert(p->asked_len < ASKED_MAX);
    a->message.kind = kind;
    a->message.op = p->next_op++;
    q = &p->asked[p->asked_len++];
    *q = (struct player_ask){.op = a->message.op,
                             .kind = kind,
                             .slot = slot,
                             .series = -1,
                             .asked_at_s = p->now_s,
                             .cut_at_s = INFINITY};
    return &a->message;
}

static struct player_ask *last_asked(struct player *p)
{
    assert(p->asked_len > 0);
    return &p->asked[p->asked_len - 1];
}

/* ---- verdicts ------------------------------------------------------------ */

static const struct trainer_check *check_of(const struct player *p)
{
    return &checks[p->check < checks_len ? p->check : 0];
}

static struct check_result *add_result(struct player *p,
                                       enum check_outcome outcome)
{
    struct check_result *r = &p->result[p->results++];

    assert(p->results <= CHECKS_MAX);
    *r = (struct check_result){.check = check_of(p), .outcome = outcome};
    return r;
}

static void start_program(struct player *p, double now_s)
{
    act(p, ACT_START);
    p->phase = PHASE_HELLO;
    p->phase_at_s = p->step_at_s = now_s;
    p->hellos = 0;
    for (uint32_t i = 0; i < p->o.nodes; i++)
        p->heard_at_s[i] = INFINITY;
    msg_deinit(&p->ready);
    p->ready.kind = MSG_BEAT;
    p->next_op = 1;
    p->asked_len = 0;
    memset(p->slot, 0, sizeof(p->slot)); /* of the process before */
    p->slot[0] = (struct player_slot){.live = true, .whole = true};
}

static void begin_check(struct player *p, double now_s);

static void next_check(struct player *p, double now_s)
{
    p->step = NULL;
    p->asked_len = 0;
    do
        p->check++;
    while (p->check < checks_len && p->o.only &&
           strcmp(checks[p->check].name, p->o.only) != 0);
    if (p->check < checks_len) {
        begin_check(p, now_s);
        return;
    }
    if (p->phase != PHASE_IDLE)
        act(p, ACT_KILL);
    act(p, ACT_OVER);
    p->phase = PHASE_OVER;
}

static void fail(struct player *p, enum rule rule, double now_s,
                 const char *expected, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

static void fail(struct player *p, enum rule rule, double now_s,
                 const char *expected, const char *fmt, ...)
{
    bool fatal = p->phase == PHASE_HELLO || p->phase == PHASE_LOADING;
    struct check_result *r;
    va_list ap;

    if (p->phase == PHASE_OVER || p->phase == PHASE_IDLE)
        return;
    r = add_result(p, OUTCOME_FAILED);
    r->rule = rule;
    r->fatal = fatal;
    snprintf(r->expected, sizeof(r->expected), "%s", expected);
    va_start(ap, fmt);
    vsnprintf(r->came, sizeof(r->came), fmt, ap);
    va_end(ap);
    text_to_utf8(r->came);
    drop_acts(p);
    act(p, ACT_KILL);
    p->phase = PHASE_IDLE;
    p->asked_len = 0;
    if (fatal || p->o.first)
        p->check = checks_len;
    next_check(p, now_s);
}

static const struct check_step the_end = {.kind = STEP_END};

/* The check has nothing to say; it only cleans up. */
static void not_applicable(struct player *p, const char *why)
{
    struct check_result *r = add_result(p, OUTCOME_NOT_APPLICABLE);

    snprintf(r->came, sizeof(r->came), "%s", why);
    p->judged = true;
    p->step = &the_end;
    p->begun = false;
}

/* ---- settings, epochs ---------------------------------------------------- */

static bool has_tunable(const struct player *p, const char *name)
{
    const json_t *names = p->ready.ready.tunables;

    for (size_t i = 0; i < json_array_size(names); i++)
        if (strcmp(json_string_value(json_array_get(names, i)), name) == 0)
            return true;
    return false;
}

/* Of a clock, by the setting; 0: the program has no such tunable. */
static uint64_t batch_of(const struct player *p, enum check_setting setting)
{
    const struct msg_ready *r = &p->ready.ready;
    uint64_t batch = r->samples / (26 * (uint64_t)r->workers);

    if (!has_tunable(p, "batch_size"))
        return 0;
    batch = batch < 1 ? 1 : batch > 256 ? 256 : batch;
    if (setting == SETTING_DOUBLE)
        return 2 * batch;
    return setting == SETTING_SMALL ? (batch + 7) / 8 : batch;
}

static json_t *setting_of(const struct player *p, enum check_setting setting)
{
    const json_t *def = json_object_get(
        json_object_get(json_object_get(p->o.config, "tunables"),
                        "learning_rate"),
        "default");
    double rate = json_is_number(def) ? json_number_value(def) : 0.01;
    uint64_t batch = batch_of(p, setting);
    json_t *o = json_object();

    if (setting == SETTING_FASTER)
        rate *= 3;
    if (setting == SETTING_WILD)
        rate = 1e30;
    if (has_tunable(p, "learning_rate"))
        json_object_set_new(o, "learning_rate", json_real(rate));
    if (batch)
        json_object_set_new(o, "batch_size", json_integer((json_int_t)batch));
    return o;
}

/* Units of an epoch that a clock takes; 0: not known yet. */
static uint64_t unit_of(const struct player *p, const struct player_slot *s)
{
    uint64_t batch = batch_of(p, s->setting);

    if (p->ready.ready.parts)
        return 1;
    return batch ? batch * p->ready.ready.workers : p->seen;
}

static uint64_t epoch_of(const struct player *p)
{
    const struct msg_ready *r = &p->ready.ready;

    return r->parts ? r->parts : r->samples;
}

/* Clocks to the end of the epoch; 1 where that is not known. */
static uint64_t clocks_left(const struct player *p, const struct player_slot *s)
{
    uint64_t unit = unit_of(p, s), left = epoch_of(p) - s->plan;

    return unit ? (left + unit - 1) / unit : 1;
}

/* ---- requests ------------------------------------------------------------ */

static void ask_fork(struct player *p, const struct check_step *step)
{
    struct player_slot *s = &p->slot[step->slot], *from = &p->slot[step->from];
    struct msg *m = request(p, MSG_FORK, step->slot);

    assert(!s->live && from->live);
    *s = *from;
    s->id = p->next_branch++;
    s->type = step->type;
    s->setting = step->setting;
    s->whole = from->whole && from->at == from->plan;
    s->at = s->plan = from->plan;
    m->fork = (struct msg_fork){s->id, from->id, step->type, NULL};
    m->fork.setting = step->type == BRANCH_KEPT ? json_object()
                                                : setting_of(p, step->setting);
}

static void ask_free(struct player *p, int slot)
{
    request(p, MSG_FREE, slot)->free.branch = p->slot[slot].id;
    p->slot[slot].live = false;
}

static void ask_slice(struct player *p, const struct check_step *step,
                      uint64_t count)
{
    struct player_slot *s = &p->slot[step->slot];
    uint64_t left = s->type == BRANCH_TESTING ? 1 : clocks_left(p, s);
    uint64_t unit = unit_of(p, s);
    struct msg *m = request(p, MSG_SCHEDULE, step->slot);
    struct player_ask *q = last_asked(p);

    if (step->text)
        p->act[p->acts - 1].text = ",\"no_such_member\":{\"a\":[1,\"b\"]}}";
    q->count = count && count < left ? count : left;
    q->every = (q->count + PROTO_WINDOWS_MAX - 1) / PROTO_WINDOWS_MAX;
    q->first = p->next_clock;
    q->series = step->series;
    p->next_clock += q->count;
    m->schedule = (struct msg_schedule){s->id, q->first, q->count, q->every};
    if (s->type == BRANCH_TESTING)
        return;
    s->plan += q->count * unit;
    if (s->plan >= epoch_of(p))
        s->plan = 0;
}

static void go_on_running(struct player *p)
{
    const struct player_slot *s = &p->slot[p->step->slot];
    uint64_t count;

    if (p->run_to_end)
        count = p->run_left == 1 && s->at == 0 ? 0 : clocks_left(p, s);
    else
        count = p->run_left;
    if (!count || !p->run_left) {
        p->run_left = 0;
        return;
    }
    ask_slice(p, p->step, count);
    p->run_left = p->run_to_end ? 1 : p->run_left - last_asked(p)->count;
}

static void path_of(const struct player *p, const struct check_step *step,
                    char *out)
{
    snprintf(out, PROTO_PATH_MAX, "%s/%s-%d", p->o.work,
             step->kind == STEP_SAVE ? "model" : "snapshot", step->count);
}

static void ask_path(struct player *p, const struct check_step *step,
                     enum msg_kind kind)
{
    struct player_slot *s = &p->slot[step->slot];
    struct msg *m = request(p, kind, step->slot);

    assert(step->count < SLOTS_MAX);
    if (kind == MSG_RESTORE) {
        *s = p->written[step->count];
        s->id = p->next_branch++;
    } else if (kind == MSG_SNAPSHOT) {
        p->written[step->count] = *s;
    }
    m->save.branch = s->id;
    path_of(p, step, m->save.path);
}

static void ask_cut(struct player *p, double now_s)
{
    struct player_ask *slice = NULL;

    for (size_t i = 0; i < p->asked_len; i++)
        if (p->asked[i].kind == MSG_SCHEDULE)
            slice = &p->asked[i];
    if (!slice)
        return; /* it was faster */
    slice->cut_at_s = now_s;
    request(p, MSG_CUT, -1)->cut.target = slice->op;
}

/* What cannot be granted: nothing in the slots changes. */
static void ask_refused(struct player *p, const struct check_step *step)
{
    enum check_refusal what = step->refusal;
    struct player_slot *of = &p->slot[step->from];
    struct player_slot *kept = &p->slot[3];
    struct msg *m;

    switch (what) {
    case REFUSAL_FORK_OF_UNKNOWN:
    case REFUSAL_FORK_TWICE:
    case REFUSAL_FORK_RATE:
    case REFUSAL_FORK_BATCH:
        m = request(p, MSG_FORK, -1);
        m->fork = (struct msg_fork){UNKNOWN_BRANCH + 1, of->id, BRANCH_TRAINING,
                                    setting_of(p, SETTING_USUAL)};
        if (what == REFUSAL_FORK_OF_UNKNOWN)
            m->fork.parent = UNKNOWN_BRANCH;
        if (what == REFUSAL_FORK_TWICE) {
            m->fork.branch = of->id;
            m->fork.parent = 0;
        }
        if (what == REFUSAL_FORK_RATE)
            json_object_set_new(m->fork.setting, "learning_rate",
                                json_real(-1));
        if (what == REFUSAL_FORK_BATCH)
            json_object_set_new(m->fork.setting, "batch_size", json_integer(0));
        break;
    case REFUSAL_RUN_FREED:
        ask_free(p, step->from);
        m = request(p, MSG_SCHEDULE, -1);
        m->schedule = (struct msg_schedule){of->id, p->next_clock, 1, 1};
        break;
    case REFUSAL_RUN_UNKNOWN:
    case REFUSAL_RUN_INIT:
    case REFUSAL_RUN_KEPT:
    case REFUSAL_RUN_WINDOWS:
    case REFUSAL_RUN_EARLIER:
        m = request(p, MSG_SCHEDULE, -1);
        m->schedule = (struct msg_schedule){of->id, p->next_clock, 1, 1};
        if (what == REFUSAL_RUN_UNKNOWN)
            m->schedule.branch = UNKNOWN_BRANCH;
        if (what == REFUSAL_RUN_WINDOWS)
            m->schedule.count = PROTO_WINDOWS_MAX + 1;
        if (what == REFUSAL_RUN_EARLIER)
            m->schedule.first = 0;
        break;
    case REFUSAL_FREE_UNKNOWN:
        m = request(p, MSG_FREE, -1);
        m->free.branch = UNKNOWN_BRANCH;
        break;
    case REFUSAL_SNAPSHOT_UNKNOWN:
    case REFUSAL_SNAPSHOT_TRAINING:
    case REFUSAL_SAVE_UNKNOWN:
    case REFUSAL_RESTORE_TWICE:
        m = request(p,
                    what == REFUSAL_SAVE_UNKNOWN    ? MSG_SAVE
                    : what == REFUSAL_RESTORE_TWICE ? MSG_RESTORE
                                                    : MSG_SNAPSHOT,
                    -1);
        m->save.branch =
            what == REFUSAL_SNAPSHOT_TRAINING || what == REFUSAL_RESTORE_TWICE
                ? of->id
                : UNKNOWN_BRANCH;
        snprintf(m->save.path, sizeof(m->save.path), "%s/%s", p->o.work,
                 what == REFUSAL_RESTORE_TWICE ? "snapshot-1" : "refused");
        break;
    default: /* a number again: of a fork that would be granted */
        assert(what == REFUSAL_OP_AGAIN);
        m = request(p, MSG_FORK, -1);
        m->op = last_asked(p)->op = 1;
        m->fork =
            (struct msg_fork){UNKNOWN_BRANCH + 2, kept->id, BRANCH_TRAINING,
                              setting_of(p, SETTING_USUAL)};
        break;
    }
    last_asked(p)->refused = refusal_info(what);
}

/* ---- comparing ----------------------------------------------------------- */

static bool same_sum(double a, double b)
{
    return (a == b && signbit(a) == signbit(b)) || (isnan(a) && isnan(b));
}

/* The first window in which they differ; SIZE_MAX: none. */
static size_t first_difference(const struct check_series *a,
                               const struct check_series *b)
{
    for (size_t i = 0; i < a->len && i < b->len; i++)
        if (!same_sum(a->sum[i], b->sum[i]) || a->samples[i] != b->samples[i])
            return i;
    return a->len == b->len ? SIZE_MAX : a->len < b->len ? a->len : b->len;
}

static bool compare_same(struct player *p, const struct check_step *s,
                         double now_s)
{
    const struct check_series *a = &p->series[s->series],
                              *b = &p->series[s->from];
    size_t i = first_difference(a, b);

    if (i == SIZE_MAX)
        return true;
    if (i >= a->len || i >= b->len)
        fail(p, s->rule, now_s, "two series of equal length",
             "%zu windows, and %zu", a->len, b->len);
    else
        fail(p, s->rule, now_s,
             "the same sums and samples to the last bit, clock by clock",
             "clock %zu of %zu: sum %.17g over %llu samples, and %.17g over "
             "%llu",
             i + 1, a->len, a->sum[i], (unsigned long long)a->samples[i],
             b->sum[i], (unsigned long long)b->samples[i]);
    return false;
}

static bool compare_different(struct player *p, const struct check_step *s,
                              double now_s)
{
    const struct check_series *a = &p->series[s->series],
                              *b = &p->series[s->from];
    size_t i = first_difference(a, b);

    if (i == 0)
        fail(p, s->rule, now_s,
             "the same first sum, of a probe and a training branch",
             "sum %.17g, and %.17g", a->sum[0], b->sum[0]);
    else if (i == SIZE_MAX)
        fail(p, s->rule, now_s,
             "sums of a probe that differ from a training branch's from the "
             "second clock on",
             "%zu equal clocks: the probe learns, or training does not",
             a->len);
    return i != 0 && i != SIZE_MAX;
}

static double total(const struct check_series *s)
{
    double sum = 0;

    for (size_t i = 0; i < s->len; i++)
        sum += s->sum[i];
    return sum;
}

static bool near(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance * (fabs(a) + fabs(b)) + 1e-12;
}

static bool compare_halves(struct player *p, const struct check_step *s,
                           double now_s)
{
    const struct check_series *a = &p->series[s->series],
                              *b = &p->series[s->from];

    for (size_t i = 0; i < b->len && 2 * i + 1 < a->len; i++) {
        double two = a->sum[2 * i] + a->sum[2 * i + 1];

        if (near(two, b->sum[i], 1e-4))
            continue;
        fail(p, s->rule, now_s,
             "two clocks of a probe add up to one with twice the batch size",
             "clocks %zu and %zu: %.9g; clock %zu of the other: %.9g",
             2 * i + 1, 2 * i + 2, two, i + 1, b->sum[i]);
        return false;
    }
    return true;
}

/* ---- steps --------------------------------------------------------------- */

static const char *missing(const struct player *p, enum check_need need)
{
    switch (need) {
    case NEED_VALIDATION:
        return p->ready.ready.validation_samples ? NULL
                                                 : "it has no validation data";
    case NEED_RATE:
        return has_tunable(p, "learning_rate")
                   ? NULL
                   : "it has no tunable learning_rate";
    default:
        return p->ready.ready.parts           ? "its epochs have parts"
               : has_tunable(p, "batch_size") ? NULL
                                              : "it has no tunable batch_size";
    }
}

static void begin_check(struct player *p, double now_s)
{
    if (p->phase == PHASE_IDLE) {
        start_program(p, now_s);
        return;
    }
    if (p->phase != PHASE_PLAYING)
        return;
    p->step = checks[p->check].step;
    p->begun = p->judged = false;
    p->step_at_s = now_s;
    memset(p->slot, 0, sizeof(p->slot));
    p->slot[0] = (struct player_slot){.live = true, .whole = true};
    for (int i = 0; i < SERIES_MAX; i++)
        p->series[i].len = 0;
}

/* Branches that an abandoned check, or one at its end, leaves. */
static void free_slots(struct player *p)
{
    for (int i = 1; i < SLOTS_MAX; i++)
        if (p->slot[i].live)
            ask_free(p, i);
}

/* What a step begins with; false: the check has failed. */
static bool begin_step(struct player *p, double now_s)
{
    const struct check_step *s = p->step;
    const char *why;

    p->begun = true;
    p->reported = false;
    p->step_at_s = now_s;
    switch (s->kind) {
    case STEP_END:
        if (p->phase == PHASE_PLAYING)
            free_slots(p);
        break;
    case STEP_NEED:
        why = missing(p, s->need);
        if (why)
            not_applicable(p, why);
        break;
    case STEP_FORK:
        ask_fork(p, s);
        break;
    case STEP_FREE:
        ask_free(p, s->slot);
        break;
    case STEP_RUN:
        p->run_left = s->count ? (uint64_t)s->count : p->series[s->from].len;
        p->run_to_end = false;
        go_on_running(p);
        break;
    case STEP_EPOCH:
        p->run_left = 2; /* anything but 1: it has not begun */
        p->run_to_end = true;
        go_on_running(p);
        break;
    case STEP_QUEUE:
        ask_slice(p, s, (uint64_t)s->count);
        break;
    case STEP_CUT:
        ask_cut(p, now_s);
        break;
    case STEP_SAME:
        return compare_same(p, s, now_s);
    case STEP_DIFFER:
        return compare_different(p, s, now_s);
    case STEP_STEADY:
        if (!near(total(&p->series[s->series]), total(&p->series[s->from]),
                  1e-6))
            not_applicable(p, "the loss of a sample is a matter of chance");
        break;
    case STEP_HALVES:
        return compare_halves(p, s, now_s);
    case STEP_REFUSED:
        ask_refused(p, s);
        break;
    case STEP_RAW:
        act(p, ACT_RAW)->text = s->text;
        break;
    case STEP_SNAPSHOT:
        ask_path(p, s, MSG_SNAPSHOT);
        break;
    case STEP_RESTORE:
        ask_path(p, s, MSG_RESTORE);
        break;
    case STEP_SAVE:
        ask_path(p, s, MSG_SAVE);
        break;
    case STEP_STOP:
        p->phase = PHASE_STOPPING;
        p->phase_at_s = now_s;
        request(p, MSG_STOP, -1);
        snprintf(p->act[p->acts - 1].message.stop.reason,
                 sizeof(p->act[0].message.stop.reason), "check-trainer");
        break;
    case STEP_LOSE:
        p->phase = PHASE_LOST;
        p->phase_at_s = now_s;
        p->asked_len = 0;
        act(p, ACT_CLOSE);
        break;
    case STEP_BREATHE:
    case STEP_IDLE:
    case STEP_WAIT:
        break;
    }
    return true;
}

/* Whether what the step waits for has come. */
static bool step_done(struct player *p)
{
    const struct check_step *s = p->step;

    switch (s->kind) {
    case STEP_QUEUE:
    case STEP_CUT:
    case STEP_RAW:
    case STEP_FORK: /* may stand behind a slice that was queued */
        return true;
    case STEP_BREATHE:
        return p->reported || !p->asked_len ||
               p->now_s - p->step_at_s >= s->count / 1e3;
    case STEP_IDLE:
        return p->now_s - p->step_at_s >= s->count / 1e3;
    case STEP_STOP:
    case STEP_LOSE:
        return p->phase == PHASE_PLAYING || p->phase == PHASE_IDLE;
    case STEP_RUN:
    case STEP_EPOCH:
        if (!p->asked_len && p->run_left)
            go_on_running(p);
        return !p->asked_len && !p->run_left;
    default:
        return !p->asked_len && !p->looks;
    }
}

/* Steps, as far as they go by themselves. */
static void play(struct player *p)
{
    while (p->step) {
        const struct check_step *s = p->step;
        int check = p->check;

        if (!p->begun && s->kind != STEP_FORK && s->kind != STEP_REFUSED &&
            p->phase == PHASE_IDLE && s->kind != STEP_END) {
            start_program(p, p->now_s); /* after a STOP: a new process */
            return;
        }
        if (p->phase == PHASE_HELLO || p->phase == PHASE_LOADING)
            return;
        if (!p->begun && !begin_step(p, p->now_s))
            continue; /* with the next check */
        if (p->check != check || p->step != s)
            continue;
        if (!step_done(p))
            return;
        if (s->kind == STEP_END) {
            if (!p->judged)
                add_result(p, OUTCOME_PASSED);
            next_check(p, p->now_s);
            continue;
        }
        p->step++;
        p->begun = false;
    }
}

/* ---- what the program says ----------------------------------------------- */

static struct player_ask *find_asked(struct player *p, op_id op)
{
    for (size_t i = 0; i < p->asked_len; i++)
        if (p->asked[i].op == op)
            return &p->asked[i];
    return NULL;
}

static void forget(struct player *p, struct player_ask *a)
{
    size_t i = (size_t)(a - p->asked);

    p->asked_len--;
    memmove(a, a + 1, (p->asked_len - i) * sizeof(*a));
}

static enum rule rule_now(const struct player *p)
{
    return check_of(p)->rule;
}

static bool add_window(struct player *p, int series,
                       const struct progress_window *w)
{
    struct check_series *s = &p->series[series];

    if (mem_grow((void **)&s->sum, &s->room, sizeof(*s->sum), s->len + 1) ||
        mem_grow((void **)&s->samples, &s->samples_room, sizeof(*s->samples),
                 s->len + 1))
        return false;
    s->sum[s->len] = w->sum;
    s->samples[s->len++] = w->samples;
    return true;
}

/* A window of a testing branch. */
static bool check_test(struct player *p, const struct progress_window *w)
{
    uint64_t all = p->ready.ready.validation_samples * w->clocks;

    if (w->samples == all)
        return true;
    fail(p, RULE_L6, p->now_s, "as many samples as ready.validation_samples",
         "%llu samples in %llu clocks, of %llu", (unsigned long long)w->samples,
         (unsigned long long)w->clocks, (unsigned long long)all);
    return false;
}

/* A window of a training branch: where that stands in its epoch. */
static bool check_samples(struct player *p, struct player_slot *s,
                          const struct progress_window *w)
{
    const struct msg_ready *r = &p->ready.ready;
    uint64_t batch = batch_of(p, s->setting) * r->workers, want, left;

    if (w->samples / w->clocks > p->seen)
        p->seen = w->samples / w->clocks;
    s->samples += w->samples;
    if (!r->parts) {
        left = r->samples - s->at;
        want = batch && batch * w->clocks < left ? batch * w->clocks : left;
        if (w->samples > left || (batch && w->samples != want)) {
            fail(p, RULE_L5, p->now_s,
                 "clocks of batch_size samples a worker, and an epoch's last "
                 "one of what is left",
                 "%llu samples in %llu clocks of %llu; %llu of the epoch's "
                 "%llu were left",
                 (unsigned long long)w->samples, (unsigned long long)w->clocks,
                 (unsigned long long)batch, (unsigned long long)left,
                 (unsigned long long)r->samples);
            return false;
        }
    }
    s->at += r->parts ? w->clocks : w->samples;
    if (s->at < epoch_of(p))
        return true;
    s->at = 0;
    if (s->whole && s->samples != r->samples) {
        fail(p, RULE_L5, p->now_s, "as many samples an epoch as ready.samples",
             "%llu samples, of %llu", (unsigned long long)s->samples,
             (unsigned long long)r->samples);
        return false;
    }
    s->whole = true;
    s->samples = 0;
    return true;
}

static bool take_window(struct player *p, struct player_ask *q,
                        const struct progress_window *w)
{
    struct player_slot *s = &p->slot[q->slot];
    uint64_t left = q->count - q->clocks;
    uint64_t full = q->every < left ? q->every : left;

    if (q->wild) {
        fail(p, RULE_C7, p->now_s, "an end after the sum that is not finite",
             "another window");
        return false;
    }
    if (q->short_end || w->clocks > full || left == 0) {
        fail(p, RULE_L1, p->now_s,
             "windows of report_every clocks, the last one of what is left",
             "a window of %llu clocks where %llu of %llu were left%s",
             (unsigned long long)w->clocks, (unsigned long long)left,
             (unsigned long long)q->count,
             q->short_end ? ", after a shorter one" : "");
        return false;
    }
    q->short_end = w->clocks < full;
    q->wild = !isfinite(w->sum);
    q->clocks += w->clocks;
    q->windows++;
    q->clock_s = fmax(q->clock_s, w->seconds / (double)w->clocks);
    if (!add_window(p, q->series, w)) {
        fail(p, rule_now(p), p->now_s, "memory", "none is left");
        return false;
    }
    return s->type == BRANCH_TESTING ? check_test(p, w)
                                     : check_samples(p, s, w);
}

static void take_report(struct player *p, const struct msg *m)
{
    const struct msg_report *r = &m->report;
    struct player_ask *q = find_asked(p, m->op);
    double late = 0;

    if (q && q->refused) {
        fail(p, q->refused->rule, p->now_s, "a refusal", "granted: %s",
             q->refused->text);
        return;
    }
    if (!q || q->kind != MSG_SCHEDULE) {
        fail(p, RULE_L1, p->now_s, "reports before the slice's done",
             "a report with op %llu, which is no slice that waits",
             (unsigned long long)m->op);
        return;
    }
    if (r->branch != p->slot[q->slot].id || r->first != q->first + q->clocks) {
        fail(p, RULE_L1, p->now_s, "windows in order and without gaps",
             "branch %u, first %llu; expected branch %u, first %llu", r->branch,
             (unsigned long long)r->first, p->slot[q->slot].id,
             (unsigned long long)q->first + q->clocks);
        return;
    }
    for (uint32_t i = 0; i < r->windows; i++) {
        late += i ? r->window[i].seconds : 0;
        if (!take_window(p, q, &r->window[i]))
            return;
    }
    p->reported = true;
    p->step_at_s = p->step->kind == STEP_BREATHE ? p->step_at_s : p->now_s;
    if (late > LATE_S)
        fail(p, RULE_L3, p->now_s, "each window within a second of its end",
             "a window that was complete %.1f s before the report's last one",
             late);
}

/* A slice has ended. */
static bool check_end(struct player *p, const struct player_ask *q,
                      const struct msg_done *d)
{
    double late_s = LATE_S + 2 * q->clock_s;

    if (d->clocks != q->clocks) {
        fail(p, RULE_L4, p->now_s, "done with the clocks of all windows",
             "%llu clocks in done, %llu in windows",
             (unsigned long long)d->clocks, (unsigned long long)q->clocks);
        return false;
    }
    if (q->clocks < q->count && !q->wild && isinf(q->cut_at_s)) {
        fail(p, RULE_C6, p->now_s, "all clocks of a slice that nobody cut",
             "%llu of %llu", (unsigned long long)q->clocks,
             (unsigned long long)q->count);
        return false;
    }
    if (q->wild && q->clocks < q->count && p->slot[q->slot].live)
        p->slot[q->slot].plan = p->slot[q->slot].at;
    if (q->clocks == q->count && p->now_s - q->cut_at_s > late_s) {
        fail(p, RULE_C6, p->now_s, "an end soon after the cut",
             "all %llu clocks, the last %.1f s after the cut",
             (unsigned long long)q->count, p->now_s - q->cut_at_s);
        return false;
    }
    for (size_t i = 0; i < p->asked_len; i++) {
        const struct player_ask *f = &p->asked[i];

        if (f->op > q->op && (f->kind == MSG_FORK || f->kind == MSG_CUT) &&
            p->now_s - f->asked_at_s > late_s) {
            fail(p, RULE_C4, p->now_s, "an answer while the slice ran",
                 "%s op %llu was not answered for %.1f s of it",
                 msg_kind_name(f->kind), (unsigned long long)f->op,
                 p->now_s - f->asked_at_s);
            return false;
        }
    }
    p->slot[q->slot].plan =
        isinf(q->cut_at_s) ? p->slot[q->slot].plan : p->slot[q->slot].at;
    return true;
}

/* Requests that are carried out one after the other. */
static bool in_turn(enum msg_kind kind)
{
    return kind == MSG_SCHEDULE || kind == MSG_FREE || kind == MSG_RESTORE ||
           kind == MSG_SAVE;
}

static bool check_turn(struct player *p, const struct player_ask *q)
{
    for (size_t i = 0; i < p->asked_len && in_turn(q->kind); i++) {
        const struct player_ask *a = &p->asked[i];

        if (a->op >= q->op || !in_turn(a->kind) || a->refused)
            continue;
        fail(p, RULE_C3, p->now_s, "requests carried out in their order",
             "op %llu (%s) was done before op %llu (%s)",
             (unsigned long long)q->op, msg_kind_name(q->kind),
             (unsigned long long)a->op, msg_kind_name(a->kind));
        return false;
    }
    return true;
}

static void look(struct player *p, const struct msg *m)
{
    if (m->done.bytes == 0) {
        fail(p, RULE_D3, p->now_s, "bytes above 0", "bytes 0");
        return;
    }
    path_of(p, p->step, act(p, ACT_LOOK)->path);
    json_decref(p->looking);
    p->looking = json_incref(m->done.data);
    p->looks = true;
}

static void take_done(struct player *p, struct player_ask *q,
                      const struct msg *m)
{
    struct player_ask was = *q;

    if (q->kind == MSG_SCHEDULE && !check_end(p, q, &m->done))
        return;
    if (!check_turn(p, q))
        return;
    forget(p, q);
    if (was.kind == MSG_SNAPSHOT || was.kind == MSG_SAVE)
        look(p, m);
}

static void take_failed(struct player *p, struct player_ask *q,
                        const struct msg *m)
{
    const struct msg_failed *f = &m->failed;

    if (q->refused && f->code == q->refused->code) {
        forget(p, q);
        return;
    }
    if (q->refused)
        fail(p, q->refused->rule, p->now_s, q->refused->text,
             "refused with the code %s, not %s (%s)", err_name(f->code),
             err_name(q->refused->code), f->reason);
    else
        fail(p, rule_now(p), p->now_s, "the request carried out",
             "failed: %s op %llu: %s: %s", msg_kind_name(q->kind),
             (unsigned long long)q->op, err_name(f->code), f->reason);
}

static void take_answer(struct player *p, const struct msg *m)
{
    struct player_ask *q = find_asked(p, m->op);

    if (!q) {
        fail(p, RULE_C2, p->now_s, "one answer to each request",
             "%s with op %llu, which was answered or never asked",
             msg_kind_name(m->kind), (unsigned long long)m->op);
    } else if (m->kind == MSG_FAILED) {
        take_failed(p, q, m);
    } else if (q->refused) {
        fail(p, q->refused->rule, p->now_s, "a refusal", "granted: %s",
             q->refused->text);
    } else if ((m->kind == MSG_FORKED) != (q->kind == MSG_FORK)) {
        fail(p, RULE_C2, p->now_s,
             q->kind == MSG_FORK ? "forked" : "done or failed",
             "%s as the answer to %s op %llu", msg_kind_name(m->kind),
             msg_kind_name(q->kind), (unsigned long long)q->op);
    } else if (m->kind == MSG_FORKED) {
        if (m->forked.branch != p->slot[q->slot].id)
            fail(p, RULE_C2, p->now_s, "the number of the branch",
                 "branch %u, not %u", m->forked.branch, p->slot[q->slot].id);
        else
            forget(p, q);
    } else {
        take_done(p, q, m);
    }
}

/* ---- the first words ----------------------------------------------------- */

static void take_hello(struct player *p, const struct msg *m, bool pid_known)
{
    struct player_act *a;

    if (p->phase != PHASE_HELLO) {
        fail(p, RULE_C1, p->now_s, "one hello a process", "another one");
        return;
    }
    if (m->hello.version != PROTO_VERSION || !pid_known ||
        m->hello.node >= p->o.nodes) {
        fail(p, RULE_C1, p->now_s,
             "hello with version 1, its number, and the number of its process",
             "version %u, node %u, pid %lld%s", m->hello.version, m->hello.node,
             (long long)m->hello.pid,
             pid_known ? "" : ", which is no process that was started");
        return;
    }
    if (++p->hellos < p->o.nodes)
        return;
    p->phase = PHASE_LOADING;
    p->phase_at_s = p->now_s;
    a = act(p, ACT_SEND);
    a->message.kind = MSG_CONFIG;
    a->message.op = p->next_op++;
    a->message.config.config = json_incref(p->o.config);
    a->message.config.folder = mem_strdup(p->o.folder);
    a->message.config.seed = 7;
}

static void take_ready(struct player *p, struct msg *m)
{
    const struct msg_ready *r = &m->ready;

    if (p->phase != PHASE_LOADING) {
        fail(p, RULE_C1, p->now_s, "ready as the answer to config",
             "ready at another time");
        return;
    }
    if (m->op > 1 || r->samples > UINT32_MAX || r->parts > r->samples ||
        (r->validation_samples && !r->metric[0]) || r->model_bytes == 0) {
        fail(p, RULE_C1, p->now_s,
             "ready with samples, a metric where there are validation samples, "
             "and model_bytes above 0",
             "op %llu, %llu samples, %llu parts, %llu validation samples, "
             "metric \"%s\", model_bytes %llu",
             (unsigned long long)m->op, (unsigned long long)r->samples,
             (unsigned long long)r->parts,
             (unsigned long long)r->validation_samples, r->metric,
             (unsigned long long)r->model_bytes);
        return;
    }
    msg_deinit(&p->ready);
    p->ready = *m;
    *m = (struct msg){.kind = MSG_BEAT};
    p->phase = PHASE_PLAYING;
    if (p->step)
        p->step_at_s = p->now_s; /* goes on in a new process */
    else
        begin_check(p, p->now_s);
}

static void program_failed(struct player *p, const struct msg *m)
{
    fail(p, p->phase == PHASE_LOADING ? RULE_C1 : rule_now(p), p->now_s,
         p->phase == PHASE_LOADING ? "ready" : "a program that goes on",
         "failed: %s: %s", err_name(m->failed.code), m->failed.reason);
}

void player_take(struct player *p, struct msg *m, bool pid_known, double now_s)
{
    p->now_s = now_s;
    if (p->phase == PHASE_IDLE || p->phase == PHASE_OVER ||
        p->phase == PHASE_LOST || p->phase == PHASE_STOPPING ||
        m->kind == MSG_BEAT) {
        /* nothing to say about it, or about what it was about to say */
    } else if (m->kind == MSG_HELLO) {
        take_hello(p, m, pid_known);
    } else if (p->phase == PHASE_HELLO) {
        fail(p, RULE_C1, now_s, "hello first", "%s", msg_kind_name(m->kind));
    } else if (m->kind == MSG_READY) {
        take_ready(p, m);
    } else if (m->kind == MSG_FAILED &&
               (m->op == 0 || p->phase == PHASE_LOADING)) {
        program_failed(p, m);
    } else if (p->phase == PHASE_LOADING) {
        fail(p, RULE_C1, now_s, "ready or failed", "%s",
             msg_kind_name(m->kind));
    } else if (m->kind == MSG_REPORT) {
        take_report(p, m);
    } else if (m->kind == MSG_FORKED || m->kind == MSG_DONE ||
               m->kind == MSG_FAILED) {
        p->step_at_s = now_s;
        take_answer(p, m);
    } else {
        fail(p, RULE_W1, now_s, "a message to the tuner", "%s",
             msg_kind_name(m->kind));
    }
    msg_deinit(m);
    *m = (struct msg){.kind = MSG_BEAT};
    play(p);
}

/* ---- other events -------------------------------------------------------- */

void player_start(struct player *p, double now_s)
{
    p->now_s = now_s;
    p->check = -1;
    next_check(p, now_s);
}

void player_hear(struct player *p, uint32_t node, double now_s)
{
    double silence = now_s - p->heard_at_s[node];

    p->now_s = now_s;
    p->heard_at_s[node] = now_s;
    if ((p->phase == PHASE_LOADING || p->phase == PHASE_PLAYING) &&
        silence > SILENCE_S)
        fail(p, RULE_W5, now_s, "a word a second",
             "nothing of process %u for %.1f s", node, silence);
    play(p);
}

void player_wrong(struct player *p, enum rule rule, const char *what,
                  double now_s)
{
    p->now_s = now_s;
    if (p->phase == PHASE_PLAYING || p->phase == PHASE_HELLO ||
        p->phase == PHASE_LOADING)
        fail(p, rule, now_s,
             rule == RULE_M1 ? "processes that agree"
                             : "a message of docs/protocol.md",
             "%s", what);
    play(p);
}

void player_looked(struct player *p, uint64_t files, uint64_t bytes,
                   const char *missing, double now_s)
{
    p->now_s = now_s;
    if (!p->looks)
        return;
    p->looks = false;
    if (missing)
        fail(p, RULE_D2, now_s, "the files that done lists, in path",
             "%s is not there", missing);
    else if (files == 0 || bytes == 0)
        fail(p, RULE_D2, now_s, "files in the folder path",
             "%llu files with %llu bytes", (unsigned long long)files,
             (unsigned long long)bytes);
    play(p);
}

void player_ended(struct player *p, int code, const char *verdict, double now_s)
{
    double took_s = now_s - p->phase_at_s;
    int want = p->phase == PHASE_STOPPING ? 0 : 69;

    p->now_s = now_s;
    if (p->phase != PHASE_STOPPING && p->phase != PHASE_LOST) {
        fail(p, rule_now(p), now_s, "a program that goes on", "%s", verdict);
    } else if (code != want) {
        fail(p, p->phase == PHASE_LOST ? RULE_E2 : RULE_E1, now_s,
             want ? "exit code 69" : "exit code 0", "%s, after %.1f s", verdict,
             took_s);
    } else {
        p->phase = PHASE_IDLE;
        p->asked_len = 0;
    }
    play(p);
}

static const double *deadline(const struct player *p, double *at)
{
    switch (p->phase) {
    case PHASE_HELLO:
        *at = p->phase_at_s + HELLO_S;
        break;
    case PHASE_LOADING:
        *at = p->phase_at_s + 10 * p->o.step_s;
        break;
    case PHASE_STOPPING:
        *at = p->phase_at_s + STOP_S;
        break;
    case PHASE_LOST:
        *at = p->phase_at_s + LOSS_S;
        break;
    case PHASE_PLAYING:
        *at = p->step_at_s + p->o.step_s;
        break;
    default:
        *at = INFINITY;
    }
    return at;
}

static void take_too_long(struct player *p)
{
    double since = p->now_s - p->phase_at_s;
    const struct player_ask *q = p->asked_len ? &p->asked[0] : NULL;

    switch (p->phase) {
    case PHASE_HELLO:
        fail(p, RULE_C1, p->now_s, "hello", "nothing for %.0f s", since);
        break;
    case PHASE_LOADING:
        fail(p, RULE_C1, p->now_s, "ready or failed", "none for %.0f s", since);
        break;
    case PHASE_STOPPING:
        fail(p, RULE_E1, p->now_s, "an end within 3 s",
             "it still runs after %.1f s", since);
        break;
    case PHASE_LOST:
        fail(p, RULE_E2, p->now_s, "an end soon after 3 s",
             "it still runs after %.1f s", since);
        break;
    default:
        fail(p, q && q->kind != MSG_SCHEDULE ? RULE_C2 : rule_now(p), p->now_s,
             "an answer to each request, and reports",
             "no answer to %s op %llu, and no report, for %.0f s",
             q ? msg_kind_name(q->kind) : "nothing",
             q ? (unsigned long long)q->op : 0, p->now_s - p->step_at_s);
    }
}

void player_tick(struct player *p, double now_s)
{
    double at;

    p->now_s = now_s;
    for (uint32_t i = 0; i < p->o.nodes; i++)
        if ((p->phase == PHASE_LOADING || p->phase == PHASE_PLAYING) &&
            now_s - p->heard_at_s[i] > SILENCE_S)
            fail(p, RULE_W5, now_s, "a word a second",
                 "nothing of process %u for %.1f s", i,
                 now_s - p->heard_at_s[i]);
    if (now_s >= *deadline(p, &at))
        take_too_long(p);
    play(p);
}

double player_wake_at(const struct player *p)
{
    double at, wake = *deadline(p, &at);

    if (p->phase == PHASE_LOADING || p->phase == PHASE_PLAYING)
        wake = fmin(wake, p->now_s + 0.25);
    return wake;
}
