/* Branches of a node: the same operation in every shard's store, or in none.
 * (Public: ps_fork, ps_drop, ps_activate and what is asked about branches, in
 * ps/server/ps.h.) Control thread, between runs. */
#ifndef PS_FORKS_H
#define PS_FORKS_H

#include "base/err.h"
#include "base/proto/branch.h"
#include "mltune/ps.h"

#include <stdbool.h>
#include <stdint.h>

struct device_image;

struct branch_entry {
    branch_id id;
    enum branch_type type;
    branch_id of;    /* a kept one: what it holds the state of; else itself */
    uint64_t clocks; /* that it has run, and what it was forked from before */
    bool failed; /* a run in it, or in what it was forked from: some rows have
                  * its last updates, others not */
    struct device_image *image; /* ps/server/device.h; NULL: none */
};

/* The live branch @id, or NULL; valid until a branch comes or goes. */
const struct branch_entry *forks_find(const struct mlt_ps *ps, branch_id id);

/* The number of a branch that the application did not number: the same on all
 * nodes, whatever becomes of it. */
branch_id forks_next_id(struct mlt_ps *ps);

/* Room for one more entry. Errors: ERR_NOMEM. */
enum err forks_reserve(struct mlt_ps *ps);
/* The entry; every store has the branch. Room was reserved. */
void forks_add(struct mlt_ps *ps, const struct branch_entry *entry);
/* The way back: drops @id in the first @shards stores. */
void forks_drop_in_first(struct mlt_ps *ps, unsigned shards, branch_id id);

/* Whether a run failed in a live branch: it is not run, saved or written again,
 * nor are forks of it; to be dropped. */
bool forks_failed(const struct mlt_ps *ps, branch_id id);
/* A run has failed in the active branch. */
void forks_fail_active(struct mlt_ps *ps);

/* The active branch has run @clocks more. */
void forks_count_clocks(struct mlt_ps *ps, uint64_t clocks);

#endif
