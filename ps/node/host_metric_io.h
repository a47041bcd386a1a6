/* The metric that a configuration asks for, measured on the validation data of
 * a host that trains, where it is not the application's own.
 *
 * Such a metric is of all samples together. So the first node's workers predict
 * all validation samples, a share each, and the last of them to be ready
 * reports the value, weighted by the number of samples; other nodes report
 * nothing. A clock without a barrier at its end must be the only one of its
 * slice.
 */
#ifndef PS_HOST_METRIC_IO_H
#define PS_HOST_METRIC_IO_H

#include "base/fault.h"
#include "mltune/app.h"

struct host;
struct host_metric;

/* Takes @name, `metric` of the configuration or NULL, for @h, whose application
 * is open: changes the metric in its facts. Where it trains nothing, or @name
 * is its own metric or not given, they stay as they are and *@out is NULL.
 * Errors: ERR_INVAL, with what there is to choose from: no such metric,
 * no validation data, or of data of which it has no value (one class for auc,
 * one number for r2); the application's; ERR_LIMIT, ERR_NOMEM. */
enum err host_metric_open(struct host *h, const char *name,
                          struct host_metric **out, struct fault *f);
void host_metric_close(struct host_metric *m); /* NULL too */

/* Before a slice that tests; no worker runs. */
void host_metric_begin(struct host_metric *m);

/* One testing clock of worker @w, number @local of this node; mlt_report has
 * been called for the one that had the last word. Returns 0, or the
 * application's error. */
int host_metric_clock(struct host_metric *m, struct mlt_worker *w,
                      unsigned local);

#endif
