/* The emulation behind tests/cuda/cuda_runtime.h. */
#include "cuda_runtime.h"

#include <cassert>

#include <ucontext.h>

enum { WARP = 32, STACK = 64 * 1024, DEVICE = 1 << 30 };

thread_local struct emulated_index threadIdx, blockIdx;

/* ---- a warp of fibers ---------------------------------------------------- */

struct fiber {
    ucontext_t context;
    char *stack;
    bool ended;
    float shared; /* what it gives to a shuffle */
};

static thread_local struct fiber fiber_of[WARP];
static thread_local ucontext_t scheduler;
static thread_local unsigned current;
static thread_local emulated_thread *body;
static thread_local void *body_arg;

static void run_fiber(void)
{
    body(body_arg);
    fiber_of[current].ended = true;
    swapcontext(&fiber_of[current].context, &scheduler);
}

void emulated_meet(void)
{
    swapcontext(&fiber_of[current].context, &scheduler);
}

float emulated_shuffle_xor(float x, int lanes)
{
    unsigned other = current ^ (unsigned)lanes;
    float got;

    fiber_of[current].shared = x;
    emulated_meet();
    assert(!fiber_of[other].ended);
    got = fiber_of[other].shared;
    emulated_meet();
    return got;
}

static void start_fiber(unsigned lane)
{
    struct fiber *f = &fiber_of[lane];

    if (!f->stack)
        f->stack = static_cast<char *>(malloc(STACK));
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK;
    f->context.uc_link = nullptr;
    f->ended = false;
    makecontext(&f->context, run_fiber, 0);
}

/* Each in turn up to where the warp meets, until all have ended. */
static void run_warp(unsigned first)
{
    bool ended = false;

    for (unsigned lane = 0; lane < WARP; lane++)
        start_fiber(lane);
    while (!ended) {
        ended = true;
        for (current = 0; current < WARP; current++) {
            if (fiber_of[current].ended)
                continue;
            threadIdx.x = first + current;
            swapcontext(&scheduler, &fiber_of[current].context);
            ended = ended && fiber_of[current].ended;
        }
    }
}

void emulated_grid(unsigned blocks, unsigned threads, emulated_thread *run,
                   void *arg)
{
    body = run;
    body_arg = arg;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        for (unsigned first = 0; first < threads; first += WARP)
            run_warp(first);
    for (unsigned lane = 0; lane < WARP; lane++) {
        free(fiber_of[lane].stack);
        fiber_of[lane].stack = nullptr;
    }
}

/* ---- the runtime --------------------------------------------------------- */

static size_t used;

/* Sizes stand before what is given out. */
enum { HEAD = 256 };

static cudaError_t take(void **out, size_t bytes)
{
    char *at = static_cast<char *>(
        aligned_alloc(HEAD, (bytes + 2 * HEAD - 1) / HEAD * HEAD));

    if (!at)
        return cudaErrorMemoryAllocation;
    memcpy(at, &bytes, sizeof(bytes));
    memset(at + HEAD, 0xff, bytes);
    *out = at + HEAD;
    return cudaSuccess;
}

static size_t give(void *at)
{
    size_t bytes;

    if (!at)
        return 0;
    memcpy(&bytes, static_cast<char *>(at) - HEAD, sizeof(bytes));
    free(static_cast<char *>(at) - HEAD);
    return bytes;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    cudaError_t error =
        bytes > DEVICE - used ? cudaErrorMemoryAllocation : take(out, bytes);

    used += error == cudaSuccess ? bytes : 0;
    return error;
}

cudaError_t cudaFree(void *at)
{
    used -= give(at);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return take(out, bytes);
}

cudaError_t cudaFreeHost(void *at)
{
    give(at);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    *left = DEVICE - used;
    *total = DEVICE;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t)
{
    return "an error of the emulation";
}

const char *cudaGetErrorName(cudaError_t)
{
    return "cudaError";
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int)
{
    *p = {"emulated", 9, 0, DEVICE};
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, int)
{
    *out = nullptr;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t)
{
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t)
{
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, int)
{
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    *out = nullptr;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t)
{
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t)
{
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t)
{
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t)
{
    *ms = 0;
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind, cudaStream_t)
{
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *at, int byte, size_t bytes, cudaStream_t)
{
    memset(at, byte, bytes);
    return cudaSuccess;
}
