/* `mltune data gen SPEC OUT` and `mltune data info DATA`: writes generated data
 * to files, says what a file holds. */
#include "apps/data/data.h"
#include "apps/samples/data_info.h"
#include "base/confine_io.h"
#include "base/log.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"

#include <stdio.h>
#include <string.h>

static const char details[] =
    "gen SPEC OUT   writes generated data: ratings and bags of words as a "
    "text\n"
    "               file, digits as a folder of four idx files. SPEC is as in "
    "a\n"
    "               configuration, gen:ratings?users=1000&items=500,\n"
    "               gen:digits?samples=5000 or gen:bow?docs=1000\n"
    "info DATA      what a file, folder, glob or SPEC holds, as JSON; what "
    "cannot be read:\n"
    "               why not, and what to do (exit code 78)\n";

static int fail(const struct fault *f, enum err err)
{
    console_error("%s", f->text);
    return exit_code_of(err);
}

static int generate(const char *spec, const char *out)
{
    struct fault f = {0};
    enum err err = data_generate(spec, out, &f);

    return err ? fail(&f, err) : EXIT_DONE;
}

static int describe(const char *spec)
{
    struct data_info info;
    struct fault f = {0};
    json_t *object;
    enum err err;
    int code;

    if (!confine(CONFINE_READ)) /* the file may be a stranger's */
        log_event(LOG_WARN, "not_confined", "verb=data");
    err = data_describe(spec, ".", &info, &f);
    if (err)
        return fail(&f, err);
    object = data_info_json(&info);
    data_info_deinit(&info);
    code = console_json(object, 2);
    json_decref(object);
    if (code != EXIT_DONE || info.readable)
        return code;
    console_error("%s cannot be read: %s", spec, info.why);
    console_note("what to do: %s", info.advice);
    return EXIT_CONFIG;
}

int verb_data(int argc, char **argv)
{
    const struct usage usage = {
        .verb = "data",
        .operands = "gen SPEC OUT | info DATA",
        .details = details,
        .operands_min = 2,
        .operands_max = 3,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    if (strcmp(operands_at(&operands, 0), "gen") == 0 && operands.len == 3)
        return generate(operands_at(&operands, 1), operands_at(&operands, 2));
    if (strcmp(operands_at(&operands, 0), "info") == 0 && operands.len == 2)
        return describe(operands_at(&operands, 1));
    console_error("expected: mltune data %s", usage.operands);
    return EXIT_USAGE;
}
