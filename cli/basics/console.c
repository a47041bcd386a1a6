#include "cli/basics/console.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/basics/exit_code.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_quiet;

void console_set_quiet(bool quiet)
{
    is_quiet = quiet;
}

bool console_in_color(int fd)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    return isatty(fd) && !(no_color && *no_color) &&
           !(term && strcmp(term, "dumb") == 0);
}

/* Newlines stay: what is said may have several lines. */
static void say(FILE *to, const char *fmt, va_list ap)
{
    char *text = NULL, *rest, *line;

    if (vasprintf(&text, fmt, ap) < 0) {
        fputs("out of memory\n", to);
        return;
    }
    for (rest = text; (line = strsep(&rest, "\n"));) {
        text_clean(line);
        fprintf(to, "%s\n", line);
    }
    free(text);
}

void console_error(const char *fmt, ...)
{
    bool color = console_in_color(STDERR_FILENO);
    va_list ap;

    assert(fmt);
    fprintf(stderr, "mltune: %serror:%s ", color ? "\033[1;31m" : "",
            color ? "\033[0m" : "");
    va_start(ap, fmt);
    say(stderr, fmt, ap);
    va_end(ap);
}

void console_note(const char *fmt, ...)
{
    assert(fmt);
    va_list ap;

    if (is_quiet)
        return;
    fputs("mltune: ", stderr);
    va_start(ap, fmt);
    say(stderr, fmt, ap);
    va_end(ap);
}

void console_line(FILE *to, const char *fmt, ...)
{
    assert(to);
    assert(fmt);
    va_list ap;

    va_start(ap, fmt);
    say(to, fmt, ap);
    va_end(ap);
}

int console_json(const json_t *value, int indent)
{
    char *text = value ? json_write(value, indent) : NULL;

    int code = console_text(text);

    if (code == EXIT_DONE)
        putchar('\n');
    return code;
}

int console_text(char *text)
{
    if (!text) {
        console_error("out of memory");
        return EXIT_RUN_FAILED;
    }
    fputs(text, stdout);
    mem_free(text);
    return EXIT_DONE;
}

int console_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    console_error("write to stdout: %s", strerror(errno));
    return -1;
}
