/* The space `cuda`: memory, streams and events of one GPU. */
#include "ps/space/cuda/cuda_space.cuh"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <time.h>

extern "C" {
extern __attribute__((visibility("default"))) const struct space_ops
    mltune_space;
#ifdef SPACE_NN
extern const struct space_nn_ops nn_cuda; /* apps/nn/cuda */
#endif
}

struct cuda_event {
    struct space_event base;
    cudaEvent_t native;
    bool recorded;
    struct fault error; /* of its stream, when it was recorded */
};

static struct cuda_space *space_of(struct memory_space *s)
{
    return reinterpret_cast<struct cuda_space *>(s);
}

static struct cuda_stream *stream_of(struct space_stream *st)
{
    return reinterpret_cast<struct cuda_stream *>(st);
}

static struct cuda_event *event_of(struct space_event *e)
{
    return reinterpret_cast<struct cuda_event *>(e);
}

/* ---- errors -------------------------------------------------------------- */

static enum err device_fault(struct fault *f, cudaError_t error,
                             const char *what)
{
    return fault_set(f,
                     error == cudaErrorMemoryAllocation ? ERR_LIMIT : ERR_IO,
                     "the GPU: %s: %s (%s)", what, cudaGetErrorString(error),
                     cudaGetErrorName(error));
}

static void spoil(struct cuda_stream *st, const struct fault *why)
{
    if (!st->error.code)
        st->error = *why;
}

bool cuda_check(struct cuda_stream *st, cudaError_t error, const char *what)
{
    struct fault f;

    if (error == cudaSuccess)
        return !st->error.code;
    device_fault(&f, error, what);
    spoil(st, &f);
    return false;
}

bool cuda_begin(struct cuda_stream *st)
{
    return !st->error.code &&
           cuda_check(st, cudaSetDevice(space_of(st->base.space)->device),
                      "choose the device");
}

static enum err told(const struct fault *error, struct fault *f)
{
    return error->code ? fault_set(f, error->code, "%s", error->text) : ERR_OK;
}

/* ---- devices ------------------------------------------------------------- */

/* Why there is no device to be had at all. */
static enum err no_driver(cudaError_t error, struct fault *f)
{
    int has = 0, needs = CUDART_VERSION;

    cudaDriverGetVersion(&has);
    if (has == 0)
        return fault_set(f, ERR_UNSUPPORTED,
                         "no driver of NVIDIA's: libcuda.so.1 cannot be "
                         "loaded, so no GPU can be used; install the driver, "
                         "or train on the host's processors");
    if (has < needs)
        return fault_set(f, ERR_UNSUPPORTED,
                         "NVIDIA's driver is of CUDA %d.%d, the plug-in needs "
                         "%d.%d: install a newer driver",
                         has / 1000, has % 1000 / 10, needs / 1000,
                         needs % 1000 / 10);
    return fault_set(f, ERR_UNSUPPORTED, "no GPU can be used: %s (%s)",
                     cudaGetErrorString(error), cudaGetErrorName(error));
}

static enum err count_devices(int *n, struct fault *f)
{
    cudaError_t error = cudaGetDeviceCount(n);

    cudaGetLastError();
    if (error == cudaErrorNoDevice)
        *n = 0;
    else if (error != cudaSuccess)
        return no_driver(error, f);
    return ERR_OK;
}

static enum err describe(int device, struct space_device *out, struct fault *f)
{
    struct cudaDeviceProp p;
    cudaError_t error = cudaGetDeviceProperties(&p, device);
    int driver = 0;

    if (error != cudaSuccess)
        return device_fault(f, error, "ask for its properties");
    cudaDriverGetVersion(&driver);
    memset(out, 0, sizeof(*out));
    snprintf(out->name, sizeof(out->name), "cuda:%d", device);
    snprintf(out->what, sizeof(out->what), "%.100s, sm_%d%d", p.name, p.major,
             p.minor);
    snprintf(out->driver, sizeof(out->driver), "%d.%d", driver / 1000,
             driver % 1000 / 10);
    out->total = p.totalGlobalMem;
    return ERR_OK;
}

static enum err cuda_devices(struct space_device *out, size_t max, size_t *n,
                             struct fault *f)
{
    int there = 0;
    enum err err = count_devices(&there, f);

    *n = 0;
    for (int i = 0; i < there && *n < max && !err; i++)
        err = describe(i, &out[(*n)++], f);
    return err;
}

/* ---- the space ----------------------------------------------------------- */

static enum err check_device(int device, struct fault *f)
{
    int there = 0;
    enum err err = count_devices(&there, f);

    if (err)
        return err;
    if (device < 0 || device >= there)
        return fault_set(f, ERR_NOENT,
                         "there is no device cuda:%d: the driver has %d",
                         device, there);
    return ERR_OK;
}

static enum err cuda_open(const struct space_options *o,
                          struct memory_space **out, struct fault *f)
{
    struct cuda_space *s;
    cudaError_t error;
    enum err err = check_device(o->device, f);

    if (err)
        return err;
    error = cudaSetDevice(o->device);
    if (error == cudaSuccess)
        error = cudaFree(nullptr); /* makes the device's context */
    if (error != cudaSuccess)
        return device_fault(f, error, "begin to use it");
    s = static_cast<struct cuda_space *>(calloc(1, sizeof(*s)));
    if (!s)
        return fault_set(f, ERR_NOMEM, "no memory for a memory space");
    s->base.ops = &mltune_space;
    s->device = o->device;
    budget_init(&s->budget, o->limit);
    *out = &s->base;
    return ERR_OK;
}

static void cuda_close(struct memory_space *s)
{
    free(s);
}

static enum err cuda_memory(struct memory_space *s, struct space_memory *out,
                            struct fault *f)
{
    size_t left = 0, total = 0;
    cudaError_t error = cudaSetDevice(space_of(s)->device);

    if (error == cudaSuccess)
        error = cudaMemGetInfo(&left, &total);
    if (error != cudaSuccess)
        return device_fault(f, error, "ask for its memory");
    memset(out, 0, sizeof(*out));
    budget_tell(&space_of(s)->budget, out);
    out->total = total;
    out->free = left;
    return ERR_OK;
}

static enum err refuse(struct memory_space *s, size_t bytes, cudaError_t error,
                       struct fault *f)
{
    struct space_memory m;

    cudaGetLastError(); /* an allocation that failed spoils nothing */
    budget_give(&space_of(s)->budget, bytes);
    if (error != cudaErrorMemoryAllocation || cuda_memory(s, &m, nullptr))
        return device_fault(f, error, "take memory");
    return budget_full(&m, bytes, f);
}

static enum err cuda_alloc(struct memory_space *s, size_t bytes, void **out,
                           struct fault *f)
{
    enum err err = budget_take(&space_of(s)->budget, bytes, f);
    cudaError_t error;

    if (err)
        return err;
    error = cudaSetDevice(space_of(s)->device);
    if (error == cudaSuccess)
        error = cudaMalloc(out, bytes);
    return error == cudaSuccess ? ERR_OK : refuse(s, bytes, error, f);
}

static void cuda_free(struct memory_space *s, void *at, size_t bytes)
{
    if (!at)
        return;
    cudaSetDevice(space_of(s)->device);
    cudaFree(at);
    budget_give(&space_of(s)->budget, bytes);
}

static enum err cuda_pinned_alloc(struct memory_space *s, size_t bytes,
                                  void **out, struct fault *f)
{
    cudaError_t error = cudaSetDevice(space_of(s)->device);

    if (error == cudaSuccess)
        error = cudaMallocHost(out, bytes);
    if (error != cudaSuccess) {
        cudaGetLastError();
        return fault_set(f, ERR_NOMEM,
                         "no pinned buffer of %zu bytes: %s; raise ulimit -l",
                         bytes, cudaGetErrorString(error));
    }
    budget_pin(&space_of(s)->budget, bytes);
    return ERR_OK;
}

static void cuda_pinned_free(struct memory_space *s, void *at, size_t bytes)
{
    if (!at)
        return;
    cudaFreeHost(at);
    budget_unpin(&space_of(s)->budget, bytes);
}

/* ---- waiting ------------------------------------------------------------- */

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* CUDA waits without a deadline. So it is asked: at once for as long as short
 * work takes, then with pauses. */
enum { EAGER_NS = 200000, PAUSE_NS = 20000 };

template <class Ask> static cudaError_t await(Ask ask, int timeout_ms)
{
    const struct timespec pause = {0, PAUSE_NS};
    int64_t begun = now_ns(), waited;
    cudaError_t error;

    while ((error = ask()) == cudaErrorNotReady) {
        waited = now_ns() - begun;
        if (waited >= (int64_t)timeout_ms * 1000000)
            break;
        if (waited > EAGER_NS)
            nanosleep(&pause, nullptr);
    }
    return error;
}

static enum err late(int timeout_ms, struct fault *f)
{
    return fault_set(f, ERR_TIMEOUT,
                     "the device has not done its work in %d ms", timeout_ms);
}

/* ---- streams ------------------------------------------------------------- */

static enum err cuda_stream_open(struct memory_space *s,
                                 struct space_stream **out, struct fault *f)
{
    struct cuda_stream *st =
        static_cast<struct cuda_stream *>(calloc(1, sizeof(*st)));
    cudaError_t error;

    if (!st)
        return fault_set(f, ERR_NOMEM, "no memory for a stream");
    st->base.space = s;
    error = cudaSetDevice(space_of(s)->device);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&st->native, cudaStreamNonBlocking);
    if (error != cudaSuccess) {
        free(st);
        return device_fault(f, error, "open a stream");
    }
    *out = &st->base;
    return ERR_OK;
}

static enum err cuda_stream_sync(struct space_stream *base, int timeout_ms,
                                 struct fault *f)
{
    struct cuda_stream *st = stream_of(base);
    cudaError_t error =
        await([st] { return cudaStreamQuery(st->native); }, timeout_ms);

    if (error == cudaErrorNotReady)
        return late(timeout_ms, f);
    cuda_check(st, error, "work of a stream");
    return told(&st->error, f);
}

static enum err cuda_stream_query(struct space_stream *base, struct fault *f)
{
    struct cuda_stream *st = stream_of(base);
    cudaError_t error = cudaStreamQuery(st->native);

    if (error == cudaErrorNotReady)
        return ERR_AGAIN;
    cuda_check(st, error, "work of a stream");
    return told(&st->error, f);
}

static void cuda_stream_close(struct space_stream *base)
{
    struct cuda_stream *st = stream_of(base);

    if (!st)
        return;
    cudaSetDevice(space_of(base->space)->device);
    cuda_stream_sync(base, DEADLINE_DEVICE_MS, nullptr);
    for (unsigned i = SPACE_HANDLES_MAX; i-- > 0;)
        if (st->handle[i].handle && st->handle[i].close)
            st->handle[i].close(st->handle[i].handle);
    cudaStreamDestroy(st->native);
    free(st);
}

static void cuda_stream_fail(struct space_stream *base, enum err err,
                             const char *text)
{
    struct fault f;

    fault_set(&f, err, "%s", text);
    spoil(stream_of(base), &f);
}

static void *cuda_stream_native(struct space_stream *st)
{
    return stream_of(st)->native;
}

static struct space_handle *cuda_stream_handle(struct space_stream *st,
                                               unsigned i)
{
    return &stream_of(st)->handle[i];
}

/* ---- events -------------------------------------------------------------- */

static enum err cuda_event_open(struct memory_space *s,
                                struct space_event **out, struct fault *f)
{
    struct cuda_event *e =
        static_cast<struct cuda_event *>(calloc(1, sizeof(*e)));
    cudaError_t error;

    if (!e)
        return fault_set(f, ERR_NOMEM, "no memory for an event");
    e->base.space = s;
    error = cudaSetDevice(space_of(s)->device);
    if (error == cudaSuccess)
        error = cudaEventCreate(&e->native);
    if (error != cudaSuccess) {
        free(e);
        return device_fault(f, error, "make an event");
    }
    *out = &e->base;
    return ERR_OK;
}

static void cuda_event_close(struct space_event *base)
{
    if (!base)
        return;
    cudaSetDevice(space_of(base->space)->device);
    cudaEventDestroy(event_of(base)->native);
    free(base);
}

static void cuda_event_record(struct space_stream *base, struct space_event *to)
{
    struct cuda_stream *st = stream_of(base);
    struct cuda_event *e = event_of(to);

    if (cuda_begin(st))
        cuda_check(st, cudaEventRecord(e->native, st->native),
                   "record an event");
    e->recorded = true;
    e->error = st->error;
}

static void cuda_event_wait(struct space_stream *base, struct space_event *of)
{
    struct cuda_stream *st = stream_of(base);
    struct cuda_event *e = event_of(of);

    if (e->error.code)
        spoil(st, &e->error);
    if (e->recorded && cuda_begin(st))
        cuda_check(st, cudaStreamWaitEvent(st->native, e->native, 0),
                   "wait for an event");
}

static enum err event_told(struct cuda_event *e, cudaError_t error,
                           struct fault *f)
{
    if (!e->error.code && error != cudaSuccess)
        device_fault(&e->error, error, "work of a stream");
    return told(&e->error, f);
}

static enum err cuda_event_sync(struct space_event *base, int timeout_ms,
                                struct fault *f)
{
    struct cuda_event *e = event_of(base);
    cudaError_t error =
        await([e] { return cudaEventQuery(e->native); }, timeout_ms);

    return error == cudaErrorNotReady ? late(timeout_ms, f)
                                      : event_told(e, error, f);
}

static enum err cuda_event_query(struct space_event *base, struct fault *f)
{
    struct cuda_event *e = event_of(base);
    cudaError_t error = cudaEventQuery(e->native);

    return error == cudaErrorNotReady ? ERR_AGAIN : event_told(e, error, f);
}

static uint64_t cuda_event_between(struct space_event *from,
                                   struct space_event *to)
{
    float ms = 0;

    if (cudaEventElapsedTime(&ms, event_of(from)->native,
                             event_of(to)->native) != cudaSuccess ||
        ms < 0)
        return 0;
    return (uint64_t)((double)ms * 1e6);
}

/* ---- copies -------------------------------------------------------------- */

static void cuda_copy(struct space_stream *base, void *to, const void *from,
                      size_t bytes, enum space_direction direction)
{
    static const enum cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice,
                                                cudaMemcpyDeviceToHost,
                                                cudaMemcpyDeviceToDevice};
    struct cuda_stream *st = stream_of(base);

    if (cuda_begin(st))
        cuda_check(st,
                   cudaMemcpyAsync(to, from, bytes, kinds[direction],
                                   st->native),
                   "copy");
}

static void cuda_call(struct space_stream *st, const struct space_call *)
{
    cuda_stream_fail(st, ERR_UNSUPPORTED,
                     "a function of the host's cannot work on memory of a GPU");
}

const struct space_ops mltune_space = {
    .version = SPACE_VERSION,
    .name = "cuda",
    .devices = cuda_devices,
    .open = cuda_open,
    .close = cuda_close,
    .memory = cuda_memory,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .pinned_alloc = cuda_pinned_alloc,
    .pinned_free = cuda_pinned_free,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .stream_sync = cuda_stream_sync,
    .stream_query = cuda_stream_query,
    .event_open = cuda_event_open,
    .event_close = cuda_event_close,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_sync = cuda_event_sync,
    .event_query = cuda_event_query,
    .event_between = cuda_event_between,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .gather = cuda_gather,
    .scatter = cuda_scatter,
    .add = cuda_add,
    .update = cuda_update,
    .call = cuda_call,
#ifdef SPACE_NN
    .nn = &nn_cuda,
#else
    .nn = nullptr,
#endif
    .stream_native = cuda_stream_native,
    .stream_handle = cuda_stream_handle,
    .stream_fail = cuda_stream_fail,
};
