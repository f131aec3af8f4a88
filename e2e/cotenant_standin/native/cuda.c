/* A stand-in for libcuda.so.1: as much of CUDA's driver API as a program needs that writes memory and reads it back.
 *
 * Like CUDA it becomes an MPS client where a daemon listens in CUDA_MPS_PIPE_DIRECTORY, and runs on without MPS where
 * none does. Functions and errors: https://docs.nvidia.com/cuda/cuda-driver-api. One device, one context, one
 * allocation at a time; memory is the process's own, and the driver (or the MPS server) is told how much it is.
 *
 * Faults for tests, files of a GPU in the stand-in's folder: `cuda_fails` (the number that cuMemsetD8 returns),
 * `cuda_forgets` (what is read back is not what was written), `cuda_hangs` (cuCtxSynchronize does not return).
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_protocol.h"

/* CUresult */
enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, DEVICE_UNAVAILABLE = 46, NO_DEVICE = 100,
    INVALID_DEVICE = 101, INVALID_CONTEXT = 201, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719, MPS_CONNECTION_FAILED = 805,
    MPS_RPC_FAILURE = 806, MPS_SERVER_NOT_READY = 807, MPS_MAX_CLIENTS_REACHED = 808, MPS_CLIENT_TERMINATED = 810
};
enum { ATTRIBUTE_MPS_ENABLED = 133 }; /* CU_DEVICE_ATTRIBUTE_MPS_ENABLED */

static const struct {
    int number;
    const char *name, *word;
} ERRORS[] = {
    {SUCCESS, "CUDA_SUCCESS", "ok"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", NULL},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "oom"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", NULL},
    {DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "busy"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "none"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", NULL},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", NULL},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "fault"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", NULL},
    {MPS_CONNECTION_FAILED, "CUDA_ERROR_MPS_CONNECTION_FAILED", "failed"},
    {MPS_RPC_FAILURE, "CUDA_ERROR_MPS_RPC_FAILURE", "silence"},
    {MPS_SERVER_NOT_READY, "CUDA_ERROR_MPS_SERVER_NOT_READY", "not-ready"},
    {MPS_MAX_CLIENTS_REACHED, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "max-clients"},
    {MPS_CLIENT_TERMINATED, "CUDA_ERROR_MPS_CLIENT_TERMINATED", "terminated"},
};
enum { COUNT = sizeof ERRORS / sizeof ERRORS[0] };

static struct context context = {.connection = -1};
static bool initialised, made;
static uint8_t *memory;
static size_t memory_size;

static int number_of(const char *word) {
    for (int at = 0; at < COUNT; at++)
        if (ERRORS[at].word && !strcmp(ERRORS[at].word, word))
            return ERRORS[at].number;
    return NO_DEVICE;
}

static int hold(size_t bytes) {
    char request[64], line[LINE];
    snprintf(request, sizeof request, "memory %zu\n", (bytes + (1 << 20) - 1) >> 20);
    return number_of(answer(context.connection, request, line));
}

/* A file of the GPU in the stand-in's folder: its number, 0 without one; `exists` may be null. */
static int fault(const char *name, bool *exists) {
    char path[PATH], uuid[96];
    for (int index = 0; index < MOST_GPUS; index++) {
        snprintf(path, sizeof path, "%s/gpus/%d/uuid", standin_folder(), index);
        FILE *file = fopen(path, "re");
        if (!file)
            return 0;
        bool same = fscanf(file, "%95s", uuid) == 1 && !strcmp(uuid, context.gpu);
        fclose(file);
        if (!same)
            continue;
        snprintf(path, sizeof path, "%s/gpus/%d/%s", standin_folder(), index, name);
        int number = 0;
        file = fopen(path, "re");
        if (exists)
            *exists = file != NULL;
        if (file) {
            if (fscanf(file, "%d", &number) != 1)
                number = 0;
            fclose(file);
        }
        return number;
    }
    return 0;
}

int cuGetErrorName(int error, const char **name) {
    for (int at = 0; at < COUNT; at++)
        if (ERRORS[at].number == error) {
            *name = ERRORS[at].name;
            return SUCCESS;
        }
    *name = NULL;
    return INVALID_VALUE;
}

/* The device without MPS: the first that CUDA_VISIBLE_DEVICES names, by UUID. */
int cuInit(unsigned int flags) {
    char line[LINE];
    if (flags)
        return INVALID_VALUE;
    if (initialised)
        return SUCCESS;
    const char *word = join_mps(&context, line), *visible = setting("CUDA_VISIBLE_DEVICES", "");
    if (strcmp(word, "absent")) {
        if (number_of(word) != SUCCESS)
            return number_of(word);
    } else {
        context.connection = connected(standin_folder(), "driver.sock");
        if (context.connection < 0 || !*visible)
            return NO_DEVICE;
        snprintf(context.gpu, sizeof context.gpu, "%.*s", (int)strcspn(visible, ","), visible);
    }
    initialised = true;
    return SUCCESS;
}

int cuDeviceGetCount(int *count) {
    *count = initialised;
    return initialised ? SUCCESS : NOT_INITIALIZED;
}

int cuDeviceGet(int *device, int ordinal) {
    *device = 0;
    if (!initialised)
        return NOT_INITIALIZED;
    return ordinal == 0 ? SUCCESS : INVALID_DEVICE;
}

int cuDeviceGetUuid_v2(uint8_t *uuid, int device) {
    const char *digit = strchr(context.gpu, '-');
    unsigned int byte;
    if (device || !digit)
        return INVALID_DEVICE;
    for (int at = 0; at < 16; at++) {
        digit += *digit == '-';
        if (sscanf(digit, "%2x", &byte) != 1)
            return INVALID_DEVICE;
        uuid[at] = (uint8_t)byte;
        digit += 2;
    }
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    if (device)
        return INVALID_DEVICE;
    *value = context.mps;
    return attribute == ATTRIBUTE_MPS_ENABLED ? SUCCESS : INVALID_VALUE;
}

int cuCtxCreate_v2(void **made_context, unsigned int flags, int device) {
    char request[LINE], line[LINE];
    if (flags || device)
        return INVALID_VALUE;
    snprintf(request, sizeof request, "open %s 1\n", context.gpu);
    int error = context.mps ? hold(1) : number_of(answer(context.connection, request, line));
    made = error == SUCCESS;
    *made_context = &context;
    return error;
}

int cuMemAlloc_v2(uint64_t *address, size_t size) {
    if (!made)
        return INVALID_CONTEXT;
    int error = memory || !size ? INVALID_VALUE : hold(size + (1 << 20));
    if (error)
        return error;
    memory = calloc(size, 1);
    memory_size = size;
    *address = (uint64_t)(uintptr_t)memory;
    return memory ? SUCCESS : OUT_OF_MEMORY;
}

int cuMemsetD8_v2(uint64_t address, unsigned char value, size_t count) {
    int error = fault("cuda_fails", NULL);
    if (error)
        return error;
    if (address != (uint64_t)(uintptr_t)memory || count > memory_size)
        return INVALID_VALUE;
    memset(memory, value, count);
    return SUCCESS;
}

int cuCtxSynchronize(void) {
    bool hangs = false;
    for (fault("cuda_hangs", &hangs); hangs; fault("cuda_hangs", &hangs))
        usleep(10000);
    return made ? SUCCESS : INVALID_CONTEXT;
}

int cuMemcpyDtoH_v2(void *to, uint64_t address, size_t count) {
    bool forgets = false;
    if (address != (uint64_t)(uintptr_t)memory || count > memory_size)
        return INVALID_VALUE;
    memcpy(to, memory, count);
    fault("cuda_forgets", &forgets);
    if (forgets)
        memset((uint8_t *)to + count / 2, 0, 1);
    return SUCCESS;
}

int cuMemFree_v2(uint64_t address) {
    if (address != (uint64_t)(uintptr_t)memory)
        return INVALID_VALUE;
    free(memory);
    memory = NULL;
    return hold(1);
}

int cuCtxDestroy_v2(void *destroyed) {
    if (destroyed != &context || !made)
        return INVALID_CONTEXT;
    made = false;
    if (context.mps)
        say(context.connection, "bye\n");
    close(context.connection);
    return SUCCESS;
}
