#include "cli/basics/options.h"

#include "base/json/json.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/basics/console.h"
#include "cli/basics/examples.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/verbs.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MAX = 64, COMMON = 3, HELP_COLUMN = 28 };

/* Options of the program, set once by its verb. */
static bool quiet, help;
static unsigned verbose;

bool options_quiet(void)
{
    return quiet;
}

bool options_verbose(void)
{
    return verbose > 0;
}

/* -v counts, so it is set by its letter below; `out` is not used. */
static const struct option_spec common[COMMON] = {
    {"help", 'h', OPTION_FLAG, NULL, "show this help", &help},
    {"quiet", 'q', OPTION_FLAG, NULL, "say nothing but errors", &quiet},
    {"verbose", 'v', OPTION_FLAG, NULL, "say more; twice: everything", NULL},
};

/* ---- help ---------------------------------------------------------------- */

static void help_option(struct text *t, const struct option_spec *o)
{
    char left[128];
    int n;

    n = snprintf(left, sizeof(left), o->letter ? "  -%c, " : "      ",
                 o->letter);
    n += snprintf(left + n, sizeof(left) - (size_t)n, "--%s%s%s", o->name,
                  o->arg ? " " : "", o->arg ? o->arg : "");
    if (n < HELP_COLUMN - 1)
        text_printf(t, "%-*s%s\n", HELP_COLUMN, left, o->help);
    else
        text_printf(t, "%s\n%*s%s\n", left, HELP_COLUMN, "", o->help);
}

static void help_examples(struct text *t, const char *verb)
{
    const struct example *e = example_of(verb, 0);

    if (e)
        text_puts(t, "\nExamples:\n");
    for (size_t i = 0; (e = example_of(verb, i)); i++)
        text_printf(t, "  %s%s%s\n", e->line, *e->what ? "\n      " : "",
                    e->what);
}

/* Owned by the caller (mem_free); NULL when out of memory. */
static char *help_text(const struct usage *u)
{
    struct text t = {0};

    const struct verb *verb = verb_find(u->verb);

    assert(verb);
    assert(u->n == 0 || u->option);
    text_printf(&t, "Usage: mltune %s%s%s [options]\n\n%s\n", u->verb,
                *u->operands ? " " : "", u->operands, verb->summary);
    if (*u->details)
        text_printf(&t, "\n%s\n", u->details);
    text_puts(&t, "\nOptions:\n");
    for (size_t i = 0; i < u->n; i++)
        help_option(&t, &u->option[i]);
    for (size_t i = 0; i < COMMON; i++)
        help_option(&t, &common[i]);
    help_examples(&t, u->verb);
    return text_take(&t);
}

static options_hearer *hearer;
static void *hearer_ctx;

void options_tell(options_hearer *hear, void *ctx)
{
    hearer = hear;
    hearer_ctx = ctx;
}

const struct option_spec *options_common(size_t *n)
{
    *n = COMMON;
    return common;
}

static int print_help(const struct usage *u)
{
    return hearer ? hearer(hearer_ctx, u) : console_text(help_text(u));
}

/* ---- parsing ------------------------------------------------------------- */

static int usage_fault(const struct usage *u, const char *what,
                       const char *word, const char *nearest)
{
    if (nearest)
        console_error("%s %s; did you mean %s?", what, word, nearest);
    else
        console_error("%s %s", what, word);
    fprintf(stderr, "Try: mltune %s --help\n", u->verb);
    return EXIT_USAGE;
}

static const struct option_spec *option_at(const struct usage *u, size_t i)
{
    return i < u->n ? &u->option[i] : &common[i - u->n];
}

static const struct option_spec *find_name(const struct usage *u,
                                           const char *name, size_t len)
{
    for (size_t i = 0; i < u->n + COMMON; i++) {
        const struct option_spec *o = option_at(u, i);

        if (strlen(o->name) == len && strncmp(o->name, name, len) == 0)
            return o;
    }
    return NULL;
}

static const struct option_spec *find_letter(const struct usage *u, char letter)
{
    for (size_t i = 0; i < u->n + COMMON; i++)
        if (option_at(u, i)->letter == letter)
            return option_at(u, i);
    return NULL;
}

static int unknown_option(const struct usage *u, const char *word)
{
    const char *names[OPTIONS_MAX], *nearest;
    char name[64], hint[80];

    assert(u->n + COMMON <= OPTIONS_MAX);
    for (size_t i = 0; i < u->n + COMMON; i++)
        names[i] = option_at(u, i)->name;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    nearest = text_nearest(name, names, u->n + COMMON);
    if (nearest)
        snprintf(hint, sizeof(hint), "--%s", nearest);
    return usage_fault(u, "unknown option", word, nearest ? hint : NULL);
}

static bool parse_uint(const char *s, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(s, &end, 10);
    return strspn(s, "0123456789") == strlen(s) && *s && !*end && errno == 0;
}

static int set_value(const struct usage *u, const struct option_spec *o,
                     const char *value)
{
    struct option_uint *number;
    struct option_list *list;

    switch (o->kind) {
    case OPTION_FLAG:
        if (o == &common[2])
            verbose++;
        else
            *(bool *)o->out = true;
        return OPTIONS_GO_ON;
    case OPTION_TEXT:
        *(const char **)o->out = value;
        return OPTIONS_GO_ON;
    case OPTION_UINT:
        number = o->out;
        number->given = parse_uint(value, &number->value);
        if (!number->given)
            return usage_fault(u, "expected a whole number, found", value,
                               NULL);
        return OPTIONS_GO_ON;
    case OPTION_LIST:
        list = o->out;
        if (list->len == OPTION_VALUES_MAX)
            return usage_fault(u, "too many options", o->name, NULL);
        list->item[list->len++] = value;
        return OPTIONS_GO_ON;
    }
    return EXIT_USAGE;
}

/* The arguments still to parse. */
struct options_rest {
    int argc;
    char **argv;
    int at;
};

static int needs_value(const struct usage *u, const struct option_spec *o)
{
    char what[96];

    snprintf(what, sizeof(what), "option --%s needs a value", o->name);
    return usage_fault(u, what, o->arg ? o->arg : "", NULL);
}

static int parse_long(const struct usage *u, struct options_rest *r)
{
    const char *word = r->argv[r->at++], *name = word + 2;
    size_t len = strcspn(name, "=");
    const struct option_spec *o = find_name(u, name, len);
    const char *value = name[len] ? name + len + 1 : NULL;

    if (!o)
        return unknown_option(u, word);
    if (o->kind == OPTION_FLAG && value)
        return usage_fault(u, "option takes no value:", word, NULL);
    if (o->kind != OPTION_FLAG && !value && r->at == r->argc)
        return needs_value(u, o);
    if (o->kind != OPTION_FLAG && !value)
        value = r->argv[r->at++];
    return set_value(u, o, value);
}

/* -qv, -n5, -n 5. */
static int parse_short(const struct usage *u, struct options_rest *r)
{
    const char *word = r->argv[r->at++];
    int code = OPTIONS_GO_ON;

    for (const char *c = word + 1; *c && code == OPTIONS_GO_ON; c++) {
        const struct option_spec *o = find_letter(u, *c);

        if (!o)
            return usage_fault(u, "unknown option", word, NULL);
        if (o->kind == OPTION_FLAG) {
            code = set_value(u, o, NULL);
            continue;
        }
        if (c[1])
            return set_value(u, o, c + 1);
        if (r->at == r->argc)
            return needs_value(u, o);
        return set_value(u, o, r->argv[r->at++]);
    }
    return code;
}

static int add_operand(const struct usage *u, const char *word,
                       struct operands *operands)
{
    if (operands->len >= u->operands_max || operands->len == OPERANDS_MAX)
        return usage_fault(u, "unexpected argument", word, NULL);
    operands->item[operands->len++] = word;
    return OPTIONS_GO_ON;
}

static void apply_common(void)
{
    console_set_quiet(quiet);
    if (quiet)
        log_set_level(LOG_ERROR);
    else if (verbose > 0)
        log_set_level(verbose > 1 ? LOG_DEBUG : LOG_INFO);
}

const char *operands_at(const struct operands *o, size_t i)
{
    assert(i < o->len);
    return o->item[i];
}

int options_parse(const struct usage *u, int argc, char **argv,
                  struct operands *operands)
{
    struct options_rest r = {argc, argv, 1};
    bool only_operands = false;
    int code = OPTIONS_GO_ON;

    assert(argc >= 1);
    assert(u->operands_min <= u->operands_max);
    operands->len = 0;
    help = quiet = false;
    verbose = 0;
    while (r.at < argc && code == OPTIONS_GO_ON) {
        const char *word = argv[r.at];

        if (!only_operands && strcmp(word, "--") == 0) {
            only_operands = true;
            r.at++;
        } else if (!only_operands && strncmp(word, "--", 2) == 0) {
            code = parse_long(u, &r);
        } else if (!only_operands && word[0] == '-' && word[1]) {
            code = parse_short(u, &r);
        } else {
            code = add_operand(u, argv[r.at++], operands);
        }
    }
    if (code != OPTIONS_GO_ON)
        return code;
    if (help)
        return print_help(u);
    if (operands->len < u->operands_min)
        return usage_fault(u, "missing argument:", u->operands, NULL);
    apply_common();
    return OPTIONS_GO_ON;
}

bool options_size(const char *text, uint64_t least, uint64_t *out)
{
    json_t *value = json_string(text);
    bool ok = value && json_to_bytes(value, out) && *out >= least;

    json_decref(value);
    return ok;
}

bool options_time(const char *text, double most, double *out)
{
    json_t *value = json_string(text);
    bool ok = value && json_to_seconds(value, out) && *out >= 1 && *out <= most;

    json_decref(value);
    return ok;
}
