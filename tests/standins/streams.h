/* Streams of the stand-in libcuda: what is put on one is done in order by a thread of its own, which begins with the first piece. Tests only.
 *
 * STANDIN_CUDA_HOLD=8     a stream begins its work once so many pieces are on it (or after a minute), so that it is known what was under way at once
 */
#ifndef STANDIN_STREAMS_H
#define STANDIN_STREAMS_H
#include "standin.h"

#include <errno.h>
#include <time.h>

struct piece {
    struct piece *next;
    void (*run)(void *);
    void *data;
};

typedef struct stream {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct piece *first, **last;
    long put, done;
    int started, closing;
    struct stream *other; /* the next of all streams */
} *CUstream;

static CUstream all_streams;
/* On a thread that runs what is on a stream, where CUDA's calls are not permitted. */
static __thread int on_stream;

static CUstream stream_open(void)
{
    CUstream s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->last = &s->first;
    pthread_mutex_lock(&standin_lock);
    s->other = all_streams;
    all_streams = s;
    pthread_mutex_unlock(&standin_lock);
    return s;
}

static void *stream_work(void *of)
{
    CUstream s = of;
    struct timespec limit;
    on_stream = 1;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 60;
    pthread_mutex_lock(&s->lock);
    while (s->put < standin_number("STANDIN_CUDA_HOLD", 0) && !s->closing)
        if (pthread_cond_timedwait(&s->changed, &s->lock, &limit) == ETIMEDOUT)
            break;
    for (;;) {
        struct piece *p = s->first;
        if (!p && s->closing)
            break;
        if (!p) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        s->first = p->next;
        if (!s->first)
            s->last = &s->first;
        pthread_mutex_unlock(&s->lock);
        p->run(p->data);
        free(p);
        pthread_mutex_lock(&s->lock);
        s->done++;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Puts a piece of work on a stream; on the default stream, where there is none, it is done at once. */
static int stream_put(CUstream s, void (*run)(void *), void *data)
{
    if (!s) {
        run(data);
        return 0;
    }
    struct piece *p = malloc(sizeof *p);
    if (!p)
        return 2;
    *p = (struct piece){NULL, run, data};
    pthread_mutex_lock(&s->lock);
    *s->last = p;
    s->last = &p->next;
    s->put++;
    if (!s->started)
        s->started = !pthread_create(&s->thread, NULL, stream_work, s);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static int stream_is_busy(CUstream s)
{
    pthread_mutex_lock(&s->lock);
    int busy = s->done < s->put;
    pthread_mutex_unlock(&s->lock);
    return busy;
}

/* Waits for what is on the stream now. */
static void stream_drain(CUstream s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    long all = s->put;
    while (s->done < all)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

__attribute__((unused)) static void streams_drain(void)
{
    pthread_mutex_lock(&standin_lock);
    CUstream s = all_streams;
    pthread_mutex_unlock(&standin_lock);
    for (; s; s = s->other)
        stream_drain(s);
}

static void stream_close(CUstream s)
{
    pthread_mutex_lock(&standin_lock);
    for (CUstream *at = &all_streams; *at; at = &(*at)->other) {
        if (*at == s) {
            *at = s->other;
            break;
        }
    }
    pthread_mutex_unlock(&standin_lock);
    pthread_mutex_lock(&s->lock);
    s->closing = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->started)
        pthread_join(s->thread, NULL);
    free(s);
}
#endif
