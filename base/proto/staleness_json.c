#include "base/proto/staleness_json.h"

/* The reads of one difference, of many years: sums of 64 stay in range. */
#define COUNT_MAX ((json_int_t)1 << 56)

static json_t *counts_to_json(const struct staleness *s, int least, int most)
{
    json_t *counts = json_array();

    for (int i = least; counts && i <= most; i++)
        if (json_array_append_new(
                counts, json_integer((json_int_t)staleness_at(s, i)))) {
            json_decref(counts);
            counts = NULL;
        }
    return counts;
}

json_t *staleness_to_json(const struct staleness *s)
{
    int least = STALENESS_LEAST, most = STALENESS_MOST;

    while (least < most && staleness_at(s, least) == 0)
        least++;
    while (most > least && staleness_at(s, most) == 0)
        most--;
    if (s->reads == 0)
        most = least - 1;
    return json_pack("{s:i, s:o, s:I}", "least", least, "counts",
                     counts_to_json(s, least, most), "sum", (json_int_t)s->sum);
}

static bool counts_from_json(const json_t *counts, json_int_t least,
                             struct staleness *out)
{
    size_t n = json_array_size(counts);

    if (!json_is_array(counts) || least < STALENESS_LEAST ||
        least > STALENESS_MOST || n > (size_t)(STALENESS_MOST - least + 1))
        return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *count = json_array_get(counts, i);
        json_int_t reads = json_integer_value(count);

        if (!json_is_integer(count) || reads < 0 || reads > COUNT_MAX)
            return false;
        out->count[(size_t)(least - STALENESS_LEAST) + i] = (uint64_t)reads;
        out->reads += (uint64_t)reads;
    }
    return true;
}

bool staleness_from_json(const json_t *value, struct staleness *out)
{
    const json_t *least = json_object_get(value, "least");
    const json_t *sum = json_object_get(value, "sum");
    struct staleness s = {0};

    if (!json_is_integer(least) || !json_is_integer(sum) ||
        !counts_from_json(json_object_get(value, "counts"),
                          json_integer_value(least), &s))
        return false;
    s.sum = json_integer_value(sum);
    if (s.reads == 0 && s.sum != 0)
        return false;
    *out = s;
    return true;
}
