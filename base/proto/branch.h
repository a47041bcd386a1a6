/* Branches: the words every part shares.
 *
 * A branch is a complete, independent version of the training state. Numbers
 * are given by the tuner, never reused within a run, and go over the wire.
 */
#ifndef BASE_BRANCH_H
#define BASE_BRANCH_H

#include <stdint.h>

typedef uint32_t branch_id;
typedef uint64_t clock_no; /* a global clock, or a branch's own count of them */

enum { BRANCH_NONE = UINT32_MAX };

/* Append-only: the names travel in messages and journals. */
enum branch_type {
    BRANCH_INIT,     /* the root: the state before the first clock */
    BRANCH_TRAINING, /* runs, its updates stay */
    BRANCH_PROBE,    /* runs, its updates are dropped: measures the loss */
    BRANCH_TESTING,  /* runs over the validation data, changes nothing */
    BRANCH_KEPT, /* read-only: an epoch's end, the best so far, a snapshot */
    BRANCH_TYPE_COUNT
};

/* "init", "training", "probe", "testing", "kept". Static storage. */
const char *branch_type_name(enum branch_type type);

#endif
