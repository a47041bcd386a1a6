/* Memory that runs out at one allocation of a simulated program's.
 *
 * What is the program's own work, and not the simulator's, stands between
 * scarce_begin and scarce_end: there allocations are counted, and the one that
 * is asked for fails. A process that has ended, however it did, has all memory
 * back: whoever resumes it does so on a machine that is well again.
 */
#ifndef TESTS_SIM_SCARCE_H
#define TESTS_SIM_SCARCE_H

#include <stdbool.h>
#include <stdint.h>

struct scarce {
    int64_t nth;      /* allocation that fails, from 1; 0: they are counted */
    bool forever;     /* all that follow fail, too, until the process ends */
    unsigned process; /* whose: 0 is the first, 1 who resumes it, ... */
};

/* From here on the first process runs; NULL: memory never runs out. */
void scarce_set(const struct scarce *how);

void scarce_begin(void);
void scarce_end(void);

/* The statement is the program's own work. */
#define SCARCE(statement)                                                      \
    do {                                                                       \
        scarce_begin();                                                        \
        statement;                                                             \
        scarce_end();                                                          \
    } while (0)

/* The next process begins with all memory. */
void scarce_process_ends(void);

/* Allocations of that process so far, and whether one has failed. */
int64_t scarce_calls(void);
bool scarce_failed(void);

#endif
