/* What the data decide where the user does not: update rule and patience. */
#include "apps/data/data_kind.h"
#include "apps/data/data_path.h"
#include "apps/data/gen.h"
#include "base/json/json.h"
#include "cli/config/config_internal.h"
#include "ps/rows/rule.h"

#include <assert.h>

/* Of a folder's files: what the first say of it, all are. */
enum { LOOKED_AT_MAX = 64 };

/* Whether the files are a table's: they can be read, and none holds images,
 * which an application of both takes before tables. What is wrong with them
 * otherwise, who loads them says. */
static bool are_table(const struct data_files *files)
{
    bool table = false;

    for (size_t i = 0; i < files->count && i < LOOKED_AT_MAX; i++) {
        enum data_kind kind = DATA_BINARY;
        struct fault f = {0};
        unsigned dims;

        if (data_kind_of_file(files->path[i], &kind, &dims, &f))
            continue;
        if (kind == DATA_IDX || kind == DATA_CIFAR)
            return false;
        /* A table of few columns looks like ratings. */
        table |= kind == DATA_CSV || kind == DATA_RATINGS;
    }
    return table;
}

static bool is_table(const struct config_parse *p, const char *spec)
{
    struct data_files files = {0};
    struct fault f = {0};
    bool table = false;

    if (spec && *spec && !gen_is(spec) &&
        data_files_find(spec, p->c->folder, &files, &f) == ERR_OK)
        table = are_table(&files);
    data_files_deinit(&files);
    return table;
}

/* What the tunable update_rule is pinned at or starts from, where that is said
 * and is a rule; a program's own tunable of that name is not meant. */
static const char *searched_rule(const struct config_parse *p)
{
    const json_t *tunable = json_at(p->root, "/tunables/update_rule");
    const json_t *value = json_object_get(tunable, "fixed");
    const char *name;
    uint32_t number;

    if (!value)
        value = json_object_get(tunable, "default");
    name = json_string_value(value);
    if (!p->c->app || !registry_uses(p->c->app, "update_rule") || !name ||
        rule_choice(name, &number, NULL))
        return NULL;
    return name;
}

static const char *preferred(const struct config_parse *p, const json_t *schema,
                             bool table)
{
    const json_t *app = json_at(p->root, "/app");
    const char *rule = config_word_of_settings(schema, app, "x-update-rule");
    const char *first = searched_rule(p);

    if (first)
        return first;
    /* A user who lists momentum means a rule that has it. */
    if (json_at(p->root, "/tunables/momentum") &&
        !json_at(p->root, "/tunables/update_rule"))
        return "sgd";
    if (!rule && table)
        rule = json_string_value(json_object_get(schema, "x-table-rule"));
    return rule ? rule : "sgd";
}

enum err config_imply(struct config_parse *p)
{
    const json_t *data = json_at(p->root, "/app/data"), *patience;
    json_t *schema = NULL;
    struct fault f = {0};
    bool table;
    enum err err = ERR_OK;

    assert(p->c->folder);
    if (p->c->app)
        err = config_schemas_entry(p->env->schemas, p->c->app, &schema, &f);
    if (err)
        return err;
    patience = json_object_get(schema, "x-table-patience");
    table = (patience || json_object_get(schema, "x-table-rule")) &&
            is_table(p, json_string_value(data));
    err = config_put_absent(p, "/ps/update_rule",
                            json_string(preferred(p, schema, table)));
    if (!err)
        err = config_put_absent(p, "/stop/plateau_hits",
                                json_boolean(table && json_is_true(patience)));
    json_decref(schema);
    return err;
}
