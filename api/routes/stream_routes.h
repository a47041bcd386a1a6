/* Routes whose answer the server carries on: a run's live events, as a stream
 * or polled, and exports. What is in an export comes from a process of its own
 * (api/routes/export_io.h). */
#ifndef API_STREAM_ROUTES_H
#define API_STREAM_ROUTES_H

#include "api/http/route.h"
#include "api/http/shape.h"

enum { EVENTS_POLLED_MAX = 1000 };

/* As `mltune export --format` takes them, for a parameter's choices. */
#define EXPORT_FORMATS "csv|jsonl|tensorboard|mlflow|optuna-journal"

/* Forms of a model: its folder as an archive, or a file. */
#define MODEL_FORMATS "tar|onnx|zip"

/* Media types of the answers; events can be asked for from a number on. */
#define EVENTS_TYPES "text/event-stream|application/json"
#define EXPORT_TYPES "application/x-tar|application/x-ndjson"
#define MODEL_TYPES "application/x-tar|application/octet-stream|application/zip"
extern const struct route_header events_header;
extern const struct shape stream_shapes[];

/* Without `after` a stream, which the server carries on; with it, the events
 * past that number, at most EVENTS_POLLED_MAX. */
route_handler handle_events;

/* Answers with an export of the run, to be written by the server. */
route_handler handle_export;

/* Answers with the run's model, written like an export. */
route_handler handle_model;

#endif
