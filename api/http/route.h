/* Routes: one table from which everything about the paths follows.
 *
 * A route states its method, path and parameters; matching, 404, 405 with
 * Allow, the checking of parameters and the list of routes at /api/v1 all come
 * from the table. A handler is a pure function of the view and the checked
 * parameters to a response: no socket, no thread, no type of the server
 * library.
 */
#ifndef API_ROUTE_H
#define API_ROUTE_H

#include "api/http/asker.h"
#include "api/http/request.h"
#include "base/role.h"

struct command;
struct mailbox_request;
struct route;
struct view;

enum { ROUTE_PARAMS_MAX = 8, ROUTE_ID_MAX = 64 };

enum route_param_type {
    PARAM_END,    /* ends a list of parameters */
    PARAM_ID,     /* 1 .. ROUTE_ID_MAX of a-z, 0-9 and '-' */
    PARAM_INT,    /* decimal, min .. max */
    PARAM_BOOL,   /* "true" or "false" */
    PARAM_CHOICE, /* one of choices, "a|b"; the number is its index */
    PARAM_TEXT    /* as it is; the handler checks it */
};

/* A parameter of the query, or of the path where the path has "{name}" (then
 * it is required). */
struct route_param {
    enum route_param_type type;
    const char *name;
    const char *help;
    int64_t min, max;
    int64_t fallback;    /* where it is not given: number, 0 or 1, index */
    const char *choices; /* of TEXT: an example, or NULL */
};

struct route_arg {
    bool given;
    const char *text; /* borrowed from the request; NULL when not given */
    int64_t number;
};

/* A request that has found its route. */
struct route_call {
    struct view *view;
    const struct asker *by; /* borrowed; NULL: not told */
    const struct route *route;
    struct route_arg arg[ROUTE_PARAMS_MAX]; /* by the route's parameters */
    char cut[ROUTE_ID_MAX + 2]; /* the text of a variable before its suffix */
};

/* Answers @call; must leave @out answered. Must not block but for the view's
 * lock, for no longer than a copy. */
typedef void route_handler(const struct route_call *call, struct response *out);

/* Fills @request, whose command is set, with what @call asks of its run. @body:
 * the JSON value sent, NULL where there was no body. False: @out refuses it
 * with all that is wrong. */
typedef bool route_command(const struct route_call *call, const json_t *body,
                           struct mailbox_request *request,
                           struct response *out);

/* Where a path is found: under /api/v1, at the root, or both. */
enum { ROUTE_API = 1, ROUTE_ROOT = 2 };

/* A header that a request may have, for the description. */
struct route_header {
    const char *name, *help;
    unsigned len_max;
};

struct route {
    const char *method; /* "GET", which stands for HEAD too; others write */
    /* "/runs/{run}/trials", "/runs/{run}:stop"; "" is the mount itself. A
     * variable without a suffix stands for no text with a colon in it. */
    const char *path;
    const char *operation;            /* its name in the description */
    unsigned mount;                   /* ROUTE_API | ROUTE_ROOT */
    const struct route_param *params; /* up to PARAM_END; NULL: none */
    route_handler *handle;            /* NULL: a command */
    const char *summary;              /* one line */
    /* The answer where all is well: its shape (api/http/shape.h), NULL: it has
     * none; its media types, "a|b", NULL: JSON. */
    const char *answer, *types;
    const struct route_header *header; /* that it heeds; NULL: none */
    enum role role;                    /* that it needs */
    /* A write, or a read that the run itself has to answer, has these instead
     * of handle. */
    const struct command *command;
    route_command *take;
};

/* Finds the route for @method and @req in @table[n] and checks the parameters.
 * False: @out answers 404, 405 or 400, with every fault. @call borrows from
 * @req. */
bool route_match(const struct route table[], size_t n, struct view *view,
                 const char *method, const struct request *req,
                 struct route_call *call, struct response *out);

/* The role that @method and @req need in @table[n]; READ where there is no such
 * route. */
enum role route_role(const struct route table[], size_t n, const char *method,
                     const struct request *req);

/* Answers @call, which route_match made, by its handler. A write is refused
 * (401): those come with a token. False: a read with a command, which is not
 * answered here. */
bool route_answer(const struct route_call *call, struct response *out);

/* The parameter @name of @call, which the route must declare. */
const struct route_arg *route_arg(const struct route_call *call,
                                  const char *name);

/* Table @table[n] as JSON: method, path, summary and parameters of each; NULL
 * when out of memory. */
json_t *routes_to_json(const struct route table[], size_t n);

#endif
