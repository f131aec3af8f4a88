/*
 * Event Handling of the stand-in for libnvidia-ml.so.1 (https://docs.nvidia.com/deploy/nvml-api, group nvmlEvents): a
 * set tells what happens after a device is registered, each event once.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "nvml.h"

static const uint64_t EVENT_XID = 0x8; /* nvmlEventTypeXidCriticalError */

typedef struct {
    nvmlDevice_t device;
    uint64_t type, data;
    unsigned int gpu_instance, compute_instance;
} nvmlEventData_t;
typedef struct {
    char root[MAX_PATH];
    long position;                /* in `xids`: what has been read */
    long registered_at[MAX_GPUS]; /* -1: not registered */
    int watch;
} *nvmlEventSet_t;

static int set_valid(nvmlEventSet_t set) {
    int state = ready();
    if (state)
        return state;
    return set ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, uint64_t *types) {
    int state = ready_gpu(device, types);
    if (!state)
        *types = gpu_has(root(), device->index, "no_events") ? 0 : EVENT_XID;
    return state;
}

int nvmlEventSetCreate(nvmlEventSet_t *set) {
    int state = ready();
    if (state)
        return state;
    if (!set || !(*set = calloc(1, sizeof **set)))
        return INVALID_ARGUMENT;
    snprintf((*set)->root, sizeof (*set)->root, "%s", root());
    for (int i = 0; i < MAX_GPUS; i++)
        (*set)->registered_at[i] = -1;
    (*set)->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    inotify_add_watch((*set)->watch, (*set)->root, IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE);
    return SUCCESS;
}

int nvmlEventSetFree(nvmlEventSet_t set) {
    if (!set)
        return INVALID_ARGUMENT;
    close(set->watch);
    free(set);
    return SUCCESS;
}

static long events_end(const char *folder) {
    char path[MAX_PATH + 8];
    struct stat found;
    snprintf(path, sizeof path, "%s/xids", folder);
    return stat(path, &found) ? 0 : (long)found.st_size;
}

static bool anything_registered(nvmlEventSet_t set) {
    for (int i = 0; i < MAX_GPUS; i++)
        if (set->registered_at[i] >= 0)
            return true;
    return false;
}

int nvmlDeviceRegisterEvents(nvmlDevice_t device, uint64_t types, nvmlEventSet_t set) {
    char path[MAX_PATH];
    int state = ready_gpu(device, set);
    if (state)
        return state;
    if ((types & ~EVENT_XID) || gpu_has(root(), device->index, "no_events"))
        return NOT_SUPPORTED; /* "or some of requested event types" */
    long end = events_end(set->root);
    if (!anything_registered(set))
        set->position = end;
    set->registered_at[device->index] = end;
    gpu_path(set->root, device->index, ".", path);
    inotify_add_watch(set->watch, path, IN_CREATE | IN_MOVED_TO | IN_DELETE);
    return SUCCESS;
}

/* The next event of a registered GPU; a line without its end is still being written. */
static bool next_event(nvmlEventSet_t set, nvmlEventData_t *data) {
    char path[MAX_PATH + 8], line[MAX_TEXT];
    bool found = false;
    snprintf(path, sizeof path, "%s/xids", set->root);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    fseek(file, set->position, SEEK_SET);
    while (!found && fgets(line, sizeof line, file) && strchr(line, '\n')) {
        int index;
        unsigned long long xid;
        long at = set->position;
        set->position += (long)strlen(line);
        if (sscanf(line, "%d %llu", &index, &xid) != 2 || index < 0 || index >= MAX_GPUS)
            continue;
        if (set->registered_at[index] < 0 || at < set->registered_at[index])
            continue;
        *data = (nvmlEventData_t){handle_of(index), EVENT_XID, xid, 0xFFFFFFFFU, 0xFFFFFFFFU};
        found = true;
    }
    fclose(file);
    return found;
}

static bool any_lost(nvmlEventSet_t set) {
    for (int i = 0; i < MAX_GPUS; i++)
        if (set->registered_at[i] >= 0 && gpu_has(set->root, i, "lost"))
            return true;
    return false;
}

static long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* "Every XID error event would return the associated event data" on Linux; GPU_IS_LOST "if a GPU has fallen off the
 * bus". stand-in: events that were there first are told first. */
int nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout) {
    char changes[4096];
    int state = set_valid(set);
    if (state)
        return state;
    if (!data)
        return INVALID_ARGUMENT;
    for (long end = milliseconds() + timeout;;) {
        while (read(set->watch, changes, sizeof changes) > 0)
            continue;
        if (next_event(set, data))
            return SUCCESS;
        if ((state = ready()))
            return state;
        if (any_lost(set))
            return GPU_IS_LOST;
        long left = end - milliseconds();
        if (left <= 0)
            return TIMEOUT;
        struct pollfd watched = {set->watch, POLLIN, 0};
        /* without inotify (its instances are few): look 20 times a second */
        poll(&watched, 1, set->watch < 0 && left > 50 ? 50 : (int)left);
    }
}
