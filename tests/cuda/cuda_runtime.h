/* As much of CUDA's runtime as the plug-in's kernels need, on the host: so that
 * `make unit` runs them where there is neither device nor toolkit. tests/cuda/
 * translate.py writes `kernel<<<...>>>(...)` as a call of emulated_launch.
 *
 * A warp's 32 threads are fibers that take turns at __syncwarp and shuffles,
 * and else run one after another: what is wrong in indexes, in a rule or in the
 * order of a warp's reads and writes shows; what differs in timing does not.
 * Memory is the host's, streams are done at once, one device of 1 GiB.
 */
#ifndef TESTS_CUDA_RUNTIME_H
#define TESTS_CUDA_RUNTIME_H

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define CUDART_VERSION 13000

struct uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

static inline unsigned min(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}

template <class T> static inline T atomicAdd(T *at, T by)
{
    T was = *at;

    *at += by;
    return was;
}

/* ---- threads ------------------------------------------------------------- */

struct emulated_index {
    unsigned x;
};
extern thread_local struct emulated_index threadIdx, blockIdx;

/* All threads of the warp that have not ended come here before one goes on. */
void emulated_meet(void);
float emulated_shuffle_xor(float x, int lanes);

static inline void __syncwarp(unsigned = 0xffffffff)
{
    emulated_meet();
}

static inline unsigned __activemask(void)
{
    return 0xffffffff;
}

static inline float __shfl_xor_sync(unsigned, float x, int lanes, int)
{
    return emulated_shuffle_xor(x, lanes);
}

typedef void emulated_thread(void *arg);
void emulated_grid(unsigned blocks, unsigned threads, emulated_thread *run,
                   void *arg);

template <class Kernel> struct emulated_kernel {
    Kernel kernel;
    unsigned blocks, threads;

    template <class... Args> void operator()(Args... args)
    {
        auto call = [&] { kernel(args...); };

        emulated_grid(
            blocks, threads,
            [](void *arg) { (*static_cast<decltype(call) *>(arg))(); }, &call);
    }
};

/* ---- the runtime --------------------------------------------------------- */

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorNotReady = 600
};
enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3
};
enum { cudaStreamNonBlocking = 1 };
typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;
struct cudaDeviceProp {
    char name[256];
    int major, minor;
    size_t totalGlobalMem;
};

template <class Kernel>
static emulated_kernel<Kernel> emulated_launch(Kernel kernel, unsigned blocks,
                                               unsigned threads, int,
                                               cudaStream_t)
{
    return {kernel, blocks, threads};
}

const char *cudaGetErrorString(cudaError_t e);
const char *cudaGetErrorName(cudaError_t e);
cudaError_t cudaGetLastError(void);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaMemGetInfo(size_t *left, size_t *total);
cudaError_t cudaMalloc(void **out, size_t bytes);
cudaError_t cudaFree(void *at);
cudaError_t cudaMallocHost(void **out, size_t bytes);
cudaError_t cudaFreeHost(void *at);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, int flags);
cudaError_t cudaStreamDestroy(cudaStream_t st);
cudaError_t cudaStreamQuery(cudaStream_t st);
cudaError_t cudaStreamWaitEvent(cudaStream_t st, cudaEvent_t e, int flags);
cudaError_t cudaEventCreate(cudaEvent_t *out);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t st);
cudaError_t cudaEventQuery(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t st);
cudaError_t cudaMemsetAsync(void *at, int byte, size_t bytes, cudaStream_t st);

#endif
