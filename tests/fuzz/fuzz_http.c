/* Any bytes as a request: refused with a problem document and a closed
 * connection, or answered with JSON; nothing leaks, and what is let through is
 * what it looks like.
 *
 * An input that begins with a NUL byte is a target that the guard has let
 * through, so that the fuzzer need not find our Host first; one that begins
 * with a byte 1, the body of a PATCH of the run, with a 2, of a POST; with a 3,
 * a line of method and target, one with an Idempotency-Key, and a body, for the
 * server of one run and for that of many. Of any other, the head is taken apart
 * as the server library would.
 *
 * The run that is asked about has recorded tests/fuzz/http_run.jsonl, so this
 * is started in the repository's folder. */
#include "api/http/request.h"
#include "api/service/service.h"
#include "api/view/desk.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/fuzz/seen.h"
#ifndef FUZZ_REPLAY
#include "tests/unit/fixture/config_fixture.c" /* the target links no test helpers */
#endif
#include "tests/unit/fixture/config_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct view *view;    /* of one run, which takes commands itself */
static struct view *service; /* the same run, where a desk takes all writes */
static struct mailbox *mailbox; /* of the write that goes on */
static struct desk *desk;
static struct listen_address self;
static int wake_fd;

static const char token[] = "0123456789abcdef";

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static void feed(struct history *h, char *line)
{
    json_t *json = json_loads(line, 0, NULL);
    struct record r;

    check(json && record_from_json(json, &r, NULL) == ERR_OK, line);
    check(history_apply(h, &r) == ERR_OK, line);
    record_deinit(&r);
    json_decref(json);
}

static void feed_run(struct history *h)
{
    static char line[65536];
    FILE *file = fopen("tests/fuzz/http_run.jsonl", "r");

    check(file != NULL, "tests/fuzz/http_run.jsonl is not here");
    while (fgets(line, sizeof(line), file))
        feed(h, line);
    fclose(file);
}

/* What views and desk keep from their first use on is there before the first
 * input, which leaves nothing behind. */
static void warm(void)
{
    static const char *const kept[] = {"/openapi.json", "/api/v1"};
    struct desk_request request = {.command = COMMAND_STOP};
    struct response r = {0};
    desk_ticket ticket;

    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        check(service_respond(view, "GET", kept[i], &r), kept[i]);
        response_deinit(&r);
        check(service_respond(service, "GET", kept[i], &r), kept[i]);
        response_deinit(&r);
    }
    check(desk_post(desk, &request, wake_fd, &ticket) == ERR_OK &&
              desk_take(desk, &request, &ticket),
          "desk");
    response_json(&r, 200, json_object());
    desk_answer(desk, ticket, &r);
    check(desk_collect(desk, ticket, &r) == ERR_OK, "desk");
    response_deinit(&r);
}

/* Made once. */
static void make_views(void)
{
    static struct registry registry;
    static struct history h;
    struct view_options alone = {.registry = &registry};
    struct view_options many = {.registry = &registry};
    json_t *config;

    json_count_memory();
    config_fixture_fill(&registry);
    history_init(&h);
    config = json_pack("{s:s}", "name", "fuzz");
    feed_run(&h);
    check(desk_new(&desk) == ERR_OK &&
              listen_parse("127.0.0.1:80", &self, NULL) == ERR_OK,
          "memory");
    many.desk = desk;
    wake_fd = eventfd(0, EFD_NONBLOCK);
    check(view_new(&alone, &view) == ERR_OK && config &&
              view_new(&many, &service) == ERR_OK &&
              view_add_run(view, "run-1", "fuzz", &h) == ERR_OK &&
              view_add_run(service, "run-1", "fuzz", &h) == ERR_OK,
          "views");
    view_keep_run(view, "run-1", config, NULL);
    view_keep_run(service, "run-1", config, NULL);
    warm();
}

/* A response is whole: a known status, and JSON or one of the page's parts. */
static void check_response(const struct response *r)
{
    static struct seen bodies; /* JSON */
    json_t *json;

    check(r->status && response_reason(r->status)[0], "status");
    check(!r->stream, "there are no events here");
    if (strncmp(r->type, "text/plain", 10) == 0) { /* /metrics */
        check(r->status == 200 && r->body[r->len - 1] == '\n', "metrics");
        return;
    }
    if (r->page) {
        check(r->status == 200 && r->len > 0, "page");
        return;
    }
    check((r->status == 405) == (r->allow[0] != '\0'), "Allow");
    if (seen_lately(&bodies, r->body, r->len, r->status))
        return;
    json = json_loadb(r->body, r->len, JSON_REJECT_DUPLICATES, NULL);
    check(json != NULL, "body is no JSON");
    check(r->status == 200 || r->status == 202 ||
              json_integer_value(json_object_get(json, "status")) == r->status,
          "problem");
    json_decref(json);
}

static size_t encode(char *out, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;

    for (; *text; text++) {
        out[n++] = '%';
        out[n++] = digits[(unsigned char)*text >> 4];
        out[n++] = digits[(unsigned char)*text & 15];
    }
    return n;
}

/* Written out again with every byte encoded, a target says the same. */
static void check_round_trip(const char *target)
{
    static struct request first, second;
    static char again[4 * HEAD_TARGET_MAX];
    struct response r = {0};
    size_t i, n = 0;

    if (!request_parse(target, &first, &r)) {
        check(r.status == 400 && r.close, "malformed target");
        response_deinit(&r);
        return;
    }
    if (first.segments > REQUEST_SEGMENTS_MAX)
        return;
    for (i = 0; i < first.segments; i++) {
        again[n++] = '/';
        n += encode(again + n, first.segment[i]);
    }
    again[n] = '\0';
    if (n == 0 || n > HEAD_TARGET_MAX)
        return;
    check(request_parse(again, &second, &r), "round trip is refused");
    /* "//" has an empty segment more than "/", which has none. */
    check(second.segments == first.segments || (n == 1 && second.segments == 0),
          "segments");
    for (i = 0; i < second.segments; i++)
        check(strcmp(first.segment[i], second.segment[i]) == 0, "segment");
}

static void ask(struct view *v, const char *method, const char *target);

static void respond(struct view *v, const char *method, const char *target)
{
    struct response r = {0};

    if (service_respond(v, method, target, &r))
        check_response(&r);
    else
        ask(v, method, target);
    response_deinit(&r);
    check_round_trip(target);
}

static void fuzz_target(const char *text, size_t size)
{
    char target[HEAD_TARGET_MAX + 1] = "/";
    size_t n = 1;

    for (size_t i = 0; i < size && n < HEAD_TARGET_MAX; i++) {
        if (text[i] > 0x20 && text[i] < 0x7f && text[i] != '#')
            target[n++] = text[i];
    }
    respond(view, "GET", target);
}

/* ---- writes -------------------------------------------------------------- */

/* A posted body is a command as the run may be given it. */
static void check_command(const struct mailbox_request *got)
{
    const struct command_limits *l = &got->args.limits;

    if (got->command == COMMAND_LIMITS) {
        check(!(l->set & LIMIT_MAX_EPOCHS) || l->to.max_epochs, "max_epochs");
        check(!(l->set & LIMIT_PLATEAU_EPOCHS) || l->to.plateau_epochs,
              "plateau_epochs");
        check(!(l->set & LIMIT_MAX_TIME) || l->to.max_time_s > 0, "max_time");
    }
    check(got->command != COMMAND_FORK ||
              !got->args.fork.epochs != !got->args.fork.clocks,
          "length of a fork");
    check(got->command != COMMAND_READ ||
              (got->args.rows.count && got->args.rows.values &&
               (uint64_t)got->args.rows.count * got->args.rows.values <=
                   COMMAND_VALUES_MAX),
          "rows");
    check(got->command != COMMAND_ADD ||
              (got->args.rows.add && got->args.rows.values),
          "an increment");
}

/* Settings that are suggested are objects, not too many; or there are none, and
 * nothing follows. */
static void check_suggest(const struct mailbox_request *q)
{
    json_t *list, *setting;
    size_t i;

    if (q->command != COMMAND_SUGGEST)
        return;
    list = json_loads(q->args.suggest.settings, 0, NULL);
    check(list || (q->args.suggest.exhausted && !q->args.suggest.settings[0]),
          "settings are no JSON");
    check(!list || (json_array_size(list) >= 1 &&
                    json_array_size(list) <= COMMAND_SUGGESTIONS_MAX),
          "number of settings");
    json_array_foreach(list, i, setting)
        check(json_is_object(setting), "a setting is no object");
    json_decref(list);
}

/* Each error in turn, by the length of the body; "not now" is asked again. */
static enum err answer_to(size_t size)
{
    enum err err = (enum err)(size % ERR_COUNT);

    return err == ERR_AGAIN ? ERR_OK : err;
}

/* Whether the answer to a key is given again; others may be tried again. */
static bool is_remembered(size_t size)
{
    enum err err = answer_to(size);

    return err != ERR_LIMIT && err != ERR_NOMEM && err != ERR_PROTO;
}

static void answer_command(size_t size)
{
    struct mailbox_request got;
    mailbox_ticket ticket;
    struct tuner_answer a = {.err = answer_to(size),
                             .changed = size % 2,
                             .branch = BRANCH_NONE,
                             .text = "done",
                             .faults = 1,
                             .fault = {{"/setting", "it is too long"}}};

    check(mailbox_take(mailbox, &got, &ticket), "posted");
    check_command(&got);
    check_suggest(&got);
    if (got.command == COMMAND_READ && !a.err) {
        a.values = got.args.rows.count * got.args.rows.values;
        a.value = mem_calloc(a.values, sizeof(*a.value));
        check(a.value != NULL, "memory");
    }
    mailbox_request_deinit(&got);
    mailbox_answer(mailbox, ticket, &a);
}

static void answer_desk(const char *body, size_t size)
{
    struct response answer = {0};
    struct desk_request got;
    desk_ticket ticket;

    check(desk_take(desk, &got, &ticket), "posted");
    check(got.len == size && memcmp(got.body, body, size) == 0, "body");
    desk_request_deinit(&got);
    response_json(&answer, 200, json_object());
    desk_answer(desk, ticket, &answer);
}

/* Refused, or answered by whom it is for. @known: its key came before, so the
 * run's mailbox knows the answer. */
static int write_body(struct view *v, const char *method, const char *target,
                      const char *body, size_t size, struct service_write w,
                      bool known)
{
    struct response r = {0};
    int status;

    if (service_write(v, method, target, body, size, wake_fd, &w, &r)) {
        if (v == service)
            answer_desk(body, size);
        else if (!known)
            answer_command(size);
        check(service_collect(&w, &r), "answered");
    } else {
        check(r.status >= 400 && r.status < 500, "refused");
    }
    check_response(&r);
    status = r.status;
    response_deinit(&r);
    return status;
}

/* What an input does hangs on it alone: each write has a mailbox of its own,
 * which knows no keys. */
static void steer(void)
{
    check(mailbox_new(&mailbox) == ERR_OK, "memory");
    view_steer_run(view, "run-1", mailbox);
}

static void leave(void)
{
    view_steer_run(view, "run-1", NULL);
    mailbox_free(mailbox);
}

/* A read that the run itself is to answer. */
static void ask(struct view *v, const char *method, const char *target)
{
    const struct service_write none = {.ticket = 0};

    steer();
    write_body(v, method, target, "", 0, none, false);
    leave();
}

static void write_afresh(struct view *v, const struct head *head,
                         const char *body, size_t size,
                         const struct service_write *w)
{
    int first;

    steer();
    first = write_body(v, head->method, head->target, body, size, *w, false);
    if (w->request.key[0] && v == view && is_remembered(size))
        check(first == write_body(v, head->method, head->target, body, size, *w,
                                  true),
              "another answer to the same key");
    leave();
}

static struct head_field field(const char *name, const char *value)
{
    return (struct head_field){.name = name,
                               .name_len = strlen(name),
                               .value = value,
                               .value_len = strlen(value)};
}

static void fuzz_write(struct view *v, const char *method, const char *target,
                       const char *key, const char *body, size_t size)
{
    struct head head = {.method = method, .target = target};
    const struct service_readers who = {.token = token};
    struct asker by;
    struct service_write w = {.ticket = 0};
    struct response r = {0};
    char length[24];

    snprintf(length, sizeof(length), "%zu", size);
    head.field[head.fields++] =
        field("Authorization", "Bearer 0123456789abcdef");
    head.field[head.fields++] = field("Content-Type", "application/json");
    head.field[head.fields++] = field("Content-Length", length);
    if (*key)
        head.field[head.fields++] = field("Idempotency-Key", key);
    by = service_asker(&who, &head);
    if (service_begin(v, &by, &head, &w, &r)) {
        write_afresh(v, &head, body, size, &w);
        return;
    }
    check(r.status >= 400 && r.status < 500, "head is refused");
    check_response(&r);
    response_deinit(&r);
}

static void fuzz_body(const char *method, const char *target, const char *body,
                      size_t size)
{
    fuzz_write(view, method, target, "", body, size);
    fuzz_write(service, method, target, "", body, size);
}

/* ---- a head, taken apart ------------------------------------------------- */

/* Next line of @text at *@at, without CR LF, terminated in place; NULL: the
 * text ends before it does. */
static char *next_line(char *text, size_t size, size_t *at)
{
    char *line = text + *at;
    char *feed_at = memchr(line, '\n', size - *at);

    if (!feed_at)
        return NULL;
    *at = (size_t)(feed_at - text) + 1;
    *feed_at = '\0';
    if (feed_at > line && feed_at[-1] == '\r')
        feed_at[-1] = '\0';
    return line;
}

static bool take_first_line(char *line, struct head *head)
{
    char *space = strchr(line, ' ');
    char *last = strrchr(line, ' ');

    if (!space || space == last)
        return false;
    *space = *last = '\0';
    head->method = line;
    head->target = space + 1;
    head->version = last + 1;
    return true;
}

static void take_field(char *line, struct head *head)
{
    char *colon = strchr(line, ':');
    char *value = colon ? colon + 1 : line + strlen(line);

    while (*value == ' ')
        value++;
    if (head->fields < HEAD_HEADERS_MAX)
        head->field[head->fields] = (struct head_field){
            .name = line,
            .name_len = colon ? (size_t)(colon - line) : strlen(line),
            .value = value,
            .value_len = strlen(value)};
    head->fields++;
}

/* A request that is let through is unmistakable. */
static void check_accepted(const struct head *head)
{
    unsigned hosts = 0;

    check(head->target[0] == '/', "target");
    for (size_t i = 0; i < head->fields; i++) {
        const struct head_field *f = &head->field[i];

        hosts += f->name_len == 4 && strncasecmp(f->name, "host", 4) == 0;
        for (size_t k = 0; k < f->value_len; k++)
            check((unsigned char)f->value[k] >= 0x20 || f->value[k] == '\t',
                  "control character");
    }
    check(hosts == 1, "host");
}

static void fuzz_head(char *text, size_t size)
{
    static struct head head;
    struct response refusal = {0};
    size_t at = 0;
    char *line = next_line(text, size, &at);

    memset(&head, 0, sizeof(head));
    if (!line || !take_first_line(line, &head))
        return;
    while ((line = next_line(text, size, &at)) && *line)
        take_field(line, &head);
    if (!line)
        return;
    head.bytes = at;
    if (service_accept(&head, &self, &refusal)) {
        check_accepted(&head);
        respond(view, head.method, head.target);
    } else {
        check(refusal.status >= 400 && refusal.close, "refusal");
        check_response(&refusal);
    }
    response_deinit(&refusal);
}

/* The guard lets no others through. */
static bool is_target(const char *target)
{
    for (const char *c = target; *c; c++)
        if (*c <= 0x20 || *c == 0x7f)
            return false;
    return target[0] == '/' && strlen(target) <= HEAD_TARGET_MAX;
}

/* "METHOD TARGET", the key and the body, each on a line. */
static void fuzz_request(char *text, size_t size)
{
    static const char *const methods[] = {"POST", "PATCH", "PUT", "DELETE"};
    size_t at = 0;
    char *method = next_line(text, size, &at);
    char *key = method ? next_line(text, size, &at) : NULL;
    char *target = method ? strchr(method, ' ') : NULL;

    if (!key || !target)
        return;
    *target++ = '\0';
    if (!*method || !is_target(target)) /* the guard lets none through */
        return;
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(method, methods[i]) == 0) {
            fuzz_write(view, method, target, key, text + at, size - at);
            fuzz_write(service, method, target, key, text + at, size - at);
            return;
        }
    }
    respond(service, method, target);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before;
    char *text;

    if (!view)
        make_views();
    before = mem_outstanding();
    text = mem_alloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    if (size > 0 && data[0] == 0)
        fuzz_target(text + 1, size - 1);
    else if (size > 0 && data[0] == 1)
        fuzz_body("PATCH", "/api/v1/runs/run-1", text + 1, size - 1);
    else if (size > 0 && data[0] == 2)
        fuzz_body("POST", "/api/v1/runs/run-1:stop", text + 1, size - 1);
    else if (size > 0 && data[0] == 3)
        fuzz_request(text + 1, size - 1);
    else
        fuzz_head(text, size);
    mem_free(text);
    check(mem_outstanding() == before, "leak");
    return 0;
}
