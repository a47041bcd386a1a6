#include "ps/loop/plan_text.h"

#include <assert.h>

enum { VECTORS_SHOWN = 6, WORKERS_SHOWN = 8, STEPS_SHOWN = 16 };

/* ---- what the loop is ---------------------------------------------------- */

static void head(struct text *t, const char *name, const struct loop_nest *n,
                 unsigned workers)
{
    text_printf(t, "loop %s: %llu iterations over ", name,
                (unsigned long long)n->iterations);
    for (unsigned d = 0; d < n->dims; d++)
        text_printf(t, "%s%llu", d ? " x " : "",
                    (unsigned long long)n->extent[d]);
    text_printf(t, " indices, %s, %u worker%s\n",
                n->ordered ? "ordered" : "unordered", workers,
                workers == 1 ? "" : "s");
}

static void vector_text(struct text *t, const struct loop_nest *n,
                        const struct depend *v)
{
    char text[128];

    depend_text(v, n->dims, text, sizeof(text));
    text_printf(t, "  %s  table %s, touches %u and %u\n", text,
                n->access[v->first].table, v->first, v->second);
}

static void vectors_text(struct text *t, const struct loop_nest *n,
                         const struct depends *ds)
{
    text_printf(t, "dependences (iteration less an earlier one):%s\n",
                ds->count ? "" : " none");
    for (unsigned i = 0; i < ds->count && i < VECTORS_SHOWN; i++)
        vector_text(t, n, &ds->vector[i]);
    if (ds->count > VECTORS_SHOWN)
        text_printf(t, "  and %u more\n", ds->count - VECTORS_SHOWN);
}

/* ---- how it is split ----------------------------------------------------- */

static void strategy_text(struct text *t, const struct loop_plan *p)
{
    static const char *const why[] = {
        [LOOP_1D] = "one dimension: iterations that differ in it share no row",
        [LOOP_2D] = "two dimensions: iterations that differ in both share no "
                    "row; parts go round in a ring",
        [LOOP_WAVEFRONT] = "wavefront: what an iteration needs is never ahead "
                           "of it in either dimension",
        [LOOP_UNIMODULAR] = "wavefront in a skewed space: there, what an "
                            "iteration needs is never ahead of it",
        [LOOP_SERIAL] = "serial, by one worker: no dimension can be split. "
                        "Updates that may come late can be declared "
                        "MLT_BUFFERED, which takes their dependences away",
    };

    text_printf(t, "strategy: %s\n", why[p->strategy]);
}

static void axis_text(struct text *t, const struct loop_axis *axis,
                      unsigned dims)
{
    bool first = true;

    if (axis->dim >= 0) {
        text_printf(t, "index %d", axis->dim);
        return;
    }
    for (unsigned d = 0; d < dims; d++) {
        if (axis->by[d] == 0)
            continue;
        text_printf(t, "%s", first ? "" : " + ");
        if (axis->by[d] != 1)
            text_printf(t, "%lld x ", (long long)axis->by[d]);
        text_printf(t, "index %u", d);
        first = false;
    }
}

static void split_text(struct text *t, const struct loop_nest *n,
                       const struct loop_plan *p,
                       const struct loop_parts *parts)
{
    if (p->strategy == LOOP_SERIAL)
        return;
    text_puts(t, "space: ");
    axis_text(t, &p->space, n->dims);
    text_printf(t,
                " in %u part%s, one a worker%s; the fullest has %.2f of an "
                "even one\n",
                p->space_parts, p->space_parts == 1 ? "" : "s",
                parts->space.shuffled ? ", dealt at random" : "",
                parts_skew(parts, false));
    if (!plan_has_time(p))
        return;
    text_puts(t, "time: ");
    axis_text(t, &p->time, n->dims);
    text_printf(t, " in %u part%s%s; the fullest has %.2f of an even one\n",
                p->time_parts, p->time_parts == 1 ? "" : "s",
                parts->time.shuffled ? ", dealt at random" : "",
                parts_skew(parts, true));
}

/* ---- where rows are ------------------------------------------------------ */

static void touches_text(struct text *t, const struct loop_nest *n,
                         const struct loop_plan *p)
{
    static const char *const where[] = {
        [LOOP_LOCAL] = "local to a worker",
        [LOOP_ROTATED] = "goes from worker to worker",
        [LOOP_SERVED] = "served to all",
    };

    for (unsigned i = 0; i < n->accesses; i++) {
        const struct loop_access *a = &n->access[i];

        text_printf(
            t, "touch %u, table %s, %s%s%s%s: %s\n", i, a->table,
            a->reads ? "reads" : "", a->reads && a->updates ? " and " : "",
            a->updates ? "updates" : "", a->buffered ? ", buffered" : "",
            p->strategy == LOOP_SERIAL && !a->buffered ? "one worker has all"
                                                       : where[p->place[i]]);
    }
    text_printf(t, "moved in a pass: %.0f values\n", p->moved);
}

/* ---- the picture --------------------------------------------------------- */

static void picture(struct text *t, const struct loop_plan *p)
{
    struct loop_schedule s;
    unsigned steps, shown;

    schedule_init(&s, p);
    steps = schedule_steps(&s);
    if (steps == 1)
        return;
    shown = steps < STEPS_SHOWN ? steps : STEPS_SHOWN;
    text_printf(t, "time parts by step, of %u:\n", steps);
    for (unsigned w = 0; w < p->workers && w < WORKERS_SHOWN; w++) {
        text_printf(t, "  worker %u |", w);
        for (unsigned step = 0; step < shown; step++) {
            int part = schedule_part(&s, w, step);

            if (part < 0)
                text_puts(t, "   .");
            else
                text_printf(t, " %3d", part);
        }
        text_puts(t, steps > shown ? " ...\n" : "\n");
    }
    if (p->workers > WORKERS_SHOWN)
        text_printf(t, "  and %u more workers\n", p->workers - WORKERS_SHOWN);
}

void plan_text(struct text *t, const char *name, const struct loop_nest *n,
               const struct depends *ds, const struct loop_plan *plan,
               const struct loop_parts *parts, unsigned workers)
{
    assert(plan->strategy <= LOOP_SERIAL);
    head(t, name, n, workers);
    vectors_text(t, n, ds);
    strategy_text(t, plan);
    split_text(t, n, plan, parts);
    touches_text(t, n, plan);
    picture(t, plan);
}
