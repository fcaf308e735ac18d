/* Stand-in for libnvidia-ml.so.1 in tests: one device with values from the environment. It measures nothing.
 *
 * STANDIN_NVML_FAIL=call:code[:nth][,…]   an nvmlReturn_t, `hang` or `abort`
 * STANDIN_NVML_DEVICES=1, and the values STANDIN_NVML_TOTAL_BYTES, _USED_BYTES, _BAR1_BYTES, _BAR1_USED_BYTES, _GPU_PERCENT,
 * _MEMORY_PERCENT, _RX_KB_S, _TX_KB_S, _POWER_MW, _DRIVER, _CUDA, _GENERATION, _WIDTH, _COMPUTE_MODE, _PERSISTENCE
 * STANDIN_NVML_READS=PATH: each reading of a GPU's memory adds a byte to PATH.memory, and each reading of its processes adds one to PATH.processes
 * STANDIN_NVML_PROCESSES names a file with a line `pid bytes` for each process that computes on a GPU, read at each call.
 */
#include "standin.h"

typedef int nvmlReturn_t;
typedef struct device { int index; } *nvmlDevice_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned long long total, free, used; } nvmlBAR1Memory_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;
typedef struct { char legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; char id[32]; } nvmlPciInfo_t;

enum { INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, UNINITIALIZED = 1 };

static struct device all[16];
static int initialised;

#define N(name, otherwise) ((unsigned long long)standin_number("STANDIN_NVML_" name, otherwise))
#define TOTAL N("TOTAL_BYTES", 8ll << 30)
#define USED N("USED_BYTES", 1ll << 30)
#define FAIL(name)                                              \
    do {                                                        \
        int told = standin_fail("STANDIN_NVML_FAIL", name);     \
        if (told)                                               \
            return told;                                        \
        if (!initialised)                                       \
            return UNINITIALIZED;                               \
    } while (0)

static nvmlReturn_t text(char *out, unsigned len, const char *words)
{
    if (strlen(words) >= len)
        return INSUFFICIENT_SIZE;
    strcpy(out, words);
    return 0;
}

static int devices(void)
{
    unsigned long long n = N("DEVICES", 1);
    return n > 16 ? 16 : (int)n;
}

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    int told = standin_fail("STANDIN_NVML_FAIL", "nvmlInit_v2");
    if (told)
        return told;
    initialised++;
    return 0;
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return nvmlInit_v2();
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    FAIL("nvmlShutdown");
    initialised--;
    return 0;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t code)
{
    return code == 0 ? "Success (stand-in)" : "an error of the NVML stand-in";
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned len)
{
    FAIL("nvmlSystemGetDriverVersion");
    return text(out, len, standin_text("STANDIN_NVML_DRIVER", "580.00.stand-in"));
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned len)
{
    FAIL("nvmlSystemGetNVMLVersion");
    return text(out, len, "13.0.stand-in");
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    FAIL("nvmlSystemGetCudaDriverVersion_v2");
    *out = (int)N("CUDA", 13000);
    return 0;
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out)
{
    return nvmlSystemGetCudaDriverVersion_v2(out);
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out)
{
    FAIL("nvmlDeviceGetCount_v2");
    *out = (unsigned)devices();
    return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out)
{
    FAIL("nvmlDeviceGetHandleByIndex_v2");
    if (index >= (unsigned)devices())
        return INVALID_ARGUMENT;
    all[index].index = (int)index;
    *out = &all[index];
    return 0;
}

/* The UUID of the CUDA stand-in's device with the same index: "stand-in GPU    " as bytes. */
static void uuid(int index, char out[64])
{
    snprintf(out, 64, "GPU-7374616e-642d-696e-2047-5055202020%02x", 0x20 + index);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *wanted, nvmlDevice_t *out)
{
    FAIL("nvmlDeviceGetHandleByUUID");
    for (int i = 0; i < devices(); i++) {
        char own[64];
        uuid(i, own);
        if (!strcmp(own, wanted))
            return nvmlDeviceGetHandleByIndex_v2((unsigned)i, out);
    }
    return NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *out, unsigned len)
{
    FAIL("nvmlDeviceGetUUID");
    char own[64];
    uuid(d->index, own);
    return text(out, len, own);
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t d, unsigned *out)
{
    FAIL("nvmlDeviceGetIndex");
    *out = (unsigned)d->index;
    return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *out, unsigned len)
{
    FAIL("nvmlDeviceGetName");
    (void)d;
    return text(out, len, "Stand-in GPU (no hardware)");
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *out)
{
    FAIL("nvmlDeviceGetPciInfo_v3");
    memset(out, 0, sizeof *out);
    out->bus = (unsigned)d->index + 1;
    out->device_id = 0xffff10de;
    snprintf(out->legacy, sizeof out->legacy, "0000:%02x:00.0", out->bus);
    snprintf(out->id, sizeof out->id, "00000000:%02x:00.0", out->bus);
    return 0;
}

static void was_read(const char *what)
{
    const char *path = getenv("STANDIN_NVML_READS");
    char name[4096];
    if (!path || snprintf(name, sizeof name, "%s.%s", path, what) >= (int)sizeof name)
        return;
    FILE *file = fopen(name, "a");
    if (file) {
        fputc('.', file);
        fclose(file);
    }
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *out)
{
    FAIL("nvmlDeviceGetMemoryInfo");
    (void)d;
    was_read("memory");
    *out = (nvmlMemory_t){TOTAL, TOTAL - USED, USED};
    return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *out)
{
    FAIL("nvmlDeviceGetMemoryInfo_v2");
    (void)d;
    was_read("memory");
    if (out->version != (sizeof *out | 2u << 24))
        return 25; /* argument version mismatch */
    *out = (nvmlMemory_v2_t){out->version, TOTAL, 0, TOTAL - USED, USED};
    return 0;
}

typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } nvmlProcessInfo_t;

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *count, nvmlProcessInfo_t *out)
{
    FAIL("nvmlDeviceGetComputeRunningProcesses_v3");
    (void)d;
    was_read("processes");
    unsigned room = out ? *count : 0, found = 0;
    const char *path = getenv("STANDIN_NVML_PROCESSES");
    FILE *file = path ? fopen(path, "r") : NULL;
    unsigned pid;
    unsigned long long used;
    while (file && fscanf(file, "%u %llu", &pid, &used) == 2) {
        if (found < room)
            out[found] = (nvmlProcessInfo_t){pid, used, ~0u, ~0u};
        found++;
    }
    if (file)
        fclose(file);
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t d, nvmlBAR1Memory_t *out)
{
    FAIL("nvmlDeviceGetBAR1MemoryInfo");
    (void)d;
    unsigned long long all_bytes = N("BAR1_BYTES", 256 << 20), used = N("BAR1_USED_BYTES", 1 << 20);
    *out = (nvmlBAR1Memory_t){all_bytes, all_bytes - used, used};
    return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *out)
{
    FAIL("nvmlDeviceGetUtilizationRates");
    (void)d;
    *out = (nvmlUtilization_t){(unsigned)N("GPU_PERCENT", 0), (unsigned)N("MEMORY_PERCENT", 0)};
    return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t d, int counter, unsigned *out)
{
    FAIL("nvmlDeviceGetPcieThroughput");
    (void)d;
    *out = (unsigned)(counter == 0 ? N("TX_KB_S", 0) : N("RX_KB_S", 0)); /* 0: sent by the device, 1: received */
    return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *major, int *minor)
{
    FAIL("nvmlDeviceGetCudaComputeCapability");
    (void)d;
    *major = 9;
    *minor = 0;
    return 0;
}

#define VALUE(name, key, otherwise)                        \
    EXPORT nvmlReturn_t name(nvmlDevice_t d, unsigned *out) \
    {                                                      \
        FAIL(#name);                                       \
        (void)d;                                           \
        *out = (unsigned)N(key, otherwise);                \
        return 0;                                          \
    }
VALUE(nvmlDeviceGetPowerUsage, "POWER_MW", 50000)
VALUE(nvmlDeviceGetComputeMode, "COMPUTE_MODE", 0)
VALUE(nvmlDeviceGetPersistenceMode, "PERSISTENCE", 1)
VALUE(nvmlDeviceGetMaxPcieLinkGeneration, "GENERATION", 5)
VALUE(nvmlDeviceGetMaxPcieLinkWidth, "WIDTH", 16)
VALUE(nvmlDeviceGetCurrPcieLinkGeneration, "GENERATION", 5)
VALUE(nvmlDeviceGetCurrPcieLinkWidth, "WIDTH", 16)
