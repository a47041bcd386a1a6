#include "tuner/shell/keeper.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void keeper_init(struct keeper *k, const struct keeper_options *options,
                 double now_s)
{
    assert(options->nodes >= 1);
    assert(options->nodes <= KEEPER_NODES_MAX);
    assert(options->silence_s >= 0);
    assert(options->backoff_s >= 0);
    *k = (struct keeper){
        .o = *options, .lost_at_s = INFINITY, .restart_at_s = INFINITY};
    if (k->o.silence_s == 0)
        k->o.silence_s = KEEPER_SILENCE_S;
    if (k->o.backoff_s == 0)
        k->o.backoff_s = KEEPER_BACKOFF_S;
    for (uint32_t i = 0; i < k->o.nodes; i++)
        k->heard_s[i] = now_s;
}

/* ---- what happened ------------------------------------------------------- */

void keeper_hear(struct keeper *k, uint32_t node, double now_s)
{
    assert(node < k->o.nodes);
    k->heard_s[node] = now_s;
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
    if (k->lost || k->verdict)
        return false;
    snprintf(k->reason, sizeof(k->reason), "%s", reason);
    k->lost_at_s = fmin(k->lost_at_s, at);
    return true;
}

bool keeper_end(struct keeper *k, double now_s, const char *verdict)
{
    bool counts = keeper_lose(k, true, now_s, verdict);

    k->verdict = true;
    return counts;
}

void keeper_restarted(struct keeper *k, double now_s)
{
    assert(k->lost);
    assert(isinf(k->restart_at_s));
    k->lost = k->verdict = false;
    for (uint32_t i = 0; i < k->o.nodes; i++)
        k->heard_s[i] = now_s;
}

/* ---- what is to be done -------------------------------------------------- */

uint32_t keeper_most_silent(const struct keeper *k)
{
    uint32_t at = 0;

    for (uint32_t i = 1; i < k->o.nodes; i++)
        if (k->heard_s[i] < k->heard_s[at])
            at = i;
    return at;
}

static double silent_at(const struct keeper *k)
{
    if (k->lost || isfinite(k->lost_at_s) || k->stopping)
        return INFINITY;
    return k->heard_s[keeper_most_silent(k)] + k->o.silence_s;
}

/* How often it was tried belongs to why it failed. */
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
    bool again = k->o.restarts && !k->stopping && !k->leaving &&
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
    if (now_s >= silent_at(k))
        return KEEPER_KILL;
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
    return fmin(fmin(k->lost_at_s, k->restart_at_s), silent_at(k));
}
