/* `mltune trials RUN`, `mltune branches RUN`: the lists of one run, from its
 * server or from the state folder. */
#include "cli/basics/console.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/state/render.h"

static enum err fetch(struct source *s, const char *name, const char *word,
                      json_t **out, struct fault *f)
{
    char id[RUN_ID_MAX + 1], target[RUN_ID_MAX + 64];
    enum err err = source_find(s, word, id, f);

    if (err)
        return err;
    snprintf(target, sizeof(target), "/api/v1/runs/%s/%s", id, name);
    return source_list(s, target, name, out, f);
}

/* @verb is the list's name in the interface too. */
static int list_items(const char *verb, enum render_list which, int argc,
                      char **argv)
{
    struct source_options from = SOURCE_OPTIONS_DEFAULT;
    bool json = false;
    const struct option_spec options[] = {
        SOURCE_OPTIONS(from),
        {"json", 0, OPTION_FLAG, NULL,
         "one JSON array, its items as over HTTP (docs/http.md)", &json},
    };
    const struct usage usage = {
        .verb = verb,
        .operands = "RUN",
        .details = RUN_OPERAND,
        .operands_min = 1,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    struct source source;
    struct fault f = {0};
    json_t *items = NULL;
    int code = source_begin(&usage, argc, argv, &from, &operands, &source);
    enum err err;

    if (code != OPTIONS_GO_ON)
        return code;
    err = fetch(&source, verb, operands_at(&operands, 0), &items, &f);
    code = source_exit_code(err);
    if (err)
        console_error("%s", f.text);
    else if (json)
        code = console_json(items, 0);
    else
        render_table(which, items, NULL, "", stdout);
    json_decref(items);
    source_close(&source);
    return code;
}

int verb_trials(int argc, char **argv)
{
    return list_items("trials", RENDER_TRIALS, argc, argv);
}

int verb_branches(int argc, char **argv)
{
    return list_items("branches", RENDER_BRANCHES, argc, argv);
}
