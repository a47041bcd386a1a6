/* Messages of the program, and whether it may send them. */
#include "cli/check/player_internal.h"

#include "base/json/json.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double LATE_S = 2; /* rule L3 says a second */

/* ---- windows --------------------------------------------------------------
 */

/* A window of a testing branch. */
static bool check_test(struct player *p, const struct progress_window *w)
{
    uint64_t all = p->ready.ready.validation_samples * w->clocks;

    if (w->samples == all)
        return true;
    player_fail(p, RULE_L6, "as many samples as ready.validation_samples",
                "%llu samples in %llu clocks, of %llu",
                (unsigned long long)w->samples, (unsigned long long)w->clocks,
                (unsigned long long)all);
    return false;
}

/* The samples of clocks whose size is known. */
static bool check_batches(struct player *p, const struct player_slot *s,
                          const struct progress_window *w)
{
    const struct msg_ready *r = &p->ready.ready;
    uint64_t batch = player_batch(p, s->setting) * r->workers;
    uint64_t left = r->samples - s->at;
    uint64_t want =
        batch && batch * w->clocks < left ? batch * w->clocks : left;

    if (w->samples <= left && (!batch || w->samples == want))
        return true;
    player_fail(p, RULE_L5,
                "clocks of batch_size samples a worker, and an epoch's last "
                "one of what is left",
                "%llu samples in %llu clocks of %llu; %llu of the epoch's %llu "
                "were left",
                (unsigned long long)w->samples, (unsigned long long)w->clocks,
                (unsigned long long)batch, (unsigned long long)left,
                (unsigned long long)r->samples);
    return false;
}

/* A window of a training branch: where that stands in its epoch. */
static bool check_samples(struct player *p, struct player_slot *s,
                          const struct progress_window *w)
{
    const struct msg_ready *r = &p->ready.ready;

    if (w->samples / w->clocks > p->seen)
        p->seen = w->samples / w->clocks;
    s->samples += w->samples;
    if (!r->parts && !check_batches(p, s, w))
        return false;
    s->at += r->parts ? w->clocks : w->samples;
    if (s->at < player_epoch(p))
        return true;
    s->at = 0;
    if (s->whole && s->samples != r->samples) {
        player_fail(p, RULE_L5, "as many samples an epoch as ready.samples",
                    "%llu samples, of %llu", (unsigned long long)s->samples,
                    (unsigned long long)r->samples);
        return false;
    }
    s->whole = true;
    s->samples = 0;
    return true;
}

/* Whether the slice can have such a window now. */
static bool check_length(struct player *p, const struct player_ask *q,
                         const struct progress_window *w)
{
    uint64_t left = q->count - q->clocks;
    uint64_t full = q->every < left ? q->every : left;

    if (!q->short_end && w->clocks <= full && left > 0)
        return true;
    player_fail(p, RULE_L1,
                "windows of report_every clocks, the last one of what is left",
                "a window of %llu clocks where %llu of %llu were left%s",
                (unsigned long long)w->clocks, (unsigned long long)left,
                (unsigned long long)q->count,
                q->short_end ? ", after a shorter one" : "");
    return false;
}

/* A sum that is not finite: the slice ends there by itself (C7), or, of
 * several processes that agree, as soon as the tuner has seen it (M3). */
static void take_wild(struct player *p, struct player_ask *q)
{
    q->wild = true;
    if (player_agrees(p) && q->clocks < q->count)
        player_ask_cut(p, q);
}

static bool take_window(struct player *p, struct player_ask *q,
                        const struct progress_window *w)
{
    struct player_slot *s = &p->slot[q->slot];
    uint64_t left = q->count - q->clocks;

    if (q->wild && !player_agrees(p)) {
        player_fail(p, RULE_C7, "an end after the sum that is not finite",
                    "another window");
        return false;
    }
    if (!check_length(p, q, w))
        return false;
    q->short_end = w->clocks < (q->every < left ? q->every : left);
    q->clocks += w->clocks;
    q->windows++;
    q->clock_s = fmax(q->clock_s, w->seconds / (double)w->clocks);
    if (!isfinite(w->sum))
        take_wild(p, q);
    if (series_add(&p->series[q->series], w) != ERR_OK) {
        player_fail(p, player_rule(p), "memory", "none is left");
        return false;
    }
    return s->type == BRANCH_TESTING ? check_test(p, w)
                                     : check_samples(p, s, w);
}

/* ---- reports --------------------------------------------------------------
 */

/* Whether a slice waits for such a report. */
static bool check_report(struct player *p, const struct player_ask *q,
                         const struct msg *m)
{
    const struct msg_report *r = &m->report;

    if (q && q->refused)
        player_fail(p, q->refused->rule, "a refusal", "granted: %s",
                    q->refused->text);
    else if (!q || q->kind != MSG_SCHEDULE)
        player_fail(p, RULE_L1, "reports before the slice's done",
                    "a report with op %llu, which is no slice that waits",
                    (unsigned long long)m->op);
    else if (r->branch != q->branch || r->first != q->first + q->clocks)
        player_fail(p, RULE_L1, "windows in order and without gaps",
                    "branch %u, first %llu; expected branch %u, first %llu",
                    r->branch, (unsigned long long)r->first, q->branch,
                    (unsigned long long)q->first + q->clocks);
    else
        return true;
    return false;
}

static void take_report(struct player *p, const struct msg *m)
{
    const struct msg_report *r = &m->report;
    struct player_ask *q = player_asked(p, m->op);
    double late = 0;

    if (!check_report(p, q, m))
        return;
    for (uint32_t i = 0; i < r->windows; i++) {
        late += i ? r->window[i].seconds : 0;
        if (!take_window(p, q, &r->window[i]))
            return;
    }
    p->reported = true;
    p->step_at_s = p->step->kind == STEP_BREATHE ? p->step_at_s : p->now_s;
    if (late > LATE_S)
        player_fail(p, RULE_L3, "each window within a second of its end",
                    "a window that was complete %.1f s before the report's "
                    "last one",
                    late);
}

/* ---- the end of a slice ---------------------------------------------------
 */

/* Whether it has run as many clocks as it may. Processes that agree answer a
 * cut before they end the slice (M2). */
static bool check_clocks(struct player *p, const struct player_ask *q,
                         const struct msg_done *d)
{
    bool early = q->clocks < q->count && (!q->cut || player_asked(p, q->cut));

    if (d->clocks != q->clocks)
        player_fail(p, RULE_L4, "done with the clocks of all windows",
                    "%llu clocks in done, %llu in windows",
                    (unsigned long long)d->clocks,
                    (unsigned long long)q->clocks);
    else if (early && !q->wild && !q->cut)
        player_fail(p, RULE_C6, "all clocks of a slice that nobody cut",
                    "%llu of %llu", (unsigned long long)q->clocks,
                    (unsigned long long)q->count);
    else if (early && q->wild && player_agrees(p))
        player_fail(p, RULE_M3, "a slice that goes on until it is cut",
                    "an end by itself after %llu of %llu clocks",
                    (unsigned long long)q->clocks,
                    (unsigned long long)q->count);
    else
        return true;
    return false;
}

/* Forks and cuts that came while it ran are to be answered by now. */
static bool check_answers(struct player *p, const struct player_ask *q,
                          double late_s)
{
    for (size_t i = 0; i < p->asked_len; i++) {
        const struct player_ask *f = &p->asked[i];
        double waits_s = p->now_s - f->asked_at_s;

        if (f->op < q->op || (f->kind != MSG_FORK && f->kind != MSG_CUT) ||
            waits_s <= late_s)
            continue;
        player_fail(p, RULE_C4, "an answer while the slice ran",
                    "%s op %llu was not answered for %.1f s of it",
                    msg_kind_name(f->kind), (unsigned long long)f->op, waits_s);
        return false;
    }
    return true;
}

static bool check_end(struct player *p, const struct player_ask *q,
                      const struct msg_done *d)
{
    double late_s = LATE_S + 2 * q->clock_s;
    struct player_slot *s = &p->slot[q->slot];

    if (!check_clocks(p, q, d))
        return false;
    if (q->clocks == q->count && p->now_s - q->cut_at_s > late_s) {
        player_fail(p, RULE_C6, "an end soon after the cut",
                    "all %llu clocks, the last %.1f s after the cut",
                    (unsigned long long)q->count, p->now_s - q->cut_at_s);
        return false;
    }
    if (!check_answers(p, q, late_s))
        return false;
    if (!isinf(q->cut_at_s) || (q->wild && q->clocks < q->count && s->live))
        s->plan = s->at;
    return true;
}

/* ---- answers --------------------------------------------------------------
 */

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
        player_fail(p, RULE_C3, "requests carried out in their order",
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
        player_fail(p, RULE_D3, "bytes above 0", "bytes 0");
        return;
    }
    player_path(p, p->step, player_add_act(p, ACT_LOOK)->path);
    json_decref(p->looking);
    p->looking = json_incref(m->done.data);
    p->looks = true;
}

static void take_done(struct player *p, struct player_ask *q,
                      const struct msg *m)
{
    enum msg_kind kind = q->kind;

    if (kind == MSG_SCHEDULE && !check_end(p, q, &m->done))
        return;
    if (!check_turn(p, q))
        return;
    player_forget(p, q);
    if (kind == MSG_SNAPSHOT || kind == MSG_SAVE)
        look(p, m);
}

/* Bytes that the configuration gives to branches; 0: it does not say. */
static uint64_t memory_limit(const struct player *p)
{
    const json_t *limit =
        json_object_get(json_object_get(p->o.config, "memory"), "limit");
    uint64_t bytes = 0;

    return limit && json_to_bytes(limit, &bytes) ? bytes : 0;
}

/* A fork that was to fill memory is granted: more, while it may be. */
static void take_filled(struct player *p, const struct player_ask *q)
{
    uint64_t limit = memory_limit(p), bytes;
    int from = q->slot;

    p->filled++;
    bytes = p->filled * p->ready.ready.model_bytes;
    if (p->full)
        player_fail(p, RULE_C9, "a refusal, as of the fork before",
                    "fork op %llu was granted", (unsigned long long)q->op);
    else if (p->filled > FILLED_MAX)
        player_fail(p, RULE_C9, "a refusal of more than 4,000 branches",
                    "%llu were granted", (unsigned long long)p->filled);
    else if (limit && bytes > limit)
        player_fail(p, RULE_C9, "a refusal with the code limit",
                    "%llu branches of %llu bytes were granted, of a "
                    "memory.limit of %llu",
                    (unsigned long long)p->filled,
                    (unsigned long long)p->ready.ready.model_bytes,
                    (unsigned long long)limit);
    else
        player_ask_fill(p, from);
}

/* A fork for which there was no room. */
static void take_full(struct player *p, const struct msg_failed *f)
{
    p->full = true;
    if (f->code != ERR_LIMIT)
        player_fail(p, RULE_C9, "a refusal with the code limit",
                    "the code %s: %s", err_name(f->code), f->reason);
    else if (p->filled < 2) /* there are branch 0 and two of the check */
        player_fail(p, RULE_C9, "room for five branches",
                    "a refusal after %llu more: %s",
                    (unsigned long long)p->filled, f->reason);
}

static void take_refusal(struct player *p, struct player_ask *q,
                         const struct msg_failed *f)
{
    enum err code = q->refused->code;

    if (code == ERR_OK || f->code == code)
        player_forget(p, q);
    else
        player_fail(p, q->refused->rule, q->refused->text,
                    "refused with the code %s, not %s (%s)", err_name(f->code),
                    err_name(code), f->reason);
}

static void take_failed(struct player *p, struct player_ask *q,
                        const struct msg *m)
{
    const struct msg_failed *f = &m->failed;

    if (q->refused) {
        take_refusal(p, q, f);
    } else if (q->fills) {
        player_forget(p, q);
        take_full(p, f);
    } else if (q->may_fail) {
        p->slot[q->slot].broken = true;
        player_forget(p, q);
    } else {
        player_fail(p, player_rule(p), "the request carried out",
                    "failed: %s op %llu: %s: %s", msg_kind_name(q->kind),
                    (unsigned long long)q->op, err_name(f->code), f->reason);
    }
}

static void take_forked(struct player *p, struct player_ask *q,
                        const struct msg *m)
{
    struct player_ask was = *q;

    if (m->forked.branch != q->branch) {
        player_fail(p, RULE_C2, "the number of the branch", "branch %u, not %u",
                    m->forked.branch, q->branch);
        return;
    }
    player_forget(p, q);
    if (was.fills)
        take_filled(p, &was);
}

static void take_answer(struct player *p, const struct msg *m)
{
    struct player_ask *q = player_asked(p, m->op);

    if (!q)
        player_fail(p, RULE_C2, "one answer to each request",
                    "%s with op %llu, which was answered or never asked",
                    msg_kind_name(m->kind), (unsigned long long)m->op);
    else if (m->kind == MSG_FAILED)
        take_failed(p, q, m);
    else if (q->refused)
        player_fail(p, q->refused->rule, "a refusal", "granted: %s",
                    q->refused->text);
    else if ((m->kind == MSG_FORKED) != (q->kind == MSG_FORK))
        player_fail(p, RULE_C2,
                    q->kind == MSG_FORK ? "forked" : "done or failed",
                    "%s as the answer to %s op %llu", msg_kind_name(m->kind),
                    msg_kind_name(q->kind), (unsigned long long)q->op);
    else if (m->kind == MSG_FORKED)
        take_forked(p, q, m);
    else
        take_done(p, q, m);
}

/* ---- the first words ------------------------------------------------------
 */

static void take_hello(struct player *p, const struct msg *m, bool pid_known)
{
    if (p->phase != PHASE_HELLO) {
        player_fail(p, RULE_C1, "one hello a process", "another one");
        return;
    }
    if (m->hello.version != PROTO_VERSION || !pid_known ||
        m->hello.node >= p->o.nodes) {
        player_fail(
            p, RULE_C1,
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
    player_ask_config(p);
}

/* Whether it says what a run has to know. */
static bool check_ready(struct player *p, const struct msg *m)
{
    const struct msg_ready *r = &m->ready;

    if (m->op <= 1 && r->samples <= UINT32_MAX && r->parts <= r->samples &&
        (!r->validation_samples || r->metric[0]) && r->model_bytes > 0)
        return true;
    player_fail(p, RULE_C1,
                "ready with samples, a metric where there are validation "
                "samples, and model_bytes above 0",
                "op %llu, %llu samples, %llu parts, %llu validation samples, "
                "metric \"%s\", model_bytes %llu",
                (unsigned long long)m->op, (unsigned long long)r->samples,
                (unsigned long long)r->parts,
                (unsigned long long)r->validation_samples, r->metric,
                (unsigned long long)r->model_bytes);
    return false;
}

static void take_ready(struct player *p, struct msg *m)
{
    if (p->phase != PHASE_LOADING) {
        player_fail(p, RULE_C1, "ready as the answer to config",
                    "ready at another time");
        return;
    }
    if (p->unloadable) {
        player_fail(p, RULE_E3, "failed with the code limit",
                    "ready, with a memory.limit of one byte");
        return;
    }
    if (!check_ready(p, m))
        return;
    msg_deinit(&p->ready);
    p->ready = *m;
    *m = (struct msg){.kind = MSG_BEAT};
    p->phase = PHASE_PLAYING;
    if (p->step)
        p->step_at_s = p->now_s; /* goes on in a new process */
    else
        player_begin_check(p);
}

/* It has failed as a whole. */
static void program_failed(struct player *p, const struct msg *m)
{
    const struct msg_failed *f = &m->failed;

    if (p->phase != PHASE_LOADING)
        player_fail(p, player_rule(p), "a program that goes on",
                    "failed: %s: %s", err_name(f->code), f->reason);
    else if (!p->unloadable)
        player_fail(p, RULE_C1, "ready", "failed: %s: %s", err_name(f->code),
                    f->reason);
    else if (f->code != ERR_LIMIT)
        player_fail(p, RULE_E3, "failed with the code limit",
                    "with a memory.limit of one byte: %s: %s",
                    err_name(f->code), f->reason);
    else
        player_expect_end(p, END_UNLOADED);
}

/* ---- all of it ------------------------------------------------------------
 */

static void take(struct player *p, struct msg *m, bool pid_known)
{
    if (m->kind == MSG_HELLO) {
        take_hello(p, m, pid_known);
    } else if (p->phase == PHASE_HELLO) {
        player_fail(p, RULE_C1, "hello first", "%s", msg_kind_name(m->kind));
    } else if (m->kind == MSG_READY) {
        take_ready(p, m);
    } else if (m->kind == MSG_FAILED &&
               (m->op == 0 || p->phase == PHASE_LOADING)) {
        program_failed(p, m);
    } else if (p->phase == PHASE_LOADING) {
        player_fail(p, RULE_C1, "ready or failed", "%s",
                    msg_kind_name(m->kind));
    } else if (m->kind == MSG_REPORT) {
        take_report(p, m);
    } else if (m->kind == MSG_FORKED || m->kind == MSG_DONE ||
               m->kind == MSG_FAILED) {
        p->step_at_s = p->now_s;
        take_answer(p, m);
    } else {
        player_fail(p, RULE_W1, "a message to the tuner", "%s",
                    msg_kind_name(m->kind));
    }
}

void player_take(struct player *p, struct msg *m, bool pid_known, double now_s)
{
    bool heard = p->phase == PHASE_HELLO || p->phase == PHASE_LOADING ||
                 p->phase == PHASE_PLAYING;

    p->now_s = now_s;
    if (heard && m->kind != MSG_BEAT)
        take(p, m, pid_known);
    msg_deinit(m);
    *m = (struct msg){.kind = MSG_BEAT};
    player_play(p);
}
