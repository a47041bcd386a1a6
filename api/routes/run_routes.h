/* Routes for runs as a whole, and a branch's progress. */
#ifndef API_RUN_ROUTES_H
#define API_RUN_ROUTES_H

#include "api/http/route.h"
#include "api/http/shape.h"

enum { PROGRESS_POINTS_MAX = 10000, PROGRESS_POINTS_DEFAULT = 500 };

void handle_runs(const struct route_call *call, struct response *out);
void handle_run(const struct route_call *call, struct response *out);

/* The configuration that a run was begun with. */
void handle_config(const struct route_call *call, struct response *out);
/* What its data hold, as the training system says; null before it has. */
void handle_data(const struct route_call *call, struct response *out);

/* The result, as `mltune run --json` prints it at its end, or would now. */
void handle_result(const struct route_call *call, struct response *out);

/* Progress of a branch, or of its whole lineage, in at most `max_points` points
 * past branch clock `after`: neighbours are merged into means weighted by
 * samples. */
void handle_progress(const struct route_call *call, struct response *out);

extern const struct shape run_shapes[];

#endif
