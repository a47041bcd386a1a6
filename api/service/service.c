#include "api/service/service.h"

#include "api/http/page.h"
#include "api/http/route.h"
#include "api/routes/about_routes.h"
#include "api/routes/command_routes.h"
#include "api/routes/curve_routes.h"
#include "api/routes/event_routes.h"
#include "api/routes/export_routes.h"
#include "api/routes/history_routes.h"
#include "api/routes/metrics_routes.h"
#include "api/routes/node_routes.h"
#include "api/routes/openapi.h"
#include "api/routes/rows_routes.h"
#include "api/routes/run_routes.h"
#include "api/routes/search_routes.h"
#include "api/routes/submit_routes.h"
#include "api/view/list.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static void handle_index(const struct route_call *call, struct response *out);
static void handle_openapi(const struct route_call *call, struct response *out);

/* clang-format off */
#define RUN_PARAM                                                              \
    {.type = PARAM_ID, .name = "run", .help = "the run's id"}
#define BRANCH_PARAM                                                           \
    {.type = PARAM_INT, .name = "branch", .help = "number of the branch",      \
     .min = 0, .max = UINT32_MAX - 1}

static const struct route_param page_params[] = {
    PAGE_PARAMS, {.type = PARAM_END}};
static const struct route_param runs_params[] = {
    PAGE_PARAMS,
    {.type = PARAM_TEXT, .name = "status",
     .help = "only runs of that status: queued, training, finished, ..."},
    {.type = PARAM_TEXT, .name = "name", .help = "only runs of that name"},
    {.type = PARAM_TEXT, .name = "group",
     .help = "only runs submitted for that group"},
    {.type = PARAM_END}};
static const struct route_param submit_params[] = {
    {.type = PARAM_ID, .name = "group",
     .help = "groups take turns in the queue; default: the run's name"},
    {.type = PARAM_BOOL, .name = "held",
     .help = "not to begin before it is continued"},
    {.type = PARAM_END}};
static const struct route_param run_params[] = {
    RUN_PARAM, {.type = PARAM_END}};
static const struct route_param run_page_params[] = {
    RUN_PARAM, PAGE_PARAMS, {.type = PARAM_END}};
static const struct route_param trials_params[] = {
    RUN_PARAM, PAGE_PARAMS,
    {.type = PARAM_INT, .name = "search", .help = "only trials of that search",
     .min = 1, .max = UINT32_MAX},
    {.type = PARAM_END}};
static const struct route_param trial_params[] = {
    RUN_PARAM,
    {.type = PARAM_INT, .name = "trial", .help = "number of the trial, from 1",
     .min = 1, .max = UINT32_MAX},
    {.type = PARAM_END}};
static const struct route_param suggestion_params[] = {
    RUN_PARAM,
    {.type = PARAM_INT, .name = "suggestion",
     .help = "number of the suggestion, from 1", .min = 1, .max = UINT32_MAX},
    {.type = PARAM_END}};
static const struct route_param branches_params[] = {
    RUN_PARAM, PAGE_PARAMS,
    {.type = PARAM_BOOL, .name = "live",
     .help = "only branches that live (true) or are freed (false)"},
    {.type = PARAM_END}};
static const struct route_param branch_params[] = {
    RUN_PARAM, BRANCH_PARAM, {.type = PARAM_END}};
static const struct route_param progress_params[] = {
    RUN_PARAM, BRANCH_PARAM,
    {.type = PARAM_INT, .name = "after",
     .help = "only points past this branch clock", .min = 0, .max = INT64_MAX},
    {.type = PARAM_INT, .name = "max_points",
     .help = "neighbours are merged until there are no more points",
     .min = 1, .max = PROGRESS_POINTS_MAX, .fallback = PROGRESS_POINTS_DEFAULT},
    {.type = PARAM_BOOL, .name = "lineage",
     .help = "with what the branch's ancestors ran before it"},
    {.type = PARAM_END}};
static const struct route_param events_params[] = {
    RUN_PARAM,
    {.type = PARAM_INT, .name = "after",
     .help = "no stream, but the events past this number", .min = 0,
     .max = INT64_MAX},
    {.type = PARAM_END}};
static const struct route_param export_params[] = {
    RUN_PARAM,
    {.type = PARAM_CHOICE, .name = "format", .help = "what to write",
     .choices = EXPORT_FORMATS},
    {.type = PARAM_END}};
static const struct route_param traffic_params[] = {
    RUN_PARAM,
    {.type = PARAM_INT, .name = "max_points",
     .help = "points a node, spread evenly", .min = 1,
     .max = NODES_POINTS_MAX, .fallback = TRAFFIC_POINTS_DEFAULT},
    {.type = PARAM_END}};
static const struct route_param epochs_params[] = {
    RUN_PARAM, PAGE_PARAMS,
    {.type = PARAM_BOOL, .name = "surviving",
     .help = "only epochs of the surviving lineage (true) or of losers"},
    {.type = PARAM_END}};

static const struct route_param curve_params[] = {
    RUN_PARAM,
    {.type = PARAM_INT, .name = "from", .help = "first clock", .min = 0,
     .max = INT64_MAX},
    {.type = PARAM_INT, .name = "to", .help = "clock after the last",
     .min = 1, .max = INT64_MAX},
    {.type = PARAM_INT, .name = "spans",
     .help = "equal parts of the clocks; each gives at most 5 points",
     .min = 1, .max = CURVE_SPANS_MAX, .fallback = CURVE_SPANS_DEFAULT},
    {.type = PARAM_END}};
static const struct route_param survey_params[] = {
    RUN_PARAM,
    {.type = PARAM_INT, .name = "search", .help = "only trials of that search",
     .min = 1, .max = UINT32_MAX},
    {.type = PARAM_INT, .name = "max_trials",
     .help = "evenly spread, and the fastest of what lies between",
     .min = 1, .max = SURVEY_TRIALS_MAX, .fallback = SURVEY_TRIALS_DEFAULT},
    {.type = PARAM_END}};
static const struct route_param tree_params[] = {
    RUN_PARAM,
    {.type = PARAM_INT, .name = "max_branches",
     .help = "the surviving lineage, what lives, what ran longest",
     .min = 1, .max = TREE_BRANCHES_MAX, .fallback = TREE_BRANCHES_DEFAULT},
    {.type = PARAM_INT, .name = "from", .help = "first clock", .min = 0,
     .max = INT64_MAX},
    {.type = PARAM_INT, .name = "to", .help = "clock after the last",
     .min = 1, .max = INT64_MAX},
    {.type = PARAM_BOOL, .name = "all",
     .help = "also kept, testing and probe branches"},
    {.type = PARAM_END}};
#define TABLE_PARAMS                                                           \
    {.type = PARAM_TEXT, .name = "table", .help = "the table's name or number",\
     .choices = "weights"},                                                    \
    {.type = PARAM_INT, .name = "row", .help = "the row, from 0", .min = 0,    \
     .max = INT64_MAX},                                                        \
    {.type = PARAM_ID, .name = "run",                                          \
     .help = "the run's id; may be left out where there is only one"}
static const struct route_param tables_params[] = {
    {.type = PARAM_ID, .name = "run",
     .help = "the run's id; may be left out where there is only one"},
    PAGE_PARAMS, {.type = PARAM_END}};
static const struct route_param rows_params[] = {
    TABLE_PARAMS,
    {.type = PARAM_INT, .name = "branch",
     .help = "number of the branch; default: what the run trains", .min = 0,
     .max = UINT32_MAX - 1},
    {.type = PARAM_INT, .name = "count", .help = "rows, from that one on",
     .min = 1, .max = ROWS_COUNT_MAX, .fallback = 1},
    {.type = PARAM_INT, .name = "offset",
     .help = "the first value of each row", .min = 0, .max = UINT32_MAX},
    {.type = PARAM_INT, .name = "values",
     .help = "how many of each row; default: to its end", .min = 1,
     .max = TUNER_VALUES_MAX},
    {.type = PARAM_END}};
static const struct route_param add_params[] = {
    TABLE_PARAMS, {.type = PARAM_END}};
static const struct route_param web_params[] = {
    {.type = PARAM_TEXT, .name = "file", .help = "a file of the dashboard",
     .choices = "app.js"},
    {.type = PARAM_END}};

static const struct route table[] = {
    {"GET", "/runs", ROUTE_API, runs_params, handle_runs, "all runs", NULL},
    {"POST", "/runs", ROUTE_API, submit_params, NULL,
     "submits a run: the body is its configuration", command_submit},
    {"POST", "/runs:validate", ROUTE_API, NULL, NULL,
     "checks a configuration: all that is wrong with it", command_validate},
    {"GET", "/runs/{run}", ROUTE_API, run_params, handle_run,
     "a run: status, loss, best epoch, setting in use", NULL},
    {"PATCH", "/runs/{run}", ROUTE_API, run_params, NULL,
     "other limits: {\"stop\": {...}}", command_limits},
    {"DELETE", "/runs/{run}", ROUTE_API, run_params, NULL,
     "forgets a run that has ended or waits, with its folder", command_delete},
    {"POST", "/runs/{run}:pause", ROUTE_API, run_params, NULL,
     "nothing runs until it is continued", command_pause},
    {"POST", "/runs/{run}:continue", ROUTE_API, run_params, NULL,
     "goes on after a pause", command_continue},
    {"POST", "/runs/{run}:stop", ROUTE_API, run_params, NULL,
     "ends the run: a snapshot and the best model are written", command_stop},
    {"POST", "/runs/{run}:retune", ROUTE_API, run_params, NULL,
     "a search at the next end of an epoch", command_retune},
    {"POST", "/runs/{run}:snapshot", ROUTE_API, run_params, NULL,
     "a snapshot at the next end of a slice", command_snapshot},
    {"GET", "/runs/{run}/trials", ROUTE_API, trials_params, handle_trials,
     "settings tried, with their loss traces and speeds", NULL},
    {"GET", "/runs/{run}/trials/{trial}", ROUTE_API, trial_params,
     handle_trial, "one trial", NULL},
    {"POST", "/runs/{run}/trials:suggest", ROUTE_API, run_params, NULL,
     "settings to be tried before what the searcher proposes", command_suggest},
    {"GET", "/runs/{run}/search", ROUTE_API, run_params, handle_search,
     "what an outside searcher goes by: tunables, what runs, what was found",
     NULL},
    {"GET", "/runs/{run}/suggestions", ROUTE_API, run_page_params,
     handle_suggestions, "settings that were suggested, and their trials",
     NULL},
    {"GET", "/runs/{run}/suggestions/{suggestion}", ROUTE_API,
     suggestion_params, handle_suggestion, "one suggestion", NULL},
    {"GET", "/runs/{run}/branches", ROUTE_API, branches_params,
     handle_branches, "versions of the training state", NULL},
    {"GET", "/runs/{run}/branches/{branch}", ROUTE_API, branch_params,
     handle_branch, "one branch", NULL},
    {"POST", "/runs/{run}/branches/{branch}:fork", ROUTE_API, branch_params,
     NULL, "tries a setting from there beside the training", command_fork},
    {"POST", "/runs/{run}/branches/{branch}:promote", ROUTE_API, branch_params,
     NULL, "makes it what the run trains", command_promote},
    {"POST", "/runs/{run}/branches/{branch}:free", ROUTE_API, branch_params,
     NULL, "gives a branch up that was forked by hand", command_free},
    {"GET", "/runs/{run}/branches/{branch}/progress", ROUTE_API,
     progress_params, handle_progress, "a branch's loss by clock", NULL},
    {"GET", "/runs/{run}/schedule", ROUTE_API, run_page_params,
     handle_schedule, "which setting was used from which clock", NULL},
    {"GET", "/runs/{run}/slices", ROUTE_API, run_page_params, handle_slices,
     "which branch ran at which clocks; the latest", NULL},
    {"GET", "/runs/{run}/epochs", ROUTE_API, epochs_params, handle_epochs,
     "loss and metric at the end of each epoch", NULL},
    {"GET", "/runs/{run}/searches", ROUTE_API, run_page_params,
     handle_searches, "rounds of trials", NULL},
    {"GET", "/runs/{run}/decisions", ROUTE_API, run_page_params,
     handle_decisions, "why each thing was done; the latest", NULL},
    {"GET", "/runs/{run}/curve", ROUTE_API, curve_params, handle_curve,
     "the whole run's loss by clock, decimated", NULL},
    {"GET", "/runs/{run}/survey", ROUTE_API, survey_params, handle_survey,
     "settings and speeds of all trials as columns, thinned out", NULL},
    {"GET", "/runs/{run}/tree", ROUTE_API, tree_params, handle_tree,
     "the branches that matter most, with their ancestors", NULL},
    {"GET", "/runs/{run}/nodes", ROUTE_API, run_page_params, handle_nodes,
     "the training nodes: memory, time, traffic, staleness of reads", NULL},
    {"GET", "/runs/{run}/traffic", ROUTE_API, traffic_params, handle_traffic,
     "bytes between the nodes and memory over time, by node", NULL},
    {"GET", "/runs/{run}/export", ROUTE_API, export_params, handle_export,
     "the run for other programs: one file, or a tar archive of several", NULL},
    {"GET", "/runs/{run}/events", ROUTE_API, events_params, handle_events,
     "live events: server-sent, or polled", NULL},
    {"GET", "/tables", ROUTE_API, tables_params, handle_tables,
     "tables of the parameter server", NULL},
    {"GET", "/tables/{table}/rows/{row}", ROUTE_API, rows_params, NULL,
     "rows of a table, as they are now", command_read},
    {"POST", "/tables/{table}/rows/{row}:inc", ROUTE_API, add_params, NULL,
     "adds to a row, by its table's update rule", command_add},
    {"GET", "/searchers", ROUTE_API, page_params, handle_searchers,
     "searchers, with the schema of their settings", NULL},
    {"GET", "/strategies", ROUTE_API, page_params, handle_strategies,
     "strategies, with the schema of their settings", NULL},
    {"GET", "/apps", ROUTE_API, page_params, handle_apps,
     "training applications, with the schema of their settings", NULL},
    {"GET", "/schema", ROUTE_API, NULL, handle_schema,
     "JSON schema of the configuration", NULL},
    {"GET", "/healthz", ROUTE_API | ROUTE_ROOT, NULL, handle_healthz,
     "answers while the process lives", NULL},
    {"GET", "/readyz", ROUTE_API | ROUTE_ROOT, NULL, handle_readyz,
     "503 once the process is about to end", NULL},
    {"GET", "/version", ROUTE_API | ROUTE_ROOT, NULL, handle_version,
     "version of the program and of this interface", NULL},
    {"GET", "/openapi.json", ROUTE_API | ROUTE_ROOT, NULL, handle_openapi,
     "this interface as OpenAPI 3.1", NULL},
    {"GET", "/metrics", ROUTE_ROOT, NULL, handle_metrics,
     "figures for Prometheus", NULL},
    {"GET", "", ROUTE_API, NULL, handle_index, "this list", NULL},
    {"GET", "", ROUTE_ROOT, NULL, handle_page, "the dashboard", NULL},
    {"GET", "/web/{file}", ROUTE_ROOT, web_params, handle_web,
     "a part of the dashboard", NULL},
};
/* clang-format on */

enum { ROUTES = sizeof(table) / sizeof(table[0]) };

static void handle_index(const struct route_call *call, struct response *out)
{
    (void)call;
    response_json(out, 200,
                  json_pack("{s:o}", "routes", routes_to_json(table, ROUTES)));
}

static void handle_openapi(const struct route_call *call, struct response *out)
{
    (void)call;
    response_json(out, 200, openapi_document(table, ROUTES));
}

bool service_accept(const struct head *head, const struct listen_address *self,
                    struct response *out)
{
    return guard_check(head, self, out);
}

bool service_respond(struct view *view, const char *method, const char *target,
                     struct response *out)
{
    struct request req;

    return !request_parse(target, &req, out) ||
           route_respond(table, ROUTES, view, method, &req, out);
}

const struct route *service_route(size_t index)
{
    return index < ROUTES ? &table[index] : NULL;
}

/* ---- writes: the head ---------------------------------------------------- */

/* Where they differ does not show in the time that it takes. */
static bool same_secret(const char *a, size_t a_len, const char *b,
                        size_t b_len)
{
    volatile unsigned char differ = a_len != b_len;

    assert(b_len > 0);
    for (size_t i = 0; i < a_len; i++)
        differ |= (unsigned char)(a[i] ^ b[i % b_len]);
    return differ == 0;
}

static bool authorized(const struct head *head, const char *token)
{
    static const char scheme[] = "Bearer ";
    const struct head_field *f = head_field(head, "authorization");
    const size_t n = sizeof(scheme) - 1;

    return token && f && f->value_len > n &&
           strncasecmp(f->value, scheme, n) == 0 &&
           same_secret(f->value + n, f->value_len - n, token, strlen(token));
}

/* As it came: whatever is written otherwise needs the token. */
static bool is_open(const char *target)
{
    static const char *const open[] = {"/", "/healthz", "/readyz", "/version",
                                       NULL};

    for (size_t i = 0; open[i]; i++)
        if (strcmp(target, open[i]) == 0)
            return true;
    return strncmp(target, "/web/", 5) == 0;
}

bool service_may_read(const char *token, const struct head *head,
                      const struct listen_address *self, struct response *out)
{
    if (self->loopback || is_open(head->target) || authorized(head, token))
        return true;
    response_unauthorized(out);
    return false;
}

/* "application/json", with parameters or not; and that of RFC 7396. */
static bool is_json(const struct head_field *type)
{
    static const char *const types[] = {"application/json",
                                        "application/merge-patch+json"};

    for (size_t i = 0; type && i < 2; i++) {
        size_t n = strlen(types[i]);

        if (type->value_len >= n &&
            strncasecmp(type->value, types[i], n) == 0 &&
            (type->value_len == n || type->value[n] == ';' ||
             type->value[n] == ' '))
            return true;
    }
    return false;
}

/* The guard has seen to it that a length is a number. */
static bool has_body(const struct head *head)
{
    const struct head_field *length = head_field(head, "content-length");

    if (head_field(head, "transfer-encoding"))
        return true;
    for (size_t i = 0; length && i < length->value_len; i++)
        if (length->value[i] != '0')
            return true;
    return false;
}

static bool take_key(const struct head *head, struct service_write *w,
                     struct response *out)
{
    const struct head_field *f = head_field(head, "idempotency-key");
    struct response_faults faults = {0};

    w->request.key[0] = '\0';
    if (!f)
        return true;
    if (f->value_len > 0 && f->value_len <= MAILBOX_KEY_MAX) {
        memcpy(w->request.key, f->value, f->value_len);
        w->request.key[f->value_len] = '\0';
        return true;
    }
    response_fault_add(&faults, "/header/idempotency-key",
                       "expected 1 to %d characters", MAILBOX_KEY_MAX);
    response_problem(out, 400, "invalid_parameter", &faults,
                     "1 parameter of the request is not valid");
    return false;
}

bool service_begin(struct view *view, const char *token,
                   const struct head *head, struct service_write *w,
                   struct response *out)
{
    struct request req;
    struct route_call call;

    *w = (struct service_write){.ticket = 0};
    if (!request_parse(head->target, &req, out) ||
        !route_match(table, ROUTES, view, head->method, &req, &call, out))
        return false;
    assert(call.route->command);
    if (!authorized(head, token)) {
        response_unauthorized(out);
        return false;
    }
    if (has_body(head) && !is_json(head_field(head, "content-type"))) {
        response_problem(out, 415, "json_required", NULL,
                         "the body must be JSON, with the header "
                         "Content-Type: application/json");
        return false;
    }
    return take_key(head, w, out);
}

/* ---- writes: the body ---------------------------------------------------- */

/* Another call of the same table: what the head was checked for still holds. */
static bool match_again(struct view *view, const char *method,
                        const char *target, struct request *req,
                        struct route_call *call, struct response *out)
{
    return request_parse(target, req, out) &&
           route_match(table, ROUTES, view, method, req, call, out);
}

static bool parse_body(const char *body, size_t len, json_t **out,
                       struct response *refusal)
{
    struct response_faults faults = {0};
    struct fault f = {0};
    enum err err;

    *out = NULL;
    if (len == 0)
        return true;
    err = json_load(body, len, out, NULL, &f);
    if (!err)
        return true;
    if (err == ERR_NOMEM) {
        response_json(refusal, 200, NULL); /* 503 */
        return false;
    }
    response_fault_add(&faults, "", "%s", f.text);
    response_problem(refusal, 400, "malformed_json", &faults,
                     "the body is not JSON as it is taken here");
    return false;
}

/* The run that @call names into @w, with its mailbox where it takes commands
 * itself. False: @out says why it takes none. */
static bool find_run(struct view *view, const struct route_call *call,
                     struct service_write *w, struct response *out)
{
    const struct view_run *run;

    view_lock(view);
    run = list_view_run(call, out);
    w->mailbox = run && !w->desk ? run->mailbox : NULL;
    if (run)
        snprintf(w->run, sizeof(w->run), "%s", run->id);
    view_unlock(view);
    if (run && !w->desk && !w->mailbox)
        response_problem(out, 409, "run_ended", NULL,
                         "run %s takes no commands", w->run);
    return run && (w->desk || w->mailbox);
}

static bool post_to_run(struct service_write *w, int wake_fd,
                        struct response *out)
{
    switch (mailbox_post(w->mailbox, &w->request, wake_fd, &w->ticket)) {
    case ERR_OK:
        return true;
    case ERR_EXIST:
        response_problem(out, 422, "key_used", NULL,
                         "this Idempotency-Key came with another request "
                         "before");
        return false;
    case ERR_BUSY:
        response_problem(out, 409, "key_in_use", NULL,
                         "the first request with this Idempotency-Key is not "
                         "answered yet");
        return false;
    default:
        response_problem(out, 503, "busy", NULL,
                         "%d commands wait for the run; try again",
                         MAILBOX_SLOTS);
        return false;
    }
}

static bool post_to_desk(struct service_write *w, const struct route_call *call,
                         const char *target, const char *body, size_t len,
                         int wake_fd, struct response *out)
{
    struct desk_request r = {.command = w->request.command, .len = len};
    enum err err;

    submit_fill(call, &r);
    snprintf(r.run, sizeof(r.run), "%s", w->run);
    snprintf(r.key, sizeof(r.key), "%s", w->request.key);
    r.body = mem_alloc(len + 1);
    r.target = mem_strdup(target);
    if (!r.body || !r.target) {
        desk_request_deinit(&r);
        response_json(out, 200, NULL); /* 503 */
        return false;
    }
    memcpy(r.body, body, len);
    r.body[len] = '\0';
    err = desk_post(w->desk, &r, wake_fd, &w->ticket);
    desk_request_deinit(&r);
    if (err)
        response_problem(out, 503, "busy", NULL,
                         "%d requests wait for the service; try again",
                         DESK_SLOTS);
    return !err;
}

static bool post(struct view *view, const char *method, const char *target,
                 const char *body, size_t len, int wake_fd,
                 struct service_write *w, struct response *out)
{
    char key[MAILBOX_KEY_MAX + 1];
    struct route_call call;
    struct request req;
    json_t *json;
    bool ok;

    if (!match_again(view, method, target, &req, &call, out) ||
        !parse_body(body, len, &json, out))
        return false;
    memcpy(key, w->request.key, sizeof(key));
    ok = call.route->command(&call, json, &w->request, out);
    json_decref(json);
    if (!ok)
        return false;
    memcpy(w->request.key, key, sizeof(key));
    w->desk = view_options(view)->desk;
    if (w->request.command == COMMAND_DELETE) /* listed or not */
        snprintf(w->run, sizeof(w->run), "%s", route_arg(&call, "run")->text);
    else if (w->request.command != COMMAND_SUBMIT &&
             w->request.command != COMMAND_VALIDATE &&
             !find_run(view, &call, w, out))
        return false;
    return w->desk ? post_to_desk(w, &call, target, body, len, wake_fd, out)
                   : post_to_run(w, wake_fd, out);
}

bool service_write(struct view *view, const char *method, const char *target,
                   const char *body, size_t len, int wake_fd,
                   struct service_write *w, struct response *out)
{
    bool posted = post(view, method, target, body, len, wake_fd, w, out);

    /* What a desk is given is the text; who was refused keeps nothing. */
    mailbox_request_deinit(&w->request);
    return posted;
}

/* ---- writes: the answer -------------------------------------------------- */

bool service_collect(struct service_write *w, struct response *out)
{
    struct tuner_answer answer;

    assert(w->ticket);
    if (w->desk) {
        if (desk_collect(w->desk, w->ticket, out) == ERR_AGAIN)
            return false;
        w->ticket = 0;
        return true;
    }
    if (mailbox_collect(w->mailbox, w->ticket, &answer) == ERR_AGAIN)
        return false;
    w->ticket = 0;
    command_respond(w->run, &w->request, &answer, out);
    mem_free(answer.value);
    return true;
}

void service_forget(struct service_write *w)
{
    if (w->ticket && w->desk)
        desk_forget(w->desk, w->ticket);
    else if (w->ticket)
        mailbox_forget(w->mailbox, w->ticket);
    w->ticket = 0;
}
