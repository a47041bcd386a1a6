/* The insides of the branch store, shared by its modules: store.c (tables,
 * branches, reservation), store_map.c (the active branch's maps and writing)
 * and store_check.c (statistics and recounting). Nobody else includes this.
 *
 * What refers to what, and counts it:
 *
 *   branch slot ──► version ──► root node a table ──► … ──► chunk
 *
 * A version is one state of all tables. Branches that have not diverged share
 * it; the first write of one of them gives it a version of its own. Each
 * version may come to need every chunk and every node for itself: that worst
 * case is a *unit*, and units are what is reserved:
 *
 *   units = branches that may write + versions that a kept branch refers to
 *
 * so a kept fork of a kept branch, or of one that has not been written since it
 * was last kept, costs nothing. What is in use never exceeds the units, since
 * every version has a branch that pays for it.
 */
#ifndef BRANCHES_STORE_INTERNAL_H
#define BRANCHES_STORE_INTERNAL_H

#include "branches/pages.h"
#include "branches/pool.h"
#include "branches/store.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct version {
    struct pool_item item; /* refs = writers + keepers */
    uint32_t writers;
    uint32_t keepers;
    struct version *previous, *next; /* all of the store's versions */
    struct pool_item *root[];        /* [tables]; NULL: nothing written */
};

struct stored_table {
    struct store_layout layout; /* initial_row points to `initial_row` */
    void *initial_row;          /* owned, or NULL for zeros */
    uint64_t chunk_bytes;       /* rows of a chunk times stride */
    unsigned level;             /* of a full tree's root */
    struct pages_classes from;
    struct pool_block *initial; /* read by everybody, written by nobody */
    struct store_map map;       /* its arrays are owned */
    /* Clearing the bits is part of a fork, which must not depend on the size:
     * `map.own` changes places with `spare`, which is cleared before a bit is
     * next set. */
    _Atomic uint64_t *spare;
    bool owns;        /* some bit of map.own is 1 */
    bool spare_dirty; /* some bit of spare is 1 */
};

struct branch_slot {
    /* Last written when a branch is made, first when it goes: a background
     * reader finds its branch among others that come and go. */
    _Atomic branch_id id; /* BRANCH_NONE: free */
    enum branch_type type;
    struct version *version;
};

struct store {
    uint64_t limit_bytes;
    struct pool pool;
    size_t node_class;
    size_t version_class;

    struct stored_table *table; /* owned */
    size_t tables, tables_capacity;

    uint64_t unit_bytes;  /* one version's worst case */
    uint64_t fixed_bytes; /* initial chunks */
    uint64_t units;       /* reserved */
    uint64_t capacity;    /* units that the pool has the memory for */
    uint64_t *need;       /* owned, [classes]: room to work out a request */

    struct version *versions; /* the first of a list */
    struct branch_slot slot[STORE_BRANCHES_MAX];
    _Atomic uint32_t probe_max; /* furthest that a branch lies from its home */
    uint32_t branches;
    struct branch_slot *active; /* or NULL */
    bool owns;                  /* of some table */
    bool started;               /* store_create_root has been */

    uint64_t chunks_copied, bytes_copied, forks;
};

/* The slot of branch @id, or NULL. Any thread, for a branch that stays. */
struct branch_slot *store_slot(const struct store *s, branch_id id);

/* May nobody but this branch reach what its version refers to alone? */
static inline bool version_private(const struct version *v)
{
    return v->item.refs == 1;
}

/* The arrays of a table's map. Errors: ERR_NOMEM. */
struct map_arrays {
    _Atomic(unsigned char *) *chunk;
    _Atomic uint64_t *own;
    _Atomic uint64_t *spare;
};
enum err map_arrays_new(uint64_t chunks, struct map_arrays *out);
void map_arrays_free(struct map_arrays *arrays);

/* Every chunk is the initial one. */
void map_reset(struct stored_table *t);

/* No chunk of the active branch is its own any more. Cost: O(tables). */
void map_disown(struct store *s);

/* Version records, made and joined (store.c). */
struct version *version_new(struct store *s);
void version_join(struct version *v, enum branch_type type);

#endif
