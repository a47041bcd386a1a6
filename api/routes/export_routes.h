/* The route of exports: what it takes and how it is answered. What is in them
 * comes from a process of its own (api/routes/export_io.h). */
#ifndef API_EXPORT_ROUTES_H
#define API_EXPORT_ROUTES_H

#include "api/http/route.h"

/* As `mltune export --format` takes them, for a parameter's choices. */
#define EXPORT_FORMATS "csv|jsonl|tensorboard|mlflow|optuna-journal"

/* Answers with an export of the run, to be written by the server. */
void handle_export(const struct route_call *call, struct response *out);

#endif
