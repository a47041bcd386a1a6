/* `mltune completions bash` and `mltune man VERB`: what is made from the tables
 * of verbs and options. `make install` writes them where shells and man look.
 */
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"

#include <stdio.h>
#include <string.h>

/* A verb that is asked for its help describes itself in this form instead. */
static int describe(const struct verb *v, enum options_form form)
{
    char name[64], option[] = "--help";
    char *args[] = {name, option, NULL};
    int code;

    snprintf(name, sizeof(name), "%s", v->name);
    options_describe(form);
    code = v->run(2, args);
    options_describe(OPTIONS_HELP);
    return code;
}

static const char begin[] =
    "# bash completion of mltune, made by `mltune completions bash`.\n"
    "_mltune()\n"
    "{\n"
    "    local word=\"${COMP_WORDS[COMP_CWORD]}\" verb=\"${COMP_WORDS[1]}\"\n"
    "    local last=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
    "    local options files words operand IFS=$' \\t\\n'\n"
    "    COMPREPLY=()\n"
    "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
    "        COMPREPLY=($(compgen -W \"";

static const char middle[] = "help --help --version\" -- \"$word\"))\n"
                             "        return\n"
                             "    fi\n"
                             "    [ \"$verb\" = help ] && verb=man\n"
                             "    case \"$verb\" in\n";

static const char end[] =
    "    *)\n"
    "        return\n"
    "        ;;\n"
    "    esac\n"
    "    case \" $files\" in *\" $last \"*)\n"
    "        compopt -o filenames\n"
    "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
    "        return\n"
    "        ;;\n"
    "    esac\n"
    "    case \"$last\" in --role)\n"
    "        COMPREPLY=($(compgen -W \"read run admin\" -- \"$word\"))\n"
    "        return\n"
    "        ;;\n"
    "    esac\n"
    "    case \" $words\" in *\" $last \"*) return ;; esac\n"
    "    case \"$word\" in -*)\n"
    "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
    "        return\n"
    "        ;;\n"
    "    esac\n"
    "    case \"$operand\" in\n"
    "    run)\n"
    "        COMPREPLY=($(compgen -W \"$(mltune ls 2>/dev/null |\n"
    "            sed -n 's/^\\([a-z0-9-]*-[a-z0-9]*\\) .*/\\1/p')\" -- "
    "\"$word\"))\n"
    "        ;;\n"
    "    data)\n"
    "        COMPREPLY=($(compgen -W \"gen info\" -- \"$word\"))\n"
    "        [ \"$COMP_CWORD\" -gt 2 ] && COMPREPLY=($(compgen -f -- "
    "\"$word\"))\n"
    "        ;;\n"
    "    token)\n"
    "        COMPREPLY=($(compgen -W \"add ls revoke audit\" -- \"$word\"))\n"
    "        [ \"$COMP_CWORD\" -gt 2 ] && COMPREPLY=()\n"
    "        [ \"$COMP_CWORD\" -eq 3 ] && [ \"$last\" = revoke ] &&\n"
    "            COMPREPLY=($(compgen -W \"$(mltune token ls 2>/dev/null |\n"
    "            sed -n '2,$s/ .*//p')\" -- \"$word\"))\n"
    "        ;;\n"
    "    file)\n"
    "        compopt -o filenames\n"
    "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
    "        ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _mltune mltune\n";

static int print_bash(void)
{
    const struct verb *v;
    int code = EXIT_DONE;

    fputs(begin, stdout);
    for (size_t i = 0; (v = verb_at(i)); i++)
        if (!v->hidden)
            printf("%s ", v->name);
    fputs(middle, stdout);
    for (size_t i = 0; (v = verb_at(i)) && code == EXIT_DONE; i++)
        if (!v->hidden)
            code = describe(v, OPTIONS_COMPLETION);
    fputs(end, stdout);
    return code;
}

static int parse(const char *verb, const char *operand, int argc, char **argv,
                 const char **word)
{
    const struct usage usage = {
        .verb = verb,
        .operands = operand,
        .details = "",
        .operands_min = 1,
        .operands_max = 1,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code == OPTIONS_GO_ON)
        *word = operands_at(&operands, 0);
    return code;
}

int verb_completions(int argc, char **argv)
{
    const char *shell;
    int code = parse("completions", "bash", argc, argv, &shell);

    if (code != OPTIONS_GO_ON)
        return code;
    if (strcmp(shell, "bash") == 0)
        return print_bash();
    console_error("%s: expected bash, the only shell that is known", shell);
    return EXIT_USAGE;
}

int verb_man(int argc, char **argv)
{
    const struct verb *v;
    const char *name;
    int code = parse("man", "VERB", argc, argv, &name);

    if (code != OPTIONS_GO_ON)
        return code;
    v = verb_find(name);
    if (v)
        return describe(v, OPTIONS_MANUAL);
    console_error("unknown verb %s", name);
    return EXIT_USAGE;
}
