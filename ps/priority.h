/* Priorities: which rows leave first while there is room before they have to
 * (Wei et al. 2015, section 3.3.2; `ps.priority` names one). Pure. */
#ifndef PS_PRIORITY_H
#define PS_PRIORITY_H

enum priority {
    PRIORITY_RANDOM,
    PRIORITY_ROUND_ROBIN, /* in the order of their numbers, in turn */
    PRIORITY_ABSOLUTE,    /* the largest change |d| */
    PRIORITY_RELATIVE,    /* the largest |d| / |a| of a row that is a; |d| where
                           * a is 0 or not known */
    PRIORITY_COUNT
};

/* "random", ...; static storage. */
const char *priority_name(enum priority p);

/* The one of that name, or PRIORITY_COUNT. */
enum priority priority_find(const char *name);

#endif
