/* A program that uses cuFile, for the tests of 'gds-top watch'. Linked against libcufile with -DLINKED, else it loads $LIBRARY.
 *
 * program FILE ACTION [NUMBER]…; several actions run one after another. Each opens what it needs and closes it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct { int err, cu_err; } CUfileError_t;
typedef struct { unsigned type; union { int fd; void *handle; } handle; const void *fs_ops; } CUfileDescr_t;
typedef struct { unsigned mode; void *base; off_t file_offset, base_offset; size_t size; void *fh; unsigned opcode; void *cookie; } CUfileIOParams_t;
typedef struct { void *cookie; unsigned status; size_t ret; } CUfileIOEvents_t;

#define FUNCTIONS(F)                                                                                                 \
    F(CUfileError_t, cuFileDriverOpen, (void))                                                                       \
    F(CUfileError_t, cuFileDriverClose_v2, (void))                                                                   \
    F(CUfileError_t, cuFileHandleRegister, (void **, CUfileDescr_t *))                                               \
    F(void, cuFileHandleDeregister, (void *))                                                                        \
    F(CUfileError_t, cuFileBufRegister, (const void *, size_t, int))                                                 \
    F(CUfileError_t, cuFileBufDeregister, (const void *))                                                            \
    F(ssize_t, cuFileRead, (void *, void *, size_t, off_t, off_t))                                                   \
    F(ssize_t, cuFileWrite, (void *, const void *, size_t, off_t, off_t))                                            \
    F(CUfileError_t, cuFileReadAsync, (void *, void *, size_t *, off_t *, off_t *, ssize_t *, void *))               \
    F(CUfileError_t, cuFileBatchIOSetUp, (void **, unsigned))                                                        \
    F(CUfileError_t, cuFileBatchIOSubmit, (void *, unsigned, CUfileIOParams_t *, unsigned))                          \
    F(CUfileError_t, cuFileBatchIOGetStatus, (void *, unsigned, unsigned *, CUfileIOEvents_t *, struct timespec *))  \
    F(void, cuFileBatchIODestroy, (void *))                                                                          \
    F(CUfileError_t, cuFileGetVersion, (int *))

#ifdef LINKED
#ifdef TABLE
/* The linker stores the addresses in the data of the program. TABLE is empty or a section. */
#define DECLARE(type, name, arguments)                                                                               \
    extern type linked_##name arguments __asm__(#name);                                                              \
    static TABLE type (*volatile name) arguments __asm__("table_" #name) = linked_##name;
#else
#define DECLARE(type, name, arguments) extern type name arguments;
#endif
FUNCTIONS(DECLARE)
static void *load(void)
{
    return NULL;
}
#else
#define DECLARE(type, name, arguments) static type (*name) arguments;
FUNCTIONS(DECLARE)
static void *load(void)
{
    void *library = dlopen(getenv("LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(90);
    }
#define LOOK_UP(type, name, arguments) name = (type (*) arguments)dlsym(library, #name);
    FUNCTIONS(LOOK_UP)
    return library;
}
#endif

/* Pauses or continues the recording (cufile-audit/src/layout.rs). */
static void pause_recording(long is_paused)
{
    enum { OPTIONS = 5, PAUSED = 2 };
    const char *name = getenv("GDS_TOP_WATCH_FILE");
    int fd = name ? open(name, O_RDWR) : -1;
    if (fd < 0)
        exit(53);
    volatile unsigned long *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (words == MAP_FAILED)
        exit(54);
    words[OPTIONS] = (words[OPTIONS] & ~(unsigned long)PAUSED) | (is_paused ? PAUSED : 0);
    munmap((void *)words, 4096);
    close(fd);
}

enum { BLOCK = 4096 };
static const char *path;
static char *memory;
/* Microseconds for which files stay open after their transfers. */
static int linger;

static void *open_file(int *fd)
{
    void *handle = NULL;
    *fd = open(path, O_RDWR);
    CUfileDescr_t descr = {.type = 1, .handle.fd = *fd};
    if (cuFileHandleRegister(&handle, &descr).err)
        exit(91);
    return handle;
}

static void reads(long count)
{
    int fd;
    void *handle = open_file(&fd);
    for (long i = 0; i < count; i++)
        if (cuFileRead(handle, memory, BLOCK, i % 16 * BLOCK, 0) != BLOCK)
            exit(92);
    cuFileHandleDeregister(handle);
    usleep(linger);
    close(fd);
}

static void writes(long count)
{
    int fd;
    void *handle = open_file(&fd);
    for (long i = 0; i < count; i++)
        if (cuFileWrite(handle, memory, BLOCK, i % 16 * BLOCK, 0) != BLOCK)
            exit(63);
    cuFileHandleDeregister(handle);
    close(fd);
}

/* A child that makes no call starts the reader, which reads with the handle of this process after the child has ended. */
static void descend(long count)
{
    int fd, ends[2];
    char byte;
    void *handle = open_file(&fd);
    if (pipe(ends))
        exit(48);
    pid_t child = fork();
    if (!child) {
        pid_t parent = getpid();
        if (!fork()) {
            while (getppid() == parent)
                usleep(1000);
            for (long i = 0; i < count; i++)
                cuFileRead(handle, memory, BLOCK, 0, 0);
        }
        _exit(0);
    }
    waitpid(child, NULL, 0);
    /* The end of the pipe closes when the reader ends. */
    close(ends[1]);
    if (read(ends[0], &byte, 1))
        exit(47);
    close(ends[0]);
    cuFileHandleDeregister(handle);
    close(fd);
}

/* A child that reads after this process has released the memory of the reads, or has registered it. */
static void around(int release, long count)
{
    int fd, ends[2];
    char byte;
    void *handle = open_file(&fd);
    if (release)
        cuFileBufRegister(memory, 32 * BLOCK, 0);
    if (pipe(ends))
        exit(48);
    pid_t child = fork();
    if (!child) {
        close(ends[1]);
        /* The pipe closes when the memory is released or registered. */
        if (read(ends[0], &byte, 1))
            _exit(47);
        for (long i = 0; i < count; i++)
            cuFileRead(handle, memory, BLOCK, 0, 0);
        _exit(0);
    }
    if (release)
        cuFileBufDeregister(memory);
    else
        cuFileBufRegister(memory, 32 * BLOCK, 0);
    close(ends[1]);
    waitpid(child, NULL, 0);
    close(ends[0]);
    if (!release)
        cuFileBufDeregister(memory);
    cuFileHandleDeregister(handle);
    close(fd);
}

static void *reader(void *count)
{
    reads((long)count);
    return NULL;
}

static void threads(long count, long each)
{
    pthread_t all[64];
    for (long i = 0; i < count; i++)
        pthread_create(&all[i], NULL, reader, (void *)each);
    for (long i = 0; i < count; i++)
        pthread_join(all[i], NULL);
}

/* Threads that all exist at the same time, with small stacks. Each reads after all have started, and ends after all have read. */
static pthread_barrier_t all;
static void *late_reader(void *count)
{
    pthread_barrier_wait(&all);
    reader(count);
    pthread_barrier_wait(&all);
    return NULL;
}

static void storm(long count, long each)
{
    pthread_t *threads = calloc(count, sizeof *threads);
    pthread_attr_t small;
    /* Each thread has an open file. */
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_barrier_init(&all, NULL, count);
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], &small, late_reader, (void *)each))
            exit(60);
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

/* Threads that live only for a read, one after another. */
static void brief(long count)
{
    pthread_t thread;
    for (long i = 0; i < count; i++)
        if (pthread_create(&thread, NULL, reader, (void *)1) || pthread_join(thread, NULL))
            exit(61);
}

/* A program that is started with other variables, by each function for that. */
static void start(const char *how, char *program, char *file, char *count)
{
    static char folder[4096];
    char *arguments[] = {program, file, "read", count, NULL};
    snprintf(folder, sizeof folder, "LD_LIBRARY_PATH=%s", getenv("LD_LIBRARY_PATH"));
    char *few[] = {folder, "LD_AUDIT=", NULL};
    pid_t child = -1;
    int status = 0;
    if (!strcmp(how, "posix_spawn") || !strcmp(how, "posix_spawnp")) {
        int failed = !strcmp(how, "posix_spawn") ? posix_spawn(&child, program, NULL, NULL, arguments, few)
                                                 : posix_spawnp(&child, program, NULL, NULL, arguments, few);
        if (failed)
            exit(62);
    } else if (!strcmp(how, "vfork")) {
        child = vfork();
        if (!child) {
            execve(program, arguments, few);
            _exit(63);
        }
    } else {
        child = fork();
        if (!child) {
            if (!strcmp(how, "execvpe"))
                execvpe(program, arguments, few);
            else if (!strcmp(how, "fexecve"))
                fexecve(open(program, O_RDONLY | O_CLOEXEC), arguments, few);
            /* Some of these arguments are on the stack. */
            else if (!strcmp(how, "execle"))
                execle(program, program, file, "read", count, "read", "0", "sleep", "0", NULL, few);
            clearenv();
            putenv(folder);
            if (!strcmp(how, "execl"))
                execl(program, program, file, "read", count, "read", "0", "sleep", "0", NULL);
            else if (!strcmp(how, "execlp"))
                execlp(program, program, file, "read", count, "read", "0", "sleep", "0", NULL);
            if (!strcmp(how, "execv"))
                execv(program, arguments);
            else if (!strcmp(how, "execvp"))
                execvp(program, arguments);
            _exit(64);
        }
    }
    if (waitpid(child, &status, 0) != child || status)
        exit(65);
}

/* The second file of a batch over two files. */
static const char *other;

/* A batch. Without waiting, the program never looks at the end of its entries. */
static void batch(unsigned count, int waits)
{
    int fd;
    void *handle = open_file(&fd), *second = handle, *id = NULL;
    CUfileIOParams_t params[32] = {0};
    CUfileIOEvents_t events[32];
    int second_fd = -1;
    if (other) {
        const char *first = path;
        path = other;
        second = open_file(&second_fd);
        path = first;
    }
    if (cuFileBatchIOSetUp(&id, 32).err)
        exit(93);
    /* All have the same cookie, as in programs that do not use it. */
    for (unsigned i = 0; i < count; i++)
        params[i] = (CUfileIOParams_t){1, memory, i * BLOCK, i * BLOCK, BLOCK, i % 2 ? second : handle, 0, NULL};
    if (cuFileBatchIOSubmit(id, count, params, 0).err)
        exit(94);
    for (unsigned done = 0; waits && done < count;) {
        unsigned nr = 32;
        struct timespec limit = {5, 0};
        if (cuFileBatchIOGetStatus(id, 1, &nr, events, &limit).err)
            exit(95);
        done += nr;
    }
    cuFileBatchIODestroy(id);
    if (other) {
        cuFileHandleDeregister(second);
        close(second_fd);
    }
    cuFileHandleDeregister(handle);
    usleep(linger);
    close(fd);
}

/* A read on the default stream, at an offset of the memory. Nobody looks at the result. */
static void stream(off_t base_offset)
{
    static ssize_t result;
    int fd;
    void *handle = open_file(&fd);
    size_t size = BLOCK;
    off_t offset = 0;
    if (cuFileReadAsync(handle, memory, &size, &offset, &base_offset, &result, NULL).err)
        exit(96);
    cuFileHandleDeregister(handle);
    usleep(linger);
    close(fd);
}

/* Reads by libc, and a mapping of which the first half is touched while gds-top looks. */
enum { LARGE = 1 << 17 };
static void plain(long count)
{
    char *large = malloc(2 * LARGE);
    int fd = open(path, O_RDONLY);
    for (long i = 0; i < count; i++)
        if (pread(fd, large, LARGE, i % 4 * LARGE) != LARGE)
            exit(80);
    if (read(fd, large, LARGE) != LARGE || read(fd, large, BLOCK) != BLOCK)
        exit(81);
    struct iovec pieces[2] = {{large, LARGE}, {large + LARGE, LARGE}};
    if (preadv(fd, pieces, 2, 0) != 2 * LARGE)
        exit(82);
    close(fd);
    free(large);
}

static void map(long size)
{
    int fd = open(path, O_RDONLY);
    const volatile char *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    long sum = 0;
    for (long at = 0; at < size / 2; at += BLOCK)
        sum += bytes[at];
    close(fd);
    usleep(600000);
    if (sum < 0)
        exit(83);
}

/* Touches the first half of a mapping and unmaps it, or leaves it to the end of the process. */
static void glance(long size, int unmap)
{
    int fd = open(path, O_RDONLY);
    char *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    for (long at = 0; at < size / 2; at += BLOCK)
        (void)((volatile char *)bytes)[at];
    if (unmap)
        munmap(bytes, size);
}

static void *blocked(void *pipe)
{
    static char room[LARGE];
    return (void *)(long)read(*(int *)pipe, room, LARGE);
}

/* A thread that is cancelled inside a read that is recorded. */
static void cancel(void)
{
    int ends[2];
    pthread_t thread;
    void *result;
    if (pipe(ends) || pthread_create(&thread, NULL, blocked, ends))
        exit(84);
    usleep(20000);
    pthread_cancel(thread);
    if (pthread_join(thread, &result) || result != PTHREAD_CANCELED)
        exit(85);
}

/* Copies by a libcuda, found by dlsym and by cuGetProcAddress as libcudart does it. */
static void copies(long count)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int (*get)(const char *, void **, int, unsigned long, void *) =
        (int (*)(const char *, void **, int, unsigned long, void *))dlsym(library, "cuGetProcAddress_v2");
    int (*first)(unsigned long, const void *, size_t) = (int (*)(unsigned long, const void *, size_t))dlsym(library, "cuMemcpyHtoD_v2");
    int (*second)(unsigned long, const void *, size_t, void *) = NULL;
    int (*batch)(void *, void *, size_t *, size_t, void *, void *, size_t, size_t *, void *) = NULL;
    int (*flat)(size_t *) = (int (*)(size_t *))dlsym(library, "cuMemcpy2D_v2");
    int (*deep)(size_t *, void *) = (int (*)(size_t *, void *))dlsym(library, "cuMemcpy3DAsync_v2");
    int (*batch_3d)(size_t, size_t *, void *, unsigned long, void *) =
        (int (*)(size_t, size_t *, void *, unsigned long, void *))dlsym(library, "cuMemcpy3DBatchAsync_v2_ptsz");
    int (*to_array)(void *, size_t, const void *, size_t) = (int (*)(void *, size_t, const void *, size_t))dlsym(library, "cuMemcpyHtoA_v2_ptds");
    int (*prefetch)(unsigned long, size_t, int, void *) = (int (*)(unsigned long, size_t, int, void *))dlsym(library, "cuMemPrefetchAsync");
    size_t operations[2][14] = {{[10] = 7, [11] = 2, [12] = 1}, {[10] = 100, [11] = 1, [12] = 3}};
    size_t sizes[3] = {LARGE, LARGE, 5}, failed = 7, description[25] = {[14] = 1000, [15] = 100, [22] = 10, [23] = 20, [24] = 30};
    if (get("cuMemcpyHtoDAsync", (void **)&second, 12000, 0, NULL) || get("cuMemcpyBatchAsync", (void **)&batch, 12080, 0, NULL))
        exit(86);
    if (count && (batch(NULL, NULL, sizes, 3, NULL, NULL, 0, &failed, &sizes) || failed != 3 || flat(description) || deep(description, NULL)))
        exit(89);
    if (count && (batch_3d(2, operations[0], NULL, 0, NULL) || to_array(NULL, 1, memory, 77) || prefetch(0, LARGE, 0, NULL)))
        exit(52);
    for (long i = 0; i < count; i++)
        if (first(0, memory, BLOCK) || second(0, memory, LARGE, NULL))
            exit(87);
}

/* Large aligned reads of a file that has the size, with a registered buffer. */
enum { HUGE_BLOCK = 4 << 20 };
static int huge_flags;
static void *huge_reads(void *count)
{
    void *handle = NULL;
    char *large;
    int fd = open(path, O_RDWR | huge_flags);
    CUfileDescr_t descr = {.type = 1, .handle.fd = fd};
    if (fd < 0 || cuFileHandleRegister(&handle, &descr).err || posix_memalign((void **)&large, BLOCK, HUGE_BLOCK))
        exit(70);
    cuFileBufRegister(large, HUGE_BLOCK, 0);
    for (long i = 0; i < (long)count; i++)
        if (cuFileRead(handle, large, HUGE_BLOCK, 0, 0) != HUGE_BLOCK)
            exit(71);
    cuFileBufDeregister(large);
    cuFileHandleDeregister(handle);
    close(fd);
    return NULL;
}

static void huge(int threads, long each)
{
    pthread_t all[8];
    if (truncate(path, HUGE_BLOCK))
        exit(72);
    for (int i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, huge_reads, (void *)each);
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
}

/* As NIXL registers a buffer for each read; offsets that are not aligned. */
static void each(long count, off_t offset)
{
    int fd;
    void *handle = open_file(&fd);
    for (long i = 0; i < count; i++) {
        cuFileBufRegister(memory, 32 * BLOCK, 0);
        cuFileRead(handle, memory, BLOCK, offset, 0);
        cuFileBufDeregister(memory);
    }
    cuFileHandleDeregister(handle);
    close(fd);
}

#ifndef LINKED
/* A second copy of the library in another namespace. Both copies know only their own handles. */
static void copies_of_library(long count)
{
    int fd, other_fd = open(path, O_RDWR);
    void *handle = open_file(&fd), *other_handle = NULL, *other = dlmopen(LM_ID_NEWLM, getenv("LIBRARY"), RTLD_NOW);
    if (!other) {
        fprintf(stderr, "%s\n", dlerror());
        exit(66);
    }
    typeof(cuFileDriverOpen) open_other = (typeof(cuFileDriverOpen))dlsym(other, "cuFileDriverOpen");
    typeof(cuFileHandleRegister) register_other = (typeof(cuFileHandleRegister))dlsym(other, "cuFileHandleRegister");
    typeof(cuFileRead) read_other = (typeof(cuFileRead))dlsym(other, "cuFileRead");
    CUfileDescr_t descr = {.type = 1, .handle.fd = other_fd};
    if (open_other().err || register_other(&other_handle, &descr).err || other_handle == handle)
        exit(67);
    for (long i = 0; i < count; i++)
        if (cuFileRead(handle, memory, BLOCK, 0, 0) != BLOCK || read_other(other_handle, memory, BLOCK, 0, 0) != BLOCK)
            exit(68);
    dlclose(other);
    close(other_fd);
    cuFileHandleDeregister(handle);
    close(fd);
}
#endif

/* Prints the functions whose address is inside libcufile: those that are not recorded. */
static void unrecorded(int count, char **names)
{
    void *library = dlopen(getenv("LIBRARY"), RTLD_NOW);
    for (int i = 0; i < count; i++) {
        void *address = dlsym(library, names[i]);
        Dl_info info;
        if (address && dladdr(address, &info) && strstr(info.dli_fname, "libcufile.so"))
            printf("%s\n", names[i]);
    }
}

/* Completes requests that do nothing, and leaves the ring open. */
static void uring(unsigned count)
{
    struct io_uring_params setup;
    memset(&setup, 0, sizeof setup);
    int ring = (int)syscall(SYS_io_uring_setup, 8, &setup);
    if (ring < 0)
        exit(77);
    char *submissions = mmap(NULL, setup.sq_off.array + setup.sq_entries * sizeof(unsigned), PROT_READ | PROT_WRITE,
                             MAP_SHARED, ring, IORING_OFF_SQ_RING);
    char *completions = mmap(NULL, setup.cq_off.cqes + setup.cq_entries * sizeof(struct io_uring_cqe),
                             PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    struct io_uring_sqe *entries =
        mmap(NULL, setup.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    for (unsigned request = 0; request < count; request++) {
        unsigned at = request % setup.sq_entries;
        memset(&entries[at], 0, sizeof *entries);
        entries[at].opcode = IORING_OP_NOP;
        ((unsigned *)(submissions + setup.sq_off.array))[at] = at;
        __atomic_store_n((unsigned *)(submissions + setup.sq_off.tail), request + 1, __ATOMIC_RELEASE);
        if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
            exit(78);
        __atomic_store_n((unsigned *)(completions + setup.cq_off.head), request + 1, __ATOMIC_RELEASE);
    }
}

/* Reads with an address from the symbol table, without the dynamic linker. The names follow the symbols. */
static void hidden_reads(long times)
{
    struct link_map *map = NULL;
    dlinfo(dlopen(getenv("LIBRARY"), RTLD_NOW | RTLD_LOCAL), RTLD_DI_LINKMAP, &map);
    ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    for (ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            symbols = (void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRTAB)
            names = (void *)entry->d_un.d_ptr;
    }
    while (strcmp(names + symbols->st_name, "cuFileRead") && (const char *)(symbols + 1) < names)
        symbols++;
    ssize_t (*hidden)(void *, void *, size_t, off_t, off_t) = (void *)(map->l_addr + symbols->st_value);
    int fd;
    void *handle = open_file(&fd);
    for (long i = 0; i < times; i++)
        if (hidden(handle, memory, BLOCK, 0, 0) != BLOCK)
            exit(59);
    cuFileHandleDeregister(handle);
    close(fd);
}

/* Reads of cuFile and libc under a filter that ends the program at other system calls. */
static void sandbox(long count, int by_prctl)
{
    int fd, allowed[] = {SYS_read, SYS_write, SYS_pread64, SYS_exit_group, SYS_exit, SYS_futex, SYS_brk, SYS_mmap,
                         SYS_munmap, SYS_rt_sigreturn, SYS_clock_gettime, SYS_madvise, SYS_close};
    enum { ALLOWED = sizeof allowed / sizeof *allowed };
    char *large = malloc(LARGE);
    void *handle = open_file(&fd);
    struct sock_filter code[2 * ALLOWED + 2] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    for (int i = 0; i < ALLOWED; i++) {
        code[2 * i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        code[2 * i + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[2 * ALLOWED + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog filter = {2 * ALLOWED + 2, code};
    cuFileRead(handle, memory, BLOCK, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        exit(50);
    if (by_prctl ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)
                 : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter))
        exit(50);
    for (long i = 0; i < count; i++)
        if (cuFileRead(handle, memory, BLOCK, 0, 0) != BLOCK || pread(fd, large, LARGE, 0) != LARGE)
            _exit(49);
}

static void leave_at(int signal)
{
    _exit(100 + signal);
}

int main(int count, char **words)
{
    path = words[1];
    if (posix_memalign((void **)&memory, BLOCK, 32 * BLOCK))
        return 97;
    void *library = load();
    if (count > 2 && !strcmp(words[2], "unrecorded")) {
        unrecorded(count - 3, words + 3);
        return 0;
    }
    /* libcufile then opens the driver itself. */
    if (!(count > 2 && !strcmp(words[2], "implicit")) && cuFileDriverOpen().err)
        return 98;
    for (int i = 2; i < count; i++) {
        long number = i + 1 < count ? atol(words[i + 1]) : 0;
        if (!strcmp(words[i], "read"))
            reads(number);
        else if (!strcmp(words[i], "write"))
            writes(number);
        else if (!strcmp(words[i], "threads"))
            threads(number, i + 2 < count ? atol(words[i + 2]) : 0);
        else if (!strcmp(words[i], "storm"))
            storm(number, i + 2 < count ? atol(words[i + 2]) : 0);
        else if (!strcmp(words[i], "brief"))
            brief(number);
        else if (!strcmp(words[i], "start")) {
            start(words[i + 1], words[0], words[1], words[i + 2]);
            i += 2;
        }
#ifndef LINKED
        else if (!strcmp(words[i], "twice"))
            copies_of_library(number);
#endif
        else if (!strcmp(words[i], "batch"))
            batch((unsigned)number, 1);
        else if (!strcmp(words[i], "abandon"))
            batch((unsigned)number, 0);
        else if (!strcmp(words[i], "pair")) {
            other = words[i + 1];
            batch((unsigned)atol(words[i + 2]), 1);
            other = NULL;
            i += 2;
        }
        else if (!strcmp(words[i], "stream"))
            stream(number);
        else if (!strcmp(words[i], "loop"))
            /* For those who come later: registrations, reads, batches and a child with a thread, again and again. */
            for (long round = 0; round < number; round++) {
                linger = 50000;
                cuFileBufRegister(memory, 32 * BLOCK, 0);
                reads(3);
                batch(4, 1);
                threads(1, 2);
                pid_t child = fork();
                if (!child) {
                    reads(5);
                    _exit(0);
                }
                if (child > 0)
                    waitpid(child, NULL, 0);
                cuFileBufDeregister(memory);
                usleep(5000);
            }
        else if (!strcmp(words[i], "steady")) {
            /* The buffer of the reads stays registered. */
            int fd;
            void *handle = open_file(&fd);
            for (long read = 0; read < number; read++) {
                if (cuFileRead(handle, memory, BLOCK, 0, 0) != BLOCK)
                    exit(72);
                usleep(5000);
            }
            cuFileHandleDeregister(handle);
            close(fd);
        } else if (!strcmp(words[i], "each"))
            each(number, i + 2 < count ? atol(words[i + 2]) : 0);
        else if (!strcmp(words[i], "huge"))
            huge(1, number);
        else if (!strcmp(words[i], "direct")) {
            huge_flags = O_DIRECT;
            huge(4, number);
        } else if (!strcmp(words[i], "plain"))
            plain(number);
        else if (!strcmp(words[i], "map"))
            map(number);
        else if (!strcmp(words[i], "glance"))
            glance(number, 1);
        else if (!strcmp(words[i], "touch"))
            glance(number, 0);
        else if (!strcmp(words[i], "pause"))
            pause_recording(number);
        else if (!strcmp(words[i], "cancel"))
            cancel();
        else if (!strcmp(words[i], "copies"))
            copies(number);
        else if (!strcmp(words[i], "register"))
            cuFileBufRegister(memory, 32 * BLOCK, 0);
        else if (!strcmp(words[i], "deregister"))
            cuFileBufDeregister(memory);
        else if (!strcmp(words[i], "version"))
            cuFileGetVersion(&(int){0});
        else if (!strcmp(words[i], "exec")) {
            /* Runs the remaining words in a new program of this process. */
            words[i] = path;
            words[i - 1] = words[0];
            execv("/proc/self/exe", words + i - 1);
            exit(55);
        } else if (!strcmp(words[i], "again")) {
            if (library)
                dlclose(library);
            library = load();
            cuFileDriverOpen();
        } else if (!strcmp(words[i], "fork")) {
            pid_t child = fork();
            if (!child) {
                reads(number);
                _exit(0);
            }
            waitpid(child, NULL, 0);
        } else if (!strcmp(words[i], "released") || !strcmp(words[i], "registered"))
            around(!strcmp(words[i], "released"), number);
        else if (!strcmp(words[i], "descend"))
            descend(number);
        else if (!strcmp(words[i], "bad"))
            cuFileRead((void *)1, memory, BLOCK, 0, 0);
        else if (!strcmp(words[i], "crash"))
            abort();
        else if (!strcmp(words[i], "die"))
            kill(getpid(), SIGKILL);
        else if (!strcmp(words[i], "sleep"))
            usleep(number * 1000);
        else if (!strcmp(words[i], "configure"))
            setenv("CUFILE_ENV_PATH_JSON", words[i + 1], 1);
        else if (!strcmp(words[i], "log")) {
            /* As libcufile does: the log stays open. */
            int fd = open("cufile.log", O_CREAT | O_WRONLY | O_APPEND, 0600);
            dprintf(fd, " 27-11-2026 14:39:59:877 [pid=%d tid=%d] NOTICE  cufio-drv:1257 running in compatible mode\n", getpid(), getpid());
        }
        else if (!strcmp(words[i], "mark"))
            close(open(words[i + 1], O_CREAT | O_WRONLY, 0600));
        else if (!strcmp(words[i], "until")) {
            while (access(words[i + 1], F_OK) != 0)
                usleep(5000);
        } else if (!strcmp(words[i], "wait")) {
            open(path, O_RDONLY | O_DIRECT);
            puts("waiting");
            fflush(stdout);
            pause();
        } else if (!strcmp(words[i], "leave"))
            _exit((int)number);
        else if (!strcmp(words[i], "quit"))
            exit((int)number);
        else if (!strcmp(words[i], "hidden"))
            hidden_reads(number);
        else if (!strcmp(words[i], "keep")) {
            /* The handle is not released. */
            void *handle = open_file(&(int){0});
            for (long read = 0; read < number; read++)
                cuFileRead(handle, memory, BLOCK, 0, 0);
        } else if (!strcmp(words[i], "become")) {
            execlp("true", "true", NULL);
            exit(58);
        } else if (!strcmp(words[i], "uring")) {
            uring((unsigned)number);
        } else if (!strcmp(words[i], "signals")) {
            /* The status shows the signal that arrived. */
            signal(SIGINT, leave_at);
            signal(SIGTERM, leave_at);
            signal(SIGHUP, leave_at);
            signal(SIGQUIT, leave_at);
            close(open(words[i + 1], O_CREAT | O_WRONLY, 0600));
            sleep(100);
        } else if (!strcmp(words[i], "drop")) {
            if (setuid((uid_t)number))
                exit(56);
        } else if (!strcmp(words[i], "sandbox") || !strcmp(words[i], "prctl")) {
            sandbox(number, !strcmp(words[i], "prctl"));
        } else if (!strcmp(words[i], "allocate")) {
            if (!malloc((size_t)number << 20))
                exit(51);
        } else if (!strcmp(words[i], "remove")) {
            unlink(getenv("GDS_TOP_WATCH_FILE"));
        } else if (!strcmp(words[i], "shell")) {
            if (system(words[i + 1]))
                exit(57);
        }
        else if (!strcmp(words[i], "time")) {
            struct timespec from, to;
            clock_gettime(CLOCK_MONOTONIC, &from);
            for (long call = 0; call < number; call++)
                cuFileRead(NULL, NULL, 0, 0, 0);
            clock_gettime(CLOCK_MONOTONIC, &to);
            printf("%ld\n", ((to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec) / number);
        } else if (!strcmp(words[i], "timecufile")) {
            struct timespec from, to;
            long size = i + 2 < count ? atol(words[i + 2]) : BLOCK;
            char *large;
            int fd;
            void *handle = open_file(&fd);
            if (posix_memalign((void **)&large, BLOCK, size) || cuFileBufRegister(large, size, 0).err)
                exit(73);
            clock_gettime(CLOCK_MONOTONIC, &from);
            for (long call = 0; call < number; call++)
                if (cuFileRead(handle, large, size, 0, 0) != size)
                    exit(74);
            clock_gettime(CLOCK_MONOTONIC, &to);
            printf("%ld\n", ((to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec) / number);
            cuFileBufDeregister(large);
            cuFileHandleDeregister(handle);
            close(fd);
        } else if (!strcmp(words[i], "timeplain")) {
            struct timespec from, to;
            char *large = malloc(LARGE);
            int fd = open(path, O_RDONLY);
            clock_gettime(CLOCK_MONOTONIC, &from);
            for (long call = 0; call < number; call++)
                if (pread(fd, large, LARGE / 2, call % 8 * LARGE) < 0)
                    exit(88);
            clock_gettime(CLOCK_MONOTONIC, &to);
            printf("%ld\n", ((to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec) / number);
        }
    }
    cuFileDriverClose_v2();
    return 0;
}
