/* Searcher `marginal`: one tunable at a time from the setting in use, for
 * re-tuning. By then that setting is good in most of its tunables and has gone
 * stale in one or two.
 *
 * With an incumbent, proposals lie on the *lines* through it: they differ from
 * it in a single tunable, the one whose line has had the fewest trials. Where
 * on the line is for the base searcher to say, over the space in which all
 * other tunables are pinned, told of the trials that lie on it. So k trials see
 * every tunable k / d times, where a search over the whole space would spread
 * them over d dimensions at once. (Coordinate search is as old as Cauchy 1847;
 * here the lines' centre stays put, since trials begin at the incumbent's
 * branch.)
 *
 * When all lines are tried whole, and where there is no incumbent, the base
 * searches the whole space.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "searchers/built_in.h"

#include <assert.h>
#include <string.h>

enum { MARGINAL_STARTUP = 4 /* of the base, on a line: one dimension */ };

struct marginal {
    const struct space *space; /* borrowed */
    uint64_t seed;
    const struct searcher_ops *base;
    void *whole;      /* owned: the base over the whole space */
    json_t *settings; /* owned: the base's, on a line */
};

/* A line: what the base is asked about. */
struct line {
    struct space space; /* all but `axis` pinned */
    size_t axis;
    struct observation *told; /* owned, [told_len] */
    struct setting *running;  /* owned, [running_len] */
    size_t told_len, running_len;
};

static const char settings[] =
    "{\"type\": \"object\", \"properties\": {"
    "\"base\": {\"enum\": [\"tpe\", \"gp\", \"random\", \"grid\"], "
    "\"default\": \"tpe\", \"description\": \"what searches along one tunable, "
    "and the whole space where no setting is in use yet\"}}}";

/* The searcher that `base` names; the schema allows no other. */
static const struct searcher_ops *base_named(const char *name)
{
    static const struct searcher_ops *const bases[] = {
        &searcher_tpe, &searcher_gp, &searcher_random, &searcher_grid};
    size_t i = 0;

    assert(name);
    while (strcmp(bases[i]->name, name) != 0) {
        i++;
        assert(i < sizeof(bases) / sizeof(bases[0]));
    }
    return bases[i];
}

static enum err line_settings(struct marginal *m, struct fault *f)
{
    enum err err = searcher_settings(m->base, NULL, &m->settings, f);

    if (err || !json_object_get(m->settings, "startup"))
        return err;
    err = json_object_set_new(m->settings, "startup",
                              json_integer(MARGINAL_STARTUP))
              ? ERR_NOMEM
              : ERR_OK;
    return err ? fault_set(f, err, "%s", err_text(err)) : ERR_OK;
}

static enum err open_whole(struct marginal *m, struct fault *f)
{
    json_t *defaults = NULL;
    enum err err = searcher_settings(m->base, NULL, &defaults, f);

    if (!err)
        err = m->base->open(m->space, defaults, m->seed, &m->whole, f);
    json_decref(defaults);
    return err;
}

static enum err marginal_open(const struct space *space, const json_t *object,
                              uint64_t seed, void **state, struct fault *f)
{
    const char *base = json_string_value(json_object_get(object, "base"));
    struct marginal *m = mem_calloc(1, sizeof(*m));
    enum err err;

    assert(base);
    if (!m)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    m->space = space;
    m->seed = seed;
    m->base = base_named(base);
    err = line_settings(m, f);
    if (!err)
        err = open_whole(m, f);
    if (err) {
        json_decref(m->settings);
        mem_free(m);
    } else {
        *state = m;
    }
    return err;
}

static void marginal_close(void *state)
{
    struct marginal *m = state;

    m->base->close(m->whole);
    json_decref(m->settings);
    mem_free(m);
}

/* Whether @x is the incumbent with another value of @axis. */
static bool on_line(const struct space *space, const struct setting *incumbent,
                    size_t axis, const struct setting *x)
{
    struct setting moved = *incumbent;

    assert(axis < space->len);
    moved.value[axis] = x->value[axis];
    space_canonical(space, &moved);
    return space_equal(space, &moved, x);
}

/* Trials on the line along @axis, told or running, the incumbent's own left
 * out. */
static size_t tried(const struct marginal *m, const struct searcher_query *q,
                    size_t axis)
{
    size_t n = 0;

    assert(q->incumbent);
    for (size_t i = 0; i < q->told_len; i++)
        n += !space_equal(m->space, &q->told[i].setting, q->incumbent) &&
             on_line(m->space, q->incumbent, axis, &q->told[i].setting);
    for (size_t i = 0; i < q->running_len; i++)
        n += !space_equal(m->space, &q->running[i], q->incumbent) &&
             on_line(m->space, q->incumbent, axis, &q->running[i]);
    return n;
}

/* The axes along which the incumbent can move, least tried first. */
static size_t order_axes(const struct marginal *m,
                         const struct searcher_query *q,
                         size_t order[TUNABLES_MAX])
{
    size_t axis[TUNABLES_MAX], count[TUNABLES_MAX], n = 0;
    size_t axes = space_axes(m->space, axis);

    for (size_t k = 0; k < axes; k++) {
        size_t c, at = n;

        if (!space_active(m->space, q->incumbent, axis[k]))
            continue;
        c = tried(m, q, axis[k]);
        for (; at > 0 && count[at - 1] > c; at--) {
            order[at] = order[at - 1];
            count[at] = count[at - 1];
        }
        order[at] = axis[k];
        count[at] = c;
        n++;
    }
    return n;
}

/* @x as the line's own space has it: there, what a condition switches off is
 * pinned all the same. */
static void take_to_line(const struct line *l, struct setting *x)
{
    space_canonical(&l->space, x);
}

static void pin_others(const struct marginal *m, const struct searcher_query *q,
                       struct line *l)
{
    assert(l->axis < m->space->len);
    space_copy(&l->space, m->space);
    for (size_t i = 0; i < l->space.len; i++)
        if (i != l->axis && !l->space.tunable[i].fixed)
            space_pin(&l->space, i, q->incumbent->value[i]);
}

static enum err line_init(struct line *l, const struct marginal *m,
                          const struct searcher_query *q, size_t axis)
{
    memset(l, 0, sizeof(*l));
    l->axis = axis;
    pin_others(m, q, l);
    l->told = mem_alloc((q->told_len + 1) * sizeof(*l->told));
    l->running = mem_alloc((q->running_len + 1) * sizeof(*l->running));
    if (!l->told || !l->running)
        return ERR_NOMEM;
    for (size_t i = 0; i < q->told_len; i++) {
        struct observation o = q->told[i];

        if (!on_line(m->space, q->incumbent, axis, &o.setting))
            continue;
        take_to_line(l, &o.setting);
        l->told[l->told_len++] = o;
    }
    for (size_t i = 0; i < q->running_len; i++) {
        struct setting x = q->running[i];

        if (!on_line(m->space, q->incumbent, axis, &x))
            continue;
        take_to_line(l, &x);
        l->running[l->running_len++] = x;
    }
    return ERR_OK;
}

static void line_deinit(struct line *l)
{
    mem_free(l->told);
    mem_free(l->running);
}

/* The base's next point on the line; ERR_EXHAUSTED: it has been tried whole. */
static enum err ask_line(const struct marginal *m,
                         const struct searcher_query *q, const struct line *l,
                         struct setting *out, struct fault *f)
{
    struct setting incumbent = *q->incumbent;
    const struct searcher_query along = {.told_len = l->told_len,
                                         .told = l->told,
                                         .running_len = l->running_len,
                                         .running = l->running,
                                         .incumbent = &incumbent};
    void *state = NULL;
    enum err err;

    assert(q->incumbent);
    assert(l->axis < l->space.len);
    take_to_line(l, &incumbent);
    err = m->base->open(&l->space, m->settings, rng_mix(m->seed, l->axis),
                        &state, f);
    if (err)
        return err;
    err = m->base->ask(state, &along, out, f);
    m->base->close(state);
    if (!err)
        space_canonical(m->space, out);
    return err;
}

static enum err ask_axis(const struct marginal *m,
                         const struct searcher_query *q, size_t axis,
                         struct setting *out, struct fault *f)
{
    struct line *l = mem_alloc(sizeof(*l));
    enum err err = ERR_NOMEM;

    if (!l)
        return fault_set(f, err, "%s", err_text(err));
    err = line_init(l, m, q, axis);
    if (err)
        fault_set(f, err, "%s", err_text(err));
    else
        err = ask_line(m, q, l, out, f);
    line_deinit(l);
    mem_free(l);
    return err;
}

static enum err marginal_ask(void *state, const struct searcher_query *q,
                             struct setting *out, struct fault *f)
{
    const struct marginal *m = state;
    size_t order[TUNABLES_MAX];
    size_t n = q->incumbent ? order_axes(m, q, order) : 0;

    for (size_t k = 0; k < n; k++) {
        enum err err = ask_axis(m, q, order[k], out, f);

        if (err != ERR_EXHAUSTED)
            return err;
    }
    return m->base->ask(m->whole, q, out, f);
}

const struct searcher_ops searcher_marginal = {
    .name = "marginal",
    .summary = "one tunable at a time from the setting in use: for re-tuning",
    .settings = settings,
    .open = marginal_open,
    .close = marginal_close,
    .ask = marginal_ask,
};
