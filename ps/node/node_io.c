#include "ps/node/node_io.h"

#include "base/file_io.h"
#include "base/host/machine_io.h"
#include "base/log.h"
#include "base/mem.h"
#include "ps/disk/backup_io.h"
#include "ps/node/node_internal_io.h"

#include <zmq.h>

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    BEAT_NS = NODE_NS,
    MESSAGES_MAX = 64, /* taken before anything else is looked at */
    ITEMS_MAX = 8
};

/* ---- the end ------------------------------------------------------------- */

void node_end_with(struct node_server *s, enum node_end end, enum err err,
                   const char *reason)
{
    if (s->over)
        return;
    s->over = true;
    s->end = end;
    if (err)
        fault_set(s->fault, err, "%s", reason);
}

int node_exit_code(enum node_end end, int signal)
{
    switch (end) {
    case NODE_END_STOPPED:
        return 0;
    case NODE_END_LOST:
        return 69; /* EX_UNAVAILABLE */
    case NODE_END_SIGNAL:
        return 128 + signal;
    default:
        return 1;
    }
}

/* ---- messages ------------------------------------------------------------ */

static void complain(struct node_server *s, const char *reason)
{
    if (s->garbage++ == 0)
        log_event(LOG_WARN, "message_ignored", "reason=\"%s\"", reason);
}

static void take_text(struct node_server *s, const char *text, size_t len)
{
    struct fault f = {0};
    struct msg m;
    enum err err = msg_decode(text, len, &m, &f);

    if (!err)
        err = node_receive(s->node, &m, &f);
    if (err == ERR_NOMEM)
        node_end_with(s, NODE_END_FAILED, err, "no memory for a message");
    else if (err)
        complain(s, f.text);
}

static void receive_some(struct node_server *s)
{
    for (int i = 0; i < MESSAGES_MAX && !s->over; i++) {
        char *text;
        size_t len;
        enum err err = node_link_receive(&s->link, &text, &len);

        if (err == ERR_AGAIN || err == ERR_IO)
            return;
        if (err == ERR_NOMEM) {
            node_end_with(s, NODE_END_FAILED, err, "no memory for a message");
        } else if (err) {
            complain(s, err_text(err));
        } else {
            take_text(s, text, len);
            mem_free(text);
        }
    }
}

/* An answer that cannot be encoded (rows too long for a message) becomes
 * `failed`. */
static enum err encode(const struct msg *m, char **text, size_t *len)
{
    struct msg instead = {.kind = MSG_FAILED, .op = m->op};
    enum err err = msg_encode(m, text, len);

    if (!err || err == ERR_NOMEM || m->kind != MSG_DONE)
        return err;
    instead.failed.branch = m->done.branch;
    instead.failed.code = err;
    snprintf(instead.failed.reason, sizeof(instead.failed.reason),
             "the answer cannot be sent: %s", err_text(err));
    return msg_encode(&instead, text, len);
}

static void send_all(struct node_server *s)
{
    struct msg m;

    s->blocked = false;
    while (!s->blocked && node_peek(s->node, &m)) {
        char *text = NULL;
        size_t len;
        enum err err = encode(&m, &text, &len);

        if (!err)
            err = node_link_send(&s->link, text, len);
        mem_free(text);
        s->blocked = err == ERR_AGAIN;
        if (err && !s->blocked) {
            node_end_with(s, NODE_END_FAILED, err, "cannot send a message");
            return;
        }
        if (!s->blocked) {
            node_pop(s->node, &m);
            msg_deinit(&m);
        }
    }
}

/* ---- beats --------------------------------------------------------------- */

void node_beat_now(struct node_server *s)
{
    struct mlt_ps *ps = s->host ? host_ps(s->host) : NULL;
    struct msg_beat m;

    if (ps && !s->slice && !s->job.running)
        pulse_look(&s->pulse, ps);
    m = pulse_beat(&s->pulse, ps);
    m.node = s->o->node;
    m.workers = ps ? mlt_ps_workers(ps) / ps_nodes(ps) : 0;
    m.bytes_sent = s->link.bytes_sent;
    m.bytes_received = s->link.bytes_received;
    node_beat(s->node, &m);
}

/* ---- waiting ------------------------------------------------------------- */

static void say_lost(struct node_server *s)
{
    char text[FAULT_TEXT_MAX];

    snprintf(text, sizeof(text),
             s->link.once && s->link.lost
                 ? "the connection to the tuner at %.200s was lost"
                 : "the tuner cannot be reached at %.200s",
             s->o->endpoint);
    node_end_with(s, NODE_END_LOST, ERR_NODE, text);
}

static void take_time(struct node_server *s)
{
    time_ns now = clock_monotonic();

    if (now >= s->beat_at) {
        node_beat_now(s);
        s->beat_at = now + BEAT_NS;
    }
    if (s->slice && now >= s->report_at) {
        node_report_windows(s);
        s->report_at = now + NODE_REPORT_NS;
    }
    node_link_watch(&s->link);
    if (node_link_lost(&s->link, now))
        say_lost(s);
}

static void take_signal(struct node_server *s)
{
    struct signalfd_siginfo info;

    if (read(s->o->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    s->signal = (int)info.ssi_signo;
    node_end_with(s, NODE_END_SIGNAL, ERR_CANCELED, "ended by a signal");
}

/* Nothing comes by the tether but its end. */
static void take_tether(struct node_server *s)
{
    char bytes[64];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

    if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
        return;
    node_end_with(s, NODE_END_LOST, ERR_NODE,
                  "its tuner is gone, or has let go of it");
}

static long timeout_ms(const struct node_server *s)
{
    time_ns at = s->beat_at, left;

    if (s->slice && s->report_at < at)
        at = s->report_at;
    if (!s->link.connected && s->link.deadline < at)
        at = s->link.deadline;
    left = at - clock_monotonic();
    return left <= 0 ? 0 : (long)((left + NODE_MS - 1) / NODE_MS);
}

static void wait_and_take(struct node_server *s)
{
    zmq_pollitem_t item[ITEMS_MAX] = {
        {.socket = s->link.dealer,
         .events = (short)(ZMQ_POLLIN | (s->blocked ? ZMQ_POLLOUT : 0))},
        {.socket = s->link.monitor, .events = ZMQ_POLLIN},
        {.fd = s->o->signal_fd, .events = ZMQ_POLLIN},
    };
    int n = 3, slice = 0, job = 0, snapshot = 0, glance = 0, tether = 0;

    if (s->slice)
        item[slice = n++] = (zmq_pollitem_t){.fd = host_slice_fd(s->host),
                                             .events = ZMQ_POLLIN};
    if (s->glance.op)
        item[glance = n++] = (zmq_pollitem_t){
            .fd = live_read_fd(host_glance(s->host)), .events = ZMQ_POLLIN};
    if (s->job.running)
        item[job = n++] =
            (zmq_pollitem_t){.fd = s->job.fd, .events = ZMQ_POLLIN};
    if (s->snapshot && !s->job.running)
        item[snapshot = n++] = (zmq_pollitem_t){
            .fd = ps_snapshot_fd(host_ps(s->host)), .events = ZMQ_POLLIN};
    if (s->o->tethered)
        item[tether = n++] =
            (zmq_pollitem_t){.fd = STDIN_FILENO, .events = ZMQ_POLLIN};
    assert(n <= ITEMS_MAX);
    if (zmq_poll(item, n, timeout_ms(s)) < 0)
        return;
    if (item[2].revents)
        take_signal(s);
    if (tether && item[tether].revents)
        take_tether(s);
    if (glance && item[glance].revents)
        node_glance_done(s);
    if (slice && item[slice].revents)
        node_slice_done(s);
    if (job && item[job].revents)
        node_errand_done(s);
    if (snapshot && item[snapshot].revents)
        node_snapshot_done(s);
    receive_some(s);
    if (node_phase(s->node) == NODE_STOPPED)
        node_end_with(s, NODE_END_STOPPED, ERR_OK, NULL);
    if (s->slice && node_cut_due(s->node))
        host_slice_cut(s->host);
}

/* ---- the process --------------------------------------------------------- */

/* A parent that wants to be survived by nothing said SIGKILL; we remove files
 * first. Where nobody asked for a signal, none is. */
static void soften_parent_death(void)
{
    int wanted = 0;

    if (prctl(PR_GET_PDEATHSIG, &wanted) == 0 && wanted == SIGKILL)
        prctl(PR_SET_PDEATHSIG, SIGTERM);
}

static enum err set_up(struct node_server *s)
{
    struct msg_hello hello = {PROTO_VERSION, s->o->node, machine_cores(""),
                              getpid()};
    enum err err = node_link_open(&s->link, s->o->endpoint, s->o->node,
                                  s->o->tethered, s->fault);

    if (!err)
        err = job_open(&s->job, s->fault);
    if (!err && node_new(&hello, &s->node) != ERR_OK)
        err = fault_set(s->fault, ERR_NOMEM, "no memory for a node");
    s->beat_at = clock_monotonic() + BEAT_NS;
    return err;
}

static void tear_down(struct node_server *s)
{
    if (s->garbage > 1)
        log_event(LOG_WARN, "messages_ignored", "count=%llu",
                  (unsigned long long)s->garbage);
    if (s->node)
        log_event(LOG_INFO, "node_ended", "branches=%u units=%u waiting=%zu",
                  node_branches(s->node), node_units(s->node),
                  node_waiting(s->node));
    host_close(s->host);
    node_free(s->node);
    job_close(&s->job);
    node_link_close(&s->link);
}

/* Work that cannot be ended ends with the process, and what it was writing
 * goes. */
_Noreturn static void leave_at_once(struct node_server *s)
{
    char dir[PROTO_PATH_MAX + 32];

    log_event(LOG_WARN, "left_at_once", "working_on=%s",
              s->slice         ? "slice"
              : s->job.running ? msg_kind_name(s->errand.kind)
                               : "snapshot");
    if (s->job.running && s->errand.kind == MSG_SAVE)
        folder_sweep(s->errand.path.path);
    if (s->snapshot) {
        if (ps_nodes(host_ps(s->host)) > 1)
            snprintf(dir, sizeof(dir), "%s/node-%u.tmp", s->snapshot_dir,
                     s->o->node);
        else
            snprintf(dir, sizeof(dir), "%s.tmp", s->snapshot_dir);
        folder_remove(dir, NULL);
    }
    _exit(node_exit_code(s->end, s->signal));
}

enum node_end node_serve(const struct node_options *options, int *signal,
                         struct fault *f)
{
    struct fault own = {0};
    struct node_server s = {.o = options, .job.fd = -1, .fault = f ? f : &own};

    assert(options && signal);
    soften_parent_death();
    if (set_up(&s) != ERR_OK) {
        s.over = true;
        s.end = NODE_END_FAILED;
    }
    while (!s.over) {
        node_carry_out(&s);
        send_all(&s);
        if (!s.over)
            wait_and_take(&s);
        take_time(&s);
    }
    if (s.node)
        send_all(&s);
    if (!node_end_work(&s))
        leave_at_once(&s);
    *signal = s.signal;
    tear_down(&s);
    return s.end;
}
