/* The training applications through host and parameter server, beside the same
 * loops on plain arrays: the same order of samples, the same kernels where they
 * are the application's own, updates with the same meaning, buffers and
 * barriers. One worker and two, all in the same rounds.
 *
 *   mf_ratings  rank 32 on 20 million generated ratings of MovieLens 20M's
 * shape mlr_images  784-10 on 60,000 generated digits, momentum 0.9
 *
 * Rates are given per second of wall clock and per second of CPU. `speedup` is
 * what a second worker makes of the wall clock, beside the plain loop's own.
 * BENCH_RATINGS (millions) and BENCH_ROUNDS shorten it.
 */
#include "apps/data/data.h"
#include "apps/mf/mf.h"
#include "apps/mf/mf_app.h"
#include "apps/mlr/mlr.h"
#include "apps/mlr/mlr_kernel.h"
#include "base/clock_io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/simd.h"
#include "ps/node/host_io.h"
#include "ps/server/park_io.h"
#include "tests/bench/bench.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WORKERS_MAX = 2, RANK = 32, AHEAD = 24, CLASSES = 10, LINE = 64 };
enum { HUGE_PAGE = 2 << 20 };

/* One of what runs in a round: a pass or more over the data. */
struct side {
    void (*pass)(void *ctx, unsigned round);
    void *ctx;
    struct bench_series wall, cpu; /* samples a second */
};

static void measure(struct side *s, unsigned round, double samples)
{
    time_ns wall = clock_monotonic(), cpu = bench_cpu();

    s->pass(s->ctx, round);
    wall = clock_monotonic() - wall;
    cpu = bench_cpu() - cpu;
    bench_add(&s->wall, samples * 1e9 / (double)wall);
    bench_add(&s->cpu, samples * 1e9 / (double)cpu);
}

/* side[workers - 1][0 ours, 1 plain] */
static void report(const char *name, const char *params, const char *unit,
                   struct side side[WORKERS_MAX][2])
{
    struct bench_series speedup[2] = {{.n = 0}, {.n = 0}};
    char text[128];
    unsigned w, k;
    size_t i;

    for (w = 0; w < WORKERS_MAX; w++) {
        snprintf(text, sizeof(text), "%s workers=%u time=cpu", params, w + 1);
        bench_print(name, text, &side[w][0].cpu, unit);
        bench_print_ratio(name, text, "plain", &side[w][0].cpu, &side[w][1].cpu,
                          0);
        snprintf(text, sizeof(text), "%s workers=%u time=wall", params, w + 1);
        bench_print(name, text, &side[w][0].wall, unit);
        bench_print_ratio(name, text, "plain", &side[w][0].wall,
                          &side[w][1].wall, 0);
    }
    for (k = 0; k < 2; k++) {
        for (i = 0; i < side[0][k].wall.n; i++)
            bench_add(&speedup[k],
                      side[1][k].wall.value[i] / side[0][k].wall.value[i]);
    }
    snprintf(text, sizeof(text), "%s workers=2 speedup=wall", params);
    bench_print(name, text, &speedup[0], "times");
    bench_print_ratio(name, text, "plain", &speedup[0], &speedup[1], 0);
}

static void run_rounds(struct side side[WORKERS_MAX][2], double samples)
{
    size_t rounds = bench_rounds(), r;
    unsigned w, k;

    for (w = 0; w < WORKERS_MAX; w++) /* warm: caches, branches' first writes */
        for (k = 0; k < 2; k++)
            side[w][k].pass(side[w][k].ctx, 0);
    for (r = 0; r < rounds; r++)
        for (w = 0; w < WORKERS_MAX; w++)
            for (k = 0; k < 2; k++)
                measure(&side[w][(k + r) % 2], (unsigned)r + 1, samples);
}

/* ---- ours: the application in its host ----------------------------------- */

struct hosted {
    struct host *host;
    struct node_setting setting;
    uint64_t clocks; /* of a pass */
    unsigned passes;
};

static void hosted_open(struct hosted *h, const struct mlt_app_ops *app,
                        const char *config, const char *setting, uint64_t batch,
                        unsigned passes)
{
    json_t *json = json_loads(config, 0, NULL);
    struct host_config c = {
        .app = app, .config = json, .folder = ".", .seed = 1};
    struct fault f = {0};
    const struct host_facts *facts;

    bench_must(json != NULL, config);
    bench_must(host_open(&c, &h->host, &f) == ERR_OK, f.text);
    json_decref(json);
    json = json_loads(setting, 0, NULL);
    bench_must(json != NULL, setting);
    bench_must(node_setting_read(&host_facts(h->host)->defaults, json,
                                 app->tunables, &h->setting, &f) == ERR_OK,
               f.text);
    json_decref(json);
    facts = host_facts(h->host);
    batch *= facts->order.workers;
    h->clocks = facts->order.parts ? facts->order.parts
                                   : (facts->info.samples + batch - 1) / batch;
    h->passes = passes;
    bench_must(ps_fork(host_ps(h->host), 1, 0, BRANCH_TRAINING) == ERR_OK,
               "fork");
}

static void hosted_pass(void *ctx, unsigned round)
{
    struct hosted *h = ctx;
    uint64_t count = h->clocks * h->passes;
    struct host_slice slice = {.branch = 1,
                               .type = BRANCH_TRAINING,
                               .setting = &h->setting,
                               .count = count,
                               .report_every = (count + 99) / 100};
    struct host_result result;
    struct fault f = {0};

    (void)round;
    bench_must(host_slice_begin(h->host, &slice, &f) == ERR_OK, f.text);
    bench_must(host_slice_end(h->host, &result, &f) == ERR_OK, f.text);
    bench_must(result.clocks == count, "all clocks ran: did it diverge?");
}

static void hosted_close(struct hosted *h)
{
    host_close(h->host);
}

/* The plain loops may use what the kernels use. */
#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#endif

/* ---- plain: threads, a barrier, arrays ----------------------------------- */

struct barrier {
    struct park park;
    _Atomic unsigned waiting;
    unsigned workers;
};

static void meet(struct barrier *b)
{
    uint32_t ticket = park_ticket(&b->park);

    if (b->workers == 1)
        return;
    if (atomic_fetch_add(&b->waiting, 1) + 1 == b->workers) {
        atomic_store(&b->waiting, 0);
        park_wake(&b->park);
        return;
    }
    while (park_ticket(&b->park) == ticket)
        park_wait(&b->park, ticket, PARK_SPIN_MAX_NS);
}

struct plain_thread {
    pthread_t thread;
    void (*work)(void *ctx, unsigned worker, unsigned round);
    void *ctx;
    unsigned worker, round;
};

static void *plain_main(void *arg)
{
    struct plain_thread *t = arg;

    t->work(t->ctx, t->worker, t->round);
    return NULL;
}

static void run_plain(void (*work)(void *, unsigned, unsigned), void *ctx,
                      unsigned workers, unsigned round)
{
    struct plain_thread t[WORKERS_MAX];
    unsigned i;

    for (i = 0; i < workers; i++) {
        t[i] = (struct plain_thread){
            .work = work, .ctx = ctx, .worker = i, .round = round};
        bench_must(pthread_create(&t[i].thread, NULL, plain_main, &t[i]) == 0,
                   "thread");
    }
    for (i = 0; i < workers; i++)
        pthread_join(t[i].thread, NULL);
}

/* On huge pages, as the branch store has its chunks. */
static void *zeroed(size_t bytes)
{
    size_t rounded = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *p = mem_aligned(HUGE_PAGE, rounded);

    bench_must(p != NULL, "memory");
    (void)madvise(p, rounded, MADV_HUGEPAGE);
    memset(p, 0, rounded);
    return p;
}

/* ---- mf on plain arrays -------------------------------------------------- */

struct plain_mf {
    const struct mf *app;
    bool adagrad;
    float rate;
    unsigned workers;
    uint32_t slots; /* floats behind the values of a row */
    float *row[MF_SIDES];
    struct mf_share share[WORKERS_MAX];
    float *sum[WORKERS_MAX];       /* [items][RANK] item gradients */
    uint8_t *touched[WORKERS_MAX]; /* [items] */
    struct barrier barrier;
};

/* The rule's own reciprocal root, so that the plain loop is as fast as it can
 * be: 12 bits from the processor and one step of Newton's method. */
KERNEL_PART void plain_adagrad(float *restrict w, const float *restrict g,
                               float rate)
{
    float *restrict s = w + RANK;

#ifdef __AVX2__
    for (int k = 0; k < RANK; k += 8) {
        __m256 gradient = _mm256_loadu_ps(g + k);
        __m256 squares =
            _mm256_fmadd_ps(gradient, gradient, _mm256_loadu_ps(s + k));
        __m256 x = _mm256_add_ps(squares, _mm256_set1_ps(1e-16f));
        __m256 y = _mm256_rsqrt_ps(x);
        __m256 half = _mm256_mul_ps(_mm256_mul_ps(x, _mm256_set1_ps(0.5f)), y);

        y = _mm256_mul_ps(y, _mm256_fnmadd_ps(half, y, _mm256_set1_ps(1.5f)));
        _mm256_storeu_ps(s + k, squares);
        _mm256_storeu_ps(
            w + k,
            _mm256_fnmadd_ps(_mm256_mul_ps(_mm256_set1_ps(rate), gradient), y,
                             _mm256_loadu_ps(w + k)));
    }
#else
    for (int k = 0; k < RANK; k++) {
        s[k] += g[k] * g[k];
        w[k] -= rate * g[k] / sqrtf(s[k] + 1e-16f);
    }
#endif
}

/* One row's step: a constant rank, a constant rule. */
KERNEL_PART void plain_step(float *restrict w, const float *restrict g,
                            float rate, const bool adagrad)
{
    if (adagrad) {
        plain_adagrad(w, g, rate);
        return;
    }
    for (int k = 0; k < RANK; k++)
        w[k] -= rate * g[k];
}

KERNEL_PART void plain_part(const struct plain_mf *p, unsigned worker,
                            uint64_t part, const bool adagrad)
{
    const struct mf_share *s = &p->share[worker];
    const uint32_t stride = RANK + (adagrad ? RANK : 0);
    const float lambda = (float)p->app->lambda;
    uint64_t i = mf_share_begin(s, MF_RATING, part), run;
    double squares = 0;

    for (run = mf_share_begin(s, MF_RUN, part);
         run < mf_share_begin(s, MF_RUN, part + 1); run++) {
        uint32_t item = s->run[run].item, n = s->run[run].count;
        const float *restrict r = p->row[MF_ITEMS] + (size_t)item * stride;
        float *restrict total = p->sum[worker] + (size_t)item * RANK;
        float sum[RANK] = {0};

        for (uint64_t end = i + n; i < end; i++) {
            float *restrict l = p->row[MF_USERS] + (size_t)s->user[i] * stride;
            float g[RANK], part_sum[8] = {0}, e;

            if (i + AHEAD < s->count) {
                const char *next =
                    (const char *)(p->row[MF_USERS] +
                                   (size_t)s->user[i + AHEAD] * stride);

                for (uint32_t b = 0; b < stride * 4; b += LINE)
                    __builtin_prefetch(next + b, 1);
            }
            for (int k = 0; k < RANK; k += 8)
                for (int j = 0; j < 8; j++)
                    part_sum[j] += l[k + j] * r[k + j];
            e = s->value[i] -
                (((part_sum[0] + part_sum[4]) + (part_sum[2] + part_sum[6])) +
                 ((part_sum[1] + part_sum[5]) + (part_sum[3] + part_sum[7])));
            squares += (double)(e * e);
            for (int k = 0; k < RANK; k++) {
                g[k] = lambda * l[k] - e * r[k];
                sum[k] += e * l[k];
            }
            plain_step(l, g, p->rate, adagrad);
        }
        if (!p->touched[worker][item])
            memset(total, 0, RANK * sizeof(*total));
        p->touched[worker][item] = 1;
        for (int k = 0; k < RANK; k++)
            total[k] += (float)n * lambda * r[k] - sum[k];
    }
    bench_keep(&squares);
}

static void plain_part_sgd(const struct plain_mf *p, unsigned worker,
                           uint64_t part)
{
    plain_part(p, worker, part, false);
}

static void plain_part_adagrad(const struct plain_mf *p, unsigned worker,
                               uint64_t part)
{
    plain_part(p, worker, part, true);
}

KERNEL_PART void plain_apply(const struct plain_mf *p, unsigned worker,
                             const bool adagrad)
{
    const uint32_t stride = RANK + (adagrad ? RANK : 0);
    uint64_t items = p->app->rows[MF_ITEMS];
    uint64_t end = items * (worker + 1) / p->workers;

    for (uint64_t i = items * worker / p->workers; i < end; i++) {
        float g[RANK] = {0};
        bool any = false;

        for (unsigned w = 0; w < p->workers; w++) {
            const float *d = p->sum[w] + i * RANK;

            if (!p->touched[w][i])
                continue;
            any = true;
            for (int k = 0; k < RANK; k++)
                g[k] += d[k];
        }
        if (any)
            plain_step(p->row[MF_ITEMS] + i * stride, g, p->rate, adagrad);
    }
}

static void plain_apply_sgd(const struct plain_mf *p, unsigned worker)
{
    plain_apply(p, worker, false);
}

static void plain_apply_adagrad(const struct plain_mf *p, unsigned worker)
{
    plain_apply(p, worker, true);
}

static void plain_mf_work(void *ctx, unsigned worker, unsigned round)
{
    struct plain_mf *p = ctx;
    struct perm order;

    perm_init(&order, p->app->parts, round);
    for (uint64_t c = 0; c < p->app->parts; c++) {
        uint64_t part = perm_at(&order, c);

        if (p->adagrad)
            plain_part_adagrad(p, worker, part);
        else
            plain_part_sgd(p, worker, part);
        meet(&p->barrier);
        if (p->adagrad)
            plain_apply_adagrad(p, worker);
        else
            plain_apply_sgd(p, worker);
        meet(&p->barrier);
        memset(p->touched[worker], 0, p->app->rows[MF_ITEMS]);
    }
}

static void plain_mf_pass(void *ctx, unsigned round)
{
    struct plain_mf *p = ctx;

    run_plain(plain_mf_work, p, p->workers, round);
}

static void plain_mf_open(struct plain_mf *p, const struct mf *app,
                          bool adagrad, float rate, unsigned workers)
{
    struct rng rng;
    uint64_t users = app->rows[MF_USERS];

    *p = (struct plain_mf){.app = app,
                           .adagrad = adagrad,
                           .rate = rate,
                           .workers = workers,
                           .slots = adagrad ? RANK : 0};
    p->barrier.workers = workers;
    rng_init(&rng, 1);
    for (int side = MF_USERS; side < MF_SIDES; side++) {
        uint32_t stride = RANK + p->slots;

        p->row[side] = zeroed(app->rows[side] * stride * sizeof(float));
        for (uint64_t i = 0; i < app->rows[side]; i++)
            for (int k = 0; k < RANK; k++)
                p->row[side][i * stride + (uint64_t)k] =
                    (float)(0.05 * rng_normal(&rng));
    }
    for (unsigned w = 0; w < workers; w++) {
        uint64_t first = users * w / workers;

        bench_must(mf_share_init(&p->share[w], &app->train, first,
                                 users * (w + 1) / workers - first) == ERR_OK,
                   "share");
        p->sum[w] = zeroed(app->rows[MF_ITEMS] * RANK * sizeof(float));
        p->touched[w] = zeroed(app->rows[MF_ITEMS]);
    }
}

static void plain_mf_close(struct plain_mf *p)
{
    mem_free(p->row[MF_USERS]);
    mem_free(p->row[MF_ITEMS]);
    for (unsigned w = 0; w < p->workers; w++) {
        mf_share_deinit(&p->share[w]);
        mem_free(p->sum[w]);
        mem_free(p->touched[w]);
    }
}

static uint64_t wanted_ratings(void)
{
    const char *text = getenv("BENCH_RATINGS");
    double millions = text ? strtod(text, NULL) : 20;

    bench_must(millions >= 0.2 && millions <= 1000,
               "BENCH_RATINGS is a number of millions");
    return (uint64_t)(millions * 1e6);
}

static const char mf_format[] =
    "{\"app\": {\"name\": \"mf\", \"rank\": 32, \"clock\": 100,"
    " \"test_fraction\": 0, \"data\": \"gen:ratings?users=138493&items=26744"
    "&ratings=%llu\"}, \"cluster\": {\"workers\": %u},"
    " \"ps\": {\"update_rule\": \"%s\"}}";

static void bench_mf(const char *rule, double rate)
{
    bool adagrad = strcmp(rule, "adagrad") == 0;
    uint64_t ratings = wanted_ratings();
    struct hosted ours[WORKERS_MAX];
    struct plain_mf plain[WORKERS_MAX];
    struct side side[WORKERS_MAX][2];
    struct mlt_app_config c = {
        .size = sizeof(c), .folder = ".", .workers = 1, .seed = 1};
    struct mlt_app_info info;
    struct mlt_error error;
    char config[512], setting[64], params[64];
    void *app;

    memset(side, 0, sizeof(side));
    snprintf(setting, sizeof(setting), "{\"learning_rate\": %g}", rate);
    snprintf(config, sizeof(config), mf_format, (unsigned long long)ratings, 1,
             rule);
    {
        json_t *json = json_loads(config, 0, NULL);
        char *text = json_dumps(json_object_get(json, "app"), 0);

        c.settings = text;
        bench_must(app_mf.open(&c, &info, &app, &error) == 0, error.text);
        free(text);
        json_decref(json);
    }
    for (unsigned w = 0; w < WORKERS_MAX; w++) {
        snprintf(config, sizeof(config), mf_format, (unsigned long long)ratings,
                 w + 1, rule);
        hosted_open(&ours[w], &app_mf, config, setting, 1, 1);
        plain_mf_open(&plain[w], app, adagrad, (float)rate, w + 1);
        side[w][0] = (struct side){.pass = hosted_pass, .ctx = &ours[w]};
        side[w][1] = (struct side){.pass = plain_mf_pass, .ctx = &plain[w]};
    }
    run_rounds(side, (double)info.samples);
    snprintf(params, sizeof(params), "rule=%s rank=%d ratings=%llu", rule, RANK,
             (unsigned long long)ratings);
    report("mf_ratings", params, "ratings/s", side);
    for (unsigned w = 0; w < WORKERS_MAX; w++) {
        hosted_close(&ours[w]);
        plain_mf_close(&plain[w]);
    }
    app_mf.close(app);
}

/* ---- mlr on plain arrays ------------------------------------------------- */

static const char mlr_data[] = "gen:digits?samples=60000&test=0";

struct plain_mlr {
    uint64_t count, batch;
    unsigned workers, passes;
    size_t width, stride;
    const uint8_t *pixel, *label;
    float rate, momentum;
    float *weight, *velocity;     /* [CLASSES][width + 1] */
    float *gradient[WORKERS_MAX]; /* the same */
    struct barrier barrier;
};

static void plain_mlr_share(struct plain_mlr *p, unsigned worker,
                            const struct perm *order, uint64_t first,
                            uint64_t count, uint64_t clock_samples)
{
    const uint8_t *pixel[2][MLR_BLOCK];
    const float *weight[CLASSES];
    float *gradient[CLASSES], z[MLR_BLOCK * CLASSES];
    uint8_t label[2][MLR_BLOCK];
    struct mlr_block b = {.width = p->width,
                          .classes = CLASSES,
                          .weight = weight,
                          .gradient = gradient,
                          .scale = 1.0f / (float)clock_samples,
                          .z = z};
    double loss = 0;
    unsigned now = 0;

    for (unsigned c = 0; c < CLASSES; c++) {
        weight[c] = p->weight + c * (p->width + 1);
        gradient[c] = p->gradient[worker] + c * (p->width + 1);
    }
    memset(gradient[0], 0, CLASSES * (p->width + 1) * sizeof(float));
    for (uint64_t at = 0, filled = 0; at < count; at += b.n, now = !now) {
        b.n = count - at < MLR_BLOCK ? count - at : MLR_BLOCK;
        for (; filled < at + b.n + MLR_BLOCK && filled < count; filled++) {
            uint64_t id = perm_at(order, first + filled);
            unsigned k = filled / MLR_BLOCK % 2;

            pixel[k][filled % MLR_BLOCK] = p->pixel + id * p->stride;
            label[k][filled % MLR_BLOCK] = p->label[id];
        }
        b.pixel = pixel[now];
        b.label = label[now];
        b.ahead = at + b.n + b.n <= count ? pixel[!now] : NULL;
        loss += mlr_train(&b);
    }
    bench_keep(&loss);
}

static void plain_mlr_apply(struct plain_mlr *p, unsigned worker)
{
    size_t n = CLASSES * (p->width + 1);
    size_t begin = n * worker / p->workers, end = n * (worker + 1) / p->workers;
    float *restrict w = p->weight, *restrict v = p->velocity;
    float *restrict g = p->gradient[0];
    float m = p->momentum, rate = p->rate;

    for (unsigned k = 1; k < p->workers; k++) {
        const float *restrict other = p->gradient[k];

        for (size_t j = begin; j < end; j++)
            g[j] += other[j];
    }
    for (size_t j = begin; j < end; j++) {
        v[j] = m * v[j] + (1 - m) * g[j];
        w[j] -= rate * v[j];
    }
}

static void plain_mlr_work(void *ctx, unsigned worker, unsigned round)
{
    struct plain_mlr *p = ctx;
    uint64_t all = p->batch * p->workers;

    for (unsigned pass = 0; pass < p->passes; pass++) {
        struct perm order;

        perm_init(&order, p->count, rng_mix(round, pass));
        for (uint64_t at = 0; at < p->count; at += all) {
            uint64_t n = p->count - at < all ? p->count - at : all;
            uint64_t first = n * worker / p->workers;
            uint64_t end = n * (worker + 1) / p->workers;

            plain_mlr_share(p, worker, &order, at + first, end - first, n);
            meet(&p->barrier);
            plain_mlr_apply(p, worker);
            meet(&p->barrier);
        }
    }
}

static void plain_mlr_pass(void *ctx, unsigned round)
{
    struct plain_mlr *p = ctx;

    run_plain(plain_mlr_work, p, p->workers, round);
}

static void plain_mlr_open(struct plain_mlr *p, const struct images *im,
                           const uint8_t *packed, uint64_t batch,
                           unsigned workers, unsigned passes)
{
    size_t width = images_width(im);
    size_t bytes = CLASSES * (width + 1) * sizeof(float);

    *p = (struct plain_mlr){.count = im->count,
                            .batch = batch,
                            .workers = workers,
                            .passes = passes,
                            .width = width,
                            .stride = mlr_packed_bytes(width),
                            .pixel = packed,
                            .label = im->label,
                            .rate = 0.1f,
                            .momentum = 0.9f};
    p->barrier.workers = workers;
    p->weight = zeroed(bytes);
    p->velocity = zeroed(bytes);
    for (unsigned w = 0; w < workers; w++)
        p->gradient[w] = zeroed(bytes);
}

static void plain_mlr_close(struct plain_mlr *p)
{
    mem_free(p->weight);
    mem_free(p->velocity);
    for (unsigned w = 0; w < p->workers; w++)
        mem_free(p->gradient[w]);
}

static void bench_mlr(const struct images *im, const uint8_t *packed,
                      uint64_t batch)
{
    enum { PASSES = 8 };
    struct hosted ours[WORKERS_MAX];
    struct plain_mlr plain[WORKERS_MAX];
    struct side side[WORKERS_MAX][2];
    char config[256], setting[128], params[64];

    memset(side, 0, sizeof(side));
    snprintf(setting, sizeof(setting),
             "{\"learning_rate\": 0.1, \"momentum\": 0.9, \"batch_size\": %u}",
             (unsigned)batch);
    for (unsigned w = 0; w < WORKERS_MAX; w++) {
        snprintf(config, sizeof(config),
                 "{\"app\": {\"name\": \"mlr\", \"data\": \"%s\","
                 " \"test_fraction\": 0}, \"cluster\": {\"workers\": %u}}",
                 mlr_data, w + 1);
        hosted_open(&ours[w], &app_mlr, config, setting, batch, PASSES);
        plain_mlr_open(&plain[w], im, packed, batch, w + 1, PASSES);
        side[w][0] = (struct side){.pass = hosted_pass, .ctx = &ours[w]};
        side[w][1] = (struct side){.pass = plain_mlr_pass, .ctx = &plain[w]};
    }
    run_rounds(side, PASSES * (double)im->count);
    snprintf(params, sizeof(params), "shape=784-10 batch=%u", (unsigned)batch);
    report("mlr_images", params, "images/s", side);
    for (unsigned w = 0; w < WORKERS_MAX; w++) {
        hosted_close(&ours[w]);
        plain_mlr_close(&plain[w]);
    }
}

static void bench_mlr_all(void)
{
    struct images im, none;
    struct fault f = {0};
    size_t stride;
    uint8_t *packed;

    bench_must(data_load_images(mlr_data, NULL, &im, &none, &f) == ERR_OK,
               f.text);
    stride = mlr_packed_bytes(images_width(&im));
    packed = zeroed(im.count * stride);
    for (uint64_t i = 0; i < im.count; i++)
        mlr_pack(images_width(&im), im.pixel + i * images_width(&im),
                 packed + i * stride);
    bench_mlr(&im, packed, 64);
    bench_mlr(&im, packed, 256);
    mem_free(packed);
    images_deinit(&im);
    images_deinit(&none);
}

/* @argv: mlr, sgd, adagrad; nothing is all of them. */
int main(int argc, char **argv)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        bench_skip("apps", "", "the plain loops need AVX2 and FMA");
        return 0;
    }
#endif
    if (argc < 2 || strcmp(argv[1], "mlr") == 0)
        bench_mlr_all();
    if (argc < 2 || strcmp(argv[1], "sgd") == 0)
        bench_mf("sgd", 0.002);
    if (argc < 2 || strcmp(argv[1], "adagrad") == 0)
        bench_mf("adagrad", 0.05);
    return 0;
}
