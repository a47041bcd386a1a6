/* The insides of the plug-in libmltune-cuda.so: space.cu (memory, streams,
 * events), rows.cu (copies of rows, sums), rules.cu (update rules). Compiled by
 * nvcc as C++20; the interface is that of ps/space/space.h.
 */
#ifndef PS_SPACE_CUDA_CUH
#define PS_SPACE_CUDA_CUH

#include <cstdbool>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

extern "C" {
#include "base/deadlines.h"
#include "base/fault.h"
#include "ps/space/budget.h"
#include "ps/space/space.h"
}

struct cuda_space {
    struct memory_space base;
    int device;
    struct space_budget budget;
};

struct cuda_stream {
    struct space_stream base;
    cudaStream_t native;
    struct fault error; /* the first; code ERR_OK: none */
    struct space_handle handle[SPACE_HANDLES_MAX];
};

/* Makes what CUDA says the stream's error, if it is one. Returns whether the
 * stream is sound. */
bool cuda_check(struct cuda_stream *st, cudaError_t error, const char *what);

/* Makes the stream's device that of the calling thread; false: the stream
 * failed, work is left out. */
bool cuda_begin(struct cuda_stream *st);

/* ---- how rows are shared out among threads ------------------------------- */

enum { BLOCK_THREADS = 256, UNITS_A_THREAD = 4 };

/* A row of `units` units (16, 8 or 4 bytes) is cut into segments, a segment is
 * for a tile of 2^shift <= 32 neighbouring threads, each of which takes every
 * 2^shift-th unit, UNITS_A_THREAD at most. So narrow rows share a warp, and wide
 * ones fill the device. */
struct tiling {
    uint64_t items; /* rows times segments */
    uint32_t units, segments, segment_units;
    unsigned shift;
};

static inline struct tiling tile_rows(size_t n, uint32_t units)
{
    struct tiling t = {};

    t.units = units;
    while (t.shift < 5 && (1u << t.shift) < units)
        t.shift++;
    t.segment_units = (1u << t.shift) * UNITS_A_THREAD;
    t.segments = (units + t.segment_units - 1) / t.segment_units;
    t.items = (uint64_t)n * t.segments;
    return t;
}

static inline unsigned tile_blocks(struct tiling t)
{
    return (unsigned)(((t.items << t.shift) + BLOCK_THREADS - 1) /
                      BLOCK_THREADS);
}

/* Rows as kernels see them: a shift where a chunk's rows are a power of two. */
struct device_rows {
    char *base;
    char *const *chunk;
    uint32_t chunk_rows, stride;
    int chunk_shift; /* -1: no power of two */
    const uint32_t *index;
    uint64_t first;
};

struct device_rows device_rows_of(const struct space_rows *rows);

/* Whether rows of @bytes that are worked on in units of @unit bytes lie so. The
 * chunks' addresses are multiples of 16 (space.h). */
bool rows_aligned(const struct space_rows *rows, size_t bytes, size_t unit);

static __device__ inline char *device_row(const struct device_rows &rows,
                                          uint64_t i)
{
    uint64_t r = rows.index ? rows.index[i] : rows.first + i;
    uint32_t c, in_chunk;

    if (rows.base)
        return rows.base + r * rows.stride;
    if (rows.chunk_shift >= 0) {
        c = (uint32_t)(r >> rows.chunk_shift);
        in_chunk = (uint32_t)r & (rows.chunk_rows - 1);
    } else {
        c = (uint32_t)r / rows.chunk_rows;
        in_chunk = (uint32_t)r % rows.chunk_rows;
    }
    return rows.chunk[c] + (uint64_t)in_chunk * rows.stride;
}

/* ---- operations, in rows.cu and rules.cu --------------------------------- */

void cuda_fill(struct space_stream *st, void *at, size_t bytes,
               uint64_t pattern, unsigned pattern_bytes);
void cuda_gather(struct space_stream *st, const struct space_rows *rows,
                 size_t n, size_t bytes, void *out);
void cuda_scatter(struct space_stream *st, const struct space_rows *rows,
                  size_t n, size_t bytes, const void *in);
void cuda_add(struct space_stream *st, const struct space_rows *rows, size_t n,
              enum mlt_type type, uint32_t width, const void *in);
void cuda_update(struct space_stream *st, const struct space_update *u);

#endif
