/* What a node may say when it was asked something: for targets that play the
 * tuner's side. Mostly an answer that fits; sometimes another kind, another
 * operation, another branch, or windows that nobody ran.
 */
#ifndef FUZZ_NODE_SAYS_H
#define FUZZ_NODE_SAYS_H

#include "base/mem.h"
#include "base/proto/proto.h"
#include "tests/fuzz/bytes_in.h"
#include "tests/fuzz/must.h"

#include <stdio.h>
#include <string.h>

/* What was asked, as far as answers need it. */
struct node_asked {
    enum msg_kind kind;
    op_id op;
    branch_id branch;
    clock_no first;
    uint64_t count;
};

static struct node_asked node_asked_of(const struct msg *m)
{
    struct node_asked a = {.kind = m->kind, .op = m->op};

    switch (m->kind) {
    case MSG_FORK:
        a.branch = m->fork.branch;
        break;
    case MSG_RESTORE:
        a.branch = m->restore.branch;
        break;
    case MSG_FREE:
        a.branch = m->free.branch;
        break;
    case MSG_SCHEDULE:
        a.branch = m->schedule.branch;
        a.first = m->schedule.first;
        a.count = m->schedule.count;
        break;
    case MSG_SNAPSHOT:
    case MSG_SAVE:
        a.branch = m->snapshot.branch;
        break;
    case MSG_ROWS:
        a.branch = m->rows.branch;
        break;
    default:
        break;
    }
    return a;
}

/* Windows of @a's slice from its clock @at on. */
static void say_report(struct bytes_in *in, const struct node_asked *a,
                       uint64_t at, struct msg *m)
{
    uint32_t n = 1 + (uint32_t)in_below(in, 4);

    m->kind = MSG_REPORT;
    m->report.branch = a->branch;
    m->report.first = a->first + at;
    m->report.windows = n;
    m->report.window = mem_calloc(n, sizeof(*m->report.window));
    must(m->report.window != NULL);
    for (uint32_t i = 0; i < n; i++)
        m->report.window[i] = (struct progress_window){
            .sum = in_real(in), .samples = 10, .clocks = 1, .seconds = 0.5};
    if (in_below(in, 8) == 7)
        m->report.windows = 0; /* it is refused where it is read */
    if (in_below(in, 4) == 3)
        m->report.values = json_pack("{s:[f]}", "accuracy", 0.5);
}

static void say_done(struct bytes_in *in, const struct node_asked *a,
                     struct msg *m)
{
    m->kind = MSG_DONE;
    m->done.branch = a->branch;
    if (a->kind == MSG_SCHEDULE || a->kind == MSG_HOLD)
        m->done.clocks = in_below(in, 8) ? a->count : in_number(in);
    if (a->kind == MSG_SNAPSHOT || a->kind == MSG_SAVE)
        m->done.bytes = in_below(in, 8) ? 10 : in_number(in);
    if (a->kind == MSG_ROWS)
        m->done.data = json_pack("[[f]]", 1.0);
    else if (in_below(in, 8) == 7)
        m->done.data = json_pack("{s:[s]}", "files", "a");
}

static void say_ready(struct bytes_in *in, struct msg *m)
{
    m->kind = MSG_READY;
    m->ready.samples = in_below(in, 8) ? 100 : in_number(in);
    m->ready.validation_samples = in_below(in, 3);
    m->ready.parts = in_below(in, 4) ? 0 : 4;
    m->ready.workers = 1;
    m->ready.cuts = (enum proto_cuts)in_below(in, CUTS_COUNT);
    m->ready.model_bytes = in_number(in);
    m->ready.loss_floor = in_real(in);
    m->ready.tunables = json_pack("[s,s]", "learning_rate", "batch_size");
    if (in_chance(in)) {
        snprintf(m->ready.metric, sizeof(m->ready.metric), "accuracy");
        snprintf(m->ready.metric_reduction, sizeof(m->ready.metric_reduction),
                 "mean");
    }
}

static void say_failed(struct bytes_in *in, const struct node_asked *a,
                       struct msg *m)
{
    m->kind = MSG_FAILED;
    m->failed.branch = a->branch;
    m->failed.code = in_chance(in) ? ERR_IO : ERR_NOMEM;
    snprintf(m->failed.reason, sizeof(m->failed.reason), "a reason");
}

static void say_odd(struct bytes_in *in, struct msg *m)
{
    static const enum msg_kind kinds[] = {MSG_HELLO,  MSG_STOP, MSG_CUT,
                                          MSG_FORKED, MSG_DONE, MSG_FREE};

    m->kind = kinds[in_below(in, 6)];
    if (m->kind == MSG_HELLO)
        m->hello.version =
            in_chance(in) ? PROTO_VERSION : (uint32_t)in_number(in);
}

/* Into @m, through bytes, as it comes; @at: clocks of the slice that were
 * reported. False: no bytes say it. The caller owns its members. */
static bool node_says(struct bytes_in *in, const struct node_asked *a,
                      uint64_t at, struct msg *out)
{
    struct msg m = {.op = a->op};
    uint8_t how = in_byte(in);
    char *text = NULL;
    size_t len;
    enum err err;

    if (how >= 250)
        say_odd(in, &m);
    else if (how >= 230)
        say_failed(in, a, &m);
    else if (a->kind == MSG_CONFIG)
        say_ready(in, &m);
    else if (a->kind == MSG_FORK || a->kind == MSG_RESTORE)
        m = (struct msg){
            .kind = MSG_FORKED, .op = a->op, .forked.branch = a->branch};
    else if (a->kind == MSG_SCHEDULE && how < 140)
        say_report(in, a, at, &m);
    else
        say_done(in, a, &m);
    if (in_below(in, 32) == 31)
        m.op = in_number(in);
    err = msg_encode(&m, &text, &len);
    if (!err)
        err = msg_decode(text, len, out, NULL);
    mem_free(text);
    msg_deinit(&m);
    return !err;
}

#endif
