/* Pieces of logs: which bytes, of which files. */
#include "api/routes/log_io.h"
#include "api/service/service.h"
#include "api/view/view.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], path[128];

static void put(const char *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/mltune-test-log-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/runs", dir);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/runs/run-1", dir);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/runs/run-1/node-0.log", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return folder_remove(dir, NULL) == ERR_OK ? 0 : -1;
}

/* Bytes as they are, from where was asked, no more than was asked. */
static void log_piece_is_where_it_was_asked_for(void **state)
{
    static const struct {
        int64_t offset;
        size_t limit, len;
        uint64_t from;
    } cases[] = {
        {0, 100, 10, 0},       {0, 4, 4, 0},     {3, 4, 4, 3},
        {-4, 100, 4, 6},       {-4, 2, 2, 6},    {-100, 100, 10, 0},
        {10, 100, 0, 10},      {99, 100, 0, 10}, {INT64_MAX, 1, 0, 10},
        {-INT64_MAX, 1, 1, 0},
    };
    static const char bytes[10] = "ab\0\xff\ncd\n\x1b\n";
    struct log_piece p;

    (void)state;
    put(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(log_read(path, cases[i].offset, cases[i].limit, &p),
                         ERR_OK);
        assert_int_equal(p.len, cases[i].len);
        assert_int_equal(p.from, cases[i].from);
        assert_int_equal(p.next, p.from + p.len);
        assert_memory_equal(p.bytes, bytes + p.from, p.len);
        mem_free(p.bytes);
    }
}

/* A log of gigabytes costs no more than the piece. */
static void log_piece_of_a_large_file_is_as_small(void **state)
{
    struct log_piece p;

    (void)state;
    put("a", 1);
    assert_int_equal(truncate(path, INT64_C(1) << 40), 0);
    assert_int_equal(log_read(path, -5, LOG_PIECE_MAX, &p), ERR_OK);
    assert_int_equal(p.len, 5);
    assert_int_equal(p.next, INT64_C(1) << 40);
    mem_free(p.bytes);
    assert_int_equal(log_read(path, 0, LOG_PIECE_MAX, &p), ERR_OK);
    assert_int_equal(p.len, LOG_PIECE_MAX);
    mem_free(p.bytes);
}

/* What was given back of a long log is passed over; places stay. */
static void log_piece_begins_where_bytes_are_kept(void **state)
{
    static char bytes[3 * 65536];
    struct log_piece p;
    int fd;

    (void)state;
    memset(bytes, 'a', sizeof(bytes));
    memset(bytes + 65536, 'b', 2);
    put(bytes, sizeof(bytes));
    fd = open(path, O_WRONLY);
    assert_int_equal(
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 65536), 0);
    close(fd);
    for (int64_t at = 0; at <= 65536; at += 32768) {
        assert_int_equal(log_read(path, at, 3, &p), ERR_OK);
        assert_int_equal(p.from, 65536);
        assert_int_equal(p.next, 65539);
        assert_memory_equal(p.bytes, "bba", 3);
        mem_free(p.bytes);
    }
    assert_int_equal(log_read(path, -1, 3, &p), ERR_OK);
    assert_int_equal(p.next, sizeof(bytes));
    mem_free(p.bytes);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(truncate(path, 65536), 0); /* nothing is kept */
    assert_int_equal(log_read(path, 0, 3, &p), ERR_OK);
    assert_int_equal(p.from, 65536);
    assert_int_equal(p.len, 0);
    mem_free(p.bytes);
}

/* Links, pipes and folders are not read: only regular files are. */
static void log_that_is_no_file_is_not_read(void **state)
{
    struct log_piece p;

    (void)state;
    assert_int_equal(log_read(path, 0, 1, &p), ERR_NOENT);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(log_read(path, 0, 1, &p), ERR_INVAL);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(log_read(path, 0, 1, &p), ERR_INVAL);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(log_read(path, 0, 1, &p), ERR_INVAL);
}

/* Without memory there is no piece, and nothing is left. */
static void log_without_memory_is_refused(void **state)
{
    int64_t before = mem_outstanding();
    struct log_piece p;

    (void)state;
    put("ab", 2);
    mem_fail_at(1, 0);
    assert_int_equal(log_read(path, 0, 1, &p), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(mem_outstanding(), before);
}

static struct response ask(const char *query)
{
    struct view_options options = {.state = dir};
    struct response r = {0};
    struct history h;
    struct view *v;
    char target[128];

    history_init(&h);
    assert_int_equal(view_new(&options, &v), ERR_OK);
    assert_int_equal(view_add_run(v, "run-1", "run", &h), ERR_OK);
    snprintf(target, sizeof(target), "/api/v1/runs/%s", query);
    service_respond(v, "GET", target, &r);
    view_free(v);
    history_deinit(&h);
    return r;
}

/* Over HTTP: the piece, its places as headers; refusals. */
static void log_route_answers_a_piece(void **state)
{
    struct response_header header[RESPONSE_HEADERS_MAX];
    struct response r;
    size_t n, found = 0;

    (void)state;
    put("abcdef", 6);
    r = ask("run-1/log?offset=-4&limit=3");
    assert_int_equal(r.status, 200);
    assert_string_equal(r.type, "text/plain; charset=utf-8");
    assert_int_equal(r.len, 3);
    assert_memory_equal(r.body, "cde", 3);
    n = response_headers(&r, header);
    for (size_t i = 0; i < n; i++)
        if (strcmp(header[i].name, "Log-Offset") == 0)
            found += strcmp(header[i].value, "2") == 0;
        else if (strcmp(header[i].name, "Log-Next-Offset") == 0)
            found += strcmp(header[i].value, "5") == 0;
    assert_int_equal(found, 2);
    response_deinit(&r);
    r = ask("run-1/log");
    assert_int_equal(r.len, 6);
    response_deinit(&r);
    r = ask("run-1/log?node=1");
    assert_int_equal(r.status, 404);
    assert_non_null(strstr(r.body, "log_not_found"));
    response_deinit(&r);
    r = ask("run-2/log");
    assert_int_equal(r.status, 404);
    assert_non_null(strstr(r.body, "run_not_found"));
    response_deinit(&r);
    r = ask("run-1/log?limit=1048577&offset=--1&node=64");
    assert_int_equal(r.status, 400);
    assert_non_null(strstr(r.body, "3 parameters"));
    response_deinit(&r);
    unlink(path);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    r = ask("run-1/log");
    assert_int_equal(r.status, 500);
    assert_non_null(strstr(r.body, "log_not_readable"));
    response_deinit(&r);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(log_piece_is_where_it_was_asked_for),
        CASE(log_piece_of_a_large_file_is_as_small),
        CASE(log_piece_begins_where_bytes_are_kept),
        CASE(log_that_is_no_file_is_not_read),
        CASE(log_without_memory_is_refused),
        CASE(log_route_answers_a_piece),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
