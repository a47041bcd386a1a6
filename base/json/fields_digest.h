/* Digests of structs by table: enough to tell a repetition from a mistake.
 *
 * Two structs of the same members have the same digest. It is no protection
 * against who makes others on purpose. Pure.
 */
#ifndef BASE_FIELDS_DIGEST_H
#define BASE_FIELDS_DIGEST_H

#include "base/json/fields.h"

/* The digest of the members of the struct at @base. Its fields are numbers,
 * texts, and lists of these. An owned list that is NULL is empty. Cost: one
 * pass, no allocation. */
uint64_t fields_digest(const struct json_field fields[], const void *base);

#endif
