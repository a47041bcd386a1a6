/* Counted memory: every module allocates through here.
 *
 * Tests read `mem_outstanding` to prove that nothing leaks and make the Nth
 * allocation fail. Thread-safe (atomics); a failure is always a NULL return,
 * never an abort.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/* @size bytes, uninitialised; NULL when out of memory or @size is 0. */
void *mem_alloc(size_t size) __attribute__((malloc));

/* @count * @size zeroed bytes; NULL on overflow of the product too. */
void *mem_calloc(size_t count, size_t size) __attribute__((malloc));

/* As realloc(3); NULL leaves @p as it was. */
void *mem_realloc(void *p, size_t size);

/* @size bytes aligned to @align (a power of two, at least sizeof(void *));
 * released by mem_free like all others. */
void *mem_aligned(size_t align, size_t size) __attribute__((malloc));

/* Copy of the string @s; NULL when out of memory. */
char *mem_strdup(const char *s) __attribute__((malloc));

/* Accepts NULL. */
void mem_free(void *p);

/* Grows the array *@items of elements of @item_size bytes so that it holds at
 * least @need of them; *@capacity is updated. Returns 0, or -1 out of memory
 * (then nothing changed). */
int mem_grow(void **items, size_t *capacity, size_t item_size, size_t need);

/* @bytes of zeroed memory of which only the pages that are touched take any:
 * addresses, promised by nobody. NULL as mem_alloc's. Released by
 * mem_unreserve, with the same @bytes; that accepts NULL. */
void *mem_reserve(size_t bytes);
void mem_unreserve(void *p, size_t bytes);

/* Whole pages of it are zero again and take no memory, until touched. */
void mem_give_back(void *p, size_t bytes);

/* Allocations not freed yet. */
int64_t mem_outstanding(void);

/* Test hook: the @nth allocation from now fails (1 is the next); @forever makes
 * all after it fail too; 0 switches failures off. */
void mem_fail_at(int64_t nth, int forever);

/* Test hook: how many allocations are left until the one that fails (1: it is
 * the next), as mem_fail_at takes it; 0: none will. */
int64_t mem_fail_left(void);

/* Test hook: 1 if a failure asked for by mem_fail_at has happened. */
int mem_failed(void);

#endif
