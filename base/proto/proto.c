#include "base/proto/proto.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/proto/proto_table.h"

#include <assert.h>
#include <string.h>

static const struct json_field op_field[] = {
    {.name = "op",
     .kind = FIELD_U64,
     .offset = offsetof(struct msg, op),
     .min = 1,
     .max = FIELD_INT_MAX},
    {.name = NULL},
};

/* All structs of the union begin at the same place. */
static void *body(const struct msg *m)
{
    return (char *)(uintptr_t)m + offsetof(struct msg, config);
}

const char *msg_kind_name(enum msg_kind kind)
{
    assert((unsigned)kind < MSG_KIND_COUNT);
    return proto_kinds[kind].name;
}

/* ---- encoding ------------------------------------------------------------ */

static enum err put_message(json_t *o, const struct msg *m)
{
    const struct proto_kind *kind = &proto_kinds[m->kind];
    enum err err = ERR_OK;

    if (json_object_set_new(o, "kind", json_string(kind->name)))
        return ERR_NOMEM;
    if (m->op || kind->op == OP_NEEDED)
        err = fields_put(o, op_field, m);
    return err ? err : fields_put(o, kind->fields, body(m));
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
    err = put_message(o, m);
    if (!err)
        err = dump(o, text, len);
    json_decref(o);
    return err;
}

/* ---- decoding ------------------------------------------------------------ */

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

/* Members that do not fit the tables are no protocol. */
static enum err get_fields(const json_t *o, const struct json_field fields[],
                           void *base, struct fault *fault)
{
    enum err err = fields_get(o, fields, base, NULL, fault);

    if (err == ERR_FORMAT && fault)
        fault->code = ERR_PROTO;
    return err == ERR_FORMAT ? ERR_PROTO : err;
}

static enum err read_message(const json_t *o, struct msg *m,
                             struct fault *fault)
{
    const char *wrong;
    enum err err = read_kind(o, m, fault);

    if (err)
        return err;
    if (json_object_get(o, "op") || proto_kinds[m->kind].op == OP_NEEDED)
        err = get_fields(o, op_field, m, fault);
    if (!err)
        err = get_fields(o, proto_kinds[m->kind].fields, body(m), fault);
    if (err)
        return err;
    wrong = proto_check(m);
    return wrong ? fault_set(fault, ERR_PROTO, "%s", wrong) : ERR_OK;
}

static enum err load(const char *text, size_t len, json_t **out,
                     struct fault *f)
{
    json_error_t e;
    bool lacking;
    json_t *o = json_parse(text, len, 0, &e, &lacking);

    if (lacking)
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

enum msg_kind msg_kind_of(const char *text, size_t len)
{
    struct msg m = {.kind = MSG_KIND_COUNT};
    json_t *o = NULL;

    if (!text || len > PROTO_BYTES_MAX || load(text, len, &o, NULL))
        return MSG_KIND_COUNT;
    read_kind(o, &m, NULL);
    json_decref(o);
    return m.kind;
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

struct msg_hello *msg_hello(struct msg *m)
{
    return m->kind == MSG_HELLO ? &m->hello : NULL;
}

void msg_deinit(struct msg *m)
{
    assert((unsigned)m->kind < MSG_KIND_COUNT);
    fields_deinit(proto_kinds[m->kind].fields, body(m));
    memset(m, 0, sizeof(*m));
}
