#include "api/routes/submit_routes.h"

#include "api/view/view.h"
#include "tuner/shell/mailbox_io.h"

#include <assert.h>
#include <stdio.h>

/* The service makes these answers (cli/service). */
const struct shape submit_shapes[] = {
    {"submitted",
     "{\"type\": \"object\", \"required\": [\"run\", "
     "\"status\", \"config\", \"problems\"], \"properties\": {\"run\": "
     "{\"type\": \"string\"}, \"name\": {\"type\": \"string\"}, "
     "\"group\": {\"type\": \"string\"}, \"status\": {\"type\": "
     "\"string\"}, \"config\": {\"type\": \"object\"}, \"problems\": "
     "{\"type\": \"array\"}}}"},
    {"checked", "{\"type\": \"object\", \"required\": [\"valid\", "
                "\"problems\"], \"properties\": {\"valid\": {\"type\": "
                "\"boolean\"}, \"config\": {\"type\": [\"object\", \"null\"]}, "
                "\"problems\": {\"type\": \"array\"}}}"},
    {NULL, NULL},
};

const struct route_param submit_params[] = {
    {.type = PARAM_ID,
     .name = "group",
     .help = "groups take turns in the queue; default: the run's name"},
    {.type = PARAM_BOOL,
     .name = "held",
     .help = "not to begin before it is continued"},
    {.type = PARAM_END}};

bool take_submission(const struct route_call *call, const json_t *body,
                     struct mailbox_request *request, struct response *out)
{
    struct response_faults faults = {0};

    assert(request->command == COMMAND_SUBMIT ||
           request->command == COMMAND_VALIDATE);
    (void)request;
    if (!view_options(call->view)->desk) {
        response_problem(out, 409, "not_supported", NULL,
                         "this is the server of one run; `mltune serve` takes "
                         "more");
        return false;
    }
    if (json_is_object(body))
        return true;
    response_fault_add(&faults, "",
                       "expected a configuration, an object such as "
                       "{\"app\": {\"name\": \"mlr\", \"data\": \"FOLDER\"}}");
    response_problem(out, 422, "invalid_body", &faults,
                     "1 part of the body is not valid");
    return false;
}

bool take_delete(const struct route_call *call, const json_t *body,
                 struct mailbox_request *request, struct response *out)
{
    struct response_faults faults = {0};

    assert(request->command == COMMAND_DELETE);
    (void)request;
    if (!view_options(call->view)->desk) {
        response_problem(out, 409, "not_supported", NULL,
                         "this is the server of one run, which is under way; "
                         "`mltune serve` deletes those that have ended");
        return false;
    }
    if (!body || (json_is_object(body) && json_object_size(body) == 0))
        return true;
    response_fault_add(&faults, "", "expected no body, or {}");
    response_problem(out, 422, "invalid_body", &faults,
                     "1 part of the body is not valid");
    return false;
}

void submit_fill(const struct route_call *call, struct desk_request *r)
{
    const struct route_arg *group;

    if (r->command != COMMAND_SUBMIT)
        return;
    group = route_arg(call, "group");
    r->held = route_arg(call, "held")->number;
    if (group->given)
        snprintf(r->group, sizeof(r->group), "%s", group->text);
}
