// A training application in C++: which of two rings a point belongs to, by a
// logistic regression of its squares. As a shared object, and, with -DPROGRAM,
// as a program that is the training process itself.
//
//     c++ -shared -fPIC -O2 -o app_rings.so app_rings.cc `pkg-config --cflags
//     mltune` "app": {"plugin": "app_rings.so"}
//
//     c++ -DPROGRAM -O2 -o rings app_rings.cc `pkg-config --cflags --libs
//     mltune` "app": {"command": ["./rings"]}
//
// `l2`, the weight of the penalty, is a tunable of its own.
#include <mltune/app.h>

#include <cmath>
#include <random>
#include <vector>

namespace
{

struct Point {
    float x[3]; // both squares and 1
    float label;
};

struct Rings {
    std::vector<Point> train, test;
    mlt_table weights;
};

std::vector<Point> points(std::size_t n, std::uint64_t seed)
{
    std::mt19937_64 random(seed);
    std::normal_distribution<float> noise(0, 0.15F);
    std::uniform_real_distribution<float> angle(0, 6.2831853F);
    std::vector<Point> made(n);

    for (std::size_t i = 0; i < n; i++) {
        const float label = i % 2, a = angle(random);
        const float x = (1 + label) * std::cos(a) + noise(random);
        const float y = (1 + label) * std::sin(a) + noise(random);

        made[i] = {{x * x, y * y, 1}, label};
    }
    return made;
}

int open(const mlt_app_config *config, mlt_app_info *info, void **app,
         mlt_error *)
{
    auto *r =
        new Rings{points(2000, config->seed), points(500, config->seed + 1), 0};

    info->samples = r->train.size();
    info->validation_samples = r->test.size();
    info->metric = "accuracy";
    info->metric_higher_better = 1;
    info->loss_floor = 0;
    *app = r;
    return 0;
}

int declare(void *app, mlt_ps *ps, mlt_error *err)
{
    mlt_table_options o{};

    o.size = sizeof(o);
    o.name = "weights";
    o.rows = 1;
    o.width = 3;
    return mlt_ps_table(ps, &o, &static_cast<Rings *>(app)->weights, err);
}

int init(void *, mlt_worker *)
{
    return 0; // rows are zero
}

int run_clock(void *app, mlt_worker *w, const mlt_clock_ctx *ctx)
{
    const auto *r = static_cast<const Rings *>(app);
    const auto *weight =
        static_cast<const float *>(mlt_get_row(w, r->weights, 0));
    const bool testing = ctx->type == MLT_CLOCK_TESTING;
    const double l2 = mlt_tunable(w, "l2", 0);
    float gradient[3] = {};
    double sum = 0;

    if (!weight)
        return 1; // another worker has failed
    for (std::uint64_t k = 0; k < ctx->count; k++) {
        const Point &p =
            testing ? r->test[ctx->first + k] : r->train[ctx->samples[k]];
        const float z = weight[0] * p.x[0] + weight[1] * p.x[1] + weight[2];
        const float error = 1 / (1 + std::exp(-z)) - p.label;

        sum += testing ? (z > 0) == (p.label > 0)
                       : std::log1p(std::exp(p.label > 0 ? -z : z));
        for (int i = 0; i < 3; i++)
            gradient[i] += error * p.x[i] / ctx->clock_samples;
    }
    for (int i = 0; i < 3; i++)
        gradient[i] += float(l2) * weight[i] / mlt_worker_count(w);
    if (!testing)
        mlt_inc_row(w, r->weights, 0, gradient);
    mlt_report(w, sum, ctx->count);
    return 0;
}

void close(void *app)
{
    delete static_cast<Rings *>(app);
}

const char *const tunables[] = {"learning_rate", "momentum", "batch_size", "l2",
                                nullptr};

} // namespace

const mlt_app_ops mltune_app = {
    MLT_APP_VERSION,
    "rings",
    "a logistic regression of two rings",
    "{\"properties\": {}}",
    tunables,
    open,
    declare,
    init,
    run_clock,
    nullptr, // save: the tables are all there is
    nullptr, // load
    close,
    nullptr, // columns
    nullptr, // predict
    nullptr, // truth
    nullptr, // keep: nothing of the data is in the model
    nullptr, // save_kept
    nullptr  // plan
};

#ifdef PROGRAM
int main(int argc, char **argv)
{
    return mlt_node_run(&mltune_app, argc, argv);
}
#endif
