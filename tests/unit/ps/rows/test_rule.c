#include "base/rng.h"
#include "ps/rows/rule.h"
#include "tests/unit/fixture/check.h"

#include <math.h>

enum { WIDTH_MAX = 130, ROWS = 5 };

/* The rules once more, value by value in plain double arithmetic. */
static void plain_sgd(double *w, double *v, double g, struct rule_params p)
{
    double m = v ? p.momentum : 0;
    double u = (v ? m * *v : 0) + (1 - m) * g;

    if (v)
        *v = u;
    *w -= (double)p.learning_rate * u;
}

static void plain_adagrad(double *w, double *s, double g, struct rule_params p)
{
    *s += g * g;
    *w -= (double)p.learning_rate * g / sqrt(*s + 1e-16);
}

static void plain_nesterov(double *w, double *v, double g, struct rule_params p)
{
    double m = v ? p.momentum : 0;

    if (v)
        *v = m * *v + (1 - m) * g;
    *w -= (double)p.learning_rate * ((v ? m * *v : 0) + (1 - m) * g);
}

static void plain_rmsprop(double *w, double *s, double g, struct rule_params p)
{
    *s = 0.9 * *s + 0.1 * g * g;
    *w -= (double)p.learning_rate * g / sqrt(*s + 1e-16);
}

static void plain_adadelta(double *w, double *s, double *u, double g,
                           struct rule_params p)
{
    double x;

    *s = 0.95 * *s + 0.05 * g * g;
    x = sqrt(*u + 1e-6) / sqrt(*s + 1e-6) * g;
    *u = 0.95 * *u + 0.05 * x * x;
    *w -= (double)p.learning_rate * x;
}

/* As published, with the number of the step; epsilon under the root. */
static void plain_adam(double *w, double *m, double *v, double g, int step,
                       struct rule_params p)
{
    double a, b;

    *m = 0.9 * *m + (1 - 0.9) * g;
    *v = 0.999 * *v + (1 - 0.999) * g * g;
    a = *m / (1 - pow(0.9, step));
    b = *v / (1 - pow(0.999, step));
    *w -= (double)p.learning_rate * a / sqrt(b + 1e-16);
}

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 2e-6 * (1 + fabs(want))))
        fail_msg("got %.9g, want %.9g", got, want);
}

enum { ROW_MAX = 4 * WIDTH_MAX + 1 };

struct float_case {
    const struct rule_ops *rule;
    unsigned slots;
    uint32_t width;
    int step; /* from 1 */
    float row[ROWS][ROW_MAX];
    double plain[ROWS][ROW_MAX];
    float sum[ROWS][WIDTH_MAX];
};

/* Nothing comes late here (test_adarevision.c). */
static void plain_adarevision(double *w, uint32_t width, double g,
                              struct rule_params p)
{
    double *z = w + width, *most = z + width, *sum = most + width;

    plain_adagrad(w, z, g, p);
    *most = *z;
    *sum += g;
}

static void apply_plain_value(const struct float_case *c, double *w, double g,
                              struct rule_params p)
{
    const char *name = c->rule->name;
    double *s = w + c->width, *u = s + c->width; /* as far as there are slots */
    double *velocity = c->slots ? s : NULL;

    if (strcmp(name, "add") == 0)
        *w += g;
    else if (strcmp(name, "sgd") == 0)
        plain_sgd(w, velocity, g, p);
    else if (strcmp(name, "nesterov") == 0)
        plain_nesterov(w, velocity, g, p);
    else if (strcmp(name, "adagrad") == 0)
        plain_adagrad(w, s, g, p);
    else if (strcmp(name, "rmsprop") == 0)
        plain_rmsprop(w, s, g, p);
    else if (strcmp(name, "adadelta") == 0)
        plain_adadelta(w, s, u, g, p);
    else if (strcmp(name, "adam") == 0)
        plain_adam(w, s, u, g, c->step, p);
    else if (strcmp(name, "adarevision") == 0)
        plain_adarevision(w, c->width, g, p);
    else
        fail_msg("no plain form of rule %s", name);
}

static void plain_rpcs(double *w, uint32_t width, const float *g,
                       struct rule_params p)
{
    double *tail = w + width, rest = 0;

    for (uint32_t j = 1; j < width; j++)
        rest += (double)g[j] * (double)g[j] / (width - 1);
    tail[0] += (double)g[0] * (double)g[0];
    tail[1] += rest;
    for (uint32_t j = 0; j < width; j++)
        w[j] -= (double)p.learning_rate * (double)g[j] / sqrt(1 + tail[j > 0]);
}

static void apply_plain(struct float_case *c, size_t row, struct rule_params p)
{
    double *at = c->plain[row];

    if (strcmp(c->rule->name, "add") != 0)
        for (uint32_t j = 0; j < c->width / 2; j++)
            at[j] -= (double)p.learning_rate * (double)p.weight_decay * at[j];

    if (strcmp(c->rule->name, "rpcs") == 0) {
        plain_rpcs(at, c->width, c->sum[row], p);
        return;
    }
    for (uint32_t j = 0; j < c->width; j++)
        apply_plain_value(c, &at[j], c->sum[row][j], p);
}

static void apply_kernel(struct float_case *c, struct rule_params p)
{
    void *row[ROWS];
    const void *sum[ROWS];
    struct rule_batch b = {ROWS,    row,      sum, c->width,
                           MLT_F32, c->slots, p,   NULL};

    for (int i = 0; i < ROWS; i++) {
        row[i] = c->row[i];
        sum[i] = c->sum[i];
    }
    rule_apply(c->rule, &b, c->width - c->width / 2);
}

/* Decay acts on the first half. */
static void check_rule(const struct rule_ops *rule, unsigned flags,
                       uint32_t width, float decay)
{
    static struct float_case c;
    struct rule_params p = {0.1f, 0.9f, decay, 0, 0, 0};
    struct rng rng;

    memset(&c, 0, sizeof(c));
    c.rule = rule;
    c.slots = rule->slots(flags);
    c.width = width;
    rng_init(&rng, width);
    for (c.step = 1; c.step <= 20; c.step++) {
        for (int i = 0; i < ROWS; i++) {
            for (uint32_t j = 0; j < width; j++)
                c.sum[i][j] = (float)rng_normal(&rng);
            apply_plain(&c, (size_t)i, p);
        }
        apply_kernel(&c, p);
    }
    for (int i = 0; i < ROWS; i++)
        for (uint32_t j = 0; j < (1 + c.slots) * width; j++)
            assert_near(c.row[i][j], c.plain[i][j]);
    assert_true(c.row[0][(1 + c.slots) * width + rule->tail] == 0);
}

/* Every rule equals its plain form at every width, remainders of the vector
 * loops included, and writes nothing behind the row. */
static void rule_any_width_equals_plain_reference(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i); i++)
        for (uint32_t width = 1; width < WIDTH_MAX; width++) {
            check_rule(rule_at(i), 0, width, 0);
            check_rule(rule_at(i), MLT_NO_MOMENTUM, width, 0);
            check_rule(rule_at(i), width % 2 ? 0 : MLT_NO_MOMENTUM, width,
                       0.5f);
        }
}

/* Four steps of PyTorch's AdamW (1.13, lr 0.1, weight_decay 0.3). */
static void adam_with_decay_is_adamw(void **state)
{
    static const double want[4][3] = {{0.870000002, -2.04, 0.584999992},
                                      {0.75068204, -2.0753182, 0.66396819},
                                      {0.656103825, -2.10885878, 0.739849263},
                                      {0.606302963, -2.14163404, 0.813694809}};
    float row[12] = {1, -2, 0.5f}, g[3];
    void *rows[1] = {row};
    const void *sums[1] = {g};
    struct rule_batch b = {
        1, rows, sums, 3, MLT_F32, 2, {0.1f, 0, 0.3f, 0, 0, 0}, NULL};

    (void)state;
    for (int k = 0; k < 4; k++) {
        g[0] = 0.5f - 0.25f * (float)k;
        g[1] = 1 + (float)k;
        g[2] = -0.125f * (float)(k + 1);
        rule_apply(rule_find("adam"), &b, 0);
        for (int j = 0; j < 3; j++)
            assert_near(row[j], want[k][j]);
    }
}

/* The rule "any" has the bits of the rule that is chosen, begun anew at a
 * change: empty slots, Adam's corrections from their first step. */
static void rule_any_begins_anew_at_a_change(void **state)
{
    const struct rule_ops *any = rule_find("any");
    uint32_t number;

    (void)state;
    assert_int_equal(rule_choice("add", &number, NULL), ERR_INVAL);
    assert_int_equal(rule_choice("any", &number, NULL), ERR_INVAL);
    for (size_t i = 0; rule_at(i); i++) {
        const struct rule_ops *rule = rule_at(i);
        float row[5 * 5] = {1, 2, 3, 4, 5}, own[5 * 5];
        float g[5] = {0.5f, -1, 0.25f, 2, -3};
        void *rows[1] = {row};
        const void *sums[1] = {g};
        struct rule_batch b = {1,
                               rows,
                               sums,
                               5,
                               MLT_F32,
                               any->slots(0),
                               {0.25f, 0.5f, 0.125f, 0, 0, 0},
                               NULL};

        if (rule_choice(rule->name, &number, NULL))
            continue;
        assert_int_equal(
            rule_choice(i % 2 ? "adam" : "nesterov", &b.params.rule, NULL), 0);
        for (int k = 0; k < 3; k++)
            rule_apply(any, &b, 1);
        memset(own, 0, sizeof(own));
        memcpy(own, row, 5 * sizeof(float));
        for (int k = 0; k < 5; k++, g[k - 1] = -1.5f) {
            b.params.rule = number;
            b.slots = any->slots(0);
            rows[0] = row;
            if (strcmp(rule->name, i % 2 ? "adam" : "nesterov") != 0)
                rule_apply(any, &b, 1);
            b.slots = rule->slots(0);
            rows[0] = own;
            rule_apply(rule, &b, 1);
            if (strcmp(rule->name, i % 2 ? "adam" : "nesterov") != 0)
                assert_memory_equal(row, own, 5 * sizeof(float));
        }
    }
}

/* A row that is not updated while another rule is chosen goes on with its own
 * slots, as if there had been no other: the departure that docs/algorithms.md
 * tells. One that was begins anew. */
static void rule_any_untouched_rows_keep_their_slots(void **state)
{
    const struct rule_ops *any = rule_find("any");
    uint32_t adam, nesterov;
    float row[3][5 * 5] = {{1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}};
    float g[5] = {0.5f, -1, 0.25f, 2, -3};
    void *rows[3] = {row[0], row[1], row[2]}, *second[1] = {row[1]};
    const void *sums[3] = {g, g, g};
    struct rule_batch b = {
        3,   rows, sums, 5, MLT_F32, any->slots(0), {0.25f, 0.5f, 0, 0, 0, 0},
        NULL};

    (void)state;
    assert_int_equal(rule_choice("adam", &adam, NULL), 0);
    assert_int_equal(rule_choice("nesterov", &nesterov, NULL), 0);
    b.params.rule = adam;
    rule_apply(any, &b, 0);
    b.n = 1;
    b.row = second;
    b.params.rule = nesterov;
    b.params.learning_rate = 0; /* the values stay, the slots do not */
    rule_apply(any, &b, 0);
    b.params.learning_rate = 0.25f;
    b.params.rule = adam;
    assert_memory_equal(row[0], row[1], 5 * sizeof(float));
    b.n = 3;
    b.row = rows;
    g[0] = -1.5f;
    rule_apply(any, &b, 0);
    assert_memory_equal(row[0], row[2], sizeof(row[0]));
    assert_memory_not_equal(row[0], row[1], 5 * sizeof(float));
}

/* The rate rises by equal steps to its full value, wherever one begins to
 * count, and nothing else changes. */
static void rule_params_warm_up(void **state)
{
    struct rule_params p = {0.5f, 0.75f, 0.25f, 3, 8, 0}, at;

    (void)state;
    for (uint64_t clock = 0; clock < 20; clock++)
        for (p.warmed = 0; p.warmed <= clock; p.warmed++) {
            float share = clock < 8 ? (float)(clock + 1) / 8 : 1;

            at = rule_params_at(&p, clock - p.warmed);
            assert_true(at.learning_rate == 0.5f * share);
            assert_true(at.momentum == 0.75f && at.weight_decay == 0.25f);
            assert_int_equal(at.rule, 3);
        }
    p.warmup = 0;
    p.warmed = 0;
    assert_true(rule_params_at(&p, 0).learning_rate == 0.5f);
}

/* Slots know nothing of a decay, and what is left alone has the bits that it
 * has without. */
static void rule_decay_touches_its_values_alone(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i); i++) {
        const struct rule_ops *rule = rule_at(i);
        float row[2][40] = {{1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}};
        const float g[5] = {0.5f, -1, 0.25f, 2, -3};
        void *rows[1] = {row[0]};
        const void *sums[1] = {g};
        struct rule_batch b = {1,
                               rows,
                               sums,
                               5,
                               MLT_F32,
                               rule->slots(0),
                               {0.25f, 0.5f, 0, 0, 0, 0},
                               NULL};
        bool decays = strcmp(rule->name, "add") != 0;

        rule_apply(rule, &b, 2);
        rows[0] = row[1];
        b.params.weight_decay = 0.5f;
        rule_apply(rule, &b, 2);
        assert_memory_equal(row[0] + 3, row[1] + 3, 37 * sizeof(float));
        for (int j = 0; j < 3; j++)
            assert_true((row[0][j] != row[1][j]) == decays);
    }
}

/* A row that occurs twice in a batch is updated twice, in order: the bits are
 * those of two calls. */
static void rule_row_twice_in_batch_equals_two_calls(void **state)
{
    struct rule_params p = {0.3f, 0.5f, 0.25f, 0, 0, 0};

    (void)state;
    for (size_t i = 0; rule_at(i); i++) {
        const struct rule_ops *rule = rule_at(i);
        float together[128] = {0}, apart[128] = {0}, g[2][32];
        void *row[2] = {together, together};
        const void *sum[2] = {g[0], g[1]};
        struct rule_batch b = {2, row, sum, 32, MLT_F32, rule->slots(0),
                               p, NULL};

        for (int j = 0; j < 32; j++) {
            g[0][j] = (float)(j + 1);
            g[1][j] = (float)(5 - j);
        }
        rule_apply(rule, &b, 4);
        b.n = 1;
        row[0] = apart;
        rule_apply(rule, &b, 4);
        sum[0] = g[1];
        rule_apply(rule, &b, 4);
        assert_memory_equal(together, apart, sizeof(apart));
    }
}

/* Under adagrad a value whose gradient is zero stays as it is, also before it
 * had any other (no 0 / 0), and the first step is the learning rate. */
static void adagrad_zero_gradient_changes_nothing(void **state)
{
    float row[4] = {1.5f, 2.0f, 0, 0}, g[2] = {0, -4};
    void *rows[1] = {row};
    const void *sums[1] = {g};
    struct rule_batch b = {
        1, rows, sums, 2, MLT_F32, 1, {0.25f, 0, 0, 0, 0, 0}, NULL};

    (void)state;
    rule_find("adagrad")->apply(&b);
    assert_true(row[0] == 1.5f && row[2] == 0);
    assert_near(row[1], 2.25);
    assert_near(row[3], 16);
}

/* A row whose gradients are zero from the start stays as it is under every
 * rule, and one with any keeps finite: no 0 / 0 in the corrections. */
static void rule_zero_gradient_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i); i++) {
        float row[8] = {1.5f, -2.0f}, g[2] = {0, 0};
        void *rows[1] = {row};
        const void *sums[1] = {g};
        const struct rule_ops *rule = rule_at(i);
        struct rule_batch b = {1,
                               rows,
                               sums,
                               2,
                               MLT_F32,
                               rule->slots(0),
                               {0.25f, 0.9f, 0, 0, 0, 0},
                               NULL};

        for (int step = 0; step < 3; step++)
            rule->apply(&b);
        assert_true(row[0] == 1.5f && row[1] == -2.0f);
        g[0] = 1e-6f;
        rule->apply(&b);
        assert_true(isfinite(row[0]) && row[1] == -2.0f);
    }
}

/* Adam's first step is the learning rate, whatever the gradient's size; and a
 * row that was updated less often has its own corrections. */
static void adam_first_step_is_the_learning_rate(void **state)
{
    float g[1] = {-3e4f};

    (void)state;
    for (int i = 0; i < 3; i++, g[0] /= -1e3f) {
        float row[5] = {0};
        void *rows[1] = {row};
        const void *sums[1] = {g};
        struct rule_batch b = {
            1, rows, sums, 1, MLT_F32, 2, {0.25f, 0, 0, 0, 0, 0}, NULL};

        rule_find("adam")->apply(&b);
        assert_near(row[0], g[0] < 0 ? 0.25 : -0.25);
    }
}

/* Sums of integers wrap instead of overflowing; doubles keep their precision.
 */
static void rule_add_other_types_are_exact(void **state)
{
    int32_t a[3] = {INT32_MAX, -5, 7}, d[3] = {1, 5, -9};
    double x[2] = {1, 1e300}, y[2] = {1e-15, 1e300};
    void *row[1] = {a};
    const void *sum[1] = {d};
    struct rule_batch b = {1,   row, sum, 3, MLT_I32, 0, {0, 0, 0, 0, 0, 0},
                           NULL};

    (void)state;
    rule_find("add")->apply(&b);
    assert_int_equal(a[0], INT32_MIN);
    assert_int_equal(a[1], 0);
    assert_int_equal(a[2], -2);
    row[0] = x;
    sum[0] = y;
    b.width = 2;
    b.type = MLT_F64;
    rule_find("add")->apply(&b);
    assert_true(x[0] == 1 + 1e-15 && x[1] == 2e300);
}

/* Accumulating equals adding in a loop, for each type. */
static void rule_accumulate_adds_in_the_type(void **state)
{
    float f[3] = {1, 2, 3}, df[3] = {.5f, .5f, .5f};
    int32_t i[3] = {INT32_MAX, 2, 3}, di[3] = {1, -2, 4};
    double g[3] = {1, 2, 3}, dg[3] = {1e-15, 0, -3};

    (void)state;
    rule_accumulate(MLT_F32, 3, f, df);
    rule_accumulate(MLT_I32, 3, i, di);
    rule_accumulate(MLT_F64, 3, g, dg);
    assert_true(f[0] == 1.5f && f[2] == 3.5f);
    assert_true(i[0] == INT32_MIN && i[1] == 0 && i[2] == 7);
    assert_true(g[0] == 1 + 1e-15 && g[2] == 0);
}

/* The registry finds what it lists, by the names that messages show. */
static void rule_registry_lists_what_it_finds(void **state)
{
    char names[256] = "";

    (void)state;
    for (size_t i = 0; rule_at(i); i++) {
        assert_ptr_equal(rule_find(rule_at(i)->name), rule_at(i));
        strcat(strcat(names, i ? ", " : ""), rule_at(i)->name);
    }
    assert_string_equal(names, rule_names());
    assert_null(rule_find("sgdm"));
    assert_null(rule_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rule_any_width_equals_plain_reference),
        cmocka_unit_test(adam_with_decay_is_adamw),
        cmocka_unit_test(rule_any_begins_anew_at_a_change),
        cmocka_unit_test(rule_any_untouched_rows_keep_their_slots),
        cmocka_unit_test(rule_params_warm_up),
        cmocka_unit_test(rule_decay_touches_its_values_alone),
        cmocka_unit_test(rule_row_twice_in_batch_equals_two_calls),
        cmocka_unit_test(adagrad_zero_gradient_changes_nothing),
        cmocka_unit_test(rule_zero_gradient_changes_nothing),
        cmocka_unit_test(adam_first_step_is_the_learning_rate),
        cmocka_unit_test(rule_add_other_types_are_exact),
        cmocka_unit_test(rule_accumulate_adds_in_the_type),
        cmocka_unit_test(rule_registry_lists_what_it_finds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
