/* lda beside a plain collapsed Gibbs sampler, on generated data of the NIPS
 * corpus's shape: 1,500 documents, 12,419 words, 1.93 million tokens; one
 * worker, everything through host and parameter server.
 *
 * The plain sampler goes through the documents token by token and computes
 * every topic's probability in doubles, as GibbsLDA++ (Phan and Nguyen 2007)
 * does.
 *
 *   lda_tokens  tokens a CPU second, over all passes
 *   lda_time    CPU seconds to the log-likelihood that the plain sampler has
 *               after its passes
 *   lda_loglik  log p(w, z) a token after equally many passes
 *
 * Where a chain settles differs by seed (topics that merged early stay so), for
 * both alike: so BENCH_SEEDS pairs of chains (1), medians, and `reached`, how
 * many of ours came to the likelihood of their plain one within twice the
 * passes.
 *
 * BENCH_PASSES passes of the plain sampler (10; 200 is what docs/results.md
 * has, half an hour at 1,000 topics). An argument is a number of topics to run
 * alone.
 */
#include "apps/lda/lda.h"
#include "apps/data/data.h"
#include "base/clock_io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ps/node/host_io.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char data[] = "gen:nips";
static const double alpha = 0.1, beta = 0.01;

static unsigned wanted(const char *variable, unsigned otherwise, unsigned most)
{
    const char *text = getenv(variable);
    int n = text ? atoi(text) : (int)otherwise;

    bench_must(n >= 1 && n <= (int)most, variable);
    return (unsigned)n;
}

static double seconds(time_ns since)
{
    return (double)(bench_cpu() - since) / 1e9;
}

/* ---- plain --------------------------------------------------------------- */

struct plain {
    uint32_t topics, words, docs;
    uint64_t tokens;
    uint64_t *begin; /* [docs + 1] */
    uint32_t *word;  /* [tokens] by document */
    uint32_t *z;     /* [tokens] */
    int32_t *word_topic, *doc_topic, *total;
    double *p;
    struct rng rng;
};

static void plain_open(struct plain *s, const struct corpus *c, uint32_t topics,
                       uint64_t seed)
{
    uint64_t at = 0, i, d;

    *s = (struct plain){.topics = topics,
                        .words = c->words,
                        .docs = (uint32_t)c->docs,
                        .tokens = c->tokens};
    s->begin = mem_calloc(c->docs + 1, sizeof(*s->begin));
    s->word = mem_calloc(c->tokens, sizeof(*s->word));
    s->z = mem_calloc(c->tokens, sizeof(*s->z));
    s->word_topic = mem_calloc((size_t)c->words * topics, sizeof(int32_t));
    s->doc_topic = mem_calloc(c->docs * topics, sizeof(int32_t));
    s->total = mem_calloc(topics, sizeof(int32_t));
    s->p = mem_calloc(topics, sizeof(double));
    bench_must(s->begin && s->word && s->z && s->word_topic && s->doc_topic &&
                   s->total && s->p,
               "memory");
    rng_init(&s->rng, seed);
    for (d = 0; d < c->docs; d++) {
        for (i = c->begin[d]; i < c->begin[d + 1]; i++)
            for (uint32_t j = 0; j < c->count[i]; j++) {
                uint32_t k = (uint32_t)rng_below(&s->rng, topics);

                s->word[at] = c->word[i];
                s->z[at++] = k;
                s->word_topic[(size_t)c->word[i] * topics + k]++;
                s->doc_topic[d * topics + k]++;
                s->total[k]++;
            }
        s->begin[d + 1] = at;
    }
}

static void plain_close(struct plain *s)
{
    mem_free(s->begin);
    mem_free(s->word);
    mem_free(s->z);
    mem_free(s->word_topic);
    mem_free(s->doc_topic);
    mem_free(s->total);
    mem_free(s->p);
}

static void plain_pass(struct plain *s)
{
    const double v_beta = s->words * beta, k_alpha = s->topics * alpha;

    for (uint32_t d = 0; d < s->docs; d++) {
        int32_t *doc = s->doc_topic + (size_t)d * s->topics;
        double length = (double)(s->begin[d + 1] - s->begin[d] - 1);

        for (uint64_t i = s->begin[d]; i < s->begin[d + 1]; i++) {
            int32_t *word = s->word_topic + (size_t)s->word[i] * s->topics;
            uint32_t k = s->z[i];
            double u;

            word[k]--;
            doc[k]--;
            s->total[k]--;
            for (k = 0; k < s->topics; k++)
                s->p[k] = (word[k] + beta) / (s->total[k] + v_beta) *
                          (doc[k] + alpha) / (length + k_alpha);
            for (k = 1; k < s->topics; k++)
                s->p[k] += s->p[k - 1];
            u = rng_uniform(&s->rng) * s->p[s->topics - 1];
            for (k = 0; k + 1 < s->topics && s->p[k] <= u; k++)
                ;
            word[k]++;
            doc[k]++;
            s->total[k]++;
            s->z[i] = k;
        }
    }
}

/* log p(w, z) a token, by its definition. */
static double plain_log(const struct plain *s)
{
    double sum = 0;
    uint32_t k, w, d;

    for (k = 0; k < s->topics; k++) {
        sum += lgamma(s->words * beta) - s->words * lgamma(beta) -
               lgamma(s->total[k] + s->words * beta);
        for (w = 0; w < s->words; w++)
            sum += lgamma(s->word_topic[(size_t)w * s->topics + k] + beta);
    }
    for (d = 0; d < s->docs; d++) {
        double length = (double)(s->begin[d + 1] - s->begin[d]);

        sum += lgamma(s->topics * alpha) - s->topics * lgamma(alpha) -
               lgamma(length + s->topics * alpha);
        for (k = 0; k < s->topics; k++)
            sum += lgamma(s->doc_topic[(size_t)d * s->topics + k] + alpha);
    }
    return sum / (double)s->tokens;
}

/* ---- ours ---------------------------------------------------------------- */

struct hosted {
    struct host *host;
};

static void hosted_open(struct hosted *h, uint32_t topics, uint64_t seed)
{
    struct host_config c = {.app = &app_lda, .folder = ".", .seed = seed};
    struct fault f = {0};
    json_t *json =
        json_pack("{s:{s:s, s:s, s:i, s:f, s:f, s:f}, s:{s:i}}", "app", "name",
                  "lda", "data", data, "topics", (int)topics, "alpha", alpha,
                  "beta", beta, "test_fraction", 0.0, "cluster", "workers", 1);

    bench_must(json != NULL, "configuration");
    c.config = json;
    bench_must(host_open(&c, &h->host, &f) == ERR_OK, f.text);
    json_decref(json);
    bench_must(ps_fork(host_ps(h->host), 1, 0, BRANCH_TRAINING) == ERR_OK,
               "fork");
}

static double hosted_slice(struct hosted *h, branch_id branch,
                           enum branch_type type)
{
    uint64_t clocks = host_facts(h->host)->order.parts;
    struct host_slice slice = {branch, type, &host_facts(h->host)->defaults,
                               clocks, clocks};
    struct host_result result;
    struct fault f = {0};
    const struct progress_window *w;

    bench_must(host_slice_begin(h->host, &slice, &f) == ERR_OK, f.text);
    bench_must(host_slice_end(h->host, &result, &f) == ERR_OK, f.text);
    w = host_slice_window(h->host, 0);
    return -w->sum / (double)w->samples;
}

/* A probe learns nothing: a pass of it is log p(w, z) as it stands. */
static double hosted_log(struct hosted *h)
{
    double log;

    bench_must(ps_fork(host_ps(h->host), 2, 1, BRANCH_PROBE) == ERR_OK, "fork");
    log = hosted_slice(h, 2, BRANCH_PROBE);
    bench_must(ps_drop(host_ps(h->host), 2) == ERR_OK, "drop");
    return log;
}

/* ---- both ---------------------------------------------------------------- */

struct course {
    double log;  /* after all passes */
    double time; /* CPU seconds of all passes */
};

static struct course run_plain(const struct corpus *c, uint32_t topics,
                               unsigned passes, uint64_t seed)
{
    struct plain s;
    struct course out;
    time_ns since;

    plain_open(&s, c, topics, seed);
    since = bench_cpu();
    for (unsigned i = 0; i < passes; i++)
        plain_pass(&s);
    out.time = seconds(since);
    out.log = plain_log(&s);
    plain_close(&s);
    return out;
}

/* @to_target: CPU seconds to @target, NAN if it was not reached in twice the
 * passes. */
static struct course run_ours(uint32_t topics, unsigned passes, uint64_t seed,
                              double target, double *to_target)
{
    struct hosted h;
    struct course out = {NAN, 0};
    double time = 0, log = -INFINITY;

    hosted_open(&h, topics, seed);
    *to_target = NAN;
    for (unsigned i = 1; i <= passes || (i <= 2 * passes && isnan(*to_target));
         i++) {
        time_ns since = bench_cpu();

        hosted_slice(&h, 1, BRANCH_TRAINING);
        time += seconds(since);
        log = hosted_log(&h);
        if (log >= target && isnan(*to_target))
            *to_target = time;
        if (i == passes)
            out = (struct course){log, time};
    }
    host_close(h.host);
    return out;
}

struct rates {
    struct bench_series speed, faster, time, sooner, log, plain, nearer;
};

static void compare_seed(const struct corpus *c, uint32_t topics,
                         unsigned passes, uint64_t seed, struct rates *r)
{
    struct course plain = run_plain(c, topics, passes, seed), ours;
    double tokens = (double)c->tokens * passes, to_target;

    ours = run_ours(topics, passes, seed, plain.log, &to_target);
    bench_add(&r->speed, tokens / ours.time);
    bench_add(&r->faster, plain.time / ours.time);
    bench_add(&r->log, ours.log);
    bench_add(&r->plain, plain.log);
    bench_add(&r->nearer, plain.log / ours.log);
    if (isnan(to_target))
        return;
    bench_add(&r->time, to_target);
    bench_add(&r->sooner, plain.time / to_target);
}

static void compare(const struct corpus *c, uint32_t topics, unsigned passes,
                    unsigned seeds)
{
    static struct rates r;
    char params[96], versus[128];

    r = (struct rates){.speed = {.n = 0}};
    for (unsigned seed = 1; seed <= seeds; seed++)
        compare_seed(c, topics, passes, seed, &r);
    snprintf(params, sizeof(params), "topics=%u passes=%u", topics, passes);
    snprintf(versus, sizeof(versus), "%s vs=plain", params);
    bench_print("lda_tokens", params, &r.speed, "tokens/s");
    bench_print("lda_tokens", versus, &r.faster, "ratio");
    bench_print("lda_loglik", params, &r.log, "nats/token");
    bench_print("lda_loglik_plain", params, &r.plain, "nats/token");
    bench_print("lda_loglik", versus, &r.nearer, "ratio");
    snprintf(params, sizeof(params), "topics=%u passes=%u reached=%zu/%u",
             topics, passes, r.time.n, seeds);
    snprintf(versus, sizeof(versus), "%s vs=plain", params);
    if (r.time.n > 0) {
        bench_print("lda_time", params, &r.time, "s");
        bench_print("lda_time", versus, &r.sooner, "ratio");
    } else {
        bench_skip("lda_time", params, "never came to plain's likelihood");
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    unsigned passes = wanted("BENCH_PASSES", 10, 10000);
    unsigned seeds = wanted("BENCH_SEEDS", 1, BENCH_ROUNDS_MAX);
    unsigned only = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    struct corpus c;
    struct fault f = {0};

    bench_must(data_load_bow(data, NULL, &c, &f) == ERR_OK, f.text);
    for (uint32_t topics = 100; topics <= 1000; topics *= 10)
        if (only == 0 || only == topics)
            compare(&c, topics, passes, seeds);
    corpus_deinit(&c);
    return 0;
}
