#include "apps/nn/nn_net.h"
#include "apps/nn/nn_ops.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <pthread.h>

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/nn_model.h"
#include "tests/unit/fixture/nn_plain.h"

#define NORM                                                                   \
    {                                                                          \
        .kind = NN_NORM, .rate = 0.1f, .epsilon = 1e-5f                        \
    }
#define RELU                                                                   \
    {                                                                          \
        .kind = NN_RELU                                                        \
    }
#define TANH                                                                   \
    {                                                                          \
        .kind = NN_TANH                                                        \
    }
#define DROPOUT                                                                \
    {                                                                          \
        .kind = NN_DROPOUT, .rate = 0.3f                                       \
    }
#define DENSE(n)                                                               \
    {                                                                          \
        .kind = NN_DENSE, .units = (n)                                         \
    }
#define CONV(n, k, p)                                                          \
    {                                                                          \
        .kind = NN_CONV, .units = (n), .kernel = (k), .stride = 1,             \
        .padding = (p), .init = NN_INIT_GLOROT                                 \
    }
#define POOL(how)                                                              \
    {                                                                          \
        .kind = (how), .kernel = 3, .stride = 2, .padding = 1                  \
    }

enum { PROBES = 12, SAMPLES = 7, DEPTH_MAX = 12 };

static const struct nn_shape image = {2, 9, 8};

/* Networks with every kind of layer, and every way in which one works in the
 * place of another. */
static const struct nn_layer networks[][DEPTH_MAX] = {
    {DENSE(5)},
    {DENSE(6), RELU, DENSE(4)},
    {CONV(5, 3, 1), RELU, POOL(NN_MAX_POOL), CONV(4, 3, 0), POOL(NN_AVG_POOL),
     TANH, DENSE(6), RELU, DROPOUT, DENSE(3)},
    {RELU, DROPOUT, CONV(3, 2, 1), NORM, RELU, POOL(NN_AVG_POOL), DENSE(7),
     NORM, TANH, DENSE(4)},
    {NORM, CONV(3, 3, 2), TANH, DROPOUT, TANH, RELU, RELU, DENSE(4)},
    {POOL(NN_MAX_POOL), CONV(9, 3, 1), RELU, TANH, DROPOUT, DENSE(4), TANH},
    {CONV(3, 4, 0), TANH, TANH, DROPOUT, DROPOUT, NORM, DENSE(4), DROPOUT,
     RELU},
};
enum { NETWORKS = sizeof(networks) / sizeof(networks[0]) };

static unsigned depth_of(const struct nn_layer *layer)
{
    unsigned count = DEPTH_MAX;

    while (count > 1 && layer[count - 1].kind == NN_DENSE &&
           layer[count - 1].units == 0)
        count--;
    return count;
}

static void make(struct nn_model *m, unsigned k, enum nn_loss loss)
{
    nn_model_init(m, networks[k], depth_of(networks[k]), loss, image, SAMPLES,
                  k);
}

static void expect_near(double got, double wanted, double distance,
                        const char *what, unsigned at)
{
    if (!(fabs(got - wanted) <= distance))
        fail_msg("%s %u: expected %.9g, found %.9g", what, at, wanted, got);
}

/* ---- the plain network --------------------------------------------------- */

static double *as_doubles(size_t n, const float *from)
{
    double *p = calloc(n + 1, sizeof(*p));
    size_t k;

    assert_non_null(p);
    for (k = 0; k < n; k++)
        p[k] = (double)from[k];
    return p;
}

/* Mean loss of all samples, in double throughout. */
static double plain_net(const struct nn_model *m, double *const *values)
{
    struct nn_batch batch = {.n = SAMPLES,
                             .train = true,
                             .seed = 11,
                             .label = m->label,
                             .target = m->target};
    double *x = as_doubles(SAMPLES * m->size, m->sample), *y, loss;
    unsigned l;

    for (l = 0; l < m->count; l++) {
        y = calloc(SAMPLES * nn_shape_size(m->layer[l].out), sizeof(*y));
        assert_non_null(y);
        plain_forward(&m->layer[l], l, &batch, values[l], x, y);
        free(x);
        x = y;
    }
    loss = plain_loss(m->loss, &batch, m->outputs, x);
    free(x);
    return loss / SAMPLES;
}

static double largest(size_t n, const float *v)
{
    double max = 1e-4;
    size_t k;

    for (k = 0; k < n; k++)
        max = fmax(max, fabs((double)v[k]));
    return max;
}

static void check_layer(const struct nn_model *m, double **values, unsigned l,
                        unsigned network)
{
    const double step = 1e-5;
    size_t count = nn_model_values(m, l), k;
    double scale = largest(count, m->gradient[l]), up, down, was;

    for (k = 0; k < count; k += 1 + count / PROBES) {
        was = values[l][k];
        values[l][k] = was + step;
        up = plain_net(m, values);
        values[l][k] = was - step;
        down = plain_net(m, values);
        values[l][k] = was;
        expect_near((double)m->gradient[l][k], (up - down) / (2 * step),
                    1e-4 * scale, "network", network * 100 + l);
    }
}

static void check_network(unsigned k, enum nn_loss loss)
{
    double *values[NN_LAYERS_MAX];
    struct nn_result result;
    struct nn_model m;
    unsigned l;

    make(&m, k, loss);
    for (l = 0; l < m.count; l++)
        values[l] = as_doubles(nn_model_values(&m, l), m.values[l]);
    result = nn_model_pass(&m, 0, SAMPLES, SAMPLES, true, 11);
    expect_near(result.loss / SAMPLES, plain_net(&m, values), 1e-5, "loss", k);
    for (l = 0; l < m.count; l++)
        check_layer(&m, values, l, k);
    for (l = 0; l < m.count; l++)
        free(values[l]);
    nn_model_deinit(&m);
}

/* Loss and gradient of whole networks are those of the plain one: its loss, its
 * central differences, with either loss. */
static void nn_net_gradient_is_the_derivative(void **state)
{
    unsigned k;

    (void)state;
    for (k = 0; k < NETWORKS; k++) {
        check_network(k, NN_CROSS_ENTROPY);
        check_network(k, NN_SQUARED);
    }
}

/* ---- what a pass promises ------------------------------------------------ */

/* Equal parameters and samples give equal bits: again in the same net,
 * after other work in it, and in another net for larger batches. */
static void nn_net_is_deterministic(void **state)
{
    struct nn_result a, b;
    struct nn_model m, other;
    unsigned k, l;

    (void)state;
    for (k = 0; k < NETWORKS; k++) {
        make(&m, k, NN_CROSS_ENTROPY);
        nn_model_init(&other, networks[k], m.count, NN_CROSS_ENTROPY, image,
                      3 * SAMPLES, k);
        memcpy(other.sample, m.sample, SAMPLES * m.size * sizeof(float));
        memcpy(other.label, m.label, SAMPLES * sizeof(uint32_t));
        a = nn_model_pass(&m, 0, SAMPLES, SAMPLES, true, 5);
        nn_model_pass(&other, 0, 3 * SAMPLES, SAMPLES, true, 5);
        nn_model_pass(&other, 1, 3, SAMPLES, false, 5);
        nn_model_clear(&other);
        b = nn_model_pass(&other, 0, SAMPLES, SAMPLES, true, 5);
        assert_memory_equal(&a.loss, &b.loss, sizeof(a.loss));
        assert_int_equal(a.correct, b.correct);
        for (l = 0; l < m.count; l++) {
            assert_memory_equal(m.gradient[l], other.gradient[l],
                                nn_model_values(&m, l) * sizeof(float));
            assert_memory_equal(m.moved[l], other.moved[l],
                                m.layer[l].moments * sizeof(float));
        }
        nn_model_deinit(&m);
        nn_model_deinit(&other);
    }
}

enum { THREADS = 3, PASSES = 20 };

/* One thread's work: a network of its own, the same in all threads. */
struct worker {
    pthread_t thread;
    struct nn_model model;
    double loss;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    unsigned k;

    for (k = 0; k < PASSES; k++)
        w->loss += nn_model_pass(&w->model, 0, SAMPLES, SAMPLES, true, k).loss;
    return NULL;
}

/* Threads with a net each do not disturb one another (nor does what is under
 * them: OpenBLAS): all find the same bits. */
static void nn_nets_work_side_by_side(void **state)
{
    static const struct nn_layer layers[] = {CONV(20, 3, 1), RELU, DENSE(300),
                                             RELU, DENSE(10)};
    struct worker w[THREADS] = {0};
    unsigned i, l;

    (void)state;
    for (i = 0; i < THREADS; i++)
        nn_model_init(&w[i].model, layers, 5, NN_CROSS_ENTROPY, image, SAMPLES,
                      1);
    for (i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    for (i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(w[i].thread, NULL), 0);
    for (i = 1; i < THREADS; i++) {
        assert_memory_equal(&w[i].loss, &w[0].loss, sizeof(double));
        for (l = 0; l < w[0].model.count; l++)
            assert_memory_equal(w[i].model.gradient[l], w[0].model.gradient[l],
                                nn_model_values(&w[0].model, l) *
                                    sizeof(float));
    }
    for (i = 0; i < THREADS; i++)
        nn_model_deinit(&w[i].model);
}

/* A clock cut into sub-batches has the gradient of the whole, dropout included
 * (normalisation is by sub-batch, so a network without). */
static void nn_net_sub_batches_add_up(void **state)
{
    struct nn_model whole, cut;
    double sum, scale;
    unsigned l;
    size_t k;

    (void)state;
    make(&whole, 2, NN_CROSS_ENTROPY);
    make(&cut, 2, NN_CROSS_ENTROPY);
    sum = nn_model_pass(&whole, 0, SAMPLES, SAMPLES, true, 5).loss;
    sum -= nn_model_pass(&cut, 0, 4, SAMPLES, true, 5).loss;
    sum -= nn_model_pass(&cut, 4, 3, SAMPLES, true, 5).loss;
    expect_near(sum, 0, 1e-5, "loss", 0);
    for (l = 0; l < whole.count; l++) {
        scale = largest(nn_model_values(&whole, l), whole.gradient[l]);
        for (k = 0; k < nn_model_values(&whole, l); k++)
            expect_near((double)cut.gradient[l][k],
                        (double)whole.gradient[l][k], 1e-5 * scale, "layer", l);
    }
    nn_model_deinit(&whole);
    nn_model_deinit(&cut);
}

/* Evaluation takes the running moments and drops nothing: a sample's output
 * does not depend on its batch or on a seed. */
static void nn_net_evaluates_samples_by_themselves(void **state)
{
    float together[SAMPLES * 4];
    struct nn_result all, sum = {0};
    struct nn_model m;
    size_t i, k;

    (void)state;
    make(&m, 3, NN_CROSS_ENTROPY);
    for (k = 0; k < 3; k++) { /* the channels of the norm after the conv */
        m.moments[3][k] = 0.5f;
        m.moments[3][3 + k] = 4;
    }
    all = nn_model_pass(&m, 0, SAMPLES, SAMPLES, false, 1);
    memcpy(together, nn_net_output(m.net), sizeof(together));
    for (i = 0; i < SAMPLES; i++) {
        struct nn_result one = nn_model_pass(&m, i, 1, SAMPLES, false, 2 + i);

        sum.loss += one.loss;
        sum.correct += one.correct;
        for (k = 0; k < 4; k++)
            expect_near((double)nn_net_output(m.net)[k],
                        (double)together[i * 4 + k], 1e-5, "output", 0);
    }
    expect_near(sum.loss, all.loss, 1e-4, "loss", 0);
    assert_int_equal(sum.correct, all.correct);
    nn_model_deinit(&m);
}

/* Once the moments have moved all the way (rate 1), evaluating the batch gives
 * what training gave, but for the unbiased variance. */
static void nn_net_running_moments_become_the_batch(void **state)
{
    static const struct nn_layer layers[] = {
        {.kind = NN_NORM, .rate = 1, .epsilon = 1e-5f}, DENSE(3)};
    struct nn_result train, test;
    struct nn_model m;
    size_t k;

    (void)state;
    nn_model_init(&m, layers, 2, NN_CROSS_ENTROPY, image, SAMPLES, 1);
    train = nn_model_pass(&m, 0, SAMPLES, SAMPLES, true, 1);
    for (k = 0; k < m.layer[0].moments; k++)
        m.moments[0][k] += m.moved[0][k];
    test = nn_model_pass(&m, 0, SAMPLES, SAMPLES, false, 1);
    expect_near(test.loss, train.loss, 0.01 * train.loss, "loss", 0);
    nn_model_deinit(&m);
}

/* A weight that is no number shows in the loss, through every kind of layer. */
static void nn_net_non_finite_weights_show_in_the_loss(void **state)
{
    struct nn_model m;
    unsigned k;
    size_t j;

    (void)state;
    for (k = 0; k < NETWORKS; k++) {
        make(&m, k, NN_CROSS_ENTROPY);
        for (j = 0; j < nn_model_values(&m, nn_net_first(m.net)); j++)
            m.values[nn_net_first(m.net)][j] = NAN;
        assert_true(isnan(nn_model_pass(&m, 0, 3, 3, true, 1).loss));
        assert_true(isnan(nn_model_pass(&m, 0, 3, 3, false, 1).loss));
        nn_model_deinit(&m);
    }
}

/* Layers below the first parameters have no backward pass. */
static void nn_net_first_has_parameters(void **state)
{
    static const struct nn_layer none[] = {RELU, TANH};
    static const unsigned wanted[NETWORKS] = {0, 0, 0, 2, 0, 1, 0};
    struct nn_model m;
    unsigned k;

    (void)state;
    for (k = 0; k < NETWORKS; k++) {
        make(&m, k, NN_CROSS_ENTROPY);
        assert_int_equal(nn_net_first(m.net), wanted[k]);
        nn_model_deinit(&m);
    }
    nn_model_init(&m, none, 2, NN_SQUARED, image, 2, 1);
    assert_int_equal(nn_net_first(m.net), 2);
    nn_model_pass(&m, 0, 2, 2, true, 1);
    nn_model_deinit(&m);
}

/* ---- losses -------------------------------------------------------------- */

/* The largest output at the label counts; the lowest wins a tie; a NaN never
 * wins, not even against minus infinity. */
static void nn_loss_counts_the_likeliest(void **state)
{
    static const float z[] = {1,         3,     2, /* right */
                              2,         2,     1, /* a tie: 0 wins */
                              NAN,       1,     0, /* 1 wins */
                              -INFINITY, -1e9f, NAN, NAN, NAN, NAN};
    static const uint32_t label[] = {1, 1, 1, 1, 0};
    struct nn_batch batch = {.n = 5, .label = label};
    struct nn_result result;

    (void)state;
    nn_loss_cross_entropy(&batch, 3, z, NULL, &result);
    assert_int_equal(result.correct, 3);
    assert_true(isnan(result.loss));
}

/* Outputs of any size give the right finite loss. */
static void nn_loss_is_stable(void **state)
{
    static const float z[] = {3e38f, -3e38f, 1000, 1001};
    static const uint32_t label[] = {0, 0};
    struct nn_batch batch = {.n = 2, .label = label, .scale = 1};
    struct nn_result result;
    float dz[4];

    (void)state;
    nn_loss_cross_entropy(&batch, 2, z, dz, &result);
    expect_near(result.loss, log(1 + exp(1)), 1e-5, "loss", 0);
    expect_near((double)dz[0], 0, 1e-6, "gradient", 0);
    expect_near((double)dz[3], 1 / (1 + exp(-1)), 1e-6, "gradient", 3);
}

/* Cross-entropy of the outputs @z[4] against a target of which @smoothing is
 * spread, in doubles. */
static double smoothed_loss(const double z[4], uint32_t label, double smoothing)
{
    double sum = 0, loss = 0;

    for (unsigned j = 0; j < 4; j++)
        sum += exp(z[j]);
    for (unsigned j = 0; j < 4; j++)
        loss += ((j == label) * (1 - smoothing) + smoothing / 4) *
                (log(sum) - z[j]);
    return loss;
}

/* The gradient is that of the smoothed target, by central differences; the loss
 * is the plain one, as without. */
static void nn_loss_smoothing_acts_on_the_gradient(void **state)
{
    static const float z[] = {0.5f, -1, 2, 0.25f};
    static const uint32_t label[] = {1};
    struct nn_batch batch = {.n = 1, .label = label, .scale = 1};
    struct nn_result plain, result;
    float dz[4];

    (void)state;
    nn_loss_cross_entropy(&batch, 4, z, dz, &plain);
    batch.smoothing = 0.3f;
    nn_loss_cross_entropy(&batch, 4, z, dz, &result);
    assert_true(result.loss == plain.loss && result.correct == plain.correct);
    for (unsigned j = 0; j < 4; j++) {
        double up[4], down[4];

        for (unsigned i = 0; i < 4; i++)
            up[i] = down[i] = (double)z[i];
        up[j] += 1e-5;
        down[j] -= 1e-5;
        expect_near((double)dz[j],
                    (smoothed_loss(up, 1, 0.3) - smoothed_loss(down, 1, 0.3)) /
                        2e-5,
                    1e-6, "gradient", j);
    }
}

/* ---- life ---------------------------------------------------------------- */

/* Whichever allocation fails, nothing is left and the fault says so; passes
 * allocate nothing. */
static void nn_net_survives_failing_allocations(void **state)
{
    int64_t before = mem_outstanding(), nth;
    struct nn_net *net = NULL;
    struct nn_model m;
    enum err err = ERR_NOMEM;

    (void)state;
    make(&m, 3, NN_CROSS_ENTROPY);
    for (nth = 1; err; nth++) {
        struct fault f = {0};

        mem_fail_at(nth, 0);
        err = nn_net_new(m.layer, m.count, NN_SQUARED, 3, &net, &f);
        mem_fail_at(0, 0);
        if (err) {
            assert_int_equal(err, ERR_NOMEM);
            assert_non_null(strstr(f.text, "out of memory"));
            assert_null(net);
        }
    }
    assert_true(nth > 8);
    nn_net_free(net);
    nn_net_free(NULL);
    mem_fail_at(1, 1);
    nn_model_pass(&m, 0, SAMPLES, SAMPLES, true, 1);
    nn_model_pass(&m, 0, SAMPLES, SAMPLES, false, 1);
    assert_false(mem_failed());
    mem_fail_at(0, 0);
    nn_model_deinit(&m);
    assert_int_equal(mem_outstanding(), before);
}

/* A batch too large for the address space is refused, and the bytes say so. */
static void nn_net_refuses_what_overflows(void **state)
{
    struct nn_layer l = CONV(3, 3, 1);
    struct nn_net *net;
    struct fault f = {0};
    unsigned bad;

    (void)state;
    assert_int_equal(nn_layers_shape(&l, 1, image, &bad, &f), ERR_OK);
    assert_int_equal(nn_net_new(&l, 1, NN_SQUARED, SIZE_MAX / 4, &net, &f),
                     ERR_LIMIT);
    assert_non_null(strstr(f.text, "too large"));
    assert_true(nn_net_bytes(&l, 1, SIZE_MAX / 4) == UINT64_MAX);
    assert_true(nn_net_bytes(&l, 1, 10) > 10 * 4 * 3 * 72);
    assert_true(nn_net_bytes(&l, 1, 10) < 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nn_net_gradient_is_the_derivative),
        cmocka_unit_test(nn_net_is_deterministic),
        cmocka_unit_test(nn_nets_work_side_by_side),
        cmocka_unit_test(nn_net_sub_batches_add_up),
        cmocka_unit_test(nn_net_evaluates_samples_by_themselves),
        cmocka_unit_test(nn_net_running_moments_become_the_batch),
        cmocka_unit_test(nn_net_non_finite_weights_show_in_the_loss),
        cmocka_unit_test(nn_net_first_has_parameters),
        cmocka_unit_test(nn_loss_counts_the_likeliest),
        cmocka_unit_test(nn_loss_is_stable),
        cmocka_unit_test(nn_loss_smoothing_acts_on_the_gradient),
        cmocka_unit_test(nn_net_survives_failing_allocations),
        cmocka_unit_test(nn_net_refuses_what_overflows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
