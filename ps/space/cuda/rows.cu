/* Rows moved by index, sums added by index, memory filled. All are bound by the
 * device's memory: units are as wide as rows allow. */
#include "ps/space/cuda/cuda_space.cuh"

struct device_rows device_rows_of(const struct space_rows *rows)
{
    struct device_rows d = {};

    d.base = static_cast<char *>(rows->base);
    d.chunk = reinterpret_cast<char *const *>(rows->chunk);
    d.chunk_rows = rows->chunk_rows;
    d.stride = rows->stride;
    d.chunk_shift = -1;
    if (rows->chunk_rows && (rows->chunk_rows & (rows->chunk_rows - 1)) == 0)
        d.chunk_shift = __builtin_ctz(rows->chunk_rows);
    d.index = rows->index;
    d.first = rows->first;
    return d;
}

bool rows_aligned(const struct space_rows *rows, size_t bytes, size_t unit)
{
    return bytes % unit == 0 && rows->stride % unit == 0 &&
           reinterpret_cast<uintptr_t>(rows->base) % unit == 0;
}

static bool dense_aligned(const void *at, size_t unit)
{
    return reinterpret_cast<uintptr_t>(at) % unit == 0;
}

/* Which item a thread works on, and which of its tile it is; false: none. */
static __device__ bool find_item(const struct tiling &t, uint64_t *row,
                                 uint32_t *unit, uint32_t *end)
{
    uint64_t thread = (uint64_t)blockIdx.x * BLOCK_THREADS + threadIdx.x;
    uint64_t item = thread >> t.shift;
    uint32_t segment = 0;

    if (item >= t.items)
        return false;
    *row = item;
    if (t.segments > 1) {
        *row = item / t.segments;
        segment = (uint32_t)(item % t.segments);
    }
    *unit = segment * t.segment_units +
            ((uint32_t)thread & ((1u << t.shift) - 1));
    *end = min(t.units, (segment + 1) * t.segment_units);
    return true;
}

/* ---- gather and scatter -------------------------------------------------- */

template <class Unit, bool GATHER>
static __global__ void __launch_bounds__(BLOCK_THREADS)
    move_rows(struct tiling t, struct device_rows rows, Unit *dense)
{
    uint64_t row;
    uint32_t unit, end;
    Unit *at, *out;

    if (!find_item(t, &row, &unit, &end))
        return;
    at = reinterpret_cast<Unit *>(device_row(rows, row));
    out = dense + row * t.units;
#pragma unroll
    for (unsigned k = 0; k < UNITS_A_THREAD; k++, unit += 1u << t.shift)
        if (unit < end) {
            if (GATHER)
                out[unit] = at[unit];
            else
                at[unit] = out[unit];
        }
}

template <class Unit, bool GATHER>
static void launch_move(struct cuda_stream *st, const struct space_rows *rows,
                        size_t n, size_t bytes, void *dense)
{
    struct tiling t = tile_rows(n, (uint32_t)(bytes / sizeof(Unit)));

    move_rows<Unit, GATHER>
        <<<tile_blocks(t), BLOCK_THREADS, 0, st->native>>>(
            t, device_rows_of(rows), static_cast<Unit *>(dense));
}

template <bool GATHER>
static void move(struct space_stream *base, const struct space_rows *rows,
                 size_t n, size_t bytes, void *dense)
{
    struct cuda_stream *st = reinterpret_cast<struct cuda_stream *>(base);

    if (n == 0 || bytes == 0 || !cuda_begin(st))
        return;
    if (rows_aligned(rows, bytes, 16) && dense_aligned(dense, 16))
        launch_move<uint4, GATHER>(st, rows, n, bytes, dense);
    else if (rows_aligned(rows, bytes, 8) && dense_aligned(dense, 8))
        launch_move<uint2, GATHER>(st, rows, n, bytes, dense);
    else
        launch_move<uint32_t, GATHER>(st, rows, n, bytes, dense);
    cuda_check(st, cudaGetLastError(), GATHER ? "gather rows" : "scatter rows");
}

void cuda_gather(struct space_stream *st, const struct space_rows *rows,
                 size_t n, size_t bytes, void *out)
{
    move<true>(st, rows, n, bytes, out);
}

void cuda_scatter(struct space_stream *st, const struct space_rows *rows,
                  size_t n, size_t bytes, const void *in)
{
    move<false>(st, rows, n, bytes, const_cast<void *>(in));
}

/* ---- add ----------------------------------------------------------------- */

/* A row may be there twice, so the device's atomic addition. */
template <class T>
static __global__ void __launch_bounds__(BLOCK_THREADS)
    add_rows(struct tiling t, struct device_rows rows, const T *in)
{
    uint64_t row;
    uint32_t unit, end;
    T *at;

    if (!find_item(t, &row, &unit, &end))
        return;
    at = reinterpret_cast<T *>(device_row(rows, row));
    in += row * t.units;
#pragma unroll
    for (unsigned k = 0; k < UNITS_A_THREAD; k++, unit += 1u << t.shift)
        if (unit < end)
            atomicAdd(at + unit, in[unit]);
}

template <class T>
static void launch_add(struct cuda_stream *st, const struct space_rows *rows,
                       size_t n, uint32_t width, const void *in)
{
    struct tiling t = tile_rows(n, width);

    add_rows<T><<<tile_blocks(t), BLOCK_THREADS, 0, st->native>>>(
        t, device_rows_of(rows), static_cast<const T *>(in));
}

void cuda_add(struct space_stream *base, const struct space_rows *rows,
              size_t n, enum mlt_type type, uint32_t width, const void *in)
{
    struct cuda_stream *st = reinterpret_cast<struct cuda_stream *>(base);

    if (n == 0 || width == 0 || !cuda_begin(st))
        return;
    if (type == MLT_F32)
        launch_add<float>(st, rows, n, width, in);
    else if (type == MLT_F64)
        launch_add<double>(st, rows, n, width, in);
    else
        launch_add<unsigned>(st, rows, n, width, in);
    cuda_check(st, cudaGetLastError(), "add to rows");
}

/* ---- fill ---------------------------------------------------------------- */

template <class Unit>
static __global__ void __launch_bounds__(BLOCK_THREADS)
    fill_units(Unit *at, uint64_t n, Unit pattern)
{
    uint64_t i = (uint64_t)blockIdx.x * BLOCK_THREADS + threadIdx.x;

    if (i < n)
        at[i] = pattern;
}

template <class Unit>
static void launch_fill(struct cuda_stream *st, void *at, size_t bytes,
                        Unit pattern)
{
    uint64_t n = bytes / sizeof(Unit);

    fill_units<<<(unsigned)((n + BLOCK_THREADS - 1) / BLOCK_THREADS),
                 BLOCK_THREADS, 0, st->native>>>(static_cast<Unit *>(at), n,
                                                 pattern);
    cuda_check(st, cudaGetLastError(), "fill memory");
}

void cuda_fill(struct space_stream *base, void *at, size_t bytes,
               uint64_t pattern, unsigned pattern_bytes)
{
    struct cuda_stream *st = reinterpret_cast<struct cuda_stream *>(base);
    uint32_t low = (uint32_t)pattern;
    uint32_t high = pattern_bytes == 8 ? (uint32_t)(pattern >> 32) : low;

    if (bytes == 0 || !cuda_begin(st))
        return;
    if (pattern_bytes == 1)
        cuda_check(st,
                   cudaMemsetAsync(at, (int)(pattern & 0xff), bytes,
                                   st->native),
                   "fill memory");
    else if (bytes % 16 == 0 && dense_aligned(at, 16))
        launch_fill(st, at, bytes, make_uint4(low, high, low, high));
    else if (pattern_bytes == 8)
        launch_fill(st, at, bytes, pattern);
    else
        launch_fill(st, at, bytes, low);
}
