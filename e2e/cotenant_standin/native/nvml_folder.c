/* The folder, the session and its checks: see nvml.c. */
#define _GNU_SOURCE
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvml.h"

static struct { int index; } handles[MAX_GPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int users; /* of nvmlInit */
static struct stat session; /* the driver that was there at nvmlInit */

/* ---- the folder ---- */

const char *root(void) {
    const char *named = getenv("COTENANT_STANDIN");
    return named && *named ? named : "/run/cotenant-standin";
}

bool read_text(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t length = fread(text, 1, size - 1, file);
    fclose(file);
    text[length] = 0;
    while (length && isspace((unsigned char)text[length - 1]))
        text[--length] = 0;
    return true;
}

bool read_root(const char *name, char *text, size_t size) {
    char path[MAX_PATH];
    snprintf(path, sizeof path, "%s/%s", root(), name);
    return read_text(path, text, size);
}

void gpu_path(const char *folder, int index, const char *name, char *path) {
    snprintf(path, MAX_PATH, "%s/gpus/%d/%s", folder, index, name);
}

bool gpu_has(const char *folder, int index, const char *name) {
    char path[MAX_PATH];
    gpu_path(folder, index, name, path);
    return access(path, F_OK) == 0;
}

bool gpu_text(int index, const char *name, char *text, size_t size) {
    char path[MAX_PATH];
    gpu_path(root(), index, name, path);
    return read_text(path, text, size);
}

bool gpu_number(int index, const char *name, uint64_t *number) {
    char text[MAX_TEXT], *end;
    if (!gpu_text(index, name, text, sizeof text))
        return false;
    *number = strtoull(text, &end, 10);
    return end != text && !*end;
}

int count_gpus(void) {
    int count = 0;
    while (count < MAX_GPUS && gpu_has(root(), count, "uuid"))
        count++;
    return count;
}

/* ---- what every call checks first ---- */

static bool driver_stamp(struct stat *stamp) {
    char path[MAX_PATH];
    snprintf(path, sizeof path, "%s/missing", root());
    if (access(path, F_OK) == 0)
        return false;
    snprintf(path, sizeof path, "%s/driver_version", root());
    return stat(path, stamp) == 0;
}

/*
 * stand-in: a session whose driver has gone, or has gone and come back, knows nothing until nvmlShutdown and nvmlInit:
 * the kernel's files it holds are another driver's. The documentation lists only NVML_ERROR_UNKNOWN for that.
 */
int ready(void) {
    struct stat now;
    pthread_mutex_lock(&lock);
    bool initialised = users > 0;
    struct stat then = session;
    pthread_mutex_unlock(&lock);
    if (!initialised)
        return UNINITIALIZED;
    char stalled[MAX_PATH];
    snprintf(stalled, sizeof stalled, "%s/stalled", root());
    while (access(stalled, F_OK) == 0)
        usleep(10000); /* stand-in: a call to a driver that hangs does not return */
    if (!driver_stamp(&now) || now.st_ino != then.st_ino || now.st_mtim.tv_sec != then.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != then.st_mtim.tv_nsec)
        return UNKNOWN;
    return SUCCESS;
}

int ready_gpu(nvmlDevice_t device, const void *result) {
    int state = ready();
    if (state)
        return state;
    if (!device || !result || device->index < 0 || device->index >= count_gpus())
        return INVALID_ARGUMENT;
    return gpu_has(root(), device->index, "lost") ? GPU_IS_LOST : SUCCESS;
}

nvmlDevice_t handle_of(int index) {
    handles[index].index = index;
    return (nvmlDevice_t)&handles[index];
}

/* ---- Initialization and Cleanup: counted, the last nvmlShutdown ends the session ---- */

int nvmlInitWithFlags(unsigned int flags) {
    struct stat stamp;
    (void)flags;
    if (!driver_stamp(&stamp))
        return DRIVER_NOT_LOADED;
    pthread_mutex_lock(&lock);
    if (!users++)
        session = stamp;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    pthread_mutex_lock(&lock);
    int state = users ? SUCCESS : UNINITIALIZED;
    if (users)
        users--;
    pthread_mutex_unlock(&lock);
    return state;
}

const char *nvmlErrorString(int result) {
    switch (result) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case GPU_IS_LOST: return "GPU is lost";
    default: return "Unknown Error";
    }
}
