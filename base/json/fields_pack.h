/* Structs as bytes, by the tables of base/json/fields.h: for what is many and
 * is written often, where JSON would cost too much.
 *
 * A plan comes first: the names of the members and how each is written, so that
 * a program whose tables have changed reads what it still knows, and passes
 * over the rest. Then the values, item by item, without names. Reals are their
 * eight bytes, so that they read back the same; integers take as few bytes as
 * they need; JSON that equals that of the item before takes one. Pure.
 *
 *   plan    {how, length of name, name}... 0; a list's own plan behind its name
 *   values  in the plan's order
 */
#ifndef BASE_FIELDS_PACK_H
#define BASE_FIELDS_PACK_H

#include "base/json/fields.h"
#include "base/text.h"

/* ---- writing ------------------------------------------------------------- */

/* All add to @out, which remembers that memory was out (base/text.h). */
void pack_number(struct text *out, uint64_t n);
void pack_real(struct text *out, double x);
void pack_bytes(struct text *out, const void *data, size_t n);
void pack_plan(struct text *out, const struct json_field fields[]);

/* The members of the struct at @base. @before: the item before it of the same
 * table; NULL: none. Errors: ERR_INVAL (a member is out of its bounds),
 * ERR_NOMEM. */
enum err pack_fields(struct text *out, const struct json_field fields[],
                     const void *base, const void *before);

/* ---- reading ------------------------------------------------------------- */

/* Bytes from outside, borrowed; what was read is taken off. */
struct packed_bytes {
    const unsigned char *at;
    size_t left;
};

/* False: there are not as many, or they are none. */
bool unpack_number(struct packed_bytes *in, uint64_t *out);
bool unpack_real(struct packed_bytes *in, double *out);
/* @out: the next @n bytes, borrowed. */
bool unpack_bytes(struct packed_bytes *in, size_t n, const unsigned char **out);

struct packed_plan;

/* The plan, for structs of the table @fields. Errors: ERR_FORMAT, ERR_NOMEM. */
enum err unpack_plan(struct packed_bytes *in, const struct json_field fields[],
                     struct packed_plan **out);
/* Accepts NULL. */
void packed_plan_free(struct packed_plan *p);

/* One item into the struct at @base, zeroed by the caller, who owns what was
 * read, also after an error (fields_deinit). Members that the plan has not stay
 * zero. Errors: ERR_FORMAT (cut off, or a value that does not fit), ERR_NOMEM.
 */
enum err unpack_fields(struct packed_bytes *in, const struct packed_plan *plan,
                       void *base, const void *before);

#endif
