/* A branch's setting: defaults, what acts, what is refused. */
#include "ps/node/node_setting.h"

#include "ps/rows/rule.h"
#include "tests/unit/fixture/check.h"

static const char *const app[] = {"learning_rate", "momentum",   "weight_decay",
                                  "warmup",        "batch_size", "shrink",
                                  "mode",          NULL};

static enum err read_text(const char *text, struct node_setting *out,
                          struct fault *f)
{
    json_t *values = json_loads(text, 0, NULL);
    struct node_setting base;
    enum err err;

    assert_non_null(values);
    assert_int_equal(node_setting_init(&base, NULL, app, false, NULL), ERR_OK);
    err = node_setting_read(&base, values, app, out, f);
    json_decref(values);
    return err;
}

/* Without a word the contract's defaults hold; a configuration's fixed value
 * goes before its default. */
static void setting_defaults_come_from_the_configuration(void **state)
{
    json_t *tunables = json_loads(
        "{\"learning_rate\": {\"min\": 1e-5, \"max\": 1, \"default\": 0.5},"
        " \"batch_size\": {\"values\": [16, 64], \"default\": 16,"
        " \"fixed\": 256}, \"momentum\": {\"min\": 0, \"max\": 0.9},"
        " \"shrink\": {\"fixed\": 0.25}, \"mode\": {\"fixed\": \"a\"}}",
        0, NULL);
    struct node_setting s;

    (void)state;
    assert_int_equal(node_setting_init(&s, NULL, app, false, NULL), ERR_OK);
    assert_true(s.learning_rate == 0.01 && s.momentum == 0);
    assert_true(s.batch_size == 64 && s.staleness == 0 && s.owns == 0);
    assert_int_equal(node_setting_init(&s, tunables, app, false, NULL), ERR_OK);
    assert_true(s.learning_rate == 0.5 && s.momentum == 0);
    assert_true(s.batch_size == 256);
    assert_true(node_setting_own(&s, "shrink", 1) == 0.25);
    assert_true(node_setting_own(&s, "mode", 7) == 7);
    json_decref(tunables);
}

/* A setting's values replace the defaults, whole numbers in either form. */
static void setting_values_act(void **state)
{
    struct node_setting s;

    (void)state;
    assert_int_equal(
        read_text("{\"learning_rate\": 1, \"momentum\": 0.9, \"staleness\": 3,"
                  " \"weight_decay\": 0.125, \"update_rule\": \"adam\","
                  " \"warmup\": 2.5,"
                  " \"batch_size\": 128.0, \"bandwidth_mbps\": 100,"
                  " \"shrink\": -2.5}",
                  &s, NULL),
        ERR_OK);
    assert_true(s.learning_rate == 1 && s.momentum == 0.9);
    assert_true(s.staleness == 3 && s.batch_size == 128);
    assert_string_equal(rule_at(s.rule)->name, "adam");
    assert_true(s.bandwidth_mbps == 100 && s.weight_decay == 0.125);
    assert_true(s.warmup == 2.5);
    assert_true(node_setting_own(&s, "shrink", 0) == -2.5);
    assert_true(node_setting_own(&s, "other", 3) == 3);
}

/* Weight decay and warm-up are 0 in an application that does not list them,
 * whoever gives a value, and a value out of range is refused there too. */
static void setting_decays_only_who_lists_it(void **state)
{
    static const char *const other[] = {"learning_rate", NULL};
    json_t *pinned =
        json_loads("{\"weight_decay\": {\"fixed\": 0.25}, \"warmup\": "
                   "{\"fixed\": 3}}",
                   0, NULL);
    json_t *values =
        json_loads("{\"weight_decay\": 0.125, \"warmup\": 2}", 0, NULL);
    json_t *bad = json_loads("{\"weight_decay\": -1}", 0, NULL);
    struct node_setting base, s;

    (void)state;
    assert_int_equal(node_setting_init(&base, pinned, app, false, NULL),
                     ERR_OK);
    assert_true(base.weight_decay == 0.25 && base.warmup == 3);
    assert_int_equal(node_setting_init(&base, pinned, other, false, NULL),
                     ERR_OK);
    assert_true(base.weight_decay == 0 && base.warmup == 0);
    assert_int_equal(node_setting_read(&base, values, other, &s, NULL), ERR_OK);
    assert_true(s.weight_decay == 0 && s.warmup == 0);
    assert_int_equal(node_setting_read(&base, bad, other, &s, NULL), ERR_INVAL);
    json_decref(pinned);
    json_decref(values);
    json_decref(bad);
}

/* A value out of range, of another type or unknown is refused by name. */
static void setting_faulty_values_are_refused(void **state)
{
    static const char *const bad[][2] = {
        {"{\"learning_rate\": -0.1}", "learning_rate"},
        {"{\"learning_rate\": \"0.1\"}", "learning_rate"},
        {"{\"bandwidth_mbps\": 0}", "bandwidth_mbps"},
        {"{\"bandwidth_mbps\": \"fast\"}", "bandwidth_mbps"},
        {"{\"momentum\": 1}", "momentum"},
        {"{\"momentum\": -1}", "momentum"},
        {"{\"weight_decay\": -1}", "weight_decay"},
        {"{\"warmup\": -1}", "warmup: expected a number from 0 to"},
        {"{\"warmup\": \"long\"}", "warmup"},
        {"{\"warmup\": 1e7}", "warmup"},
        {"{\"update_rule\": 1}", "update_rule: expected a name"},
        {"{\"update_rule\": \"adarevision\"}", "found \"adarevision\""},
        {"{\"weight_decay\": 1e39}", "weight_decay"},
        {"{\"staleness\": 0.5}", "staleness"},
        {"{\"staleness\": 1e9}", "staleness"},
        {"{\"batch_size\": 0}", "batch_size"},
        {"{\"batch_size\": 1.5}", "batch_size"},
        {"{\"batch_size\": 1e10}", "batch_size"},
        {"{\"batch_size\": null}", "batch_size"},
        {"{\"learning_rates\": 1}", "learning_rates"},
    };
    struct node_setting s;
    struct fault f;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        f.text[0] = 0;
        assert_int_equal(read_text(bad[i][0], &s, &f), ERR_INVAL);
        assert_non_null(strstr(f.text, bad[i][1]));
    }
}

/* A tunable that the configuration has as free is taken whoever has it, in
 * settings of that run alone. */
static void setting_free_names_are_taken(void **state)
{
    json_t *tunables =
        json_loads("{\"copy\": {\"min\": 0, \"max\": 1, \"free\": true},"
                   " \"shrink\": {\"free\": true}}",
                   0, NULL);
    json_t *values = json_loads("{\"copy\": 0.5}", 0, NULL);
    json_t *other = json_loads("{\"copies\": 0.5}", 0, NULL);
    struct node_setting base, s;

    (void)state;
    assert_int_equal(node_setting_init(&base, tunables, app, false, NULL),
                     ERR_OK);
    assert_int_equal(node_setting_read(&base, values, app, &s, NULL), ERR_OK);
    assert_true(node_setting_own(&s, "shrink", 7) == 7);
    assert_int_equal(node_setting_read(&base, other, app, &s, NULL), ERR_INVAL);
    assert_int_equal(node_setting_init(&base, NULL, app, false, NULL), ERR_OK);
    assert_int_equal(node_setting_read(&base, values, app, &s, NULL),
                     ERR_INVAL);
    json_decref(tunables);
    json_decref(values);
    json_decref(other);
}

/* A program's own update_rule may have other values, which choose no rule. */
static void setting_own_update_rule_is_taken(void **state)
{
    static const char *const own[] = {"update_rule", NULL};
    json_t *rule = json_loads("{\"update_rule\": \"rpcs\"}", 0, NULL);
    json_t *word = json_loads("{\"update_rule\": \"fast\"}", 0, NULL);
    json_t *number = json_loads("{\"update_rule\": 3}", 0, NULL);
    struct node_setting base, s;

    (void)state;
    assert_int_equal(node_setting_init(&base, NULL, own, true, NULL), ERR_OK);
    assert_int_equal(node_setting_read(&base, word, own, &s, NULL), ERR_OK);
    assert_int_equal(s.rule, 0);
    assert_int_equal(node_setting_read(&base, number, own, &s, NULL), ERR_OK);
    assert_true(s.rule == 0 && node_setting_own(&s, "update_rule", 0) == 3);
    assert_int_equal(node_setting_read(&base, rule, own, &s, NULL), ERR_OK);
    assert_string_equal(rule_at(s.rule)->name, "rpcs");
    json_decref(rule);
    json_decref(word);
    json_decref(number);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setting_defaults_come_from_the_configuration),
        cmocka_unit_test(setting_values_act),
        cmocka_unit_test(setting_decays_only_who_lists_it),
        cmocka_unit_test(setting_faulty_values_are_refused),
        cmocka_unit_test(setting_free_names_are_taken),
        cmocka_unit_test(setting_own_update_rule_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
