#include "cli/watch/event_reader.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PART_HEAD, PART_SIZE, PART_CHUNK, PART_CHUNK_END, PART_ALL };

void event_reader_deinit(struct event_reader *r)
{
    text_deinit(&r->head);
    text_deinit(&r->line);
    text_deinit(&r->data);
    memset(r, 0, sizeof(*r));
}

bool event_reader_over(const struct event_reader *r)
{
    return r->over;
}

static void empty(struct text *t)
{
    t->len = 0;
    if (t->s)
        t->s[0] = '\0';
}

/* Adds to a text that may not become longer than @most. */
static enum err grow(struct text *t, const char *bytes, size_t len, size_t most)
{
    if (t->len + len > most)
        return ERR_FORMAT;
    text_add(t, bytes, len);
    return t->no_memory ? ERR_NOMEM : ERR_OK;
}

/* ---- events -------------------------------------------------------------- */

static enum err dispatch(struct event_reader *r, event_read_visit *visit,
                         void *ctx)
{
    struct event_read event = {.numbered = r->numbered,
                               .id = r->id,
                               .kind = r->kind[0] ? r->kind : "message",
                               .data = r->data.s};
    enum err err = r->data.len > 0 ? visit(ctx, &event) : ERR_OK;

    empty(&r->data);
    r->kind[0] = '\0';
    return err;
}

/* A number of decimal digits; others are no ids of ours. */
static void take_id(struct event_reader *r, const char *value)
{
    size_t n = strspn(value, "0123456789");

    if (n > 0 && n <= 18 && !value[n]) {
        r->id = strtoull(value, NULL, 10);
        r->numbered = true;
    }
}

static enum err take_field(struct event_reader *r, const char *line)
{
    size_t n = strcspn(line, ":");
    const char *value = line + n;
    enum err err = ERR_OK;

    if (*value == ':')
        value++;
    if (*value == ' ')
        value++;
    if (n == 4 && strncmp(line, "data", n) == 0) {
        if (r->data.len > 0)
            err = grow(&r->data, "\n", 1, EVENT_READER_LINE_MAX);
        if (!err)
            err = grow(&r->data, value, strlen(value), EVENT_READER_LINE_MAX);
    } else if (n == 5 && strncmp(line, "event", n) == 0) {
        snprintf(r->kind, sizeof(r->kind), "%s", value);
    } else if (n == 2 && strncmp(line, "id", n) == 0) {
        take_id(r, value);
    }
    return err;
}

static enum err take_line(struct event_reader *r, event_read_visit *visit,
                          void *ctx)
{
    enum err err = ERR_OK;

    if (r->line.len == 0)
        err = dispatch(r, visit, ctx);
    else if (strlen(r->line.s) != r->line.len)
        err = ERR_FORMAT; /* NUL */
    else if (r->line.s[0] != ':')
        err = take_field(r, r->line.s);
    empty(&r->line);
    return err;
}

/* Lines end in LF, CR or both. */
static enum err take_body(struct event_reader *r, const char *at, size_t len,
                          event_read_visit *visit, void *ctx)
{
    const char *end = at + len;
    enum err err = ERR_OK;

    while (at < end && !err) {
        const char *from = at;

        if (r->after_cr && *at == '\n') {
            r->after_cr = false;
            at++;
            continue;
        }
        r->after_cr = false;
        while (at < end && *at != '\n' && *at != '\r')
            at++;
        err = grow(&r->line, from, (size_t)(at - from), EVENT_READER_LINE_MAX);
        if (!err && at < end) {
            r->after_cr = *at++ == '\r';
            err = take_line(r, visit, ctx);
        }
    }
    return err;
}

/* ---- the answer ---------------------------------------------------------- */

static bool says_chunked(const char *head)
{
    const char *field = strcasestr(head, "\r\nTransfer-Encoding:");

    if (!field)
        return false;
    field += sizeof("\r\nTransfer-Encoding:") - 1;
    field += strspn(field, " \t");
    return strncasecmp(field, "chunked", 7) == 0;
}

static enum err read_head(struct event_reader *r)
{
    int status = 0;

    if (strlen(r->head.s) != r->head.len ||
        sscanf(r->head.s, "HTTP/1.%*1[01] %3d", &status) != 1 || status < 100)
        return ERR_FORMAT;
    r->chunked = says_chunked(r->head.s);
    r->part = r->chunked ? PART_SIZE : PART_ALL;
    r->status = status;
    text_deinit(&r->head);
    return ERR_OK;
}

/* The head byte by byte: it is short. */
static enum err take_head(struct event_reader *r, const char **at,
                          const char *end)
{
    enum err err = ERR_OK;

    while (*at < end && !err && r->part == PART_HEAD) {
        err = grow(&r->head, (*at)++, 1, EVENT_READER_HEAD_MAX);
        if (!err && r->head.len >= 4 &&
            memcmp(r->head.s + r->head.len - 4, "\r\n\r\n", 4) == 0)
            err = read_head(r);
    }
    return err;
}

/* The line of a chunk's size, hexadecimal; what follows a semicolon is not for
 * us. */
static enum err take_size(struct event_reader *r, const char **at,
                          const char *end)
{
    enum err err = ERR_OK;
    size_t n;

    while (*at < end && !err) {
        char byte = *(*at)++;

        if (byte != '\n') {
            err = grow(&r->head, &byte, 1, 256);
            continue;
        }
        n = r->head.s ? strspn(r->head.s, "0123456789abcdefABCDEF") : 0;
        if (n == 0 || n > 15 || !strchr(";\r ", r->head.s[n]))
            return ERR_FORMAT;
        r->chunk_left = strtoull(r->head.s, NULL, 16);
        r->over = r->chunk_left == 0;
        r->part = PART_CHUNK;
        empty(&r->head);
        return ERR_OK;
    }
    return err;
}

static enum err take_chunk(struct event_reader *r, const char **at,
                           const char *end, event_read_visit *visit, void *ctx)
{
    size_t n = (size_t)(end - *at);
    enum err err = ERR_OK;

    if (n > r->chunk_left)
        n = (size_t)r->chunk_left;
    if (r->status == 200)
        err = take_body(r, *at, n, visit, ctx);
    *at += n;
    r->chunk_left -= n;
    if (r->chunk_left == 0)
        r->part = PART_CHUNK_END;
    return err;
}

static enum err take_chunk_end(struct event_reader *r, const char **at)
{
    char byte = *(*at)++;

    if (byte != '\r' && byte != '\n')
        return ERR_FORMAT;
    if (byte == '\n')
        r->part = PART_SIZE;
    return ERR_OK;
}

enum err event_reader_feed(struct event_reader *r, const char *bytes,
                           size_t len, event_read_visit *visit, void *ctx)
{
    const char *at = bytes, *end = bytes + len;
    enum err err = ERR_OK;

    assert(bytes || len == 0);
    assert(visit);
    if (!bytes)
        return ERR_OK;
    while (at < end && !err && !r->over) {
        switch (r->part) {
        case PART_HEAD:
            err = take_head(r, &at, end);
            break;
        case PART_SIZE:
            err = take_size(r, &at, end);
            break;
        case PART_CHUNK:
            err = take_chunk(r, &at, end, visit, ctx);
            break;
        case PART_CHUNK_END:
            err = take_chunk_end(r, &at);
            break;
        default:
            if (r->status == 200)
                err = take_body(r, at, (size_t)(end - at), visit, ctx);
            at = end;
        }
    }
    return err;
}
