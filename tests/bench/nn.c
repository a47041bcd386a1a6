/* The networks `mlp` (784-256-10) and `lenet5` (20-50-500) at batch 64, or
 * BENCH_BATCH, beside PyTorch on one thread, in the same rounds: forward,
 * backward and update with momentum.
 *
 *   side=core  the layers alone, on plain arrays, with a plain update
 *   side=ps    the application `nn` in its host, on generated digits: reading
 *              samples, parameter server and rule included, on one worker and
 *              two; `speedup=wall` is what the second makes of the wall clock,
 *              `speedup=cpu` what it would where nothing else ran and nobody
 *              waited
 *
 * Rates are images per second of CPU (of all workers). PyTorch runs in a
 * process of its own, nn_torch.py, which waits while we run; where it is not
 * installed, our numbers stand alone. BENCH_ROUNDS shortens it. Run from the
 * root of the tree.
 */
#include "apps/nn/nn.h"
#include "apps/nn/nn_net.h"
#include "base/clock_io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/simd.h"
#include "ps/node/host_io.h"
#include "tests/bench/bench.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Images a batch: BENCH_BATCH, a power of two up to IMAGES; 64. */
static unsigned batch_size = 64;

enum { IMAGES = 4096, LAYERS = 7, WORKERS_MAX = 2 };

struct network {
    const char *name;
    unsigned batches; /* a round */
    unsigned count;
    struct nn_layer layer[LAYERS];
};

static const struct network networks[] = {
    {"mlp",
     200,
     3,
     {{.kind = NN_DENSE, .units = 256},
      {.kind = NN_RELU},
      {.kind = NN_DENSE, .units = 10}}},
    {"lenet5",
     12,
     7,
     {{.kind = NN_CONV, .units = 20, .kernel = 5, .stride = 1},
      {.kind = NN_MAX_POOL, .kernel = 2, .stride = 2},
      {.kind = NN_CONV, .units = 50, .kernel = 5, .stride = 1},
      {.kind = NN_MAX_POOL, .kernel = 2, .stride = 2},
      {.kind = NN_DENSE, .units = 500},
      {.kind = NN_RELU},
      {.kind = NN_DENSE, .units = 10}}},
};
enum { NETWORKS = sizeof(networks) / sizeof(networks[0]) };

/* ---- PyTorch ------------------------------------------------------------- */

struct torch {
    pid_t pid;
    FILE *ask, *answer;
};

/* False where there is no PyTorch. */
static void read_batch(void)
{
    const char *text = getenv("BENCH_BATCH");
    int n = text ? atoi(text) : (int)batch_size;

    bench_must(n >= 1 && n <= IMAGES && (n & (n - 1)) == 0,
               "BENCH_BATCH is a power of two up to 4096");
    batch_size = (unsigned)n;
}

static bool torch_start(struct torch *t)
{
    const char *python = getenv("PYTHON");
    const char *argv[] = {python ? python : "/usr/bin/python3",
                          "tests/bench/nn_torch.py", NULL};
    posix_spawn_file_actions_t actions;
    int in[2], out[2], ready;

    bench_must(pipe(in) == 0 && pipe(out) == 0, "pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_addclose(&actions, in[1]);
    posix_spawn_file_actions_addclose(&actions, out[0]);
    bench_must(posix_spawnp(&t->pid, argv[0], &actions, NULL,
                            (char *const *)(uintptr_t)argv, environ) == 0,
               "start of python3");
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    t->ask = fdopen(in[1], "w");
    t->answer = fdopen(out[0], "r");
    bench_must(t->ask && t->answer, "pipe");
    ready = fgetc(t->answer);
    return ready == 'R';
}

static void torch_stop(struct torch *t)
{
    fclose(t->ask);
    fclose(t->answer);
    waitpid(t->pid, NULL, 0);
}

/* Images a second of CPU. */
static double torch_run(struct torch *t, const struct network *n)
{
    double cpu, wall;

    fprintf(t->ask, "%s %u\n", n->name, n->batches);
    fflush(t->ask);
    bench_must(fscanf(t->answer, "%lf %lf", &cpu, &wall) == 2,
               "answer of PyTorch");
    return n->batches * (double)batch_size / cpu;
}

/* ---- the layers alone ---------------------------------------------------- */

struct core {
    const struct network *network;
    struct nn_layer layer[LAYERS];
    struct nn_net *net;
    struct nn_params params[LAYERS];
    struct nn_grads grads[LAYERS];
    float *value[LAYERS], *gradient[LAYERS], *velocity[LAYERS];
    size_t size;     /* values of a sample */
    float *sample;   /* [IMAGES][size] */
    uint32_t *label; /* [IMAGES] */
    size_t at;
};

static void *zeroed(size_t bytes)
{
    void *p = mem_aligned(64, (bytes + 127) / 64 * 64);

    bench_must(p != NULL, "memory");
    memset(p, 0, bytes);
    return p;
}

static size_t values_of(const struct nn_layer *l)
{
    return (size_t)l->rows * l->row_width;
}

static void core_layer(struct core *c, unsigned l)
{
    const struct nn_layer *layer = &c->layer[l];
    const float **row = zeroed(layer->rows * sizeof(*row));
    float **gradient = zeroed(layer->rows * sizeof(*gradient));
    uint32_t r;

    c->value[l] = zeroed(values_of(layer) * sizeof(float));
    c->gradient[l] = zeroed(values_of(layer) * sizeof(float));
    c->velocity[l] = zeroed(values_of(layer) * sizeof(float));
    for (r = 0; r < layer->rows; r++) {
        row[r] = c->value[l] + (size_t)r * layer->row_width;
        gradient[r] = c->gradient[l] + (size_t)r * layer->row_width;
        nn_layer_init(layer, l, 1, r,
                      c->value[l] + (size_t)r * layer->row_width);
    }
    c->params[l] = (struct nn_params){.row = row};
    c->grads[l] = (struct nn_grads){.row = gradient};
}

static void core_open(struct core *c, const struct network *n)
{
    struct nn_shape image = {1, 28, 28};
    struct fault f = {0};
    struct rng rng;
    unsigned bad, l;
    size_t k;

    memset(c, 0, sizeof(*c));
    rng_init(&rng, 1);
    c->network = n;
    memcpy(c->layer, n->layer, sizeof(n->layer));
    bench_must(nn_layers_shape(c->layer, n->count, image, &bad, &f) == ERR_OK,
               f.text);
    bench_must(nn_net_new(c->layer, n->count, NN_CROSS_ENTROPY, batch_size,
                          &c->net, &f) == ERR_OK,
               f.text);
    for (l = 0; l < n->count; l++)
        core_layer(c, l);
    c->size = nn_shape_size(image);
    c->sample = zeroed(IMAGES * c->size * sizeof(float));
    c->label = zeroed(IMAGES * sizeof(uint32_t));
    for (k = 0; k < IMAGES * c->size; k++)
        c->sample[k] = (float)rng_uniform(&rng);
    for (k = 0; k < IMAGES; k++)
        c->label[k] = (uint32_t)rng_below(&rng, 10);
}

KERNEL static void update(size_t n, float rate, float momentum,
                          const float *restrict g, float *restrict v,
                          float *restrict w)
{
    size_t k;

    for (k = 0; k < n; k++) {
        v[k] = momentum * v[k] + (1 - momentum) * g[k];
        w[k] -= rate * v[k];
    }
}

static void core_batch(struct core *c)
{
    struct nn_batch batch = {.n = batch_size,
                             .train = true,
                             .scale = 1.0f / (float)batch_size,
                             .label = c->label + c->at};
    unsigned count = c->network->count, l;
    struct nn_result result;

    memcpy(nn_net_input(c->net), c->sample + c->at * c->size,
           batch_size * c->size * sizeof(float));
    c->at = (c->at + batch_size) % IMAGES;
    for (l = 0; l < count; l++)
        nn_net_forward(c->net, l, &batch, &c->params[l]);
    nn_net_loss(c->net, &batch, &result);
    for (l = count; l-- > 0;) {
        size_t values = values_of(&c->layer[l]);

        memset(c->gradient[l], 0, values * sizeof(float));
        nn_net_backward(c->net, l, &batch, &c->params[l], &c->grads[l]);
        update(values, 0.01f, 0.9f, c->gradient[l], c->velocity[l],
               c->value[l]);
    }
    bench_keep(&result);
}

static double core_run(struct core *c)
{
    time_ns cpu = bench_cpu();
    unsigned k;

    for (k = 0; k < c->network->batches; k++)
        core_batch(c);
    cpu = bench_cpu() - cpu;
    return c->network->batches * (double)batch_size * 1e9 / (double)cpu;
}

static void core_close(struct core *c)
{
    unsigned l;

    for (l = 0; l < c->network->count; l++) {
        mem_free((void *)(uintptr_t)c->params[l].row);
        mem_free((void *)(uintptr_t)c->grads[l].row);
        mem_free(c->value[l]);
        mem_free(c->gradient[l]);
        mem_free(c->velocity[l]);
    }
    mem_free(c->sample);
    mem_free(c->label);
    nn_net_free(c->net);
}

/* ---- the application ----------------------------------------------------- */

struct hosted {
    const struct network *network;
    struct host *host;
    struct node_setting setting;
    unsigned workers;
};

static void hosted_open(struct hosted *h, const struct network *n,
                        unsigned workers)
{
    char text[256];
    struct host_config c = {.app = &app_nn, .folder = ".", .seed = 1};
    struct fault f = {0};
    json_t *json;

    snprintf(text, sizeof(text),
             "{\"app\": {\"name\": \"nn\", \"preset\": \"%s\", \"data\": "
             "\"gen:digits?samples=10000\", \"test_fraction\": 0},"
             " \"cluster\": {\"workers\": %u}}",
             n->name, workers);
    h->network = n;
    h->workers = workers;
    json = json_loads(text, 0, NULL);
    bench_must(json != NULL, text);
    c.config = json;
    bench_must(host_open(&c, &h->host, &f) == ERR_OK, f.text);
    json_decref(json);
    h->setting = host_facts(h->host)->defaults;
    h->setting.learning_rate = 0.01;
    h->setting.momentum = 0.9;
    h->setting.batch_size = batch_size;
    bench_must(ps_fork(host_ps(h->host), 1, 0, BRANCH_TRAINING) == ERR_OK,
               "fork");
}

/* As many images as a round of the others, whatever the workers. */
static void hosted_run(struct hosted *h, double *cpu_rate, double *wall_rate)
{
    unsigned clocks = h->network->batches / h->workers;
    double images = clocks * (double)batch_size * h->workers;
    struct host_slice slice = {.branch = 1,
                               .type = BRANCH_TRAINING,
                               .setting = &h->setting,
                               .count = clocks,
                               .report_every = clocks};
    struct host_result result;
    struct fault f = {0};
    time_ns cpu = bench_cpu(), wall = clock_monotonic();

    bench_must(host_slice_begin(h->host, &slice, &f) == ERR_OK, f.text);
    bench_must(host_slice_end(h->host, &result, &f) == ERR_OK, f.text);
    bench_must(result.clocks == clocks, "all clocks ran: did it diverge?");
    *cpu_rate = images * 1e9 / (double)(bench_cpu() - cpu);
    *wall_rate = images * 1e9 / (double)(clock_monotonic() - wall);
}

static void hosted_close(struct hosted *h)
{
    host_close(h->host);
}

/* -------------------------------------------------------------------------- */

struct rates {
    struct bench_series core, torch;
    struct bench_series cpu[WORKERS_MAX], wall[WORKERS_MAX], speedup;
    struct bench_series bound; /* of the speedup, by the CPU time used */
};

static void one_round(struct core *core, struct hosted hosted[WORKERS_MAX],
                      struct torch *torch, struct rates *out)
{
    double cpu[WORKERS_MAX], wall[WORKERS_MAX];
    unsigned w;

    bench_add(&out->core, core_run(core));
    for (w = 0; w < WORKERS_MAX; w++) {
        hosted_run(&hosted[w], &cpu[w], &wall[w]);
        bench_add(&out->cpu[w], cpu[w]);
        bench_add(&out->wall[w], wall[w]);
    }
    bench_add(&out->speedup, wall[1] / wall[0]);
    bench_add(&out->bound, 2 * cpu[1] / cpu[0]);
    if (torch)
        bench_add(&out->torch, torch_run(torch, core->network));
}

static void print_side(const char *net, const char *side,
                       const struct bench_series *ours,
                       const struct bench_series *torch)
{
    char params[96];

    snprintf(params, sizeof(params), "net=%s batch=%u side=%s time=cpu", net,
             batch_size, side);
    bench_print("nn_images", params, ours, "images/s");
    if (torch->n > 0)
        bench_print_ratio("nn_images", params, "torch", ours, torch, 0);
}

static void report(const char *net, const struct rates *r)
{
    char params[96];

    if (r->torch.n > 0)
        print_side(net, "torch", &r->torch, &(struct bench_series){.n = 0});
    print_side(net, "core", &r->core, &r->torch);
    print_side(net, "ps workers=1", &r->cpu[0], &r->torch);
    print_side(net, "ps workers=2", &r->cpu[1], &r->torch);
    snprintf(params, sizeof(params), "net=%s batch=%u side=ps speedup=wall",
             net, batch_size);
    bench_print("nn_images", params, &r->speedup, "times");
    snprintf(params, sizeof(params), "net=%s batch=%u side=ps speedup=cpu", net,
             batch_size);
    bench_print("nn_images", params, &r->bound, "times");
}

static void bench_network(const struct network *n, struct torch *torch)
{
    static struct rates rates, warm;
    size_t rounds = bench_rounds(), r;
    struct hosted hosted[WORKERS_MAX];
    struct core core;
    unsigned w;

    memset(&rates, 0, sizeof(rates));
    memset(&warm, 0, sizeof(warm));
    core_open(&core, n);
    for (w = 0; w < WORKERS_MAX; w++)
        hosted_open(&hosted[w], n, w + 1);
    one_round(&core, hosted, torch, &warm);
    for (r = 0; r < rounds; r++)
        one_round(&core, hosted, torch, &rates);
    report(n->name, &rates);
    for (w = 0; w < WORKERS_MAX; w++)
        hosted_close(&hosted[w]);
    core_close(&core);
}

/* @argv: one network's name; nothing is all of them. */
int main(int argc, char **argv)
{
    struct torch torch;
    bool found;
    size_t k;

    read_batch();
    found = torch_start(&torch);
    if (!found)
        bench_skip("nn_images", "vs=torch", "python3-torch is not installed");
    for (k = 0; k < NETWORKS; k++)
        if (argc < 2 || strcmp(argv[1], networks[k].name) == 0)
            bench_network(&networks[k], found ? &torch : NULL);
    torch_stop(&torch);
    return 0;
}
