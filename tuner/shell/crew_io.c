#include "tuner/shell/crew_io.h"

#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
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
    return w->group ? node_group_ask(w->group, w->o.config) : ERR_OK;
}

enum err crew_init(struct crew *w, const struct crew_options *o, double now_s)
{
    enum err err = ERR_OK;

    assert(o->config);
    assert(o->node);
    *w = (struct crew){.o = *o};
    keeper_init(&w->keeper, &o->keeper, now_s);
    if (nodes_of(w) > 1)
        err = node_group_new(nodes_of(w), &w->group);
    return err ? err : expect_ready(w);
}

void crew_deinit(struct crew *w)
{
    assert(w->o.node);
    node_group_free(w->group);
    w->group = NULL;
    if (w->malformed > 1)
        log_event(LOG_WARN, "messages_ignored", "count=%llu",
                  (unsigned long long)w->malformed);
}

/* ---- losses -------------------------------------------------------------- */

static void tell_loss(const struct crew *w, bool counts, const char *reason)
{
    if (counts && !w->keeper.stopping)
        log_event(LOG_INFO, "node_lost", "reason=\"%s\"", reason);
}

static void lose(struct crew *w, bool speaks, double now_s, const char *reason)
{
    tell_loss(w, keeper_lose(&w->keeper, speaks, now_s, reason), reason);
}

void crew_check(struct crew *w, uint32_t node, double now_s)
{
    char verdict[256];

    assert(node < nodes_of(w));
    if (!launcher_poll(&w->o.node[node]))
        return;
    launcher_verdict(&w->o.node[node], verdict, sizeof(verdict));
    tell_loss(w, keeper_end(&w->keeper, now_s, verdict), verdict);
}

void crew_end(struct crew *w, int grace_ms, int hurry_fd)
{
    for (uint32_t i = 0; i < nodes_of(w); i++)
        launcher_stop(&w->o.node[i], grace_ms, hurry_fd);
}

void crew_kill(struct crew *w, double now_s)
{
    const struct node_process *p = &w->o.node[keeper_most_silent(&w->keeper)];
    char text[96];

    /* A node that hangs is as good as none. */
    snprintf(text, sizeof(text),
             "node %u (pid %lld) has not been heard of for %g s", p->node,
             (long long)p->process.pid, w->keeper.o.silence_s);
    crew_end(w, 0, -1);
    lose(w, false, now_s, text);
}

void crew_clear(struct crew *w)
{
    crew_end(w, 0, -1);
    for (uint32_t i = 0; i < nodes_of(w); i++)
        w->peer[i].len = 0;
    if (w->group)
        node_group_reset(w->group);
}

enum err crew_begin_again(struct crew *w, double now_s)
{
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

static void send_text(struct crew *w, uint32_t node, const char *text,
                      size_t len, double now_s)
{
    enum err err = socket_send(w->o.socket, &w->peer[node], text, len);

    if (err == ERR_LIMIT)
        lose(w, false, now_s, "the node does not take messages any more");
    else if (err)
        lose(w, true, now_s, "the node is not connected");
}

enum err crew_send(struct crew *w, const struct msg *m, double now_s,
                   struct fault *f)
{
    char *text = NULL;
    size_t len;
    enum err err = ERR_OK;

    assert(m->kind != MSG_HELLO);
    if (w->keeper.lost || !all_here(w))
        return ERR_OK;
    if (w->group)
        err = node_group_ask(w->group, m);
    if (!err)
        err = msg_encode(m, &text, &len);
    if (err)
        return fault_set(f, err, "cannot encode %s: %s", msg_kind_name(m->kind),
                         err_text(err));
    if (m->kind == MSG_STOP)
        keeper_stop(&w->keeper);
    for (uint32_t i = 0; i < nodes_of(w); i++)
        send_text(w, i, text, len, now_s);
    mem_free(text);
    return ERR_OK;
}

/* ---- receiving ----------------------------------------------------------- */

static void complain(struct crew *w, const char *reason)
{
    if (w->malformed++ == 0)
        log_event(LOG_WARN, "message_ignored", "reason=\"%s\"", reason);
}

static void configure(struct crew *w, uint32_t node, double now_s)
{
    char text[PROTO_TEXT_MAX];
    char *config = NULL;
    size_t len;
    enum err err = msg_encode(w->o.config, &config, &len);

    if (!err)
        err = socket_send(w->o.socket, &w->peer[node], config, len);
    mem_free(config);
    if (!err)
        return;
    snprintf(text, sizeof(text), "cannot send the configuration: %s",
             err_text(err));
    lose(w, false, now_s, text);
}

static void greet(struct crew *w, const struct socket_peer *from,
                  const struct msg_hello *hello, double now_s)
{
    char text[PROTO_TEXT_MAX];
    uint32_t i = 0;

    while (i < nodes_of(w) && !launcher_has(&w->o.node[i], hello->pid))
        i++;
    if (i == nodes_of(w) || w->peer[i].len > 0) {
        log_event(LOG_WARN, "stranger_ignored", "pid=%lld",
                  (long long)hello->pid);
        return;
    }
    if (hello->version != PROTO_VERSION) {
        snprintf(text, sizeof(text),
                 "the node speaks version %u of the control protocol, this "
                 "tuner version %d",
                 hello->version, PROTO_VERSION);
        lose(w, false, now_s, text);
        return;
    }
    w->peer[i] = *from;
    keeper_hear(&w->keeper, i, now_s);
    configure(w, i, now_s);
}

/* Members of @m are transferred where the crew is of several. */
static void take(struct crew *w, uint32_t node, struct msg *m, double now_s,
                 crew_hear *hear, void *ctx)
{
    struct fault f = {0};
    struct msg joined;

    keeper_hear(&w->keeper, node, now_s);
    if (m->kind == MSG_BEAT)
        m->beat.node = node; /* whatever it says */
    if (!w->group) {
        hear(ctx, m);
        return;
    }
    if (w->keeper.lost)
        return;
    if (node_group_take(w->group, node, m, &f) != ERR_OK) {
        lose(w, false, now_s, f.text);
        return;
    }
    while (node_group_next(w->group, &joined)) {
        hear(ctx, &joined);
        msg_deinit(&joined);
    }
}

static int64_t who_sent(const struct crew *w, const struct socket_peer *from)
{
    for (uint32_t i = 0; i < nodes_of(w); i++)
        if (w->peer[i].len && socket_peer_same(from, &w->peer[i]))
            return i;
    return -1;
}

bool crew_receive(struct crew *w, double now_s, crew_hear *hear, void *ctx)
{
    struct socket_peer from;
    struct fault f = {0};
    struct msg m = {0};
    char *text = NULL;
    int64_t node;
    size_t len;
    enum err err = socket_receive(w->o.socket, &from, &text, &len);

    assert(hear);
    if (err == ERR_AGAIN || err == ERR_IO)
        return false;
    if (!err) {
        err = msg_decode(text, len, &m, &f);
        mem_free(text);
    } else {
        fault_set(&f, err, "%s", err_text(err));
    }
    if (err) {
        complain(w, f.text);
        return true;
    }
    node = who_sent(w, &from);
    if (m.kind == MSG_HELLO)
        greet(w, &from, &m.hello, now_s);
    else if (node < 0)
        complain(w, "not from our node");
    else
        take(w, (uint32_t)node, &m, now_s, hear, ctx);
    msg_deinit(&m);
    return true;
}
