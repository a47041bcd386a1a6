#include "api/routes/openapi_answers.h"

#include "api/routes/about_routes.h"
#include "api/routes/curve_routes.h"
#include "api/routes/history_routes.h"
#include "api/routes/rows_routes.h"
#include "api/routes/run_routes.h"
#include "api/routes/search_routes.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define PAGE " next_page_token:s? total:i"

static const struct {
    const char *name, *members;
} shapes[] = {
    {"runs", "runs:[run]" PAGE},
    {"run", "run:s name:s status:s status_reason:s? reason:s? message:s? "
            "queue:o? seed:i? job:@job? clock:i clocks:i epochs:i loss:n? "
            "last_epoch:@epoch_brief? best:@epoch_brief? setting:o? branch:i? "
            "branches:@branch_counts tuning:@tuning stop:@stop? "
            "paused_seconds:n started_at:t? first_clock_at:t? updated_at:t? "
            "finished_at:t?"},
    {"job", "app:s samples:i validation_samples:i workers:i metric:@metric?"},
    {"metric", "name:s higher_is_better:b"},
    {"epoch_brief", "epoch:i loss:n metric:n? clock:i setting:o ended_at:t?"},
    {"branch_counts", "total:i live:i"},
    {"tuning", "strategy:s? searcher:s? searches:i trials:i clocks:i "
               "seconds:n"},
    {"stop", "target_loss:n? target_metric:n? plateau_epochs:i max_epochs:i "
             "max_time:n?"},
    {"trials", "trials:[trial]" PAGE},
    {"trial",
     "trial:i search:i branch:i? suggestion:i? setting:o incumbent:b label:s "
     "ended:b speed:n noise:n range:n seconds:n samples:i clocks:i "
     "points:[trial_point] started_at:t? ended_at:t?"},
    {"trial_point", "seconds:n loss:n"},
    {"branches", "branches:[branch]" PAGE},
    {"branch", "branch:i parent:i? type:s role:s origin:s live:b setting:o "
               "created_clock:i clocks:i samples:i seconds:n points:i "
               "created_at:t? freed_at:t? freed_reason:s?"},
    {"progress", "branch:i lineage:b points:[point] next_after:i"},
    {"point", "branch:i branch_clock:i clock:i elapsed_seconds:n samples:i "
              "clocks:i seconds:n"},
    {"schedule", "schedule:[choice]" PAGE},
    {"choice", "clock:i branch:i setting:o reason:s at:t?"},
    {"slices", "slices:[slice]" PAGE},
    {"slice", "branch:i first_clock:i scheduled_clocks:i report_every:i "
              "clocks:i? scheduled_at:t? ended_at:t?"},
    {"epochs", "epochs:[epoch]" PAGE},
    {"epoch", "epoch:i branch:i surviving:b best:b clock:i loss:n metric:n? "
              "setting:o seconds:n ended_at:t?"},
    {"searches", "searches:[search]" PAGE},
    {"search_now", "run:s status:s strategy:s? searcher:s? state:s reason:s "
                   "asking:s waits:b wanted:i search:i? retune:b tunables:o? "
                   "running:[running_trial] waiting:[waiting_suggestion] "
                   "trials:[tried]"},
    {"running_trial", "trial:i suggestion:i? incumbent:b setting:o"},
    {"waiting_suggestion", "suggestion:i setting:o"},
    {"tried", "trial:i suggestion:i? incumbent:b setting:o outcome:s ended:b "
              "speed:n? noise:n? range:n? seconds:n"},
    {"suggestions", "suggestions:[suggestion]" PAGE},
    {"suggestion", "suggestion:i state:s trial:i? setting:o reason:s "
                   "suggested_at:t? settled_at:t?"},
    {"search", "search:i retune:b tunables:o? parent:i? max_trials:i reason:s "
               "started_at:t? ended_at:t? result:o?"},
    {"decisions", "decisions:[decision]" PAGE},
    {"decision", "number:i decision:s text:s numbers:o clock:i at:t?"},
    {"curve", "from:i to:i spans:i lineage:@curve_part others:@curve_part"},
    {"curve_part", "points:i clock:a seconds:a loss:a branch:a"},
    {"survey", "total:i rows:i columns:o tunables:o"},
    {"tree", "total:i branches:[tree_branch]"},
    {"tree_branch", "branch:i parent:i? type:s role:s live:b surviving:b "
                    "trial:i? setting:o clocks:i"},
    {"tables", "tables:[table]" PAGE},
    {"table", "table:s number:i rows:i width:i type:s access:s update_rule:s? "
              "saved:b"},
    {"rows", "run:s table:s branch:i? offset:i rows:[row]"},
    {"row", "row:i values:a"},
    {"added", "run:s table:s row:i branch:i? changed:b message:s"},
    {"searchers", "searchers:[plugin]" PAGE},
    {"strategies", "strategies:[plugin]" PAGE},
    {"apps", "apps:[plugin]" PAGE},
    {"plugin", "name:s summary:s settings:o"},
    {"health", "status:s"},
    {"version", "name:s version:s api:s"},
};
enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

static const struct {
    route_handler *handle;
    const char *name;
} answers[] = {
    {handle_runs, "runs"},
    {handle_run, "run"},
    {handle_trials, "trials"},
    {handle_trial, "trial"},
    {handle_search, "search_now"},
    {handle_suggestions, "suggestions"},
    {handle_suggestion, "suggestion"},
    {handle_branches, "branches"},
    {handle_branch, "branch"},
    {handle_progress, "progress"},
    {handle_schedule, "schedule"},
    {handle_slices, "slices"},
    {handle_epochs, "epochs"},
    {handle_searches, "searches"},
    {handle_decisions, "decisions"},
    {handle_curve, "curve"},
    {handle_survey, "survey"},
    {handle_tree, "tree"},
    {handle_tables, "tables"},
    {handle_searchers, "searchers"},
    {handle_strategies, "strategies"},
    {handle_apps, "apps"},
    {handle_healthz, "health"},
    {handle_readyz, "health"},
    {handle_version, "version"},
};

const char *openapi_answer_of(const struct route *route)
{
    if (route->command == command_read)
        return "rows";
    for (size_t i = 0; route->handle && i < sizeof(answers) / sizeof(*answers);
         i++)
        if (answers[i].handle == route->handle)
            return answers[i].name;
    return NULL;
}

/* ---- members ------------------------------------------------------------- */

static json_t *reference(const char *shape, size_t len)
{
    char text[96];

    snprintf(text, sizeof(text), "#/components/schemas/%.*s", (int)len, shape);
    return json_pack("{s:s}", "$ref", text);
}

/* The schema of TYPE, @len characters at @type, without its "?". */
static json_t *type_schema(const char *type, size_t len)
{
    switch (type[0]) {
    case 's':
        return json_pack("{s:s}", "type", "string");
    case 't':
        return json_pack("{s:s, s:s}", "type", "string", "format", "date-time");
    case 'i':
        return json_pack("{s:s}", "type", "integer");
    case 'n':
        return json_pack("{s:[{s:s}, {s:[s, s, s]}]}", "anyOf", "type",
                         "number", "enum", "nan", "inf", "-inf");
    case 'b':
        return json_pack("{s:s}", "type", "boolean");
    case 'o':
        return json_pack("{s:s}", "type", "object");
    case 'a':
        return json_pack("{s:s}", "type", "array");
    case '@':
        return reference(type + 1, len - 1);
    default:
        assert(type[0] == '[');
        return json_pack("{s:s, s:o}", "type", "array", "items",
                         reference(type + 1, len - 2));
    }
}

static json_t *member_schema(const char *type, size_t len)
{
    bool may_be_null = type[len - 1] == '?';
    json_t *o = type_schema(type, may_be_null ? len - 1 : len);

    if (!may_be_null)
        return o;
    return json_pack("{s:[o, {s:s}]}", "anyOf", o, "type", "null");
}

static json_t *shape_schema(const char *members)
{
    json_t *required = json_array(), *properties = json_object();
    int failed = 0;

    for (const char *at = members; *at; at += *at == ' ') {
        size_t name = strcspn(at, ":"), whole = strcspn(at, " ");
        char text[64];

        snprintf(text, sizeof(text), "%.*s", (int)name, at);
        failed |= json_array_append_new(required, json_string(text));
        failed |= json_object_set_new(
            properties, text, member_schema(at + name + 1, whole - name - 1));
        at += whole;
    }
    if (!failed)
        return json_pack("{s:s, s:o, s:o}", "type", "object", "required",
                         required, "properties", properties);
    json_decref(required);
    json_decref(properties);
    return NULL;
}

bool openapi_add_answers(json_t *schemas)
{
    for (size_t i = 0; i < SHAPES; i++)
        if (json_object_set_new(schemas, shapes[i].name,
                                shape_schema(shapes[i].members)) != 0)
            return false;
    return true;
}
