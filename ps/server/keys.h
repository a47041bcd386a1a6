/* Keys of one table in one node: which rows those keys have that fall to it.
 *
 * A table with MLT_KEYED has a key index (ps/rows/key_index.h) in each node;
 * key_share says whose a key is, everywhere alike. A new key gets a row of its
 * node's part: in the part of the worker that its hash names, or where that is
 * full in the next one that has room. So the rows of a node, and of a worker,
 * are given in no order that could be relied upon.
 *
 * Any thread, workers while they run and the communication's too: each segment
 * has a lock, one of KEYS_LOCKS. All branches share it: a key that was added in
 * one branch has its row in all, where it reads as it was before the first
 * update.
 */
#ifndef PS_KEYS_H
#define PS_KEYS_H

#include "base/err.h"
#include "ps/rows/key_index.h"
#include "ps/rows/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keys;

/* One of @nodes nodes of @workers workers each. */
struct keys_place {
    uint32_t node, nodes;
    unsigned workers;
};

/* Bytes that the keys of that node take, at most. */
uint64_t keys_bytes(const struct keys_place *place, const struct table *t);

/* None yet. @t: borrowed. Errors: ERR_NOMEM. */
enum err keys_new(const struct keys_place *place, const struct table *t,
                  struct keys **out);
/* Accepts NULL. */
void keys_free(struct keys *k);

/* The rows of @n keys, all of this node: @row[n], MLT_NO_ROW for one that has
 * none. With @add those get one. Errors (with @add): ERR_LIMIT, all rows of
 * this node are given; ERR_NOMEM. Then @row says what there is, and other keys
 * of the batch may have got theirs. */
enum err keys_take(struct keys *k, bool add, size_t n, const uint64_t key[],
                   uint64_t row[]);

/* For the files of training state. Keys are in segments; keys_copy gives those
 * of one, in *@out, which grows (*@room, mem_free): any thread, any time.
 * Errors: ERR_NOMEM. */
uint64_t keys_segments(const struct keys *k);
enum err keys_copy(struct keys *k, uint64_t segment, struct key_entry **out,
                   size_t *room, size_t *n);

/* Between runs. Whether @key may have @row: it has it, or neither has another.
 */
bool keys_may_put(const struct keys *k, uint64_t key, uint64_t row);

/* Gives it that. Errors: ERR_EXIST (it may not), ERR_NOMEM. */
enum err keys_put(struct keys *k, uint64_t key, uint64_t row);

/* Keys of this node. Any thread, while no key is added. */
uint64_t keys_count(const struct keys *k);

#endif
