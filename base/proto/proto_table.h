/* The members of every message, as tables that both ends encode and decode by,
 * and the rules that concern more than one member. Internal to the codec.
 */
#ifndef BASE_PROTO_TABLE_H
#define BASE_PROTO_TABLE_H

#include "base/json/fields.h"
#include "base/proto/proto.h"

/* Whether a message of a kind needs `op`. */
enum proto_op { OP_NEEDED, OP_ALLOWED };

struct proto_kind {
    const char *name;
    enum proto_op op;
    const struct json_field *fields; /* of the struct in the message's union */
};

extern const struct proto_kind proto_kinds[MSG_KIND_COUNT];

/* The fault of @m beyond single members ("member: expected ..."), or NULL.
 * Static storage. */
const char *proto_check(const struct msg *m);

#endif
