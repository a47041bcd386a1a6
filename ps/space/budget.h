/* What a space has given out, and what it may: counted for all its threads
 * (atomics). Part of the plug-in too. */
#ifndef PS_BUDGET_H
#define PS_BUDGET_H

#include "ps/space/space.h"

struct space_budget {
    uint64_t limit;              /* bytes; UINT64_MAX: none */
    uint64_t used, peak, pinned; /* bytes */
};

/* @limit 0: none. */
void budget_init(struct space_budget *b, uint64_t limit);

/* Counts @bytes more. Errors: ERR_LIMIT, with sizes; nothing changed. */
enum err budget_take(struct space_budget *b, uint64_t bytes, struct fault *f);
void budget_give(struct space_budget *b, uint64_t bytes);

void budget_pin(struct space_budget *b, uint64_t bytes);
void budget_unpin(struct space_budget *b, uint64_t bytes);

/* limit, used, peak and pinned of @out; the rest is left. */
void budget_tell(const struct space_budget *b, struct space_memory *out);

/* What is said where the device has no @bytes left, whatever the limit says:
 * ERR_LIMIT. @m: its memory. */
enum err budget_full(const struct space_memory *m, uint64_t bytes,
                     struct fault *f);

#endif
