/* Blocks of memory for fuzz targets, at a fraction of what the
 * sanitizer's allocator costs: that was a third of fuzz_config's time. Linked
 * under the names that --wrap gives to the calls of base/mem.c.
 *
 * What it finds is what the sanitizer would: bytes before and behind a block,
 * and a block that was freed, are poisoned; a freed block is used again only
 * after others of its size; a block that is not one of ours, or is freed twice,
 * aborts; new ones are filled with 0xbe (their first 4096 bytes). It keeps no
 * stacks: with FUZZ_POOL=0 in the environment all goes to the sanitizer's
 * allocator, for a finding's report. It does not know leaks, so only targets
 * have it that compare mem_outstanding().
 *
 * Of any thread. Blocks above POOL_BLOCK_MAX bytes, and those for which there
 * is no room, are the allocator's.
 */
#ifndef FUZZ_POOL_H
#define FUZZ_POOL_H

#include <stddef.h>

enum {
    POOL_SMALL_MAX = 2048,   /* bytes */
    POOL_BLOCK_MAX = 131072, /* bytes */
    POOL_WAITING = 32, /* freed blocks of a size that are not used again; of
                          those that are not small, an eighth */
    POOL_BYTES = 16 << 20
};

/* As malloc, calloc, realloc and free; sizes are not 0. */
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

/* The allocator's own. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);

#endif
