#include "cli/basics/printable.h"

#include <assert.h>

static void drop_held(struct printable *t, struct text *out)
{
    for (size_t i = 0; i < t->len; i++)
        text_add(out, "?", 1);
    t->len = 0;
}

/* A character of several bytes is shown, unless it is malformed or one of C1.
 */
static void show_held(struct printable *t, struct text *out)
{
    if (text_utf8_length(t->held, t->len) != t->len) {
        drop_held(t, out);
        return;
    }
    if (text_is_control(t->held, t->len))
        text_add(out, "?", 1);
    else
        text_add(out, t->held, t->len);
    t->len = 0;
}

static void show_ascii(struct printable *t, char c, struct text *out)
{
    if (c == '\r') {
        t->returned = true;
        return;
    }
    if (c != '\n' && c != '\t' && text_is_control(&c, 1))
        c = '?';
    text_add(out, &c, 1);
}

static void add_byte(struct printable *t, char byte, struct text *out)
{
    if (t->returned && byte != '\n')
        text_add(out, "\n", 1);
    t->returned = false;
    if (t->len > 0 && !text_utf8_goes_on(byte))
        drop_held(t, out);
    if (t->len == 0 && text_utf8_begins(byte) == 1) {
        show_ascii(t, byte, out);
        return;
    }
    if (t->len == 0 && text_utf8_begins(byte) == 0) {
        text_add(out, "?", 1);
        return;
    }
    t->held[t->len++] = byte;
    assert(t->len <= sizeof(t->held));
    if (t->len == text_utf8_begins(t->held[0]))
        show_held(t, out);
}

void printable_add(struct printable *t, const char *s, size_t n,
                   struct text *out)
{
    assert(t && out);
    for (size_t i = 0; i < n; i++)
        add_byte(t, s[i], out);
}

void printable_end(struct printable *t, struct text *out)
{
    drop_held(t, out);
    if (t->returned)
        text_add(out, "\n", 1);
    t->returned = false;
}
