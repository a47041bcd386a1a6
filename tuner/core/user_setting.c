#include "tuner/core/user_setting.h"

#include "base/json/json.h"
#include "searchers/space/space_json.h"
#include "tuner/core/answers.h"

#include <assert.h>
#include <stdio.h>

void user_setting_refuse(struct board *c, const struct problems *problems)
{
    struct tuner_answer *a = answers_give(
        c, ERR_INVAL, false, "the setting is not one of this run's tunables");

    assert(problems->errors > 0);
    for (size_t i = 0; i < problems->len; i++) {
        const struct problem *p = &problems->item[i];

        if (p->warning || a->faults == TUNER_FAULTS_MAX)
            continue;
        snprintf(a->fault[a->faults].pointer, sizeof(a->fault[0].pointer),
                 "%.90s", p->pointer);
        snprintf(a->fault[a->faults].text, sizeof(a->fault[0].text),
                 p->found[0] ? "expected %.90s, found %.40s%s%.120s"
                             : "expected %.90s%.0s%s%.120s",
                 p->expected, p->found, p->hint[0] ? "; " : "", p->hint);
        a->faults++;
    }
}

static bool same_value(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

/* A value that @made does not have was overruled: it would do nothing. */
static void find_overruled(const json_t *given, const json_t *made,
                           const char *pointer, struct problems *problems)
{
    char at[JSON_POINTER_MAX];
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)given, name, value)
    {
        const json_t *is = json_object_get(made, name);

        if (same_value(value, is))
            continue;
        snprintf(at, sizeof(at), "%s", pointer);
        json_pointer_push(at, name);
        problems_add(problems, at, value,
                     "the value that it has here (it is fixed, or does not act "
                     "with the others)");
    }
}

enum err user_setting_complete(const struct board *c,
                               const struct setting *base, const json_t *given,
                               const char *pointer, struct setting *out,
                               json_t **json, struct problems *problems)
{
    size_t errors = problems->errors;
    enum err err = ERR_OK;
    json_t *made;

    assert(pointer);
    assert(!given || json_is_object(given));
    *out = *base;
    if (given)
        err = setting_over_json(board_space(c), base, given, pointer, out,
                                problems);
    else
        space_canonical(board_space(c), out);
    if (err)
        return err;
    made = setting_to_json(board_space(c), out);
    if (!made)
        return ERR_NOMEM;
    find_overruled(given, made, pointer, problems);
    if (problems->errors == errors && !problems->no_memory) {
        *json = made;
        return ERR_OK;
    }
    json_decref(made);
    return problems->no_memory ? ERR_NOMEM : ERR_INVAL;
}
