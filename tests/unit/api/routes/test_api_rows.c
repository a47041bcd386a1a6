/* Routes of tables and rows: what is there, what is asked of the run, what is
 * refused before that. */
#include "api/routes/rows_routes.h"
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

#define ROWS "/api/v1/tables/weights/rows/"

struct world {
    struct http_fixture x;
    struct mailbox *mailbox;
    struct service_write write;
    int fd;
};

static int setup(void **state)
{
    static struct world w;
    static const struct table_info tables[] = {
        {"weights", 10, 3, TABLE_F32, TABLE_SHARED, "sgd", true},
        {"counts", 4, 2, TABLE_I32, TABLE_EXCLUSIVE, "add", true},
        {"own", 4, 1, TABLE_F64, TABLE_LOCAL, "", false},
        {"wide", 2, 20000, TABLE_F64, TABLE_SHARED, "add", false},
        {"1", 5, 1, TABLE_F64, TABLE_SHARED, "add", false},
    };
    struct record r;

    memset(&w, 0, sizeof(w));
    http_fixture_init(&w.x);
    http_fixture_run(&w.x);
    record_init(&r, RECORD_TABLES);
    r.at_s = w.x.h.at_s;
    r.clock = w.x.h.clock;
    r.tables.tables = json_array();
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        json_array_append_new(r.tables.tables, table_info_to_json(&tables[i]));
    assert_int_equal(history_apply(&w.x.h, &r), ERR_OK);
    record_deinit(&r);
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

static void is_text(const json_t *json, const char *pointer, const char *text)
{
    assert_string_equal(json_string_value(json_at(json, pointer)), text);
}

static void is_number(const json_t *json, const char *pointer, double number)
{
    assert_true(json_number_value(json_at(json, pointer)) == number);
}

/* ---- tables -------------------------------------------------------------- */

/* Each table is listed with what it is; the run need not be named where there
 * is no other. */
static void rows_tables_are_listed(void **state)
{
    struct world *w = *state;
    json_t *json = http_fixture_get(w->x.view, "/api/v1/tables", 200);

    is_number(json, "/total", 5);
    is_text(json, "/tables/0/table", "weights");
    is_number(json, "/tables/0/number", 0);
    is_number(json, "/tables/0/rows", 10);
    is_number(json, "/tables/0/width", 3);
    is_text(json, "/tables/0/type", "f32");
    is_text(json, "/tables/0/access", "shared");
    is_text(json, "/tables/0/update_rule", "sgd");
    assert_true(json_is_true(json_at(json, "/tables/0/saved")));
    assert_true(json_is_null(json_at(json, "/tables/2/update_rule")));
    json_decref(json);
    json = http_fixture_get(
        w->x.view, "/api/v1/tables?run=run-1&page_size=2&order=desc", 200);
    is_text(json, "/tables/0/table", "1");
    assert_true(json_is_string(json_at(json, "/next_page_token")));
    json_decref(json);
    json = http_fixture_get(w->x.view, "/api/v1/tables?run=other", 404);
    is_text(json, "/code", "run_not_found");
    is_text(json, "/errors/0/pointer", "/query/run");
    json_decref(json);
}

/* Where there are several runs, one is to be named. */
static void rows_one_of_several_runs_is_named(void **state)
{
    struct world *w = *state;
    struct history second;
    json_t *json;

    history_init(&second);
    assert_int_equal(view_add_run(w->x.view, "run-2", "x", &second), ERR_OK);
    json = http_fixture_get(w->x.view, "/api/v1/tables", 400);
    is_text(json, "/code", "invalid_parameter");
    is_text(json, "/errors/0/pointer", "/query/run");
    json_decref(json);
    json = http_fixture_get(w->x.view, "/api/v1/tables?run=run-2", 200);
    is_number(json, "/total", 0);
    json_decref(json);
    view_free(w->x.view);
    w->x.view = NULL;
    history_deinit(&second);
}

/* ---- reading ------------------------------------------------------------- */

/* True: the run is asked. */
static bool send(struct world *w, const char *method, const char *target,
                 const char *body, struct response *r)
{
    w->write = (struct service_write){.ticket = 0};
    return service_write(w->x.view, method, target, body, strlen(body), w->fd,
                         &w->write, r);
}

static struct mailbox_request take(struct world *w, mailbox_ticket *ticket)
{
    struct mailbox_request q;

    assert_true(mailbox_take(w->mailbox, &q, ticket));
    return q;
}

static json_t *collect(struct world *w, int status)
{
    struct response r = {0};
    json_t *json;

    assert_true(service_collect(&w->write, &r));
    assert_int_equal(r.status, status);
    json = json_loadb(r.body, r.len, JSON_REJECT_DUPLICATES, NULL);
    response_deinit(&r);
    return json;
}

/* Such a read is not the view's to answer: it goes to the run as a command
 * does, without a body, and comes back with numbers. */
static void rows_are_asked_of_the_run(void **state)
{
    struct world *w = *state;
    struct response r = {0};
    struct tuner_answer a = {.branch = 4, .values = 4};
    struct mailbox_request q;
    mailbox_ticket ticket;
    json_t *json;

    assert_false(service_respond(w->x.view, "GET", ROWS "7", &r));
    assert_int_equal(r.status, 0);
    assert_true(send(
        w, "GET", "/api/v1/tables/0/rows/7?count=2&offset=1&branch=4", "", &r));
    q = take(w, &ticket);
    assert_int_equal(q.command, COMMAND_READ);
    assert_string_equal(q.args.rows.table, "weights");
    assert_int_equal(q.args.rows.branch, 4);
    assert_int_equal(q.args.rows.first, 7);
    assert_int_equal(q.args.rows.count, 2);
    assert_int_equal(q.args.rows.from, 1);
    assert_int_equal(q.args.rows.values, 2);
    a.value = mem_calloc(4, sizeof(double));
    a.value[0] = 0.5;
    a.value[1] = NAN;
    a.value[3] = -INFINITY;
    mailbox_answer(w->mailbox, ticket, &a);
    json = collect(w, 200);
    is_text(json, "/run", "run-1");
    is_text(json, "/table", "weights");
    is_number(json, "/branch", 4);
    is_number(json, "/offset", 1);
    is_number(json, "/rows/0/row", 7);
    is_number(json, "/rows/0/values/0", 0.5);
    is_text(json, "/rows/0/values/1", "nan");
    is_number(json, "/rows/1/row", 8);
    is_text(json, "/rows/1/values/1", "-inf");
    json_decref(json);
}

/* Past the last row and the last value there is nothing; the branch is what
 * the run trains unless it is said; a name goes before a number. */
static void rows_parts_are_cut_to_what_there_is(void **state)
{
    struct world *w = *state;
    struct response r = {0};
    struct mailbox_request q;
    struct tuner_answer a = {.err = ERR_AGAIN, .text = "not now"};
    mailbox_ticket ticket;
    json_t *json;

    assert_true(send(w, "GET", ROWS "8?count=1024&values=16384", "", &r));
    q = take(w, &ticket);
    assert_int_equal(q.args.rows.count, 2);
    assert_int_equal(q.args.rows.values, 3);
    assert_int_equal(q.args.rows.branch, BRANCH_NONE);
    mailbox_answer(w->mailbox, ticket, &a);
    json = collect(w, 409);
    is_text(json, "/code", "not_yet");
    json_decref(json);
    assert_true(send(w, "GET", "/api/v1/tables/1/rows/4", "", &r));
    q = take(w, &ticket);
    assert_string_equal(q.args.rows.table, "1");
    a.err = ERR_PROTO;
    mailbox_answer(w->mailbox, ticket, &a);
    json = collect(w, 502);
    is_text(json, "/code", "bad_answer");
    json_decref(json);
    assert_true(send(
        w, "GET", "/api/v1/tables/wide/rows/1?offset=19999&run=run-1", "", &r));
    q = take(w, &ticket);
    assert_int_equal(q.args.rows.from, 19999);
    assert_int_equal(q.args.rows.values, 1);
    mailbox_answer(w->mailbox, ticket, &a);
    json_decref(collect(w, 502));
}

struct refusal {
    const char *method, *target, *body;
    int status;
    const char *code, *pointers;
};

static void check_refusal(struct world *w, const struct refusal *e)
{
    struct response r = {0};
    char found[256] = "";
    json_t *json;

    if (send(w, e->method, e->target, e->body, &r))
        fail_msg("%s %s %s: let in", e->method, e->target, e->body);
    json = json_loadb(r.body, r.len, JSON_REJECT_DUPLICATES, NULL);
    if (r.status != e->status)
        fail_msg("%s %s: %d: %.*s", e->target, e->body, r.status, (int)r.len,
                 r.body);
    is_text(json, "/code", e->code);
    for (size_t i = 0; i < json_array_size(json_object_get(json, "errors"));
         i++) {
        size_t n = strlen(found);

        snprintf(found + n, sizeof(found) - n, "%s ",
                 http_fixture_error(json, i));
    }
    assert_string_equal(found, e->pointers);
    json_decref(json);
    response_deinit(&r);
}

/* A row that is not there, too much or no increment is refused with all that is
 * wrong, and the run never hears of it. */
static void rows_wrong_requests_are_refused(void **state)
{
    static const struct refusal all[] = {
        {"GET", "/api/v1/tables/nothing/rows/0", "", 404, "table_not_found",
         "/path/table "},
        {"GET", "/api/v1/tables/5/rows/0", "", 404, "table_not_found",
         "/path/table "},
        {"GET", ROWS "10", "", 404, "row_not_found", "/path/row "},
        {"GET", ROWS "1?run=other", "", 404, "run_not_found", "/query/run "},
        {"GET", "/api/v1/tables/own/rows/0", "", 409, "not_supported", ""},
        {"GET", ROWS "x?count=0&colour=red", "", 400, "invalid_parameter",
         "/path/row /query/count /query/colour "},
        {"GET", ROWS "1?offset=3", "", 400, "invalid_parameter",
         "/query/offset "},
        {"GET", "/api/v1/tables/wide/rows/0", "", 400, "invalid_parameter",
         "/query/values "},
        {"GET", "/api/v1/tables/wide/rows/0?count=2&values=16384", "", 400,
         "invalid_parameter", "/query/count "},
        {"POST", ROWS "1:inc", "", 422, "invalid_body", " "},
        {"POST", ROWS "1:inc", "[1,2,3]", 422, "invalid_body", " "},
        {"POST", ROWS "1:inc", "{}", 422, "invalid_body", "/values "},
        {"POST", ROWS "1:inc", "{\"values\": [1, 2]}", 422, "invalid_body",
         "/values "},
        {"POST", ROWS "1:inc",
         "{\"values\": [], \"branch\": -1, \"colour\": 1}", 422, "invalid_body",
         "/branch /colour /values "},
        {"POST", ROWS "1:inc", "{\"values\": [1, \"nan\", 1e39]}", 422,
         "invalid_body", "/values/1 /values/2 "},
        {"POST", ROWS "1:inc", "{\"values\": [1], \"offset\": 3}", 422,
         "invalid_body", "/offset "},
        {"POST", ROWS "1:inc", "{\"values\": [1, 1], \"offset\": 2}", 422,
         "invalid_body", "/values "},
        {"POST", "/api/v1/tables/counts/rows/1:inc", "{\"values\": [1.5, 3e9]}",
         422, "invalid_body", "/values/0 /values/1 "},
        {"POST", "/api/v1/tables/wide/rows/1:inc",
         "{\"values\": [1], \"offset\": 0}", 422, "invalid_body", "/values "},
        {"POST", "/api/v1/tables/own/rows/1:inc", "{\"values\": [1]}", 409,
         "not_supported", ""},
        {"POST", ROWS "1:inc", "{\"values\": [1,", 400, "malformed_json", " "},
    };
    struct world *w = *state;
    struct mailbox_request q;
    mailbox_ticket ticket;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        check_refusal(w, &all[i]);
    assert_false(mailbox_take(w->mailbox, &q, &ticket));
}

/* ---- adding -------------------------------------------------------------- */

/* An increment reaches the run as a whole row; the answer says where it went;
 * what the run refuses has a code of its own. */
static void rows_increments_reach_the_run(void **state)
{
    struct world *w = *state;
    struct response r = {0};
    struct tuner_answer a = {.branch = 4, .changed = true, .text = "added"};
    struct mailbox_request q;
    mailbox_ticket ticket;
    json_t *json;

    assert_true(send(w, "POST", ROWS "2:inc?run=run-1",
                     "{\"values\": [0.5, -1], \"offset\": 1, \"branch\": 9}",
                     &r));
    q = take(w, &ticket);
    assert_int_equal(q.command, COMMAND_ADD);
    assert_int_equal(q.args.rows.branch, 9);
    assert_int_equal(q.args.rows.first, 2);
    assert_int_equal(q.args.rows.values, 3);
    assert_true(q.args.rows.add[0] == 0 && q.args.rows.add[1] == 0.5 &&
                q.args.rows.add[2] == -1);
    mailbox_request_deinit(&q);
    mailbox_answer(w->mailbox, ticket, &a);
    json = collect(w, 200);
    is_text(json, "/run", "run-1");
    is_text(json, "/table", "weights");
    is_number(json, "/row", 2);
    is_number(json, "/branch", 4);
    assert_true(json_is_true(json_at(json, "/changed")));
    is_text(json, "/message", "added");
    json_decref(json);
    assert_true(send(w, "POST", ROWS "2:inc", "{\"values\": [1, 2, 3]}", &r));
    q = take(w, &ticket);
    mailbox_request_deinit(&q);
    a = (struct tuner_answer){.err = ERR_UNSUPPORTED, .text = "kept"};
    mailbox_answer(w->mailbox, ticket, &a);
    json = collect(w, 409);
    is_text(json, "/code", "branch_read_only");
    json_decref(json);
}

/* Each allocation may fail: 503, or no answer in part, and nothing is lost. */
static void rows_without_memory_are_refused(void **state)
{
    struct world *w = *state;
    int64_t n = 0;
    bool posted;

    do {
        struct response r = {0};

        mem_fail_at(++n, 0);
        posted = send(w, "POST", ROWS "2:inc", "{\"values\": [1, 2, 3]}", &r);
        mem_fail_at(0, 0);
        assert_true(posted || r.status == 503 || r.status == 400);
        response_deinit(&r);
    } while (!posted);
    assert_true(n > 1);
    service_forget(&w->write);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(rows_tables_are_listed),
        WITH(rows_one_of_several_runs_is_named),
        WITH(rows_are_asked_of_the_run),
        WITH(rows_parts_are_cut_to_what_there_is),
        WITH(rows_wrong_requests_are_refused),
        WITH(rows_increments_reach_the_run),
        WITH(rows_without_memory_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
