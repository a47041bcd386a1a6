#include "api/view/long_history.h"

#include "api/view/view.h"

#include <assert.h>

bool long_history_read(const struct route_call *call,
                       bool (*read)(const struct history *h, void *state),
                       void *state, struct response *out)
{
    const struct history *h;
    bool more;

    assert(read);
    do {
        view_lock(call->view);
        h = list_run(call, out);
        more = h && read(h, state);
        view_unlock(call->view);
    } while (more);
    return h != NULL;
}

void long_history_lineage(const struct history *h, clock_no before[], size_t n)
{
    const struct history_branch *b = history_branch(h, history_tip(h));
    clock_no limit = UINT64_MAX;

    assert(before || n == 0);
    /* A parent is older than its child; one that is not, as a damaged journal
     * might have it, ends the walk. */
    while (b) {
        size_t index = (size_t)(b - history_branch_at(h, 0));
        const struct history_branch *parent = history_branch(h, b->parent);

        if (index < n)
            before[index] = limit;
        if (b->created_clock < limit)
            limit = b->created_clock;
        b = parent && parent < b ? parent : NULL;
    }
}
