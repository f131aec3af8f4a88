/* Processes and memory of a GPU: see nvml.c. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml.h"

static const uint64_t MIB = 1024 * 1024;
static const unsigned int ANY_INSTANCE = 0xFFFFFFFFU;

static unsigned int list_processes(int index, const char *kind, nvmlProcessInfo_t *infos, unsigned int room) {
    char folder[MAX_PATH], path[MAX_PATH + 300], text[MAX_TEXT];
    unsigned int found = 0;
    gpu_path(root(), index, kind, folder);
    DIR *directory = opendir(folder);
    if (!directory)
        return 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        char *end;
        unsigned long pid = strtoul(entry->d_name, &end, 10);
        if (end == entry->d_name || *end)
            continue; /* a value being written */
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (!read_text(path, text, sizeof text))
            continue; /* it ended between the listing and the reading */
        if (found < room)
            infos[found] = (nvmlProcessInfo_t){(unsigned int)pid, strtoull(text, NULL, 10) * MIB, ANY_INSTANCE,
                                               ANY_INSTANCE};
        found++;
    }
    closedir(directory);
    return found;
}

/* Too small a table: NVML_ERROR_INSUFFICIENT_SIZE and the count that there are. */
static int give_processes(nvmlDevice_t device, const char *kind, unsigned int *count, nvmlProcessInfo_t *infos) {
    int state = ready_gpu(device, count);
    if (state)
        return state;
    unsigned int room = infos ? *count : 0, found = list_processes(device->index, kind, infos, room);
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos) {
    return give_processes(device, "processes", count, infos);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos) {
    return give_processes(device, "mps_processes", count, infos);
}

/* stand-in: memory in use is what its processes hold; one in both lists counts once, with the larger figure. */
static uint64_t used_bytes(int index) {
    enum { ROOM = 1024 };
    static __thread nvmlProcessInfo_t own[ROOM], shared[ROOM];
    unsigned int own_count = list_processes(index, "processes", own, ROOM);
    unsigned int shared_count = list_processes(index, "mps_processes", shared, ROOM);
    uint64_t sum = 0;
    for (unsigned int i = 0; i < own_count && i < ROOM; i++)
        sum += own[i].used;
    for (unsigned int i = 0; i < shared_count && i < ROOM; i++) {
        uint64_t counted = 0;
        for (unsigned int j = 0; j < own_count && j < ROOM; j++)
            if (own[j].pid == shared[i].pid)
                counted = own[j].used;
        sum += shared[i].used > counted ? shared[i].used - counted : 0;
    }
    return sum;
}

static int give_memory(nvmlDevice_t device, const void *result, uint64_t *total, uint64_t *used) {
    int state = ready_gpu(device, result);
    if (state)
        return state;
    if (!gpu_number(device->index, "memory_mib", total))
        return NOT_SUPPORTED;
    *total *= MIB;
    *used = used_bytes(device->index);
    *used = *used > *total ? *total : *used;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    uint64_t total, used;
    int state = give_memory(device, memory, &total, &used);
    if (!state)
        *memory = (nvmlMemory_t){total, total - used, used};
    return state;
}

int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    uint64_t total, used;
    int state = give_memory(device, memory, &total, &used);
    if (!state && memory->version != (sizeof *memory | 2U << 24))
        return ARGUMENT_VERSION_MISMATCH;
    if (!state)
        *memory = (nvmlMemory_v2_t){memory->version, total, 0, total - used, used};
    return state;
}
