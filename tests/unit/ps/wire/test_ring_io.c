/* Rings offered and taken: two ends in this process, over real sockets and
 * memory without a name. */
#include "ps/wire/ring_io.h"

#include "tests/unit/fixture/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { RUN = 0xabc, SIZE = RING_BYTES_MIN, FDS_MAX = 64 };

struct place {
    char folder[64], endpoint[128], path[128];
    int fd, fds; /* listening; open before */
};

static int open_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < FDS_MAX; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void open_place(struct place *p)
{
    snprintf(p->folder, sizeof(p->folder), "/tmp/mltune-ring-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->endpoint, sizeof(p->endpoint), "ipc://%s/node-0.socket",
             p->folder);
    snprintf(p->path, sizeof(p->path), "%s/node-0.rings", p->folder);
    p->fds = open_fds();
    assert_int_equal(ring_listen(p->endpoint, &p->fd, NULL), ERR_OK);
    assert_int_equal(access(p->path, F_OK), 0);
}

/* Nothing is left: no file, no descriptor. */
static void close_place(struct place *p)
{
    ring_stop_listening(p->endpoint, &p->fd);
    assert_int_equal(p->fd, -1);
    assert_int_equal(open_fds(), p->fds);
    assert_int_equal(rmdir(p->folder), 0);
}

static void send_one(struct ring *r, const char *text)
{
    assert_int_equal(ring_write(r, text, strlen(text)), strlen(text));
}

static void expect_one(struct ring *r, const char *text)
{
    char got[64] = "";

    assert_int_equal(ring_read(r, got, sizeof(got)), strlen(text));
    assert_string_equal(got, text);
}

/* What is offered is taken, said so, and carries bytes both ways; each end
 * wakes the other. */
static void ring_offer_is_taken(void **state)
{
    const struct ring_offer offer = {
        .run = RUN, .from = 1, .to = 0, .size = SIZE};
    struct ring_pair a = {0}, b = {0};
    struct ring_offer o;
    struct place p;

    (void)state;
    open_place(&p);
    assert_int_equal(ring_take_offer(p.fd, RUN, 0, &o, &b, NULL), ERR_AGAIN);
    assert_int_equal(ring_offer(&offer, p.endpoint, &a, NULL), ERR_OK);
    assert_false(ring_pair_heard(&a));
    assert_int_equal(ring_take_offer(p.fd, RUN, 0, &o, &b, NULL), ERR_OK);
    assert_int_equal(o.from, 1);
    assert_true(ring_pair_heard(&a));
    assert_false(ring_pair_heard(&a));
    send_one(&a.out, "there");
    expect_one(&b.in, "there");
    send_one(&b.out, "and back");
    expect_one(&a.in, "and back");
    ring_pair_wake(&b);
    assert_false(ring_pair_heard(&a));
    assert_true(a.bell >= 0);
    /* What was written stays readable when its writer is gone. */
    send_one(&b.out, "last");
    ring_pair_close(&b);
    assert_false(ring_pair_heard(&a));
    assert_int_equal(a.bell, -1);
    ring_pair_wake(&a);
    expect_one(&a.in, "last");
    ring_pair_close(&a);
    close_place(&p);
}

/* Who offers none says so; of another run, for another node, of a size that
 * cannot be: turned away, and who offered sees it. */
static void ring_offer_that_is_none_is_turned_away(void **state)
{
    const struct ring_offer offer[] = {
        {.run = RUN + 1, .from = 1, .to = 0, .size = SIZE},
        {.run = RUN, .from = 1, .to = 2, .size = SIZE},
    };
    const struct ring_offer none = {.run = RUN, .from = 1, .to = 0};
    struct ring_pair a = {0}, b = {0};
    struct fault f = {0};
    struct ring_offer o;
    struct place p;

    (void)state;
    open_place(&p);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ring_offer(&offer[i], p.endpoint, &a, NULL), ERR_OK);
        assert_int_equal(ring_take_offer(p.fd, RUN, 0, &o, &b, &f), ERR_PROTO);
        assert_null(b.map);
        assert_false(ring_pair_heard(&a));
        assert_int_equal(a.bell, -1);
        ring_pair_close(&a);
    }
    assert_int_equal(ring_offer(&none, p.endpoint, &a, NULL), ERR_OK);
    assert_null(a.map);
    assert_int_equal(ring_take_offer(p.fd, RUN, 0, &o, &b, NULL), ERR_OK);
    assert_int_equal(o.from, 1);
    assert_null(b.map);
    close_place(&p);
}

/* Nobody there, another kind of endpoint, a path that is taken. */
static void ring_without_a_listener_is_told(void **state)
{
    const struct ring_offer offer = {
        .run = RUN, .from = 1, .to = 0, .size = SIZE};
    struct ring_pair a = {0};
    struct fault f = {0};
    struct place p;
    int other;

    (void)state;
    open_place(&p);
    assert_int_equal(ring_listen(p.endpoint, &other, &f), ERR_IO);
    assert_int_equal(other, -1);
    assert_int_equal(ring_listen("tcp://127.0.0.1:7", &other, &f),
                     ERR_UNSUPPORTED);
    ring_stop_listening(p.endpoint, &p.fd);
    assert_int_equal(ring_offer(&offer, p.endpoint, &a, &f), ERR_UNSUPPORTED);
    assert_int_equal(ring_offer(&offer, "tcp://127.0.0.1:7", &a, &f),
                     ERR_UNSUPPORTED);
    assert_null(a.map);
    close_place(&p);
}

/* A queue that is full is told apart: the offer may be made again. */
static void ring_offer_to_a_full_queue_is_made_again(void **state)
{
    const struct ring_offer none = {.run = RUN, .from = 1, .to = 0};
    struct ring_pair a = {0}, b = {0};
    enum err err = ERR_OK;
    struct ring_offer o;
    struct place p;

    (void)state;
    open_place(&p);
    for (int i = 0; i < 100000 && !err; i++)
        err = ring_offer(&none, p.endpoint, &a, NULL);
    assert_int_equal(err, ERR_AGAIN);
    while (ring_take_offer(p.fd, RUN, 0, &o, &b, NULL) == ERR_OK)
        ;
    assert_int_equal(ring_offer(&none, p.endpoint, &a, NULL), ERR_OK);
    close_place(&p);
}

/* As ring_offer sends it, but with memory of one's own. */
static void offer_memory(const char *path, int memory, uint64_t size)
{
    struct {
        uint64_t magic;
        struct ring_offer offer;
    } text = {UINT64_C(0x31474e49524c544d),
              {.run = RUN, .from = 1, .to = 0, .size = size}};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {.bytes = {0}};
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct iovec part = {&text, sizeof(text)};
    struct msghdr m = {.msg_name = &to,
                       .msg_namelen = sizeof(to),
                       .msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&m);
    int fds[2] = {memory, memory};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(head), fds, sizeof(fds));
    assert_int_equal(sendmsg(fd, &m, 0), sizeof(text));
    close(fd);
}

/* Memory that its owner could take away, or that is smaller than said, is not
 * mapped: reading it could kill. */
static void ring_memory_that_may_shrink_is_turned_away(void **state)
{
    struct ring_pair b = {0};
    struct fault f = {0};
    struct ring_offer o;
    struct place p;
    int memory;

    (void)state;
    open_place(&p);
    memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(memory, 4096 + 2 * SIZE), 0);
    offer_memory(p.path, memory, SIZE);
    assert_int_equal(ring_take_offer(p.fd, RUN, 0, &o, &b, &f), ERR_PROTO);
    assert_int_equal(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    offer_memory(p.path, memory, 2 * SIZE);
    assert_int_equal(ring_take_offer(p.fd, RUN, 0, &o, &b, &f), ERR_PROTO);
    offer_memory(p.path, memory, SIZE - 1);
    assert_int_equal(ring_take_offer(p.fd, RUN, 0, &o, &b, &f), ERR_PROTO);
    assert_null(b.map);
    close(memory);
    close_place(&p);
}

/* Memory that lets nobody write is not mapped. Who offered it is known. */
static void ring_that_cannot_be_mapped_is_turned_away(void **state)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_WRITE;
    struct ring_pair b = {0};
    struct fault f = {0};
    struct ring_offer o;
    struct place p;
    int memory;

    (void)state;
    open_place(&p);
    memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(memory, 4096 + 2 * SIZE), 0);
    assert_int_equal(fcntl(memory, F_ADD_SEALS, seals), 0);
    offer_memory(p.path, memory, SIZE);
    assert_int_equal(ring_take_offer(p.fd, RUN, 0, &o, &b, &f), ERR_NOMEM);
    assert_int_equal(o.from, 1);
    assert_null(b.map);
    assert_non_null(strstr(f.text, "map a ring"));
    close(memory);
    close_place(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_offer_is_taken),
        cmocka_unit_test(ring_offer_that_is_none_is_turned_away),
        cmocka_unit_test(ring_without_a_listener_is_told),
        cmocka_unit_test(ring_offer_to_a_full_queue_is_made_again),
        cmocka_unit_test(ring_memory_that_may_shrink_is_turned_away),
        cmocka_unit_test(ring_that_cannot_be_mapped_is_turned_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
