/* Texts: one that grows as it is written, UTF-8, numbers, "did you mean".
 *
 * Writing never fails at once: running out of memory is remembered, later
 * writes do nothing, and text_take says so. Zeroed is empty.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct text {
    char *s; /* owned; terminated once anything was written */
    size_t len, capacity;
    bool no_memory;
};

void text_add(struct text *t, const char *s, size_t len);
void text_puts(struct text *t, const char *s);

/* Adds @more, which is empty then; memory that ran out there ran out here. */
void text_join(struct text *t, struct text *more);
void text_printf(struct text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds @word as a shell reads it back, whichever: in single quotes. */
void text_shell_word(struct text *t, const char *word);

/* The text, transferred to the caller (mem_free), at least ""; NULL when out of
 * memory. @t is empty after. */
char *text_take(struct text *t);

void text_deinit(struct text *t);

/* Empties @t; its memory is kept. */
void text_reset(struct text *t);

/* For who only reads it: the text so far ("" before anything was written), its
 * bytes without the end, and whether memory ran out. Borrowed until the next
 * write. */
const char *text_so_far(const struct text *t);
size_t text_length(const struct text *t);
bool text_lost(const struct text *t);

/* Bytes of the character that @s begins with, 1 to 4, all among its @n bytes; 0
 * where it is not UTF-8 (RFC 3629: shortest forms, no surrogates, up to
 * U+10FFFF). */
size_t text_utf8_length(const char *s, size_t n);

/* Bytes of the character that begins with @byte, 1 to 4; 0: none does. */
size_t text_utf8_begins(char byte);

/* Whether @byte goes on with a character that another one began. */
bool text_utf8_goes_on(char byte);

/* Writes the character @c (no surrogate, up to U+10FFFF); returns its bytes. */
size_t text_utf8_write(unsigned c, char out[4]);

/* Whether a terminal would obey the character @s[n]: C0, DEL, and C1 (U+0080 to
 * U+009F) as UTF-8 writes it. */
bool text_is_control(const char *s, size_t n);

/* Whether @s, or @s[n], is UTF-8. A zero byte among @n is a character. */
bool text_is_utf8(const char *s);
bool text_bytes_are_utf8(const char *s, size_t n);

/* Bytes of @s that are no UTF-8 become '?'. In place. */
void text_to_utf8(char *s);

/* Makes @s fit for a line on a terminal and for JSON: control characters and
 * bytes that are not UTF-8 become '?'. In place. */
void text_clean(char *s);

/* The finite @number in the fewest digits, of 15 to 17, that read back the
 * same: "0.1", "3", "-0", "1e+300". */
enum { TEXT_NUMBER_MAX = 28 };
void text_number(double number, char out[TEXT_NUMBER_MAX]);

/* Any @number, in as few digits; those that are not finite are "nan", "inf" and
 * "-inf". */
void text_real(double number, char out[TEXT_NUMBER_MAX]);

/* @s as a field of CSV on @out (RFC 4180): in quotes where it has a comma, a
 * quote or a line's end. */
void text_put_csv(FILE *out, const char *s);

/* Edits (insert, delete, replace, swap of neighbours; case counts a half,
 * rounded up) that make @a of @b; lengths over 64 are cut. */
unsigned text_distance(const char *a, const char *b);

/* The @names[n] nearest to @word, or NULL where none is near enough to be
 * meant: at most a third of its length in edits (at least one), or one that
 * begins with @word. */
const char *text_nearest(const char *word, const char *const names[], size_t n);

#endif
