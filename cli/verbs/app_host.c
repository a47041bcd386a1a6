/* `mltune app-host FILE`: says what the application in a shared object is, or
 * the consistency model, or the update rule; started by those who read
 * configurations, not by people. */
#include "ps/node/app_plugin_io.h"
#include "ps/node/model_plugin_io.h"
#include "ps/node/rule_plugin_io.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool model, rule;

static const struct option_spec options[] = {
    {"model", 0, OPTION_FLAG, NULL, "of a consistency model", &model},
    {"rule", 0, OPTION_FLAG, NULL, "of an update rule", &rule},
};

static const struct usage usage = {
    .verb = "app-host",
    .operands = "FILE",
    .details = "Writes one JSON object: name, summary, schema, tunables; or "
               "code and error.",
    .operands_min = 1,
    .operands_max = 1,
    .n = sizeof(options) / sizeof(*options),
    .option = options};

static json_t *describe(const struct mlt_app_ops *ops)
{
    json_t *tunables = json_array(), *schema = NULL;
    int failed = tunables == NULL;

    failed |= json_load(ops->schema, strlen(ops->schema), &schema, NULL, NULL);
    for (size_t i = 0; ops->tunables && ops->tunables[i]; i++)
        failed |=
            json_array_append_new(tunables, json_string(ops->tunables[i]));
    if (failed) {
        json_decref(tunables);
        json_decref(schema);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "name", ops->name, "summary",
                     ops->summary, "schema", schema, "tunables", tunables);
}

enum { USES_MAX = 3 };

/* One that has no settings: the tunables that it uses, others are NULL. */
static json_t *describe_uses(const char *name, const char *summary,
                             const char *const uses[USES_MAX])
{
    json_t *tunables = json_array();
    int failed = tunables == NULL;

    for (size_t i = 0; i < USES_MAX; i++)
        if (uses[i])
            failed |= json_array_append_new(tunables, json_string(uses[i]));
    if (failed) {
        json_decref(tunables);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:{}, s:o}", "name", name, "summary", summary,
                     "schema", "tunables", tunables);
}

static enum err open_app(const char *path, json_t **about, struct fault *f)
{
    const struct mlt_app_ops *ops;
    enum err err = app_plugin_open(path, &ops, f);

    if (!err)
        *about = describe(ops);
    return err;
}

static enum err open_model(const char *path, json_t **about, struct fault *f)
{
    const struct mlt_model_ops *ops;
    enum err err = model_plugin_open(path, &ops, f);

    if (!err)
        *about = describe_uses(
            ops->name, ops->summary,
            (const char *[USES_MAX]){
                ops->uses & MLT_MODEL_STALENESS ? "staleness" : NULL,
                ops->uses & MLT_MODEL_K ? "k" : NULL});
    return err;
}

static enum err open_rule(const char *path, json_t **about, struct fault *f)
{
    const struct mlt_rule_ops *ops;
    enum err err = rule_plugin_open(path, &ops, f);

    if (!err)
        *about = describe_uses(
            ops->name, ops->summary,
            (const char *[USES_MAX]){
                ops->uses & MLT_RULE_LEARNING_RATE ? "learning_rate" : NULL,
                ops->uses & MLT_RULE_LEARNING_RATE ? "weight_decay" : NULL,
                ops->uses & MLT_RULE_MOMENTUM ? "momentum" : NULL});
    return err;
}

/* Output of the object itself is not taken for the answer. */
static FILE *keep_stdout(void)
{
    int fd = dup(STDOUT_FILENO);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;

    dup2(STDERR_FILENO, STDOUT_FILENO);
    return file;
}

static int tell(const char *path)
{
    FILE *out = keep_stdout();
    json_t *about = NULL;
    struct fault f = {0};
    enum err err = model  ? open_model(path, &about, &f)
                   : rule ? open_rule(path, &about, &f)
                          : open_app(path, &about, &f);
    char *text;

    if (err)
        about = json_pack("{s:s, s:s}", "code", err_name(err), "error", f.text);
    text = about ? json_write(about, 0) : NULL;
    if (out && text)
        fputs(text, out);
    if (out && fclose(out) != 0)
        err = ERR_IO;
    json_decref(about);
    mem_free(text);
    return err || !text ? EXIT_RUN_FAILED : EXIT_DONE;
}

int verb_app_host(int argc, char **argv)
{
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    return code == OPTIONS_GO_ON ? tell(operands_at(&operands, 0)) : code;
}
