#include "tuner/history/run_guess.h"

#include "base/text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void keep(struct run_guess *g, const char *name)
{
    char *place = g->name[g->names++ % RUN_GUESS_MAX];

    snprintf(place, RUN_GUESS_NAME_MAX, "%s", name);
}

void run_guess_add(struct run_guess *g, const char *id, const char *name)
{
    size_t n = strlen(g->word);

    assert(id && name);
    keep(g, id);
    if (*name)
        keep(g, name);
    if (n == 0 || strncmp(id, g->word, n) != 0)
        return;
    if (g->begins < RUN_GUESS_NAMED)
        snprintf(g->begun[g->begins], RUN_GUESS_NAME_MAX, "%s", id);
    g->begins++;
}

static enum err several(const struct run_guess *g, struct fault *f)
{
    struct text names = {0};
    enum err err;

    for (size_t i = 0; i < g->begins && i < RUN_GUESS_NAMED; i++)
        text_printf(&names, "%s%s", i > 0 ? ", " : "", g->begun[i]);
    err = fault_set(f, ERR_INVAL,
                    "several runs begin with \"%s\", give more of the id: "
                    "%s%s",
                    g->word, text_so_far(&names),
                    g->begins > RUN_GUESS_NAMED ? ", ..." : "");
    text_deinit(&names);
    return err;
}

enum err run_guess_fault(const struct run_guess *g, const char *where,
                         struct fault *f)
{
    const char *names[RUN_GUESS_MAX], *near;
    size_t n = g->names < RUN_GUESS_MAX ? g->names : RUN_GUESS_MAX;

    assert(where);
    if (g->begins > 1)
        return several(g, f);
    for (size_t i = 0; i < n; i++)
        names[i] = g->name[i];
    near = text_nearest(g->word, names, n);
    if (near)
        return fault_set(f, ERR_NOENT, "no run \"%s\" %s; did you mean %s?",
                         g->word, where, near);
    return fault_set(f, ERR_NOENT, "no run \"%s\" %s; mltune ls lists them",
                     g->word, where);
}
