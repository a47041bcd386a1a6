#include "tuner/board/saved.h"

#include "base/json/problems.h"
#include "searchers/space/space_json.h"

#include <assert.h>

const struct json_field saved_plateau[] = {
    {FIELD_AS("plateau_since", plateau, U32, since)},
    {FIELD_AS("plateau_best", plateau, REAL, best)},
    {FIELD_AS("plateau_set_back", plateau, BOOL, set_back)},
    {FIELD_AS("plateau_searched", plateau, BOOL, searched)},
    {.name = NULL},
};

json_t *saved_add(json_t *o, const struct json_field fields[], const void *base)
{
    enum err err = fields_put(o, fields, base);

    assert(err != ERR_INVAL);
    if (!err)
        return o;
    json_decref(o);
    return NULL;
}

json_t *saved_new(const struct json_field fields[], const void *base)
{
    json_t *o = json_object();

    return o ? saved_add(o, fields, base) : NULL;
}

bool saved_read(const json_t *saved, const struct json_field fields[],
                void *base)
{
    return json_is_object(saved) &&
           fields_get(saved, fields, base, NULL, NULL) == ERR_OK;
}

struct search_number {
    uint32_t search;
};

uint32_t saved_search(const json_t *saved)
{
    static const struct json_field fields[] = {
        {FIELD_OF(search_number, U32, search), .optional = true},
        {.name = NULL},
    };
    struct search_number read = {0};

    return saved_read(saved, fields, &read) ? read.search : 0;
}

uint32_t saved_next_trial(const json_t *saved)
{
    const json_t *trials = json_object_get(saved, "trials");
    json_int_t first = json_integer_value(json_object_get(saved, "first"));
    size_t n = json_array_size(trials);

    return json_is_array(trials) && first > 0 && first < UINT32_MAX &&
                   n < UINT32_MAX - (size_t)first
               ? (uint32_t)first + (uint32_t)n
               : 0;
}

enum err saved_setting(const struct space *space, const json_t *setting,
                       struct setting *out)
{
    struct problems problems = {0};
    enum err err;

    if (!json_is_object(setting))
        return ERR_FORMAT;
    err = setting_from_json(space, setting, "", out, &problems);
    if (err)
        err = problems_no_memory(&problems) ? ERR_NOMEM : ERR_FORMAT;
    problems_deinit(&problems);
    return err;
}
