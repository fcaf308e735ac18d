/* A preload for tests: a process may start $GDS_TOP_TEST_THREADS threads. Starting more fails, as on a system that has reached its limit.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    static atomic_int begun;
    const char *most = getenv("GDS_TOP_TEST_THREADS");
    if (most && atomic_fetch_add(&begun, 1) >= atoi(most))
        return EAGAIN;
    __typeof__(&pthread_create) real = (__typeof__(&pthread_create))dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, attr, start, arg);
}
