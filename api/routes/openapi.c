#include "api/routes/openapi.h"

#include "api/routes/command_routes.h"
#include "api/routes/event_routes.h"
#include "api/routes/openapi_answers.h"
#include "api/routes/rows_routes.h"
#include "api/routes/submit_routes.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* What the table does not say; references lead here. */
static const char components[] =
    "{\"securitySchemes\": {\"token\": {\"type\": \"http\", \"scheme\": "
    "\"bearer\", \"description\": \"the file `token` of the state folder\"}},"
    "\"responses\": {\"problem\": {\"description\": \"refused, with every "
    "fault\", \"content\": {\"application/problem+json\": {\"schema\": "
    "{\"$ref\": \"#/components/schemas/problem\"}}}}},"
    "\"schemas\": {\"problem\": {\"type\": \"object\", \"required\": "
    "[\"type\", \"title\", \"status\", \"code\", \"detail\", \"errors\"], "
    "\"properties\": {\"type\": {\"type\": \"string\"}, \"title\": {\"type\": "
    "\"string\"}, \"status\": {\"type\": \"integer\"}, \"code\": {\"type\": "
    "\"string\"}, \"detail\": {\"type\": \"string\"}, \"errors\": {\"type\": "
    "\"array\", \"items\": {\"type\": \"object\", \"required\": [\"pointer\", "
    "\"detail\"], \"properties\": {\"pointer\": {\"type\": \"string\"}, "
    "\"detail\": {\"type\": \"string\"}}}}}},"
    "\"nothing\": {\"type\": \"object\", \"additionalProperties\": false},"
    "\"limits\": {\"type\": \"object\", \"additionalProperties\": false, "
    "\"properties\": {\"stop\": {\"type\": \"object\", "
    "\"additionalProperties\": false, \"properties\": {"
    "\"target_loss\": {\"type\": [\"number\", \"null\"]}, "
    "\"target_metric\": {\"type\": [\"number\", \"null\"]}, "
    "\"max_time\": {\"type\": [\"number\", \"string\", \"null\"], "
    "\"description\": \"seconds, or a time as 10m\"}, "
    "\"plateau_epochs\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": "
    "1000000}, "
    "\"max_epochs\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": "
    "1000000000}}}}},"
    "\"fork\": {\"type\": \"object\", \"additionalProperties\": false, "
    "\"properties\": {\"setting\": {\"type\": \"object\", "
    "\"description\": \"tunables in which it differs from the branch\"}, "
    "\"epochs\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": "
    "1000000, \"description\": \"it runs to the end of so many; 1\"}, "
    "\"clocks\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": "
    "1000000000000, \"description\": \"or for so many clocks\"}}},"
    "\"suggest\": {\"type\": \"object\", \"additionalProperties\": false, "
    "\"properties\": {\"setting\": {\"type\": \"object\", "
    "\"description\": \"tunables; those left out have the value in use\"}, "
    "\"settings\": {\"type\": \"array\", \"minItems\": 1, \"maxItems\": "
    "16, \"items\": {\"type\": \"object\"}, \"description\": \"or "
    "several\"}, \"exhausted\": {\"type\": \"boolean\", "
    "\"description\": \"nothing follows: with searcher rest the search ends "
    "when these are tried\"}}},"
    "\"increment\": {\"type\": \"object\", \"required\": [\"values\"], "
    "\"additionalProperties\": false, \"properties\": {\"values\": {\"type\": "
    "\"array\", \"items\": {\"type\": \"number\"}, \"description\": \"a whole "
    "row; with offset, its values from there on: the others are 0\"}, "
    "\"offset\": {\"type\": \"integer\", \"minimum\": 0}, "
    "\"branch\": {\"type\": \"integer\", \"minimum\": 0, \"description\": "
    "\"default: what the run trains\"}}},"
    "\"configuration\": {\"type\": \"object\", \"description\": "
    "\"GET /api/v1/schema has it in full\"},"
    "\"submitted\": {\"type\": \"object\", \"required\": [\"run\", "
    "\"status\", \"config\", \"problems\"], \"properties\": {\"run\": "
    "{\"type\": \"string\"}, \"status\": {\"type\": \"string\"}, "
    "\"config\": {\"type\": \"object\"}, \"problems\": {\"type\": "
    "\"array\"}}},"
    "\"checked\": {\"type\": \"object\", \"required\": [\"valid\", "
    "\"problems\"], \"properties\": {\"valid\": {\"type\": \"boolean\"}, "
    "\"config\": {\"type\": [\"object\", \"null\"]}, \"problems\": "
    "{\"type\": \"array\"}}},"
    "\"answer\": {\"type\": \"object\", \"required\": [\"run\", \"command\", "
    "\"changed\", \"message\", \"stop\"], \"properties\": {\"run\": "
    "{\"type\": \"string\"}, \"command\": {\"type\": \"string\"}, "
    "\"changed\": {\"type\": \"boolean\"}, \"message\": {\"type\": "
    "\"string\"}, \"stop\": {\"type\": [\"object\", \"null\"]}, "
    "\"branch\": {\"type\": [\"integer\", \"null\"], \"description\": "
    "\"that a fork has made\"}, \"suggestions\": {\"type\": \"array\", "
    "\"items\": {\"type\": \"integer\"}, \"description\": \"numbers of "
    "what was suggested, in its order\"}}}}}";

/* ---- parameters ---------------------------------------------------------- */

/* ["a", "b"] of "a|b". */
static json_t *choices_array(const char *choices)
{
    json_t *array = json_array();

    while (array && *choices) {
        size_t n = strcspn(choices, "|");

        if (json_array_append_new(array, json_stringn(choices, n)) != 0) {
            json_decref(array);
            return NULL;
        }
        choices += n + (choices[n] == '|');
    }
    return array;
}

static json_t *schema_of(const struct route_param *p)
{
    switch (p->type) {
    case PARAM_ID:
        return json_pack("{s:s, s:s}", "type", "string", "pattern",
                         "^[a-z0-9-]{1,64}$");
    case PARAM_INT:
        return json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum",
                         (json_int_t)p->min, "maximum", (json_int_t)p->max);
    case PARAM_BOOL:
        return json_pack("{s:s}", "type", "boolean");
    case PARAM_CHOICE:
        return json_pack("{s:s, s:o}", "type", "string", "enum",
                         choices_array(p->choices));
    default:
        if (p->choices) /* one of many */
            return json_pack("{s:s, s:[s]}", "type", "string", "examples",
                             p->choices);
        return json_pack("{s:s}", "type", "string");
    }
}

static json_t *param_of(const struct route *route, const struct route_param *p)
{
    char variable[64];
    bool in_path;

    snprintf(variable, sizeof(variable), "{%s}", p->name);
    in_path = strstr(route->path, variable) != NULL;
    return json_pack("{s:s, s:s, s:b, s:s, s:o}", "name", p->name, "in",
                     in_path ? "path" : "query", "required", in_path,
                     "description", p->help, "schema", schema_of(p));
}

static json_t *header_param(const char *name, const char *help, unsigned length)
{
    return json_pack("{s:s, s:s, s:b, s:s, s:{s:s, s:i, s:i}}", "name", name,
                     "in", "header", "required", false, "description", help,
                     "schema", "type", "string", "minLength", 1, "maxLength",
                     (int)length);
}

/* Others read, also where the run itself has to answer. */
static bool writes(const struct route *route)
{
    return route->command && strcmp(route->method, "GET") != 0;
}

static json_t *params_of(const struct route *route)
{
    json_t *array = json_array();
    int failed = 0;

    for (const struct route_param *p = route->params;
         array && p && p->type != PARAM_END; p++)
        failed |= json_array_append_new(array, param_of(route, p));
    if (array && writes(route))
        failed |= json_array_append_new(
            array, header_param("Idempotency-Key",
                                "a repetition with the same key gets the first "
                                "answer",
                                MAILBOX_KEY_MAX));
    if (array && route->handle == handle_events)
        failed |= json_array_append_new(
            array, header_param("Last-Event-ID",
                                "number of the last event that was read", 18));
    if (!failed)
        return array;
    json_decref(array);
    return NULL;
}

/* ---- operations ---------------------------------------------------------- */

/* The operation's id: "get_runs_run_trials". */
static void operation_id(const struct route *route, char *out, size_t size)
{
    size_t n = 0;

    for (const char *c = route->method; *c && n + 1 < size; c++)
        out[n++] = (char)tolower((unsigned char)*c);
    for (const char *c = route->path; *c && n + 1 < size; c++) {
        if (isalnum((unsigned char)*c))
            out[n++] = *c;
        else if (n > 0 && out[n - 1] != '_')
            out[n++] = '_';
    }
    if (!*route->path && n + 6 < size)
        n += (size_t)snprintf(out + n, size - n,
                              route->mount & ROUTE_API ? "_index" : "_page");
    while (n > 0 && out[n - 1] == '_')
        n--;
    out[n] = '\0';
}

static json_t *content_of(const struct route *route)
{
    const char *slash = strrchr(route->path, '/');
    const char *answer = openapi_answer_of(route);
    char shape[96];

    snprintf(shape, sizeof(shape), "#/components/schemas/%s",
             answer ? answer : "");
    if (answer)
        return json_pack("{s:{s:{s:s}}}", "application/json", "schema", "$ref",
                         shape);
    if (!(route->mount & ROUTE_API))
        return json_pack("{s:{}}", "*/*");
    if (slash && strcmp(slash, "/events") == 0)
        return json_pack("{s:{}, s:{}}", "text/event-stream",
                         "application/json");
    if (slash && strcmp(slash, "/export") == 0)
        return json_pack("{s:{}, s:{}}", "application/x-tar",
                         "application/x-ndjson");
    return json_pack("{s:{}}", "application/json");
}

static json_t *response_of(const char *status, const char *description,
                           const char *schema)
{
    return json_pack("{s:{s:s, s:{s:{s:{s:s}}}}, s:{s:s}}", status,
                     "description", description, "content", "application/json",
                     "schema", "$ref", schema, "default", "$ref",
                     "#/components/responses/problem");
}

static json_t *responses_of(const struct route *route)
{
    static const char problem[] = "#/components/responses/problem";

    if (route->command == command_submit)
        return response_of("201", "the run is in the queue",
                           "#/components/schemas/submitted");
    if (route->command == command_validate)
        return response_of("200", "all that is wrong",
                           "#/components/schemas/checked");

    if (route->command == command_add)
        return response_of("200", "it is in the row",
                           "#/components/schemas/added");
    if (!writes(route))
        return json_pack("{s:{s:s, s:o}, s:{s:s}}", "200", "description",
                         route->summary, "content", content_of(route),
                         "default", "$ref", problem);
    return json_pack("{s:{s:s, s:{s:{s:{s:s}}}}, s:{s:s, s:{s:{s:{s:s}}}}, "
                     "s:{s:s}}",
                     "200", "description", "done, or there was nothing to do",
                     "content", "application/json", "schema", "$ref",
                     "#/components/schemas/answer", "202", "description",
                     "happens as soon as it can", "content", "application/json",
                     "schema", "$ref", "#/components/schemas/answer", "default",
                     "$ref", problem);
}

/* A body that is taken as it is. */
static json_t *example_of(const struct route *route)
{
    if (route->command == command_submit || route->command == command_validate)
        return json_pack(
            "{s:s, s:{s:s, s:s}, s:{s:s, s:i, s:i}}", "name", "digits", "app",
            "name", "mlr", "data", "gen:digits?samples=20000&size=12", "stop",
            "max_time", "1h", "max_epochs", 1000000, "plateau_epochs", 1000000);
    if (route->command == command_limits)
        return json_pack("{s:{s:i}}", "stop", "max_epochs", 2000000);
    if (route->command == command_suggest)
        return json_pack("{s:{s:f}}", "setting", "learning_rate", 0.01);
    if (route->command == command_fork)
        return json_pack("{s:{s:f}, s:i}", "setting", "learning_rate", 0.01,
                         "epochs", 1);
    if (route->command == command_add)
        return json_pack("{s:[f], s:i}", "values", 0.0, "offset", 0);
    return json_object();
}

/* The schema of a write's body, and whether there must be one. */
static const char *body_of(const struct route *route, bool *needed)
{
    *needed = true;
    if (route->command == command_submit || route->command == command_validate)
        return "#/components/schemas/configuration";
    if (route->command == command_limits)
        return "#/components/schemas/limits";
    if (route->command == command_suggest)
        return "#/components/schemas/suggest";
    if (route->command == command_add)
        return "#/components/schemas/increment";
    *needed = false;
    return route->command == command_fork ? "#/components/schemas/fork"
                                          : "#/components/schemas/nothing";
}

static json_t *operation_of(const struct route *route)
{
    char id[128];
    const char *schema;
    bool needed;
    json_t *o;

    operation_id(route, id, sizeof(id));
    o = json_pack("{s:s, s:s, s:o, s:o}", "operationId", id, "summary",
                  route->summary, "parameters", params_of(route), "responses",
                  responses_of(route));
    if (!o || !writes(route))
        return o;
    schema = body_of(route, &needed);
    if (json_object_set_new(o, "security", json_pack("[{s:[]}]", "token")) !=
            0 ||
        json_object_set_new(o, "requestBody",
                            json_pack("{s:b, s:{s:{s:{s:s}, s:o}}}", "required",
                                      needed, "content", "application/json",
                                      "schema", "$ref", schema, "example",
                                      example_of(route))) != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* Adds @route to @paths, by its name under /api/v1 where it has two. */
static int add_route(json_t *paths, const struct route *route)
{
    char path[128], method[16];
    json_t *item;
    size_t i;

    snprintf(path, sizeof(path), "%s%s",
             route->mount & ROUTE_API ? "/api/v1" : "", route->path);
    if (!path[0])
        snprintf(path, sizeof(path), "/");
    for (i = 0; route->method[i] && i + 1 < sizeof(method); i++)
        method[i] = (char)tolower((unsigned char)route->method[i]);
    method[i] = '\0';
    item = json_object_get(paths, path);
    if (!item) {
        if (json_object_set_new(paths, path, json_object()) != 0)
            return -1;
        item = json_object_get(paths, path);
    }
    return json_object_set_new(item, method, operation_of(route));
}

static json_t *all_components(void)
{
    json_t *o = json_loads(components, 0, NULL);

    if (o && openapi_add_answers(json_object_get(o, "schemas")))
        return o;
    json_decref(o);
    return NULL;
}

json_t *openapi_document(const struct route table[], size_t n)
{
    json_t *paths = json_object();

    for (size_t i = 0; paths && i < n; i++) {
        if (add_route(paths, &table[i]) != 0) {
            json_decref(paths);
            paths = NULL;
        }
    }
    return json_pack(
        "{s:s, s:{s:s, s:s, s:s, s:s}, s:[{s:s}], s:o, s:o}", "openapi",
        "3.1.0", "info", "title", "mltune", "version", MLT_VERSION, "summary",
        "what a run of mltune does, and how it is steered", "description",
        "A variable of a path, and `run` of a query, is a member of that name "
        "of "
        "other answers.",
        "servers", "url", "/", "paths", paths, "components", all_components());
}
