#include "tuner/board/saved.h"

#include "base/json/json.h"
#include "base/json/problems.h"
#include "searchers/space/space_json.h"

int saved_put(json_t *o, const char *name, json_t *value)
{
    return json_object_set_new(o, name, value);
}

int saved_put_count(json_t *o, const char *name, uint64_t n)
{
    return saved_put(o, name, json_integer((json_int_t)n));
}

int saved_put_plateau(json_t *o, const struct plateau *p)
{
    return saved_put_count(o, "plateau_since", p->since) |
           saved_put(o, "plateau_best", json_of_number(p->best)) |
           saved_put(o, "plateau_set_back", json_boolean(p->set_back)) |
           saved_put(o, "plateau_searched", json_boolean(p->searched));
}

bool saved_count(const json_t *o, const char *name, uint32_t *out)
{
    const json_t *v = json_object_get(o, name);
    json_int_t n = json_integer_value(v);

    if (!json_is_integer(v) || n < 0 || n > UINT32_MAX)
        return false;
    *out = (uint32_t)n;
    return true;
}

bool saved_flag(const json_t *o, const char *name, bool *out)
{
    const json_t *v = json_object_get(o, name);

    *out = json_is_true(v);
    return json_is_boolean(v);
}

bool saved_plateau(const json_t *o, struct plateau *p)
{
    struct plateau read = *p;

    if (!saved_count(o, "plateau_since", &read.since) ||
        !json_to_number(json_object_get(o, "plateau_best"), &read.best) ||
        !saved_flag(o, "plateau_set_back", &read.set_back) ||
        !saved_flag(o, "plateau_searched", &read.searched))
        return false;
    *p = read;
    return true;
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
        err = problems.no_memory ? ERR_NOMEM : ERR_FORMAT;
    problems_deinit(&problems);
    return err;
}
