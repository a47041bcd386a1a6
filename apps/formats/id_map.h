/* Outside ids to dense numbers, in the order of first appearance.
 *
 * Ids are any non-negative integers: those that lie close enough together index
 * an array, others go through an open-addressing table. One owner thread.
 */
#ifndef APPS_ID_MAP_H
#define APPS_ID_MAP_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { ID_MAP_DIRECT_MAX = 1 << 22 }; /* ids that can index the array */
#define ID_NONE UINT32_MAX

/* Zeroed: empty. */
struct id_map {
    uint32_t *direct; /* [direct_len] dense number, or ID_NONE */
    size_t direct_len;
    /* [slot_count] dense number, or ID_NONE; of ids from direct_len on (one
     * that the array has reached since stays here, unread). */
    uint32_t *slot;
    size_t slot_count;
    size_t hashed;
    int64_t *id; /* [count] outside id of each dense number: owned */
    size_t count, capacity;
    uint64_t room; /* bytes that its arrays may take; 0: as many as they need */
};

void id_map_deinit(struct id_map *m);

/* Dense number of @id, new ones being given out in order. Errors: ERR_NOMEM,
 * ERR_LIMIT (2^32 - 1 ids, or its room; then nothing changed). @id >= 0. */
enum err id_map_add(struct id_map *m, int64_t id, uint32_t *out);

/* Bytes of its arrays. */
uint64_t id_map_bytes(const struct id_map *m);

/* Dense number of @id, or ID_NONE. */
uint32_t id_map_find(const struct id_map *m, int64_t id);

/* A map of @ids[n] (copied): ids[i] is number i. Errors: ERR_NOMEM, ERR_EXIST
 * (an id occurs twice), ERR_INVAL (a negative id). */
enum err id_map_init(struct id_map *m, const int64_t ids[], size_t n);

#endif
