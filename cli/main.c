/* The mltune program: finds the verb and runs it. */
#include "base/json/json.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/signals.h"
#include "cli/basics/verbs.h"

#include <stdio.h>
#include <string.h>

static void print_verbs(FILE *to)
{
    const struct verb *v;

    for (size_t i = 0; (v = verb_at(i)); i++)
        if (!v->hidden)
            fprintf(to, "  %-14s%s\n", v->name, v->summary);
}

static int print_help(FILE *to)
{
    fputs("Usage: mltune VERB [arguments] [options]\n\n"
          "Trains a model and tunes how it trains, in one run.\n\nVerbs:\n",
          to);
    print_verbs(to);
    fputs(
        "\nOptions:\n  -h, --help    show this help; mltune VERB --help for a "
        "verb's\n      --version show the version\n\n"
        "Exit codes: 0 finished, 1 the run failed, 2 usage (also no such run,\n"
        "or not running), 69 server unreachable, 74 input or output,\n"
        "75 interrupted, 78 invalid configuration, 130 and 143 by signal.\n",
        to);
    return EXIT_DONE;
}

static int unknown_verb(const char *name)
{
    const char *nearest = verb_nearest(name);

    if (nearest)
        console_error("unknown verb %s; did you mean %s?", name, nearest);
    else
        console_error("unknown verb %s", name);
    fputs("Try: mltune --help\n", stderr);
    return EXIT_USAGE;
}

/* mltune help VERB is mltune VERB --help. */
static int help_on(const char *name)
{
    char verb[64], option[] = "--help";
    char *args[] = {verb, option, NULL};
    const struct verb *v = verb_find(name);

    if (!v)
        return unknown_verb(name);
    snprintf(verb, sizeof(verb), "%s", name);
    return v->run(2, args);
}

static int dispatch(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    const struct verb *v = name ? verb_find(name) : NULL;

    if (v)
        return v->run(argc - 1, argv + 1);
    if (!name) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        puts("mltune " MLT_VERSION);
        return EXIT_DONE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
        (strcmp(name, "help") == 0 && argc == 2))
        return print_help(stdout);
    if (strcmp(name, "help") == 0)
        return help_on(argv[2]);
    if (*name == '-') {
        console_error("unknown option %s", name);
        fputs("Try: mltune --help\n", stderr);
        return EXIT_USAGE;
    }
    return unknown_verb(name);
}

int main(int argc, char **argv)
{
    int code;

    signals_guard_stdio();
    signals_hear_children();
    json_count_memory();
    code = dispatch(argc, argv);
    if (console_flush() != 0 && code == EXIT_DONE)
        code = EXIT_IO;
    return code;
}
