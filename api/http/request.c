#include "api/http/request.h"

#include "base/text.h"

#include <assert.h>
#include <string.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes @in[len] to @out, which may be the same; returns the length, or -1
 * for a broken code or one for a control character. */
static long decode(const char *in, size_t len, char *out, bool form)
{
    size_t i, n = 0;

    assert(len == 0 || in);
    assert(out);
    for (i = 0; i < len; i++) {
        int c = (unsigned char)in[i];

        if (c == '%') {
            int high = i + 2 < len ? hex_digit(in[i + 1]) : -1;
            int low = high < 0 ? -1 : hex_digit(in[i + 2]);

            if (low < 0)
                return -1;
            c = high << 4 | low;
            i += 2;
        } else if (c == '+' && form) {
            c = ' ';
        }
        if (c < 0x20 || c == 0x7f)
            return -1;
        out[n++] = (char)c;
    }
    return text_bytes_are_utf8(out, n) ? (long)n : -1;
}

/* Decodes @in[len] to the end of the request's text; NULL: malformed. */
static const char *keep(struct request *req, size_t *used, const char *in,
                        size_t len, bool form)
{
    char *out = req->text + *used;
    long n = decode(in, len, out, form);

    if (n < 0)
        return NULL;
    out[n] = '\0';
    *used += (size_t)n + 1;
    assert(*used <= sizeof(req->text));
    return out;
}

static bool parse_path(struct request *req, size_t *used, const char *path,
                       size_t len)
{
    size_t begin, n;

    assert(path[0] == '/');
    if (len == 1)
        return true;
    for (begin = 1; begin <= len; begin += n + 1) {
        const char *slash = memchr(path + begin, '/', len - begin);
        const char *segment;

        n = slash ? (size_t)(slash - path) - begin : len - begin;
        segment = keep(req, used, path + begin, n, false);
        if (!segment)
            return false;
        if (req->segments < REQUEST_SEGMENTS_MAX)
            req->segment[req->segments] = segment;
        req->segments++;
    }
    return true;
}

static bool parse_pair(struct request *req, size_t *used, const char *pair,
                       size_t len)
{
    size_t name = strcspn(pair, "=");
    struct request_pair p;

    assert(req->pairs < REQUEST_QUERY_MAX);
    if (name > len)
        name = len;
    p.name = keep(req, used, pair, name, true);
    p.value = !p.name ? NULL
              : name < len
                  ? keep(req, used, pair + name + 1, len - name - 1, true)
                  : "";
    if (!p.value)
        return false;
    req->pair[req->pairs++] = p;
    return true;
}

static bool malformed(struct response *out, const char *pointer,
                      const char *text)
{
    struct response_faults faults = {0};

    response_fault_add(&faults, pointer, "%s", text);
    response_problem(out, 400, "malformed_request", &faults,
                     "the request target is malformed");
    out->close = true;
    return false;
}

static bool parse_query(struct request *req, size_t *used, const char *query,
                        struct response *out)
{
    size_t n;

    for (; *query; query += n + (query[n] == '&')) {
        n = strcspn(query, "&");
        if (n == 0)
            continue;
        if (req->pairs == REQUEST_QUERY_MAX)
            return malformed(out, "/query", "more than 16 parameters");
        if (!parse_pair(req, used, query, n))
            return malformed(out, "/query",
                             "expected percent-encoded UTF-8 without control "
                             "characters");
    }
    return true;
}

bool request_parse(const char *target, struct request *req,
                   struct response *out)
{
    size_t used = 0;
    size_t path = strcspn(target, "?");

    assert(req);
    assert(out->status == 0);
    assert(target[0] == '/' && strlen(target) <= HEAD_TARGET_MAX);
    req->segments = 0;
    req->pairs = 0;
    if (!parse_path(req, &used, target, path))
        return malformed(out, "/path",
                         "expected percent-encoded UTF-8 without control "
                         "characters");
    return !target[path] || parse_query(req, &used, target + path + 1, out);
}

const char *request_query(const struct request *req, const char *name)
{
    size_t i;

    assert(req->pairs <= REQUEST_QUERY_MAX);
    for (i = 0; i < req->pairs; i++) {
        if (strcmp(req->pair[i].name, name) == 0)
            return req->pair[i].value;
    }
    return NULL;
}
