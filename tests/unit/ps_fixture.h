/* Parameter servers for tests: small tables, many chunks, failures reported. */
#ifndef TESTS_UNIT_PS_FIXTURE_H
#define TESTS_UNIT_PS_FIXTURE_H

#include "ps/ps.h"

enum { FIXTURE_ROWS = 300, FIXTURE_WIDTH = 7 };

/* Learning rate 0.1, momentum 0.5, 64 MiB. */
struct mlt_ps *fixture_ps(unsigned workers, const char *consistency,
                          const char *rule);

/* FIXTURE_ROWS x FIXTURE_WIDTH in chunks of 1 KiB. */
mlt_table fixture_table(struct mlt_ps *ps, const char *name, enum mlt_type type,
                        enum mlt_access access, unsigned flags);

/* Starts, and makes ps_worker_user of every worker the server itself. */
void fixture_start(struct mlt_ps *ps);

/* Runs @work and expects the code @want. */
void fixture_run(struct mlt_ps *ps, mlt_work *work, void *arg, int want);

/* Value @j of a row of branch @id. */
double fixture_value(struct mlt_ps *ps, branch_id id, const char *table,
                     uint64_t row, uint32_t j);

/* A number for (a, b, c) that differs everywhere, about normal. */
float fixture_noise(uint64_t a, uint64_t b, uint64_t c);

/* ---- a server with all kinds of state ------------------------------------ */

/* Shared weights with velocities, exclusive rows with sums of squares, local
 * counters that steer the updates. */
enum { FIXTURE_SHARED, FIXTURE_EXCLUSIVE, FIXTURE_LOCAL };
struct mlt_ps *fixture_full_ps(unsigned workers, const char *model);

/* Work of one run: *(int *)arg clocks, whose updates depend on the local
 * counters alone. */
int fixture_clock_work(struct mlt_worker *w, void *arg);

/* Makes @id active and runs @n clocks. */
void fixture_clocks(struct mlt_ps *ps, branch_id id, int n);

/* What can be seen of a branch from outside, local state included. */
struct fixture_state {
    double weights[FIXTURE_ROWS * FIXTURE_WIDTH];
    double users[FIXTURE_ROWS * FIXTURE_WIDTH];
    int32_t counter[8];
};
void fixture_state(struct mlt_ps *ps, branch_id id, struct fixture_state *s);

#endif
