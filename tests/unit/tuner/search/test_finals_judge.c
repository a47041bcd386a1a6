/* Choice of a finalist, from what its epochs brought. */
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tuner/board/parts.h"
#include "tuner/board/run.h"
#include "tuner/search/finals_judge.h"

#include <math.h>
#include <stdio.h>

/* Two finalists or more on a board that knows nothing but the metric. */
struct scene {
    struct board *c;
    struct finals f;
};

static void scene_init(struct scene *s, const char *reduction, bool higher,
                       uint64_t validation)
{
    const struct space space = {.len = 0};
    struct tuner_options options = TUNER_OPTIONS;
    struct msg_ready ready = {
        .samples = 1,
        .workers = 1,
        .validation_samples = validation,
        .metric_higher_better = higher,
    };

    options.space = &space;
    snprintf(ready.metric_reduction, sizeof(ready.metric_reduction), "%s",
             reduction);
    *s = (struct scene){.c = mem_calloc(1, sizeof(*s->c))};
    assert_non_null(s->c);
    assert_int_equal(run_init(s->c, &options), ERR_OK);
    run_take_ready(s->c, &ready);
    s->f.c = s->c;
    s->f.step = 1;
}

static void scene_deinit(struct scene *s)
{
    run_deinit(s->c);
    mem_free(s->c);
}

/* Another finalist, whose epochs take @epoch each. */
static struct finalist *add(struct scene *s, double epoch)
{
    struct finalist *x = &s->f.f[s->f.n++];

    x->run = epoch;
    return x;
}

static void epoch(struct finalist *x, double loss, double metric)
{
    uint32_t i = x->epochs++;

    x->time[i] = x->run * x->epochs;
    x->epoch[i].e.loss = loss;
    x->epoch[i].metric = metric;
}

/* The finals of a run on MNIST (docs/results/strategies.md): the fastest of
 * three, whose accuracy had fallen by a third of its error, is not given up for
 * one whose loss is half as large again. */
static void finals_judge_accuracies_in_doubt_are_decided_by_the_loss(void **st)
{
    struct scene s;
    struct finalist *fast, *slow;

    (void)st;
    scene_init(&s, "mean", true, 2000);
    slow = add(&s, 1);
    epoch(slow, 0.5, 0.95);
    epoch(slow, 0.146, 0.9625);
    fast = add(&s, 1);
    epoch(fast, 0.3, 0.9575);
    epoch(fast, 0.096, 0.956);
    assert_ptr_equal(finals_best(&s.f, 2, NULL), fast);
    assert_ptr_equal(finals_best(&s.f, 2, fast), slow);
    assert_false(finals_alike(&s.f, fast, slow, 2));
    scene_deinit(&s);
}

/* An accuracy that is clearly worse is, whatever the loss. */
static void finals_judge_clear_accuracy_decides(void **st)
{
    struct scene s;
    struct finalist *steady, *jumpy;

    (void)st;
    scene_init(&s, "mean", true, 2000);
    jumpy = add(&s, 1);
    epoch(jumpy, 0.32, 0.932);
    epoch(jumpy, 0.096, 0.881);
    steady = add(&s, 1);
    epoch(steady, 0.43, 0.938);
    epoch(steady, 0.138, 0.946);
    assert_ptr_equal(finals_best(&s.f, 2, NULL), steady);
    assert_false(finals_alike(&s.f, steady, jumpy, 2));
    scene_deinit(&s);
}

/* The loss chooses among all whom the metric does not tell from its first, not
 * from each other's neighbours. */
static void finals_judge_doubt_is_counted_from_the_first(void **st)
{
    struct scene s;
    struct finalist *first, *near, *far;

    (void)st;
    scene_init(&s, "mean", true, 2000);
    far = add(&s, 1);
    epoch(far, 0.1, 0.94);
    near = add(&s, 1);
    epoch(near, 0.2, 0.951);
    first = add(&s, 1);
    epoch(first, 0.3, 0.962);
    assert_ptr_equal(finals_best(&s.f, 1, NULL), near);
    assert_ptr_equal(finals_best(&s.f, 1, near), first);
    near->out = true;
    assert_ptr_equal(finals_best(&s.f, 1, NULL), first);
    assert_ptr_equal(finals_best(&s.f, 1, first), far);
    scene_deinit(&s);
}

/* Neither metric nor loss tells them apart: it does not matter. */
static void finals_judge_alike_is_alike_in_both(void **st)
{
    struct scene s;
    struct finalist *a, *b;

    (void)st;
    scene_init(&s, "mean", true, 2000);
    a = add(&s, 1);
    epoch(a, 0.300, 0.949);
    b = add(&s, 1);
    epoch(b, 0.303, 0.942);
    assert_true(finals_alike(&s.f, a, b, 1));
    b->epoch[0].e.loss = 0.37;
    assert_false(finals_alike(&s.f, a, b, 1));
    scene_deinit(&s);
}

/* No error is known of an RMSE: value and outlook decide, and nothing is
 * alike. */
static void finals_judge_other_metrics_have_an_outlook(void **st)
{
    struct scene s;
    struct finalist *rising, *falling;

    (void)st;
    scene_init(&s, "sqrt_mean", false, 2000);
    rising = add(&s, 1);
    epoch(rising, 0.1, 0.860);
    epoch(rising, 0.1, 0.861);
    falling = add(&s, 1);
    epoch(falling, 0.2, 0.870);
    epoch(falling, 0.2, 0.862);
    assert_ptr_equal(finals_best(&s.f, 2, NULL), falling);
    assert_false(finals_alike(&s.f, rising, falling, 2));
    scene_deinit(&s);
}

/* An error is looked ahead of in proportion: who fell from far above has not
 * passed, by that, one that is far below. */
static void finals_judge_outlook_is_in_proportion(void **st)
{
    struct scene s;
    struct finalist *jumped, *low;

    (void)st;
    scene_init(&s, "sqrt_mean", false, 2000);
    jumped = add(&s, 1);
    epoch(jumped, 1, 10);
    epoch(jumped, 1, 4);
    low = add(&s, 1);
    epoch(low, 1, 1.5);
    epoch(low, 1, 1);
    assert_ptr_equal(finals_best(&s.f, 2, NULL), low);
    scene_deinit(&s);
}

/* A rise of the error counts as it is, and is not doubled. */
static void finals_judge_a_rise_is_not_carried_on(void **st)
{
    struct scene s;
    struct finalist *noisy, *slow;

    (void)st;
    scene_init(&s, "sqrt_mean", false, 2000);
    noisy = add(&s, 1);
    epoch(noisy, 0.340, 4.991);
    epoch(noisy, 0.326, 5.165);
    slow = add(&s, 1);
    epoch(slow, 0.377, 5.242);
    epoch(slow, 0.355, 5.237);
    assert_ptr_equal(finals_best(&s.f, 2, NULL), noisy);
    assert_ptr_equal(finals_best(&s.f, 2, noisy), slow);
    scene_deinit(&s);
}

/* At equal time: between epochs on the line that joins them. Without
 * validation the loss counts, as it is. */
static void finals_judge_compares_at_equal_time(void **st)
{
    struct scene s;
    struct finalist *cheap, *dear;

    (void)st;
    scene_init(&s, "mean", false, 0);
    cheap = add(&s, 1);
    epoch(cheap, 0.5, 0);
    epoch(cheap, 0.4, 0);
    epoch(cheap, 0.3, 0);
    dear = add(&s, 1.5);
    epoch(dear, 0.6, 0);
    epoch(dear, 0.24, 0);
    assert_true(finals_score_at(&s.f, dear, 2) > 0.479);
    assert_true(finals_score_at(&s.f, dear, 2) < 0.481);
    assert_ptr_equal(finals_best(&s.f, 2, NULL), cheap);
    assert_ptr_equal(finals_best(&s.f, 3, NULL), dear);
    scene_deinit(&s);
}

static void fell(struct finalist *x, double metric)
{
    x->fallen.over = x->fallen.seen = true;
    x->fallen.epoch.e.loss = 1;
    x->fallen.epoch.metric = metric;
}

/* The finals of `nn-newcomer` (docs/results.md): at a steady rate the slower
 * one fell from higher. With its rate fallen the faster one is far ahead. */
static void finals_judge_the_fallen_by_what_they_came_to(void **st)
{
    struct scene s;
    struct finalist *slow, *fast, *out;

    (void)st;
    scene_init(&s, "sqrt_mean", false, 2000);
    slow = add(&s, 1);
    epoch(slow, 1, 9);
    epoch(slow, 1, 5);
    fast = add(&s, 1);
    epoch(fast, 1, 4.5);
    epoch(fast, 1, 3.9);
    out = add(&s, 1);
    epoch(out, 1, 9);
    out->out = true;
    assert_true(finals_has_outlook(&s.f, slow));
    assert_ptr_equal(finals_best(&s.f, 2, NULL), slow);
    assert_null(finals_best_fallen(&s.f));
    fell(slow, 4.4);
    assert_null(finals_best_fallen(&s.f)); /* one was not seen */
    fell(fast, 2.1);
    assert_ptr_equal(finals_best_fallen(&s.f), fast);
    fell(slow, NAN); /* a number is better than none */
    assert_ptr_equal(finals_best_fallen(&s.f), fast);
    fell(slow, 4.4);
    fell(fast, NAN);
    assert_ptr_equal(finals_best_fallen(&s.f), slow);
    fell(slow, NAN);
    assert_null(finals_best_fallen(&s.f));
    scene_deinit(&s);
}

/* An accuracy's outlook does not decide: its error is known. */
static void finals_judge_accuracies_have_no_outlook(void **st)
{
    struct scene s;
    struct finalist *x;

    (void)st;
    scene_init(&s, "mean", true, 2000);
    x = add(&s, 1);
    epoch(x, 1, 0.9);
    assert_false(finals_has_outlook(&s.f, x));
    scene_deinit(&s);
    scene_init(&s, "mean", false, 0);
    x = add(&s, 1);
    epoch(x, 1, 0.9);
    assert_false(finals_has_outlook(&s.f, x));
    scene_deinit(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            finals_judge_accuracies_in_doubt_are_decided_by_the_loss),
        cmocka_unit_test(finals_judge_clear_accuracy_decides),
        cmocka_unit_test(finals_judge_doubt_is_counted_from_the_first),
        cmocka_unit_test(finals_judge_alike_is_alike_in_both),
        cmocka_unit_test(finals_judge_other_metrics_have_an_outlook),
        cmocka_unit_test(finals_judge_outlook_is_in_proportion),
        cmocka_unit_test(finals_judge_a_rise_is_not_carried_on),
        cmocka_unit_test(finals_judge_compares_at_equal_time),
        cmocka_unit_test(finals_judge_the_fallen_by_what_they_came_to),
        cmocka_unit_test(finals_judge_accuracies_have_no_outlook),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
