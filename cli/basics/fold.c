#include "cli/basics/fold.h"

#include <assert.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH_MIN = 20 };

unsigned fold_width(int fd)
{
    struct winsize size;

    if (!isatty(fd))
        return 0;
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 80;
    return size.ws_col < WIDTH_MIN ? WIDTH_MIN : size.ws_col;
}

unsigned fold_rows(int fd)
{
    struct winsize size;

    if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0)
        return 24;
    return size.ws_row;
}

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

size_t fold_columns(const char *s, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += begins_character(s[i]);
    return n;
}

size_t fold_take(const char *s, size_t len, size_t width)
{
    size_t columns = 0, taken = 0;

    for (size_t i = 0; i < len; i++) {
        if (s[i] == ' ' && i > 0 && s[i - 1] != ' ')
            taken = i;
        columns += begins_character(s[i]);
        if (columns > width && taken > 0)
            return taken;
    }
    return len;
}

/* Where the rest of the line @s[@len] begins: behind its first gap. */
static size_t hang_of(const char *s, size_t len, unsigned width)
{
    size_t lead = strspn(s, " "), at = lead;

    if (lead >= len)
        return 0;
    while (at + 1 < len && !(s[at] == ' ' && s[at + 1] == ' '))
        at++;
    while (at < len && s[at] == ' ')
        at++;
    if (at + 1 >= len || fold_columns(s, at) > width / 2)
        at = lead;
    at = fold_columns(s, at);
    return at > width / 2 ? 0 : at;
}

static void fold_line(const char *s, size_t len, unsigned width,
                      struct text *out)
{
    size_t hang = hang_of(s, len, width), lead = strspn(s, " "), n;

    if (lead >= len)
        return;
    /* What is before the first word stays with it. */
    n = lead +
        fold_take(s + lead, len - lead, width - (lead < width ? lead : 0));
    text_add(out, s, n);
    for (s += n, len -= n;; s += n, len -= n) {
        while (len > 0 && *s == ' ')
            s++, len--;
        if (len == 0)
            return;
        n = fold_take(s, len, width - hang);
        text_printf(out, "\n%*s", (int)hang, "");
        text_add(out, s, n);
    }
}

void fold_lines(const char *s, unsigned width, struct text *out)
{
    assert(width == 0 || width >= WIDTH_MIN);
    while (*s) {
        size_t len = strcspn(s, "\n");

        if (width == 0 || fold_columns(s, len) <= width)
            text_add(out, s, len);
        else
            fold_line(s, len, width, out);
        s += len;
        if (*s == '\n')
            text_add(out, s++, 1);
    }
}
