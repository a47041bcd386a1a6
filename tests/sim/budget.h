/* Check of what a node sends under a bandwidth budget: over no time more than
 * the budget allows and one queue, and while something waits for the budget,
 * all of it. In virtual time, seconds. */
#ifndef TESTS_SIM_BUDGET_H
#define TESTS_SIM_BUDGET_H

#include "ps/nodes/manager.h"

#include <stdbool.h>

enum { BUDGET_SPANS = 5 };

struct budget_send {
    double at, bytes;
};

struct budget_check {
    struct budget_send *send; /* [sends] */
    size_t sends, room;
    size_t first[BUDGET_SPANS]; /* of the sends within the span that ends now */
    double sum[BUDGET_SPANS];
    double total;
    bool waits; /* something waits for the budget, since: */
    double since, total_then;
    double level_then;
    double waited_s, waited_bytes; /* over all such times; what was used */
};

void budget_deinit(struct budget_check *b);

/* Something of @bytes, headers included, has left; false: too much of late.
 * Aborts without memory. */
bool budget_sent(struct budget_check *b, const struct manager *m, double at,
                 double bytes);

/* Whether something waits from now on. False: what left since it began to wait
 * is less than the budget had room for. */
bool budget_waits(struct budget_check *b, const struct manager *m, double at,
                  bool waits);

#endif
