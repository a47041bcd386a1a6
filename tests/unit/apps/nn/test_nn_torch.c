#include "apps/nn/nn_net.h"
#include "apps/nn/nn_ops.h"
#include "base/rng.h"

#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/nn_model.h"
#include "tests/unit/fixture/scratch.h"

/* Whole networks beside PyTorch: this writes them with what it found, and
 * nn_torch.py computes them again. Run from the root of the tree, as all
 * tests are. */

extern char **environ;

enum { SEED = 3 };

struct case_of {
    const char *name;
    struct nn_shape input;
    size_t samples;
    enum nn_loss loss;
    unsigned count;
    struct nn_layer layer[16];
};

static const struct case_of cases[] = {
    {"mlp",
     {1, 28, 28},
     64,
     NN_CROSS_ENTROPY,
     3,
     {{.kind = NN_DENSE, .units = 256},
      {.kind = NN_RELU},
      {.kind = NN_DENSE, .units = 10}}},
    {"lenet5",
     {1, 28, 28},
     16,
     NN_CROSS_ENTROPY,
     7,
     {{.kind = NN_CONV, .units = 20, .kernel = 5, .stride = 1},
      {.kind = NN_MAX_POOL, .kernel = 2, .stride = 2},
      {.kind = NN_CONV, .units = 50, .kernel = 5, .stride = 1},
      {.kind = NN_MAX_POOL, .kernel = 2, .stride = 2},
      {.kind = NN_DENSE, .units = 500, .init = NN_INIT_GLOROT},
      {.kind = NN_RELU},
      {.kind = NN_DENSE, .units = 10}}},
    {"colour",
     {3, 32, 32},
     5,
     NN_CROSS_ENTROPY,
     13,
     {{.kind = NN_CONV, .units = 32, .kernel = 5, .stride = 1, .padding = 2},
      {.kind = NN_MAX_POOL, .kernel = 3, .stride = 2, .padding = 1},
      {.kind = NN_RELU},
      {.kind = NN_CONV, .units = 24, .kernel = 5, .stride = 1, .padding = 2},
      {.kind = NN_NORM, .rate = 0.1f, .epsilon = 1e-5f},
      {.kind = NN_RELU},
      {.kind = NN_AVG_POOL, .kernel = 3, .stride = 2, .padding = 1},
      {.kind = NN_CONV, .units = 40, .kernel = 3, .stride = 2, .padding = 1},
      {.kind = NN_TANH},
      {.kind = NN_DROPOUT, .rate = 0.5f},
      {.kind = NN_DENSE, .units = 64},
      {.kind = NN_NORM, .rate = 0.25f, .epsilon = 1e-3f},
      {.kind = NN_DENSE, .units = 10}}},
    {"odd",
     {5, 13, 9},
     3,
     NN_SQUARED,
     5,
     {{.kind = NN_CONV, .units = 7, .kernel = 4, .stride = 3, .padding = 3},
      {.kind = NN_AVG_POOL, .kernel = 2, .stride = 3},
      {.kind = NN_CONV, .units = 9, .kernel = 2, .stride = 1, .padding = 1},
      {.kind = NN_TANH},
      {.kind = NN_DENSE, .units = 3}}},
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static const char *python(void)
{
    const char *name = getenv("PYTHON");

    return name ? name : "/usr/bin/python3";
}

/* Exit code of the program; -1 where it did not start or end by itself. */
static int run(const char *const argv[])
{
    int status;
    pid_t pid;

    if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv,
                     environ) != 0)
        return -1;
    if (waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void put(FILE *file, const float *values, size_t n)
{
    assert_int_equal(fwrite(values, sizeof(*values), n, file), n);
}

static void put_mask(FILE *file, const struct nn_layer *l, unsigned number,
                     size_t samples)
{
    size_t size = nn_shape_size(l->in), i, j;

    for (i = 0; i < samples; i++)
        for (j = 0; j < size; j++) {
            float factor =
                nn_dropout_keeps(l->rate, SEED, number, i, (uint32_t)j)
                    ? 1 / (1 - l->rate)
                    : 0;

            put(file, &factor, 1);
        }
}

static void write_values(const struct nn_model *m, size_t samples,
                         const char *path)
{
    FILE *file = fopen(path, "wb");
    unsigned l;
    size_t i;

    assert_non_null(file);
    put(file, m->sample, samples * m->size);
    for (i = 0; i < samples; i++)
        put(file, &(float){(float)m->label[i]}, 1);
    put(file, m->target, samples * m->outputs);
    for (l = 0; l < m->count; l++) {
        put(file, m->values[l], nn_model_values(m, l));
        put(file, m->gradient[l], nn_model_values(m, l));
        put(file, m->moments[l], m->layer[l].moments);
        put(file, m->moved[l], m->layer[l].moments);
        if (m->layer[l].kind == NN_DROPOUT)
            put_mask(file, &m->layer[l], l, samples);
    }
    assert_int_equal(fclose(file), 0);
}

static void write_layer(FILE *file, const struct nn_layer *l)
{
    fprintf(file,
            "{\"kind\": \"%s\", \"in\": [%u, %u, %u], \"units\": %u,"
            " \"kernel\": %u, \"stride\": %u, \"padding\": %u,"
            " \"rate\": %.9g, \"epsilon\": %.9g, \"fan_in\": %zu,"
            " \"row_units\": %u, \"row_count\": %u, \"row_width\": %u,"
            " \"moments\": %u}",
            nn_kind_name(l->kind), l->in.channels, l->in.height, l->in.width,
            l->units, l->kernel, l->stride, l->padding, (double)l->rate,
            (double)l->epsilon, (size_t)l->fan_in, l->row_units, l->rows,
            l->row_width, l->moments);
}

static void write_about(const struct nn_model *m, const struct case_of *c,
                        double train, double test, const char *path)
{
    FILE *file = fopen(path, "w");
    unsigned l;

    assert_non_null(file);
    fprintf(file,
            "{\"samples\": %zu, \"input\": [%u, %u, %u], \"outputs\": %zu,"
            " \"loss\": \"%s\", \"train_loss\": %.17g, \"test_loss\": %.17g,"
            " \"layers\": [",
            c->samples, c->input.channels, c->input.height, c->input.width,
            m->outputs,
            c->loss == NN_CROSS_ENTROPY ? "cross_entropy" : "squared", train,
            test);
    for (l = 0; l < m->count; l++) {
        fprintf(file, l ? ", " : "");
        write_layer(file, &m->layer[l]);
    }
    fprintf(file, "]}\n");
    assert_int_equal(fclose(file), 0);
}

/* Moments that no batch has, so that evaluation shows which ones are used. */
static void set_moments(struct nn_model *m)
{
    struct rng rng;
    unsigned l;
    size_t k;

    rng_init(&rng, SEED);
    for (l = 0; l < m->count; l++)
        for (k = 0; k < m->layer[l].moments; k++)
            m->moments[l][k] = (float)(0.5 + rng_uniform(&rng));
}

static void write_case(const struct case_of *c)
{
    char name[64];
    struct nn_model m;
    double train, test;

    nn_model_init(&m, c->layer, c->count, c->loss, c->input, c->samples, SEED);
    set_moments(&m);
    train = nn_model_pass(&m, 0, c->samples, c->samples, true, SEED).loss;
    test = nn_model_pass(&m, 0, c->samples, c->samples, false, SEED).loss;
    scratch_mkdir(c->name);
    snprintf(name, sizeof(name), "%s/case.f32", c->name);
    write_values(&m, c->samples, scratch_path(name));
    snprintf(name, sizeof(name), "%s/case.json", c->name);
    write_about(&m, c, train, test, scratch_path(name));
    nn_model_deinit(&m);
}

/* Losses, gradients and running moments of whole networks are PyTorch's to
 * 1e-4 of the largest value of each. */
static void nn_net_equals_torch(void **state)
{
    const char *argv[3 + CASES] = {python(), "tests/unit/fixture/nn_torch.py"};
    size_t i;

    (void)state;
    for (i = 0; i < CASES; i++) {
        write_case(&cases[i]);
        argv[2 + i] = scratch_path(cases[i].name);
    }
    assert_int_equal(run(argv), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nn_net_equals_torch, scratch_make,
                                        scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
