/* What lies on a device and what is swapped: pure decisions.
 *
 * From the sequence of leases of a clock follows what each layer holds at a
 * time. What is not pinned goes through a pool of two buffers of the largest
 * layer, so that the next layer's data come while one computes (Cui, Zhang,
 * Ganger, Gibbons, Xing 2016, GeePS, section 4.3.4; in Cui's thesis algorithm
 * 5). The paper stops at the first entry that does not fit; here the others are
 * tried as well, so that nothing that fits is left out.
 */
#ifndef PS_DEVICE_PLAN_H
#define PS_DEVICE_PLAN_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Data that is leased as a whole: a table, a layer's activations. */
struct plan_entry {
    uint64_t bytes;
    bool local; /* the worker's own: pinned before parameters */
    /* It takes room in a buffer even where it is pinned (GeePS's parameters,
     * which others change meanwhile). */
    bool buffered;
    bool pinned; /* out */
};

/* Entry @entry is held in layer @layer. A layer may hold several, an entry be
 * held in many. */
struct plan_lease {
    uint32_t layer, entry;
};

struct plan_memory {
    uint64_t pinned; /* bytes */
    uint64_t pool;   /* bytes of the two buffers together */
};

/* Decides @entry[entries].pinned for a device of @total bytes; leases[n],
 * layers below @layers. Errors: ERR_LIMIT (two buffers of what is never pinned
 * do not fit: @out->pool says how much they take), ERR_NOMEM. */
enum err device_plan(struct plan_entry *entry, size_t entries,
                     const struct plan_lease *lease, size_t n, uint32_t layers,
                     uint64_t total, struct plan_memory *out);

/* A branch's state on the device. */
struct plan_branch {
    uint64_t scheduled; /* when a slice of it last ran: larger is later */
    bool stays;         /* runs now, or is needed by what runs */
};

/* Number of the one that moves out: the least recently scheduled, of equal ones
 * the first; @n where all stay. */
size_t device_plan_victim(const struct plan_branch *branch, size_t n);

#endif
