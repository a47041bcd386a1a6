/* Any bytes as a request: refused with a problem document and a closed
 * connection, or answered with JSON; nothing leaks, and what is let through is
 * what it looks like.
 *
 * An input that begins with a NUL byte is a target that the guard has let
 * through, so that the fuzzer need not find our Host first; one that begins
 * with a byte 1, the body of a PATCH of the run, with a 2, of a POST. Of any
 * other, the head is taken apart as the server library would. */
#include "api/request.h"
#include "api/service.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct view *view;
static struct mailbox *mailbox;
static struct listen_address self;

static void feed(struct history *h, struct record r)
{
    if (history_apply(h, &r) != ERR_OK)
        abort();
    record_deinit(&r);
}

/* A run with two branches, a trial and some progress; made once. */
static void make_view(void)
{
    static const struct view_options options;
    static struct history h;
    struct record progress = {
        .kind = RECORD_PROGRESS,
        .progress = {.branch = 1,
                     .windows = 2,
                     .window = {{.sum = 3, .samples = 2, .clocks = 1},
                                {.sum = NAN, .samples = 2, .clocks = 1}}}};

    history_init(&h);
    if (view_new(&options, &view) != ERR_OK ||
        view_add_run(view, "run-1", "fuzz", &h) != ERR_OK ||
        mailbox_new(&mailbox) != ERR_OK ||
        listen_parse("127.0.0.1:80", &self, NULL) != ERR_OK)
        abort();
    view_steer_run(view, "run-1", mailbox);
    feed(&h, (struct record){.kind = RECORD_RUN_STARTED,
                             .run_started = {.started_unix_s = 1e9}});
    for (branch_id b = 0; b < 2; b++)
        feed(&h,
             (struct record){.kind = RECORD_BRANCH_CREATED,
                             .branch_created = {.branch = b,
                                                .parent = b ? 0 : BRANCH_NONE,
                                                .type = BRANCH_TRAINING,
                                                .setting = json_object()}});
    feed(&h, (struct record){.kind = RECORD_TRIAL_STARTED,
                             .trial = {.trial = 1,
                                       .search = 1,
                                       .branch = 1,
                                       .setting = json_object()}});
    feed(&h, progress);
}

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

/* A response is whole: a known status, and JSON or one of the page's parts. */
static void check_response(const struct response *r)
{
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
    json = json_loadb(r->body, r->len, JSON_REJECT_DUPLICATES, NULL);
    check(json != NULL, "body is no JSON");
    check(r->status == 200 ||
              json_integer_value(json_object_get(json, "status")) == r->status,
          "problem");
    check((r->status == 405) == (r->allow[0] != '\0'), "Allow");
    json_decref(json);
}

static size_t encode(char *out, const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += (size_t)sprintf(out + n, "%%%02X", (unsigned char)*text);
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

static void respond(const char *method, const char *target)
{
    struct response r = {0};

    service_respond(view, method, target, &r);
    check_response(&r);
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
    respond("GET", target);
}

/* What is posted is a command as the run may be given it; all else is refused.
 */
static void fuzz_body(const char *method, const char *target, const char *body,
                      size_t size)
{
    struct service_write w = {.ticket = 0};
    struct tuner_answer a = {.err = ERR_OK};
    struct response r = {0};
    struct mailbox_request got;
    mailbox_ticket ticket;

    if (!service_write(view, method, target, body, size, 2, &w, &r)) {
        check(r.status == 400 || r.status == 422, "refused");
        check_response(&r);
        response_deinit(&r);
        return;
    }
    check(mailbox_take(mailbox, &got, &ticket), "posted");
    check(!(got.limits.set & LIMIT_MAX_EPOCHS) || got.limits.to.max_epochs > 0,
          "max_epochs");
    check(!(got.limits.set & LIMIT_PLATEAU_EPOCHS) ||
              got.limits.to.plateau_epochs > 0,
          "plateau_epochs");
    check(!(got.limits.set & LIMIT_MAX_TIME) || got.limits.to.max_time_s > 0,
          "max_time");
    service_forget(&w);
    mailbox_answer(mailbox, ticket, &a);
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

/* What is let through is unmistakable. */
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
        respond(head.method, head.target);
    } else {
        check(refusal.status >= 400 && refusal.close, "refusal");
        check_response(&refusal);
    }
    response_deinit(&refusal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before;
    char *text;

    if (!view)
        make_view();
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
    else
        fuzz_head(text, size);
    mem_free(text);
    check(mem_outstanding() == before, "leak");
    return 0;
}
