/* What all nodes must be started with alike, as one number: 16 bits of a hash
 * for each kind of option, so that nodes that meet can tell which of them
 * differ. Tables are told apart by themselves (shard_layout). Pure.
 */
#ifndef PS_ALIKE_H
#define PS_ALIKE_H

#include <stddef.h>
#include <stdint.h>

enum alike {
    ALIKE_MODEL,  /* the consistency model and its barrier's rule */
    ALIKE_ACCESS, /* what is done with access knowledge */
    ALIKE_RATES,  /* learning rate, momentum, weight decay, rule, staleness */
    ALIKE_COUNT
};

enum { ALIKE_TEXT_MAX = 192 };

/* @digest with @hash, of which 16 bits are taken, as that of @kind. Each kind
 * once. */
uint64_t alike_with(uint64_t digest, enum alike kind, uint64_t hash);

/* Names the kinds in which two numbers differ, into @out[ALIKE_TEXT_MAX]; ""
 * where they are one. */
const char *alike_differs(uint64_t a, uint64_t b, char *out);

#endif
