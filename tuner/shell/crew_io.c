#include "tuner/shell/crew_io.h"

#include "base/clock_io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static uint32_t nodes_of(const struct crew *w)
{
    return w->o.keeper.nodes;
}

/* ---- life ---------------------------------------------------------------- */

/* All will be given the configuration, and answer it. */
static enum err expect_ready(struct crew *w)
{
    bool leaves;

    return w->group ? node_group_ask(w->group, w->o.config, &leaves) : ERR_OK;
}

static void forget_tries(struct crew *w)
{
    for (uint32_t i = 0; i < KEEPER_NODES_MAX; i++)
        w->start[i] = (struct crew_start){.again_s = INFINITY};
}

enum err crew_init(struct crew *w, const struct crew_options *o, double now_s)
{
    enum err err = ERR_OK;

    assert(o->config);
    assert(o->node);
    *w = (struct crew){.o = *o, .held.kind = MSG_BEAT};
    keeper_init(&w->keeper, &o->keeper, now_s);
    forget_tries(w);
    if (nodes_of(w) > 1)
        err = node_group_new(nodes_of(w), &w->group);
    return err ? err : expect_ready(w);
}

void crew_deinit(struct crew *w)
{
    assert(w->o.node);
    node_group_free(w->group);
    w->group = NULL;
    msg_deinit(&w->held);
    if (w->malformed > 1)
        log_event(LOG_WARN, "messages_ignored", "count=%llu",
                  (unsigned long long)w->malformed);
}

/* ---- losses -------------------------------------------------------------- */

/* The name of a node: a program of one process has no number. */
static void name_node(const struct crew *w, uint32_t node, char *out,
                      size_t size)
{
    int pid = (int)w->o.node[node].process.pid;

    if (w->o.node[node].engine)
        snprintf(out, size, "node %u on %s", node, w->o.node[node].host);
    else if (w->o.keeper.program && nodes_of(w) == 1)
        snprintf(out, size, "the program (pid %d)", pid);
    else
        snprintf(out, size, "%s %u (pid %d)",
                 w->o.keeper.program ? "process" : "node", node, pid);
}

static void tell_loss(const struct crew *w, bool counts, const char *reason)
{
    if (counts && !w->keeper.stopping)
        log_event(LOG_INFO, "node_lost", "reason=\"%s\"", reason);
}

static void lose(struct crew *w, uint32_t node, bool speaks, double now_s,
                 const char *reason)
{
    bool counts = keeper_lose(&w->keeper, speaks, now_s, reason);

    if (counts)
        w->culprit = node;
    tell_loss(w, counts, reason);
}

/* A program's own fault: doing it again would not help. @leaves: it will end
 * by itself. */
static void blame(struct crew *w, uint32_t node, bool leaves, double now_s,
                  const char *reason)
{
    bool counts = keeper_fault(&w->keeper, leaves, now_s, reason);

    if (counts)
        w->culprit = node;
    w->blamed |= counts;
    tell_loss(w, counts, reason);
}

/* The stage up to which a program came that ended by itself. */
static const char *before_what(const struct crew *w, uint32_t node)
{
    const struct keeper_node *n = &w->keeper.node[node];

    if (!w->o.keeper.program || n->ready)
        return "";
    return n->greeted ? " before it was ready" : " before it said hello";
}

/* Of several nodes the one that ends first is often one that has lost another,
 * and says so: that other is the culprit. (Of processes of this machine it is
 * known at once which has ended.) False: it accuses nobody. */
static bool accuses(const struct crew *w, uint32_t node, uint32_t *other,
                    char *out, size_t size)
{
    char words[2048], says[256], name[320], accused[320];
    unsigned n;

    if (nodes_of(w) == 1 || !w->o.node[node].engine)
        return false;
    launcher_last_words(&w->o.node[node], words, sizeof(words));
    if (!engine_accused(words, &n, says, sizeof(says)) || n >= nodes_of(w) ||
        n == node)
        return false;
    name_node(w, node, name, sizeof(name));
    name_node(w, n, accused, sizeof(accused));
    snprintf(out, size, "%s was lost; %s says: %s", accused, name, says);
    *other = n;
    return true;
}

/* A start that came at a bad moment is done again, some times. */
static bool tries_again(struct crew *w, uint32_t node, double now_s)
{
    struct crew_start *start = &w->start[node];

    if (w->keeper.node[node].greeted || w->keeper.lost ||
        !isinf(w->keeper.lost_at_s) || w->keeper.stopping ||
        w->keeper.leaving || start->tries >= ENGINE_TRIES_MAX ||
        !launcher_was_busy(&w->o.node[node]))
        return false;
    start->tries++;
    start->again_s = now_s + start->tries * ENGINE_PAUSE_MS * 1e-3;
    log_event(LOG_INFO, "host_is_busy", "node=%u host=%s try=%u", node,
              w->o.node[node].host, start->tries);
    return true;
}

double crew_due_at(const struct crew *w)
{
    double at = INFINITY;

    for (uint32_t i = 0; i < nodes_of(w) && !w->keeper.lost; i++)
        at = fmin(at, w->start[i].again_s);
    return at;
}

bool crew_due(struct crew *w, double now_s, uint32_t *node)
{
    for (uint32_t i = 0; i < nodes_of(w) && !w->keeper.lost; i++) {
        if (now_s < w->start[i].again_s)
            continue;
        w->start[i].again_s = INFINITY;
        *node = i;
        return true;
    }
    return false;
}

void crew_check(struct crew *w, uint32_t node, double now_s)
{
    const struct subprocess *p = &w->o.node[node].process;
    char verdict[256], name[320], text[1100];
    uint32_t culprit = node;
    bool counts;

    assert(node < nodes_of(w));
    if (!launcher_poll(&w->o.node[node]))
        return;
    if (keeper_holds(&w->keeper)) {
        if (node == w->culprit)
            keeper_release(&w->keeper, now_s);
        return;
    }
    if (w->o.keeper.program) {
        subprocess_verdict(p, verdict, sizeof(verdict));
        name_node(w, node, name, sizeof(name));
        snprintf(text, sizeof(text), "%s %s%s", name, verdict,
                 before_what(w, node));
    } else if (tries_again(w, node, now_s)) {
        return;
    } else if (!accuses(w, node, &culprit, text, sizeof(text))) {
        launcher_verdict(&w->o.node[node], text, sizeof(text));
    }
    counts = keeper_end(&w->keeper, p->code >= 0, now_s, text);
    if (counts)
        w->culprit = culprit;
    tell_loss(w, counts, text);
}

void crew_describe_end(const struct crew *w, uint32_t node, char *out,
                       size_t size)
{
    char verdict[256], name[320];

    assert(node < nodes_of(w));
    assert(w->o.node[node].process.ended);
    subprocess_verdict(&w->o.node[node].process, verdict, sizeof(verdict));
    name_node(w, node, name, sizeof(name));
    snprintf(out, size, "%s %s", name, verdict);
}

/* Whether the culprit is a program that went through, or waits, and never said
 * a word: it may know nothing of mltune. One that raised says so itself. */
static bool is_foreign(const struct crew *w)
{
    const struct subprocess *p = &w->o.node[w->culprit].process;

    return w->o.keeper.program && !w->keeper.node[w->culprit].greeted &&
           w->malformed == 0 &&
           (w->keeper.late == KEEPER_OWES_HELLO || (p->ended && p->code == 0));
}

void crew_explain(const struct crew *w, char *out, size_t size)
{
    int n = snprintf(out, size, "%s", w->keeper.reason);

    assert(size > 0);
    if (w->malformed > 0 && n >= 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n,
                 "; %llu of its messages made no sense, the first: %s",
                 (unsigned long long)w->malformed, w->garbage);
    else if (is_foreign(w) && n >= 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n,
                 ": it never connected to mltune. In Python, call "
                 "mltune.config() and loop over run.train() "
                 "(docs/own-programs.md)");
}

json_t *crew_last_words(const struct crew *w)
{
    char text[2048], *rest = text, *line;
    json_t *lines = json_array();

    launcher_last_words(&w->o.node[w->culprit], text, sizeof(text));
    while (lines && (line = strsep(&rest, "\n"))) {
        text_clean(line);
        if (*line) /* without memory its log still has the line */
            (void)json_array_append_new(lines, json_string(line));
    }
    while (lines && json_array_size(lines) > CREW_WORDS_MAX)
        json_array_remove(lines, 0);
    if (lines && json_array_size(lines) == 0) {
        json_decref(lines);
        lines = NULL;
    }
    return lines;
}

uint32_t crew_last_speaker(const struct crew *w)
{
    return nodes_of(w) > 1 ? w->culprit : UINT32_MAX;
}

void crew_end(struct crew *w, int time_ms, int hurry_fd)
{
    launcher_stop(w->o.node, nodes_of(w), time_ms / 2, hurry_fd);
}

void crew_kill(struct crew *w, double now_s)
{
    uint32_t node = w->keeper.late_node;
    char name[320], late[128], text[512];

    name_node(w, node, name, sizeof(name));
    keeper_late_text(&w->keeper, late, sizeof(late));
    snprintf(text, sizeof(text), "%s %s", name, late);
    /* A node that hangs is as good as none. */
    crew_end(w, 0, -1);
    lose(w, node, false, now_s, text);
}

void crew_clear(struct crew *w)
{
    crew_end(w, 0, -1);
    w->broken = false;
    for (uint32_t i = 0; i < nodes_of(w); i++)
        w->peer[i].len = 0;
    if (w->group)
        node_group_reset(w->group);
}

enum err crew_begin_again(struct crew *w, double now_s)
{
    forget_tries(w);
    keeper_restarted(&w->keeper, now_s);
    return expect_ready(w);
}

/* ---- sending ------------------------------------------------------------- */

static bool all_here(const struct crew *w)
{
    for (uint32_t i = 0; i < nodes_of(w); i++)
        if (w->peer[i].len == 0)
            return false;
    return true;
}

static enum err try_to_send(struct crew *w, uint32_t node, const char *text,
                            size_t len)
{
    enum err err = ERR_NOMEM;

    for (int i = 0; err == ERR_NOMEM && i < CREW_SENDS_MAX; i++)
        err = socket_send(w->o.socket, &w->peer[node], text, len);
    return err;
}

static void send_text(struct crew *w, uint32_t node, const char *text,
                      size_t len, double now_s)
{
    enum err err = try_to_send(w, node, text, len);

    if (err == ERR_NOMEM)
        lose(w, node, true, now_s, "there is no memory for a message to it");
    else if (err == ERR_LIMIT)
        lose(w, node, false, now_s, "the node does not take messages any more");
    else if (err)
        lose(w, node, true, now_s, "the node is not connected");
}

static enum err send_from(struct crew *w, uint32_t first, uint32_t nodes,
                          const struct msg *m, double now_s)
{
    char *text = NULL;
    size_t len;
    enum err err = msg_encode(m, &text, &len);

    assert(first + nodes <= nodes_of(w));
    for (uint32_t i = first; !err && i < first + nodes; i++)
        send_text(w, i, text, len, now_s);
    mem_free(text);
    return err;
}

static enum err send_all(struct crew *w, const struct msg *m, double now_s)
{
    if (m->kind != MSG_SAVE || !w->group || w->o.keeper.program)
        return send_from(w, 0, nodes_of(w), m, now_s);
    node_group_save_last(w->group, m);
    return send_from(w, 1, nodes_of(w) - 1, m, now_s);
}

/* Sends what the group itself has to say to the nodes. */
static enum err send_posts(struct crew *w, double now_s)
{
    struct msg m;
    enum err err = ERR_OK;

    while (!err && w->group && node_group_post(w->group, &m))
        err = send_all(w, &m, now_s);
    if (!err && w->group && node_group_save_due(w->group, &m)) {
        keeper_move(&w->keeper, 0, now_s); /* it is asked only now */
        err = send_from(w, 0, 1, &m, now_s);
    }
    return err;
}

enum err crew_send(struct crew *w, const struct msg *m, double now_s,
                   struct fault *f)
{
    bool leaves = true;
    enum err err = ERR_OK;

    assert(m->kind != MSG_HELLO);
    if (w->keeper.lost || !all_here(w))
        return ERR_OK;
    if (w->group)
        err = node_group_ask(w->group, m, &leaves);
    if (!err && leaves)
        err = send_all(w, m, now_s);
    if (!err)
        err = send_posts(w, now_s);
    if (err)
        return fault_set(f, err, "cannot encode %s: %s", msg_kind_name(m->kind),
                         err_text(err));
    if (m->kind == MSG_STOP)
        keeper_stop(&w->keeper);
    else if (m->op)
        keeper_ask(&w->keeper, m->op, m->kind == MSG_SCHEDULE, now_s);
    return ERR_OK;
}

/* ---- receiving ----------------------------------------------------------- */

static void complain(struct crew *w, const char *reason)
{
    if (w->malformed++ > 0)
        return;
    log_event(LOG_WARN, "message_ignored", "reason=\"%s\"", reason);
    snprintf(w->garbage, sizeof(w->garbage), "%.200s", reason);
}

/* Bytes that are no message. A bad answer or report would be waited for: its
 * node is lost. Only its user can mend what a program sends. A beat is not
 * missed. @node < 0: who sent it is not known. */
static void take_garbage(struct crew *w, int64_t node, const char *text,
                         size_t len, double now_s, const char *reason)
{
    bool program = w->o.keeper.program;
    enum msg_kind kind = msg_kind_of(text, len);
    bool answer = node >= 0 && kind > MSG_HELLO && kind < MSG_BEAT;
    char why[PROTO_TEXT_MAX];

    complain(w, reason);
    if (answer || (program && kind == MSG_HELLO))
        snprintf(why, sizeof(why), "the %s's `%s` makes no sense: %s",
                 program ? "program" : "node", msg_kind_name(kind), reason);
    else if (program && w->malformed == CREW_GARBAGE_MAX)
        snprintf(why, sizeof(why), "the program does not keep to the protocol");
    else
        return;
    if (program)
        blame(w, node < 0 ? 0 : (uint32_t)node, false, now_s, why);
    else
        lose(w, (uint32_t)node, false, now_s, why);
}

static void configure(struct crew *w, uint32_t node, double now_s)
{
    char text[PROTO_TEXT_MAX];
    char *config = NULL;
    size_t len;
    enum err err = msg_encode(w->o.config, &config, &len);

    if (!err)
        err = try_to_send(w, node, config, len);
    mem_free(config);
    if (!err)
        return;
    snprintf(text, sizeof(text), "cannot send the configuration: %s",
             err_text(err));
    lose(w, node, false, now_s, text);
}

/* The node that says @hello; nodes_of(w): none of ours. */
static uint32_t who_greets(const struct crew *w, const struct msg_hello *hello)
{
    uint32_t i = 0;

    if (w->o.node[0].engine) /* who is here has the key, of this start alone */
        return hello->node < nodes_of(w) ? hello->node : nodes_of(w);

    while (i < nodes_of(w) && !launcher_has(&w->o.node[i], hello->pid))
        i++;
    return i;
}

static void wrong_version(struct crew *w, uint32_t node, uint32_t version,
                          double now_s)
{
    char text[PROTO_TEXT_MAX];

    snprintf(text, sizeof(text),
             "the %s speaks version %u of the control protocol, this tuner "
             "version %d",
             w->o.keeper.program ? "program" : "node", version, PROTO_VERSION);
    if (w->o.keeper.program)
        blame(w, node, false, now_s, text);
    else
        lose(w, node, false, now_s, text);
}

static void greet(struct crew *w, const struct socket_peer *from,
                  const struct msg_hello *hello, double now_s)
{
    uint32_t i = who_greets(w, hello);
    char text[128];

    if (w->keeper.lost || i == nodes_of(w) || w->peer[i].len > 0) {
        log_event(LOG_WARN, "stranger_ignored", "pid=%lld",
                  (long long)hello->pid);
        if (i == nodes_of(w)) {
            snprintf(text, sizeof(text),
                     "`hello` of process %lld, which is not of the group that "
                     "was started",
                     (long long)hello->pid);
            complain(w, text);
        }
        return;
    }
    if (hello->version != PROTO_VERSION) {
        wrong_version(w, i, hello->version, now_s);
        return;
    }
    w->peer[i] = *from;
    keeper_greet(&w->keeper, i, now_s);
    configure(w, i, now_s);
}

/* Several processes of a program that leave open who ends a cut slice: each
 * would end it at another clock. False: they do. */
static bool says_cuts(struct crew *w, uint32_t node, const struct msg_ready *r,
                      double now_s)
{
    if (!w->o.keeper.program || nodes_of(w) == 1 || r->cuts != CUTS_UNSAID)
        return true;
    blame(w, node, false, now_s,
          "a program of several processes must say in its `ready` who ends a "
          "slice that is cut: cuts \"agreed\", the tuner asks all of them "
          "(rule M2 of docs/protocol.md), or \"own\", they agree by "
          "themselves");
    return false;
}

/* A granted fork that cannot be carried out after all, for trouble of the
 * machine (rule C2): the tuner counts on its branch, and what comes next may be
 * about that. The node is as good as none. */
static bool breaks_grant(struct crew *w, uint32_t node, const struct msg *m,
                         double now_s)
{
    char text[PROTO_TEXT_MAX];

    if (m->kind != MSG_FAILED || m->op == 0 || m->op == w->o.config->op ||
        !err_may_pass(m->failed.code) || keeper_owes(&w->keeper, node, m->op))
        return false;
    snprintf(text, sizeof(text), "the %s cannot do what it granted: %.900s",
             w->o.keeper.program ? "program" : "node", m->failed.reason);
    lose(w, node, false, now_s, text);
    return true;
}

/* Takes what @m says about what @node owes. False: it is not for the tuner. */
static bool account(struct crew *w, uint32_t node, const struct msg *m,
                    double now_s)
{
    struct keeper *k = &w->keeper;

    keeper_hear(k, node, now_s);
    if (m->kind == MSG_READY && !says_cuts(w, node, &m->ready, now_s))
        return false;
    if (m->kind == MSG_READY)
        keeper_ready(k, node, now_s);
    else if (m->kind == MSG_REPORT)
        keeper_move(k, node, now_s);
    else if (m->kind == MSG_BEAT)
        keeper_beat(k, node, m->beat.clocks, now_s);
    else if (m->op && m->op != w->o.config->op)
        keeper_answer(k, node, m->op, now_s);
    if (m->kind != MSG_FAILED || m->op || !w->o.keeper.program)
        return true;
    blame(w, node, true, now_s, m->failed.reason);
    return false;
}

/* Members of @m are transferred where the crew is of several. */
static void pass_on(struct crew *w, uint32_t node, struct msg *m, double now_s,
                    crew_hear *hear, void *ctx)
{
    struct fault f = {0};
    struct msg joined;

    if (!w->group) {
        hear(ctx, m);
        return;
    }
    if (w->keeper.lost)
        return;
    if (node_group_take(w->group, node, m, &f) != ERR_OK) {
        lose(w, node, false, now_s, f.text);
        return;
    }
    if (send_posts(w, now_s) != ERR_OK) {
        lose(w, node, false, now_s,
             "no memory for what the nodes are to be told");
        return;
    }
    while (node_group_next(w->group, &joined)) {
        hear(ctx, &joined);
        msg_deinit(&joined);
    }
}

/* A program that cannot load says so first, and prints why on its way out. */
static bool prints_more(const struct crew *w, uint32_t node,
                        const struct msg *m)
{
    return w->o.keeper.program && m->kind == MSG_FAILED && m->op &&
           m->op == w->o.config->op && !w->o.node[node].process.ended;
}

static void take(struct crew *w, uint32_t node, struct msg *m, double now_s,
                 crew_hear *hear, void *ctx)
{
    if (keeper_holds(&w->keeper))
        return;
    if (m->kind == MSG_FAILED && !w->blamed && !w->keeper.lost)
        w->culprit = node;
    w->broken = w->broken || breaks_grant(w, node, m, now_s);
    if (w->blamed || w->broken || !account(w, node, m, now_s))
        return;
    if (m->kind == MSG_BEAT)
        m->beat.node = node; /* whatever it says */
    if (prints_more(w, node, m) && !w->keeper.lost &&
        isinf(w->keeper.lost_at_s)) {
        w->held = *m;
        *m = (struct msg){.kind = MSG_BEAT}; /* nothing to release */
        keeper_hold(&w->keeper, node, now_s);
    } else {
        pass_on(w, node, m, now_s, hear, ctx);
    }
}

void crew_tell(struct crew *w, double now_s, crew_hear *hear, void *ctx)
{
    struct msg m = w->held;

    assert(hear);
    assert(m.kind == MSG_FAILED);
    w->held = (struct msg){.kind = MSG_BEAT};
    pass_on(w, w->culprit, &m, now_s, hear, ctx);
    msg_deinit(&m);
}

static int64_t who_sent(const struct crew *w, const struct socket_peer *from)
{
    for (uint32_t i = 0; i < nodes_of(w); i++)
        if (w->peer[i].len && socket_peer_same(from, &w->peer[i]))
            return i;
    return -1;
}

/* Memory that is lacking may be back at once. */
static enum err decode(const char *text, size_t len, struct msg *m,
                       struct fault *f)
{
    enum err err = ERR_NOMEM;

    for (int i = 0; err == ERR_NOMEM && i < CREW_DECODES_MAX; i++)
        err = msg_decode(text, len, m, f);
    return err;
}

bool crew_receive(struct crew *w, double now_s, crew_hear *hear, void *ctx)
{
    struct socket_peer from;
    struct fault f = {0};
    struct msg m = {0};
    char *text = NULL;
    int64_t node;
    size_t len = 0;
    enum err err = socket_receive(w->o.socket, &from, &text, &len);

    assert(hear);
    if (err == ERR_AGAIN || err == ERR_IO)
        return false;
    node = who_sent(w, &from);
    if (!err)
        err = decode(text, len, &m, &f);
    else
        fault_set(&f, err, "%s", err_text(err));
    if (err == ERR_NOMEM)
        lose(w, node < 0 ? 0 : (uint32_t)node, false, now_s,
             "the tuner has no memory for a message of the training system");
    else if (err)
        take_garbage(w, node, text, len, now_s, f.text);
    mem_free(text);
    if (err)
        return true;
    if (m.kind == MSG_HELLO)
        greet(w, &from, &m.hello, now_s);
    else if (node < 0)
        complain(w, "not from our node");
    else
        take(w, (uint32_t)node, &m, now_s, hear, ctx);
    msg_deinit(&m);
    return true;
}
