/* Examples of help and manual: each verb has some, and its options take them.
 */
#include "cli/basics/examples.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"

#include "tests/unit/fixture/check.h"

#include <stdio.h>
#include <string.h>

enum { WORDS = 32, LINE = 77 }; /* 76 columns */

/* Splits @line as a shell does, as far as examples go: words, single quotes, up
 * to what takes its output. Returns how many words; -1 for what it does not
 * know. */
static int split(char *line, char *word[])
{
    int n = 0;

    for (char *s = line; *s;) {
        s += strspn(s, " ");
        if (*s == '|' || *s == '>' || !*s)
            break;
        if (n == WORDS || strpbrk(s, "\"$`\\") == s)
            return -1;
        word[n++] = s + (*s == '\'');
        s += *s == '\'' ? 1 + strcspn(s + 1, "'") : strcspn(s, " ");
        if (*s)
            *s++ = '\0';
    }
    return n;
}

static int parse_examples(void *ctx, const struct usage *u)
{
    int *parsed = ctx;
    const struct example *e;

    options_tell(NULL, NULL);
    for (size_t i = 0; (e = example_of(u->verb, i)); i++) {
        char none[] = "", line[LINE], *word[WORDS] = {none, none};
        struct operands operands;
        int n;

        assert_true(strlen(e->line) < sizeof(line));
        snprintf(line, sizeof(line), "%s", e->line);
        n = split(line, word);
        assert_true(n >= 2);
        assert_string_equal(word[0], "mltune");
        assert_string_equal(word[1], u->verb);
        if (options_parse(u, n - 1, word + 1, &operands) != OPTIONS_GO_ON)
            fail_msg("not taken: %s", e->line);
        ++*parsed;
    }
    return 0;
}

/* One that is not taken fails here with its line. */
static void examples_are_taken_by_their_verbs(void **state)
{
    char help[] = "--help";
    const struct verb *v;

    (void)state;
    for (size_t i = 0; (v = verb_at(i)); i++) {
        char name[64], *argv[] = {name, help, NULL};
        int parsed = 0;

        snprintf(name, sizeof(name), "%s", v->name);
        options_tell(parse_examples, &parsed);
        v->run(2, argv);
        options_tell(NULL, NULL);
        if (!v->hidden && parsed == 0)
            fail_msg("mltune %s has no example", v->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_are_taken_by_their_verbs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
