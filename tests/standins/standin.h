/* What the stand-ins share: failures told by the environment, and the mark that they are no real library. Tests only, never shipped. */
#ifndef STANDIN_H
#define STANDIN_H
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;

/* Lines of NAME=call:code[:nth][,call:code[:nth]]…; code may be `hang` or `abort`. Without nth every call fails. 0: go on.
 * With `wait` the call makes the file $STANDIN_WAIT and goes on once somebody has removed it. */
static int standin_fail(const char *variable, const char *call)
{
    static struct {
        char name[64];
        int count;
    } calls[128];
    const char *list = getenv(variable);
    if (!list || !*call || !strstr(list, call))
        return 0;
    int count = 0;
    pthread_mutex_lock(&standin_lock);
    for (int i = 0; i < 128; i++) {
        if (!calls[i].name[0])
            snprintf(calls[i].name, sizeof calls[i].name, "%s", call);
        if (!strcmp(calls[i].name, call)) {
            count = ++calls[i].count;
            break;
        }
    }
    pthread_mutex_unlock(&standin_lock);
    for (const char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char name[64] = "", code[32] = "";
        int nth = 0;
        if (sscanf(at, "%63[^:,]:%31[^:,]:%d", name, code, &nth) < 2 || strcmp(name, call) != 0 || (nth && nth != count))
            continue;
        if (!strcmp(code, "hang")) {
            fprintf(stderr, "stand-in: will hang in %s\n", call);
            for (;;)
                pause();
        }
        if (!strcmp(code, "wait")) {
            const char *file = getenv("STANDIN_WAIT");
            FILE *made = file ? fopen(file, "w") : NULL;
            if (made)
                fclose(made);
            while (made && access(file, F_OK) == 0)
                usleep(1000);
            return 0;
        }
        if (!strcmp(code, "abort")) {
            fprintf(stderr, "stand-in: will abort in %s\n", call);
            abort();
        }
        return atoi(code);
    }
    return 0;
}

__attribute__((unused)) static long long standin_number(const char *variable, long long otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? atoll(text) : otherwise;
}

__attribute__((unused)) static const char *standin_text(const char *variable, const char *otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? text : otherwise;
}

/* How a reader of the binary, or of a process's maps, sees what this is. */
EXPORT const char *gds_top_standin(void);
EXPORT const char *gds_top_standin(void)
{
    return "stand-in for tests: no hardware, no measurement";
}
#endif
