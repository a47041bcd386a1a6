/* Which rows leave for which node, and when, while a loop runs over several:
 * from its plan, before any pass.
 *
 * A row that is updated in place has a home, the node whose shard has it. Its
 * newest version lies where it was written last; the others that read it since
 * have copies. Who touches a row that its node has not in its newest version is
 * sent it by the one who wrote that, as soon as he has ended that step; at the
 * end all that was written goes home. Since any two iterations of which one
 * writes what the other touches are ordered by the schedule's waits, a row
 * stands still from when it may leave until it is back: nothing is copied to
 * wait, and what comes may be written where it belongs at once.
 *
 * An event is the end of a worker's step, or the beginning (number 0, of the
 * first worker of each node). Event e > 0 of a segment is the end of its step
 * first + e - 1. Pure.
 *
 * Cost: a sweep over all iterations, and over all rows that the data may choose
 * for each block, or for each iteration where an index chooses among them, too;
 * 24 bytes a row of the tables meanwhile.
 */
#ifndef PS_LOOP_TRIPS_H
#define PS_LOOP_TRIPS_H

#include "ps/loop/parts.h"
#include "ps/loop/schedule.h"
#include "ps/nodes/courier.h"

#include "base/err.h"

/* Where it all happens. Workers of a node follow one another. */
struct trips_place {
    uint32_t nodes, node;
    unsigned workers; /* a node */
    /* Home of a row; by touch. */
    uint32_t (*home)(const void *self, unsigned touch, uint64_t row);
    const void *self;
};

/* Of a pass of the steps @first .. @first + @n - 1, before and after which all
 * rows are home. @nest: with the keys in the order of the parts. @carried
 * [touches]: its table is updated in place; @same[touches]: first touch of the
 * table. Errors: ERR_NOMEM. */
enum err trips_make(const struct loop_nest *nest,
                    const struct loop_parts *parts,
                    const struct loop_schedule *schedule,
                    const struct trips_place *place, const bool carried[],
                    const unsigned same[], unsigned first, unsigned n,
                    struct trips *out);

/* Accepts a zeroed object. */
void trips_deinit(struct trips *t);

#endif
