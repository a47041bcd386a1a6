#include "api/routes/submit_routes.h"

#include "api/view/notes.h"
#include "api/view/view.h"
#include "tuner/shell/mailbox_io.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Of a file: more than any disk has. */
#define BYTES_MAX INT64_C(999999999999999999)

/* The service makes these answers (cli/service). */
const struct shape submit_shapes[] = {
    {"submitted",
     "{\"type\": \"object\", \"required\": [\"run\", "
     "\"status\", \"config\", \"problems\"], \"properties\": {\"run\": "
     "{\"type\": \"string\"}, \"name\": {\"type\": \"string\"}, "
     "\"group\": {\"type\": \"string\"}, \"status\": {\"$ref\": "
     "\"#/components/schemas/run_status\"}, \"config\": {\"type\": "
     "\"object\"}, \"problems\": {\"type\": \"array\"}}}"},
    {"checked", "{\"type\": \"object\", \"required\": [\"valid\", "
                "\"problems\"], \"properties\": {\"valid\": {\"type\": "
                "\"boolean\"}, \"config\": {\"type\": [\"object\", \"null\"]}, "
                "\"problems\": {\"type\": \"array\"}}}"},
    {"upload", "name:s bytes:i complete:b"},
    {"data_files", "files:[data_file] more:b"},
    {"data_file", "name:s folder:b bytes:i"},
    {NULL, NULL},
};

#define UPLOAD_PARAM                                                           \
    {                                                                          \
        .type = PARAM_TEXT, .name = "upload",                                  \
        .help =                                                                \
            "name of the file: 1 to 128 of A-Z a-z 0-9 . _ -, which begins "   \
            "with a letter or digit",                                          \
        .choices = "data.csv"                                                  \
    }

const struct route_param uploaded_params[] = {UPLOAD_PARAM,
                                              {.type = PARAM_END}};

const struct route_param upload_params[] = {
    UPLOAD_PARAM,
    {.type = PARAM_INT,
     .name = "offset",
     .help = "where the piece begins",
     .min = 0,
     .max = BYTES_MAX},
    {.type = PARAM_INT,
     .name = "size",
     .help = "bytes of the whole file; default: this piece is its last one",
     .min = 0,
     .max = BYTES_MAX},
    {.type = PARAM_BOOL,
     .name = "anew",
     .help = "gives up what is there of an upload of that name; with offset 0 "
             "alone"},
    {.type = PARAM_END}};

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

bool take_note(const struct route_call *call, const json_t *body,
               struct mailbox_request *request, struct response *out)
{
    struct response_faults faults = {0};

    assert(request->command == COMMAND_NOTE);
    (void)request;
    if (!view_options(call->view)->desk) {
        response_problem(out, 409, "not_supported", NULL,
                         "this is the server of one run, which writes no "
                         "notes; `mltune note` does, and `mltune serve`");
        return false;
    }
    if (notes_check(body, &faults))
        return true;
    response_problem(out, 422, "invalid_body", &faults,
                     "%zu part%s of the body %s not valid", faults.len,
                     faults.len == 1 ? "" : "s",
                     faults.len == 1 ? "is" : "are");
    return false;
}

/* No path, nothing hidden, nothing that could be taken for an option. */
static bool names_file(const char *name)
{
    static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t n = strlen(name), plain = strspn(name, first);

    while (plain < n && strchr("._-", name[plain]))
        plain += 1 + strspn(name + plain + 1, first);
    return n > 0 && n <= DESK_UPLOAD_MAX && strchr(first, name[0]) &&
           plain == n;
}

static bool is_upload(enum command_id command)
{
    return command == COMMAND_UPLOAD || command == COMMAND_UPLOADED ||
           command == COMMAND_WITHDRAW;
}

bool take_upload(const struct route_call *call, const json_t *body,
                 struct mailbox_request *request, struct response *out)
{
    struct response_faults faults = {0};

    assert(is_upload(request->command));
    (void)request;
    (void)body;
    if (!view_options(call->view)->desk) {
        response_problem(out, 409, "not_supported", NULL,
                         "this is the server of one run; `mltune serve` takes "
                         "data");
        return false;
    }
    if (names_file(route_arg(call, "upload")->text))
        return true;
    response_fault_add(&faults, "/path/upload",
                       "expected the name of a file, 1 to %d of A-Z a-z 0-9 . "
                       "_ - that begin with a letter or digit: no folder, no "
                       "path",
                       DESK_UPLOAD_MAX);
    response_problem(out, 400, "invalid_parameter", &faults,
                     "1 parameter of the request is not valid");
    return false;
}

bool take_data(const struct route_call *call, const json_t *body,
               struct mailbox_request *request, struct response *out)
{
    assert(request->command == COMMAND_DATA);
    (void)request;
    (void)body;
    if (view_options(call->view)->desk)
        return true;
    response_problem(out, 409, "not_supported", NULL,
                     "this is the server of one run; `mltune serve` has a data "
                     "folder");
    return false;
}

static void upload_fill(const struct route_call *call, struct desk_request *r)
{
    const struct route_arg *size;

    snprintf(r->upload, sizeof(r->upload), "%s",
             route_arg(call, "upload")->text);
    if (r->command != COMMAND_UPLOAD)
        return;
    size = route_arg(call, "size");
    r->offset = (uint64_t)route_arg(call, "offset")->number;
    r->size = size->given ? (uint64_t)size->number : UINT64_MAX;
    r->anew = route_arg(call, "anew")->number;
}

void submit_fill(const struct route_call *call, struct desk_request *r)
{
    const struct route_arg *group;

    if (is_upload(r->command))
        upload_fill(call, r);
    if (r->command != COMMAND_SUBMIT)
        return;
    group = route_arg(call, "group");
    r->held = route_arg(call, "held")->number;
    if (group->given)
        snprintf(r->group, sizeof(r->group), "%s", group->text);
}
