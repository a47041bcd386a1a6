/* The sentences that check-trainer cites are those of docs/protocol.md, and its
 * scripts stay within what the player has room for. */
#include "cli/check/rules.h"
#include "cli/check/script.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

/* Letters, digits and signs that mean something, each run of blanks as one;
 * marks of code are left out. */
static void plain(const char *from, char *out, size_t size)
{
    size_t n = 0;

    for (; *from && n + 1 < size; from++) {
        if (*from == '`' || *from == '*' || *from == '|')
            continue;
        if (!isspace((unsigned char)*from))
            out[n++] = *from;
        else if (n && out[n - 1] != ' ')
            out[n++] = ' ';
    }
    out[n] = 0;
}

static char page[200000], text[200000];

/* Each rule has its label there, and its sentence word for word. */
static void rules_are_sentences_of_the_document(void **state)
{
    FILE *file = fopen("docs/protocol.md", "r");
    char label[16], sentence[512];
    size_t n;

    (void)state;
    assert_non_null(file);
    n = fread(text, 1, sizeof(text) - 1, file);
    assert_true(feof(file));
    fclose(file);
    text[n] = 0;
    plain(text, page, sizeof(page));
    for (int i = 0; i < RULE_COUNT; i++) {
        snprintf(label, sizeof(label), "**%s**", rule_label((enum rule)i));
        if (!strstr(text, label))
            fail_msg("docs/protocol.md has no %s", label);
        plain(rule_text((enum rule)i), sentence, sizeof(sentence));
        if (!strstr(page, sentence))
            fail_msg("%s: docs/protocol.md does not say: %s", label, sentence);
    }
}

/* Every script ends, uses a branch only after it was made, and fits. */
static void scripts_are_whole(void **state)
{
    (void)state;
    for (int i = 0; i < checks_len; i++) {
        const struct check_step *s = checks[i].step;
        bool made[SLOTS_MAX] = {true};
        int steps = 0;

        for (; s->kind != STEP_END; s++) {
            assert_true(++steps < 64);
            assert_in_range(s->slot, 0, SLOTS_MAX - 1);
            assert_in_range(s->series, 0, SERIES_MAX - 1);
            if (s->kind == STEP_FORK) {
                if (!made[s->from] || made[s->slot])
                    fail_msg("%s: fork %d from %d", checks[i].name, s->slot,
                             s->from);
                made[s->slot] = true;
            } else if (s->kind == STEP_RESTORE) {
                made[s->slot] = true;
            } else if (s->kind == STEP_REFUSED &&
                       s->refusal == REFUSAL_RUN_FREED) {
                made[s->from] = false;
            } else if (s->kind == STEP_FREE) {
                assert_true(made[s->slot]);
                made[s->slot] = false;
            } else if (s->kind == STEP_RUN || s->kind == STEP_QUEUE ||
                       s->kind == STEP_EPOCH) {
                if (!made[s->slot] || s->slot == 0)
                    fail_msg("%s: runs %d", checks[i].name, s->slot);
            } else if (s->kind == STEP_STOP || s->kind == STEP_SIGNAL) {
                memset(made + 1, 0, sizeof(made) - 1);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_sentences_of_the_document),
        cmocka_unit_test(scripts_are_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
