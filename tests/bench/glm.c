/* glm beside scikit-learn's SAGA and a plain loop: one worker, everything
 * through host and parameter server, CPU seconds of training alone.
 *
 *   glm_saga     CPU seconds until the objective (logistic loss and an l2
 *                penalty) is that at which scikit-learn's SAGA ends by its own
 *                tolerance, to 1e-4; and its own, in the same run (glm_peer.py)
 *   glm_svrg     CPU seconds of svrg until the same objective
 *   glm_samples  samples a CPU second of mini-batches (SGD), beside a loop on a
 *                flat array that does the same
 *   glm_local    the same of the solver local, penalty and order of the samples
 *                (drawn anew for each part) included on both sides
 *
 * The data are a9a, where MLTUNE_DATA or ../shared/data has it, and a generated
 * set of rcv1's shape. Run from the root of the tree.
 */
#include "apps/glm/glm.h"
#include "apps/data/data.h"
#include "base/clock_io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ps/node/host_io.h"
#include "tests/bench/bench.h"

#include <inttypes.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BATCH = 64,
    PASSES_MAX = 2000,
    SGD_PASSES = 3,
    LOCAL_PASSES = 10,
    PATH_BYTES = 4096
};

struct set {
    const char *name;
    char path[PATH_BYTES];
    double lambda;
    int local_clocks; /* a pass, of the solver local */
    struct sparse samples;
};

static double seconds(time_ns since)
{
    return (double)(bench_cpu() - since) / 1e9;
}

/* ---- ours ---------------------------------------------------------------- */

/* @clocks a pass; 0: a clock is a batch. */
static struct host *hosted_open(const struct set *s, const char *solver,
                                int clocks)
{
    struct host_config c = {.app = &app_glm, .folder = ".", .seed = 1};
    struct host *host;
    struct fault f = {0};
    json_t *json = json_pack(
        "{s:{s:s, s:s, s:s, s:o, s:s, s:f, s:f}, s:{s:i},"
        " s:{s:{s:i}}}",
        "app", "name", "glm", "data", s->path, "solver", solver, "clock",
        clocks ? json_integer(clocks) : json_string("batch"), "loss",
        "logistic", "lambda", s->lambda, "test_fraction", 0.0, "cluster",
        "workers", 1, "tunables", "batch_size", "fixed", BATCH);

    bench_must(json != NULL, "configuration");
    c.config = json;
    bench_must(host_open(&c, &host, &f) == ERR_OK, f.text);
    json_decref(json);
    bench_must(ps_fork(host_ps(host), 1, 0, BRANCH_TRAINING) == ERR_OK, "fork");
    return host;
}

/* The mean of what @clocks clocks tell. */
static double hosted_slice(struct host *host, uint64_t clocks, double rate)
{
    struct node_setting setting = host_facts(host)->defaults;
    struct host_slice slice = {1, BRANCH_TRAINING, &setting, clocks, clocks};
    struct host_result result;
    struct fault f = {0};
    const struct progress_window *w;

    setting.learning_rate = rate;
    setting.batch_size = BATCH;
    bench_must(host_slice_begin(host, &slice, &f) == ERR_OK, f.text);
    bench_must(host_slice_end(host, &result, &f) == ERR_OK, f.text);
    w = host_slice_window(host, 0);
    return w->sum / (double)w->samples;
}

/* 1 / (3 L): L is a quarter of the largest squared length, the bias's 1
 * included. */
static double saga_rate(const struct set *s)
{
    double longest = 0;

    for (uint64_t i = 0; i < s->samples.count; i++) {
        double length = 1;

        for (uint64_t e = s->samples.begin[i]; e < s->samples.begin[i + 1]; e++)
            length += (double)s->samples.value[e] * (double)s->samples.value[e];
        longest = fmax(longest, length);
    }
    return 1 / (3 * (longest / 4 + s->lambda));
}

/* CPU seconds to @target by @solver; with a clock a pass, the loss that a pass
 * tells is the objective before it. NAN: not in PASSES_MAX passes. */
static double time_to(const struct set *s, const char *solver, double target,
                      unsigned *passes)
{
    struct host *host = hosted_open(s, solver, 1);
    double time = 0, rate = saga_rate(s);

    for (*passes = 0; *passes <= PASSES_MAX; ++*passes) {
        time_ns since = bench_cpu();
        double objective = hosted_slice(host, 1, rate);

        if (objective <= target)
            break;
        time += seconds(since);
    }
    host_close(host);
    return *passes <= PASSES_MAX ? time : (double)NAN;
}

/* Asks the peer; false: there is no scikit-learn. */
static bool peer_says(const struct set *s, double *objective, double *cpu,
                      unsigned *passes)
{
    const char *python = getenv("PYTHON");
    char lambda[32];
    const char *argv[] = {python ? python : "/usr/bin/python3",
                          "tests/bench/glm_peer.py", s->path, lambda, NULL};
    posix_spawn_file_actions_t actions;
    FILE *answer;
    int out[2], n;
    pid_t pid;

    snprintf(lambda, sizeof(lambda), "%g", s->lambda);
    bench_must(pipe(out) == 0, "pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_addclose(&actions, out[0]);
    bench_must(posix_spawnp(&pid, argv[0], &actions, NULL,
                            (char *const *)(uintptr_t)argv, environ) == 0,
               "start of python3");
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    answer = fdopen(out[0], "r");
    bench_must(answer != NULL, "pipe");
    n = fscanf(answer, "%lf %lf %u", objective, cpu, passes);
    fclose(answer);
    waitpid(pid, NULL, 0);
    return n == 3;
}

static void compare_saga(const struct set *s)
{
    struct bench_series ours = {.n = 0}, svrg = {.n = 0}, theirs = {.n = 0};
    size_t rounds = bench_rounds();
    double objective = 0, cpu = 0, target;
    unsigned their_passes = 0, passes = 0, svrg_passes = 0;
    char params[128];

    for (size_t i = 0; i < rounds; i++) {
        if (!peer_says(s, &objective, &cpu, &their_passes)) {
            bench_skip("glm_saga", s->name, "there is no scikit-learn");
            return;
        }
        target = objective * (1 + 1e-4);
        bench_add(&theirs, cpu);
        bench_add(&ours, time_to(s, "saga", target, &passes));
        bench_add(&svrg, time_to(s, "svrg", target, &svrg_passes));
    }
    snprintf(params, sizeof(params), "data=%s lambda=%g passes=%u theirs=%u",
             s->name, s->lambda, passes, their_passes);
    bench_print("glm_saga", params, &ours, "s");
    bench_print_ratio("glm_saga", params, "scikit-learn", &ours, &theirs, 1);
    snprintf(params, sizeof(params), "data=%s lambda=%g passes=%u", s->name,
             s->lambda, svrg_passes);
    bench_print("glm_svrg", params, &svrg, "s");
    bench_print_ratio("glm_svrg", params, "scikit-learn", &svrg, &theirs, 1);
}

/* ---- mini-batches -------------------------------------------------------- */

struct plain {
    const struct sparse *x;
    float *w, *g; /* [columns + 1]: the bias last */
};

/* The mean gradient of samples first .. end - 1, and a step. Returns the sum of
 * losses. */
static double plain_batch(struct plain *p, uint64_t first, uint64_t end,
                          float rate)
{
    const struct sparse *x = p->x;
    uint32_t bias = x->columns;
    float by = rate / (float)(end - first);
    double sum = 0;

    for (uint64_t i = first; i < end; i++) {
        float y = x->label[i] > 0 ? 1 : -1, z = p->w[bias], d;

        for (uint64_t e = x->begin[i]; e < x->begin[i + 1]; e++)
            z += p->w[x->index[e]] * x->value[e];
        sum += (double)log1pf(expf(-y * z));
        d = -y / (1 + expf(y * z));
        p->g[bias] += d;
        for (uint64_t e = x->begin[i]; e < x->begin[i + 1]; e++)
            p->g[x->index[e]] += d * x->value[e];
    }
    for (uint64_t i = first; i < end; i++)
        for (uint64_t e = x->begin[i]; e < x->begin[i + 1]; e++) {
            p->w[x->index[e]] -= by * p->g[x->index[e]];
            p->g[x->index[e]] = 0;
        }
    p->w[bias] -= by * p->g[bias];
    p->g[bias] = 0;
    return sum;
}

static double plain_pass(const struct set *s, struct plain *p, float rate)
{
    uint64_t count = s->samples.count;
    double sum = 0;

    for (uint64_t at = 0; at < count; at += BATCH)
        sum +=
            plain_batch(p, at, at + BATCH < count ? at + BATCH : count, rate);
    return sum / (double)count;
}

static void compare_sgd(const struct set *s)
{
    struct bench_series ours = {.n = 0}, theirs = {.n = 0};
    size_t bytes = (s->samples.columns + (size_t)1) * sizeof(float);
    double samples = (double)s->samples.count * SGD_PASSES, loss = 0, plain = 0;
    char params[128];

    for (size_t i = 0; i < bench_rounds(); i++) {
        struct host *host = hosted_open(s, "sgd", 0);
        uint64_t clocks = (s->samples.count + BATCH - 1) / BATCH;
        struct plain p = {&s->samples, mem_calloc(bytes, 1),
                          mem_calloc(bytes, 1)};
        time_ns since = bench_cpu();

        bench_must(p.w && p.g, "memory");
        for (int pass = 0; pass < SGD_PASSES; pass++)
            plain = plain_pass(s, &p, 0.1F);
        bench_add(&theirs, samples / seconds(since));
        since = bench_cpu();
        for (int pass = 0; pass < SGD_PASSES; pass++)
            loss = hosted_slice(host, clocks, 0.1);
        bench_add(&ours, samples / seconds(since));
        mem_free(p.w);
        mem_free(p.g);
        host_close(host);
    }
    snprintf(params, sizeof(params), "data=%s batch=%d loss=%.4f plain=%.4f",
             s->name, BATCH, loss, plain);
    bench_print("glm_samples", params, &ours, "samples/s");
    bench_print_ratio("glm_samples", params, "plain", &ours, &theirs, 0);
}

/* ---- mini-batches on a copy ---------------------------------------------- */

struct plain_local {
    struct plain p;
    float *rarity;   /* [columns] samples / samples that have it */
    uint64_t *order; /* [samples] */
    struct rng rng;
};

static void plain_local_init(struct plain_local *l, const struct set *s)
{
    const struct sparse *x = &s->samples;
    size_t bytes = (x->columns + (size_t)1) * sizeof(float);

    *l = (struct plain_local){
        .p = {x, mem_calloc(bytes, 1), mem_calloc(bytes, 1)},
        .rarity = mem_calloc(bytes, 1),
        .order = mem_calloc(x->count, sizeof(*l->order))};
    bench_must(l->p.w && l->p.g && l->rarity && l->order, "memory");
    for (uint64_t e = 0; e < x->begin[x->count]; e++)
        l->rarity[x->index[e]]++;
    for (uint32_t c = 0; c < x->columns; c++)
        l->rarity[c] = l->rarity[c] > 0 ? (float)x->count / l->rarity[c] : 0;
    rng_init(&l->rng, 1);
}

static void plain_local_deinit(struct plain_local *l)
{
    mem_free(l->p.w);
    mem_free(l->p.g);
    mem_free(l->rarity);
    mem_free(l->order);
}

/* A step by @n samples. Returns the sum of losses before it. */
static double plain_local_batch(struct plain_local *l, const uint64_t *sample,
                                uint64_t n, float rate, float lambda)
{
    const struct sparse *x = l->p.x;
    float *w = l->p.w, *g = l->p.g, by = rate / (float)n;
    uint32_t bias = x->columns;
    double sum = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t first = x->begin[sample[i]], end = x->begin[sample[i] + 1];
        float y = x->label[sample[i]] > 0 ? 1 : -1, z = w[bias], d;

        for (uint64_t e = first; e < end; e++)
            z += w[x->index[e]] * x->value[e];
        sum += (double)log1pf(expf(-y * z));
        d = -y / (1 + expf(y * z));
        g[bias] += d;
        for (uint64_t e = first; e < end; e++)
            g[x->index[e]] += d * x->value[e];
    }
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t e = x->begin[sample[i]]; e < x->begin[sample[i] + 1];
             e++) {
            uint32_t c = x->index[e];

            w[c] = (w[c] - by * g[c]) / (1 + by * lambda * l->rarity[c]);
            g[c] = 0;
        }
    w[bias] -= by * g[bias];
    g[bias] = 0;
    return sum;
}

/* The samples of each part in an order of their own, as glm has them. */
static double plain_local_pass(struct plain_local *l, const struct set *s)
{
    uint64_t count = l->p.x->count, parts = (uint64_t)s->local_clocks;
    double sum = 0;

    for (uint64_t part = 0; part < parts; part++) {
        uint64_t n = 0;

        for (uint64_t i = part; i < count; i += parts, n++) {
            uint64_t j = rng_below(&l->rng, n + 1);

            l->order[n] = l->order[j];
            l->order[j] = i;
        }
        for (uint64_t at = 0; at < n; at += BATCH)
            sum += plain_local_batch(l, l->order + at,
                                     n - at < BATCH ? n - at : BATCH, 0.1F,
                                     (float)s->lambda);
    }
    return sum / (double)count;
}

static void compare_local(const struct set *s)
{
    struct bench_series ours = {.n = 0}, theirs = {.n = 0};
    double samples = (double)s->samples.count * LOCAL_PASSES, loss = 0,
           plain = 0;
    char params[128];

    for (size_t i = 0; i < bench_rounds(); i++) {
        struct host *host = hosted_open(s, "local", s->local_clocks);
        struct plain_local l;
        uint64_t clocks = (uint64_t)s->local_clocks;
        time_ns since;

        plain_local_init(&l, s);
        since = bench_cpu();
        for (int pass = 0; pass < LOCAL_PASSES; pass++)
            plain = plain_local_pass(&l, s);
        bench_add(&theirs, samples / seconds(since));
        since = bench_cpu();
        for (int pass = 0; pass < LOCAL_PASSES; pass++)
            loss = hosted_slice(host, clocks, 0.1);
        bench_add(&ours, samples / seconds(since));
        plain_local_deinit(&l);
        host_close(host);
    }
    snprintf(params, sizeof(params),
             "data=%s batch=%d clocks=%d loss=%.4f plain=%.4f", s->name, BATCH,
             s->local_clocks, loss, plain);
    bench_print("glm_local", params, &ours, "samples/s");
    bench_print_ratio("glm_local", params, "plain", &ours, &theirs, 0);
}

/* ---- data ---------------------------------------------------------------- */

static void load(struct set *s, const char *spec)
{
    struct sparse none = {0};
    struct fault f = {0};

    bench_must(data_load_sparse(spec, NULL, &s->samples, &none, &f) == ERR_OK,
               f.text);
    sparse_deinit(&none);
}

/* Both sides read the same file. */
static void write_plainly(const struct set *s)
{
    const struct sparse *x = &s->samples;
    FILE *file = fopen(s->path, "we");

    bench_must(file != NULL, s->path);
    for (uint64_t i = 0; i < x->count; i++) {
        fprintf(file, "%g", x->label[i]);
        for (uint64_t e = x->begin[i]; e < x->begin[i + 1]; e++)
            fprintf(file, " %" PRIu32 ":%.9g", x->index[e],
                    (double)x->value[e]);
        fputc('\n', file);
    }
    bench_must(fclose(file) == 0, s->path);
}

static const char *find_a9a(void)
{
    static char path[PATH_BYTES];
    const char *data = getenv("MLTUNE_DATA");

    snprintf(path, sizeof(path), "%s/a9a.xz", data ? data : "../shared/data");
    return access(path, R_OK) == 0 ? path : NULL;
}

static void compare(struct set *s, const char *folder, const char *spec)
{
    snprintf(s->path, sizeof(s->path), "%s/%s", folder, s->name);
    load(s, spec);
    write_plainly(s);
    compare_saga(s);
    compare_sgd(s);
    compare_local(s);
    fflush(stdout);
    unlink(s->path);
    sparse_deinit(&s->samples);
}

int main(void)
{
    char folder[] = "/tmp/mltune-bench-XXXXXX";
    struct set a9a = {.name = "a9a", .lambda = 1e-4, .local_clocks = 10};
    struct set wide = {
        .name = "rcv1-shaped", .lambda = 1e-4, .local_clocks = 1};
    const char *real = find_a9a();

    bench_must(mkdtemp(folder) != NULL, "folder");
    if (real)
        compare(&a9a, folder, real);
    else
        bench_skip("glm_saga", "data=a9a", "a9a.xz is not there");
    compare(&wide, folder,
            "gen:libsvm?samples=20000&columns=47000&entries=75&noise=1");
    rmdir(folder);
    return 0;
}
