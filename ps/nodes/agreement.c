#include "ps/nodes/agreement.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum { CONTROL = 0 }; /* the node that asks all others */

/* Facts known of a slice: of the one that runs, and of the one after it. */
struct slice_facts {
    bool cut;  /* node 0: somebody wants it */
    bool hold; /* is to be held here */
    bool end;  /* ends after `clocks` */
    uint64_t clocks;
    enum err failed;
};

/* A node: what it has said, and is still to be told. */
struct peer {
    bool hold_due, held, end_due, fail_due;
};

struct agreement {
    uint32_t node, nodes;
    uint64_t slice;
    struct slice_facts now, next;
    bool cut_said, cut_due; /* to node 0 */
    bool held_said, held_due;
    uint64_t held_clocks;
    bool end_taken;
    uint64_t most;     /* node 0: clocks that any has begun */
    uint32_t missing;  /* node 0: nodes that have not said held */
    struct peer *peer; /* [nodes] */
};

enum err agreement_new(uint32_t node, uint32_t nodes, struct agreement **out)
{
    struct agreement *a = mem_calloc(1, sizeof(*a));

    assert(node < nodes);
    if (!a)
        return ERR_NOMEM;
    a->node = node;
    a->nodes = nodes;
    a->peer = mem_calloc(nodes, sizeof(*a->peer));
    if (!a->peer) {
        mem_free(a);
        return ERR_NOMEM;
    }
    *out = a;
    return ERR_OK;
}

void agreement_free(struct agreement *a)
{
    if (!a)
        return;
    mem_free(a->peer);
    mem_free(a);
}

/* Node 0, once a slice. */
static void ask_all(struct agreement *a)
{
    if (a->missing || a->now.end)
        return;
    a->missing = a->nodes;
    a->most = 0;
    for (uint32_t i = 0; i < a->nodes; i++)
        a->peer[i].hold_due = true;
}

void agreement_begin(struct agreement *a, uint64_t slice)
{
    assert(slice == a->slice + 1);
    a->slice = slice;
    a->now = a->next;
    a->next = (struct slice_facts){0};
    a->cut_said = a->cut_due = false;
    a->held_said = a->held_due = a->end_taken = false;
    a->missing = 0;
    memset(a->peer, 0, a->nodes * sizeof(*a->peer));
    if (a->now.cut)
        ask_all(a);
}

void agreement_cut(struct agreement *a)
{
    if (a->cut_said || a->slice == 0)
        return;
    a->cut_said = true;
    if (a->node == CONTROL)
        ask_all(a);
    else
        a->cut_due = true;
}

void agreement_fail(struct agreement *a, enum err code)
{
    assert(code != ERR_OK);
    if (a->now.failed)
        return;
    a->now.failed = code;
    for (uint32_t i = 0; i < a->nodes; i++)
        a->peer[i].fail_due = i != a->node;
}

/* ---- frames that come ---------------------------------------------------- */

static enum err refuse(struct fault *fault, const struct frame *f,
                       const char *what)
{
    return fault_set(fault, ERR_PROTO, "%s frame of node %u: %s",
                     frame_kind_name(f->kind), f->from, what);
}

static enum err take_held(struct agreement *a, const struct frame *f,
                          struct fault *fault)
{
    struct peer *p = &a->peer[f->from];

    if (a->node != CONTROL || f->slice != a->slice || !a->missing || p->held)
        return refuse(fault, f, "nobody asked");
    p->held = true;
    if (f->clocks > a->most)
        a->most = f->clocks;
    if (--a->missing)
        return ERR_OK;
    a->now.end = true;
    a->now.clocks = a->most;
    for (uint32_t i = 0; i < a->nodes; i++)
        a->peer[i].end_due = i != a->node;
    return ERR_OK;
}

static enum err take(struct agreement *a, struct slice_facts *k,
                     const struct frame *f, struct fault *fault)
{
    if ((f->kind == FRAME_HOLD || f->kind == FRAME_END) && f->from != CONTROL)
        return refuse(fault, f, "only node 0 may say so");
    switch (f->kind) {
    case FRAME_CUT:
        if (a->node != CONTROL)
            return refuse(fault, f, "for node 0");
        k->cut = true;
        if (k == &a->now)
            ask_all(a);
        return ERR_OK;
    case FRAME_HOLD:
        k->hold = true;
        return ERR_OK;
    case FRAME_HELD:
        return take_held(a, f, fault);
    case FRAME_END:
        k->end = true;
        k->clocks = f->clocks;
        return ERR_OK;
    default:
        if (f->code == 0 || f->code >= ERR_COUNT)
            return refuse(fault, f, "of a code that is none");
        if (!k->failed)
            k->failed = (enum err)f->code;
        return ERR_OK;
    }
}

enum err agreement_step(struct agreement *a, const struct frame *f,
                        struct fault *fault)
{
    if (f->from >= a->nodes)
        return refuse(fault, f, "of a node that there is not");
    if (f->kind < FRAME_CUT || f->kind > FRAME_FAIL)
        return refuse(fault, f, "not about a slice's end");
    if (f->slice > a->slice + 1)
        return refuse(fault, f, "of a slice that cannot have begun");
    if (f->slice < a->slice)
        return ERR_OK;
    return take(a, f->slice == a->slice ? &a->now : &a->next, f, fault);
}

/* ---- frames that go ------------------------------------------------------ */

static size_t write(const struct agreement *a, struct frame f,
                    unsigned char *bytes, size_t room)
{
    struct frame_writer w;

    f.slice = a->slice;
    frame_begin(&w, &f, bytes, room);
    return frame_end(&w);
}

/* A flag that is set, once. */
static bool due(bool *flag)
{
    bool set = *flag;

    *flag = false;
    return set;
}

size_t agreement_next(struct agreement *a, uint32_t node, unsigned char *bytes,
                      size_t room)
{
    struct peer *p = &a->peer[node];

    assert(node < a->nodes);
    if (due(&p->fail_due))
        return write(
            a,
            (struct frame){.kind = FRAME_FAIL, .code = (uint32_t)a->now.failed},
            bytes, room);
    if (node == CONTROL && due(&a->cut_due))
        return write(a, (struct frame){.kind = FRAME_CUT}, bytes, room);
    if (due(&p->hold_due))
        return write(a, (struct frame){.kind = FRAME_HOLD}, bytes, room);
    if (node == CONTROL && due(&a->held_due))
        return write(
            a, (struct frame){.kind = FRAME_HELD, .clocks = a->held_clocks},
            bytes, room);
    if (due(&p->end_due))
        return write(a,
                     (struct frame){.kind = FRAME_END, .clocks = a->now.clocks},
                     bytes, room);
    return 0;
}

/* ---- questions ----------------------------------------------------------- */

bool agreement_must_hold(const struct agreement *a)
{
    return a->now.hold && !a->held_said;
}

void agreement_held(struct agreement *a, uint64_t clocks)
{
    assert(agreement_must_hold(a));
    a->held_said = a->held_due = true;
    a->held_clocks = clocks;
}

bool agreement_take_end(struct agreement *a, uint64_t *clocks)
{
    if (!a->now.end || a->end_taken)
        return false;
    a->end_taken = true;
    *clocks = a->now.clocks;
    return true;
}

enum err agreement_failed(const struct agreement *a)
{
    return a->now.failed;
}
