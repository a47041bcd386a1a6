/* The networks `mlp` (784-256-10) and `lenet5` (20-50-500) at batch 64 beside
 * PyTorch on one thread, in the same rounds: forward, backward and update with
 * momentum.
 *
 *   side=core  the layers alone, on plain arrays, with a plain update
 *
 * Rates are images per second of CPU. PyTorch runs in a process of its own,
 * nn_torch.py, which waits while we run; where it is not installed, our numbers
 * stand alone. BENCH_ROUNDS shortens it. Run from the root of the tree.
 */
#include "apps/nn_net.h"
#include "base/clock_io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/simd.h"
#include "tests/bench/bench.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { BATCH = 64, IMAGES = 4096, LAYERS = 7 };

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
    return n->batches * (double)BATCH / cpu;
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
    bench_must(nn_net_new(c->layer, n->count, NN_CROSS_ENTROPY, BATCH, &c->net,
                          &f) == ERR_OK,
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
    struct nn_batch batch = {.n = BATCH,
                             .train = true,
                             .scale = 1.0f / BATCH,
                             .label = c->label + c->at};
    unsigned count = c->network->count, l;
    struct nn_result result;

    memcpy(nn_net_input(c->net), c->sample + c->at * c->size,
           BATCH * c->size * sizeof(float));
    c->at = (c->at + BATCH) % IMAGES;
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
    time_ns cpu = clock_process_cpu();
    unsigned k;

    for (k = 0; k < c->network->batches; k++)
        core_batch(c);
    cpu = clock_process_cpu() - cpu;
    return c->network->batches * (double)BATCH * 1e9 / (double)cpu;
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

/* -------------------------------------------------------------------------- */

static void bench_network(const struct network *n, struct torch *torch)
{
    struct bench_series ours = {.n = 0}, theirs = {.n = 0};
    size_t rounds = bench_rounds(), r;
    char params[64];
    struct core core;

    core_open(&core, n);
    core_run(&core);
    if (torch)
        torch_run(torch, n);
    for (r = 0; r < rounds; r++) {
        bench_add(&ours, core_run(&core));
        if (torch)
            bench_add(&theirs, torch_run(torch, n));
    }
    snprintf(params, sizeof(params), "net=%s batch=%d side=core time=cpu",
             n->name, BATCH);
    bench_print("nn_images", params, &ours, "images/s");
    if (torch)
        bench_print_ratio("nn_images", params, "torch", &ours, &theirs, 0);
    core_close(&core);
}

/* @argv: one network's name; nothing is all of them. */
int main(int argc, char **argv)
{
    struct torch torch;
    bool found = torch_start(&torch);
    size_t k;

    if (!found)
        bench_skip("nn_images", "vs=torch", "python3-torch is not installed");
    for (k = 0; k < NETWORKS; k++)
        if (argc < 2 || strcmp(argv[1], networks[k].name) == 0)
            bench_network(&networks[k], found ? &torch : NULL);
    torch_stop(&torch);
    return 0;
}
