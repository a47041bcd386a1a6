#include "api/routes/openapi.h"

#include "api/routes/words.h"
#include "base/commands/commands.h"
#include "base/json/fields_schema.h"
#include "base/json/json.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The components that are no body and no answer of a route. */
static const char components[] =
    "{\"securitySchemes\": {\"token\": {\"type\": \"http\", \"scheme\": "
    "\"bearer\", \"description\": \"the file `token` of the state folder, or a "
    "named token whose role is at least the one that a route names: read, run, "
    "admin\"}},"
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
    "\"detail\": {\"type\": \"string\"}}}}}}}}";

static const char tags[] =
    "[{\"name\": \"runs\", \"description\": \"runs: what they do, and "
    "what is asked of them\"}, {\"name\": \"tables\", \"description\": "
    "\"rows of the parameter server\"}, {\"name\": \"data\", "
    "\"description\": \"the service's data folder\"}, {\"name\": "
    "\"server\", \"description\": \"the server, and what is built "
    "in\"}]";

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
    if (array && writes(route) && !route->command->body->media)
        failed |= json_array_append_new(
            array, header_param("Idempotency-Key",
                                "a repetition with the same key gets the first "
                                "answer",
                                COMMAND_KEY_MAX));
    if (array && route->header)
        failed |= json_array_append_new(
            array, header_param(route->header->name, route->header->help,
                                route->header->len_max));
    if (!failed)
        return array;
    json_decref(array);
    return NULL;
}

/* ---- operations ---------------------------------------------------------- */

/* A reference to the schema @name. */
static json_t *schema_ref(const char *name)
{
    char text[96];

    snprintf(text, sizeof(text), "#/components/schemas/%s", name);
    return json_pack("{s:s}", "$ref", text);
}

/* The schema of what is @n characters at @type: events have one of their own, a
 * file has none. NULL: out of memory. */
static json_t *media_type(const struct route *route, const char *type, size_t n)
{
    if (strncmp(type, "text/event-stream", n) == 0)
        return json_pack("{s:o}", "schema", schema_ref("event_stream"));
    if (route->answer && strncmp(type, "application/json", n) == 0)
        return json_pack("{s:o}", "schema", schema_ref(route->answer));
    return json_object();
}

static json_t *content_of(const struct route *route)
{
    const char *types = route->types ? route->types : "application/json";
    json_t *content;

    if (!route->answer && !(route->mount & ROUTE_API))
        return json_pack("{s:{}}", "*/*");
    content = json_object();
    for (size_t n; content && *types; types += n + (types[n] == '|')) {
        n = strcspn(types, "|");
        if (json_object_setn_new(content, types, n,
                                 media_type(route, types, n)) != 0) {
            json_decref(content);
            return NULL;
        }
    }
    return content;
}

static json_t *response_of(const char *meaning, const struct route *route)
{
    return json_pack("{s:s, s:o}", "description", meaning, "content",
                     content_of(route));
}

static json_t *good_responses(const struct route *route)
{
    const struct command *c = route->command;

    if (!writes(route))
        return json_pack("{s:o}", "200", response_of(route->summary, route));
    if (c->status)
        return json_pack("{s:o}", c->status, response_of(c->meaning, route));
    return json_pack("{s:o, s:o}", "200",
                     response_of("done, or there was nothing to do", route),
                     "202", response_of("happens as soon as it can", route));
}

/* Whatever is refused is a problem, by its number or not. */
static json_t *responses_of(const struct route *route)
{
    json_t *o = good_responses(route);
    int failed = o == NULL;

    for (size_t i = 0; !failed && i < 2; i++)
        failed = json_object_set_new(
            o, i == 0 ? "4XX" : "default",
            json_pack("{s:s}", "$ref", "#/components/responses/problem"));
    if (!failed)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *body_of(const struct command_body *body)
{
    const char *type = body->media ? body->media : "application/json";
    json_t *example = body->media ? NULL : json_known(body->example);

    return json_pack("{s:b, s:{s:{s:o, s:o*}}}", "required", body->required,
                     "content", type, "schema", schema_ref(body->name),
                     "example", example);
}

/* The role stands where OpenAPI has one for a scheme that is no OAuth's. What
 * only reads may need no token at all: that is the server's setting. */
static json_t *security_of(const struct route *route)
{
    if (route->role == ROLE_ANYBODY)
        return json_array(); /* none is needed */
    return route->role == ROLE_READ
               ? json_pack("[{s:[s]}, {}]", "token", role_name(route->role))
               : json_pack("[{s:[s]}]", "token", role_name(route->role));
}

/* The group of a path in a reader's list: its first word. */
static const char *tag_of(const struct route *route)
{
    static const char *const groups[][2] = {
        {"/runs", "runs"}, {"/tables", "tables"}, {"/data", "data"}};

    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        if (strncmp(route->path, groups[i][0], strlen(groups[i][0])) == 0)
            return groups[i][1];
    return "server";
}

static json_t *operation_of(const struct route *route)
{
    json_t *o;

    assert(route->operation);
    o = json_pack("{s:s, s:s, s:[s], s:o, s:o, s:o}", "operationId",
                  route->operation, "summary", route->summary, "tags",
                  tag_of(route), "parameters", params_of(route), "responses",
                  responses_of(route), "security", security_of(route));
    if (o && writes(route) &&
        json_object_set_new(o, "requestBody", body_of(route->command->body)) !=
            0) {
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

/* The schema of those arguments of @c that are not in its path. */
static json_t *args_schema(const struct command *c)
{
    json_t *members = json_object(), *required = json_array();
    char variable[32];
    int failed = 0;

    for (const struct json_field *f = c->args; f && f->name; f++) {
        snprintf(variable, sizeof(variable), "{%s}", f->name);
        if (strstr(c->path, variable))
            continue;
        failed |= json_object_set_new(members, f->name, field_schema(f));
        if (!f->optional)
            failed |= json_array_append_new(required, json_string(f->name));
    }
    if (failed) {
        json_decref(members);
        json_decref(required);
        return NULL;
    }
    if (json_array_size(required) == 0) {
        json_decref(required);
        required = NULL;
    }
    return json_pack("{s:s, s:b, s:o, s:o*}", "type", "object",
                     "additionalProperties", 0, "properties", members,
                     "required", required);
}

static json_t *body_schema(const struct command *c)
{
    assert(c->body);
    return c->body->schema ? json_known(c->body->schema) : args_schema(c);
}

static bool add_shapes(json_t *schemas, const struct shape *const shapes[])
{
    int failed = 0;

    for (size_t k = 0; shapes[k]; k++)
        for (const struct shape *s = shapes[k]; s->name; s++) {
            assert(!json_object_get(schemas, s->name)); /* one shape a name */
            failed |= json_object_set_new(schemas, s->name, shape_to_schema(s));
        }
    return !failed;
}

/* Adds the schemas of all bodies, answers, events and words to @schemas. @of
 * the configuration is what this server goes by, where it has one. */
static bool add_schemas(json_t *schemas, const struct route table[], size_t n,
                        const struct shape *const shapes[], const json_t *of)
{
    int failed = 0;

    for (size_t i = 0; i < n; i++) {
        const struct command *c = table[i].command;

        if (c && c->body)
            failed |=
                json_object_set_new(schemas, c->body->name, body_schema(c));
    }
    if (of)
        failed |=
            json_object_set_new(schemas, "configuration", json_copied(of));
    return !failed && add_shapes(schemas, shapes) && words_add(schemas);
}

static json_t *all_components(const struct route table[], size_t n,
                              const struct shape *const shapes[],
                              const json_t *configuration)
{
    json_t *o = json_known(components);

    if (o && add_schemas(json_object_get(o, "schemas"), table, n, shapes,
                         configuration))
        return o;
    json_decref(o);
    return NULL;
}

json_t *openapi_document(const struct route table[], size_t n,
                         const struct shape *const shapes[],
                         const json_t *configuration)
{
    json_t *paths = json_object();

    assert(n > 0 && shapes);
    for (size_t i = 0; paths && i < n; i++) {
        if (add_route(paths, &table[i]) != 0) {
            json_decref(paths);
            paths = NULL;
        }
    }
    return json_pack(
        "{s:s, s:{s:s, s:s, s:s, s:s, s:{s:s, s:s}}, s:[{s:s}], s:o*, s:o, "
        "s:o}",
        "openapi", "3.1.0", "info", "title", "mltune", "version", MLT_VERSION,
        "summary", "what a run of mltune does, and how it is steered",
        "description",
        "A variable of a path, and `run` of a query, is a member of that name "
        "of other answers.",
        "license", "name", "Apache License 2.0", "identifier", "Apache-2.0",
        "servers", "url", "/", "tags", json_known(tags), "paths", paths,
        "components", all_components(table, n, shapes, configuration));
}
