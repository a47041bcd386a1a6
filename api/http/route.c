#include "api/http/route.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- finding ------------------------------------------------------------- */

/* A path below its mount. */
struct route_place {
    unsigned mount;
    size_t segments;
    const char *const *segment;
};

static struct route_place place_of(const struct request *req)
{
    struct route_place p = {ROUTE_ROOT, req->segments, req->segment};

    if (p.segments >= 2 && strcmp(p.segment[0], "api") == 0 &&
        strcmp(p.segment[1], "v1") == 0) {
        p.mount = ROUTE_API;
        p.segments -= 2;
        p.segment += 2;
    }
    /* "/api/v1/" is the mount as well. */
    if (p.segments == 1 && p.segment[0][0] == '\0')
        p.segments = 0;
    return p;
}

/* Next "/segment" of the pattern at *@path; false at its end. */
static bool next_part(const char **path, const char **part, size_t *len)
{
    if (**path == '\0')
        return false;
    assert(**path == '/');
    *part = *path + 1;
    *len = strcspn(*part, "/");
    *path = *part + *len;
    return true;
}

/* Length of the name in "{name}" or "{name}:suffix"; 0 for other parts. */
static size_t variable_len(const char *part, size_t len)
{
    const char *end = memchr(part, '}', len);

    return len > 2 && part[0] == '{' && end ? (size_t)(end - part) - 1 : 0;
}

/* True for a @segment that the pattern's part may stand for. */
static bool part_matches(const char *part, size_t len, const char *segment)
{
    size_t name = variable_len(part, len), n;
    size_t suffix = name ? len - name - 2 : 0;

    assert(segment);
    n = strlen(segment);
    if (name == 0)
        return n == len && memcmp(segment, part, len) == 0;
    if (suffix == 0)
        return !strchr(segment, ':');
    return n > suffix &&
           memcmp(segment + n - suffix, part + len - suffix, suffix) == 0;
}

static bool path_matches(const char *path, const struct route_place *place)
{
    const char *part;
    size_t len, i;

    assert(path[0] == '/' || !path[0]);
    if (place->segments > REQUEST_SEGMENTS_MAX)
        return false;
    for (i = 0; next_part(&path, &part, &len); i++) {
        if (i == place->segments)
            return false;
        if (!part_matches(part, len, place->segment[i]))
            return false;
    }
    return i == place->segments;
}

/* Value of the path's "{name}" in @place, without the suffix (then it is in
 * @cut); NULL when the path has none. */
static const char *path_value(const char *path, const struct route_place *place,
                              const char *name, char cut[ROUTE_ID_MAX + 2])
{
    const char *part, *segment;
    size_t len, i;

    for (i = 0; next_part(&path, &part, &len); i++) {
        size_t n = variable_len(part, len);

        if (n == 0 || strlen(name) != n || memcmp(part + 1, name, n) != 0)
            continue;
        segment = place->segment[i];
        assert(segment);
        if (len == n + 2)
            return segment;
        /* One that is too long stays so. */
        snprintf(cut, ROUTE_ID_MAX + 2, "%.*s",
                 (int)(strlen(segment) - (len - n - 2)), segment);
        return cut;
    }
    return NULL;
}

/* ---- parameters ---------------------------------------------------------- */

static bool parse_int(const char *s, int64_t *out)
{
    bool negative = *s == '-';
    int64_t n = 0;
    size_t i;

    s += negative;
    for (i = 0; s[i] >= '0' && s[i] <= '9'; i++) {
        if (i == 18)
            return false;
        n = n * 10 + (s[i] - '0');
    }
    *out = negative ? -n : n;
    return i > 0 && !s[i];
}

static bool parse_id(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-");

    return n > 0 && n <= ROUTE_ID_MAX && !s[n];
}

/* Index of @s in @choices "a|b|c", or -1. */
static int64_t parse_choice(const char *s, const char *choices)
{
    size_t len = strlen(s), n;
    int64_t i;

    for (i = 0; *choices; i++, choices += n + (choices[n] == '|')) {
        n = strcspn(choices, "|");
        if (n == len && memcmp(s, choices, n) == 0)
            return i;
    }
    return -1;
}

static const char *type_name(enum route_param_type type)
{
    static const char *const names[] = {"",        "id",     "integer",
                                        "boolean", "choice", "text"};

    return names[type];
}

static void expected(const struct route_param *p, char *out, size_t size)
{
    switch (p->type) {
    case PARAM_ID:
        snprintf(out, size, "1 to %d of a-z, 0-9 and -", ROUTE_ID_MAX);
        break;
    case PARAM_INT:
        snprintf(out, size, "a whole number from %lld to %lld",
                 (long long)p->min, (long long)p->max);
        break;
    case PARAM_BOOL:
        snprintf(out, size, "true or false");
        break;
    case PARAM_CHOICE:
        snprintf(out, size, "one of %s", p->choices);
        break;
    default:
        snprintf(out, size, "text");
        break;
    }
}

/* Checks arg->text against @p and fills in the number. */
static bool arg_parse(const struct route_param *p, struct route_arg *arg)
{
    assert(arg->text);
    switch (p->type) {
    case PARAM_ID:
        return parse_id(arg->text);
    case PARAM_INT:
        return parse_int(arg->text, &arg->number) && arg->number >= p->min &&
               arg->number <= p->max;
    case PARAM_BOOL:
        arg->number = parse_choice(arg->text, "false|true");
        return arg->number >= 0;
    case PARAM_CHOICE:
        arg->number = parse_choice(arg->text, p->choices);
        return arg->number >= 0;
    default:
        return true;
    }
}

static void check_param(const struct route_param *p, struct route_arg *arg,
                        bool in_path, struct response_faults *faults)
{
    char pointer[64], want[128];

    arg->given = arg->text != NULL;
    arg->number = p->fallback;
    if (!arg->given || arg_parse(p, arg))
        return;
    expected(p, want, sizeof(want));
    snprintf(pointer, sizeof(pointer), "/%s/%s", in_path ? "path" : "query",
             p->name);
    response_fault_add(faults, pointer, "expected %s, found \"%.64s\"", want,
                       arg->text);
}

static bool declares(const struct route *route, const char *name)
{
    const struct route_param *p;

    for (p = route->params; p && p->type != PARAM_END; p++) {
        if (strcmp(p->name, name) == 0)
            return true;
    }
    return false;
}

/* "page_size, order", or "none". */
static const char *query_names(const struct route *route, char *out,
                               size_t size)
{
    const struct route_param *p;
    size_t n = 0;

    out[0] = '\0';
    for (p = route->params; p && p->type != PARAM_END; p++) {
        char variable[64];

        snprintf(variable, sizeof(variable), "{%s}", p->name);
        if (!strstr(route->path, variable) && n < size)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "",
                                  p->name);
    }
    return n ? out : "none";
}

/* Parameters that the route does not know, or that are given twice. */
static void check_query(const struct route *route,
                        const struct route_place *place,
                        const struct request *req,
                        struct response_faults *faults)
{
    size_t i, k;

    for (i = 0; i < req->pairs; i++) {
        const char *name = req->pair[i].name;
        char pointer[96], names[160], cut[ROUTE_ID_MAX + 2];

        snprintf(pointer, sizeof(pointer), "/query/%.64s", name);
        if (!declares(route, name) || path_value(route->path, place, name, cut))
            response_fault_add(faults, pointer,
                               "unknown; the parameters here: %s",
                               query_names(route, names, sizeof(names)));
        for (k = 0; k < i && strcmp(req->pair[k].name, name) != 0; k++)
            ;
        if (k < i)
            response_fault_add(faults, pointer, "given more than once");
    }
}

static bool call_fill(struct route_call *call, const struct route_place *place,
                      const struct request *req, struct response *out)
{
    const struct route *route = call->route;
    struct response_faults faults;
    size_t i;

    assert(route->path);
    faults.len = 0; /* its items, 11 KB, need no clearing */
    for (i = 0; route->params && route->params[i].type != PARAM_END; i++) {
        const struct route_param *p = &route->params[i];
        const char *in_path =
            path_value(route->path, place, p->name, call->cut);

        assert(i < ROUTE_PARAMS_MAX);
        call->arg[i].text = in_path ? in_path : request_query(req, p->name);
        check_param(p, &call->arg[i], in_path != NULL, &faults);
    }
    check_query(route, place, req, &faults);
    if (faults.len == 0)
        return true;
    response_problem(out, 400, "invalid_parameter", &faults,
                     "%zu parameter%s of the request %s not valid", faults.len,
                     faults.len == 1 ? "" : "s",
                     faults.len == 1 ? "is" : "are");
    return false;
}

const struct route_arg *route_arg(const struct route_call *call,
                                  const char *name)
{
    size_t i = 0;

    assert(call->route->params);
    assert(name[0]);
    while (strcmp(call->route->params[i].name, name) != 0) {
        i++;
        assert(call->route->params[i].type != PARAM_END);
    }
    return &call->arg[i];
}

/* ---- answering ----------------------------------------------------------- */

static bool method_is(const struct route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

static void allow_add(struct response *out, const char *method)
{
    size_t n = strlen(out->allow);

    if (strcmp(method, "GET") == 0)
        method = "GET, HEAD";
    if (!strstr(out->allow, method))
        snprintf(out->allow + n, sizeof(out->allow) - n, "%s%s", n ? ", " : "",
                 method);
}

/* The route of @table for @method and @place. NULL: out->allow lists the
 * methods that the path has, "" where there is no such path. */
static const struct route *find(const struct route table[], size_t n,
                                const char *method,
                                const struct route_place *place,
                                struct response *out)
{
    size_t i;

    for (i = 0; i < n; i++) {
        const struct route *route = &table[i];

        if (!(route->mount & place->mount) || !path_matches(route->path, place))
            continue;
        if (method_is(route, method)) {
            out->allow[0] = '\0';
            return route;
        }
        allow_add(out, route->method);
    }
    return NULL;
}

bool route_match(const struct route table[], size_t n, struct view *view,
                 const char *method, const struct request *req,
                 struct route_call *call, struct response *out)
{
    struct route_place place = place_of(req);

    assert(table && n > 0);
    assert(out->status == 0);
    assert(method[0] && req);
    *call = (struct route_call){.view = view};
    call->route = find(table, n, method, &place, out);
    if (!call->route && out->allow[0])
        response_problem(out, 405, "method_not_allowed", NULL,
                         "this path takes %s only", out->allow);
    else if (!call->route)
        response_problem(out, 404, "route_not_found", NULL,
                         "there is no such path; /api/v1 lists all");
    else
        return call_fill(call, &place, req, out);
    return false;
}

enum role route_role(const struct route table[], size_t n, const char *method,
                     const struct request *req)
{
    struct route_place place = place_of(req);
    struct response ignored = {0};
    const struct route *route = find(table, n, method, &place, &ignored);

    assert(table && n > 0);
    assert(ignored.status == 0);
    return route ? route->role : ROLE_READ;
}

bool route_answer(const struct route_call *call, struct response *out)
{
    if (call->route->handle)
        call->route->handle(call, out);
    else if (strcmp(call->route->method, "GET") == 0)
        return false;
    else
        response_unauthorized(out);
    assert(out->status);
    return true;
}

/* ---- the table as data --------------------------------------------------- */

/* The bounds of a value of @p's type. */
static json_t *bounds_to_json(const struct route_param *p)
{
    assert(p->min <= p->max);
    if (p->type == PARAM_INT)
        return json_pack("{s:I, s:I}", "minimum", (json_int_t)p->min, "maximum",
                         (json_int_t)p->max);
    if (p->type == PARAM_CHOICE)
        return json_pack("{s:s}", "choices", p->choices);
    return json_object();
}

static json_t *param_to_json(const struct route *route,
                             const struct route_param *p)
{
    char variable[64];
    bool in_path;
    json_t *json = bounds_to_json(p);
    json_t *more;

    snprintf(variable, sizeof(variable), "{%s}", p->name);
    in_path = strstr(route->path, variable) != NULL;
    more = json_pack("{s:s, s:s, s:s, s:s}", "name", p->name, "in",
                     in_path ? "path" : "query", "type", type_name(p->type),
                     "description", p->help);
    if (!json || !more || json_object_update(json, more) < 0) {
        json_decref(json);
        json = NULL;
    }
    json_decref(more);
    return json;
}

static json_t *route_to_json(const struct route *route, const char *mount)
{
    const struct route_param *p;
    json_t *params = json_array();
    char path[128];

    for (p = route->params; params && p && p->type != PARAM_END; p++) {
        if (json_array_append_new(params, param_to_json(route, p)) < 0) {
            json_decref(params);
            return NULL;
        }
    }
    snprintf(path, sizeof(path), "%s%s", mount, route->path);
    return json_pack("{s:s, s:s, s:s, s:o}", "method", route->method, "path",
                     path[0] ? path : "/", "summary", route->summary,
                     "parameters", params);
}

json_t *routes_to_json(const struct route table[], size_t n)
{
    json_t *array = json_array();
    size_t i;

    assert(table && n > 0);
    for (i = 0; array && i < n; i++) {
        const char *mount = table[i].mount & ROUTE_API ? "/api/v1" : "";

        if (json_array_append_new(array, route_to_json(&table[i], mount)) < 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}
