/* Stand-in for libnixl_capi in tests: an agent, one back end, counted registrations, and transfers with pread and pwrite that complete after a few polls.
 *
 * STANDIN_NIXL_FAIL     call:code[:nth],… as in standin.h, names without their nixl_capi_
 * STANDIN_NIXL_PLUGINS  names of the plugins, separated by commas (default: GDS,GDS_MT,POSIX)
 * STANDIN_NIXL_STUB     if set, it reports that it is a stub
 * STANDIN_NIXL_CORRUPT  n: the n-th transfer changes a byte
 * Registrations or requests that still exist when the agent is destroyed, and unregistered ranges, end the process with a message. */
#include "standin.h"
#include <fcntl.h>
#include <stdbool.h>

enum { DRAM, VRAM, FILE_SEGMENT = 4 };
struct desc { uintptr_t addr; size_t len; uint64_t dev; };
enum { MOST = 4096 };
struct list { int kind; struct desc d[MOST]; int count; };
struct agent { char plugin[32]; int registered, requests; struct desc memory[64], file[64]; };
struct request { struct list memory, file; int operation, polls, posted; };
struct options { struct agent *agent; };
static struct agent *the_agent;
static int transfers;

#define FAIL(name) do { int code_ = standin_fail("STANDIN_NIXL_FAIL", name); if (code_) return code_; } while (0)

static void wrong(const char *what)
{
    fprintf(stderr, "stand-in for NIXL: %s\n", what);
    abort();
}

EXPORT bool nixl_capi_is_stub(void) { return getenv("STANDIN_NIXL_STUB") != NULL; }

EXPORT int nixl_capi_create_agent(const char *name, void **agent)
{
    FAIL("create_agent");
    if (!name || !*name)
        return -1;
    the_agent = calloc(1, sizeof *the_agent);
    *agent = the_agent;
    return 0;
}

EXPORT int nixl_capi_destroy_agent(void *agent)
{
    struct agent *a = agent;
    if (a->registered || a->requests)
        wrong("the agent goes while something is registered or requested");
    free(a);
    return 0;
}

static const char *plugins(void)
{
    const char *told = getenv("STANDIN_NIXL_PLUGINS");
    return told ? told : "GDS,GDS_MT,POSIX";
}

EXPORT int nixl_capi_get_available_plugins(void *agent, void **list)
{
    FAIL("get_available_plugins");
    (void)agent;
    *list = strdup(plugins());
    return 0;
}
EXPORT int nixl_capi_destroy_string_list(void *list) { free(list); return 0; }
EXPORT int nixl_capi_string_list_size(void *list, size_t *size)
{
    *size = *(char *)list ? 1 : 0;
    for (const char *c = list; *c; c++)
        *size += *c == ',' || *c == '\0';
    return 0;
}
EXPORT int nixl_capi_string_list_get(void *list, size_t index, const char **text)
{
    static char name[32];
    const char *at = list;
    while (index--)
        at = strchr(at, ',') + 1;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
    *text = name;
    return 0;
}

EXPORT int nixl_capi_create_params(void **params) { *params = calloc(1, 8); return 0; }
EXPORT int nixl_capi_params_add(void *params, const char *name, const char *value)
{
    (void)params;
    fprintf(stderr, "stand-in for NIXL: setting %s=%s\n", name, value);
    return 0;
}
EXPORT int nixl_capi_destroy_params(void *params) { free(params); return 0; }

EXPORT int nixl_capi_create_backend(void *agent, const char *plugin, void *params, void **backend)
{
    FAIL("create_backend");
    if (!params || !strstr(plugins(), plugin))
        return -2;
    snprintf(((struct agent *)agent)->plugin, 32, "%s", plugin);
    *backend = calloc(1, 8);
    return 0;
}
EXPORT int nixl_capi_destroy_backend(void *backend) { free(backend); return 0; }
EXPORT int nixl_capi_create_opt_args(void **options) { *options = calloc(1, 8); return 0; }
EXPORT int nixl_capi_destroy_opt_args(void *options) { free(options); return 0; }
EXPORT int nixl_capi_opt_args_add_backend(void *options, void *backend) { return options && backend ? 0 : -1; }

static int make(int kind, void **list)
{
    struct list *l = calloc(1, sizeof *l);
    l->kind = kind;
    *list = l;
    return 0;
}
static int put(struct list *l, uintptr_t addr, size_t len, uint64_t dev)
{
    if (l->count == MOST)
        return -1;
    l->d[l->count++] = (struct desc){addr, len, dev};
    return 0;
}
EXPORT int nixl_capi_create_reg_dlist(int kind, void **list) { return make(kind, list); }
EXPORT int nixl_capi_destroy_reg_dlist(void *list) { free(list); return 0; }
EXPORT int nixl_capi_reg_dlist_add_desc(void *list, uintptr_t addr, size_t len, uint64_t dev, const void *meta, size_t meta_len)
{
    return meta_len && !meta ? -1 : put(list, addr, len, dev);
}
EXPORT int nixl_capi_create_xfer_dlist(int kind, void **list) { return make(kind, list); }
EXPORT int nixl_capi_destroy_xfer_dlist(void *list) { free(list); return 0; }
EXPORT int nixl_capi_xfer_dlist_add_desc(void *list, uintptr_t addr, size_t len, uint64_t dev) { return put(list, addr, len, dev); }

/* The registration that contains a range, or with exact the one that is equal to it. */
static struct desc *known(struct agent *a, int kind, const struct desc *d, int exact)
{
    struct desc *all = kind == FILE_SEGMENT ? a->file : a->memory;
    for (int i = 0; i < 64; i++) {
        int is = all[i].len == d->len && all[i].addr == d->addr;
        int holds = all[i].addr <= d->addr && d->addr + d->len <= all[i].addr + all[i].len;
        if (all[i].len && all[i].dev == d->dev && (exact ? is : holds))
            return &all[i];
    }
    return NULL;
}

EXPORT int nixl_capi_register_mem(void *agent, void *list, void *options)
{
    FAIL("register_mem");
    struct agent *a = agent;
    struct list *l = list;
    if (!options || (l->kind == VRAM && !strcmp(a->plugin, "POSIX")))
        return -2;
    struct desc *all = l->kind == FILE_SEGMENT ? a->file : a->memory;
    for (int i = 0; i < 64; i++) {
        if (!all[i].len) {
            all[i] = l->d[0];
            a->registered++;
            return 0;
        }
    }
    return -2;
}
EXPORT int nixl_capi_deregister_mem(void *agent, void *list, void *options)
{
    struct list *l = list;
    struct desc *d = known(agent, l->kind, &l->d[0], 1);
    if (!options || !d)
        wrong("what was not registered is deregistered");
    memset(d, 0, sizeof *d);
    ((struct agent *)agent)->registered--;
    return 0;
}

EXPORT int nixl_capi_create_xfer_req(void *agent, int operation, void *local, void *remote, const char *name, void **request, void *options)
{
    (void)options;
    FAIL("create_xfer_req");
    struct list *memory = local, *file = remote;
    if (operation < 0 || operation > 1 || !name || memory->count != file->count || !file->count)
        return -2;
    for (int i = 0; i < file->count; i++)
        if (!known(agent, memory->kind, &memory->d[i], 0) || !known(agent, file->kind, &file->d[i], 0) || memory->d[i].len != file->d[i].len)
            return -2;
    struct request *r = calloc(1, sizeof *r);
    r->operation = operation;
    r->memory = *memory;
    r->file = *file;
    ((struct agent *)agent)->requests++;
    *request = r;
    return 0;
}
EXPORT int nixl_capi_post_xfer_req(void *agent, void *request, void *options)
{
    (void)agent, (void)options;
    FAIL("post_xfer_req");
    ((struct request *)request)->posted = 1;
    return 1;
}
EXPORT int nixl_capi_get_xfer_status(void *agent, void *request)
{
    (void)agent;
    FAIL("get_xfer_status");
    struct request *r = request;
    if (!r->posted || ++r->polls < 3)
        return r->posted ? 1 : -3;
    const char *spoil = getenv("STANDIN_NIXL_CORRUPT");
    int spoils = spoil && ++transfers == atoi(spoil);
    if (spoils && r->operation)
        *(char *)r->memory.d[0].addr ^= 1;
    for (int i = 0; i < r->file.count; i++) {
        struct desc *memory = &r->memory.d[i], *file = &r->file.d[i];
/* Tensors are not aligned. The real library would handle this. */
        int flags = fcntl((int)file->dev, F_GETFL);
        fcntl((int)file->dev, F_SETFL, flags & ~O_DIRECT);
        size_t done = 0;
        while (done < memory->len) {
            char *at = (char *)memory->addr + done;
            off_t offset = (off_t)(file->addr + done);
            ssize_t got = r->operation ? pwrite((int)file->dev, at, memory->len - done, offset) : pread((int)file->dev, at, memory->len - done, offset);
            if (got <= 0)
                return -2;
            done += (size_t)got;
        }
    }
    if (spoils && !r->operation)
        *(char *)r->memory.d[0].addr ^= 1;
    return 0;
}
EXPORT int nixl_capi_release_xfer_req(void *agent, void *request)
{
    (void)request;
    FAIL("release_xfer_req");
    ((struct agent *)agent)->requests--;
    return 0;
}
EXPORT int nixl_capi_destroy_xfer_req(void *request) { free(request); return 0; }
