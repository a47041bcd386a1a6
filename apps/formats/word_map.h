/* Words to numbers, in the order of first appearance: found by a table of
 * hashes. One owner thread.
 */
#ifndef APPS_DATA_WORD_MAP_H
#define APPS_DATA_WORD_MAP_H

#include "apps/formats/data_bow.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define WORD_NONE UINT32_MAX

/* Zeroed: empty. */
struct word_map {
    struct vocabulary name; /* owned */
    uint32_t *slot;         /* [slots] a number, or WORD_NONE: owned */
    size_t slots;           /* 0, or a power of two, twice the words or more */
};

void word_map_deinit(struct word_map *m);

/* Number of @word[@n], or WORD_NONE. */
uint32_t word_map_find(const struct word_map *m, const char *word, size_t n);

/* Number of @word[@n] (copied; no zero byte in it, 1 to VOCABULARY_WORD_MAX
 * bytes), a new one where it is not there. Errors: ERR_LIMIT (BOW_WORDS_MAX are
 * there), ERR_NOMEM; nothing changed then. */
enum err word_map_add(struct word_map *m, const char *word, size_t n,
                      uint32_t *out);

/* Bytes of its arrays. */
uint64_t word_map_bytes(const struct word_map *m);

#endif
