#include "api/service/service.h"

#include "api/routes/command_routes.h"
#include "api/routes/routes.h"
#include "api/routes/submit_routes.h"
#include "api/view/list.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool service_accept(const struct head *head, const struct listen_address *self,
                    struct response *out)
{
    return guard_check(head, self, out);
}

/* The run that @req asks about, beyond what lists say of it:
 * /api/v1/runs/RUN/... or ?run=RUN. NULL: none. */
static const char *run_asked(const struct request *req)
{
    size_t at = 0;

    if (req->segments > 2 && strcmp(req->segment[0], "api") == 0)
        at = 2;
    if (req->segments > at + 2 && req->segments <= REQUEST_SEGMENTS_MAX &&
        strcmp(req->segment[at], "runs") == 0)
        return req->segment[at + 1];
    return request_query(req, "run");
}

static bool takes_run(const struct route *route)
{
    const struct route_param *p = route->params;

    while (p && p->type != PARAM_END && strcmp(p->name, "run") != 0)
        p++;
    return p && p->type != PARAM_END;
}

/* The same where @req names none, and the only run is meant. "": none. */
static void only_run(struct view *view, const char *method,
                     const struct request *req, char id[RECORD_NAME_MAX])
{
    struct response ignored = {0};
    struct route_call call;
    size_t n;
    const struct route *routes = routes_all(&n);
    bool meant = view_options(view)->fetch && /* else none rests */
                 route_match(routes, n, view, method, req, &call, &ignored) &&
                 takes_run(call.route);

    response_deinit(&ignored);
    if (!meant)
        return;
    view_lock(view);
    if (view_run_at(view, 0) && !view_run_at(view, 1))
        snprintf(id, RECORD_NAME_MAX, "%s", view_run_at(view, 0)->id);
    view_unlock(view);
}

/* The run that @req needs whole. "": none. */
static void run_needed(struct view *view, const char *method,
                       const struct request *req, char id[RECORD_NAME_MAX])
{
    id[0] = '\0';
    if (run_asked(req))
        snprintf(id, RECORD_NAME_MAX, "%s", run_asked(req));
    else
        only_run(view, method, req, id);
}

bool service_sleeps(struct view *view, const char *method, const char *target,
                    char id[RECORD_NAME_MAX])
{
    struct response ignored = {0};
    struct request req;
    bool parsed = request_parse(target, &req, &ignored);

    assert(method[0]);
    response_deinit(&ignored);
    if (!parsed)
        return false;
    run_needed(view, method, &req, id);
    return id[0] && view_run_sleeps(view, id);
}

void service_unread(const char *id, const struct fault *f, struct response *out)
{
    if (f->code == ERR_NOENT)
        response_problem(out, 404, "run_not_found", NULL,
                         "there is no run \"%s\" any more", id);
    else
        response_problem(out, 503, "run_not_read", NULL,
                         "run %s cannot be read now: %s", id, f->text);
}

/* A run that rests is read again for who asks for all of it. */
static bool wake(struct view *view, const char *id, uint64_t *mark,
                 struct response *out)
{
    struct fault f = {0};
    enum err err = view_wake_run(view, id, mark, &f);

    f.code = err;
    if (err)
        service_unread(id, &f, out);
    return !err;
}

/* Routes read in pieces, between which the run may be put to rest: what was
 * read then is made again, so often at most. */
enum { WAKES_MAX = 4 };

bool service_respond(struct view *view, const char *method, const char *target,
                     struct response *out)
{
    return service_respond_to(view, NULL, method, target, out);
}

/* Whether the answer would leave out what is yet to come: all runs are asked
 * for, or one that is not there. @out says so. */
static bool too_early(const struct route_call *call, struct response *out)
{
    const char *id;
    bool known;

    if (!view_is_filling(call->view))
        return false;
    if (takes_run(call->route)) {
        id = route_arg(call, "run")->text;
        view_lock(call->view);
        known = id && view_run_find(call->view, id);
        view_unlock(call->view);
        if (known)
            return false;
    } else if (strcmp(call->route->path, "/runs") != 0) {
        return false;
    }
    response_problem(out, 503, "not_ready", NULL,
                     "the service reads its runs; try again");
    return true;
}

/* False: the run has to answer. */
static bool answer(struct view *view, const struct asker *by,
                   const char *method, const struct request *req,
                   struct response *out)
{
    struct route_call call;
    size_t n;
    const struct route *routes = routes_all(&n);

    if (!route_match(routes, n, view, method, req, &call, out))
        return true;
    call.by = by;
    return too_early(&call, out) || route_answer(&call, out);
}

bool service_respond_to(struct view *view, const struct asker *by,
                        const char *method, const char *target,
                        struct response *out)
{
    char id[RECORD_NAME_MAX];
    struct request req;
    uint64_t mark = 0;

    assert(method[0]);
    assert(out->status == 0);
    if (!request_parse(target, &req, out))
        return true;
    run_needed(view, method, &req, id);
    for (int i = 0; i < WAKES_MAX; i++) {
        if (id[0] && !wake(view, id, &mark, out))
            return true;
        if (!answer(view, by, method, &req, out))
            return false;
        if (!id[0] || out->stream || out->export_format ||
            !view_slept_since(view, id, mark))
            return true;
        response_deinit(out);
        *out = (struct response){0};
    }
    response_problem(out, 503, "run_not_read", NULL,
                     "run %s was put to rest while it was read; try again", id);
    return true;
}

/* ---- writes: the head ---------------------------------------------------- */

/* The token that @head has, [*len]; NULL: none. */
static const char *bearer(const struct head *head, size_t *len)
{
    static const char scheme[] = "Bearer ";
    const struct head_field *f = head_field(head, "authorization");
    const size_t n = sizeof(scheme) - 1;

    if (!f || f->value_len <= n || strncasecmp(f->value, scheme, n) != 0)
        return NULL;
    *len = f->value_len - n;
    return f->value + n;
}

enum read_rule service_read_rule(const char *name)
{
    if (strcmp(name, "everyone") == 0)
        return READ_EVERYONE;
    return strcmp(name, "user") == 0 ? READ_USER : READ_TOKEN;
}

static struct asker asker_of(const char *name, enum role role)
{
    struct asker by = {.role = role};

    snprintf(by.name, sizeof(by.name), "%s", name);
    return by;
}

struct asker service_asker(const struct service_readers *who,
                           const struct head *head)
{
    const struct named_token *named = NULL;
    struct asker by;
    size_t len = 0;
    const char *secret = bearer(head, &len);

    assert(!who->token || who->token[0]);
    if (who->local)
        return asker_of(ASKER_LOCAL, ROLE_ADMIN);
    if (secret && who->token && secret_is(secret, len, who->token))
        return asker_of(ASKER_OWN_TOKEN, ROLE_ADMIN);
    if (secret && who->named)
        named = tokens_find(who->named, secret, len);
    if (named) {
        by = asker_of(named->name, named->role);
        by.token = token_number(named);
        by.upload_limited = named->upload_limited;
        by.upload_max = named->upload_max;
        return by;
    }
    if (who->entrance && entrance_knows(who->entrance, head))
        return asker_of(ASKER_PAGE, ROLE_READ);
    return asker_of("", ROLE_ANYBODY);
}

/* Another token helps whoever has one; who has none needs one. */
static bool refuse_role(const struct asker *by, enum role needed,
                        struct response *out)
{
    if (by->token)
        response_problem(out, 403, "role_too_low", NULL,
                         "the token %s has the role %s; this needs the role %s",
                         by->name, role_name(by->role), role_name(needed));
    else
        response_unauthorized(out);
    return false;
}

/* What the route that @head asks for needs. A target that is none is READ, too:
 * what is wrong with it is for those who may read. */
static enum role read_needs(const struct head *head)
{
    struct response ignored = {0};
    struct request req;
    size_t n;
    const struct route *routes = routes_all(&n);
    enum role needed = ROLE_READ;

    if (request_parse(head->target, &req, &ignored))
        needed = route_role(routes, n, head->method, &req);
    response_deinit(&ignored);
    return needed;
}

bool service_may_read(const struct service_readers *who, struct asker *by,
                      const struct head *head,
                      const struct listen_address *self, bool own,
                      struct response *out)
{
    enum role needed;

    if (by->role == ROLE_ADMIN)
        return true;
    if (by->role < ROLE_READ && self->loopback &&
        (who->rule == READ_EVERYONE || (who->rule == READ_USER && own)))
        *by = asker_of(ASKER_RULE, ROLE_READ);
    needed = read_needs(head);
    return by->role >= needed || refuse_role(by, needed, out);
}

/* "application/json", with parameters or not; and that of RFC 7396. */
static bool is_json(const struct head_field *type)
{
    static const char *const types[] = {"application/json",
                                        "application/merge-patch+json"};

    for (size_t i = 0; type && i < 2; i++) {
        size_t n = strlen(types[i]);

        if (type->value_len >= n &&
            strncasecmp(type->value, types[i], n) == 0 &&
            (type->value_len == n || type->value[n] == ';' ||
             type->value[n] == ' '))
            return true;
    }
    return false;
}

/* Whether its body is bytes that are not looked at here, of any type. */
static bool is_bytes(const struct command *c)
{
    return c->body && c->body->media;
}

/* The guard has seen to it that a length is a number. */
static bool has_body(const struct head *head)
{
    const struct head_field *length = head_field(head, "content-length");

    if (head_field(head, "transfer-encoding"))
        return true;
    for (size_t i = 0; length && i < length->value_len; i++)
        if (length->value[i] != '0')
            return true;
    return false;
}

static bool take_key(const struct head *head, struct service_write *w,
                     struct response *out)
{
    const struct head_field *f = head_field(head, "idempotency-key");
    struct response_faults faults;

    w->request.key[0] = '\0';
    if (!f)
        return true;
    if (f->value_len > 0 && f->value_len <= COMMAND_KEY_MAX) {
        memcpy(w->request.key, f->value, f->value_len);
        w->request.key[f->value_len] = '\0';
        return true;
    }
    faults.len = 0; /* its items, 11 KB, need no clearing */
    response_fault_add(&faults, "/header/idempotency-key",
                       "expected 1 to %d characters", COMMAND_KEY_MAX);
    response_problem(out, 400, "invalid_parameter", &faults,
                     "1 parameter of the request is not valid");
    return false;
}

static bool match(struct view *view, const char *method, const char *target,
                  struct request *req, struct route_call *call,
                  struct response *out)
{
    size_t n;
    const struct route *routes = routes_all(&n);

    return request_parse(target, req, out) &&
           route_match(routes, n, view, method, req, call, out);
}

/* The run or file that the path of @call names. */
static void name_object(const struct route_call *call, char *out, size_t size)
{
    const struct route_param *p = call->route->params;

    for (size_t i = 0; p && p[i].type != PARAM_END; i++)
        if (call->arg[i].given &&
            (strcmp(p[i].name, "run") == 0 || strcmp(p[i].name, "upload") == 0))
            snprintf(out, size, "%s", call->arg[i].text);
}

bool service_begin(struct view *view, const struct asker *by,
                   const struct head *head, struct service_write *w,
                   struct response *out)
{
    struct request req;
    struct route_call call;

    assert(out->status == 0);
    assert(head->method && head->target);
    *w = (struct service_write){.by = *by};
    if (!match(view, head->method, head->target, &req, &call, out))
        return false;
    assert(call.route->command && call.route->take);
    w->command = call.route->command;
    name_object(&call, w->on, sizeof(w->on));
    if (by->role < call.route->role)
        return refuse_role(by, call.route->role, out);
    if (has_body(head) && !is_bytes(call.route->command) &&
        !is_json(head_field(head, "content-type"))) {
        response_problem(out, 415, "json_required", NULL,
                         "the body must be JSON, with the header "
                         "Content-Type: application/json");
        return false;
    }
    return take_key(head, w, out);
}

/* ---- writes: the body ---------------------------------------------------- */

static bool parse_body(const char *body, size_t len, json_t **out,
                       struct response *refusal)
{
    struct response_faults faults;
    struct fault f = {0};
    enum err err;

    assert(len == 0 || body);
    *out = NULL;
    if (len == 0)
        return true;
    err = json_load(body, len, out, NULL, &f);
    if (!err)
        return true;
    if (err == ERR_NOMEM) {
        response_json(refusal, 200, NULL); /* 503 */
        return false;
    }
    faults.len = 0; /* its items, 11 KB, need no clearing */
    response_fault_add(&faults, "", "%s", f.text);
    response_problem(refusal, 400, "malformed_json", &faults,
                     "the body is not JSON as it is taken here");
    return false;
}

/* The run that @call names into @w, with its mailbox where it takes commands
 * itself. False: @out says why it takes none. */
static bool find_run(struct view *view, const struct route_call *call,
                     struct service_write *w, struct response *out)
{
    const struct view_run *run;

    assert(!w->mailbox);
    view_lock(view);
    run = list_view_run(call, out);
    w->mailbox = run && !w->desk ? run->mailbox : NULL;
    if (run)
        snprintf(w->run, sizeof(w->run), "%s", run->id);
    view_unlock(view);
    if (run && !w->desk && !w->mailbox)
        response_problem(out, 409, "run_ended", NULL,
                         "run %s takes no commands", w->run);
    return run && (w->desk || w->mailbox);
}

static bool post_to_run(struct service_write *w, int wake_fd,
                        struct response *out)
{
    assert(w->mailbox);
    switch (mailbox_post(w->mailbox, &w->request, wake_fd, &w->ticket)) {
    case ERR_OK:
        return true;
    case ERR_EXIST:
        response_problem(out, 422, "key_used", NULL,
                         "this Idempotency-Key came with another request "
                         "before");
        return false;
    case ERR_BUSY:
        response_problem(out, 409, "key_in_use", NULL,
                         "the first request with this Idempotency-Key is not "
                         "answered yet");
        return false;
    case ERR_NOMEM:
        response_json(out, 200, NULL); /* 503 */
        return false;
    default:
        response_problem(out, 503, "busy", NULL,
                         "%d commands wait for the run; try again",
                         MAILBOX_SLOTS);
        return false;
    }
}

static bool post_to_desk(struct service_write *w, const struct route_call *call,
                         const char *target, const char *body, size_t len,
                         int wake_fd, struct response *out)
{
    struct desk_request r = {.command = w->request.command, .len = len};
    enum err err;

    assert(w->desk);
    submit_fill(call, &r);
    snprintf(r.by, sizeof(r.by), "%s", w->by.name);
    r.role = w->by.role;
    r.upload_limited = w->by.upload_limited;
    r.upload_max = w->by.upload_max;
    snprintf(r.run, sizeof(r.run), "%s", w->run);
    snprintf(r.key, sizeof(r.key), "%s", w->request.key);
    r.body = mem_alloc(len + 1);
    r.target = mem_strdup(target);
    if (!r.body || !r.target) {
        desk_request_deinit(&r);
        response_json(out, 200, NULL); /* 503 */
        return false;
    }
    memcpy(r.body, body, len);
    r.body[len] = '\0';
    err = desk_post(w->desk, &r, wake_fd, &w->ticket);
    desk_request_deinit(&r);
    if (err == ERR_NOMEM)
        response_json(out, 200, NULL); /* 503 */
    else if (err)
        response_problem(out, 503, "busy", NULL,
                         "%d requests wait for the service; try again",
                         DESK_SLOTS);
    return !err;
}

/* Whether it is about a run that has to be listed. */
static bool needs_run(const struct command *c)
{
    return c->actor != COMMAND_BY_SERVICE || command_id_of(c) == COMMAND_NOTE;
}

static bool post(struct view *view, const char *method, const char *target,
                 const char *body, size_t len, int wake_fd,
                 struct service_write *w, struct response *out)
{
    char key[COMMAND_KEY_MAX + 1];
    struct route_call call;
    struct request req;
    json_t *json = NULL;
    bool ok;

    assert(wake_fd >= 0 && !w->ticket);
    if (!match(view, method, target, &req, &call, out) ||
        (!is_bytes(call.route->command) && !parse_body(body, len, &json, out)))
        return false;
    memcpy(key, w->request.key, sizeof(key));
    w->request =
        (struct mailbox_request){.command = command_id_of(call.route->command)};
    memcpy(w->request.key, key, sizeof(key));
    ok = call.route->take(&call, json, &w->request, out);
    json_decref(json);
    if (!ok)
        return false;
    w->desk = view_options(view)->desk;
    if (w->request.command == COMMAND_DELETE) /* listed or not */
        snprintf(w->run, sizeof(w->run), "%s", route_arg(&call, "run")->text);
    else if (needs_run(call.route->command) && !find_run(view, &call, w, out))
        return false;
    return w->desk ? post_to_desk(w, &call, target, body, len, wake_fd, out)
                   : post_to_run(w, wake_fd, out);
}

bool service_write(struct view *view, const char *method, const char *target,
                   const char *body, size_t len, int wake_fd,
                   struct service_write *w, struct response *out)
{
    bool posted = post(view, method, target, body, len, wake_fd, w, out);

    assert(body);
    /* A desk has taken the text, not this; a refused request keeps nothing. */
    mailbox_request_deinit(&w->request);
    return posted;
}

/* ---- writes: the answer -------------------------------------------------- */

bool service_collect(struct service_write *w, struct response *out)
{
    struct tuner_answer answer;

    assert(out->status == 0);
    assert(w->desk || w->mailbox);
    assert(w->ticket);
    if (w->desk) {
        if (desk_collect(w->desk, w->ticket, out) == ERR_AGAIN)
            return false;
        w->ticket = 0;
        return true;
    }
    if (mailbox_collect(w->mailbox, w->ticket, &answer) == ERR_AGAIN)
        return false;
    w->ticket = 0;
    command_respond(w->run, &w->request, &answer, out);
    mem_free(answer.value);
    return true;
}

bool service_audit(const struct service_write *w, const struct response *out,
                   char status[8], struct audit_entry *entry)
{
    const char *made = strrchr(out->location, '/');
    enum command_id id;

    if (!w->command || !w->by.name[0] || out->part)
        return false;
    id = command_id_of(w->command);
    if (id == COMMAND_VALIDATE || id == COMMAND_ADD ||
        w->command->role < ROLE_RUN)
        return false;
    snprintf(status, 8, "%d", out->status);
    *entry = (struct audit_entry){.by = w->by.name,
                                  .role = w->by.role,
                                  .what = w->command->name,
                                  .on = w->on[0] ? w->on
                                        : made   ? made + 1
                                                 : "",
                                  .outcome = status};
    return true;
}

void service_forget(struct service_write *w)
{
    if (w->ticket && w->desk)
        desk_forget(w->desk, w->ticket);
    else if (w->ticket)
        mailbox_forget(w->mailbox, w->ticket);
    w->ticket = 0;
}
