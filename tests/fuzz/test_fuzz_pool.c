/* The pool of small blocks of fuzz targets: what it gives out holds, and what
 * is not given out is poisoned where the address sanitizer is there to ask. */
#include "tests/fuzz/pool.c"
#include "tests/unit/fixture/check.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

void *__real_malloc(size_t size)
{
    return malloc(size);
}

void *__real_calloc(size_t count, size_t size)
{
    return calloc(count, size);
}

void *__real_realloc(void *p, size_t size)
{
    return realloc(p, size);
}

void __real_free(void *p)
{
    free(p);
}

/* Whether @p may be touched, as far as anybody knows. */
static void assert_poisoned(const void *p, bool poisoned)
{
#ifdef __SANITIZE_ADDRESS__
    assert_int_equal(__asan_address_is_poisoned(p) != 0, poisoned);
#else
    (void)p;
    (void)poisoned;
#endif
}

static void a_block_holds_what_was_asked_for(void **state)
{
    (void)state;
    for (size_t size = 1; size <= POOL_BLOCK_MAX + 1; size += size / 32 + 7) {
        unsigned char *p = __wrap_malloc(size);

        assert_int_equal(is_ours(p), size <= POOL_BLOCK_MAX);
        assert_int_equal((uintptr_t)p % UNIT, 0);
        if (is_ours(p)) {
            assert_poisoned(p - 1, true);
            assert_poisoned(p + size, true);
            assert_int_equal(p[size < FILLED ? size - 1 : FILLED - 1], 0xbe);
        }
        memset(p, 1, size);
        __wrap_free(p);
        if (is_ours(p))
            assert_poisoned(p, true);
    }
}

static void cleared_blocks_are_zero(void **state)
{
    unsigned char *p = __wrap_calloc(3, 5);

    (void)state;
    assert_true(is_ours(p));
    for (int i = 0; i < 15; i++)
        assert_int_equal(p[i], 0);
    assert_poisoned(p + 15, true);
    __wrap_free(p);
}

static void a_block_grows_and_shrinks_with_its_bytes(void **state)
{
    static const size_t sizes[] = {20,     30, 2048, 5000, POOL_BLOCK_MAX,
                                   200000, 9,  1};
    unsigned char *p = __wrap_malloc(10);

    (void)state;
    memcpy(p, "0123456789", 10);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        p = __wrap_realloc(p, sizes[i]);
        assert_memory_equal(p, "0123456789", sizes[i] < 10 ? sizes[i] : 10);
    }
    __wrap_free(p);
}

/* A block of @size that was freed comes again after @others were. */
static void assert_waits(size_t size, int others)
{
    void *given[POOL_WAITING + 2];
    bool again = false;
    void *p = __wrap_malloc(size), *q;

    __wrap_free(p);
    for (int i = 0; i < others; i++) {
        q = __wrap_malloc(size);
        assert_ptr_not_equal(q, p);
        __wrap_free(q);
    }
    for (int i = 0; i < others + 2; i++) {
        given[i] = __wrap_malloc(size);
        again |= given[i] == p;
    }
    assert_true(again);
    for (int i = 0; i < others + 2; i++)
        __wrap_free(given[i]);
}

/* Not the one that was freed last: what still points there is found. */
static void freed_blocks_wait(void **state)
{
    (void)state;
    assert_waits(700, POOL_WAITING);
    assert_waits(70000, POOL_WAITING / 8);
}

static void where_it_is_full_the_allocator_gives(void **state)
{
    enum { N = POOL_BYTES / POOL_BLOCK_MAX + 1 };
    static unsigned char *p[N];
    size_t ours = 0;

    (void)state;
    for (int i = 0; i < N; i++) {
        p[i] = __wrap_malloc(POOL_BLOCK_MAX);
        assert_non_null(p[i]);
        p[i][POOL_BLOCK_MAX - 1] = (unsigned char)i;
        ours += is_ours(p[i]);
    }
    assert_in_range(ours, N / 2, N - 1);
    for (int i = 0; i < N; i++) {
        assert_int_equal(p[i][POOL_BLOCK_MAX - 1], (unsigned char)i);
        __wrap_free(p[i]);
    }
    assert_poisoned(arena + sizeof(arena) - 1, true);
}

/* In a child, which says nothing. */
static void assert_aborts(void *p)
{
    const struct rlimit no_core = {0, 0};
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        setrlimit(RLIMIT_CORE, &no_core);
        fclose(stderr);
        __wrap_free(p);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void a_block_is_freed_once_and_whole(void **state)
{
    unsigned char *p = __wrap_malloc(100);

    (void)state;
    assert_aborts(p + 1);
    assert_aborts(p + UNIT);
    __wrap_free(p);
    assert_aborts(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_holds_what_was_asked_for),
        cmocka_unit_test(cleared_blocks_are_zero),
        cmocka_unit_test(a_block_grows_and_shrinks_with_its_bytes),
        cmocka_unit_test(freed_blocks_wait),
        cmocka_unit_test(a_block_is_freed_once_and_whole),
        cmocka_unit_test(where_it_is_full_the_allocator_gives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
