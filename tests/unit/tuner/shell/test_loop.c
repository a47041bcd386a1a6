/* The control loop with a scripted core inside and a scripted node outside.
 *
 * The core's functions are defined here, so that the tuner's own are not
 * linked; the node is this program started by the launcher, and does what the
 * environment's ROLE says.
 */
#include "base/file_io.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tuner/shell/loop_io.h"

#include <sqlite3.h>
#include <zmq.h>

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

enum { SAMPLES = 10 };

/* ---- the node ------------------------------------------------------------ */

static void *dealer;
static const char *node_number;

static void node_text(const char *text)
{
    zmq_send(dealer, text, strlen(text), 0);
}

static void node_send(struct msg *m)
{
    char *text;
    size_t len;

    if (msg_encode(m, &text, &len) != ERR_OK)
        _exit(90);
    zmq_send(dealer, text, len, 0);
    mem_free(text);
}

/* Waits for a message and returns its kind; its number goes to @op. */
static enum msg_kind node_receive(op_id *op, char path[PROTO_PATH_MAX])
{
    static char text[65536];
    enum msg_kind kind;
    struct msg m;
    int n = zmq_recv(dealer, text, sizeof(text), 0);

    if (n < 0 || msg_decode(text, (size_t)n, &m, NULL) != ERR_OK)
        _exit(91);
    kind = m.kind;
    *op = m.op;
    if (kind == MSG_SAVE)
        memcpy(path, m.save.path, PROTO_PATH_MAX);
    if (kind == MSG_SNAPSHOT)
        memcpy(path, m.snapshot.path, PROTO_PATH_MAX);
    msg_deinit(&m);
    return kind;
}

static void node_hello(int64_t pid)
{
    struct msg m = {.kind = MSG_HELLO};

    m.hello.version = PROTO_VERSION;
    m.hello.workers = 1;
    m.hello.pid = pid;
    node_send(&m);
}

static void node_ready(op_id op, uint64_t samples)
{
    struct msg m = {.kind = MSG_READY, .op = op};

    m.ready.samples = samples;
    m.ready.workers = 1;
    m.ready.tunables = json_array();
    memcpy(m.ready.metric_reduction, "mean", 5);
    m.ready.loss_floor = NAN;
    node_send(&m);
    msg_deinit(&m);
}

static void node_done(op_id op, uint64_t bytes)
{
    struct msg m = {.kind = MSG_DONE, .op = op};

    m.done.branch = 1;
    m.done.bytes = bytes;
    node_send(&m);
}

static void node_failed(op_id op, enum err code)
{
    struct msg m = {.kind = MSG_FAILED, .op = op};

    m.failed.branch = BRANCH_NONE;
    m.failed.code = code;
    strcpy(m.failed.reason, "data.csv, line 7: expected a number");
    node_send(&m);
}

static enum err count_record(void *ctx, const struct journal_record *record)
{
    uint64_t *count = ctx;

    (void)record;
    *count += 1;
    return ERR_OK;
}

static uint64_t node_counts_records(void)
{
    struct journal *j;
    uint64_t count = 0;

    if (journal_open(getenv("STATE"), false, 1000, &j, NULL) != ERR_OK)
        _exit(92);
    journal_each_record(j, "test-1", 0, count_record, &count, NULL);
    journal_close(j);
    return count;
}

/* One of two nodes: the first writes its part, as the second does; who then
 * also writes the manifest, or does not, or fails. */
static void node_snapshot(op_id op, const char *path)
{
    bool second = strcmp(node_number, "1") == 0;
    const char *role = getenv("ROLE");
    char name[32], part[FILE_PATH_MAX], file[FILE_PATH_MAX];

    if (second && strcmp(role, "full") == 0) {
        node_failed(op, ERR_IO);
        return;
    }
    snprintf(name, sizeof(name), "node-%s", node_number);
    if (file_join(part, path, name, NULL) != ERR_OK ||
        folder_make(part, NULL) != ERR_OK ||
        file_join(file, part, "shard", NULL) != ERR_OK ||
        file_write(file, "s", 1, NULL) != ERR_OK)
        _exit(96);
    if (second && strcmp(role, "unseen") != 0 &&
        (file_join(file, path, "manifest.json", NULL) != ERR_OK ||
         file_write(file, "{}", 2, NULL) != ERR_OK))
        _exit(97);
    node_done(op, 1);
}

/* Answers everything; `save` by writing a table. */
static void node_serve(void)
{
    char path[PROTO_PATH_MAX];

    for (;;) {
        op_id op;
        enum msg_kind kind = node_receive(&op, path);

        if (kind == MSG_STOP)
            return;
        if (kind == MSG_SNAPSHOT) {
            node_snapshot(op, path);
            continue;
        }
        if (kind == MSG_SAVE) {
            char file[FILE_PATH_MAX];

            if (file_join(file, path, "w.npy", NULL) != ERR_OK ||
                file_write(file, "w", 1, NULL) != ERR_OK)
                _exit(93);
        }
        node_done(op, node_counts_records());
    }
}

static void node_role(const char *role)
{
    op_id op;
    char path[PROTO_PATH_MAX];

    if (strcmp(role, "silent") == 0)
        for (;;)
            pause();
    if (strcmp(role, "stranger") == 0)
        node_hello(1);
    if (strcmp(role, "stranger") == 0 || strcmp(role, "early") == 0)
        node_ready(1, SAMPLES + 1);
    node_hello(getpid());
    if (node_receive(&op, path) != MSG_CONFIG)
        _exit(94);
    if (strcmp(role, "nonsense") == 0)
        node_text("{\"kind\":\"ready\",\"op\":1,\"samples\":0}");
    if (strcmp(role, "noise") == 0)
        for (int i = 0; i < 1000; i++)
            node_text("{\"kind\":\"hullo\"}");
    if (strcmp(role, "idle") == 0 || strcmp(role, "nonsense") == 0 ||
        strcmp(role, "noise") == 0)
        node_serve();
    if (strcmp(role, "unloadable") == 0) {
        node_failed(op, ERR_FORMAT);
        node_serve();
        return;
    }
    node_ready(op, SAMPLES);
    if (strcmp(role, "quitter") == 0) {
        fprintf(stderr, "first\nlast\n");
        exit(3);
    }
    if (strcmp(role, "raiser") == 0) {
        node_failed(0, ERR_APP);
        fprintf(stderr, "Traceback\n");
    }
    if (strcmp(role, "hung") == 0) /* never answers */
        for (;;)
            node_receive(&op, path);
    if (strcmp(role, "killed") == 0) {
        node_done(77, 0);
        node_receive(&op, path); /* so that all before has left */
        kill(getpid(), SIGKILL);
    }
    if (strcmp(role, "breaker") == 0) { /* of its grant, and what follows */
        node_receive(&op, path);
        node_done(op, 0);
        node_failed(op, ERR_NOMEM);
        node_failed(0, ERR_APP);
    }
    if (strcmp(role, "babbler") == 0) {
        node_text("{\"kind\":");
        node_text("");
        zmq_send(dealer, "a", 1, ZMQ_SNDMORE);
        zmq_send(dealer, "b", 1, 0);
    }
    node_serve();
}

static int node_main(char **argv)
{
    void *context = zmq_ctx_new();

    dealer = zmq_socket(context, ZMQ_DEALER);
    node_number = argv[5];
    if (zmq_connect(dealer, argv[3]) != 0)
        return 95;
    node_role(getenv("ROLE"));
    zmq_close(dealer);
    zmq_ctx_term(context);
    return 0;
}

/* ---- the core ------------------------------------------------------------ */

struct tuner {
    /* Answer of the scenario to an event; actions by the push functions. */
    void (*script)(struct tuner *t, const struct tuner_event *event);
    struct tuner_actions *out;
    double wake_at_s;
    bool finished;
    bool ends; /* waits for what runs */
    char trace[1024];
    int out_of_memory; /* so many times */
};

static void trace(struct tuner *t, const char *word)
{
    size_t n = strlen(t->trace);

    snprintf(t->trace + n, sizeof(t->trace) - n, "%s ", word);
}

enum err tuner_step(struct tuner *t, const struct tuner_event *event,
                    struct tuner_actions *out)
{
    tuner_actions_reset(out);
    if (t->out_of_memory > 0) {
        t->out_of_memory--;
        return ERR_NOMEM;
    }
    t->out = out;
    t->wake_at_s = INFINITY;
    t->script(t, event);
    return ERR_OK;
}

double tuner_wake_at(const struct tuner *t)
{
    return t->wake_at_s;
}

struct tuner_wait tuner_waits(const struct tuner *t)
{
    return (struct tuner_wait){.kind = TUNER_WAITS_ANSWER,
                               .at_s = t->wake_at_s};
}

bool tuner_ends(const struct tuner *t)
{
    return t->ends;
}

void tuner_actions_reset(struct tuner_actions *a)
{
    for (size_t i = 0; i < a->count; i++) {
        if (a->item[i].kind == TUNER_SEND)
            msg_deinit(&a->item[i].message);
        if (a->item[i].kind == TUNER_RECORD)
            record_deinit(&a->item[i].record);
    }
    a->count = 0;
}

void tuner_actions_deinit(struct tuner_actions *a)
{
    tuner_actions_reset(a);
    mem_free(a->item);
    memset(a, 0, sizeof(*a));
}

static struct tuner_action *push(struct tuner *t, enum tuner_action_kind kind)
{
    void *items = t->out->item;
    struct tuner_action *a;

    assert_int_equal(
        mem_grow(&items, &t->out->capacity, sizeof(*a), t->out->count + 1), 0);
    t->out->item = items;
    a = &t->out->item[t->out->count++];
    memset(a, 0, sizeof(*a));
    a->kind = kind;
    return a;
}

static void push_send(struct tuner *t, enum msg_kind kind, op_id op)
{
    struct tuner_action *a = push(t, TUNER_SEND);

    a->message.kind = kind;
    a->message.op = op;
    if (kind == MSG_SAVE)
        snprintf(a->message.save.path, sizeof(a->message.save.path), "%s/model",
                 dir);
    if (kind == MSG_SNAPSHOT)
        snprintf(a->message.snapshot.path, sizeof(a->message.snapshot.path),
                 "%s/000001", dir);
}

static void push_record(struct tuner *t)
{
    struct tuner_action *a = push(t, TUNER_RECORD);

    record_init(&a->record, RECORD_DECISION);
    strcpy(a->record.decision.decision, "test");
}

static void push_finish(struct tuner *t, enum run_status status)
{
    struct tuner_action *a = push(t, TUNER_FINISH);

    a->finish.status = status;
    strcpy(a->finish.reason, "test");
    t->finished = true;
}

static void push_end(struct tuner *t, enum run_status status)
{
    push_send(t, MSG_STOP, 1000);
    push_finish(t, status);
}

/* ---- around -------------------------------------------------------------- */

static struct tuner core;
static struct loop_result result;
static int signal_fd;
static int records;
static bool fail_model, no_model_folder;
static uint32_t nodes;
static char noticed[256];

static const char *last_words; /* of a run that failed, the last line */
static char words_of[256];

static bool no_memory_for_records;

static enum err hook_record(void *ctx, const struct record *record,
                            const char *json)
{
    (void)ctx;
    if (no_memory_for_records)
        return ERR_NOMEM;
    if (record->kind == RECORD_RUN_FINISHED) {
        const json_t *words = record->run_finished.last_words;

        const char *line = json_string_value(
            json_array_get(words, json_array_size(words) - 1));

        snprintf(words_of, sizeof(words_of), "%s", line ? line : "");
        last_words = words_of;
        return ERR_OK;
    }
    assert_non_null(strstr(json, "\"decision\""));
    assert_int_equal(record->kind, RECORD_DECISION);
    records++;
    return ERR_OK;
}

static void hook_tick(void *ctx, double now_s)
{
    (void)ctx;
    assert_true(now_s >= 0);
}

static void hook_notice(void *ctx, const char *text)
{
    (void)ctx;
    snprintf(noticed, sizeof(noticed), "%s", text);
}

static void (*notice)(void *ctx, const char *text) = hook_notice;
static struct mailbox *mailbox; /* NULL: none */

static enum err hook_model(void *ctx, const char *at, const json_t *data,
                           struct fault *f)
{
    char path[FILE_PATH_MAX];

    (void)ctx;
    (void)data;
    if (fail_model)
        return fault_set(f, ERR_IO, "the disk is full");
    assert_int_equal(file_join(path, at, "model.json", NULL), 0);
    return file_write(path, "{}", 2, f);
}

/* Restarts of the node, where they are asked for. */
static struct {
    unsigned times;      /* it was */
    unsigned good_after; /* so many, the node is a good one */
    bool fails;
    double silence_s;
    bool program; /* the node is a user's, and has a second for each thing */
    struct node_process *node;
    struct tuner_socket *socket;
    char reason[256];
    struct tuner again;
} restarts;

static void quiet(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static struct {
    bool from_ready; /* the journal is full, and stays so */
    int said;
} full;

static int make_dir(void **state)
{
    sigset_t set;

    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/mltune-test-loop-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    setenv("STATE", dir, 1);
    log_set_sink(quiet, NULL);
    memset(&core, 0, sizeof(core));
    core.wake_at_s = INFINITY;
    memset(&restarts, 0, sizeof(restarts));
    memset(&full, 0, sizeof(full));
    records = 0;
    fail_model = false;
    nodes = 1;
    noticed[0] = '\0';
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return signal_fd < 0 ? -1 : 0;
}

static int remove_dir(void **state)
{
    (void)state;
    close(signal_fd);
    return folder_remove(dir, NULL) == ERR_OK ? 0 : -1;
}

static bool exists(const char *name)
{
    char path[FILE_PATH_MAX];
    struct stat st;

    assert_int_equal(file_join(path, dir, name, NULL), 0);
    return stat(path, &st) == 0;
}

static enum err hook_restart(void *ctx, const char *reason, unsigned in_a_row,
                             struct tuner **out, struct fault *f)
{
    char log_path[96];
    struct launch launch = {.log_path = log_path,
                            .endpoint = restarts.socket->endpoint};

    (void)ctx;
    snprintf(log_path, sizeof(log_path), "%s/log", dir);
    snprintf(restarts.reason, sizeof(restarts.reason), "%s", reason);
    restarts.times++;
    assert_int_equal(in_a_row, restarts.times);
    assert_true(restarts.node->process.ended);
    if (restarts.fails)
        return fault_set(f, ERR_IO, "no process is left");
    if (restarts.times >= restarts.good_after)
        setenv("ROLE", "good", 1);
    restarts.again = core;
    restarts.again.trace[0] = '\0';
    *out = &restarts.again;
    return launcher_start(restarts.node, &launch, f);
}

/* Runs the loop with a node of that role and the core's script. */
static enum err hook_full(void *ctx, double now_s, struct fault *f)
{
    (void)ctx;
    (void)now_s;
    if (!core.trace[0])
        return ERR_OK;
    full.said++;
    return fault_set(f, ERR_LIMIT, "no room left");
}

static void run_loop(const char *role,
                     void (*script)(struct tuner *t,
                                    const struct tuner_event *event))
{
    char log_path[96], model_dir[96];
    struct tuner_socket socket;
    struct node_process node[2];
    struct journal *journal;
    struct msg config = {.kind = MSG_CONFIG, .op = TUNER_CONFIG_OP};
    struct loop_options o = {
        .tuner = &core,
        .socket = &socket,
        .node = node,
        .nodes = nodes,
        .signal_fd = signal_fd,
        .config = &config,
        .model_dir = model_dir,
        .mailbox = mailbox,
        .hooks = {.record = hook_record,
                  .tick = hook_tick,
                  .notice = notice,
                  .model = hook_model},
    };
    struct launch launch = {.log_path = log_path};

    if (restarts.good_after || restarts.fails)
        o.hooks.restart = hook_restart;
    if (full.from_ready)
        o.hooks.keep = hook_full;
    o.silence_s = restarts.silence_s;
    o.program = restarts.program;
    if (o.program)
        o.ready_s = o.clock_s = 1;
    o.backoff_s = notice == hook_notice ? 0.001 : 600;
    restarts.node = node;
    restarts.socket = &socket;
    core.script = script;
    snprintf(log_path, sizeof(log_path), "%s/log", dir);
    snprintf(model_dir, sizeof(model_dir), "%s/model",
             no_model_folder ? "/proc/nowhere" : dir);
    config.config.config = json_pack("{s:{s:s}}", "app", "name", "test");
    config.config.folder = mem_strdup("/");
    setenv("ROLE", role, 1);
    assert_int_equal(journal_open(dir, true, 0, &journal, NULL), 0);
    assert_int_equal(
        journal_begin_run(journal, "test-1", "test", "{}", 1, NULL), 0);
    o.journal = journal;
    assert_int_equal(socket_open(&socket, dir, NULL), 0);
    launch.endpoint = socket.endpoint;
    for (launch.node = 0; launch.node < nodes; launch.node++)
        assert_int_equal(launcher_start(&node[launch.node], &launch, NULL), 0);
    loop_run(&o, &result);
    for (uint32_t i = 0; i < nodes; i++)
        assert_true(node[i].process.ended);
    socket_close(&socket);
    journal_close(journal);
    msg_deinit(&config);
}

/* ---- the tests ----------------------------------------------------------- */

enum { RECORDS = 2000 };

/* Commands that wait are given to the core, its answers to who asked, after the
 * records of the same step are in the journal; what comes after the end is
 * answered too. */
static void answer(struct tuner *t, uint64_t ticket)
{
    struct tuner_action *a = push(t, TUNER_ANSWER);

    a->answer.ticket = ticket;
    strcpy(a->answer.text, "done");
}

static void script_steered(struct tuner *t, const struct tuner_event *e)
{
    if (e->kind == TUNER_EVENT_MESSAGE) {
        t->wake_at_s = 0; /* the command may have come before */
        return;
    }
    if (e->kind != TUNER_EVENT_COMMAND)
        return;
    if (e->command == COMMAND_LIMITS) {
        assert_int_equal(e->args->limits.set, LIMIT_MAX_EPOCHS);
        assert_int_equal(e->args->limits.to.max_epochs, 7);
        push_record(t);
    }
    answer(t, e->ticket);
    if (e->command == COMMAND_STOP)
        push_end(t, RUN_STOPPED);
}

static void loop_carries_out_commands(void **state)
{
    struct mailbox_request limits = {
        .command = COMMAND_LIMITS,
        .args.limits = {LIMIT_MAX_EPOCHS, {.max_epochs = 7}}};
    struct mailbox_request stop = {.command = COMMAND_STOP};
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct tuner_answer a;
    mailbox_ticket t[3];

    (void)state;
    assert_int_equal(mailbox_new(&mailbox), ERR_OK);
    assert_int_equal(mailbox_post(mailbox, &limits, fd, &t[0]), ERR_OK);
    assert_int_equal(mailbox_post(mailbox, &stop, fd, &t[1]), ERR_OK);
    run_loop("good", script_steered);
    assert_int_equal(result.finish.status, RUN_STOPPED);
    assert_int_equal(records, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mailbox_collect(mailbox, t[i], &a), ERR_OK);
        assert_string_equal(a.text, "done");
    }
    assert_int_equal(mailbox_post(mailbox, &stop, fd, &t[2]), ERR_OK);
    assert_int_equal(mailbox_collect(mailbox, t[2], &a), ERR_OK);
    assert_int_equal(a.err, ERR_CANCELED);
    mailbox_free(mailbox);
    mailbox = NULL;
    close(fd);
}

static void script_order(struct tuner *t, const struct tuner_event *e)
{
    assert_int_equal(e->kind, TUNER_EVENT_MESSAGE);
    if (e->message->kind == MSG_READY) {
        push_record(t);
        push_record(t);
        push_send(t, MSG_FREE, 2);
        for (int i = 2; i < RECORDS; i++)
            push_record(t); /* long enough for the node to look meanwhile */
        push_send(t, MSG_FREE, 3);
        return;
    }
    assert_int_equal(e->message->kind, MSG_DONE);
    /* The node has counted what is in the journal when a message arrives. */
    if (e->message->op == 2)
        assert_in_range(e->message->done.bytes, 2, RECORDS);
    if (e->message->op == 3) {
        assert_int_equal(e->message->done.bytes, RECORDS);
        push_end(t, RUN_FINISHED);
    }
}

/* A record is in the journal before the message that stands behind it leaves;
 * then the node ends in order. */
static void loop_records_are_journaled_before_messages(void **state)
{
    (void)state;
    run_loop("good", script_order);
    assert_int_equal(result.finish.status, RUN_FINISHED);
    assert_int_equal(result.own_error, ERR_OK);
    assert_int_equal(records, RECORDS);
    assert_false(result.node_lost);
    assert_true(result.wall_s > 0 && result.cpu_s > 0);
}

static void script_end_when_ready(struct tuner *t, const struct tuner_event *e)
{
    if (e->kind == TUNER_EVENT_MESSAGE)
        trace(t, msg_kind_name(e->message->kind));
    if (e->kind == TUNER_EVENT_MESSAGE && e->message->kind == MSG_READY) {
        assert_int_equal(e->message->ready.samples, SAMPLES);
        push_end(t, RUN_FINISHED);
    }
}

/* A text that is no message is left out, and so is who is not our node. */
static void loop_malformed_and_strangers_are_ignored(void **state)
{
    static const char *const roles[] = {"babbler", "stranger", "early"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        core.trace[0] = '\0';
        run_loop(roles[i], script_end_when_ready);
        assert_int_equal(result.finish.status, RUN_FINISHED);
        assert_string_equal(core.trace, "ready ");
        assert_int_equal(remove_dir(state), 0);
        assert_int_equal(make_dir(state), 0);
    }
}

static void script_lost(struct tuner *t, const struct tuner_event *e)
{
    if (e->kind == TUNER_EVENT_LOST) {
        trace(t, e->reason);
        push_finish(t, RUN_FAILED);
    } else {
        trace(t, msg_kind_name(e->message->kind));
        if (e->message->kind == MSG_DONE)
            push_send(t, MSG_FREE, 5);
    }
}

/* The new core is told `ready` of the new node, and goes on. */
static void script_again(struct tuner *t, const struct tuner_event *e)
{
    if (e->kind == TUNER_EVENT_LOST) {
        trace(t, "lost");
        push_finish(t, RUN_FAILED);
    } else if (e->kind == TUNER_EVENT_MESSAGE &&
               e->message->kind == MSG_READY) {
        trace(t, "ready");
        push_send(t, MSG_FREE, 2);
    } else if (e->kind == TUNER_EVENT_MESSAGE && e->message->op == 2) {
        trace(t, "done");
        push_end(t, RUN_FINISHED);
    }
}

/* A lost node is started again, with another core, and each time is told. */
static void loop_lost_node_is_started_again(void **state)
{
    (void)state;
    restarts.good_after = 2;
    run_loop("killed", script_again);
    assert_int_equal(result.finish.status, RUN_FINISHED);
    assert_int_equal(result.restarts, 2);
    assert_false(result.node_lost);
    assert_string_equal(core.trace, "ready ");
    assert_string_equal(restarts.again.trace, "ready done ");
    assert_non_null(strstr(restarts.reason, "was killed by SIGKILL"));
    assert_non_null(strstr(noticed, "(2 of 3)"));
}

static void script_granted(struct tuner *t, const struct tuner_event *e)
{
    if (e->kind != TUNER_EVENT_MESSAGE)
        return;
    trace(t, msg_kind_name(e->message->kind));
    if (e->message->kind == MSG_READY)
        push_send(t, MSG_FREE, 2);
    else if (e->message->kind == MSG_FAILED || restarts.times > 0)
        push_end(t, e->message->kind == MSG_FAILED ? RUN_FAILED : RUN_FINISHED);
}

/* What a node granted fails after all, for want of memory: it is started again,
 * and nothing that it says after that is heard. A program's, too. */
static void loop_node_that_breaks_a_grant_is_started_again(void **state)
{
    for (int program = 0; program < 2; program++) {
        restarts.program = program;
        restarts.good_after = 1;
        run_loop("breaker", script_granted);
        assert_int_equal(result.finish.status, RUN_FINISHED);
        assert_int_equal(result.restarts, 1);
        assert_string_equal(core.trace, "ready done ");
        assert_string_equal(restarts.again.trace, "ready done ");
        assert_non_null(strstr(restarts.reason, "cannot do what it granted"));
        assert_int_equal(remove_dir(state), 0);
        assert_int_equal(make_dir(state), 0);
    }
}

/* Without progress only so often: then the core hears of the loss. */
static void loop_node_that_is_lost_again_and_again_ends_the_run(void **state)
{
    (void)state;
    restarts.good_after = 100;
    run_loop("killed", script_again);
    assert_int_equal(result.finish.status, RUN_FAILED);
    assert_int_equal(result.restarts, KEEPER_RESTARTS_MAX);
    assert_true(result.node_lost);
    assert_string_equal(restarts.again.trace, "ready lost ");
}

/* The reason why it cannot be is the run's end. */
static void loop_node_that_cannot_be_started_again_ends_the_run(void **state)
{
    (void)state;
    restarts.fails = true;
    run_loop("killed", script_again);
    assert_int_equal(result.finish.status, RUN_INTERRUPTED);
    assert_int_equal(result.own_error, ERR_IO);
    assert_string_equal(result.finish.message, "no process is left");
}

/* One that lives and says nothing is as good as none: it is killed. */
static void loop_silent_node_is_taken_for_lost(void **state)
{
    (void)state;
    restarts.good_after = 1;
    restarts.silence_s = 5; /* the second one has so long to speak */
    run_loop("silent", script_again);
    assert_int_equal(result.finish.status, RUN_FINISHED);
    assert_int_equal(result.restarts, 1);
    assert_non_null(strstr(restarts.reason, "has not said hello in 5 s"));
}

static void raise_when_lost(void *ctx, const char *text)
{
    /* Once: what comes after the end would reach the next test. */
    bool first = !noticed[0];

    hook_notice(ctx, text);
    if (first)
        kill(getpid(), SIGINT);
}

/* Ctrl-C while the node is to be started again: the run ends as interrupted,
 * to be resumed from its last snapshot. */
static void loop_interrupted_without_a_node_ends_at_once(void **state)
{
    (void)state;
    restarts.good_after = 1;
    notice = raise_when_lost;
    run_loop("killed", script_again);
    notice = hook_notice;
    assert_int_equal(result.finish.status, RUN_INTERRUPTED);
    assert_int_equal(result.signal, SIGINT);
    assert_int_equal(restarts.times, 0);
}

/* A killed node: what it had said comes first, then the loss, with how. */
static void loop_killed_node_is_lost_after_its_last_words(void **state)
{
    (void)state;
    run_loop("killed", script_lost);
    assert_memory_equal(core.trace, "ready done node 0 (pid ", 23);
    assert_non_null(strstr(core.trace, "SIGKILL"));
    assert_true(result.node_lost);
    assert_int_equal(result.finish.status, RUN_FAILED);
}

/* What a node answers must make sense: nothing better would come. */
static void loop_answer_that_is_none_loses_the_node(void **state)
{
    (void)state;
    run_loop("nonsense", script_lost);
    assert_non_null(
        strstr(core.trace, "the node's `ready` makes no sense: samples: "));
    assert_true(result.node_lost);
    assert_int_equal(result.finish.status, RUN_FAILED);
}

static void script_program(struct tuner *t, const struct tuner_event *e)
{
    if (e->kind == TUNER_EVENT_LOST) {
        assert_true(e->program);
        trace(t, e->reason);
        record_init(&push(t, TUNER_RECORD)->record, RECORD_RUN_FINISHED);
        t->out->item[t->out->count - 1].record.run_finished.status = RUN_FAILED;
        push_finish(t, RUN_FAILED);
    } else if (e->kind == TUNER_EVENT_MESSAGE) {
        push_send(t, MSG_FREE, 5);
    }
}

/* A program's own fault is not tried again: it ends, it says that it failed, it
 * is never ready, it does not answer, it sends what is none. */
static void loop_program_at_fault_ends_the_run(void **state)
{
    static const char *const roles[][3] = {
        {"quitter", "the program (pid ", "last"},
        {"raiser", "data.csv, line 7: expected a number", "Traceback"},
        {"idle", "was not ready in 1 s after its hello", ""},
        {"hung", "has not answered a request in 1 s", ""},
        {"nonsense", "the program's `ready` makes no sense: samples: ", ""},
        {"noise",
         "; 1000 of its messages made no sense, the first: kind: "
         "there is no message \"hullo\"",
         ""},
    };

    for (size_t i = 0; i < sizeof(roles) / sizeof(*roles); i++) {
        core.trace[0] = '\0';
        restarts.program = true;
        restarts.good_after = 1;
        last_words = "";
        run_loop(roles[i][0], script_program);
        assert_int_equal(result.finish.status, RUN_FAILED);
        assert_int_equal(result.restarts, 0);
        assert_non_null(strstr(core.trace, roles[i][1]));
        assert_string_equal(last_words, roles[i][2]);
        assert_int_equal(remove_dir(state), 0);
        assert_int_equal(make_dir(state), 0);
    }
}

static void script_unloadable(struct tuner *t, const struct tuner_event *e)
{
    assert_int_equal(e->message->kind, MSG_FAILED);
    push_end(t, RUN_FAILED);
}

/* A training system that cannot load tells why, for the exit code. */
static void loop_load_error_is_told(void **state)
{
    (void)state;
    run_loop("unloadable", script_unloadable);
    assert_int_equal(result.load_error, ERR_FORMAT);
    assert_int_equal(result.finish.status, RUN_FAILED);
}

static void script_save(struct tuner *t, const struct tuner_event *e)
{
    trace(t, msg_kind_name(e->message->kind));
    if (e->message->kind == MSG_READY)
        push_send(t, MSG_SAVE, 9);
    else
        push_end(t, e->message->kind == MSG_DONE ? RUN_FINISHED : RUN_FAILED);
}

/* A saved model is whole before the core hears of it, and under its name. */
static void loop_model_appears_whole(void **state)
{
    (void)state;
    run_loop("good", script_save);
    assert_string_equal(core.trace, "ready done ");
    assert_true(exists("model/w.npy"));
    assert_true(exists("model/model.json"));
    assert_false(exists("model.tmp"));
}

/* A model that cannot be completed is a failed save; nothing of it is left. */
static void loop_model_that_fails_leaves_nothing(void **state)
{
    (void)state;
    fail_model = true;
    run_loop("good", script_save);
    assert_string_equal(core.trace, "ready failed ");
    assert_false(exists("model"));
    assert_false(exists("model.tmp"));
}

/* One whose folder cannot be made is no end either: the core hears that it
 * failed, and no node is asked for it. */
static void loop_model_without_a_folder_is_a_failed_save(void **state)
{
    (void)state;
    no_model_folder = true;
    run_loop("good", script_save);
    no_model_folder = false;
    assert_string_equal(core.trace, "ready failed ");
    assert_int_equal(result.own_error, ERR_OK);
}

/* Whether anything is left of what was written is looked at while the run goes
 * on: at its end all is swept anyway. */
static bool left_behind;

static void script_snapshot(struct tuner *t, const struct tuner_event *e)
{
    if (e->kind != TUNER_EVENT_MESSAGE || e->message->kind == MSG_BEAT)
        return;
    trace(t, msg_kind_name(e->message->kind));
    if (e->message->kind == MSG_READY) {
        push_send(t, MSG_SNAPSHOT, 9);
        return;
    }
    left_behind = exists("000001.tmp");
    push_end(t, RUN_FINISHED);
}

/* The parts of several nodes become a snapshot when all are there, with the
 * manifest. */
static void loop_snapshot_of_two_nodes_appears_whole(void **state)
{
    (void)state;
    nodes = 2;
    run_loop("whole", script_snapshot);
    assert_string_equal(core.trace, "ready done ");
    assert_int_equal(result.snapshot_error, ERR_OK);
    assert_true(exists("000001/node-0/shard"));
    assert_true(exists("000001/node-1/shard"));
    assert_true(exists("000001/manifest.json"));
    assert_false(left_behind);
}

/* Where one node fails, the other's part goes at once: the disk is full. */
static void loop_failed_snapshot_leaves_no_part(void **state)
{
    (void)state;
    nodes = 2;
    run_loop("full", script_snapshot);
    assert_string_equal(core.trace, "ready failed ");
    assert_int_equal(result.snapshot_error, ERR_IO);
    assert_non_null(strstr(noticed, "snapshot was not written"));
    assert_false(exists("000001"));
    assert_false(left_behind);
}

/* Parts whose nodes did not see each other are not taken for a snapshot. */
static void loop_snapshot_without_manifest_is_failed(void **state)
{
    (void)state;
    nodes = 2;
    run_loop("unseen", script_snapshot);
    assert_string_equal(core.trace, "ready failed ");
    assert_int_equal(result.snapshot_error, ERR_IO);
    assert_non_null(strstr(noticed, "manifest.json"));
    assert_false(exists("000001"));
    assert_false(left_behind);
}

static void script_interrupt(struct tuner *t, const struct tuner_event *e)
{
    if (e->kind == TUNER_EVENT_COMMAND) {
        assert_int_equal(e->command, COMMAND_INTERRUPT);
        push_record(t);
        push_end(t, RUN_INTERRUPTED);
    } else if (e->message->kind == MSG_READY) {
        raise(SIGTERM);
    }
}

/* A signal becomes the command to interrupt, and is remembered. */
static void loop_signal_interrupts(void **state)
{
    (void)state;
    run_loop("good", script_interrupt);
    assert_int_equal(result.finish.status, RUN_INTERRUPTED);
    assert_int_equal(result.signal, SIGTERM);
    assert_false(result.ended_at_once);
    assert_non_null(strstr(noticed, "once more"));
}

static void script_full(struct tuner *t, const struct tuner_event *e)
{
    if (e->kind == TUNER_EVENT_FULL) {
        assert_string_equal(e->reason, "no room left");
        trace(t, "full");
        push_send(t, MSG_SNAPSHOT, 9);
    }
    if (e->kind != TUNER_EVENT_MESSAGE || e->message->kind == MSG_BEAT)
        return;
    trace(t, msg_kind_name(e->message->kind));
    if (e->message->kind == MSG_DONE)
        push_end(t, RUN_INTERRUPTED);
    push_record(t);
}

/* A journal that is full is told to the core once, which takes a snapshot:
 * records go on until it is there. */
static void loop_full_journal_ends_after_a_snapshot(void **state)
{
    (void)state;
    nodes = 2;
    full.from_ready = true;
    run_loop("whole", script_full);
    assert_string_equal(core.trace, "ready full done ");
    assert_true(exists("000001/manifest.json"));
    assert_true(full.said > 0); /* a slow loop may be round but once */
    assert_int_equal(result.finish.status, RUN_INTERRUPTED);
    assert_int_equal(result.own_error, ERR_LIMIT);
    assert_false(result.ended_at_once);
    assert_non_null(strstr(noticed, "journal.limit"));
}

static void script_stuck(struct tuner *t, const struct tuner_event *e)
{
    (void)t;
    (void)e;
    raise(SIGINT);
}

/* The second one ends at once, even if nothing answers. */
static void loop_second_signal_ends_at_once(void **state)
{
    (void)state;
    raise(SIGINT);
    run_loop("silent", script_stuck);
    assert_true(result.ended_at_once);
    assert_int_equal(result.signal, SIGINT);
    assert_int_equal(result.finish.status, RUN_INTERRUPTED);
}

static void script_timer(struct tuner *t, const struct tuner_event *e)
{
    if (e->kind == TUNER_EVENT_TIMER) {
        assert_true(e->now_s >= 0.02);
        assert_true(e->step_s > 0);
        push_end(t, RUN_FINISHED);
    } else {
        t->wake_at_s = fmax(e->now_s, 0.02);
    }
}

/* The core is woken when it asked to be, not before. */
static void loop_timer_wakes_the_core(void **state)
{
    (void)state;
    run_loop("good", script_timer);
    assert_int_equal(result.finish.status, RUN_FINISHED);
}

static sqlite3 *other;

static void lock_journal(void)
{
    char path[FILE_PATH_MAX];

    assert_int_equal(file_join(path, dir, "mltune.db", NULL), 0);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL),
                     SQLITE_OK);
}

static void end_by_journal(struct tuner *t)
{
    push_record(t);
    push_send(t, MSG_FREE, 2);
    push_finish(t, RUN_FINISHED);
}

static void script_journal(struct tuner *t, const struct tuner_event *e)
{
    (void)e;
    lock_journal();
    assert_int_equal(raise(SIGTERM), 0); /* it waits: who holds it may let go */
    end_by_journal(t);
}

/* Without its journal the tuner acts no further, and ends its node; the run can
 * be resumed. */
static void loop_without_journal_gives_up(void **state)
{
    struct signalfd_siginfo info;

    (void)state;
    run_loop("good", script_journal);
    sqlite3_close(other);
    assert_int_equal(read(signal_fd, &info, sizeof(info)), sizeof(info));
    assert_int_equal(result.own_error, ERR_BUSY);
    assert_int_equal(result.finish.status, RUN_INTERRUPTED);
    assert_non_null(strstr(result.finish.message, "mltune.db"));
}

static void *let_go(void *arg)
{
    usleep(200000);
    sqlite3_close(other);
    return arg;
}

static pthread_t holder;

static void script_held_journal(struct tuner *t, const struct tuner_event *e)
{
    (void)e;
    lock_journal();
    assert_int_equal(pthread_create(&holder, NULL, let_go, NULL), 0);
    end_by_journal(t);
}

/* Another run was suspended while it wrote, and goes on: nothing has happened.
 */
static void loop_waits_for_who_has_the_journal(void **state)
{
    (void)state;
    run_loop("good", script_held_journal);
    assert_int_equal(pthread_join(holder, NULL), 0);
    assert_int_equal(result.finish.status, RUN_FINISHED);
    assert_int_equal(result.own_error, ERR_OK);
    assert_int_equal(records, 1);
}

/* A step that lacks memory for a moment is tried again; for good, the run
 * ends. */
static void loop_step_without_memory_is_tried_again(void **state)
{
    (void)state;
    core.out_of_memory = 3;
    run_loop("good", script_end_when_ready);
    assert_int_equal(result.finish.status, RUN_FINISHED);
    assert_int_equal(remove_dir(state), 0);
    assert_int_equal(make_dir(state), 0);
    core.out_of_memory = 1000;
    run_loop("good", script_end_when_ready);
    assert_int_equal(result.own_error, ERR_NOMEM);
}

/* A run whose own history lacks a record does not go on with it; it can be
 * resumed from the journal, which has all. */
static void loop_record_without_memory_interrupts(void **state)
{
    (void)state;
    no_memory_for_records = true;
    run_loop("good", script_order);
    no_memory_for_records = false;
    assert_int_equal(result.own_error, ERR_NOMEM);
    assert_int_equal(result.finish.status, RUN_INTERRUPTED);
    assert_int_equal(records, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(loop_records_are_journaled_before_messages),
        CASE(loop_carries_out_commands),
        CASE(loop_malformed_and_strangers_are_ignored),
        CASE(loop_answer_that_is_none_loses_the_node),
        CASE(loop_killed_node_is_lost_after_its_last_words),
        CASE(loop_lost_node_is_started_again),
        CASE(loop_node_that_breaks_a_grant_is_started_again),
        CASE(loop_node_that_is_lost_again_and_again_ends_the_run),
        CASE(loop_node_that_cannot_be_started_again_ends_the_run),
        CASE(loop_program_at_fault_ends_the_run),
        CASE(loop_silent_node_is_taken_for_lost),
        CASE(loop_interrupted_without_a_node_ends_at_once),
        CASE(loop_load_error_is_told),
        CASE(loop_model_appears_whole),
        CASE(loop_model_that_fails_leaves_nothing),
        CASE(loop_model_without_a_folder_is_a_failed_save),
        CASE(loop_snapshot_of_two_nodes_appears_whole),
        CASE(loop_failed_snapshot_leaves_no_part),
        CASE(loop_snapshot_without_manifest_is_failed),
        CASE(loop_full_journal_ends_after_a_snapshot),
        CASE(loop_signal_interrupts),
        CASE(loop_second_signal_ends_at_once),
        CASE(loop_timer_wakes_the_core),
        CASE(loop_without_journal_gives_up),
        CASE(loop_waits_for_who_has_the_journal),
        CASE(loop_step_without_memory_is_tried_again),
        CASE(loop_record_without_memory_interrupts),
    };

    if (argc > 5 && strcmp(argv[1], "node") == 0)
        return node_main(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
