#include "api/routes/submit_routes.h"

#include "api/view/view.h"
#include "tuner/shell/mailbox_io.h"

#include <stdio.h>

static bool take_config(const struct route_call *call, const json_t *body,
                        struct response *out)
{
    struct response_faults faults = {0};

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

bool command_submit(const struct route_call *call, const json_t *body,
                    struct mailbox_request *request, struct response *out)
{
    *request = (struct mailbox_request){.command = COMMAND_SUBMIT};
    return take_config(call, body, out);
}

bool command_validate(const struct route_call *call, const json_t *body,
                      struct mailbox_request *request, struct response *out)
{
    *request = (struct mailbox_request){.command = COMMAND_VALIDATE};
    return take_config(call, body, out);
}

bool command_delete(const struct route_call *call, const json_t *body,
                    struct mailbox_request *request, struct response *out)
{
    struct response_faults faults = {0};

    *request = (struct mailbox_request){.command = COMMAND_DELETE};
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
