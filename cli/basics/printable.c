#include "cli/basics/printable.h"

#include <assert.h>

/* Bytes of a character that begins with @c; 0: none does. */
static size_t length_of(unsigned char c)
{
    if (c < 0x80)
        return 1;
    if (c >= 0xc2 && c <= 0xdf)
        return 2;
    if (c >= 0xe0 && c <= 0xef)
        return 3;
    return c >= 0xf0 && c <= 0xf4 ? 4 : 0;
}

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
    const unsigned char *c = (const unsigned char *)t->held;

    if (text_utf8_length(t->held, t->len) != t->len) {
        drop_held(t, out);
        return;
    }
    if (c[0] == 0xc2 && c[1] < 0xa0)
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
    if ((c < ' ' && c != '\n' && c != '\t') || c == 127)
        c = '?';
    text_add(out, &c, 1);
}

static void add_byte(struct printable *t, char byte, struct text *out)
{
    unsigned char c = (unsigned char)byte;

    if (t->returned && c != '\n')
        text_add(out, "\n", 1);
    t->returned = false;
    if (t->len > 0 && (c & 0xc0) != 0x80)
        drop_held(t, out);
    if (t->len == 0 && c < 0x80) {
        show_ascii(t, byte, out);
        return;
    }
    if (t->len == 0 && length_of(c) == 0) {
        text_add(out, "?", 1);
        return;
    }
    t->held[t->len++] = byte;
    assert(t->len <= sizeof(t->held));
    if (t->len == length_of((unsigned char)t->held[0]))
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
