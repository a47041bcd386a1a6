#include "tests/sim/virtual_pages.h"

#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>

#define DAMPING 0.85
#define LINK_S 5e-9 /* of work */

struct virtual_pages {
    struct virtual_pages_options opt;
    struct perm number; /* of a page; pages of a worker are contiguous */
    uint64_t *row;      /* [pages] numbers, by page */
    uint64_t *link;     /* [pages * links] numbers */
    double *given;      /* [pages] what it has given each, so far */
};

static void *zeroed(size_t n, size_t size)
{
    void *p = mem_calloc(n, size);

    if (!p)
        abort();
    return p;
}

static uint64_t first_page(const struct virtual_pages *p, uint32_t worker)
{
    return (uint64_t)p->opt.pages * worker / p->opt.workers;
}

static uint64_t linked_page(const struct virtual_pages *p, uint32_t worker,
                            struct rng *rng)
{
    uint64_t first = first_page(p, worker);

    if (rng_uniform(rng) < p->opt.outside)
        return rng_below(rng, p->opt.pages);
    return first + rng_below(rng, first_page(p, worker + 1) - first);
}

struct virtual_pages *virtual_pages_new(const struct virtual_pages_options *opt)
{
    struct virtual_pages *p = zeroed(1, sizeof(*p));
    struct rng rng;

    p->opt = *opt;
    rng_init(&rng, opt->seed);
    perm_init(&p->number, opt->pages, opt->seed);
    p->row = zeroed(opt->pages, sizeof(*p->row));
    p->link = zeroed((size_t)opt->pages * opt->links, sizeof(*p->link));
    p->given = zeroed(opt->pages, sizeof(*p->given));
    for (uint32_t i = 0; i < opt->pages; i++)
        p->row[i] = perm_at(&p->number, i);
    for (uint32_t w = 0; w < opt->workers; w++)
        for (uint64_t i = first_page(p, w); i < first_page(p, w + 1); i++)
            for (uint32_t k = 0; k < opt->links; k++)
                p->link[i * opt->links + k] = p->row[linked_page(p, w, &rng)];
    return p;
}

void virtual_pages_free(struct virtual_pages *p)
{
    mem_free(p->row);
    mem_free(p->link);
    mem_free(p->given);
    mem_free(p);
}

static size_t plan(void *self, uint32_t worker, int clock,
                   const uint64_t **rows)
{
    const struct virtual_pages *p = self;

    (void)clock;
    *rows = p->row + first_page(p, worker);
    return first_page(p, worker + 1) - first_page(p, worker);
}

static double visit(void *self, struct virtual *v, uint32_t worker, int clock,
                    size_t i, const void *values)
{
    struct virtual_pages *p = self;
    uint64_t page = first_page(p, worker) + i;
    double gives = DAMPING * *(const double *)values / p->opt.links;
    double change = gives - p->given[page];

    (void)clock;
    for (uint32_t k = 0; k < p->opt.links; k++)
        virtual_add(v, worker, p->link[page * p->opt.links + k], &change);
    p->given[page] = gives;
    return p->opt.links * LINK_S;
}

void virtual_pages_options(struct virtual_pages *p, struct virtual_options *out)
{
    out->program = (struct virtual_program){p, plan, visit};
    out->rows = p->opt.pages;
    out->width = 1;
    out->type = MLT_F64;
    out->rule = "add";
}

void virtual_pages_init(struct virtual_pages *p, struct virtual *v)
{
    const double rank = (1 - DAMPING) / p->opt.pages;

    for (uint32_t i = 0; i < p->opt.pages; i++)
        virtual_init_row(v, i, &rank);
}
