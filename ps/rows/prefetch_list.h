/* Rows that one worker is known to read of one table, so that all of them are
 * asked for when a clock begins and not each when it is needed (Cui et al.
 * 2014, IterStore; thesis of Cui, 3.3.5 and 3.3.7).
 *
 * A list a *part*: clocks of the same part touch about the same rows (a part of
 * the data, say; a program that passes over all of its data in each clock has
 * one part). What is in it was said before the start, or was read in an earlier
 * clock of the part; rows are in the order in which they were needed first, so
 * that the head of the list is what the worker waits for.
 *
 * What is known may be wrong. A row that is missing is read when it is needed
 * and known from then on; one that was fetched in vain PREFETCH_LIST_IDLE_MAX
 * times in a row is forgotten. Whether a row is here, asked for or used is
 * noted in an array by slots, @held, which one thread alone looks at: no lock,
 * no search.
 *
 *     held[slot]  > 0   the worker's clock in which it last used the row
 *                 < 0   asked for, or fetched, in a clock and not used since
 *
 * One owner: the worker. Pure.
 */
#ifndef PS_PREFETCH_LIST_H
#define PS_PREFETCH_LIST_H

#include "base/err.h"
#include "ps/rows/slots.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PREFETCH_LIST_PARTS_MAX = 1 << 16, /* beyond, parts have no list */
    PREFETCH_LIST_IDLE_MAX = 3,
    PREFETCH_LIST_ENTRY_BYTES = 9 /* of a row in a list */
};
#define PREFETCH_LIST_ROWS_MAX ((uint64_t)UINT32_MAX)

struct prefetch_list_part {
    uint32_t *row; /* [n] */
    uint8_t *idle; /* [n] how often in a row it was fetched in vain */
    size_t n, row_room, idle_room;
};

struct prefetch_list {
    struct prefetch_list_part *list; /* [parts] */
    size_t parts, parts_room;
    uint64_t entries, entries_max; /* over all lists */
    int64_t clock;                 /* that it is prepared for; 0: none */
    uint64_t part;                 /* of that clock */
    uint32_t *wait; /* [waits] rows known and not here yet, in order */
    size_t waits, wait_room;
    uint64_t seen; /* the caller's: what it last knew when it looked for them */
    uint64_t early;      /* rows asked for because they were known */
    uint64_t unforeseen; /* rows read that were not */
};

/* Entries that a worker may have of a table with @rows rows. */
uint64_t prefetch_list_entries_max(uint64_t rows);

/* Nothing is known. Allocates nothing. @rows <= PREFETCH_LIST_ROWS_MAX. */
void prefetch_list_init(struct prefetch_list *k, uint64_t rows);
void prefetch_list_deinit(struct prefetch_list *k);

/* The worker will read @row in clocks of @part: before any clock, each row once
 * a part. Errors: ERR_NOMEM; ERR_LIMIT, there are too many. Nothing changed
 * then, and nothing is wrong but that the row is not known. */
enum err prefetch_list_add(struct prefetch_list *k, uint64_t part,
                           uint64_t row);

/* The mark of a fetched row, and of one that is asked for. */
static inline int64_t prefetch_list_fetched(int64_t clock)
{
    return -2 * clock;
}

static inline int64_t prefetch_list_asked(int64_t clock)
{
    return -2 * clock - 1;
}

/* Whether a mark says that the row was fetched in @since or later. */
static inline bool prefetch_list_is_fetched(int64_t mark, int64_t since)
{
    return mark <= -2 * since && mark % 2 == 0;
}

/* The first read of @clock that finds no row: those that are known and were not
 * held since @since become k->wait and are marked as asked for; they have slots
 * from then on. */
void prefetch_list_begin(struct prefetch_list *k, uint64_t part, int64_t clock,
                         int64_t since, const struct slots *slots,
                         int64_t held[]);

/* @row is to be read in k->clock; known for the next time if it was not. One
 * that is asked for in this clock, or was fetched, is. */
void prefetch_list_note(struct prefetch_list *k, uint64_t row,
                        const struct slots *slots, int64_t held[]);

#endif
