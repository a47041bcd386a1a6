/* Two node processes of one host, whose frames go through memory that both
 * have: with rings, with one node that wants none or can have none, with frames
 * that are longer than a ring, and with a node that is stopped, killed or mad.
 */
#include "base/log.h"
#include "ps/server/ps.h"
#include "ps/server/shape.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/rows_whole.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    NODES = 2,
    ROWS = 64,
    WIDE_ROWS = 4,
    WIDTH = 3,
    WIDE = 1 << 15, /* values of a row that is longer than the least ring */
    CLOCKS = 40,
    CLOCK_OF_IT = 7 /* in which something happens */
};

enum mishap { NOTHING, STOPPED, KILLED, SPOILS_COUNTERS, SPOILS_ALL };

enum { NO_NAMESPACE = 77 /* exit code: this machine lets nobody make one */ };

struct job {
    char folder[64];
    const char *consistency;
    uint32_t width;
    uint64_t rows;
    int64_t ring_bytes[NODES];
    enum mishap mishap; /* to node 1 */
    bool apart;         /* node 1 has a network of its own */
    bool makes_none;    /* node 1 has no files of the size of a ring */
    bool maps_none;     /* node 0 can map no ring */
    unsigned node;
    pid_t pid; /* of node 1 */
    bool wrong;
    struct mlt_error error;
};

static _Atomic int made, missing, unanswered;
static _Atomic bool maps_none;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 }; /* they have an mmap of their own */
#else
enum { SANITIZED = 0 };

/* In place of the C library's. */
void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (maps_none && fd >= 0 && (flags & MAP_SHARED) &&
        n > 2 * RING_BYTES_MIN) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}
#endif

static void count_lines(void *ctx, enum log_level level, const char *line)
{
    (void)ctx, (void)level;
    made += strstr(line, "ring_made ") != NULL;
    missing += strstr(line, "ring_missing ") != NULL;
    unanswered += strstr(line, "it has said nothing of it") != NULL;
}

/* Where this process has the rings. */
static bool find_rings(unsigned char **at, size_t *bytes)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    bool found = false;

    while (maps && !found && fgets(line, sizeof(line), maps)) {
        unsigned long from, to;

        found = strstr(line, "memfd:mltune-rings") &&
                sscanf(line, "%lx-%lx", &from, &to) == 2;
        if (found) {
            *at = (unsigned char *)from;
            *bytes = to - from;
        }
    }
    if (maps)
        fclose(maps);
    return found;
}

/* As another's memory is spoilt: against all rules. */
__attribute__((no_sanitize_thread)) static void spoil(bool all)
{
    unsigned char *at;
    size_t bytes;

    if (!find_rings(&at, &bytes))
        _exit(9);
    for (size_t i = 0; i < (all ? bytes : 512); i++)
        ((volatile unsigned char *)at)[i] = (unsigned char)(i * 7 + 129);
}

/* In node 1, in the middle of its work. */
static void befall(enum mishap mishap)
{
    if (mishap == KILLED)
        raise(SIGKILL);
    else if (mishap == STOPPED)
        raise(SIGSTOP);
    else if (mishap != NOTHING)
        spoil(mishap == SPOILS_ALL);
}

/* Each reads all rows and adds 1 to all; under bsp what it reads is known. */
static int work(struct mlt_worker *w, void *arg)
{
    struct job *j = arg;
    float *ones = malloc(j->width * sizeof(*ones));
    int err = 0;

    for (uint32_t i = 0; i < j->width; i++)
        ones[i] = 1;
    for (int k = 0; k < CLOCKS && !err; k++) {
        if (j->node == 1 && k == CLOCK_OF_IT)
            befall(j->mishap);
        for (uint64_t row = 0; row < j->rows && !err; row++) {
            const float *x = mlt_get_row(w, 0, row);

            err = !x;
            if (x && strcmp(j->consistency, "bsp") == 0)
                j->wrong |= x[0] != (float)(NODES * k) ||
                            x[j->width - 1] != (float)(NODES * k);
            mlt_inc_row(w, 0, row, ones);
        }
        if (!err)
            err = mlt_clock(w);
    }
    free(ones);
    return err;
}

static void check_part(struct job *j, struct mlt_ps *ps)
{
    double *x = malloc(j->width * sizeof(*x));
    unsigned parts = 0;

    for (uint64_t row = 0; row < j->rows; row++)
        if (rows_read_whole(ps, 0, "rows", row, 1, x) == ERR_OK) {
            parts++;
            for (uint32_t i = 0; i < j->width; i++)
                j->wrong |= x[i] != (double)NODES * CLOCKS;
        }
    j->wrong |= parts == 0;
    free(x);
}

/* A network in which there is nothing. */
static void leave_network(void)
{
    if (unshare(CLONE_NEWNET) != 0 &&
        unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        _exit(NO_NAMESPACE);
}

/* As under `ulimit -f`. */
static void keep_files_small(void)
{
    const struct rlimit few = {RING_BYTES_MIN, RING_BYTES_MIN};

    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &few) != 0)
        _exit(9);
}

static int be_node(struct job *j, unsigned node)
{
    struct mlt_table_options table = {.size = sizeof(table),
                                      .name = "rows",
                                      .rows = j->rows,
                                      .width = j->width,
                                      .rule = "add",
                                      .chunk_bytes = 256};
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_ps *ps = NULL;
    mlt_table index;
    int code;

    j->node = node;
    opt.workers = 1;
    opt.memory_limit = 256 << 20;
    opt.consistency = j->consistency;
    opt.nodes = NODES;
    opt.node = node;
    opt.meet = j->folder;
    opt.ring_bytes = j->ring_bytes[node];
    code = mlt_ps_new(&opt, &ps, &j->error);
    if (!code)
        code = mlt_ps_table(ps, &table, &index, &j->error);
    if (!code)
        code = mlt_ps_start(ps, &j->error);
    if (!code)
        code = mlt_ps_run(ps, work, j);
    if (!code)
        check_part(j, ps);
    mlt_ps_free(ps);
    return code;
}

/* Until it has stopped; then it goes on. */
static void *let_go_on(void *arg)
{
    const struct job *j = arg;
    int status;

    while (waitpid(j->pid, &status, WUNTRACED) == j->pid && !WIFSTOPPED(status))
        ;
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    kill(j->pid, SIGCONT);
    return NULL;
}

/* No ring, nothing that stands for one. */
static void expect_no_rings_left(const char *folder)
{
    DIR *d = opendir(folder);
    const struct dirent *e;
    char path[400];

    assert_non_null(d);
    while ((e = readdir(d))) {
        assert_null(strstr(e->d_name, "rings"));
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
            assert_int_equal(remove(path), 0);
        }
    }
    closedir(d);
    assert_int_equal(rmdir(folder), 0);
}

/* Node 0 in this process, node 1 in another. Returns what node 0's run did;
 * @status is node 1's. */
static int run_both(struct job *j, int *status)
{
    pthread_t other = 0;
    int code;

    if (!j->consistency)
        j->consistency = "bsp";
    if (!j->width)
        j->width = WIDTH;
    j->rows = j->width == WIDE ? WIDE_ROWS : ROWS;
    snprintf(j->folder, sizeof(j->folder), "/tmp/mltune-rings-XXXXXX");
    assert_non_null(mkdtemp(j->folder));
    made = missing = unanswered = 0;
    j->pid = fork();
    assert_true(j->pid >= 0);
    if (j->pid == 0) {
        if (j->apart)
            leave_network();
        if (j->makes_none)
            keep_files_small();
        code = be_node(j, 1);
        _exit(code ? 2 : j->wrong);
    }
    log_set_level(LOG_INFO);
    log_set_sink(count_lines, NULL);
    if (j->mishap == STOPPED)
        assert_int_equal(pthread_create(&other, NULL, let_go_on, j), 0);
    maps_none = j->maps_none;
    code = be_node(j, 0);
    maps_none = false;
    if (j->mishap == STOPPED)
        pthread_join(other, NULL);
    assert_int_equal(waitpid(j->pid, status, 0), j->pid);
    log_set_sink(NULL, NULL);
    log_set_level(LOG_WARN);
    expect_no_rings_left(j->folder);
    return code;
}

static void expect_good(struct job *j, int made_here, int missing_here)
{
    int status;

    assert_int_equal(run_both(j, &status), 0);
    assert_false(j->wrong);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(made, made_here);
    assert_int_equal(missing, missing_here);
    assert_int_equal(unanswered, 0);
}

/* Frames go through the ring, and every model keeps every update. */
static void comm_rings_are_the_default_on_one_host(void **state)
{
    static const char *const model[] = {"bsp", "ssp", "essp", "async"};

    (void)state;
    for (int i = 0; i < 4; i++)
        expect_good(&(struct job){.consistency = model[i]}, 1, 0);
}

static bool may_leave_network(void)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        leave_network();
        _exit(0);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

/* Sockets with a path in the folder are there from another network too, as of a
 * container that has the folder. */
static void comm_rings_cross_networks_of_one_host(void **state)
{
    (void)state;
    if (!may_leave_network())
        skip();
    expect_good(&(struct job){.apart = true}, 1, 0);
}

/* One node wants none: both say so, unless it was this one's own wish, and talk
 * through sockets. */
static void comm_without_a_ring_sockets_carry(void **state)
{
    (void)state;
    expect_good(&(struct job){.ring_bytes = {0, -1}}, 0, 1);
    expect_good(&(struct job){.ring_bytes = {-1, 0}}, 0, 0);
    expect_good(&(struct job){.ring_bytes = {-1, -1}}, 0, 0);
}

/* One that cannot be made, or not be mapped: the other learns of it at once,
 * and does not wait for what never comes. */
static void comm_ring_that_cannot_be_is_done_without(void **state)
{
    (void)state;
    expect_good(&(struct job){.makes_none = true}, 0, 1);
    if (!SANITIZED)
        expect_good(&(struct job){.maps_none = true}, 0, 1);
}

/* A row that is longer than the ring passes in parts. */
static void comm_frame_longer_than_the_ring_passes(void **state)
{
    static const char *const model[] = {"bsp", "async"};

    (void)state;
    for (int i = 0; i < 2; i++)
        expect_good(&(struct job){.consistency = model[i],
                                  .width = WIDE,
                                  .ring_bytes = {64 << 10, 64 << 10}},
                    1, 0);
}

/* A size that cannot be is refused where it is said. */
static void comm_ring_size_has_bounds(void **state)
{
    static const int64_t bytes[] = {-2, 1, (64 << 10) - 1, (64 << 20) + 1};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct mlt_ps_options opt = MLT_PS_OPTIONS;
        struct mlt_ps *ps = NULL;
        struct mlt_error err;

        opt.ring_bytes = bytes[i];
        assert_int_equal(mlt_ps_new(&opt, &ps, &err), ERR_INVAL);
        assert_non_null(strstr(err.text, "rings of"));
    }
}

/* A node that stands still for a while is waited for. */
static void comm_node_that_stops_is_waited_for(void **state)
{
    (void)state;
    expect_good(&(struct job){.mishap = STOPPED}, 1, 0);
    expect_good(&(struct job){.mishap = STOPPED, .width = WIDE}, 1, 0);
}

/* A node that is killed ends the other's waits, and leaves nothing. */
static void comm_node_that_is_killed_is_gone(void **state)
{
    static const char *const model[] = {"bsp", "bsp", "ssp", "async"};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct job j = {.consistency = model[i],
                        .mishap = KILLED,
                        .width = i % 2 ? WIDE : WIDTH};
        int status;

        assert_int_equal(run_both(&j, &status), ERR_NODE);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(made, 1);
    }
}

/* A node that writes whatever into the memory that it shares can break the run,
 * no more: the other ends it, with words. */
static void comm_node_that_spoils_the_ring_breaks_the_run(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct job j = {.mishap = i ? SPOILS_ALL : SPOILS_COUNTERS};
        int status;

        assert_int_equal(run_both(&j, &status), ERR_NODE);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comm_rings_are_the_default_on_one_host),
        cmocka_unit_test(comm_rings_cross_networks_of_one_host),
        cmocka_unit_test(comm_without_a_ring_sockets_carry),
        cmocka_unit_test(comm_ring_that_cannot_be_is_done_without),
        cmocka_unit_test(comm_frame_longer_than_the_ring_passes),
        cmocka_unit_test(comm_ring_size_has_bounds),
        cmocka_unit_test(comm_node_that_stops_is_waited_for),
        cmocka_unit_test(comm_node_that_is_killed_is_gone),
        cmocka_unit_test(comm_node_that_spoils_the_ring_breaks_the_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
