#include "tuner/board/slices.h"

#include "base/mem.h"
#include "tuner/board/branch.h"
#include "tuner/board/branches.h"
#include "tuner/board/clockwork.h"
#include "tuner/board/operations.h"
#include "tuner/board/parts.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

enum {
    SLICES_SWITCHES = 8,
    PARTS_MAX =
        (PROTO_WINDOWS_MAX + RECORD_WINDOWS_MAX - 1) / RECORD_WINDOWS_MAX
};

struct slices {
    uint32_t out;                     /* scheduled and not answered */
    uint64_t clocks_run;              /* by all branches */
    uint64_t samples_seen;            /* in the largest clock; 0: none ran */
    double switch_s[SLICES_SWITCHES]; /* latest measured costs of a switch */
    uint32_t switches;                /* measured in all */
    struct extras extras;             /* further metrics that are recorded */
    bool too_many;                    /* there were more, which has been told */
    json_t *part[PARTS_MAX]; /* reserved: metrics of the report, a record each;
                              * owned, NULL: it has none */
};

enum err slices_init(struct board *c)
{
    const struct history *h = board_history(c);

    assert(!c->slices);
    c->slices = mem_calloc(1, sizeof(*c->slices));
    if (!c->slices)
        return ERR_NOMEM;
    if (h && history_started(h)) {
        c->slices->clocks_run = history_clocks(h);
        c->slices->extras = *history_extras(h);
    }
    return ERR_OK;
}

static void drop_parts(struct slices *s)
{
    for (uint32_t i = 0; i < PARTS_MAX; i++) {
        json_decref(s->part[i]);
        s->part[i] = NULL;
    }
}

void slices_deinit(struct board *c)
{
    if (c->slices)
        drop_parts(c->slices);
    mem_free(c->slices);
    c->slices = NULL;
}

/* ---- epochs and clocks --------------------------------------------------- */

uint64_t board_units(const struct board *c)
{
    const struct msg_ready *m = board_system(c);

    return m->parts ? m->parts : m->samples;
}

uint64_t board_samples_per_clock(const struct board *c,
                                 const struct setting *setting)
{
    const struct msg_ready *m = board_system(c);
    double batch;

    if (m->parts)
        return (m->samples + m->parts - 1) / m->parts;
    batch = setting_number(board_space(c), setting, "batch_size", NAN);
    if (batch >= 1) /* an epoch's only clock takes what there is */
        return batch * m->workers < (double)m->samples
                   ? (uint64_t)batch * m->workers
                   : m->samples;
    return c->slices->samples_seen;
}

/* Units of position that a clock of @b takes; 0: not known. */
static uint64_t clock_units(const struct board *c, const struct branch *b)
{
    return board_has_parts(c) ? 1 : board_samples_per_clock(c, &b->setting);
}

uint64_t board_clocks_left(const struct board *c, const struct branch *b)
{
    uint64_t step = clock_units(c, b);
    uint64_t left = board_units(c) - b->plan;

    assert(b->plan < board_units(c));
    return step ? (left + step - 1) / step : 1;
}

/* ---- scheduling ---------------------------------------------------------- */

static void schedule(struct board *c, struct branch *b, uint64_t count,
                     uint64_t report_every)
{
    struct record_slice_scheduled *r;
    clock_no first = clockwork_schedule(c, count);
    struct operation *op;
    struct msg *m;

    assert(b->state == BRANCH_LIVE);
    board_guard_check(c, b->id);
    r = board_record_slice_scheduled(c);
    assert(report_every > 0);
    r->branch = b->id;
    r->first = first;
    r->count = count;
    r->report_every = report_every;
    if (!b->scheduled)
        b->first_clock = first;
    b->scheduled = true;
    b->slices++;
    c->slices->out++;
    m = operations_send(c, MSG_SCHEDULE, b->id);
    m->schedule = (struct msg_schedule){b->id, first, count, report_every};
    op = operations_find(c, m->op);
    op->idle = c->slices->out == 1;
    op->first = first;
    op->count = count;
}

uint64_t board_run(struct board *c, const struct branch *branch, uint64_t count,
                   uint64_t report_every)
{
    struct branch *b = branches_own(c, branch->id);
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
    schedule(c, branches_own(c, b->id), count,
             (count + PROTO_WINDOWS_MAX - 1) / PROTO_WINDOWS_MAX);
}

void slices_cut_training(struct board *c, op_id before)
{
    const struct operation *op = operations_running(c);
    const struct branch *b;

    if (!op || op->id >= before)
        return;
    b = board_branch(c, op->branch);
    if (!b || b->type != BRANCH_TESTING)
        board_cut(c, op->branch);
}

/* ---- accounts ------------------------------------------------------------ */

uint32_t slices_out(const struct board *c)
{
    return c->slices->out;
}

uint64_t board_clocks_run(const struct board *c)
{
    return c->slices->clocks_run;
}

uint64_t slices_samples_seen(const struct board *c)
{
    return c->slices->samples_seen;
}

void slices_see_samples(struct board *c, uint64_t samples)
{
    if (samples > c->slices->samples_seen)
        c->slices->samples_seen = samples;
}

double board_switch_cost(const struct board *c)
{
    const struct slices *s = c->slices;
    uint32_t n = s->switches < SLICES_SWITCHES ? s->switches : SLICES_SWITCHES;

    /* The one that as many are below as above, by counting. */
    for (uint32_t i = 0; i < n; i++) {
        uint32_t below = 0, equal = 0;

        for (uint32_t j = 0; j < n; j++) {
            below += s->switch_s[j] < s->switch_s[i];
            equal += s->switch_s[j] == s->switch_s[i];
        }
        if (below <= n / 2 && n / 2 < below + equal)
            return s->switch_s[i];
    }
    return 0;
}

/* ---- reports ------------------------------------------------------------- */

static void end_epoch(struct branch *b, clock_no clock)
{
    struct epoch_sums *e = &b->now;

    b->epochs++;
    b->result[b->epochs % BOARD_EPOCHS_KEPT] = (struct epoch_result){
        b->epochs, e->sum / (double)e->samples, e->seconds, clock};
    *e = (struct epoch_sums){0};
}

static void take_window(struct board *c, struct branch *b,
                        const struct progress_window *w, clock_no after)
{
    if (!isfinite(w->sum)) {
        b->nonfinite = true;
        /* Processes that wait for one another cannot end it by themselves. */
        if (board_system(c)->cuts == CUTS_AGREED)
            board_cut(c, b->id);
    } else {
        b->own_sum += w->sum;
    }
    b->own_clocks += w->clocks;
    b->own_samples += w->samples;
    if (b->type == BRANCH_TESTING)
        return;
    if (w->clocks)
        slices_see_samples(c, w->samples / w->clocks);
    trace_add(&b->trace, w->sum, w->samples, w->seconds, b->epochs);
    b->clocks += w->clocks;
    b->all_sum += isfinite(w->sum) ? w->sum : 0;
    b->all_samples += w->samples;
    b->now.sum += w->sum;
    b->now.samples += w->samples;
    b->now.clocks += w->clocks;
    b->now.seconds += w->seconds;
    if (branches_position(c, b) >= board_units(c))
        end_epoch(b, after);
}

/* Further metrics that are new: they are recorded as long as there is room. */
static void name_extras(struct board *c, const json_t *values)
{
    struct slices *s = c->slices;
    const char *name;
    json_t *column;

    json_object_foreach((json_t *)values, name, column)
    {
        if (extras_add(&s->extras, name) >= 0 || s->too_many)
            continue;
        s->too_many = true;
        board_decision(c, "values",
                       "the metric %s and further ones are not recorded: a run "
                       "has at most %d",
                       name, EXTRAS_MAX);
    }
}

enum err slices_reserve(struct board *c, const struct msg_report *m)
{
    struct slices *s = c->slices;
    struct extras named = s->extras; /* as name_extras will have them */
    enum err err = ERR_OK;
    const char *name;
    json_t *column;

    assert(m->windows <= PROTO_WINDOWS_MAX);
    drop_parts(s);
    json_object_foreach((json_t *)m->values, name, column)
    {
        extras_add(&named, name);
    }
    for (uint32_t i = 0; i < m->windows && !err; i += RECORD_WINDOWS_MAX) {
        uint32_t n = m->windows - i;

        err = extras_part(&named, m->values, i,
                          n < RECORD_WINDOWS_MAX ? n : RECORD_WINDOWS_MAX,
                          &s->part[i / RECORD_WINDOWS_MAX]);
    }
    if (err)
        drop_parts(s);
    return err;
}

static void record_windows(struct board *c, const struct branch *b,
                           const struct msg_report *m)
{
    clock_no first = m->first, ran = b->clocks;

    name_extras(c, m->values);
    for (uint32_t i = 0; i < m->windows; i += RECORD_WINDOWS_MAX) {
        struct record_progress *p = board_record_progress(c);

        p->branch = m->branch;
        p->first = first;
        p->branch_clock = ran;
        for (uint32_t j = i; j < m->windows && j < i + RECORD_WINDOWS_MAX;
             j++) {
            const struct progress_window *w = &m->window[j];

            p->window[p->windows] = *w;
            p->window[p->windows++].wait_s = 0; /* in no journal */
            first += w->clocks;
            ran += w->clocks;
        }
        p->values = c->slices->part[i / RECORD_WINDOWS_MAX];
        c->slices->part[i / RECORD_WINDOWS_MAX] = NULL;
    }
}

enum err slices_report(struct board *c, const struct msg_report *m,
                       struct fault *f)
{
    struct branch *b = branches_any(c, m->branch);
    struct operation *op = operations_slice_at(c, m->branch, m->first);
    uint64_t clocks = 0;

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
        const struct progress_window *w = &m->window[i];

        op->samples += w->samples;
        op->work_s += w->seconds + w->copy_s + w->stalled_s;
        clocks += w->clocks;
        take_window(c, b, w, clocks);
    }
    return ERR_OK;
}

/* ---- the end of a slice -------------------------------------------------- */

/* Clocks without a sample get a branch nowhere in its epoch: more of them would
 * be asked for without end. (A test has its own end; parts are counted by
 * clocks.) */
static void no_samples(struct board *c, struct branch *b)
{
    if (b->type == BRANCH_TESTING || board_has_parts(c) || b->error ||
        b->nonfinite)
        return;
    branches_failed(c, b, ERR_APP, "clocks without a sample were reported");
}

void slices_ended(struct board *c, const struct operation *op,
                  const struct msg_done *m)
{
    struct slices *s = c->slices;
    struct record_slice_ended *r = board_record_slice_ended(c);
    struct branch *b = branches_any(c, op->branch);

    assert(b);
    assert(b->slices > 0);
    r->branch = op->branch;
    r->first = op->first;
    r->clocks = m->clocks;
    r->switch_s = m->switch_s;
    r->data_bytes = m->data_bytes;
    r->reads = m->reads;
    r->staleness = m->staleness;
    s->switch_s[s->switches++ % SLICES_SWITCHES] = m->switch_s;
    s->clocks_run += m->clocks;
    r->waiting_s = clockwork_slice_ended(c, op->idle, op->work_s, m->switch_s);
    b->slices--;
    s->out--;
    branches_settle(c, op->id);
    if (b->slices == 0)
        branches_plan_reset(c, b);
    if (op->reported > 0 && op->samples == 0)
        no_samples(c, b);
}

void slices_failed(struct board *c, const struct operation *op,
                   const struct msg_failed *m)
{
    struct branch *b = branches_any(c, op->branch);

    assert(b); /* a slot outlives its slices */
    branches_failed(c, b, m->code ? m->code : ERR_APP, m->reason);
    slices_ended(c, op, &(struct msg_done){.clocks = op->reported});
}
