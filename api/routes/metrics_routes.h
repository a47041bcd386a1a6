/* Figures for Prometheus, in its text format (version 0.0.4). */
#ifndef API_METRICS_ROUTES_H
#define API_METRICS_ROUTES_H

#include "api/http/route.h"

/* Every name begins with `mltune_`; seconds are seconds, what only grows ends
 * in
 * `_total`; one series a run and figure, none a trial or branch. What is not
 * there yet is left out. */
void handle_metrics(const struct route_call *call, struct response *out);

#endif
