/* Models of users' own in one process: who waits, who goes on, and what is told
 * when nobody does. */
#include "mltune/model.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/ps_fixture.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { WORKERS = 4, CLOCKS = 60, LEAD = 2 };

static int level(const struct mlt_model_view *v, void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < v->workers; i++)
        if (v->worker[i].alive && v->worker[i].clock + (int64_t)v->staleness <
                                      v->worker[v->self].clock)
            return 0;
    return 1;
}

static const struct mlt_model_ops reads_level = {.version = MLT_MODEL_VERSION,
                                                 .name = "reads_level",
                                                 .summary =
                                                     "ssp, written by a user",
                                                 .uses = MLT_MODEL_STALENESS,
                                                 .may_read = level};

static const struct mlt_model_ops begins_level = {
    .version = MLT_MODEL_VERSION,
    .name = "begins_level",
    .summary = "the same when a clock begins",
    .uses = MLT_MODEL_STALENESS,
    .may_begin = level};

struct race {
    struct mlt_ps *ps;
    _Atomic int64_t clock[WORKERS];
    _Atomic int64_t lead; /* the most that any read was ahead */
};

static void note_lead(struct race *r, unsigned self)
{
    int64_t own = atomic_load(&r->clock[self]), lead = 0;
    int64_t most = atomic_load(&r->lead);

    for (unsigned i = 0; i < WORKERS; i++)
        if (own - atomic_load(&r->clock[i]) > lead)
            lead = own - atomic_load(&r->clock[i]);
    while (lead > most && !atomic_compare_exchange_weak(&r->lead, &most, lead))
        ;
}

static int race(struct mlt_worker *w, void *arg)
{
    const float one[FIXTURE_WIDTH] = {1};
    struct race *r = arg;
    unsigned self = mlt_worker_index(w);
    int err = 0;

    for (int i = 0; i < CLOCKS && !err; i++) {
        if (!mlt_get_row(w, 0, self))
            return 1;
        note_lead(r, self);
        mlt_inc_row(w, 0, 0, one);
        /* Counted before: nobody sees the clock before this number. */
        if (i + 1 < CLOCKS)
            atomic_fetch_add(&r->clock[self], 1);
        else
            atomic_store(&r->clock[self], INT64_MAX / 2);
        err = mlt_clock(w);
    }
    return err;
}

static struct mlt_ps *server(const struct mlt_model_ops *ops, void *arg)
{
    struct mlt_ps *ps = fixture_ps(WORKERS, "bsp", "add");
    struct mlt_error err;

    fixture_table(ps, "weights", MLT_F32, MLT_SHARED, 0);
    if (mlt_ps_set_model(ps, ops, arg, &err))
        fail_msg("%s", err.text);
    assert_int_equal(mlt_ps_set_staleness(ps, LEAD), 0);
    fixture_start(ps);
    return ps;
}

/* A user's bound on the lead is kept at every read, whether it is asked when a
 * table is read or when a clock begins; and no update is lost, over two runs.
 */
static void ask_keeps_the_bound_of_a_users_predicate(void **state)
{
    static const struct mlt_model_ops *const models[] = {&reads_level,
                                                         &begins_level};

    (void)state;
    for (int m = 0; m < 2; m++) {
        struct race r = {.ps = server(models[m], NULL)};

        for (int run = 1; run <= 2; run++) {
            for (unsigned i = 0; i < WORKERS; i++)
                atomic_store(&r.clock[i], 0);
            atomic_store(&r.lead, 0);
            fixture_run(r.ps, race, &r, 0);

            assert_true(atomic_load(&r.lead) <= LEAD);
            assert_true(fixture_value(r.ps, 0, "weights", 0, 0) ==
                        WORKERS * CLOCKS * run);
            assert_int_equal(mlt_ps_model_error(r.ps, NULL), 0);
        }
        mlt_ps_free(r.ps);
    }
}

/* ---- what a predicate is shown ------------------------------------------- */

struct seen {
    int64_t highest;
    int most_idle, self_busy, bad;
};

static int look(const struct mlt_model_view *v, void *arg)
{
    struct seen *s = arg; /* predicates are asked one at a time */
    int idle = 0;

    s->bad |= v->size != sizeof(*v) || v->workers != WORKERS ||
              v->staleness != LEAD || v->k != 0;
    for (unsigned i = 0; i < v->workers; i++) {
        idle += v->worker[i].alive && !v->worker[i].busy;
        s->bad |= v->worker[i].clock < 0 || v->worker[i].staleness < 0 ||
                  v->worker[i].task_s < 0;
        if (v->worker[i].clock > s->highest)
            s->highest = v->worker[i].clock;
    }
    s->self_busy |= v->worker[v->self].busy;
    if (idle > s->most_idle)
        s->most_idle = idle;
    return level(v, NULL);
}

/* Clocks count from the run's first, in the second run too; who asks is not
 * busy, nor is who waits. */
static void ask_shows_clocks_of_the_run_and_who_waits(void **state)
{
    struct mlt_model_ops ops = reads_level;
    struct seen seen = {0};
    struct race r = {0};

    (void)state;
    ops.may_read = look;
    r.ps = server(&ops, &seen);
    fixture_run(r.ps, race, &r, 0);
    memset(&seen, 0, sizeof(seen));
    fixture_run(r.ps, race, &r, 0);
    assert_false(seen.bad);
    assert_false(seen.self_busy);
    assert_true(seen.highest >= CLOCKS - 1 && seen.highest <= CLOCKS);
    assert_true(seen.most_idle >= 1);
    mlt_ps_free(r.ps);
}

/* ---- predicates that never hold ------------------------------------------ */

static int until_five(const struct mlt_model_view *v, void *arg)
{
    (void)arg;
    return v->worker[v->self].clock < 5;
}

static int never(const struct mlt_model_view *v, void *arg)
{
    (void)v;
    (void)arg;
    return 0;
}

/* Workers that all wait for ever end their run, with words that name the model,
 * a worker, its clock and the table; the next run of another branch is not
 * blamed. */
static void ask_finds_and_names_what_never_holds(void **state)
{
    struct mlt_model_ops ops = {.version = MLT_MODEL_VERSION,
                                .name = "to_five",
                                .summary = "stops at clock 5",
                                .may_read = until_five};
    struct race r = {0};
    struct mlt_error err;
    uint32_t child;

    (void)state;
    r.ps = server(&ops, NULL);
    assert_int_equal(mlt_ps_fork(r.ps, 0, &child), 0);
    fixture_run(r.ps, race, &r, ERR_APP);
    assert_int_equal(mlt_ps_model_error(r.ps, &err), ERR_APP);
    assert_int_equal(err.code, ERR_APP);
    assert_non_null(strstr(err.text, "to_five"));
    assert_non_null(strstr(err.text, "worker 0"));
    assert_non_null(strstr(err.text, "clock 5"));
    assert_non_null(strstr(err.text, "weights"));
    ops.may_read = level; /* nobody runs */
    assert_int_equal(mlt_ps_switch(r.ps, child), 0);
    fixture_run(r.ps, race, &r, 0);
    assert_int_equal(mlt_ps_model_error(r.ps, &err), 0);
    mlt_ps_free(r.ps);
}

static int one_leaves(struct mlt_worker *w, void *arg)
{
    (void)arg;
    if (mlt_worker_index(w) == WORKERS - 1)
        return 0;
    return mlt_get_row(w, 0, 0) ? 0 : 1;
}

static int when_all_live(const struct mlt_model_view *v, void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < v->workers; i++)
        if (!v->worker[i].alive)
            return 0;
    return v->worker[WORKERS - 1].clock > 0;
}

/* The last worker that could have moved anything ends its run: those that wait
 * find out then. A predicate that never holds at all is found at once. */
static void ask_finds_it_when_the_last_that_was_busy_is_done(void **state)
{
    struct mlt_model_ops ops = {.version = MLT_MODEL_VERSION,
                                .name = "needs_all",
                                .summary = "waits for one that is gone",
                                .may_begin = when_all_live};
    struct mlt_ps *ps = server(&ops, NULL);
    struct mlt_error err;

    (void)state;
    fixture_run(ps, one_leaves, NULL, ERR_APP);
    assert_int_equal(mlt_ps_model_error(ps, &err), ERR_APP);
    assert_non_null(strstr(err.text, "all 3 that are alive"));
    mlt_ps_free(ps);

    ops.may_begin = never;
    ps = server(&ops, NULL);
    fixture_run(ps, race, &(struct race){.ps = ps}, ERR_APP);
    assert_int_equal(mlt_ps_model_error(ps, &err), ERR_APP);
    mlt_ps_free(ps);
}

/* A worker that fails releases those that wait; the model is not blamed. */
static int fails(struct mlt_worker *w, void *arg)
{
    (void)arg;
    if (mlt_worker_index(w) == 0)
        return 7;
    return mlt_get_row(w, 0, 0) ? 1 : 2;
}

static int others_first(const struct mlt_model_view *v, void *arg)
{
    (void)arg;
    return v->worker[0].clock > 0;
}

static void ask_is_released_by_an_error(void **state)
{
    const struct mlt_model_ops ops = {.version = MLT_MODEL_VERSION,
                                      .name = "after_0",
                                      .summary = "waits for worker 0",
                                      .may_read = others_first};
    struct mlt_ps *ps = server(&ops, NULL);

    (void)state;
    fixture_run(ps, fails, NULL, 7);
    assert_int_equal(mlt_ps_model_error(ps, NULL), 0);
    mlt_ps_free(ps);
}

/* ---- who is asked again -------------------------------------------------- */

enum { BUSY_RUNS = 50, BUSY_WAIT_US = 100, BUSY_WAITS = 50000 };

struct busy {
    _Atomic int first_waits, second_waits, second_goes_on;
};

/* Worker 1 goes on once worker 0 is busy with its second clock, for which that
 * one waits until worker 2 has ended a clock. */
static int when_busy(const struct mlt_model_view *v, void *arg)
{
    struct busy *b = arg;

    if (v->self == 1) {
        int yes = v->worker[0].busy && v->worker[0].clock >= 1;

        if (!yes)
            atomic_store(&b->second_waits, 1);
        return yes;
    }
    if (v->self == 0 && v->worker[0].clock == 1 && v->worker[2].clock < 1) {
        atomic_store(&b->first_waits, 1);
        return 0;
    }
    return 1;
}

/* 0 once @flag is set. */
static int await(_Atomic int *flag)
{
    for (int i = 0; i < BUSY_WAITS && !atomic_load(flag); i++)
        usleep(BUSY_WAIT_US);
    return !atomic_load(flag);
}

static int busy_work(struct mlt_worker *w, void *arg)
{
    struct busy *b = arg;

    switch (mlt_worker_index(w)) {
    case 0:
        if (!mlt_get_row(w, 0, 0) || mlt_clock(w) || !mlt_get_row(w, 0, 0))
            return 1;
        return await(&b->second_goes_on) ? 2 : 0;
    case 1:
        if (await(&b->first_waits) || !mlt_get_row(w, 0, 0))
            return 3;
        atomic_store(&b->second_goes_on, 1);
        return 0;
    case 2:
        if (await(&b->second_waits) || mlt_clock(w))
            return 4;
        return await(&b->second_goes_on) ? 5 : 0;
    default:
        return 0;
    }
}

/* A waiter that is let go on is busy again: who waits for that is asked then,
 * not only when it ends its clock. */
static void ask_asks_again_when_a_waiter_goes_on(void **state)
{
    struct busy b;
    const struct mlt_model_ops ops = {.version = MLT_MODEL_VERSION,
                                      .name = "busy",
                                      .summary = "waits for one at work",
                                      .may_read = when_busy};
    struct mlt_ps *ps = server(&ops, &b);

    (void)state;
    for (int i = 0; i < BUSY_RUNS; i++) {
        memset(&b, 0, sizeof(b));
        fixture_run(ps, busy_work, &b, 0);
    }
    mlt_ps_free(ps);
}

/* ---- refusals ------------------------------------------------------------ */

static void expect_refused(struct mlt_ps *ps, const struct mlt_model_ops *ops,
                           int code, const char *word)
{
    struct mlt_error err = {0};

    assert_int_equal(mlt_ps_set_model(ps, ops, NULL, &err), code);
    assert_non_null(strstr(err.text, word));
}

/* Another version, no name, a built-in one's, no summary, no predicate,
 * settings that there are not: each in words, and the model stays. */
static void ask_refuses_what_is_no_model(void **state)
{
    struct mlt_ps *ps = fixture_ps(WORKERS, "bsp", "add");
    struct mlt_model_ops ops = reads_level;

    (void)state;
    ops.version = MLT_MODEL_VERSION + 1;
    expect_refused(ps, &ops, ERR_VERSION, "version 2 of mltune/model.h");
    ops = reads_level;
    ops.name = "Reads Level";
    expect_refused(ps, &ops, ERR_INVAL, "expected a name");
    ops.name = "ssp";
    expect_refused(ps, &ops, ERR_INVAL, "built-in");
    ops = reads_level;
    ops.summary = NULL;
    expect_refused(ps, &ops, ERR_INVAL, ".summary");
    ops = reads_level;
    ops.may_read = NULL;
    expect_refused(ps, &ops, ERR_INVAL, "neither");
    ops = reads_level;
    ops.uses = 4;
    expect_refused(ps, &ops, ERR_INVAL, "settings");
    mlt_ps_free(ps);
}

/* Between nodes nobody knows in time what others' workers do: refused. */
static void ask_refuses_several_nodes(void **state)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_ps *ps;

    (void)state;
    opt.nodes = 2;
    opt.workers = 1;
    opt.meet = "/nowhere";
    assert_int_equal(mlt_ps_new(&opt, &ps, NULL), 0);
    expect_refused(ps, &reads_level, ERR_UNSUPPORTED, "2 nodes");
    mlt_ps_free(ps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ask_keeps_the_bound_of_a_users_predicate),
        cmocka_unit_test(ask_shows_clocks_of_the_run_and_who_waits),
        cmocka_unit_test(ask_finds_and_names_what_never_holds),
        cmocka_unit_test(ask_finds_it_when_the_last_that_was_busy_is_done),
        cmocka_unit_test(ask_is_released_by_an_error),
        cmocka_unit_test(ask_asks_again_when_a_waiter_goes_on),
        cmocka_unit_test(ask_refuses_what_is_no_model),
        cmocka_unit_test(ask_refuses_several_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
