/* Shared objects as their process tells of them (cli/config/app_plugin.h). */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/config/app_plugin.h"

#include "tests/fuzz/fuzz_app_plugin.c" /* the target itself */
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/corpus.h"

static const char good[] =
    "{\"name\": \"mine\", \"summary\": \"my own\", \"schema\": {\"required\":"
    " [\"n\"], \"properties\": {\"n\": {\"type\": \"integer\"}}},"
    " \"tunables\": [\"learning_rate\", \"width\"]}";

static enum err read(const char *text, struct app_plugin **out, struct fault *f)
{
    *out = NULL;
    return app_plugin_read("/lib/m.so", text, strlen(text), out, f);
}

/* It becomes an entry whose settings have, besides, what a configuration says
 * of where it is. */
static void plugin_becomes_an_entry(void **state)
{
    struct app_plugin *p;
    json_t *schema;

    (void)state;
    assert_int_equal(read(good, &p, NULL), ERR_OK);
    assert_string_equal(p->entry.name, "mine");
    assert_string_equal(p->entry.summary, "my own");
    assert_true(registry_uses(&p->entry, "width"));
    assert_false(registry_uses(&p->entry, "momentum"));
    assert_int_equal(json_load(p->entry.settings, strlen(p->entry.settings),
                               &schema, NULL, NULL),
                     ERR_OK);
    assert_non_null(json_at(schema, "/properties/n"));
    assert_non_null(json_at(schema, "/properties/plugin"));
    assert_non_null(json_at(schema, "/properties/name"));
    json_decref(schema);
    app_plugin_free(p);
}

static void says(const char *text, enum err want, const char *words)
{
    struct app_plugin *p;
    struct fault f = {0};

    assert_int_equal(read(text, &p, &f), want);
    assert_null(p);
    if (!strstr(f.text, words) || !strstr(f.text, "/lib/m.so"))
        fail_msg("%s", f.text);
}

/* Its own refusal keeps its words; nonsense is told as such. */
static void plugin_that_is_none_is_refused(void **state)
{
    (void)state;
    says("{\"code\": \"version\", \"error\": \"build it again\"}", ERR_VERSION,
         "build it again");
    says("{\"code\": \"?\", \"error\": \"no\"}", ERR_APP, "no");
    says("", ERR_APP, "has not said what it is");
    says("{\"name\": 7}", ERR_APP, "nonsense");
    says("[]", ERR_APP, "nonsense");
    says("{\"name\": \"a\", \"summary\": \"b\", \"schema\": {},"
         " \"tunables\": [1]}",
         ERR_APP, "nonsense");
}

static void replay_one(const char *name, const uint8_t *bytes, size_t n)
{
    struct app_plugin *p = NULL;

    LLVMFuzzerTestOneInput(bytes, n);
    assert_int_equal(app_plugin_read("/m", (const char *)bytes, n, &p, NULL) ==
                         ERR_OK,
                     strncmp(name, "good", 4) == 0);
    app_plugin_free(p);
}

/* The committed corpus: good ones are taken, others refused. */
static void plugin_corpus_replays_clean(void **state)
{
    (void)state;
    corpus_replay("app_plugin", 3, replay_one);
}

/* Whichever allocation fails, nothing is left. */
static void plugin_survives_want_of_memory(void **state)
{
    int64_t before = mem_outstanding();
    bool failed = true;

    (void)state;
    for (unsigned n = 1; failed; n++) {
        struct app_plugin *p;
        enum err err;

        mem_fail_at(n, 0);
        err = read(good, &p, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_true(err == ERR_OK || failed);
        app_plugin_free(p);
        assert_int_equal(mem_outstanding(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plugin_becomes_an_entry),
        cmocka_unit_test(plugin_that_is_none_is_refused),
        cmocka_unit_test(plugin_corpus_replays_clean),
        cmocka_unit_test(plugin_survives_want_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
