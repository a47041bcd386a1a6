/* Descriptions of the parameter server's tables, as messages and records carry
 * them.
 *
 * {"name": "weights", "rows": 10, "width": 785, "type": "f32",
 *  "access": "shared", "rule": "adarevision", "saved": true}
 *
 * Pure.
 */
#ifndef BASE_TABLE_INFO_H
#define BASE_TABLE_INFO_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    TABLE_INFO_NAME_MAX = 64,
    TABLE_INFO_RULE_MAX = 32,
    TABLE_INFO_TABLES_MAX = 256
};

enum table_type { TABLE_F32, TABLE_I32, TABLE_F64, TABLE_TYPE_COUNT };

/* Shared: any worker updates a row; exclusive: one does; local: each worker has
 * a table of its own, and nobody else sees its rows. */
enum table_access {
    TABLE_SHARED,
    TABLE_EXCLUSIVE,
    TABLE_LOCAL,
    TABLE_ACCESS_COUNT
};

struct table_info {
    char name[TABLE_INFO_NAME_MAX + 1];
    uint64_t rows;
    uint32_t width; /* values a row */
    enum table_type type;
    enum table_access access;
    char rule[TABLE_INFO_RULE_MAX + 1]; /* of its updates; "" for a local one */
    bool saved;                         /* part of the model */
};

const char *table_type_name(enum table_type type);
const char *table_access_name(enum table_access access);

/* Whether @x is a value that a table of @type can hold. */
bool table_type_holds(enum table_type type, double x);

/* A new object; NULL: out of memory. */
json_t *table_info_to_json(const struct table_info *t);

/* The reverse, of an array of tables with different names; *@n is their number.
 * NULL, or what is wrong with @array, in words (static storage; then @out is
 * not to be used). Members that it does not know are passed over.
 * @out[TABLE_INFO_TABLES_MAX], or NULL: they are only checked. */
const char *table_infos_from_json(const json_t *array, struct table_info out[],
                                  size_t *n);

#endif
