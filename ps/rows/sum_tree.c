#include "ps/rows/sum_tree.h"

#include "ps/rows/rule.h"

#include <assert.h>

void sum_tree_init(struct sum_tree *t, enum mlt_type type, uint32_t width)
{
    t->type = type;
    t->width = width;
    t->n = 0;
}

/* How far above the leaves two of them meet. Of three in order the first two
 * never meet at the same node as the last two. */
static unsigned meet(uint32_t a, uint32_t b)
{
    assert(a < b);
    return 32 - (unsigned)__builtin_clz(a ^ b);
}

/* a + b is b + a, to the last bit. */
static void join_last(struct sum_tree *t)
{
    struct sum_tree_part *a = &t->part[t->n - 2], *b = &t->part[t->n - 1];
    bool second = b->keep && !a->keep;

    rule_accumulate(t->type, t->width, second ? b->sum : a->sum,
                    second ? a->sum : b->sum);
    if (second)
        a->sum = b->sum;
    a->keep |= b->keep;
    t->n--;
}

void sum_tree_add(struct sum_tree *t, uint32_t at, void *sum, bool keep)
{
    while (t->n >= 2 && meet(t->part[t->n - 2].at, t->part[t->n - 1].at) <
                            meet(t->part[t->n - 1].at, at))
        join_last(t);
    assert(t->n < SUM_TREE_DEPTH);
    assert(t->n == 0 || t->part[t->n - 1].at < at);
    t->part[t->n++] = (struct sum_tree_part){at, keep, sum};
}

void *sum_tree_end(struct sum_tree *t)
{
    while (t->n >= 2)
        join_last(t);
    return t->n ? t->part[0].sum : NULL;
}

uint32_t sum_tree_block(uint32_t first, uint32_t end)
{
    uint32_t n = first ? first & -first : (uint32_t)1 << 31;

    assert(first < end);
    while (n > end - first)
        n /= 2;
    return n;
}
