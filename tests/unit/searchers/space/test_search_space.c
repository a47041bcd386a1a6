#include "base/json/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "searchers/space/space.h"
#include "searchers/space/space_json.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/space_text.h"

#include <math.h>

static const char text[] =
    "{\"lr\": {\"type\": \"float\", \"min\": 1e-5, \"max\": 1, \"scale\": "
    "\"log\"},"
    "\"momentum\": {\"type\": \"float\", \"min\": 0.01, \"max\": 1, "
    "\"scale\": \"reverse_log\"},"
    "\"layers\": {\"type\": \"int\", \"min\": -2, \"max\": 2},"
    "\"units\": {\"type\": \"int\", \"min\": 1, \"max\": 100, \"scale\": "
    "\"log\"},"
    "\"batch\": {\"type\": \"int\", \"values\": [256, 16, 64]},"
    "\"rule\": {\"type\": \"categorical\", \"values\": [\"sgd\", 3, "
    "\"adam\"]},"
    "\"beta\": {\"type\": \"float\", \"min\": 0, \"max\": 1, \"default\": 0.9,"
    " \"when\": {\"rule\": [\"adam\", 3]}},"
    "\"inner\": {\"type\": \"int\", \"min\": 0, \"max\": 9, \"default\": 4, "
    "\"when\": {\"beta\": {\"min\": 0.5, \"max\": 1}}}}";
enum { LR, MOMENTUM, LAYERS, UNITS, BATCH, RULE, BETA, INNER, TUNABLES };

static int setup(void **state)
{
    struct space *s = mem_alloc(sizeof(*s));
    struct fault f = {0};

    if (!s || space_from_text(text, s, &f)) {
        print_error("%s\n", f.text);
        return -1;
    }
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    mem_free(*state);
    return 0;
}

/* Every valid setting survives the unit cube and back: to the last bit where
 * values are countable, to rounding where they are not. */
static void space_unit_cube_round_trips(void **state)
{
    const struct space *s = *state;
    struct rng rng;

    rng_init(&rng, 1);
    for (int i = 0; i < 20000; i++) {
        double u[TUNABLES_MAX], v[TUNABLES_MAX], w[TUNABLES_MAX];
        struct setting x, y;

        for (int k = 0; k < TUNABLES; k++)
            u[k] = rng_uniform(&rng);
        space_from_unit(s, u, &x);
        assert_int_equal(space_check(s, &x, NULL), ERR_OK);
        assert_int_equal(space_to_unit(s, &x, v), TUNABLES);
        space_from_unit(s, v, &y);
        space_to_unit(s, &y, w);
        for (int k = 0; k < TUNABLES; k++)
            assert_true(fabs(w[k] - v[k]) < 1e-9);
        assert_true(x.value[LAYERS] == y.value[LAYERS]);
        assert_true(x.value[UNITS] == y.value[UNITS]);
        assert_true(x.value[BATCH] == y.value[BATCH]);
        assert_true(x.value[RULE] == y.value[RULE]);
        assert_true(fabs(v[LR] - u[LR]) < 1e-9);
        assert_true(fabs(v[MOMENTUM] - u[MOMENTUM]) < 1e-9);
    }
}

/* The ends of the unit interval are the ends of the range. */
static void space_unit_ends_are_range_ends(void **state)
{
    const struct space *s = *state;
    const double zeros[TUNABLES_MAX] = {0};
    double ones[TUNABLES_MAX];
    struct setting x;

    for (int k = 0; k < TUNABLES_MAX; k++)
        ones[k] = 1;
    space_from_unit(s, zeros, &x);
    assert_true(fabs(x.value[LR] / 1e-5 - 1) < 1e-12);
    assert_true(fabs(x.value[MOMENTUM] - 0.01) < 1e-12);
    assert_true(x.value[LAYERS] == -2 && x.value[UNITS] == 1);
    assert_true(x.value[BATCH] == 16 && x.value[RULE] == 0);
    space_from_unit(s, ones, &x);
    assert_true(fabs(x.value[LR] - 1) < 1e-12);
    assert_true(fabs(x.value[MOMENTUM] - 1) < 1e-12);
    assert_true(x.value[LAYERS] == 2 && x.value[UNITS] == 100);
    assert_true(x.value[BATCH] == 256 && x.value[RULE] == 2);
}

/* A logarithmic scale gives every decade the same share, a reversed one is its
 * mirror image. */
static void space_scales_share_the_unit_interval(void **state)
{
    const struct space *s = *state;
    double u[TUNABLES_MAX] = {0};
    struct setting x;

    for (int i = 0; i <= 5; i++) {
        u[LR] = i / 5.0;
        space_from_unit(s, u, &x);
        assert_true(fabs(log10(x.value[LR]) - (i - 5)) < 1e-9);
    }
    u[MOMENTUM] = 0.5; /* 0.01 .. 1 mirrored: 1.01 - 0.1 */
    space_from_unit(s, u, &x);
    assert_true(fabs(x.value[MOMENTUM] - 0.91) < 1e-9);
}

/* Linear ints, listed values and categories get equal cells, the outer ones
 * too; a logarithmic int gets the cell of its logarithm. */
static void space_countable_values_get_fair_cells(void **state)
{
    enum { N = 30000 };
    const struct space *s = *state;
    int layers[5] = {0}, batch[3] = {0}, ones = 0;

    for (int i = 0; i < N; i++) {
        double u[TUNABLES_MAX];
        struct setting x;

        for (int k = 0; k < TUNABLES; k++)
            u[k] = (i + 0.5) / N;
        space_from_unit(s, u, &x);
        layers[(int)x.value[LAYERS] + 2]++;
        batch[x.value[BATCH] == 16 ? 0 : x.value[BATCH] == 64 ? 1 : 2]++;
        ones += x.value[UNITS] == 1;
    }
    for (int i = 0; i < 5; i++)
        assert_true(abs(layers[i] - N / 5) <= 2);
    for (int i = 0; i < 3; i++)
        assert_true(abs(batch[i] - N / 3) <= 2);
    /* [0.5, 1.5] of [0.5, 100.5] by logarithm. */
    assert_true(fabs(ones - N * log(3) / log(201)) <= 3);
}

/* Values from nowhere become the nearest valid ones, NaN the default. */
static void space_clamp_gives_the_nearest_valid(void **state)
{
    const struct space *s = *state;
    struct setting x = {.value = {5, -INFINITY, 1.6, 1e9, 60, 1.9, NAN, 3}};

    space_clamp(s, &x);
    assert_int_equal(space_check(s, &x, NULL), ERR_OK);
    assert_true(x.value[LR] == 1);
    assert_true(x.value[MOMENTUM] == 0.01);
    assert_true(x.value[LAYERS] == 2);
    assert_true(x.value[UNITS] == 100);
    assert_true(x.value[BATCH] == 64);
    assert_true(x.value[RULE] == 1);
    assert_true(x.value[BETA] == 0.9);
}

/* Each kind of invalid value is found, and the message names the tunable. */
static void space_check_names_the_culprit(void **state)
{
    static const struct {
        int index;
        double value;
        const char *name;
    } cases[] = {{LR, 2, "lr"},           {LR, NAN, "lr"},
                 {LAYERS, 0.5, "layers"}, {BATCH, 32, "batch"},
                 {RULE, 3, "rule"},       {RULE, -1, "rule"},
                 {UNITS, 0, "units"},     {BETA, INFINITY, "beta"}};
    const struct space *s = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct setting x;
        struct fault f;

        space_default(s, &x);
        assert_int_equal(space_check(s, &x, &f), ERR_OK);
        x.value[cases[i].index] = cases[i].value;
        assert_int_equal(space_check(s, &x, &f), ERR_INVAL);
        assert_non_null(strstr(f.text, cases[i].name));
    }
}

/* Inactive tunables have their default, through a chain of conditions. */
static void space_conditions_reach_through_chains(void **state)
{
    const struct space *s = *state;
    struct setting x;

    space_default(s, &x);
    x.value[RULE] = 2; /* adam */
    x.value[BETA] = 0.6;
    x.value[INNER] = 7;
    space_canonical(s, &x);
    assert_true(space_active(s, &x, BETA) && space_active(s, &x, INNER));
    assert_true(x.value[INNER] == 7);
    x.value[BETA] = 0.4; /* below inner's condition */
    space_canonical(s, &x);
    assert_true(x.value[BETA] == 0.4 && x.value[INNER] == 4);
    x.value[BETA] = 0.6;
    x.value[INNER] = 7;
    x.value[RULE] = 0; /* sgd: beta falls out, and inner with it */
    space_canonical(s, &x);
    assert_true(x.value[BETA] == 0.9 && x.value[INNER] == 4);
    assert_false(space_active(s, &x, INNER));
}

/* Distinct is what differs in a tunable that acts and is not pinned. */
static void space_same_regards_what_acts(void **state)
{
    struct space *s = *state;
    struct setting a, b;

    space_default(s, &a);
    b = a;
    b.value[LAYERS] = 1;
    assert_false(space_same(s, &a, &b));
    assert_int_equal(space_dims(s), 8);
    s->tunable[LAYERS].acts = false;
    assert_true(space_same(s, &a, &b));
    assert_false(space_equal(s, &a, &b));
    assert_int_equal(space_dims(s), 7);
    s->tunable[LAYERS].acts = true;
    space_pin(s, LAYERS, 1);
    assert_true(space_same(s, &a, &b));
    assert_int_equal(space_dims(s), 7);
    space_default(s, &a);
    assert_true(a.value[LAYERS] == 1);
}

/* The number of settings is the product; a continuum makes it unbounded. */
static void space_size_is_the_product(void **state)
{
    struct space *s = *state;

    assert_true(space_size(s) == UINT64_MAX);
    space_pin(s, LR, 0.1);
    space_pin(s, MOMENTUM, 0.5);
    space_pin(s, BETA, 0.5);
    assert_int_equal(space_size(s), 5 * 100 * 3 * 3 * 10);
    for (uint64_t i = 0; i < 5; i++)
        assert_true(tunable_at(&s->tunable[LAYERS], i) == (double)i - 2);
}

/* A setting as JSON reads back equal; numbers keep their type, categories their
 * name. */
static void setting_json_round_trips(void **state)
{
    const struct space *s = *state;
    struct rng rng;

    rng_init(&rng, 5);
    for (int i = 0; i < 200; i++) {
        struct problems problems = {0};
        double u[TUNABLES_MAX];
        struct setting x, y;
        json_t *json, *again;
        char *line;

        for (int k = 0; k < TUNABLES; k++)
            u[k] = rng_uniform(&rng);
        space_from_unit(s, u, &x);
        json = setting_to_json(s, &x);
        assert_true(json_is_integer(json_object_get(json, "batch")));
        assert_true(json_is_real(json_object_get(json, "lr")));
        line = json_write(json, 0);
        assert_int_equal(json_load(line, strlen(line), &again, NULL, NULL), 0);
        assert_int_equal(setting_from_json(s, again, "", &y, &problems), 0);
        assert_true(space_equal(s, &x, &y));
        mem_free(line);
        json_decref(json);
        json_decref(again);
    }
}

/* A partial setting takes defaults; what is wrong in one is all told. */
static void setting_from_json_tells_all_faults(void **state)
{
    const struct space *s = *state;
    struct problems problems = {0};
    json_t *json = json_pack("{s:f, s:s}", "lr", 0.25, "rule", "adam");
    struct setting x;

    assert_int_equal(
        setting_from_json(s, json, "/tuner/initial", &x, &problems), ERR_OK);
    assert_true(x.value[LR] == 0.25 && x.value[RULE] == 2);
    assert_true(x.value[BETA] == 0.9);
    json_decref(json);
    json = json_pack("{s:i, s:s, s:i, s:i}", "lr", 7, "rule", "adem", "batch",
                     17, "layrs", 1);
    assert_int_equal(
        setting_from_json(s, json, "/tuner/initial", &x, &problems), ERR_INVAL);
    assert_int_equal(problems.errors, 4);
    assert_string_equal(problems.item[0].pointer, "/tuner/initial/lr");
    assert_string_equal(problems.item[0].expected, "a number from 1e-05 to 1");
    assert_string_equal(problems.item[1].expected,
                        "one of \"sgd\", 3, \"adam\"");
    assert_string_equal(problems.item[3].hint, "did you mean \"layers\"?");
    json_decref(json);
    problems_deinit(&problems);
}

/* Over another setting, absent tunables have that one's values, which change
 * where a given one decides that they act. */
static void setting_over_json_keeps_the_base(void **state)
{
    const struct space *s = *state;
    struct problems problems = {0};
    json_t *json = json_pack("{s:f}", "lr", 0.5);
    struct setting base, x;

    space_default(s, &base);
    base.value[LR] = 0.25;
    base.value[RULE] = 2;
    base.value[BETA] = 0.5;
    space_canonical(s, &base);
    assert_int_equal(setting_over_json(s, &base, json, "", &x, &problems),
                     ERR_OK);
    assert_true(x.value[LR] == 0.5 && x.value[RULE] == 2);
    assert_true(x.value[BETA] == 0.5);
    json_decref(json);
    json = json_pack("{s:s}", "rule", "sgd");
    assert_int_equal(setting_over_json(s, &base, json, "", &x, &problems),
                     ERR_OK);
    assert_true(x.value[LR] == 0.25 && x.value[BETA] != 0.5);
    json_decref(json);
    json = json_pack("{s:i}", "lr", 7);
    assert_int_equal(
        setting_over_json(s, &base, json, "/setting", &x, &problems),
        ERR_INVAL);
    assert_string_equal(problems.item[0].pointer, "/setting/lr");
    json_decref(json);
    problems_deinit(&problems);
}

/* Values are found by name, categories by number where they are numbers. */
static void setting_number_finds_by_name(void **state)
{
    const struct space *s = *state;
    char line[64];
    struct setting x;

    space_default(s, &x);
    x.value[RULE] = 1;
    assert_true(setting_number(s, &x, "rule", -1) == 3);
    x.value[RULE] = 2;
    assert_true(setting_number(s, &x, "rule", -1) == 2);
    assert_true(setting_number(s, &x, "batch", -1) == 64);
    assert_true(setting_number(s, &x, "no", -1) == -1);
    setting_text(s, &x, line, sizeof(line));
    assert_int_equal(strncmp(line, "lr=0.00316228 momentum=0.91 layers=0 ", 36),
                     0);
}

/* A copy is the same space, and what lies behind its tunables stays. */
static void space_copy_takes_the_tunables_alone(void **state)
{
    const struct space *s = *state;
    struct space *copy = mem_alloc(sizeof(*copy));
    json_t *was = space_to_json(s), *is;

    assert_non_null(copy);
    memset(copy, 0x5a, sizeof(*copy));
    space_copy(copy, s);
    is = space_to_json(copy);
    assert_true(json_equal(was, is));
    assert_int_equal(copy->tunable[TUNABLES].name[0], 0x5a);
    json_decref(was);
    json_decref(is);
    mem_free(copy);
}

/* A category knows whether it is a text: a text that begins as the number's
 * bytes do, and the number 0, are told apart. */
static void categories_are_texts_or_numbers(void **state)
{
    struct space *s = mem_alloc(sizeof(*s));
    struct fault f = {0};

    (void)state;
    assert_non_null(s);
    assert_int_equal(
        space_from_text("{\"a\": {\"type\": \"categorical\", \"values\": "
                        "[0, \"0\", 1.5, \"x\"]}}",
                        s, &f),
        ERR_OK);
    assert_null(tunable_text(&s->tunable[0], 0));
    assert_string_equal(tunable_text(&s->tunable[0], 1), "0");
    assert_null(tunable_text(&s->tunable[0], 2));
    assert_true(s->tunable[0].values[2].number == 1.5);
    assert_string_equal(tunable_text(&s->tunable[0], 3), "x");
    mem_free(s);
}

/* A space as JSON reads back the same space. */
static void space_json_round_trips(void **state)
{
    struct space *s = *state, *again = mem_calloc(1, sizeof(*again));
    struct problems problems = {0};
    json_t *json;

    assert_non_null(again);
    space_pin(s, LAYERS, 1);
    s->tunable[LR].free = true;
    s->tunable[BATCH].retune = false;
    json = space_to_json(s);
    assert_int_equal(space_from_json(json, "", again, &problems), ERR_OK);
    assert_int_equal(problems.len, 0);
    assert_int_equal(again->len, s->len);
    assert_memory_equal(s->tunable, again->tunable,
                        s->len * sizeof(s->tunable[0]));
    json_decref(json);
    mem_free(again);
}

static void expect_fault(const char *tunables, const char *want)
{
    struct space *s = mem_alloc(sizeof(*s));
    struct fault f = {0};

    if (space_from_text(tunables, s, &f) != ERR_INVAL || !strstr(f.text, want))
        fail_msg("%s: %s", tunables, f.text);
    mem_free(s);
}

/* Whatever is wrong in a tunable is refused with place, expected and found. */
static void space_from_json_refuses_each_fault(void **state)
{
    (void)state;
    expect_fault("[]", "expected an object of tunables");
    expect_fault("{\"a\": 1}", "/a: expected an object, found 1");
    expect_fault("{\"a\": {}}", "/a/type: expected one of");
    expect_fault("{\"a b\": {\"type\": \"int\"}}",
                 "expected a name of letters");
    expect_fault("{\"a/b\": {\"type\": \"int\"}}", "a name of letters");
    expect_fault("{\"-b\": {\"type\": \"int\"}}", "a name of letters");
    expect_fault("{\".b\": {\"type\": \"int\"}}", "a name of letters");
    expect_fault("{\"a\": {\"type\": \"flaot\", \"min\": 0, \"max\": 1}}",
                 "did you mean \"float\"?");
    expect_fault("{\"a\": {\"type\": \"float\", \"min\": 0, \"maxx\": 1}}",
                 "did you mean \"max\"?");
    expect_fault("{\"a\": {\"type\": \"float\", \"min\": 0}}",
                 "/a/max: expected a number");
    expect_fault("{\"a\": {\"type\": \"float\"}}", "/a/min: expected a number");
    expect_fault("{\"a\": {\"type\": \"float\", \"min\": 2, \"max\": 1}}",
                 "/a/max: expected a number not below \"min\", found 1");
    expect_fault("{\"a\": {\"type\": \"float\", \"min\": 0, \"max\": 1, "
                 "\"scale\": \"log\"}}",
                 "/a/min: expected a number above 0");
    expect_fault("{\"a\": {\"type\": \"int\", \"min\": 0.5, \"max\": 1}}",
                 "/a/min: expected a whole number, found 0.5");
    expect_fault("{\"a\": {\"type\": \"int\", \"min\": 0, \"max\": 1e300}}",
                 "/a/max: expected a whole number");
    expect_fault("{\"a\": {\"type\": \"int\", \"values\": [1, 2.5]}}",
                 "/a/values/1: expected a whole number, found 2.5");
    expect_fault("{\"a\": {\"type\": \"int\", \"values\": [1, \"x\"]}}",
                 "/a/values/1: expected a number, found \"x\"");
    expect_fault("{\"a\": {\"type\": \"int\", \"values\": [1, 1]}}",
                 "a value that is not there already");
    expect_fault("{\"a\": {\"type\": \"int\", \"values\": []}}", "/a/values");
    expect_fault("{\"a\": {\"type\": \"categorical\", \"min\": 0, \"max\": 1}}",
                 "\"values\", not");
    expect_fault("{\"a\": {\"type\": \"categorical\"}}",
                 "/a/values: expected a list");
    expect_fault("{\"a\": {\"type\": \"int\", \"values\": [1], \"min\": 0}}",
                 "either");
    expect_fault("{\"a\": {\"type\": \"int\", \"values\": [1], \"scale\": "
                 "\"log\"}}",
                 "no scale");
    expect_fault("{\"a\": {\"type\": \"int\", \"values\": [1, 3], \"default\": "
                 "2}}",
                 "/a/default: expected one of 1, 3, found 2");
    expect_fault("{\"a\": {\"type\": \"float\", \"min\": 0, \"max\": 1, "
                 "\"default\": 2}}",
                 "/a/default: expected a number from 0 to 1, found 2");
    expect_fault("{\"a\": {\"type\": \"float\", \"min\": 0, \"max\": 1, "
                 "\"fixed\": 2}}",
                 "/a/fixed: expected a number from 0 to 1, found 2");
    expect_fault("{\"a\": {\"type\": \"float\", \"fixed\": 2, \"free\": true}}",
                 "not both");
    expect_fault("{\"a\": {\"type\": \"float\", \"fixed\": \"x\"}}",
                 "/a: expected a number, found \"x\"");
}

/* Conditions must name another tunable and values it may have, and not go
 * round in a circle. */
static void space_from_json_refuses_faulty_conditions(void **state)
{
    (void)state;
    expect_fault("{\"a\": {\"type\": \"float\", \"min\": 0, \"max\": 1, "
                 "\"when\": {\"a\": 1}}}",
                 "/a/when/a: expected the name of another tunable");
    expect_fault("{\"alpha\": {\"type\": \"int\", \"min\": 0, \"max\": 1}, "
                 "\"b\": {\"type\": \"int\", \"min\": 0, \"max\": 1, "
                 "\"when\": {\"alhpa\": 1}}}",
                 "did you mean \"alpha\"?");
    expect_fault("{\"a\": {\"type\": \"int\", \"min\": 0, \"max\": 1}, "
                 "\"b\": {\"type\": \"int\", \"min\": 0, \"max\": 1, "
                 "\"when\": {\"a\": 5}}}",
                 "/b/when/a: expected a whole number from 0 to 1, found 5");
    expect_fault("{\"a\": {\"type\": \"int\", \"min\": 0, \"max\": 1}, "
                 "\"b\": {\"type\": \"int\", \"min\": 0, \"max\": 1, "
                 "\"when\": {}}}",
                 "one other tunable");
    expect_fault("{\"a\": {\"type\": \"int\", \"min\": 0, \"max\": 1, "
                 "\"when\": {\"b\": 1}}, "
                 "\"b\": {\"type\": \"int\", \"min\": 0, \"max\": 1, "
                 "\"when\": {\"a\": 1}}}",
                 "no circle of conditions");
}

/* All faults of all tunables are told at once. */
static void space_from_json_tells_all_faults(void **state)
{
    static const char bad[] =
        "{\"a\": {\"type\": \"float\", \"min\": 2, \"max\": 1},\n"
        " \"b\": {\"type\": \"int\", \"values\": [1.5, \"x\"]},\n"
        " \"c\": {\"typ\": \"int\"}}";
    struct space *s = mem_alloc(sizeof(*s));
    struct problems problems = {0};
    json_t *json;

    (void)state;
    assert_int_equal(json_load(bad, strlen(bad), &json, NULL, NULL), ERR_OK);
    assert_int_equal(space_from_json(json, "/t", s, &problems), ERR_INVAL);
    assert_int_equal(problems.errors, 4);
    assert_string_equal(problems.item[3].pointer, "/t/c/typ");
    json_decref(json);
    problems_deinit(&problems);
    mem_free(s);
}

/* 32 tunables fit, one more is refused. */
static void space_from_json_bounds_the_number(void **state)
{
    struct space *s = mem_alloc(sizeof(*s));
    struct problems problems = {0};
    json_t *json = json_object();
    char name[16];

    (void)state;
    for (int i = 0; i <= TUNABLES_MAX; i++) {
        if (i == TUNABLES_MAX)
            assert_int_equal(space_from_json(json, "", s, &problems), ERR_OK);
        snprintf(name, sizeof(name), "t%d", i);
        json_object_set_new(json, name,
                            json_pack("{s:s,s:i}", "type", "int", "fixed", i));
    }
    assert_int_equal(space_from_json(json, "", s, &problems), ERR_INVAL);
    assert_string_equal(problems.item[0].expected, "at most 32 tunables");
    json_decref(json);
    problems_deinit(&problems);
    mem_free(s);
}

/* With any allocation failing, reading and writing spaces either works or says
 * that memory ran out; nothing leaks. */
static void space_json_allocation_failures_leave_nothing(void **state)
{
    struct space *s = *state, *out = mem_alloc(sizeof(*out));
    json_t *json = space_to_json(s);
    int64_t before = mem_outstanding();
    int failed = 1;

    for (int nth = 1; failed; nth++) {
        struct problems problems = {0};
        json_t *again = NULL, *x = NULL;
        struct setting setting;
        enum err err;

        space_default(s, &setting);
        mem_fail_at(nth, 0);
        err = space_from_json(json, "", out, &problems);
        if (!err)
            again = space_to_json(out);
        if (again)
            x = setting_to_json(out, &setting);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        assert_true(failed || x);
        json_decref(again);
        json_decref(x);
        problems_deinit(&problems);
        assert_int_equal(mem_outstanding(), before);
    }
    json_decref(json);
    mem_free(out);
}

static int count_memory(void **state)
{
    (void)state;
    json_count_memory();
    return 0;
}

int main(void)
{
#define SPACE_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        SPACE_TEST(space_unit_cube_round_trips),
        SPACE_TEST(space_unit_ends_are_range_ends),
        SPACE_TEST(space_scales_share_the_unit_interval),
        SPACE_TEST(space_countable_values_get_fair_cells),
        SPACE_TEST(space_clamp_gives_the_nearest_valid),
        SPACE_TEST(space_check_names_the_culprit),
        SPACE_TEST(space_conditions_reach_through_chains),
        SPACE_TEST(space_same_regards_what_acts),
        SPACE_TEST(space_size_is_the_product),
        SPACE_TEST(setting_json_round_trips),
        SPACE_TEST(setting_from_json_tells_all_faults),
        SPACE_TEST(setting_over_json_keeps_the_base),
        SPACE_TEST(setting_number_finds_by_name),
        SPACE_TEST(space_json_round_trips),
        SPACE_TEST(space_copy_takes_the_tunables_alone),
        cmocka_unit_test(categories_are_texts_or_numbers),
        cmocka_unit_test(space_from_json_refuses_each_fault),
        cmocka_unit_test(space_from_json_refuses_faulty_conditions),
        cmocka_unit_test(space_from_json_tells_all_faults),
        cmocka_unit_test(space_from_json_bounds_the_number),
        SPACE_TEST(space_json_allocation_failures_leave_nothing),
    };

    return cmocka_run_group_tests(tests, count_memory, NULL);
}
