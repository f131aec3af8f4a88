/*
 * A stand-in for libnvidia-ml.so.1: what NVIDIA's management library would say of the GPUs of a folder (state.py).
 *
 * The folder is read at every call; nothing of it is remembered but event sets. Only functions that nvidia-ml-py calls
 * for a node agent exist: any other is missing, as in an older driver (NVMLError_FunctionNotFound in Python).
 *
 * Behaviour follows https://docs.nvidia.com/deploy/nvml-api (the group is named at each function). Where that is silent
 * the choice is marked "stand-in:".
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nvml.h"

static const unsigned int FIELD_RECOVERY_ACTION = 230; /* NVML_FI_DEV_GET_GPU_RECOVERY_ACTION */

static int give_text(const char *text, char *result, unsigned int size) {
    if (strlen(text) + 1 > size)
        return INSUFFICIENT_SIZE;
    strcpy(result, text);
    return SUCCESS;
}

static int give_gpu_text(nvmlDevice_t device, const char *name, char *result, unsigned int size) {
    char text[MAX_TEXT];
    int state = ready_gpu(device, result);
    if (state)
        return state;
    return gpu_text(device->index, name, text, sizeof text) ? give_text(text, result, size) : NOT_SUPPORTED;
}

static int give_gpu_number(nvmlDevice_t device, const char *name, unsigned int *result) {
    uint64_t number;
    int state = ready_gpu(device, result);
    if (state)
        return state;
    if (!gpu_number(device->index, name, &number))
        return NOT_SUPPORTED;
    *result = (unsigned int)number;
    return SUCCESS;
}

/* ---- System Queries ---- */

int nvmlSystemGetDriverVersion(char *version, unsigned int size) {
    char text[MAX_TEXT];
    int state = ready();
    if (state)
        return state;
    if (!version)
        return INVALID_ARGUMENT;
    return read_root("driver_version", text, sizeof text) ? give_text(text, version, size) : UNKNOWN;
}

int nvmlSystemGetNVMLVersion(char *version, unsigned int size) { return nvmlSystemGetDriverVersion(version, size); }

/* Answers without nvmlInit too: the documentation lists no NVML_ERROR_UNINITIALIZED. */
int nvmlSystemGetCudaDriverVersion(int *version) {
    char text[MAX_TEXT];
    if (!version)
        return INVALID_ARGUMENT;
    if (!read_root("cuda_version", text, sizeof text))
        return UNKNOWN;
    *version = atoi(text);
    return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) { return nvmlSystemGetCudaDriverVersion(version); }

/* ---- Device Queries ---- */

int nvmlDeviceGetCount_v2(unsigned int *count) {
    int state = ready();
    if (state)
        return state;
    if (!count)
        return INVALID_ARGUMENT;
    *count = (unsigned int)count_gpus(); /* lost ones too: they answer NVML_ERROR_GPU_IS_LOST by index */
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    int state = ready();
    if (state)
        return state;
    if (!device || index >= (unsigned int)count_gpus())
        return INVALID_ARGUMENT;
    if (gpu_has(root(), (int)index, "lost"))
        return GPU_IS_LOST;
    *device = handle_of((int)index);
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    char text[MAX_TEXT];
    int state = ready(), count = count_gpus();
    if (state)
        return state;
    if (!uuid || !device)
        return INVALID_ARGUMENT;
    for (int index = 0; index < count; index++)
        if (gpu_text(index, "uuid", text, sizeof text) && !strcmp(text, uuid))
            return nvmlDeviceGetHandleByIndex_v2((unsigned int)index, device);
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int size) {
    return give_gpu_text(device, "uuid", uuid, size);
}

int nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int size) {
    return give_gpu_text(device, "name", name, size);
}

int nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
    int state = ready_gpu(device, index);
    if (!state)
        *index = (unsigned int)device->index;
    return state;
}

/* N of /dev/nvidiaN. */
int nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor) { return nvmlDeviceGetIndex(device, minor); }

int nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    int state = ready_gpu(device, pci);
    if (state)
        return state;
    unsigned int bus = (unsigned int)device->index + 1;
    memset(pci, 0, sizeof *pci);
    pci->bus = bus;
    pci->device_id = 0xFFFF10DE; /* NVIDIA's vendor ID; no such device */
    snprintf(pci->legacy, sizeof pci->legacy, "0000:%02X:00.0", bus & 0xFF);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", bus & 0xFF);
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    char text[MAX_TEXT];
    int state = ready_gpu(device, major);
    if (state)
        return state;
    if (!minor || !gpu_text(device->index, "compute_capability", text, sizeof text) ||
        sscanf(text, "%d.%d", major, minor) != 2)
        return UNKNOWN;
    return SUCCESS;
}

/* FP32 lanes per SM (CUDA C++ Programming Guide, "Compute Capabilities"): 64 in 6.0, 7.x and 8.0, else 128. */
int nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int *cores) {
    int major, minor, state = nvmlDeviceGetCudaComputeCapability(device, &major, &minor);
    if (!state)
        state = give_gpu_number(device, "sm_count", cores);
    if (!state)
        *cores *= major == 7 || (minor == 0 && (major == 6 || major == 8)) ? 64 : 128;
    return state;
}

/* "This API currently only supports MIG device handles", of which the stand-in has none. */
int nvmlDeviceGetAttributes_v2(nvmlDevice_t device, void *attributes) {
    int state = ready_gpu(device, attributes);
    return state ? state : NOT_SUPPORTED;
}

int nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    int state = give_gpu_number(device, "mig", current);
    if (!state && !pending)
        return INVALID_ARGUMENT;
    if (!state)
        *pending = *current;
    return state;
}

int nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode) {
    return give_gpu_number(device, "compute_mode", mode);
}

int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
    unsigned int percent = 0;
    if (!rates)
        return INVALID_ARGUMENT;
    int state = give_gpu_number(device, "utilization", &percent);
    if (!state) {
        rates->gpu = percent;
        rates->memory = percent / 2;
    }
    return state;
}

int nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable, unsigned int *uncorrectable,
                              unsigned int *pending, unsigned int *failed) {
    if (!correctable || !uncorrectable || !failed)
        return INVALID_ARGUMENT;
    int state = give_gpu_number(device, "remap_pending", pending);
    if (!state)
        state = give_gpu_number(device, "remap_failed", failed);
    if (!state) {
        *correctable = 0;
        *uncorrectable = *pending;
    }
    return state;
}

/* ---- Field Value Queries: success of the call says nothing of each field ---- */

int nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
    int state = ready_gpu(device, values);
    if (state)
        return state;
    for (int i = 0; i < count; i++) {
        uint64_t number = 0;
        bool told = values[i].field == FIELD_RECOVERY_ACTION && gpu_number(device->index, "recovery_action", &number);
        values[i].timestamp = (int64_t)time(NULL) * 1000000;
        values[i].latency_us = 0;
        values[i].type = 1; /* NVML_VALUE_TYPE_UNSIGNED_INT */
        values[i].result = told ? SUCCESS : NOT_SUPPORTED;
        values[i].value.number = (unsigned int)number;
    }
    return SUCCESS;
}

/* ---- Device Commands: "Requires root/admin permissions" ---- */

int nvmlDeviceSetComputeMode(nvmlDevice_t device, unsigned int mode) {
    char path[MAX_PATH], temporary[MAX_PATH];
    int state = ready_gpu(device, &mode);
    if (state)
        return state;
    if (mode != 0 && mode != 2 && mode != 3) /* exclusive thread, 1, was removed */
        return mode == 1 ? NOT_SUPPORTED : INVALID_ARGUMENT;
    if (gpu_has(root(), device->index, "denied"))
        return NO_PERMISSION;
    gpu_path(root(), device->index, "compute_mode", path);
    gpu_path(root(), device->index, ".compute_mode.nvml", temporary);
    FILE *file = fopen(temporary, "we");
    if (!file)
        return NO_PERMISSION;
    fprintf(file, "%u\n", mode);
    return fclose(file) == 0 && rename(temporary, path) == 0 ? SUCCESS : UNKNOWN;
}
