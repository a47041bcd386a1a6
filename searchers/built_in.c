#include "searchers/built_in.h"

#include <assert.h>
#include <string.h>

const struct searcher_ops *const searchers_built_in[] = {
    &searcher_tpe,  &searcher_gp,       &searcher_random,
    &searcher_grid, &searcher_marginal, NULL};

const struct searcher_ops *searcher_built_in(const char *name)
{
    assert(name);
    for (size_t i = 0; searchers_built_in[i]; i++)
        if (strcmp(searchers_built_in[i]->name, name) == 0)
            return searchers_built_in[i];
    return NULL;
}
