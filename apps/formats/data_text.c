#include "apps/formats/data_text.h"

#include "base/mem.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum { EXCERPT_MAX = 48 };

struct data_text *data_text_new(struct data_stream *s, struct fault *f)
{
    struct data_text *t = mem_alloc(sizeof(*t));

    if (!t) {
        fault_set(f, ERR_NOMEM, "%s: out of memory", data_stream_name(s));
        return NULL;
    }
    *t = (struct data_text){.s = s, .f = f, .line = 1};
    if (strncmp(data_text_at(t), "\xef\xbb\xbf", 3) == 0)
        t->at = 3;
    return t;
}

void data_text_free(struct data_text *t)
{
    mem_free(t);
}

void data_text_refill(struct data_text *t)
{
    size_t held = t->end - t->at, got = 0, room = TEXT_WINDOW - held;

    assert(!t->last && !t->err);
    memmove(t->window, t->window + t->at, held);
    t->err = data_stream_read(t->s, t->window + held, room, &got, t->f);
    t->at = 0;
    t->end = t->err ? 0 : held + got;
    t->last = t->err || got < room;
    t->window[t->end] = '\0';
}

const char *data_text_skip_blanks(struct data_text *t)
{
    for (;;) {
        const char *p = data_text_at(t), *begin = p;

        while (*p == ' ' || *p == '\t' || *p == '\r')
            p++;
        data_text_go(t, p);
        if (p - begin < TEXT_TOKEN_MAX)
            return data_text_at(t);
    }
}

void data_text_skip_line(struct data_text *t)
{
    while (!data_text_ended(t)) {
        const char *eol = memchr(t->window + t->at, '\n', t->end - t->at);

        t->at = eol ? (size_t)(eol - t->window) : t->end;
        if (eol)
            return;
    }
}

bool data_text_pass_line_end(struct data_text *t)
{
    const char *p = data_text_skip_blanks(t);

    if (data_text_ended(t))
        return true;
    if (*p != '\n')
        return false;
    data_text_go(t, p + 1);
    t->line++;
    return true;
}

enum err data_text_expected(struct data_text *t, const char *what)
{
    const char *p = data_text_at(t);
    char found[EXCERPT_MAX + 4];
    size_t left = t->end - t->at, n = 0;

    if (t->err)
        return t->err;
    for (; n < EXCERPT_MAX && n < left && !strchr(" \t\r\n", p[n] ? p[n] : 'x');
         n++)
        found[n] = isprint((unsigned char)p[n]) ? p[n] : '?';
    memcpy(found + n, "...", n == EXCERPT_MAX ? 4 : 0);
    found[n == EXCERPT_MAX ? n + 3 : n] = '\0';
    return fault_set(t->f, ERR_FORMAT,
                     "%s: line %" PRIu64 ": expected %s, found %s%s%s",
                     data_stream_name(t->s), t->line, what, n ? "\"" : "",
                     n                          ? found
                     : left == 0                ? "the end of the file"
                     : *p == '\n' || *p == '\r' ? "the end of the line"
                                                : "a blank",
                     n ? "\"" : "");
}
