#include "tuner/board/clockwork.h"

#include "base/mem.h"
#include "tuner/board/parts.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <math.h>

struct clockwork {
    bool started;
    double born_s;    /* first event: options.started_unix_s on the wall; */
    double born_at_s; /* by then the run had had so much of its time */
    double started_s; /* time 0 of the run; earlier for a resumed one */
    double resumed_at_s;
    double now_s, step_s;
    clock_no next_clock;

    double first_clock_s; /* INFINITY before */

    double slice_end_s; /* of the last one; NAN before, and after a pause */
    double waited_s;    /* in all, for slices that came when none was out */
    double wait_s;      /* for the latest of these; NAN: none yet */

    bool ran; /* a clock was scheduled, by this tuner */
    bool paused;
    double pause_asked_s;
    double pause_began_s; /* nothing runs since; NAN: no pause */
    double paused_s;      /* in all, in pauses that are over */

    double retry_s;   /* INFINITY: nothing is lacking */
    bool wants;       /* this step has asked for it */
    double wanting_s; /* since then each step has; NAN: the last one has not */
};

/* ---- life ---------------------------------------------------------------- */

/* The clocks go on after the last slice that was scheduled, and perhaps begun,
 * when all was lost. */
static clock_no clock_after(const struct history *h)
{
    const size_t slices = history_slices_len(h);
    clock_no clock = history_clock(h);
    const struct record_slice_scheduled *s;

    if (slices == 0)
        return clock;
    s = &history_slice_at(h, slices - 1)->s;
    return s->first + s->count > clock ? s->first + s->count : clock;
}

enum err clockwork_init(struct board *c, const struct history *resume,
                        double lost_s)
{
    struct clockwork *k = mem_alloc(sizeof(*k));

    assert(!c->clockwork);
    assert(lost_s >= 0);
    if (!k)
        return ERR_NOMEM;
    *k = (struct clockwork){
        .born_at_s = lost_s,
        .first_clock_s = INFINITY,
        .slice_end_s = NAN,
        .wait_s = NAN,
        .pause_began_s = NAN,
        .retry_s = INFINITY,
        .wanting_s = NAN,
    };
    c->clockwork = k;
    if (!resume)
        return ERR_OK;
    k->resumed_at_s =
        history_at_s(resume); /* commands may stand before its start */
    if (!history_started(resume))
        return ERR_OK;
    k->next_clock = clock_after(resume);
    k->paused_s = history_paused(resume);
    k->waited_s = history_waited(resume);
    return ERR_OK;
}

void clockwork_deinit(struct board *c)
{
    mem_free(c->clockwork);
    c->clockwork = NULL;
}

void clockwork_step(struct board *c, double now_s, double step_s)
{
    struct clockwork *k = c->clockwork;

    assert(isfinite(now_s));
    assert(now_s >= k->now_s || !k->started);
    if (!k->started) {
        k->born_s = now_s;
        k->born_at_s += k->resumed_at_s;
        k->started_s = now_s - k->resumed_at_s;
    }
    k->started = true;
    k->now_s = now_s;
    k->step_s = step_s;
    k->wants = false;
}

void clockwork_resume(struct board *c, const struct history *h)
{
    struct clockwork *k = c->clockwork;

    assert(history_started(h));
    k->resumed_at_s = history_at_s(h);
    k->started_s = k->now_s - k->resumed_at_s;
    if (isfinite(history_first_clock_at_s(h)))
        k->first_clock_s = k->started_s + history_first_clock_at_s(h);
}

/* ---- what time it is ----------------------------------------------------- */

double clockwork_now(const struct board *c)
{
    return c->clockwork->now_s;
}

double clockwork_run_s(const struct board *c)
{
    return c->clockwork->now_s - c->clockwork->started_s;
}

double clockwork_record_s(const struct board *c)
{
    /* Rounding must not set the time back where a resumed run goes on. */
    return fmax(clockwork_run_s(c), c->clockwork->resumed_at_s);
}

double clockwork_tuner_s(const struct board *c)
{
    return c->clockwork->now_s - c->clockwork->born_s;
}

double clockwork_resumed_at_s(const struct board *c)
{
    return c->clockwork->resumed_at_s;
}

double board_active_s(const struct board *c)
{
    const struct clockwork *k = c->clockwork;
    double now = isnan(k->pause_began_s) ? k->now_s : k->pause_began_s;

    return now - k->paused_s;
}

double board_step_s(const struct board *c)
{
    return c->clockwork->step_s;
}

/* The time when @max_s of the run's time are over, pauses that are over counted
 * in. What this tuner waits for the training system to be ready is the run's
 * time, also where it is resumed. */
static double unpaused_end(const struct clockwork *k, double max_s)
{
    return k->born_s - k->born_at_s + max_s + k->paused_s;
}

bool clockwork_begun(const struct board *c)
{
    return c->clockwork->started;
}

double clockwork_time_is_up(const struct board *c, double max_s)
{
    assert(max_s > 0);
    return isnan(c->clockwork->pause_began_s)
               ? unpaused_end(c->clockwork, max_s)
               : INFINITY;
}

double clockwork_time_left(const struct board *c, double max_s)
{
    const struct clockwork *k = c->clockwork;
    double now_s = isnan(k->pause_began_s) ? k->now_s : k->pause_began_s;

    assert(max_s > 0);
    return unpaused_end(k, max_s) - now_s;
}

/* ---- clocks, slices, waits ----------------------------------------------- */

clock_no board_next_clock(const struct board *c)
{
    return c->clockwork->next_clock;
}

clock_no clockwork_schedule(struct board *c, uint64_t count)
{
    struct clockwork *k = c->clockwork;
    clock_no first = k->next_clock;

    assert(count > 0);
    if (isinf(k->first_clock_s))
        k->first_clock_s = k->now_s;
    k->ran = true;
    k->next_clock += count;
    return first;
}

double clockwork_first_clock_at(const struct board *c)
{
    return c->clockwork->first_clock_s;
}

/* The training system was idle from the end of the slice before to the end of
 * this one, but for what this one took. */
double clockwork_slice_ended(struct board *c, bool idle, double work_s,
                             double switch_s)
{
    struct clockwork *k = c->clockwork;
    double wait = k->now_s - k->slice_end_s - work_s - switch_s;

    k->slice_end_s = k->paused ? NAN : k->now_s;
    if (!idle || isnan(wait))
        return 0;
    k->wait_s = fmax(wait, 0);
    k->waited_s += k->wait_s;
    return k->wait_s;
}

double board_waited_s(const struct board *c)
{
    return c->clockwork->waited_s;
}

double board_latest_wait_s(const struct board *c)
{
    return c->clockwork->wait_s;
}

/* ---- pauses -------------------------------------------------------------- */

void clockwork_pause(struct board *c)
{
    assert(!c->clockwork->paused);
    c->clockwork->paused = true;
    c->clockwork->pause_asked_s = c->clockwork->now_s;
}

bool clockwork_is_paused(const struct board *c)
{
    return c->clockwork->paused;
}

void clockwork_stand_still(struct board *c)
{
    struct clockwork *k = c->clockwork;

    assert(k->paused);
    assert(isnan(k->pause_began_s));
    k->pause_began_s = k->ran ? k->now_s : fmax(k->pause_asked_s, k->born_s);
}

bool clockwork_stands_still(const struct board *c)
{
    return !isnan(c->clockwork->pause_began_s);
}

double clockwork_continue(struct board *c)
{
    struct clockwork *k = c->clockwork;
    double before = k->paused_s;

    assert(k->paused);
    k->paused = false;
    if (isnan(k->pause_began_s))
        return 0;
    k->paused_s += k->now_s - k->pause_began_s;
    k->pause_began_s = NAN;
    return k->paused_s - before;
}

/* ---- retries ------------------------------------------------------------- */

void board_retry(struct board *c)
{
    c->clockwork->wants = true;
    board_retry_after(c, 0.1);
}

void board_retry_after(struct board *c, double seconds)
{
    struct clockwork *k = c->clockwork;

    assert(seconds > 0);
    k->retry_s = fmin(k->retry_s, k->now_s + seconds);
}

double clockwork_retry_at(const struct board *c)
{
    return c->clockwork->retry_s;
}

void clockwork_retry_take(struct board *c)
{
    if (c->clockwork->now_s >= c->clockwork->retry_s)
        c->clockwork->retry_s = INFINITY;
}

double clockwork_wants(struct board *c, bool busy)
{
    struct clockwork *k = c->clockwork;

    if (!k->wants || busy)
        k->wanting_s = NAN;
    else if (isnan(k->wanting_s))
        k->wanting_s = k->now_s;
    return isnan(k->wanting_s) ? 0 : k->now_s - k->wanting_s;
}
