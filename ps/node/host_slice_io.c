/* Slices: clocks of one branch, run by all workers. */
#include "base/mem.h"
#include "ps/node/host_internal_io.h"
#include "ps/server/view.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- what applications call ---------------------------------------------- */

void mlt_report(struct mlt_worker *w, double sum, uint64_t samples)
{
    struct host_lane *l = ps_worker_user(w);

    if (!l) /* driven by a program of its own: nobody listens */
        return;
    l->sum += sum;
    l->samples += samples;
}

double mlt_tunable(const struct mlt_worker *w, const char *name,
                   double fallback)
{
    const struct host_lane *l = ps_worker_user(w);

    if (l && strcmp(name, "learning_rate") == 0)
        return l->host->setting.learning_rate * ps_worker_warmth(w);
    return l ? node_setting_own(&l->host->setting, name, fallback) : fallback;
}

/* ---- slices -------------------------------------------------------------- */

static void take_counters(const struct mlt_worker *w, struct slice_tick *tick)
{
    struct ps_counters c = ps_worker_counters(w);

    tick->wait_ns = c.wait_ns;
    tick->copy_ns = c.copy_ns;
    tick->now_ns = clock_monotonic();
}

/* This worker's share of the branch's next clock, for the application. */
static void fill_ctx(struct host *h, struct host_lane *l, unsigned index,
                     const struct order_clock *clock, struct mlt_clock_ctx *ctx)
{
    const struct order *o = &h->facts.order;
    uint64_t first, count;

    order_share(o, clock, index, &first, &count);
    *ctx = (struct mlt_clock_ctx){
        .type = h->type,
        .clock = clock->clock,
        .epoch = clock->epoch,
        .count = o->kind == MLT_ORDER_SAMPLES ? count : 0,
        .part = clock->part,
        .clock_samples = clock->count,
        .seed = order_clock_seed(o, clock->clock, index),
    };
    if (o->kind == MLT_ORDER_SAMPLES || h->type == MLT_CLOCK_TESTING)
        ctx->first = first;
    if (h->type == MLT_CLOCK_TESTING) {
        ctx->count = count;
    } else if (o->kind == MLT_ORDER_SAMPLES) {
        assert(count <= l->ids_room);
        order_samples(o, clock->epoch, first, count, l->ids);
        ctx->samples = l->ids;
    }
}

/* Clocks that read about the same rows: of one part of the data, or of what is
 * tested on. */
static uint64_t known_part(const struct order *o,
                           const struct mlt_clock_ctx *ctx)
{
    if (ctx->type != MLT_CLOCK_TESTING)
        return ctx->part;
    return o->kind == MLT_ORDER_PARTS ? o->parts : 1;
}

/* One clock of one worker. Every worker moves a cursor of its own, all of them
 * alike. */
static int run_clock(struct host *h, struct mlt_worker *w, struct host_lane *l)
{
    const struct order *o = &h->facts.order;
    struct cursor *cursor = mlt_row(w, h->cursor, 0);
    struct order_clock clock;
    struct mlt_clock_ctx ctx;
    struct slice_tick tick;
    int code;

    if (h->type == MLT_CLOCK_TESTING)
        order_testing(o, cursor, &clock);
    else
        order_clock_at(o, cursor, h->setting.batch_size, &clock);
    fill_ctx(h, l, mlt_worker_index(w), &clock, &ctx);
    mlt_clock_part(w, known_part(o, &ctx));
    l->sum = 0;
    l->samples = 0;
    code = h->metric && h->type == MLT_CLOCK_TESTING
               ? host_metric_clock(h->metric, w, ps_worker_local(w))
               : h->facts.app->run_clock(h->app, w, &ctx);
    if (code) {
        l->failed = code;
        l->failed_clock = clock.clock;
        return code;
    }
    if (h->type != MLT_CLOCK_TESTING)
        order_advance(o, &clock, mlt_row(w, h->cursor, 0));
    if (!isfinite(
            l->sum)) /* before the barrier: all see it at the same clock */
        host_slice_cut(h);
    tick.sum = l->sum;
    tick.samples = l->samples;
    code = mlt_clock(w);
    if (code)
        return code;
    take_counters(w, &tick);
    slice_end_clock(h->slice, ps_worker_local(w), &tick);
    return 0;
}

/* Whether there is another clock to run; where all nodes are being asked how
 * far they are, once that is known. */
static bool may_start_clock(struct host *h, struct mlt_worker *w)
{
    for (;;) {
        uint32_t ticket = ps_ticket(h->ps);
        enum slice_turn turn = slice_start_clock(h->slice, ps_worker_local(w));

        if (turn != SLICE_HELD)
            return turn == SLICE_RUN;
        if (!ps_await(w, ticket))
            return false;
    }
}

static int slice_work(struct mlt_worker *w, void *arg)
{
    struct host *h = arg;
    unsigned index = ps_worker_local(w);
    struct slice_tick tick;
    int code;

    take_counters(w, &tick);
    slice_enter(h->slice, index, &tick);
    for (;;) {
        live_read_take(h->glance, w);
        if (!may_start_clock(h, w))
            break;
        code = run_clock(h, w, &h->lane[index]);
        if (code)
            return code;
    }
    slice_leave(h->slice, index);
    return 0;
}

static enum err make_room(struct host *h)
{
    uint64_t need = order_share_max(&h->facts.order, h->setting.batch_size);

    assert(h->setting.batch_size > 0);
    if (h->facts.order.kind != MLT_ORDER_SAMPLES ||
        h->type == MLT_CLOCK_TESTING)
        return ERR_OK;
    for (unsigned i = 0; i < h->workers; i++)
        if (mem_grow((void **)&h->lane[i].ids, &h->lane[i].ids_room,
                     sizeof(*h->lane[i].ids), need) != 0)
            return ERR_NOMEM;
    return ERR_OK;
}

enum err host_set_rates(struct host *h, const struct node_setting *setting,
                        struct fault *f)
{
    enum err err;

    assert(setting);
    err = ps_set_learning_rate(h->ps, setting->learning_rate);
    if (!err)
        err = ps_set_momentum(h->ps, setting->momentum);
    if (!err)
        err = ps_set_weight_decay(h->ps, setting->weight_decay);
    if (!err && setting->rule)
        err = ps_set_rule(h->ps, setting->rule);
    return err ? fault_set(f, err, "setting: %s", err_text(err)) : ERR_OK;
}

static enum err apply_setting(struct host *h, const struct host_slice *s,
                              struct fault *f)
{
    enum err err = host_set_rates(h, s->setting, f);

    if (err)
        return err;
    h->setting = *s->setting;
    if (s->type == BRANCH_PROBE) {    /* measures the loss and learns nothing */
        h->setting.learning_rate = 0; /* as mlt_tunable says it */
        err = ps_set_learning_rate(h->ps, 0);
    }
    if (!err)
        err = ps_set_staleness(h->ps, h->setting.staleness);
    if (!err)
        err = ps_set_quorum(h->ps, h->setting.barrier_k);
    if (!err)
        err = ps_set_bandwidth(h->ps, h->setting.bandwidth_mbps);
    return err ? fault_set(f, err, "setting: %s", err_text(err)) : ERR_OK;
}

/* Warm-up goes by the clocks that the branch has run since the run's beginning,
 * those of its ancestors included, which its cursor counts: so a fork goes on
 * where its parent was, and a snapshot needs no more than it has. */
static void set_warmup(struct host *h)
{
    const struct cursor *at = (const void *)view_row(
        view_of_worker(ps_worker(h->ps, 0), h->cursor), 0);
    uint64_t clocks =
        order_clocks(&h->facts.order, h->setting.warmup, h->setting.batch_size);

    ps_set_warmup(h->ps, clocks, (uint64_t)at->clock);
}

enum err host_slice_begin(struct host *h, const struct host_slice *s,
                          struct fault *f)
{
    enum err err;

    assert(s->setting);

    assert(s->type == BRANCH_TRAINING || s->type == BRANCH_PROBE ||
           s->type == BRANCH_TESTING);
    h->type = s->type == BRANCH_TESTING ? MLT_CLOCK_TESTING
              : s->type == BRANCH_PROBE ? MLT_CLOCK_PROBE
                                        : MLT_CLOCK_TRAINING;
    h->branch = s->branch;
    h->turn_ns = clock_monotonic();
    for (unsigned i = 0; i < h->workers; i++)
        h->lane[i].failed = 0;
    if (h->metric && s->type == BRANCH_TESTING) {
        if (s->count > 1 && !h->barrier)
            return fault_set(f, ERR_INVAL,
                             "branch %u: expected one testing clock, found "
                             "%llu",
                             s->branch, (unsigned long long)s->count);
        host_metric_begin(h->metric);
    }
    err = apply_setting(h, s, f);
    if (err)
        return err;
    err = make_room(h);
    if (!err)
        err = slice_begin(h->slice, s->count, s->report_every, h->barrier);
    if (!err)
        err = ps_activate(h->ps, s->branch);
    if (!err)
        set_warmup(h);
    if (!err)
        err = ps_run_begin(h->ps, slice_work, h);
    return err ? fault_set(f, err, "branch %u: %s", s->branch, err_text(err))
               : ERR_OK;
}

int host_slice_fd(const struct host *h)
{
    return ps_run_fd(h->ps);
}

void host_slice_cut(struct host *h)
{
    if (h->nodes > 1)
        ps_cut(h->ps);
    else
        slice_cut(h->slice);
}

void host_slice_cancel(struct host *h)
{
    slice_cut(h->slice);
    ps_run_cancel(h->ps, ERR_CANCELED);
}

uint32_t host_slice_windows(const struct host *h)
{
    return slice_windows(h->slice);
}

const struct progress_window *host_slice_window(const struct host *h,
                                                uint32_t i)
{
    return slice_window(h->slice, i);
}

static enum err run_error(const struct host *h, int code, struct fault *f)
{
    enum err err = code > 0 && code < ERR_COUNT ? (enum err)code : ERR_APP;

    if (ps_lost(h->ps, f))
        return ERR_NODE;
    if (ps_model_error(h->ps, f))
        return f->code;
    for (unsigned i = 0; i < h->workers; i++)
        if (h->lane[i].failed == code)
            return fault_set(f, err,
                             "%s failed in worker %u at clock %llu of branch "
                             "%u: %s",
                             h->facts.app->name,
                             ps_node(h->ps) * h->workers + i,
                             (unsigned long long)h->lane[i].failed_clock,
                             h->branch, mlt_error_text(code));
    return fault_set(f, err, "branch %u: %s", h->branch, err_text(err));
}

enum err host_slice_end(struct host *h, struct host_result *out,
                        struct fault *f)
{
    int code = ps_run_end(h->ps);
    time_ns spent = clock_monotonic() - h->turn_ns;

    assert(out);
    if (slice_windows(h->slice))
        spent -= slice_ended_ns(h->slice) - slice_began_ns(h->slice);
    *out = (struct host_result){
        .clocks = slice_clocks(h->slice),
        .switch_s = spent > 0 ? (double)spent * 1e-9 : 0,
    };
    return code ? run_error(h, code, f) : ERR_OK;
}
