/* mltune validate CONFIG: checks a configuration, prints it with all defaults.
 */
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/verbs.h"
#include "cli/config/config_file.h"

#include <stdio.h>

static struct option_list sets;
static bool as_json;

static const struct option_spec options[] = {
    {"set", 0, OPTION_LIST, "PATH=VALUE",
     "change a value first (repeatable); VALUE is JSON, else a text", &sets},
    {"json", 0, OPTION_FLAG, NULL,
     "print {\"valid\", \"problems\", \"config\"} on stdout", &as_json},
};

static const struct usage usage = {
    .verb = "validate",
    .operands = "CONFIG",
    .details = "Each error comes with JSON pointer, line and column. A valid "
               "one is printed\nwith every default filled in; exit code 0. An "
               "invalid one ends with 78. CONFIG\nmay be - for stdin.",
    .operands_min = 1,
    .operands_max = 1,
    .n = sizeof(options) / sizeof(*options),
    .option = options};

static int print_report(const struct run_config *c,
                        const struct problems *problems)
{
    json_t *report = json_pack("{s:b, s:o, s:O?}", "valid", c != NULL,
                               "problems", problems_to_json(problems), "config",
                               c ? c->effective : NULL);
    int code = console_json(report, 2);

    json_decref(report);
    return code;
}

int verb_validate(int argc, char **argv)
{
    struct problems problems = {0};
    struct run_config *c = NULL;
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands), said = EXIT_DONE;

    if (code != OPTIONS_GO_ON)
        return code;
    code = run_config_check(operands_at(&operands, 0), &sets, &c, &problems);
    if (code != EXIT_DONE && code != EXIT_CONFIG)
        goto done;
    if (c && c->searcher_broken)
        console_note("%s: a run would go on without it", c->searcher_broken);
    if (as_json)
        said = print_report(c, &problems);
    else
        run_config_say(operands_at(&operands, 0), &problems);
    if (!as_json && c)
        said = console_json(c->effective, 2);
    if (code == EXIT_DONE)
        code = said;
done:
    run_config_free(c);
    problems_deinit(&problems);
    return code;
}
