/* Steps of a script: how each begins, and when it is done. */
#include "cli/check/player_internal.h"

#include <assert.h>
#include <string.h>

/* ---- whether a check can be made ----------------------------------------- */

/* The thing that it lacks for the step; NULL: nothing. */
static const char *missing(const struct player *p, const struct check_step *s)
{
    const struct msg_ready *r = player_ready(p);

    switch (s->need) {
    case NEED_VALIDATION:
        return r->validation_samples ? NULL : "it has no validation data";
    case NEED_RATE:
        return player_has_tunable(p, "learning_rate")
                   ? NULL
                   : "it has no tunable learning_rate";
    case NEED_DECAY:
        return player_has_tunable(p, "weight_decay")
                   ? NULL
                   : "it has no tunable weight_decay";
    case NEED_BROKEN:
        return p->slot[s->slot].broken ? NULL : "no slice of it failed";
    default:
        return r->parts                              ? "its epochs have parts"
               : player_has_tunable(p, "batch_size") ? NULL
                                                     : "it has no tunable "
                                                       "batch_size";
    }
}

/* ---- how each begins ------------------------------------------------------
 */

static void begin_nothing(struct player *p, const struct check_step *s)
{
    (void)p;
    (void)s;
}

/* Branches that an abandoned check, or one at its end, leaves. */
static void begin_end(struct player *p, const struct check_step *s)
{
    (void)s;
    for (int i = 1; i < SLOTS_MAX && p->phase == PHASE_PLAYING; i++)
        if (p->slot[i].live)
            player_ask_free(p, i);
}

static void begin_need(struct player *p, const struct check_step *s)
{
    const char *why = missing(p, s);

    if (why)
        player_not_made(p, why);
}

static void begin_free(struct player *p, const struct check_step *s)
{
    player_ask_free(p, s->slot);
}

static void begin_run(struct player *p, const struct check_step *s)
{
    p->run_left = s->count ? (uint64_t)s->count : p->series[s->from].len;
    p->run_to_end = false;
    player_go_on_running(p);
}

static void begin_epoch(struct player *p, const struct check_step *s)
{
    (void)s;
    p->run_left = 2; /* anything but 1: it has not begun */
    p->run_to_end = true;
    player_go_on_running(p);
}

static void begin_queue(struct player *p, const struct check_step *s)
{
    player_ask_slice(p, s, (uint64_t)s->count);
}

static void begin_cut(struct player *p, const struct check_step *s)
{
    (void)s;
    player_ask_cut(p, player_last_slice(p));
}

/* Both of a step that compares, by @is_so. */
static void compare(struct player *p, const struct check_step *s,
                    bool (*is_so)(const struct check_series *,
                                  const struct check_series *,
                                  struct mismatch *))
{
    struct mismatch m;

    if (!is_so(&p->series[s->series], &p->series[s->from], &m))
        player_fail(p, s->rule, m.expected, "%s", m.came);
}

static void begin_same(struct player *p, const struct check_step *s)
{
    compare(p, s, series_same);
}

static void begin_differ(struct player *p, const struct check_step *s)
{
    compare(p, s, series_part);
}

static void begin_halves(struct player *p, const struct check_step *s)
{
    compare(p, s, series_halve);
}

static void begin_alike(struct player *p, const struct check_step *s)
{
    compare(p, s, series_alike);
}

static void begin_steady(struct player *p, const struct check_step *s)
{
    if (!series_steady(&p->series[s->series], &p->series[s->from]))
        player_not_made(p, "the loss of a sample is a matter of chance");
}

static void begin_raw(struct player *p, const struct check_step *s)
{
    player_add_act(p, ACT_RAW)->text = s->text;
}

static void begin_snapshot(struct player *p, const struct check_step *s)
{
    player_ask_path(p, s, MSG_SNAPSHOT);
}

static void begin_restore(struct player *p, const struct check_step *s)
{
    player_ask_path(p, s, MSG_RESTORE);
}

static void begin_save(struct player *p, const struct check_step *s)
{
    player_ask_path(p, s, MSG_SAVE);
}

static void begin_fill(struct player *p, const struct check_step *s)
{
    assert(p->filled == 0);
    p->full = false;
    p->filled_first = p->next_branch;
    player_ask_fill(p, s->from);
}

static void begin_empty(struct player *p, const struct check_step *s)
{
    uint64_t goes = s->count ? (uint64_t)s->count : p->filled;

    p->to_keep = goes < p->filled ? p->filled - goes : 0;
}

static void begin_stop(struct player *p, const struct check_step *s)
{
    (void)s;
    player_expect_end(p, END_STOPPED);
    player_ask_stop(p);
}

static void begin_lose(struct player *p, const struct check_step *s)
{
    (void)s;
    player_expect_end(p, END_LOST);
    player_add_act(p, ACT_CLOSE);
}

static void begin_signal(struct player *p, const struct check_step *s)
{
    player_expect_end(p, END_SIGNALLED);
    p->signal = s->count;
    player_add_act(p, ACT_SIGNAL)->number = s->count;
}

static void begin_unloaded(struct player *p, const struct check_step *s)
{
    (void)s;
    assert(p->phase == PHASE_IDLE);
    player_start_program(p);
    p->unloadable = true;
}

/* ---- when each is done ----------------------------------------------------
 */

static bool done_at_once(struct player *p, const struct check_step *s)
{
    (void)p;
    (void)s;
    return true;
}

static bool done_answered(struct player *p, const struct check_step *s)
{
    (void)s;
    return !p->asked_len && !p->looks;
}

static bool done_waited(struct player *p, const struct check_step *s)
{
    return p->now_s - p->step_at_s >= s->count / 1e3;
}

static bool done_breathed(struct player *p, const struct check_step *s)
{
    return p->reported || !p->asked_len || done_waited(p, s);
}

static bool done_run(struct player *p, const struct check_step *s)
{
    (void)s;
    if (!p->asked_len && p->run_left)
        player_go_on_running(p);
    return !p->asked_len && !p->run_left;
}

static bool done_emptied(struct player *p, const struct check_step *s)
{
    (void)s;
    player_ask_empty(p);
    return !p->asked_len;
}

static bool done_ended(struct player *p, const struct check_step *s)
{
    (void)s;
    return p->phase == PHASE_IDLE;
}

static const struct {
    void (*begin)(struct player *, const struct check_step *);
    bool (*is_done)(struct player *, const struct check_step *);
} steps[STEP_KIND_COUNT] = {
    [STEP_END] = {begin_end, done_answered},
    [STEP_NEED] = {begin_need, done_answered},
    /* May stand behind a slice that was queued. */
    [STEP_FORK] = {player_ask_fork, done_at_once},
    [STEP_FREE] = {begin_free, done_answered},
    [STEP_RUN] = {begin_run, done_run},
    [STEP_EPOCH] = {begin_epoch, done_run},
    [STEP_QUEUE] = {begin_queue, done_at_once},
    [STEP_CUT] = {begin_cut, done_at_once},
    [STEP_BREATHE] = {begin_nothing, done_breathed},
    [STEP_IDLE] = {begin_nothing, done_waited},
    [STEP_WAIT] = {begin_nothing, done_answered},
    [STEP_SAME] = {begin_same, done_answered},
    [STEP_DIFFER] = {begin_differ, done_answered},
    [STEP_STEADY] = {begin_steady, done_answered},
    [STEP_HALVES] = {begin_halves, done_answered},
    [STEP_ALIKE] = {begin_alike, done_answered},
    [STEP_REFUSED] = {player_ask_refused, done_answered},
    [STEP_FILL] = {begin_fill, done_answered},
    [STEP_EMPTY] = {begin_empty, done_emptied},
    [STEP_RAW] = {begin_raw, done_at_once},
    [STEP_SNAPSHOT] = {begin_snapshot, done_answered},
    [STEP_RESTORE] = {begin_restore, done_answered},
    [STEP_SAVE] = {begin_save, done_answered},
    [STEP_STOP] = {begin_stop, done_ended},
    [STEP_LOSE] = {begin_lose, done_ended},
    [STEP_SIGNAL] = {begin_signal, done_ended},
    [STEP_UNLOADED] = {begin_unloaded, done_ended},
};

/* ---- going on -------------------------------------------------------------
 */

/* Whether @s is asked of a program, which has to run for it. */
static bool needs_program(const struct check_step *s)
{
    return s->kind != STEP_END && s->kind != STEP_UNLOADED;
}

void player_begin_check(struct player *p)
{
    const struct check_step *first = player_check(p)->step;

    if (p->phase == PHASE_IDLE && first->kind != STEP_UNLOADED) {
        player_start_program(p);
        return;
    }
    if (p->phase != PHASE_PLAYING && p->phase != PHASE_IDLE)
        return;
    p->step = first;
    p->begun = p->judged = false;
    p->step_at_s = p->now_s;
    p->filled = 0;
    memset(p->slot, 0, sizeof(p->slot));
    p->slot[0] = (struct player_slot){.live = true, .whole = true};
    for (int i = 0; i < SERIES_MAX; i++)
        p->series[i].len = 0;
}

/* Begins the step, once a program is there for it; false: not yet. */
static bool begin(struct player *p)
{
    if (p->phase == PHASE_IDLE && needs_program(p->step)) {
        player_start_program(p); /* after a STOP: a new process */
        return false;
    }
    p->begun = true;
    p->reported = false;
    p->step_at_s = p->now_s;
    steps[p->step->kind].begin(p, p->step);
    return true;
}

void player_play(struct player *p)
{
    while (p->step && p->phase != PHASE_HELLO && p->phase != PHASE_LOADING) {
        const struct check_step *s = p->step;
        size_t results = p->results;

        if (!p->begun && !begin(p))
            return;
        if (p->results != results)
            continue; /* another step, or another check */
        if (!steps[s->kind].is_done(p, s))
            return;
        if (s->kind == STEP_END) {
            player_end_check(p);
            continue;
        }
        p->step++;
        p->begun = false;
    }
}
