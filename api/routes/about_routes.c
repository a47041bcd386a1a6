#include "api/routes/about_routes.h"

#include "api/http/page.h"
#include "api/http/value.h"
#include "api/view/view.h"
#include "api/web/web.h"
#include "base/json/json.h"

#include <string.h>

const struct shape about_shapes[] = {
    {"searchers", "searchers:[plugin]" SHAPE_PAGE},
    {"strategies", "strategies:[plugin]" SHAPE_PAGE},
    {"apps", "apps:[app]" SHAPE_PAGE},
    {"app", "name:s summary:s settings:o tunables:a"},
    {"plugin", "name:s summary:s settings:o"},
    {"health", "status:s"},
    {"version", "name:s version:s api:s"},
    {"me",
     "{\"type\": \"object\", \"required\": [\"name\", \"role\", \"by\", "
     "\"upload_limit\"], "
     "\"properties\": {\"name\": {\"type\": [\"string\", \"null\"]}, "
     "\"role\": {\"$ref\": \"#/components/schemas/role\"}, "
     "\"by\": {\"enum\": [\"named_token\", \"token\", \"socket\", \"page\", "
     "\"loopback\", \"nothing\"]}, \"upload_limit\": {\"type\": "
     "[\"integer\", \"null\"]}}}"},
    {NULL, NULL},
};

void handle_healthz(const struct route_call *call, struct response *out)
{
    (void)call;
    response_json(out, 200, json_pack("{s:s}", "status", "ok"));
}

void handle_readyz(const struct route_call *call, struct response *out)
{
    const char *why_not = view_not_ready(call->view);

    if (why_not)
        response_problem(out, 503, "not_ready", NULL, "%s", why_not);
    else
        response_json(out, 200, json_pack("{s:s}", "status", "ready"));
}

void handle_version(const struct route_call *call, struct response *out)
{
    (void)call;
    response_json(out, 200,
                  json_pack("{s:s, s:s, s:s}", "name", "mltune", "version",
                            MLT_VERSION, "api", "v1"));
}

/* What lets them ask, as the interface calls it. */
static const char *known_by(const struct asker *by)
{
    static const char *const words[][2] = {{ASKER_OWN_TOKEN, "token"},
                                           {ASKER_LOCAL, "socket"},
                                           {ASKER_PAGE, "page"},
                                           {ASKER_RULE, "loopback"}};

    for (size_t i = 0; by && i < sizeof(words) / sizeof(*words); i++)
        if (strcmp(by->name, words[i][0]) == 0)
            return words[i][1];
    return by && by->token ? "named_token" : "nothing";
}

void handle_me(const struct route_call *call, struct response *out)
{
    const struct asker *by = call->by;

    response_json(
        out, 200,
        json_pack("{s:o, s:s, s:s, s:o}", "name",
                  by && by->token ? json_string(by->name) : json_null(), "role",
                  role_name(by ? by->role : ROLE_ANYBODY), "by", known_by(by),
                  "upload_limit",
                  by && by->upload_limited
                      ? json_integer((json_int_t)by->upload_max)
                      : json_null()));
    out->personal = true;
}

void handle_schema(const struct route_call *call, struct response *out)
{
    const json_t *schema = view_options(call->view)->schema;

    if (schema)
        response_json(out, 200, json_incref((json_t *)schema));
    else
        response_problem(out, 404, "schema_not_found", NULL,
                         "this server has no configuration schema");
}

/* ---- what is built in ---------------------------------------------------- */

static json_t *tunables_to_json(const struct registry_entry *e)
{
    json_t *names = json_array();

    for (size_t i = 0; names && e->tunables && e->tunables[i]; i++) {
        if (json_array_append_new(names, json_string(e->tunables[i])) < 0) {
            json_decref(names);
            names = NULL;
        }
    }
    return names;
}

static json_t *entry_to_json(const struct registry_entry *e)
{
    json_t *settings = e->settings ? json_known(e->settings) : json_null();
    json_t *json = json_pack("{s:s, s:s, s:o}", "name", e->name, "summary",
                             e->summary, "settings", settings);

    if (json && e->tunables &&
        json_object_set_new(json, "tunables", tunables_to_json(e)) < 0) {
        json_decref(json);
        json = NULL;
    }
    return json;
}

static json_t *entries_to_json(const struct registry *r,
                               enum registry_kind kind, const struct page *page,
                               struct page_span span)
{
    json_t *items = json_array();
    uint64_t i, at = span.first;

    for (i = 0; items && i < span.count && i < page->size; i++) {
        const struct registry_entry *e = registry_at(r, kind, (size_t)at);

        if (json_array_append_new(items, entry_to_json(e)) < 0) {
            json_decref(items);
            items = NULL;
        }
        at = span.step > 0 ? at + 1 : at - 1;
    }
    return items;
}

static void list_entries(const struct route_call *call, enum registry_kind kind,
                         const char *name, struct response *out)
{
    const struct registry *r = view_options(call->view)->registry;
    struct page_span span;
    struct page page;
    size_t n = 0;

    if (!page_parse(call, name, &page, out))
        return;
    while (r && registry_at(r, kind, n))
        n++;
    span = page_span(&page, 0, n);
    page_respond(
        &page, entries_to_json(r, kind, &page, span), n, span.count > page.size,
        span.step > 0 ? span.first + page.size : span.first - page.size, out);
}

void handle_apps(const struct route_call *call, struct response *out)
{
    list_entries(call, REGISTRY_APP, "apps", out);
}

void handle_searchers(const struct route_call *call, struct response *out)
{
    list_entries(call, REGISTRY_SEARCHER, "searchers", out);
}

void handle_strategies(const struct route_call *call, struct response *out)
{
    list_entries(call, REGISTRY_STRATEGY, "strategies", out);
}

/* ---- dashboard ----------------------------------------------------------- */

static void page_part(const struct web_file *file, struct response *out)
{
    response_static(out, file->type, file->begin,
                    (size_t)(file->end - file->begin));
    out->page = true;
}

void handle_page(const struct route_call *call, struct response *out)
{
    (void)call;
    page_part(web_file("index.html"), out);
}

void handle_web(const struct route_call *call, struct response *out)
{
    const struct web_file *file = web_file(route_arg(call, "file")->text);

    if (file)
        page_part(file, out);
    else
        response_problem(out, 404, "route_not_found", NULL,
                         "the dashboard has no such file");
}
