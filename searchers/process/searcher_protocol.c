#include "searchers/process/searcher_protocol.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "searchers/space/space_json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Seeds go out as whole numbers that every language's JSON keeps. */
#define SEARCHER_PROTOCOL_SEED_MASK (((uint64_t)1 << 53) - 1)

enum {
    SEARCHER_PROTOCOL_SHOWN_MAX =
        60 /* bytes of a bad answer shown to the user */
};

/* ---- writing ------------------------------------------------------------- */

/* @object (transferred) as a line; NULL when out of memory. */
static char *line_of(json_t *object)
{
    char *text = object ? json_write(object, 0) : NULL, *line;
    size_t n = text ? strlen(text) : 0;

    json_decref(object);
    line = text ? mem_realloc(text, n + 2) : NULL;
    if (!line) {
        mem_free(text);
        return NULL;
    }
    memcpy(line + n, "\n", 2);
    return line;
}

/* Sets @object's member; false when out of memory (NULL @value included). */
static bool put(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

static json_t *id_json(uint64_t id)
{
    return json_integer((json_int_t)id);
}

static json_t *request(const char *type, uint64_t id)
{
    json_t *o = json_object();

    if (put(o, "type", json_string(type)) &&
        (id == 0 || put(o, "id", id_json(id))))
        return o;
    json_decref(o);
    return NULL;
}

/* {"setting": {...}, "unit": [...]} into @o. */
static bool put_point(json_t *o, const struct space *space,
                      const struct setting *x)
{
    double u[TUNABLES_MAX];
    size_t n = space_to_unit(space, x, u);
    json_t *unit = json_array();
    bool ok = unit != NULL;

    for (size_t i = 0; ok && i < n; i++)
        ok = json_array_append_new(unit, json_real(u[i])) == 0;
    ok = put(o, "setting", setting_to_json(space, x)) && ok;
    return put(o, "unit", unit) && ok;
}

static json_t *point_json(const struct space *space, const struct setting *x)
{
    json_t *o = json_object();

    if (o && put_point(o, space, x))
        return o;
    json_decref(o);
    return NULL;
}

char *searcher_protocol_hello(uint64_t id)
{
    json_t *o = request("hello", id);

    assert(id > 0);
    if (o && !put(o, "protocol", json_integer(SEARCHER_PROTOCOL_VERSION))) {
        json_decref(o);
        o = NULL;
    }
    return line_of(o);
}

static json_t *axes_json(const struct space *space)
{
    size_t axis[TUNABLES_MAX], n = space_axes(space, axis);
    json_t *list = json_array();
    bool ok = list != NULL;

    for (size_t i = 0; ok && i < n; i++)
        ok = json_array_append_new(
                 list, json_string(space->tunable[axis[i]].name)) == 0;
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

char *searcher_protocol_open(uint64_t id, const struct space *space,
                             const json_t *settings, uint64_t seed)
{
    json_t *o = request("open", id);
    bool ok = o != NULL;

    assert(space->len <= TUNABLES_MAX);
    ok = ok &&
         put(o, "seed",
             json_integer((json_int_t)(seed & SEARCHER_PROTOCOL_SEED_MASK)));
    ok = ok && put(o, "space", space_to_json(space));
    ok = ok && put(o, "axes", axes_json(space));
    ok = ok && put(o, "settings", json_deep_copy(settings));
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return line_of(o);
}

char *searcher_protocol_ask(uint64_t id, const struct space *space,
                            const struct searcher_query *q)
{
    json_t *o = request("ask", id), *running = json_array();
    bool ok = o && running;

    assert(q->told_len == 0 || q->told);
    for (size_t i = 0; ok && i < q->running_len; i++)
        ok = json_array_append_new(running,
                                   point_json(space, &q->running[i])) == 0;
    ok = put(o, "running", running) && ok;
    ok = put(o, "incumbent",
             q->incumbent ? point_json(space, q->incumbent) : json_null()) &&
         ok;
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return line_of(o);
}

char *searcher_protocol_tell(const struct space *space,
                             const struct observation *o)
{
    json_t *t = request("tell", 0);
    bool ok = t != NULL;

    assert((unsigned)o->outcome < OUTCOME_COUNT);
    ok = ok && put(t, "trial", id_json(o->trial & INT64_MAX));
    ok = ok && put_point(t, space, &o->setting);
    ok = ok && put(t, "outcome", json_string(outcome_name(o->outcome)));
    ok = ok && put(t, "speed", json_real(o->speed));
    ok = ok && put(t, "resource", json_real(o->resource));
    if (!ok) {
        json_decref(t);
        return NULL;
    }
    return line_of(t);
}

static json_t *answer(uint64_t id)
{
    json_t *o = json_object();

    if (o && put(o, "id", id_json(id)))
        return o;
    json_decref(o);
    return NULL;
}

char *searcher_protocol_answer_done(uint64_t id)
{
    return line_of(answer(id));
}

char *searcher_protocol_answer_error(uint64_t id, const char *text)
{
    json_t *o = answer(id);
    char clean[FAULT_TEXT_MAX];

    assert(text);
    snprintf(clean, sizeof(clean), "%s", text);
    text_clean(clean);
    if (o && !put(o, "error", json_string(clean))) {
        json_decref(o);
        o = NULL;
    }
    return line_of(o);
}

char *searcher_protocol_answer_hello(uint64_t id, const char *name,
                                     const char *summary, const char *settings)
{
    json_t *o = answer(id), *schema = NULL;
    bool ok = o != NULL;

    assert(name);
    if (settings && json_load(settings, strlen(settings), &schema, NULL, NULL))
        ok = false;
    ok = ok && put(o, "protocol", json_integer(SEARCHER_PROTOCOL_VERSION));
    ok = ok && put(o, "name", json_string(name));
    ok = ok && put(o, "summary", json_string(summary));
    if (ok && schema)
        ok = put(o, "settings", json_incref(schema));
    json_decref(schema);
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return line_of(o);
}

char *searcher_protocol_answer_ask(uint64_t id, const struct space *space,
                                   enum err result,
                                   const struct setting *setting,
                                   const struct fault *f)
{
    json_t *o;
    bool ok = true;

    assert(result != ERR_OK || setting);
    if (result && result != ERR_AGAIN && result != ERR_EXHAUSTED)
        return searcher_protocol_answer_error(id, f->text);
    o = answer(id);
    if (result == ERR_AGAIN)
        ok = put(o, "wait", json_true());
    else if (result == ERR_EXHAUSTED)
        ok = put(o, "exhausted", json_true());
    else
        ok = put(o, "setting", setting_to_json(space, setting));
    if (!o || !ok) {
        json_decref(o);
        return NULL;
    }
    return line_of(o);
}

/* ---- reading: what both ends share --------------------------------------- */

/* The beginning of @text, fit to be shown. */
static const char *shown(const char *text, size_t len,
                         char out[SEARCHER_PROTOCOL_SHOWN_MAX + 8])
{
    size_t n =
        len < SEARCHER_PROTOCOL_SHOWN_MAX ? len : SEARCHER_PROTOCOL_SHOWN_MAX;

    memcpy(out, text, n);
    out[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if (out[i] == '\0')
            out[i] = '?';
    snprintf(out + n, 8, "%s", len > n ? "..." : "");
    text_clean(out);
    return out;
}

/* The object that @text is. */
static enum err read_object(const char *text, size_t len, json_t **out,
                            struct fault *f)
{
    char start[SEARCHER_PROTOCOL_SHOWN_MAX + 8];
    json_t *value = NULL;
    enum err err = json_load(text, len, &value, NULL, NULL);

    if (err == ERR_NOMEM)
        return fault_set(f, err, "%s", err_text(err));
    if (json_is_object(value)) {
        *out = value;
        return ERR_OK;
    }
    json_decref(value);
    return fault_set(f, ERR_PROTO,
                     "expected a JSON object on one line, found: %s",
                     shown(text, len, start));
}

/* A whole number of at least 0. */
static bool to_count(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* The first of @problems as the fault. */
static enum err problem_fault(struct problems *problems, enum err err,
                              struct fault *f)
{
    char line[FAULT_TEXT_MAX];

    if (err == ERR_NOMEM || problems->no_memory || problems->len == 0)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    problem_text(&problems->item[0], "", line, sizeof(line));
    return fault_set(f, ERR_PROTO, "%s", line + strspn(line, ": "));
}

/* ---- answers ------------------------------------------------------------- */

/* The answer to request @id, not an error. Its `error` becomes @refusal. */
static enum err read_answer(const char *text, size_t len, uint64_t id,
                            enum err refusal, json_t **out, struct fault *f)
{
    char start[SEARCHER_PROTOCOL_SHOWN_MAX + 8];
    const json_t *error;
    json_t *o = NULL;
    uint64_t got = 0;
    enum err err = read_object(text, len, &o, f);

    if (err)
        return err;
    error = json_object_get(o, "error");
    if (!to_count(json_object_get(o, "id"), &got) || got != id)
        err = fault_set(f, ERR_PROTO,
                        "expected the answer with \"id\": %llu, found: %s",
                        (unsigned long long)id, shown(text, len, start));
    else if (json_is_string(error))
        err = fault_set(f, refusal, "%.300s", json_string_value(error));
    else if (error)
        err = fault_set(f, ERR_PROTO, "expected a text as \"error\", found: %s",
                        shown(text, len, start));
    if (err)
        json_decref(o);
    else
        *out = o;
    return err;
}

static void copy_text(const json_t *object, const char *name, char *out,
                      size_t size)
{
    const char *s = json_string_value(json_object_get(object, name));

    snprintf(out, size, "%s", s ? s : "");
    text_clean(out);
}

static enum err take_hello(const json_t *o, struct searcher_protocol_hello *out,
                           struct fault *f)
{
    json_t *settings = json_object_get(o, "settings");
    uint64_t version = 0;

    if (!to_count(json_object_get(o, "protocol"), &version))
        return fault_set(f, ERR_PROTO,
                         "expected \"protocol\": %d in the answer to hello",
                         SEARCHER_PROTOCOL_VERSION);
    if (version != SEARCHER_PROTOCOL_VERSION)
        return fault_set(f, ERR_VERSION,
                         "it speaks version %llu of the protocol, this mltune "
                         "version %d",
                         (unsigned long long)version,
                         SEARCHER_PROTOCOL_VERSION);
    if (settings && !json_is_null(settings) && !json_is_object(settings))
        return fault_set(f, ERR_PROTO,
                         "expected a JSON schema as \"settings\"");
    memset(out, 0, sizeof(*out));
    copy_text(o, "name", out->name, sizeof(out->name));
    copy_text(o, "summary", out->summary, sizeof(out->summary));
    if (json_is_object(settings))
        out->settings = json_incref(settings);
    return ERR_OK;
}

enum err searcher_protocol_read_hello(const char *text, size_t len, uint64_t id,
                                      struct searcher_protocol_hello *out,
                                      struct fault *f)
{
    json_t *o;
    enum err err = read_answer(text, len, id, ERR_INVAL, &o, f);

    assert(text && out);
    if (err)
        return err;
    err = take_hello(o, out, f);
    json_decref(o);
    return err;
}

void searcher_protocol_hello_deinit(struct searcher_protocol_hello *h)
{
    json_decref(h->settings);
    memset(h, 0, sizeof(*h));
}

enum err searcher_protocol_read_open(const char *text, size_t len, uint64_t id,
                                     struct fault *f)
{
    json_t *o;
    enum err err = read_answer(text, len, id, ERR_INVAL, &o, f);

    assert(text);
    if (!err)
        json_decref(o);
    return err;
}

/* Every tunable that acts in @x has to be in @object. */
static enum err check_complete(const struct space *space, const json_t *object,
                               const struct setting *x, struct fault *f)
{
    for (size_t i = 0; i < space->len; i++) {
        const struct tunable *t = &space->tunable[i];

        if (!t->fixed && space_active(space, x, i) &&
            !json_object_get(object, t->name))
            return fault_set(f, ERR_PROTO,
                             "expected a value of %s in \"setting\"", t->name);
    }
    return ERR_OK;
}

static enum err take_setting(const struct space *space, const json_t *object,
                             struct setting *out, struct fault *f)
{
    struct problems problems = {0};
    struct setting x;
    enum err err = setting_from_json(space, object, "/setting", &x, &problems);

    if (err)
        err = problem_fault(&problems, err, f);
    else
        err = check_complete(space, object, &x, f);
    problems_deinit(&problems);
    if (!err)
        *out = x;
    return err;
}

static enum err take_unit(const struct space *space, const json_t *list,
                          struct setting *out, struct fault *f)
{
    size_t axis[TUNABLES_MAX], n = space_axes(space, axis);
    double u[TUNABLES_MAX];

    if (!json_is_array(list) || json_array_size(list) != n)
        return fault_set(f, ERR_PROTO,
                         "expected %zu numbers, one an axis, as \"unit\"", n);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i);

        u[i] = json_is_number(one) ? json_number_value(one) : NAN;
        if (!(u[i] >= 0 && u[i] <= 1))
            return fault_set(f, ERR_PROTO,
                             "expected a number of 0 to 1 as \"unit\" of %s",
                             space->tunable[axis[i]].name);
    }
    space_from_unit(space, u, out);
    return ERR_OK;
}

static enum err take_proposal(const struct space *space, const json_t *o,
                              struct setting *out, struct fault *f)
{
    const json_t *setting = json_object_get(o, "setting");
    const json_t *unit = json_object_get(o, "unit");

    if (json_is_true(json_object_get(o, "wait")))
        return fault_set(f, ERR_AGAIN, "it waits for a trial to end");
    if (json_is_true(json_object_get(o, "exhausted")))
        return fault_set(f, ERR_EXHAUSTED, "it has nothing left to try");
    if (setting)
        return take_setting(space, setting, out, f);
    if (unit)
        return take_unit(space, unit, out, f);
    return fault_set(f, ERR_PROTO,
                     "expected \"setting\", \"unit\", \"wait\", \"exhausted\" "
                     "or \"error\" in the answer to ask");
}

enum err searcher_protocol_read_ask(const char *text, size_t len, uint64_t id,
                                    const struct space *space,
                                    struct setting *out, struct fault *f)
{
    json_t *o;
    enum err err = read_answer(text, len, id, ERR_APP, &o, f);

    assert(text && out);
    if (err)
        return err;
    err = take_proposal(space, o, out, f);
    json_decref(o);
    return err;
}

/* ---- requests ------------------------------------------------------------ */

static enum err read_point(const struct space *space, const json_t *point,
                           struct setting *out, struct fault *f)
{
    struct problems problems = {0};
    enum err err = setting_from_json(space, json_object_get(point, "setting"),
                                     "/setting", out, &problems);

    if (err)
        err = problem_fault(&problems, err, f);
    problems_deinit(&problems);
    return err;
}

static enum err read_open(struct searcher_protocol_request *r, struct fault *f)
{
    struct problems problems = {0};
    enum err err;

    r->settings = json_object_get(r->object, "settings");
    if (!to_count(json_object_get(r->object, "seed"), &r->seed) ||
        !json_is_object(r->settings))
        return fault_set(f, ERR_PROTO, "expected \"seed\" and \"settings\"");
    err = space_from_json(json_object_get(r->object, "space"), "/space",
                          &r->space, &problems);
    if (err)
        err = problem_fault(&problems, err, f);
    problems_deinit(&problems);
    return err;
}

static enum err read_ask(const struct space *space,
                         struct searcher_protocol_request *r, struct fault *f)
{
    const json_t *running = json_object_get(r->object, "running");
    const json_t *incumbent = json_object_get(r->object, "incumbent");
    size_t n = json_array_size(running);
    enum err err = ERR_OK;

    r->running = mem_calloc(n + 1, sizeof(*r->running));
    if (!r->running)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    for (; r->running_len < n && !err; r->running_len += !err)
        err = read_point(space, json_array_get(running, r->running_len),
                         &r->running[r->running_len], f);
    if (err || !json_is_object(incumbent))
        return err;
    r->has_incumbent = true;
    return read_point(space, incumbent, &r->incumbent, f);
}

static bool find_outcome(const char *name, enum outcome *out)
{
    for (int i = 0; name && i < OUTCOME_COUNT; i++)
        if (strcmp(outcome_name((enum outcome)i), name) == 0) {
            *out = (enum outcome)i;
            return true;
        }
    return false;
}

static enum err read_tell(const struct space *space,
                          struct searcher_protocol_request *r, struct fault *f)
{
    const json_t *speed = json_object_get(r->object, "speed");
    const json_t *resource = json_object_get(r->object, "resource");
    struct observation *o = &r->told;

    if (!to_count(json_object_get(r->object, "trial"), &o->trial) ||
        !find_outcome(json_string_value(json_object_get(r->object, "outcome")),
                      &o->outcome) ||
        !json_is_number(speed) || !json_is_number(resource))
        return fault_set(f, ERR_PROTO,
                         "expected \"trial\", \"outcome\", \"speed\" and "
                         "\"resource\"");
    o->speed = json_number_value(speed);
    o->resource = json_number_value(resource);
    return read_point(space, r->object, &o->setting, f);
}

static bool find_kind(const json_t *object, enum lines_kind *out)
{
    static const char *const names[] = {"hello", "open", "ask", "tell"};
    const char *type = json_string_value(json_object_get(object, "type"));

    for (int i = 0; type && i <= SEARCHER_PROTOCOL_TELL; i++)
        if (strcmp(names[i], type) == 0) {
            *out = (enum lines_kind)i;
            return true;
        }
    return false;
}

static enum err read_parts(const struct space *space,
                           struct searcher_protocol_request *r, struct fault *f)
{
    if (!find_kind(r->object, &r->kind))
        return fault_set(f, ERR_PROTO,
                         "expected hello, open, ask or tell as \"type\"");
    if (r->kind != SEARCHER_PROTOCOL_TELL &&
        !to_count(json_object_get(r->object, "id"), &r->id))
        return fault_set(f, ERR_PROTO, "expected a number as \"id\"");
    if (r->kind >= SEARCHER_PROTOCOL_ASK && !space)
        return fault_set(f, ERR_PROTO, "expected open first");
    switch (r->kind) {
    case SEARCHER_PROTOCOL_HELLO:
        return ERR_OK;
    case SEARCHER_PROTOCOL_OPEN:
        return read_open(r, f);
    case SEARCHER_PROTOCOL_ASK:
        return read_ask(space, r, f);
    case SEARCHER_PROTOCOL_TELL:
        return read_tell(space, r, f);
    }
    return ERR_PROTO;
}

enum err searcher_protocol_read_request(const char *text, size_t len,
                                        const struct space *space,
                                        struct searcher_protocol_request *out,
                                        struct fault *f)
{
    enum err err;

    assert(text && out);
    memset(out, 0, sizeof(*out));
    err = read_object(text, len, &out->object, f);
    if (!err)
        err = read_parts(space, out, f);
    if (err)
        searcher_protocol_request_deinit(out);
    return err;
}

void searcher_protocol_request_deinit(struct searcher_protocol_request *r)
{
    json_decref(r->object);
    mem_free(r->running);
    memset(r, 0, sizeof(*r));
}
