/* Test-only preload: shows /proc/modules and /run/udev as files of the folder $GDS_TOP_TEST_REDIRECT.
 *
 * libcufile from 1.16 on spins for ever without /proc/modules, and registers no file without a udev record of its device. Sandboxes and
 * containers lack both; with this preload the real library can be tested there. Only paths below the two are changed, and only where the
 * folder has the file: $GDS_TOP_TEST_REDIRECT/proc/modules, $GDS_TOP_TEST_REDIRECT/run/udev/data/b254:0.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *shown(const char *path, char *room, size_t size)
{
    const char *folder = getenv("GDS_TOP_TEST_REDIRECT");
    if (!folder || !path)
        return path;
    if (strcmp(path, "/proc/modules") != 0 && strcmp(path, "/run/udev") != 0 && strncmp(path, "/run/udev/", 10) != 0)
        return path;
    int n = snprintf(room, size, "%s%s", folder, path);
    return n > 0 && (size_t)n < size ? room : path;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define ROOM char room[4096]

static int has_mode(int flags)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

#define OPEN(name)                                                                                                   \
    int name(const char *path, int flags, ...)                                                                       \
    {                                                                                                                \
        ROOM;                                                                                                        \
        mode_t mode = 0;                                                                                             \
        if (has_mode(flags)) {                                                                                       \
            va_list list;                                                                                            \
            va_start(list, flags);                                                                                   \
            mode = va_arg(list, mode_t);                                                                             \
            va_end(list);                                                                                            \
        }                                                                                                            \
        return REAL(name)(shown(path, room, sizeof room), flags, mode);                                              \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                                 \
    int name(int folder, const char *path, int flags, ...)                                                           \
    {                                                                                                                \
        ROOM;                                                                                                        \
        mode_t mode = 0;                                                                                             \
        if (has_mode(flags)) {                                                                                       \
            va_list list;                                                                                            \
            va_start(list, flags);                                                                                   \
            mode = va_arg(list, mode_t);                                                                             \
            va_end(list);                                                                                            \
        }                                                                                                            \
        return REAL(name)(folder, shown(path, room, sizeof room), flags, mode);                                      \
    }
OPENAT(openat)
OPENAT(openat64)

/* A function of a path, which stands at its place among the arguments. */
#define ON_PATH(type, name, parameters, ...)                                                                         \
    type name parameters                                                                                             \
    {                                                                                                                \
        ROOM;                                                                                                        \
        return REAL(name)(__VA_ARGS__);                                                                              \
    }
#define SHOWN shown(path, room, sizeof room)
ON_PATH(FILE *, fopen, (const char *path, const char *mode), SHOWN, mode)
ON_PATH(FILE *, fopen64, (const char *path, const char *mode), SHOWN, mode)
ON_PATH(int, access, (const char *path, int mode), SHOWN, mode)
ON_PATH(int, faccessat, (int folder, const char *path, int mode, int flags), folder, SHOWN, mode, flags)
ON_PATH(int, stat, (const char *path, struct stat *out), SHOWN, out)
ON_PATH(int, lstat, (const char *path, struct stat *out), SHOWN, out)
ON_PATH(int, stat64, (const char *path, struct stat64 *out), SHOWN, out)
ON_PATH(int, lstat64, (const char *path, struct stat64 *out), SHOWN, out)
ON_PATH(int, fstatat, (int folder, const char *path, struct stat *out, int flags), folder, SHOWN, out, flags)

/* What programs built against glibc before 2.33 call for stat. */
#define XSTAT(name, since)                                                                                           \
    int name(int version, const char *path, struct stat *out)                                                        \
    {                                                                                                                \
        ROOM;                                                                                                        \
        int (*real)(int, const char *, struct stat *) = dlsym(RTLD_NEXT, #name);                                     \
        return real ? real(version, SHOWN, out) : REAL(since)(SHOWN, out);                                           \
    }
XSTAT(__xstat, stat)
XSTAT(__lxstat, lstat)

#ifdef __aarch64__
/* qemu-user returns the O_LARGEFILE of x86 from F_GETFL. On aarch64 this bit is O_NOFOLLOW, and libcufile registers no file with that flag
 * (5019). With GDS_TOP_TEST_EMULATED the bit is removed.
 */
#define FCNTL(name)                                                                                                  \
    int name(int file, int command, ...)                                                                             \
    {                                                                                                                \
        va_list list;                                                                                                \
        va_start(list, command);                                                                                     \
        void *argument = va_arg(list, void *);                                                                       \
        va_end(list);                                                                                                \
        int result = REAL(name)(file, command, argument);                                                            \
        return command == F_GETFL && result >= 0 && getenv("GDS_TOP_TEST_EMULATED") ? result & ~O_NOFOLLOW : result; \
    }
FCNTL(fcntl)
FCNTL(fcntl64)
#endif
