#include "tuner/board/plateau.h"

#include <assert.h>
#include <math.h>

void plateau_init(struct plateau *p, uint32_t limit)
{
    assert(limit >= 1);
    *p = (struct plateau){.limit = limit, .best = NAN};
}

bool plateau_improves(const struct plateau *p, double value)
{
    if (!isfinite(value))
        return false;
    return isnan(p->best) ||
           value < p->best - PLATEAU_IMPROVEMENT * fabs(p->best);
}

bool plateau_add(struct plateau *p, double value)
{
    if (!plateau_improves(p, value)) {
        p->since++;
        return false;
    }
    p->best = value;
    p->since = 0;
    p->set_back = false;
    p->searched = false;
    return true;
}

bool plateau_due(const struct plateau *p)
{
    uint32_t due = p->limit > 1 ? p->limit - 1 : 1;

    return p->since >= due && !p->searched;
}

bool plateau_reached(const struct plateau *p)
{
    return p->since >= p->limit;
}

void plateau_commit(struct plateau *p)
{
    if (p->set_back)
        return;
    p->set_back = true;
    p->since = p->since > 2 ? p->since - 2 : 0;
}
