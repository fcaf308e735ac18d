/* Stand-in for libcufile.so.0 in tests: the real ABI (1.20) on host memory. It moves bytes with pread and pwrite and measures nothing.
 *
 * STANDIN_CUFILE_VERSION=1200      number of cuFileGetVersion; below 1190 the statistics have the older layout
 * STANDIN_CUFILE_FAIL=call:code[:nth][,…]   a code of 5000 and more is a cuFile code, a smaller one of a transfer is errno; `hang`, `abort`.
 *                                  Also cuFileBatchIO.entry and cuFileReadAsync.later, cuFileWriteAsync.later: failures after the submit.
 *                                  On a stream, compat mode (the route posix) moves the bytes in the call, as the real library may, and returns EIO
 *                                  at an offset of memory that is not registered; the other routes move them when the stream gets there
 * STANDIN_CUFILE_ERRNO=1           a transfer that fails with a cuFile code returns -1 with that code in errno
 * STANDIN_CUFILE_ROUTE=posix       or nvfs, p2p: which route the level-3 statistics count
 * STANDIN_CUFILE_COUNT_READS=1     level 3 counts only the first transfers, this many
 * STANDIN_CUFILE_COUNT_BYTES=4096  level 3 counts at most this many bytes of a transfer
 * STANDIN_CUFILE_COUNT_NO_MORE=1   level 1 counts no more transfers and bytes than level 3
 * STANDIN_CUFILE_COUNT_TIMES=2     level 3 counts each transfer this many times
 * STANDIN_CUFILE_COUNT_BYTES_TIMES=1  level 3 counts the bytes of each transfer this many times; as COUNT_TIMES if it is not set
 * STANDIN_CUFILE_COUNT_ALL_TIMES=2 level 1 has this many times its numbers
 * STANDIN_CUFILE_COUNT_FROM=-8     counters of level 3 begin at this number
 * STANDIN_CUFILE_COUNT_GPUS=2      level 3 counts every other transfer for another GPU
 * STANDIN_CUFILE_POSIX_EVERY=3     of what that route counts, every third is counted as POSIX
 * STANDIN_CUFILE_CORRUPT=3         the third transfer gets its last byte wrong
 * STANDIN_CUFILE_LOSE=3            the third transfer moves nothing but reports success
 * STANDIN_CUFILE_SHORT=1           a transfer of more than a page moves and reports half of it
 * STANDIN_CUFILE_IMPLICIT=1        the registration of a file opens the driver, as in real ones
 * STANDIN_CUFILE_RUDE=1            the open prints to standard output and closes descriptor 0, as real ones did
 */
#include "standin.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

typedef struct { int err, cu_err; } CUfileError_t;
typedef void *CUfileHandle_t, *CUfileBatchHandle_t, *CUstream;
typedef struct { unsigned type; union { int fd; void *handle; } handle; const void *fs_ops; } CUfileDescr_t;
typedef struct {
    struct { unsigned major_version, minor_version; size_t poll_thresh_size, max_direct_io_size; unsigned dstatusflags, dcontrolflags; } nvfs;
    unsigned fflags, max_device_cache_size, per_buffer_cache_size, max_device_pinned_mem_size, max_batch_io_size, max_batch_io_timeout_msecs;
} CUfileDrvProps_t;
typedef struct { unsigned mode; void *base; off_t file_offset, base_offset; size_t size; CUfileHandle_t fh; unsigned opcode; void *cookie; } CUfileIOParams_t;
typedef struct { void *cookie; unsigned status; size_t ret; } CUfileIOEvents_t;
typedef struct { void *base; size_t len; } CUfileIOVec_t;
_Static_assert(sizeof(CUfileDescr_t) == 24 && sizeof(CUfileDrvProps_t) == 56, "layout of cufile.h");
_Static_assert(sizeof(CUfileIOParams_t) == 64 && sizeof(CUfileIOEvents_t) == 24, "layout of cufile.h");

enum { LIMIT = 4096, READ = 0, WRITE = 1 };
struct handle { int fd, own; };
struct batch { unsigned capacity, done, taken; CUfileIOEvents_t events[256]; };

static struct handle *handles[LIMIT];
static struct { const void *base; size_t len; } buffers[LIMIT];
static long opened;
static int stats_level, stats_on;
static size_t sizes[12] = {0, 128, 8, 1024, 4, 16384, 131072, 1024, 33554432, 128, 4, 5};
static int direct_io_set;
static unsigned char bools[14] = {[1] = 1, [4] = 1, [6] = 1};
static char strings[4][4096] = {"ERROR"};
static size_t pool_sizes[3] = {4, 1024, 16384}, pool_counts[3] = {128, 64, 64};
static size_t bounce_sizes[3] = {64, 1024, 16384}, bounce_counts[3] = {128, 64, 8};

/* Level 1 of 1.20 in words of 8 bytes; the older layout ends before word 64. */
static uint64_t l1[78], histograms[64], gpu[31], other_gpu[31];
enum { READ_OPS = 0, WRITE_OPS = 2, HDL_REG = 4, HDL_DEREG = 6, BUF_REG = 8, BUF_DEREG = 10, READ_BYTES = 12, WRITE_BYTES = 13,
       READ_LAT = 20, WRITE_LAT = 21, BATCH_SUBMIT = 22, BATCH_COMPLETE = 24, BATCH_SETUP = 26, BATCH_CANCEL = 28, BATCH_DESTROY = 30,
       BATCH_POSIX = 38, BATCH_TOTAL = 50, BATCH_READ_BYTES = 52, BATCH_WRITE_BYTES = 53, READV = 64, WRITEV = 66, READV_BYTES = 68,
       WRITEV_BYTES = 69 };

static CUfileError_t answer(int code)
{
    return (CUfileError_t){code, code == 5011 ? 2 : 0};
}

static int version(void)
{
    return (int)standin_number("STANDIN_CUFILE_VERSION", 1200);
}

static void count(int at, int failed)
{
    if (stats_on && stats_level > 0)
        l1[at + !!failed]++;
}

#define FAIL(name)                                                \
    do {                                                          \
        int told = standin_fail("STANDIN_CUFILE_FAIL", name);     \
        if (told)                                                 \
            return answer(told);                                  \
    } while (0)
#define OPEN_ONLY()            \
    do {                       \
        if (!opened)           \
            return answer(5001); \
    } while (0)
#define CLOSED_ONLY()          \
    do {                       \
        if (opened)            \
            return answer(5026); \
    } while (0)
#define LOCK() pthread_mutex_lock(&standin_lock)
#define UNLOCK() pthread_mutex_unlock(&standin_lock)

EXPORT CUfileError_t cuFileGetVersion(int *out)
{
    FAIL("cuFileGetVersion");
    if (!out)
        return answer(5022);
    *out = version();
    return answer(0);
}

EXPORT CUfileError_t cuFileDriverOpen(void)
{
    FAIL("cuFileDriverOpen");
    if (standin_number("STANDIN_CUFILE_RUDE", 0)) {
        printf("stand-in libcufile: words on standard output\n");
        close(0);
    }
    FILE *log = fopen(standin_text("CUFILE_LOGFILE_PATH", "cufile.log"), "a"); /* whatever LOG_DIR says, as the real one */
    if (log) {
        fprintf(log, "stand-in libcufile: no hardware, no measurement\n");
        fclose(log);
    }
    LOCK();
/* Values that were set before override cufile.json. */
    if (!direct_io_set)
        sizes[5] = (size_t)standin_number("STANDIN_CUFILE_DIRECT_IO", 16384);
    opened++;
    UNLOCK();
    return answer(0);
}

EXPORT CUfileError_t cuFileDriverClose_v2(void)
{
    FAIL("cuFileDriverClose_v2");
    LOCK();
    int left = 0;
    if (opened == 1) {
        for (int i = 0; i < LIMIT; i++)
            left += (handles[i] != NULL) + (buffers[i].base != NULL);
        if (left)
            fprintf(stderr, "stand-in libcufile: closed with %d registrations left\n", left);
    }
    int was = opened > 0;
    opened -= was;
    UNLOCK();
    return answer(was ? 0 : 5001);
}

EXPORT CUfileError_t cuFileDriverClose(void)
{
    return cuFileDriverClose_v2();
}

EXPORT long cuFileUseCount(void)
{
    return opened;
}

EXPORT CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t *out)
{
    FAIL("cuFileDriverGetProperties");
    if (!out)
        return answer(5022);
    memset(out, 0, sizeof *out);
    out->nvfs.poll_thresh_size = sizes[10];
    out->nvfs.max_direct_io_size = sizes[5];
    out->nvfs.dcontrolflags = (unsigned)(bools[0] | bools[1] << 1);
    out->fflags = 15;
    out->max_device_cache_size = (unsigned)sizes[6];
    out->per_buffer_cache_size = (unsigned)sizes[7];
    out->max_device_pinned_mem_size = (unsigned)sizes[8];
    out->max_batch_io_size = (unsigned)sizes[9];
    out->max_batch_io_timeout_msecs = (unsigned)sizes[11];
    return answer(0);
}

#define SETTER(name, index)                          \
    EXPORT CUfileError_t name(size_t value)          \
    {                                                \
        FAIL(#name);                                 \
        CLOSED_ONLY();                               \
        sizes[index] = value;                        \
        return answer(0);                            \
    }
/* Up to 1.15 the value is effective immediately. 1.18 and 1.20 return success while they are open, but change nothing. */
EXPORT CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t value)
{
    FAIL("cuFileDriverSetMaxDirectIOSize");
    if (value < 64 || value > 16384 || value % 64)
        return answer(5022);
    if (!opened || version() < 1160) {
        sizes[5] = value;
        direct_io_set = 1;
    }
    return answer(0);
}
SETTER(cuFileDriverSetMaxCacheSize, 6)
SETTER(cuFileDriverSetMaxPinnedMemSize, 8)

EXPORT CUfileError_t cuFileDriverSetPollMode(bool on, size_t threshold)
{
    FAIL("cuFileDriverSetPollMode");
    CLOSED_ONLY();
    bools[0] = on;
    sizes[10] = threshold;
    return answer(0);
}

EXPORT CUfileError_t cuFileHandleRegister(CUfileHandle_t *out, CUfileDescr_t *what)
{
    int code = standin_fail("STANDIN_CUFILE_FAIL", "cuFileHandleRegister");
    struct stat s;
    int flags = -1;
    if (!code && !opened && standin_number("STANDIN_CUFILE_IMPLICIT", 0))
        code = cuFileDriverOpen().err;
    if (!code && !opened)
        code = 5001;
    if (!code && (!out || !what || what->type != 1))
        code = 5022;
    if (!code && (fstat(what->handle.fd, &s) || (flags = fcntl(what->handle.fd, F_GETFL)) < 0))
        code = 5022;
    if (!code && !S_ISREG(s.st_mode) && !S_ISBLK(s.st_mode))
        code = 5018;
    if (!code && (flags & O_APPEND))
        code = 5019;
    if (!code) {
        LOCK();
        int room = -1;
        for (int i = 0; i < LIMIT; i++) {
            if (handles[i] && handles[i]->fd == what->handle.fd)
                code = 5028;
            if (!handles[i] && room < 0)
                room = i;
        }
        if (!code && room < 0)
            code = 5043;
        if (!code) {
/* A separate descriptor without O_DIRECT accepts any alignment, like the bounce buffers of the library. */
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", what->handle.fd);
            int own = open(link, (flags & O_ACCMODE) | O_CLOEXEC);
            struct handle *h = malloc(sizeof *h);
            *h = (struct handle){what->handle.fd, own >= 0 ? own : fcntl(what->handle.fd, F_DUPFD_CLOEXEC, 3)};
            handles[room] = h;
            *out = h;
        }
        UNLOCK();
    }
    count(HDL_REG, code);
    return answer(code);
}

static int known(CUfileHandle_t fh)
{
    int found = 0;
    LOCK();
    for (int i = 0; i < LIMIT && fh; i++)
        found |= handles[i] == fh;
    UNLOCK();
    return found;
}

EXPORT void cuFileHandleDeregister(CUfileHandle_t fh)
{
    standin_fail("STANDIN_CUFILE_FAIL", "cuFileHandleDeregister");
    int found = 0;
    LOCK();
    for (int i = 0; i < LIMIT && fh; i++) {
        if (handles[i] == fh) {
            if (fcntl(handles[i]->fd, F_GETFD) < 0)
                fprintf(stderr, "stand-in libcufile: descriptor %d was closed before its handle\n", handles[i]->fd);
            close(handles[i]->own);
            free(handles[i]);
            handles[i] = NULL;
            found = 1;
        }
    }
    UNLOCK();
    count(HDL_DEREG, !found);
}

EXPORT CUfileError_t cuFileBufRegister(const void *base, size_t len, int flags)
{
    (void)flags;
    int code = standin_fail("STANDIN_CUFILE_FAIL", "cuFileBufRegister");
    if (!code && !opened)
        code = 5001;
    if (!code && (!base || !len))
        code = 5022;
    if (!code) {
        LOCK();
        int room = -1;
        for (int i = 0; i < LIMIT; i++) {
            if (buffers[i].base == base)
                code = 5023;
            if (!buffers[i].base && room < 0)
                room = i;
        }
        if (!code && room < 0)
            code = 5016;
        if (!code) {
            buffers[room].base = base;
            buffers[room].len = len;
            if (stats_on && stats_level > 2)
                gpu[26]++, gpu[27]++, gpu[30] += len;
        }
        UNLOCK();
    }
    count(BUF_REG, code);
    return answer(code);
}

EXPORT CUfileError_t cuFileBufDeregister(const void *base)
{
    int code = standin_fail("STANDIN_CUFILE_FAIL", "cuFileBufDeregister");
    if (!code && !opened)
        code = 5006;
    if (!code) {
        code = 5024;
        LOCK();
        for (int i = 0; i < LIMIT && base; i++) {
            if (buffers[i].base == base) {
                if (stats_on && stats_level > 2)
                    gpu[29]++, gpu[30] -= buffers[i].len;
                buffers[i].base = NULL;
                code = 0;
                break;
            }
        }
        UNLOCK();
    }
    count(BUF_DEREG, code);
    return answer(code);
}

static void count_route(int direction, ssize_t bytes, uint64_t us)
{
    if (!stats_on)
        return;
    const char *route = standin_text("STANDIN_CUFILE_ROUTE", "posix");
    int by = !strcmp(route, "p2p") ? 0 : !strcmp(route, "nvfs") ? 1 : 2;
    uint64_t moved = bytes > 0 ? (uint64_t)bytes : 0;
    long long every = standin_number("STANDIN_CUFILE_POSIX_EVERY", 0);
    long long at_most = standin_number("STANDIN_CUFILE_COUNT_READS", 0), bytes_at_most = standin_number("STANDIN_CUFILE_COUNT_BYTES", 0);
    LOCK();
    static long long counted, level_3;
    if (bytes_at_most > 0 && moved > (uint64_t)bytes_at_most)
        moved = (uint64_t)bytes_at_most;
    if (every > 0 && ++counted % every == 0)
        by = 2;
    if (stats_level > 1) {
        int class = 0;
        for (uint64_t kb = moved >> 10; kb > 1 && class < 31; kb >>= 1)
            class++;
        histograms[direction * 32 + class]++;
    }
    if (stats_level > 2 && (at_most <= 0 || level_3++ < at_most)) {
        int at = direction == READ ? 2 : 15;
        long long times = standin_number("STANDIN_CUFILE_COUNT_TIMES", 1), bytes_times = standin_number("STANDIN_CUFILE_COUNT_BYTES_TIMES", times);
        long long gpus = standin_number("STANDIN_CUFILE_COUNT_GPUS", 1);
        static long long by_gpu;
        uint64_t *one = gpus > 1 && ++by_gpu % 2 == 0 ? other_gpu : gpu;
        one[at] += moved * bytes_times;
        one[at + 3] += us;
        one[at + 4] += times;
        one[at + 5 + by] += times;
    }
    UNLOCK();
}

static ssize_t move(int direction, CUfileHandle_t fh, char *memory, size_t size, off_t offset)
{
    struct handle *h = fh;
    struct timespec a, b;
    size_t done = 0;
    static long transfers;
    long number = __atomic_add_fetch(&transfers, 1, __ATOMIC_RELAXED);
    if (number == standin_number("STANDIN_CUFILE_LOSE", 0)) {
        count_route(direction, (ssize_t)size, 1);
        return (ssize_t)size;
    }
    if (size > 4096 && standin_number("STANDIN_CUFILE_SHORT", 0))
        size = (size / 2 + 4095) / 4096 * 4096;
    clock_gettime(CLOCK_MONOTONIC, &a);
    while (done < size) {
        ssize_t n = direction == READ ? pread(h->own, memory + done, size - done, offset + (off_t)done)
                                      : pwrite(h->own, memory + done, size - done, offset + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    if (done && direction == READ && number == standin_number("STANDIN_CUFILE_CORRUPT", 0))
        memory[done - 1] ^= 1;
    clock_gettime(CLOCK_MONOTONIC, &b);
    uint64_t us = (uint64_t)((b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000);
    if (stats_on && stats_level > 0)
        l1[direction == READ ? READ_LAT : WRITE_LAT] += us;
    count_route(direction, (ssize_t)done, us);
    return (ssize_t)done;
}

static ssize_t told_transfer(const char *call)
{
    int code = standin_fail("STANDIN_CUFILE_FAIL", call);
    if (code >= 5000 && !standin_number("STANDIN_CUFILE_ERRNO", 0))
        return -code;
    if (code > 0) {
        errno = code;
        return -1;
    }
    return 0;
}

static ssize_t transfer(const char *call, int direction, CUfileHandle_t fh, void *base, size_t size, off_t file_offset, off_t base_offset)
{
    ssize_t n = told_transfer(call);
    if (!n && !opened)
        n = -5001;
    if (!n && !known(fh))
        n = -5027;
    if (!n && !bools[1] && !strcmp(standin_text("STANDIN_CUFILE_ROUTE", "posix"), "posix"))
        n = -5008; /* compat mode is forbidden and there is nothing else */
    if (!n && (file_offset < 0 || base_offset < 0 || !base))
        n = -5022;
    if (!n)
        n = move(direction, fh, (char *)base + base_offset, size, file_offset);
    int kept = errno;
    count(direction == READ ? READ_OPS : WRITE_OPS, n < 0);
    if (n > 0 && stats_on && stats_level > 0)
        l1[direction == READ ? READ_BYTES : WRITE_BYTES] += (uint64_t)n;
    errno = kept;
    return n;
}

EXPORT ssize_t cuFileRead(CUfileHandle_t fh, void *base, size_t size, off_t file_offset, off_t base_offset)
{
    return transfer("cuFileRead", READ, fh, base, size, file_offset, base_offset);
}

EXPORT ssize_t cuFileWrite(CUfileHandle_t fh, const void *base, size_t size, off_t file_offset, off_t base_offset)
{
    return transfer("cuFileWrite", WRITE, fh, (void *)base, size, file_offset, base_offset);
}

static ssize_t vectored(const char *call, int direction, CUfileHandle_t fh, const CUfileIOVec_t *vec, size_t n, off_t offset)
{
    ssize_t total = told_transfer(call);
    if (!total && !known(fh))
        total = -5027;
    for (size_t i = 0; i < n && total >= 0; i++) {
        ssize_t got = move(direction, fh, vec[i].base, vec[i].len, offset + total);
        total = got < 0 ? got : total + got;
        if (got >= 0 && (size_t)got < vec[i].len)
            break;
    }
    count(direction == READ ? READV : WRITEV, total < 0);
    if (total > 0 && stats_on && stats_level > 0)
        l1[direction == READ ? READV_BYTES : WRITEV_BYTES] += (uint64_t)total;
    return total;
}

EXPORT ssize_t cuFileReadv(CUfileHandle_t fh, const CUfileIOVec_t *vec, size_t n, off_t offset, unsigned flags)
{
    (void)flags;
    return vectored("cuFileReadv", READ, fh, vec, n, offset);
}

EXPORT ssize_t cuFileWritev(CUfileHandle_t fh, const CUfileIOVec_t *vec, size_t n, off_t offset, unsigned flags)
{
    (void)flags;
    return vectored("cuFileWritev", WRITE, fh, vec, n, offset);
}

EXPORT CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t *out, unsigned nr)
{
    FAIL("cuFileBatchIOSetUp");
    OPEN_ONLY();
    if (!out || nr == 0 || nr > 256)
        return answer(5022);
    struct batch *b = calloc(1, sizeof *b);
    b->capacity = nr;
    *out = b;
    count(BATCH_SETUP, 0);
    return answer(0);
}

EXPORT CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t id, unsigned nr, CUfileIOParams_t *p, unsigned flags)
{
    (void)flags;
    FAIL("cuFileBatchIOSubmit");
    struct batch *b = id;
    if (!b || nr > b->capacity)
        return answer(5022);
    if (b->done != b->taken)
        return answer(5037);
/* As in the real library in compat mode, every entry needs a buffer of the pool, and a batch without a free buffer waits forever. */
    if (nr > pool_counts[1])
        for (;;)
            pause();
    b->done = b->taken = 0;
/* A registration with the same base limits the entry, as in the real library. */
    for (unsigned i = 0; i < nr; i++)
        for (int r = 0; r < LIMIT; r++)
            if (buffers[r].base && buffers[r].base == p[i].base && (size_t)p[i].base_offset + p[i].size > buffers[r].len)
                return answer(5017);
    for (unsigned i = 0; i < nr; i++) {
        ssize_t n = told_transfer("cuFileBatchIO.entry");
        if (!n && !known(p[i].fh))
            n = -5027;
        if (!n)
            n = move(p[i].opcode == WRITE ? WRITE : READ, p[i].fh, (char *)p[i].base + p[i].base_offset, p[i].size, p[i].file_offset);
        if (n == -1)
            n = -errno;
        b->events[i] = (CUfileIOEvents_t){p[i].cookie, n < 0 ? 0x40 : 0x10, (size_t)n};
        count(BATCH_POSIX, n < 0);
        if (n > 0 && stats_on && stats_level > 0)
            l1[p[i].opcode == WRITE ? BATCH_WRITE_BYTES : BATCH_READ_BYTES] += (uint64_t)n;
    }
    b->done = nr;
    count(BATCH_SUBMIT, 0);
    count(BATCH_TOTAL, 0);
    return answer(0);
}

EXPORT CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t id, unsigned min_nr, unsigned *nr, CUfileIOEvents_t *out, struct timespec *limit)
{
    (void)limit;
    FAIL("cuFileBatchIOGetStatus");
    struct batch *b = id;
    if (!b || !nr || !out || min_nr > *nr)
        return answer(5022);
    unsigned n = 0;
    while (n < *nr && b->taken < b->done)
        out[n++] = b->events[b->taken++];
    *nr = n;
    count(BATCH_COMPLETE, 0);
    return answer(0);
}

EXPORT CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t id)
{
    FAIL("cuFileBatchIOCancel");
    count(BATCH_CANCEL, 0);
    return answer(id ? 0 : 5022);
}

EXPORT void cuFileBatchIODestroy(CUfileBatchHandle_t id)
{
    standin_fail("STANDIN_CUFILE_FAIL", "cuFileBatchIODestroy");
    count(BATCH_DESTROY, 0);
    free(id);
}

#ifndef STANDIN_OLD /* a library older than GDS 1.7 */
/* Registered streams. As the real one (1.15 to 1.20 in compat mode, on an H200): once one is deregistered, transfers on those that were registered before
 * and not used yet are told as made and move nothing. */
static struct { CUstream stream; int there, used, lost; } streams[LIMIT];

EXPORT CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags)
{
    FAIL("cuFileStreamRegister");
    OPEN_ONLY();
    if (flags > 15)
        return answer(5022);
    LOCK();
    for (int i = 0; i < LIMIT; i++)
        if (!streams[i].there) {
            streams[i].stream = stream;
            streams[i].there = 1;
            streams[i].used = streams[i].lost = 0;
            break;
        }
    UNLOCK();
    return answer(0);
}

EXPORT CUfileError_t cuFileStreamDeregister(CUstream stream)
{
    FAIL("cuFileStreamDeregister");
    LOCK();
    int gone = 0;
    for (int i = 0; i < LIMIT; i++)
        if (!gone && streams[i].there && streams[i].stream == stream)
            gone = 1, streams[i].there = 0;
        else
            streams[i].lost |= streams[i].there && !streams[i].used;
    UNLOCK();
    return answer(gone ? 0 : 5022);
}

/* Whether a transfer on this stream is lost; it is used from now on. */
static int lost_on(CUstream stream)
{
    int lost = 0;
    LOCK();
    for (int i = 0; i < LIMIT; i++)
        if (streams[i].there && streams[i].stream == stream) {
            streams[i].used = 1;
            lost |= streams[i].lost;
        }
    UNLOCK();
    return lost;
}

/* A transfer on a stream: the addresses of its parameters, and their values when it was submitted. */
struct late {
    const char *after;
    int direction, is_compat;
    CUfileHandle_t fh;
    void *base;
    size_t *size, size_then;
    off_t *file_offset, file_offset_then, *base_offset, base_offset_then;
    ssize_t *bytes;
};

/* Whether a buffer is registered with this base and size. */
static int within_registration(const void *base, size_t bytes)
{
    for (int r = 0; r < LIMIT; r++)
        if (buffers[r].base && buffers[r].base == base && bytes <= buffers[r].len)
            return 1;
    return 0;
}

static void move_late(void *of)
{
    struct late *l = of;
    if (*l->size != l->size_then || *l->file_offset != l->file_offset_then || *l->base_offset != l->base_offset_then) {
        fprintf(stderr, "stand-in libcufile: the parameters of a transfer changed, or were freed, before the stream was past it\n");
        abort();
    }
    ssize_t n = told_transfer(l->after);
    if (!n && l->is_compat && *l->base_offset && !within_registration(l->base, (size_t)*l->base_offset + *l->size))
        n = -EIO;
    if (!n)
        n = transfer("", l->direction, l->fh, l->base, *l->size, *l->file_offset, *l->base_offset);
    *l->bytes = n == -1 ? -errno : n; /* errno of another thread could not be read */
    free(l);
}

/* cuLaunchHostFunc of the process's libcuda. It is not used for the default stream, because work there is done in the call. */
static int (*launcher(CUstream stream))(CUstream, void (*)(void *), void *)
{
    void *cuda = stream ? dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
    return cuda ? (int (*)(CUstream, void (*)(void *), void *))dlsym(cuda, "cuLaunchHostFunc") : NULL;
}

static CUfileError_t later(const char *call, const char *after, int direction, CUfileHandle_t fh, void *base, size_t *size,
                           off_t *file_offset, off_t *base_offset, ssize_t *bytes, CUstream stream)
{
    FAIL(call);
    OPEN_ONLY();
    if (!size || !file_offset || !base_offset || !bytes)
        return answer(5022);
    if (lost_on(stream)) {
        *bytes = (ssize_t)*size;
        return answer(0);
    }
    int is_compat = !strcmp(standin_text("STANDIN_CUFILE_ROUTE", "posix"), "posix");
    int (*launch)(CUstream, void (*)(void *), void *) = is_compat ? NULL : launcher(stream);
    struct late *l = malloc(sizeof *l);
    *l = (struct late){after, direction, is_compat, fh, base, size, *size, file_offset, *file_offset, base_offset, *base_offset, bytes};
    if (!launch)
        move_late(l);
    else if (launch(stream, move_late, l)) {
        free(l);
        return answer(5011);
    }
    return answer(0);
}

EXPORT CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void *base, size_t *size, off_t *file_offset, off_t *base_offset, ssize_t *bytes, CUstream stream)
{
    return later("cuFileReadAsync", "cuFileReadAsync.later", READ, fh, base, size, file_offset, base_offset, bytes, stream);
}

EXPORT CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void *base, size_t *size, off_t *file_offset, off_t *base_offset, ssize_t *bytes, CUstream stream)
{
    return later("cuFileWriteAsync", "cuFileWriteAsync.later", WRITE, fh, base, size, file_offset, base_offset, bytes, stream);
}
#endif

#define PARAMETER(suffix, type, list, length)                                        \
    EXPORT CUfileError_t cuFileGetParameter##suffix(unsigned p, type *out)           \
    {                                                                                \
        FAIL("cuFileGetParameter" #suffix);                                          \
        if (p >= length || !out)                                                     \
            return answer(5022);                                                     \
        *out = list[p];                                                              \
        return answer(0);                                                            \
    }                                                                                \
    EXPORT CUfileError_t cuFileSetParameter##suffix(unsigned p, type value)          \
    {                                                                                \
        FAIL("cuFileSetParameter" #suffix);                                          \
        CLOSED_ONLY();                                                               \
        if (p >= length)                                                             \
            return answer(5022);                                                     \
        list[p] = value;                                                             \
        return answer(0);                                                            \
    }
PARAMETER(SizeT, size_t, sizes, 12)
PARAMETER(Bool, bool, bools, 14)

EXPORT CUfileError_t cuFileGetParameterString(unsigned p, char *out, int len)
{
    FAIL("cuFileGetParameterString");
    if (p >= 4 || !out || len <= (int)strlen(strings[p]))
        return answer(5022);
    strcpy(out, strings[p]);
    return answer(0);
}

EXPORT CUfileError_t cuFileSetParameterString(unsigned p, const char *value)
{
    FAIL("cuFileSetParameterString");
    CLOSED_ONLY();
    if (p >= 4 || !value || strlen(value) >= sizeof strings[p])
        return answer(5022);
    strcpy(strings[p], value);
    return answer(0);
}

EXPORT CUfileError_t cuFileGetParameterMinMaxValue(unsigned p, size_t *min, size_t *max)
{
    static const size_t ranges[12][2] = {{0, 3}, {1, 256}, {0, 128}, {4, 1 << 20}, {0, 8}, {64, 16384}, {1024, 1 << 20}, {64, 16384},
                                         {1024, 1 << 30}, {1, 256}, {4, 1 << 20}, {1, 1000}};
    FAIL("cuFileGetParameterMinMaxValue");
    if (p == 0 || p >= 12 || !min || !max)
        return answer(5022);
    *min = ranges[p][0];
    *max = ranges[p][1];
    return answer(0);
}

#define SLABS(suffix, s, c)                                                                              \
    EXPORT CUfileError_t cuFileGetParameter##suffix(size_t *out_sizes, size_t *out_counts, int len)      \
    {                                                                                                    \
        FAIL("cuFileGetParameter" #suffix);                                                              \
        if (len != 3 || !out_sizes || !out_counts)                                                       \
            return answer(5022);                                                                         \
        memcpy(out_sizes, s, sizeof s);                                                                  \
        memcpy(out_counts, c, sizeof c);                                                                 \
        return answer(0);                                                                                \
    }                                                                                                    \
    EXPORT CUfileError_t cuFileSetParameter##suffix(const size_t *in_sizes, const size_t *in_counts, int len) \
    {                                                                                                    \
        FAIL("cuFileSetParameter" #suffix);                                                              \
        CLOSED_ONLY();                                                                                   \
        if (len != 3 || !in_sizes || !in_counts)                                                         \
            return answer(5022);                                                                         \
        memcpy(s, in_sizes, sizeof s);                                                                   \
        memcpy(c, in_counts, sizeof c);                                                                  \
        return answer(0);                                                                                \
    }
SLABS(PosixPoolSlabArray, pool_sizes, pool_counts)
SLABS(GpuBounceBufferSlabArray, bounce_sizes, bounce_counts)

EXPORT CUfileError_t cuFileSetStatsLevel(int level)
{
    FAIL("cuFileSetStatsLevel");
    if (level < 0 || level > 3)
        return answer(5022);
    stats_level = level;
    return answer(0);
}

EXPORT CUfileError_t cuFileGetStatsLevel(int *out)
{
    FAIL("cuFileGetStatsLevel");
    *out = stats_level;
    return answer(0);
}

EXPORT CUfileError_t cuFileStatsStart(void)
{
    FAIL("cuFileStatsStart");
    OPEN_ONLY();
    stats_on = 1;
    return answer(0);
}

EXPORT CUfileError_t cuFileStatsStop(void)
{
    FAIL("cuFileStatsStop");
    OPEN_ONLY();
    stats_on = 0;
    return answer(0);
}

EXPORT CUfileError_t cuFileStatsReset(void)
{
    FAIL("cuFileStatsReset");
    OPEN_ONLY();
    memset(l1, 0, sizeof l1);
    memset(histograms, 0, sizeof histograms);
    memset(gpu, 0, sizeof gpu);
    memset(other_gpu, 0, sizeof other_gpu);
    return answer(0);
}

static size_t fill(char *out, int level)
{
    size_t at = version() >= 1190 ? 624 : 512;
    memcpy(out, l1, at);
    if (standin_number("STANDIN_CUFILE_COUNT_NO_MORE", 0)) {
        uint64_t *words = (uint64_t *)out, all = gpu[7] + gpu[8] + gpu[9];
        memset(words + BATCH_SUBMIT, 0, (BATCH_WRITE_BYTES + 1 - BATCH_SUBMIT) * 8);
        words[READ_OPS] = all;
        words[READ_BYTES] = gpu[2];
    }
    uint64_t all_times = (uint64_t)standin_number("STANDIN_CUFILE_COUNT_ALL_TIMES", 1);
    for (size_t word = 0; word < at / 8; word++)
        ((uint64_t *)out)[word] *= all_times;
    if (level > 1) {
        memcpy(out + at, histograms, sizeof histograms);
        at += sizeof histograms;
    }
    if (level > 2) {
        memset(out + at, 0, 8);
        *(uint32_t *)(out + at) = (uint32_t)standin_number("STANDIN_CUFILE_COUNT_GPUS", 1);
        memcpy(gpu, "stand-in GPU    ", 16);
        memcpy(other_gpu, "another GPU     ", 16);
        memcpy(out + at + 8, gpu, sizeof gpu);
        memcpy(out + at + 8 + sizeof gpu, other_gpu, sizeof gpu);
        memset(out + at + 8 + 2 * sizeof gpu, 0, 14 * sizeof gpu);
        uint64_t from = (uint64_t)standin_number("STANDIN_CUFILE_COUNT_FROM", 0);
        for (int word = 2; word < 12; word++)
            ((uint64_t *)(out + at + 8))[word] += from;
        at += 8 + 16 * sizeof gpu;
    }
    return at;
}

#define GET_STATS(n)                                    \
    EXPORT CUfileError_t cuFileGetStatsL##n(void *out)  \
    {                                                   \
        FAIL("cuFileGetStatsL" #n);                     \
        OPEN_ONLY();                                    \
        if (!out || stats_level < n)                    \
            return answer(5022);                        \
        LOCK();                                         \
        fill(out, n);                                   \
        UNLOCK();                                       \
        return answer(0);                               \
    }
GET_STATS(1)
GET_STATS(2)
GET_STATS(3)

EXPORT CUfileError_t cuFileDriverGetP2PFlags(unsigned transport, unsigned *out)
{
    FAIL("cuFileDriverGetP2PFlags");
    if (transport > 14 || !out)
        return answer(5022);
/* 1.18 reads cufile.json again here and loses the values that were set before the open. */
    if (version() / 10 == 118)
        sizes[5] = (size_t)standin_number("STANDIN_CUFILE_DIRECT_IO", 16384);
    *out = 0;
    return answer(0);
}

EXPORT CUfileError_t cuFileDriverSetP2PFlags(unsigned transport, unsigned flags)
{
    FAIL("cuFileDriverSetP2PFlags");
    return answer(transport > 14 || flags != 1 ? 5022 : 0);
}

EXPORT CUfileError_t cuFileGetBARSizeInKB(int index, size_t *out)
{
    FAIL("cuFileGetBARSizeInKB");
    OPEN_ONLY();
    if (index != 0 || !out)
        return answer(5029);
    *out = 262144;
    return answer(0);
}

EXPORT CUfileError_t cuFileExportPCIeTopology(const char *path)
{
    FAIL("cuFileExportPCIeTopology");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f)
        return answer(5022);
    fprintf(f, "{\"stand-in\": true}\n");
    fclose(f);
    return answer(0);
}
