/* Registries: what is built in or was found, by kind and name.
 *
 * Filled once at the start by cli, read-only after; everything that validates,
 * helps or lists uses only this, so that api and tuner need to know neither ps
 * nor apps. The entry's `ops` leads those who do know the kind to the code.
 *
 * No lock: no thread may read before the last registry_add.
 */
#ifndef BASE_REGISTRY_H
#define BASE_REGISTRY_H

#include "base/fault.h"
#include "base/json/problems.h"

#include <stdbool.h>
#include <stddef.h>

enum registry_kind {
    REGISTRY_APP,         /* ops: const struct mlt_app_ops */
    REGISTRY_RULE,        /* update rules; ops belong to ps */
    REGISTRY_CONSISTENCY, /* consistency models; ops belong to ps */
    REGISTRY_SEARCHER,    /* ops: const struct searcher_ops */
    REGISTRY_STRATEGY,    /* ops: const struct strategy_ops */
    REGISTRY_KIND_COUNT
};

enum { REGISTRY_ENTRIES_MAX = 128, REGISTRY_NAME_MAX = 64 };

/* Finds what is wrong with @settings, which are at @pointer, beyond what the
 * schema says; called only where they are as the schema says. */
typedef void registry_check(const json_t *settings, const char *pointer,
                            struct problems *out);

/* Why @tunable, one of the entry's own, changes nothing under @settings, as
 * words that follow "cannot act"; NULL: it does. Static storage. */
typedef const char *registry_idle(const json_t *settings, const char *tunable);

/* All pointers are borrowed and must outlive the registry. */
struct registry_entry {
    enum registry_kind kind;
    const char *name;    /* [a-z][a-z0-9_]*, below REGISTRY_NAME_MAX bytes */
    const char *summary; /* one line */
    /* JSON schema of its settings: an object with "properties", each with type,
     * default and description; NULL where it has none. */
    const char *settings;
    /* Tunables that act with it, NULL-terminated; NULL: none. An app: of the
     * known names those it uses, then its own. An update rule: of
     * learning_rate, weight_decay and momentum those it uses, and update_rule
     * where branches may change it. A consistency
     * model: staleness or nothing. */
    const char *const *tunables;
    const void *ops;
    bool hidden; /* found by its name only: in no list, in no message */
    registry_check *check; /* NULL: the schema says all */
    registry_idle *idle;   /* NULL: all its tunables act */
};

struct registry {
    struct registry_entry entry[REGISTRY_ENTRIES_MAX];
    size_t len;
};

/* "app", "update rule", "consistency model", "searcher", "strategy". */
const char *registry_kind_name(enum registry_kind kind);

void registry_init(struct registry *r);

/* Adds a copy of @e. Errors: ERR_INVAL (name or schema malformed), ERR_EXIST
 * (kind and name are taken), ERR_LIMIT, ERR_NOMEM. */
enum err registry_add(struct registry *r, const struct registry_entry *e,
                      struct fault *f);

/* NULL where there is none. */
const struct registry_entry *registry_find(const struct registry *r,
                                           enum registry_kind kind,
                                           const char *name);

/* Entry number @index of those of @kind that are not hidden, in order of
 * addition; NULL past the last. */
const struct registry_entry *registry_at(const struct registry *r,
                                         enum registry_kind kind, size_t index);

/* "grid, random": the names of @kind, cut at @size. Returns @out. */
const char *registry_names(const struct registry *r, enum registry_kind kind,
                           char *out, size_t size);

/* The name of @kind that may be meant by @word; NULL where none is near. */
const char *registry_nearest(const struct registry *r, enum registry_kind kind,
                             const char *word);

/* Whether tunable @name is among @e's. */
bool registry_uses(const struct registry_entry *e, const char *name);

#endif
