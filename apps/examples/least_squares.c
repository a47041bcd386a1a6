/* A training program in plain C that mltune tunes while it trains: least
 * squares by stochastic gradient descent with momentum.
 *
 * It knows nothing of mltune but docs/protocol.md: ZeroMQ and JSON. One thread
 * does all, since a clock takes microseconds: between two clocks it reads what
 * the tuner says, and beats. A program with long clocks beats from a thread of
 * its own (rule W5).
 *
 *   cc -O2 least_squares.c -lzmq -ljansson -lm -o least_squares
 *   {"app": {"command": ["./least_squares"]}}
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum {
    WIDTH = 8,
    SAMPLES = 2000,
    TESTS = 400,
    BRANCHES_MAX = 512,
    BRANCHES_LEAST = 5,
    QUEUE_MAX = 512
};

/* All that the training depends on (rules S1 to S4). */
struct state {
    double weight[WIDTH], speed[WIDTH];
    uint64_t epoch, position;
};

struct branch {
    bool live;   /* when all that waits has been carried out */
    bool due;    /* the fork or restore that makes it waits */
    bool exists; /* now */
    uint32_t id;
    char type[16];
    double rate, momentum;
    int batch;
    struct state s;
};

static struct branch branches[BRANCHES_MAX];
static json_t *queue[QUEUE_MAX];
static size_t waiting;
static json_int_t last_op, next_clock;
static size_t room = BRANCHES_MAX; /* branches that memory holds (rule C9) */
static uint64_t seed, clocks;
static double x[SAMPLES + TESTS][WIDTH], y[SAMPLES + TESTS];
static uint32_t order[SAMPLES];
static uint64_t order_epoch = UINT64_MAX;
static void *tuner;

/* The slice that runs: the first of the queue. */
static struct {
    bool runs, cut, wild;
    json_int_t ran, said; /* clocks; of them reported */
    double sum, seconds, said_at;
    json_int_t samples, in_window;
    json_t *sums, *counts, *lengths, *times;
} slice;

/* ---- helpers ------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static double uniform(uint64_t *state)
{
    return (double)(draw(state) >> 11) * 0x1p-53;
}

static void say(json_t *message)
{
    char *text = json_dumps(message, JSON_COMPACT);

    zmq_send(tuner, text, strlen(text), 0);
    free(text);
    json_decref(message);
}

static const char *text_of(const json_t *m, const char *name)
{
    return json_string_value(json_object_get(m, name));
}

static json_int_t int_of(const json_t *m, const char *name)
{
    return json_integer_value(json_object_get(m, name));
}

static void refuse(const json_t *m, const char *code, const char *reason)
{
    say(json_pack("{s:s, s:I, s:s, s:s}", "kind", "failed", "op",
                  int_of(m, "op"), "code", code, "reason", reason));
}

static struct branch *find(json_int_t id, bool planned)
{
    for (int i = 0; i < BRANCHES_MAX; i++)
        if ((planned ? branches[i].live
                     : branches[i].exists || branches[i].due) &&
            branches[i].id == id)
            return &branches[i];
    return NULL;
}

static struct branch *unused(void)
{
    size_t used = 0;

    for (int i = 0; i < BRANCHES_MAX; i++)
        used += branches[i].live || branches[i].exists || branches[i].due;
    for (int i = 0; i < BRANCHES_MAX && used < room; i++)
        if (!branches[i].live && !branches[i].exists && !branches[i].due)
            return &branches[i];
    return NULL;
}

/* ---- the model ----------------------------------------------------------- */

static void make_data(void)
{
    uint64_t r = 1;

    for (int i = 0; i < SAMPLES + TESTS; i++) {
        y[i] = 0.2 * (uniform(&r) - 0.5);
        for (int k = 0; k < WIDTH; k++) {
            x[i][k] = 2 * uniform(&r) - 1;
            y[i] += x[i][k] * (k - 3);
        }
    }
}

/* An epoch's permutation: of the run's seed and the epoch's number alone. */
static const uint32_t *order_of(uint64_t epoch)
{
    uint64_t r = seed * 1000003 + epoch;

    if (order_epoch == epoch)
        return order;
    for (uint32_t i = 0; i < SAMPLES; i++)
        order[i] = i;
    for (uint32_t i = SAMPLES - 1; i > 0; i--) {
        uint32_t k = (uint32_t)(draw(&r) % (i + 1)), t = order[i];

        order[i] = order[k];
        order[k] = t;
    }
    order_epoch = epoch;
    return order;
}

static double error_at(const struct state *s, uint32_t i)
{
    double e = -y[i];

    for (int k = 0; k < WIDTH; k++)
        e += s->weight[k] * x[i][k];
    return e;
}

/* A clock: the sum of the loss over @samples. A probe learns nothing. */
static double train(struct branch *b, json_int_t *samples)
{
    const uint32_t *o = order_of(b->s.epoch);
    uint64_t left = SAMPLES - b->s.position;
    uint64_t n = (uint64_t)b->batch < left ? (uint64_t)b->batch : left;
    double gradient[WIDTH] = {0}, sum = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t at = o[b->s.position + i];
        double e = error_at(&b->s, at);

        sum += e * e / 2;
        for (int k = 0; k < WIDTH; k++)
            gradient[k] += e * x[at][k];
    }
    for (int k = 0; k < WIDTH && strcmp(b->type, "training") == 0; k++) {
        b->s.speed[k] = b->momentum * b->s.speed[k] + gradient[k] / (double)n;
        b->s.weight[k] -= b->rate * b->s.speed[k];
    }
    b->s.position += n;
    if (b->s.position == SAMPLES) {
        b->s.position = 0;
        b->s.epoch++;
    }
    *samples = (json_int_t)n;
    return sum;
}

static double test(const struct branch *b, json_int_t *samples)
{
    double sum = 0;

    for (uint32_t i = SAMPLES; i < SAMPLES + TESTS; i++)
        sum += pow(error_at(&b->s, i), 2);
    *samples = TESTS;
    return sum;
}

/* ---- slices -------------------------------------------------------------- */

static json_t *number(double v)
{
    return isfinite(v) ? json_real(v)
           : isnan(v)  ? json_string("nan")
                       : json_string(v > 0 ? "inf" : "-inf");
}

static void forget_windows(void)
{
    slice.sums = json_array();
    slice.counts = json_array();
    slice.lengths = json_array();
    slice.times = json_array();
}

/* Reports the windows that are complete (rules L1, L3). */
static void report(const json_t *m)
{
    slice.said_at = now();
    if (!json_array_size(slice.sums))
        return;
    say(json_pack("{s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "kind", "report",
                  "op", int_of(m, "op"), "branch", int_of(m, "branch"), "first",
                  int_of(m, "first") + slice.said, "sum", slice.sums, "samples",
                  slice.counts, "clocks", slice.lengths, "seconds",
                  slice.times));
    slice.said = slice.ran;
    forget_windows();
}

static void close_window(void)
{
    if (!slice.in_window)
        return;
    json_array_append_new(slice.sums, number(slice.sum));
    json_array_append_new(slice.counts, json_integer(slice.samples));
    json_array_append_new(slice.lengths, json_integer(slice.in_window));
    json_array_append_new(slice.times, json_real(slice.seconds));
    slice.sum = slice.seconds = 0;
    slice.samples = slice.in_window = 0;
}

static void next_request(void)
{
    json_decref(queue[0]);
    memmove(queue, queue + 1, --waiting * sizeof(*queue));
}

static void run_clock(const json_t *m, struct branch *b)
{
    double begun = now(), sum;
    json_int_t samples;

    sum = strcmp(b->type, "testing") == 0 ? test(b, &samples)
                                          : train(b, &samples);
    slice.wild = !isfinite(sum);
    slice.sum += sum;
    slice.samples += samples;
    slice.seconds += now() - begun;
    slice.ran++;
    clocks++;
    if (++slice.in_window == int_of(m, "report_every")) {
        close_window();
        if (now() - slice.said_at > 0.3)
            report(m);
    }
}

/* A clock of the slice that is first in the queue, or its end. */
static void go_on(const json_t *m)
{
    struct branch *b = find(int_of(m, "branch"), false);

    if (!slice.runs) {
        slice.runs = true;
        slice.wild = false;
        slice.ran = slice.said = 0;
        slice.said_at = now();
        forget_windows();
    }
    if (slice.ran < int_of(m, "count") && !slice.cut && !slice.wild) {
        run_clock(m, b);
        return;
    }
    close_window();
    report(m);
    json_decref(slice.sums);
    json_decref(slice.counts);
    json_decref(slice.lengths);
    json_decref(slice.times);
    slice.runs = slice.cut = false;
    say(json_pack("{s:s, s:I, s:I, s:I, s:f}", "kind", "done", "op",
                  int_of(m, "op"), "branch", int_of(m, "branch"), "clocks",
                  slice.ran, "switch_s", 0.0));
    next_request();
}

/* ---- files --------------------------------------------------------------- */

/* The file of a folder that is made where it is missing; parents are there. */
static FILE *open_in(const char *folder, const char *name, const char *mode)
{
    char path[2048];

    mkdir(folder, 0777);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return fopen(path, mode);
}

/* Weights, and with @all what else there is; bytes, or -1. */
static long write_state(const char *folder, const char *name,
                        const struct state *s, bool all)
{
    FILE *f = open_in(folder, name, "w");
    long bytes = -1;

    if (!f)
        return -1;
    for (int k = 0; k < WIDTH; k++)
        fprintf(f, "%a\n", s->weight[k]);
    for (int k = 0; k < WIDTH && all; k++)
        fprintf(f, "%a\n", s->speed[k]);
    if (all)
        fprintf(f, "%llu %llu\n", (unsigned long long)s->epoch,
                (unsigned long long)s->position);
    if (!ferror(f) && fflush(f) == 0 && fsync(fileno(f)) == 0)
        bytes = ftell(f);
    return fclose(f) == 0 ? bytes : -1;
}

static bool read_state(const char *folder, struct state *s)
{
    FILE *f = open_in(folder, "state", "r");
    unsigned long long epoch = 0, position = 0;
    bool ok = f != NULL;

    for (int k = 0; k < WIDTH && ok; k++)
        ok = fscanf(f, "%la", &s->weight[k]) == 1;
    for (int k = 0; k < WIDTH && ok; k++)
        ok = fscanf(f, "%la", &s->speed[k]) == 1;
    ok = ok && fscanf(f, "%llu %llu", &epoch, &position) == 2 &&
         position < SAMPLES;
    if (f)
        fclose(f);
    s->epoch = epoch;
    s->position = position;
    return ok;
}

static void write_files(const json_t *m, const struct branch *b, bool save)
{
    long bytes = write_state(text_of(m, "path"), save ? "weights" : "state",
                             &b->s, !save);
    json_t *done;

    if (bytes < 0) {
        refuse(m, "io", strerror(errno));
        return;
    }
    done =
        json_pack("{s:s, s:I, s:I, s:I}", "kind", "done", "op", int_of(m, "op"),
                  "branch", int_of(m, "branch"), "bytes", (json_int_t)bytes);
    if (save)
        json_object_set_new(done, "data",
                            json_pack("{s:[], s:{s:i}, s:[s]}", "tables", "app",
                                      "width", WIDTH, "files", "weights"));
    say(done);
}

/* ---- requests ------------------------------------------------------------ */

/* The first of the queue is carried out, or goes on. */
static void carry_out(void)
{
    json_t *m = queue[0];
    const char *kind = text_of(m, "kind");
    struct branch *b = find(int_of(m, "branch"), false), *parent;

    if (strcmp(kind, "schedule") == 0) {
        go_on(m);
        return;
    }
    if (strcmp(kind, "fork") == 0) {
        parent = find(int_of(m, "parent"), false);
        b->s = parent->s;
        b->exists = true;
        b->due = false;
    } else if (strcmp(kind, "restore") == 0) {
        b->due = false;
        b->exists = read_state(text_of(m, "path"), &b->s);
        b->live = b->live && b->exists;
        if (!b->exists)
            refuse(m, "format", "state: it is no snapshot of this program");
    } else if (strcmp(kind, "free") == 0) {
        b->exists = false;
    } else {
        write_files(m, b, strcmp(kind, "save") == 0);
    }
    if (strcmp(kind, "free") == 0 ||
        (strcmp(kind, "restore") == 0 && b->exists))
        say(json_pack("{s:s, s:I, s:I}", "kind", "done", "op", int_of(m, "op"),
                      "branch", int_of(m, "branch")));
    next_request();
}

/* The setting of @m into @b; what is left out has its default. */
static bool take_setting(const json_t *m, struct branch *b)
{
    const json_t *s = json_object_get(m, "setting");
    const json_t *rate = json_object_get(s, "learning_rate"),
                 *momentum = json_object_get(s, "momentum"),
                 *batch = json_object_get(s, "batch_size");

    b->rate = rate ? json_number_value(rate) : 0.01;
    b->momentum = momentum ? json_number_value(momentum) : 0.9;
    b->batch = batch ? (int)json_integer_value(batch) : 32;
    return b->rate >= 0 && b->momentum >= 0 && b->momentum < 1 && b->batch > 0;
}

/* Makes the branch of a fork or a restore known; NULL: @m is answered. */
static struct branch *plan_branch(const json_t *m, const char *type)
{
    struct branch *b = unused();

    if (find(int_of(m, "branch"), true)) {
        refuse(m, "exist", "there is such a branch");
        return NULL;
    }
    if (!b) {
        refuse(m, "limit", "memory.limit, or 512 branches, are in use");
        return NULL;
    }
    if (strcmp(type, "kept") != 0 && !take_setting(m, b)) {
        refuse(m, "inval",
               "setting: learning_rate from 0, momentum from 0 "
               "below 1, batch_size from 1");
        return NULL;
    }
    b->live = b->due = true;
    b->id = (uint32_t)int_of(m, "branch");
    snprintf(b->type, sizeof(b->type), "%s", type);
    return b;
}

static bool grant_schedule(const json_t *m, const struct branch *b)
{
    const char *wrong = NULL;

    if (strcmp(b->type, "init") == 0 || strcmp(b->type, "kept") == 0)
        wrong = "no clock runs in it";
    else if (int_of(m, "first") < next_clock)
        wrong = "first: that clock was used";
    else if ((int_of(m, "count") - 1) / int_of(m, "report_every") >= 1000)
        wrong = "report_every: at most 1,000 windows";
    if (wrong)
        refuse(m, "inval", wrong);
    else
        next_clock = int_of(m, "first") + int_of(m, "count");
    return !wrong;
}

/* Checked against what will be when all that waits has been carried out (C3);
 * false: it is answered. */
static bool grant(const json_t *m, const char *kind)
{
    struct branch *b = find(int_of(m, "branch"), true);

    if (int_of(m, "op") <= last_op) {
        refuse(m, "proto", "op: it must grow");
        return false;
    }
    if (waiting == QUEUE_MAX) {
        refuse(m, "limit", "512 requests wait");
        return false;
    }
    if (strcmp(kind, "restore") == 0)
        return plan_branch(m, "kept") != NULL;
    if (strcmp(kind, "fork") == 0) {
        if (find(int_of(m, "parent"), true))
            return plan_branch(m, text_of(m, "type")) != NULL;
        refuse(m, "noent", "parent: there is no such branch");
        return false;
    }
    if (!b) {
        refuse(m, "noent", "branch: there is no such branch");
        return false;
    }
    if (strcmp(kind, "schedule") == 0)
        return grant_schedule(m, b);
    if (strcmp(kind, "free") == 0)
        b->live = false;
    if (strcmp(kind, "snapshot") == 0 && strcmp(b->type, "kept") != 0 &&
        strcmp(b->type, "init") != 0) {
        refuse(m, "inval", "it is not kept");
        return false;
    }
    return true;
}

/* Memory of the configuration in branches. Those who cannot be loaded end with
 * code 1 (rule E3). */
static void take_limit(const json_t *m)
{
    const json_t *config = json_object_get(m, "config");
    const json_t *limit =
        json_object_get(json_object_get(config, "memory"), "limit");

    if (json_is_integer(limit) &&
        json_integer_value(limit) / (json_int_t)sizeof(struct branch) <
            BRANCHES_MAX)
        room = (size_t)json_integer_value(limit) / sizeof(struct branch);
    if (room >= BRANCHES_LEAST)
        return;
    refuse(m, "limit", "memory.limit holds no five branches");
    zmq_close(tuner);
    sleep(1); /* what was said leaves */
    exit(1);
}

static void take_config(const json_t *m)
{
    take_limit(m);
    seed = (uint64_t)int_of(m, "seed");
    last_op = int_of(m, "op");
    branches[0] = (struct branch){.live = true, .exists = true, .type = "init"};
    say(json_pack("{s:s, s:I, s:i, s:i, s:i, s:i, s:[s,s,s], s:s, s:b, s:s, "
                  "s:f, s:i}",
                  "kind", "ready", "op", last_op, "samples", SAMPLES,
                  "validation_samples", TESTS, "parts", 0, "workers", 1,
                  "tunables", "learning_rate", "momentum", "batch_size",
                  "metric", "rmse", "metric_higher_better", 0,
                  "metric_reduction", "sqrt_mean", "loss_floor", 0.0,
                  "model_bytes", (int)sizeof(struct branch)));
}

static void take_cut(const json_t *m)
{
    for (size_t i = 0; i < waiting; i++)
        if (int_of(queue[i], "op") == int_of(m, "target") &&
            strcmp(text_of(queue[i], "kind"), "schedule") == 0) {
            if (i == 0)
                slice.cut = true;
            else /* ends with no clock run */
                json_object_set_new(queue[i], "count", json_integer(0));
        }
    if (int_of(m, "op"))
        say(json_pack("{s:s, s:I}", "kind", "done", "op", int_of(m, "op")));
}

/* Whether all members of @m that it needs are there and of their types. */
static bool has_members(const json_t *m, const char *kind)
{
    /* Kind; i: integer, s: string, o: object. */
    static const struct {
        const char *kind, *types, *name[5];
    } needed[] = {
        {"config", "i", {"seed"}},
        {"fork", "iiiso", {"op", "branch", "parent", "type", "setting"}},
        {"free", "ii", {"op", "branch"}},
        {"schedule",
         "iiiii",
         {"op", "branch", "first", "count", "report_every"}},
        {"cut", "i", {"target"}},
        {"snapshot", "iis", {"op", "branch", "path"}},
        {"restore", "iis", {"op", "branch", "path"}},
        {"save", "iis", {"op", "branch", "path"}},
        {"stop", "", {NULL}},
    };

    for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++) {
        if (!kind || strcmp(kind, needed[i].kind) != 0)
            continue;
        for (size_t k = 0; needed[i].types[k]; k++) {
            const json_t *v = json_object_get(m, needed[i].name[k]);
            char type = needed[i].types[k];

            if ((type == 'i' &&
                 (!json_is_integer(v) || json_integer_value(v) < 0)) ||
                (type == 's' && !json_is_string(v)) ||
                (type == 'o' && !json_is_object(v)))
                return false;
        }
        return strcmp(kind, "schedule") != 0 ||
               (int_of(m, "count") > 0 && int_of(m, "report_every") > 0);
    }
    return false;
}

static void take(const char *text, size_t len)
{
    json_t *m = json_loadb(text, len, 0, NULL);
    const char *kind = text_of(m, "kind");

    if (!has_members(m, kind)) {
        fprintf(stderr, "a message that is none is ignored\n");
    } else if (strcmp(kind, "config") == 0) {
        take_config(m);
    } else if (strcmp(kind, "cut") == 0) {
        take_cut(m);
    } else if (strcmp(kind, "stop") == 0) {
        if (int_of(m, "op"))
            say(json_pack("{s:s, s:I}", "kind", "done", "op", int_of(m, "op")));
        zmq_close(tuner);
        exit(0);
    } else if (grant(m, kind)) {
        last_op = int_of(m, "op");
        queue[waiting++] = json_incref(m);
        if (strcmp(kind, "fork") == 0)
            say(json_pack("{s:s, s:I, s:I}", "kind", "forked", "op", last_op,
                          "branch", int_of(m, "branch")));
    }
    json_decref(m);
}

/* ---- the connection ------------------------------------------------------ */

/* Rule E2: ends once the tuner's socket is closed for three seconds. */
static void watch_tuner(void *monitor)
{
    static double alone_since;
    uint16_t event;
    zmq_msg_t m;

    if (alone_since == 0)
        alone_since = now();
    zmq_msg_init(&m);
    while (zmq_msg_recv(&m, monitor, ZMQ_DONTWAIT) >= 0) {
        if (!zmq_msg_more(&m)) /* the address; the event came before */
            continue;
        memcpy(&event, zmq_msg_data(&m), sizeof(event));
        alone_since = event == ZMQ_EVENT_CONNECTED ? INFINITY : now();
    }
    zmq_msg_close(&m);
    if (now() - alone_since > 3)
        _exit(69);
}

int main(void)
{
    const char *endpoint = getenv("MLTUNE_TUNER");
    const char *node = getenv("MLTUNE_NODE");
    void *context = zmq_ctx_new(), *monitor;
    double beat_at = now();
    int linger = 500;

    if (!endpoint) {
        fprintf(stderr, "start me with mltune run\n");
        return 2;
    }
    make_data();
    tuner = zmq_socket(context, ZMQ_DEALER);
    zmq_setsockopt(tuner, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_socket_monitor(tuner, "inproc://monitor",
                       ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED);
    monitor = zmq_socket(context, ZMQ_PAIR);
    zmq_connect(monitor, "inproc://monitor");
    zmq_connect(tuner, endpoint);
    say(json_pack("{s:s, s:i, s:i, s:i, s:i}", "kind", "hello", "version", 1,
                  "node", node ? atoi(node) : 0, "workers", 1, "pid",
                  (int)getpid()));
    for (;;) {
        zmq_pollitem_t item = {.socket = tuner, .events = ZMQ_POLLIN};
        zmq_msg_t m;

        zmq_poll(&item, 1, waiting ? 0 : 100);
        zmq_msg_init(&m);
        while (zmq_msg_recv(&m, tuner, ZMQ_DONTWAIT) >= 0)
            take(zmq_msg_data(&m), zmq_msg_size(&m));
        zmq_msg_close(&m);
        if (waiting)
            carry_out();
        if (now() >= beat_at) {
            say(json_pack("{s:s, s:i, s:I}", "kind", "beat", "node",
                          node ? atoi(node) : 0, "clocks", (json_int_t)clocks));
            beat_at = now() + 0.5;
            watch_tuner(monitor);
        }
    }
}
