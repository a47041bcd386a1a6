/* Which trials of a first search are finalists. */
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/space_text.h"
#include "tuner/search/finalists.h"

#include <string.h>

#define MOST 8

static struct space space;
static struct trials trials;
static struct trial list[MOST];
static struct judge judge;

/* Trials that converge, with rates[n] and speeds[n]. */
static void given(uint32_t n, const double rates[], const double speeds[])
{
    struct fault f = {0};

    assert_true(n <= MOST);
    if (space_from_text("{\"learning_rate\": {\"type\": \"float\", \"min\": "
                        "0.001, \"max\": 1, \"scale\": \"log\"}}",
                        &space, &f))
        fail_msg("%s", f.text);
    memset(&trials, 0, sizeof(trials));
    memset(&judge, 0, sizeof(judge));
    memset(list, 0, sizeof(list));
    trials.space = space;
    trials.list = list;
    trials.n = n;
    judge.trials = &trials;
    for (uint32_t i = 0; i < n; i++) {
        list[i].number = i + 1;
        list[i].label = TRIAL_CONVERGING;
        list[i].setting.value[0] = rates[i];
        list[i].figures.speed = speeds[i];
    }
}

static void expect(size_t n, const uint32_t numbers[])
{
    struct trial *out[FINALISTS_MAX];

    assert_int_equal(finalists_of(&judge, false, out), n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(out[i]->number, numbers[i]);
}

/* At the edge of what trains at all only rates near the edge are near the
 * fastest: one place is for a rate far below. */
static void finalists_at_the_edge_have_a_rate_far_below(void **state)
{
    (void)state;
    given(6, (double[]){0.6, 0.55, 0.5, 0.21, 0.15, 0.02},
          (double[]){10, 9.5, 9, 3, 2, 1});
    expect(3, (uint32_t[]){1, 4, 2});
    given(6, (double[]){0.6, 0.65, 0.59, 0.8, 0.21, 0.02},
          (double[]){10, 9, 9.5, 9, 3, 4});
    expect(3, (uint32_t[]){1, 2, 6});
}

/* Where near-fastest ones lie on both sides, they are the finalists. */
static void finalists_from_both_sides_fill_the_places(void **state)
{
    (void)state;
    given(5, (double[]){0.1, 0.3, 0.05, 0.02, 0.01},
          (double[]){10, 9.5, 9, 3, 2});
    expect(3, (uint32_t[]){1, 2, 3});
}

/* Where none is far below, the next fastest has the place. */
static void finalists_without_one_far_below_are_the_fastest(void **state)
{
    (void)state;
    given(4, (double[]){0.5, 0.4, 0.3, 0.26}, (double[]){10, 9, 5, 4});
    expect(3, (uint32_t[]){1, 2, 3});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finalists_at_the_edge_have_a_rate_far_below),
        cmocka_unit_test(finalists_from_both_sides_fill_the_places),
        cmocka_unit_test(finalists_without_one_far_below_are_the_fastest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
