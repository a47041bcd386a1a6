#include "base/fault.h"
#include "base/log.h"
#include "base/proto/branch.h"
#include "tests/unit/fixture/check.h"

#include <errno.h>

/* Every code has a name and a text of its own, and a number from a newer
 * version is no crash. */
static void err_every_code_has_text(void **state)
{
    (void)state;
    for (int i = 0; i < ERR_COUNT; i++) {
        assert_true(strlen(err_text((enum err)i)) > 0);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(err_name((enum err)i),
                                    err_name((enum err)j));
    }
    assert_string_equal(err_name(ERR_NOMEM), "nomem");
    assert_string_equal(err_text((enum err)999), "unknown error");
}

static void fault_set_returns_its_code_and_keeps_text(void **state)
{
    struct fault f;

    (void)state;
    assert_int_equal(fault_set(&f, ERR_FORMAT, "line %d: bad", 7), ERR_FORMAT);
    assert_string_equal(f.text, "line 7: bad");
    assert_int_equal(f.code, ERR_FORMAT);
    assert_int_equal(fault_set(NULL, ERR_IO, "x"), ERR_IO);
}

/* Wrapping reads from the outside in, as a person would say it. */
static void fault_wrap_puts_context_in_front(void **state)
{
    struct fault f;

    (void)state;
    fault_set(&f, ERR_FORMAT, "line 7: bad");
    assert_int_equal(fault_wrap(&f, "read %s", "a.txt"), ERR_FORMAT);
    assert_string_equal(f.text, "read a.txt: line 7: bad");
}

static void fault_errno_adds_the_systems_reason(void **state)
{
    struct fault f;

    (void)state;
    fault_errno(&f, ERR_IO, ENOSPC, "write %s", "model");
    assert_string_equal(f.text, "write model: No space left on device");
}

/* A text that is too long is cut, never overrun. */
static void fault_long_text_is_cut(void **state)
{
    char longer[2 * FAULT_TEXT_MAX];
    struct fault f;

    (void)state;
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = 0;
    fault_set(&f, ERR_IO, "%s", longer);
    assert_int_equal(strlen(f.text), FAULT_TEXT_MAX - 1);
    fault_wrap(&f, "%s", longer);
    assert_int_equal(strlen(f.text), FAULT_TEXT_MAX - 1);
}

struct lines {
    int count;
    char last[512];
};

static void keep_line(void *ctx, enum log_level level, const char *line)
{
    struct lines *lines = ctx;

    (void)level;
    lines->count++;
    strncpy(lines->last, line, sizeof(lines->last) - 1);
}

/* An event is one line: name, then key=value, with control characters made
 * harmless; what is above the level is dropped. */
static void log_event_is_one_line_at_its_level(void **state)
{
    struct lines lines = {0};

    (void)state;
    log_set_sink(keep_line, &lines);
    log_event(LOG_WARN, "node_lost", "node=%d reason=%s", 3, "a\nb\033[0m");
    assert_int_equal(lines.count, 1);
    assert_non_null(strstr(lines.last, "Z warn node_lost node=3 reason=a?b?"));
    log_event(LOG_INFO, "quiet", "");
    assert_int_equal(lines.count, 1);
    log_set_level(LOG_INFO);
    log_event(LOG_INFO, "loud", "");
    assert_int_equal(lines.count, 2);
    log_set_level(LOG_WARN);
    log_set_sink(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(err_every_code_has_text),
        cmocka_unit_test(fault_set_returns_its_code_and_keeps_text),
        cmocka_unit_test(fault_wrap_puts_context_in_front),
        cmocka_unit_test(fault_errno_adds_the_systems_reason),
        cmocka_unit_test(fault_long_text_is_cut),
        cmocka_unit_test(log_event_is_one_line_at_its_level),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
