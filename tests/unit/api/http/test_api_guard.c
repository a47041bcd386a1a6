#include "api/http/guard.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>

/* A head like that of a usual client, to be spoiled by a test. */
struct fake {
    struct head head;
    char more[256];
};

static struct listen_address self;

static void add(struct fake *f, const char *name, const char *value)
{
    f->head.field[f->head.fields++] =
        (struct head_field){name, value, strlen(name), strlen(value)};
}

/* As long as it arrives from a client that writes "Name: value". */
static void measure(struct fake *f)
{
    size_t n = strlen(f->head.method) + strlen(f->head.target) +
               strlen(f->head.version) + 6;

    for (size_t i = 0; i < f->head.fields; i++)
        n += f->head.field[i].name_len + f->head.field[i].value_len + 4;
    f->head.bytes = n;
}

static struct fake *plain(const char *method, const char *target)
{
    static struct fake f;

    memset(&f, 0, sizeof(f));
    assert_int_equal(listen_parse("127.0.0.1:8080", &self, NULL), ERR_OK);
    f.head.method = method;
    f.head.target = target;
    f.head.version = "HTTP/1.1";
    add(&f, "Host", "127.0.0.1:8080");
    add(&f, "User-Agent", "test");
    add(&f, "Accept", "*/*");
    return &f;
}

/* Status that @f is refused with; 0: it is let through. A refusal must close
 * the connection and be a problem document. */
static int check(struct fake *f)
{
    struct response out = {0};
    int status;

    if (f->head.bytes == 0)
        measure(f);
    if (guard_check(&f->head, &self, &out)) {
        assert_int_equal(out.status, 0);
        return 0;
    }
    assert_true(out.close);
    assert_string_equal(out.type, "application/problem+json");
    status = out.status;
    response_deinit(&out);
    return status;
}

static int check_with(const char *name, const char *value)
{
    struct fake *f = plain("GET", "/");

    add(f, name, value);
    return check(f);
}

static int check_host(const char *host)
{
    struct fake *f = plain("GET", "/");

    f->head.field[0].value = host;
    f->head.field[0].value_len = strlen(host);
    return check(f);
}

/* Usual requests of clients are let through. */
static void guard_usual_requests_pass(void **state)
{
    struct fake *f;

    (void)state;
    assert_int_equal(check(plain("GET", "/")), 0);
    assert_int_equal(check(plain("HEAD", "/api/v1/runs?page_size=5")), 0);
    assert_int_equal(check(plain("DELETE", "/api/v1/runs/a")), 0);
    assert_int_equal(check_with("Cookie", "a=b; c=\xc3\xa4"), 0);
    assert_int_equal(check_with("X-Tab", "a\tb"), 0);
    assert_int_equal(check_with("Content-Length", "0"), 0);
    assert_int_equal(check_with("Accept", "text/html"), 0);
    f = plain("POST", "/api/v1/runs");
    add(f, "Content-Length", "1048576");
    assert_int_equal(check(f), 0);
    f = plain("POST", "/api/v1/runs");
    add(f, "Transfer-Encoding", "Chunked");
    assert_int_equal(check(f), 0);
    f = plain("GET", "/");
    f->head.version = "HTTP/1.0";
    assert_int_equal(check(f), 0);
}

/* A header without a value may or may not have a blank after its colon; one
 * with a value must. */
static void guard_length_allows_one_form(void **state)
{
    struct fake *f = plain("GET", "/");

    (void)state;
    add(f, "X-Empty", "");
    measure(f);
    assert_int_equal(check(f), 0);
    f->head.bytes--;
    assert_int_equal(check(f), 0);
    f->head.bytes--;
    assert_int_equal(check(f), 400);
    f->head.bytes += 3;
    assert_int_equal(check(f), 400);
}

/* Only our names with our port are ours, in any case; without a port it is
 * that of http. */
static void guard_host_is_on_the_list(void **state)
{
    static const char *const ours[] = {"127.0.0.1:8080", "localhost:8080",
                                       "LocalHost:8080", "[::1]:8080"};
    static const char *const others[] = {
        "",
        "localhost",
        "localhost:",
        "localhost:80",
        "evil:8080",
        "localhost:8080.",
        "localhost:8080 ",
        " localhost:8080",
        "evil@localhost:8080",
        "localhost:8080,evil",
        "127.0.0.1:08080",
        "127.1:8080",
        "0.0.0.0:8080",
        "localhost.evil:8080",
        "[::1%lo]:8080",
        "2130706433:8080",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        assert_int_equal(check_host(ours[i]), 0);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (check_host(others[i]) != 421)
            fail_msg("\"%s\" is not refused", others[i]);
    }
}

/* On port 80 a client leaves the port out. */
static void guard_host_port_80_may_be_left_out(void **state)
{
    struct fake *f = plain("GET", "/");

    (void)state;
    assert_int_equal(listen_parse("127.0.0.2:80", &self, NULL), ERR_OK);
    f->head.field[0] = (struct head_field){"Host", "127.0.0.2", 4, 9};
    assert_int_equal(check(f), 0);
    f->head.field[0] = (struct head_field){"Host", "127.0.0.3", 4, 9};
    f->head.bytes = 0;
    assert_int_equal(check(f), 421);
}

/* A page of another origin is refused for every method, whatever else it
 * claims. */
static void guard_foreign_origin_is_refused(void **state)
{
    static const char *const methods[] = {"GET",   "HEAD",   "POST",   "PUT",
                                          "PATCH", "DELETE", "OPTIONS"};
    static const char *const rows[][2] = {
        {"Origin", "https://evil.example"},
        {"Origin", "http://evil.example:8080"},
        {"Origin", "https://127.0.0.1:8080"},
        {"Origin", "http://127.0.0.1:8081"},
        {"Origin", "http://127.0.0.1:8080/"},
        {"Origin", "null"},
        {"Origin", ""},
        {"Sec-Fetch-Site", "cross-site"},
        {"Sec-Fetch-Site", "same-site"},
        {"Sec-Fetch-Site", "whatever"},
        {"SEC-FETCH-SITE", "cross-site"},
    };

    (void)state;
    for (size_t m = 0; m < sizeof(methods) / sizeof(methods[0]); m++)
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            struct fake *f = plain(methods[m], "/");

            add(f, rows[i][0], rows[i][1]);
            assert_int_equal(check(f), 403);
        }
    assert_int_equal(check_with("Origin", "http://localhost:8080"), 0);
    assert_int_equal(check_with("Sec-Fetch-Site", "same-origin"), 0);
    assert_int_equal(check_with("Sec-Fetch-Site", "none"), 0);
}

/* Fields that decide how a request is read may come once, in whatever case
 * they are written. */
static void guard_duplicates_are_refused(void **state)
{
    static const char *const names[] = {
        "HOST",          "content-length", "Transfer-Encoding", "Content-Type",
        "Authorization", "Origin",         "Sec-Fetch-Site",    "Expect"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct fake *f = plain("POST", "/");

        if (i > 0)
            add(f, names[i], "0");
        add(f, names[i], "0");
        assert_int_equal(check(f), 400);
    }
    assert_int_equal(check_with("Accept", "a"), 0);
}

/* Where a body ends must be certain, and a GET has none. */
static void guard_bodies_are_certain(void **state)
{
    static const char *const lengths[] = {
        "",  "+1", "-1", "0x1", "1 ", "1,1", "1.0", "9999999999999999999",
        "a", " 1"};
    struct fake *f;

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        f = plain("POST", "/");
        add(f, "Content-Length", lengths[i]);
        assert_int_equal(check(f), 400);
    }
    f = plain("POST", "/");
    add(f, "Content-Length", "1048577");
    assert_int_equal(check(f), 413);
    f = plain("POST", "/");
    add(f, "Content-Length", "0");
    add(f, "Transfer-Encoding", "chunked");
    assert_int_equal(check(f), 400);
    assert_int_equal(check_with("Content-Length", "1"), 400);
    assert_int_equal(check_with("Transfer-Encoding", "chunked"), 400);
    assert_int_equal(check_with("Transfer-Encoding", "identity"), 400);
    f = plain("POST", "/");
    add(f, "Transfer-Encoding", "gzip, chunked");
    assert_int_equal(check(f), 400);
}

/* Every byte that does not belong in its place is refused there. */
static void guard_bytes_in_their_places(void **state)
{
    (void)state;
    for (int c = 1; c < 256; c++) {
        char target[] = {'/', (char)c, 'x', '\0'};
        char value[] = {'a', (char)c, 'b', '\0'};
        char name[] = {'x', (char)c, 'y', '\0'};
        bool printable = c > 0x20 && c < 0x7f;
        bool token = printable && !strchr("\"(),/:;<=>?@[\\]{}", c);

        assert_int_equal(check(plain("GET", target)) == 0,
                         printable && c != '#');
        assert_int_equal(check_with("X-A", value) == 0,
                         c == '\t' || (c >= 0x20 && c != 0x7f));
        assert_int_equal(check_with(name, "v") == 0, token);
        assert_int_equal(check(plain(name, "/")) == 0, token);
    }
}

/* NUL bytes are refused in names and values. */
static void guard_nul_is_refused(void **state)
{
    struct fake *f = plain("GET", "/");

    (void)state;
    f->head.field[1] = (struct head_field){"X-A", "a\0b", 3, 3};
    assert_int_equal(check(f), 400);
    f = plain("GET", "/");
    f->head.field[1] = (struct head_field){"X\0A", "ab", 3, 2};
    assert_int_equal(check(f), 400);
}

/* Each limit holds to the byte. */
static void guard_limits_hold(void **state)
{
    static char target[HEAD_TARGET_MAX + 2], value[HEAD_BYTES_MAX];
    struct fake *f;

    (void)state;
    memset(target, 'a', HEAD_TARGET_MAX + 1);
    target[0] = '/';
    assert_int_equal(check(plain("GET", target)), 414);
    target[HEAD_TARGET_MAX] = '\0';
    assert_int_equal(check(plain("GET", target)), 0);

    f = plain("GET", "/");
    while (f->head.fields < HEAD_HEADERS_MAX)
        add(f, "X-A", "b");
    assert_int_equal(check(f), 0);
    f->head.fields++;
    assert_int_equal(check(f), 431);

    f = plain("GET", "/");
    add(f, "X-A", "");
    measure(f);
    memset(value, 'b', sizeof(value));
    f->head.field[3].value = value;
    f->head.field[3].value_len = HEAD_BYTES_MAX - f->head.bytes;
    f->head.bytes = HEAD_BYTES_MAX;
    assert_int_equal(check(f), 0);
    f->head.field[3].value_len++;
    f->head.bytes++;
    assert_int_equal(check(f), 431);
}

/* A target that is no path is not for this server. */
static void guard_other_targets_are_refused(void **state)
{
    static const char *const targets[] = {"", "*", "http://127.0.0.1:8080/",
                                          "evil:80", "?a=b"};
    struct fake *f = plain("GET", "/");

    (void)state;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
        assert_int_equal(check(plain("GET", targets[i])), 400);
    f->head.version = "HTTP/1.2";
    assert_int_equal(check(f), 400);
    f = plain("GET", "/");
    f->head.fields = 0;
    assert_int_equal(check(f), 400);
}

/* Without memory a refusal is a refusal still. */
static void guard_refuses_without_memory(void **state)
{
    struct fake *f = plain("GET", "/");
    struct response out = {0};

    (void)state;
    add(f, "Origin", "null");
    measure(f);
    mem_fail_at(1, 1);
    assert_false(guard_check(&f->head, &self, &out));
    mem_fail_at(0, 0);
    assert_int_equal(out.status, 503);
    assert_true(out.close);
    response_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guard_usual_requests_pass),
        cmocka_unit_test(guard_length_allows_one_form),
        cmocka_unit_test(guard_host_is_on_the_list),
        cmocka_unit_test(guard_host_port_80_may_be_left_out),
        cmocka_unit_test(guard_foreign_origin_is_refused),
        cmocka_unit_test(guard_duplicates_are_refused),
        cmocka_unit_test(guard_bodies_are_certain),
        cmocka_unit_test(guard_bytes_in_their_places),
        cmocka_unit_test(guard_nul_is_refused),
        cmocka_unit_test(guard_limits_hold),
        cmocka_unit_test(guard_other_targets_are_refused),
        cmocka_unit_test(guard_refuses_without_memory),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
