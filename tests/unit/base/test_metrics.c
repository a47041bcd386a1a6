/* Names of metrics, their direction and who has them. */
#include "base/metrics.h"
#include "tests/unit/fixture/check.h"

#include <string.h>

/* Of two classes there is one more than of three, and of numbers others. */
static void metrics_are_listed_by_task(void **state)
{
    char text[METRICS_TEXT_MAX];

    (void)state;
    assert_string_equal(metrics_text(2, text),
                        "accuracy, balanced_accuracy, macro_f1, log_loss, auc");
    assert_string_equal(metrics_text(3, text),
                        "accuracy, balanced_accuracy, macro_f1, log_loss");
    assert_string_equal(metrics_text(0, text), "rmse, mae, r2");
}

/* An error is better when it is less, a score when it is more. */
static void metrics_have_a_direction(void **state)
{
    static const char *const less[] = {"log_loss", "rmse", "mae"};

    (void)state;
    for (int task = 0; task < METRIC_TASKS; task++) {
        size_t n;
        const struct metric *m = metrics_of((enum metric_task)task, &n);

        for (size_t i = 0; i < n; i++) {
            bool lower = false;

            for (size_t k = 0; k < sizeof(less) / sizeof(*less); k++)
                lower |= strcmp(m[i].name, less[k]) == 0;
            assert_true(m[i].higher_better == !lower);
            assert_ptr_equal(metrics_find((enum metric_task)task, m[i].name),
                             &m[i]);
        }
    }
    assert_string_equal(metrics_direction(true), "higher is better");
    assert_string_equal(metrics_direction(false), "lower is better");
}

/* A schema's word for a task; another one means none that is known. */
static void metrics_tasks_have_names(void **state)
{
    (void)state;
    assert_int_equal(metrics_task("classes"), METRICS_OF_CLASSES);
    assert_int_equal(metrics_task("numbers"), METRICS_OF_NUMBERS);
    assert_int_equal(metrics_task("topics"), METRIC_TASKS);
    assert_int_equal(metrics_task(NULL), METRIC_TASKS);
    assert_null(metrics_find(METRICS_OF_NUMBERS, "auc"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_are_listed_by_task),
        cmocka_unit_test(metrics_have_a_direction),
        cmocka_unit_test(metrics_tasks_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
