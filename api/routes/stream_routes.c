#include "api/routes/stream_routes.h"

#include "api/http/event_log.h"
#include "api/view/list.h"
#include "api/view/view.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "base/text.h"
#include "tuner/history/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- events -------------------------------------------------------------- */

const struct route_header events_header = {
    "Last-Event-ID", "number of the last event that was read", 18};

const struct shape stream_shapes[] = {
    {"polled_events", "events:[polled_event] next_after:i missed:b"},
    {"polled_event", "id:i event:@event_kind data:@event"},
    {"event_stream",
     "{\"type\": \"string\", \"contentMediaType\": \"text/event-stream\", "
     "\"description\": \"server-sent events: `id` the event's number, `event` "
     "its event_kind, `data` an object as JSON: an event. The last one may be "
     "`dropped`, whose data are an event_dropped\", \"contentSchema\": "
     "{\"anyOf\": [{\"$ref\": \"#/components/schemas/event\"}, {\"$ref\": "
     "\"#/components/schemas/event_dropped\"}]}}"},
    {"event_dropped", "last:i newest:i kept_after:i"},
    {NULL, NULL},
};

enum { POLL_BYTES = 1024 * 1024, POLL_TAIL = 128 };

static void poll_events(struct event_log *log, uint64_t after,
                        const char *kinds, struct response *out)
{
    static const char head[] = "{\"events\":[";
    const size_t n = sizeof(head) - 1;
    char *text = mem_alloc(POLL_BYTES);
    struct event_reading r;
    char *small;
    size_t len;

    if (!text) {
        response_json(out, 200, NULL); /* 503 */
        return;
    }
    memcpy(text, head, n);
    event_log_read(log, after, kinds, EVENT_ITEMS, EVENTS_POLLED_MAX, text + n,
                   POLL_BYTES - n - POLL_TAIL, &r);
    len = n + r.len;
    len += (size_t)snprintf(
        text + len, POLL_TAIL, "],\"next_after\":%" PRIu64 ",\"missed\":%s}\n",
        r.missed ? r.kept_after : r.last, r.missed ? "true" : "false");
    /* It lives until the client has taken it; mostly it is short. */
    small = mem_realloc(text, len + 1);
    if (small)
        text = small;
    response_text(out, 200, "application/json", text, len);
}

static bool is_kind(const char *word, size_t len)
{
    for (unsigned k = 0; k < RECORD_KIND_COUNT; k++) {
        const char *name = record_kind_name((enum record_kind)k);

        if (strlen(name) == len && strncmp(name, word, len) == 0)
            return true;
    }
    return false;
}

/* Whether each of @kinds, "a,b", is the name of a kind; else it is refused. */
static bool kinds_known(const char *kinds, struct response *out)
{
    struct response_faults faults = {0};
    struct text names = {0};
    bool known = strlen(kinds) < STREAM_KINDS_MAX;

    for (const char *at = kinds; known; at++) {
        size_t n = strcspn(at, ",");

        known = is_kind(at, n);
        at += n;
        if (!*at)
            break;
    }
    if (known)
        return true;
    for (unsigned k = 0; k < RECORD_KIND_COUNT; k++)
        text_printf(&names, "%s%s", k ? ", " : "",
                    record_kind_name((enum record_kind)k));
    response_fault_add(&faults, "/query/kinds",
                       "expected kinds of events, parted by commas: %s",
                       text_so_far(&names));
    text_deinit(&names);
    response_problem(out, 400, "invalid_parameter", &faults,
                     "1 parameter of the request is not valid");
    return false;
}

void handle_events(const struct route_call *call, struct response *out)
{
    const struct route_arg *after = route_arg(call, "after");
    const struct route_arg *some = route_arg(call, "kinds");
    const char *kinds = some->given ? some->text : "";
    const char *id = route_arg(call, "run")->text;
    const struct view_run *run;
    struct event_log *log;

    if (some->given && !kinds_known(kinds, out))
        return;
    view_lock(call->view);
    run = view_run_find(call->view, id);
    log = run && run->events ? event_log_hold(run->events) : NULL;
    view_unlock(call->view);
    if (!log)
        response_problem(
            out, 404, run ? "events_not_found" : "run_not_found", NULL,
            run ? "run %s has no live events" : "there is no run %s", id);
    else if (after->given)
        poll_events(log, (uint64_t)after->number, kinds, out);
    else
        response_stream(out, log, kinds);
    event_log_free(log);
}

/* ---- exports ------------------------------------------------------------- */

/* As EXPORT_FORMATS. Those of many files come as one archive. */
static const char lines[] = "application/x-ndjson";
static const struct {
    const char *name, *type;
} formats[] = {{"csv", RESPONSE_TAR},
               {"jsonl", lines},
               {"tensorboard", RESPONSE_TAR},
               {"mlflow", RESPONSE_TAR},
               {"optuna-journal", lines}};

void handle_export(const struct route_call *call, struct response *out)
{
    size_t format = (size_t)route_arg(call, "format")->number;
    bool found;

    view_lock(call->view);
    found = list_run(call, out) != NULL;
    view_unlock(call->view);
    if (found)
        response_export(out, route_arg(call, "run")->text, formats[format].name,
                        formats[format].type);
}

/* As MODEL_FORMATS. */
static const struct {
    const char *name, *type;
} model_formats[] = {{"model", RESPONSE_TAR},
                     {"onnx", "application/octet-stream"},
                     {"zip", "application/zip"}};

/* A model is whole once its run has ended. */
void handle_model(const struct route_call *call, struct response *out)
{
    size_t format = (size_t)route_arg(call, "format")->number;
    const char *run = route_arg(call, "run")->text;
    char path[FILE_PATH_MAX] = "";
    const struct history *h;
    bool found, whole = false;

    view_lock(call->view);
    h = list_run(call, out);
    found = h != NULL;
    if (found)
        whole = history_finished(h) && history_model_path(h)[0];
    if (whole)
        snprintf(path, sizeof(path), "%s", history_model_path(h));
    view_unlock(call->view);
    /* Deleted, or moved. */
    if (whole && access(path, F_OK) != 0 &&
        (errno == ENOENT || errno == ENOTDIR))
        response_problem(out, 404, "model_not_found", NULL,
                         "the model of run %s is no longer where the run wrote "
                         "it: %s",
                         run, path);
    else if (whole)
        response_export(out, run, model_formats[format].name,
                        model_formats[format].type);
    else if (found)
        response_problem(out, 404, "model_not_found", NULL,
                         "run %s has written no model yet: it does so at its "
                         "end; before that, mltune save %s takes one of its "
                         "newest snapshot",
                         run, run);
}
