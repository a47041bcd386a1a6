#include "api/routes/routes.h"

#include "api/http/page.h"
#include "api/routes/about_routes.h"
#include "api/routes/command_routes.h"
#include "api/routes/curve_routes.h"
#include "api/routes/history_routes.h"
#include "api/routes/log_io.h"
#include "api/routes/metrics_routes.h"
#include "api/routes/node_routes.h"
#include "api/routes/openapi.h"
#include "api/routes/rows_routes.h"
#include "api/routes/run_routes.h"
#include "api/routes/search_routes.h"
#include "api/routes/stream_routes.h"
#include "api/routes/submit_routes.h"
#include "api/view/view.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

#include <pthread.h>

static route_handler handle_index, handle_openapi;

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
    {.type = PARAM_TEXT, .name = "tag", .help = "only runs with that tag"},
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
    {.type = PARAM_TEXT, .name = "kinds",
     .help = "only events of these kinds, as decision,epoch_ended"},
    {.type = PARAM_END}};
static const struct route_param config_params[] = {
    RUN_PARAM,
    {.type = PARAM_CHOICE, .name = "form",
     .help = "with all defaults filled in, or as it was given",
     .choices = "completed|given"},
    {.type = PARAM_END}};
static const struct route_param export_params[] = {
    RUN_PARAM,
    {.type = PARAM_CHOICE, .name = "format", .help = "what to write",
     .choices = EXPORT_FORMATS},
    {.type = PARAM_END}};
static const struct route_param model_params[] = {
    RUN_PARAM,
    {.type = PARAM_CHOICE, .name = "format",
     .help = "its folder as an archive, or a file of ONNX (mlr, nn)",
     .choices = MODEL_FORMATS},
    {.type = PARAM_END}};
static const struct route_param log_params[] = {
    RUN_PARAM,
    {.type = PARAM_INT, .name = "node", .help = "number of the process",
     .min = 0, .max = LOG_NODES_MAX - 1},
    {.type = PARAM_INT, .name = "offset",
     .help = "first byte; a negative one counts from the end",
     .min = -INT64_C(999999999999999999), .max = INT64_C(999999999999999999),
     .fallback = -LOG_PIECE_DEFAULT},
    {.type = PARAM_INT, .name = "limit", .help = "bytes, at most",
     .min = 1, .max = LOG_PIECE_MAX, .fallback = LOG_PIECE_DEFAULT},
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
    {.type = PARAM_TEXT, .name = "value",
     .help = "a further metric of that name instead of the loss"},
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
static const struct route_param tables_params[] = {
    {.type = PARAM_ID, .name = "run",
     .help = "the run's id; may be left out where there is only one"},
    PAGE_PARAMS, {.type = PARAM_END}};
static const struct route_param web_params[] = {
    {.type = PARAM_TEXT, .name = "file", .help = "a file of the dashboard",
     .choices = "app.js"},
    {.type = PARAM_END}};

/* Stands for the commands on @resource: first those at the path itself, then
 * those with a name behind it. @parameters: of all that have none of their own.
 */
#define COMMANDS_ON(resource, parameters)                                      \
    {.path = resource, .params = parameters}

static const struct route table[] = {
    {"GET", "/runs", "list_runs", ROUTE_API, runs_params, handle_runs, "all runs",
     .answer = "runs"},
    COMMANDS_ON("/runs", NULL),
    {"GET", "/runs/{run}", "get_run", ROUTE_API, run_params, handle_run,
     "a run: status, loss, best epoch, setting in use",
     .answer = "run"},
    COMMANDS_ON("/runs/{run}", run_params),
    COMMANDS_ON("/runs/{run}/notes", run_params),
    {"GET", "/runs/{run}/config", "get_configuration", ROUTE_API, config_params, handle_config,
     "the configuration that a run was begun with",
     .answer = "configuration"},
    {"GET", "/runs/{run}/data", "get_data_summary", ROUTE_API, run_params, handle_data,
     "what the run's training data hold, as the training system says",
     .answer = "data_summary"},
    {"GET", "/runs/{run}/result", "get_result", ROUTE_API, run_params, handle_result,
     "what run --json prints at its end, or would print now",
     .answer = "result"},
    {"GET", "/runs/{run}/trials", "list_trials", ROUTE_API, trials_params, handle_trials,
     "settings tried, with their loss traces and speeds",
     .answer = "trials"},
    {"GET", "/runs/{run}/trials/{trial}", "get_trial", ROUTE_API, trial_params,
     handle_trial, "one trial",
     .answer = "trial"},
    COMMANDS_ON("/runs/{run}/trials", run_params),
    {"GET", "/runs/{run}/search", "get_search", ROUTE_API, run_params, handle_search,
     "what an outside searcher goes by: tunables, what runs, what was found",
     .answer = "search_now"},
    {"GET", "/runs/{run}/suggestions", "list_suggestions", ROUTE_API, run_page_params,
     handle_suggestions, "settings that were suggested, and their trials",
     .answer = "suggestions"},
    {"GET", "/runs/{run}/suggestions/{suggestion}", "get_suggestion", ROUTE_API,
     suggestion_params, handle_suggestion, "one suggestion",
     .answer = "suggestion"},
    {"GET", "/runs/{run}/branches", "list_branches", ROUTE_API, branches_params,
     handle_branches, "versions of the training state",
     .answer = "branches"},
    {"GET", "/runs/{run}/branches/{branch}", "get_branch", ROUTE_API, branch_params,
     handle_branch, "one branch",
     .answer = "branch"},
    COMMANDS_ON("/runs/{run}/branches/{branch}", branch_params),
    {"GET", "/runs/{run}/branches/{branch}/progress", "get_progress", ROUTE_API,
     progress_params, handle_progress, "a branch's loss by clock",
     .answer = "progress"},
    {"GET", "/runs/{run}/schedule", "list_schedule", ROUTE_API, run_page_params,
     handle_schedule, "which setting was used from which clock",
     .answer = "schedule"},
    {"GET", "/runs/{run}/slices", "list_slices", ROUTE_API, run_page_params, handle_slices,
     "which branch ran at which clocks; the latest",
     .answer = "slices"},
    {"GET", "/runs/{run}/epochs", "list_epochs", ROUTE_API, epochs_params, handle_epochs,
     "loss and metric at the end of each epoch",
     .answer = "epochs"},
    {"GET", "/runs/{run}/searches", "list_searches", ROUTE_API, run_page_params,
     handle_searches, "rounds of trials",
     .answer = "searches"},
    {"GET", "/runs/{run}/decisions", "list_decisions", ROUTE_API, run_page_params,
     handle_decisions, "why each thing was done; the latest",
     .answer = "decisions"},
    {"GET", "/runs/{run}/curve", "get_curve", ROUTE_API, curve_params, handle_curve,
     "the whole run's loss by clock, decimated",
     .answer = "curve"},
    {"GET", "/runs/{run}/survey", "get_survey", ROUTE_API, survey_params, handle_survey,
     "settings and speeds of all trials as columns, thinned out",
     .answer = "survey"},
    {"GET", "/runs/{run}/tree", "get_tree", ROUTE_API, tree_params, handle_tree,
     "the branches that matter most, with their ancestors",
     .answer = "tree"},
    {"GET", "/runs/{run}/nodes", "list_nodes", ROUTE_API, run_page_params, handle_nodes,
     "the training nodes: memory, time, traffic, staleness of reads", .answer = "nodes"},
    {"GET", "/runs/{run}/traffic", "get_traffic", ROUTE_API, traffic_params, handle_traffic,
     "bytes between the nodes and memory over time, by node", .answer = "traffic"},
    {"GET", "/runs/{run}/export", "export_run", ROUTE_API, export_params, handle_export,
     "the run for other programs: one file, or a tar archive of several",
     .answer = NULL, .types = EXPORT_TYPES},
    {"GET", "/runs/{run}/model", "download_model", ROUTE_API, model_params, handle_model,
     "the model that a run has written",
     .answer = NULL, .types = MODEL_TYPES},
    {"GET", "/runs/{run}/log", "get_log", ROUTE_API, log_params, handle_log,
     "what the training system wrote to stdout and stderr, a piece of it",
     .answer = NULL, .types = LOG_TYPES},
    {"GET", "/runs/{run}/events", "follow_events", ROUTE_API, events_params, handle_events,
     "live events: server-sent, or polled",
     .answer = "polled_events", .types = EVENTS_TYPES, .header = &events_header},
    {"GET", "/tables", "list_tables", ROUTE_API, tables_params, handle_tables,
     "tables of the parameter server",
     .answer = "tables"},
    COMMANDS_ON("/tables/{table}/rows/{row}", NULL),
    COMMANDS_ON("/data", NULL),
    COMMANDS_ON("/data/{upload}", uploaded_params),
    {"GET", "/searchers", "list_searchers", ROUTE_API, page_params, handle_searchers,
     "searchers, with the schema of their settings",
     .answer = "searchers"},
    {"GET", "/strategies", "list_strategies", ROUTE_API, page_params, handle_strategies,
     "strategies, with the schema of their settings",
     .answer = "strategies"},
    {"GET", "/apps", "list_apps", ROUTE_API, page_params, handle_apps,
     "training applications, with the schema of their settings",
     .answer = "apps"},
    {"GET", "/schema", "get_schema", ROUTE_API, NULL, handle_schema,
     "JSON schema of the configuration", .answer = NULL},
    {"GET", "/me", "get_me", ROUTE_API, NULL, handle_me,
     "who asks, and in which role",
     .answer = "me", .role = ROLE_ANYBODY},
    {"GET", "/healthz", "get_health", ROUTE_API | ROUTE_ROOT, NULL, handle_healthz,
     "answers while the process lives",
     .answer = "health", .role = ROLE_ANYBODY},
    {"GET", "/readyz", "get_readiness", ROUTE_API | ROUTE_ROOT, NULL, handle_readyz,
     "503 once the process is about to end",
     .answer = "health", .role = ROLE_ANYBODY},
    {"GET", "/version", "get_version", ROUTE_API | ROUTE_ROOT, NULL, handle_version,
     "version of the program and of this interface",
     .answer = "version", .role = ROLE_ANYBODY},
    {"GET", "/openapi.json", "get_openapi", ROUTE_API | ROUTE_ROOT, NULL, handle_openapi,
     "this interface as OpenAPI 3.1", .answer = NULL},
    {"GET", "/metrics", "get_metrics", ROUTE_ROOT, NULL, handle_metrics,
     "figures for Prometheus", .answer = NULL},
    {"GET", "", "list_routes", ROUTE_API, NULL, handle_index, "this list", .answer = "index"},
    {"GET", "", "get_page", ROUTE_ROOT, NULL, handle_page, "the dashboard", .answer = NULL,
     .role = ROLE_ANYBODY},
    {"GET", "/web/{file}", "get_page_file", ROUTE_ROOT, web_params, handle_web,
     "a part of the dashboard", .answer = NULL, .role = ROLE_ANYBODY},
};
/* clang-format on */

static const struct shape index_shapes[] = {
    {"index", "routes:[listed_route]"},
    {"listed_route", "method:s path:s summary:s parameters:a"},
    {NULL, NULL},
};

/* The shapes of all answers. */
static const struct shape *const shapes[] = {
    run_shapes,     history_shapes, search_shapes, curve_shapes, survey_shapes,
    tree_shapes,    rows_shapes,    node_shapes,   about_shapes, submit_shapes,
    command_shapes, stream_shapes,  index_shapes,  NULL};

/* ---- all of them --------------------------------------------------------- */

enum { ROUTES_MAX = sizeof(table) / sizeof(table[0]) + COMMAND_COUNT };

static struct route all[ROUTES_MAX];
static size_t all_len;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void add_commands(const struct route *on)
{
    for (int with_name = 0; with_name < 2; with_name++)
        for (enum command_id id = 0; id < COMMAND_COUNT; id++) {
            const struct command *c = command_of(id);

            if (!command_is_on(c, on->path) ||
                (strchr(c->path, ':') != NULL) != with_name)
                continue;
            assert(all_len < ROUTES_MAX);
            all[all_len++] = command_route(id, on->params);
        }
}

static void fill(void)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (!table[i].method) {
            add_commands(&table[i]);
            continue;
        }
        assert(all_len < ROUTES_MAX && table[i].handle);
        all[all_len] = table[i];
        /* A row says so where it is for others than those who may read. */
        if (table[i].role == ROLE_UNSET)
            all[all_len].role = ROLE_READ;
        all_len++;
    }
}

const struct route *routes_all(size_t *n)
{
    assert(n);
    pthread_once(&once, fill);
    *n = all_len;
    return all;
}

/* The text of @json (transferred); NULL: no memory. */
static char *text_of(json_t *json)
{
    char *text = json ? json_write(json, 0) : NULL;

    json_decref(json);
    return text;
}

static char *index_text(const struct view *view)
{
    size_t n;
    const struct route *routes = routes_all(&n);

    (void)view; /* it is the same for all */
    return text_of(json_pack("{s:o}", "routes", routes_to_json(routes, n)));
}

static char *openapi_text(const struct view *view)
{
    size_t n;
    const struct route *routes = routes_all(&n);

    return text_of(
        openapi_document(routes, n, shapes, view_options(view)->schema));
}

/* Answers with a text that the view keeps: it says the same to all. */
static void respond_kept(const struct route_call *call, enum view_text which,
                         char *(*make)(const struct view *),
                         struct response *out)
{
    const char *text = view_text(call->view, which, make);

    if (text)
        response_static(out, "application/json", text, strlen(text));
    else
        response_json(out, 200, NULL); /* 503 */
}

static void handle_index(const struct route_call *call, struct response *out)
{
    respond_kept(call, VIEW_ROUTES, index_text, out);
}

static void handle_openapi(const struct route_call *call, struct response *out)
{
    respond_kept(call, VIEW_OPENAPI, openapi_text, out);
}
