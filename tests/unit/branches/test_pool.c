#include "branches/pool.h"

#include "base/mem.h"
#include "branches/pages.h"
#include "tests/unit/fixture/check.h"

#include <sys/mman.h>
#include <unistd.h>

/* A system that counts what it gave. */
static size_t mapped_bytes;
static unsigned mapped_slabs;
static size_t touched_bytes;
static bool touch_refused;
static unsigned char *last_slab;

static void *counting_map(size_t bytes)
{
    mapped_bytes += bytes;
    mapped_slabs++;
    last_slab = slab_system()->map(bytes);
    return last_slab;
}

static void counting_unmap(void *slab, size_t bytes)
{
    mapped_bytes -= bytes;
    mapped_slabs--;
    slab_system()->unmap(slab, bytes);
}

static enum err counting_touch(void *at, size_t bytes)
{
    touched_bytes += bytes;
    return touch_refused ? ERR_NOMEM : slab_system()->touch(at, bytes);
}

static const struct slab_ops counting = {counting_map, counting_touch,
                                         counting_unmap};

/* A pool with plain items of 40 bytes (class 0) and blocks of 100 (class 1). */
static void pool_with_two_classes(struct pool *p)
{
    size_t items, blocks;

    mapped_bytes = 0;
    mapped_slabs = 0;
    touched_bytes = 0;
    touch_refused = false;
    pool_init(p, &counting);
    assert_int_equal(pool_add_items(p, 40, &items), ERR_OK);
    assert_int_equal(pool_add_blocks(p, 100, &blocks), ERR_OK);
    assert_int_equal(items, 0);
    assert_int_equal(blocks, 1);
}

/* Sizes that round to the same block share a class. */
static void pool_equal_blocks_share_a_class(void **state)
{
    struct pool p;
    size_t a, b, c;

    (void)state;
    pool_init(&p, &counting);
    assert_int_equal(pool_add_blocks(&p, 65, &a), ERR_OK);
    assert_int_equal(pool_add_blocks(&p, 128, &b), ERR_OK);
    assert_int_equal(pool_add_blocks(&p, 129, &c), ERR_OK);
    assert_int_equal(a, b);
    assert_int_not_equal(a, c);
    assert_int_equal(pool_class_bytes(&p, a), 128 + sizeof(struct pool_block));
    pool_deinit(&p);
}

/* The pool takes exactly the bytes of what was asked for, in one slab, and what
 * is there already is not taken again. */
static void pool_takes_exactly_what_is_missing(void **state)
{
    static const uint64_t first[2] = {3, 5}, second[2] = {3, 9};
    struct pool p;

    (void)state;
    pool_with_two_classes(&p);
    assert_int_equal(pool_ensure(&p, first), ERR_OK);
    assert_int_equal(mapped_bytes, 3 * 40 + 5 * (128 + 16));
    assert_int_equal(mapped_slabs, 1);
    assert_int_equal(pool_ensure(&p, first), ERR_OK);
    assert_int_equal(mapped_slabs, 1);
    assert_int_equal(pool_ensure(&p, second), ERR_OK);
    assert_int_equal(mapped_bytes, 3 * 40 + 9 * (128 + 16));
    assert_int_equal(mapped_slabs, 2);
    pool_check(&p);
    pool_deinit(&p);
    assert_int_equal(mapped_bytes, 0);
    assert_int_equal(mapped_slabs, 0);
}

/* Blocks do not overlap, lie on cache lines, come in the order of their
 * addresses, and are found again in that order after a release backwards. */
static void pool_blocks_lie_in_order(void **state)
{
    static const uint64_t need[2] = {0, 16};
    struct pool_block *block[16];
    struct pool p;

    (void)state;
    pool_with_two_classes(&p);
    assert_int_equal(pool_ensure(&p, need), ERR_OK);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < 16; i++) {
            block[i] = (struct pool_block *)pool_take(&p, 1);
            assert_int_equal(block[i]->item.refs, 1);
            assert_int_equal((uintptr_t)block[i]->bytes % 64, 0);
            memset(block[i]->bytes, i, 128);
            if (i > 0)
                assert_ptr_equal(block[i]->bytes, block[i - 1]->bytes + 128);
        }
        for (int i = 0; i < 16; i++)
            for (int k = 0; k < 128; k++)
                assert_int_equal(block[i]->bytes[k], i);
        assert_int_equal(pool_used_bytes(&p), 16 * 144);
        for (int i = 16; i-- > 0;)
            pool_give(&p, 1, &block[i]->item);
        assert_int_equal(pool_used_bytes(&p), 0);
        pool_check(&p);
    }
    pool_deinit(&p);
}

/* Pages of the first @bytes at @slab that have memory behind them. */
static size_t resident(unsigned char *slab, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0;
    unsigned char in[1024];

    assert_true(bytes / page <= sizeof(in));
    assert_int_equal(mincore(slab, bytes, in), 0);
    for (size_t i = 0; i < bytes / page; i++)
        n += in[i] & 1;
    return n;
}

/* What is reserved takes no memory until it is taken and written, but where it
 * is asked for ahead; that touches nothing twice, and nothing in use. */
static void pool_reserves_without_touching(void **state)
{
    enum { PAGES = 400 }; /* below a huge page */
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before, blocks;
    static const uint64_t need[1] = {PAGES};
    struct pool_block *block;
    struct pool p;

    (void)state;
    pool_with_two_classes(&p);
    pool_deinit(&p);
    pool_init(&p, &counting);
    assert_int_equal(pool_add_blocks(&p, page, &blocks), ERR_OK);
    assert_int_equal(pool_ensure(&p, need), ERR_OK);
    assert_int_equal(resident(last_slab, PAGES * page), 0);
    block = (struct pool_block *)pool_take(&p, blocks);
    block->bytes[7] = 7;
    assert_int_equal(resident(last_slab, PAGES * page), 1);
    touch_refused = true;
    assert_int_equal(pool_touch(&p), ERR_NOMEM);
    assert_int_equal(resident(last_slab, PAGES * page), 1);
    touch_refused = false;
    assert_int_equal(pool_touch(&p), ERR_OK);
    assert_int_equal(resident(last_slab, PAGES * page), PAGES);
    assert_int_equal(block->bytes[7], 7);
    before = touched_bytes;
    assert_int_equal(pool_touch(&p), ERR_OK);
    assert_int_equal(touched_bytes, before);
    pool_check(&p);
    pool_deinit(&p);
}

/* A need whose bytes overflow is a limit, not a small slab. */
static void pool_overflowing_need_is_refused(void **state)
{
    static const uint64_t need[2] = {1, UINT64_MAX / 100};
    struct pool p;

    (void)state;
    pool_with_two_classes(&p);
    assert_int_equal(pool_ensure(&p, need), ERR_LIMIT);
    assert_int_equal(mapped_slabs, 0);
    pool_deinit(&p);
}

/* System slabs of any size are zeroed, and large ones begin where a huge page
 * may; what is more than the machine has is refused. */
static void slab_system_gives_zeroed_aligned_memory(void **state)
{
    static const size_t sizes[] = {1,       4096,          5000,
                                   2 << 20, (2 << 20) + 1, 5000000};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned char *slab = slab_system()->map(sizes[i]);

        assert_non_null(slab);
        assert_int_equal((uintptr_t)slab % 4096, 0);
        if (sizes[i] >= 2 << 20)
            assert_int_equal((uintptr_t)slab % (2 << 20), 0);
        for (size_t at = 0; at < sizes[i]; at += 509)
            assert_int_equal(slab[at], 0);
        slab[sizes[i] - 1] = 1;
        slab_system()->unmap(slab, sizes[i]);
    }
    assert_null(slab_system()->map(SIZE_MAX));
    assert_null(slab_system()->map(SIZE_MAX / 4));
    slab_system()->unmap(NULL, 10);
}

/* A full tree over n chunks has the nodes that the reservation counts: one more
 * chunk than a level holds makes a level. */
static void pages_worst_case_counts_every_level(void **state)
{
    static const struct {
        uint64_t chunks, nodes;
        unsigned level;
    } want[] = {
        {0, 0, 0},   {1, 1, 0},           {128, 1, 0},
        {129, 3, 1}, {128 * 128, 129, 1}, {128 * 128 + 1, 129 + 3, 2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        assert_int_equal(pages_nodes(want[i].chunks), want[i].nodes);
        assert_int_equal(pages_level(want[i].chunks), want[i].level);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_equal_blocks_share_a_class),
        cmocka_unit_test(pool_takes_exactly_what_is_missing),
        cmocka_unit_test(pool_blocks_lie_in_order),
        cmocka_unit_test(pool_reserves_without_touching),
        cmocka_unit_test(pool_overflowing_need_is_refused),
        cmocka_unit_test(slab_system_gives_zeroed_aligned_memory),
        cmocka_unit_test(pages_worst_case_counts_every_level),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
