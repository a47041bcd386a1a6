/* Slabs: large pieces of memory straight from the system.
 *
 * A slab is advised to use huge pages and touched as a whole when it is taken,
 * so that no later first write pays for a page fault (2.5 us for each 4 KiB
 * page here) or finds the machine out of memory. The pool asks through
 * `struct slab_ops`, so that it stays pure and a test can refuse.
 */
#ifndef BRANCHES_SLAB_H
#define BRANCHES_SLAB_H

#include <stddef.h>

struct slab_ops {
    /* @bytes > 0 of zeroed memory, aligned to a page at least; NULL when the
     * system has none left. Blocks while pages are touched (0.13 ms a MiB). */
    void *(*map)(size_t bytes);
    /* Gives back what map returned for the same @bytes. */
    void (*unmap)(void *slab, size_t bytes);
};

/* Anonymous memory of this process (branches/slab_io.c). Static storage. */
const struct slab_ops *slab_system(void);

#endif
