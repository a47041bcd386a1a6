#include "ps/nodes/traffic.h"

#include <assert.h>
#include <stddef.h>

void traffic_count_rows(struct ps_traffic *t, const struct frame *f, bool early,
                        enum priority p)
{
    assert(!early || p < PRIORITY_COUNT);
    if (f->kind == FRAME_UPDATE)
        *(early ? &t->rows_early[p] : &t->rows_due) += f->count;
    else if (f->kind == FRAME_ROWS && f->worker != FRAME_NO_WORKER)
        t->rows_answered += f->count;
    else if (f->kind == FRAME_ROWS)
        *(early ? &t->rows_pushed_early[p] : &t->rows_pushed) += f->count;
}
