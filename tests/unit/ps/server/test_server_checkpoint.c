/* Checkpoints of several nodes, each in a thread of this process: written while
 * training goes on, restored onto other numbers of nodes. */
#include "ps/disk/backup_io.h"
#include "ps/disk/check_io.h"
#include "ps/server/core.h"
#include "ps/server/peers.h"
#include "ps/server/rows.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"

enum { NODES_MAX = 4, ROWS = 700, WIDTH = 5, ROW_BYTES = 2 * WIDTH * 4 };
enum { WEIGHTS, USERS, CURSOR };

struct cluster;

struct node {
    struct cluster *cluster;
    unsigned number;
    struct mlt_ps *ps;
    int code;
    struct mlt_error error;
};

struct cluster {
    unsigned nodes, workers;
    unsigned placed; /* 0: no; else which of the placements */
    const char *dir; /* of the checkpoint */
    int (*program)(struct node *n);
    char meet[64];
    pthread_barrier_t opened; /* a node that is refused ends at once: not before
                               * all have started */
    struct node node[NODES_MAX];
    /* Each node its rows: values and slots. */
    unsigned char weights[ROWS * ROW_BYTES], users[ROWS * ROW_BYTES];
    int32_t cursor[NODES_MAX];
};

static char folder[64];

static const char *in_folder(const char *name)
{
    static _Thread_local char path[2][128];
    static _Thread_local int next;

    next = !next;
    snprintf(path[next], sizeof(path[next]), "%s/%s", folder, name);
    return path[next];
}

/* ---- the nodes ----------------------------------------------------------- */

static int declare(struct mlt_ps *ps, const char *name, enum mlt_type type,
                   enum mlt_access access, unsigned flags)
{
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = name,
                                    .rows = access == MLT_LOCAL ? 1 : ROWS,
                                    .width = access == MLT_LOCAL ? 1 : WIDTH,
                                    .type = type,
                                    .access = access,
                                    .rule = access == MLT_EXCLUSIVE ? "adagrad"
                                                                    : NULL,
                                    .flags = flags,
                                    .chunk_bytes = 512};
    mlt_table t;

    return mlt_ps_table(ps, &opt, &t, NULL);
}

/* Rows are said to be touched by the one or the other, so that they lie there.
 */
static int expect_rows(struct node *n)
{
    const struct cluster *c = n->cluster;
    unsigned workers = c->nodes * c->workers;
    int code = 0;

    for (uint64_t r = 0; r < ROWS && !code; r++)
        code =
            mlt_ps_expect(n->ps, WEIGHTS, (unsigned)(r / c->placed % workers),
                          0, MLT_READS | MLT_UPDATES, 1, &r);
    return code;
}

static int open_node(struct node *n)
{
    const struct cluster *c = n->cluster;
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    int code;

    opt.workers = c->workers;
    opt.memory_limit = 64 << 20;
    opt.learning_rate = 0.1;
    opt.momentum = 0.5;
    opt.nodes = c->nodes;
    opt.node = n->number;
    opt.meet = c->meet;
    opt.access = c->placed ? "place" : NULL;
    code = mlt_ps_new(&opt, &n->ps, &n->error);
    if (!code)
        code = declare(n->ps, "weights", MLT_F32, MLT_SHARED, 0) |
               declare(n->ps, "users", MLT_F32, MLT_EXCLUSIVE, 0) |
               declare(n->ps, "cursor", MLT_I32, MLT_LOCAL, MLT_ALIKE);
    if (!code && c->placed)
        code = expect_rows(n);
    if (!code)
        code = mlt_ps_start(n->ps, &n->error);
    if (!code && (ps_shape(n->ps)->table[WEIGHTS].placed != 0) !=
                     (c->placed && c->nodes > 1))
        code = ERR_APP; /* nothing would be tested */
    return code;
}

static void *node_main(void *arg)
{
    struct node *n = arg;

    n->code = open_node(n);
    pthread_barrier_wait(&n->cluster->opened);
    if (!n->code)
        n->code = n->cluster->program(n);
    mlt_ps_free(n->ps);
    n->ps = NULL;
    return NULL;
}

static void run_cluster(struct cluster *c, unsigned nodes, unsigned workers,
                        int (*program)(struct node *n), const char *dir)
{
    pthread_t thread[NODES_MAX];

    c->nodes = nodes;
    c->workers = workers;
    c->program = program;
    c->dir = dir;
    snprintf(c->meet, sizeof(c->meet), "/tmp/mltune-meet-XXXXXX");
    assert_non_null(mkdtemp(c->meet));
    pthread_barrier_init(&c->opened, NULL, nodes);
    for (unsigned i = 0; i < nodes; i++) {
        c->node[i] = (struct node){.cluster = c, .number = i};
        assert_int_equal(
            pthread_create(&thread[i], NULL, node_main, &c->node[i]), 0);
    }
    for (unsigned i = 0; i < nodes; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&c->opened);
    assert_int_equal(rmdir(c->meet), 0);
}

static void expect_codes(const struct cluster *c, int code)
{
    for (unsigned i = 0; i < c->nodes; i++)
        if (c->node[i].code != code)
            fail_msg("node %u: %s (%s)", i, mlt_error_text(c->node[i].code),
                     c->node[i].error.text);
}

/* ---- work ---------------------------------------------------------------- */

static float noise(uint64_t row, int32_t clock, int j)
{
    return (float)((row * 31 + (uint64_t)clock * 17 + (uint64_t)j * 7) % 23) /
               11 -
           1;
}

static int one_clock(struct mlt_worker *w, const struct mlt_ps *ps)
{
    int32_t *cursor = mlt_row(w, CURSOR, 0);
    float delta[WIDTH];
    uint64_t first, count;

    cursor[0]++;
    mlt_owned_rows(ps, USERS, mlt_worker_index(w), &first, &count);
    for (uint64_t r = first; r < first + count; r++) {
        for (int j = 0; j < WIDTH; j++)
            delta[j] = noise(r, cursor[0], j);
        mlt_inc_row(w, USERS, r, delta);
    }
    for (uint64_t r = mlt_worker_index(w) % 3; r < ROWS; r += 3) {
        for (int j = 0; j < WIDTH; j++)
            delta[j] = noise(r, cursor[0], j) / 4;
        mlt_inc_row(w, WEIGHTS, r, delta);
    }
    return mlt_clock(w);
}

struct job {
    const struct mlt_ps *ps;
    int clocks;
};

static int work(struct mlt_worker *w, void *arg)
{
    const struct job *job = arg;
    int code = 0;

    for (int i = 0; i < job->clocks && !code; i++)
        code = one_clock(w, job->ps);
    return code;
}

static int train(struct node *n, int clocks)
{
    struct job job = {n->ps, clocks};

    return mlt_ps_run(n->ps, work, &job);
}

static int read_cursor(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    int32_t at = *(const int32_t *)mlt_row(w, CURSOR, 0);

    if (mlt_worker_index(w) % n->cluster->workers == 0)
        n->cluster->cursor[n->number] = at;
    return 0;
}

/* This node's rows of the active branch as they lie in memory. */
static int dump(struct node *n)
{
    struct cluster *c = n->cluster;

    for (mlt_table t = WEIGHTS; t <= USERS; t++)
        for (uint64_t r = 0; r < ROWS; r++) {
            struct place p;

            if (!ps_is_here(n->ps, t, r))
                continue;
            p = place_of(n->ps, t, r);
            assert(ps_shape(n->ps)->table[t].row_bytes == ROW_BYTES);
            memcpy((t == WEIGHTS ? c->weights : c->users) + r * ROW_BYTES,
                   store_chunk(p.shard->store, ps_active(n->ps), t, p.chunk) +
                       p.offset,
                   ROW_BYTES);
        }
    return mlt_ps_run(n->ps, read_cursor, n);
}

static int write_program(struct node *n)
{
    int code = train(n, 6);

    if (!code)
        code = dump(n);
    if (!code)
        code = mlt_ps_checkpoint(n->ps, n->cluster->dir, &n->error);
    if (!code)
        code = train(n, 9);
    if (!code)
        code = mlt_ps_checkpoint_end(n->ps, &n->error);
    return code;
}

static int restore_program(struct node *n)
{
    uint32_t branch;
    uint64_t clocks = 0;
    int code = mlt_ps_restore(n->ps, n->cluster->dir, &branch, &n->error);

    if (!code)
        code = mlt_ps_clocks(n->ps, branch, &clocks);
    if (!code)
        code = mlt_ps_switch(n->ps, branch);
    if (!code)
        code = dump(n);
    if (!code)
        code = train(n, 2);
    return code ? code : clocks == 6 ? 0 : ERR_APP;
}

/* ---- files --------------------------------------------------------------- */

static void remove_all(const char *dir)
{
    char path[512];
    DIR *d = opendir(dir);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (unlink(path) != 0)
            remove_all(path);
    }
    if (d)
        closedir(d);
    rmdir(dir);
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test_checkpoint-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void flip_byte(const char *path, long offset)
{
    FILE *file = fopen(path, "r+b");
    int c;

    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    c = fgetc(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_true(fputc(c ^ 0x10, file) != EOF);
    fclose(file);
}

/* ---- tests --------------------------------------------------------------- */

/* A checkpoint written by some nodes while they trained on is the state of its
 * clock on any other number of nodes and workers, slots included, bit for bit,
 * and can be trained on. */
static void checkpoint_is_the_same_on_any_number_of_nodes(void **state)
{
    static const unsigned shape[][2] = {{1, 1}, {1, 4}, {2, 1}, {2, 2},
                                        {4, 1}, {3, 2}, {4, 2}};
    enum { SHAPES = sizeof(shape) / sizeof(*shape) };
    static struct cluster wrote, got;

    (void)state;
    for (unsigned i = 0; i < SHAPES; i += 3) { /* 1 x 1, 2 x 2, 4 x 2 */
        run_cluster(&wrote, shape[i][0], shape[i][1], write_program,
                    in_folder("c"));
        expect_codes(&wrote, 0);
        assert_int_equal(access(in_folder("c/manifest.json"), F_OK), 0);
        for (unsigned k = 0; k < SHAPES; k++) {
            memset(&got, 0, sizeof(got));
            run_cluster(&got, shape[k][0], shape[k][1], restore_program,
                        in_folder("c"));
            expect_codes(&got, 0);
            assert_memory_equal(wrote.weights, got.weights,
                                sizeof(got.weights));
            assert_memory_equal(wrote.users, got.users, sizeof(got.users));
            for (unsigned n = 0; n < got.nodes; n++)
                assert_int_equal(got.cursor[n], 6);
        }
        remove_all(in_folder("c"));
    }
}

static void restore_as(struct cluster *got, const struct cluster *wrote,
                       unsigned nodes, unsigned placed)
{
    memset(got, 0, sizeof(*got));
    got->placed = placed;
    run_cluster(got, nodes, 1, restore_program, in_folder("c"));
    expect_codes(got, 0);
    assert_memory_equal(wrote->weights, got->weights, sizeof(got->weights));
    assert_memory_equal(wrote->users, got->users, sizeof(got->users));
}

/* A restore where rows lie where they are touched: from four placed nodes onto
 * any, placed alike, otherwise, or not, and from nodes that do not place onto
 * such that do. */
static void checkpoint_of_placed_rows_is_the_same_anywhere(void **state)
{
    static struct cluster wrote, got;

    (void)state;
    wrote.placed = 1;
    run_cluster(&wrote, 4, 1, write_program, in_folder("c"));
    expect_codes(&wrote, 0);
    for (unsigned nodes = 1; nodes <= 4; nodes++)
        for (unsigned placed = 0; placed <= 2; placed++)
            restore_as(&got, &wrote, nodes, placed);
    remove_all(in_folder("c"));

    for (unsigned nodes = 1; nodes <= 3; nodes += 2) {
        memset(&wrote, 0, sizeof(wrote));
        run_cluster(&wrote, nodes, 1, write_program, in_folder("c"));
        expect_codes(&wrote, 0);
        assert_int_equal(access(in_folder("c/node-0/rows-0"), F_OK), -1);
        for (unsigned i = 2; i <= 4; i++)
            restore_as(&got, &wrote, i, 1);
        remove_all(in_folder("c"));
    }
}

/* Refused by all nodes, whosever file it is, with words that name it; and by
 * who only checks it. */
static void refused(unsigned nodes, int code, const char *says)
{
    static struct cluster c;
    struct fault f = {0};

    assert_int_equal(checkpoint_check(in_folder("c"), &f), code);
    if (!strstr(f.text, says))
        fail_msg("check: %s", f.text);

    run_cluster(&c, nodes, 2, restore_program, in_folder("c"));
    expect_codes(&c, code);
    for (unsigned i = 0; i < nodes; i++)
        if (!strstr(c.node[i].error.text, says))
            fail_msg("node %u: %s", i, c.node[i].error.text);
}

/* Damage, a file that is missing, and a part that was not written at all are
 * found by every node, also by those that do not need the file. */
static void checkpoint_damage_is_found_by_every_node(void **state)
{
    static struct cluster wrote;

    (void)state;
    run_cluster(&wrote, 2, 2, write_program, in_folder("c"));
    expect_codes(&wrote, 0);
    assert_int_equal(checkpoint_check(in_folder("c"), NULL), ERR_OK);
    for (unsigned nodes = 1; nodes <= 3; nodes++) {
        flip_byte(in_folder("c/node-0/shard-1"), 4000);
        refused(nodes, ERR_FORMAT, "c/node-0/shard-1: byte ");
        flip_byte(in_folder("c/node-0/shard-1"), 4000);
    }
    flip_byte(in_folder("c/manifest.json"), 100);
    refused(2, ERR_FORMAT, "c/manifest.json");
    flip_byte(in_folder("c/manifest.json"), 100);
    assert_int_equal(rename(in_folder("c/node-1/shard-3"), in_folder("moved")),
                     0);
    refused(2, ERR_NOENT, "c/node-1/shard-3");
    assert_int_equal(rename(in_folder("moved"), in_folder("c/node-1/shard-3")),
                     0);
    assert_int_equal(unlink(in_folder("c/manifest.json")), 0);
    refused(2, ERR_NOENT, "c/manifest.json");
    remove_all(in_folder("c"));
}

/* The files that say which rows the numbers are: damaged, longer or missing,
 * they are refused by every node. */
static void checkpoint_damaged_numbering_is_refused(void **state)
{
    static struct cluster wrote;
    FILE *file;

    (void)state;
    wrote.placed = 1;
    run_cluster(&wrote, 4, 1, write_program, in_folder("c"));
    expect_codes(&wrote, 0);
    assert_int_equal(checkpoint_check(in_folder("c"), NULL), ERR_OK);
    for (unsigned nodes = 1; nodes <= 4; nodes += 3) {
        flip_byte(in_folder("c/node-2/rows-2"), 40);
        refused(nodes, ERR_FORMAT, "c/node-2/rows-2: seal ");
        flip_byte(in_folder("c/node-2/rows-2"), 40);
    }
    assert_int_equal(rename(in_folder("c/node-3/rows-3"), in_folder("moved")),
                     0);
    refused(2, ERR_NOENT, "c/node-3/rows-3");
    assert_int_equal(rename(in_folder("moved"), in_folder("c/node-3/rows-3")),
                     0);
    file = fopen(in_folder("c/node-1/rows-1"), "ab");
    assert_non_null(file);
    assert_int_equal(fputs("more", file) >= 0, 1);
    fclose(file);
    refused(2, ERR_FORMAT, "c/node-1/rows-1: ");
    remove_all(in_folder("c"));
}

/* A whole checkpoint is never written over: all nodes refuse. What a killed run
 * left of one that was not whole is replaced, whichever nodes had written their
 * part, and is never taken for a part of the new one. */
static void checkpoint_replaces_only_what_never_was_whole(void **state)
{
    static struct cluster wrote, got;

    (void)state;
    run_cluster(&wrote, 2, 1, write_program, in_folder("c"));
    expect_codes(&wrote, 0);
    run_cluster(&wrote, 2, 1, write_program, in_folder("c"));
    expect_codes(&wrote, ERR_EXIST);
    for (int gone = 0; gone < 3; gone++) { /* 2: all had, but no manifest */
        assert_int_equal(unlink(in_folder("c/manifest.json")), 0);
        if (gone < 2)
            remove_all(in_folder(gone ? "c/node-1" : "c/node-0"));
        run_cluster(&wrote, 2, 1, write_program, in_folder("c"));
        expect_codes(&wrote, 0);
        run_cluster(&got, 2, 1, restore_program, in_folder("c"));
        expect_codes(&got, 0);
        assert_memory_equal(wrote.weights, got.weights, sizeof(got.weights));
    }
    remove_all(in_folder("c"));
}

/* A name that this run's part has is not given again, before the others have
 * written theirs: they may be about to count on it. */
static int part_program(struct node *n)
{
    int code = 0;

    if (n->number == 0) {
        code = mlt_ps_checkpoint(n->ps, n->cluster->dir, &n->error);
        if (!code)
            code = mlt_ps_checkpoint_end(n->ps, &n->error);
        if (!code &&
            mlt_ps_checkpoint(n->ps, n->cluster->dir, NULL) != ERR_EXIST)
            code = ERR_APP;
    }
    return code ? code : train(n, 1);
}

static void checkpoint_part_of_the_same_run_stays(void **state)
{
    static struct cluster c;

    (void)state;
    run_cluster(&c, 2, 1, part_program, in_folder("c"));
    expect_codes(&c, 0);
    assert_int_equal(access(in_folder("c/node-0/manifest.json"), F_OK), 0);
    assert_int_equal(access(in_folder("c/manifest.json"), F_OK), -1);
    remove_all(in_folder("c"));
}

/* The other node's part is there and cannot be read. */
static int unreadable_program(struct node *n)
{
    int code = 0;

    if (n->number == 0) {
        code = mlt_ps_checkpoint(n->ps, n->cluster->dir, &n->error);
        if (!code && mlt_ps_checkpoint_end(n->ps, &n->error) != ERR_FORMAT)
            code = ERR_APP;
    }
    return code ? code : train(n, 1);
}

/* An error after the part has its name takes the part back. */
static void checkpoint_that_fails_late_leaves_no_part(void **state)
{
    static struct cluster c;

    (void)state;
    run_cluster(&c, 2, 1, write_program, in_folder("c"));
    expect_codes(&c, 0);
    assert_int_equal(unlink(in_folder("c/manifest.json")), 0);
    flip_byte(in_folder("c/node-1/manifest.json"), 100);
    run_cluster(&c, 2, 1, unreadable_program, in_folder("c"));
    expect_codes(&c, 0);
    assert_non_null(strstr(c.node[0].error.text, "c/node-1/manifest.json"));
    assert_int_equal(access(in_folder("c/node-0"), F_OK), -1);
    assert_int_equal(access(in_folder("c/node-0.tmp"), F_OK), -1);
    assert_int_equal(access(in_folder("c/node-1"), F_OK), 0);
    remove_all(in_folder("c"));
}

/* As where memory was out on one node alone: its fork is not made, and its
 * checkpoint is not begun. */
static int uneven_program(struct node *n)
{
    struct mlt_ps *ps = n->ps;
    uint32_t branch = 0;
    int code = train(n, 6);

    if (n->number == 1) {
        ps->branch[0].failed = true; /* the active one */
        if (mlt_ps_fork(ps, 99, &branch) == 0 ||
            mlt_ps_checkpoint(ps, in_folder("lost"), NULL) == 0)
            code = ERR_APP;
        ps->branch[0].failed = false;
    } else if (!code) {
        code = mlt_ps_fork(ps, 0, &branch);
        if (!code)
            code = mlt_ps_drop(ps, branch);
        if (!code)
            code = mlt_ps_checkpoint(ps, in_folder("lost"), &n->error);
        if (!code)
            code = mlt_ps_checkpoint_end(ps, &n->error);
    }
    if (!code)
        code = mlt_ps_fork(ps, 0, &branch);
    if (!code)
        code = mlt_ps_switch(ps, branch);
    if (!code)
        code = mlt_ps_checkpoint(ps, n->cluster->dir, &n->error);
    return code ? code : mlt_ps_checkpoint_end(ps, &n->error);
}

/* A failure on one node alone does not part the nodes: later branches and
 * checkpoints have the same numbers again. */
static void checkpoint_after_one_node_failed_is_whole(void **state)
{
    static struct cluster c;

    (void)state;
    run_cluster(&c, 2, 1, uneven_program, in_folder("c"));
    expect_codes(&c, 0);
    assert_int_equal(access(in_folder("c/manifest.json"), F_OK), 0);
    assert_int_equal(access(in_folder("lost/manifest.json"), F_OK), -1);
    run_cluster(&c, 1, 2, restore_program, in_folder("c"));
    expect_codes(&c, 0);
    remove_all(in_folder("lost"));
    remove_all(in_folder("c"));
}

/* ---- folders that cannot be flushed -------------------------------------- */

static int folder_errno;       /* of every fsync of a folder; 0: as it comes */
static bool fail_after_rename; /* EIO, once the checkpoint has its name */

/* The system's, for the whole program. */
int fsync(int fd)
{
    struct stat st;
    int errnum = folder_errno;

    if (fail_after_rename && access(in_folder("c"), F_OK) == 0)
        errnum = EIO;
    if (errnum && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        errno = errnum;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

/* Some file systems cannot flush a folder, and say EINVAL. */
static void checkpoint_where_folders_cannot_be_flushed_is_whole(void **state)
{
    static struct cluster c;

    (void)state;
    folder_errno = EINVAL;
    for (unsigned nodes = 1; nodes <= 2; nodes++) {
        run_cluster(&c, nodes, 1, write_program, in_folder("c"));
        expect_codes(&c, 0);
        assert_int_equal(access(in_folder("c/manifest.json"), F_OK), 0);
        remove_all(in_folder("c"));
    }
    folder_errno = 0;
}

static void checkpoint_whose_folder_fails_is_taken_back(void **state)
{
    static struct cluster c;

    (void)state;
    fail_after_rename = true;
    run_cluster(&c, 1, 1, write_program, in_folder("c"));
    fail_after_rename = false;
    expect_codes(&c, ERR_IO);
    assert_int_equal(access(in_folder("c"), F_OK), -1);
    assert_int_equal(access(in_folder("c.tmp"), F_OK), -1);
}

/* Calls out of order are refused in words; without one begun, none is waited
 * for. */
static int misuse_program(struct node *n)
{
    struct mlt_ps *ps = n->ps;
    struct mlt_error e;
    uint32_t branch;

    assert_int_equal(mlt_ps_checkpoint_end(ps, &e), ERR_NOENT);
    assert_int_equal(mlt_ps_checkpoint_done(ps), 1);
    assert_int_equal(mlt_ps_restore(ps, in_folder("none"), &branch, &e),
                     ERR_NOENT);
    assert_int_equal(mlt_ps_checkpoint(ps, in_folder("c"), NULL), 0);
    assert_int_equal(mlt_ps_checkpoint(ps, in_folder("d"), &e), ERR_BUSY);
    while (!mlt_ps_checkpoint_done(ps))
        usleep(1000);
    assert_int_equal(mlt_ps_checkpoint_end(ps, NULL), 0);
    assert_int_equal(mlt_ps_checkpoint(ps, in_folder("c"), &e), ERR_EXIST);
    assert_int_equal(mlt_ps_drop(ps, ps_active(ps)), 0);
    assert_int_equal(mlt_ps_checkpoint(ps, in_folder("d"), &e), ERR_INVAL);
    return 0;
}

static void checkpoint_calls_out_of_order_are_refused(void **state)
{
    static struct cluster c;

    (void)state;
    run_cluster(&c, 1, 1, misuse_program, NULL);
    expect_codes(&c, 0);
    remove_all(in_folder("c"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoint_is_the_same_on_any_number_of_nodes),
        cmocka_unit_test(checkpoint_of_placed_rows_is_the_same_anywhere),
        cmocka_unit_test(checkpoint_damage_is_found_by_every_node),
        cmocka_unit_test(checkpoint_damaged_numbering_is_refused),
        cmocka_unit_test(checkpoint_replaces_only_what_never_was_whole),
        cmocka_unit_test(checkpoint_part_of_the_same_run_stays),
        cmocka_unit_test(checkpoint_that_fails_late_leaves_no_part),
        cmocka_unit_test(checkpoint_after_one_node_failed_is_whole),
        cmocka_unit_test(checkpoint_where_folders_cannot_be_flushed_is_whole),
        cmocka_unit_test(checkpoint_whose_folder_fails_is_taken_back),
        cmocka_unit_test(checkpoint_calls_out_of_order_are_refused),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
