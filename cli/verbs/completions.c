/* `mltune completions SHELL` and `mltune man VERB`: what is made from the
 * tables of verbs, options and configurations. `make install` writes them where
 * shells and man look.
 *
 * The scripts ask `mltune completions words` for what may stand next, so that
 * all shells know the same, and runs and tokens as they are now.
 */
#include "api/http/tokens_io.h"
#include "base/mem.h"
#include "cli/basics/completion.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/manual.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/config/config_manual.h"
#include "cli/config/config_table.h"
#include "cli/config/registry.h"
#include "cli/state/source.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A verb that is asked for its help tells @hear what it is instead. */
static int describe(const struct verb *v, options_hearer *hear, void *ctx)
{
    char name[64], option[] = "--help";
    char *args[] = {name, option, NULL};
    int code;

    snprintf(name, sizeof(name), "%s", v->name);
    options_tell(hear, ctx);
    code = v->run(2, args);
    options_tell(NULL, NULL);
    return code;
}

/* ---- scripts ------------------------------------------------------------- */

struct shell {
    const char *name, *script;
};

static const struct shell shells[] = {
    {"bash",
     "# bash completion of mltune, made by `mltune completions bash`.\n"
     "_mltune()\n"
     "{\n"
     "    local i word line last= joins= kind= IFS=$'\\n'\n"
     "    local -a words=()\n"
     "    # bash takes words apart at '='.\n"
     "    for ((i = 1; i <= COMP_CWORD; i++)); do\n"
     "        word=${COMP_WORDS[i]}\n"
     "        if ((i == COMP_CWORD)) && [[ -z $word && $COMP_LINE = *' ' ]]; "
     "then\n"
     "            joins=\n"
     "        fi\n"
     "        if [[ ${#words[@]} -gt 0 && ( $word = = || -n $joins ) ]]; then\n"
     "            words[-1]+=$word\n"
     "        else\n"
     "            words+=(\"$word\")\n"
     "        fi\n"
     "        [[ $word = = ]] && joins=1 || joins=\n"
     "    done\n"
     "    last=${words[-1]}\n"
     "    COMPREPLY=()\n"
     "    while read -r line; do\n"
     "        case $line in\n"
     "        :*) kind=$line ;;\n"
     "        ?*) word=${line%%$'\\t'*}\n"
     "            [[ $word = *= ]] && compopt -o nospace\n"
     "            [[ $last = *=* ]] && word=${word#\"${last%=*}=\"}\n"
     "            printf -v word %q \"$word\"\n"
     "            COMPREPLY+=(\"$word\") ;;\n"
     "        esac\n"
     "    done < <(\"${COMP_WORDS[0]}\" completions words -- \"${words[@]}\" "
     "2>/dev/null)\n"
     "    [[ -n $kind ]] && compopt -o filenames\n"
     "    case $kind in\n"
     "    :files) mapfile -t COMPREPLY < <(compgen -f -- \"$last\") ;;\n"
     "    :folders) mapfile -t COMPREPLY < <(compgen -d -- \"$last\") ;;\n"
     "    :configs) mapfile -t COMPREPLY < <(compgen -d -- \"$last\"\n"
     "        compgen -f -X '!*.json' -- \"$last\") ;;\n"
     "    esac\n"
     "}\n"
     "complete -F _mltune mltune\n"},
    {"zsh", "#compdef mltune\n"
            "# zsh completion of mltune, made by `mltune completions zsh`.\n"
            "_mltune()\n"
            "{\n"
            "    local line word\n"
            "    local -a said begun\n"
            "    for line in \"${(@f)$($words[1] completions words -- "
            "\"${(@Q)words[2,CURRENT]}\" 2>/dev/null)}\"; do\n"
            "        word=${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\n"
            "        case $line in\n"
            "        (:files) _files ;;\n"
            "        (:folders) _files -/ ;;\n"
            "        (:configs) _files -g '*.json' ;;\n"
            "        ('') ;;\n"
            "        (*=$'\\t'*) begun+=($word) ;;\n"
            "        (*) said+=($word) ;;\n"
            "        esac\n"
            "    done\n"
            "    (( $#said )) && _describe -t words word said\n"
            "    (( $#begun )) && _describe -t settings setting begun -S ''\n"
            "}\n"
            "if [ \"$funcstack[1]\" = _mltune ]; then\n"
            "    _mltune \"$@\"\n"
            "else\n"
            "    compdef _mltune mltune\n"
            "fi\n"},
    {"fish",
     "# fish completion of mltune, made by `mltune completions fish`.\n"
     "function __mltune_words\n"
     "    set -l said (commandline -opc)\n"
     "    set -l last (commandline -ct)\n"
     "    test -n \"$last\"; or set last ''\n"
     "    for line in ($said[1] completions words -- $said[2..-1] $last "
     "2>/dev/null)\n"
     "        switch $line\n"
     "            case :files\n"
     "                __fish_complete_path $last\n"
     "            case :folders\n"
     "                __fish_complete_directories $last ''\n"
     "            case :configs\n"
     "                __fish_complete_suffix .json\n"
     "            case '*'\n"
     "                echo $line\n"
     "        end\n"
     "    end\n"
     "end\n"
     "complete -c mltune -f -a '(__mltune_words)'\n"},
};
enum { SHELLS = sizeof(shells) / sizeof(*shells) };

/* ---- words that only a folder or the registry knows ---------------------- */

/* What is to be completed. */
struct completing {
    const struct completion_line *line;
    struct text *out;
};

static const char *begun_of(const struct completing *c)
{
    return c->line->word[c->line->n - 1];
}

static const char *state_of(const struct completing *c)
{
    const char *given = completion_value(c->line, "state");

    return given ? given : STATE_DEFAULT;
}

static const char *member(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));

    return text ? text : "";
}

/* Ids of runs, and names, each of which stands for the newest run. */
static void add_runs(struct completing *c)
{
    struct source source;
    struct fault f = {0};
    json_t *runs = NULL, *seen = json_object(), *run;
    size_t i;

    if (source_open(&source, NULL, state_of(c), &f) == ERR_OK) {
        if (source_runs(&source, &runs, &f) != ERR_OK)
            runs = NULL;
        source_close(&source);
    }
    json_array_foreach(runs, i, run)
    {
        const char *name = member(run, "name");

        completion_add(c->out, begun_of(c), member(run, "run"),
                       member(run, "status"));
        if (!json_object_get(seen, name))
            completion_add(c->out, begun_of(c), name,
                           "the newest of that name");
        /* Without memory a name may come twice. */
        (void)json_object_set_new(seen, name, json_true());
    }
    json_decref(runs);
    json_decref(seen);
}

static void add_tokens(struct completing *c)
{
    struct named_tokens tokens = {.len = 0};

    if (tokens_read(state_of(c), &tokens, NULL) != ERR_OK)
        return;
    for (size_t i = 0; i < tokens.len; i++)
        completion_add(c->out, begun_of(c), tokens.item[i].name,
                       role_name(tokens.item[i].role));
    tokens_deinit(&tokens);
}

/* Entries of @kind behind what ends the word so far at one of @stops: "a,b". */
static void add_entries(struct completing *c, enum registry_kind kind,
                        const char *stops)
{
    const struct registry_entry *e;
    const char *begun = begun_of(c);
    size_t kept = 0;
    char word[256];

    for (size_t i = 0; begun[i]; i++)
        if (strchr(stops, begun[i]))
            kept = i + 1;
    for (size_t i = 0; (e = registry_at(cli_registry(), kind, i)); i++) {
        snprintf(word, sizeof(word), "%.*s%s", (int)kept, begun, e->name);
        completion_add(c->out, begun, word, e->summary);
    }
}

static void add_choices(struct completing *c, const struct config_field *field)
{
    const char *at = field->choices               ? field->choices
                     : field->type == CONFIG_BOOL ? "true|false"
                                                  : "";
    char word[256];

    for (size_t n; *at; at += n + (at[n] == '|')) {
        n = strcspn(at, "|");
        snprintf(word, sizeof(word), "%s=%.*s", field->path, (int)n, at);
        completion_add(c->out, begun_of(c), word, NULL);
    }
}

/* Values of what is entries of the registry. */
static bool add_names(struct completing *c)
{
    static const struct {
        const char *begin;
        enum registry_kind kind;
    } named[] = {{"app.name=", REGISTRY_APP},
                 {"tuner.strategy=", REGISTRY_STRATEGY},
                 {"tuner.searcher=", REGISTRY_SEARCHER},
                 {"ps.update_rule=", REGISTRY_RULE},
                 {"ps.consistency=", REGISTRY_CONSISTENCY}};

    for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++)
        if (strncmp(begun_of(c), named[i].begin, strlen(named[i].begin)) == 0) {
            add_entries(c, named[i].kind, "=");
            return true;
        }
    return false;
}

static void add_settings(struct completing *c)
{
    bool valued = strchr(begun_of(c), '=') != NULL;
    const struct config_field *fields;
    size_t n;
    char word[256];

    if (valued && add_names(c))
        return;
    if (!valued)
        completion_add(c->out, begun_of(c), "app.name=", "what trains");
    fields = config_table(&n);
    for (size_t i = 0; i < n; i++) {
        snprintf(word, sizeof(word), "%s=", fields[i].path);
        if (valued)
            add_choices(c, &fields[i]);
        else
            completion_add(c->out, begun_of(c), word, fields[i].help);
    }
}

static void add_verbs(struct completing *c)
{
    const struct verb *v;

    for (size_t i = 0; (v = verb_at(i)); i++)
        if (!v->hidden)
            completion_add(c->out, begun_of(c), v->name, v->summary);
}

static void add_kind(struct completing *c, enum completion_kind kind)
{
    switch (kind) {
    case COMPLETION_FILE:
        text_puts(c->out, ":files\n");
        break;
    case COMPLETION_FOLDER:
        text_puts(c->out, ":folders\n");
        break;
    case COMPLETION_CONFIG:
        text_puts(c->out, ":configs\n");
        break;
    case COMPLETION_MODEL:
        add_runs(c);
        text_puts(c->out, ":folders\n");
        break;
    case COMPLETION_RUN:
        add_runs(c);
        break;
    case COMPLETION_APP:
        add_entries(c, REGISTRY_APP, ",");
        break;
    case COMPLETION_SEARCHER:
        add_entries(c, REGISTRY_SEARCHER, ",");
        break;
    case COMPLETION_STRATEGY:
        add_entries(c, REGISTRY_STRATEGY, ",");
        break;
    case COMPLETION_SETTING:
        add_settings(c);
        break;
    case COMPLETION_TOKEN:
        add_tokens(c);
        break;
    case COMPLETION_VERB:
        add_verbs(c);
        break;
    case COMPLETION_NOTHING:
        break;
    }
}

/* ---- verbs --------------------------------------------------------------- */

static int complete(void *ctx, const struct usage *u)
{
    struct completing *c = ctx;

    add_kind(c, completion_of(u, c->line, c->out));
    return EXIT_DONE;
}

/* The verb itself, or an option of the program. */
static void add_first(struct completing *c)
{
    add_verbs(c);
    completion_add(c->out, begun_of(c), "help", "help on a verb");
    completion_add(c->out, begun_of(c), "--help", "show the verbs");
    completion_add(c->out, begun_of(c), "--version", "show the version");
}

static int print_words(const char *const word[], size_t n)
{
    struct text out = {0};
    const struct completion_line line = {word, n};
    const struct completion_line rest = {word + 1, n - 1};
    struct completing c = {&line, &out};
    const struct verb *v = n > 1 ? verb_find(word[0]) : NULL;

    if (n == 1)
        add_first(&c);
    c.line = &rest;
    if (n == 2 && strcmp(word[0], "help") == 0)
        add_verbs(&c);
    else if (v)
        describe(v, complete, &c);
    return console_text(text_take(&out));
}

int verb_completions(int argc, char **argv)
{
    static const struct usage usage = {
        .verb = "completions",
        .operands = "bash|zsh|fish | words WORD...",
        .details = "make install puts the scripts in place; else\n"
                   "    source <(mltune completions bash)    also zsh\n"
                   "    mltune completions fish | source\n"
                   "They ask words, with what is typed behind --, for what may "
                   "stand next.",
        .operands_min = 1,
        .operands_max = OPERANDS_MAX,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);
    const char *name;

    if (code != OPTIONS_GO_ON)
        return code;
    name = operands_at(&operands, 0);
    if (strcmp(name, "words") == 0 && operands.len > 1)
        return print_words(operands.item + 1, operands.len - 1);
    for (size_t i = 0; i < SHELLS && operands.len == 1; i++)
        if (strcmp(shells[i].name, name) == 0)
            return fputs(shells[i].script, stdout) < 0 ? EXIT_IO : EXIT_DONE;
    console_error("%s: expected bash, zsh or fish", name);
    return EXIT_USAGE;
}

/* On a terminal `man` shows the page, where there is one; it then stands in the
 * place of this program. */
static void become_man(const char *page)
{
    char name[] = "man", local[] = "-l", in[] = "-",
         *argv[] = {name, local, in, NULL};
    size_t len = strlen(page);
    int fd = memfd_create("mltune-man", MFD_CLOEXEC);

    if (fd < 0)
        return;
    if (write(fd, page, len) == (ssize_t)len && lseek(fd, 0, SEEK_SET) == 0 &&
        dup2(fd, STDIN_FILENO) >= 0)
        execv("/usr/bin/man", argv);
    close(fd);
}

/* Takes @page; NULL: no memory. */
static int show_page(char *page)
{
    if (page && isatty(STDOUT_FILENO))
        become_man(page);
    return console_text(page);
}

static int print_page(void *ctx, const struct usage *u)
{
    (void)ctx;
    return show_page(manual_page(u));
}

static int print_config_page(void)
{
    struct fault f = {0};
    char *page = NULL;
    enum err err = config_manual(cli_registry(), &page, &f);

    if (!err)
        return show_page(page);
    console_error("%s", f.text);
    return exit_code_of(err);
}

int verb_man(int argc, char **argv)
{
    static const struct usage usage = {
        .verb = "man",
        .operands = "VERB",
        .details =
            "Shows the page on a terminal that has man, and prints it as "
            "roff elsewhere.\nconfig stands for the page of the "
            "configuration.",
        .operands_min = 1,
        .operands_max = 1,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);
    const struct verb *v;
    const char *name;

    if (code != OPTIONS_GO_ON)
        return code;
    name = operands_at(&operands, 0);
    v = verb_find(name);
    if (v)
        return describe(v, print_page, NULL);
    if (strcmp(name, "config") == 0)
        return print_config_page();
    console_error("unknown verb %s", name);
    return EXIT_USAGE;
}
