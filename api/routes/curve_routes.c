#include "api/routes/curve_routes.h"

#include "api/http/value.h"
#include "api/view/decimate.h"
#include "api/view/long_history.h"
#include "api/view/view.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <string.h>

const struct shape curve_shapes[] = {
    {"curve", "from:i to:i spans:i lineage:@curve_part others:@curve_part"},
    {"curve_part", "points:i clock:a seconds:a loss?:a value?:a branch:a"},
    {NULL, NULL},
};

struct curve_reply {
    clock_no from, to;
    size_t branches;   /* that are looked at */
    clock_no *before;  /* owned: [branches], see long_history_lineage */
    size_t at;         /* next branch */
    const char *value; /* further metric instead of the loss; NULL: the loss */
    int metric;        /* its index; -1: the run has none of that name */
    struct extras has; /* the run's further metrics */
    struct decimate lineage, others;
};

static bool read_extent(const struct history *h, void *state)
{
    struct curve_reply *c = state;

    c->branches = history_branches_len(h);
    c->has = *history_extras(h);
    c->metric = c->value ? extras_find(&c->has, c->value) : -1;
    if (c->to > history_clock(h))
        c->to = history_clock(h);
    return false;
}

static bool read_lineage(const struct history *h, void *state)
{
    struct curve_reply *c = state;

    long_history_lineage(h, c->before, c->branches);
    return false;
}

static void add_branch(struct curve_reply *c, size_t index,
                       const struct history_branch *b)
{
    assert(index < c->branches);
    for (size_t i = 0; i < b->points; i++) {
        const struct history_point *p = &b->point[i];
        bool surviving = p->clock < c->before[index];
        struct decimate_point point = {.clock = p->clock,
                                       .at_s = p->at_s,
                                       .branch = b->branch,
                                       .value = NAN};

        if (c->value)
            point.value = history_extra(b, (size_t)c->metric, i);
        else if (isfinite(p->w.sum))
            point.value = window_mean(&p->w);
        if (c->value && isnan(point.value))
            continue; /* it was not reported there */
        decimate_add(surviving ? &c->lineage : &c->others, &point);
    }
}

static bool read_points(const struct history *h, void *state)
{
    struct curve_reply *c = state;
    size_t seen = 0;

    if (c->branches > history_branches_len(h))
        c->branches = history_branches_len(h);
    while (c->at < c->branches && seen < PIECE_ITEMS) {
        const struct history_branch *b = history_branch_at(h, c->at);

        if (b->type == BRANCH_TRAINING)
            add_branch(c, c->at, b);
        seen += 1 + b->points;
        c->at++;
    }
    return c->at < c->branches;
}

/* ---- the answer ---------------------------------------------------------- */

struct columns {
    json_t *clock, *seconds, *loss, *branch;
};

static bool append(struct columns *to, const struct decimate_point *p)
{
    return json_array_append_new(to->clock,
                                 json_integer((json_int_t)p->clock)) == 0 &&
           json_array_append_new(to->seconds, value_number(p->at_s)) == 0 &&
           json_array_append_new(to->loss, value_number_or_null(p->value)) ==
               0 &&
           json_array_append_new(to->branch, json_integer(p->branch)) == 0;
}

static json_t *columns_to_json(const struct decimate *d, const char *name)
{
    struct columns to = {json_array(), json_array(), json_array(),
                         json_array()};
    bool ok = to.clock && to.seconds && to.loss && to.branch;

    assert(d->span);
    for (size_t i = 0; ok && i < d->spans; i++) {
        struct decimate_point p[DECIMATE_KEPT];
        size_t n = decimate_span_points(d, i, p);

        for (size_t k = 0; ok && k < n; k++)
            ok = append(&to, &p[k]);
    }
    if (!ok) {
        json_decref(to.clock);
        json_decref(to.seconds);
        json_decref(to.loss);
        json_decref(to.branch);
        return NULL;
    }
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "points",
                     (json_int_t)d->points, "clock", to.clock, "seconds",
                     to.seconds, name, to.loss, "branch", to.branch);
}

static json_t *curve_to_json(const struct curve_reply *c)
{
    const char *name = c->value ? "value" : "loss";

    return json_pack("{s:I, s:I, s:I, s:o, s:o}", "from", (json_int_t)c->from,
                     "to", (json_int_t)c->to, "spans",
                     (json_int_t)c->lineage.spans, "lineage",
                     columns_to_json(&c->lineage, name), "others",
                     columns_to_json(&c->others, name));
}

static bool prepare(struct curve_reply *c, size_t spans)
{
    assert(spans >= 1);
    assert(!c->before);
    if (c->to <= c->from)
        c->to = c->from + 1; /* nothing there: one empty span */
    c->before = mem_calloc(c->branches + 1, sizeof(*c->before));
    return c->before && !decimate_init(&c->lineage, c->from, c->to, spans) &&
           !decimate_init(&c->others, c->from, c->to, spans);
}

static void refuse_value(const struct curve_reply *c, struct response *out)
{
    struct response_faults faults = {0};
    struct text names = {0};
    char *has;

    for (uint32_t i = 0; i < c->has.len; i++)
        text_printf(&names, "%s\"%s\"", i ? ", " : "", c->has.name[i]);
    has = text_take(&names); /* NULL: without them */
    response_fault_add(&faults, "/query/value", "no such metric");
    response_problem(out, 404, "value_not_found", &faults,
                     "the run has no further metric \"%s\"; it has %s",
                     c->value, has && has[0] ? has : "none (so far)");
    mem_free(has);
}

void handle_curve(const struct route_call *call, struct response *out)
{
    const struct route_arg *to = route_arg(call, "to");
    struct curve_reply c = {
        .from = (clock_no)route_arg(call, "from")->number,
        .to = to->given ? (clock_no)to->number : UINT64_MAX,
        .value = route_arg(call, "value")->text,
    };

    if (!long_history_read(call, read_extent, &c, out))
        return;
    if (c.value && c.metric < 0)
        refuse_value(&c, out);
    else if (!prepare(&c, (size_t)route_arg(call, "spans")->number))
        response_json(out, 200, NULL);
    else if (long_history_read(call, read_lineage, &c, out) &&
             long_history_read(call, read_points, &c, out))
        response_json(out, 200, curve_to_json(&c));
    decimate_deinit(&c.lineage);
    decimate_deinit(&c.others);
    mem_free(c.before);
}
