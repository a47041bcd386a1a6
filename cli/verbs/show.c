/* `mltune show RUN`: what a run did, from its server or from the state folder.
 */
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/fold.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/state/render.h"

#include <unistd.h>

static int print(const struct run_answers *a, bool json)
{
    json_t *o;
    int code;

    if (!json) {
        struct render_screen screen = {.columns = fold_width(STDOUT_FILENO),
                                       .rows = fold_rows(STDOUT_FILENO)};

        if (options_verbose())
            screen.rows = 0;
        render_run(a, &screen, stdout);
        return EXIT_DONE;
    }
    o = render_answers(a);
    code = console_json(o, 0);
    json_decref(o);
    return code;
}

static int show(struct source *s, const char *word, bool json)
{
    struct run_answers answers = {.run = NULL};
    char id[RUN_ID_MAX + 1];
    struct fault f = {0};
    enum err err = source_find(s, word, id, &f);
    int code;

    if (!err)
        err = run_answers_get(s, id, &answers, &f);
    if (err)
        console_error("%s", f.text);
    code = err ? source_exit_code(err) : print(&answers, json);
    run_answers_deinit(&answers);
    return code;
}

int verb_show(int argc, char **argv)
{
    struct source_options from = SOURCE_OPTIONS_DEFAULT;
    bool json = false;
    const struct option_spec options[] = {
        SOURCE_OPTIONS(from),
        {"json", 0, OPTION_FLAG, NULL,
         "one JSON object: the run as over HTTP (docs/http.md), over it the "
         "members of run --json, and config, trial_list, epoch_list, "
         "decision_list, node_list",
         &json},
    };
    const struct usage usage = {
        .verb = "show",
        .operands = "RUN",
        .details = RUN_OPERAND "\nOne screen; -v adds all trials, epochs and "
                               "decisions.",
        .operands_min = 1,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    struct source source;
    int code = source_begin(&usage, argc, argv, &from, &operands, &source);

    if (code != OPTIONS_GO_ON)
        return code;
    code = show(&source, operands_at(&operands, 0), json);
    source_close(&source);
    return code;
}
