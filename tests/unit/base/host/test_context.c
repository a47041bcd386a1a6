/* ZeroMQ begins, or there is no memory for it: nobody is killed. */
#include "base/host/context_io.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/no_memory.h"

#include <errno.h>
#include <zmq.h>

/* Before any other: who asks first in a process is the one that is killed. */
static bool begins_or_says_why(void)
{
    void *context = context_new();

    if (!context)
        return errno == ENOMEM;
    zmq_ctx_term(context);
    return true;
}

static void context_without_memory_is_an_error(void **state)
{
    (void)state;
    assert_true(without_memory(begins_or_says_why));
}

static void context_begins_where_there_is_memory(void **state)
{
    void *context;

    (void)state;
    mem_fail_at(1, 0);
    assert_null(context_new());
    assert_int_equal(errno, ENOMEM);
    mem_fail_at(0, 0);
    context = context_new();
    assert_non_null(context);
    assert_int_equal(zmq_ctx_term(context), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(context_without_memory_is_an_error),
        cmocka_unit_test(context_begins_where_there_is_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
