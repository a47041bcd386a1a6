/* Fields: structs as JSON and back, by table.
 *
 * A table names the members of a struct, in the order in which they are
 * written. Writing and reading go by the same table, so that what one program
 * writes another reads; messages (base/proto) and records (tuner/history) are
 * such tables. Reading passes over members that it does not know. Pure.
 */
#ifndef BASE_FIELDS_H
#define BASE_FIELDS_H

#include "base/fault.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Integers travel as JSON integers, which readers in other languages hold in 64
 * bits with sign. */
#define FIELD_INT_MAX ((uint64_t)INT64_MAX)
#define FIELD_NO_ID UINT32_MAX

enum field_kind {
    FIELD_BOOL,
    FIELD_U32,        /* uint32_t within min .. max */
    FIELD_U64,        /* uint64_t within min .. max, at most FIELD_INT_MAX */
    FIELD_I64,        /* int64_t within min .. max, never negative */
    FIELD_ID,         /* uint32_t; FIELD_NO_ID is left out, where optional */
    FIELD_ID_OR_NULL, /* uint32_t; FIELD_NO_ID is null */
    FIELD_SECONDS,    /* double, finite, >= 0 */
    FIELD_REAL,       /* double, any; non-finite as a string (json_of_number) */
    FIELD_TEXT,       /* char[max + 1], min .. max bytes of UTF-8 */
    FIELD_REASON,     /* as FIELD_TEXT; bytes that are no UTF-8 become '?' */
    FIELD_STRING,     /* char *, owned (mem_*), at least one byte of UTF-8 */
    FIELD_JSON,       /* char[max + 1], an object as text; "" is left out, where
                       * optional */
    FIELD_ENUM,       /* an enum, min .. max, by the names of name_of */
    FIELD_OBJECT,     /* json_t *, owned; NULL is left out where optional, */
    FIELD_ARRAY,      /* else written empty */
    FIELD_TREE,       /* an array or an object */
    FIELD_PART,       /* a struct whose members, @part, stand in the same
                       * object; the field's name is for readers of code */
    FIELD_OBJECTS,    /* @list: an array of objects */
    FIELD_TUPLES,     /* @list: an array of arrays, a value a member */
    FIELD_COLUMNS,    /* @list: an array for each member of an item, all of one
                       * length; they stand in the same object */
    FIELD_CUSTOM      /* what @custom makes of it */
};

/* min .. max structs that stand one after another, and their number. Items own
 * nothing. */
struct field_list {
    const struct json_field *fields; /* of an item */
    size_t item;                     /* bytes from an item to the next */
    size_t count; /* where the number is (uint32_t), from where the field's
                   * offset counts from */
    bool owned;   /* the field is a pointer to them (mem_*), made by reading;
                   * else they stand in the struct, max of them */
};

struct field_custom {
    json_t *(*to_json)(const void *member); /* NULL: out of memory */
    bool (*from_json)(const json_t *value, void *member);
};

struct json_field {
    const char *name; /* NULL ends a table */
    enum field_kind kind;
    bool optional; /* may be missing where it is read; then zero, or no id. A
                    * column too: all of its values are zero then */
    bool sparse;   /* BOOL, U32, U64, ENUM, optional: zero is left out */
    size_t offset; /* in the struct */
    uint64_t min, max;
    const char *expected; /* for the reader of a fault; NULL: by the kind */
    const char *help;     /* for descriptions; NULL: none */
    const char *(*name_of)(unsigned);
    const struct json_field *part;
    const struct field_list *list;
    const struct field_custom *custom;
};

/* Member @m of struct @s as an entry of a table, under its own name, in all its
 * range: {FIELD_OF(msg_cut, U64, target), .min = 1}. FIELD_AS: under another
 * name; FIELD_WITHIN: in a part of its range. */
#define FIELD_OF(s, type, m) FIELD_AS(#m, s, type, m)
#define FIELD_AS(as, s, type, m)                                               \
    .name = (as), .kind = FIELD_##type, .offset = offsetof(struct s, m),       \
    .max = FIELD_MAX_##type(s, m)
#define FIELD_WITHIN(s, type, m, lo, hi)                                       \
    .name = #m, .kind = FIELD_##type, .offset = offsetof(struct s, m),         \
    .min = (lo), .max = (hi)
#define FIELD_MAX_TEXT(s, m) (sizeof(((struct s *)0)->m) - 1)
#define FIELD_MAX_REASON(s, m) FIELD_MAX_TEXT(s, m)
#define FIELD_MAX_JSON(s, m) FIELD_MAX_TEXT(s, m)
#define FIELD_MAX_U32(s, m) UINT32_MAX
#define FIELD_MAX_U64(s, m) FIELD_INT_MAX
#define FIELD_MAX_I64(s, m) FIELD_INT_MAX
#define FIELD_MAX_BOOL(s, m) 0
#define FIELD_MAX_ID(s, m) (FIELD_NO_ID - 1)
#define FIELD_MAX_ID_OR_NULL(s, m) (FIELD_NO_ID - 1)
#define FIELD_MAX_SECONDS(s, m) 0
#define FIELD_MAX_REAL(s, m) 0
#define FIELD_MAX_STRING(s, m) 0
#define FIELD_MAX_OBJECT(s, m) 0
#define FIELD_MAX_ARRAY(s, m) 0
#define FIELD_MAX_TREE(s, m) 0
#define FIELD_MAX_PART(s, m) 0
#define FIELD_MAX_CUSTOM(s, m) 0

/* Puts the members of the struct at @base into @object.
 * Errors: ERR_INVAL (a member is out of its bounds), ERR_NOMEM; @object may
 * then hold some of them. */
enum err fields_put(json_t *object, const struct json_field fields[],
                    const void *base);

/* Reads members of @object into the struct at @base, zeroed by the caller, who
 * owns what was read, also after an error (fields_deinit).
 *
 * @wrong   name of the member that is missing or does not fit; may be NULL
 *
 * Errors: ERR_FORMAT, with "member: expected ..., found ..." in @f; ERR_NOMEM.
 */
enum err fields_get(const json_t *object, const struct json_field fields[],
                    void *base, const char **wrong, struct fault *f);

/* Releases what the struct at @base owns. A zeroed one is accepted. */
void fields_deinit(const struct json_field fields[], void *base);

/* For a struct that has been copied byte by byte: it owns nothing any more, the
 * copy does. */
void fields_disown(const struct json_field fields[], void *base);

/* For a struct that has been copied byte by byte, and owns JSON only: its JSON
 * members are from now on counted for it as well. */
void fields_share(const struct json_field fields[], void *base);

/* For a struct that has been copied byte by byte: it gets copies of its own of
 * all that it owns. Errors: ERR_NOMEM (it owns nothing). */
enum err fields_own(const struct json_field fields[], void *base);

#endif
