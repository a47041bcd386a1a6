/* Grid search, coarse to fine: the middle of every range, then a grid of three
 * points an axis, then of five, until all points have been tried; so that
 * whatever ends the search early, the whole range has been seen. Within one
 * grid the order is by the seed. */
#include "base/mem.h"
#include "base/rng.h"
#include "searchers/built_in.h"

#include <assert.h>

enum { GRID_POINTS_MAX = 1024, GRID_LEVELS_MAX = 12 };

/* The points of one axis, coarse ones first. */
struct grid_axis {
    size_t tunable;
    uint32_t points;
    uint32_t levels;
    uint32_t upto[GRID_LEVELS_MAX]; /* points of levels 0 .. l */
    double value[GRID_POINTS_MAX];  /* in that order */
};

struct grid {
    const struct space *space; /* borrowed */
    uint64_t seed;
    size_t axes;
    struct grid_axis *axis; /* owned */
    uint32_t levels;
    /* All before this level and position have been told: saves looking at them
     * again. Follows from what was told. */
    uint32_t level;
    uint64_t at;
};

/* Value number @i of @n along @t: both ends, and equal steps of its scale
 * between. */
static double point_value(const struct tunable *t, uint32_t i, uint32_t n)
{
    uint64_t count = tunable_count(t);

    if (count > 0 && count <= n)
        return tunable_at(t, i);
    return tunable_from_unit(t, (double)i / (n - 1));
}

/* Lists the points by levels: the middle one; then those @stride apart, the
 * stride halving. Categories have no middle: all are level 0. */
static void order_points(const struct tunable *t, struct grid_axis *a)
{
    uint32_t n = a->points, len = 0, stride = 1, offset = (n - 1) / 2;
    bool taken[GRID_POINTS_MAX] = {false};

    assert(n >= 1 && n <= GRID_POINTS_MAX);
    while (stride < n)
        stride *= 2;
    if (t->type == TUNABLE_CATEGORICAL)
        stride = 1;
    a->levels = 0;
    for (; stride > 0; stride /= 2) {
        uint32_t before = len;

        for (uint32_t i = offset % stride; i < n; i += stride) {
            if (taken[i])
                continue;
            taken[i] = true;
            a->value[len++] = point_value(t, i, n);
        }
        assert(a->levels < GRID_LEVELS_MAX);
        if (len > before)
            a->upto[a->levels++] = len;
    }
    assert(len == n);
}

static uint32_t upto(const struct grid_axis *a, uint32_t level)
{
    assert(a->levels > 0);
    return a->upto[level < a->levels ? level : a->levels - 1];
}

/* Points of all levels up to @level; UINT64_MAX where there are too many. */
static uint64_t grid_size(const struct grid *g, uint32_t level)
{
    uint64_t size = 1, limit = (uint64_t)1 << 62;

    for (size_t k = 0; k < g->axes; k++) {
        uint32_t n = upto(&g->axis[k], level);

        if (size > limit / n)
            return UINT64_MAX;
        size *= n;
    }
    return size;
}

static enum err make_axes(struct grid *g, uint32_t points)
{
    size_t index[TUNABLES_MAX];

    g->axes = space_axes(g->space, index);
    g->levels = 1;
    if (g->axes == 0)
        return ERR_OK;
    g->axis = mem_calloc(g->axes, sizeof(*g->axis));
    if (!g->axis)
        return ERR_NOMEM;
    for (size_t k = 0; k < g->axes; k++) {
        const struct tunable *t = &g->space->tunable[index[k]];
        uint64_t count = tunable_count(t);
        struct grid_axis *a = &g->axis[k];

        a->tunable = index[k];
        /* Listed values are all meant; ranges are cut into points. */
        a->points = count > 0 && (t->values_len > 0 || count <= points)
                        ? (uint32_t)count
                        : points;
        order_points(t, a);
        if (a->levels > g->levels)
            g->levels = a->levels;
    }
    return ERR_OK;
}

static void grid_close(void *state)
{
    struct grid *g = state;

    mem_free(g->axis);
    mem_free(g);
}

static enum err grid_open(const struct space *space, const json_t *settings,
                          uint64_t seed, void **state, struct fault *f)
{
    json_int_t points =
        (json_int_t)json_number_value(json_object_get(settings, "points"));
    struct grid *g = mem_calloc(1, sizeof(*g));
    enum err err;

    if (!g)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    assert(points >= 2 && points <= GRID_POINTS_MAX);
    g->space = space;
    g->seed = seed;
    err = make_axes(g, (uint32_t)points);
    if (err)
        fault_set(f, err, "%s", err_text(err));
    else if (grid_size(g, g->levels - 1) == UINT64_MAX)
        err = fault_set(f, ERR_INVAL,
                        "a grid over %zu tunables with %d points each has too "
                        "many: set fewer \"points\", or pin some tunables",
                        g->axes, (int)points);
    if (err)
        grid_close(g);
    else
        *state = g;
    return err;
}

/* Point @index of the grid up to @level, where it is new in this level. */
static bool grid_point(const struct grid *g, uint32_t level, uint64_t index,
                       struct setting *out)
{
    bool is_new = level == 0;

    assert(level < g->levels);
    assert(index < grid_size(g, level));
    *out = (struct setting){0};
    for (size_t k = 0; k < g->axes; k++) {
        const struct grid_axis *a = &g->axis[k];
        uint32_t n = upto(a, level), i = (uint32_t)(index % n);

        is_new |= level > 0 && i >= upto(a, level - 1);
        out->value[a->tunable] = a->value[i];
        index /= n;
    }
    space_canonical(g->space, out);
    return is_new;
}

static bool was_told(const struct grid *g, const struct searcher_query *q,
                     const struct setting *x)
{
    const struct searcher_query told = {.told_len = q->told_len,
                                        .told = q->told};

    return searcher_seen(g->space, &told, x);
}

/* Goes on from level and position; *@told stays true while all points passed
 * have been told. */
static bool next_in_level(struct grid *g, const struct searcher_query *q,
                          uint32_t level, uint64_t at, bool *told,
                          struct setting *out)
{
    uint64_t size = grid_size(g, level);
    struct perm perm;

    perm_init(&perm, size, rng_mix(g->seed, level));
    for (; at < size; at++) {
        bool is_new = grid_point(g, level, perm_at(&perm, at), out);

        if (is_new && !searcher_seen(g->space, q, out))
            return true;
        *told = *told && (!is_new || was_told(g, q, out));
        if (*told)
            g->at = at + 1;
    }
    return false;
}

static enum err grid_ask(void *state, const struct searcher_query *q,
                         struct setting *out, struct fault *f)
{
    struct grid *g = state;
    uint64_t at = g->at;
    bool told = true;

    for (uint32_t level = g->level; level < g->levels; level++) {
        if (next_in_level(g, q, level, at, &told, out))
            return ERR_OK;
        at = 0;
        if (told) {
            g->level = level + 1;
            g->at = 0;
        }
    }
    return fault_set(f, ERR_EXHAUSTED, "every point of the grid was tried");
}

const struct searcher_ops searcher_grid = {
    .name = "grid",
    .summary = "every point of a grid, coarse to fine",
    .settings = "{\"type\": \"object\", \"properties\": {\"points\": {"
                "\"type\": \"integer\", \"minimum\": 2, \"maximum\": 1024,"
                "\"default\": 11, \"description\":"
                " \"points an axis for ranges; listed values are all used\"}}}",
    .open = grid_open,
    .close = grid_close,
    .ask = grid_ask,
};
