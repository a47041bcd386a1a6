/* Roles: what each way to ask may do, for every route of the table. */
#include "api/routes/routes.h"
#include "api/service/service.h"
#include "base/commands/commands.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/http_fixture.h"

#include <stdio.h>
#include <string.h>

#define OWN "0123456789abcdef0123456789abcdef"
#define SECRET(role) role "-secret-of-16-bytes-and-more"

struct world {
    struct http_fixture x;
    struct named_tokens named;
    struct entrance entrance;
    struct service_readers who;
    struct listen_address self;
};

static void name_one(struct world *w, const char *name, const char *secret,
                     enum role role)
{
    struct named_token k = {.role = role, .made = "2026-11-23T20:40:00Z"};

    snprintf(k.name, sizeof(k.name), "%s", name);
    assert_true(token_hash(secret, strlen(secret), k.hash));
    assert_int_equal(tokens_put(&w->named, &k), ERR_OK);
}

static int setup(void **state)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    http_fixture_init(&w.x);
    http_fixture_run(&w.x);
    name_one(&w, "rita", SECRET("read"), ROLE_READ);
    name_one(&w, "rudi", SECRET("run"), ROLE_RUN);
    name_one(&w, "anna", SECRET("admin"), ROLE_ADMIN);
    w.entrance = (struct entrance){.port = 8080, .pass = "secret"};
    w.who = (struct service_readers){.rule = READ_TOKEN,
                                     .token = OWN,
                                     .named = &w.named,
                                     .entrance = &w.entrance};
    w.self = (struct listen_address){
        .host = "127.0.0.1", .port = 8080, .loopback = true};
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    http_fixture_deinit(&w->x);
    tokens_deinit(&w->named);
    return 0;
}

/* ---- asking -------------------------------------------------------------- */

/* A way to ask: a header, or the Unix socket; what it is good for. */
struct way {
    const char *field, *value;
    bool local;
    enum role role;
    const char *name;
};

static const struct way ways[] = {
    {NULL, NULL, false, ROLE_ANYBODY, ""},
    {"Authorization", "Bearer wrong", false, ROLE_ANYBODY, ""},
    {"Cookie", "mltune-8080=secret", false, ROLE_READ, "(page)"},
    {"Authorization", "Bearer " SECRET("read"), false, ROLE_READ, "rita"},
    {"Authorization", "Bearer " SECRET("run"), false, ROLE_RUN, "rudi"},
    {"Authorization", "Bearer " SECRET("admin"), false, ROLE_ADMIN, "anna"},
    {"Authorization", "Bearer " OWN, false, ROLE_ADMIN, "(token)"},
    {NULL, NULL, true, ROLE_ADMIN, "(socket)"},
};
enum { WAYS = sizeof(ways) / sizeof(*ways) };

static struct head head_of(const struct way *way, const char *method,
                           const char *target)
{
    struct head h = {.method = method, .target = target, .version = "HTTP/1.1"};

    if (way->field)
        h.field[h.fields++] = (struct head_field){
            way->field, way->value, strlen(way->field), strlen(way->value)};
    return h;
}

/* Status of the refusal; 0: it may go on. */
static int ask(struct world *w, const struct way *way, const char *method,
               const char *target, char detail[256])
{
    struct head h = head_of(way, method, target);
    struct service_readers who = w->who;
    struct service_write write;
    struct response r = {0};
    struct asker by;
    int status;

    who.local = way->local;
    by = service_asker(&who, &h);
    assert_int_equal(by.role, way->role);
    assert_string_equal(by.name, way->name);
    if (strcmp(method, "GET") == 0)
        service_may_read(&who, &by, &h, &w->self, false, &r);
    else
        service_begin(w->x.view, &by, &h, &write, &r);
    status = r.status;
    snprintf(detail, 256, "%.*s", (int)r.len, r.body ? r.body : "");
    response_deinit(&r);
    return status;
}

static void fill_in(const struct route *route, char *out, size_t size)
{
    const char *path = route->path;
    size_t n = (size_t)snprintf(out, size, "%s",
                                route->mount & ROUTE_API ? "/api/v1" : "");

    while (*path && n + 8 < size) {
        if (*path != '{') {
            out[n++] = *path++;
            out[n] = '\0';
            continue;
        }
        n += (size_t)snprintf(out + n, size - n, "%s",
                              strncmp(path, "{run}", 5) == 0 ? "run-1" : "7");
        path = strchr(path, '}') + 1;
    }
    if (n == 0)
        snprintf(out, size, "/");
}

/* ---- tests --------------------------------------------------------------- */

/* Each route needs what the table says; whoever has no token gets 401, whoever
 * has one that is too low 403. */
static void roles_hold_on_every_route(void **state)
{
    struct world *w = *state;
    size_t n, checked = 0;
    const struct route *routes = routes_all(&n);
    char target[128], detail[256];

    for (size_t i = 0; i < n; i++) {
        const struct route *route = &routes[i];

        assert_in_range(route->role, ROLE_ANYBODY, ROLE_ADMIN);
        fill_in(route, target, sizeof(target));
        for (size_t k = 0; k < WAYS; k++) {
            int status = ask(w, &ways[k], route->method, target, detail);
            bool named = ways[k].name[0] && ways[k].name[0] != '(';
            int expected = ways[k].role >= route->role ? 0 : named ? 403 : 401;

            if (status != expected)
                fail_msg("%s %s as %s: %d", route->method, target, ways[k].name,
                         status);
            checked++;
        }
    }
    assert_true(checked > 50 * WAYS);
}

/* What the table says: reads are for readers, the page's files and signs of
 * life for all, and no write is for less than the role run. */
static void roles_of_the_table(void **state)
{
    static const char *const open[] = {"/healthz", "/readyz", "/version", ""};
    size_t n;
    const struct route *routes = routes_all(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        const struct route *route = &routes[i];
        bool is_open = strcmp(route->path, "/web/{file}") == 0 ||
                       strcmp(route->path, "/me") == 0;

        for (size_t k = 0; k < 4; k++)
            is_open |= strcmp(route->path, open[k]) == 0 &&
                       (route->mount & ROUTE_ROOT);
        if (strcmp(route->method, "GET") != 0)
            assert_true(route->role >= ROLE_RUN);
        else
            assert_int_equal(route->role == ROLE_ANYBODY, is_open);
    }
}

/* The refusal names the token, its role and the one that is needed; it shows
 * no secret. */
static void roles_too_low_are_told(void **state)
{
    struct world *w = *state;
    char detail[256];

    assert_int_equal(
        ask(w, &ways[3], "POST", "/api/v1/runs/run-1:stop", detail), 403);
    assert_non_null(strstr(detail, "role_too_low"));
    assert_non_null(strstr(detail, "the token rita has the role read; this "
                                   "needs the role run"));
    assert_null(strstr(detail, SECRET("read")));
}

/* Who was revoked is nobody from the next look on. */
static void roles_of_revoked_tokens_are_none(void **state)
{
    struct world *w = *state;
    struct head h = head_of(&ways[4], "GET", "/api/v1/runs");

    assert_int_equal(service_asker(&w->who, &h).role, ROLE_RUN);
    assert_true(service_asker(&w->who, &h).token != 0);
    assert_true(tokens_remove(&w->named, "rudi"));
    assert_int_equal(service_asker(&w->who, &h).role, ROLE_ANYBODY);
    assert_int_equal(service_asker(&w->who, &h).token, 0);
}

/* The rule for loopback lets strangers read, and nothing else; a target that is
 * none is for readers. */
static void roles_of_the_rule_read_only(void **state)
{
    struct world *w = *state;
    char detail[256];

    assert_int_equal(ask(w, &ways[0], "GET", "/nowhere", detail), 401);
    assert_int_equal(ask(w, &ways[3], "GET", "/nowhere", detail), 0);
    assert_int_equal(ask(w, &ways[0], "GET", "/web/a/b", detail), 401);
    assert_int_equal(ask(w, &ways[0], "GET", "/%zz", detail), 401);
    w->who.rule = READ_EVERYONE;
    assert_int_equal(ask(w, &ways[0], "GET", "/api/v1/runs", detail), 0);
    assert_int_equal(
        ask(w, &ways[0], "POST", "/api/v1/runs/run-1:stop", detail), 401);
    w->self.loopback = false;
    assert_int_equal(ask(w, &ways[0], "GET", "/api/v1/runs", detail), 401);
}

static void assert_me(struct world *w, const struct way *way, bool own,
                      const char *expected)
{
    struct head h = head_of(way, "GET", "/api/v1/me");
    struct service_readers who = w->who;
    struct response r = {0};
    struct asker by;

    who.local = way->local;
    by = service_asker(&who, &h);
    assert_true(service_may_read(&who, &by, &h, &w->self, own, &r));
    assert_true(service_respond_to(w->x.view, &by, "GET", "/api/v1/me", &r));
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, expected);
    assert_true(r.personal);
    response_deinit(&r);
}

/* Everybody may ask who they are: a name where the token has one, the role, and
 * what gives it to them. Whom the rule lets read is a reader, on loopback. */
static void roles_are_told_to_whom_they_belong(void **state)
{
    static const char *const told[WAYS] = {
        "{\"name\":null,\"role\":\"anybody\",\"by\":\"nothing\",\"upload_"
        "limit\":null}",
        "{\"name\":null,\"role\":\"anybody\",\"by\":\"nothing\",\"upload_"
        "limit\":null}",
        "{\"name\":null,\"role\":\"read\",\"by\":\"page\",\"upload_limit\":"
        "null}",
        "{\"name\":\"rita\",\"role\":\"read\",\"by\":\"named_token\",\"upload_"
        "limit\":null}",
        "{\"name\":\"rudi\",\"role\":\"run\",\"by\":\"named_token\",\"upload_"
        "limit\":null}",
        "{\"name\":\"anna\",\"role\":\"admin\",\"by\":\"named_token\",\"upload_"
        "limit\":null}",
        "{\"name\":null,\"role\":\"admin\",\"by\":\"token\",\"upload_limit\":"
        "null}",
        "{\"name\":null,\"role\":\"admin\",\"by\":\"socket\",\"upload_limit\":"
        "null}"};
    static const char reader[] = "{\"name\":null,\"role\":\"read\",\"by\":"
                                 "\"loopback\",\"upload_limit\":null}";
    struct world *w = *state;

    for (size_t k = 0; k < WAYS; k++)
        assert_me(w, &ways[k], false, told[k]);
    w->who.rule = READ_USER;
    assert_me(w, &ways[0], false, told[0]);
    assert_me(w, &ways[0], true, reader);
    assert_me(w, &ways[4], true, told[4]);
    w->who.rule = READ_EVERYONE;
    assert_me(w, &ways[1], false, reader);
    w->self.loopback = false;
    assert_me(w, &ways[1], false, told[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(roles_hold_on_every_route, setup,
                                        teardown),
        cmocka_unit_test(roles_of_the_table),
        cmocka_unit_test_setup_teardown(roles_too_low_are_told, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(roles_of_revoked_tokens_are_none, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(roles_of_the_rule_read_only, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(roles_are_told_to_whom_they_belong,
                                        setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
