/* The members of every message, as tables: what base/proto/proto.c encodes and
 * decodes by, on both ways the same. Internal to the codec.
 */
#ifndef BASE_PROTO_TABLE_H
#define BASE_PROTO_TABLE_H

#include "base/proto/proto.h"

/* Integers travel as JSON integers, which readers in other languages hold in 64
 * bits with sign. */
#define PROTO_INT_MAX ((uint64_t)INT64_MAX)

enum proto_type {
    FIELD_COUNT,   /* uint64_t within min .. max */
    FIELD_SMALL,   /* uint32_t within min .. max */
    FIELD_PID,     /* int64_t, >= 0 */
    FIELD_FLAG,    /* bool */
    FIELD_SECONDS, /* double, finite, >= 0 */
    FIELD_REAL,    /* double, any; non-finite as a string */
    FIELD_NAME,    /* char[max + 1], min .. max bytes of UTF-8 */
    FIELD_REASON,  /* the same; bytes that are no UTF-8 are sent as '?' */
    FIELD_STRING,  /* char *, owned, at least one byte */
    FIELD_BRANCH,
    FIELD_TYPE,      /* enum branch_type, not init */
    FIELD_CODE,      /* enum err, not ok */
    FIELD_OBJECT,    /* json_t *, owned; NULL is sent as {} */
    FIELD_NAMES,     /* json_t *, owned, array of names */
    FIELD_JSON,      /* json_t *, owned, array, object or NULL */
    FIELD_STALENESS, /* struct staleness */
    FIELD_HELD       /* struct msg_held[PROTO_HELD_MAX], at beat.hold: arrays
                      * [branch, shared, private] */
};

struct proto_field {
    const char *name;
    enum proto_type type;
    bool optional; /* absent: zero, NULL, BRANCH_NONE */
    size_t offset; /* in struct msg */
    uint64_t min, max;
};

/* What is needed for `op` in messages of a kind. */
enum proto_op { OP_NEEDED, OP_ALLOWED };

struct proto_kind {
    const char *name;
    enum proto_op op;
    const struct proto_field *fields; /* ended by one without a name */
};

extern const struct proto_kind proto_kinds[MSG_KIND_COUNT];

/* A window's members; each travels as an array over the windows. Offsets are in
 * struct msg_window. */
extern const struct proto_field proto_window[];

/* What is wrong with @m beyond single members ("member: expected ..."), or
 * NULL. Static storage. */
const char *proto_check(const struct msg *m);

#endif
