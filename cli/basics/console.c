#include "cli/basics/console.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/talk_io.h"
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

/* One line. On stderr nobody may wait for who reads it (base/talk_io.h). */
static void say_line(FILE *to, const char *head, const char *line)
{
    struct text t = {0};

    if (to != stderr) {
        fprintf(to, "%s%s\n", head, line);
        return;
    }
    text_printf(&t, "%s%s\n", head, line);
    if (text_lost(&t))
        talk("out of memory\n", strlen("out of memory\n"));
    else
        talk(text_so_far(&t), text_length(&t));
    text_deinit(&t);
}

/* Newlines stay: what is said may have several lines. @head: of the first. */
static void say(FILE *to, const char *head, const char *fmt, va_list ap)
{
    char *text = NULL, *rest, *line;

    if (vasprintf(&text, fmt, ap) < 0) {
        say_line(to, head, "out of memory");
        return;
    }
    for (rest = text; (line = strsep(&rest, "\n")); head = "") {
        text_clean(line);
        say_line(to, head, line);
    }
    free(text);
}

void console_error(const char *fmt, ...)
{
    bool color = console_in_color(STDERR_FILENO);
    va_list ap;

    assert(fmt);
    va_start(ap, fmt);
    say(stderr,
        color ? "mltune: \033[1;31merror:\033[0m " : "mltune: error: ", fmt,
        ap);
    va_end(ap);
}

void console_note(const char *fmt, ...)
{
    assert(fmt);
    va_list ap;

    if (is_quiet)
        return;
    va_start(ap, fmt);
    say(stderr, "mltune: ", fmt, ap);
    va_end(ap);
}

void console_line(FILE *to, const char *fmt, ...)
{
    assert(to);
    assert(fmt);
    va_list ap;

    va_start(ap, fmt);
    say(to, "", fmt, ap);
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
