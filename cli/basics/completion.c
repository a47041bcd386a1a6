#include "cli/basics/completion.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { TOKEN_MAX = 64 };

void completion_add(struct text *out, const char *begun, const char *word,
                    const char *meaning)
{
    if (strncmp(word, begun, strlen(begun)) != 0)
        return;
    text_printf(out, "%s\t", word);
    for (const char *s = meaning ? meaning : ""; *s && *s != '\n'; s++)
        text_add(out, *s == '\t' ? " " : s, 1);
    text_puts(out, "\n");
}

/* Each of "a|b|c". */
static void add_choices(struct text *out, const char *begun, const char *words)
{
    char word[TOKEN_MAX];

    for (size_t n; *words; words += n + (words[n] == '|')) {
        n = strcspn(words, "|");
        snprintf(word, sizeof(word), "%.*s", (int)n, words);
        if (n > 0)
            completion_add(out, begun, word, NULL);
    }
}

/* ---- kinds --------------------------------------------------------------- */

struct meaning {
    const char *name; /* of a verb or option, where its argument says little */
    const char *arg;
    enum completion_kind kind;
};

static const struct meaning meanings[] = {
    {"apps", "NAME", COMPLETION_APP},
    {"searchers", "NAME", COMPLETION_SEARCHER},
    {"strategies", "NAME", COMPLETION_STRATEGY},
    {"searchers", "LIST", COMPLETION_SEARCHER},
    {"strategies", "LIST", COMPLETION_STRATEGY},
    {"token", "NAME", COMPLETION_TOKEN},
    {NULL, "RUN", COMPLETION_RUN},
    {NULL, "CONFIG", COMPLETION_CONFIG},
    {NULL, "MODEL", COMPLETION_MODEL},
    {NULL, "PATH=VALUE", COMPLETION_SETTING},
    {NULL, "VERB", COMPLETION_VERB},
    {NULL, "DIR", COMPLETION_FOLDER},
    {NULL, "STATE", COMPLETION_FOLDER},
    {NULL, "FILE", COMPLETION_FILE},
    {NULL, "DATA", COMPLETION_FILE},
    {NULL, "OUT", COMPLETION_FILE},
    {NULL, "PATH", COMPLETION_FILE},
};

static enum completion_kind kind_of(const char *name, const char *arg)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++)
        if (strcmp(meanings[i].arg, arg) == 0 &&
            (!meanings[i].name || strcmp(meanings[i].name, name) == 0))
            return meanings[i].kind;
    return COMPLETION_NOTHING;
}

/* ---- options ------------------------------------------------------------- */

static const struct option_spec *option_at(const struct usage *u, size_t i)
{
    size_t n;
    const struct option_spec *common = options_common(&n);

    if (i < u->n)
        return &u->option[i];
    return i - u->n < n ? &common[i - u->n] : NULL;
}

/* The option of which @word is the name, or whose letter is its last. */
static const struct option_spec *option_of(const struct usage *u,
                                           const char *word)
{
    size_t len = strlen(word);
    const struct option_spec *o;

    if (word[0] != '-' || len < 2)
        return NULL;
    for (size_t i = 0; (o = option_at(u, i)); i++)
        if (word[1] == '-' ? strcmp(word + 2, o->name) == 0
                           : o->letter && o->letter == word[len - 1])
            return o;
    return NULL;
}

static void add_options(const struct usage *u, const char *begun,
                        struct text *out)
{
    const struct option_spec *o;
    char word[TOKEN_MAX];

    for (size_t i = 0; (o = option_at(u, i)); i++) {
        snprintf(word, sizeof(word), "--%s", o->name);
        completion_add(out, begun, word, o->help);
    }
}

static enum completion_kind complete_value(const struct option_spec *o,
                                           const char *begun, struct text *out)
{
    const char *arg = o->arg ? o->arg : "";

    if (!strchr(arg, '|'))
        return kind_of(o->name, arg);
    add_choices(out, begun, arg);
    return COMPLETION_NOTHING;
}

/* ---- operands ------------------------------------------------------------ */

struct operand_words {
    const char *word[OPERANDS_MAX];
    size_t n; /* before the one to complete */
};

static void gather(const struct usage *u, const struct completion_line *line,
                   struct operand_words *out)
{
    bool only_operands = false;

    out->n = 0;
    for (size_t i = 0; i + 1 < line->n; i++) {
        const char *word = line->word[i];
        const struct option_spec *o = only_operands ? NULL : option_of(u, word);

        if (!only_operands && strcmp(word, "--") == 0)
            only_operands = true;
        else if (o && o->kind != OPTION_FLAG)
            i++; /* its value */
        else if ((only_operands || word[0] != '-') && out->n < OPERANDS_MAX)
            out->word[out->n++] = word;
    }
}

/* The next token of an alternative such as "gen SPEC OUT", without brackets and
 * dots; false: there is none. */
static bool next_token(const char **at, char out[TOKEN_MAX])
{
    size_t n;

    *at += strspn(*at, " []");
    n = strcspn(*at, " [].");
    snprintf(out, TOKEN_MAX, "%.*s", (int)n, *at);
    *at += n;
    *at += strspn(*at, ".]");
    return n > 0;
}

static bool is_literal(const char *token)
{
    return token[0] >= 'a' && token[0] <= 'z';
}

/* The token that stands where the next operand is, in one alternative; false:
 * it goes another way, or is at its end. */
static bool token_at(const char *alternative, const struct operand_words *said,
                     char token[TOKEN_MAX])
{
    const char *at = alternative;

    for (size_t i = 0; next_token(&at, token); i++) {
        if (i == said->n)
            return true;
        if (is_literal(token) && !strchr(token, '|') &&
            strcmp(token, said->word[i]) != 0)
            return false;
    }
    return false;
}

static enum completion_kind complete_operand(const struct usage *u,
                                             const struct operand_words *said,
                                             const char *begun,
                                             struct text *out)
{
    enum completion_kind kind = COMPLETION_NOTHING;
    char alternative[256], token[TOKEN_MAX];
    const char *at = u->operands;

    while (*at) {
        const char *end = strstr(at, " | ");
        size_t n = end ? (size_t)(end - at) : strlen(at);

        snprintf(alternative, sizeof(alternative), "%.*s", (int)n, at);
        at += n + (end ? 3 : 0);
        if (!token_at(alternative, said, token))
            continue;
        if (is_literal(token))
            add_choices(out, begun, token);
        else if (said->n == 0 || strcmp(said->word[0], "add") != 0)
            kind = kind_of(u->verb, token);
    }
    return kind;
}

enum completion_kind completion_of(const struct usage *u,
                                   const struct completion_line *line,
                                   struct text *out)
{
    struct operand_words said;
    const struct option_spec *o = NULL;
    const char *begun;

    assert(line->n > 0);
    begun = line->word[line->n - 1];
    if (line->n > 1)
        o = option_of(u, line->word[line->n - 2]);
    if (o && o->kind != OPTION_FLAG)
        return complete_value(o, begun, out);
    if (begun[0] == '-') {
        add_options(u, begun, out);
        return COMPLETION_NOTHING;
    }
    gather(u, line, &said);
    return complete_operand(u, &said, begun, out);
}

const char *completion_value(const struct completion_line *line,
                             const char *name)
{
    for (size_t i = 0; i + 2 < line->n; i++)
        if (strncmp(line->word[i], "--", 2) == 0 &&
            strcmp(line->word[i] + 2, name) == 0)
            return line->word[i + 1];
    return NULL;
}
