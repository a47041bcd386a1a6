#include "base/json/json.h"
#include "base/mem.h"
#include "cli/compare/comparison.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/fixture/check.h"

/* Median and range, of odd and even numbers, and of none. */
static void spread_has_median_and_range(void **state)
{
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
    struct spread s = spread_of(odd, NULL, 3);

    (void)state;
    assert_true(s.median == 2 && s.min == 1 && s.max == 3 && s.n == 3);
    s = spread_of(even, NULL, 4);
    assert_true(s.median == 2.5 && s.min == 1 && s.max == 4);
    s = spread_of(NULL, NULL, 0);
    assert_true(s.n == 0 && isnan(s.median));
}

/* A time that is only known to be longer counts behind all that are known: it
 * never makes the median look shorter than it may be. */
static void spread_of_censored_times_is_marked(void **state)
{
    double mostly[] = {5, 2, 4}, half[] = {1, 9, 3, 3};
    bool mostly_above[] = {false, true, true};
    bool half_above[] = {true, false, false, true};
    double few[] = {5, 2, 4};
    bool few_above[] = {false, false, true};
    struct spread s = spread_of(mostly, mostly_above, 3);

    (void)state;
    assert_true(s.median == 2 && s.median_above && s.max_above && !s.min_above);
    assert_true(s.min == 5);
    s = spread_of(half, half_above, 4);
    assert_true(s.median_above && s.median == (9 + 1) / 2.);
    s = spread_of(few, few_above, 3);
    assert_true(s.median == 5 && !s.median_above && s.max == 4 && s.max_above);
}

static void fill(struct comparison *c)
{
    static const double target[] = {2, NAN, 4, NAN, NAN, NAN};

    assert_int_equal(comparison_init(c, 2, 3), ERR_OK);
    snprintf(c->name, sizeof(c->name), "toy");
    snprintf(c->metric, sizeof(c->metric), "accuracy");
    c->higher_better = true;
    c->target_metric = 0.9;
    for (size_t i = 0; i < 2; i++) {
        snprintf(c->row[i].label, sizeof(c->row[i].label), "row %c\"quoted\"",
                 (char)('a' + i));
        snprintf(c->row[i].strategy, sizeof(c->row[i].strategy), "mltuner");
        for (size_t k = 0; k < 3; k++) {
            struct comparison_run *r = &c->row[i].run[k];

            *r = (struct comparison_run){
                .seed = k + 1,
                .ran = i == 0 || k < 2,
                .whole = i == 0,
                .seconds = 10,
                .target_s = target[3 * i + k],
                .loss = 0.5,
                .metric = 0.8 + 0.01 * (double)k,
                .tuning_s = 2,
            };
            snprintf(r->status, sizeof(r->status), "%s",
                     i == 0 ? "finished" : "failed");
        }
    }
    c->row[1].run[1].seconds = NAN; /* it came to no clock */
}

/* The table for people: known, censored and failed runs, each as it is. */
static void comparison_prints_a_table(void **state)
{
    struct comparison c;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    (void)state;
    fill(&c);
    assert_int_equal(comparison_print(&c, out), 0);
    fclose(out);
    assert_non_null(strstr(text, "BEST accuracy"));
    assert_non_null(strstr(text, "4.0 s (2.0 s - >10.0 s)"));
    assert_non_null(strstr(text, "3/3"));
    assert_non_null(strstr(text, "0/3"));
    assert_non_null(strstr(text, "0.81 (0.8 - 0.82)"));
    assert_non_null(strstr(text, "20 % (20 - 20)"));
    assert_non_null(strstr(text, ">10.0 s ")); /* the one failed run that ran */
    assert_null(strstr(text, "have none"));
    free(text);
    c.row[0].run[1].metric = NAN; /* finished, and trained no epoch */
    out = open_memstream(&text, &len);
    assert_int_equal(comparison_print(&c, out), 0);
    fclose(out);
    assert_non_null(strstr(text, "(0.8 - 0.82); 1 of 3 have none"));
    assert_non_null(strstr(text, "3/3"));
    free(text);
    comparison_deinit(&c);
}

/* One whose records could not be read has neither reached the target nor missed
 * it; one that failed has missed it. */
static void run_left_out_is_no_missed_target(void **state)
{
    struct comparison c;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    json_t *o, *target;

    (void)state;
    fill(&c);
    c.row[0].run[1].unread = true;
    c.row[0].run[1].whole = false;
    assert_int_equal(comparison_print(&c, out), 0);
    fclose(out);
    assert_non_null(strstr(text, "3.0 s (2.0 s - 4.0 s)"));
    assert_non_null(strstr(text, "2/3"));
    assert_non_null(strstr(text, ">10.0 s ")); /* the one failed run that ran */
    free(text);
    o = comparison_json(&c);
    target = json_object_get(
        json_array_get(json_object_get(o, "strategies"), 0), "time_to_target");
    assert_int_equal(json_integer_value(json_object_get(target, "runs")), 2);
    assert_true(json_number_value(json_object_get(target, "max")) == 4);
    assert_true(json_is_false(json_object_get(target, "max_above")));
    json_decref(o);
    comparison_deinit(&c);
}

/* JSON and CSV hold every run that was made, and no NaN. */
static void comparison_is_saved_as_json_and_csv(void **state)
{
    struct comparison c;
    json_t *o, *row;
    char *csv, *line;
    int lines = 0;

    (void)state;
    fill(&c);
    o = comparison_json(&c);
    row = json_array_get(json_object_get(o, "strategies"), 0);
    assert_true(json_number_value(json_object_get(
                    json_object_get(row, "time_to_target"), "median")) == 4);
    assert_true(json_is_true(
        json_object_get(json_object_get(row, "time_to_target"), "max_above")));
    assert_int_equal(json_array_size(json_object_get(row, "runs")), 3);
    row = json_array_get(json_object_get(o, "strategies"), 1);
    assert_true(json_is_null(json_array_get(json_object_get(row, "runs"), 2)));
    assert_true(json_is_null(
        json_object_get(json_object_get(row, "quality"), "median")));
    csv = comparison_csv(&c);
    for (line = csv; (line = strstr(line, "\r\n")); line += 2)
        lines++;
    assert_int_equal(lines, 1 + 5);
    assert_non_null(strstr(csv, "\"row a\"\"quoted\"\"\",mltuner,,1,"));
    assert_null(strstr(csv, "nan"));
    mem_free(csv);
    json_decref(o);
    comparison_deinit(&c);
}

/* Each allocation failing in turn leaves nothing behind. */
static void comparison_out_of_memory_leaves_nothing(void **state)
{
    int64_t before;

    (void)state;
    before = mem_outstanding();
    for (int n = 1, failed = 1; failed; n++) {
        struct comparison c;
        json_t *o = NULL;
        char *csv = NULL;

        mem_fail_at(n, 0);
        if (comparison_init(&c, 2, 2) == ERR_OK) {
            c.row[0].run[0].ran = true;
            o = comparison_json(&c);
            csv = comparison_csv(&c);
        }
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_true(failed || (o && csv));
        json_decref(o);
        mem_free(csv);
        comparison_deinit(&c);
        assert_int_equal(mem_outstanding(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spread_has_median_and_range),
        cmocka_unit_test(spread_of_censored_times_is_marked),
        cmocka_unit_test(comparison_prints_a_table),
        cmocka_unit_test(run_left_out_is_no_missed_target),
        cmocka_unit_test(comparison_is_saved_as_json_and_csv),
        cmocka_unit_test(comparison_out_of_memory_leaves_nothing),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
