/* The objects of a job of Kubernetes, as far as they are text: names, paths,
 * and what happens without memory. Against the API's schema, and in pods:
 * tests/process/test_kube.py. */
#include "cli/verbs/kube_job.h"

#include "base/json/json.h"
#include "base/mem.h"

#include "tests/unit/fixture/check.h"

#include <string.h>

/* Digits of the last index take their room. */
static void kube_names_are_made_of_any_text(void **state)
{
    char name[KUBE_NAME_MAX + 1], long_text[200];

    (void)state;
    kube_name_of("Digits of 2026!", 4, name);
    assert_string_equal(name, "digits-of-2026");
    kube_name_of("42 is it", 4, name);
    assert_string_equal(name, "is-it");
    kube_name_of("\303\244__", 4, name);
    assert_string_equal(name, "mltune");
    memset(long_text, 'a', sizeof(long_text));
    long_text[sizeof(long_text) - 1] = '\0';
    kube_name_of(long_text, 10, name);
    assert_int_equal(strlen(name), 61);
    kube_name_of(long_text, 11, name);
    assert_int_equal(strlen(name), 60);
}

/* Whatever name is made of a text is one. */
static void kube_names_that_are_made_are_valid(void **state)
{
    static const char *const texts[] = {"", "-", "a-", "9", "x.y", "A B", "a"};
    char name[KUBE_NAME_MAX + 1];
    struct fault f = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        kube_name_of(texts[i], 2, name);
        assert_int_equal(kube_label("", name, kube_name_most(2), true, &f),
                         ERR_OK);
    }
}

static void kube_data_lie_on_a_volume(void **state)
{
    struct kube_job job = {.data_path = "/data/"};

    (void)state;
    assert_false(kube_has_data(&job, "train.csv"));
    assert_false(kube_has_data(&job, "/data/train.csv"));
    assert_false(kube_has_data(&job, KUBE_HOME "/train.csv"));
    job.data_claim = "data";
    assert_true(kube_has_data(&job, "train.csv"));
    assert_true(kube_has_data(&job, "a/..b/train.csv"));
    assert_true(kube_has_data(&job, "/data/train.csv"));
    assert_true(kube_has_data(&job, "/data"));
    assert_false(kube_has_data(&job, "/database/train.csv"));
    assert_false(kube_has_data(&job, "/data/../train.csv"));
    assert_false(kube_has_data(&job, "../train.csv"));
    assert_false(kube_has_data(&job, "a/.."));
    assert_false(kube_has_data(&job, KUBE_HOME "/train.csv"));
    job.state_claim = "runs";
    assert_true(kube_has_data(&job, KUBE_HOME "/train.csv"));
}

static void kube_data_hide_nothing(void **state)
{
    static const char *const good[] = {
        "/data",    "/data/",    "/srv/.data", "/var/data",
        "/tmpdata", "/srv/a..b", "/usrdata",   "/var/lib/mltune2"};
    static const char *const bad[] = {"",
                                      "/",
                                      "//",
                                      "data",
                                      "/a:b",
                                      "/a\nb",
                                      KUBE_HOME,
                                      "/var/lib/mltune/",
                                      "/var",
                                      "/var/lib/",
                                      "/var/lib/mltune/state/data",
                                      KUBE_CONFIG,
                                      "/etc",
                                      "/etc/mltune/data",
                                      "/tmp",
                                      "/tmp/data",
                                      "/usr",
                                      "/usr/",
                                      "/usr/bin",
                                      "/bin",
                                      "/lib64",
                                      "/proc/1",
                                      "/dev",
                                      "/sys",
                                      "/run",
                                      "//usr",
                                      "/data//a",
                                      "/data/./a",
                                      "/data/../usr",
                                      "/data/.."};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        assert_true(kube_is_free(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (kube_is_free(bad[i]))
            fail_msg("%s is taken", bad[i]);
}

/* As each node takes its part of memory.limit (ps/node/host_io.c). */
static void kube_memory_is_a_nodes_part(void **state)
{
    const uint64_t mib = 1 << 20;

    (void)state;
    assert_int_equal(kube_memory_of(256 * mib, 1), (320 + 512) * mib);
    assert_int_equal(kube_memory_of(256 * mib, 4), (80 + 512) * mib);
    assert_int_equal(kube_memory_of(9, 2), 5 + 1 + 512 * mib);
}

static struct kube_job full_job(void)
{
    return (struct kube_job){.name = "digits",
                             .space = "ml",
                             .image = "mltune",
                             .pull = "registry",
                             .nodes = 3,
                             .cpus = 2,
                             .memory = 1 << 30,
                             .state_claim = "runs",
                             .data_claim = "data",
                             .data_path = KUBE_DATA,
                             .wait_s = 600,
                             .user = KUBE_USER,
                             .id = "01234567",
                             .key = "key",
                             .config = "{}"};
}

/* No part is left out in silence. */
static void kube_objects_are_whole_or_none(void **state)
{
    struct kube_job job = full_job();
    json_t *whole, *objects;
    int64_t had = mem_outstanding();
    size_t tries = 0;

    (void)state;
    json_count_memory();
    whole = kube_job_objects(&job);
    assert_non_null(whole);
    for (bool failed = true; failed; tries++) {
        mem_fail_at((int64_t)tries + 1, 0);
        objects = kube_job_objects(&job);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_true(!objects == failed);
        if (objects)
            assert_true(json_equal(objects, whole));
        json_decref(objects);
    }
    assert_true(tries > 100);
    json_decref(whole);
    assert_int_equal(mem_outstanding(), had);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kube_names_are_made_of_any_text),
        cmocka_unit_test(kube_names_that_are_made_are_valid),
        cmocka_unit_test(kube_data_lie_on_a_volume),
        cmocka_unit_test(kube_data_hide_nothing),
        cmocka_unit_test(kube_memory_is_a_nodes_part),
        cmocka_unit_test(kube_objects_are_whole_or_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
