/* Nodes of a run that answer the tuner, each in its own time, well or not: the
 * group joins what they say. They are told to disagree, in words, or the core
 * gets one answer to each operation, which can be written. */
#include "base/json/json.h"
#include "tests/fuzz/node_says.h"
#include "tuner/shell/node_group.h"

enum { GROUP_NODES = 3, GROUP_STEPS = 400, GROUP_ASKED = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct tuner_side {
    struct node_group *group;
    uint32_t nodes;
    struct node_asked asked[GROUP_ASKED];
    struct {
        bool said;
        uint64_t clocks; /* reported */
    } of[GROUP_ASKED][GROUP_NODES];
    bool joined[GROUP_ASKED]; /* its one answer */
    bool cut[GROUP_STEPS];    /* by operation: a slice is cut once */
    size_t len;
    op_id last;
};

static void forget(struct tuner_side *s)
{
    node_group_reset(s->group);
    s->len = 0;
}

static void remember(struct tuner_side *s, const struct msg *m)
{
    if (s->len == GROUP_ASKED)
        return;
    memset(s->of[s->len], 0, sizeof(s->of[s->len]));
    s->joined[s->len] = false;
    s->asked[s->len++] = node_asked_of(m);
}

static void answer_once(struct tuner_side *s, const struct msg *m)
{
    if (m->kind == MSG_REPORT || m->op == 0)
        return;
    for (size_t i = 0; i < s->len; i++)
        if (s->asked[i].op == m->op) {
            must(!s->joined[i]);
            s->joined[i] = true;
        }
}

static void can_be_written(const struct msg *m)
{
    char *text = NULL;
    size_t len;

    must(msg_encode(m, &text, &len) == ERR_OK);
    mem_free(text);
}

/* What the group has for the nodes and for the core. */
static void drain(struct tuner_side *s)
{
    struct msg m;

    while (node_group_post(s->group, &m)) {
        can_be_written(&m);
        remember(s, &m);
    }
    if (node_group_save_due(s->group, &m))
        can_be_written(&m);
    while (node_group_next(s->group, &m)) {
        answer_once(s, &m);
        if (m.kind != MSG_BEAT && m.kind != MSG_HELLO)
            can_be_written(&m);
        msg_deinit(&m);
    }
}

static void ask(struct tuner_side *s, struct bytes_in *in)
{
    static const enum msg_kind kinds[] = {
        MSG_CONFIG, MSG_FORK,     MSG_SCHEDULE, MSG_SCHEDULE, MSG_CUT,
        MSG_FREE,   MSG_SNAPSHOT, MSG_RESTORE,  MSG_SAVE,     MSG_ROWS};
    struct msg m = {.kind = kinds[in_below(in, 10)], .op = s->last + 1};
    bool leaves = false;
    op_id back;

    if (s->len == GROUP_ASKED)
        return;
    s->last++;
    switch (m.kind) {
    case MSG_FORK:
        m.fork.branch = 1 + (branch_id)in_below(in, 4);
        break;
    case MSG_SCHEDULE:
        m.schedule =
            (struct msg_schedule){.branch = 1 + (branch_id)in_below(in, 4),
                                  .first = in_below(in, 9),
                                  .count = 1 + in_below(in, 9),
                                  .report_every = 1};
        break;
    case MSG_CUT:
        back = in_below(in, 4);
        m.cut.target = back < s->last ? s->last - back : s->last;
        if (s->cut[m.cut.target])
            return;
        s->cut[m.cut.target] = true;
        break;
    case MSG_FREE:
        m.free.branch = 1 + (branch_id)in_below(in, 4);
        break;
    case MSG_RESTORE:
        m.restore.branch = 1 + (branch_id)in_below(in, 4);
        break;
    case MSG_SAVE:
        snprintf(m.save.path, sizeof(m.save.path), "/model");
        break;
    default:
        break;
    }
    must(node_group_ask(s->group, &m, &leaves) == ERR_OK);
    if (m.kind == MSG_SAVE && s->nodes > 1 && in_chance(in))
        node_group_save_last(s->group, &m);
    if (leaves)
        remember(s, &m);
}

/* Node @node says something of the oldest that it has not answered. */
static void take(struct tuner_side *s, struct bytes_in *in, uint32_t node)
{
    struct node_asked none = {.kind = MSG_BEAT};
    struct fault f = {0};
    struct msg m;
    size_t i = 0;
    enum err err;

    while (i < s->len && s->of[i][node].said)
        i++;
    if (!node_says(in, i < s->len ? &s->asked[i] : &none,
                   i < s->len ? s->of[i][node].clocks : 0, &m))
        return;
    if (i < s->len && m.kind == MSG_REPORT)
        s->of[i][node].clocks += m.report.windows;
    else if (i < s->len && m.op == s->asked[i].op)
        s->of[i][node].said = true;
    err = node_group_take(s->group, node, &m, &f);
    must(!err || (err == ERR_PROTO && f.text[0]));
    must(m.kind == MSG_BEAT); /* it was transferred */
    drain(s);
    if (err)
        forget(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes_in in = {data, size};
    struct tuner_side s = {0};
    int64_t before;

    json_count_memory();
    before = mem_outstanding();
    s.nodes = 1 + (uint32_t)in_below(&in, GROUP_NODES);
    must(node_group_new(s.nodes, &s.group) == ERR_OK);
    for (int i = 0; i < GROUP_STEPS && in.left > 0; i++) {
        uint8_t what = in_byte(&in);

        if (what < 80)
            ask(&s, &in);
        else
            take(&s, &in, what % s.nodes);
        drain(&s);
    }
    node_group_free(s.group);
    must(mem_outstanding() == before);
    return 0;
}
