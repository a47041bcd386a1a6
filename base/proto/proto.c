#include "base/proto/proto.h"

#include "base/mem.h"
#include "base/proto/proto_table.h"
#include "base/proto/staleness_json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *msg_kind_name(enum msg_kind kind)
{
    assert((unsigned)kind < MSG_KIND_COUNT);
    return proto_kinds[kind].name;
}

/* ---- text ---------------------------------------------------------------- */

/* Length of the UTF-8 sequence at @s of at most @n bytes, 0 if it is none
 * (RFC 3629: shortest form, no surrogates, up to U+10FFFF). */
static size_t utf8_sequence(const unsigned char *s, size_t n)
{
    size_t len = s[0] < 0x80                    ? 1
                 : s[0] >= 0xc2 && s[0] <= 0xdf ? 2
                 : s[0] >= 0xe0 && s[0] <= 0xef ? 3
                 : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                : 0;
    size_t i;

    if (len == 0 || len > n)
        return 0;
    for (i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return len;
}

static bool is_utf8(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = strlen(text), step;

    for (; n > 0; s += step, n -= step)
        if ((step = utf8_sequence(s, n)) == 0)
            return false;
    return true;
}

/* Reasons hold what applications and the system said, cut at some byte: what
 * is no UTF-8 must not cost the whole message. */
static json_t *reason_json(const char *text)
{
    char clean[PROTO_TEXT_MAX];
    size_t n = strlen(text), i = 0, step;

    assert(n < sizeof(clean));
    memcpy(clean, text, n + 1);
    while (i < n) {
        step = utf8_sequence((const unsigned char *)clean + i, n - i);
        if (step == 0)
            clean[i] = '?';
        i += step ? step : 1;
    }
    return json_string(clean);
}

/* ---- numbers ------------------------------------------------------------- */

static json_t *real_json(double x)
{
    if (isnan(x))
        return json_string("nan");
    if (isinf(x))
        return json_string(x > 0 ? "inf" : "-inf");
    return json_real(x);
}

/* A number, or the name of one that JSON cannot write. */
static bool real_of_json(const json_t *v, double *out)
{
    const char *s = json_string_value(v);

    if (json_is_number(v))
        *out = json_number_value(v);
    else if (s && strcmp(s, "nan") == 0)
        *out = NAN;
    else if (s && strcmp(s, "inf") == 0)
        *out = INFINITY;
    else if (s && strcmp(s, "-inf") == 0)
        *out = -INFINITY;
    else
        return false;
    return true;
}

static bool count_of_json(const json_t *v, uint64_t min, uint64_t max,
                          uint64_t *out)
{
    json_int_t n = json_integer_value(v);

    if (!json_is_integer(v) || n < 0 || (uint64_t)n < min || (uint64_t)n > max)
        return false;
    *out = (uint64_t)n;
    return true;
}

static bool is_tree(enum proto_type type, const json_t *v)
{
    return (json_is_object(v) && type != FIELD_NAMES) ||
           (json_is_array(v) && type != FIELD_OBJECT);
}

/* ---- encoding ------------------------------------------------------------ */

/* NULL: out of memory. */
static json_t *held_json(const struct msg_beat *beat)
{
    json_t *all = json_array();
    uint32_t i;

    for (i = 0; all && i < beat->held; i++) {
        const struct msg_held *h = &beat->hold[i];

        if (json_array_append_new(all,
                                  json_pack("[I,I,I]", (json_int_t)h->branch,
                                            (json_int_t)h->shared_bytes,
                                            (json_int_t)h->private_bytes))) {
            json_decref(all);
            all = NULL;
        }
    }
    return all;
}

static bool held_fits(const struct msg_beat *beat)
{
    uint32_t i;

    if (beat->held > PROTO_HELD_MAX)
        return false;
    for (i = 0; i < beat->held; i++)
        if (beat->hold[i].branch == BRANCH_NONE ||
            beat->hold[i].shared_bytes > PROTO_INT_MAX ||
            beat->hold[i].private_bytes > PROTO_INT_MAX)
            return false;
    return true;
}

/* JSON of one field of @base. NULL: out of memory, or *err = ERR_INVAL. */
static json_t *field_json(const struct proto_field *f, const void *base,
                          enum err *err)
{
    const void *p = (const char *)base + f->offset;
    const char *text = NULL;
    uint64_t n = 0;
    double x;

    *err = ERR_INVAL;
    switch (f->type) {
    case FIELD_COUNT:
    case FIELD_SMALL:
        n = f->type == FIELD_COUNT ? *(const uint64_t *)p
                                   : *(const uint32_t *)p;
        if (n < f->min || n > f->max)
            return NULL;
        break;
    case FIELD_PID:
        if (*(const int64_t *)p < 0)
            return NULL;
        n = (uint64_t) * (const int64_t *)p;
        break;
    case FIELD_BRANCH:
        n = *(const branch_id *)p;
        if (n == BRANCH_NONE)
            return NULL;
        break;
    case FIELD_FLAG:
        *err = ERR_NOMEM;
        return json_boolean(*(const bool *)p);
    case FIELD_SECONDS:
    case FIELD_REAL:
        x = *(const double *)p;
        if (f->type == FIELD_SECONDS && !(isfinite(x) && x >= 0))
            return NULL;
        *err = ERR_NOMEM;
        return real_json(x);
    case FIELD_NAME:
    case FIELD_REASON:
        text = p;
        if (!memchr(text, 0, f->max + 1) || strlen(text) < f->min)
            return NULL;
        if (f->type == FIELD_REASON) {
            *err = ERR_NOMEM;
            return reason_json(text);
        }
        break;
    case FIELD_STRING:
        text = *(char *const *)p;
        if (!text || !*text)
            return NULL;
        break;
    case FIELD_TYPE:
        if (*(const enum branch_type *)p == BRANCH_INIT ||
            (unsigned)*(const enum branch_type *)p >= BRANCH_TYPE_COUNT)
            return NULL;
        text = branch_type_name(*(const enum branch_type *)p);
        break;
    case FIELD_CODE:
        if (*(const enum err *)p == ERR_OK ||
            (unsigned)*(const enum err *)p >= ERR_COUNT)
            return NULL;
        text = err_name(*(const enum err *)p);
        break;
    case FIELD_STALENESS:
        *err = ERR_NOMEM;
        return staleness_to_json(p);
    case FIELD_HELD:
        if (!held_fits(&((const struct msg *)base)->beat))
            return NULL;
        *err = ERR_NOMEM;
        return held_json(&((const struct msg *)base)->beat);
    case FIELD_OBJECT:
    case FIELD_NAMES:
    case FIELD_JSON: {
        json_t *v = *(json_t *const *)p;

        if (v && !is_tree(f->type, v))
            return NULL;
        *err = ERR_NOMEM;
        if (v)
            return json_incref(v);
        return f->type == FIELD_OBJECT ? json_object() : json_array();
    }
    }
    if (text && !is_utf8(text))
        return NULL;
    *err = ERR_NOMEM;
    return text ? json_string(text) : json_integer((json_int_t)n);
}

/* Optional members are left out where they say nothing. */
static bool is_absent(const struct proto_field *f, const struct msg *m)
{
    const void *p = (const char *)m + f->offset;

    if (!f->optional)
        return false;
    if (f->type == FIELD_BRANCH)
        return *(const branch_id *)p == BRANCH_NONE;
    if (f->type == FIELD_JSON)
        return *(json_t *const *)p == NULL;
    return false;
}

static enum err put_member(json_t *o, const char *name, json_t *value)
{
    return json_object_set_new_nocheck(o, name, value) == 0 ? ERR_OK
                                                            : ERR_NOMEM;
}

static enum err put_window_array(json_t *o, const struct proto_field *f,
                                 const struct msg_report *m)
{
    json_t *a = json_array(), *v;
    enum err err = a ? ERR_OK : ERR_NOMEM;
    uint32_t i;

    for (i = 0; !err && i < m->windows; i++) {
        v = field_json(f, &m->window[i], &err);
        if (v)
            err = json_array_append_new(a, v) == 0 ? ERR_OK : ERR_NOMEM;
    }
    if (err) {
        json_decref(a);
        return err;
    }
    return put_member(o, f->name, a);
}

static enum err put_fields(json_t *o, const struct msg *m)
{
    const struct proto_field *f;
    enum err err = ERR_OK;
    json_t *v;

    for (f = proto_kinds[m->kind].fields; !err && f->name; f++) {
        if (is_absent(f, m))
            continue;
        v = field_json(f, m, &err);
        if (v)
            err = put_member(o, f->name, v);
    }
    if (m->kind == MSG_REPORT)
        for (f = proto_window; !err && f->name; f++)
            err = put_window_array(o, f, &m->report);
    return err;
}

static enum err put_head(json_t *o, const struct msg *m)
{
    enum err err;

    if (m->op > PROTO_INT_MAX ||
        (proto_kinds[m->kind].op == OP_NEEDED && m->op == 0))
        return ERR_INVAL;
    err = put_member(o, "kind", json_string(proto_kinds[m->kind].name));
    if (!err && m->op)
        err = put_member(o, "op", json_integer((json_int_t)m->op));
    return err;
}

static enum err dump(const json_t *o, char **text, size_t *len)
{
    const size_t flags = JSON_COMPACT;
    size_t n = json_dumpb(o, NULL, 0, flags);
    char *buf;

    /* 0 is jansson's only word for failure; all values were checked when they
     * were made, so that only memory can be short. */
    if (n == 0)
        return ERR_NOMEM;
    if (n > PROTO_BYTES_MAX)
        return ERR_LIMIT;
    buf = mem_alloc(n + 1);
    if (!buf)
        return ERR_NOMEM;
    if (json_dumpb(o, buf, n, flags) != n) {
        mem_free(buf);
        return ERR_NOMEM;
    }
    buf[n] = 0;
    *text = buf;
    *len = n;
    return ERR_OK;
}

enum err msg_encode(const struct msg *m, char **text, size_t *len)
{
    json_t *o;
    enum err err;

    assert((unsigned)m->kind < MSG_KIND_COUNT);
    assert(text && len);
    if (proto_check(m))
        return ERR_INVAL;
    o = json_object();
    if (!o)
        return ERR_NOMEM;
    err = put_head(o, m);
    if (!err)
        err = put_fields(o, m);
    if (!err)
        err = dump(o, text, len);
    json_decref(o);
    return err;
}

/* ---- decoding ------------------------------------------------------------ */

static void say_range(const struct proto_field *f, char *out, size_t size)
{
    switch (f->type) {
    case FIELD_COUNT:
    case FIELD_SMALL:
    case FIELD_PID:
        snprintf(out, size, "an integer from %llu to %llu",
                 (unsigned long long)f->min, (unsigned long long)f->max);
        return;
    case FIELD_BRANCH:
        snprintf(out, size, "a branch number from 0 to %u", BRANCH_NONE - 1);
        return;
    case FIELD_FLAG:
        snprintf(out, size, "true or false");
        return;
    case FIELD_SECONDS:
        snprintf(out, size, "a finite number of seconds >= 0");
        return;
    case FIELD_REAL:
        snprintf(out, size, "a number, \"nan\", \"inf\" or \"-inf\"");
        return;
    case FIELD_NAME:
    case FIELD_REASON:
        snprintf(out, size, "a string of %llu to %llu bytes",
                 (unsigned long long)f->min, (unsigned long long)f->max);
        return;
    case FIELD_STRING:
        snprintf(out, size, "a string, not empty");
        return;
    case FIELD_TYPE:
        snprintf(out, size, "\"training\", \"probe\", \"testing\" or \"kept\"");
        return;
    case FIELD_CODE:
        snprintf(out, size, "the name of an error code");
        return;
    case FIELD_OBJECT:
        snprintf(out, size, "an object");
        return;
    case FIELD_NAMES:
        snprintf(out, size, "an array of names");
        return;
    case FIELD_JSON:
        snprintf(out, size, "an array or an object");
        return;
    case FIELD_STALENESS:
        snprintf(out, size, "an object with least, counts and sum");
        return;
    case FIELD_HELD:
        snprintf(out, size, "at most %d arrays [branch, shared, private]",
                 PROTO_HELD_MAX);
        return;
    }
}

static void say_found(const json_t *v, char *out, size_t size)
{
    if (!v)
        snprintf(out, size, "nothing");
    else if (json_is_integer(v))
        snprintf(out, size, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(out, size, "%g", json_real_value(v));
    else if (json_is_string(v))
        snprintf(out, size, "\"%.40s\"", json_string_value(v));
    else
        snprintf(out, size, "%s",
                 json_is_object(v)  ? "an object"
                 : json_is_array(v) ? "an array"
                 : json_is_null(v)  ? "null"
                                    : "true or false");
}

/* Fault about member @f; @v is what was found there, NULL for nothing. */
static enum err bad_member(const struct proto_field *f, const json_t *v,
                           struct fault *fault)
{
    char expected[128], found[64];

    say_range(f, expected, sizeof(expected));
    say_found(v, found, sizeof(found));
    return fault_set(fault, ERR_PROTO, "%s: expected %s, found %s", f->name,
                     expected, found);
}

static bool text_of_json(const struct proto_field *f, const json_t *v,
                         char *out)
{
    size_t n = json_string_length(v);

    if (!json_is_string(v) || n < f->min || n > f->max)
        return false;
    memcpy(out, json_string_value(v), n + 1);
    return true;
}

static bool type_of_json(const json_t *v, enum branch_type *out)
{
    const char *s = json_string_value(v);
    enum branch_type type = s ? branch_type_of(s) : BRANCH_TYPE_COUNT;

    if (type == BRANCH_TYPE_COUNT || type == BRANCH_INIT)
        return false;
    *out = type;
    return true;
}

static bool code_of_json(const json_t *v, enum err *out)
{
    const char *s = json_string_value(v);
    int i;

    for (i = ERR_OK + 1; s && i < ERR_COUNT; i++)
        if (strcmp(s, err_name((enum err)i)) == 0) {
            *out = (enum err)i;
            return true;
        }
    return false;
}

static bool tree_of_json(const struct proto_field *f, json_t *v, json_t **out)
{
    if (!is_tree(f->type, v))
        return false;
    *out = json_incref(v);
    return true;
}

static bool held_of_json(const json_t *v, struct msg_beat *beat)
{
    size_t n = json_array_size(v), i;

    if (!json_is_array(v) || n > PROTO_HELD_MAX)
        return false;
    for (i = 0; i < n; i++) {
        const json_t *one = json_array_get(v, i);
        struct msg_held *h = &beat->hold[i];
        uint64_t branch;

        if (json_array_size(one) != 3 ||
            !count_of_json(json_array_get(one, 0), 0, BRANCH_NONE - 1,
                           &branch) ||
            !count_of_json(json_array_get(one, 1), 0, PROTO_INT_MAX,
                           &h->shared_bytes) ||
            !count_of_json(json_array_get(one, 2), 0, PROTO_INT_MAX,
                           &h->private_bytes))
            return false;
        h->branch = (branch_id)branch;
    }
    beat->held = (uint32_t)n;
    return true;
}

/* One field of @base from @v: ERR_OK, ERR_NOMEM, or ERR_PROTO for a value that
 * does not fit. */
static enum err read_value(const struct proto_field *f, json_t *v, void *base)
{
    void *p = (char *)base + f->offset;
    bool ok = false;
    uint64_t n = 0;
    char *copy;

    switch (f->type) {
    case FIELD_COUNT:
        ok = count_of_json(v, f->min, f->max, p);
        break;
    case FIELD_SMALL:
        ok = count_of_json(v, f->min, f->max, &n);
        *(uint32_t *)p = (uint32_t)n;
        break;
    case FIELD_BRANCH:
        ok = count_of_json(v, 0, BRANCH_NONE - 1, &n);
        *(branch_id *)p = (branch_id)n;
        break;
    case FIELD_PID:
        ok = count_of_json(v, 0, PROTO_INT_MAX, &n);
        *(int64_t *)p = (int64_t)n;
        break;
    case FIELD_FLAG:
        ok = json_is_boolean(v);
        *(bool *)p = json_is_true(v);
        break;
    case FIELD_SECONDS:
        ok = json_is_number(v) && json_number_value(v) >= 0;
        *(double *)p = json_number_value(v);
        break;
    case FIELD_REAL:
        ok = real_of_json(v, p);
        break;
    case FIELD_NAME:
    case FIELD_REASON:
        ok = text_of_json(f, v, p);
        break;
    case FIELD_STRING:
        ok = json_string_length(v) > 0;
        if (ok && !(copy = mem_strdup(json_string_value(v))))
            return ERR_NOMEM;
        if (ok)
            *(char **)p = copy;
        break;
    case FIELD_TYPE:
        ok = type_of_json(v, p);
        break;
    case FIELD_CODE:
        ok = code_of_json(v, p);
        break;
    case FIELD_OBJECT:
    case FIELD_NAMES:
    case FIELD_JSON:
        ok = tree_of_json(f, v, p);
        break;
    case FIELD_STALENESS:
        ok = staleness_from_json(v, p);
        break;
    case FIELD_HELD:
        ok = held_of_json(v, &((struct msg *)base)->beat);
        break;
    }
    return ok ? ERR_OK : ERR_PROTO;
}

static enum err read_field(const json_t *o, const struct proto_field *f,
                           struct msg *m, struct fault *fault)
{
    json_t *v = json_object_get(o, f->name);
    enum err err;

    if (!v && f->optional) {
        if (f->type == FIELD_BRANCH)
            *(branch_id *)((char *)m + f->offset) = BRANCH_NONE;
        return ERR_OK;
    }
    err = v ? read_value(f, v, m) : ERR_PROTO;
    if (err == ERR_PROTO)
        return bad_member(f, v, fault);
    if (err)
        return fault_set(fault, err, "%s: %s", f->name, err_text(err));
    return ERR_OK;
}

static enum err read_window_array(const json_t *o, const struct proto_field *f,
                                  struct msg_report *m, struct fault *fault)
{
    const json_t *a = json_object_get(o, f->name);
    uint32_t i;

    if (!json_is_array(a) || json_array_size(a) != m->windows)
        return fault_set(fault, ERR_PROTO,
                         "%s: expected an array as long as `sum`", f->name);
    for (i = 0; i < m->windows; i++)
        if (read_value(f, json_array_get(a, i), &m->window[i]))
            return bad_member(f, json_array_get(a, i), fault);
    return ERR_OK;
}

static enum err read_windows(const json_t *o, struct msg_report *m,
                             struct fault *fault)
{
    size_t n = json_array_size(json_object_get(o, "sum"));
    const struct proto_field *f;
    enum err err = ERR_OK;

    if (n < 1 || n > PROTO_WINDOWS_MAX)
        return fault_set(fault, ERR_PROTO,
                         "sum: expected an array of 1 to %d windows",
                         PROTO_WINDOWS_MAX);
    m->window = mem_calloc(n, sizeof(*m->window));
    if (!m->window)
        return fault_set(fault, ERR_NOMEM, "sum: %s", err_text(ERR_NOMEM));
    m->windows = (uint32_t)n;
    for (f = proto_window; !err && f->name; f++)
        err = read_window_array(o, f, m, fault);
    return err;
}

static enum err read_op(const json_t *o, struct msg *m, struct fault *fault)
{
    const struct proto_field rule = {
        "op", FIELD_COUNT, false, offsetof(struct msg, op), 1, PROTO_INT_MAX};
    const json_t *v = json_object_get(o, "op");

    if (!v && proto_kinds[m->kind].op == OP_ALLOWED)
        return ERR_OK;
    return read_field(o, &rule, m, fault);
}

static enum err read_kind(const json_t *o, struct msg *m, struct fault *fault)
{
    const char *name = json_string_value(json_object_get(o, "kind"));
    int i;

    if (!name)
        return fault_set(fault, ERR_PROTO, "kind: expected a string");
    for (i = 0; i < MSG_KIND_COUNT; i++)
        if (strcmp(name, proto_kinds[i].name) == 0) {
            m->kind = (enum msg_kind)i;
            return ERR_OK;
        }
    return fault_set(fault, ERR_PROTO, "kind: there is no message \"%.40s\"",
                     name);
}

static enum err read_message(const json_t *o, struct msg *m,
                             struct fault *fault)
{
    const struct proto_field *f;
    const char *wrong;
    enum err err = read_kind(o, m, fault);

    if (!err)
        err = read_op(o, m, fault);
    if (err)
        return err;
    for (f = proto_kinds[m->kind].fields; !err && f->name; f++)
        err = read_field(o, f, m, fault);
    if (!err && m->kind == MSG_REPORT)
        err = read_windows(o, &m->report, fault);
    if (err)
        return err;
    wrong = proto_check(m);
    return wrong ? fault_set(fault, ERR_PROTO, "%s", wrong) : ERR_OK;
}

static enum err load(const char *text, size_t len, json_t **out,
                     struct fault *f)
{
    json_error_t e;
    json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);

    if (!o && (json_error_code(&e) == json_error_out_of_memory ||
               json_error_code(&e) == json_error_unknown))
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    if (!o)
        return fault_set(f, ERR_PROTO, "no JSON: byte %d: %s", e.position,
                         e.text);
    if (!json_is_object(o)) {
        json_decref(o);
        return fault_set(f, ERR_PROTO, "a message is a JSON object");
    }
    *out = o;
    return ERR_OK;
}

enum err msg_decode(const char *text, size_t len, struct msg *out,
                    struct fault *f)
{
    struct msg m = {0};
    json_t *o = NULL;
    enum err err;

    assert(text && out);
    if (len > PROTO_BYTES_MAX)
        return fault_set(f, ERR_LIMIT, "a message has at most %d bytes",
                         PROTO_BYTES_MAX);
    err = load(text, len, &o, f);
    if (err)
        return err;
    err = read_message(o, &m, f);
    json_decref(o);
    if (err) {
        msg_deinit(&m);
        return err;
    }
    *out = m;
    return ERR_OK;
}

json_t *msg_beat_to_json(const struct msg_beat *beat)
{
    struct msg m = {.kind = MSG_BEAT, .beat = *beat};
    json_t *o = json_object();

    if (o && put_fields(o, &m) == ERR_OK)
        return o;
    json_decref(o);
    return NULL;
}

const char *msg_beat_from_json(const json_t *object, struct msg_beat *out)
{
    const struct proto_field *f;
    struct msg m = {.kind = MSG_BEAT};

    for (f = proto_kinds[MSG_BEAT].fields; f->name; f++)
        if (read_field(object, f, &m, NULL) != ERR_OK)
            return f->name;
    *out = m.beat;
    return NULL;
}

void msg_deinit(struct msg *m)
{
    const struct proto_field *f;

    assert((unsigned)m->kind < MSG_KIND_COUNT);
    for (f = proto_kinds[m->kind].fields; f->name; f++) {
        void *p = (char *)m + f->offset;

        if (f->type == FIELD_STRING)
            mem_free(*(char **)p);
        if (f->type == FIELD_OBJECT || f->type == FIELD_NAMES ||
            f->type == FIELD_JSON)
            json_decref(*(json_t **)p);
    }
    if (m->kind == MSG_REPORT)
        mem_free(m->report.window);
    memset(m, 0, sizeof(*m));
}
