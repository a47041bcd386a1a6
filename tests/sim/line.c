#include "tests/sim/line.h"

#include "base/json/json.h"
#include "base/mem.h"

#include <jansson.h>

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *line_fault_name(enum line_fault fault)
{
    static const char *const names[] = {
        [LINE_WHOLE] = "whole",     [LINE_LOST] = "lost",
        [LINE_REFUSED] = "refused", [LINE_LATE] = "late",
        [LINE_TWICE] = "twice",     [LINE_STRANGE] = "strange",
        [LINE_DEAD] = "dead",       [LINE_HUNG] = "hung",
    };

    return names[fault];
}

void line_init(struct line *l, const struct line_plan *plan, uint64_t seed,
               double now_s)
{
    *l = (struct line){.plan = plan, .held.kind = MSG_BEAT};
    rng_init(&l->rng, rng_mix(seed, 95));
    line_resume(l, now_s);
}

void line_resume(struct line *l, double now_s)
{
    const struct keeper_options o = {
        .nodes = 1, .restarts = true, .program = l->plan->program};

    keeper_init(&l->keeper, &o, now_s);
    line_process(l, now_s);
    l->recorded_s = now_s;
}

void line_process(struct line *l, double now_s)
{
    l->alive = l->beats = true;
    l->confused = l->restarts = l->blamed = l->deaf = false;
    l->held.kind = MSG_BEAT; /* it owned nothing */
    l->refused = 0;
    l->stalled_until_s = now_s;
    l->hello_at_s = now_s + 0.05;
    l->ready_at_s = INFINITY;
    l->processes++;
}

unsigned line_hits(const struct line *l)
{
    unsigned n = 0;

    for (int i = LINE_LOST; i < LINE_FAULTS; i++)
        n += l->hit[i];
    return n;
}

enum line_fault line_draw(struct line *l)
{
    enum line_fault fault = LINE_WHOLE;

    l->messages++;
    if (l->calm)
        return LINE_WHOLE;
    if (l->plan->at > 0)
        fault = l->messages == l->plan->at ? l->plan->what : LINE_WHOLE;
    else if (line_hits(l) < l->plan->most &&
             rng_uniform(&l->rng) < l->plan->rate)
        fault = (enum line_fault)(1 + rng_below(&l->rng, LINE_FAULTS - 1));
    l->hit[fault]++;
    return fault;
}

double line_late_s(struct line *l)
{
    static const double most_s[] = {0.5, 20, 90, 7200};

    return most_s[rng_below(&l->rng, 4)] * rng_uniform(&l->rng);
}

enum err line_code(struct line *l)
{
    static const enum err codes[] = {ERR_LIMIT, ERR_NOMEM, ERR_IO,   ERR_APP,
                                     ERR_INVAL, ERR_NOENT, ERR_PROTO};

    return codes[rng_below(&l->rng, sizeof(codes) / sizeof(codes[0]))];
}

void line_die(struct line *l, bool by_itself, double now_s)
{
    l->alive = l->beats = false;
    keeper_end(&l->keeper, by_itself, now_s,
               by_itself ? "the process ended with exit code 1"
                         : "the process was killed by SIGKILL");
}

void line_hang(struct line *l)
{
    l->alive = l->beats = false;
}

void line_confuse(struct line *l, double now_s)
{
    if (l->confused)
        return;
    l->confused = true;
    l->temper = rng_below(&l->rng, 3);
    if (l->temper == LINE_ENDS)
        line_die(l, true, now_s);
}

/* ---- garbage ------------------------------------------------------------- */

/* Another value for a random member somewhere below @o, or none. */
static void alter(struct line *l, json_t *o)
{
    size_t n = json_object_size(o), at = n ? rng_below(&l->rng, n) : 0;
    const char *key;
    json_t *value;

    json_object_foreach(o, key, value)
    {
        if (at-- > 0)
            continue;
        if (rng_below(&l->rng, 4) == 0)
            json_object_del(o, key);
        else if (json_is_object(value) && json_object_size(value) > 0)
            alter(l, value);
        else if (rng_below(&l->rng, 4) == 0)
            json_object_set_new(o, key, json_real(1.5));
        else if (rng_below(&l->rng, 4) == 0)
            json_object_set_new(o, key, json_string("nan"));
        else
            json_object_set_new(
                o, key, json_integer((json_int_t)rng_below(&l->rng, 100)));
        return;
    }
}

/* Bytes that are nearly @m. Owned by the caller. */
static char *nearly(struct line *l, const struct msg *m, size_t *len)
{
    char *text = NULL;
    json_t *o;

    if (msg_encode(m, &text, len))
        return NULL;
    if (rng_below(&l->rng, 4) == 0) {
        text[rng_below(&l->rng, *len)] ^= (char)(1 << rng_below(&l->rng, 7));
        return text;
    }
    o = json_loadb(text, *len, 0, NULL);
    assert(o);
    alter(l, o);
    mem_free(text);
    text = json_write(o, JSON_COMPACT);
    *len = text ? strlen(text) : 0;
    json_decref(o);
    return text;
}

bool line_garble(struct line *l, const struct msg *m, struct msg *out,
                 double now_s)
{
    struct fault f = {0};
    char why[PROTO_TEXT_MAX];
    size_t len = 0;
    char *text = nearly(l, m, &len);
    enum msg_kind kind = text ? msg_kind_of(text, len) : MSG_KIND_COUNT;
    enum err err = text ? msg_decode(text, len, out, &f) : ERR_NOMEM;
    bool program = l->plan->program;

    mem_free(text);
    if (!err)
        return true;
    if (kind <= MSG_HELLO ? !(program && kind == MSG_HELLO) : kind >= MSG_BEAT)
        return false;
    snprintf(why, sizeof(why), "the %s's `%s` makes no sense: %.200s",
             program ? "program" : "node", msg_kind_name(kind), f.text);
    if (program)
        l->blamed |= keeper_fault(&l->keeper, false, now_s, why);
    else
        keeper_lose(&l->keeper, false, now_s, why);
    return false;
}
