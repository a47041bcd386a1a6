/* `mltune pause RUN`, `limit`, `fork`, ...: commands to a run that is under
 * way. Operands, options and the body that they make follow from the table of
 * commands. */
#include "base/commands/commands.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/verbs/command.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char resource[] = "/runs/{run}";
static const char variable[] = "{branch}";

static const char run_details[] =
    "RUN is an id, the beginning of one, or a name (its newest run). The run "
    "must be\nunder way; the token for --server is in the state folder, or "
    "in\nMLTUNE_TOKEN.";

/* A verb's own options, as they were given. */
struct given {
    struct option_uint number[COMMAND_OPTIONS_MAX];
    bool flag[COMMAND_OPTIONS_MAX];
};

static bool on_branch(const struct command *c)
{
    return strstr(c->path, variable) != NULL;
}

/* Operands before NAME=VALUE: RUN, and BRANCH where there is one. */
static size_t operands_of(const struct command *c)
{
    return on_branch(c) ? 2 : 1;
}

static int parse(const struct command *c, int argc, char **argv,
                 struct command_options *to, struct given *own,
                 struct operands *out)
{
    const struct command_verb *v = c->verb;
    const struct option_spec common[] = {
        STATE_OPTION((*to).state),
        COMMAND_SERVER_OPTION(*to),
        CLIENT_CACERT_OPTION,
        COMMAND_JSON_OPTION(*to),
    };
    enum { COMMON = sizeof(common) / sizeof(*common) };
    struct option_spec option[COMMAND_OPTIONS_MAX + COMMON];
    char operands[48];
    struct usage usage = {
        .verb = v->name,
        .operands = operands,
        .details = v->details ? v->details : run_details,
        .operands_min = operands_of(c) + v->pairs_needed,
        .operands_max = v->pairs ? OPERANDS_MAX : operands_of(c),
        .option = option,
    };

    snprintf(operands, sizeof(operands), "RUN%s%s",
             on_branch(c) ? " BRANCH" : "",
             !v->pairs         ? ""
             : v->pairs_needed ? " NAME=VALUE..."
                               : " [NAME=VALUE...]");
    for (size_t i = 0; i < COMMAND_OPTIONS_MAX && v->option[i].name; i++) {
        const struct command_option *o = &v->option[i];

        option[usage.n++] = (struct option_spec){
            .name = o->name,
            .kind = o->value ? OPTION_UINT : OPTION_FLAG,
            .arg = o->value,
            .help = o->help,
            .out = o->value ? (void *)&own->number[i] : &own->flag[i],
        };
    }
    for (size_t i = 0; i < COMMON; i++)
        option[usage.n++] = common[i];
    return options_parse(&usage, argc, argv, out);
}

/* ---- the body ------------------------------------------------------------ */

/* Adds "NAME=VALUE" to @o: VALUE is JSON, else a text; @none is null. */
static int add_pair(json_t *o, const char *word, const char *none,
                    const char *example)
{
    const char *equals = strchr(word, '=');
    const char *value = equals ? equals + 1 : "";
    char name[64];
    json_t *json = NULL;
    enum err err = ERR_OK;

    if (!equals || equals == word || (size_t)(equals - word) >= sizeof(name)) {
        console_error("\"%.100s\": expected NAME=VALUE, such as %s", word,
                      example);
        return EXIT_USAGE;
    }
    snprintf(name, sizeof(name), "%.*s", (int)(equals - word), word);
    if (json_object_get(o, name)) {
        console_error("%s: given twice", name);
        return EXIT_USAGE;
    }
    if (none && strcmp(value, none) == 0)
        json = json_null();
    else if ((err = json_load(value, strlen(value), &json, NULL, NULL)) &&
             err != ERR_NOMEM)
        json = json_string(value);
    if (json_object_set_new(o, name, json) == 0)
        return EXIT_DONE;
    if (text_is_utf8(word)) {
        console_error("out of memory");
        return EXIT_RUN_FAILED;
    }
    console_error("%.100s: expected a text in UTF-8", word);
    return EXIT_USAGE;
}

/* Adds the operands from the first NAME=VALUE on to @body, as one member. */
static int add_pairs(const struct command *c, const struct operands *operands,
                     json_t *body)
{
    const struct command_verb *v = c->verb;
    size_t first = operands_of(c);
    json_t *pairs;
    int code = EXIT_DONE;

    if (operands->len <= first)
        return EXIT_DONE;
    pairs = json_object();
    for (size_t i = first; i < operands->len && code == EXIT_DONE; i++)
        code = add_pair(pairs, operands->item[i], v->none, v->pair);
    if (json_object_set_new(body, v->pairs, pairs) != 0 && code == EXIT_DONE) {
        console_error("out of memory");
        code = EXIT_RUN_FAILED;
    }
    return code;
}

/* 0, or -1: out of memory. */
static int add_options(const struct command_verb *v, const struct given *own,
                       json_t *body)
{
    int failed = 0;

    for (size_t i = 0; i < COMMAND_OPTIONS_MAX && v->option[i].name; i++) {
        const char *member = v->option[i].member;
        const char *name = member ? member : v->option[i].name;

        if (own->number[i].given)
            failed |= json_object_set_new(
                body, name, json_integer((json_int_t)own->number[i].value));
        else if (own->flag[i])
            failed |= json_object_set_new(body, name, json_true());
    }
    return failed;
}

/* The body as text (mem_free); *@out NULL: the command has none. */
static int make_body(const struct command *c, const struct operands *operands,
                     const struct given *own, char **out)
{
    json_t *body;
    int code;

    *out = NULL;
    if (!c->verb->pairs && !c->verb->option[0].name)
        return EXIT_DONE;
    body = json_object();
    code = add_pairs(c, operands, body);
    if (code == EXIT_DONE) {
        body = json_whole(body, add_options(c->verb, own, body));
        if (body && c->verb->empty && json_object_size(body) == 0) {
            console_error("%s", c->verb->empty);
            code = EXIT_USAGE;
        } else if (!body || !(*out = json_write(body, 0))) {
            console_error("out of memory");
            code = EXIT_RUN_FAILED;
        }
    }
    json_decref(body);
    return code;
}

/* ---- the path ------------------------------------------------------------ */

/* Suffix of the run's path: ":pause", "/branches/7:fork". */
static int make_suffix(const struct command *c, const struct operands *operands,
                       char *out, size_t size)
{
    const char *suffix = c->path + sizeof(resource) - 1;
    const char *at = strstr(suffix, variable);
    const char *word = at ? operands->item[1] : "0";
    unsigned long number;
    char *end;

    assert(strncmp(c->path, resource, sizeof(resource) - 1) == 0);
    if (!at) {
        snprintf(out, size, "%s", suffix);
        return EXIT_DONE;
    }
    number = strtoul(word, &end, 10);
    if (word[0] < '0' || word[0] > '9' || *end || number > 0xfffffffeul) {
        console_error("\"%.100s\": expected the number of a branch, as `mltune "
                      "branches RUN` lists them",
                      word);
        return EXIT_USAGE;
    }
    snprintf(out, size, "%.*s%lu%s", (int)(at - suffix), suffix, number,
             at + sizeof(variable) - 1);
    return EXIT_DONE;
}

int verb_steer(int argc, char **argv)
{
    const struct command *c = command_of_verb(argv[0]);
    struct command_options to = {.state = STATE_DEFAULT};
    struct given own = {0};
    struct operands operands;
    char suffix[64], *body;
    int code;

    assert(c);
    code = parse(c, argc, argv, &to, &own, &operands);
    if (code != OPTIONS_GO_ON)
        return code;
    code = make_suffix(c, &operands, suffix, sizeof(suffix));
    if (code == EXIT_DONE)
        code = make_body(c, &operands, &own, &body);
    if (code != EXIT_DONE)
        return code;
    code =
        command_send(&to, operands_at(&operands, 0), c->method, suffix, body);
    mem_free(body);
    return code;
}
