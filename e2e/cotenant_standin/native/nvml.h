/* What the parts of the stand-in for libnvidia-ml.so.1 share: NVML's types as far as they are needed, and the folder. */
#ifndef COTENANT_STANDIN_NVML_H
#define COTENANT_STANDIN_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* nvmlReturn_t */
enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, FUNCTION_NOT_FOUND = 13, GPU_IS_LOST = 15,
    ARGUMENT_VERSION_MISMATCH = 25, UNKNOWN = 999
};

enum { MAX_GPUS = 64, MAX_PATH = 4096, MAX_TEXT = 256 };

typedef struct { int index; } *nvmlDevice_t;
typedef struct { uint64_t total, free, used; } nvmlMemory_t;
typedef struct { unsigned int version; uint64_t total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned int gpu, memory; } nvmlUtilization_t;
typedef struct { unsigned int pid; uint64_t used; unsigned int gpu_instance, compute_instance; } nvmlProcessInfo_t;
typedef struct {
    char legacy[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} nvmlPciInfo_t;
typedef struct {
    unsigned int field, scope;
    int64_t timestamp, latency_us;
    unsigned int type;
    int result;
    union { double real; unsigned int number; uint64_t wide; } value;
} nvmlFieldValue_t;

#pragma GCC visibility push(hidden)

/* The folder of this call: $COTENANT_STANDIN. */
const char *root(void);
bool read_text(const char *path, char *text, size_t size);
bool read_root(const char *name, char *text, size_t size);
void gpu_path(const char *folder, int index, const char *name, char *path);
bool gpu_has(const char *folder, int index, const char *name);
bool gpu_text(int index, const char *name, char *text, size_t size);
bool gpu_number(int index, const char *name, uint64_t *number);
int count_gpus(void);

/* 0, or why no call can be answered now. */
int ready(void);
/* The same for one GPU; `result` may not be null. */
int ready_gpu(nvmlDevice_t device, const void *result);
/* The handle of a GPU: the same in every call. */
nvmlDevice_t handle_of(int index);

#pragma GCC visibility pop

#endif
