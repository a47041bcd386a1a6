/* JSON written as text at once, where a value in memory would be made only to
 * be written.
 */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H

#include "base/text.h"

/* Adds @s[@len], which is UTF-8, to @t as json_write writes a string: quoted,
 * and escaped where it must be. */
void json_write_string(struct text *t, const char *s, size_t len);

#endif
