#include "api/service.h"

#include "api/about_routes.h"
#include "api/history_routes.h"
#include "api/page.h"
#include "api/route.h"
#include "api/run_routes.h"

#include <string.h>

static void handle_index(const struct route_call *call, struct response *out);

/* clang-format off */
#define RUN_PARAM                                                              \
    {.type = PARAM_ID, .name = "run", .help = "the run's id"}
#define BRANCH_PARAM                                                           \
    {.type = PARAM_INT, .name = "branch", .help = "number of the branch",      \
     .min = 0, .max = UINT32_MAX - 1}

static const struct route_param page_params[] = {
    PAGE_PARAMS, {.type = PARAM_END}};
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
static const struct route_param epochs_params[] = {
    RUN_PARAM, PAGE_PARAMS,
    {.type = PARAM_BOOL, .name = "surviving",
     .help = "only epochs of the surviving lineage (true) or of losers"},
    {.type = PARAM_END}};

static const struct route table[] = {
    {"GET", "/runs", ROUTE_API, page_params, handle_runs, "all runs"},
    {"GET", "/runs/{run}", ROUTE_API, run_params, handle_run,
     "a run: status, loss, best epoch, setting in use"},
    {"GET", "/runs/{run}/trials", ROUTE_API, trials_params, handle_trials,
     "settings tried, with their loss traces and speeds"},
    {"GET", "/runs/{run}/trials/{trial}", ROUTE_API, trial_params,
     handle_trial, "one trial"},
    {"GET", "/runs/{run}/branches", ROUTE_API, branches_params,
     handle_branches, "versions of the training state"},
    {"GET", "/runs/{run}/branches/{branch}", ROUTE_API, branch_params,
     handle_branch, "one branch"},
    {"GET", "/runs/{run}/branches/{branch}/progress", ROUTE_API,
     progress_params, handle_progress, "a branch's loss by clock"},
    {"GET", "/runs/{run}/schedule", ROUTE_API, run_page_params,
     handle_schedule, "which setting was used from which clock"},
    {"GET", "/runs/{run}/slices", ROUTE_API, run_page_params, handle_slices,
     "which branch ran at which clocks; the latest"},
    {"GET", "/runs/{run}/epochs", ROUTE_API, epochs_params, handle_epochs,
     "loss and metric at the end of each epoch"},
    {"GET", "/runs/{run}/searches", ROUTE_API, run_page_params,
     handle_searches, "rounds of trials"},
    {"GET", "/runs/{run}/decisions", ROUTE_API, run_page_params,
     handle_decisions, "why each thing was done; the latest"},
    {"GET", "/searchers", ROUTE_API, page_params, handle_searchers,
     "searchers, with the schema of their settings"},
    {"GET", "/strategies", ROUTE_API, page_params, handle_strategies,
     "strategies, with the schema of their settings"},
    {"GET", "/apps", ROUTE_API, page_params, handle_apps,
     "training applications, with the schema of their settings"},
    {"GET", "/schema", ROUTE_API, NULL, handle_schema,
     "JSON schema of the configuration"},
    {"GET", "/healthz", ROUTE_API | ROUTE_ROOT, NULL, handle_healthz,
     "answers while the process lives"},
    {"GET", "/readyz", ROUTE_API | ROUTE_ROOT, NULL, handle_readyz,
     "503 once the process is about to end"},
    {"GET", "/version", ROUTE_API | ROUTE_ROOT, NULL, handle_version,
     "version of the program and of this interface"},
    {"GET", "", ROUTE_API, NULL, handle_index, "this list"},
    {"GET", "", ROUTE_ROOT, NULL, handle_page, "status page"},
    {"GET", "/status.js", ROUTE_ROOT, NULL, handle_page_js,
     "the status page's script"},
    {"GET", "/status.css", ROUTE_ROOT, NULL, handle_page_css,
     "the status page's style"},
};
/* clang-format on */

enum { ROUTES = sizeof(table) / sizeof(table[0]) };

static void handle_index(const struct route_call *call, struct response *out)
{
    (void)call;
    response_json(out, 200,
                  json_pack("{s:o}", "routes", routes_to_json(table, ROUTES)));
}

bool service_accept(const struct head *head, const struct listen_address *self,
                    struct response *out)
{
    return guard_check(head, self, out);
}

void service_respond(struct view *view, const char *method, const char *target,
                     struct response *out)
{
    struct request req;

    if (request_parse(target, &req, out))
        route_respond(table, ROUTES, view, method, &req, out);
}
