/* Words of the program: results on stdout, everything else on stderr. Texts
 * may hold what a server or a file said: control characters do not reach a
 * terminal.
 */
#ifndef CLI_CONSOLE_H
#define CLI_CONSOLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* "mltune: TEXT" on a line of stderr; "error" in red on a terminal. */
void console_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A remark, without a mark of error; nothing after console_set_quiet(true). */
void console_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void console_set_quiet(bool quiet);

/* The text alone, and a newline, on @to. */
void console_line(FILE *to, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* @value (NULL: there was no memory for it) as JSON on stdout, a newline behind
 * it; @indent spaces a level, 0: in one line. Returns the exit code. */
int console_json(const json_t *value, int indent);

/* @text (transferred; NULL: there was no memory for it) on stdout. Returns the
 * exit code. */
int console_text(char *text);

/* Whether @fd is a terminal that wants colour (NO_COLOR, TERM=dumb). */
bool console_in_color(int fd);

/* 0, or -1 where something written to stdout was lost (full disk, closed
 * pipe); says so on stderr. Last thing that main does. */
int console_flush(void);

#endif
