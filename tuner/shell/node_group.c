#include "tuner/shell/node_group.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/proto/data_list.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The answer of a node to an operation, and its reports. */
struct said {
    enum msg_kind kind; /* DONE, FORKED, READY, FAILED; of no use before */
    bool answered;
    struct progress_window *window; /* [windows] reported; owned */
    json_t *values; /* further metrics of these; owned; NULL: none */
    size_t windows, room;
    uint64_t clocks; /* schedule: that it ran; hold: that it has begun */
};

/* An operation that some node has not answered. */
struct asked {
    op_id op;
    enum msg_kind kind;
    uint32_t answers, failures;
    struct msg joined;   /* of the answers so far */
    uint32_t first_node; /* the one that gave the first of them */
    bool goes_on;        /* config: the run began before */
    struct said *said;   /* [nodes] */
    branch_id branch;    /* of schedule, restore, free */
    bool partly;         /* free: only some nodes have the branch */
    clock_no first;
    uint32_t reported; /* windows that have been joined */
    clock_no next;     /* clock that the next one begins with */
    uint64_t count;    /* schedule: clocks asked for */
    bool held;         /* schedule: its end was or is being agreed */
    op_id target;      /* hold: the schedule */
};

struct node_group {
    uint32_t nodes;
    struct asked *asked; /* [count] in order */
    size_t count, room;
    struct msg *out; /* [outs] for the core */
    size_t outs, outs_room;
    branch_id *partly; /* [parts] only some nodes have them */
    size_t parts, parts_room;
    struct msg *post; /* [posts] for the nodes; they own nothing */
    size_t posts, posts_room;
    struct msg save; /* kept from node 0; op 0: none */
    bool agreed;     /* cuts are: `ready` said so */
};

/* ---- life ---------------------------------------------------------------- */

enum err node_group_new(uint32_t nodes, struct node_group **out)
{
    struct node_group *c = mem_calloc(1, sizeof(*c));

    assert(nodes > 0);
    if (!c)
        return ERR_NOMEM;
    c->nodes = nodes;
    *out = c;
    return ERR_OK;
}

static void release_asked(const struct node_group *c, struct asked *a)
{
    for (uint32_t i = 0; i < c->nodes; i++) {
        mem_free(a->said[i].window);
        json_decref(a->said[i].values);
    }
    mem_free(a->said);
    msg_deinit(&a->joined);
}

void node_group_reset(struct node_group *c)
{
    for (size_t i = 0; i < c->count; i++)
        release_asked(c, &c->asked[i]);
    for (size_t i = 0; i < c->outs; i++)
        msg_deinit(&c->out[i]);
    c->count = c->outs = c->parts = c->posts = 0;
    c->save.op = 0;
}

void node_group_free(struct node_group *c)
{
    if (!c)
        return;
    node_group_reset(c);
    mem_free(c->asked);
    mem_free(c->out);
    mem_free(c->partly);
    mem_free(c->post);
    mem_free(c);
}

/* ---- requests ------------------------------------------------------------ */

static bool take_partly(struct node_group *c, branch_id branch)
{
    for (size_t i = 0; i < c->parts; i++) {
        if (c->partly[i] != branch)
            continue;
        c->partly[i] = c->partly[--c->parts];
        return true;
    }
    return false;
}

static struct asked *find(struct node_group *c, op_id op)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->asked[i].op == op)
            return &c->asked[i];
    return NULL;
}

static enum err add_asked(struct node_group *c, const struct msg *m,
                          struct asked *a)
{
    a->op = m->op;
    a->kind = m->kind;
    if (mem_grow((void **)&c->asked, &c->room, sizeof(*c->asked),
                 c->count + 1) != 0)
        return ERR_NOMEM;
    a->said = mem_calloc(c->nodes, sizeof(*a->said));
    if (!a->said)
        return ERR_NOMEM;
    a->joined.kind = MSG_BEAT; /* nothing to release */
    c->asked[c->count++] = *a;
    return ERR_OK;
}

static enum err add_post(struct node_group *c, const struct msg *m)
{
    if (mem_grow((void **)&c->post, &c->posts_room, sizeof(*c->post),
                 c->posts + 1) != 0)
        return ERR_NOMEM;
    c->post[c->posts++] = *m;
    return ERR_OK;
}

bool node_group_post(struct node_group *c, struct msg *out)
{
    assert(out);
    if (!c->posts)
        return false;
    *out = c->post[0];
    c->posts--;
    memmove(c->post, c->post + 1, c->posts * sizeof(*c->post));
    return true;
}

/* In place of the cut @m, under its number. */
static enum err hold(struct node_group *c, const struct msg *m,
                     struct asked *slice)
{
    struct msg h = {.kind = MSG_HOLD, .op = m->op};
    struct asked a = {.target = m->cut.target};
    enum err err;

    assert(!slice->held);
    slice->held = true;
    h.hold.target = m->cut.target;
    err = add_post(c, &h);
    return err ? err : add_asked(c, &h, &a);
}

enum err node_group_ask(struct node_group *c, const struct msg *m, bool *leaves)
{
    struct asked a = {0}, *slice;

    assert(m);
    assert(leaves);
    *leaves = true;
    if (m->op == 0)
        return ERR_OK;
    if (m->kind == MSG_SCHEDULE) {
        a.branch = m->schedule.branch;
        a.next = m->schedule.first;
        a.count = m->schedule.count;
    } else if (m->kind == MSG_CONFIG) {
        a.goes_on = m->config.goes_on != 0;
    } else if (m->kind == MSG_RESTORE) {
        a.branch = m->restore.branch;
    } else if (m->kind == MSG_FREE) {
        a.branch = m->free.branch;
        a.partly = take_partly(c, a.branch);
    } else if (m->kind == MSG_CUT && c->agreed &&
               (slice = find(c, m->cut.target))) {
        *leaves = false;
        return hold(c, m, slice);
    }
    return add_asked(c, m, &a);
}

void node_group_save_last(struct node_group *c, const struct msg *m)
{
    assert(c->nodes > 1);
    assert(m->kind == MSG_SAVE);
    assert(find(c, m->op));
    c->save = *m;
}

bool node_group_save_due(struct node_group *c, struct msg *out)
{
    const struct asked *a = c->save.op ? find(c, c->save.op) : NULL;

    assert(out);
    if (!a || a->answers < c->nodes - 1)
        return false;
    *out = c->save;
    c->save.op = 0;
    return true;
}

static void forget(struct node_group *c, struct asked *a)
{
    size_t i = (size_t)(a - c->asked);

    assert(i < c->count);
    release_asked(c, a);
    c->count--;
    memmove(a, a + 1, (c->count - i) * sizeof(*a));
}

static enum err push(struct node_group *c, struct msg *m)
{
    if (mem_grow((void **)&c->out, &c->outs_room, sizeof(*c->out),
                 c->outs + 1) != 0)
        return ERR_NOMEM;
    c->out[c->outs++] = *m;
    memset(m, 0, sizeof(*m));
    m->kind = MSG_BEAT;
    return ERR_OK;
}

bool node_group_next(struct node_group *c, struct msg *out)
{
    assert(out);
    if (!c->outs)
        return false;
    *out = c->out[0];
    c->outs--;
    memmove(c->out, c->out + 1, c->outs * sizeof(*c->out));
    return true;
}

/* ---- answers ------------------------------------------------------------- */

static enum err disagree(struct fault *f, uint32_t node, const struct asked *a,
                         const char *what)
{
    return fault_set(
        f, ERR_PROTO, "the nodes disagree: node %u, operation %llu (%s): %s",
        node, (unsigned long long)a->op, msg_kind_name(a->kind), what);
}

/* Rows that only their node has: null elsewhere. */
static void join_rows(json_t *into, const json_t *from)
{
    for (size_t i = 0; i < json_array_size(into); i++)
        if (json_is_null(json_array_get(into, i))) /* allocates nothing */
            (void)json_array_set(into, i, json_array_get(from, i));
}

/* What messages can say at most: a node may say that much by itself. */
static uint64_t sum_of(uint64_t a, uint64_t b)
{
    return a < INT64_MAX - b ? a + b : INT64_MAX;
}

/* Sums, and the mean over all reads. */
static void join_wire(struct msg_done *j, const struct msg_done *d)
{
    double sum =
        j->staleness * (double)j->reads + d->staleness * (double)d->reads;

    j->data_bytes = sum_of(j->data_bytes, d->data_bytes);
    j->reads = sum_of(j->reads, d->reads);
    j->staleness = j->reads ? sum / (double)j->reads : 0;
}

static enum err join_done(const struct node_group *c, struct asked *a,
                          uint32_t node, struct msg *m, struct fault *f)
{
    struct msg_done *j = &a->joined.done, *d = &m->done;
    json_t *data;

    if (a->kind == MSG_SCHEDULE && d->clocks != j->clocks)
        return disagree(f, node, a,
                        c->agreed ? "it ran another number of clocks"
                                  : "it ran another number of clocks; who "
                                    "says cuts \"own\" in `ready` has to agree "
                                    "on them, or to say \"agreed\"");
    j->bytes = sum_of(j->bytes, d->bytes);
    j->switch_s = fmax(j->switch_s, d->switch_s);
    join_wire(j, d);
    if (json_is_array(j->data)) {
        join_rows(j->data, d->data);
    } else if (node == 0) { /* what the model has beside its tables */
        data = j->data;
        j->data = d->data;
        d->data = data;
    }
    return ERR_OK;
}

/* What @low and @high > @low read, in words. */
static void tell_files(const struct asked *a, uint32_t low, uint32_t high,
                       enum data_list_change change,
                       const struct data_list_diff *d, char out[PROTO_TEXT_MAX])
{
    char what[96];

    if (change == DATA_LIST_CONTENT)
        snprintf(what, sizeof(what),
                 d->was == d->is
                     ? "has other content in its %lld bytes"
                     : "has %lld bytes on the one and %lld on the other",
                 d->was, d->is);
    else
        snprintf(what, sizeof(what), "is read by node %u and not by node %u",
                 change == DATA_LIST_LACKS ? low : high,
                 change == DATA_LIST_LACKS ? high : low);
    snprintf(out, PROTO_TEXT_MAX,
             "nodes %u and %u have other data: %.300s %s; all nodes must read "
             "the same%s",
             low, high, d->path, what,
             a->goes_on ? ", or the run goes on with these by mltune resume "
                          "RUN --other-data, in a service by mltune continue "
                          "RUN --other-data"
                        : "");
}

/* Data of a node that are not those of the first that answered: as if a node
 * could not load them. */
static bool join_files(struct asked *a, uint32_t node, const json_t *files)
{
    const json_t *first = a->joined.ready.files;
    uint32_t low = node < a->first_node ? node : a->first_node;
    uint32_t high = node < a->first_node ? a->first_node : node;
    struct data_list_diff d = {0};
    struct msg failed = {.kind = MSG_FAILED, .op = a->op};
    enum data_list_change change;

    if (!first || !files)
        return true;
    change = data_list_compare(low == node ? files : first,
                               low == node ? first : files, &d);
    if (change == DATA_LIST_SAME)
        return true;
    failed.failed.code = ERR_INVAL;
    failed.failed.branch = BRANCH_NONE;
    tell_files(a, low, high, change, &d, failed.failed.reason);
    msg_deinit(&a->joined);
    a->joined = failed;
    a->failures++;
    return false;
}

static enum err join_ready(struct asked *a, uint32_t node, struct msg *m,
                           struct fault *f)
{
    struct msg_ready *j = &a->joined.ready, *r = &m->ready;

    if (!join_files(a, node, r->files))
        return ERR_OK;

    if (r->samples != j->samples || r->parts != j->parts ||
        r->validation_samples != j->validation_samples ||
        r->workers != j->workers || r->cuts != j->cuts)
        return disagree(f, node, a,
                        "it has other data: all nodes must see the same");
    j->model_bytes = sum_of(j->model_bytes, r->model_bytes);
    return ERR_OK;
}

/* A node that was told of another's failure says `canceled`: the other's reason
 * is the better one. */
static void join_failed(struct asked *a, struct msg *m)
{
    struct msg swap = a->joined;

    if (swap.kind == MSG_FAILED && swap.failed.code != ERR_CANCELED)
        return;
    a->joined = *m;
    *m = swap;
}

static enum err join(const struct node_group *c, struct asked *a, uint32_t node,
                     struct msg *m, struct fault *f)
{
    struct msg swap = a->joined;

    if (m->kind == MSG_FAILED) {
        a->failures++;
        join_failed(a, m);
        return ERR_OK;
    }
    if (swap.kind == MSG_FAILED)
        return ERR_OK;
    if (a->answers == a->failures) { /* the first */
        a->joined = *m;
        a->first_node = node;
        *m = swap;
        return ERR_OK;
    }
    if (m->kind != swap.kind)
        return disagree(f, node, a, "it gave another kind of answer");
    if (m->kind == MSG_DONE)
        return join_done(c, a, node, m, f);
    return m->kind == MSG_READY ? join_ready(a, node, m, f) : ERR_OK;
}

/* Operations that their disks have a part in may fail on some nodes. */
static bool may_fail_on_some(enum msg_kind kind)
{
    return kind == MSG_CONFIG || kind == MSG_SNAPSHOT || kind == MSG_SAVE ||
           kind == MSG_RESTORE;
}

/* Some have the branch that others could not restore. */
static enum err restored_partly(struct node_group *c, struct asked *a)
{
    if (mem_grow((void **)&c->partly, &c->parts_room, sizeof(*c->partly),
                 c->parts + 1) != 0)
        return ERR_NOMEM;
    c->partly[c->parts++] = a->branch;
    a->joined.failed.partly = true;
    return ERR_OK;
}

/* All have said how far they are: the farthest is where the slice ends. Where
 * it has ended everywhere meanwhile, nothing is left to say. */
static enum err name_end(struct node_group *c, struct asked *a)
{
    const struct asked *slice = find(c, a->target);
    struct msg cut = {.kind = MSG_CUT, .cut.target = a->target};

    a->joined.done.clocks = 0; /* a cut's answer has none */
    if (!slice)
        return ERR_OK;
    for (uint32_t i = 0; i < c->nodes; i++) {
        uint64_t clocks =
            slice->said[i].answered ? slice->said[i].clocks : a->said[i].clocks;

        cut.cut.clocks = clocks > cut.cut.clocks ? clocks : cut.cut.clocks;
    }
    return add_post(c, &cut);
}

/* All have answered, or enough of them. */
static enum err complete(struct node_group *c, struct asked *a)
{
    enum err err = ERR_OK;

    if (a->kind == MSG_RESTORE && a->failures && a->failures < a->answers)
        err = restored_partly(c, a);
    if (a->kind == MSG_HOLD)
        err = name_end(c, a);
    if (a->kind == MSG_CONFIG && a->joined.kind == MSG_READY)
        c->agreed = a->joined.ready.cuts == CUTS_AGREED;
    if (!err)
        err = push(c, &a->joined);
    if (!err)
        forget(c, a);
    return err;
}

/* More clocks than the slice has. */
static bool overrun(struct node_group *c, const struct asked *a,
                    uint64_t clocks)
{
    const struct asked *slice = find(c, a->target);

    return slice && clocks > slice->count;
}

static enum err take_answer(struct node_group *c, uint32_t node, struct msg *m,
                            struct fault *f)
{
    struct asked *a = find(c, m->op);
    enum err err;

    if (!a)
        return fault_set(f, ERR_PROTO,
                         "the nodes disagree: node %u answers operation %llu "
                         "with `%s`, which is over for the others",
                         node, (unsigned long long)m->op,
                         msg_kind_name(m->kind));
    if (a->said[node].answered)
        return disagree(f, node, a, "it answered twice");
    if (m->kind == MSG_DONE)
        a->said[node].clocks = m->done.clocks;
    if (a->kind == MSG_HOLD && m->kind != MSG_DONE)
        return disagree(f, node, a, "it cannot hold a slice");
    if (a->kind == MSG_HOLD && overrun(c, a, m->done.clocks))
        return disagree(f, node, a, "it has begun more than was asked for");
    if (a->partly && m->kind == MSG_FAILED) /* who has nothing is done, too */
        *m = (struct msg){
            .kind = MSG_DONE, .op = m->op, .done.branch = m->failed.branch};
    err = join(c, a, node, m, f);
    if (err)
        return err;
    a->said[node].answered = true;
    a->answers++;
    if (a->answers < c->nodes && !(a->failures && a->kind == MSG_CONFIG))
        return ERR_OK;
    if (a->failures && a->failures < a->answers && !may_fail_on_some(a->kind))
        return disagree(f, node, a, "some carried it out, others could not");
    if (a->kind == MSG_SCHEDULE)
        for (uint32_t i = 0; i < c->nodes; i++)
            if (a->said[i].windows != a->reported && !a->failures)
                return disagree(f, i, a, "it reported more windows");
    return complete(c, a);
}

/* ---- reports ------------------------------------------------------------- */

static enum err join_window(const struct node_group *c, const struct asked *a,
                            size_t i, struct progress_window *out,
                            struct fault *f)
{
    *out = a->said[0].window[i];
    for (uint32_t k = 1; k < c->nodes; k++) {
        const struct progress_window *w = &a->said[k].window[i];

        if (w->clocks != out->clocks)
            return disagree(f, k, a, "it reported another window");
        out->sum += w->sum;
        out->samples += w->samples;
        out->seconds = fmax(out->seconds, w->seconds);
        out->wait_s += w->wait_s;
        out->copy_s = fmax(out->copy_s, w->copy_s);
        out->stalled_s = fmax(out->stalled_s, w->stalled_s);
    }
    out->wait_s /= c->nodes;
    return ERR_OK;
}

/* Mean of metric @name in window @i over the nodes that report it; NULL: none
 * does, or without memory. */
static json_t *join_value(const struct node_group *c, const struct asked *a,
                          const char *name, size_t i)
{
    double sum = 0, x;
    uint32_t n = 0;

    for (uint32_t k = 0; k < c->nodes; k++) {
        const json_t *column = json_object_get(a->said[k].values, name);

        if (!json_to_number(json_array_get(column, i), &x))
            continue;
        sum += x;
        n++;
    }
    return n ? json_of_number(sum / n) : json_null();
}

static json_t *join_column(const struct node_group *c, const struct asked *a,
                           const char *name, size_t windows)
{
    json_t *out = json_array();

    for (size_t i = 0; out && i < windows; i++)
        if (json_array_append_new(out,
                                  join_value(c, a, name, a->reported + i))) {
            json_decref(out);
            return NULL;
        }
    return out;
}

/* The metrics of the first node that has any come first. Each node may have as
 * many as a message holds; so many are passed on. */
static enum err join_values(const struct node_group *c, const struct asked *a,
                            size_t windows, json_t **out)
{
    const char *name;
    json_t *column;

    for (uint32_t k = 0; k < c->nodes; k++)
        json_object_foreach(a->said[k].values, name, column)
        {
            if (!*out)
                *out = json_object();
            if (!*out)
                return ERR_NOMEM;
            if (json_object_get(*out, name) ||
                json_object_size(*out) == EXTRAS_MAX)
                continue;
            if (json_object_set_new(*out, name,
                                    join_column(c, a, name, windows)))
                return ERR_NOMEM;
        }
    return ERR_OK;
}

/* Windows that all nodes have reported and that were not passed on. */
static enum err join_reports(struct node_group *c, struct asked *a,
                             struct fault *f)
{
    struct msg m = {.kind = MSG_REPORT, .op = a->op};
    size_t all = SIZE_MAX;
    enum err err = ERR_OK;

    for (uint32_t k = 0; k < c->nodes; k++)
        all = a->said[k].windows < all ? a->said[k].windows : all;
    if (all == a->reported)
        return ERR_OK;
    m.report.branch = a->branch;
    m.report.first = a->next;
    m.report.windows = (uint32_t)(all - a->reported);
    m.report.window = mem_alloc(m.report.windows * sizeof(*m.report.window));
    if (!m.report.window)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < m.report.windows && !err; i++) {
        err = join_window(c, a, a->reported + i, &m.report.window[i], f);
        a->next += m.report.window[i].clocks;
    }
    if (!err)
        err = join_values(c, a, m.report.windows, &m.report.values);
    a->reported = (uint32_t)all;
    if (!err)
        err = push(c, &m);
    msg_deinit(&m);
    return err;
}

static enum err take_report(struct node_group *c, uint32_t node,
                            const struct msg *m, struct fault *f)
{
    struct asked *a = find(c, m->op);
    struct said *s;

    if (!a || a->kind != MSG_SCHEDULE)
        return fault_set(f, ERR_PROTO,
                         "the nodes disagree: node %u reports a slice that is "
                         "over",
                         node);
    s = &a->said[node];
    if (s->windows + m->report.windows > PROTO_WINDOWS_MAX)
        return disagree(f, node, a, "it reported too many windows");
    if (mem_grow((void **)&s->window, &s->room, sizeof(*s->window),
                 s->windows + m->report.windows) != 0)
        return ERR_NOMEM;
    if (extras_append(&s->values, s->windows, m->report.values,
                      m->report.windows))
        return ERR_NOMEM;
    memcpy(s->window + s->windows, m->report.window,
           m->report.windows * sizeof(*s->window));
    s->windows += m->report.windows;
    return join_reports(c, a, f);
}

enum err node_group_take(struct node_group *c, uint32_t node, struct msg *m,
                         struct fault *f)
{
    enum err err;

    assert(node < c->nodes);
    assert(m);
    assert(node < c->nodes);
    if (m->kind == MSG_REPORT)
        err = take_report(c, node, m, f);
    else if (m->kind == MSG_BEAT || m->op == 0)
        err = push(c, m);
    else
        err = take_answer(c, node, m, f);
    msg_deinit(m);
    *m = (struct msg){.kind = MSG_BEAT};
    if (err == ERR_NOMEM)
        fault_set(f, err, "no memory for what the nodes say");
    return err;
}
