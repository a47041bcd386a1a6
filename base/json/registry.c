#include "base/json/registry.h"

#include "base/json/json.h"
#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

const char *registry_kind_name(enum registry_kind kind)
{
    static const char *const names[] = {
        "app", "update rule", "consistency model", "searcher", "strategy"};

    assert((unsigned)kind < REGISTRY_KIND_COUNT);
    return names[kind];
}

void registry_init(struct registry *r)
{
    memset(r, 0, sizeof(*r));
}

static bool is_name(const char *s)
{
    size_t n = s ? strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;

    return n > 0 && n < REGISTRY_NAME_MAX && !s[n] &&
           islower((unsigned char)*s);
}

static enum err check_settings(const struct registry_entry *e, struct fault *f)
{
    json_t *schema;
    bool good;
    enum err err;

    if (!e->settings)
        return ERR_OK;
    err = json_load(e->settings, strlen(e->settings), &schema, NULL, f);
    if (err) {
        fault_wrap(f, "settings schema of %s %s", registry_kind_name(e->kind),
                   e->name);
        return err == ERR_NOMEM ? err : ERR_INVAL;
    }
    good = json_is_object(schema);
    json_decref(schema);
    if (good)
        return ERR_OK;
    return fault_set(f, ERR_INVAL, "settings schema of %s %s is no object",
                     registry_kind_name(e->kind), e->name);
}

enum err registry_add(struct registry *r, const struct registry_entry *e,
                      struct fault *f)
{
    enum err err;

    assert((unsigned)e->kind < REGISTRY_KIND_COUNT);
    if (!is_name(e->name) || !e->summary)
        return fault_set(f, ERR_INVAL, "%s: name or summary malformed",
                         registry_kind_name(e->kind));
    err = check_settings(e, f);
    if (err)
        return err;
    if (registry_find(r, e->kind, e->name))
        return fault_set(f, ERR_EXIST, "%s %s is there already",
                         registry_kind_name(e->kind), e->name);
    assert(r->len <= REGISTRY_ENTRIES_MAX);
    if (r->len == REGISTRY_ENTRIES_MAX)
        return fault_set(f, ERR_LIMIT, "more than %d entries",
                         REGISTRY_ENTRIES_MAX);
    r->entry[r->len++] = *e;
    return ERR_OK;
}

const struct registry_entry *registry_find(const struct registry *r,
                                           enum registry_kind kind,
                                           const char *name)
{
    for (size_t i = 0; i < r->len; i++)
        if (r->entry[i].kind == kind && strcmp(r->entry[i].name, name) == 0)
            return &r->entry[i];
    return NULL;
}

const struct registry_entry *registry_at(const struct registry *r,
                                         enum registry_kind kind, size_t index)
{
    for (size_t i = 0; i < r->len; i++)
        if (r->entry[i].kind == kind && !r->entry[i].hidden && index-- == 0)
            return &r->entry[i];
    return NULL;
}

const char *registry_names(const struct registry *r, enum registry_kind kind,
                           char *out, size_t size)
{
    const struct registry_entry *e;
    size_t len = 0;

    assert(size > 0);
    out[0] = '\0';
    for (size_t i = 0; (e = registry_at(r, kind, i)) && len < size; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%s",
                                i > 0 ? ", " : "", e->name);
    return out;
}

const char *registry_nearest(const struct registry *r, enum registry_kind kind,
                             const char *word)
{
    const char *names[REGISTRY_ENTRIES_MAX];
    const struct registry_entry *e;
    size_t n = 0;

    while ((e = registry_at(r, kind, n)))
        names[n++] = e->name;
    return text_nearest(word, names, n);
}

bool registry_uses(const struct registry_entry *e, const char *name)
{
    for (size_t i = 0; e->tunables && e->tunables[i]; i++)
        if (strcmp(e->tunables[i], name) == 0)
            return true;
    return false;
}
