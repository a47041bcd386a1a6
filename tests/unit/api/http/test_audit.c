/* The audit: lines that are whole, kept within a bound, by many writers. */
#include "api/http/audit_io.h"

#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/faulty_disk.h"
#include "tests/unit/fixture/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/wait.h>

static const struct audit_entry stop = {.by = "alice",
                                        .role = ROLE_RUN,
                                        .what = "stop",
                                        .on = "digits-4f9c2a",
                                        .outcome = "202"};

static void note(const struct audit_entry *e)
{
    struct fault f = {0};

    if (audit_write(scratch_folder(), e, &f) != ERR_OK)
        fail_msg("%s", f.text);
}

/* Lines that are JSON, of those there are @all (NULL: not wanted); the last one
 * is the caller's. */
static json_t *lines(size_t *good, size_t *all)
{
    char *text = NULL, *rest;
    json_t *last = NULL;
    size_t len;

    *good = *all = 0;
    assert_int_equal(audit_read(scratch_folder(), &text, &len, NULL), ERR_OK);
    assert_int_equal(strlen(text), len);
    rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        json_t *o = NULL;

        if (!*line)
            continue;
        (*all)++;
        if (json_load(line, strlen(line), &o, NULL, NULL) != ERR_OK)
            continue;
        (*good)++;
        json_decref(last);
        last = o;
    }
    mem_free(text);
    return last;
}

static void says(const json_t *o, const char *name, const char *text)
{
    assert_string_equal(json_string_value(json_object_get(o, name)), text);
}

/* A line says who, with which role, what, on what, when and what came of it;
 * the file is for its owner. */
static void audit_line_says_all(void **state)
{
    size_t good, all;
    struct stat st;
    json_t *o = lines(&good, &all);

    (void)state;
    assert_null(o);
    assert_int_equal(all, 0);
    note(&stop);
    o = lines(&good, &all);
    assert_int_equal(all, 1);
    says(o, "by", "alice");
    says(o, "role", "run");
    says(o, "what", "stop");
    says(o, "on", "digits-4f9c2a");
    says(o, "outcome", "202");
    assert_true(json_time_at(o, "/at") > 1.7e9);
    json_decref(o);
    assert_int_equal(stat(scratch_path("audit"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

/* What a client chose the text of stays one line, however long, and JSON. */
static void audit_line_holds_any_text(void **state)
{
    char longest[1000];
    size_t good, all;
    struct audit_entry e = stop;

    (void)state;
    e.on = "a\"b\nc\\";
    note(&e);
    for (size_t i = 0; i + 2 < sizeof(longest); i += 2)
        memcpy(longest + i, "\xc3\xa4", 3);
    e.on = longest;
    note(&e);
    e.on = longest + 2;
    note(&e);
    memset(longest, '\x01', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    note(&e);
    json_decref(lines(&good, &all));
    assert_int_equal(all, 4);
    assert_int_equal(good, 4);
}

/* A full disk: the error names the file, a piece of a line spoils no other, and
 * the log has what the audit has not. */
static void audit_survives_a_full_disk(void **state)
{
    size_t good, all;
    struct fault f = {0};

    (void)state;
    note(&stop);
    faulty_disk_on("write", 1, ENOSPC);
    assert_int_equal(audit_write(scratch_folder(), &stop, &f), ERR_IO);
    faulty_disk_off();
    assert_non_null(strstr(f.text, "audit"));
    assert_non_null(strstr(f.text, "No space left"));
    scratch_text("audit", "{\"at\": \"2026-11-23T20:40:00Z\", \"b");
    note(&stop);
    note(&stop);
    json_decref(lines(&good, &all));
    assert_int_equal(good, 2);
    assert_int_equal(all, 3);
}

static char logged[1024];

static void keep_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    snprintf(logged, sizeof(logged), "%s", line);
}

/* Whoever cannot be told has it in the log. */
static void audit_that_cannot_be_written_is_logged(void **state)
{
    (void)state;
    log_set_sink(keep_line, NULL);
    audit_note("/nowhere/at/all", &stop);
    log_set_sink(NULL, NULL);
    assert_non_null(strstr(logged, "audit_not_written"));
    assert_non_null(strstr(logged, "by=alice"));
    assert_non_null(strstr(logged, "on=digits-4f9c2a outcome=202"));
}

/* A file that is full becomes the older one, once; both are read, in order. */
static void audit_is_bounded(void **state)
{
    struct audit_entry e = stop;
    size_t good, all, n = 0;
    struct stat st;
    json_t *last;

    (void)state;
    e.on = "first";
    note(&e);
    e.on = "older";
    while (stat(scratch_path("audit"), &st) == 0 &&
           st.st_size < AUDIT_FILE_MAX) {
        note(&e);
        n++;
    }
    assert_int_equal(access(scratch_path("audit.1"), F_OK), -1);
    e.on = "newest";
    note(&e);
    assert_int_equal(stat(scratch_path("audit"), &st), 0);
    assert_true(st.st_size < AUDIT_LINE_MAX);
    assert_int_equal(stat(scratch_path("audit.1"), &st), 0);
    assert_true(st.st_size < AUDIT_FILE_MAX + AUDIT_LINE_MAX);
    last = lines(&good, &all);
    says(last, "on", "newest");
    json_decref(last);
    assert_int_equal(all, n + 2);
    assert_int_equal(good, all);
    assert_true(n > 20000);
}

/* Many processes at once, over the turn of the file: each line is there. */
static void audit_takes_many_writers(void **state)
{
    enum { PROCESSES = 4, EACH = 200 };
    size_t good, all;
    int status;
    FILE *file = fopen(scratch_path("audit"), "we");

    (void)state;
    assert_non_null(file);
    for (int i = 0; i < AUDIT_FILE_MAX - 20000; i += 2)
        fputs("\n\n", file);
    assert_int_equal(fclose(file), 0);
    for (int p = 0; p < PROCESSES; p++)
        if (fork() == 0) {
            enum err err = ERR_OK;

            for (int i = 0; i < EACH && !err; i++)
                err = audit_write(scratch_folder(), &stop, NULL);
            _exit(err != ERR_OK);
        }
    for (int p = 0; p < PROCESSES; p++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    json_decref(lines(&good, &all));
    assert_int_equal(access(scratch_path("audit.1"), F_OK), 0);
    assert_int_equal(all, PROCESSES * EACH);
    assert_int_equal(good, all);
}

int main(void)
{
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)
    const struct CMUnitTest tests[] = {
        TEST(audit_line_says_all),
        TEST(audit_line_holds_any_text),
        TEST(audit_survives_a_full_disk),
        TEST(audit_that_cannot_be_written_is_logged),
        TEST(audit_is_bounded),
        TEST(audit_takes_many_writers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
