/* Lines that fit a terminal: broken between words, never within one. */
#ifndef CLI_FOLD_H
#define CLI_FOLD_H

#include "base/text.h"

/* Columns of the terminal at descriptor @fd (20 at least); 0: it is none, and a
 * line may be of any length. */
unsigned fold_width(int fd);

/* Its rows; 24 where it is none: a screen as most have. */
unsigned fold_rows(int fd);

/* Columns that @s[@len], UTF-8, takes: a character each. */
size_t fold_columns(const char *s, size_t len);

/* Bytes of the first line of @s[@len] that fits @width columns: up to a space,
 * or more where the first word is wider. Spaces that follow belong to no line.
 */
size_t fold_take(const char *s, size_t len, size_t width);

/* Appends the lines of @s to @out, those that are wider than @width folded. The
 * rest of a line stands under the text behind its first gap of two spaces, or
 * under its own beginning. @width 0: as they are. */
void fold_lines(const char *s, unsigned width, struct text *out);

#endif
