/* mltune schema: the JSON schema of the configuration or of a service's
 * settings, or the fields as text.
 */
#include "base/json/config.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/config/config_table.h"
#include "cli/config/config_tunables.h"
#include "cli/config/registry.h"
#include "cli/config/service_settings.h"

#include <stdio.h>

static bool as_text, of_service;

static const struct option_spec options[] = {
    {"text", 0, OPTION_FLAG, NULL, "the fields as text, for people", &as_text},
    {"service", 0, OPTION_FLAG, NULL,
     "of a service's settings, STATE/" SERVICE_SETTINGS, &of_service},
};

static const struct usage usage = {
    .verb = "schema",
    .operands = "",
    .details =
        "Draft 2020-12, with the settings of every app, searcher and strategy "
        "built in.\nEditors use it to complete and check while you type.",
    .n = sizeof(options) / sizeof(*options),
    .option = options};

static int print_text(void)
{
    size_t n;
    const struct config_field *fields =
        of_service ? service_settings_table(&n) : config_table(&n);
    int code;

    if (of_service)
        return console_text(config_help(fields, n));
    puts("Configuration (one JSON file); [default]:\n");
    code = console_text(config_help(fields, n));
    if (code != EXIT_DONE)
        return code;
    puts("\nTunables that are known, as they are unless given:\n");
    return console_text(tunables_help());
}

static int print_schema(void)
{
    struct fault f = {0};
    json_t *schema;
    size_t n;
    const struct config_field *fields = service_settings_table(&n);
    enum err err = of_service ? config_schema(fields, n, &schema, &f)
                              : config_full_schema(cli_registry(), &schema, &f);
    int code;

    if (err) {
        console_error("%s", *f.text ? f.text : err_text(err));
        return exit_code_of(err);
    }
    code = console_json(schema, 2);
    json_decref(schema);
    return code;
}

int verb_schema(int argc, char **argv)
{
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    return as_text ? print_text() : print_schema();
}
