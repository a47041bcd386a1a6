#include "api/listen.h"
#include "tests/unit/check.h"

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

/* An address that others may reach is refused, saying what to do instead. */
static void listen_other_machines_are_refused(void **state)
{
    static const char *const texts[] = {"0.0.0.0:8080",
                                        "[::]:8080",
                                        "192.168.1.1:80",
                                        "10.0.0.1",
                                        "example.com:1",
                                        "[fe80::1]:1",
                                        "[::ffff:127.0.0.1]:1",
                                        "127.0.0.1.x:1",
                                        "126.0.0.1:1",
                                        "localhost.:1",
                                        "*:80"};
    struct listen_address a = {.port = 77};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct fault f = {0};

        assert_int_equal(listen_parse(texts[i], &a, &f), ERR_UNSUPPORTED);
        assert_non_null(strstr(f.text, "token"));
        assert_non_null(strstr(f.text, "ssh -L"));
        assert_int_equal(a.port, 77);
    }
}

/* What is no address is refused, saying what one looks like. */
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
        cmocka_unit_test(listen_other_machines_are_refused),
        cmocka_unit_test(listen_malformed_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
