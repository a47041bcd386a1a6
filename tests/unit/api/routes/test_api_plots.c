#include "api/view/decimate.h"
#include "base/json/json.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/http_fixture.h"

#include <math.h>

#define RUN "/api/v1/runs/run-1"

static int setup(void **state)
{
    static struct http_fixture x;

    http_fixture_init(&x);
    *state = &x;
    return 0;
}

static int teardown(void **state)
{
    http_fixture_deinit(*state);
    return 0;
}

static json_t *at(const json_t *json, const char *path)
{
    json_t *value = json_at(json, path);

    if (!value)
        fail_msg("nothing at %s", path);
    return value;
}

static json_int_t int_at(const json_t *json, const char *path)
{
    assert_true(json_is_integer(at(json, path)));
    return json_integer_value(at(json, path));
}

static size_t len_at(const json_t *json, const char *path)
{
    assert_true(json_is_array(at(json, path)));
    return json_array_size(at(json, path));
}

/* ---- decimation ---------------------------------------------------------- */

enum { POINTS = 5000, SPANS = 37 };

static uint64_t span_index(uint64_t clock)
{
    return clock * SPANS / POINTS;
}

/* First, lowest, highest and last of each span are there, as a plain search
 * through all points finds them, in the order of the clock. */
static void decimate_keeps_what_a_search_finds(void **state)
{
    static double value[POINTS];
    struct decimate_point out[DECIMATE_KEPT];
    struct decimate d;
    size_t next = 0;

    (void)state;
    assert_int_equal(decimate_init(&d, 0, POINTS, SPANS), ERR_OK);
    for (size_t i = 0; i < POINTS; i++)
        value[i] = (double)((i * 2654435761u) % 100003);
    for (size_t i = POINTS; i > 0; i--) /* the order does not matter */
        decimate_add(&d, &(struct decimate_point){.clock = i - 1,
                                                  .value = value[i - 1]});
    assert_int_equal(d.points, POINTS);
    for (size_t s = 0; s < SPANS; s++) {
        size_t n = decimate_span_points(&d, s, out);
        size_t first = next, low = next, high = next;
        bool has_low = false, has_high = false;

        for (; next < POINTS && span_index(next) == s; next++) {
            low = value[next] < value[low] ? next : low;
            high = value[next] > value[high] ? next : high;
        }
        assert_true(n >= 2 && n <= 4);
        assert_int_equal(out[0].clock, first);
        assert_int_equal(out[n - 1].clock, next - 1);
        for (size_t k = 0; k < n; k++) {
            has_low |= out[k].clock == low;
            has_high |= out[k].clock == high;
            assert_true(k == 0 || out[k - 1].clock < out[k].clock);
        }
        assert_true(has_low && has_high);
    }
    decimate_deinit(&d);
}

/* A point outside of the axis is left out; what is not finite is kept once
 * and is neither lowest nor highest. */
static void decimate_keeps_one_that_is_not_finite(void **state)
{
    static const double value[] = {1, NAN, 3, INFINITY, 2};
    struct decimate_point out[DECIMATE_KEPT];
    struct decimate d;
    size_t n, broken = 0;

    (void)state;
    assert_int_equal(decimate_init(&d, 10, 15, 1), ERR_OK);
    for (uint64_t i = 0; i < 5; i++)
        decimate_add(
            &d, &(struct decimate_point){.clock = 10 + i, .value = value[i]});
    decimate_add(&d, &(struct decimate_point){.clock = 9, .value = -1});
    decimate_add(&d, &(struct decimate_point){.clock = 15, .value = 99});
    n = decimate_span_points(&d, 0, out);
    for (size_t k = 0; k < n; k++) {
        broken += !isfinite(out[k].value);
        assert_true(!isfinite(out[k].value) ||
                    (out[k].value >= 1 && out[k].value <= 3));
    }
    assert_int_equal(broken, 1);
    assert_int_equal(n, 4); /* 1, 3, 2 and one that is not finite */
    decimate_deinit(&d);
}

/* ---- the curve ----------------------------------------------------------- */

/* The surviving lineage is what the tip and its ancestors ran before they were
 * forked; the rest is of the others, tests left out. */
static void curve_parts_lineage_and_others(void **state)
{
    struct http_fixture *x = *state;
    json_t *json;

    http_fixture_run(x);
    json = http_fixture_get(x->view, RUN "/curve", 200);
    assert_int_equal(int_at(json, "/lineage/points"), 3);
    assert_int_equal(len_at(json, "/lineage/loss"), 3);
    assert_int_equal(int_at(json, "/lineage/branch/0"), 1);
    assert_int_equal(int_at(json, "/lineage/branch/1"), 4);
    assert_true(json_number_value(at(json, "/lineage/loss/2")) == 0.5);
    assert_int_equal(int_at(json, "/others/points"), 2);
    assert_true(json_is_null(at(json, "/others/loss/0"))); /* diverged */
    assert_true(json_number_value(at(json, "/others/loss/1")) == 9.0);
    json_decref(json);
}

/* Only clocks that were asked for; an extent beyond the run is no fault. */
static void curve_of_a_part(void **state)
{
    struct http_fixture *x = *state;
    json_t *json;

    http_fixture_run(x);
    json = http_fixture_get(x->view, RUN "/curve?from=30&to=40", 200);
    assert_int_equal(int_at(json, "/lineage/points"), 1);
    assert_int_equal(int_at(json, "/others/points"), 0);
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/curve?from=5000&to=5001", 200);
    assert_int_equal(len_at(json, "/lineage/clock"), 0);
    json_decref(json);
}

/* A run that has not begun has an empty curve, survey and tree. */
static void nothing_yet_is_empty(void **state)
{
    struct http_fixture *x = *state;
    json_t *json = http_fixture_get(x->view, RUN "/curve", 200);

    assert_int_equal(len_at(json, "/others/clock"), 0);
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/survey", 200);
    assert_int_equal(int_at(json, "/rows"), 0);
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/tree", 200);
    assert_int_equal(len_at(json, "/branches"), 0);
    json_decref(json);
    json_decref(http_fixture_get(x->view, "/api/v1/runs/no/curve", 404));
    json_decref(http_fixture_get(x->view, "/api/v1/runs/no/survey", 404));
    json_decref(http_fixture_get(x->view, "/api/v1/runs/no/tree", 404));
}

/* ---- large runs ---------------------------------------------------------- */

enum { TRIALS = 9000, FASTEST = 4321 };

static void make_large(struct http_fixture *x)
{
    http_fixture_start(x);
    http_fixture_branch(x, 0, BRANCH_NONE, BRANCH_INIT, "");
    for (uint32_t t = 1; t <= TRIALS; t++) {
        http_fixture_branch(x, t, 0, BRANCH_TRAINING, "trial");
        http_fixture_window(x, t, 0, 1, t == FASTEST ? 0.001 : 1.0);
        http_fixture_trial(x, RECORD_TRIAL_STARTED, t, t, TRIAL_RUNNING, 0);
        http_fixture_trial(x, RECORD_TRIAL_ENDED, t, t, TRIAL_CONVERGING,
                           t == FASTEST ? 1000.0 : 1.0 + t % 7);
    }
}

static bool has_int(const json_t *array, json_int_t wanted)
{
    size_t i;
    json_t *v;

    json_array_foreach(array, i, v)
    {
        if (json_integer_value(v) == wanted)
            return true;
    }
    return false;
}

/* However many trials there are, the answers stay small, hold one from every
 * stretch, and the one trial that stands out. */
static void answers_stay_small_and_keep_the_extremes(void **state)
{
    struct http_fixture *x = *state;
    json_t *json;
    size_t i, sampled = 0;
    json_t *v;

    make_large(x);
    json = http_fixture_get(x->view, RUN "/survey?max_trials=100", 200);
    assert_int_equal(int_at(json, "/total"), TRIALS);
    assert_true(int_at(json, "/rows") <= 100 && int_at(json, "/rows") > 60);
    assert_true(has_int(at(json, "/columns/trial"), FASTEST));
    json_array_foreach(at(json, "/columns/sampled"), i, v)
    {
        sampled += json_is_true(v);
    }
    assert_int_equal(sampled, 50);
    json_array_foreach(at(json, "/columns/trial"), i, v)
    {
        double standing =
            json_number_value(json_array_get(at(json, "/columns/standing"), i));
        double slower = (double)(json_integer_value(v) % 7) / 7;

        if (json_integer_value(v) == FASTEST)
            slower = 13.0 / 14;
        /* A seventh of the trials is as fast: half of them count. */
        assert_true(fabs(standing - slower - 1.0 / 14) < 1e-3);
    }
    assert_int_equal(len_at(json, "/tunables/learning_rate"),
                     int_at(json, "/rows"));
    json_decref(json);

    json = http_fixture_get(x->view, RUN "/curve?spans=10", 200);
    assert_int_equal(int_at(json, "/others/points"), TRIALS);
    assert_true(len_at(json, "/others/clock") <= 40);
    assert_true(has_int(at(json, "/others/branch"), FASTEST));
    json_decref(json);

    json = http_fixture_get(x->view, RUN "/tree?max_branches=25", 200);
    assert_int_equal(int_at(json, "/total"), TRIALS + 1);
    assert_int_equal(len_at(json, "/branches"), 25);
    json_decref(json);
}

/* A survey of one search holds that one's trials. */
static void survey_of_a_search(void **state)
{
    struct http_fixture *x = *state;
    json_t *json;

    http_fixture_run(x);
    json = http_fixture_get(x->view, RUN "/survey?search=1", 200);
    assert_int_equal(int_at(json, "/rows"), 3);
    assert_string_equal(json_string_value(at(json, "/columns/label/1")),
                        "diverged");
    /* The one that diverged is slower, whatever its speed says. */
    assert_true(json_number_value(at(json, "/columns/standing/0")) == 1);
    assert_true(json_number_value(at(json, "/columns/standing/1")) == 0);
    assert_true(json_is_null(at(json, "/columns/standing/2")));
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/survey?search=2", 200);
    assert_int_equal(int_at(json, "/total"), 0);
    json_decref(json);
}

/* ---- the tree ------------------------------------------------------------ */

/* Branches that ran are there, each with its nearest ancestor that is, and the
 * trial it belongs to with its verdict. */
static void tree_has_parents_and_trials(void **state)
{
    struct http_fixture *x = *state;
    json_t *json;

    http_fixture_run(x);
    json = http_fixture_get(x->view, RUN "/tree", 200);
    assert_int_equal(len_at(json, "/branches"), 5); /* no test */
    assert_true(json_is_null(at(json, "/branches/0/parent")));
    assert_int_equal(int_at(json, "/branches/1/trial"), 1);
    assert_true(json_is_true(at(json, "/branches/1/surviving")));
    assert_int_equal(int_at(json, "/branches/2/search"), 1);
    assert_string_equal(json_string_value(at(json, "/branches/2/label")),
                        "diverged");
    assert_true(json_is_null(at(json, "/branches/0/label")));
    assert_true(json_is_null(at(json, "/branches/0/loss")));
    assert_true(json_is_false(at(json, "/branches/2/surviving")));
    assert_true(json_is_false(at(json, "/branches/2/live")));
    assert_int_equal(int_at(json, "/branches/4/parent"), 1);
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/tree?all=true", 200);
    assert_int_equal(len_at(json, "/branches"), 6);
    json_decref(json);
    /* From the lineage 0, 1, 4 the two that ran longest, and what lives. */
    json = http_fixture_get(x->view, RUN "/tree?max_branches=3", 200);
    assert_int_equal(int_at(json, "/branches/0/branch"), 1);
    assert_int_equal(int_at(json, "/branches/1/branch"), 3);
    assert_int_equal(int_at(json, "/branches/2/branch"), 4);
    json_decref(json);
    /* Branch 4 is the only one that ran from clock 30 on. */
    json = http_fixture_get(x->view, RUN "/tree?from=30&to=50", 200);
    assert_int_equal(len_at(json, "/branches"), 1);
    assert_int_equal(int_at(json, "/branches/0/branch"), 4);
    assert_true(json_is_null(at(json, "/branches/0/parent")));
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decimate_keeps_what_a_search_finds),
        cmocka_unit_test(decimate_keeps_one_that_is_not_finite),
        cmocka_unit_test_setup_teardown(curve_parts_lineage_and_others, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(curve_of_a_part, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_yet_is_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(
            answers_stay_small_and_keep_the_extremes, setup, teardown),
        cmocka_unit_test_setup_teardown(survey_of_a_search, setup, teardown),
        cmocka_unit_test_setup_teardown(tree_has_parents_and_trials, setup,
                                        teardown),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
