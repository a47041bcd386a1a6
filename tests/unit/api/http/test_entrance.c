/* The page's way in: a code that is good once, a cookie that is known. */
#include "api/http/entrance.h"

#include "tests/unit/fixture/check.h"

#include <stdio.h>

static struct head head_of(const char *target, const char *cookie)
{
    struct head h = {.method = "GET", .target = target, .version = "HTTP/1.1"};

    if (cookie) {
        h.fields = 1;
        h.field[0] = (struct head_field){"Cookie", cookie, strlen("Cookie"),
                                         strlen(cookie)};
    }
    return h;
}

static struct entrance fresh(void)
{
    return (struct entrance){.port = 8080, .code = "once", .pass = "secret"};
}

/* The first gets a cookie that scripts cannot read, and the page; the second is
 * refused, and so is whoever has another code. */
static void entrance_lets_one_in(void **state)
{
    struct head right = head_of("/enter?code=once", NULL);
    struct head wrong = head_of("/enter?code=onc", NULL);
    struct head longer = head_of("/enter?code=onceonce", NULL);
    struct response out = {0};
    struct entrance e = fresh();

    (void)state;
    assert_true(entrance_is_asked(&right));
    assert_false(entrance_answer(&e, &wrong, &out));
    assert_int_equal(out.status, 401);
    assert_false(entrance_answer(&e, &longer, &out));
    response_deinit(&out);
    assert_true(entrance_answer(&e, &right, &out));
    assert_int_equal(out.status, 303);
    assert_string_equal(out.location, "/");
    assert_string_equal(
        out.cookie, "mltune-8080=secret; Path=/; HttpOnly; SameSite=Strict");
    response_deinit(&out);
    assert_false(entrance_answer(&e, &right, &out));
    assert_int_equal(out.status, 401);
    assert_string_equal(out.cookie, "");
    response_deinit(&out);
    e = fresh();
    e.tls = true;
    assert_true(entrance_answer(&e, &right, &out));
    assert_non_null(strstr(out.cookie, "; Secure"));
    response_deinit(&out);
}

/* Only a GET of that path asks; where there is no secret nobody comes in. */
static void entrance_that_is_closed_lets_nobody_in(void **state)
{
    struct head post = head_of("/enter?code=once", NULL);
    struct head other = head_of("/enter", NULL);
    struct head empty = head_of("/enter?code=", NULL);
    struct head with = head_of("/", "mltune-0=");
    struct entrance none = {.port = 0};
    struct response out = {0};

    (void)state;
    post.method = "POST";
    assert_false(entrance_is_asked(&post));
    assert_false(entrance_is_asked(&other));
    assert_true(entrance_is_asked(&empty));
    assert_false(entrance_answer(&none, &empty, &out));
    response_deinit(&out);
    assert_false(entrance_knows(&none, &with));
}

/* Among others, but whole, and of this server's port. */
static void entrance_knows_its_cookie(void **state)
{
    static const char *const good[] = {
        "mltune-8080=secret", "a=b; mltune-8080=secret", "mltune-8080=secret;x",
        "mltune-8080=no; mltune-8080=secret"};
    static const char *const bad[] = {"",
                                      "mltune-8081=secret",
                                      "mltune-8080=secre",
                                      "mltune-8080=secrets",
                                      "mltune-8080=",
                                      "xmltune-8080=secret",
                                      "a=mltune-8080=secret",
                                      ";;;"};
    struct entrance e = fresh();
    struct head none = head_of("/", NULL);

    (void)state;
    assert_false(entrance_knows(&e, &none));
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        struct head h = head_of("/", good[i]);

        if (!entrance_knows(&e, &h))
            fail_msg("%s", good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct head h = head_of("/", bad[i]);

        if (entrance_knows(&e, &h))
            fail_msg("%s", bad[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entrance_lets_one_in),
        cmocka_unit_test(entrance_that_is_closed_lets_nobody_in),
        cmocka_unit_test(entrance_knows_its_cookie),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
