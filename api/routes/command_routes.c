#include "api/routes/command_routes.h"

#include "api/http/value.h"
#include "api/routes/rows_routes.h"
#include "api/routes/submit_routes.h"
#include "base/json/fields.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const struct shape command_shapes[] = {
    {"stop", "target_loss:n? target_metric:n? plateau_epochs:i max_epochs:i "
             "max_time:n?"},
    {"answer",
     "{\"type\": \"object\", \"required\": [\"run\", \"command\", "
     "\"changed\", \"message\", \"stop\"], \"properties\": {\"run\": "
     "{\"type\": \"string\"}, \"command\": {\"$ref\": "
     "\"#/components/schemas/command\"}, "
     "\"changed\": {\"type\": \"boolean\"}, \"message\": {\"type\": "
     "\"string\"}, \"stop\": {\"type\": [\"object\", \"null\"]}, "
     "\"branch\": {\"type\": [\"integer\", \"null\"], \"description\": "
     "\"that a fork has made\"}, \"suggestions\": {\"type\": \"array\", "
     "\"items\": {\"type\": \"integer\"}, \"description\": \"numbers of "
     "what was suggested, in its order\"}}}"},
    {NULL, NULL},
};

/* ---- bodies -------------------------------------------------------------- */

static bool refuse_body(const struct response_faults *faults,
                        struct response *out)
{
    assert(faults->len > 0);
    response_problem(out, 422, "invalid_body", faults,
                     "%zu part%s of the body %s not valid", faults->len,
                     faults->len == 1 ? "" : "s",
                     faults->len == 1 ? "is" : "are");
    return false;
}

/* @pointer with "/@name" behind it, which may be "" as any member's of JSON;
 * NULL:
 * @pointer itself. */
static void fault_at(struct response_faults *faults, const char *pointer,
                     const char *name, const char *text)
{
    char at[JSON_POINTER_MAX];

    assert(text[0]);
    snprintf(at, sizeof(at), "%s", pointer);
    if (name)
        json_pointer_push(at, name);
    response_fault_add(faults, at, "%s", text);
}

/* True for an argument that stands in the path, as "{name}". */
static bool is_in_path(const struct route *route, const char *name)
{
    char variable[32];

    snprintf(variable, sizeof(variable), "{%s}", name);
    return strstr(route->path, variable) != NULL;
}

/* The argument @name that a body may have; NULL. */
static const struct json_field *find_arg(const struct route *route,
                                         const char *name)
{
    const struct json_field *f = route->command->args;

    for (; f && f->name; f++)
        if (strcmp(f->name, name) == 0 && !is_in_path(route, name))
            return f;
    return NULL;
}

static void unknown_arg(const struct route *route, const char *name,
                        struct response_faults *faults)
{
    char text[256] = "";
    size_t n = 0;

    for (const struct json_field *f = route->command->args; f && f->name; f++)
        if (!is_in_path(route, f->name) && n < sizeof(text))
            n += (size_t)snprintf(
                text + n, sizeof(text) - n, "%s%s",
                n ? ", " : "unknown; what may be said: ", f->name);
    fault_at(faults, "", name, n ? text : "unknown; there are no members here");
}

/* Reads one argument from @object, that has it, or has not. Errors: ERR_NOMEM.
 */
static enum err take_arg(const json_t *object, const struct json_field *arg,
                         union command_args *args,
                         struct response_faults *faults)
{
    const struct json_field one[] = {*arg, {.name = NULL}};
    size_t said = strlen(arg->name) + 2; /* "name: " */
    struct fault fault = {0};
    enum err err = fields_get(object, one, args, NULL, &fault);

    assert(arg->name);
    if (err == ERR_FORMAT)
        fault_at(faults, "", arg->name, fault.text + said);
    return err == ERR_NOMEM ? err : ERR_OK;
}

/* Reads one argument from the path. Errors: ERR_NOMEM. */
static enum err take_arg_of_path(const struct route_call *call,
                                 const struct json_field *arg,
                                 union command_args *args,
                                 struct response_faults *faults)
{
    json_t *object = json_pack("{s:I}", arg->name,
                               (json_int_t)route_arg(call, arg->name)->number);
    enum err err = object ? take_arg(object, arg, args, faults) : ERR_NOMEM;

    assert(call->route->command);
    json_decref(object);
    return err;
}

/* Takes a command's arguments by its table: from the path, or the body. Errors:
 * ERR_NOMEM. */
static enum err take_args(const struct route_call *call, const json_t *body,
                          union command_args *args,
                          struct response_faults *faults)
{
    const struct route *route = call->route;
    const struct json_field *f = route->command->args;
    enum err err = ERR_OK;
    const char *name;
    json_t *value;

    if (body && !json_is_object(body))
        fault_at(faults, "", NULL, "expected an object, {}, or no body");
    json_object_foreach((json_t *)body, name, value)
    {
        const struct json_field *arg = find_arg(route, name);

        if (!arg)
            unknown_arg(route, name, faults);
        else if (!err)
            err = take_arg(body, arg, args, faults);
    }
    for (; f && f->name && !err; f++)
        if (is_in_path(route, f->name))
            err = take_arg_of_path(call, f, args, faults);
        else if (!json_object_get(body, f->name)) /* it may be needed */
            err = take_arg(body, f, args, faults);
    return err;
}

/* Refuses what take_args found. */
static bool taken(enum err err, const struct response_faults *faults,
                  struct response *out)
{
    assert(faults);
    if (err)
        response_json(out, 200, NULL); /* 503 */
    return !err && (faults->len == 0 || refuse_body(faults, out));
}

static bool take_plain(const struct route_call *call, const json_t *body,
                       struct mailbox_request *request, struct response *out)
{
    struct response_faults faults;

    faults.len = 0; /* its items, 11 KB, need no clearing */
    return taken(take_args(call, body, &request->args, &faults), &faults, out);
}

/* The tunables themselves are the run's to check. */
static bool take_fork(const struct route_call *call, const json_t *body,
                      struct mailbox_request *request, struct response *out)
{
    struct response_faults faults;
    struct command_fork *fork = &request->args.fork;
    enum err err;

    assert(request->command == COMMAND_FORK);
    faults.len = 0; /* its items, 11 KB, need no clearing */
    err = take_args(call, body, &request->args, &faults);
    if (fork->epochs && fork->clocks)
        fault_at(&faults, "/clocks", NULL, "epochs or clocks, not both");
    if (!fork->clocks && !fork->epochs)
        fork->epochs = 1;
    return taken(err, &faults, out);
}

/* ---- suggestions --------------------------------------------------------- */

/* The tunables themselves are the run's to check. */
static void take_suggestions(json_t *settings, const char *pointer,
                             struct command_suggest *to,
                             struct response_faults *faults)
{
    char *text = settings ? json_write(settings, 0) : NULL;

    if (!text || strlen(text) >= sizeof(to->settings))
        fault_at(faults, pointer, NULL, "it is too long");
    else
        memcpy(to->settings, text, strlen(text) + 1);
    mem_free(text);
}

static void take_one(json_t *setting, struct command_suggest *to,
                     struct response_faults *faults)
{
    json_t *list;

    to->single = true;
    if (!json_is_object(setting)) {
        fault_at(faults, "/setting", NULL,
                 "expected an object of tunables and values");
        return;
    }
    list = json_pack("[O]", setting);
    take_suggestions(list, "/setting", to, faults);
    json_decref(list);
}

static void take_several(json_t *settings, struct command_suggest *to,
                         struct response_faults *faults)
{
    size_t n = json_array_size(settings), before = faults->len;
    char text[96], pointer[32];

    snprintf(text, sizeof(text), "expected an array of 1 to %d settings",
             COMMAND_SUGGESTIONS_MAX);
    if (n < 1 || n > COMMAND_SUGGESTIONS_MAX) {
        fault_at(faults, "/settings", NULL, text);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        snprintf(pointer, sizeof(pointer), "/settings/%zu", i);
        if (!json_is_object(json_array_get(settings, i)))
            fault_at(faults, pointer, NULL,
                     "expected an object of tunables and values");
    }
    if (faults->len == before)
        take_suggestions(settings, "/settings", to, faults);
}

static void take_suggest_member(const char *name, json_t *value,
                                struct command_suggest *to,
                                struct response_faults *faults)
{
    if (strcmp(name, "setting") == 0)
        take_one(value, to, faults);
    else if (strcmp(name, "settings") == 0)
        take_several(value, to, faults);
    else if (strcmp(name, "exhausted") != 0)
        fault_at(faults, "", name,
                 "unknown; what may be said: setting, settings, exhausted");
    else if (!json_is_boolean(value))
        fault_at(faults, "", name, "expected true or false");
    else
        to->exhausted = json_is_true(value);
}

static bool take_suggest(const struct route_call *call, const json_t *body,
                         struct mailbox_request *request, struct response *out)
{
    struct response_faults faults = {0};
    const char *name;
    json_t *value;

    assert(request->command == COMMAND_SUGGEST);
    (void)call;
    json_object_foreach((json_t *)body, name, value)
    {
        take_suggest_member(name, value, &request->args.suggest, &faults);
    }
    if (json_object_get(body, "setting") && json_object_get(body, "settings"))
        fault_at(&faults, "/settings", NULL, "setting or settings, not both");
    else if (faults.len == 0 && !request->args.suggest.settings[0] &&
             !request->args.suggest.exhausted)
        fault_at(&faults, "", NULL,
                 "expected an object such as {\"setting\": "
                 "{\"learning_rate\": 0.003}}, or {\"exhausted\": true}");
    return faults.len == 0 || refuse_body(&faults, out);
}

/* ---- limits -------------------------------------------------------------- */

static bool take_number(const json_t *v, double none, double *out)
{
    *out = json_is_null(v) ? none : json_number_value(v);
    return json_is_null(v) || json_is_number(v);
}

static bool take_count(const json_t *v, json_int_t max, uint32_t *out)
{
    *out = (uint32_t)json_integer_value(v);
    return json_is_integer(v) && json_integer_value(v) >= 1 &&
           json_integer_value(v) <= max;
}

/* As the configuration has it: 1 ms to 1e9 s. */
static bool take_time(const json_t *v, double *out)
{
    *out = INFINITY;
    return json_is_null(v) ||
           (json_to_seconds(v, out) && *out >= 1e-3 && *out <= 1e9);
}

/* One member of `stop`. NULL: taken; else what was expected. */
static const char *take_limit(const char *name, const json_t *v,
                              struct command_limits *l)
{
    if (strcmp(name, "target_loss") == 0) {
        l->set |= LIMIT_TARGET_LOSS;
        return take_number(v, NAN, &l->to.target_loss)
                   ? NULL
                   : "expected a number, or null for none";
    }
    if (strcmp(name, "target_metric") == 0) {
        l->set |= LIMIT_TARGET_METRIC;
        return take_number(v, NAN, &l->to.target_metric)
                   ? NULL
                   : "expected a number, or null for none";
    }
    if (strcmp(name, "max_time") == 0) {
        l->set |= LIMIT_MAX_TIME;
        return take_time(v, &l->to.max_time_s)
                   ? NULL
                   : "expected a time as \"10m\" or a number of seconds, at "
                     "least 0.001, or null for none";
    }
    if (strcmp(name, "plateau_epochs") == 0) {
        l->set |= LIMIT_PLATEAU_EPOCHS;
        return take_count(v, 1000000, &l->to.plateau_epochs)
                   ? NULL
                   : "expected a whole number from 1 to 1000000";
    }
    if (strcmp(name, "max_epochs") == 0) {
        l->set |= LIMIT_MAX_EPOCHS;
        return take_count(v, 1000000000, &l->to.max_epochs)
                   ? NULL
                   : "expected a whole number from 1 to 1000000000";
    }
    return "unknown; what may be changed: target_loss, target_metric, "
           "max_time, plateau_epochs, max_epochs";
}

static void take_stop(const json_t *stop, struct command_limits *l,
                      struct response_faults *faults)
{
    const char *name;
    json_t *value;

    if (!json_is_object(stop))
        fault_at(faults, "/stop", NULL, "expected an object");
    json_object_foreach((json_t *)stop, name, value)
    {
        const char *expected = take_limit(name, value, l);

        if (expected)
            fault_at(faults, "/stop", name, expected);
    }
}

static bool take_limits(const struct route_call *call, const json_t *body,
                        struct mailbox_request *request, struct response *out)
{
    struct response_faults faults = {0};
    const char *name;
    json_t *value;

    assert(request->command == COMMAND_LIMITS);
    (void)call;
    if (!json_is_object(body))
        fault_at(&faults, "", NULL,
                 "expected an object such as {\"stop\": {\"max_epochs\": 50}}");
    json_object_foreach((json_t *)body, name, value)
    {
        if (strcmp(name, "stop") == 0)
            take_stop(value, &request->args.limits, &faults);
        else
            fault_at(&faults, "", name,
                     "unknown; a run that goes on can change its `stop` only");
    }
    return faults.len == 0 || refuse_body(&faults, out);
}

/* ---- routes -------------------------------------------------------------- */

/* The commands with parameters of their own, or with arguments that need more
 * than the table of them says. LIMITS: which members were there at all, null
 * for none, a time as text. SUGGEST: one setting or a list, kept as text. READ
 * and ADD: rows and columns of path and query, with the number of values. */
static const struct {
    const struct route_param *params;
    route_command *take;
} own[COMMAND_COUNT] = {
    [COMMAND_SUBMIT] = {submit_params, take_submission},
    [COMMAND_VALIDATE] = {NULL, take_submission},
    [COMMAND_LIMITS] = {NULL, take_limits},
    [COMMAND_FORK] = {NULL, take_fork},
    [COMMAND_SUGGEST] = {NULL, take_suggest},
    [COMMAND_DELETE] = {NULL, take_delete},
    [COMMAND_NOTE] = {NULL, take_note},
    [COMMAND_READ] = {read_params, take_read},
    [COMMAND_ADD] = {add_params, take_add},
    [COMMAND_UPLOAD] = {upload_params, take_upload},
    [COMMAND_UPLOADED] = {NULL, take_upload},
    [COMMAND_WITHDRAW] = {NULL, take_upload},
    [COMMAND_DATA] = {NULL, take_data},
};

struct route command_route(enum command_id id, const struct route_param *params)
{
    const struct command *c = command_of(id);

    assert(c->method && c->path && c->role != ROLE_UNSET);
    return (struct route){
        .method = c->method,
        .path = c->path,
        .operation = c->operation,
        .mount = ROUTE_API,
        .params = own[id].params ? own[id].params : params,
        .summary = c->summary,
        .answer = c->answer,
        .role = c->role,
        .command = c,
        .take = own[id].take ? own[id].take : take_plain,
    };
}

/* ---- answers ------------------------------------------------------------- */

static json_t *limit(double value)
{
    return isfinite(value) ? value_number(value) : json_null();
}

json_t *command_limits_to_json(const struct record_limits *l)
{
    assert(l);
    if (l->max_epochs == 0)
        return json_null(); /* a journal from before they were in it */
    return json_pack(
        "{s:o, s:o, s:I, s:I, s:o}", "target_loss", limit(l->target_loss),
        "target_metric", limit(l->target_metric), "plateau_epochs",
        (json_int_t)l->plateau_epochs, "max_epochs", (json_int_t)l->max_epochs,
        "max_time", limit(l->max_time_s));
}

struct refusal {
    int status;
    const char *code;
};

static struct refusal refusal_of(enum err err)
{
    assert(err != ERR_OK);
    switch (err) {
    case ERR_CANCELED:
        return (struct refusal){409, "run_ended"};
    case ERR_UNSUPPORTED:
        return (struct refusal){409, "not_supported"};
    case ERR_NOENT:
        return (struct refusal){404, "branch_not_found"};
    case ERR_EXHAUSTED:
        return (struct refusal){409, "search_over"};
    case ERR_DIVERGED:
        return (struct refusal){409, "diverged"};
    case ERR_LIMIT:
        return (struct refusal){409, "limit_reached"};
    case ERR_NOMEM:
        return (struct refusal){503, "nomem"};
    case ERR_INVAL:
        return (struct refusal){422, "invalid_body"};
    case ERR_PROTO:
        return (struct refusal){502, "bad_answer"};
    default:
        return (struct refusal){409, "not_yet"};
    }
}

static void respond_refusal(enum command_id command,
                            const struct tuner_answer *answer,
                            struct response *out)
{
    struct refusal r = refusal_of(answer->err);
    struct response_faults faults;

    faults.len = 0; /* its items, 11 KB, need no clearing */
    if (command == COMMAND_ADD && answer->err == ERR_UNSUPPORTED)
        r.code = "branch_read_only";

    for (uint32_t i = 0; i < answer->faults; i++)
        response_fault_add(&faults, answer->fault[i].pointer, "%s",
                           answer->fault[i].text);
    if (answer->err == ERR_INVAL && faults.len)
        refuse_body(&faults, out);
    else
        response_problem(out, r.status, r.code, NULL, "%s", answer->text);
}

/* Their numbers, in the order in which they were given. */
static json_t *suggestions_to_json(const struct tuner_answer *answer)
{
    json_t *a = json_array();

    for (uint32_t i = 0; a && i < answer->suggestions; i++)
        if (json_array_append_new(a, json_integer(answer->suggestion + i))) {
            json_decref(a);
            return NULL;
        }
    return a;
}

void command_respond(const char *run, const struct mailbox_request *request,
                     const struct tuner_answer *answer, struct response *out)
{
    bool later = answer->changed && request->command != COMMAND_LIMITS;

    assert(run[0] && request->command < COMMAND_COUNT);
    if (answer->err) {
        respond_refusal(request->command, answer, out);
        return;
    }
    if (request->command == COMMAND_READ || request->command == COMMAND_ADD) {
        rows_respond(run, request, answer, out);
        return;
    }
    response_json(
        out, later ? 202 : 200,
        json_pack("{s:s, s:s, s:b, s:o, s:o, s:o, s:o}", "run", run, "command",
                  command_of(request->command)->name, "changed",
                  answer->changed, "message", value_text(answer->text), "stop",
                  command_limits_to_json(&answer->limits), "branch",
                  answer->branch == BRANCH_NONE ? json_null()
                                                : json_integer(answer->branch),
                  "suggestions", suggestions_to_json(answer)));
}
