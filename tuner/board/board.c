#include "tuner/board/board.h"

#include "tuner/board/board_state.h"
#include "tuner/board/byhand.h"
#include "tuner/board/resume.h"
#include "tuner/board/rows.h"
#include "tuner/board/strategy.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- what strategies see of the run ---------------------------------------
 */

const struct tuner_options *board_options(const struct board *c)
{
    return &c->options;
}

void board_set_searcher(struct board *c, const struct searcher_ops *searcher)
{
    assert(searcher);
    c->options.searcher = searcher;
    c->options.searcher_settings = NULL;
}

const struct space *board_space(const struct board *c)
{
    return &c->space;
}

const struct msg_ready *board_system(const struct board *c)
{
    return &c->system;
}

const struct best *board_best(const struct board *c)
{
    return &c->best;
}

branch_id board_base(const struct board *c)
{
    return c->base;
}

void board_set_base(struct board *c, branch_id branch)
{
    c->base = branch;
}

bool board_ends(const struct board *c)
{
    return c->ending.phase != ENDING_NOT;
}

bool board_retune_wanted(const struct board *c)
{
    return c->retune_wanted;
}

void board_retune_begins(struct board *c)
{
    c->retune_wanted = false;
}

void board_want_snapshot(struct board *c)
{
    if (isfinite(c->options.snapshot_every_s))
        c->snapshot.wanted = true;
}

uint32_t board_searches_before(const struct board *c)
{
    return c->resume.searches;
}

uint32_t board_trials_before(const struct board *c)
{
    return c->resume.trials;
}

uint32_t board_search_resumed(const struct board *c)
{
    return c->resume.search;
}

bool board_made_room(const struct board *c)
{
    return c->hand->made_room;
}

double board_step_s(const struct board *c)
{
    return c->step_s;
}

double board_waited_s(const struct board *c)
{
    return c->waited_s;
}

double board_latest_wait_s(const struct board *c)
{
    return c->wait_s;
}

clock_no board_next_clock(const struct board *c)
{
    return c->next_clock;
}

uint64_t board_clocks_run(const struct board *c)
{
    return c->clocks_run;
}

const char *board_failure(const struct board *c)
{
    return c->failure;
}

/* ---- actions ------------------------------------------------------------- */

struct tuner_action *board_action(struct board *c, enum tuner_action_kind kind)
{
    struct tuner_action *a;

    assert(c->out);
    assert(c->out->count < c->out->capacity);
    a = &c->out->item[c->out->count++];
    a->kind = kind;
    return a;
}

struct record *board_record(struct board *c, enum record_kind kind)
{
    struct record *r = &board_action(c, TUNER_RECORD)->record;

    record_init(r, kind);
    /* Rounding must not set the time back where a resumed run goes on. */
    r->at_s = fmax(c->now_s - c->started_s, c->resume.at_s);
    r->clock = c->next_clock;
    return r;
}

struct record_decision *board_decision(struct board *c, const char *decision,
                                       const char *format, ...)
{
    struct record_decision *d = &board_record(c, RECORD_DECISION)->decision;
    va_list args;

    snprintf(d->decision, sizeof(d->decision), "%s", decision);
    va_start(args, format);
    vsnprintf(d->text, sizeof(d->text), format, args);
    va_end(args);
    return d;
}

void board_decision_number(struct record_decision *d, const char *name,
                           double value)
{
    assert(d->numbers < RECORD_NUMBERS_MAX);
    snprintf(d->number[d->numbers].name, sizeof(d->number[0].name), "%s", name);
    d->number[d->numbers++].value = value;
}

struct record_limits board_limits(const struct board *c)
{
    return (struct record_limits){
        .target_loss = c->options.target_loss,
        .target_metric = c->options.target_metric,
        .max_time_s = c->options.max_time_s,
        .plateau_epochs = c->options.plateau_epochs,
        .max_epochs = c->options.max_epochs,
    };
}

double board_active_s(const struct board *c)
{
    double now = isnan(c->pause_began_s) ? c->now_s : c->pause_began_s;

    return now - c->paused_s;
}

void board_set_status(struct board *c, enum run_status status,
                      const char *reason)
{
    struct record_run_status *r;

    if (c->status == status)
        return;
    c->status = status;
    r = &board_record(c, RECORD_RUN_STATUS)->run_status;
    r->status = status;
    snprintf(r->reason, sizeof(r->reason), "%s", reason);
}

struct msg *board_send(struct board *c, enum msg_kind kind, branch_id branch)
{
    struct msg *m = &board_action(c, TUNER_SEND)->message;
    struct board_op *op;

    assert(c->ops < BOARD_OPS_MAX);
    op = &c->op[c->ops++];
    *op = (struct board_op){.id = c->next_op++, .kind = kind, .branch = branch};
    memset(m, 0, offsetof(struct msg, config));
    m->kind = kind;
    m->op = op->id;
    return m;
}

static void op_remove(struct board *c, struct board_op *op)
{
    uint32_t i = (uint32_t)(op - c->op);

    memmove(op, op + 1, (c->ops - i - 1) * sizeof(*op));
    c->ops--;
}

static struct board_op *op_find(struct board *c, op_id id)
{
    for (uint32_t i = 0; i < c->ops; i++)
        if (c->op[i].id == id)
            return &c->op[i];
    return NULL;
}

/* ---- branches ------------------------------------------------------------ */

static struct branch *slot_of(struct board *c, branch_id id)
{
    for (size_t i = 0; i < TUNER_BRANCHES_MAX; i++)
        if (c->branch[i].state != BRANCH_FREE_SLOT && c->branch[i].id == id)
            return &c->branch[i];
    return NULL;
}

struct branch *ledger_branch(struct board *c, branch_id id)
{
    struct branch *b = slot_of(c, id);

    return b && b->state != BRANCH_FREEING ? b : NULL;
}

const struct branch *board_branch(const struct board *c, branch_id id)
{
    return ledger_branch((struct board *)c, id);
}

/* The slot that a strategy sees as @b. */
static struct branch *own(struct board *c, const struct branch *b)
{
    assert(b >= c->branch && b < c->branch + TUNER_BRANCHES_MAX);
    return &c->branch[b - c->branch];
}

void board_set_error(struct board *c, branch_id id, enum err error)
{
    struct branch *b = ledger_branch(c, id);

    assert(b);
    assert(error);
    b->error = error;
}

bool branch_idle(const struct branch *b)
{
    return b->state == BRANCH_LIVE && b->slices == 0 && b->after == 0;
}

const struct epoch_result *branch_epoch(const struct branch *b, uint32_t epoch)
{
    const struct epoch_result *r = &b->result[epoch % BOARD_EPOCHS_KEPT];

    assert(r->epoch == epoch);
    return r;
}

/* The newest slice of @parent that is out; 0 without one. */
static op_id last_slice(const struct board *c, const struct branch *parent)
{
    op_id last = parent->after;

    for (uint32_t i = 0; i < c->ops; i++)
        if (c->op[i].kind == MSG_SCHEDULE && c->op[i].branch == parent->id)
            last = c->op[i].id;
    return last;
}

static void inherit(struct branch *b, const struct branch *parent)
{
    b->clocks = parent->clocks;
    b->epochs = parent->epochs;
    b->now = parent->now;
    memcpy(b->result, parent->result, sizeof(b->result));
    b->nonfinite = parent->nonfinite;
    b->plan = parent->plan;
    b->plan_epochs = parent->plan_epochs;
    b->after = 0;
}

void board_plan_reset(const struct board *c, struct branch *b)
{
    b->plan = c->system.parts ? b->now.clocks : b->now.samples;
    b->plan_epochs = b->epochs;
}

static struct branch *slot_take(struct board *c, branch_id id)
{
    for (size_t i = 0; i < TUNER_BRANCHES_MAX; i++) {
        struct branch *b = &c->branch[i];

        if (b->state != BRANCH_FREE_SLOT)
            continue;
        memset(b, 0, offsetof(struct branch, trace));
        memset(&b->slices, 0, sizeof(*b) - offsetof(struct branch, slices));
        trace_init(&b->trace);
        b->id = id;
        return b;
    }
    return NULL;
}

static void slot_release(struct branch *b)
{
    json_decref(b->json);
    b->json = NULL;
    b->state = BRANCH_FREE_SLOT;
}

static void record_created(struct board *c, const struct branch *b)
{
    struct record_branch_created *r =
        &board_record(c, RECORD_BRANCH_CREATED)->branch_created;

    r->branch = b->id;
    r->parent = b->parent;
    r->type = b->type;
    r->setting = json_incref(b->json);
    memcpy(r->role, b->role, sizeof(r->role));
}

const struct branch *board_fork(struct board *c, const struct branch *parent,
                                enum branch_type type,
                                const struct setting *setting, json_t *json,
                                const char *role)
{
    struct branch *b = slot_take(c, c->next_branch);
    struct msg *m;

    assert(parent->state == BRANCH_LIVE);
    if (!b || c->ops + 8 > BOARD_OPS_MAX)
        return NULL;
    c->next_branch++;
    b->parent = parent->id;
    b->type = type;
    b->state = BRANCH_FORKING;
    b->setting = *setting;
    b->json = json_incref(json);
    b->increments = parent->increments;
    snprintf(b->role, sizeof(b->role), "%s", role);
    b->after = last_slice(c, parent);
    if (b->after == 0) {
        inherit(b, parent);
        board_plan_reset(c, b);
    }
    record_created(c, b);
    m = board_send(c, MSG_FORK, b->id);
    m->fork =
        (struct msg_fork){.branch = b->id, .parent = parent->id, .type = type};
    m->fork.setting = json_incref(json);
    return b;
}

const struct branch *board_keep(struct board *c, const struct branch *parent,
                                const char *role)
{
    const struct branch *b =
        board_fork(c, parent, BRANCH_KEPT, &parent->setting, c->empty, role);

    if (b)
        own(c, b)->holds = 1;
    return b;
}

struct branch *board_restore(struct board *c, const char *path,
                             branch_id parent)
{
    struct branch *b = slot_take(c, c->next_branch);
    struct msg *m;

    if (!b)
        return NULL;
    c->next_branch++;
    b->parent = parent;
    b->type = BRANCH_KEPT;
    b->state = BRANCH_FORKING;
    b->holds = 1;
    space_default(&c->space, &b->setting);
    b->json = json_incref(c->empty);
    snprintf(b->role, sizeof(b->role), "restored");
    record_created(c, b);
    m = board_send(c, MSG_RESTORE, b->id);
    m->restore.branch = b->id;
    snprintf(m->restore.path, sizeof(m->restore.path), "%s", path);
    return b;
}

void board_hold(struct board *c, branch_id kept)
{
    struct branch *b = ledger_branch(c, kept);

    assert(b);
    b->holds++;
}

void board_drop(struct board *c, branch_id kept, const char *reason)
{
    struct branch *b = ledger_branch(c, kept);

    if (!b)
        return;
    assert(b->holds > 0);
    if (--b->holds == 0)
        board_free(c, kept, reason);
}

static void record_freed(struct board *c, branch_id id, const char *reason)
{
    struct record_branch_freed *r =
        &board_record(c, RECORD_BRANCH_FREED)->branch_freed;

    r->branch = id;
    snprintf(r->reason, sizeof(r->reason), "%s", reason);
}

void board_free(struct board *c, branch_id id, const char *reason)
{
    struct branch *b = ledger_branch(c, id);

    if (!b)
        return;
    if (b->state == BRANCH_REFUSED && !b->partly) {
        slot_release(b);
        return;
    }
    if (b->state != BRANCH_REFUSED)
        record_freed(c, id, reason);
    b->state = BRANCH_FREEING;
    board_send(c, MSG_FREE, id)->free.branch = id;
}

/* ---- slices -------------------------------------------------------------- */

uint64_t board_units(const struct board *c)
{
    return c->system.parts ? c->system.parts : c->system.samples;
}

uint64_t board_samples_per_clock(const struct board *c,
                                 const struct setting *setting)
{
    double batch;

    if (c->system.parts)
        return (c->system.samples + c->system.parts - 1) / c->system.parts;
    batch = setting_number(&c->space, setting, "batch_size", NAN);
    if (batch >= 1)
        return (uint64_t)batch * c->system.workers;
    return c->samples_per_clock_seen;
}

/* Units of position that a clock of @b takes; 0: not known. */
static uint64_t clock_units(const struct board *c, const struct branch *b)
{
    return c->system.parts ? 1 : board_samples_per_clock(c, &b->setting);
}

uint64_t board_clocks_left(const struct board *c, const struct branch *b)
{
    uint64_t step = clock_units(c, b);
    uint64_t left = board_units(c) - b->plan;

    assert(b->plan < board_units(c));
    return step ? (left + step - 1) / step : 1;
}

uint64_t board_clocks_out(const struct board *c, const struct branch *b)
{
    uint64_t clocks = 0;

    for (uint32_t i = 0; i < c->ops; i++)
        if (c->op[i].kind == MSG_SCHEDULE && c->op[i].branch == b->id)
            clocks += c->op[i].count - c->op[i].reported;
    return clocks;
}

static void schedule(struct board *c, struct branch *b, uint64_t count,
                     uint64_t report_every)
{
    struct record_slice_scheduled *r =
        &board_record(c, RECORD_SLICE_SCHEDULED)->slice_scheduled;
    struct board_op *op;
    struct msg *m;

    assert(b->state == BRANCH_LIVE);
    assert(count > 0);
    r->branch = b->id;
    r->first = c->next_clock;
    r->count = count;
    r->report_every = report_every;
    if (!b->scheduled)
        b->first_clock = c->next_clock;
    b->scheduled = true;
    b->slices++;
    c->slices++;
    if (isinf(c->first_clock_s)) {
        c->first_clock_s = c->now_s;
        c->first_paused_s = c->paused_s;
    }
    m = board_send(c, MSG_SCHEDULE, b->id);
    m->schedule =
        (struct msg_schedule){b->id, c->next_clock, count, report_every};
    op = &c->op[c->ops - 1];
    op->idle = c->slices == 1;
    op->first = c->next_clock;
    op->count = count;
    c->next_clock += count;
}

uint64_t board_run(struct board *c, const struct branch *branch, uint64_t count,
                   uint64_t report_every)
{
    struct branch *b = own(c, branch);
    uint64_t left = board_clocks_left(c, b);

    assert(b->after == 0);
    assert(report_every > 0);
    if (count > left)
        count = left;
    if (count > report_every * PROTO_WINDOWS_MAX)
        count = report_every * PROTO_WINDOWS_MAX;
    schedule(c, b, count, report_every);
    b->plan += count * clock_units(c, b);
    if (b->plan >= board_units(c)) {
        b->plan = 0;
        b->plan_epochs++;
    }
    return count;
}

void board_test(struct board *c, const struct branch *b, uint64_t count)
{
    assert(b->type == BRANCH_TESTING);
    schedule(c, own(c, b), count,
             (count + PROTO_WINDOWS_MAX - 1) / PROTO_WINDOWS_MAX);
}

double board_switch_cost(const struct board *c)
{
    uint32_t n =
        c->switches_len < BOARD_SWITCHES ? c->switches_len : BOARD_SWITCHES;

    /* The one that as many are below as above, by counting. */
    for (uint32_t i = 0; i < n; i++) {
        uint32_t below = 0, equal = 0;

        for (uint32_t j = 0; j < n; j++) {
            below += c->switches[j] < c->switches[i];
            equal += c->switches[j] == c->switches[i];
        }
        if (below <= n / 2 && n / 2 < below + equal)
            return c->switches[i];
    }
    return 0;
}

void board_cut(struct board *c, branch_id branch)
{
    for (uint32_t i = 0; i < c->ops; i++) {
        struct board_op *op = &c->op[i];
        op_id target = op->id;

        if (op->kind != MSG_SCHEDULE)
            continue;
        if (op->cut || (branch != BRANCH_NONE && op->branch != branch))
            return;
        op->cut = true;
        board_send(c, MSG_CUT, op->branch)->cut.target = target;
        return;
    }
}

/* ---- messages ------------------------------------------------------------ */

static void record_started(struct board *c, const struct msg_ready *m)
{
    struct record_run_started *r =
        &board_record(c, RECORD_RUN_STARTED)->run_started;

    memcpy(r->run, c->run, sizeof(r->run));
    memcpy(r->name, c->name, sizeof(r->name));
    memcpy(r->app, c->app, sizeof(r->app));
    snprintf(r->strategy, sizeof(r->strategy), "%s", c->options.strategy->name);
    snprintf(r->searcher, sizeof(r->searcher), "%s",
             c->options.searcher ? c->options.searcher->name : "");
    r->seed = c->options.seed & INT64_MAX;
    r->started_unix_s = c->options.started_unix_s - c->resume.at_s;
    r->samples = m->samples;
    r->validation_samples = m->validation_samples;
    r->parts = m->parts;
    r->workers = m->workers;
    snprintf(r->metric, sizeof(r->metric), "%s", m->metric);
    r->metric_higher_better = m->metric_higher_better;
    r->limits = board_limits(c);
}

static void take_ready(struct board *c, const struct msg_ready *m)
{
    c->ready = true;
    c->system = *m;
    c->system.tunables = c->system.tables = NULL;
    for (size_t i = 0; i < c->space.len; i++) {
        struct tunable *t = &c->space.tunable[i];
        bool named = false;

        for (size_t j = 0; j < json_array_size(m->tunables); j++) {
            const char *s = json_string_value(json_array_get(m->tunables, j));

            named |= s && strcmp(s, t->name) == 0;
        }
        t->acts = t->acts && named;
    }
    if (!resume_begin(c))
        record_started(c, m);
    rows_tables(c, m->tables);
}

static void end_epoch(struct board *c, struct branch *b, clock_no clock)
{
    struct epoch_sums *e = &b->now;

    (void)c;
    b->epochs++;
    b->result[b->epochs % BOARD_EPOCHS_KEPT] = (struct epoch_result){
        b->epochs, e->sum / (double)e->samples, e->seconds, clock};
    *e = (struct epoch_sums){0};
}

static void take_window(struct board *c, struct branch *b,
                        const struct msg_window *w, clock_no after)
{
    if (!isfinite(w->sum))
        b->nonfinite = true;
    else
        b->own_sum += w->sum;
    b->own_clocks += w->clocks;
    b->own_samples += w->samples;
    if (b->type == BRANCH_TESTING)
        return;
    if (w->clocks && w->samples / w->clocks > c->samples_per_clock_seen)
        c->samples_per_clock_seen = w->samples / w->clocks;
    trace_add(&b->trace, w->sum, w->samples, w->seconds, b->epochs);
    b->clocks += w->clocks;
    b->now.sum += w->sum;
    b->now.samples += w->samples;
    b->now.clocks += w->clocks;
    b->now.seconds += w->seconds;
    if ((c->system.parts ? b->now.clocks : b->now.samples) >= board_units(c))
        end_epoch(c, b, after);
}

static void record_windows(struct board *c, const struct branch *b,
                           const struct msg_report *m)
{
    clock_no first = m->first, ran = b->clocks;

    for (uint32_t i = 0; i < m->windows; i += RECORD_WINDOWS_MAX) {
        struct record_progress *p = &board_record(c, RECORD_PROGRESS)->progress;

        p->branch = m->branch;
        p->first = first;
        p->branch_clock = ran;
        for (uint32_t j = i; j < m->windows && j < i + RECORD_WINDOWS_MAX;
             j++) {
            const struct msg_window *w = &m->window[j];

            p->window[p->windows++] =
                (struct record_window){w->sum,     w->samples, w->clocks,
                                       w->seconds, w->copy_s,  w->stalled_s};
            first += w->clocks;
            ran += w->clocks;
        }
    }
}

static enum err take_report(struct board *c, const struct msg_report *m,
                            struct fault *f)
{
    struct branch *b = slot_of(c, m->branch);
    struct board_op *op = NULL;
    uint64_t clocks = 0;

    for (uint32_t i = 0; i < c->ops && !op; i++)
        if (c->op[i].kind == MSG_SCHEDULE && c->op[i].branch == m->branch &&
            m->first == c->op[i].first + c->op[i].reported)
            op = &c->op[i];
    for (uint32_t i = 0; i < m->windows; i++)
        clocks += m->window[i].clocks;
    if (!b || !op || clocks > op->count - op->reported)
        return fault_set(f, ERR_PROTO,
                         "report of branch %u from clock %llu fits no slice "
                         "that is out",
                         m->branch, (unsigned long long)m->first);
    record_windows(c, b, m);
    op->reported += clocks;
    clocks = m->first;
    for (uint32_t i = 0; i < m->windows; i++) {
        const struct msg_window *w = &m->window[i];

        op->work_s += w->seconds + w->copy_s + w->stalled_s;
        clocks += w->clocks;
        take_window(c, b, w, clocks);
    }
    return ERR_OK;
}

/* Children that were forked from @b at the end of slice @op get their numbers.
 * A child's number is above its parent's, so in ascending order parents come
 * first. */
static void settle_children(struct board *c, op_id op)
{
    for (;;) {
        struct branch *next = NULL;

        for (size_t i = 0; i < TUNER_BRANCHES_MAX; i++) {
            struct branch *b = &c->branch[i];

            if (b->state != BRANCH_FREE_SLOT && b->after == op &&
                (!next || b->id < next->id))
                next = b;
        }
        if (!next)
            return;
        inherit(next, slot_of(c, next->parent));
        board_plan_reset(c, next);
    }
}

/* How long the training system had nothing to do before a slice: from the end
 * of the one before to the end of this, but for what it took. */
static void measure_wait(struct board *c, const struct board_op *op,
                         double switch_s)
{
    double wait = c->now_s - c->slice_end_s - op->work_s - switch_s;

    c->slice_end_s = c->paused ? NAN : c->now_s;
    if (!op->idle || isnan(wait))
        return;
    c->wait_s = fmax(wait, 0);
    c->waited_s += c->wait_s;
}

static void slice_done(struct board *c, const struct board_op *op,
                       const struct msg_done *m)
{
    struct record_slice_ended *r =
        &board_record(c, RECORD_SLICE_ENDED)->slice_ended;
    struct branch *b = slot_of(c, op->branch);

    assert(b);
    assert(b->slices > 0);
    r->branch = op->branch;
    r->first = op->first;
    r->clocks = m->clocks;
    r->switch_s = m->switch_s;
    r->data_bytes = m->data_bytes;
    r->reads = m->reads;
    r->staleness = m->staleness;
    c->switches[c->switches_len++ % BOARD_SWITCHES] = m->switch_s;
    c->clocks_run += m->clocks;
    measure_wait(c, op, m->switch_s);
    b->slices--;
    c->slices--;
    settle_children(c, op->id);
    if (b->slices == 0)
        board_plan_reset(c, b);
}

/* Everything about an operation that is answered, but for snapshot and save
 * (ending.c). */
static void take_done(struct board *c, const struct board_op *op,
                      const struct msg_done *m)
{
    struct branch *b = slot_of(c, op->branch);

    if (op->kind == MSG_SCHEDULE)
        slice_done(c, op, m);
    else if (op->kind == MSG_FREE && b)
        slot_release(b);
    else if (op->kind == MSG_RESTORE && b && b->state == BRANCH_FORKING)
        b->state = BRANCH_LIVE;
    else if (op->kind == MSG_SNAPSHOT || op->kind == MSG_SAVE)
        board_written(c, op->kind, m);
    else if (op->kind == MSG_ROWS)
        rows_done(c, op->id, m->data);
}

static void fork_refused(struct board *c, struct branch *b,
                         const struct msg_failed *m)
{
    if (b->state != BRANCH_FORKING)
        return; /* told to be freed meanwhile; that fails as well */
    b->error = m->code;
    b->partly = m->partly;
    b->state = BRANCH_REFUSED;
    record_freed(c, b->id, "refused");
    if (m->code == ERR_LIMIT)
        byhand_make_room(c, b);
}

static void take_failed(struct board *c, const struct board_op *op,
                        const struct msg_failed *m)
{
    struct branch *b = slot_of(c, op->branch);

    if (op->kind == MSG_FORK && b) {
        fork_refused(c, b, m);
    } else if (op->kind == MSG_RESTORE && b) {
        snprintf(c->failure, sizeof(c->failure), "%s", m->reason);
        fork_refused(c, b, m);
    } else if (op->kind == MSG_SCHEDULE) {
        assert(b); /* a slot outlives its slices */
        snprintf(c->failure, sizeof(c->failure), "%s", m->reason);
        b->error = m->code ? m->code : ERR_APP;
        slice_done(c, op, &(struct msg_done){.clocks = op->reported});
    } else if (op->kind == MSG_FREE && b) {
        slot_release(b);
    } else if (op->kind == MSG_SNAPSHOT || op->kind == MSG_SAVE) {
        board_not_written(c, op->kind, m);
    } else if (op->kind == MSG_ROWS) {
        rows_failed(c, op->id, m);
    }
}

static enum err take_answer(struct board *c, const struct msg *m,
                            struct fault *f)
{
    struct board_op *found = op_find(c, m->op), op;
    struct branch *b;

    if (!found)
        return fault_set(f, ERR_PROTO,
                         "%s answers operation %llu, which is not out",
                         msg_kind_name(m->kind), (unsigned long long)m->op);
    op = *found;
    if (m->kind == MSG_FORKED && op.kind != MSG_FORK)
        return fault_set(f, ERR_PROTO, "operation %llu is no fork",
                         (unsigned long long)m->op);
    if (m->kind == MSG_DONE && op.kind == MSG_SCHEDULE &&
        m->done.clocks != op.reported)
        return fault_set(f, ERR_PROTO,
                         "slice of branch %u ran %llu clocks, but %llu were "
                         "reported",
                         op.branch, (unsigned long long)m->done.clocks,
                         (unsigned long long)op.reported);
    op_remove(c, found);
    if (m->kind == MSG_FORKED || (m->kind == MSG_DONE && op.kind == MSG_FORK)) {
        b = slot_of(c, op.branch);
        if (b && b->state == BRANCH_FORKING)
            b->state = BRANCH_LIVE;
    } else if (m->kind == MSG_DONE) {
        take_done(c, &op, &m->done);
    } else {
        take_failed(c, &op, &m->failed);
    }
    return ERR_OK;
}

/* A run that goes on keeps what it has, for when the data are back. */
static void load_failed(struct board *c, const char *reason)
{
    if (c->options.resume && c->options.resume->started)
        board_interrupted(c, "load_failed", reason);
    else
        board_end(c, RUN_FAILED, "load_failed", "%s", reason);
}

/* Not each is worth a record; but the last ones of a run are. */
static void take_beat(struct board *c, const struct msg_beat *beat)
{
    double *last = &c->beat_s[beat->node];

    if (!c->ready ||
        (c->ending.phase == ENDING_NOT &&
         c->now_s - *last < nodes_interval(c->now_s - c->started_s)))
        return;
    board_record(c, RECORD_NODE)->node.beat = *beat;
    *last = c->now_s;
}

enum err board_message(struct board *c, const struct msg *m, struct fault *f)
{
    switch (m->kind) {
    case MSG_READY:
        if (c->ready)
            return fault_set(f, ERR_PROTO, "a second ready");
        if (m->ready.samples == 0 || m->ready.workers == 0)
            return fault_set(f, ERR_PROTO, "ready without samples or workers");
        take_ready(c, &m->ready);
        return ERR_OK;
    case MSG_FORKED:
    case MSG_DONE:
        return take_answer(c, m, f);
    case MSG_FAILED:
        if (m->op == TUNER_CONFIG_OP) {
            load_failed(c, m->failed.reason);
            return ERR_OK;
        }
        if (m->op != 0)
            return take_answer(c, m, f);
        board_lost(c, m->failed.reason);
        return ERR_OK;
    case MSG_REPORT:
        return take_report(c, &m->report, f);
    case MSG_BEAT:
        if (m->beat.node < NODES_MAX)
            take_beat(c, &m->beat);
        return ERR_OK;
    default:
        return ERR_OK; /* hello: the shell's */
    }
}

/* ---- the rest ------------------------------------------------------------ */

double board_score(const struct board *c, double loss, double metric)
{
    if (c->system.validation_samples == 0)
        return loss;
    return c->system.metric_higher_better ? -metric : metric;
}

double board_result(const struct board *c, double score)
{
    bool turned =
        c->system.validation_samples && c->system.metric_higher_better;

    return turned ? -score : score;
}

bool board_is_better(const struct board *c, double loss, double metric)
{
    double score = board_score(c, loss, metric);

    if (!isfinite(score))
        return false;
    return c->best.branch == BRANCH_NONE ||
           score < board_score(c, c->best.loss, c->best.metric);
}

void board_set_best(struct board *c, branch_id kept,
                    const struct epoch_result *e, double metric)
{
    branch_id old = c->best.branch;

    board_hold(c, kept);
    c->best = (struct best){kept, e->epoch, e->loss, metric};
    board_drop(c, old, "a better model");
}

void board_retry(struct board *c)
{
    board_retry_after(c, 0.1);
}

void board_retry_after(struct board *c, double seconds)
{
    c->retry_s = fmin(c->retry_s, c->now_s + seconds);
}

enum err board_init(struct board *c, const struct tuner_options *o,
                    struct fault *f)
{
    struct branch *root;

    memset(c, 0, sizeof(*c));
    for (size_t i = 0; i < NODES_MAX; i++)
        c->beat_s[i] = -INFINITY;
    c->empty = json_object();
    if (!c->empty)
        return fault_set(f, ERR_NOMEM, "no memory for a tuner");
    c->options = *o;
    c->space = *o->space;
    snprintf(c->run, sizeof(c->run), "%s", o->run);
    snprintf(c->name, sizeof(c->name), "%s", o->name);
    snprintf(c->app, sizeof(c->app), "%s", o->app);
    snprintf(c->snapshot_dir, sizeof(c->snapshot_dir), "%s", o->snapshot_dir);
    snprintf(c->model_dir, sizeof(c->model_dir), "%s", o->model_dir);
    c->next_op = TUNER_CONFIG_OP + 1;
    c->next_branch = 1;
    c->first_clock_s = c->first_wait_s = INFINITY;
    c->slice_end_s = NAN;
    c->pause_began_s = NAN;
    c->wait_s = NAN;
    c->retry_s = INFINITY;
    c->status = RUN_WAITING;
    c->best.branch = BRANCH_NONE;
    c->snapshot.branch = BRANCH_NONE;
    c->snapshot.of = c->snapshot.of_written = BRANCH_NONE;
    c->snapshot.best = c->snapshot.best_written = BRANCH_NONE;
    c->snapshot.due_s = INFINITY;
    c->ending.fork = BRANCH_NONE;
    c->ending.trial = BRANCH_NONE;
    c->ending.loss = NAN;
    root = slot_take(c, 0);
    root->type = BRANCH_INIT;
    root->state = BRANCH_LIVE;
    root->parent = BRANCH_NONE;
    root->holds = 1;
    space_default(&c->space, &root->setting);
    root->json = json_incref(c->empty);
    resume_init(c);
    return ERR_OK;
}

void board_deinit(struct board *c)
{
    for (size_t i = 0; i < TUNER_BRANCHES_MAX; i++)
        json_decref(c->branch[i].json);
    json_decref(c->snapshot.saved);
    json_decref(c->snapshot.state);
    json_decref(c->snapshot.saved_written);
    json_decref(c->empty);
    c->empty = NULL;
}
