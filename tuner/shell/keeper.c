#include "tuner/shell/keeper.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* @now_s: when they were started. */
static void expect_hello(struct keeper *k, double now_s)
{
    k->slice_op = 0;
    for (uint32_t i = 0; i < k->o.nodes; i++)
        k->node[i] = (struct keeper_node){.heard_s = now_s};
}

void keeper_init(struct keeper *k, const struct keeper_options *options,
                 double now_s)
{
    struct keeper_options *o = &k->o;

    assert(options->nodes >= 1);
    assert(options->nodes <= KEEPER_NODES_MAX);
    assert(options->silence_s >= 0);
    assert(options->backoff_s >= 0);
    assert(options->hello_s >= 0);
    assert(options->ready_s >= 0);
    assert(options->clock_s >= 0);
    *k = (struct keeper){.o = *options,
                         .hurried_s = INFINITY,
                         .lost_at_s = INFINITY,
                         .told_at_s = INFINITY,
                         .restart_at_s = INFINITY};
    if (o->silence_s == 0)
        o->silence_s = KEEPER_SILENCE_S;
    if (o->backoff_s == 0)
        o->backoff_s = KEEPER_BACKOFF_S;
    if (o->hello_s == 0)
        o->hello_s = o->silence_s;
    if (o->ready_s == 0)
        o->ready_s = KEEPER_READY_S;
    k->answer_s = o->clock_s == 0 ? KEEPER_ANSWER_S : o->clock_s;
    if (o->clock_s == 0)
        o->clock_s = KEEPER_CLOCK_S;
    expect_hello(k, now_s);
}

/* ---- what happened ------------------------------------------------------- */

void keeper_hear(struct keeper *k, uint32_t node, double now_s)
{
    assert(node < k->o.nodes);
    k->node[node].heard_s = now_s;
}

void keeper_greet(struct keeper *k, uint32_t node, double now_s)
{
    keeper_hear(k, node, now_s);
    assert(!k->node[node].greeted);
    k->node[node].greeted = true;
    k->node[node].greeted_s = now_s;
}

void keeper_ready(struct keeper *k, uint32_t node, double now_s)
{
    keeper_move(k, node, now_s);
    k->node[node].ready = true;
}

void keeper_move(struct keeper *k, uint32_t node, double now_s)
{
    assert(node < k->o.nodes);
    k->node[node].moved_s = now_s;
}

void keeper_ask(struct keeper *k, op_id op, bool slice, double now_s)
{
    assert(op > 0);
    if (slice)
        k->slice_op = op;
    for (uint32_t i = 0; i < k->o.nodes; i++) {
        struct keeper_node *n = &k->node[i];

        /* A node that had nothing to do has begun just now. */
        if (n->owed == 0 || (slice && !n->slice))
            n->moved_s = now_s;
        if (n->owed < KEEPER_OPS_MAX)
            n->op[n->owed++] = op;
        n->slice |= slice;
    }
}

/* Where @n has @op; n->owed: nowhere. */
static uint32_t find_debt(const struct keeper_node *n, op_id op)
{
    uint32_t i = 0;

    while (i < n->owed && n->op[i] != op)
        i++;
    return i;
}

bool keeper_owes(const struct keeper *k, uint32_t node, op_id op)
{
    const struct keeper_node *n = &k->node[node];

    assert(node < k->o.nodes);
    return find_debt(n, op) < n->owed;
}

void keeper_answer(struct keeper *k, uint32_t node, op_id op, double now_s)
{
    struct keeper_node *n = &k->node[node];
    uint32_t i = find_debt(n, op);

    assert(node < k->o.nodes);
    /* What was asked later may be answered again and again, while the oldest is
     * forgotten. A granted fork may fail after all, which is a second answer.
     */
    if (i == 0)
        keeper_move(k, node, now_s);
    if (i < n->owed)
        memmove(&n->op[i], &n->op[i + 1], (--n->owed - i) * sizeof(n->op[0]));
    if (op == k->slice_op)
        n->slice = false;
}

void keeper_beat(struct keeper *k, uint32_t node, uint64_t clocks, double now_s)
{
    assert(node < k->o.nodes);
    if (clocks == k->node[node].clocks)
        return;
    k->node[node].clocks = clocks;
    keeper_move(k, node, now_s);
}

void keeper_hurry(struct keeper *k, double now_s)
{
    k->hurried_s = fmin(k->hurried_s, now_s);
}

void keeper_progress(struct keeper *k, uint32_t epoch)
{
    if (epoch <= k->epochs)
        return;
    k->epochs = epoch;
    k->restarts = 0;
}

void keeper_stop(struct keeper *k)
{
    k->stopping = true;
}

void keeper_leave(struct keeper *k)
{
    k->leaving = true;
}

bool keeper_lose(struct keeper *k, bool speaks, double now_s,
                 const char *reason)
{
    double at = now_s + (speaks ? KEEPER_LAST_WORDS_S : 0);

    assert(reason[0]);
    if (k->lost || k->verdict || keeper_holds(k))
        return false;
    snprintf(k->reason, sizeof(k->reason), "%s", reason);
    k->lost_at_s = fmin(k->lost_at_s, at);
    return true;
}

bool keeper_end(struct keeper *k, bool by_itself, double now_s,
                const char *verdict)
{
    bool counts = keeper_lose(k, true, now_s, verdict);

    if (!k->lost && k->verdict) /* what it had to say is written by now */
        k->lost_at_s = fmin(k->lost_at_s, now_s + KEEPER_LAST_WORDS_S);
    k->final |= counts && by_itself && k->o.program && !k->stopping;
    k->verdict = true;
    return counts;
}

bool keeper_fault(struct keeper *k, bool leaves, double now_s,
                  const char *reason)
{
    double at = now_s + (leaves ? KEEPER_FAREWELL_S : 0);
    bool counts = keeper_lose(k, false, at, reason);

    assert(k->o.program);
    if (!counts)
        return false;
    k->final = k->verdict = true;
    return true;
}

void keeper_hold(struct keeper *k, uint32_t node, double now_s)
{
    double late_s = k->node[node].greeted_s + k->o.ready_s;

    assert(k->o.program);
    assert(!keeper_holds(k));
    k->told_at_s = fmax(now_s, fmin(now_s + KEEPER_FAREWELL_S, late_s));
}

void keeper_release(struct keeper *k, double now_s)
{
    assert(keeper_holds(k));
    k->told_at_s = fmin(k->told_at_s, now_s);
}

bool keeper_holds(const struct keeper *k)
{
    return isfinite(k->told_at_s);
}

void keeper_restarted(struct keeper *k, double now_s)
{
    assert(k->lost);
    assert(isinf(k->restart_at_s));
    k->lost = k->verdict = false;
    k->hurried_s = INFINITY;
    expect_hello(k, now_s);
}

/* ---- what is to be done -------------------------------------------------- */

/* Something that a node owes, and when it is too late. */
struct debt {
    enum keeper_owed what;
    uint32_t node;
    double since_s, wait_s;
};

static double late_at(const struct debt *d)
{
    return d->since_s + d->wait_s;
}

static void earlier(struct debt *least, const struct keeper *k,
                    enum keeper_owed what, uint32_t node, double since_s,
                    double wait_s)
{
    const struct debt d = {what, node, since_s, wait_s};

    assert(node < k->o.nodes);
    if (late_at(&d) < late_at(least))
        *least = d;
}

/* What node @i owes when the run is to end. */
static void hurried_debt(struct debt *least, const struct keeper *k, uint32_t i)
{
    const struct keeper_node *n = &k->node[i];
    double most_s = k->o.program ? KEEPER_END_S : KEEPER_NODE_END_S;

    assert(isfinite(k->hurried_s));
    /* Who interrupts a run of ours may wait for its snapshot. */
    if (n->slice && (k->o.program || !k->leaving))
        earlier(least, k, KEEPER_OWES_END, i, fmax(n->moved_s, k->hurried_s),
                most_s);
    /* A program's word may wait for what it does. */
    if (!k->o.program)
        earlier(least, k, KEEPER_OWES_SILENCE, i,
                fmax(n->heard_s, k->hurried_s),
                fmin(k->o.silence_s, KEEPER_END_SILENCE_S));
}

/* The debt that is too late first; at INFINITY: none is. */
static struct debt first_debt(const struct keeper *k)
{
    struct debt least = {.wait_s = INFINITY};

    if (k->lost || isfinite(k->lost_at_s) || k->stopping || keeper_holds(k))
        return least;
    for (uint32_t i = 0; i < k->o.nodes; i++) {
        const struct keeper_node *n = &k->node[i];

        if (!n->greeted) {
            earlier(&least, k, KEEPER_OWES_HELLO, i, n->heard_s, k->o.hello_s);
            continue;
        }
        earlier(&least, k, KEEPER_OWES_SILENCE, i, n->heard_s, k->o.silence_s);
        if (!n->ready)
            earlier(&least, k, KEEPER_OWES_READY, i, n->greeted_s,
                    k->o.ready_s);
        else if (n->owed > 0)
            earlier(&least, k,
                    n->slice ? KEEPER_OWES_CLOCK : KEEPER_OWES_ANSWER, i,
                    n->moved_s, n->slice ? k->o.clock_s : k->answer_s);
        if (isfinite(k->hurried_s))
            hurried_debt(&least, k, i);
    }
    return least;
}

/* Whether a debt would be one again after a restart. A program that is only to
 * end its run may do so from where it was. */
static bool is_final(const struct keeper *k, enum keeper_owed what)
{
    if (what == KEEPER_OWES_READY)
        return true;
    return k->o.program && what != KEEPER_OWES_SILENCE &&
           what != KEEPER_OWES_END;
}

bool keeper_all_ready(const struct keeper *k)
{
    for (uint32_t i = 0; i < k->o.nodes; i++)
        if (!k->node[i].ready)
            return false;
    return true;
}

/* The limit behind a deadline that has passed; NULL: none that can be changed.
 */
static const char *late_by(const struct keeper *k)
{
    switch (k->late) {
    case KEEPER_OWES_HELLO:
        return k->o.hello_by;
    case KEEPER_OWES_READY:
        return k->o.ready_by;
    case KEEPER_OWES_CLOCK:
    case KEEPER_OWES_ANSWER:
        return k->o.clock_by;
    case KEEPER_OWES_SILENCE:
    case KEEPER_OWES_END:
        break;
    }
    return NULL;
}

void keeper_late_text(const struct keeper *k, char *out, size_t size)
{
    static const char *const text[][2] = {
        [KEEPER_OWES_SILENCE] = {"has not been heard of for", ""},
        [KEEPER_OWES_HELLO] = {"has not said hello in", ""},
        [KEEPER_OWES_READY] = {"was not ready in", " after its hello"},
        [KEEPER_OWES_CLOCK] = {"has finished no clock in",
                               ", while a slice runs"},
        [KEEPER_OWES_ANSWER] = {"has not answered a request in", ""},
        [KEEPER_OWES_END] = {"has not finished its clock in",
                             ", although the run is to end"},
    };

    const char *by = late_by(k);

    assert(size > 0);
    snprintf(out, size, "%s %g s%s%s%s%s", text[k->late][0], k->late_s,
             by ? " (" : "", by ? by : "", by ? ")" : "", text[k->late][1]);
}

/* The number of tries belongs to why it failed. */
static void tell_restarts(struct keeper *k)
{
    size_t n = strlen(k->reason);

    if (k->restarts > 0)
        snprintf(k->reason + n, sizeof(k->reason) - n,
                 "; it was started again %u time%s before", k->restarts,
                 k->restarts == 1 ? "" : "s");
}

static enum keeper_duty take_loss(struct keeper *k, double now_s)
{
    bool again = k->o.restarts && !k->stopping && !k->leaving && !k->final &&
                 k->restarts < KEEPER_RESTARTS_MAX;

    k->lost = true;
    k->lost_at_s = INFINITY;
    if (!again) {
        tell_restarts(k);
        return KEEPER_GIVE_UP;
    }
    k->wait_s = ldexp(k->o.backoff_s, (int)k->restarts);
    k->restart_at_s = now_s + k->wait_s;
    k->restarts++;
    return KEEPER_CLEAR;
}

enum keeper_duty keeper_take(struct keeper *k, double now_s)
{
    struct debt first = first_debt(k);

    if (now_s >= k->told_at_s) {
        k->told_at_s = INFINITY;
        return KEEPER_TELL;
    }
    if (now_s >= late_at(&first)) {
        k->late = first.what;
        k->late_node = first.node;
        k->late_s = first.wait_s;
        k->final |= is_final(k, first.what);
        return KEEPER_KILL;
    }
    if (now_s >= k->restart_at_s) {
        k->restart_at_s = INFINITY;
        return KEEPER_RESTART;
    }
    if (now_s >= k->lost_at_s)
        return take_loss(k, now_s);
    return KEEPER_NOTHING;
}

double keeper_due_at(const struct keeper *k)
{
    struct debt first = first_debt(k);

    return fmin(fmin(k->lost_at_s, k->told_at_s),
                fmin(k->restart_at_s, late_at(&first)));
}
