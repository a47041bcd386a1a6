/* Rows that the tuner asks a node for: the protocol's `rows` on a parameter
 * server. Of several nodes each answers with the rows that lie in it, and null
 * for the others. Control thread.
 */
#ifndef PS_NODE_ROWS_H
#define PS_NODE_ROWS_H

#include "base/proto/proto.h"
#include "ps/server/ps.h"

/* The rows that @m is about. Errors, with words in @f: ERR_NOENT (no such
 * table), ERR_INVAL (no such rows, or values), ERR_UNSUPPORTED (local),
 * ERR_LIMIT (more values than a message can hold). */
enum err node_rows_find(const struct mlt_ps *ps, const struct msg_rows *m,
                        struct ps_rows *out, struct fault *f);

/* Room for their values; NULL: out of memory. mem_free. */
double *node_rows_alloc(const struct ps_rows *r);

/* Their @values as the answer's data. NULL: out of memory. */
json_t *node_rows_json(const struct mlt_ps *ps, const struct ps_rows *r,
                       const double values[]);

/* Between two slices: adds what is to be added, with the learning rate and the
 * momentum that are set, or reads. @data: what was read, owned by the caller;
 * of an increment it is left alone, so that what was added cannot be told as
 * failed. Errors: as above; ERR_INVAL (increments that do not fit), ERR_NOENT
 * (branch), ERR_NOMEM. */
enum err node_rows_carry_out(struct mlt_ps *ps, const struct msg_rows *m,
                             json_t **data, struct fault *f);

#endif
