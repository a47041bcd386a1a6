/* The members of every record, as tables that journals are written and read by.
 * Internal to the record's codec.
 */
#ifndef TUNER_RECORD_TABLE_H
#define TUNER_RECORD_TABLE_H

#include "base/json/fields.h"
#include "tuner/history/record.h"

struct record_members {
    const struct json_field *fields; /* of the struct in the record's union */
    size_t size;                     /* bytes of that struct */
};

extern const struct record_members record_kinds[RECORD_KIND_COUNT];

#endif
