#include "tuner/history/record.h"

#include "base/json/fields_schema.h"
#include "tuner/history/record_table.h"

#include <assert.h>
#include <string.h>

static const struct json_field head[] = {
    {FIELD_OF(record, REAL, at_s)},
    {FIELD_AS("next_clock", record, U64, clock)},
    {.name = NULL},
};

/* All structs of the union begin at the same place. */
static void *body(const struct record *r)
{
    assert((unsigned)r->kind < RECORD_KIND_COUNT);
    return (char *)(uintptr_t)r + offsetof(struct record, run_started);
}

void record_init(struct record *r, enum record_kind kind)
{
    assert((unsigned)kind < RECORD_KIND_COUNT);
    memset(r, 0,
           offsetof(struct record, run_started) + record_kinds[kind].size);
    r->kind = kind;
}

static void copy_bytes(struct record *to, const struct record *from)
{
    assert((unsigned)from->kind < RECORD_KIND_COUNT);
    memcpy(to, from,
           offsetof(struct record, run_started) +
               record_kinds[from->kind].size);
}

enum err record_copy_own(struct record *to, const struct record *from)
{
    copy_bytes(to, from);
    return fields_own(record_kinds[to->kind].fields, body(to));
}

void record_deinit(struct record *r)
{
    fields_deinit(record_kinds[r->kind].fields, body(r));
}

/* ---- as JSON ------------------------------------------------------------- */

json_t *record_to_json(const struct record *r)
{
    json_t *o = json_object();

    assert((unsigned)r->kind < RECORD_KIND_COUNT);
    if (o &&
        !json_object_set_new(o, "kind",
                             json_string(record_kind_name(r->kind))) &&
        !fields_put(o, head, r) &&
        !fields_put(o, record_kinds[r->kind].fields, body(r)))
        return o;
    json_decref(o);
    return NULL;
}

json_t *record_schema(enum record_kind kind)
{
    json_t *properties = json_pack("{s:{s:s, s:[s]}}", "kind", "type", "string",
                                   "enum", record_kind_name(kind));
    json_t *required = json_pack("[s]", "kind");

    if (fields_schema(head, properties, required) &&
        fields_schema(record_kinds[kind].fields, properties, required))
        return json_pack("{s:s, s:o, s:o}", "type", "object", "required",
                         required, "properties", properties);
    json_decref(properties);
    json_decref(required);
    return NULL;
}

static bool kind_from(const json_t *v, enum record_kind *out)
{
    const char *name = json_string_value(v);

    for (unsigned i = 0; name && i < RECORD_KIND_COUNT; i++)
        if (strcmp(name, record_kind_name((enum record_kind)i)) == 0) {
            *out = (enum record_kind)i;
            return true;
        }
    return false;
}

enum err record_from_json(const json_t *json, struct record *out,
                          struct fault *f)
{
    enum record_kind kind;
    const char *wrong;
    struct record r;
    enum err err;

    if (!json_is_object(json))
        return fault_set(f, ERR_FORMAT, "a record must be an object");
    if (!kind_from(json_object_get(json, "kind"), &kind))
        return fault_set(f, ERR_FORMAT, "member kind: no kind of record");
    record_init(&r, kind);
    err = fields_get(json, head, &r, &wrong, NULL);
    if (!err)
        err =
            fields_get(json, record_kinds[kind].fields, body(&r), &wrong, NULL);
    if (err) {
        record_deinit(&r);
        return fault_set(f, ERR_FORMAT,
                         "member %s of a %s record is missing or malformed",
                         wrong, record_kind_name((enum record_kind)kind));
    }
    memcpy(out, &r, sizeof(r));
    return ERR_OK;
}
