#include "apps/glm/glm_set.h"

#include "apps/formats/data_stream.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

void glm_set_deinit(struct glm_set *set)
{
    mem_free(set->begin);
    mem_free(set->index);
    mem_free(set->value);
    mem_free(set->y);
    memset(set, 0, sizeof(*set));
}

static enum err no_memory(struct fault *f)
{
    return fault_set(f, ERR_NOMEM, "samples: out of memory");
}

static enum err alloc_set(struct glm_set *set, uint64_t count, uint64_t entries,
                          struct fault *f)
{
    enum err err = data_memory_check("samples", entries * 8 + count * 12,
                                     data_memory_limit(), f);

    if (err)
        return err;
    set->count = count;
    set->begin = mem_calloc(count + 1, sizeof(*set->begin));
    set->index = mem_alloc((entries + 1) * sizeof(*set->index));
    set->value = mem_alloc((entries + 1) * sizeof(*set->value));
    set->y = mem_calloc(count + 1, sizeof(*set->y));
    if (set->begin && set->index && set->value && set->y)
        return ERR_OK;
    glm_set_deinit(set);
    return no_memory(f);
}

enum err glm_set_of_samples(const struct samples *s, struct glm_set *out,
                            struct fault *f)
{
    uint64_t width = samples_values(s), count = samples_count(s);
    uint64_t entries = 0, e = 0;
    struct glm_set set = {0};
    enum err err;

    for (uint64_t i = 0; i < count * width; i++)
        entries += samples_value(s, i) != 0;
    err = alloc_set(&set, count, entries, f);
    if (err)
        return err;
    assert(set.begin && set.index && set.value && set.y);
    for (uint64_t i = 0; i < count; i++) {
        for (uint64_t j = 0; j < width; j++) {
            float v = samples_value(s, i * width + j);

            if (v == 0)
                continue;
            set.index[e] = (uint32_t)j;
            set.value[e++] = v;
        }
        set.begin[i + 1] = e;
        set.y[i] = samples_mark(s, i);
    }
    assert(e == entries);
    *out = set;
    return ERR_OK;
}

enum err glm_set_of_sparse(struct sparse *s, struct glm_set *out,
                           struct fault *f)
{
    float *y = mem_alloc((s->count + 1) * sizeof(*y));

    if (!y)
        return no_memory(f);
    for (uint64_t i = 0; i < s->count; i++)
        y[i] = (float)s->label[i];
    *out = (struct glm_set){s->count, s->begin, s->index, s->value, y};
    s->begin = NULL;
    s->index = NULL;
    s->value = NULL;
    sparse_deinit(s);
    return ERR_OK;
}

uint64_t glm_set_narrow(struct glm_set *set, uint32_t columns)
{
    uint64_t kept = 0, at = 0, all = set->count ? set->begin[set->count] : 0;

    for (uint64_t i = 0; i < set->count; i++) {
        for (; at < set->begin[i + 1]; at++) {
            if (set->index[at] >= columns)
                continue;
            set->index[kept] = set->index[at];
            set->value[kept++] = set->value[at];
        }
        set->begin[i + 1] = kept;
    }
    return all - kept;
}
