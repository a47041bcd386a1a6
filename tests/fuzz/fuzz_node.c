/* A conversation with a training node: messages of a tuner that means something
 * or not, and a shell that carries out what it is given, well or badly. Each
 * request is answered, every answer can be sent, memory stays within what was
 * granted. */
#include "base/json/json.h"
#include "base/mem.h"
#include "ps/node/node.h"
#include "tests/fuzz/bytes_in.h"
#include "tests/fuzz/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODE_FUZZ_STEPS = 150, NODE_FUZZ_BRANCHES = 5 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const node_tunables[] = {"learning_rate", "batch_size",
                                            "shrink", NULL};

/* The shell: what it has taken and not finished. */
struct shell {
    struct node *node;
    op_id task, read;   /* 0: none */
    enum msg_kind kind; /* of the task */
    uint64_t left;      /* clocks of the slice that may still be reported */
    op_id last;         /* operation number, as a tuner gives them */
    clock_no next_clock;
    branch_id next_branch;
    bool detached; /* a snapshot is written in the background */
    op_id behind;
};

static void drain(struct shell *s)
{
    struct msg m, back;
    char *text;
    size_t len;

    while (node_pop(s->node, &m)) {
        must(msg_encode(&m, &text, &len) == ERR_OK);
        must(msg_decode(text, len, &back, NULL) == ERR_OK);
        must(back.kind == m.kind && back.op == m.op);
        msg_deinit(&back);
        mem_free(text);
        msg_deinit(&m);
    }
}

static json_t *make_setting(struct bytes_in *in)
{
    static const char *const names[] = {"learning_rate", "momentum",
                                        "batch_size",    "staleness",
                                        "shrink",        "nothing"};
    json_t *o = json_object();

    for (uint64_t n = in_below(in, 3); n > 0; n--) {
        double x = in_real(in);

        json_object_set_new(o, names[in_below(in, 6)],
                            in_chance(in) || x != x || x - x != 0
                                ? json_integer((json_int_t)in_number(in))
                                : json_real(x));
    }
    return o;
}

static branch_id some_branch(struct shell *s, struct bytes_in *in)
{
    return in_below(in, 16) == 15
               ? (branch_id)in_number(in)
               : (branch_id)in_below(in, (uint64_t)s->next_branch + 1);
}

static void fill_path(struct msg_path *p, branch_id branch)
{
    p->branch = branch;
    snprintf(p->path, sizeof(p->path), "/tmp/x");
}

static void fill_fork(struct shell *s, struct bytes_in *in, struct msg *m)
{
    m->fork.branch =
        in_below(in, 16) == 15 ? some_branch(s, in) : s->next_branch;
    m->fork.parent = some_branch(s, in);
    m->fork.type = (enum branch_type)in_below(in, BRANCH_TYPE_COUNT);
    m->fork.setting =
        m->fork.type == BRANCH_KEPT ? json_object() : make_setting(in);
    if (m->fork.branch == s->next_branch)
        s->next_branch++;
}

static void fill_schedule(struct shell *s, struct bytes_in *in, struct msg *m)
{
    m->schedule.branch = some_branch(s, in);
    m->schedule.first = in_below(in, 16) == 15 ? in_number(in) : s->next_clock;
    m->schedule.count = 1 + in_number(in);
    m->schedule.report_every = 1 + in_below(in, 9);
    if (m->schedule.count == 0)
        m->schedule.count = 1;
}

static void fill_rows(struct shell *s, struct bytes_in *in, struct msg *m)
{
    m->rows.branch = some_branch(s, in);
    snprintf(m->rows.table, sizeof(m->rows.table), "weights");
    m->rows.first = in_number(in);
    m->rows.count = 1;
    if (in_chance(in))
        m->rows.increment = json_pack("[[f, f]]", 1.0, 2.0);
}

static void fill(struct shell *s, struct bytes_in *in, struct msg *m)
{
    switch (m->kind) {
    case MSG_CONFIG:
        m->config.config = json_object();
        m->config.folder = mem_strdup("/");
        break;
    case MSG_FORK:
        fill_fork(s, in, m);
        break;
    case MSG_FREE:
        m->free.branch = some_branch(s, in);
        break;
    case MSG_SCHEDULE:
        fill_schedule(s, in, m);
        break;
    case MSG_CUT:
        m->cut.target = in_chance(in) ? s->task : in_number(in);
        break;
    case MSG_HOLD:
        m->hold.target = in_chance(in) ? s->task : in_number(in);
        break;
    case MSG_SNAPSHOT:
    case MSG_SAVE:
        fill_path(&m->snapshot, some_branch(s, in));
        break;
    case MSG_RESTORE:
        fill_path(&m->restore, s->next_branch++);
        break;
    case MSG_ROWS:
        fill_rows(s, in, m);
        break;
    default:
        break;
    }
}

/* Through bytes, as it comes: what they cannot say, nobody sends. */
static void tell(struct shell *s, struct bytes_in *in)
{
    static const enum msg_kind kinds[] = {
        MSG_FORK,     MSG_FORK, MSG_FORK,   MSG_SCHEDULE, MSG_SCHEDULE,
        MSG_FREE,     MSG_CUT,  MSG_HOLD,   MSG_SNAPSHOT, MSG_RESTORE,
        MSG_SAVE,     MSG_ROWS, MSG_CONFIG, MSG_HELLO,    MSG_REPORT,
        MSG_SCHEDULE, MSG_FREE, MSG_FORKED};
    struct msg m = {.kind = kinds[in_below(in, 18)], .op = ++s->last}, back;
    bool schedules = m.kind == MSG_SCHEDULE;
    char *text = NULL;
    size_t len = 0;
    uint8_t odd = in_byte(in);
    enum err err;

    if (odd == 255)
        m.kind = MSG_STOP;
    else if (odd == 254)
        m.op = in_number(in);
    fill(s, in, &m);
    err = msg_encode(&m, &text, &len);
    if (!err)
        err = msg_decode(text, len, &back, NULL);
    mem_free(text);
    if (!err) {
        struct fault f = {0};
        clock_no after = back.schedule.first + back.schedule.count;

        err = node_receive(s->node, &back, &f);
        must(!err || (err == ERR_PROTO && f.text[0]));
        if (schedules && !err)
            s->next_clock = after; /* or it was refused: then it is odd now */
    }
    msg_deinit(&m);
}

static void load(struct shell *s, struct bytes_in *in)
{
    struct node_model model = {.branches_max = NODE_FUZZ_BRANCHES,
                               .many = in_chance(in),
                               .tunables = node_tunables,
                               .ready = {.samples = 100,
                                         .validation_samples = in_below(in, 2),
                                         .workers = 2,
                                         .metric_reduction = "mean"}};

    model.ready.tunables = json_array();
    must(node_setting_init(&model.defaults, NULL, node_tunables, false, NULL) ==
         ERR_OK);
    must(node_loaded(s->node, &model) == ERR_OK);
    s->task = 0;
}

static void take(struct shell *s)
{
    struct node_task task;

    if (s->task)
        return;
    node_take(s->node, &task);
    if (!task.msg)
        return;
    s->task = task.msg->op;
    s->kind = task.msg->kind;
    s->left = s->kind == MSG_SCHEDULE ? task.msg->schedule.count : 0;
    if (s->kind == MSG_SCHEDULE)
        must(task.setting != NULL);
}

static void finish(struct shell *s, struct bytes_in *in)
{
    struct node_result r = {0};

    if (!s->task)
        return;
    if (s->kind == MSG_CONFIG) {
        load(s, in);
        return;
    }
    if (in_below(in, 8) == 7) {
        fault_set(&r.fault, ERR_IO, "a fault");
        r.broken = s->kind == MSG_SCHEDULE && in_chance(in);
    }
    r.clocks = s->kind == MSG_SCHEDULE ? in_below(in, 50) : 0;
    if (s->kind == MSG_SNAPSHOT && !r.fault.code && !s->detached &&
        in_chance(in)) {
        s->detached = true;
        s->behind = s->task;
        node_detach(s->node);
    } else {
        node_finish(s->node, s->task, &r);
    }
    s->task = 0;
}

static void finish_behind(struct shell *s)
{
    struct node_result r = {.bytes = 7};

    if (!s->detached)
        return;
    node_finish(s->node, s->behind, &r);
    s->detached = false;
}

static void report(struct shell *s, struct bytes_in *in)
{
    struct progress_window w[2] = {{.clocks = 1, .samples = 3}, {.clocks = 1}};
    uint32_t n = 1 + (uint32_t)in_below(in, 2);

    if (!s->task || s->kind != MSG_SCHEDULE || s->left < n)
        return;
    w[0].sum = in_real(in);
    must(node_report(s->node, w, n) == ERR_OK);
    s->left -= n;
}

static void read_rows(struct shell *s, struct bytes_in *in)
{
    struct node_result r = {0};
    struct node_task task;

    if (!s->task || s->kind != MSG_SCHEDULE)
        return;
    node_take_read(s->node, &task);
    if (!task.msg)
        return;
    must(task.msg->kind == MSG_ROWS && !task.msg->rows.increment);
    if (in_chance(in)) {
        node_leave_read(s->node, task.msg->op);
        return;
    }
    r.data = json_pack("[[f]]", 1.0);
    node_finish(s->node, task.msg->op, &r);
}

static void one_step(struct shell *s, struct bytes_in *in)
{
    struct msg_beat beat = {.workers = 2};

    switch (in_below(in, 12)) {
    case 0:
        finish(s, in);
        break;
    case 1:
        report(s, in);
        break;
    case 2:
        node_cut_due(s->node);
        break;
    case 3:
        node_beat(s->node, &beat);
        break;
    case 4:
        read_rows(s, in);
        break;
    case 5:
        finish_behind(s);
        break;
    case 6:
        take(s);
        break;
    default:
        tell(s, in);
    }
    if (in_below(in, 8))
        drain(s);
    must(node_units(s->node) <= NODE_FUZZ_BRANCHES);
}

/* What was taken is finished; all that waits then has its answer. */
static void settle(struct shell *s, struct bytes_in *in)
{
    for (int i = 0; i < 2 * NODE_FUZZ_STEPS; i++) {
        finish_behind(s);
        take(s);
        if (!s->task)
            break;
        finish(s, in);
        drain(s);
    }
    must(node_phase(s->node) == NODE_STOPPED || node_waiting(s->node) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct msg_hello hello = {PROTO_VERSION, 0, 2, 77};
    struct bytes_in in = {data, size};
    struct shell s = {.next_branch = 1};
    int64_t before;

    json_count_memory();
    before = mem_outstanding();
    must(node_new(&hello, &s.node) == ERR_OK);
    for (int i = 0; i < NODE_FUZZ_STEPS && in.left > 0; i++)
        one_step(&s, &in);
    settle(&s, &in);
    drain(&s);
    node_free(s.node);
    must(mem_outstanding() == before);
    return 0;
}
