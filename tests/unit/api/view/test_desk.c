/* The desk of a service, and how a write reaches it by way of the routes. */
#include "api/service/service.h"
#include "api/view/desk.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct world {
    struct desk *desk;
    struct view *view;
    struct history history;
    int fd; /* of who asks */
};

static struct world w;

static int setup(void **state)
{
    struct view_options options = {.registry = NULL};

    (void)state;
    assert_int_equal(desk_new(&w.desk), ERR_OK);
    options.desk = w.desk;
    assert_int_equal(view_new(&options, &w.view), ERR_OK);
    history_init(&w.history);
    assert_int_equal(view_add_run(w.view, "run-1", "digits", &w.history),
                     ERR_OK);
    w.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    view_free(w.view);
    history_deinit(&w.history);
    desk_free(w.desk);
    close(w.fd);
    return 0;
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static desk_ticket post(enum command_id verb)
{
    struct desk_request r = {
        .command = verb, .body = mem_strdup("{}"), .len = 2};
    desk_ticket ticket = 0;

    assert_int_equal(desk_post(w.desk, &r, w.fd, &ticket), ERR_OK);
    assert_null(r.body);
    return ticket;
}

static void answer(desk_ticket ticket, const char *text)
{
    struct response r = {0};

    response_json(&r, 200, json_pack("{s:s}", "text", text));
    desk_answer(w.desk, ticket, &r);
    assert_null(r.owned);
}

/* Requests are taken in order, bodies and all; both sides are woken; answers
 * reach those who asked. */
static void desk_carries_requests_and_answers(void **state)
{
    desk_ticket a = post(COMMAND_PAUSE), b = post(COMMAND_STOP), ticket;
    struct desk_request r;
    struct response out = {0};

    (void)state;
    assert_true(readable(desk_fd(w.desk)));
    assert_true(desk_take(w.desk, &r, &ticket));
    assert_int_equal(ticket, a);
    assert_int_equal(r.command, COMMAND_PAUSE);
    assert_string_equal(r.body, "{}");
    desk_request_deinit(&r);
    assert_true(desk_take(w.desk, &r, &ticket));
    assert_int_equal(ticket, b);
    desk_request_deinit(&r);
    assert_false(desk_take(w.desk, &r, &ticket));
    assert_false(readable(desk_fd(w.desk)));
    assert_int_equal(desk_collect(w.desk, a, &out), ERR_AGAIN);
    assert_false(readable(w.fd));
    answer(b, "for b");
    assert_true(readable(w.fd));
    assert_int_equal(desk_collect(w.desk, a, &out), ERR_AGAIN);
    assert_int_equal(desk_collect(w.desk, b, &out), ERR_OK);
    assert_non_null(strstr(out.body, "for b"));
    response_deinit(&out);
    answer(a, "for a");
    assert_int_equal(desk_collect(w.desk, a, &out), ERR_OK);
    response_deinit(&out);
}

/* More than there are places for are refused, and their bodies are not lost;
 * what nobody waits for any more is carried out and leaves nothing. */
static void desk_is_bounded_and_forgets(void **state)
{
    struct desk_request r = {.body = mem_strdup("{}"), .len = 2}, taken;
    desk_ticket ticket[DESK_SLOTS], none = 0, got;

    (void)state;
    for (size_t i = 0; i < DESK_SLOTS; i++)
        ticket[i] = post(COMMAND_SUBMIT);
    assert_int_equal(desk_post(w.desk, &r, w.fd, &none), ERR_LIMIT);
    assert_non_null(r.body);
    desk_request_deinit(&r);
    desk_forget(w.desk, ticket[0]); /* before it is taken */
    assert_true(desk_take(w.desk, &taken, &got));
    assert_int_equal(got, ticket[0]);
    desk_request_deinit(&taken);
    answer(got, "to nobody");
    assert_true(desk_take(w.desk, &taken, &got));
    desk_request_deinit(&taken);
    desk_forget(w.desk, got); /* after */
    answer(got, "to nobody");
    assert_true(desk_take(w.desk, &taken, &got));
    desk_request_deinit(&taken);
    answer(got, "to nobody");
    desk_forget(w.desk, got); /* answered */
    for (int i = 0; i < 3; i++)
        post(COMMAND_STOP);
}

/* Without memory nothing is made. */
static void desk_needs_memory(void **state)
{
    struct desk *none = NULL;

    (void)state;
    mem_fail_at(1, 0);
    assert_int_equal(desk_new(&none), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_null(none);
    desk_free(NULL);
}

static void *serve_all(void *arg)
{
    struct pollfd p = {.fd = desk_fd(w.desk), .events = POLLIN};
    int left = *(int *)arg;

    while (left > 0) {
        struct desk_request r;
        desk_ticket ticket;

        poll(&p, 1, -1);
        while (desk_take(w.desk, &r, &ticket)) {
            answer(ticket, "done");
            desk_request_deinit(&r);
            left--;
        }
    }
    return NULL;
}

/* Two threads, as in a service (tsan watches). */
static void desk_lies_between_threads(void **state)
{
    enum { ROUNDS = 300 };
    int rounds = ROUNDS;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, serve_all, &rounds), 0);
    for (int i = 0; i < ROUNDS; i++) {
        struct pollfd p = {.fd = w.fd, .events = POLLIN};
        desk_ticket ticket = post(COMMAND_VALIDATE);
        struct response out = {0};
        uint64_t calls;

        while (desk_collect(w.desk, ticket, &out) == ERR_AGAIN) {
            poll(&p, 1, -1);
            assert_int_equal(read(w.fd, &calls, sizeof(calls)), 8);
        }
        assert_int_equal(out.status, 200);
        response_deinit(&out);
    }
    pthread_join(thread, NULL);
}

/* ---- by way of the routes ------------------------------------------------ */

static const char *const bodies[] = {"{\"app\": {\"name\": \"mlr\"}}", "{}"};

struct asked {
    const char *method, *target, *body;
    enum command_id command;
    const char *run, *group;
    bool held;
};

static int write_to(const char *method, const char *target, const char *body,
                    struct service_write *write)
{
    struct response out = {0};
    int status;

    *write = (struct service_write){.ticket = 0};
    snprintf(write->request.key, sizeof(write->request.key), "a key");
    service_write(w.view, method, target, body, strlen(body), w.fd, write,
                  &out);
    status = out.status;
    response_deinit(&out);
    return status;
}

/* Every write of the table comes to the desk as what it is, and its answer goes
 * back unchanged. */
static void desk_gets_every_write(void **state)
{
    static const struct asked asked[] = {
        {"POST", "/api/v1/runs", bodies[0], COMMAND_SUBMIT, "", "", false},
        {"POST", "/api/v1/runs?group=g-1&held=true", bodies[0], COMMAND_SUBMIT,
         "", "g-1", true},
        {"POST", "/api/v1/runs:validate", bodies[0], COMMAND_VALIDATE, "", "",
         false},
        {"POST", "/api/v1/runs/run-1:pause", bodies[1], COMMAND_PAUSE, "run-1",
         "", false},
        {"POST", "/api/v1/runs/run-1:continue", "", COMMAND_CONTINUE, "run-1",
         "", false},
        {"POST", "/api/v1/runs/run-1:stop", "", COMMAND_STOP, "run-1", "",
         false},
        {"POST", "/api/v1/runs/run-1:retune", "", COMMAND_RETUNE, "run-1", "",
         false},
        {"POST", "/api/v1/runs/run-1:snapshot", "", COMMAND_SNAPSHOT, "run-1",
         "", false},
        {"PATCH", "/api/v1/runs/run-1", "{\"stop\": {\"max_epochs\": 2}}",
         COMMAND_LIMITS, "run-1", "", false},
        {"DELETE", "/api/v1/runs/run-1", "", COMMAND_DELETE, "run-1", "",
         false},
        {"PATCH", "/api/v1/runs/run-1/notes", "{\"tags\": [\"a\"]}",
         COMMAND_NOTE, "run-1", "", false},
        {"POST", "/api/v1/data/a.csv?size=9&offset=4&anew=true", "a,b\n1",
         COMMAND_UPLOAD, "", "", false},
        {"GET", "/api/v1/data/a.csv", "", COMMAND_UPLOADED, "", "", false},
        {"DELETE", "/api/v1/data/a.csv", "", COMMAND_WITHDRAW, "", "", false},
        {"GET", "/api/v1/data", "", COMMAND_DATA, "", "", false},
        {"POST", "/api/v1/runs/run-1/branches/7:fork", "{\"epochs\": 2}",
         COMMAND_FORK, "run-1", "", false},
        {"POST", "/api/v1/runs/run-1/branches/7:promote", "", COMMAND_PROMOTE,
         "run-1", "", false},
        {"POST", "/api/v1/runs/run-1/branches/7:free", "", COMMAND_FREE,
         "run-1", "", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
        const struct asked *a = &asked[i];
        struct service_write write;
        struct response out = {0};
        struct desk_request r;
        desk_ticket ticket;

        assert_int_equal(write_to(a->method, a->target, a->body, &write), 0);
        assert_true(desk_take(w.desk, &r, &ticket));
        assert_int_equal(r.command, a->command);
        assert_string_equal(r.run, a->run);
        assert_string_equal(r.group, a->group);
        assert_int_equal(r.held, a->held);
        assert_string_equal(r.body, a->body);
        assert_string_equal(r.key, "a key");
        assert_string_equal(r.target, a->target);
        desk_request_deinit(&r);
        assert_false(service_collect(&write, &out));
        response_problem(&out, 507, "not_stored", NULL, "no room");
        desk_answer(w.desk, ticket, &out);
        assert_true(service_collect(&write, &out));
        assert_int_equal(out.status, 507);
        response_deinit(&out);
    }
}

/* A request wrong in form never gets there; a write that is forgotten leaves
 * nothing behind. */
static void desk_is_guarded_by_the_routes(void **state)
{
    static const struct {
        const char *method, *target, *body;
        int status;
    } wrong[] = {
        {"POST", "/api/v1/runs", "", 422},
        {"POST", "/api/v1/runs", "[]", 422},
        {"POST", "/api/v1/runs", "{\"a\":1,\"a\":2}", 400},
        {"POST", "/api/v1/runs?group=UP", "{}", 400},
        {"POST", "/api/v1/runs?colour=red", "{}", 400},
        {"POST", "/api/v1/runs:validate", "7", 422},
        {"POST", "/api/v1/runs/none:pause", "", 404},
        {"POST", "/api/v1/runs/run-1:pause", "{\"x\":1}", 422},
        {"PATCH", "/api/v1/runs/run-1", "{\"name\":1}", 422},
    };
    struct service_write write;
    struct desk_request r;
    desk_ticket ticket;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(
            write_to(wrong[i].method, wrong[i].target, wrong[i].body, &write),
            wrong[i].status);
    assert_false(desk_take(w.desk, &r, &ticket));
    assert_int_equal(write_to("POST", "/api/v1/runs", bodies[0], &write), 0);
    service_forget(&write);
    assert_true(desk_take(w.desk, &r, &ticket));
    desk_request_deinit(&r);
    answer(ticket, "to nobody");
}

/* Too many at a time are told to come again. */
static void desk_that_is_full_says_so(void **state)
{
    struct service_write write;

    (void)state;
    for (size_t i = 0; i < DESK_SLOTS; i++)
        post(COMMAND_SUBMIT);
    assert_int_equal(write_to("POST", "/api/v1/runs", bodies[0], &write), 503);
    mem_fail_at(1, 1);
    assert_int_equal(write_to("POST", "/api/v1/runs", bodies[0], &write), 503);
    mem_fail_at(0, 0);
}

/* A server of one run takes no others. */
static void desk_is_needed_for_submissions(void **state)
{
    struct view_options options = {.registry = NULL};
    struct service_write write = {.ticket = 0};
    struct response out = {0};
    struct view *view;

    (void)state;
    assert_int_equal(view_new(&options, &view), ERR_OK);
    assert_false(service_write(view, "POST", "/api/v1/runs", "{}", 2, w.fd,
                               &write, &out));
    assert_int_equal(out.status, 409);
    assert_non_null(strstr(out.body, "mltune serve"));
    response_deinit(&out);
    view_free(view);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(desk_carries_requests_and_answers),
        WITH(desk_is_bounded_and_forgets),
        WITH(desk_needs_memory),
        WITH(desk_lies_between_threads),
        WITH(desk_gets_every_write),
        WITH(desk_is_guarded_by_the_routes),
        WITH(desk_that_is_full_says_so),
        WITH(desk_is_needed_for_submissions),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
