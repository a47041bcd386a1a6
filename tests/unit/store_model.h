/* A plain model of the branch store: every branch is a full copy.
 *
 * Beside the bytes it keeps which branches hold the very same state, so that it
 * can say what has to be reserved.
 */
#ifndef TESTS_UNIT_STORE_MODEL_H
#define TESTS_UNIT_STORE_MODEL_H

#include "branches/store.h"

#include <stdbool.h>
#include <stdint.h>

enum { MODEL_BRANCHES_MAX = 64, MODEL_TABLES_MAX = 8 };

struct model_branch {
    branch_id id;
    enum branch_type type;
    uint64_t state; /* branches of one state hold the same version */
    unsigned char *rows[MODEL_TABLES_MAX]; /* owned, packed */
};

struct model {
    uint32_t tables;
    struct store_layout layout[MODEL_TABLES_MAX];
    struct model_branch branch[MODEL_BRANCHES_MAX];
    uint32_t branches;
    uint64_t states; /* numbers given so far */
};

/* @layout[@tables] is copied; initial rows are borrowed for the model's life.
 */
void store_model_init(struct model *m, const struct store_layout layout[],
                      uint32_t tables);
void store_model_deinit(struct model *m);

struct model_branch *store_model_find(struct model *m, branch_id id);
void store_model_create(struct model *m, branch_id id, enum branch_type type);
void store_model_fork(struct model *m, branch_id child, branch_id parent,
                      enum branch_type type);
void store_model_drop(struct model *m, branch_id id);
void store_model_seal(struct model *m, branch_id id);
void store_model_write(struct model *m, branch_id id, uint32_t table,
                       uint64_t row, const void *bytes);
void store_model_grow(struct model *m, uint32_t table, uint64_t rows);
const unsigned char *store_model_row(const struct model_branch *b,
                                     const struct model *m, uint32_t table,
                                     uint64_t row);

/* Units that have to be reserved: writers, and kept states. */
uint64_t store_model_units(const struct model *m);

/* The same if @child were forked from @parent. */
uint64_t store_model_units_after_fork(struct model *m, branch_id parent,
                                      enum branch_type type);

/* Asserts that branch @id of @s holds what the model says. */
void store_model_compare(struct model *m, const struct store *s, branch_id id);
void store_model_compare_all(struct model *m, const struct store *s);

#endif
