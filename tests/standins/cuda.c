/* Stand-in for libcuda.so.1 in tests: device memory is host memory; copies are done in the call, host functions in the order of their stream (streams.h).
 * It measures nothing.
 *
 * STANDIN_CUDA_FAIL=call:code[:nth][,…]  a CUresult, `hang` or `abort`; the call by its exported name.
 *                                        Also cuStreamAddCallback.later: the status that the callback gets
 * STANDIN_CUDA_DEVICES=1                 number of devices
 * STANDIN_CUDA_TOTAL_BYTES=8589934592    memory of a device; allocations beyond it return 2
 * STANDIN_CUDA_CORRUPT=3                the third copy to the device gets its last byte wrong
 */
#include "standin.h"
#include "streams.h"

#include <sys/mman.h>
#include <time.h>

typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context { int device, references; } *CUcontext;
typedef struct event { struct timespec at; int recorded; } *CUevent;

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201,
       INVALID_HANDLE = 400, NOT_READY = 600, NOT_PERMITTED = 800, LIMIT = 4096, DEVICES = 16 };

static int initialised;
static struct context contexts[DEVICES];
static __thread CUcontext stack[16];
static __thread int depth;
static struct { CUdeviceptr base; size_t bytes; int kind; } ranges[LIMIT]; /* kind: 1 device, 2 pinned host, 3 registered host */
static size_t device_bytes;

#define LOCK() pthread_mutex_lock(&standin_lock)
#define UNLOCK() pthread_mutex_unlock(&standin_lock)
#define FAIL(name)                                         \
    do {                                                   \
        int told = standin_fail("STANDIN_CUDA_FAIL", name); \
        if (told)                                          \
            return told;                                   \
    } while (0)
#define READY(name)                 \
    do {                            \
        FAIL(name);                 \
        if (!initialised)           \
            return NOT_INITIALIZED; \
        if (on_stream)              \
            return NOT_PERMITTED;   \
    } while (0)
#define IN_CONTEXT(name)            \
    do {                            \
        READY(name);                \
        if (!current())             \
            return INVALID_CONTEXT; \
    } while (0)

static int devices(void)
{
    long long n = standin_number("STANDIN_CUDA_DEVICES", 1);
    return n < 0 ? 0 : n > DEVICES ? DEVICES : (int)n;
}

static CUcontext current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

static size_t total(void)
{
    return (size_t)standin_number("STANDIN_CUDA_TOTAL_BYTES", 8ll << 30);
}

static int add_range(CUdeviceptr base, size_t bytes, int kind)
{
    for (int i = 0; i < LIMIT; i++) {
        if (!ranges[i].base) {
            ranges[i].base = base;
            ranges[i].bytes = bytes;
            ranges[i].kind = kind;
            return 0;
        }
    }
    return OUT_OF_MEMORY;
}

static size_t take_range(CUdeviceptr base, int kind)
{
    size_t bytes = 0;
    LOCK();
    for (int i = 0; i < LIMIT && !bytes; i++) {
        if (ranges[i].base == base && ranges[i].kind == kind) {
            bytes = ranges[i].bytes;
            ranges[i].base = 0;
            if (kind == 1)
                device_bytes -= bytes;
        }
    }
    UNLOCK();
    return bytes;
}

/* The kind of the range that contains an address; 0 if there is none. */
static int kind_of(CUdeviceptr p, CUdeviceptr *base, size_t *bytes)
{
    int kind = 0;
    LOCK();
    for (int i = 0; i < LIMIT && !kind; i++) {
        if (ranges[i].base && p >= ranges[i].base && p < ranges[i].base + ranges[i].bytes) {
            kind = ranges[i].kind;
            *base = ranges[i].base;
            *bytes = ranges[i].bytes;
        }
    }
    UNLOCK();
    return kind;
}

/* A device range of n bytes must be within one allocation, as on a device. */
static int in_device(CUdeviceptr p, size_t n)
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    return n == 0 || (kind_of(p, &base, &bytes) && p - base <= bytes && n <= bytes - (p - base));
}

EXPORT CUresult cuInit(unsigned flags)
{
    FAIL("cuInit");
    if (flags)
        return INVALID_VALUE;
    if (!devices())
        return NO_DEVICE;
    initialised = 1;
    return 0;
}

EXPORT CUresult cuDriverGetVersion(int *out)
{
    FAIL("cuDriverGetVersion");
    *out = (int)standin_number("STANDIN_CUDA_VERSION", 13000);
    return 0;
}

EXPORT CUresult cuDeviceGetCount(int *out)
{
    READY("cuDeviceGetCount");
    *out = devices();
    return 0;
}

EXPORT CUresult cuDeviceGet(CUdevice *out, int ordinal)
{
    READY("cuDeviceGet");
    if (ordinal < 0 || ordinal >= devices())
        return INVALID_DEVICE;
    *out = ordinal;
    return 0;
}

EXPORT CUresult cuDeviceGetName(char *out, int len, CUdevice d)
{
    READY("cuDeviceGetName");
    (void)d;
    snprintf(out, (size_t)len, "Stand-in GPU (no hardware)");
    return 0;
}

EXPORT CUresult cuDeviceGetUuid_v2(unsigned char out[16], CUdevice d)
{
    READY("cuDeviceGetUuid_v2");
    memcpy(out, "stand-in GPU    ", 16);
    out[15] = (unsigned char)(' ' + d);
    return 0;
}

EXPORT CUresult cuDeviceGetUuid(unsigned char out[16], CUdevice d)
{
    return cuDeviceGetUuid_v2(out, d);
}

EXPORT CUresult cuDeviceGetAttribute(int *out, int attribute, CUdevice d)
{
    READY("cuDeviceGetAttribute");
    switch (attribute) {
    case 16: *out = 1; break;                 /* multiprocessors */
    case 33: *out = d + 1; break;             /* PCI bus */
    case 34: *out = 0; break;                 /* PCI device */
    case 41: *out = 1; break;                 /* unified addressing */
    case 50: *out = 0; break;                 /* PCI domain */
    case 75: *out = 9; break;                 /* compute capability, major */
    case 76: *out = 0; break;                 /* minor */
    case 116: *out = 1; break;                /* GPUDirect RDMA */
    case 122: *out = 1; break;                /* memory operations on streams */
    case 124: *out = 1; break;                /* dma-buf */
    default: *out = 0;
    }
    return 0;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *out, CUdevice d)
{
    READY("cuDeviceTotalMem_v2");
    (void)d;
    *out = total();
    return 0;
}

EXPORT CUresult cuDeviceGetPCIBusId(char *out, int len, CUdevice d)
{
    READY("cuDeviceGetPCIBusId");
    snprintf(out, (size_t)len, "0000:%02x:00.0", d + 1);
    return 0;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice d)
{
    READY("cuDevicePrimaryCtxRetain");
    if (d < 0 || d >= devices())
        return INVALID_DEVICE;
    LOCK();
    contexts[d].device = d;
    contexts[d].references++;
    UNLOCK();
    *out = &contexts[d];
    return 0;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d)
{
    READY("cuDevicePrimaryCtxRelease_v2");
    if (d < 0 || d >= devices() || contexts[d].references < 1)
        return INVALID_CONTEXT;
    LOCK();
    contexts[d].references--;
    UNLOCK();
    return 0;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice d, unsigned flags)
{
    READY("cuDevicePrimaryCtxSetFlags_v2");
    (void)flags;
    return d < 0 || d >= devices() ? INVALID_DEVICE : 0;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice d, unsigned flags)
{
    return cuDevicePrimaryCtxSetFlags_v2(d, flags);
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned *flags, int *active)
{
    READY("cuDevicePrimaryCtxGetState");
    *flags = 0;
    *active = contexts[d].references > 0;
    return 0;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext c)
{
    READY("cuCtxSetCurrent");
    if (depth == 0)
        depth = 1;
    stack[depth - 1] = c;
    return 0;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *out)
{
    READY("cuCtxGetCurrent");
    *out = current();
    return 0;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext c)
{
    READY("cuCtxPushCurrent_v2");
    if (depth == 16)
        return INVALID_VALUE;
    stack[depth++] = c;
    return 0;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    READY("cuCtxPopCurrent_v2");
    if (!depth)
        return INVALID_CONTEXT;
    depth--;
    if (out)
        *out = stack[depth];
    return 0;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *out)
{
    IN_CONTEXT("cuCtxGetDevice");
    *out = current()->device;
    return 0;
}

EXPORT CUresult cuCtxSynchronize(void)
{
    IN_CONTEXT("cuCtxSynchronize");
    streams_drain();
    return 0;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    IN_CONTEXT("cuMemAlloc_v2");
    if (!bytes)
        return INVALID_VALUE;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return OUT_OF_MEMORY;
    LOCK();
    int code = device_bytes + bytes > total() ? OUT_OF_MEMORY : add_range((CUdeviceptr)p, bytes, 1);
    if (!code)
        device_bytes += bytes;
    UNLOCK();
    if (code) {
        munmap(p, bytes);
        return code;
    }
    *out = (CUdeviceptr)p;
    return 0;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr p)
{
    IN_CONTEXT("cuMemFree_v2");
    if (!p)
        return 0;
    size_t bytes = take_range(p, 1);
    if (!bytes)
        return INVALID_VALUE;
    munmap((void *)p, bytes);
    return 0;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *all)
{
    IN_CONTEXT("cuMemGetInfo_v2");
    *all = total();
    *free_bytes = total() - device_bytes;
    return 0;
}

EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    IN_CONTEXT("cuMemHostAlloc");
    (void)flags;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return OUT_OF_MEMORY;
    LOCK();
    int code = add_range((CUdeviceptr)p, bytes, 2);
    UNLOCK();
    *out = p;
    return code;
}

EXPORT CUresult cuMemAllocHost_v2(void **out, size_t bytes)
{
    return cuMemHostAlloc(out, bytes, 0);
}

EXPORT CUresult cuMemFreeHost(void *p)
{
    IN_CONTEXT("cuMemFreeHost");
    size_t bytes = take_range((CUdeviceptr)p, 2);
    if (!bytes)
        return INVALID_VALUE;
    munmap(p, bytes);
    return 0;
}

EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags)
{
    IN_CONTEXT("cuMemHostRegister_v2");
    (void)flags;
    CUdeviceptr base;
    size_t length;
    if (!p || !bytes)
        return INVALID_VALUE;
    if (kind_of((CUdeviceptr)p, &base, &length))
        return 712; /* already registered */
    LOCK();
    int code = add_range((CUdeviceptr)p, bytes, 3);
    UNLOCK();
    return code;
}

EXPORT CUresult cuMemHostUnregister(void *p)
{
    IN_CONTEXT("cuMemHostUnregister");
    return take_range((CUdeviceptr)p, 3) ? 0 : 713;
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned flags)
{
    IN_CONTEXT("cuMemHostGetDevicePointer_v2");
    (void)flags;
    *out = (CUdeviceptr)p;
    return 0;
}

EXPORT CUresult cuMemHostGetDevicePointer(CUdeviceptr *out, void *p, unsigned flags)
{
    return cuMemHostGetDevicePointer_v2(out, p, flags);
}

#define COPY(name, parameters, to, from, device_side, before) \
    EXPORT CUresult name parameters                      \
    {                                                    \
        IN_CONTEXT(#name);                               \
        if (!in_device(device_side, n))                  \
            return INVALID_VALUE;                        \
        before;                                          \
        memcpy((void *)(to), (const void *)(from), n);   \
        spoil(#name, (char *)(to), n);                   \
        return 0;                                        \
    }

static void spoil(const char *name, char *to, size_t n)
{
    static long copies;
    if (n && strstr(name, "HtoD") && __atomic_add_fetch(&copies, 1, __ATOMIC_RELAXED) == standin_number("STANDIN_CUDA_CORRUPT", 0))
        to[n - 1] ^= 1;
}

/* Runs after the earlier work on the stream, as in the real library. */
COPY(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t n), to, from, to, )
COPY(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t n, CUstream s), to, from, to, stream_drain(s))
COPY(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t n), to, from, from, )
COPY(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t n, CUstream s), to, from, from, stream_drain(s))
COPY(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t n), to, from, to, )
COPY(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s), to, from, to, stream_drain(s))

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr p, unsigned char value, size_t n)
{
    IN_CONTEXT("cuMemsetD8_v2");
    if (!in_device(p, n))
        return INVALID_VALUE;
    memset((void *)p, value, n);
    return 0;
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char value, size_t n, CUstream s)
{
    FAIL("cuMemsetD8Async");
    stream_drain(s);
    return cuMemsetD8_v2(p, value, n);
}

EXPORT CUresult cuPointerGetAttribute(void *out, int attribute, CUdeviceptr p)
{
    READY("cuPointerGetAttribute");
    CUdeviceptr base = 0;
    size_t bytes = 0;
    int kind = kind_of(p, &base, &bytes);
    if (!kind)
        return INVALID_VALUE;
    switch (attribute) {
    case 2: *(unsigned *)out = kind == 1 ? 2 : 1; return 0; /* memory type */
    case 3: *(CUdeviceptr *)out = p; return 0;              /* device pointer */
    case 9: *(int *)out = 0; return 0;                      /* device ordinal */
    case 11: *(CUdeviceptr *)out = base; return 0;          /* range start */
    case 12: *(size_t *)out = bytes; return 0;              /* range size */
    default: return INVALID_VALUE;
    }
}

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
    IN_CONTEXT("cuStreamCreate");
    (void)flags;
    *out = stream_open();
    return *out ? 0 : OUT_OF_MEMORY;
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    (void)priority;
    FAIL("cuStreamCreateWithPriority");
    return cuStreamCreate(out, flags);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream s)
{
    READY("cuStreamDestroy_v2");
    if (!s)
        return INVALID_HANDLE;
    stream_close(s);
    return 0;
}

EXPORT CUresult cuStreamSynchronize(CUstream s)
{
    IN_CONTEXT("cuStreamSynchronize");
    stream_drain(s);
    return 0;
}

EXPORT CUresult cuStreamQuery(CUstream s)
{
    IN_CONTEXT("cuStreamQuery");
    return s && stream_is_busy(s) ? NOT_READY : 0;
}

EXPORT CUresult cuLaunchHostFunc(CUstream s, void (*run)(void *), void *data)
{
    IN_CONTEXT("cuLaunchHostFunc");
    return run ? stream_put(s, run, data) : INVALID_VALUE;
}

struct callback {
    void (*tell)(CUstream, CUresult, void *);
    void *data;
    CUstream stream;
};

static void call_back(void *of)
{
    struct callback *c = of;
    c->tell(c->stream, standin_fail("STANDIN_CUDA_FAIL", "cuStreamAddCallback.later"), c->data);
    free(c);
}

EXPORT CUresult cuStreamAddCallback(CUstream s, void (*tell)(CUstream, CUresult, void *), void *data, unsigned flags)
{
    IN_CONTEXT("cuStreamAddCallback");
    if (!tell || flags)
        return INVALID_VALUE;
    struct callback *c = malloc(sizeof *c);
    *c = (struct callback){tell, data, s};
    return stream_put(s, call_back, c);
}

EXPORT CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags)
{
    (void)s; /* an event is recorded when what is before it has ended */
    (void)flags;
    IN_CONTEXT("cuStreamWaitEvent");
    return e ? 0 : INVALID_HANDLE;
}

EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    IN_CONTEXT("cuEventCreate");
    (void)flags;
    *out = calloc(1, sizeof **out);
    return *out ? 0 : OUT_OF_MEMORY;
}

EXPORT CUresult cuEventRecord(CUevent e, CUstream s)
{
    IN_CONTEXT("cuEventRecord");
    if (!e)
        return INVALID_HANDLE;
    stream_drain(s);
    clock_gettime(CLOCK_MONOTONIC, &e->at);
    e->recorded = 1;
    return 0;
}

EXPORT CUresult cuEventQuery(CUevent e)
{
    READY("cuEventQuery");
    return e ? 0 : INVALID_HANDLE;
}

EXPORT CUresult cuEventSynchronize(CUevent e)
{
    READY("cuEventSynchronize");
    return e ? 0 : INVALID_HANDLE;
}

static CUresult elapsed(float *out, CUevent a, CUevent b)
{
    if (!a || !b || !a->recorded || !b->recorded)
        return INVALID_HANDLE;
    *out = (float)((double)(b->at.tv_sec - a->at.tv_sec) * 1e3 + (double)(b->at.tv_nsec - a->at.tv_nsec) / 1e6);
    return 0;
}

EXPORT CUresult cuEventElapsedTime(float *out, CUevent a, CUevent b)
{
    READY("cuEventElapsedTime");
    return elapsed(out, a, b);
}

EXPORT CUresult cuEventElapsedTime_v2(float *out, CUevent a, CUevent b)
{
    READY("cuEventElapsedTime_v2");
    return elapsed(out, a, b);
}

EXPORT CUresult cuEventDestroy_v2(CUevent e)
{
    READY("cuEventDestroy_v2");
    free(e);
    return e ? 0 : INVALID_HANDLE;
}

static const struct { CUresult code; const char *name, *words; } errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

EXPORT CUresult cuGetErrorName(CUresult code, const char **out)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code)
            return *out = errors[i].name, 0;
    *out = NULL;
    return INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult code, const char **out)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code)
            return *out = errors[i].words, 0;
    *out = NULL;
    return INVALID_VALUE;
}
