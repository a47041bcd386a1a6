#include "api/http/response.h"

#include "api/http/event_log.h"
#include "base/json/json.h"
#include "base/json/json_text.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char no_memory[] =
    "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\","
    "\"status\":503,\"code\":\"nomem\","
    "\"detail\":\"out of memory; try again\",\"errors\":[]}\n";

static const char type_json[] = "application/json";
static const char type_problem[] = "application/problem+json";

void response_deinit(struct response *r)
{
    mem_free(r->owned);
    event_log_free(r->stream);
    memset(r, 0, sizeof(*r));
}

static void answer(struct response *r, int status, const char *type,
                   const char *body, size_t len)
{
    assert(status >= 200);
    assert(body);
    mem_free(r->owned);
    r->owned = NULL;
    r->status = status;
    r->type = type;
    r->body = body;
    r->len = len;
}

/* @text is owned; NULL: out of memory. */
static void answer_text(struct response *r, int status, const char *type,
                        char *text)
{
    if (!text) {
        answer(r, 503, type_problem, no_memory, sizeof(no_memory) - 1);
        return;
    }
    answer(r, status, type, text, strlen(text));
    r->owned = text;
}

void response_json(struct response *r, int status, json_t *json)
{
    assert(status >= 200 && status < 300);
    answer_text(r, status, type_json, json ? json_write(json, 0) : NULL);
    json_decref(json);
}

void response_static(struct response *r, const char *type, const char *body,
                     size_t len)
{
    assert(type && body);
    answer(r, 200, type, body, len);
}

void response_text(struct response *r, int status, const char *type, char *text,
                   size_t len)
{
    assert(type && text && response_reason(status)[0]);
    answer(r, status, type, text, len);
    r->owned = text;
}

void response_log(struct response *r, char *bytes, size_t len, uint64_t from)
{
    response_text(r, 200, "text/plain; charset=utf-8", bytes, len);
    snprintf(r->log_from, sizeof(r->log_from), "%" PRIu64, from);
    snprintf(r->log_next, sizeof(r->log_next), "%" PRIu64, from + len);
}

void response_enter(struct response *r, const char *fmt, ...)
{
    va_list ap;

    answer(r, 303, "text/plain; charset=utf-8", "", 0);
    snprintf(r->location, sizeof(r->location), "/");
    va_start(ap, fmt);
    vsnprintf(r->cookie, sizeof(r->cookie), fmt, ap);
    va_end(ap);
}

void response_export(struct response *r, const char *run, const char *format,
                     const char *type)
{
    bool archive = strcmp(type, RESPONSE_TAR) == 0;

    assert(!r->export_format);
    assert(run[0] && format);
    answer(r, 200, type, "", 0);
    r->export_format = format;
    snprintf(r->export_run, sizeof(r->export_run), "%s", run);
    snprintf(r->disposition, sizeof(r->disposition),
             archive ? "attachment; filename=\"%s-%s.tar\""
                     : "attachment; filename=\"%s.%s\"",
             r->export_run, format);
}

void response_stream(struct response *r, struct event_log *log,
                     const char *kinds)
{
    assert(strlen(kinds) < sizeof(r->stream_kinds));
    assert(!r->stream);
    assert(log);
    answer(r, 200, "text/event-stream", "", 0);
    snprintf(r->stream_kinds, sizeof(r->stream_kinds), "%s", kinds);
    r->stream = event_log_hold(log);
}

const char *response_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } rows[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {303, "See Other"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {507, "Insufficient Storage"},
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].status == status)
            return rows[i].reason;
    }
    return "";
}

/* Texts quote clients and may cut them anywhere: bytes that would not be whole
 * characters become '?'. */
static void make_printable(char *s)
{
    for (; *s; s++) {
        if (*s < 0x20 || *s >= 0x7f)
            *s = '?';
    }
}

void response_fault_add(struct response_faults *fs, const char *pointer,
                        const char *fmt, ...)
{
    struct response_fault *item;
    va_list ap;

    assert(pointer);
    if (fs->len < RESPONSE_ERRORS_MAX) {
        item = &fs->item[fs->len];
        snprintf(item->pointer, sizeof(item->pointer), "%s", pointer);
        va_start(ap, fmt);
        vsnprintf(item->detail, sizeof(item->detail), fmt, ap);
        va_end(ap);
        make_printable(item->pointer);
        make_printable(item->detail);
    }
    fs->len++;
}

/* Written as text at once: as JSON in memory first, each refusal would take 25
 * allocations. */
static void write_member(struct text *t, const char *begin, const char *value)
{
    text_puts(t, begin);
    json_write_string(t, value, strlen(value));
}

static void write_faults(struct text *t, const struct response_faults *fs)
{
    size_t n = fs ? fs->len : 0;

    if (n > RESPONSE_ERRORS_MAX)
        n = RESPONSE_ERRORS_MAX;
    for (size_t i = 0; i < n; i++) {
        text_puts(t, i > 0 ? "," : "");
        write_member(t, "{\"pointer\":", fs->item[i].pointer);
        write_member(t, ",\"detail\":", fs->item[i].detail);
        text_puts(t, "}");
    }
}

void response_problem(struct response *r, int status, const char *code,
                      const struct response_faults *faults, const char *fmt,
                      ...)
{
    struct text t = {0};
    char detail[512];
    va_list ap;

    assert(fmt[0]);
    assert(code[0] && response_reason(status)[0]);
    assert(status >= 400 && response_reason(status)[0]);
    va_start(ap, fmt);
    vsnprintf(detail, sizeof(detail), fmt, ap);
    va_end(ap);
    make_printable(detail);
    write_member(
        &t, "{\"type\":\"about:blank\",\"title\":", response_reason(status));
    text_printf(&t, ",\"status\":%d", status);
    write_member(&t, ",\"code\":", code);
    write_member(&t, ",\"detail\":", detail);
    text_puts(&t, ",\"errors\":[");
    write_faults(&t, faults);
    text_puts(&t, "]}");
    answer_text(r, status, type_problem, text_take(&t));
}

void response_unauthorized(struct response *r)
{
    response_problem(r, 401, "token_required", NULL,
                     "this needs the header Authorization: Bearer TOKEN; the "
                     "token is in the file `token` of the state folder, or one "
                     "that `mltune token add` has made and nobody revoked");
    r->challenge = true;
}

static const char csp_page[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'";
static const char csp_data[] = "default-src 'none'; frame-ancestors 'none'; "
                               "base-uri 'none'; form-action 'none'";

size_t response_headers(const struct response *r,
                        struct response_header out[RESPONSE_HEADERS_MAX])
{
    size_t n = 0;

    assert(r->status);
    out[n++] = (struct response_header){"Content-Type", r->type};
    out[n++] = (struct response_header){"Content-Security-Policy",
                                        r->page ? csp_page : csp_data};
    out[n++] = (struct response_header){"X-Content-Type-Options", "nosniff"};
    out[n++] = (struct response_header){"X-Frame-Options", "DENY"};
    out[n++] = (struct response_header){"Referrer-Policy", "no-referrer"};
    out[n++] =
        (struct response_header){"Cross-Origin-Resource-Policy", "same-origin"};
    out[n++] =
        (struct response_header){"Cross-Origin-Opener-Policy", "same-origin"};
    /* A run's state changes every moment, and is nobody else's business. */
    out[n++] = (struct response_header){"Cache-Control", "no-store"};
    if (r->allow[0])
        out[n++] = (struct response_header){"Allow", r->allow};
    if (r->location[0])
        out[n++] = (struct response_header){"Location", r->location};
    if (r->cookie[0])
        out[n++] = (struct response_header){"Set-Cookie", r->cookie};
    if (r->disposition[0])
        out[n++] =
            (struct response_header){"Content-Disposition", r->disposition};
    if (r->log_next[0]) {
        out[n++] = (struct response_header){"Log-Offset", r->log_from};
        out[n++] = (struct response_header){"Log-Next-Offset", r->log_next};
    }
    if (r->status == 503) /* nothing here lasts longer, if it passes */
        out[n++] = (struct response_header){"Retry-After", "1"};
    if (r->challenge)
        out[n++] = (struct response_header){"WWW-Authenticate", "Bearer"};
    if (r->close)
        out[n++] = (struct response_header){"Connection", "close"};
    assert(n <= RESPONSE_HEADERS_MAX);
    return n;
}
