#include "tests/sim/warm.h"

#include "tests/unit/fixture/space_text.h"

#include <assert.h>

/* What the run in @journal found, as an element of a list of earlier runs. */
static json_t *found_in(const json_t *journal)
{
    struct history h;
    const char *why;
    json_t *o = NULL;
    enum err found;

    history_init(&h);
    for (size_t i = 0; i < json_array_size(journal); i++) {
        struct record r;
        enum err err = record_from_json(json_array_get(journal, i), &r, NULL);

        assert(!err);
        err = history_apply(&h, &r);
        assert(!err);
        record_deinit(&r);
    }
    found = earlier_of(&h, &o, &why);
    assert(!found);
    history_deinit(&h);
    return o;
}

void warm_from(const struct sim_family *family, const uint64_t seed[], size_t n,
               struct earlier *out)
{
    json_t *list = json_array(), *all;
    struct sim_family f = *family;
    struct space space;
    struct fault fault;
    enum err err = space_from_text(f.space, &space, NULL);

    assert(!err && n <= EARLIER_RUNS_MAX);
    f.earlier = NULL;
    for (size_t i = 0; i < n; i++) {
        static struct sim_result r;
        json_t *journal = NULL, *found;
        struct sim_options options = {.journal = &journal};

        sim_run(&f, seed[i], &options, &r);
        found = found_in(journal);
        assert(found);
        json_array_append_new(list, found);
        json_decref(journal);
    }
    all = json_pack("{s:o}", "runs", list);
    err = earlier_from_json(&space, all, out, &fault);
    assert(!err);
    json_decref(all);
}
