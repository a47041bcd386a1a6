#include "cli/config/config_schemas.h"

#include "base/mem.h"
#include "cli/config/config_table.h"
#include "cli/config/config_tunables.h"

#include <assert.h>

struct config_schemas {
    json_t *table;
    struct tunables_known *tunables; /* owned */
    size_t entries;
    struct {
        const struct registry_entry *of;
        json_t *schema;
    } entry[REGISTRY_ENTRIES_MAX];
};

static enum err make_table(json_t **out)
{
    size_t n;
    const struct config_field *fields = config_table(&n);
    enum err err = config_schema(fields, n, out, NULL);

    assert(err != ERR_FORMAT); /* the table's test reads it all */
    return err;
}

static enum err keep(struct config_schemas *s, const struct registry_entry *e)
{
    enum err err = config_entry_schema(e, &s->entry[s->entries].schema, NULL);

    assert(err != ERR_FORMAT); /* registry_add has read it */
    if (!err)
        s->entry[s->entries++].of = e;
    return err;
}

static enum err keep_all(struct config_schemas *s, const struct registry *r)
{
    enum err err = make_table(&s->table);

    if (!err)
        err = tunables_known_new(&s->tunables);
    for (size_t i = 0; i < r->len && !err; i++)
        err = keep(s, &r->entry[i]);
    return err;
}

enum err config_schemas_new(const struct registry *r,
                            struct config_schemas **out)
{
    struct config_schemas *s;
    enum err err;

    assert(r && out);
    s = mem_calloc(1, sizeof(*s));
    if (!s)
        return ERR_NOMEM;
    err = keep_all(s, r);
    if (err)
        config_schemas_free(s);
    else
        *out = s;
    return err;
}

void config_schemas_free(struct config_schemas *s)
{
    if (!s)
        return;
    json_decref(s->table);
    tunables_known_free(s->tunables);
    for (size_t i = 0; i < s->entries; i++)
        json_decref(s->entry[i].schema);
    mem_free(s);
}

enum err config_schemas_table(const struct config_schemas *s, json_t **out)
{
    assert(out);
    if (!s)
        return make_table(out);
    *out = json_incref(s->table);
    return ERR_OK;
}

enum err config_schemas_entry(const struct config_schemas *s,
                              const struct registry_entry *e, json_t **out,
                              struct fault *f)
{
    assert(e && out);
    for (size_t i = 0; s && i < s->entries; i++)
        if (s->entry[i].of == e) {
            *out = json_incref(s->entry[i].schema);
            return ERR_OK;
        }
    return config_entry_schema(e, out, f);
}

const struct tunables_known *
config_schemas_tunables(const struct config_schemas *s)
{
    return s ? s->tunables : NULL;
}
