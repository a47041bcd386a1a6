/* `mltune data gen SPEC OUT` and `mltune data info DATA`: writes generated data
 * to files, says what a file holds. */
#include "apps/data/data.h"
#include "apps/formats/data_stream.h"
#include "apps/samples/data_info.h"
#include "base/host/confine_io.h"
#include "base/host/machine_io.h"
#include "base/log.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"

#include <stdio.h>
#include <string.h>

static const char details[] =
    "gen SPEC OUT   writes generated data: ratings, bags of words and sparse\n"
    "               samples as a text file, digits as a folder of four idx "
    "files. SPEC is as in "
    "a\n"
    "               configuration, gen:ratings?users=1000&items=500,\n"
    "               gen:digits?samples=5000 gen:bow?docs=1000 or\n"
    "               gen:libsvm?classes=3\n"
    "info DATA      what a file, folder, glob or SPEC holds, as JSON; what "
    "cannot be read:\n"
    "               why not, and what to do (exit code 78). Of a table the "
    "last column\n"
    "               is the label where --label says no other\n";

/* What `info` takes by itself: files that unpack to much more than they are
 * are not what data look like. */
enum { INFO_MEMORY_TIMES = 8 };
static const uint64_t info_memory = 1 << 30;

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

/* What looking at @spec may take: @asked, or 1 GiB, of large files more, never
 * more than half of what there is. */
static uint64_t memory_for(const char *spec, uint64_t asked)
{
    uint64_t half = machine_memory_left("") / 2, bytes = info_memory;
    struct data_glimpse seen;

    if (asked)
        return asked;
    if (data_glance(spec, ".", &seen, NULL) == ERR_OK && seen.files > 0 &&
        seen.bytes > bytes / INFO_MEMORY_TIMES)
        bytes = seen.bytes < half ? seen.bytes * INFO_MEMORY_TIMES : half;
    return bytes < half ? bytes : half;
}

static int describe(const char *spec, const struct csv_options *csv,
                    uint64_t memory)
{
    struct data_info info;
    struct fault f = {0};
    json_t *object;
    enum err err;
    int code;

    if (!confine(CONFINE_READ)) /* the file may be a stranger's */
        log_event(LOG_WARN, "not_confined", "verb=data");
    data_memory_name("--memory");
    data_memory_allow(memory_for(spec, memory));
    err = data_describe(spec, ".", csv, &info, &f);
    if (err == ERR_LIMIT)
        console_note("what to do: --memory SIZE lets it take more");
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

/* How the settings of an application would have a table read; false: nothing
 * was said of that. */
static bool table_as(const char *label, const struct option_list *ignore,
                     const struct option_list *categories,
                     const char *separator, struct csv_options *out)
{
    *out = (struct csv_options){.label = label,
                                .header = -1,
                                .separator = separator ? *separator : '\0',
                                .ignore = ignore->item,
                                .ignored = ignore->len,
                                .category = categories->item,
                                .categories = categories->len};
    return label || separator || ignore->len || categories->len;
}

int verb_data(int argc, char **argv)
{
    const char *memory = NULL, *label = NULL, *separator = NULL;
    struct option_list ignore = {.len = 0}, categories = {.len = 0};
    uint64_t bytes = 0;
    const struct option_spec options[] = {
        {"label", 0, OPTION_TEXT, "COLUMN",
         "info: the column to predict, as app.label names it", &label},
        {"ignore", 0, OPTION_LIST, "COLUMN",
         "info: not to look at, as app.ignore; repeatable", &ignore},
        {"categories", 0, OPTION_LIST, "COLUMN",
         "info: of categories, as app.categories; repeatable", &categories},
        {"separator", 0, OPTION_TEXT, "C",
         "info: what is between two fields, as app.separator", &separator},
        {"memory", 0, OPTION_TEXT, "SIZE",
         "most memory that info takes for data (1GiB, or 8 times the files; "
         "half of what is free)",
         &memory}};
    const struct usage usage = {
        .verb = "data",
        .operands = "gen SPEC OUT | info DATA",
        .details = details,
        .operands_min = 2,
        .operands_max = 3,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    struct csv_options csv;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    if (memory && !options_size(memory, 1 << 20, &bytes)) {
        console_error("--memory: expected a size such as 8GiB, at least 1MiB, "
                      "found \"%s\"",
                      memory);
        return EXIT_USAGE;
    }
    if (separator && strlen(separator) != 1) {
        console_error("--separator: expected one character, found \"%s\"",
                      separator);
        return EXIT_USAGE;
    }
    if (strcmp(operands_at(&operands, 0), "gen") == 0 && operands.len == 3)
        return generate(operands_at(&operands, 1), operands_at(&operands, 2));
    if (strcmp(operands_at(&operands, 0), "info") == 0 && operands.len == 2)
        return describe(operands_at(&operands, 1),
                        table_as(label, &ignore, &categories, separator, &csv)
                            ? &csv
                            : NULL,
                        bytes);
    console_error("expected: mltune data %s", usage.operands);
    return EXIT_USAGE;
}
