#include "searchers/process/searcher_protocol.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "searchers/process/searcher_lines.h"
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

static json_t *object_of(const struct json_field fields[], const void *base)
{
    json_t *o = json_object();
    enum err err = o ? fields_put(o, fields, base) : ERR_NOMEM;

    if (!err)
        return o;
    json_decref(o);
    return NULL;
}

static char *request(const struct request_line *r)
{
    return line_of(object_of(line_request[r->type], r));
}

/* An array of @list[n] (transferred); NULL: one of them could not be made. */
static json_t *array_of(json_t *const list[], size_t n)
{
    json_t *a = json_array();
    bool ok = a;

    for (size_t i = 0; i < n; i++)
        if (!a)
            json_decref(list[i]);
        else if (json_array_append_new(a, list[i]))
            ok = false;
    if (ok)
        return a;
    json_decref(a);
    return NULL;
}

/* @x in both forms; owned by the caller (point_release). */
static struct point_line point_of(const struct space *space,
                                  const struct setting *x)
{
    double u[TUNABLES_MAX];
    size_t n = space_to_unit(space, x, u);
    json_t *unit[TUNABLES_MAX];

    for (size_t i = 0; i < n; i++)
        unit[i] = json_real(u[i]);
    return (struct point_line){setting_to_json(space, x), array_of(unit, n)};
}

static void point_release(struct point_line *p)
{
    json_decref(p->setting);
    json_decref(p->unit);
}

static json_t *point_json(const struct space *space, const struct setting *x)
{
    struct point_line p = point_of(space, x);
    json_t *o = object_of(line_point, &p);

    point_release(&p);
    return o;
}

char *searcher_protocol_hello(uint64_t id)
{
    const struct request_line r = {.type = SEARCHER_PROTOCOL_HELLO,
                                   .id = id,
                                   .protocol = SEARCHER_PROTOCOL_VERSION};

    assert(id > 0);
    return request(&r);
}

static json_t *axes_json(const struct space *space)
{
    size_t axis[TUNABLES_MAX], n = space_axes(space, axis);
    json_t *name[TUNABLES_MAX];

    for (size_t i = 0; i < n; i++)
        name[i] = json_string(space->tunable[axis[i]].name);
    return array_of(name, n);
}

char *searcher_protocol_open(uint64_t id, const struct space *space,
                             const json_t *settings, uint64_t seed)
{
    struct request_line r = {.type = SEARCHER_PROTOCOL_OPEN,
                             .id = id,
                             .seed = seed & SEARCHER_PROTOCOL_SEED_MASK,
                             .space = space_to_json(space),
                             .axes = axes_json(space),
                             .settings = (json_t *)(uintptr_t)settings};
    char *line = request(&r);

    assert(space->len <= TUNABLES_MAX);
    json_decref(r.space);
    json_decref(r.axes);
    return line;
}

char *searcher_protocol_ask(uint64_t id, const struct space *space,
                            const struct searcher_query *q)
{
    struct request_line r = {
        .type = SEARCHER_PROTOCOL_ASK, .id = id, .running = json_array()};
    char *line = NULL;
    bool ok = r.running;

    assert(q->told_len == 0 || q->told);
    for (size_t i = 0; ok && i < q->running_len; i++)
        ok = json_array_append_new(r.running,
                                   point_json(space, &q->running[i])) == 0;
    if (q->incumbent)
        r.incumbent = point_json(space, q->incumbent);
    if (ok && (r.incumbent || !q->incumbent))
        line = request(&r);
    json_decref(r.running);
    json_decref(r.incumbent);
    return line;
}

char *searcher_protocol_tell(const struct space *space,
                             const struct observation *o)
{
    struct request_line r = {.type = SEARCHER_PROTOCOL_TELL,
                             .trial = o->trial & INT64_MAX,
                             .point = point_of(space, &o->setting),
                             .outcome = o->outcome,
                             .speed = o->speed,
                             .resource = o->resource};
    char *line;

    assert((unsigned)o->outcome < OUTCOME_COUNT);
    line = request(&r);
    point_release(&r.point);
    return line;
}

/* An answer of the number and @fields (NULL: nothing else). */
static json_t *answer(const struct answer_line *a,
                      const struct json_field fields[])
{
    json_t *o = object_of(line_id, a);

    if (!o || !fields || fields_put(o, fields, a) == ERR_OK)
        return o;
    json_decref(o);
    return NULL;
}

char *searcher_protocol_answer_done(uint64_t id)
{
    return line_of(answer(&(struct answer_line){.id = id}, NULL));
}

char *searcher_protocol_answer_error(uint64_t id, const char *text)
{
    struct answer_line a = {.id = id};
    char clean[FAULT_TEXT_MAX], *line;

    assert(text);
    snprintf(clean, sizeof(clean), "%s", text);
    text_clean(clean);
    a.error = json_string(clean);
    line = line_of(answer(&a, line_error));
    json_decref(a.error);
    return line;
}

char *searcher_protocol_answer_hello(uint64_t id, const char *name,
                                     const char *summary, const char *settings)
{
    struct answer_line a = {.id = id,
                            .protocol = SEARCHER_PROTOCOL_VERSION,
                            .name = name,
                            .summary = summary};
    json_t *o;

    assert(name);
    if (settings &&
        json_load(settings, strlen(settings), &a.settings, NULL, NULL))
        return NULL;
    o = answer(&a, line_welcome);
    if (o && a.settings && fields_put(o, line_schema, &a)) {
        json_decref(o);
        o = NULL;
    }
    json_decref(a.settings);
    return line_of(o);
}

char *searcher_protocol_answer_ask(uint64_t id, const struct space *space,
                                   enum err result,
                                   const struct setting *setting,
                                   const struct fault *f)
{
    struct answer_line a = {.id = id, .wait = true, .exhausted = true};
    const struct json_field *fields = result == ERR_AGAIN ? line_wait
                                      : result            ? line_exhausted
                                                          : line_setting;
    char *line;

    assert(result != ERR_OK || setting);
    if (result && result != ERR_AGAIN && result != ERR_EXHAUSTED)
        return searcher_protocol_answer_error(id, f->text);
    if (!result)
        a.setting = setting_to_json(space, setting);
    line = line_of(answer(&a, fields));
    json_decref(a.setting);
    return line;
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

/* The members of @object by @fields into @base. */
static enum err read_fields(const json_t *object,
                            const struct json_field fields[], void *base,
                            struct fault *f)
{
    struct fault why = {0};
    enum err err = fields_get(object, fields, base, NULL, &why);

    if (!err)
        return ERR_OK;
    return fault_set(f, err == ERR_FORMAT ? ERR_PROTO : err, "%s", why.text);
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

/* What the searcher says is wrong, as @refusal: it may say nothing. */
static enum err refused(const char *why, enum err refusal, struct fault *f)
{
    if (why[strspn(why, " \t\r\n")] == '\0')
        why = "it gives no reason (\"error\" is empty)";
    return fault_set(f, refusal, "%.300s", why);
}

/* The answer to request @id, not an error. Its `error` becomes @refusal. */
static enum err read_answer(const char *text, size_t len, uint64_t id,
                            enum err refusal, json_t **out, struct fault *f)
{
    char start[SEARCHER_PROTOCOL_SHOWN_MAX + 8];
    struct answer_line a = {0};
    json_t *o = NULL;
    enum err err = read_object(text, len, &o, f);

    if (err)
        return err;
    if (fields_get(o, line_id, &a, NULL, NULL) || a.id != id)
        err = fault_set(f, ERR_PROTO,
                        "expected the answer with \"id\": %llu, found: %s",
                        (unsigned long long)id, shown(text, len, start));
    else
        err = read_fields(o, line_error, &a, f);
    if (!err && json_is_string(a.error))
        err = refused(json_string_value(a.error), refusal, f);
    else if (!err && a.error)
        err = fault_set(f, ERR_PROTO, "expected a text as \"error\", found: %s",
                        shown(text, len, start));
    if (err)
        json_decref(o);
    else
        *out = o;
    return err;
}

static void copy_text(const char *s, char *out, size_t size)
{
    snprintf(out, size, "%s", s ? s : "");
    text_clean(out);
}

static enum err take_hello(const json_t *o, struct searcher_protocol_hello *out,
                           struct fault *f)
{
    struct answer_line a = {0};
    enum err err = read_fields(o, line_schema, &a, f);

    if (err)
        return err;
    if (fields_get(o, line_welcome, &a, NULL, NULL))
        return fault_set(f, ERR_PROTO,
                         "expected \"protocol\": %d in the answer to hello",
                         SEARCHER_PROTOCOL_VERSION);
    if (a.protocol != SEARCHER_PROTOCOL_VERSION)
        return fault_set(f, ERR_VERSION,
                         "it speaks version %llu of the protocol, this mltune "
                         "version %d",
                         (unsigned long long)a.protocol,
                         SEARCHER_PROTOCOL_VERSION);
    if (a.settings && !json_is_null(a.settings) && !json_is_object(a.settings))
        return fault_set(f, ERR_PROTO,
                         "expected a JSON schema as \"settings\"");
    memset(out, 0, sizeof(*out));
    copy_text(a.name, out->name, sizeof(out->name));
    copy_text(a.summary, out->summary, sizeof(out->summary));
    if (json_is_object(a.settings))
        out->settings = json_incref(a.settings);
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
    struct answer_line a = {0};
    enum err err = read_fields(o, line_proposal, &a, f);

    if (err)
        return err;
    if (a.wait)
        return fault_set(f, ERR_AGAIN, "it waits for a trial to end");
    if (a.exhausted)
        return fault_set(f, ERR_EXHAUSTED, "it has nothing left to try");
    if (a.setting)
        return take_setting(space, a.setting, out, f);
    if (a.unit)
        return take_unit(space, a.unit, out, f);
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

static enum err read_setting(const struct space *space, const json_t *setting,
                             struct setting *out, struct fault *f)
{
    struct problems problems = {0};
    enum err err =
        setting_from_json(space, setting, "/setting", out, &problems);

    if (err)
        err = problem_fault(&problems, err, f);
    problems_deinit(&problems);
    return err;
}

static enum err read_point(const struct space *space, const json_t *point,
                           struct setting *out, struct fault *f)
{
    struct point_line p = {0};
    enum err err;

    if (!json_is_object(point))
        return fault_set(f, ERR_PROTO, "expected an object with \"setting\"");
    err = read_fields(point, line_point, &p, f);
    return err ? err : read_setting(space, p.setting, out, f);
}

static enum err take_open(const struct request_line *line,
                          struct searcher_protocol_request *r, struct fault *f)
{
    struct problems problems = {0};
    enum err err;

    if (!json_is_object(line->settings))
        return fault_set(f, ERR_PROTO, "expected an object as \"settings\"");
    r->seed = line->seed;
    r->settings = line->settings;
    err = space_from_json(line->space, "/space", &r->space, &problems);
    if (err)
        err = problem_fault(&problems, err, f);
    problems_deinit(&problems);
    return err;
}

static enum err take_ask(const struct request_line *line,
                         const struct space *space,
                         struct searcher_protocol_request *r, struct fault *f)
{
    size_t n = json_array_size(line->running);
    enum err err = ERR_OK;

    r->running = mem_calloc(n + 1, sizeof(*r->running));
    if (!r->running)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    for (; r->running_len < n && !err; r->running_len += !err)
        err = read_point(space, json_array_get(line->running, r->running_len),
                         &r->running[r->running_len], f);
    if (err || !json_is_object(line->incumbent))
        return err;
    r->has_incumbent = true;
    return read_point(space, line->incumbent, &r->incumbent, f);
}

static enum err take_tell(const struct request_line *line,
                          const struct space *space,
                          struct searcher_protocol_request *r, struct fault *f)
{
    struct observation *o = &r->told;

    o->trial = line->trial;
    o->outcome = line->outcome;
    o->speed = line->speed;
    o->resource = line->resource;
    return read_setting(space, line->point.setting, &o->setting, f);
}

static enum err read_parts(const struct space *space,
                           struct searcher_protocol_request *r, struct fault *f)
{
    struct request_line line = {0};
    enum err err = read_fields(r->object, line_type, &line, f);

    if (!err)
        err = read_fields(r->object, line_request[line.type], &line, f);
    if (err)
        return err;
    r->kind = line.type;
    r->id = line.id;
    if (r->kind >= SEARCHER_PROTOCOL_ASK && !space)
        return fault_set(f, ERR_PROTO, "expected open first");
    switch (r->kind) {
    case SEARCHER_PROTOCOL_HELLO:
        return ERR_OK;
    case SEARCHER_PROTOCOL_OPEN:
        return take_open(&line, r, f);
    case SEARCHER_PROTOCOL_ASK:
        return take_ask(&line, space, r, f);
    case SEARCHER_PROTOCOL_TELL:
        return take_tell(&line, space, r, f);
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
