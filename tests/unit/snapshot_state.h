/* Small stores with something in every kind of table, for the snapshot tests.
 */
#ifndef TESTS_UNIT_SNAPSHOT_STATE_H
#define TESTS_UNIT_SNAPSHOT_STATE_H

#include "branches/snapshot_io.h"
#include "branches/store.h"

#include <stdbool.h>
#include <stddef.h>

/* Five tables (one without rows, one with an initial row, one with rows wider
 * than its chunks) and branch 0. */
struct store *state_new(void);

/* The same, but table @t has another layout. */
struct store *state_new_other(unsigned t);

/* Writes @rows random rows of branch 0, then keeps it as branch @kept. */
void state_write(struct store *s, branch_id kept, unsigned rows, uint64_t seed);

/* Do the two branches hold the same, byte for byte? */
bool state_equal(const struct store *a, branch_id of_a, const struct store *b,
                 branch_id of_b);

/* Writes @branch to @path with labels "run 7" and "meta"; NULL ops: the system.
 * Both steps' errors. */
enum err state_save(const struct store *s, branch_id branch, const char *path,
                    const struct disk_ops *ops, struct fault *f);

/* Opens and restores as branch @id. */
enum err state_load(struct store *s, branch_id id, const char *path,
                    const struct disk_ops *ops, struct fault *f);

#endif
