/* The node as it serves a tuner over a real socket: the test is the tuner. */
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "ps/node/node_io.h"
#include "tests/unit/fixture/lsq.h"

#include <zmq.h>

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/proto/proto.h"
#include "tests/unit/fixture/check.h"

/* Bounds for a hang, no measures. */
enum { WAIT_MS = 30000, BEATS_MAX = 60 };

static struct registry registry;
static char dir[64], endpoint[128];
static void *context, *router;
static char peer[64];
static int peer_len, signal_pipe[2];
static pthread_t thread;
static op_id last_op;
static struct {
    enum node_end end;
    int signal;
    struct fault fault;
} served;
static _Atomic int complaints;

/* ---- the tuner's side ---------------------------------------------------- */

static void send_text(const char *text)
{
    assert_int_equal(zmq_send(router, peer, (size_t)peer_len, ZMQ_SNDMORE),
                     peer_len);
    assert_true(zmq_send(router, text, strlen(text), 0) >= 0);
}

/* Sends a request, ' for ", under the next number where %OP stands. */
static op_id ask(const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    int n = snprintf(text, sizeof(text), "{'op':%d,", (int)++last_op);

    va_start(ap, fmt);
    vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
    va_end(ap);
    for (char *c = text; *c; c++)
        if (*c == '\'')
            *c = '"';
    send_text(text);
    return last_op;
}

/* The next message but beats. */
static void next(struct msg *m)
{
    static char text[1 << 16];
    struct fault f = {0};
    int n, beats = 0;

    do {
        if (beats++ > BEATS_MAX)
            fail_msg("no message came but beats");
        n = zmq_recv(router, peer, sizeof(peer), 0);
        if (n < 0)
            fail_msg("no message came: %s", zmq_strerror(errno));
        peer_len = n;
        n = zmq_recv(router, text, sizeof(text), 0);
        assert_true(n > 0 && n < (int)sizeof(text));
        if (msg_decode(text, (size_t)n, m, &f) != ERR_OK)
            fail_msg("%s in %.*s", f.text, n, text);
    } while (m->kind == MSG_BEAT);
}

/* The next message is of @kind and answers @op. The caller releases it. */
static struct msg expect(enum msg_kind kind, op_id op)
{
    struct msg m;

    next(&m);
    if (m.kind != kind || m.op != op)
        fail_msg("came %s %d %s, expected %s %d", msg_kind_name(m.kind),
                 (int)m.op, m.kind == MSG_FAILED ? m.failed.reason : "",
                 msg_kind_name(kind), (int)op);
    return m;
}

static void pass(enum msg_kind kind, op_id op)
{
    struct msg m = expect(kind, op);

    msg_deinit(&m);
}

static void *serve(void *arg)
{
    struct node_options o = {.endpoint = endpoint,
                             .node = 3,
                             .signal_fd = signal_pipe[0],
                             .registry = &registry};

    (void)arg;
    served.end = node_serve(&o, &served.signal, &served.fault);
    return NULL;
}

static void start_node(void)
{
    struct msg hello;

    last_op = 0;
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
    hello = expect(MSG_HELLO, 0);
    assert_int_equal(hello.hello.version, PROTO_VERSION);
    assert_int_equal(hello.hello.node, 3);
    assert_int_equal(hello.hello.pid, getpid());
    msg_deinit(&hello);
}

static struct msg load(const char *app)
{
    op_id op = ask("'kind':'config','folder':'/','seed':4,'config':{'app':"
                   "{'name':'lsq'%s},'cluster':{'workers':2},"
                   "'memory':{'limit':'64MiB'}}}",
                   app);

    return expect(MSG_READY, op);
}

static void serve_app(const char *app)
{
    struct msg ready;

    start_node();
    ready = load(app);
    msg_deinit(&ready);
}

static void fork_branch(unsigned child, unsigned parent, const char *type,
                        const char *setting)
{
    pass(MSG_FORKED, ask("'kind':'fork','branch':%u,'parent':%u,'type':'%s',"
                         "'setting':{%s}}",
                         child, parent, type, setting));
}

static op_id schedule(unsigned branch, unsigned first, unsigned count,
                      unsigned every)
{
    return ask("'kind':'schedule','branch':%u,'first':%u,'count':%u,"
               "'report_every':%u}",
               branch, first, count, every);
}

static void node_ended(enum node_end expected)
{
    pthread_join(thread, NULL);
    if (served.end != expected)
        fail_msg("ended as %d: %s", (int)served.end, served.fault.text);
}

static void stop_node(void)
{
    pass(MSG_DONE, ask("'kind':'stop','reason':'enough'}"));
    node_ended(NODE_END_STOPPED);
}

static void count_complaints(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    if (strstr(line, " message_ignored "))
        atomic_fetch_add(&complaints, 1);
}

/* ---- set up -------------------------------------------------------------- */

static int make_tuner(void **state)
{
    const struct registry_entry e = {.kind = REGISTRY_APP,
                                     .name = lsq_app.name,
                                     .summary = lsq_app.summary,
                                     .settings = lsq_app.schema,
                                     .tunables = lsq_app.tunables,
                                     .ops = &lsq_app};
    int zero = 0, wait = WAIT_MS;

    (void)state;
    registry_init(&registry);
    snprintf(dir, sizeof(dir), "/tmp/mltune-serve-XXXXXX");
    if (registry_add(&registry, &e, NULL) || !mkdtemp(dir) ||
        pipe(signal_pipe) != 0)
        return -1;
    snprintf(endpoint, sizeof(endpoint), "ipc://%s/tuner", dir);
    context = zmq_ctx_new();
    router = zmq_socket(context, ZMQ_ROUTER);
    zmq_setsockopt(router, ZMQ_LINGER, &zero, sizeof(zero));
    zmq_setsockopt(router, ZMQ_RCVTIMEO, &wait, sizeof(wait));
    return zmq_bind(router, endpoint);
}

static int remove_tuner(void **state)
{
    (void)state;
    zmq_close(router);
    zmq_ctx_term(context);
    close(signal_pipe[0]);
    close(signal_pipe[1]);
    unlink(endpoint + strlen("ipc://")); /* ZeroMQ leaves it */
    return rmdir(dir);                   /* fails if anything was left in it */
}

/* ---- the conversation ---------------------------------------------------- */

/* Hello, configuration, ready with what the application is; stop. */
static void serve_handshake(void **state)
{
    struct msg ready;

    (void)state;
    start_node();
    ready = load("");
    assert_int_equal(ready.ready.samples, 240);
    assert_int_equal(ready.ready.validation_samples, 60);
    assert_int_equal(ready.ready.workers, 2);
    assert_int_equal(ready.ready.parts, 0);
    assert_string_equal(ready.ready.metric, "rmse");
    assert_string_equal(ready.ready.metric_reduction, "sqrt_mean");
    assert_true(ready.ready.loss_floor == 0);
    assert_true(ready.ready.model_bytes > 0);
    assert_int_equal(json_array_size(ready.ready.tunables), 4);
    msg_deinit(&ready);
    stop_node();
}

/* A slice's windows come in order and without gaps, all before its done, and
 * hold all of its clocks and samples; the loss falls. */
static void serve_slice_with_reports(void **state)
{
    uint64_t clocks = 0, samples = 0;
    double first_loss = NAN, loss = NAN;
    struct msg m;
    op_id op;

    (void)state;
    serve_app("");
    fork_branch(1, 0, "training", "'learning_rate':0.1,'batch_size':12");
    op = schedule(1, 100, 95, 10);
    for (next(&m); m.kind == MSG_REPORT; next(&m)) {
        assert_int_equal(m.op, op);
        assert_int_equal(m.report.first, 100 + clocks);
        for (uint32_t i = 0; i < m.report.windows; i++) {
            clocks += m.report.window[i].clocks;
            samples += m.report.window[i].samples;
            loss = m.report.window[i].sum / (double)m.report.window[i].samples;
            if (isnan(first_loss))
                first_loss = loss;
        }
        msg_deinit(&m);
    }
    assert_int_equal(m.kind, MSG_DONE);
    assert_int_equal(m.op, op);
    assert_int_equal(m.done.clocks, 95);
    assert_int_equal(m.done.branch, 1);
    assert_true(m.done.switch_s >= 0);
    msg_deinit(&m);
    assert_int_equal(clocks, 95);
    assert_int_equal(samples, 9 * 240 + 5 * 24);
    assert_true(loss < 0.01 * first_loss);
    stop_node();
}

/* While a slice without end runs, a fork is answered; a cut ends it, and what
 * waited behind it is carried out. */
static void serve_answers_while_a_slice_runs(void **state)
{
    struct msg m;
    op_id slice, save, cut;

    (void)state;
    serve_app("");
    fork_branch(1, 0, "training", "'learning_rate':0");
    slice = schedule(1, 0, 2000000000, 2000000000);
    fork_branch(2, 1, "kept", "");
    fork_branch(3, 1, "training", "");
    save = ask("'kind':'free','branch':3}");
    cut = ask("'kind':'cut','target':%d}", (int)slice);
    pass(MSG_DONE, cut);
    next(&m);
    if (m.kind == MSG_REPORT) {
        msg_deinit(&m);
        next(&m);
    }
    assert_int_equal(m.kind, MSG_DONE);
    assert_int_equal(m.op, slice);
    assert_true(m.done.clocks < 2000000000);
    msg_deinit(&m);
    pass(MSG_DONE, save);
    stop_node();
}

/* Impossible requests, and want of memory, are refused with a reason: the node
 * goes on. */
static void serve_refuses_and_goes_on(void **state)
{
    struct msg m;
    unsigned i;
    op_id op;

    (void)state;
    serve_app("");
    op = ask("'kind':'fork','branch':1,'parent':9,'type':'kept',"
             "'setting':{}}");
    m = expect(MSG_FAILED, op);
    assert_int_equal(m.failed.code, ERR_NOENT);
    msg_deinit(&m);
    for (i = 1;; i++) {
        op = ask("'kind':'fork','branch':%u,'parent':0,'type':'training',"
                 "'setting':{}}",
                 i);
        next(&m);
        assert_int_equal(m.op, op);
        if (m.kind != MSG_FORKED)
            break;
        msg_deinit(&m);
    }
    assert_int_equal(m.kind, MSG_FAILED);
    assert_int_equal(m.failed.code, ERR_LIMIT);
    msg_deinit(&m);
    pass(MSG_DONE, ask("'kind':'free','branch':1}"));
    fork_branch(1, 0, "training", "");
    stop_node();
}

/* An error of the application fails its slice with the reason; the branch is
 * of no more use, another one is. */
static void serve_app_error_fails_the_slice(void **state)
{
    struct msg m;
    op_id op;

    (void)state;
    serve_app(",'fail_clock':3");
    fork_branch(1, 0, "training", "");
    fork_branch(2, 0, "training", "");
    op = schedule(1, 0, 10, 10);
    m = expect(MSG_FAILED, op);
    assert_int_equal(m.failed.code, ERR_APP);
    assert_int_equal(m.failed.branch, 1);
    assert_non_null(strstr(m.failed.reason, "clock 3 of branch 1"));
    msg_deinit(&m);
    m = expect(MSG_FAILED, schedule(1, 10, 10, 10));
    assert_int_equal(m.failed.code, ERR_APP);
    msg_deinit(&m);
    op = schedule(2, 20, 3, 3);
    pass(MSG_REPORT, op);
    pass(MSG_DONE, op);
    pass(MSG_DONE, ask("'kind':'free','branch':1}"));
    stop_node();
}

/* A loss that is not finite comes as such, in a slice that ended by itself. */
static void serve_divergence_is_reported(void **state)
{
    struct msg m;
    op_id op;

    (void)state;
    serve_app(",'nan_clock':4");
    fork_branch(1, 0, "training", "");
    op = schedule(1, 0, 100, 5);
    m = expect(MSG_REPORT, op);
    assert_int_equal(m.report.windows, 1);
    assert_true(isnan(m.report.window[0].sum));
    assert_int_equal(m.report.window[0].clocks, 5);
    msg_deinit(&m);
    m = expect(MSG_DONE, op);
    assert_int_equal(m.done.clocks, 5);
    msg_deinit(&m);
    stop_node();
}

/* Bytes that are no message are told of once in the log and do no harm. */
static void serve_garbage_is_survived(void **state)
{
    static const char *const garbage[] = {"",
                                          "{",
                                          "[1]",
                                          "{\"kind\":\"x\"}",
                                          "{\"kind\":\"ready\"}",
                                          "{\"kind\":\"forked\",\"op\":1,"
                                          "\"branch\":1}"};
    size_t i;

    (void)state;
    atomic_store(&complaints, 0);
    log_set_sink(count_complaints, NULL);
    serve_app("");
    for (i = 0; i < sizeof(garbage) / sizeof(*garbage); i++)
        send_text(garbage[i]);
    assert_int_equal(zmq_send(router, peer, (size_t)peer_len, ZMQ_SNDMORE),
                     peer_len);
    zmq_send(router, "two", 3, ZMQ_SNDMORE);
    zmq_send(router, "parts", 5, 0);
    fork_branch(1, 0, "training", "");
    stop_node();
    log_set_sink(NULL, NULL);
    assert_int_equal(complaints, 1);
}

/* ---- rows and the model -------------------------------------------------- */

/* Rows are read, incremented by the branch's rule (which answers without data:
 * nothing may fail after it), and refused where they are none. */
static void serve_rows(void **state)
{
    struct msg m;
    double before;
    op_id op;

    (void)state;
    serve_app("");
    fork_branch(1, 0, "training", "");
    op = ask("'kind':'rows','branch':1,'table':'w','first':1,'count':2}");
    m = expect(MSG_DONE, op);
    assert_int_equal(json_array_size(m.done.data), 2);
    before =
        json_number_value(json_array_get(json_array_get(m.done.data, 1), 0));
    msg_deinit(&m);
    op = ask("'kind':'rows','branch':1,'table':'w','first':2,'count':1,"
             "'increment':[[1,0]]}");
    m = expect(MSG_DONE, op);
    assert_null(m.done.data);
    msg_deinit(&m);
    m = expect(MSG_DONE, ask("'kind':'rows','branch':1,'table':'w','first':2,"
                             "'count':1}"));
    assert_true(json_number_value(json_array_get(json_array_get(m.done.data, 0),
                                                 0)) < before);
    msg_deinit(&m);
    m = expect(MSG_FAILED, ask("'kind':'rows','branch':1,'table':'w','first':4,"
                               "'count':1}"));
    assert_int_equal(m.failed.code, ERR_INVAL);
    msg_deinit(&m);
    m = expect(MSG_FAILED, ask("'kind':'rows','branch':1,'table':'w','first':0,"
                               "'count':1,'increment':[[1,2,3]]}"));
    assert_int_equal(m.failed.code, ERR_INVAL);
    msg_deinit(&m);
    m = expect(MSG_FAILED, ask("'kind':'rows','branch':1,'table':'nix',"
                               "'first':0,'count':1}"));
    assert_int_equal(m.failed.code, ERR_NOENT);
    msg_deinit(&m);
    stop_node();
}

/* A part of each row; a read while a slice runs is answered between two of its
 * clocks; what is added waits for its end, and goes by the branch's rates. */
static void serve_rows_of_a_running_slice(void **state)
{
    struct msg m;
    op_id slice, add, read;

    (void)state;
    serve_app("");
    fork_branch(1, 0, "training", "'learning_rate':0");
    m = expect(MSG_DONE, ask("'kind':'rows','branch':1,'table':'w','first':0,"
                             "'count':2,'from':1,'values':1}"));
    assert_int_equal(json_array_size(m.done.data), 2);
    assert_int_equal(json_array_size(json_array_get(m.done.data, 0)), 1);
    msg_deinit(&m);
    m = expect(MSG_FAILED, ask("'kind':'rows','branch':1,'table':'w','first':0,"
                               "'count':2,'from':1,'values':2}"));
    assert_int_equal(m.failed.code, ERR_INVAL);
    msg_deinit(&m);
    m = expect(MSG_FAILED, ask("'kind':'rows','branch':1,'table':'_cursor',"
                               "'first':0,'count':1}"));
    assert_int_equal(m.failed.code, ERR_UNSUPPORTED);
    msg_deinit(&m);
    slice = schedule(1, 0, 1000000000, 1000000000);
    pass(MSG_DONE,
         ask("'kind':'rows','branch':1,'table':'w','first':0,'count':4}"));
    pass(MSG_DONE,
         ask("'kind':'rows','branch':0,'table':'w','first':1,'count':3}"));
    add = ask("'kind':'rows','branch':1,'table':'w','first':2,'count':1,"
              "'increment':[[5,0]]}");
    read = ask("'kind':'rows','branch':1,'table':'w','first':2,'count':1}");
    pass(MSG_DONE, ask("'kind':'rows','branch':0,'table':'w','first':1,"
                       "'count':3}"));
    pass(MSG_DONE, ask("'kind':'cut','target':%d}", (int)slice));
    pass(MSG_REPORT, slice);
    pass(MSG_DONE, slice);
    pass(MSG_DONE, add);
    m = expect(MSG_DONE, read);
    /* A rate of 0 changes nothing: all is still as at the beginning. */
    assert_true(json_number_value(
                    json_array_get(json_array_get(m.done.data, 0), 0)) == 0);
    msg_deinit(&m);
    stop_node();
}

/* The model is written whole into the folder named, and what the application
 * adds comes back; a folder that cannot be is said. */
static void serve_save(void **state)
{
    char path[96];
    struct msg m;

    (void)state;
    serve_app("");
    snprintf(path, sizeof(path), "%s/model", dir);
    m = expect(MSG_DONE, ask("'kind':'save','branch':0,'path':'%s'}", path));
    assert_true(m.done.bytes > 0);
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(m.done.data, "app"), "dims")),
                     6);
    msg_deinit(&m);
    m = expect(MSG_FAILED,
               ask("'kind':'save','branch':0,'path':'%s/no/where'}", dir));
    assert_int_equal(m.failed.code, ERR_IO);
    msg_deinit(&m);
    stop_node();
    snprintf(path, sizeof(path), "%s/model/w.npy", dir);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof(path), "%s/model", dir);
    assert_int_equal(rmdir(path), 0);
}

/* ---- snapshots ----------------------------------------------------------- */

/* The sums of a slice's windows, one a clock. */
static void run_slice(unsigned branch, unsigned first, unsigned count,
                      double sum[])
{
    op_id op = schedule(branch, first, count, 1);
    uint32_t n = 0;
    struct msg m;

    for (next(&m); m.kind == MSG_REPORT; next(&m)) {
        for (uint32_t i = 0; i < m.report.windows; i++)
            sum[n++] = m.report.window[i].sum;
        msg_deinit(&m);
    }
    assert_int_equal(m.kind, MSG_DONE);
    assert_int_equal(m.op, op);
    assert_int_equal(n, count);
    msg_deinit(&m);
}

static void remove_snapshot(const char *path)
{
    char file[512];
    unsigned i;
    DIR *d = opendir(path);
    struct dirent *e;

    assert_non_null(d);
    for (i = 0; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
        assert_int_equal(unlink(file), 0);
        i++;
    }
    closedir(d);
    assert_true(i >= 2); /* a shard each */
    assert_int_equal(rmdir(path), 0);
}

/* A snapshot is written while its branch is freed and another one trains, is
 * told of when it is durable, and another process goes on from it exactly as
 * the first one did. */
static void serve_snapshot_and_restore(void **state)
{
    static const char setting[] =
        "'learning_rate':0.05,'momentum':0.9,'batch_size':7";
    double first[40], again[40];
    op_id slice, snapshot, freed;
    char path[96];
    struct msg m;

    (void)state;
    snprintf(path, sizeof(path), "%s/snapshot", dir);
    serve_app("");
    fork_branch(1, 0, "training", setting);
    run_slice(1, 0, 25, first);
    fork_branch(2, 1, "kept", "");
    snapshot = ask("'kind':'snapshot','branch':2,'path':'%s'}", path);
    freed = ask("'kind':'free','branch':2}");
    slice = schedule(1, 25, 2000000000, 2000000000);
    for (int left = 2; left > 0;) {
        next(&m);
        assert_int_equal(m.kind, MSG_DONE);
        assert_true(m.op == snapshot || m.op == freed);
        assert_true(m.op == freed || m.done.bytes > 0);
        msg_deinit(&m);
        left--;
    }
    pass(MSG_DONE, ask("'kind':'cut','target':%d}", (int)slice));
    next(&m);
    if (m.kind == MSG_REPORT) {
        msg_deinit(&m);
        next(&m);
    }
    assert_int_equal(m.op, slice);
    msg_deinit(&m);
    m = expect(MSG_FAILED,
               ask("'kind':'restore','branch':7,'path':'%s'}", dir));
    assert_true(m.failed.code == ERR_IO || m.failed.code == ERR_FORMAT ||
                m.failed.code == ERR_NOENT);
    msg_deinit(&m);
    pass(MSG_DONE, ask("'kind':'restore','branch':7,'path':'%s'}", path));
    fork_branch(8, 7, "training", setting);
    run_slice(8, 2100000000, 40, first);
    stop_node();
    serve_app("");
    pass(MSG_DONE, ask("'kind':'restore','branch':5,'path':'%s'}", path));
    fork_branch(6, 5, "training", setting);
    run_slice(6, 0, 40, again);
    stop_node();
    assert_memory_equal(first, again, sizeof(first));
    remove_snapshot(path);
}

/* One snapshot at a time; the initial state can be one; what cannot be written
 * is said. */
static void serve_snapshot_refusals(void **state)
{
    char path[96];
    struct msg m;

    (void)state;
    snprintf(path, sizeof(path), "%s/snapshot", dir);
    serve_app("");
    pass(MSG_DONE, ask("'kind':'snapshot','branch':0,'path':'%s'}", path));
    m = expect(MSG_FAILED,
               ask("'kind':'snapshot','branch':0,'path':'%s'}", path));
    assert_int_equal(m.failed.code, ERR_EXIST);
    msg_deinit(&m);
    m = expect(MSG_FAILED,
               ask("'kind':'snapshot','branch':0,'path':'%s/no/no'}", dir));
    assert_int_equal(m.failed.code, ERR_IO);
    msg_deinit(&m);
    fork_branch(1, 0, "training", "");
    m = expect(MSG_FAILED,
               ask("'kind':'snapshot','branch':1,'path':'%s/x'}", dir));
    assert_int_equal(m.failed.code, ERR_INVAL);
    msg_deinit(&m);
    stop_node();
    remove_snapshot(path);
}

/* ---- ends ---------------------------------------------------------------- */

/* A fault that keeps the application from being loaded is the answer to its
 * configuration, and the node ends. */
static void serve_load_failure_is_told(void **state)
{
    static const char *const bad[][2] = {
        {"{'app':{'name':'lsq','data':'missing'}}", "no such file"},
        {"{'app':{'name':'lqs'}}", "there are lsq"},
        {"{'app':{'name':'lsq','dims':'x'}}", "/app/dims"},
        {"{}", "application"},
    };
    size_t i;

    (void)state;
    log_set_sink(count_complaints, NULL);
    for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct msg m;
        op_id op;

        start_node();
        op = ask("'kind':'config','folder':'/','seed':4,'config':%s}",
                 bad[i][0]);
        m = expect(MSG_FAILED, op);
        if (!strstr(m.failed.reason, bad[i][1]))
            fail_msg("%s: %s", bad[i][0], m.failed.reason);
        msg_deinit(&m);
        node_ended(NODE_END_LOAD_FAILED);
    }
    log_set_sink(NULL, NULL);
}

static void ask_to_end(int number)
{
    struct signalfd_siginfo info = {.ssi_signo = (uint32_t)number};

    assert_int_equal(write(signal_pipe[1], &info, sizeof(info)), sizeof(info));
}

/* A signal ends a node in the midst of a slice. */
static void serve_signal_ends_a_slice(void **state)
{
    (void)state;
    serve_app("");
    fork_branch(1, 0, "training", "'learning_rate':0");
    schedule(1, 0, 2000000000, 2000000000);
    fork_branch(2, 0, "training", "");
    ask_to_end(SIGTERM);
    node_ended(NODE_END_SIGNAL);
    assert_int_equal(served.signal, SIGTERM);
    assert_int_equal(node_exit_code(served.end, served.signal), 143);
}

/* A stop does, too, and is answered. */
static void serve_stop_ends_a_slice(void **state)
{
    (void)state;
    serve_app("");
    fork_branch(1, 0, "training", "'learning_rate':0");
    schedule(1, 0, 2000000000, 2000000000);
    fork_branch(2, 0, "training", "");
    stop_node();
    assert_int_equal(node_exit_code(served.end, served.signal), 0);
}

/* An endpoint that is none is a failure in words. */
static void serve_bad_endpoint_is_refused(void **state)
{
    struct node_options o = {
        .endpoint = "nowhere", .signal_fd = -1, .registry = &registry};
    struct fault f = {0};
    int number = 0;

    (void)state;
    assert_int_equal(node_serve(&o, &number, &f), NODE_END_FAILED);
    assert_non_null(strstr(f.text, "nowhere"));
    assert_int_equal(node_exit_code(NODE_END_FAILED, 0), 1);
    assert_int_equal(node_exit_code(NODE_END_LOST, 0), 69);
}

/* Nothing that a node allocated outlives it. */
static void serve_leaves_no_memory(void **state)
{
    int64_t before = mem_outstanding();

    (void)state;
    serve_app("");
    fork_branch(1, 0, "training", "");
    pass(MSG_REPORT, schedule(1, 0, 3, 3));
    pass(MSG_DONE, last_op);
    ask("'kind':'fork','branch':2,'parent':1,'type':'training',"
        "'setting':{}}");
    schedule(2, 3, 1000000000, 1000000000);
    schedule(2, 1000000003, 10, 1);
    ask_to_end(SIGINT);
    node_ended(NODE_END_SIGNAL);
    assert_int_equal(mem_outstanding(), before);
}

int main(void)
{
#define SERVED(test)                                                           \
    cmocka_unit_test_setup_teardown(test, make_tuner, remove_tuner)
    const struct CMUnitTest tests[] = {
        SERVED(serve_handshake),
        SERVED(serve_slice_with_reports),
        SERVED(serve_answers_while_a_slice_runs),
        SERVED(serve_refuses_and_goes_on),
        SERVED(serve_app_error_fails_the_slice),
        SERVED(serve_divergence_is_reported),
        SERVED(serve_garbage_is_survived),
        SERVED(serve_rows),
        SERVED(serve_rows_of_a_running_slice),
        SERVED(serve_save),
        SERVED(serve_snapshot_and_restore),
        SERVED(serve_snapshot_refusals),
        SERVED(serve_load_failure_is_told),
        SERVED(serve_signal_ends_a_slice),
        SERVED(serve_stop_ends_a_slice),
        SERVED(serve_bad_endpoint_is_refused),
        SERVED(serve_leaves_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
