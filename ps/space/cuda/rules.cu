/* The update rules of ps/rows/rule.c as kernels: each reads a value, its slots
 * and its sum once and writes value and slots once, in one launch a table.
 * (adam has a second one for the tails where rows are wider than a tile.)
 * Values differ from the host's within rounding: products and sums are fused
 * here, and rpcs adds its squares in another order.
 */
#include "ps/space/cuda/cuda_space.cuh"

#include <cstdio>
#include <cstring>

struct rule_args {
    struct tiling tiling; /* units of V values */
    struct device_rows rows;
    const float *sum, *seen;
    uint32_t width;
    float lr, m;
    float keep;       /* before the step, of the first `decayed` values */
    uint32_t decayed;
};

/* ---- the rules, one value at a time -------------------------------------- */

/* What is common to a row, made once a thread. */
struct no_row {
    __device__ no_row(const rule_args &, const float *)
    {
    }
};

struct add_rule {
    enum { SLOTS = 0, SEEN = 0 };
    using row = no_row;
    static __device__ void value(const rule_args &, const row &, float &w,
                                 float *, float g, float)
    {
        w += g;
    }
};

struct sgd_plain_rule {
    enum { SLOTS = 0, SEEN = 0 };
    using row = no_row;
    static __device__ void value(const rule_args &a, const row &, float &w,
                                 float *, float g, float)
    {
        w -= a.lr * g;
    }
};

struct sgd_rule {
    enum { SLOTS = 1, SEEN = 0 };
    using row = no_row;
    static __device__ void value(const rule_args &a, const row &, float &w,
                                 float *s, float g, float)
    {
        s[0] = a.m * s[0] + (1 - a.m) * g;
        w -= a.lr * s[0];
    }
};

struct nesterov_rule {
    enum { SLOTS = 1, SEEN = 0 };
    using row = no_row;
    static __device__ void value(const rule_args &a, const row &, float &w,
                                 float *s, float g, float)
    {
        s[0] = a.m * s[0] + (1 - a.m) * g;
        w -= a.lr * (a.m * s[0] + (1 - a.m) * g);
    }
};

struct adagrad_rule {
    enum { SLOTS = 1, SEEN = 0 };
    using row = no_row;
    static __device__ void value(const rule_args &a, const row &, float &w,
                                 float *s, float g, float)
    {
        s[0] += g * g;
        w -= a.lr * g * rsqrtf(s[0] + RULE_EPSILON);
    }
};

struct rmsprop_rule {
    enum { SLOTS = 1, SEEN = 0 };
    using row = no_row;
    static __device__ void value(const rule_args &a, const row &, float &w,
                                 float *s, float g, float)
    {
        const float d = RULE_RMSPROP_DECAY;

        s[0] = d * s[0] + (1 - d) * g * g;
        w -= a.lr * g * rsqrtf(s[0] + RULE_EPSILON);
    }
};

struct adadelta_rule {
    enum { SLOTS = 2, SEEN = 0 };
    using row = no_row;
    static __device__ void value(const rule_args &a, const row &, float &w,
                                 float *s, float g, float)
    {
        const float d = RULE_ADADELTA_DECAY;
        float x;

        s[0] = d * s[0] + (1 - d) * g * g;
        x = g * sqrtf((s[1] + RULE_ADADELTA_EPSILON) /
                      (s[0] + RULE_ADADELTA_EPSILON));
        s[1] = d * s[1] + (1 - d) * x * x;
        w -= a.lr * x;
    }
};

/* The corrections c, behind the slots, as they will be. */
struct adam_row {
    float step, scale;
    __device__ adam_row(const rule_args &a, const float *w)
    {
        const float *c = w + 3 * (size_t)a.width;
        const float d1 = RULE_ADAM_DECAY_1, d2 = RULE_ADAM_DECAY_2;

        step = a.lr / (d1 * c[0] + (1 - d1));
        scale = 1 / (d2 * c[1] + (1 - d2));
    }
};

struct adam_rule {
    enum { SLOTS = 2, SEEN = 0 };
    using row = adam_row;
    static __device__ void value(const rule_args &, const row &r, float &w,
                                 float *s, float g, float)
    {
        const float d1 = RULE_ADAM_DECAY_1, d2 = RULE_ADAM_DECAY_2;

        s[0] = d1 * s[0] + (1 - d1) * g;
        s[1] = d2 * s[1] + (1 - d2) * g * g;
        w -= r.step * s[0] * rsqrtf(r.scale * s[1] + RULE_EPSILON);
    }
};

template <bool LATE> struct adarevision_rule {
    enum { SLOTS = 3, SEEN = LATE };
    using row = no_row;
    static __device__ void value(const rule_args &a, const row &, float &w,
                                 float *s, float g, float seen)
    {
        float b = LATE ? s[2] - seen : 0;
        float before = a.lr * rsqrtf(s[1] + RULE_EPSILON), after;

        s[0] += g * g + 2 * g * b;
        s[1] = s[0] > s[1] ? s[0] : s[1];
        after = a.lr * rsqrtf(s[1] + RULE_EPSILON);
        w += (before - after) * b - after * g;
        s[2] += g;
    }
};

/* ---- values of their own: one launch ------------------------------------- */

template <int V> struct alignas(V * sizeof(float)) pack {
    float at[V];
};

template <int V> static __device__ pack<V> load(const float *from)
{
    pack<V> p = {};

    if constexpr (V == 4)
        *reinterpret_cast<float4 *>(p.at) =
            *reinterpret_cast<const float4 *>(from);
    else if constexpr (V == 2)
        *reinterpret_cast<float2 *>(p.at) =
            *reinterpret_cast<const float2 *>(from);
    else
        p.at[0] = *from;
    return p;
}

template <int V> static __device__ void store(float *to, const pack<V> &p)
{
    if constexpr (V == 4)
        *reinterpret_cast<float4 *>(to) =
            *reinterpret_cast<const float4 *>(p.at);
    else if constexpr (V == 2)
        *reinterpret_cast<float2 *>(to) =
            *reinterpret_cast<const float2 *>(p.at);
    else
        *to = p.at[0];
}

/* V values from number @j of a row on. */
template <class Rule, int V>
static __device__ void update_pack(const rule_args &a,
                                   const typename Rule::row &r, float *w,
                                   const float *g, const float *seen,
                                   uint32_t j)
{
    pack<V> value = load<V>(w + j), slot[Rule::SLOTS + 1], sum, old = {};

    sum = load<V>(g + j);
    if constexpr (Rule::SEEN)
        old = load<V>(seen + j);
#pragma unroll
    for (int k = 0; k < Rule::SLOTS; k++)
        slot[k] = load<V>(w + (size_t)(k + 1) * a.width + j);
#pragma unroll
    for (int i = 0; i < V; i++) {
        float s[Rule::SLOTS + 1] = {};

#pragma unroll
        for (int k = 0; k < Rule::SLOTS; k++)
            s[k] = slot[k].at[i];
        if (j + i < a.decayed)
            value.at[i] *= a.keep;
        Rule::value(a, r, value.at[i], s, sum.at[i], old.at[i]);
#pragma unroll
        for (int k = 0; k < Rule::SLOTS; k++)
            slot[k].at[i] = s[k];
    }
    store<V>(w + j, value);
#pragma unroll
    for (int k = 0; k < Rule::SLOTS; k++)
        store<V>(w + (size_t)(k + 1) * a.width + j, slot[k]);
}

/* adam's corrections, by the one thread that is asked to. */
static __device__ void step_tail(const rule_args &a, float *w)
{
    float *c = w + 3 * (size_t)a.width;

    c[0] = RULE_ADAM_DECAY_1 * c[0] + (1 - RULE_ADAM_DECAY_1);
    c[1] = RULE_ADAM_DECAY_2 * c[1] + (1 - RULE_ADAM_DECAY_2);
}

template <class Rule, int V, bool TAIL>
static __global__ void __launch_bounds__(BLOCK_THREADS)
    update_rows(rule_args a)
{
    const struct tiling &t = a.tiling;
    uint64_t thread = (uint64_t)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    uint64_t item = thread >> t.shift, i = item;
    uint32_t lane = (uint32_t)thread & ((1u << t.shift) - 1);
    uint32_t segment = 0, unit, end;
    bool works = item < t.items;
    float *w = nullptr;

    if (works && t.segments > 1) {
        i = item / t.segments;
        segment = (uint32_t)(item % t.segments);
    }
    unit = segment * t.segment_units + lane;
    end = min(t.units, (segment + 1) * t.segment_units);
    if (works) {
        w = reinterpret_cast<float *>(device_row(a.rows, i));
        const typename Rule::row r(a, w);
        const float *g = a.sum + i * a.width;
        const float *seen = Rule::SEEN ? a.seen + i * a.width : nullptr;

#pragma unroll
        for (unsigned k = 0; k < UNITS_A_THREAD; k++, unit += 1u << t.shift)
            if (unit < end)
                update_pack<Rule, V>(a, r, w, g, seen, unit * V);
    }
    if constexpr (TAIL) {
        __syncwarp(); /* all of the tile have read it */
        if (works && lane == 0)
            step_tail(a, w);
    }
}

static __global__ void __launch_bounds__(BLOCK_THREADS)
    step_tails(rule_args a, uint64_t n)
{
    uint64_t i = (uint64_t)blockIdx.x * BLOCK_THREADS + threadIdx.x;

    if (i < n)
        step_tail(a, reinterpret_cast<float *>(device_row(a.rows, i)));
}

/* ---- rpcs: a row's values together --------------------------------------- */

static __device__ float tile_sum(float x, unsigned tile)
{
    for (unsigned k = tile / 2; k > 0; k /= 2)
        x += __shfl_xor_sync(0xffffffff, x, k, 32);
    return x;
}

/* A row a tile of 2^shift <= 32 threads; every thread of a warp goes through,
 * since they add up together. */
static __global__ void __launch_bounds__(BLOCK_THREADS)
    update_rpcs(rule_args a, uint64_t n)
{
    const unsigned tile = 1u << a.tiling.shift;
    const float part = 1 / (float)(a.width > 1 ? a.width - 1 : 1);
    uint64_t thread = (uint64_t)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    uint64_t i = thread >> a.tiling.shift;
    uint32_t lane = (uint32_t)thread & (tile - 1);
    bool works = i < n;
    float *w = nullptr, squares = 0, first, rest;
    const float *g = a.sum + i * a.width;

    if (works)
        w = reinterpret_cast<float *>(device_row(a.rows, i));
    for (uint32_t j = lane; works && j < a.width; j += tile)
        squares += j > 0 ? g[j] * g[j] : 0;
    squares = tile_sum(squares, tile);
    if (!works)
        return;
    first = w[a.width] + g[0] * g[0];
    rest = w[a.width + 1] + squares * part;
    __syncwarp(__activemask());
    if (lane == 0) {
        w[a.width] = first;
        w[a.width + 1] = rest;
    }
    first = a.lr * rsqrtf(first + RULE_RPCS_BEGIN);
    rest = a.lr * rsqrtf(rest + RULE_RPCS_BEGIN);
    for (uint32_t j = lane; j < a.width; j += tile)
        w[j] = (j < a.decayed ? a.keep * w[j] : w[j]) -
               (j == 0 ? first : rest) * g[j];
}

/* ---- launches ------------------------------------------------------------ */

typedef void launcher(struct cuda_stream *st, rule_args *a, size_t n,
                      unsigned values);

template <class Rule, int V, bool TAIL>
static void launch_values(struct cuda_stream *st, rule_args *a, size_t n)
{
    a->tiling = tile_rows(n, a->width / V);
    if (!TAIL || a->tiling.segments == 1) {
        update_rows<Rule, V, TAIL>
            <<<tile_blocks(a->tiling), BLOCK_THREADS, 0, st->native>>>(*a);
        return;
    }
    update_rows<Rule, V, false>
        <<<tile_blocks(a->tiling), BLOCK_THREADS, 0, st->native>>>(*a);
    step_tails<<<(unsigned)((n + BLOCK_THREADS - 1) / BLOCK_THREADS),
                 BLOCK_THREADS, 0, st->native>>>(*a, n);
}

/* @values: of a unit, as rows allow. */
template <class Rule, bool TAIL = false>
static void launch_rule(struct cuda_stream *st, rule_args *a, size_t n,
                        unsigned values)
{
    if (values == 4)
        launch_values<Rule, 4, TAIL>(st, a, n);
    else if (values == 2)
        launch_values<Rule, 2, TAIL>(st, a, n);
    else
        launch_values<Rule, 1, TAIL>(st, a, n);
}

static void launch_rpcs(struct cuda_stream *st, rule_args *a, size_t n,
                        unsigned)
{
    a->tiling = tile_rows(n, a->width);
    a->tiling.items = n;
    update_rpcs<<<tile_blocks(a->tiling), BLOCK_THREADS, 0, st->native>>>(*a,
                                                                         n);
}

static const struct {
    const char *name;
    int slots; /* -1: any */
    bool late; /* with gradients that come late */
    launcher *launch;
} kernels[] = {
    {"add", 0, false, launch_rule<add_rule>},
    {"sgd", 0, false, launch_rule<sgd_plain_rule>},
    {"sgd", 1, false, launch_rule<sgd_rule>},
    {"nesterov", 0, false, launch_rule<sgd_plain_rule>},
    {"nesterov", 1, false, launch_rule<nesterov_rule>},
    {"adagrad", 1, false, launch_rule<adagrad_rule>},
    {"rmsprop", 1, false, launch_rule<rmsprop_rule>},
    {"adadelta", 2, false, launch_rule<adadelta_rule>},
    {"adam", 2, false, launch_rule<adam_rule, true>},
    {"adarevision", 3, false, launch_rule<adarevision_rule<false>>},
    {"adarevision", 3, true, launch_rule<adarevision_rule<true>>},
    {"rpcs", 0, false, launch_rpcs},
};

static launcher *find_kernel(const struct space_update *u)
{
    for (const auto &k : kernels)
        if (strcmp(k.name, u->rule->name) == 0 &&
            k.slots == (int)u->slots &&
            k.late == (u->rule->revises && u->seen))
            return k.launch;
    return nullptr;
}

/* How many values a unit may have. */
static unsigned unit_values(const struct space_update *u)
{
    uintptr_t dense = reinterpret_cast<uintptr_t>(u->sum) |
                      reinterpret_cast<uintptr_t>(u->seen);

    for (unsigned v = 4; v > 1; v /= 2)
        if (rows_aligned(&u->rows, u->width * sizeof(float),
                         v * sizeof(float)) &&
            dense % (v * sizeof(float)) == 0)
            return v;
    return 1;
}

void cuda_update(struct space_stream *base, const struct space_update *u)
{
    struct cuda_stream *st = reinterpret_cast<struct cuda_stream *>(base);
    launcher *launch = find_kernel(u);
    rule_args a = {};
    char text[128];

    if (u->n == 0 || u->width == 0 || !cuda_begin(st))
        return;
    if (u->type != MLT_F32 && strcmp(u->rule->name, "add") == 0) {
        cuda_add(base, &u->rows, u->n, u->type, u->width, u->sum);
        return;
    }
    if (!launch || u->type != MLT_F32) {
        snprintf(text, sizeof(text), "no kernel for the update rule %.60s",
                 u->rule->name);
        base->space->ops->stream_fail(base, ERR_UNSUPPORTED, text);
        return;
    }
    a.rows = device_rows_of(&u->rows);
    a.sum = static_cast<const float *>(u->sum);
    a.seen = static_cast<const float *>(u->seen);
    a.width = u->width;
    a.lr = u->params.learning_rate;
    a.m = u->params.momentum;
    a.keep = 1;
    if (rule_decays(u->rule, &u->params)) {
        a.keep = rule_keeps(&u->params);
        a.decayed = u->width - u->undecayed;
    }
    launch(st, &a, u->n, unit_values(u));
    cuda_check(st, cudaGetLastError(), "apply an update rule");
}
