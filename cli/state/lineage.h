/* The surviving lineage of a run: which of its progress was kept. */
#ifndef CLI_LINEAGE_H
#define CLI_LINEAGE_H

#include "tuner/history/history.h"

/* The part of a branch that belongs to it. */
struct surviving_reach {
    branch_id branch;
    clock_no clocks; /* branch clocks up to which it does; UINT64_MAX: all */
};

/* Newest first; zeroed: none. */
struct surviving {
    struct surviving_reach *reach; /* owned */
    size_t len;
};

/* That of @h, by now. Errors: ERR_NOMEM. */
enum err lineage_of(const struct history *h, struct surviving *out);

/* Accepts a zeroed one. */
void lineage_deinit(struct surviving *l);

/* Index in it of @branch, where that was of the lineage still at
 * @branch_clock; SIZE_MAX: it was not. */
size_t lineage_find(const struct surviving *l, branch_id branch,
                    clock_no branch_clock);

/* One window of progress, or a point of the history. */
struct lineage_point {
    branch_id branch;
    clock_no clock;        /* global, of its first clock */
    clock_no branch_clock; /* of the lineage, at its end */
    double at_s;           /* of its report */
    struct progress_window w;
    bool surviving;
    double extra[EXTRAS_MAX]; /* further metrics, by the history's names; NAN */
};

/* Ends the walk by an error, which is passed on. */
typedef enum err lineage_visit(void *ctx, const struct lineage_point *p);

/* The points that @h keeps, of all branches. */
enum err lineage_each_point(const struct surviving *l, const struct history *h,
                            lineage_visit *visit, void *ctx);

/* Those that survive, oldest first, after clock @clock of the lineage's branch
 * @branch (which is in it; BRANCH_NONE: all). A point that grows still is left
 * out. */
enum err lineage_each_after(const struct surviving *l, const struct history *h,
                            branch_id branch, clock_no clock,
                            lineage_visit *visit, void *ctx);

#endif
