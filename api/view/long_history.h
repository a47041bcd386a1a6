/* Reading a long history in pieces, the view's lock given up between them. */
#ifndef API_LONG_HISTORY_H
#define API_LONG_HISTORY_H

#include "api/view/list.h"

/* Items that one piece looks at: some hundred microseconds' worth. */
enum { PIECE_ITEMS = 4096 };

/* Calls @read under the view's lock, again and again until it returns false
 * (there is no more). It must not allocate for long nor block. Between two
 * calls a list may have become shorter, where the history of a long run gives
 * way: whoever goes by index asks for its length each time, and may miss items
 * then. False: the run
 * that @call names is not there (any more); @out answers 404. */
bool long_history_read(const struct route_call *call,
                       bool (*read)(const struct history *h, void *state),
                       void *state, struct response *out);

/* Fills @before[@n], all 0, for the first @n branches of @h: of branch i, what
 * ran at global clocks below before[i] is of the surviving lineage; 0: the
 * branch is not of it. */
void long_history_lineage(const struct history *h, clock_no before[], size_t n);

#endif
