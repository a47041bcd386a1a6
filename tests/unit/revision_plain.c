#include "tests/unit/revision_plain.h"

#include <assert.h>
#include <math.h>

void revision_plain_update(struct revision_plain *p, double rate,
                           float gradient, int read)
{
    double late = 0, before = rate / sqrt(p->most + 1e-16), after;

    assert(read <= p->n && p->n < REVISION_PLAIN_MAX);
    for (int i = read; i < p->n; i++)
        late += p->gradient[i];
    p->squares += (double)gradient * gradient + 2 * gradient * late;
    p->most = fmax(p->most, p->squares);
    after = rate / sqrt(p->most + 1e-16);
    p->value -= after * gradient;
    p->value += (before - after) * late;
    p->gradient[p->n++] = gradient;
}
