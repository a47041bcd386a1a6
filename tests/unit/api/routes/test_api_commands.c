/* Writes: what is asked of a run, by whom, and what is answered. */
#include "api/routes/command_routes.h"
#include "api/routes/routes.h"
#include "api/service/service.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/http_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <sys/eventfd.h>
#include <unistd.h>

#define TOKEN "0123456789abcdef0123456789abcdef"
#define RUN "/api/v1/runs/run-1"

struct world {
    struct http_fixture x;
    struct mailbox *mailbox;
    int fd;
};

static int setup(void **state)
{
    static struct world w;

    http_fixture_init(&w.x);
    http_fixture_run(&w.x);
    assert_int_equal(mailbox_new(&w.mailbox), ERR_OK);
    view_steer_run(w.x.view, "run-1", w.mailbox);
    w.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    http_fixture_deinit(&w->x);
    mailbox_free(w->mailbox);
    close(w->fd);
    return 0;
}

static const struct service_readers reads = {.token = TOKEN};

/* ---- heads --------------------------------------------------------------- */

static struct head head_of(const char *method, const char *target)
{
    return (struct head){
        .method = method, .target = target, .version = "HTTP/1.1"};
}

static void add_field(struct head *h, const char *name, const char *value)
{
    h->field[h->fields++] =
        (struct head_field){name, value, strlen(name), strlen(value)};
}

/* Status of the refusal of @h; 0: its body may come. */
static int begin(struct world *w, const struct head *h)
{
    struct response r = {0};
    struct service_write write;
    const struct asker by = service_asker(&reads, h);
    bool ok = service_begin(w->x.view, &by, h, &write, &r);
    int status = r.status;

    assert_int_equal(ok, status == 0);
    if (status == 401) {
        assert_true(r.challenge);
        assert_null(strstr(r.body, TOKEN));
    }
    response_deinit(&r);
    return status;
}

static int begin_with(struct world *w, const char *token)
{
    struct head h = head_of("POST", RUN ":pause");

    add_field(&h, "Authorization", token);
    return begin(w, &h);
}

/* Without the token, whole and right, nothing is written. */
static void commands_need_the_token(void **state)
{
    struct world *w = *state;
    struct head none = head_of("POST", RUN ":pause");
    struct response r = {0};
    struct service_write write;
    const struct service_readers nobody = {.rule = READ_TOKEN};
    const struct service_readers local = {.rule = READ_TOKEN, .local = true};
    struct asker by;

    assert_int_equal(begin(w, &none), 401);
    assert_int_equal(begin_with(w, "Bearer " TOKEN), 0);
    assert_int_equal(begin_with(w, "bearer " TOKEN), 0);
    assert_int_equal(begin_with(w, "Bearer " TOKEN "x"), 401);
    assert_int_equal(begin_with(w, "Bearer " TOKEN TOKEN), 401);
    assert_int_equal(begin_with(w, "Bearer 0123456789abcdef"), 401);
    assert_int_equal(begin_with(w, "Bearer 1123456789abcdef0123456789abcdef"),
                     401);
    assert_int_equal(begin_with(w, "Bearer 0123456789abcdef0123456789abcdeg"),
                     401);
    assert_int_equal(begin_with(w, "Bearer "), 401);
    assert_int_equal(begin_with(w, "Basic " TOKEN), 401);
    assert_int_equal(begin_with(w, TOKEN), 401);
    /* A server without a token takes none. */
    add_field(&none, "Authorization", "Bearer " TOKEN);
    by = service_asker(&nobody, &none);
    assert_false(service_begin(w->x.view, &by, &none, &write, &r));
    assert_int_equal(r.status, 401);
    response_deinit(&r);
    /* By the Unix socket none is needed. */
    none.fields = 0;
    by = service_asker(&local, &none);
    assert_true(service_begin(w->x.view, &by, &none, &write, &r));
}

/* @path of the table with values for its variables. */
static void fill_in(const char *path, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "/api/v1");

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
}

/* Every route of the table that is no GET is a write, which needs the token
 * and, with a body, its type: none is forgotten. */
static void commands_are_all_guarded(void **state)
{
    struct world *w = *state;
    const struct route *routes;
    unsigned writes = 0;
    size_t n;

    routes = routes_all(&n);
    for (size_t i = 0; i < n; i++) {
        const struct route *route = &routes[i];
        char target[128];
        struct head bare, typed;

        assert_true(route->command || !strcmp(route->method, "GET"));
        assert_true(!route->handle == !!route->command);
        if (!strcmp(route->method, "GET"))
            continue;
        fill_in(route->path, target, sizeof(target));
        bare = head_of(route->method, target);
        assert_int_equal(begin(w, &bare), 401);
        add_field(&bare, "Authorization", "Bearer " TOKEN);
        typed = bare;
        add_field(&bare, "Content-Length", "2");
        if (route->command->body->media) { /* bytes of any type */
            assert_int_equal(begin(w, &bare), 0);
            writes++;
            continue;
        }
        assert_int_equal(begin(w, &bare), 415);
        add_field(&bare, "Content-Type", "text/plain");
        assert_int_equal(begin(w, &bare), 415);
        add_field(&typed, "Transfer-Encoding", "chunked");
        assert_int_equal(begin(w, &typed), 415);
        add_field(&typed, "Content-Type", "application/json; charset=utf-8");
        assert_int_equal(begin(w, &typed), 0);
        writes++;
    }
    assert_true(writes >= 8);
}

/* Each command of the table that has a path is a route, once, with a parameter
 * for each variable of its path; each has a name of its own. */
static void commands_are_routes(void **state)
{
    size_t n;
    const struct route *routes = routes_all(&n);

    (void)state;
    for (enum command_id id = 0; id < COMMAND_COUNT; id++) {
        const struct command *c = command_of(id);
        size_t found = 0;

        assert_int_equal(command_id_of(c), id);
        for (size_t i = 0; i < n; i++) {
            const struct route *r = &routes[i];
            size_t variables = 0, params = 0;

            if (r->command != c)
                continue;
            found++;
            assert_string_equal(r->method, c->method);
            assert_string_equal(r->path, c->path);
            assert_non_null(r->take);
            for (const char *at = r->path; (at = strchr(at, '{')); at++)
                variables++;
            for (; r->params && r->params[params].type != PARAM_END; params++)
                ;
            assert_true(params >= variables);
        }
        assert_int_equal(found, c->path != NULL);
        for (enum command_id other = 0; other < id; other++)
            assert_string_not_equal(command_of(other)->name, c->name);
    }
}

/* Paths, methods, ids and keys are checked before anything is read. */
static void commands_heads_are_checked(void **state)
{
    static const struct {
        const char *method, *target, *name, *value;
        int status;
    } rows[] = {
        {"POST", RUN, "X", "", 405},
        {"POST", RUN ":nothing", "X", "", 404},
        {"GET", RUN ":pause", "X", "", 405},
        {"PUT", RUN, "X", "", 405},
        {"POST", "/api/v1/runs/:pause", "X", "", 404},
        {"POST", "/api/v1/runs/Run:pause", "X", "", 400},
        {"POST", RUN ":pause?now=1", "X", "", 400},
        {"POST", RUN "%3Apause", "X", "", 0},
        {"POST", RUN ":pause", "Idempotency-Key", "", 400},
        {"POST", RUN ":pause", "Idempotency-Key", "0f8c", 0},
        {"POST", RUN ":pause", "Idempotency-Key", TOKEN TOKEN "x", 400},
    };
    struct world *w = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct head h = head_of(rows[i].method, rows[i].target);

        add_field(&h, "Authorization", "Bearer " TOKEN);
        add_field(&h, rows[i].name, rows[i].value);
        if (begin(w, &h) != rows[i].status)
            fail_msg("row %zu: %d", i, begin(w, &h));
    }
}

/* ---- bodies -------------------------------------------------------------- */

static struct service_write sent;

/* Sends a body; true: it was posted. */
static bool send_body(struct world *w, const char *method, const char *target,
                      const char *body, struct response *r)
{
    sent = (struct service_write){.ticket = 0};
    return service_write(w->x.view, method, target, body, strlen(body), w->fd,
                         &sent, r);
}

static void expect_refusal(struct world *w, const char *method,
                           const char *target, const char *body, int status,
                           const char *pointers)
{
    struct response r = {0};
    char found[512] = "";
    json_t *json;

    assert_false(send_body(w, method, target, body, &r));
    if (r.status != status)
        fail_msg("%s: %d: %.*s", body, r.status, (int)r.len, r.body);
    json = json_loadb(r.body, r.len, JSON_REJECT_DUPLICATES, NULL);
    for (size_t i = 0; i < json_array_size(json_object_get(json, "errors"));
         i++) {
        size_t n = strlen(found);

        snprintf(found + n, sizeof(found) - n, "%s ",
                 http_fixture_error(json, i));
    }
    assert_string_equal(found, pointers);
    json_decref(json);
    response_deinit(&r);
}

/* Every fault of a body is named, with a pointer to it; nothing is asked of the
 * run. */
static void commands_bodies_are_checked_whole(void **state)
{
    static char deep[300];
    struct world *w = *state;
    struct mailbox_request request;
    mailbox_ticket ticket;

    expect_refusal(w, "POST", RUN ":pause", "{\"\": 1}", 422, "/ ");
    expect_refusal(w, "POST", RUN ":pause", "{\"now\": 1, \"b\": 2}", 422,
                   "/now /b ");
    expect_refusal(w, "POST", RUN ":stop", "[]", 422, " ");
    expect_refusal(w, "POST", RUN ":stop", "{", 400, " ");
    expect_refusal(w, "POST", RUN ":stop", "{} {}", 400, " ");
    expect_refusal(w, "POST", RUN ":stop", "\xff", 400, " ");
    expect_refusal(w, "PATCH", RUN, "", 422, " ");
    expect_refusal(w, "PATCH", RUN, "7", 422, " ");
    expect_refusal(w, "PATCH", RUN, "{\"stop\": 7, \"tuner\": {}}", 422,
                   "/stop /tuner ");
    expect_refusal(w, "PATCH", RUN, "{\"stop\": {}, \"stop\": {}}", 400, " ");
    expect_refusal(w, "PATCH", RUN,
                   "{\"stop\": {\"max_epochs\": 0, \"max_time\": \"soon\", "
                   "\"target_loss\": \"1\", \"a/b\": 1, \"plateau_epochs\": "
                   "null, \"target_metric\": 1e999}}",
                   400, " ");
    expect_refusal(w, "PATCH", RUN,
                   "{\"stop\": {\"max_epochs\": 0, \"max_time\": \"soon\", "
                   "\"target_loss\": \"1\", \"a/b\": 1, \"plateau_epochs\": "
                   "null}}",
                   422,
                   "/stop/max_epochs /stop/max_time /stop/target_loss "
                   "/stop/a~1b /stop/plateau_epochs ");
    memset(deep, '[', 299);
    expect_refusal(w, "PATCH", RUN, deep, 400, " ");
    expect_refusal(w, "POST", "/api/v1/runs/other:stop", "", 404, "/path/run ");
    view_steer_run(w->x.view, "run-1", NULL);
    expect_refusal(w, "POST", RUN ":stop", "", 409, "");
    assert_false(mailbox_take(w->mailbox, &request, &ticket));
}

/* The request that reaches the run; it is answered with @err. */
static struct mailbox_request carry_out(struct world *w, enum err err,
                                        bool changed)
{
    struct tuner_answer a = {.err = err, .changed = changed};
    struct mailbox_request request;
    mailbox_ticket ticket;

    strcpy(a.text, "a sentence");
    a.limits = (struct record_limits){NAN, 0.5, 60, 5, 100};
    assert_true(mailbox_take(w->mailbox, &request, &ticket));
    mailbox_answer(w->mailbox, ticket, &a);
    return request;
}

static json_t *collect(int status)
{
    struct response r = {0};
    json_t *json;

    assert_true(service_collect(&sent, &r));
    assert_int_equal(r.status, status);
    json = json_loadb(r.body, r.len, 0, NULL);
    response_deinit(&r);
    return json;
}

/* A command reaches the run, and its answer whoever asked, with the limits. */
static void commands_reach_the_run(void **state)
{
    static const struct {
        const char *path;
        enum command_id command;
    } rows[] = {
        {"pause", COMMAND_PAUSE},       {"continue", COMMAND_CONTINUE},
        {"stop", COMMAND_STOP},         {"retune", COMMAND_RETUNE},
        {"snapshot", COMMAND_SNAPSHOT},
    };
    struct world *w = *state;
    struct response r = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char target[64];
        json_t *json;

        snprintf(target, sizeof(target), RUN ":%s", rows[i].path);
        assert_true(send_body(w, "POST", target, i % 2 ? "{}" : "", &r));
        assert_false(service_collect(&sent, &r));
        assert_int_equal(carry_out(w, ERR_OK, i != 1).command, rows[i].command);
        json = collect(i != 1 ? 202 : 200);
        assert_string_equal(json_string_value(json_object_get(json, "command")),
                            rows[i].path);
        assert_string_equal(json_string_value(json_object_get(json, "message")),
                            "a sentence");
        assert_true(json_is_null(json_at(json, "/stop/target_loss")));
        assert_int_equal(json_integer_value(json_at(json, "/stop/max_epochs")),
                         100);
        json_decref(json);
    }
}

/* A command on a branch reaches the run with its number; the new one's
 * comes back. */
static void commands_reach_branches(void **state)
{
    struct world *w = *state;
    struct tuner_answer made = {
        .changed = true, .branch = 31, .text = "it is there"};
    struct mailbox_request q;
    struct response r = {0};
    mailbox_ticket ticket;
    json_t *json;

    assert_true(send_body(w, "POST", RUN "/branches/17:fork",
                          "{\"setting\": {\"learning_rate\": 0.5}, "
                          "\"clocks\": 90}",
                          &r));
    assert_true(mailbox_take(w->mailbox, &q, &ticket));
    assert_int_equal(q.command, COMMAND_FORK);
    assert_int_equal(q.args.fork.branch, 17);
    assert_int_equal(q.args.fork.clocks, 90);
    assert_int_equal(q.args.fork.epochs, 0);
    assert_string_equal(q.args.fork.setting, "{\"learning_rate\":0.5}");
    mailbox_answer(w->mailbox, ticket, &made);
    json = collect(202);
    assert_int_equal(json_integer_value(json_object_get(json, "branch")), 31);
    json_decref(json);
    assert_true(send_body(w, "POST", RUN "/branches/0:fork", "", &r));
    q = carry_out(w, ERR_OK, true);
    json_decref(collect(202));
    assert_int_equal(q.args.fork.branch, 0);
    assert_int_equal(q.args.fork.epochs, 1);
    assert_string_equal(q.args.fork.setting, "");
    assert_true(send_body(w, "POST", RUN "/branches/4:promote", "{}", &r));
    q = carry_out(w, ERR_OK, true);
    json_decref(collect(202));
    assert_int_equal(q.command, COMMAND_PROMOTE);
    assert_int_equal(q.args.fork.branch, 4);
    assert_true(send_body(w, "POST", RUN "/branches/5:free", "", &r));
    q = carry_out(w, ERR_OK, true);
    json_decref(collect(202));
    assert_int_equal(q.command, COMMAND_FREE);
    assert_int_equal(q.args.fork.branch, 5);
}

/* Requests wrong in form are refused before they get there, with every fault;
 * what is wrong with the setting by the run, with pointers of its own. */
static void commands_to_branches_are_checked(void **state)
{
    struct world *w = *state;
    struct tuner_answer wrong = {.err = ERR_INVAL, .faults = 1};
    static char large[COMMAND_SETTING_MAX + 64];
    struct mailbox_request q;
    struct response r = {0};
    mailbox_ticket ticket;
    json_t *json;

    expect_refusal(w, "POST", RUN "/branches/1:fork", "[]", 422, " ");
    expect_refusal(w, "POST", RUN "/branches/1:fork",
                   "{\"setting\": 7, \"epochs\": 0, \"clocks\": 1.5, "
                   "\"colour\": 1}",
                   422, "/setting /epochs /clocks /colour ");
    expect_refusal(w, "POST", RUN "/branches/1:fork",
                   "{\"epochs\": 1, \"clocks\": 1}", 422, "/clocks ");
    expect_refusal(w, "POST", RUN "/branches/1:promote", "{\"now\": 1}", 422,
                   "/now ");
    expect_refusal(w, "POST", RUN "/branches/x:fork", "", 400, "/path/branch ");
    snprintf(large, sizeof(large), "{\"setting\": {\"a\": \"");
    memset(large + strlen(large), 'x', sizeof(large) - 1 - strlen(large));
    memcpy(large + sizeof(large) - 4, "\"}}", 4);
    expect_refusal(w, "POST", RUN "/branches/1:fork", large, 422, "/setting ");
    assert_true(send_body(w, "POST", RUN "/branches/1:fork",
                          "{\"setting\": {\"momentum\": 7}}", &r));
    assert_true(mailbox_take(w->mailbox, &q, &ticket));
    strcpy(wrong.text, "the setting is wrong");
    strcpy(wrong.fault[0].pointer, "/setting/momentum");
    strcpy(wrong.fault[0].text, "expected a number from 0 to 0.99, found 7");
    mailbox_answer(w->mailbox, ticket, &wrong);
    json = collect(422);
    assert_string_equal(http_fixture_error(json, 0), "/setting/momentum");
    json_decref(json);
}

/* Settings that are suggested reach the run as a list; their numbers come back.
 */
static void commands_suggest_settings(void **state)
{
    struct world *w = *state;
    struct tuner_answer taken = {.changed = true,
                                 .branch = BRANCH_NONE,
                                 .suggestion = 7,
                                 .suggestions = 2,
                                 .text = "they are accepted"};
    struct mailbox_request q;
    struct response r = {0};
    mailbox_ticket ticket;
    json_t *json;

    assert_true(send_body(w, "POST", RUN "/trials:suggest",
                          "{\"settings\": [{\"momentum\": 0.5}, {}], "
                          "\"exhausted\": true}",
                          &r));
    assert_true(mailbox_take(w->mailbox, &q, &ticket));
    assert_int_equal(q.command, COMMAND_SUGGEST);
    assert_true(q.args.suggest.exhausted);
    assert_false(q.args.suggest.single);
    assert_string_equal(q.args.suggest.settings, "[{\"momentum\":0.5},{}]");
    mailbox_answer(w->mailbox, ticket, &taken);
    json = collect(202);
    assert_int_equal(json_integer_value(json_at(json, "/suggestions/0")), 7);
    assert_int_equal(json_integer_value(json_at(json, "/suggestions/1")), 8);
    json_decref(json);
    assert_true(send_body(w, "POST", RUN "/trials:suggest",
                          "{\"setting\": {\"momentum\": 0.5}}", &r));
    q = carry_out(w, ERR_OK, true);
    json = collect(202);
    assert_int_equal(json_array_size(json_object_get(json, "suggestions")), 0);
    json_decref(json);
    assert_true(q.args.suggest.single);
    assert_false(q.args.suggest.exhausted);
    assert_string_equal(q.args.suggest.settings, "[{\"momentum\":0.5}]");
    assert_true(send_body(w, "POST", RUN "/trials:suggest",
                          "{\"exhausted\": true}", &r));
    q = carry_out(w, ERR_EXHAUSTED, false);
    json = collect(409);
    assert_string_equal(json_string_value(json_object_get(json, "code")),
                        "search_over");
    json_decref(json);
    assert_string_equal(q.args.suggest.settings, "");
}

/* Requests wrong in form are refused before they get to the run, with every
 * fault. */
static void commands_check_suggestions(void **state)
{
    struct world *w = *state;
    static char large[COMMAND_SUGGEST_MAX + 64];

    expect_refusal(w, "POST", RUN "/trials:suggest", "", 422, " ");
    expect_refusal(w, "POST", RUN "/trials:suggest", "[{}]", 422, " ");
    expect_refusal(w, "POST", RUN "/trials:suggest", "{\"exhausted\": false}",
                   422, " ");
    expect_refusal(w, "POST", RUN "/trials:suggest",
                   "{\"setting\": 1, \"exhausted\": 2, \"x\": 3}", 422,
                   "/setting /exhausted /x ");
    expect_refusal(w, "POST", RUN "/trials:suggest",
                   "{\"settings\": [{}, 2, {}, null]}", 422,
                   "/settings/1 /settings/3 ");
    expect_refusal(w, "POST", RUN "/trials:suggest", "{\"settings\": {}}", 422,
                   "/settings ");
    expect_refusal(w, "POST", RUN "/trials:suggest",
                   "{\"settings\": [{}], \"setting\": {}}", 422, "/settings ");
    snprintf(large, sizeof(large), "{\"setting\": {\"a\": \"%0*d\"}}",
             COMMAND_SUGGEST_MAX, 1);
    expect_refusal(w, "POST", RUN "/trials:suggest", large, 422, "/setting ");
}

/* Limits come as the configuration has them; null takes one away. */
static void commands_set_limits(void **state)
{
    struct world *w = *state;
    struct mailbox_request q;
    struct response r = {0};

    assert_true(send_body(w, "PATCH", RUN,
                          "{\"stop\": {\"max_time\": \"10m\", \"target_loss\": "
                          "null, \"max_epochs\": 7, \"plateau_epochs\": 2, "
                          "\"target_metric\": 0.9}}",
                          &r));
    q = carry_out(w, ERR_OK, true);
    json_decref(collect(200));
    assert_int_equal(q.command, COMMAND_LIMITS);
    assert_int_equal(q.args.limits.set, 31);
    assert_true(q.args.limits.to.max_time_s == 600);
    assert_true(isnan(q.args.limits.to.target_loss));
    assert_true(q.args.limits.to.target_metric == 0.9);
    assert_int_equal(q.args.limits.to.max_epochs, 7);
    assert_int_equal(q.args.limits.to.plateau_epochs, 2);
    assert_true(
        send_body(w, "PATCH", RUN, "{\"stop\": {\"max_time\": null}}", &r));
    q = carry_out(w, ERR_OK, true);
    json_decref(collect(200));
    assert_int_equal(q.args.limits.set, LIMIT_MAX_TIME);
    assert_true(isinf(q.args.limits.to.max_time_s));
}

/* Refusals of the run have codes of their own. */
static void commands_refused_by_the_run_conflict(void **state)
{
    static const struct {
        enum err err;
        const char *code;
        int status;
    } rows[] = {{ERR_CANCELED, "run_ended", 409},
                {ERR_UNSUPPORTED, "not_supported", 409},
                {ERR_AGAIN, "not_yet", 409},
                {ERR_NOENT, "branch_not_found", 404},
                {ERR_DIVERGED, "diverged", 409},
                {ERR_LIMIT, "limit_reached", 409},
                {ERR_NOMEM, "nomem", 503}};
    struct world *w = *state;
    struct response r = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *json;

        assert_true(send_body(w, "POST", RUN ":retune", "", &r));
        carry_out(w, rows[i].err, false);
        json = collect(rows[i].status);
        assert_string_equal(json_string_value(json_object_get(json, "code")),
                            rows[i].code);
        json_decref(json);
    }
}

/* More than can wait is 503; forgetting makes room once they are carried out.
 */
static void commands_that_are_too_many_are_refused(void **state)
{
    struct world *w = *state;
    struct service_write all[MAILBOX_SLOTS];
    struct response r = {0};

    for (int i = 0; i < MAILBOX_SLOTS; i++) {
        assert_true(send_body(w, "POST", RUN ":pause", "", &r));
        all[i] = sent;
    }
    expect_refusal(w, "POST", RUN ":pause", "", 503, "");
    for (int i = 0; i < MAILBOX_SLOTS; i++) {
        carry_out(w, ERR_OK, false);
        service_forget(&all[i]);
    }
    service_forget(&all[0]);
    assert_true(send_body(w, "POST", RUN ":pause", "", &r));
    carry_out(w, ERR_OK, false);
    json_decref(collect(200));
}

/* A write whose memory fails anywhere is answered all the same, and leaves
 * nothing. */
static void commands_without_memory_are_answered(void **state)
{
    struct world *w = *state;
    int64_t before = mem_outstanding();
    struct mailbox_request request;
    mailbox_ticket ticket;
    bool failed = true;

    for (int64_t n = 1; failed; n++) {
        struct response r = {0};
        bool posted;

        mem_fail_at(n, 1);
        posted = send_body(w, "PATCH", RUN,
                           "{\"stop\": {\"max_time\": \"10m\"}}", &r);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(posted, r.status == 0);
        if (!posted)
            assert_int_equal(r.status, 503);
        response_deinit(&r);
        if (posted) {
            assert_true(mailbox_take(w->mailbox, &request, &ticket));
            mailbox_answer(w->mailbox, ticket, &(struct tuner_answer){0});
            json_decref(collect(200));
        }
    }
    /* The place of the one that was posted is the mailbox's from then on. */
    assert_int_equal(mem_outstanding(), before + 1);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(commands_need_the_token),
        WITH(commands_are_all_guarded),
        WITH(commands_are_routes),
        WITH(commands_heads_are_checked),
        WITH(commands_bodies_are_checked_whole),
        WITH(commands_reach_the_run),
        WITH(commands_reach_branches),
        WITH(commands_to_branches_are_checked),
        WITH(commands_suggest_settings),
        WITH(commands_check_suggestions),
        WITH(commands_set_limits),
        WITH(commands_refused_by_the_run_conflict),
        WITH(commands_that_are_too_many_are_refused),
        WITH(commands_without_memory_are_answered),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
