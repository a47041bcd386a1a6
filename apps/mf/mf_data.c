/* mf: settings, data, rows for outside ids (mf_app.h). */
#include "apps/data/data.h"
#include "apps/mf/mf_app.h"
#include "apps/settings.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double default_fraction = 0.1;

/* Distinct streams of the seed: the split and the initial rows take it as it
 * is. */
enum { SEED_OF_PARTS = 0x9a47 };

/* Bytes of the arrays that are made of the loaded ones, at their peak. */
enum { BYTES_A_RATING = 24, LOOP_BYTES_A_RATING = 32 };

static void pairs_deinit(struct mf_pairs *p)
{
    mem_free(p->row[MF_USERS]);
    mem_free(p->row[MF_ITEMS]);
    mem_free(p->value);
    memset(p, 0, sizeof(*p));
}

void mf_close(void *app)
{
    struct mf *m = app;
    unsigned i;

    if (!m)
        return;
    for (i = 0; m->share && i < m->workers; i++)
        mf_share_deinit(&m->share[i]);
    mem_free(m->share);
    mem_free(m->scratch);
    mem_free(m->gradients);
    mem_free(m->summary);
    mem_free(m->id[MF_USERS]);
    mem_free(m->id[MF_ITEMS]);
    ratings_deinit(&m->data);
    pairs_deinit(&m->test);
    mf_ratings_deinit(&m->train);
    mf_loop_free(m);
    mem_free(m);
}

void mf_pairs_take(struct mf_pairs *p, struct ratings *r,
                   const uint32_t *const row[MF_SIDES], double offset)
{
    uint64_t i;

    *p = (struct mf_pairs){r->count, {r->user, r->item}, r->value};
    r->user = r->item = NULL;
    r->value = NULL;
    for (i = 0; i < p->count; i++) {
        p->row[MF_USERS][i] = row[MF_USERS][p->row[MF_USERS][i]];
        p->row[MF_ITEMS][i] = row[MF_ITEMS][p->row[MF_ITEMS][i]];
        p->value[i] = (float)((double)p->value[i] - offset);
    }
}

static double mean_of(const struct ratings *r)
{
    double sum = 0;
    uint64_t i;

    for (i = 0; i < r->count; i++)
        sum += (double)r->value[i];
    return sum / (double)r->count;
}

/* What the training ratings hold, for who looks at the run (docs/data.md).
 * NULL: out of memory. */
static char *summary_of(const struct mf *m, const struct ratings *r)
{
    double min = (double)r->value[0], max = min;
    json_t *o;
    char *text;

    for (uint64_t i = 1; i < r->count; i++) {
        min = fmin(min, (double)r->value[i]);
        max = fmax(max, (double)r->value[i]);
    }
    o = json_pack(
        "{s:s, s:I, s:I, s:I, s:f, s:f, s:f}", "kind", "ratings", "samples",
        (json_int_t)r->count, "users", (json_int_t)m->rows[MF_USERS], "items",
        (json_int_t)m->rows[MF_ITEMS], "min", min, "max", max, "mean", m->mean);
    text = o ? json_write(o, 0) : NULL;
    json_decref(o);
    return text;
}

/* Rows for one side of the training ratings, and the outside id of each:
 * @row[map->count]. */
static enum err number_side(struct mf *m, enum mf_side side,
                            const struct id_map *map, const uint32_t used[],
                            uint64_t n, uint32_t row[])
{
    uint64_t *count = mem_calloc(map->count, sizeof(*count));
    uint64_t i;
    enum err err;

    if (!count)
        return ERR_NOMEM;
    for (i = 0; i < n; i++)
        count[used[i]]++;
    err = mf_number_rows(map->count, count, row, &m->rows[side]);
    mem_free(count);
    if (err)
        return err;
    m->id[side] = mem_alloc(m->rows[side] * sizeof(*m->id[side]));
    if (!m->id[side])
        return ERR_NOMEM;
    for (i = 0; i < map->count; i++) {
        if (row[i] != MF_ROW_NONE)
            m->id[side][row[i]] = map->id[i];
    }
    return ERR_OK;
}

/* Validation ratings from another file, in @train's numbers; ids that it does
 * not have are numbered behind, where no row is. */
static enum err load_test(const struct settings *s, struct ratings *train,
                          struct ratings *test, struct fault *f)
{
    enum err err = data_load_ratings(s->test, s->folder, test, f);
    uint64_t i;

    for (i = 0; !err && i < test->count; i++) {
        err = id_map_add(&train->users, test->users.id[test->user[i]],
                         &test->user[i]);
        if (!err)
            err = id_map_add(&train->items, test->items.id[test->item[i]],
                             &test->item[i]);
        if (err)
            fault_set(f, err, "%s: %s", s->test, err_text(err));
    }
    return err;
}

static enum err choose_test(const struct settings *s, struct ratings *train,
                            struct ratings *test, struct fault *f)
{
    double fraction =
        s->test_fraction < 0 ? default_fraction : s->test_fraction;

    if (s->test)
        return load_test(s, train, test, f);
    if (ratings_split(train, fraction, s->seed, test))
        return fault_set(f, ERR_NOMEM, "%s: out of memory", s->data);
    if (train->count == 0)
        return fault_set(f, ERR_INVAL, "%s: no rating is left for training",
                         s->data);
    return ERR_OK;
}

static uint32_t clocks_for(uint64_t ratings)
{
    uint64_t n = ratings / MF_CLOCK_RATINGS;

    if (n < MF_CLOCKS_MIN)
        return MF_CLOCKS_MIN;
    return n < MF_CLOCKS_MAX ? (uint32_t)n : MF_CLOCKS_MAX;
}

/* Rows for all ids, then training and validation ratings in rows. */
static enum err arrange(struct mf *m, struct ratings *train,
                        struct ratings *test, uint32_t *const row[MF_SIDES])
{
    struct mf_pairs pairs = {0};
    const uint32_t *const rows[MF_SIDES] = {row[MF_USERS], row[MF_ITEMS]};
    enum err err = number_side(m, MF_USERS, &train->users, train->user,
                               train->count, row[MF_USERS]);

    if (!err)
        err = number_side(m, MF_ITEMS, &train->items, train->item, train->count,
                          row[MF_ITEMS]);
    if (err)
        return err;
    m->mean = mean_of(train);
    m->offset = m->factor ? 0 : m->mean;
    m->summary = summary_of(m, train);
    if (!m->summary)
        return ERR_NOMEM;
    mf_pairs_take(&m->test, test, rows, m->offset);
    mf_pairs_take(&pairs, train, rows, m->offset);
    if (m->parts == 0)
        m->parts = clocks_for(pairs.count);
    if (m->parts > pairs.count)
        m->parts = (uint32_t)pairs.count;
    m->samples = pairs.count;
    if (m->as_loop)
        err = mf_loop_take(m, &pairs);
    else
        err =
            mf_ratings_init(&m->train, pairs.count, pairs.row[MF_USERS],
                            pairs.row[MF_ITEMS], pairs.value, m->rows[MF_ITEMS],
                            m->parts, rng_mix(m->seed, SEED_OF_PARTS));
    pairs_deinit(&pairs);
    return err;
}

static enum err load_training(struct mf *m, const struct settings *s,
                              struct fault *f)
{
    struct ratings train = {0}, test = {0};
    uint32_t *row[MF_SIDES] = {NULL, NULL};
    enum err err = data_load_ratings(s->data, s->folder, &train, f);

    if (!err)
        err = choose_test(s, &train, &test, f);
    if (!err) /* sorted, and then once more in the workers' shares */
        err = data_memory_check(
            s->data,
            train.count * (m->as_loop ? LOOP_BYTES_A_RATING : BYTES_A_RATING),
            data_memory_limit(), f);
    if (!err) {
        row[MF_USERS] = mem_alloc(train.users.count * sizeof(**row));
        row[MF_ITEMS] = mem_alloc(train.items.count * sizeof(**row));
        err = row[MF_USERS] && row[MF_ITEMS] ? arrange(m, &train, &test, row)
                                             : ERR_NOMEM;
        if (err)
            fault_set(f, err, "%s: %s", s->data, err_text(err));
    }
    mem_free(row[MF_USERS]);
    mem_free(row[MF_ITEMS]);
    ratings_deinit(&train);
    ratings_deinit(&test);
    return err;
}

static enum err read_mean(struct mf *m, const struct settings *s,
                          struct fault *f)
{
    const json_t *mean = json_object_get(s->json, "mean");
    const char *word = mean ? json_string_value(mean) : "subtract";

    m->factor = word && strcmp(word, "factor") == 0;
    if (m->factor || (word && strcmp(word, "subtract") == 0))
        return ERR_OK;
    return fault_set(f, ERR_INVAL, "mean: expected \"subtract\" or \"factor\"");
}

static enum err read_parallel(struct mf *m, const struct settings *s,
                              struct fault *f)
{
    const json_t *parallel = json_object_get(s->json, "parallel");
    const char *word = parallel ? json_string_value(parallel) : "data";

    m->as_loop = word && strcmp(word, "loop") == 0 && !m->evaluate;
    if (!word || (strcmp(word, "loop") != 0 && strcmp(word, "data") != 0))
        return fault_set(f, ERR_INVAL,
                         "parallel: expected \"data\" or \"loop\"");
    if (m->as_loop && m->parts > MLT_LOOP_PARTS_MAX)
        return fault_set(f, ERR_INVAL,
                         "clock: %u clocks a pass, expected at most %d with "
                         "\"parallel\": \"loop\"",
                         m->parts, MLT_LOOP_PARTS_MAX);
    return ERR_OK;
}

static enum err load(struct mf *m, const struct settings *s, struct fault *f)
{
    if (s->predict)
        return data_load_pairs(s->data, s->folder, &m->data, f);
    if (s->evaluate)
        return data_load_ratings(s->data, s->folder, &m->data, f);
    return load_training(m, s, f);
}

static enum err open_mf(struct mf *m, const struct mlt_app_config *config,
                        struct fault *f)
{
    struct settings s;
    enum err err = settings_init(&s, config, f);

    if (err)
        return err;
    data_memory_allow(config->memory_limit);
    m->rank = (uint32_t)settings_number(&s, "rank", 32);
    m->lambda = settings_number(&s, "lambda", 0.05);
    m->parts = (uint32_t)s.clocks;
    m->seed = s.seed;
    m->evaluate = s.evaluate;
    m->predict = s.predict != NULL;
    m->workers = config->workers;
    atomic_init(&m->to_share, m->workers);
    assert(m->rank >= 1 && m->rank <= MF_RANK_MAX);
    err = read_mean(m, &s, f);
    if (!err)
        err = read_parallel(m, &s, f);
    if (!err)
        err = load(m, &s, f);
    settings_deinit(&s);
    return err;
}

int mf_open(const struct mlt_app_config *config, struct mlt_app_info *info,
            void **app, struct mlt_error *error)
{
    struct mf *m = mem_calloc(1, sizeof(*m));
    struct fault f = {0};

    assert(config->workers >= 1);
    if (!m || open_mf(m, config, &f)) {
        if (!m)
            fault_set(&f, ERR_NOMEM, "mf: out of memory");
        mf_close(m);
        return settings_fault(&f, error);
    }
    *info = (struct mlt_app_info){
        .samples = m->evaluate ? m->data.count : m->samples,
        .validation_samples = m->evaluate ? m->data.count : m->test.count,
        .order = MLT_ORDER_PARTS,
        .parts = m->evaluate ? 1 : m->parts,
        .metric = "rmse",
        .metric_higher_better = 0,
        .metric_reduction = MLT_SQRT_MEAN,
        .loss_floor = 0,
        .data = m->summary,
    };
    *app = m;
    return 0;
}
