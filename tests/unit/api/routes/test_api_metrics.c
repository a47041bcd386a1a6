/* /metrics: the text format of Prometheus, read strictly. */
#include "api/service/service.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/http_fixture.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct http_fixture x;
static char text[65536];

static int setup(void **state)
{
    (void)state;
    http_fixture_init(&x);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_fixture_deinit(&x);
    return 0;
}

static const char *get(void)
{
    struct response r = {0};

    service_respond(x.view, "GET", "/metrics", &r);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.type, "text/plain; version=0.0.4; charset=utf-8");
    assert_true(r.len < sizeof(text));
    memcpy(text, r.body, r.len);
    text[r.len] = '\0';
    response_deinit(&r);
    return text;
}

/* Reads a name at *@at; false where there is none. */
static bool read_name(const char **at)
{
    const char *s = *at;

    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    while (isalnum((unsigned char)*s) || *s == '_')
        s++;
    *at = s;
    return true;
}

/* {name="value",...}: values with \\, \" and \n only escaped. */
static bool read_labels(const char **at)
{
    const char *s = *at;

    if (*s != '{')
        return true;
    do {
        s++;
        if (!read_name(&s) || *s++ != '=' || *s++ != '"')
            return false;
        for (; *s != '"'; s++) {
            if (*s == '\0' || *s == '\n')
                return false;
            if (*s == '\\' && !strchr("\\\"n", *++s))
                return false;
        }
        s++;
    } while (*s == ',');
    *at = s + 1;
    return *s == '}';
}

/* Whether the first @n characters of @line name a sample of that family. */
static bool is_of(const char *line, size_t n, const char *name,
                  const char *type)
{
    static const char *const suffix[] = {"_bucket", "_sum", "_count"};
    size_t len = strlen(name);

    if (n < len || strncmp(line, name, len) != 0)
        return false;
    if (strcmp(type, "histogram") != 0)
        return n == len;
    for (int i = 0; i < 3; i++)
        if (n - len == strlen(suffix[i]) &&
            strncmp(line + len, suffix[i], n - len) == 0)
            return true;
    return false;
}

/* A sample of the family @name and @type; its series must not be in @seen. */
static void check_sample(const char *line, const char *name, const char *type,
                         char *seen)
{
    const char *at = line;
    char series[512], *end;

    if (!read_name(&at) || !is_of(line, (size_t)(at - line), name, type) ||
        !read_labels(&at) || *at != ' ')
        fail_msg("no sample of %s: %s", name, line);
    snprintf(series, sizeof(series), "%.*s\n", (int)(at - line), line);
    if (strstr(seen, series))
        fail_msg("twice: %s", series);
    strcat(seen, series);
    if (strtod(at + 1, &end) < 0 && strcmp(type, "counter") == 0)
        fail_msg("a counter below 0: %s", line);
    if (end == at + 1 || *end)
        fail_msg("no number: %s", line);
    assert_null(strstr(line, "trial="));
    assert_null(strstr(line, "branch="));
}

/* HELP, TYPE, then the family's samples, each family once; names and units as
 * they should be. Returns how many samples. */
static unsigned check_format(char *whole)
{
    static char seen[65536];
    char name[128] = "", type[16] = "", families[8192] = "", *save = NULL;
    unsigned samples = 0;

    seen[0] = '\0';
    assert_true(whole[strlen(whole) - 1] == '\n');
    for (char *line = strtok_r(whole, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "# HELP ", 7) == 0) {
            char key[132];

            assert_int_equal(sscanf(line, "# HELP %127s %*s", name), 1);
            snprintf(key, sizeof(key), " %s ", name);
            assert_null(strstr(families, key));
            strcat(families, key);
            assert_int_equal(strncmp(name, "mltune_", 7), 0);
            type[0] = '\0';
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            char again[128];
            size_t n = strlen(name);
            bool total = n > 6 && strcmp(name + n - 6, "_total") == 0;

            assert_int_equal(sscanf(line, "# TYPE %127s %15s", again, type), 2);
            assert_string_equal(again, name);
            assert_int_equal(total, strcmp(type, "counter") == 0);
            assert_true(total || strcmp(type, "gauge") == 0 ||
                        strcmp(type, "histogram") == 0);
        } else {
            assert_true(type[0]);
            check_sample(line, name, type, seen);
            samples++;
        }
    }
    return samples;
}

static bool has(const char *line)
{
    return strstr(text, line) != NULL;
}

/* A run's figures, in the form that is read everywhere. */
static void metrics_show_a_run(void **state)
{
    (void)state;
    http_fixture_run(&x);
    get();
    assert_true(has("mltune_build_info{version=\"" MLT_VERSION "\"} 1\n"));
    assert_true(has("mltune_run_info{run=\"run-1\",name=\"digits\",app=\"mlr\","
                    "strategy=\"mltuner\",searcher=\"random\"} 1\n"));
    assert_true(has("mltune_run_status{run=\"run-1\",status=\"tuning\"} 1\n"));
    assert_true(has("mltune_run_status{run=\"run-1\",status=\"failed\"} 0\n"));
    assert_true(has("mltune_run_trials_total{run=\"run-1\"} 3\n"));
    assert_true(has("mltune_run_epochs{run=\"run-1\"} 2\n"));
    assert_true(has("mltune_run_loss{run=\"run-1\"} 0.5\n"));
    assert_true(has("mltune_run_branches_live{run=\"run-1\"} 5\n"));
    assert_true(has("mltune_run_tuning_seconds_total{run=\"run-1\"} 3.5\n"));
    assert_true(check_format(text) >= 20);
}

/* The nodes of a run that lasts, and how many clocks its reads missed: a
 * histogram whose buckets add up. After its end it has none. */
static void metrics_show_nodes_of_runs_that_last(void **state)
{
    (void)state;
    http_fixture_run(&x);
    http_fixture_beat(&x, 1, 5000);
    get();
    assert_true(has("mltune_node_up{run=\"run-1\",node=\"0\"} 0\n"));
    assert_true(has("mltune_node_up{run=\"run-1\",node=\"1\"} 1\n"));
    assert_true(
        has("mltune_node_sent_bytes_total{run=\"run-1\",node=\"1\"} 5000\n"));
    assert_true(has(
        "mltune_node_device_memory_bytes{run=\"run-1\",node=\"1\"} 7000\n"));
    assert_true(
        has("mltune_node_device_in_bytes_total{run=\"run-1\",node=\"1\"} "
            "90000\n"));
    assert_true(
        has("mltune_node_work_seconds_total{run=\"run-1\",node=\"1\"} 6\n"));
#define MISSED "mltune_run_read_missed_clocks"
    assert_true(has(MISSED "_bucket{run=\"run-1\",le=\"0\"} 2\n"));
    assert_true(has(MISSED "_bucket{run=\"run-1\",le=\"2\"} 2\n"));
    assert_true(has(MISSED "_bucket{run=\"run-1\",le=\"3\"} 3\n"));
    assert_true(has(MISSED "_bucket{run=\"run-1\",le=\"+Inf\"} 3\n"));
    assert_true(has(MISSED "_sum{run=\"run-1\"} 3\n"));
    assert_true(has(MISSED "_count{run=\"run-1\"} 3\n"));
    assert_true(check_format(text) >= 40);
    http_fixture_finish(&x);
    get();
    assert_false(has("mltune_node_up{"));
    assert_false(has(MISSED "_count{"));
#undef MISSED
}

/* Before anything is known, what is not there is left out; a name with any
 * characters stays within its label. */
static void metrics_of_odd_runs_are_well_formed(void **state)
{
    struct history h;

    (void)state;
    history_init(&h);
    assert_int_equal(
        view_add_run(x.view, "run-2", "a\"b\\c\nd\x01 \xc3\xa4} 1", &h),
        ERR_OK);
    get();
    assert_true(has("name=\"a\\\"b\\\\c?d? \xc3\xa4} 1\""));
    assert_false(has("mltune_run_loss{"));
    assert_false(has("NaN"));
    check_format(text);
    history_deinit(&h);
}

/* Without memory it is 503. */
static void metrics_without_memory_are_refused(void **state)
{
    bool failed = true;

    (void)state;
    http_fixture_run(&x);
    for (int64_t n = 1; failed; n++) {
        struct response r = {0};

        mem_fail_at(n, 1);
        service_respond(x.view, "GET", "/metrics", &r);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(r.status, failed ? 503 : 200);
        response_deinit(&r);
    }
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(metrics_show_a_run),
        WITH(metrics_show_nodes_of_runs_that_last),
        WITH(metrics_of_odd_runs_are_well_formed),
        WITH(metrics_without_memory_are_refused),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
