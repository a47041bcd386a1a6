#include "base/file_io.h"
#include "base/mem.h"
#include "base/run_key_io.h"
#include "ps/node/node_link_io.h"
#include "tests/unit/fixture/check.h"
#include "tuner/shell/socket_io.h"

#include <zmq.h>

#include <dlfcn.h>
#include <errno.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static char dir[64];
static struct tuner_socket tuner;
static void *context, *node;

static const char *in_dir(const char *name)
{
    static char path[FILE_PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static int make_pair(void **state)
{
    int linger = 0;

    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/mltune-test-socket-XXXXXX");
    if (!mkdtemp(dir) || socket_open(&tuner, dir, NULL) != ERR_OK)
        return -1;
    context = zmq_ctx_new();
    node = zmq_socket(context, ZMQ_DEALER);
    zmq_setsockopt(node, ZMQ_LINGER, &linger, sizeof(linger));
    return zmq_connect(node, tuner.endpoint);
}

static int remove_pair(void **state)
{
    (void)state;
    zmq_close(node);
    zmq_ctx_term(context);
    socket_close(&tuner);
    if (!folder_is_empty(dir)) /* the socket's folder went with it */
        return -1;
    return folder_remove(dir, NULL) == ERR_OK ? 0 : -1;
}

static void send_text(const char *text, int flags)
{
    assert_true(zmq_send(node, text, strlen(text), flags) >= 0);
}

/* Waits, without a clock, for the tuner's side to have something. */
static enum err receive(struct socket_peer *from, char **text, size_t *len)
{
    zmq_pollitem_t item = {.socket = tuner.router, .events = ZMQ_POLLIN};

    assert_int_equal(zmq_poll(&item, 1, -1), 1);
    return socket_receive(&tuner, from, text, len);
}

/* A message arrives with its sender, and the answer goes back to it. */
static void socket_message_and_answer(void **state)
{
    struct socket_peer from;
    char *text, back[16];
    size_t len;

    (void)state;
    send_text("hello", 0);
    assert_int_equal(receive(&from, &text, &len), ERR_OK);
    assert_int_equal(len, 5);
    assert_string_equal(text, "hello");
    mem_free(text);
    assert_int_equal(socket_send(&tuner, &from, "config", 6), ERR_OK);
    assert_int_equal(zmq_recv(node, back, sizeof(back), 0), 6);
    assert_memory_equal(back, "config", 6);
    assert_int_equal(socket_receive(&tuner, &from, &text, &len), ERR_AGAIN);
}

/* A peer that is not connected cannot be sent to. */
static void socket_unknown_peer_is_an_error(void **state)
{
    struct socket_peer nobody = {"nobody", 6}, same = nobody;

    (void)state;
    assert_int_equal(socket_send(&tuner, &nobody, "x", 1), ERR_NODE);
    assert_true(socket_peer_same(&nobody, &same));
    same.len = 5;
    assert_false(socket_peer_same(&nobody, &same));
}

/* A node that has connected. */
struct named {
    void *context, *dealer;
};

static struct named named_node(void)
{
    struct named n = {.context = zmq_ctx_new()};
    char event[6], address[256];
    void *monitor = zmq_socket(n.context, ZMQ_PAIR);

    n.dealer = zmq_socket(n.context, ZMQ_DEALER);
    assert_int_equal(zmq_setsockopt(n.dealer, ZMQ_ROUTING_ID, "node-0", 6), 0);
    assert_int_equal(zmq_socket_monitor(n.dealer, "inproc://monitor",
                                        ZMQ_EVENT_HANDSHAKE_SUCCEEDED),
                     0);
    assert_int_equal(zmq_connect(monitor, "inproc://monitor"), 0);
    assert_int_equal(zmq_connect(n.dealer, tuner.endpoint), 0);
    assert_int_equal(zmq_recv(monitor, event, sizeof(event), 0), 6);
    assert_true(zmq_recv(monitor, address, sizeof(address), 0) >= 0);
    zmq_socket_monitor(n.dealer, NULL, 0);
    zmq_close(monitor);
    return n;
}

static void say(const struct named *n, const char *text)
{
    assert_true(zmq_send(n->dealer, text, strlen(text), 0) >= 0);
}

static void named_end(struct named *n)
{
    zmq_close(n->dealer);
    zmq_ctx_term(n->context); /* once what it has said has left */
}

/* A node that comes again is heard, though its last words on the connection
 * before were not read when it came; and what is sent goes to it. */
static void socket_hears_who_comes_under_a_name_again(void **state)
{
    static const char *const said[] = {"one", "two", "three", "again"};
    struct named first = named_node(), second;
    struct socket_peer from, again = {0};
    bool heard[4] = {false};
    char *text, back[16];
    size_t len;

    (void)state;
    say(&first, said[0]);
    assert_int_equal(receive(&from, &text, &len), ERR_OK);
    assert_string_equal(text, said[0]);
    mem_free(text);
    say(&first, said[1]);
    say(&first, said[2]);
    named_end(&first);
    second = named_node();
    say(&second, said[3]);
    /* Of two connections no order is promised. */
    for (int i = 1; i < 4; i++) {
        zmq_pollitem_t item = {.socket = tuner.router, .events = ZMQ_POLLIN};
        int n = 1;

        if (zmq_poll(&item, 1, 60000) != 1)
            fail_msg("%d of 3 messages are not heard", 4 - i);
        assert_int_equal(receive(&from, &text, &len), ERR_OK);
        while (n < 3 && strcmp(text, said[n]) != 0)
            n++;
        assert_string_equal(text, said[n]);
        assert_false(heard[n]);
        heard[n] = true;
        if (n == 3)
            again = from;
        mem_free(text);
    }
    assert_int_equal(socket_send(&tuner, &again, "config", 6), ERR_OK);
    assert_int_equal(zmq_recv(second.dealer, back, sizeof(back), 0), 6);
    named_end(&second);
}

/* Two processes that both say that they are node 0, of which a tuner that was
 * killed has left one behind, are two senders. */
static void socket_tells_a_node_left_behind_from_the_new_one(void **state)
{
    struct socket_peer from[2];
    struct node_link link[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        char *text;
        size_t len;

        assert_int_equal(
            node_link_open(&link[i], tuner.endpoint, 0, false, NULL), ERR_OK);
        assert_int_equal(node_link_send(&link[i], "hello", 5), ERR_OK);
        assert_int_equal(receive(&from[i], &text, &len), ERR_OK);
        assert_string_equal(text, "hello");
        mem_free(text);
    }
    assert_false(socket_peer_same(&from[0], &from[1]));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(socket_send(&tuner, &from[i], "config", 6), ERR_OK);
        node_link_close(&link[i]);
    }
}

static bool no_memory; /* for what ZeroMQ is to send */

/* In ZeroMQ's place. */
int zmq_msg_init_size(zmq_msg_t *m, size_t size)
{
    union {
        void *found;
        int (*call)(zmq_msg_t *, size_t);
    } next = {dlsym(RTLD_NEXT, "zmq_msg_init_size")};

    if (!no_memory)
        return next.call(m, size);
    errno = ENOMEM;
    return -1;
}

/* A message that there is no memory for is not sent, nor a part of it: the next
 * one arrives. */
static void socket_message_without_memory_spoils_no_other(void **state)
{
    struct socket_peer from;
    char *text, back[16];
    size_t len;

    (void)state;
    send_text("hello", 0);
    assert_int_equal(receive(&from, &text, &len), ERR_OK);
    mem_free(text);
    no_memory = true;
    assert_int_equal(socket_send(&tuner, &from, "lost", 4), ERR_NOMEM);
    no_memory = false;
    assert_int_equal(socket_send(&tuner, &from, "config", 6), ERR_OK);
    assert_int_equal(zmq_recv(node, back, sizeof(back), 0), 6);
    assert_memory_equal(back, "config", 6);
}

/* A message of several parts is dropped whole; the next one is fine. */
static void socket_message_of_parts_is_dropped(void **state)
{
    struct socket_peer from;
    char *text;
    size_t len;

    (void)state;
    send_text("one", ZMQ_SNDMORE);
    send_text("two", ZMQ_SNDMORE);
    send_text("three", 0);
    send_text("whole", 0);
    assert_int_equal(receive(&from, &text, &len), ERR_PROTO);
    assert_int_equal(receive(&from, &text, &len), ERR_OK);
    assert_string_equal(text, "whole");
    mem_free(text);
}

/* Without memory the message is lost and said to be, nothing else. */
static void socket_without_memory_drops_the_message(void **state)
{
    struct socket_peer from;
    char *text;
    size_t len;
    int64_t before = mem_outstanding();

    (void)state;
    send_text("lost", 0);
    send_text("kept", 0);
    mem_fail_at(1, 0);
    assert_int_equal(receive(&from, &text, &len), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(mem_outstanding(), before);
    assert_int_equal(receive(&from, &text, &len), ERR_OK);
    assert_string_equal(text, "kept");
    mem_free(text);
}

/* The socket lies in a folder that only its owner may enter. */
static void socket_folder_is_private(void **state)
{
    struct stat st;

    (void)state;
    assert_int_equal(stat(tuner.folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

/* Where nothing can be opened, and no folder read, its own goes nevertheless.
 * The node's connection is there before: ZeroMQ aborts where it is to accept
 * one and has no descriptor for it.
 */
static void socket_folder_goes_without_descriptors(void **state)
{
    struct rlimit whole, none;
    struct tuner_socket other;
    struct socket_peer from;
    char folder[FILE_PATH_MAX], *text;
    size_t len;

    (void)state;
    send_text("connected", 0);
    assert_int_equal(receive(&from, &text, &len), ERR_OK);
    mem_free(text);
    assert_int_equal(folder_make(in_dir("own"), NULL), ERR_OK);
    assert_int_equal(socket_open(&other, in_dir("own"), NULL), ERR_OK);
    snprintf(folder, sizeof(folder), "%s", other.folder);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &whole), 0);
    none = (struct rlimit){3, whole.rlim_max}; /* all of which are in use */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    socket_close(&other);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &whole), 0);
    assert_int_not_equal(access(folder, F_OK), 0);
    assert_int_equal(rmdir(in_dir("own")), 0);
}

/* Where the path is too long for a Unix socket, or cannot hold one, another
 * place is found. */
static void socket_goes_elsewhere_when_it_must(void **state)
{
    char longer[FILE_PATH_MAX];
    struct tuner_socket other, third;

    (void)state;
    snprintf(longer, sizeof(longer), "%s/%0100d", dir, 0);
    assert_int_equal(folder_make(longer, NULL), 0);
    unsetenv("XDG_RUNTIME_DIR");
    assert_int_equal(socket_open(&other, longer, NULL), ERR_OK);
    assert_memory_equal(other.folder, "/tmp/mltune-", 12);
    assert_int_equal(socket_open(&third, longer, NULL), ERR_OK);
    assert_string_not_equal(third.folder, other.folder);
    socket_close(&third);
    socket_close(&other);
    assert_int_equal(socket_open(&other, "/proc/self", NULL), ERR_OK);
    socket_close(&other);
    assert_int_equal(folder_remove(longer, NULL), 0);
    socket_close(&other); /* again does nothing */
}

/* A folder of the name that a tuner without a process has left; in it @file. */
static void leave(const char *folder, const char *file)
{
    char name[64];

    assert_int_equal(folder_new(in_dir(folder), 0700, NULL), ERR_OK);
    snprintf(name, sizeof(name), "%s/%s", folder, file);
    if (*file)
        assert_int_equal(file_write(in_dir(name), "mine", 4, NULL), ERR_OK);
}

/* The folder was made two minutes ago. */
static void grow_old(const char *folder)
{
    struct timespec then[2] = {{.tv_sec = time(NULL) - 120}};

    then[1] = then[0];
    assert_int_equal(utimensat(AT_FDCWD, in_dir(folder), then, 0), 0);
}

/* The descriptor of a socket at @name; listens where @alive. */
static int put_socket(const char *name, bool alive)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_true(strlen(in_dir(name)) < sizeof(at.sun_path));
    memcpy(at.sun_path, in_dir(name), strlen(in_dir(name)) + 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    if (alive)
        assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static bool exists(const char *name)
{
    struct stat st;

    return lstat(in_dir(name), &st) == 0;
}

/* Of folders that have a tuner's name only the socket of a dead one is taken:
 * a user's own results, and what else lies there, stay. */
static void socket_sweeps_only_what_tuners_left(void **state)
{
    struct tuner_socket other;
    int alive, dead[2], met;

    (void)state;
    leave("mltune-2147483646-11", "results");
    leave("mltune-2147483645-0", "tuner"); /* a file, no socket */
    leave("mltune-2147483644-0", "");      /* not bound yet, elsewhere */
    leave("mltune-2147483643-0", "");
    leave("mltune-2147483642-0", "results");
    leave("mltune-2147483641-0", "");
    leave("mltune-2147483640-0", ""); /* killed before it was bound */
    grow_old("mltune-2147483640-0");
    dead[0] = put_socket("mltune-2147483643-0/tuner", false);
    dead[1] = put_socket("mltune-2147483642-0/tuner", false);
    leave("mltune-2147483643-0/m1", ""); /* where its nodes met */
    leave("mltune-2147483642-0/m1", "results");
    met = put_socket("mltune-2147483643-0/m1/0", false);
    close(met);
    alive = put_socket("mltune-2147483641-0/tuner", true);
    close(dead[0]);
    close(dead[1]);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", dir, 1), 0);
    assert_int_equal(socket_open(&other, "/proc/self", NULL), ERR_OK);
    assert_memory_equal(other.folder, dir, strlen(dir));
    assert_true(exists("mltune-2147483646-11/results"));
    assert_true(exists("mltune-2147483645-0/tuner"));
    assert_true(exists("mltune-2147483644-0"));
    assert_false(exists("mltune-2147483643-0"));
    assert_false(exists("mltune-2147483640-0"));
    assert_false(exists("mltune-2147483642-0/tuner"));
    assert_true(exists("mltune-2147483642-0/results"));
    assert_true(exists("mltune-2147483642-0/m1/results"));
    assert_true(exists("mltune-2147483641-0/tuner"));
    socket_close(&other);
    close(alive);
    unsetenv("XDG_RUNTIME_DIR");
    for (int i = 0; i < 7; i++) {
        char name[64];

        snprintf(name, sizeof(name), "mltune-%d-%d", 2147483640 + i,
                 i == 6 ? 11 : 0);
        assert_int_equal(folder_remove(in_dir(name), NULL), ERR_OK);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_pair, remove_pair)

/* One that is listened at by TCP is reached by who has the run's key alone, and
 * leaves no folder behind. */
static void socket_outside_asks_for_the_key(void **state)
{
    char key[RUN_KEY_LEN + 1], *text = NULL;
    struct tuner_socket outside;
    struct socket_peer from;
    struct run_key known, other;
    struct fault f = {0};
    void *friend, *stranger;
    int linger = 0;
    size_t len;

    (void)state;
    assert_int_equal(folder_make(in_dir("out"), NULL), ERR_OK);
    assert_int_equal(run_key_make(key, NULL), ERR_OK);
    assert_int_equal(run_key_read(key, &known, NULL), ERR_OK);
    if (socket_open_outside(&outside, in_dir("out"), "127.0.0.1:*", "", key, 2,
                            &f))
        fail_msg("%s", f.text);
    key[0] = key[0] == '0' ? '1' : '0';
    assert_int_equal(run_key_read(key, &other, NULL), ERR_OK);
    friend = zmq_socket(context, ZMQ_DEALER);
    stranger = zmq_socket(context, ZMQ_DEALER);
    zmq_setsockopt(friend, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(stranger, ZMQ_LINGER, &linger, sizeof(linger));
    assert_int_equal(run_key_apply(&known, friend, outside.endpoint, false, &f),
                     ERR_OK);
    assert_int_equal(
        run_key_apply(&other, stranger, outside.endpoint, false, &f), ERR_OK);
    assert_int_equal(zmq_connect(stranger, outside.endpoint), 0);
    assert_true(zmq_send(stranger, "stranger", 8, 0) >= 0);
    assert_int_equal(zmq_connect(friend, outside.endpoint), 0);
    assert_true(zmq_send(friend, "friend", 6, 0) >= 0);
    while (socket_receive(&outside, &from, &text, &len) == ERR_AGAIN) {
        zmq_pollitem_t item = {.socket = outside.router, .events = ZMQ_POLLIN};

        zmq_poll(&item, 1, -1);
    }
    assert_string_equal(text, "friend");
    mem_free(text);
    assert_int_equal(socket_send(&outside, &from, "hello", 5), ERR_OK);
    assert_int_equal(socket_receive(&outside, &from, &text, &len), ERR_AGAIN);
    zmq_close(friend);
    zmq_close(stranger);
    socket_close(&outside);
    assert_int_equal(rmdir(in_dir("out")), 0); /* nothing is left in it */
}

/* An address that is not this machine's is refused in words, and nothing is
 * left. */
static void socket_outside_refuses_foreign_addresses(void **state)
{
    char key[RUN_KEY_LEN + 1];
    struct tuner_socket outside;
    struct fault f = {0};

    (void)state;
    assert_int_equal(folder_make(in_dir("out"), NULL), ERR_OK);
    assert_int_equal(run_key_make(key, NULL), ERR_OK);
    assert_int_equal(socket_open_outside(&outside, in_dir("out"), "192.0.2.1:*",
                                         "do this", key, 1, &f),
                     ERR_IO);
    assert_non_null(strstr(f.text, "; do this"));
    assert_null(outside.router);
    assert_int_equal(socket_open_outside(&outside, in_dir("out"), "127.0.0.1:*",
                                         "", "short", 1, &f),
                     ERR_INVAL);
    assert_int_equal(rmdir(in_dir("out")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(socket_message_and_answer),
        CASE(socket_unknown_peer_is_an_error),
        CASE(socket_hears_who_comes_under_a_name_again),
        CASE(socket_tells_a_node_left_behind_from_the_new_one),
        CASE(socket_message_without_memory_spoils_no_other),
        CASE(socket_message_of_parts_is_dropped),
        CASE(socket_without_memory_drops_the_message),
        CASE(socket_folder_is_private),
        CASE(socket_folder_goes_without_descriptors),
        CASE(socket_goes_elsewhere_when_it_must),
        CASE(socket_sweeps_only_what_tuners_left),
        CASE(socket_outside_asks_for_the_key),
        CASE(socket_outside_refuses_foreign_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
