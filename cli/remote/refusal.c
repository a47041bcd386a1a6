#include "cli/remote/refusal.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *code, *text;
} known[] = {
    {"token_required",
     "the server wants a token: set MLTUNE_TOKEN, or name its state folder "
     "with --state"},
    {"unauthorized",
     "the server wants another token: set MLTUNE_TOKEN, or name its state "
     "folder with --state"},
    {"route_not_found",
     "the server does not know what this asks for: it is of another version"},
};

static const char *text_of(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));

    return text ? text : "";
}

/* "/setting/learning_rate" is learning_rate: the last part of a pointer is what
 * was typed. That into a configuration stays whole. */
static const char *word_of(const char *pointer)
{
    static const char *const above[] = {"/setting/", "/stop/"};

    for (size_t i = 0; i < sizeof(above) / sizeof(*above); i++)
        if (strncmp(pointer, above[i], strlen(above[i])) == 0)
            return pointer + strlen(above[i]);
    return pointer;
}

/* Parts of the request that the verb made, not its user. */
static bool is_of_request(const char *pointer)
{
    static const char *const parts[] = {"/path/", "/query/", "/header/"};

    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        if (strncmp(pointer, parts[i], strlen(parts[i])) == 0)
            return true;
    return false;
}

/* Errors, each on a line after @head. */
static void say_errors(const json_t *errors, const char *head, struct text *out)
{
    const json_t *e;
    size_t i;

    json_array_foreach((json_t *)errors, i, e)
    {
        const char *word = word_of(text_of(e, "pointer"));

        if (is_of_request(word))
            continue;
        text_printf(out, "%s%s%s%s%s", text_length(out) > 0 ? "\n" : "", head,
                    word, *word ? ": " : "", text_of(e, "detail"));
    }
}

/* Bytes of the sentence @detail before what only a program can do. */
static size_t for_people(const char *detail)
{
    static const char *const rest[] = {"; /api/", ": go on at offset="};
    size_t n = strlen(detail);

    for (size_t i = 0; i < sizeof(rest) / sizeof(*rest); i++) {
        const char *at = strstr(detail, rest[i]);

        if (at && (size_t)(at - detail) < n)
            n = (size_t)(at - detail);
    }
    return n;
}

void refusal_say(int status, const json_t *problem, struct text *out)
{
    const char *code = text_of(problem, "code");
    const char *detail = text_of(problem, "detail");
    const json_t *errors = json_object_get(problem, "errors");

    assert(out);
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (strcmp(code, known[i].code) == 0) {
            text_puts(out, known[i].text);
            return;
        }
    /* How many parts of a body are wrong is no news: they follow. */
    if (strcmp(code, "invalid_body") == 0 && json_array_size(errors) > 0) {
        say_errors(errors, "", out);
        return;
    }
    if (!*detail)
        text_printf(out, "the server refuses, and does not say why (%d)",
                    status);
    else
        text_add(out, detail, for_people(detail));
    if (strcmp(code, "run_not_found") == 0)
        text_puts(out, "; mltune ls lists them");
    say_errors(errors, "  ", out);
}

bool refusal_is_ours(int status)
{
    return status >= 400 && status < 500 && status != 429;
}
