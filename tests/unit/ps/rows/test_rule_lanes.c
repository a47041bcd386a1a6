#include "base/rng.h"
#include "ps/rows/rule_lanes.h"

#include <math.h>

#include "tests/unit/fixture/check.h"

enum { ROWS = 3, WIDTH_MAX = 70, STEPS = 5 };

/* Rows of values and what the rule keeps, gradients of two kinds. */
struct rows {
    float row[ROWS][2 * WIDTH_MAX + 3], sum[ROWS][WIDTH_MAX];
    float with[ROWS][WIDTH_MAX], scale[ROWS];
    void *at[ROWS];
    const void *sums[ROWS];
    const float *others[ROWS];
    struct rule_batch b;
    struct rule_mix m;
};

static void make(struct rows *r, uint32_t width, unsigned slots)
{
    struct rng rng;

    memset(r, 0, sizeof(*r));
    rng_init(&rng, width);
    for (size_t i = 0; i < ROWS; i++) {
        for (uint32_t j = 0; j < width; j++) {
            r->row[i][j] = (float)rng_normal(&rng);
            r->sum[i][j] = (float)rng_normal(&rng);
            r->with[i][j] = (float)rng_normal(&rng);
        }
        r->scale[i] = (float)rng_normal(&rng);
        r->at[i] = r->row[i];
        r->sums[i] = r->sum[i];
        r->others[i] = r->with[i];
    }
    r->b = (struct rule_batch){.n = ROWS,
                               .row = r->at,
                               .sum = r->sums,
                               .width = width,
                               .type = MLT_F32,
                               .slots = slots,
                               .params = {0.1f, 0}};
    r->m = (struct rule_mix){0.05f, r->scale, r->others};
}

static void expect_near(const struct rows *a, const struct rows *b)
{
    for (size_t i = 0; i < ROWS; i++)
        for (uint32_t j = 0; j < (1 + a->b.slots) * a->b.width + 3; j++) {
            double got = (double)a->row[i][j], want = (double)b->row[i][j];

            if (!(fabs(got - want) <= 3e-6 * (1 + fabs(want))))
                fail_msg("width %u, row %zu, %u: %.9g and %.9g", a->b.width, i,
                         j, got, want);
        }
}

static const struct rule_lanes *plain(void)
{
    size_t i = 0;

    while (rule_lanes_at(i + 1))
        i++;
    assert_int_equal(rule_lanes_at(i)->lanes, 1);
    return rule_lanes_at(i);
}

static void check_width(const struct rule_lanes *l, uint32_t width)
{
    static struct rows a, b;

    make(&a, width, 1);
    make(&b, width, 1);
    for (int k = 0; k < STEPS; k++) {
        l->adagrad(&a.b);
        l->adagrad_mix(&a.b, &a.m);
        plain()->adagrad(&b.b);
        plain()->adagrad_mix(&b.b, &b.m);
    }
    expect_near(&a, &b);
    make(&a, width, 0);
    make(&b, width, 0);
    for (int k = 0; k < STEPS; k++) {
        l->rpcs(&a.b);
        l->rpcs_mix(&a.b, &a.m);
        plain()->rpcs(&b.b);
        plain()->rpcs_mix(&b.b, &b.m);
    }
    expect_near(&a, &b);
    make(&a, width, 0);
    make(&b, width, 0);
    for (int k = 0; k < STEPS; k++) {
        l->sgd_mix(&a.b, &a.m);
        plain()->sgd_mix(&b.b, &b.m);
    }
    expect_near(&a, &b);
}

/* Each width of vector that this processor has does what plain C does, at every
 * width of row, and writes nothing behind it. */
static void lanes_equal_plain_ones(void **state)
{
    (void)state;
    for (size_t i = 0; rule_lanes_at(i); i++)
        if (rule_lanes_at(i)->works())
            for (uint32_t width = 1; width <= WIDTH_MAX; width++)
                check_width(rule_lanes_at(i), width);
}

/* A gradient that is made where it is used gives adagrad and rpcs the bits
 * that one gives that was written down, at each width of vector. */
static void lanes_mix_equals_written_sums(void **state)
{
    static struct rows a, b;
    static float out[ROWS * WIDTH_MAX];

    (void)state;
    for (size_t i = 0; rule_lanes_at(i); i++)
        for (uint32_t width = 1; width <= WIDTH_MAX; width++) {
            const struct rule_lanes *l = rule_lanes_at(i);

            if (!l->works())
                continue;
            make(&a, width, 1);
            make(&b, width, 1);
            for (int k = 0; k < STEPS; k++) {
                l->adagrad_mix(&a.b, &a.m);
                l->mix_sums(&b.b, &b.m, out);
                for (size_t r = 0; r < ROWS; r++)
                    b.sums[r] = out + r * width;
                l->adagrad(&b.b);
            }
            assert_memory_equal(a.row, b.row, sizeof(a.row));
            make(&a, width, 0);
            make(&b, width, 0);
            for (int k = 0; k < STEPS; k++) {
                l->rpcs_mix(&a.b, &a.m);
                l->mix_sums(&b.b, &b.m, out);
                for (size_t r = 0; r < ROWS; r++)
                    b.sums[r] = out + r * width;
                l->rpcs(&b.b);
            }
            assert_memory_equal(a.row, b.row, sizeof(a.row));
        }
}

static void cross_by_mixes(void (*mix)(const struct rule_batch *,
                                       const struct rule_mix *),
                           struct rows *a, struct rows *b)
{
    static float before[ROWS][WIDTH_MAX];
    struct rule_mix m = a->m;

    for (size_t i = 0; i < ROWS; i++) {
        memcpy(before[i], a->row[i], a->b.width * sizeof(float));
        a->others[i] = b->row[i];
        b->others[i] = before[i];
    }
    mix(&a->b, &m);
    m.with = b->others;
    mix(&b->b, &m);
}

/* Both rows of pairs at once, each with the other as it was: the bits of two
 * mixes, one of them with copies, at each width of vector. */
static void lanes_cross_equals_two_mixes(void **state)
{
    static struct rows a, b, c, d;

    (void)state;
    for (size_t i = 0; rule_lanes_at(i); i++)
        for (uint32_t width = 1; width < WIDTH_MAX; width++)
            for (unsigned slots = 0; slots < 2; slots++) {
                const struct rule_lanes *l = rule_lanes_at(i);
                struct rule_cross cross;

                if (!l->works())
                    continue;
                make(&a, width, slots);
                make(&c, width, slots);
                make(&b, width + 1, slots); /* other values */
                make(&d, width + 1, slots);
                b.b.width = d.b.width = width;
                memset(b.row, 0, sizeof(b.row));
                memset(d.row, 0, sizeof(d.row));
                for (size_t r = 0; r < ROWS; r++)
                    for (uint32_t j = 0; j < width; j++)
                        b.row[r][j] = d.row[r][j] = b.with[r][j];
                cross = (struct rule_cross){a.m.own, a.scale, b.at};
                for (int k = 0; k < STEPS; k++) {
                    (slots ? l->adagrad_cross : l->sgd_cross)(&a.b, &cross);
                    cross_by_mixes(slots ? l->adagrad_mix : l->sgd_mix, &c, &d);
                }
                assert_memory_equal(a.row, c.row, sizeof(a.row));
                assert_memory_equal(b.row, d.row, sizeof(b.row));
            }
}

/* The plain loops are the formulas. */
static void lanes_plain_are_the_formulas(void **state)
{
    static struct rows r;
    double g, s, w;

    (void)state;
    make(&r, 1, 1);
    w = (double)r.row[0][0];
    g = 0.05 * w + (double)r.scale[0] * (double)r.with[0][0];
    s = g * g;
    plain()->adagrad_mix(&r.b, &r.m);
    assert_true(fabs((double)r.row[0][1] - s) < 1e-6);
    assert_true(fabs((double)r.row[0][0] - (w - 0.1 * g / sqrt(s))) < 1e-6);
    make(&r, 1, 0);
    plain()->sgd_mix(&r.b, &r.m);
    assert_true(fabs((double)r.row[0][0] - (w - 0.1 * g)) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_equal_plain_ones),
        cmocka_unit_test(lanes_mix_equals_written_sums),
        cmocka_unit_test(lanes_cross_equals_two_mixes),
        cmocka_unit_test(lanes_plain_are_the_formulas),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
