#include "api/http/guard.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- bytes --------------------------------------------------------------- */

/* tchar of RFC 9110, section 5.6.2. */
static bool is_token(const char *s, size_t len)
{
    size_t i;

    for (i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                    (c >= 'A' && c <= 'Z');

        if (!word && (c == 0 || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return len > 0;
}

static bool is_value(const char *s, size_t len)
{
    size_t i;

    for (i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static bool field_is(const struct head_field *f, const char *name)
{
    return f->name_len == strlen(name) &&
           strncasecmp(f->name, name, f->name_len) == 0;
}

static bool value_is(const struct head_field *f, const char *value)
{
    return f->value_len == strlen(value) &&
           strncasecmp(f->value, value, f->value_len) == 0;
}

const struct head_field *head_field(const struct head *head, const char *name)
{
    size_t i;

    assert(name[0]);
    for (i = 0; i < head->fields && i < HEAD_HEADERS_MAX; i++) {
        if (field_is(&head->field[i], name))
            return &head->field[i];
    }
    return NULL;
}

/* ---- form ---------------------------------------------------------------- */

static bool refuse(struct response *out, int status, const char *code,
                   const char *detail)
{
    assert(status >= 400);
    assert(code[0]);
    response_problem(out, status, code, NULL, "%s", detail);
    out->close = true;
    return false;
}

static bool malformed(struct response *out, const char *detail)
{
    return refuse(out, 400, "malformed_request", detail);
}

static bool check_sizes(const struct head *head, struct response *out)
{
    if (strlen(head->target) > HEAD_TARGET_MAX)
        return refuse(out, 414, "target_too_long",
                      "the request target is longer than 2048 bytes");
    if (head->fields > HEAD_HEADERS_MAX)
        return refuse(out, 431, "too_many_headers",
                      "the request has more than 64 header fields");
    if (head->bytes > HEAD_BYTES_MAX)
        return refuse(out, 431, "head_too_long",
                      "the request's head is longer than 16384 bytes");
    return true;
}

static bool check_line(const struct head *head, struct response *out)
{
    const char *c;

    if (!is_token(head->method, strlen(head->method)))
        return malformed(out, "the method is not a token");
    if (strcmp(head->version, "HTTP/1.1") != 0 &&
        strcmp(head->version, "HTTP/1.0") != 0)
        return malformed(out, "expected HTTP/1.1 or HTTP/1.0");
    if (head->target[0] != '/')
        return malformed(out, "the request target is not a path");
    for (c = head->target; *c; c++) {
        if (*c <= 0x20 || *c >= 0x7f || *c == '#')
            return malformed(out, "a byte in the request target has to be "
                                  "percent-encoded");
    }
    return true;
}

/* The library forgets what it skipped: NUL bytes that end a text early, line
 * feeds without carriage return, folded lines. What it reports is therefore
 * written out again in the one usual form, "Name: value" CRLF, which must be as
 * long as what arrived. (So "Name:value" is refused too; no client in use sends
 * it, but for fields without a value.) */
static bool check_length(const struct head *head, struct response *out)
{
    size_t i, empty = 0;
    size_t n = strlen(head->method) + 1 + strlen(head->target) + 1 +
               strlen(head->version) + 2 + 2;

    assert(head->fields <= HEAD_HEADERS_MAX);
    for (i = 0; i < head->fields; i++) {
        n += head->field[i].name_len + 2 + head->field[i].value_len + 2;
        empty += head->field[i].value_len == 0;
    }
    if (head->bytes > n || head->bytes + empty < n)
        return malformed(out, "a header line is not of the form \"Name: "
                              "value\" with CR LF at its end, or the head "
                              "holds a NUL byte");
    return true;
}

static bool check_fields(const struct head *head, struct response *out)
{
    size_t i;

    for (i = 0; i < head->fields; i++) {
        const struct head_field *f = &head->field[i];

        if (!is_token(f->name, f->name_len))
            return malformed(out, "the name of a header field is not a token");
        if (!is_value(f->value, f->value_len))
            return malformed(out, "a header field holds a control character");
    }
    return true;
}

/* Fields of which there may be one only: where a proxy and we would each
 * believe another one, requests could be smuggled past it. */
static bool check_unique(const struct head *head, struct response *out)
{
    static const char *const unique[] = {
        "host",           "content-length", "transfer-encoding",
        "content-type",   "authorization",  "origin",
        "sec-fetch-site", "expect",         "idempotency-key",
        "cookie",
    };
    size_t i, k;

    assert(head->fields <= HEAD_HEADERS_MAX);
    for (k = 0; k < sizeof(unique) / sizeof(unique[0]); k++) {
        unsigned count = 0;

        for (i = 0; i < head->fields; i++)
            count += field_is(&head->field[i], unique[k]);
        if (count > 1) {
            response_problem(out, 400, "malformed_request", NULL,
                             "there is more than one header field \"%s\"",
                             unique[k]);
            out->close = true;
            return false;
        }
    }
    return true;
}

/* Bytes of the body that Content-Length announces; false: no number. */
static bool body_length(const struct head_field *f, uint64_t *out)
{
    size_t i;

    *out = 0;
    for (i = 0; i < f->value_len; i++) {
        if (f->value[i] < '0' || f->value[i] > '9' || i == 18)
            return false;
        *out = *out * 10 + (uint64_t)(f->value[i] - '0');
    }
    return f->value_len > 0;
}

/* Whether there may be one, and where it ends; what is in it is the service's.
 */
static bool check_body(const struct head *head, struct response *out)
{
    const struct head_field *length = head_field(head, "content-length");
    const struct head_field *coding = head_field(head, "transfer-encoding");
    bool reads =
        strcmp(head->method, "GET") == 0 || strcmp(head->method, "HEAD") == 0;
    uint64_t bytes = 0;

    if (coding && length)
        return malformed(out, "both Content-Length and Transfer-Encoding");
    if (coding && !value_is(coding, "chunked"))
        return malformed(out, "expected Transfer-Encoding: chunked, or none");
    if (length && !body_length(length, &bytes))
        return malformed(out, "Content-Length is not a number of bytes");
    if (bytes > HEAD_BODY_MAX)
        return refuse(out, 413, "body_too_long",
                      "the body is longer than 1048576 bytes");
    if (reads && (coding || bytes > 0))
        return refuse(out, 400, "body_not_allowed",
                      "a GET or HEAD request has no body");
    return true;
}

/* ---- origin -------------------------------------------------------------- */

static bool check_host(const struct head *head,
                       const struct listen_address *self, struct response *out)
{
    const struct head_field *host = head_field(head, "host");
    struct response_faults faults;
    char url[LISTEN_URL_MAX];

    if (!host)
        return malformed(out, "there is no header field Host");
    if (listen_is_self(self, host->value, host->value_len))
        return true;
    listen_url(self, url);
    faults.len = 0; /* its items, 11 KB, need no clearing */
    response_fault_add(&faults, "/header/host",
                       "expected localhost, 127.0.0.1 or [::1]%s with port %u",
                       self->names ? ", or a name of the certificate," : "",
                       (unsigned)self->port);
    response_problem(out, 421, "foreign_host", &faults,
                     "this server is not the one that the request's Host "
                     "names; use %s",
                     url);
    out->close = true;
    return false;
}

static bool check_origin(const struct head *head,
                         const struct listen_address *self,
                         struct response *out)
{
    const struct head_field *origin = head_field(head, "origin");
    const struct head_field *site = head_field(head, "sec-fetch-site");
    const char *scheme = self->tls ? "https://" : "http://";
    const size_t n = strlen(scheme);

    if (origin &&
        (origin->value_len < n || strncasecmp(origin->value, scheme, n) != 0 ||
         !listen_is_self(self, origin->value + n, origin->value_len - n)))
        return refuse(out, 403, "foreign_origin",
                      "the request comes from a page of another origin");
    if (site && !value_is(site, "same-origin") && !value_is(site, "none"))
        return refuse(out, 403, "foreign_origin",
                      "the request comes from a page of another site; open "
                      "the address in a tab of its own");
    return true;
}

bool guard_check(const struct head *head, const struct listen_address *self,
                 struct response *out)
{
    assert(self);
    assert(out->status == 0);
    assert(head->method && head->target && head->version);
    return check_sizes(head, out) && check_line(head, out) &&
           check_fields(head, out) && check_length(head, out) &&
           check_unique(head, out) && check_host(head, self, out) &&
           check_origin(head, self, out) && check_body(head, out);
}
