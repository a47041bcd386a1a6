/* model.json: what is written is read, what is no model is refused by member.
 */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/state/model_io.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

static struct model_facts facts_of(json_t *settings, json_t *setting,
                                   json_t *saved, json_t *metric)
{
    return (struct model_facts){.run = "mlr-1",
                                .app = "mlr",
                                .folder = "/data",
                                .settings = settings,
                                .setting = setting,
                                .saved = saved,
                                .metric = metric,
                                .loss = 0.25,
                                .epoch = 7,
                                .seed = 12};
}

/* Every fact is found under its name, and the reader gives back what it needs;
 * writing goes over an earlier model. */
static void model_written_is_read(void **state)
{
    json_t *settings = json_pack("{s:s, s:s}", "name", "mlr", "data", "mnist");
    json_t *setting = json_pack("{s:f}", "learning_rate", 0.1);
    json_t *saved = json_pack("{s:[{s:s}], s:{s:i}}", "tables", "name", "w",
                              "app", "classes", 10);
    json_t *metric = json_pack("{s:s}", "name", "accuracy");
    struct model_facts facts = facts_of(settings, setting, saved, metric);
    struct model m;

    (void)state;
    scratch_text(MODEL_FILE, "{");
    assert_int_equal(model_write(scratch_folder(), &facts, NULL), ERR_OK);
    assert_int_equal(model_read(scratch_folder(), &m, NULL), ERR_OK);
    assert_string_equal(m.app, "mlr");
    assert_string_equal(m.folder, "/data");
    assert_true(json_equal(m.settings, settings));
    assert_true(json_equal(m.setting, setting));
    assert_int_equal(m.seed, 12);
    assert_string_equal(json_string_value(json_at(m.json, "/data")), "mnist");
    assert_string_equal(json_string_value(json_at(m.json, "/tables/0/name")),
                        "w");
    assert_int_equal(json_integer_value(json_at(m.json, "/details/classes")),
                     10);
    assert_string_equal(json_string_value(json_at(m.json, "/metric/name")),
                        "accuracy");
    assert_true(json_number_value(json_at(m.json, "/loss")) == 0.25);
    assert_int_equal(json_integer_value(json_at(m.json, "/epoch")), 7);
    assert_string_equal(json_string_value(json_at(m.json, "/run")), "mlr-1");
    model_deinit(&m);
    json_decref(settings);
    json_decref(setting);
    json_decref(saved);
    json_decref(metric);
}

/* Unknown facts are null or empty, never absent. */
static void model_without_facts_is_whole(void **state)
{
    struct model_facts facts = facts_of(NULL, NULL, NULL, NULL);
    struct model m;

    (void)state;
    facts.loss = NAN;
    assert_int_equal(model_write(scratch_folder(), &facts, NULL), ERR_OK);
    assert_int_equal(model_read(scratch_folder(), &m, NULL), ERR_OK);
    assert_true(json_is_null(json_at(m.json, "/loss")));
    assert_true(json_is_null(json_at(m.json, "/metric")));
    assert_true(json_is_null(json_at(m.json, "/data")));
    assert_true(json_is_array(json_at(m.json, "/tables")));
    assert_true(json_is_object(json_at(m.json, "/details")));
    model_deinit(&m);
}

/* A file that is no model is refused, and the words name the file and the
 * member. */
static void model_faults_are_named(void **state)
{
    static const struct {
        const char *text, *words;
        enum err err;
    } bad[] = {
        {"{", MODEL_FILE, ERR_FORMAT},
        {"[]", "/version", ERR_FORMAT},
        {"{\"version\": \"1\"}", "/version", ERR_FORMAT},
        {"{\"version\": 2}", "version 2", ERR_VERSION},
        {"{\"version\": 1, \"folder\": \"/\"}", "/app", ERR_FORMAT},
        {"{\"version\": 1, \"app\": \"a\"}", "/folder", ERR_FORMAT},
        {"{\"version\": 1, \"app\": \"a\", \"folder\": \"/\","
         " \"settings\": []}",
         "/settings", ERR_FORMAT},
        {"{\"version\": 1, \"app\": \"a\", \"folder\": \"/\","
         " \"settings\": {}}",
         "/setting:", ERR_FORMAT},
        {"{\"version\": 1, \"app\": \"a\", \"folder\": \"/\","
         " \"settings\": {}, \"setting\": {}, \"seed\": -1}",
         "/seed", ERR_FORMAT},
    };
    struct fault f;
    struct model m;
    size_t i;

    (void)state;
    assert_int_equal(model_read(scratch_folder(), &m, &f), ERR_NOENT);
    assert_non_null(strstr(f.text, MODEL_FILE));
    for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        scratch_text(MODEL_FILE, bad[i].text);
        assert_int_equal(model_read(scratch_folder(), &m, &f), bad[i].err);
        if (!strstr(f.text, MODEL_FILE) || !strstr(f.text, bad[i].words))
            fail_msg("%s: %s", bad[i].text, f.text);
    }
    assert_int_equal(
        model_write(scratch_path("no/where"),
                    &(struct model_facts){.run = "", .app = "", .folder = ""},
                    &f),
        ERR_IO);
}

/* Whichever allocation of the writer fails, it says so, the file that was there
 * stays, and nothing leaks. */
static void model_write_may_run_out_of_memory(void **state)
{
    struct model_facts facts = facts_of(NULL, NULL, NULL, NULL);
    int64_t before;
    struct model m;
    int nth;

    (void)state;
    assert_int_equal(model_write(scratch_folder(), &facts, NULL), ERR_OK);
    facts.seed = 99;
    before = mem_outstanding();
    for (nth = 1;; nth++) {
        enum err err;

        mem_fail_at(nth, 0);
        err = model_write(scratch_folder(), &facts, NULL);
        mem_fail_at(0, 0);
        if (!err)
            break;
        assert_int_equal(err, ERR_NOMEM);
        assert_int_equal(mem_outstanding(), before);
        assert_int_equal(model_read(scratch_folder(), &m, NULL), ERR_OK);
        assert_int_equal(m.seed, 12);
        model_deinit(&m);
    }
    assert_true(nth > 10);
}

/* Of an epoch, too: a model without its metric would be another. */
static void model_of_an_epoch_may_run_out_of_memory(void **state)
{
    struct history h;
    struct record r;
    unsigned char *whole, *other;
    size_t len, n;
    int nth;

    (void)state;
    history_init(&h);
    record_init(&r, RECORD_RUN_STARTED);
    snprintf(r.run_started.metric, sizeof(r.run_started.metric), "accuracy");
    assert_int_equal(history_apply(&h, &r), ERR_OK);
    record_deinit(&r);
    assert_int_equal(model_write_epoch(scratch_folder(), &h, NULL, "mlr-1",
                                       "/data", NULL, NULL, NULL),
                     ERR_OK);
    whole = scratch_read(MODEL_FILE, &len);
    assert_non_null(strstr((char *)whole, "accuracy"));
    for (nth = 1;; nth++) {
        int64_t before = mem_outstanding();
        enum err err;

        mem_fail_at(nth, 0);
        err = model_write_epoch(scratch_folder(), &h, NULL, "mlr-1", "/data",
                                NULL, NULL, NULL);
        mem_fail_at(0, 0);
        assert_int_equal(mem_outstanding(), before);
        other = scratch_read(MODEL_FILE, &n);
        assert_int_equal(n, len);
        assert_memory_equal(other, whole, n);
        free(other);
        if (!err)
            break;
        assert_int_equal(err, ERR_NOMEM);
    }
    assert_true(nth > 15);
    free(whole);
    history_deinit(&h);
}

int main(void)
{
#define IN_FOLDER(test)                                                        \
    cmocka_unit_test_setup_teardown(test, scratch_make, scratch_remove)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(model_written_is_read),
        IN_FOLDER(model_without_facts_is_whole),
        IN_FOLDER(model_faults_are_named),
        IN_FOLDER(model_write_may_run_out_of_memory),
        IN_FOLDER(model_of_an_epoch_may_run_out_of_memory),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
