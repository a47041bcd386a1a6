#include "base/text.h"

#include "base/mem.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 64, TEXT_FIRST = 64 /* bytes that a text begins with */ };

static bool text_reserve(struct text *t, size_t more)
{
    size_t need = t->len + more + 1;

    assert(t->len <= t->capacity);
    if (t->no_memory)
        return false;
    if (mem_grow((void **)&t->s, &t->capacity, 1,
                 need < TEXT_FIRST ? TEXT_FIRST : need) != 0)
        t->no_memory = true;
    return !t->no_memory;
}

void text_add(struct text *t, const char *s, size_t len)
{
    if (!text_reserve(t, len))
        return;
    memcpy(t->s + t->len, s, len);
    t->len += len;
    t->s[t->len] = '\0';
}

void text_puts(struct text *t, const char *s)
{
    text_add(t, s, strlen(s));
}

void text_printf(struct text *t, const char *fmt, ...)
{
    va_list ap, again;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && text_reserve(t, (size_t)n)) {
        vsnprintf(t->s + t->len, (size_t)n + 1, fmt, again);
        t->len += (size_t)n;
    }
    va_end(again);
}

void text_shell_word(struct text *t, const char *word)
{
    assert(word);
    text_puts(t, "'");
    for (; *word; word++)
        if (*word == '\'')
            text_puts(t, "'\\''");
        else
            text_add(t, word, 1);
    text_puts(t, "'");
}

char *text_take(struct text *t)
{
    char *s;

    assert(t);
    text_puts(t, "");
    if (t->no_memory) {
        text_deinit(t);
        return NULL;
    }
    s = t->s;
    memset(t, 0, sizeof(*t));
    return s;
}

const char *text_so_far(const struct text *t)
{
    return t->s ? t->s : "";
}

size_t text_length(const struct text *t)
{
    return t->len;
}

bool text_lost(const struct text *t)
{
    return t->no_memory;
}

void text_join(struct text *t, struct text *more)
{
    if (more->len > 0)
        text_add(t, more->s, more->len);
    t->no_memory |= more->no_memory;
    text_deinit(more);
}

void text_deinit(struct text *t)
{
    mem_free(t->s);
    memset(t, 0, sizeof(*t));
}

void text_reset(struct text *t)
{
    t->len = 0;
    t->no_memory = false;
}

/* 0xc0 and 0xc1 would begin a form that is too long, from 0xf5 on one beyond
 * U+10FFFF. */
size_t text_utf8_begins(char byte)
{
    unsigned char c = (unsigned char)byte;

    if (c < 0x80)
        return 1;
    if (c < 0xc2 || c > 0xf4)
        return 0;
    return c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

bool text_utf8_goes_on(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

size_t text_utf8_write(unsigned c, char out[4])
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    assert(c <= 0x10ffff && (c < 0xd800 || c >= 0xe000));
    for (size_t i = len - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 63));
    out[0] = (char)(lead[len] | c);
    return len;
}

bool text_is_control(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;

    return (n == 1 && (s[0] < 0x20 || s[0] == 0x7f)) ||
           (n == 2 && s[0] == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0);
}

size_t text_utf8_length(const char *text, size_t n)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    size_t len = n == 0 ? 0 : text_utf8_begins(*text);
    uint32_t c;

    if (len < 2)
        return len;
    if (len > n)
        return 0;
    c = s[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (!text_utf8_goes_on(text[i]))
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    return len;
}

bool text_bytes_are_utf8(const char *s, size_t n)
{
    while (n > 0) {
        size_t len = text_utf8_length(s, n);

        if (len == 0)
            return false;
        s += len;
        n -= len;
    }
    return true;
}

bool text_is_utf8(const char *s)
{
    return text_bytes_are_utf8(s, strlen(s));
}

void text_to_utf8(char *s)
{
    for (size_t n = strlen(s); n > 0;) {
        size_t len = text_utf8_length(s, n);

        if (len == 0) {
            *s = '?';
            len = 1;
        }
        s += len;
        n -= len;
    }
}

/* Past what is ASCII and no control character. */
static char *past_plain(char *s)
{
    while (*s > 0x1f && *s < 0x7f)
        s++;
    return s;
}

void text_clean(char *s)
{
    char *to = past_plain(s);
    const char *from = to, *end = to + strlen(to);

    while (from < end) {
        size_t n = text_utf8_length(from, (size_t)(end - from));

        if (n == 0 || text_is_control(from, n)) {
            from += n > 0 ? n : 1;
            *to++ = '?';
            continue;
        }
        memmove(to, from, n);
        from += n;
        to += n;
    }
    *to = '\0';
}

void text_number(double number, char out[TEXT_NUMBER_MAX])
{
    assert(isfinite(number));
    /* Many are: 0 seconds, counts. Not -0. */
    if (fabs(number) < 1e15 && number == floor(number) && !signbit(number)) {
        snprintf(out, TEXT_NUMBER_MAX, "%lld", (long long)number);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, TEXT_NUMBER_MAX, "%.*g", digits, number);
        if (strtod(out, NULL) == number)
            return;
    }
    assert(false); /* 17 digits say every double */
}

void text_real(double number, char out[TEXT_NUMBER_MAX])
{
    if (isfinite(number))
        text_number(number, out);
    else if (isnan(number))
        snprintf(out, TEXT_NUMBER_MAX, "nan");
    else
        snprintf(out, TEXT_NUMBER_MAX, number > 0 ? "inf" : "-inf");
}

/* Cost of @a for @b in half edits. */
static unsigned replace_cost(char a, char b)
{
    if (a == b)
        return 0;
    return tolower((unsigned char)a) == tolower((unsigned char)b) ? 1 : 2;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;

    return m < c ? m : c;
}

void text_put_csv(FILE *out, const char *s)
{
    assert(out && s);
    if (!s[strcspn(s, ",\"\r\n")]) {
        fputs(s, out);
        return;
    }
    fputc('"', out);
    for (; *s; s++) {
        if (*s == '"')
            fputc('"', out);
        fputc(*s, out);
    }
    fputc('"', out);
}

unsigned text_distance(const char *a, const char *b)
{
    /* Optimal string alignment (Damerau 1964), in half edits; three rows. */
    unsigned rows[3][WORD_MAX + 1];
    unsigned *before = rows[0], *last = rows[1], *now = rows[2], *swap;
    size_t m = strnlen(a, WORD_MAX), n = strnlen(b, WORD_MAX);

    memset(rows, 0, sizeof(rows));
    for (size_t j = 0; j <= n; j++)
        last[j] = 2 * (unsigned)j;
    for (size_t i = 1; i <= m; i++) {
        now[0] = 2 * (unsigned)i;
        for (size_t j = 1; j <= n; j++) {
            now[j] = min3(last[j] + 2, now[j - 1] + 2,
                          last[j - 1] + replace_cost(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = min3(now[j], before[j - 2] + 2, now[j]);
        }
        swap = before;
        before = last;
        last = now;
        now = swap;
    }
    return (last[n] + 1) / 2;
}

const char *text_nearest(const char *word, const char *const names[], size_t n)
{
    const char *nearest = NULL;
    size_t len = strlen(word);
    unsigned limit = len < 6 ? 1 : (unsigned)(len / 3);
    unsigned least = limit + 1;

    assert(word && (names || n == 0));
    for (size_t i = 0; i < n; i++) {
        size_t with;
        unsigned d;

        assert(names[i]);
        with = strlen(names[i]);
        /* Each byte that one has more is an edit. */
        if ((with > len ? with - len : len - with) >= least &&
            with <= WORD_MAX && len <= WORD_MAX)
            continue;
        d = text_distance(word, names[i]);
        if (d < least) {
            least = d;
            nearest = names[i];
        }
    }
    for (size_t i = 0; i < n && !nearest && len >= 2; i++)
        if (strncasecmp(word, names[i], len) == 0)
            nearest = names[i];
    return nearest;
}
