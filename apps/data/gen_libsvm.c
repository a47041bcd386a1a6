/* gen:libsvm (apps/data/gen.h). Each sample, and each weight underneath, draws
 * from a generator of its own, so that nothing depends on the order of the
 * work. */
#include "apps/data/gen.h"

#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

enum {
    KEY_SAMPLES,
    KEY_COLUMNS,
    KEY_ENTRIES,
    KEY_CLASSES,
    KEY_NOISE,
    KEY_SEED
};

/* Distinct streams of the seed. */
enum sparse_stream { STREAM_SAMPLE = 200, STREAM_WEIGHT, STREAM_COLUMNS };

struct sparse_maker {
    uint64_t samples, columns, entries, classes, seed;
    double noise;
    struct perm place; /* so that a column's number says nothing */
    uint32_t *drawn;   /* [entries] */
    float *value;      /* [entries] */
};

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Columns of a sample, ascending; popularity falls as 1 / place (Zipf). One
 * that is drawn twice is there once. */
static uint64_t draw_columns(struct sparse_maker *m, struct rng *rng)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < m->entries; i++) {
        double place = pow((double)m->columns + 1, rng_uniform(rng)) - 1;

        m->drawn[i] = (uint32_t)perm_at(&m->place, place < (double)m->columns
                                                       ? (uint64_t)place
                                                       : m->columns - 1);
    }
    qsort(m->drawn, m->entries, sizeof(*m->drawn), by_number);
    for (uint64_t i = 0; i < m->entries; i++)
        if (n == 0 || m->drawn[n - 1] != m->drawn[i])
            m->drawn[n++] = m->drawn[i];
    return n;
}

/* Values of length 1 together, as of texts' tf-idf. */
static void draw_values(struct sparse_maker *m, uint64_t n, struct rng *rng)
{
    double squares = 0;

    for (uint64_t i = 0; i < n; i++) {
        double v = 0.5 + rng_uniform(rng);

        m->value[i] = (float)v;
        squares += v * v;
    }
    for (uint64_t i = 0; i < n; i++)
        m->value[i] = (float)((double)m->value[i] / sqrt(squares));
}

/* What the weights of class @class make of the sample. */
static double score(const struct sparse_maker *m, uint64_t class, uint64_t n,
                    struct rng *rng)
{
    uint64_t seed = rng_mix(rng_mix(m->seed, STREAM_WEIGHT), class);
    double z = m->noise * rng_normal(rng);

    for (uint64_t i = 0; i < n; i++) {
        struct rng weight;

        rng_init(&weight, rng_mix(seed, m->drawn[i]));
        z += rng_normal(&weight) * (double)m->value[i];
    }
    return z;
}

static double label(const struct sparse_maker *m, uint64_t n, struct rng *rng)
{
    double z = score(m, 0, n, rng);
    uint64_t best = 0;

    if (m->classes == 0)
        return z;
    if (m->classes == 2)
        return z > 0 ? 1 : -1;
    for (uint64_t c = 1; c < m->classes; c++) {
        double other = score(m, c, n, rng);

        best = other > z ? c : best;
        z = other > z ? other : z;
    }
    return (double)best;
}

static enum err make_sample(struct sparse_maker *m, uint64_t i,
                            struct sparse *s)
{
    struct rng rng;
    uint64_t n;
    enum err err;

    rng_init(&rng, rng_mix(rng_mix(m->seed, STREAM_SAMPLE), i));
    n = draw_columns(m, &rng);
    draw_values(m, n, &rng);
    err = sparse_begin_sample(s, label(m, n, &rng));
    for (uint64_t e = 0; e < n && !err; e++)
        err = sparse_add(s, m->drawn[e] + 1, m->value[e]);
    return err;
}

uint64_t gen_libsvm_bytes(const double v[])
{
    return 2 * (uint64_t)v[KEY_SAMPLES] * (16 + 8 * (uint64_t)v[KEY_ENTRIES]);
}

static enum err make(struct sparse_maker *m, struct sparse *s)
{
    enum err err = ERR_OK;

    m->drawn = mem_alloc(m->entries * sizeof(*m->drawn));
    m->value = mem_alloc(m->entries * sizeof(*m->value));
    if (!m->drawn || !m->value)
        err = ERR_NOMEM;
    perm_init(&m->place, m->columns, rng_mix(m->seed, STREAM_COLUMNS));
    for (uint64_t i = 0; i < m->samples && !err; i++)
        err = make_sample(m, i, s);
    mem_free(m->drawn);
    mem_free(m->value);
    return err;
}

enum err gen_libsvm(const char *spec, uint64_t limit_bytes, struct sparse *out,
                    struct fault *f)
{
    const struct gen_kind *kind;
    double v[GEN_KEYS_MAX];
    struct sparse_maker m;
    struct sparse s = {0};
    enum err err = gen_parse(spec, &kind, v, f);

    if (err)
        return err;
    if (kind->kind != DATA_LIBSVM)
        return fault_set(f, ERR_INVAL, "%s: makes %s; expected sparse samples",
                         spec, data_kind_text(kind->kind));
    m = (struct sparse_maker){.samples = (uint64_t)v[KEY_SAMPLES],
                              .columns = (uint64_t)v[KEY_COLUMNS],
                              .entries = (uint64_t)v[KEY_ENTRIES],
                              .classes = (uint64_t)v[KEY_CLASSES],
                              .noise = v[KEY_NOISE],
                              .seed = (uint64_t)v[KEY_SEED]};
    if (m.classes == 1)
        return fault_set(f, ERR_INVAL,
                         "%s: classes: expected 0 (labels are numbers) or at "
                         "least 2, found 1",
                         spec);
    err = data_memory_check(spec, gen_libsvm_bytes(v), limit_bytes, f);
    if (err)
        return err;
    err = make(&m, &s);
    if (err) {
        sparse_deinit(&s);
        return fault_set(f, err, "%s: %s", spec, err_text(err));
    }
    *out = s;
    return ERR_OK;
}
