/* Slabs: large pieces of memory straight from the system.
 *
 * A slab is address space first, advised to use huge pages: a fork that nobody
 * writes takes no memory, and waits for none. The kernel gives memory at the
 * first write (0.25 ms for 2 MiB here), or ahead of it where `touch` asks. The
 * pool asks through `struct slab_ops`, so that it stays pure and a test can
 * refuse.
 */
#ifndef BRANCHES_SLAB_H
#define BRANCHES_SLAB_H

#include "base/err.h"

#include <stddef.h>

struct slab_ops {
    /* @bytes > 0 of zeroed memory, aligned to a page at least; NULL when the
     * system has none left. Cost: microseconds, whatever @bytes is. */
    void *(*map)(size_t bytes);
    /* Has memory behind the whole pages of @bytes at @at, within a slab, of
     * which nothing was used yet. ERR_NOMEM when the system has none left.
     * Blocks while pages are zeroed (0.13 ms a MiB). */
    enum err (*touch)(void *at, size_t bytes);
    /* Gives back what map returned for the same @bytes. */
    void (*unmap)(void *slab, size_t bytes);
};

/* Anonymous memory of this process (branches/slab_io.c). Static storage. */
const struct slab_ops *slab_system(void);

#endif
