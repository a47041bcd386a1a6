/* word2vec beside a plain loop of the same kernel on flat arrays: one worker,
 * everything through host and parameter server.
 *
 * The text is tinyshakespeare, where MLTUNE_DATA or ../shared/data has it, else
 * generated.
 *
 *   w2v_pairs  pairs a CPU second, drawing them included, over all passes
 *   w2v_loss   mean loss of the text's pairs after equally many passes
 *
 * With BENCH_MEET, where two nodes meet (a folder is made for "folder";
 * tcp://127.0.0.1:PORT goes through the loopback device, which may be shaped):
 *
 *   w2v_nodes  seconds a pass of two node processes of one worker
 *
 * BENCH_PASSES passes a round (3). An argument is a size to run alone.
 */
#include "apps/word2vec/word2vec.h"
#include "apps/data/data.h"
#include "apps/word2vec/w2v_kernel.h"
#include "apps/word2vec/w2v_pairs.h"
#include "base/clock_io.h"
#include "base/mem.h"
#include "ps/node/host_io.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 1024, NEGATIVE = 5, WINDOW = 5, MIN_COUNT = 5 };

static const double rate = 0.025, sample = 1e-3;
static const struct words_options usual = {0};

static unsigned passes(void)
{
    const char *text = getenv("BENCH_PASSES");
    int n = text ? atoi(text) : 3;

    bench_must(n >= 1 && n <= 1000, "BENCH_PASSES");
    return (unsigned)n;
}

static const char *data(void)
{
    static char path[4096];
    const char *folder = getenv("MLTUNE_DATA");

    snprintf(path, sizeof(path), "%s/tinyshakespeare.txt.xz",
             folder ? folder : "../shared/data");
    return access(path, R_OK) == 0 ? path : "gen:text?tokens=200000";
}

/* ---- plain --------------------------------------------------------------- */

struct plain {
    struct text_words text;
    struct w2v_source source;
    struct w2v_pairs pairs;
    struct w2v_curve curve;
    struct rng rng;
    unsigned size, stride;
    float *vectors, *contexts, *change;
    uint64_t drawn; /* pairs */
};

static void plain_open(struct plain *s, unsigned size, uint64_t seed)
{
    struct fault f = {0};
    size_t rows;

    *s = (struct plain){
        .size = size, .stride = (size + W2V_LANES - 1) / W2V_LANES * W2V_LANES};
    bench_must(data_load_words(data(), NULL, &usual, &s->text, &f) == ERR_OK,
               f.text);
    bench_must(words_finish(&s->text, MIN_COUNT) == ERR_OK, "memory");
    rows = s->text.map.name.words;
    bench_must(w2v_source_init(&s->source, s->text.times, (uint32_t)rows,
                               sample, WINDOW, NEGATIVE) == ERR_OK,
               "memory");
    s->vectors = mem_calloc(rows * s->stride, sizeof(float));
    s->contexts = mem_calloc(rows * s->stride, sizeof(float));
    s->change = mem_calloc(s->stride, sizeof(float));
    bench_must(s->vectors && s->contexts && s->change, "memory");
    w2v_curve_init(&s->curve);
    rng_init(&s->rng, seed);
    for (size_t i = 0; i < rows; i++)
        for (unsigned j = 0; j < size; j++)
            s->vectors[i * s->stride + j] =
                (float)((rng_uniform(&s->rng) - 0.5) / size);
}

static void plain_close(struct plain *s)
{
    words_deinit(&s->text);
    w2v_source_deinit(&s->source);
    w2v_pairs_deinit(&s->pairs);
    mem_free(s->vectors);
    mem_free(s->contexts);
    mem_free(s->change);
}

/* A pass that trains, or that tells the mean loss. */
static double plain_pass(struct plain *s, bool train)
{
    struct w2v_step step = {.targets = 1 + NEGATIVE,
                            .stride = s->stride,
                            .vectors = s->vectors,
                            .contexts = s->contexts,
                            .rate = (float)rate,
                            .change = s->change,
                            .curve = &s->curve};
    double sum = 0;

    s->drawn = 0;
    for (uint64_t at = 0, n; at < s->text.count; at += n) {
        n = s->text.count - at < BLOCK ? s->text.count - at : BLOCK;
        bench_must(w2v_draw(&s->source, s->text.word, s->text.count, at, n,
                            &s->rng, &s->pairs) == ERR_OK,
                   "memory");
        step.pairs = s->pairs.pairs;
        step.in = s->pairs.in;
        step.out = s->pairs.out;
        s->drawn += step.pairs;
        sum += train ? w2v_train(&step) : w2v_loss(&step);
    }
    return sum / (double)s->drawn;
}

/* ---- ours ---------------------------------------------------------------- */

/* A node of @nodes. */
static struct host *node_open(unsigned size, uint64_t seed, const char *model,
                              unsigned nodes, unsigned node, const char *meet)
{
    struct host_config c = {.app = &app_word2vec,
                            .folder = ".",
                            .seed = seed,
                            .node = node,
                            .meet = meet};
    struct host *host;
    struct fault f = {0};
    json_t *json = json_pack("{s:{s:s, s:s, s:s, s:i}, s:{s:i, s:i}, s:{s:s}}",
                             "app", "name", "word2vec", "data", data(), "test",
                             data(), "size", (int)size, "cluster", "workers", 1,
                             "nodes", (int)nodes, "ps", "consistency", model);

    bench_must(json != NULL, "configuration");
    c.config = json;
    bench_must(host_open(&c, &host, &f) == ERR_OK, f.text);
    json_decref(json);
    bench_must(ps_fork(host_ps(host), 1, 0, BRANCH_TRAINING) == ERR_OK, "fork");
    return host;
}

static struct host *hosted_open(unsigned size, uint64_t seed)
{
    return node_open(size, seed, "bsp", 1, 0, NULL);
}

/* The mean of what a slice of @clocks tells. */
static double hosted_slice(struct host *host, branch_id branch,
                           enum branch_type type, uint64_t clocks)
{
    struct node_setting setting = host_facts(host)->defaults;
    struct host_slice slice = {branch, type, &setting, clocks, clocks};
    struct host_result result;
    struct fault f = {0};
    const struct progress_window *w;

    setting.learning_rate = rate;
    bench_must(host_slice_begin(host, &slice, &f) == ERR_OK, f.text);
    bench_must(host_slice_end(host, &result, &f) == ERR_OK, f.text);
    w = host_slice_window(host, 0);
    return w->sum / (double)w->samples;
}

static double hosted_loss(struct host *host)
{
    double loss;

    bench_must(ps_fork(host_ps(host), 2, 1, BRANCH_TESTING) == ERR_OK, "fork");
    loss = hosted_slice(host, 2, BRANCH_TESTING, 1);
    bench_must(ps_drop(host_ps(host), 2) == ERR_OK, "drop");
    return loss;
}

/* ---- both ---------------------------------------------------------------- */

struct rates {
    struct bench_series plain, ours, plain_loss, loss;
};

static double seconds(time_ns since)
{
    return (double)(bench_cpu() - since) / 1e9;
}

static void one_round(unsigned size, uint64_t seed, struct rates *r)
{
    struct host *host = hosted_open(size, seed);
    uint64_t clocks = host_facts(host)->order.parts;
    struct plain s;
    time_ns since;
    double pairs;

    plain_open(&s, size, seed);
    since = bench_cpu();
    for (unsigned i = 0; i < passes(); i++)
        plain_pass(&s, true);
    pairs = (double)s.drawn * passes();
    bench_add(&r->plain, pairs / seconds(since));
    bench_add(&r->plain_loss, plain_pass(&s, false));
    plain_close(&s);
    since = bench_cpu();
    for (unsigned i = 0; i < passes(); i++)
        hosted_slice(host, 1, BRANCH_TRAINING, clocks);
    bench_add(&r->ours, pairs / seconds(since));
    bench_add(&r->loss, hosted_loss(host));
    host_close(host);
}

/* ---- two nodes ----------------------------------------------------------- */

enum { NODES = 2, ROUNDS_MAX = 100 };

static void be_node(unsigned size, const char *model, unsigned node,
                    const char *meet, double pass_s[])
{
    struct host *host = node_open(size, 1, model, NODES, node, meet);
    uint64_t clocks = host_facts(host)->order.parts;

    for (unsigned i = 0; i < passes() && i < ROUNDS_MAX; i++) {
        time_ns since = clock_monotonic();

        hosted_slice(host, 1, BRANCH_TRAINING, clocks);
        pass_s[i] = (double)(clock_monotonic() - since) / 1e9;
    }
    host_close(host);
}

/* The slower node's passes. */
static void run_nodes(unsigned size, const char *model, const char *meet)
{
    double(*pass_s)[ROUNDS_MAX] =
        mmap(NULL, NODES * sizeof(*pass_s), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct bench_series s = {.n = 0};
    char folder[] = "/tmp/mltune-bench-XXXXXX", params[96];

    bench_must(pass_s != MAP_FAILED && mkdtemp(folder) != NULL, "memory");
    for (unsigned i = 0; i < NODES; i++)
        if (fork() == 0) {
            be_node(size, model, i, strcmp(meet, "folder") ? meet : folder,
                    pass_s[i]);
            _exit(0);
        }
    for (unsigned i = 0; i < NODES; i++) {
        int status;

        bench_must(wait(&status) > 0 && status == 0, "a node failed");
    }
    for (unsigned i = 0; i < passes() && i < ROUNDS_MAX; i++)
        bench_add(&s, fmax(pass_s[0][i], pass_s[1][i]));
    snprintf(params, sizeof(params), "size=%u model=%s first=%.2f", size, model,
             fmax(pass_s[0][0], pass_s[1][0]));
    bench_print("w2v_nodes", params, &s, "s");
    munmap(pass_s, NODES * sizeof(*pass_s));
    rmdir(folder);
}

static int nodes_main(const char *meet, unsigned size)
{
    run_nodes(size, "bsp", meet);
    run_nodes(size, "ssp", meet);
    return 0;
}

int main(int argc, char **argv)
{
    const char *meet = getenv("BENCH_MEET");
    unsigned only = argc > 1 ? (unsigned)atoi(argv[1]) : 0;

    if (meet)
        return nodes_main(meet, only ? only : 100);
    for (unsigned size = 50; size <= 200; size *= 2) {
        struct rates r = {0};
        char params[64];

        if (only && only != size)
            continue;
        for (size_t i = 0; i < bench_rounds(); i++)
            one_round(size, i + 1, &r);
        snprintf(params, sizeof(params), "size=%u passes=%u", size, passes());
        bench_print("w2v_pairs", params, &r.ours, "pairs/s");
        bench_print_ratio("w2v_pairs", params, "plain", &r.ours, &r.plain, 0);
        bench_print("w2v_loss", params, &r.loss, "nats/pair");
        bench_print_ratio("w2v_loss", params, "plain", &r.loss, &r.plain_loss,
                          0);
    }
    return 0;
}
