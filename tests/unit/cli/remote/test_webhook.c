/* Webhooks: where they go, and how they are signed. */
#include "base/file_io.h"
#include "cli/remote/webhook.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An address is split at its host; the host is told in lower case. */
static void webhook_address_is_split(void **state)
{
    static const struct {
        const char *url, *base, *target, *host;
    } good[] = {
        {"https://example.org", "https://example.org/", "/", "example.org"},
        {"HTTPS://Example.ORG:8443/a/b?c=d&e", "https://Example.ORG:8443/",
         "/a/b?c=d&e", "example.org"},
        {"https://[2001:DB8::1]:1/x", "https://[2001:DB8::1]:1/", "/x",
         "[2001:db8::1]"},
    };
    struct webhook_place p;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_int_equal(webhook_split(good[i].url, &p, NULL), ERR_OK);
        assert_string_equal(p.base, good[i].base);
        assert_string_equal(p.target, good[i].target);
        assert_string_equal(p.host, good[i].host);
    }
}

/* What could lead elsewhere than it seems to, or out of the request's line, is
 * no address; nor is one that is too long. */
static void webhook_wrong_address_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "http://example.org/",
        "https://",
        "https:///x",
        "https://user@example.org/",
        "https://example.org#x",
        "https://example.org?x",
        "https://example.org\\@other/",
        "https://example.org/a b",
        "https://example.org/a\r\nX: y",
        "https://exämple.org/",
    };
    char url[WEBHOOK_URL_MAX + 64] = "https://example.org/";
    struct webhook_place p;
    struct fault f = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(webhook_split(bad[i], &p, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "https://HOST"));
    memset(url + strlen(url), 'x', WEBHOOK_URL_MAX);
    assert_int_equal(webhook_split(url, &p, NULL), ERR_INVAL);
    memset(url + 8, 'x', CLIENT_URL_MAX);
    assert_int_equal(webhook_split(url, &p, NULL), ERR_INVAL);
}

/* The digest is that of `printf '1700000000.{}' | openssl dgst -sha256 -hmac
 * key-of-16-letters`. */
static void webhook_signature_is_hmac_sha256(void **state)
{
    char out[WEBHOOK_SIGNATURE_MAX];

    (void)state;
    assert_int_equal(webhook_sign("key-of-16-letters", 1700000000, "{}", out),
                     ERR_OK);
    assert_string_equal(
        out,
        "t=1700000000,v1="
        "f8de8ff20b47a7964f8352e57300a99012dca8ae3da913972a8d6aac2a264e69");
}

static void webhook_status_may_pass(void **state)
{
    static const int passing[] = {408, 425, 429, 500, 502, 503, 504};
    static const int final[] = {301, 400, 401, 403, 404, 410, 422};

    (void)state;
    for (size_t i = 0; i < sizeof(passing) / sizeof(*passing); i++)
        assert_true(webhook_may_pass(passing[i]));
    for (size_t i = 0; i < sizeof(final) / sizeof(*final); i++)
        assert_false(webhook_may_pass(final[i]));
}

static enum err read_secret(const char *path, char *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum err err;

    assert_true(fd >= 0);
    err = webhook_secret(fd, path, out, NULL);
    close(fd);
    return err;
}

/* The first line counts; a file that is open to others, too short or too long
 * is refused. */
static void webhook_secret_is_read(void **state)
{
    char secret[WEBHOOK_SECRET_MAX + 1], text[WEBHOOK_SECRET_MAX + 8];
    char path[FILE_PATH_MAX];

    (void)state;
    snprintf(path, sizeof(path), "%s", scratch_path("secret"));
    scratch_write("secret", "sixteen letters!\r\nmore\n", 23);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(read_secret(path, secret), ERR_OK);
    assert_string_equal(secret, "sixteen letters!");
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(read_secret(path, secret), ERR_INVAL);
    memset(text, 'x', sizeof(text));
    scratch_write("secret", text, WEBHOOK_SECRET_MAX + 1);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(read_secret(path, secret), ERR_INVAL);
    scratch_write("secret", text, WEBHOOK_SECRET_MIN - 1);
    assert_int_equal(read_secret(path, secret), ERR_INVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(webhook_address_is_split),
        cmocka_unit_test(webhook_wrong_address_is_refused),
        cmocka_unit_test(webhook_signature_is_hmac_sha256),
        cmocka_unit_test(webhook_status_may_pass),
        cmocka_unit_test_setup_teardown(webhook_secret_is_read, scratch_make,
                                        scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
