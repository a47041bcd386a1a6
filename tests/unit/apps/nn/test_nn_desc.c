#include "apps/nn/nn_desc.h"
#include "base/mem.h"

#include <stdio.h>

#include "tests/unit/fixture/check.h"

/* Reads @text as settings at "/app"; the problems are the caller's. */
static void read_text(const char *text, struct nn_desc *d,
                      struct problems *problems)
{
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);

    if (!json)
        fail_msg("%s: %s", error.text, text);
    memset(problems, 0, sizeof(*problems));
    nn_desc_read(json, "/app", d, problems);
    json_decref(json);
}

static void read_good(const char *text, struct nn_desc *d)
{
    struct problems problems;

    read_text(text, d, &problems);
    if (problems.len)
        fail_msg("%s: %s: expected %s", text, problems.item[0].pointer,
                 problems.item[0].expected);
    problems_deinit(&problems);
}

/* Every fault is found, at its place, with a word on what was expected. */
static void nn_desc_faults_are_named(void **state)
{
    static const struct {
        const char *text;
        size_t faults;
        const char *pointer, *expected, *hint; /* of the last */
    } cases[] = {
        {"{}", 1, "/app", "a built-in network (mlp, lenet5, cifar-quick)", ""},
        {"{\"preset\": \"mlp\", \"layers\": []}", 1, "/app/preset",
         "no preset beside", ""},
        {"{\"preset\": \"lenet\"}", 1, "/app/preset", "\"lenet5\"", "lenet5"},
        {"{\"preset\": 5}", 1, "/app/preset", "\"mlp\"", ""},
        {"{\"layers\": {}}", 1, "/app/layers", "a list", ""},
        {"{\"layers\": []}", 1, "/app/layers",
         "a list with a length from 1 to 64", ""},
        {"{\"layers\": [7]}", 1, "/app/layers/0", "an object", ""},
        {"{\"layers\": [{}]}", 1, "/app/layers/0/type", "\"dense\"", ""},
        {"{\"layers\": [{\"type\": 3}]}", 1, "/app/layers/0/type", "\"dense\"",
         ""},
        {"{\"layers\": [{\"type\": \"maxpool\"}]}", 1, "/app/layers/0/type",
         "\"max_pool\"", "max_pool"},
        {"{\"layers\": [{\"type\": \"dense\"}]}", 1, "/app/layers/0/units",
         "a whole number from 1 to 65536, or \"outputs\"", ""},
        {"{\"layers\": [{\"type\": \"dense\", \"units\": 0}]}", 1,
         "/app/layers/0/units", "from 1 to 65536", ""},
        {"{\"layers\": [{\"type\": \"dense\", \"units\": \"output\"}]}", 1,
         "/app/layers/0/units", "\"outputs\"", "outputs"},
        {"{\"layers\": [{\"type\": \"dense\", \"units\": 2, \"kernel\": 2}]}",
         1, "/app/layers/0/kernel", "type, units, init", ""},
        {"{\"layers\": [{\"type\": \"dense\", \"units\": 2, \"init\": \"x\"}]}",
         1, "/app/layers/0/init", "\"glorot\"", ""},
        {"{\"layers\": [{\"type\": \"conv\", \"chanels\": 2, \"kernel\": 3}]}",
         2, "/app/layers/0/channels", "", ""},
        {"{\"layers\": [{\"type\": \"conv\", \"channels\": 2, \"kernel\":"
         " 17}]}",
         1, "/app/layers/0/kernel", "from 1 to 16", ""},
        {"{\"layers\": [{\"type\": \"conv\", \"channels\": 2, \"kernel\": 3,"
         " \"stride\": 0}]}",
         1, "/app/layers/0/stride", "from 1", ""},
        {"{\"layers\": [{\"type\": \"conv\", \"channels\": 2, \"kernel\": 3,"
         " \"padding\": 3}]}",
         1, "/app/layers/0/padding", "at most 2, less than the kernel", ""},
        {"{\"layers\": [{\"type\": \"max_pool\", \"kernel\": 3,"
         " \"padding\": 2}]}",
         1, "/app/layers/0/padding", "at most 1, half the kernel", ""},
        {"{\"layers\": [{\"type\": \"avg_pool\"}]}", 1, "/app/layers/0/kernel",
         "", ""},
        {"{\"layers\": [{\"type\": \"relu\", \"rate\": 1}]}", 1,
         "/app/layers/0/rate", "one of the keys type", ""},
        {"{\"layers\": [{\"type\": \"dropout\", \"rate\": 1}]}", 1,
         "/app/layers/0/rate", "below 1", ""},
        {"{\"layers\": [{\"type\": \"norm\", \"rate\": 0}]}", 1,
         "/app/layers/0/rate", "above 0", ""},
        {"{\"layers\": [{\"type\": \"norm\", \"epsilon\": 0}]}", 1,
         "/app/layers/0/epsilon", "from 1e-12", ""},
        {"{\"layers\": [{\"type\": \"relu\"}, {\"type\": \"rel\"}, {},"
         " {\"type\": \"tanh\", \"x\": 1}]}",
         3, "/app/layers/3/x", "", ""},
        {"{\"preset\": \"mlp\", \"loss\": \"l2\"}", 1, "/app/loss",
         "\"squared\"", ""},
    };
    struct problems problems;
    struct nn_desc d;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct problem *p;

        read_text(cases[i].text, &d, &problems);
        if (problems.errors != cases[i].faults)
            fail_msg("%s: %zu faults", cases[i].text, problems.errors);
        p = &problems.item[problems.len - 1];
        assert_string_equal(p->pointer, cases[i].pointer);
        if (!strstr(p->expected, cases[i].expected) ||
            !strstr(p->hint, cases[i].hint))
            fail_msg("%s: expected %s; %s", cases[i].text, p->expected,
                     p->hint);
        problems_deinit(&problems);
    }
}

/* A fault that only the data in hand show is told with the layer's pointer. */
static void nn_desc_shape_faults_are_named(void **state)
{
    static const struct {
        const char *text;
        unsigned outputs;
        const char *says;
    } cases[] = {
        {"{\"layers\": [{\"type\": \"relu\"}, {\"type\": \"conv\","
         " \"channels\": 2, \"kernel\": 9}]}",
         10, "/app/layers/1 (conv): "},
        {"{\"layers\": [{\"type\": \"dense\", \"units\": 9}]}", 10,
         "/app/layers/0: expected at least 10 outputs, one for each class, "
         "found 9"},
        {"{\"loss\": \"squared\", \"layers\": [{\"type\": \"dense\","
         " \"units\": 2}]}",
         1, "/app/layers/0: expected 1 output, the number, found 2"},
        {"{\"preset\": \"lenet5\"}", 10,
         "/app/preset (lenet5), layer 2 (conv): "},
    };
    const struct nn_shape input = {1, 8, 8};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct fault f = {0};
        struct nn_desc d;

        read_good(cases[i].text, &d);
        assert_int_equal(nn_desc_shape(&d, "/app", input, cases[i].outputs, &f),
                         ERR_INVAL);
        if (!strstr(f.text, cases[i].says))
            fail_msg("%s: %s", cases[i].text, f.text);
    }
}

/* Members that are left out have the documented values; initial weights follow
 * the nonlinearity behind a layer. */
static void nn_desc_defaults_are_as_documented(void **state)
{
    struct nn_desc d;

    (void)state;
    read_good("{\"layers\": [{\"type\": \"conv\", \"channels\": 4, \"kernel\":"
              " 3}, {\"type\": \"norm\"}, {\"type\": \"max_pool\", \"kernel\":"
              " 2}, {\"type\": \"relu\"}, {\"type\": \"dense\", \"units\": 5},"
              " {\"type\": \"tanh\"}, {\"type\": \"dropout\"},"
              " {\"type\": \"dense\", \"units\": \"outputs\", \"init\":"
              " \"he\"}]}",
              &d);
    assert_int_equal(d.count, 8);
    assert_int_equal(d.loss, NN_CROSS_ENTROPY);
    assert_int_equal(d.layer[0].stride, 1);
    assert_int_equal(d.layer[0].padding, 0);
    assert_int_equal(d.layer[0].init, NN_INIT_HE);
    assert_true(d.layer[1].rate == 0.1f && d.layer[1].epsilon == 1e-5f);
    assert_int_equal(d.layer[2].stride, 2);
    assert_int_equal(d.layer[4].init, NN_INIT_GLOROT);
    assert_true(d.layer[6].rate == 0.5f);
    assert_int_equal(d.layer[7].init, NN_INIT_HE);
    assert_true(d.outputs[7] && !d.outputs[4]);
    read_good("{\"preset\": \"mlp\", \"loss\": \"squared\"}", &d);
    assert_int_equal(d.loss, NN_SQUARED);
}

/* The presets have the shapes of their models. */
static void nn_desc_presets_have_the_known_sizes(void **state)
{
    static const struct {
        const char *text;
        struct nn_shape input;
        uint64_t parameters;
    } cases[] = {
        {"{\"preset\": \"mlp\"}", {1, 28, 28}, 203530},
        {"{\"preset\": \"lenet5\"}", {1, 28, 28}, 431080}, /* Caffe's */
        {"{\"preset\": \"cifar-quick\"}", {3, 32, 32}, 145578},
    };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct fault f = {0};
        struct nn_desc d;

        read_good(cases[i].text, &d);
        if (nn_desc_shape(&d, "/l", cases[i].input, 10, &f))
            fail_msg("%s", f.text);
        assert_int_equal(nn_desc_parameters(&d), cases[i].parameters);
        assert_int_equal(nn_shape_size(d.layer[d.count - 1].out), 10);
    }
}

/* Written layers read back as the same, and again as the same text. */
static void nn_desc_writes_what_it_reads(void **state)
{
    static const char text[] =
        "{\"layers\": [{\"type\": \"conv\", \"channels\": 4, \"kernel\": 3,"
        " \"padding\": 1}, {\"type\": \"norm\", \"rate\": 0.25}, {\"type\":"
        " \"avg_pool\", \"kernel\": 2, \"stride\": 1}, {\"type\": \"relu\"},"
        " {\"type\": \"dropout\", \"rate\": 0.3}, {\"type\": \"tanh\"},"
        " {\"type\": \"max_pool\", \"kernel\": 2}, {\"type\": \"dense\","
        " \"units\": \"outputs\"}]}";
    const struct nn_shape input = {1, 12, 12};
    struct nn_desc one, two;
    struct problems problems = {0};
    json_t *list, *again, *o;

    (void)state;
    read_good(text, &one);
    assert_int_equal(nn_desc_shape(&one, "", input, 10, NULL), ERR_OK);
    list = nn_desc_layers(&one);
    assert_int_equal(json_array_size(list), 8);
    assert_int_equal(
        json_integer_value(json_object_get(json_array_get(list, 7), "units")),
        10);
    o = json_pack("{s:O}", "layers", list);
    nn_desc_read(o, "", &two, &problems);
    assert_int_equal(problems.len, 0);
    assert_int_equal(nn_desc_shape(&two, "", input, 10, NULL), ERR_OK);
    assert_memory_equal(one.layer, two.layer, sizeof(one.layer));
    again = nn_desc_layers(&two);
    assert_true(json_equal(list, again));
    json_decref(o);
    json_decref(list);
    json_decref(again);
}

/* Every allocation that fails is reported and undone. */
static void nn_desc_allocation_failure_leaves_nothing(void **state)
{
    json_t *json = json_pack("{s:s}", "preset", "cifar-quick");
    int64_t before = mem_outstanding();
    int nth, failed = 1;

    (void)state;
    for (nth = 1; failed; nth++) {
        struct problems problems = {0};
        struct nn_desc d;
        json_t *list = NULL;

        mem_fail_at(nth, 0);
        nn_desc_read(json, "", &d, &problems);
        if (problems.len == 0 && !problems.no_memory)
            list = nn_desc_layers(&d);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_true(!list == !!failed);
        assert_true(!failed || problems.no_memory || problems.len == 0);
        json_decref(list);
        problems_deinit(&problems);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 50);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nn_desc_faults_are_named),
        cmocka_unit_test(nn_desc_shape_faults_are_named),
        cmocka_unit_test(nn_desc_defaults_are_as_documented),
        cmocka_unit_test(nn_desc_presets_have_the_known_sizes),
        cmocka_unit_test(nn_desc_writes_what_it_reads),
        cmocka_unit_test(nn_desc_allocation_failure_leaves_nothing),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
