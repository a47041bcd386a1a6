/* JSON: what the project needs beyond jansson.
 *
 * Strict loading with the place of an error, JSON pointers (RFC 6901), numbers
 * that may be non-finite, durations and sizes, and a writer with the shortest
 * numbers that read back the same. Pure functions; nothing here keeps state.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/fault.h"
#include "base/json/json_place.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JSON_DEPTH_MAX = 64,             /* nested arrays and objects */
    JSON_TEXT_MAX = 4 * 1024 * 1024, /* bytes of a text that json_load takes */
    JSON_POINTER_MAX = 512           /* bytes of a pointer with its end */
};

/* Has jansson allocate through mem_*, so that tests count and fail its
 * allocations too. Once, at the start of a program, before any other use. */
void json_count_memory(void);

/* As json_loadb, without duplicate keys; *@lacking: memory ran out, which
 * jansson forgets, or ends the process for. NULL then, and where @e says what
 * is wrong. All texts are parsed by this function. */
json_t *json_parse(const char *text, size_t len, size_t flags, json_error_t *e,
                   bool *lacking);

/* The value of @text, which is known to be JSON; NULL when out of memory. */
json_t *json_known(const char *text);

/* Value from exactly @len bytes of @text (no end needed), any type at the top.
 * Strict: duplicate keys, bytes after the value, depth over JSON_DEPTH_MAX and
 * length over JSON_TEXT_MAX are refused.
 *
 * @out     owned by the caller (json_decref)
 * @place   where the text is wrong; may be NULL
 *
 * Errors: ERR_FORMAT, with line, column and what was expected in @f; ERR_LIMIT;
 * ERR_NOMEM. Cost O(len). */
enum err json_load(const char *text, size_t len, json_t **out,
                   struct json_place *place, struct fault *f);

/* @value as text, with numbers in the fewest digits that read back the same and
 * keys in the order of insertion. @indent 0: one line.
 * Result owned by the caller (mem_free); NULL when out of memory. */
char *json_write(const json_t *value, unsigned indent);

/* Shortest decimal form of a finite number that reads back the same, with
 * ".0" or an exponent where it would look like an integer. */
enum { JSON_NUMBER_MAX = 32 };
void json_write_number(double number, char out[JSON_NUMBER_MAX]);

/* @value (transferred, may be NULL), or NULL where a member of it found no
 * memory: @failed is all that setters returned, by |=. So nobody is told less
 * without a word. */
json_t *json_whole(json_t *value, int failed);

/* A copy of @value, to the last member of a member; NULL where there is no
 * memory, and of NULL. json_deep_copy and json_copy leave out what they find no
 * memory for, without a word. */
json_t *json_copied(const json_t *value);

/* The same of the object @o and its members alone, which both hold then. */
json_t *json_copied_members(const json_t *o);

/* A number as JSON: non-finite ones are the strings "nan", "inf", "-inf".
 * NULL when out of memory. */
json_t *json_of_number(double number);

/* The reverse: true and *@out for a number or one of those strings ("Infinity",
 * "-Infinity" and "NaN" are understood too); else false. NULL is allowed. */
bool json_to_number(const json_t *value, double *out);

/* ---- pointers ------------------------------------------------------------ */

/* Appends "/token" to the pointer in @pointer (JSON_POINTER_MAX bytes), with ~
 * and / escaped; a pointer that grows too long is cut. Returns the length
 * before, for json_pointer_cut. */
size_t json_pointer_push(char *pointer, const char *token);
size_t json_pointer_push_index(char *pointer, size_t index);

/* Takes back what was pushed on a pointer of length @len. */
void json_pointer_cut(char *pointer, size_t len);

/* First token of *@pointer, unescaped, into @token; *@pointer moves behind it.
 * False at the end of the pointer, and where it is malformed. */
bool json_pointer_next(const char **pointer, char token[JSON_POINTER_MAX]);

/* Value at @pointer ("" is @root), borrowed; NULL where there is none. */
json_t *json_at(const json_t *root, const char *pointer);

/* What is at @pointer of an answer (@root may be NULL): the string, borrowed,
 * or
 * ""; the number, or NAN; the RFC 3339 time in UTC as seconds since the epoch,
 * or NAN. */
const char *json_text_at(const json_t *root, const char *pointer);
double json_number_at(const json_t *root, const char *pointer);
double json_time_at(const json_t *root, const char *pointer);

/* Puts @value (always transferred) at @pointer; objects on the way are made
 * where they are missing; "-" or the length appends to an array.
 * @pointer must be UTF-8.
 * Errors: ERR_INVAL (malformed, or leads through a number or string),
 * ERR_NOENT (array index beyond the end), ERR_NOMEM; nothing is put then. */
enum err json_put(json_t *root, const char *pointer, json_t *value);

/* ---- values with units --------------------------------------------------- */

/* Seconds from a number of seconds or a text such as "10m", "1h30m", "1.5s",
 * "250ms", "2d" (units d, h, m, s, ms, each once, falling). >= 0, finite.
 * False where it is none. */
bool json_to_seconds(const json_t *value, double *out);

/* Bytes from a number of bytes or a text such as "8GiB", "512 MB", "64k"
 * (B; k, M, G, T with B, bits of 1000; with iB, of 1024; a bare letter is of
 * 1024). A whole number of bytes after rounding, at most 2^63 - 1. */
bool json_to_bytes(const json_t *value, uint64_t *out);

#endif
