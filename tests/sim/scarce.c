#include "tests/sim/scarce.h"

#include "base/mem.h"

#include <assert.h>

/* More than there are. */
static const int64_t many = INT64_C(1) << 60;

static struct {
    struct scarce how;
    bool on, within, failed;
    unsigned process; /* that runs now */
    int64_t left;     /* until the one that fails; 0: it has */
    int64_t calls;
} scarce;

void scarce_set(const struct scarce *how)
{
    assert(!scarce.within);
    scarce.on = how != NULL;
    scarce.failed = false;
    scarce.process = 0;
    scarce.calls = 0;
    if (!how)
        return;
    scarce.how = *how;
    scarce.left = how->nth ? how->nth : many;
}

static bool is_its_turn(void)
{
    return scarce.on && scarce.process == scarce.how.process && scarce.left > 0;
}

void scarce_begin(void)
{
    assert(!scarce.within);
    scarce.within = true;
    if (is_its_turn())
        mem_fail_at(scarce.left, scarce.how.forever);
}

void scarce_end(void)
{
    int64_t left;

    assert(scarce.within);
    scarce.within = false;
    if (!is_its_turn())
        return;
    left = mem_fail_left();
    scarce.calls += scarce.left - left;
    scarce.failed |= mem_failed() != 0;
    scarce.left = left;
    mem_fail_at(0, 0);
}

void scarce_process_ends(void)
{
    assert(!scarce.within);
    scarce.process++;
}

int64_t scarce_calls(void)
{
    return scarce.calls;
}

bool scarce_failed(void)
{
    return scarce.failed;
}
