#include "base/json/registry.h"
#include "base/mem.h"

#include "tests/unit/fixture/check.h"

static const char *const momentum[] = {"learning_rate", "momentum", NULL};
static const struct registry_entry sgd = {
    REGISTRY_RULE, "sgd", "descent", NULL, momentum, NULL, false, NULL, NULL};
static const struct registry_entry grid = {REGISTRY_SEARCHER,
                                           "grid",
                                           "all points",
                                           "{\"properties\": {}}",
                                           NULL,
                                           NULL,
                                           false,
                                           NULL,
                                           NULL};
static const struct registry_entry random_entry = {REGISTRY_SEARCHER,
                                                   "random",
                                                   "points anywhere",
                                                   NULL,
                                                   NULL,
                                                   NULL,
                                                   false,
                                                   NULL,
                                                   NULL};

static void fill(struct registry *r)
{
    registry_init(r);
    assert_int_equal(registry_add(r, &sgd, NULL), ERR_OK);
    assert_int_equal(registry_add(r, &grid, NULL), ERR_OK);
    assert_int_equal(registry_add(r, &random_entry, NULL), ERR_OK);
}

/* An added entry is found by kind and name, and only so. */
static void registry_find_is_by_kind_and_name(void **state)
{
    struct registry r;
    char names[64];

    (void)state;
    fill(&r);
    assert_string_equal(registry_find(&r, REGISTRY_SEARCHER, "grid")->summary,
                        "all points");
    assert_null(registry_find(&r, REGISTRY_STRATEGY, "grid"));
    assert_null(registry_find(&r, REGISTRY_SEARCHER, "gri"));
    assert_string_equal(registry_at(&r, REGISTRY_SEARCHER, 1)->name, "random");
    assert_null(registry_at(&r, REGISTRY_SEARCHER, 2));
    assert_string_equal(
        registry_names(&r, REGISTRY_SEARCHER, names, sizeof(names)),
        "grid, random");
    assert_string_equal(registry_names(&r, REGISTRY_APP, names, sizeof(names)),
                        "");
}

/* A list of names too long for its buffer is cut, never overrun. */
/* A hidden entry is found, but neither listed nor offered. */
static void registry_hidden_entries_are_not_listed(void **state)
{
    struct registry_entry secret = grid;
    struct registry r;
    char names[64];

    (void)state;
    secret.name = "secret";
    secret.hidden = true;
    registry_init(&r);
    assert_int_equal(registry_add(&r, &secret, NULL), ERR_OK);
    assert_int_equal(registry_add(&r, &grid, NULL), ERR_OK);
    assert_non_null(registry_find(&r, REGISTRY_SEARCHER, "secret"));
    assert_string_equal(
        registry_names(&r, REGISTRY_SEARCHER, names, sizeof(names)), "grid");
    assert_string_equal(registry_at(&r, REGISTRY_SEARCHER, 0)->name, "grid");
    assert_null(registry_nearest(&r, REGISTRY_SEARCHER, "secrets"));
}

static void registry_names_are_cut_at_size(void **state)
{
    struct registry r;
    char names[8] = "........";

    (void)state;
    fill(&r);
    registry_names(&r, REGISTRY_SEARCHER, names, 7);
    assert_string_equal(names, "grid, ");
}

/* A second entry of a kind and name, a malformed name or schema, and one too
 * many are refused, and the registry stays as it was. */
static void registry_add_refuses_faulty_entries(void **state)
{
    struct registry_entry e = grid;
    struct registry r;
    struct fault f;

    (void)state;
    fill(&r);
    assert_int_equal(registry_add(&r, &grid, &f), ERR_EXIST);
    e.name = "Grid";
    assert_int_equal(registry_add(&r, &e, &f), ERR_INVAL);
    e.name = "";
    assert_int_equal(registry_add(&r, &e, &f), ERR_INVAL);
    e.name = "grid2";
    e.settings = "{\"properties\": ";
    assert_int_equal(registry_add(&r, &e, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "searcher grid2"));
    e.settings = "[]";
    assert_int_equal(registry_add(&r, &e, &f), ERR_INVAL);
    assert_int_equal(r.len, 3);
    r.len = REGISTRY_ENTRIES_MAX;
    e.settings = NULL;
    for (size_t i = 3; i < r.len; i++)
        r.entry[i] = sgd;
    assert_int_equal(registry_add(&r, &e, &f), ERR_LIMIT);
}

/* Tunables listed are used; no list uses none; near words are suggested. */
static void registry_uses_and_nearest(void **state)
{
    struct registry r;

    (void)state;
    fill(&r);
    assert_true(registry_uses(&sgd, "momentum"));
    assert_false(registry_uses(&sgd, "staleness"));
    assert_false(registry_uses(&grid, "momentum"));
    assert_string_equal(registry_nearest(&r, REGISTRY_SEARCHER, "randon"),
                        "random");
    assert_null(registry_nearest(&r, REGISTRY_SEARCHER, "bayes"));
    assert_string_equal(registry_kind_name(REGISTRY_RULE), "update rule");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registry_find_is_by_kind_and_name),
        cmocka_unit_test(registry_hidden_entries_are_not_listed),
        cmocka_unit_test(registry_names_are_cut_at_size),
        cmocka_unit_test(registry_add_refuses_faulty_entries),
        cmocka_unit_test(registry_uses_and_nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
