/* The table of deadlines (base/deadlines.h) is the one of docs/failures.md. */
#include "base/deadlines.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "base/text.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>

static const struct {
    const char *name, *what, *then;
    int ms;
} table[] = {
#define X(name, ms, what, then) {#name, what, then, ms},
    DEADLINES(X)
#undef X
};

enum { ROWS = sizeof(table) / sizeof(*table) };

static const char head[] = "| wait for | at most | then |\n|---|---|---|\n";

/* "6 h", "10 min", "9.7 s" */
static void put_time(struct text *t, int ms)
{
    if (ms >= 3600000 && ms % 3600000 == 0)
        text_printf(t, "%d h", ms / 3600000);
    else if (ms >= 120000 && ms % 60000 == 0)
        text_printf(t, "%d min", ms / 60000);
    else
        text_printf(t, "%g s", ms * 1e-3);
}

static char *as_documented(void)
{
    struct text t = {0};

    text_puts(&t, head);
    for (size_t i = 0; i < ROWS; i++) {
        text_printf(&t, "| %s | ", table[i].what);
        put_time(&t, table[i].ms);
        text_printf(&t, " | %s |\n", table[i].then);
    }
    return text_take(&t);
}

/* Row for row; what is wrong is printed as it should be. */
static void deadlines_are_as_documented(void **state)
{
    char *page, *wanted = as_documented();
    size_t len;

    (void)state;
    assert_non_null(wanted);
    assert_int_equal(file_read("docs/failures.md", 1 << 20, &page, &len, NULL),
                     ERR_OK);
    if (!strstr(page, wanted))
        fail_msg("docs/failures.md is to have this table:\n%s", wanted);
    mem_free(page);
    mem_free(wanted);
}

/* Each is one, and no wait is for ever. */
static void deadlines_are_finite(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        assert_in_range(table[i].ms, 1, 24 * 3600 * 1000);
        assert_true(strlen(table[i].what) > 0 && strlen(table[i].then) > 0);
    }
}

/* What ends a run on SIGTERM fits one into the other, and into ten seconds. */
static void deadlines_of_an_end_are_nested(void **state)
{
    (void)state;
    assert_true(DEADLINE_STOP_SNAPSHOT_MS < DEADLINE_STOP_NODES_MS);
    /* A node that a kill does not end, too: the run says how it ended. */
    assert_true(DEADLINE_STOP_NODES_MS + DEADLINE_KILLED_MS <
                DEADLINE_STOP_RUN_MS);
    assert_true(DEADLINE_STOP_RUN_MS < DEADLINE_STOP_SERVICE_MS);
    assert_true(DEADLINE_STOP_SERVICE_MS < 10000);
    assert_true(DEADLINE_COMMAND_MS < DEADLINE_CLIENT_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadlines_are_as_documented),
        cmocka_unit_test(deadlines_are_finite),
        cmocka_unit_test(deadlines_of_an_end_are_nested),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
