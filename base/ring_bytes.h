/* Sizes of a ring, the memory that two nodes of one machine talk through
 * (ps/wire/ring_io.h), of one direction. Pure.
 */
#ifndef BASE_RING_BYTES_H
#define BASE_RING_BYTES_H

#include <stdint.h>

enum { RING_BYTES_MIN = 64 << 10, RING_BYTES_MAX = 64 << 20 };

/* Unless a size is given: 1 MiB, or less where a node's rings to all others
 * would take more than 4 MiB; never below the minimum. @nodes: of all. */
static inline uint64_t ring_bytes_unless_given(uint32_t nodes)
{
    uint64_t bytes = 1 << 20;

    while (bytes > RING_BYTES_MIN && nodes > 1 && bytes * (nodes - 1) > 4 << 20)
        bytes /= 2;
    return bytes;
}

#endif
