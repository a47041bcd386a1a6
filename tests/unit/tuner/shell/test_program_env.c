#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tuner/shell/program_env.h"

static bool has(const struct program_env *e, const char *entry)
{
    for (size_t i = 0; e->entry[i]; i++)
        if (strcmp(e->entry[i], entry) == 0)
            return true;
    return false;
}

/* One process gets the tuner's socket, and no fellows: not even those of a
 * program that has started this tuner. */
static void program_env_of_one(void **state)
{
    const struct program_place place = {
        .endpoint = "ipc:///t", .run = "r-1", .nodes = 1};
    struct program_env e;

    (void)state;
    assert_int_equal(program_env_init(&e, &place), ERR_OK);
    assert_true(has(&e, "MLTUNE_TUNER=ipc:///t"));
    assert_true(has(&e, "MLTUNE_NODE=0"));
    assert_true(has(&e, "MLTUNE_NODES=1"));
    assert_true(has(&e, "MLTUNE_RUN=r-1"));
    assert_true(has(&e, "MLTUNE_MEET"));
    assert_true(has(&e, "MLTUNE_TOKEN"));
    assert_false(has(&e, "RANK=0"));
    assert_false(has(&e, "PYTHONUNBUFFERED=1"));
    program_env_deinit(&e);
}

/* Several get ranks and a place to meet, as torch.distributed reads them, and
 * the package after the user's own folders. */
static void program_env_of_several(void **state)
{
    const struct program_place place = {.endpoint = "ipc:///t",
                                        .run = "r-1",
                                        .node = 1,
                                        .nodes = 2,
                                        .meet = "/m",
                                        .key = "k",
                                        .port = 4711,
                                        .threads = 3,
                                        .python = "/lib/python",
                                        .python_path = "/mine",
                                        .unbuffered = true};
    struct program_env e;

    (void)state;
    assert_int_equal(program_env_init(&e, &place), ERR_OK);
    assert_true(has(&e, "MLTUNE_NODE=1"));
    assert_true(has(&e, "MLTUNE_MEET=/m"));
    assert_true(has(&e, "MLTUNE_KEY=k"));
    assert_true(has(&e, "RANK=1"));
    assert_true(has(&e, "LOCAL_RANK=1"));
    assert_true(has(&e, "WORLD_SIZE=2"));
    assert_true(has(&e, "LOCAL_WORLD_SIZE=2"));
    assert_true(has(&e, "MASTER_ADDR=127.0.0.1"));
    assert_true(has(&e, "MASTER_PORT=4711"));
    assert_true(has(&e, "OMP_NUM_THREADS=3"));
    assert_true(has(&e, "PYTHONPATH=/mine:/lib/python"));
    assert_true(has(&e, "PYTHONUNBUFFERED=1"));
    program_env_deinit(&e);
}

/* The user's own number of threads stays, and one process has all cores. */
static void program_env_leaves_threads_alone(void **state)
{
    struct program_place place = {
        .endpoint = "ipc:///t", .run = "r-1", .nodes = 2, .meet = "/m"};
    struct program_env e;

    (void)state;
    assert_int_equal(program_env_init(&e, &place), ERR_OK);
    for (size_t i = 0; e.entry[i]; i++)
        assert_null(strstr(e.entry[i], "OMP_NUM_THREADS"));
    program_env_deinit(&e);
    place = (struct program_place){
        .endpoint = "ipc:///t", .run = "r-1", .nodes = 1, .threads = 4};
    assert_int_equal(program_env_init(&e, &place), ERR_OK);
    assert_false(has(&e, "OMP_NUM_THREADS=4"));
    program_env_deinit(&e);
}

/* Whichever allocation fails, nothing is left. */
static void program_env_survives_want_of_memory(void **state)
{
    const struct program_place place = {.endpoint = "ipc:///t",
                                        .run = "r-1",
                                        .nodes = 2,
                                        .meet = "/m",
                                        .python = "/lib/python"};
    int64_t before = mem_outstanding();
    bool failed = true;

    (void)state;
    for (unsigned n = 1; failed; n++) {
        struct program_env e;
        enum err err;

        mem_fail_at(n, 0);
        err = program_env_init(&e, &place);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        program_env_deinit(&e);
        assert_int_equal(mem_outstanding(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program_env_of_one),
        cmocka_unit_test(program_env_of_several),
        cmocka_unit_test(program_env_leaves_threads_alone),
        cmocka_unit_test(program_env_survives_want_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
