#include "ps/nodes/revision.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

#define NONE UINT32_MAX

enum { REPLACED_MIN = 64 };

struct row {
    uint32_t version;
    uint32_t held;   /* how often it is held */
    uint32_t newest; /* snapshot, or NONE */
};

/* A row's sum as it was at an earlier version. */
struct snapshot {
    uint32_t version, held;
    uint32_t older; /* of the same row; of a free one the next free, or NONE */
};

/* A version that a node was given and that another has replaced. */
struct replaced {
    uint64_t row, frame; /* the other's */
    uint32_t version;
};

struct holder {
    uint32_t *version;         /* [rows] given last; 0: none */
    struct replaced *replaced; /* [first .. end) in order of frames */
    size_t first, end, room;
};

struct revision {
    struct revision_options opt;
    struct row *row;
    struct holder *holder;     /* [nodes] */
    struct snapshot *snapshot; /* [made] */
    float *sum;                /* [made * width] */
    size_t snapshot_room, sum_room;
    uint32_t made, free; /* free: a list */
    struct revision_stats stats;
};

/* ---- life ---------------------------------------------------------------- */

void revision_free(struct revision *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; r->holder && i < r->opt.nodes; i++) {
        mem_free(r->holder[i].version);
        mem_free(r->holder[i].replaced);
    }
    mem_free(r->holder);
    mem_free(r->row);
    mem_free(r->snapshot);
    mem_free(r->sum);
    mem_free(r);
}

static enum err init_parts(struct revision *r)
{
    const struct revision_options *o = &r->opt;

    r->row = mem_calloc(o->rows + 1, sizeof(*r->row));
    r->holder = mem_calloc(o->nodes, sizeof(*r->holder));
    if (!r->row || !r->holder)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < o->nodes; i++) {
        r->holder[i].version = mem_calloc(o->rows + 1, sizeof(uint32_t));
        if (!r->holder[i].version)
            return ERR_NOMEM;
    }
    return ERR_OK;
}

enum err revision_new(const struct revision_options *opt, struct revision **out)
{
    struct revision *r = mem_calloc(1, sizeof(*r));
    enum err err;

    assert(opt->nodes >= 1 && opt->width >= 1 && opt->snapshots_max < NONE);
    if (!r)
        return ERR_NOMEM;
    r->opt = *opt;
    err = init_parts(r);
    if (err) {
        revision_free(r);
        return err;
    }
    revision_reset(r);
    *out = r;
    return ERR_OK;
}

void revision_reset(struct revision *r)
{
    for (uint64_t i = 0; i < r->opt.rows; i++)
        r->row[i] = (struct row){.version = 1, .newest = NONE};
    for (uint32_t i = 0; i < r->opt.nodes; i++) {
        struct holder *h = &r->holder[i];

        memset(h->version, 0, r->opt.rows * sizeof(*h->version));
        h->first = h->end = 0;
    }
    r->made = 0;
    r->free = NONE;
    r->stats.snapshots = 0;
}

struct revision_stats revision_stats(const struct revision *r)
{
    return r->stats;
}

bool revision_full(const struct revision *r)
{
    return r->stats.snapshots >= r->opt.snapshots_max;
}

/* ---- snapshots ----------------------------------------------------------- */

/* One that is free, or NONE at the limit and without memory. */
static uint32_t take_snapshot(struct revision *r)
{
    uint32_t s = r->free;
    size_t width = r->opt.width;

    if (revision_full(r))
        return NONE;
    if (s != NONE) {
        r->free = r->snapshot[s].older;
    } else {
        if (mem_grow((void **)&r->snapshot, &r->snapshot_room,
                     sizeof(*r->snapshot), (size_t)r->made + 1) != 0 ||
            mem_grow((void **)&r->sum, &r->sum_room, sizeof(*r->sum),
                     ((size_t)r->made + 1) * width) != 0)
            return NONE;
        s = r->made++;
    }
    if (++r->stats.snapshots > r->stats.snapshots_peak)
        r->stats.snapshots_peak = r->stats.snapshots;
    return s;
}

void revision_change(struct revision *r, uint64_t row, const float *sum)
{
    struct row *at = &r->row[row];
    size_t width = r->opt.width;
    uint32_t s;

    assert(row < r->opt.rows && at->version < UINT32_MAX);
    if (at->held) {
        s = take_snapshot(r);
        if (s == NONE) { /* the version goes on */
            r->stats.missed++;
            return;
        }
        r->snapshot[s] = (struct snapshot){at->version, at->held, at->newest};
        memcpy(r->sum + s * width, sum, width * sizeof(*sum));
        at->newest = s;
        at->held = 0;
    }
    at->version++;
}

static void let_go(struct revision *r, uint64_t row, uint32_t version)
{
    struct row *at = &r->row[row];
    uint32_t *link = &at->newest, s;

    if (version == at->version) {
        assert(at->held > 0);
        at->held--;
        return;
    }
    while ((s = *link) != NONE && r->snapshot[s].version != version)
        link = &r->snapshot[s].older;
    assert(s != NONE);
    if (--r->snapshot[s].held)
        return;
    *link = r->snapshot[s].older;
    r->snapshot[s].older = r->free;
    r->free = s;
    r->stats.snapshots--;
}

bool revision_was(const struct revision *r, uint64_t row, uint32_t version)
{
    assert(row < r->opt.rows);
    return version <= r->row[row].version;
}

const float *revision_sum(const struct revision *r, uint64_t row,
                          uint32_t version)
{
    uint32_t best = NONE;

    assert(row < r->opt.rows);
    if (version == 0)
        return NULL;
    for (uint32_t s = r->row[row].newest;
         s != NONE && r->snapshot[s].version >= version;
         s = r->snapshot[s].older)
        best = s;
    return best == NONE ? NULL : r->sum + (size_t)best * r->opt.width;
}

/* ---- who holds what ------------------------------------------------------ */

static void forget_oldest(struct revision *r, struct holder *h)
{
    struct replaced *x = &h->replaced[h->first++];

    let_go(r, x->row, x->version);
    if (h->first == h->end)
        h->first = h->end = 0;
}

static size_t replaced_max(const struct revision *r)
{
    return (size_t)r->opt.rows * REVISION_REPLACED_A_ROW + REPLACED_MIN;
}

/* Room for one more at the end. False: none to be had. */
static bool make_room(struct revision *r, struct holder *h)
{
    size_t n = h->end - h->first;

    if (n == replaced_max(r)) {
        forget_oldest(r, h);
        r->stats.missed++;
        n--;
    }
    if (h->end < h->room)
        return true;
    if (h->first > h->room / 2) { /* at most once for so many that left */
        memmove(h->replaced, h->replaced + h->first, n * sizeof(*h->replaced));
        h->first = 0;
        h->end = n;
        return true;
    }
    return mem_grow((void **)&h->replaced, &h->room, sizeof(*h->replaced),
                    h->end + 1) == 0;
}

uint32_t revision_give(struct revision *r, uint32_t node, uint64_t row,
                       uint64_t frame)
{
    struct holder *h = &r->holder[node];
    struct row *at = &r->row[row];
    uint32_t before = h->version[row];

    assert(node < r->opt.nodes && row < r->opt.rows);
    assert(h->first == h->end || frame >= h->replaced[h->end - 1].frame);
    if (before == at->version)
        return before;
    if (before && make_room(r, h)) {
        h->replaced[h->end++] = (struct replaced){row, frame, before};
    } else if (before) {
        let_go(r, row, before);
        r->stats.missed++;
    }
    h->version[row] = at->version;
    at->held++;
    return at->version;
}

void revision_release(struct revision *r, uint32_t node, uint64_t frame)
{
    struct holder *h = &r->holder[node];

    assert(node < r->opt.nodes);
    while (h->first < h->end && h->replaced[h->first].frame <= frame)
        forget_oldest(r, h);
}
