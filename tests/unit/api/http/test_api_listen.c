#include "api/http/listen.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>

/* Every way to write a loopback address gives its host, as urls have it, and
 * port. */
static void listen_loopback_is_taken(void **state)
{
    static const struct {
        const char *text, *host;
        uint16_t port;
        bool ipv6;
    } rows[] = {
        {NULL, "127.0.0.1", 0, false},
        {"", "127.0.0.1", 0, false},
        {"127.0.0.1:8080", "127.0.0.1", 8080, false},
        {"127.0.0.1:0", "127.0.0.1", 0, false},
        {"127.0.0.1", "127.0.0.1", 0, false},
        {"127.9.8.7:65535", "127.9.8.7", 65535, false},
        {"localhost:80", "127.0.0.1", 80, false},
        {"8080", "127.0.0.1", 8080, false},
        {"[::1]:8080", "[::1]", 8080, true},
        {"[::1]", "[::1]", 0, true},
        {"[0:0::1]:1", "[::1]", 1, true},
    };
    struct listen_address a;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fault f = {0};

        if (listen_parse(rows[i].text, &a, &f) != ERR_OK)
            fail_msg("%s: %s", rows[i].text, f.text);
        assert_string_equal(a.host, rows[i].host);
        assert_int_equal(a.port, rows[i].port);
        assert_int_equal(a.ipv6, rows[i].ipv6);
    }
}

/* An address that others may reach needs a token and TLS; what is missing is
 * named, and what to do instead. */
static void listen_other_machines_need_both(void **state)
{
    static const char *const texts[] = {
        "0.0.0.0:8080", "[::]:8080",   "192.168.1.1:80",
        "10.0.0.1",     "[fe80::1]:1", "[::ffff:127.0.0.1]:1",
        "126.0.0.1:1"};
    struct listen_address a;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct fault f = {0};

        assert_int_equal(listen_parse(texts[i], &a, &f), ERR_OK);
        assert_false(a.loopback);
        assert_int_equal(listen_check(&a, true, true, &f), ERR_OK);
        assert_int_equal(listen_check(&a, true, false, &f), ERR_UNSUPPORTED);
        assert_non_null(strstr(f.text, "--tls-cert"));
        assert_int_equal(listen_check(&a, false, true, &f), ERR_UNSUPPORTED);
        assert_non_null(strstr(f.text, "needs a token"));
        assert_int_equal(listen_check(&a, false, false, &f), ERR_UNSUPPORTED);
        assert_non_null(strstr(f.text, "token and TLS"));
        assert_non_null(strstr(f.text, "ssh -L"));
    }
    assert_int_equal(listen_parse("[::1]:8080", &a, NULL), ERR_OK);
    assert_int_equal(listen_check(&a, false, false, NULL), ERR_OK);
}

static bool is_self(const struct listen_address *a, const char *host)
{
    return listen_is_self(a, host, strlen(host));
}

/* A certificate's names are the server's, a star one label of them; the port
 * may be missing where it is the scheme's. */
static void listen_names_are_the_certificates(void **state)
{
    struct listen_address a;

    (void)state;
    assert_int_equal(listen_parse("0.0.0.0:443", &a, NULL), ERR_OK);
    snprintf(a.name[0], sizeof(a.name[0]), "*.example.org");
    snprintf(a.name[1], sizeof(a.name[1]), "tuner.lan");
    a.names = 2;
    a.tls = true;
    assert_true(is_self(&a, "Tuner.LAN"));
    assert_true(is_self(&a, "tuner.lan:443"));
    assert_true(is_self(&a, "a.example.org"));
    assert_true(is_self(&a, "localhost"));
    assert_false(is_self(&a, "tuner.lan:80"));
    assert_false(is_self(&a, "tuner.lan.evil.example"));
    assert_false(is_self(&a, "example.org"));
    assert_false(is_self(&a, ".example.org"));
    assert_false(is_self(&a, "a.b.example.org"));
    assert_false(is_self(&a, "aexample.org"));
    assert_false(is_self(&a, ""));
    assert_false(is_self(&a, ":443"));
    a.port = 8443;
    assert_false(is_self(&a, "tuner.lan"));
    assert_true(is_self(&a, "tuner.lan:8443"));
}

static void expect_url(const struct listen_address *a, const char *want)
{
    char url[LISTEN_URL_MAX];

    listen_url(a, url);
    assert_string_equal(url, want);
}

/* The address to call it by is one that the certificate is for. */
static void listen_url_is_in_the_certificate(void **state)
{
    struct listen_address a;

    (void)state;
    assert_int_equal(listen_parse("127.0.0.1:80", &a, NULL), ERR_OK);
    expect_url(&a, "http://127.0.0.1:80/");
    assert_int_equal(listen_parse("0.0.0.0:443", &a, NULL), ERR_OK);
    a.tls = true;
    expect_url(&a, "https://localhost:443/");
    snprintf(a.name[0], sizeof(a.name[0]), "*.example.org");
    a.names = 1;
    expect_url(&a, "https://localhost:443/");
    snprintf(a.name[1], sizeof(a.name[1]), "tuner.lan");
    a.names = 2;
    expect_url(&a, "https://tuner.lan:443/");
    snprintf(a.name[0], sizeof(a.name[0]), "localhost");
    expect_url(&a, "https://localhost:443/");
}

/* A text that is no address is refused, saying what one looks like. */
static void listen_malformed_is_refused(void **state)
{
    static const char *const texts[] = {
        ":8080",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "127.0.0.1:80x",
        "127.0.0.1: 80",
        "[::1",
        "[::1]8080",
        "[::1]:",
        "[]:80",
        "[127.0.0.1]:80",
        "::1",
        "127.0.0.1:80:80",
        "[::1%lo]:1",
        "123456",
        "example.com:1",
        "localhost.:1",
        "127.0.0.1.x:1",
        "*:80",
        "127.0.0.1:000080",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:1"};
    struct listen_address a = {.port = 77};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct fault f = {0};
        enum err err = listen_parse(texts[i], &a, &f);

        if (err != ERR_INVAL)
            fail_msg("%s: %s", texts[i], err_name(err));
        assert_non_null(strstr(f.text, "HOST:PORT"));
        assert_int_equal(a.port, 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listen_loopback_is_taken),
        cmocka_unit_test(listen_other_machines_need_both),
        cmocka_unit_test(listen_names_are_the_certificates),
        cmocka_unit_test(listen_url_is_in_the_certificate),
        cmocka_unit_test(listen_malformed_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
