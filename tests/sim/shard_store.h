/* The rows of a shard in one branch store: what a shard of a
 * simulated node works on.
 *
 * Not for local or exclusive tables' access by workers, which goes past the
 * shard; they are in the store all the same, so that forks carry them.
 */
#ifndef TESTS_SIM_SHARD_STORE_H
#define TESTS_SIM_SHARD_STORE_H

#include "branches/store.h"
#include "ps/nodes/shard.h"

struct shard_store {
    struct store *store; /* owned */
    const struct table *table;
    uint32_t tables;
    uint64_t *first; /* [tables] row of the table that the store's row 0 is */
};

/* Tables of @opt, this node's part of each; branch @root, all rows zero.
 * @limit_bytes bounds the branches. Errors: ERR_LIMIT, ERR_NOMEM. */
enum err shard_store_init(struct shard_store *s,
                          const struct shard_options *opt, uint64_t limit_bytes,
                          branch_id root);
void shard_store_deinit(struct shard_store *s);

/* For shard_options.rows; rows_self is the struct shard_store. */
extern const struct shard_rows shard_store_rows;

/* Values and slots of a row of any branch (the owner only). */
const void *shard_store_row(const struct shard_store *s, branch_id branch,
                            uint32_t table, uint64_t row);

#endif
