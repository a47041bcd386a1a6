#include "tests/unit/searcher_suite.h"

#include "base/json.h"
#include "base/mem.h"
#include "searchers/space_json.h"

#include "tests/unit/check.h"

#include <math.h>
#include <time.h>

enum { ASKS = 60, PARALLEL = 4 };

/* One of every kind of tunable, conditions, a pinned one. */
static const char mixed_text[] =
    "{\"lr\": {\"type\": \"float\", \"min\": 1e-5, \"max\": 1, \"scale\": "
    "\"log\"},"
    "\"momentum\": {\"type\": \"float\", \"min\": 0.01, \"max\": 0.99, "
    "\"scale\": \"reverse_log\"},"
    "\"linear\": {\"type\": \"float\", \"min\": -3, \"max\": 5},"
    "\"layers\": {\"type\": \"int\", \"min\": 1, \"max\": 5},"
    "\"units\": {\"type\": \"int\", \"min\": 1, \"max\": 1000, \"scale\": "
    "\"log\"},"
    "\"batch\": {\"type\": \"int\", \"values\": [16, 64, 256]},"
    "\"rule\": {\"type\": \"categorical\", \"values\": [\"sgd\", \"adam\"]},"
    "\"beta\": {\"type\": \"float\", \"min\": 0.5, \"max\": 0.9, \"when\": "
    "{\"rule\": \"adam\"}},"
    "\"deep\": {\"type\": \"int\", \"min\": 0, \"max\": 9, \"default\": 4, "
    "\"when\": {\"layers\": {\"min\": 3, \"max\": 5}}},"
    "\"pinned\": {\"type\": \"float\", \"min\": 0, \"max\": 1, \"fixed\": "
    "0.25}}";

static const char small_text[] =
    "{\"a\": {\"type\": \"int\", \"min\": 1, \"max\": 4},"
    "\"b\": {\"type\": \"categorical\", \"values\": [\"x\", \"y\", \"z\"]}}";

/* Five settings in all: x alone, y with 1..4. */
static const char branching_text[] =
    "{\"kind\": {\"type\": \"categorical\", \"values\": [\"x\", \"y\"]},"
    "\"size\": {\"type\": \"int\", \"min\": 1, \"max\": 4, \"when\": "
    "{\"kind\": \"y\"}}}";

/* Six in all, conditions on conditions: x; y with depth 1; with depth 2 and 3
 * both kinds of pooling. */
static const char nested_text[] =
    "{\"kind\": {\"type\": \"categorical\", \"values\": [\"x\", \"y\"]},"
    "\"depth\": {\"type\": \"int\", \"min\": 1, \"max\": 3, \"when\": "
    "{\"kind\": \"y\"}},"
    "\"pool\": {\"type\": \"categorical\", \"values\": [\"p\", \"q\"], "
    "\"when\": {\"depth\": {\"min\": 2, \"max\": 3}}}}";

static const char log_text[] = "{\"lr\": {\"type\": \"float\", \"min\": 1e-5, "
                               "\"max\": 1, \"scale\": \"log\"}}";

/* A searcher at work: what runs, and what it was told. */
struct work {
    struct space space;
    struct searcher *searcher;
    struct observation log[4 * ASKS]; /* in the order of telling */
    size_t told;
    struct setting running[PARALLEL];
    uint64_t running_trial[PARALLEL];
    size_t running_len;
    uint64_t next_trial;
};

/* Longest wait for an answer from another process: none comes near it. */
enum { PATIENCE_MS = 120000 };

enum err searcher_suite_ask(struct searcher *s, const struct setting running[],
                            size_t n, const struct setting *incumbent,
                            struct setting *out, struct fault *f)
{
    const struct timespec pause = {.tv_nsec = 200000};
    enum err err = ERR_AGAIN;

    for (int i = 0; err == ERR_AGAIN && i < PATIENCE_MS * 5; i++) {
        err = searcher_ask(s, running, n, incumbent, out, f);
        if (err == ERR_AGAIN)
            nanosleep(&pause, NULL);
    }
    return err;
}

static json_t *settings_of(const struct searcher_suite *suite)
{
    json_t *settings = NULL;

    if (suite->settings)
        assert_int_equal(json_load(suite->settings, strlen(suite->settings),
                                   &settings, NULL, NULL),
                         ERR_OK);
    return settings;
}

static struct searcher *open_searcher(const struct searcher_suite *suite,
                                      const struct space *space, uint64_t seed)
{
    json_t *settings = settings_of(suite);
    struct searcher *s = NULL;
    struct fault f = {0};

    if (searcher_open(suite->ops, space, settings, seed, &s, &f))
        fail_msg("%s: %s", suite->name, f.text);
    json_decref(settings);
    return s;
}

static struct work *work_new(const struct searcher_suite *suite,
                             const char *text, uint64_t seed)
{
    struct work *w = mem_calloc(1, sizeof(*w));
    struct fault f = {0};

    assert_non_null(w);
    if (space_from_text(text, &w->space, &f))
        fail_msg("%s", f.text);
    w->searcher = open_searcher(suite, &w->space, seed);
    return w;
}

static void work_free(struct work *w)
{
    if (searcher_fallen(w->searcher))
        fail_msg("%s", searcher_fallen(w->searcher));
    searcher_close(w->searcher);
    mem_free(w);
}

static enum err ask(struct work *w, struct setting *x)
{
    return searcher_suite_ask(w->searcher, w->running, w->running_len, NULL, x,
                              NULL);
}

/* A smooth peak, somewhere off the middle, the same in every space. */
static double speed_of(const struct work *w, const struct setting *x)
{
    double u[TUNABLES_MAX], sum = 0;
    size_t n = space_to_unit(&w->space, x, u);

    for (size_t k = 0; k < n; k++)
        sum += (u[k] - 0.7) * (u[k] - 0.7);
    return exp(-3 * sum);
}

static void tell(struct work *w, uint64_t trial, const struct setting *x,
                 enum outcome outcome)
{
    struct observation *o = &w->log[w->told];
    struct fault f = {0};

    assert_true(w->told < sizeof(w->log) / sizeof(*w->log));
    o->trial = trial;
    o->setting = *x;
    o->outcome = outcome;
    o->resource = 1;
    if (outcome == OUTCOME_SPEED || outcome == OUTCOME_STOPPED)
        o->speed = speed_of(w, x);
    if (searcher_tell(w->searcher, o, &f))
        fail_msg("%s", f.text);
    w->told++;
}

/* One trial begun and ended, with an outcome now and then that is no speed. */
static enum err step(struct work *w, struct setting *x)
{
    static const enum outcome outcomes[] = {
        OUTCOME_SPEED,  OUTCOME_SPEED, OUTCOME_DIVERGED, OUTCOME_SPEED,
        OUTCOME_FAILED, OUTCOME_SPEED, OUTCOME_STOPPED,  OUTCOME_SPEED};
    enum err err = ask(w, x);

    if (!err)
        tell(w, w->next_trial, x, outcomes[w->next_trial % 8]);
    w->next_trial += !err;
    return err;
}

/* Begins trials until PARALLEL run, then ends one, not always the oldest. */
static void step_parallel(struct work *w)
{
    size_t end = w->next_trial * 7 % PARALLEL;

    while (w->running_len < PARALLEL) {
        struct setting x;

        assert_int_equal(ask(w, &x), ERR_OK);
        w->running[w->running_len] = x;
        w->running_trial[w->running_len++] = w->next_trial++;
    }
    tell(w, w->running_trial[end], &w->running[end], OUTCOME_SPEED);
    w->running[end] = w->running[--w->running_len];
    w->running_trial[end] = w->running_trial[w->running_len];
}

/* Every proposal is a valid, canonical setting of the space: in range, whole
 * where it must be, pinned tunables at their value, inactive ones at their
 * default. */
static void searcher_proposals_are_valid(void **state)
{
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct work *w = work_new(*state, mixed_text, seed);
        int pinned = space_find(&w->space, "pinned");
        int beta = space_find(&w->space, "beta");
        bool active[2] = {false};

        for (int i = 0; i < ASKS; i++) {
            struct setting x, canonical;

            assert_int_equal(step(w, &x), ERR_OK);
            assert_int_equal(space_check(&w->space, &x, NULL), ERR_OK);
            canonical = x;
            space_canonical(&w->space, &canonical);
            assert_true(space_equal(&w->space, &x, &canonical));
            assert_true(x.value[pinned] == 0.25);
            active[space_active(&w->space, &x, (size_t)beta)] = true;
        }
        assert_true(active[0] && active[1]);
        work_free(w);
    }
}

/* A logarithmic range is searched by its logarithm: in thirty trials that all
 * do equally well, every decade of five is seen. */
static void searcher_log_scale_sees_every_decade(void **state)
{
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct work *w = work_new(*state, log_text, seed);
        int seen[5] = {0};

        for (uint64_t i = 0; i < 30; i++) {
            struct observation o = {.trial = i, .speed = 1, .resource = 1};
            enum err err = ask(w, &o.setting);

            if (err == ERR_EXHAUSTED)
                break;
            assert_int_equal(err, ERR_OK);
            seen[(int)fmin(4, floor(log10(o.setting.value[0]) + 5))]++;
            assert_int_equal(searcher_tell(w->searcher, &o, NULL), ERR_OK);
        }
        for (int i = 0; i < 5; i++)
            assert_true(seen[i] > 0);
        work_free(w);
    }
}

/* Runs @w until it is exhausted; all proposals must differ. Returns how many.
 */
static size_t exhaust(struct work *w)
{
    struct setting seen[ASKS], x;
    enum err err;
    size_t n = 0;

    while ((err = step(w, &x)) == ERR_OK) {
        assert_true(n < ASKS);
        for (size_t i = 0; i < n; i++)
            assert_false(space_equal(&w->space, &x, &seen[i]));
        seen[n++] = x;
    }
    assert_int_equal(err, ERR_EXHAUSTED);
    assert_int_equal(ask(w, &x), ERR_EXHAUSTED);
    return n;
}

/* A discrete space is tried whole, each setting once, then it is exhausted. */
static void searcher_discrete_space_is_exhausted(void **state)
{
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct work *w = work_new(*state, small_text, seed);

        assert_int_equal(exhaust(w), 12);
        work_free(w);
    }
}

/* Settings that differ only in what does not act under their condition are one
 * setting. */
static void searcher_inactive_tunables_make_no_settings(void **state)
{
    struct work *w = work_new(*state, branching_text, 7);

    assert_int_equal(exhaust(w), 5);
    work_free(w);
}

/* So it is where conditions depend on conditions, with a setting in use too. */
static void searcher_nested_conditions_are_exhausted(void **state)
{
    struct work *w = work_new(*state, nested_text, 7);
    struct setting incumbent, x;
    uint64_t n = 0;

    assert_int_equal(exhaust(w), 6);
    work_free(w);
    w = work_new(*state, nested_text, 8);
    assert_int_equal(ask(w, &incumbent), ERR_OK);
    while (searcher_suite_ask(w->searcher, NULL, 0, &incumbent, &x, NULL) ==
           0) {
        assert_false(space_equal(&w->space, &x, &incumbent));
        assert_true(n < 6);
        tell(w, n++, &x, OUTCOME_SPEED);
    }
    assert_int_equal(n, 5);
    work_free(w);
}

/* With all tunables pinned there is one setting to try. */
static void searcher_pinned_space_has_one_setting(void **state)
{
    struct work *w =
        work_new(*state, "{\"lr\": {\"type\": \"float\", \"fixed\": 0.5}}", 1);

    assert_int_equal(exhaust(w), 1);
    work_free(w);
}

/* Trials that run are not proposed again; when all that is left runs, there is
 * nothing to try until they end, or at all. */
static void searcher_running_trials_are_not_proposed(void **state)
{
    struct work *w = work_new(*state, small_text, 3);
    struct setting running[12], x;
    enum err err;

    for (size_t n = 0; n < 12; n++) {
        assert_int_equal(
            searcher_suite_ask(w->searcher, running, n, NULL, &x, NULL),
            ERR_OK);
        for (size_t i = 0; i < n; i++)
            assert_false(space_equal(&w->space, &x, &running[i]));
        running[n] = x;
    }
    err = searcher_suite_ask(w->searcher, running, 12, NULL, &x, NULL);
    assert_true(err == ERR_EXHAUSTED || err == ERR_AGAIN);
    work_free(w);
}

/* The incumbent competes anyway, so it is not proposed. */
static void searcher_incumbent_is_not_proposed(void **state)
{
    struct work *w = work_new(*state, small_text, 5);
    struct setting incumbent, x;
    size_t n = 0;

    space_default(&w->space, &incumbent);
    while (searcher_suite_ask(w->searcher, NULL, 0, &incumbent, &x, NULL) ==
           0) {
        assert_false(space_equal(&w->space, &x, &incumbent));
        tell(w, n++, &x, OUTCOME_SPEED);
    }
    assert_int_equal(n, 11);
    work_free(w);
}

/* Asking has no effect: again gives the same, whatever was asked between. */
static void searcher_asking_changes_nothing(void **state)
{
    struct work *w = work_new(*state, mixed_text, 11);
    struct setting x, y, z;

    for (int i = 0; i < 30; i++) {
        assert_int_equal(ask(w, &x), ERR_OK);
        assert_int_equal(searcher_suite_ask(w->searcher, &x, 1, NULL, &z, NULL),
                         ERR_OK);
        assert_int_equal(ask(w, &y), ERR_OK);
        assert_true(space_equal(&w->space, &x, &y));
        assert_int_equal(step(w, &x), ERR_OK);
    }
    work_free(w);
}

/* Telling a fresh searcher the same, in the same order, gives the same
 * proposals from there on, with trials running. */
static void searcher_replay_gives_the_same_proposals(void **state)
{
    struct work *w = work_new(*state, mixed_text, 13);

    for (size_t i = 0; i < 40; i++) {
        struct searcher *again = open_searcher(*state, &w->space, 13);
        struct setting x, y;

        for (size_t k = 0; k < w->told; k++)
            assert_int_equal(searcher_tell(again, &w->log[k], NULL), ERR_OK);
        assert_int_equal(ask(w, &x), ERR_OK);
        assert_int_equal(searcher_suite_ask(again, w->running, w->running_len,
                                            NULL, &y, NULL),
                         ERR_OK);
        assert_true(space_equal(&w->space, &x, &y));
        searcher_close(again);
        step_parallel(w);
    }
    work_free(w);
}

/* Another seed is another search. */
static void searcher_seed_changes_the_search(void **state)
{
    struct work *a = work_new(*state, mixed_text, 1);
    struct work *b = work_new(*state, mixed_text, 2);
    int same = 0;

    for (int i = 0; i < 20; i++) {
        struct setting x, y;

        assert_int_equal(step(a, &x), ERR_OK);
        assert_int_equal(step(b, &y), ERR_OK);
        same += space_equal(&a->space, &x, &y);
    }
    assert_true(same < 5);
    work_free(a);
    work_free(b);
}

/* A search in which nothing ever worked goes on proposing something new. */
static void searcher_all_diverged_or_failed_goes_on(void **state)
{
    struct work *w = work_new(*state, mixed_text, 17);
    struct setting x, last = {0};

    for (uint64_t i = 0; i < 40; i++) {
        assert_int_equal(ask(w, &x), ERR_OK);
        assert_false(i > 0 && space_equal(&w->space, &x, &last));
        tell(w, i, &x, i % 2 ? OUTCOME_DIVERGED : OUTCOME_FAILED);
        last = x;
    }
    work_free(w);
}

/* Speeds of any size, all zero, or all equal are no trouble. */
static void searcher_any_speed_is_accepted(void **state)
{
    static const double speeds[] = {0, 1e-300, 1e300, 0, 0, 5, 5, 5};
    struct work *w = work_new(*state, mixed_text, 19);

    for (uint64_t i = 0; i < 40; i++) {
        struct observation o = {.trial = i, .resource = (double)(i % 3)};

        assert_int_equal(ask(w, &o.setting), ERR_OK);
        o.speed = i < 20 ? 0 : speeds[i % 8];
        assert_int_equal(searcher_tell(w->searcher, &o, NULL), ERR_OK);
    }
    work_free(w);
}

/* A trial told again with more resource counts once, and settings that the
 * searcher never proposed are welcome. */
static void searcher_retold_and_foreign_trials_are_welcome(void **state)
{
    struct work *w = work_new(*state, mixed_text, 23);
    struct observation o = {.trial = 5, .speed = 1, .resource = 1};
    struct setting x;
    size_t n;

    space_default(&w->space, &o.setting);
    assert_int_equal(searcher_tell(w->searcher, &o, NULL), ERR_OK);
    o.resource = 3;
    o.speed = 0.5;
    assert_int_equal(searcher_tell(w->searcher, &o, NULL), ERR_OK);
    o.trial = 2;
    assert_int_equal(searcher_tell(w->searcher, &o, NULL), ERR_OK);
    assert_int_equal(searcher_told(w->searcher, &n)[1].trial, 5);
    assert_int_equal(n, 2);
    assert_true(searcher_told(w->searcher, &n)[1].resource == 3);
    assert_int_equal(ask(w, &x), ERR_OK);
    work_free(w);
}

/* What a pin for a re-tune leaves as it is stays as it is. */
static void searcher_pins_for_a_retune_hold(void **state)
{
    struct work *w = work_new(*state, mixed_text, 29);
    int batch = space_find(&w->space, "batch");
    struct setting current, x;
    struct searcher *s;

    space_default(&w->space, &current);
    current.value[batch] = 256;
    w->space.tunable[batch].retune = false;
    space_pin_for_retune(&w->space, &current);
    s = open_searcher(*state, &w->space, 29);
    for (uint64_t i = 0; i < 20; i++) {
        struct observation o = {.trial = i, .speed = 1, .resource = 1};

        assert_int_equal(searcher_suite_ask(s, NULL, 0, &current, &x, NULL),
                         ERR_OK);
        assert_true(x.value[batch] == 256);
        o.setting = x;
        assert_int_equal(searcher_tell(s, &o, NULL), ERR_OK);
    }
    searcher_close(s);
    work_free(w);
}

/* One search from open to close; every error must be ERR_NOMEM. */
static enum err short_search(const struct searcher_suite *suite,
                             const json_t *settings, const struct space *space)
{
    struct searcher *s = NULL;
    enum err err = searcher_open(suite->ops, space, settings, 1, &s, NULL);

    for (uint64_t i = 0; i < suite->few && !err; i++) {
        struct observation o = {.trial = i, .speed = (double)i, .resource = 1};

        err = searcher_suite_ask(s, NULL, 0, NULL, &o.setting, NULL);
        if (!err)
            err = searcher_tell(s, &o, NULL);
    }
    searcher_close(s);
    return err;
}

/* With any one allocation failing the search either is not harmed or says that
 * memory ran out; nothing leaks. */
static void searcher_allocation_failures_leave_nothing(void **state)
{
    const struct searcher_suite *suite = *state;
    struct work *w;
    json_t *settings;
    int64_t before;
    int failed = 1;

    if (suite->few == 0)
        skip();
    w = work_new(*state, mixed_text, 31);
    settings = settings_of(*state);
    before = mem_outstanding();
    for (int nth = 1; failed; nth++) {
        enum err err;

        mem_fail_at(nth, 0);
        err = short_search(*state, settings, &w->space);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_true(err == ERR_OK || (failed && err == ERR_NOMEM));
        assert_int_equal(mem_outstanding(), before);
    }
    json_decref(settings);
    work_free(w);
}

/* Settings that its schema does not know are refused with their name. */
static void searcher_unknown_settings_are_refused(void **state)
{
    struct work *w = work_new(*state, small_text, 1);
    json_t *settings = json_pack("{s:i}", "no_such_setting", 1);
    const struct searcher_suite *suite = *state;
    struct searcher *s = NULL;
    struct fault f = {0};

    assert_int_equal(searcher_open(suite->ops, &w->space, settings, 1, &s, &f),
                     ERR_INVAL);
    assert_non_null(strstr(f.text, "no_such_setting"));
    assert_null(s);
    json_decref(settings);
    work_free(w);
}

int searcher_suite_run(const struct searcher_suite *suite)
{
#define SUITE_TEST(fn) cmocka_unit_test_prestate(fn, (void *)suite)
    const struct CMUnitTest tests[] = {
        SUITE_TEST(searcher_proposals_are_valid),
        SUITE_TEST(searcher_log_scale_sees_every_decade),
        SUITE_TEST(searcher_discrete_space_is_exhausted),
        SUITE_TEST(searcher_inactive_tunables_make_no_settings),
        SUITE_TEST(searcher_nested_conditions_are_exhausted),
        SUITE_TEST(searcher_pinned_space_has_one_setting),
        SUITE_TEST(searcher_running_trials_are_not_proposed),
        SUITE_TEST(searcher_incumbent_is_not_proposed),
        SUITE_TEST(searcher_asking_changes_nothing),
        SUITE_TEST(searcher_replay_gives_the_same_proposals),
        SUITE_TEST(searcher_seed_changes_the_search),
        SUITE_TEST(searcher_all_diverged_or_failed_goes_on),
        SUITE_TEST(searcher_any_speed_is_accepted),
        SUITE_TEST(searcher_retold_and_foreign_trials_are_welcome),
        SUITE_TEST(searcher_pins_for_a_retune_hold),
        SUITE_TEST(searcher_allocation_failures_leave_nothing),
        SUITE_TEST(searcher_unknown_settings_are_refused),
    };
#undef SUITE_TEST

    json_count_memory();
    return cmocka_run_group_tests_name(suite->name, tests, NULL, NULL);
}
