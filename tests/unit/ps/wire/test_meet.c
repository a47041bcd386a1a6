/* Nodes that find each other at an address: what they say, in whatever order
 * they are started, and what they are told when somebody is missing. */
#include "tests/fuzz/fuzz_meet.c"

#include "ps/wire/meet_io.h"

#include <zmq.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"

enum { THREADS_MAX = 4, PLACE_BYTES = 64 };

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* ---- messages ------------------------------------------------------------ */

/* Good messages are taken and bad ones refused, as their names say. */
static void meet_corpus_replays_clean(void **state)
{
    DIR *dir = opendir("tests/fuzz/corpus/meet");
    struct dirent *entry;
    int files = 0;

    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        struct meet_node node[NODES] = {{0}};
        struct fault fault = {0};
        struct meet_report r;
        char path[512], text[2048];
        uint64_t run;
        bool taken;
        size_t n;
        FILE *f;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "tests/fuzz/corpus/meet/%s",
                 entry->d_name);
        f = fopen(path, "rb");
        assert_non_null(f);
        n = fread(text, 1, sizeof(text), f);
        fclose(f);
        LLVMFuzzerTestOneInput((const uint8_t *)text, n);
        taken = meet_report_read(text, n, &r, &fault) == ERR_OK ||
                meet_answer_read(text, n, NODES, &run, node, &fault) == ERR_OK;
        if (strncmp(entry->d_name, "bad-", 4) == 0 && taken)
            fail_msg("%s was taken", entry->d_name);
        if (strncmp(entry->d_name, "report", 6) == 0 && !taken)
            fail_msg("%s was refused: %s", entry->d_name, fault.text);
        files++;
    }
    closedir(dir);
    assert_true(files > 10);
}

/* A report again is no fault; another node of that number is. */
static void meet_two_of_a_number_are_told_apart(void **state)
{
    struct meet_report r = {1, 2, 5, "tcp://10.0.0.2:7"};
    struct meet_node node[2] = {{1, "tcp://10.0.0.1:7"}};
    struct fault f = {0};
    char names[32];

    (void)state;
    assert_int_equal(meet_missing(2, node, names, sizeof(names)), 1);
    assert_string_equal(names, "1");
    assert_int_equal(meet_take(&r, 2, node, &f), ERR_OK);
    assert_int_equal(meet_take(&r, 2, node, &f), ERR_OK);
    assert_int_equal(meet_missing(2, node, names, sizeof(names)), 0);
    r.number = 6;
    assert_int_equal(meet_take(&r, 2, node, &f), ERR_EXIST);
    assert_non_null(strstr(f.text, "node 1 is there already"));
    assert_true(node[1].number == 5);
    r.nodes = 3;
    assert_int_equal(meet_take(&r, 2, node, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "for 3 nodes, node 0 for 2"));
}

/* Every failing allocation leaves nothing behind. */
static void meet_out_of_memory_is_told(void **state)
{
    struct meet_node node[2] = {{1, "a"}, {2, "b"}};
    struct meet_report r = {1, 2, 5, "a"};

    (void)state;
    mem_fail_at(1, 0);
    assert_null(meet_report_write(&r));
    mem_fail_at(1, 0);
    assert_null(meet_answer_write(1, 2, node));
    mem_fail_at(1, 0);
    assert_null(meet_refusal_write("no"));
    mem_fail_at(0, 0);
}

/* ---- sockets ------------------------------------------------------------- */

struct member {
    const char *place, *listen;
    uint32_t node, nodes;
    double timeout_s;
    enum err err;
    struct fault fault;
    uint64_t run;
    char endpoint[THREADS_MAX][MEET_ENDPOINT_MAX];
    pthread_t thread;
};

static void *member_main(void *arg)
{
    struct member *b = arg;
    void *context = zmq_ctx_new(), *pull = zmq_socket(context, ZMQ_PULL);
    struct meet m = {0};

    b->err =
        meet_open(&m, pull, b->place, b->listen, b->node, b->nodes, &b->fault);
    if (!b->err)
        b->err = meet_wait(&m, b->timeout_s, &b->fault);
    if (!b->err) {
        b->run = m.run;
        for (uint32_t i = 0; i < b->nodes; i++)
            memcpy(b->endpoint[i], m.peer[i].endpoint, MEET_ENDPOINT_MAX);
    }
    meet_close(&m);
    zmq_close(pull);
    zmq_ctx_term(context);
    return NULL;
}

static void start(struct member *b)
{
    assert_int_equal(pthread_create(&b->thread, NULL, member_main, b), 0);
}

static void stop(struct member *b)
{
    pthread_join(b->thread, NULL);
}

/* A port that nobody has, below those that the system gives to others. */
static void find_place(char place[PLACE_BYTES])
{
    static unsigned tries;
    struct sockaddr_in a = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM, 0), bound;

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    do {
        unsigned port = 20000 + ((unsigned)getpid() + tries++ * 17) % 12000;

        a.sin_port = htons((uint16_t)port);
        bound = bind(fd, (struct sockaddr *)&a, sizeof(a));
    } while (bound != 0);
    close(fd);
    snprintf(place, PLACE_BYTES, "tcp://127.0.0.1:%u", ntohs(a.sin_port));
}

/* Node 0 last; one that lets its host open: all know where all listen, and all
 * have the same number of the run. */
static void meet_address_in_any_order(void **state)
{
    const struct timespec moment = {.tv_nsec = 20000000};
    struct member b[3] = {{0}};
    char place[PLACE_BYTES];

    (void)state;
    find_place(place);
    setenv("MLTUNE_KEY", KEY, 1); /* "*" is outside */
    for (uint32_t i = 3; i-- > 0;) {
        b[i] = (struct member){
            .place = place, .node = i, .nodes = 3, .timeout_s = 60};
        if (i == 1)
            b[i].listen = "tcp://*:*";
        start(&b[i]);
        nanosleep(&moment, NULL);
    }
    for (uint32_t i = 0; i < 3; i++)
        stop(&b[i]);
    unsetenv("MLTUNE_KEY");
    for (uint32_t i = 0; i < 3; i++) {
        if (b[i].err)
            fail_msg("node %u: %s", i, b[i].fault.text);
        assert_true(b[i].run == b[0].run);
        for (uint32_t k = 0; k < 3; k++) {
            assert_string_equal(b[i].endpoint[k], b[0].endpoint[k]);
            assert_int_equal(strncmp(b[i].endpoint[k], "tcp://127.0.0.1:", 16),
                             0);
        }
    }
}

/* A node that waits at node 0 is told by it who did not come, by number. */
static void meet_address_names_who_is_missing(void **state)
{
    struct member zero, one;
    char place[PLACE_BYTES];

    (void)state;
    find_place(place);
    zero = (struct member){.place = place, .nodes = 4, .timeout_s = 1};
    one =
        (struct member){.place = place, .node = 1, .nodes = 4, .timeout_s = 60};
    start(&one);
    start(&zero);
    stop(&zero);
    assert_int_equal(zero.err, ERR_NODE);
    assert_non_null(strstr(zero.fault.text, "of 4 are missing ("));
    assert_non_null(strstr(zero.fault.text, "2, 3); start every node"));
    /* On a slow machine it came when node 0 had gone. */
    if (strstr(zero.fault.text, "2 of 4")) {
        stop(&one);
        assert_int_equal(one.err, ERR_NODE);
        assert_non_null(strstr(one.fault.text, "missing (2, 3)"));
    } else {
        zero = (struct member){.place = place, .nodes = 4, .timeout_s = 20};
        start(&zero);
        stop(&zero);
        stop(&one);
        assert_int_equal(one.err, ERR_NODE);
    }
}

/* Without node 0, or at another address than it has. */
static void meet_address_without_node_0_is_told(void **state)
{
    struct member one;
    char place[PLACE_BYTES];

    (void)state;
    find_place(place);
    one = (struct member){
        .place = place, .node = 1, .nodes = 2, .timeout_s = 0.05};
    start(&one);
    stop(&one);
    assert_int_equal(one.err, ERR_NODE);
    assert_non_null(strstr(one.fault.text, "for node 0 at tcp://127.0.0.1"));
}

/* Strangers without the key, or with another, cannot say that they are node 1:
 * the node itself can, and all meet. */
static void meet_with_a_key_takes_no_stranger(void **state)
{
    static const char report[] = "mltune-meet 1 report 1 2 00000000deadbeef "
                                 "tcp://127.0.0.1:9";
    const struct timespec moment = {.tv_nsec = 300000000};
    struct member zero, one;
    struct run_key wrong;
    char place[PLACE_BYTES];
    void *context = zmq_ctx_new(), *socket[2];
    int none = 0;

    (void)state;
    find_place(place);
    setenv("MLTUNE_KEY",
           "ffffffffffffffffffffffffffffffff"
           "ffffffffffffffffffffffffffffffff",
           1);
    assert_int_equal(run_key_find(&wrong, NULL), ERR_OK);
    setenv("MLTUNE_KEY", KEY, 1);
    zero = (struct member){.place = place, .nodes = 2, .timeout_s = 60};
    one =
        (struct member){.place = place, .node = 1, .nodes = 2, .timeout_s = 60};
    for (int i = 0; i < 2; i++) {
        socket[i] = zmq_socket(context, ZMQ_DEALER);
        zmq_setsockopt(socket[i], ZMQ_LINGER, &none, sizeof(none));
        if (i == 1)
            assert_int_equal(
                run_key_apply(&wrong, socket[i], place, false, NULL), ERR_OK);
        zmq_connect(socket[i], place);
        zmq_send(socket[i], report, strlen(report), 0);
    }
    start(&zero);
    nanosleep(&moment, NULL);
    start(&one);
    stop(&one);
    stop(&zero);
    for (int i = 0; i < 2; i++)
        zmq_close(socket[i]);
    zmq_ctx_term(context);
    unsetenv("MLTUNE_KEY");
    if (zero.err || one.err)
        fail_msg("%s; %s", zero.fault.text, one.fault.text);
    assert_true(zero.run == one.run);
    assert_string_not_equal(zero.endpoint[1], "tcp://127.0.0.1:9");
}

/* What other machines reach is not bound without a key, nor with a key that is
 * none; words say what to do. */
static void meet_outside_needs_a_key(void **state)
{
    struct member b = {.place = "tcp://127.0.0.1:7000",
                       .listen = "tcp://*:*",
                       .nodes = 2,
                       .timeout_s = 1};

    (void)state;
    start(&b);
    stop(&b);
    assert_int_equal(b.err, ERR_UNSUPPORTED);
    assert_non_null(strstr(b.fault.text, "MLTUNE_KEY_FILE"));
    setenv("MLTUNE_KEY", "secret", 1);
    start(&b);
    stop(&b);
    unsetenv("MLTUNE_KEY");
    assert_int_equal(b.err, ERR_INVAL);
    assert_non_null(strstr(b.fault.text, "64 hexadecimal digits"));
}

/* Two nodes of one number: the second is refused and the first goes on; so is
 * one that counts other nodes. Bytes that are no report harm nobody. */
static void meet_address_refuses_whom_it_has(void **state)
{
    struct member zero, b[4];
    char place[PLACE_BYTES];
    void *context, *socket;
    int refused = 0, none = 0;

    (void)state;
    find_place(place);
    zero = (struct member){.place = place, .nodes = 3, .timeout_s = 60};
    start(&zero);
    context = zmq_ctx_new();
    socket = zmq_socket(context, ZMQ_DEALER);
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof(none));
    assert_int_equal(zmq_connect(socket, place), 0);
    assert_int_equal(zmq_send(socket, "rubbish", 7, 0), 7);
    assert_int_equal(zmq_send(socket, "two", 3, ZMQ_SNDMORE), 3);
    assert_int_equal(zmq_send(socket, "parts", 5, 0), 5);
    for (int i = 0; i < 3; i++) {
        b[i] = (struct member){
            .place = place, .node = 1, .nodes = 3, .timeout_s = 60};
        b[i].nodes += i == 2; /* and another number of nodes */
        start(&b[i]);
    }
    stop(&b[2]);
    assert_int_equal(b[2].err, ERR_NODE);
    assert_non_null(strstr(b[2].fault.text, "for 4 nodes, node 0 for 3"));
    b[3] =
        (struct member){.place = place, .node = 2, .nodes = 3, .timeout_s = 60};
    while (!refused) { /* one of the two is */
        const struct timespec moment = {.tv_nsec = 1000000};

        nanosleep(&moment, NULL);
        for (int i = 0; i < 2; i++)
            if (pthread_tryjoin_np(b[i].thread, NULL) == 0)
                refused = i + 1;
    }
    assert_int_equal(b[refused - 1].err, ERR_NODE);
    assert_non_null(
        strstr(b[refused - 1].fault.text, "node 1 is there already"));
    start(&b[3]);
    stop(&b[2 - refused]);
    stop(&b[3]);
    stop(&zero);
    assert_int_equal(zero.err, ERR_OK);
    assert_int_equal(b[2 - refused].err, ERR_OK);
    assert_int_equal(b[3].err, ERR_OK);
    zmq_close(socket);
    zmq_ctx_term(context);
}

/* By a name that the machine knows of itself; all are told an address. */
static void meet_address_by_name(void **state)
{
    struct member b[2];
    char number[PLACE_BYTES], place[PLACE_BYTES];

    (void)state;
    find_place(number);
    snprintf(place, sizeof(place), "tcp://localhost:%s",
             strrchr(number, ':') + 1);
    for (uint32_t i = 0; i < 2; i++) {
        b[i] = (struct member){
            .place = place, .node = i, .nodes = 2, .timeout_s = 60};
        start(&b[i]);
    }
    for (uint32_t i = 0; i < 2; i++)
        stop(&b[i]);
    for (uint32_t i = 0; i < 2; i++) {
        if (b[i].err)
            fail_msg("node %u: %s", i, b[i].fault.text);
        assert_int_equal(strncmp(b[0].endpoint[i], "tcp://127.0.0.1:", 16), 0);
    }
}

/* Whichever allocation of node 0 fails, it says so and does not go on alone;
 * who has reported is told. */
static void meet_address_without_memory_is_told(void **state)
{
    static const char report[] =
        "mltune-meet 1 report 1 2 0123456789abcdef tcp://127.0.0.1:9";
    enum err err = ERR_NOMEM;
    bool told = false;

    (void)state;
    for (int64_t n = 1; err; n++) {
        struct member zero = {.nodes = 2, .timeout_s = 60};
        void *context = zmq_ctx_new(), *one = zmq_socket(context, ZMQ_DEALER);
        char place[PLACE_BYTES], text[1024];
        int none = 0, got;

        find_place(place);
        zero.place = place;
        zmq_setsockopt(one, ZMQ_LINGER, &none, sizeof(none));
        assert_int_equal(zmq_connect(one, place), 0);
        assert_int_equal(zmq_send(one, report, strlen(report), 0),
                         (int)strlen(report));
        mem_fail_at(n, 0);
        start(&zero);
        stop(&zero);
        mem_fail_at(0, 0);
        err = zero.err;
        assert_true(!err || err == ERR_NOMEM);
        if (err && strstr(zero.fault.text, "no memory to meet 2 nodes")) {
            zmq_pollitem_t item = {.socket = one, .events = ZMQ_POLLIN};

            if (strncmp(zero.fault.text, "node 0 has", 10) == 0) {
                assert_int_equal(zmq_poll(&item, 1, 60000), 1);
                got = zmq_recv(one, text, sizeof(text), 0);
                told = got > 0 && memmem(text, (size_t)got, "refused", 7);
            }
        }
        zmq_close(one);
        zmq_ctx_term(context);
    }
    assert_true(told);
}

static void expect_open_fails(const char *place, const char *listen,
                              enum err err, const char *words)
{
    struct member b = {.place = place, .listen = listen, .nodes = 2};

    start(&b);
    stop(&b);
    assert_int_equal(b.err, err);
    if (!strstr(b.fault.text, words))
        fail_msg("\"%s\" does not say: %s", b.fault.text, words);
}

/* A text that is no address, an address of another machine, a port in use. */
static void meet_bad_address_is_told(void **state)
{
    void *context = zmq_ctx_new(), *taken = zmq_socket(context, ZMQ_PULL);
    char place[PLACE_BYTES];
    size_t size = sizeof(place);

    (void)state;
    setenv("MLTUNE_KEY", KEY, 1);
    expect_open_fails("tcp://127.0.0.1", NULL, ERR_INVAL,
                      "expected tcp://HOST:PORT");
    expect_open_fails("tcp://*:7000", NULL, ERR_INVAL,
                      "expected tcp://HOST:PORT");
    expect_open_fails("http://127.0.0.1:80", NULL, ERR_INVAL,
                      "expected tcp://HOST:PORT");
    expect_open_fails("tcp://999.1.1.1:7000", NULL, ERR_INVAL,
                      "tcp://999.1.1.1:7000");
    /* As a name that is loopback on its own machine, as Debian has it. */
    expect_open_fails("tcp://0x7f000101:7000", NULL, ERR_INVAL,
                      "0x7f000101 is a loopback address on this machine");
    expect_open_fails("tcp://127.0.0.1:7000", "tcp://192.0.2.1:*", ERR_IO,
                      "node 0 cannot listen at tcp://192.0.2.1:*");
    assert_int_equal(zmq_bind(taken, "tcp://127.0.0.1:*"), 0);
    zmq_getsockopt(taken, ZMQ_LAST_ENDPOINT, place, &size);
    expect_open_fails(place, NULL, ERR_IO, "Address already in use");
    zmq_close(taken);
    zmq_ctx_term(context);
    /* In a folder nobody could make out where that is. */
    expect_open_fails("/nowhere", "tcp://*:*", ERR_INVAL,
                      "name this machine's");
    unsetenv("MLTUNE_KEY");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meet_corpus_replays_clean),
        cmocka_unit_test(meet_two_of_a_number_are_told_apart),
        cmocka_unit_test(meet_out_of_memory_is_told),
        cmocka_unit_test(meet_address_in_any_order),
        cmocka_unit_test(meet_address_names_who_is_missing),
        cmocka_unit_test(meet_address_without_node_0_is_told),
        cmocka_unit_test(meet_address_refuses_whom_it_has),
        cmocka_unit_test(meet_with_a_key_takes_no_stranger),
        cmocka_unit_test(meet_outside_needs_a_key),
        cmocka_unit_test(meet_address_by_name),
        cmocka_unit_test(meet_address_without_memory_is_told),
        cmocka_unit_test(meet_bad_address_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
