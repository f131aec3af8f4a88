/* A stand-in for libcuda.so.1: the calls that `profiling.behaviour` makes, answered by the stand-in GPU of
 * e2e/cotenant_standin (its driver and its MPS control daemon), so that the very program that runs on a real GPU runs
 * without one. No figure from here says anything about a GPU.
 *
 * As documented of CUDA: a process connects to the MPS daemon in CUDA_MPS_PIPE_DIRECTORY, and if there is none it runs
 * on without MPS (nvidia-cuda-mps-control(1)). As an H200 under driver 580 does (e2e/gpu/results): SMs are parted two by
 * two; a context takes memory by its SMs, which counts against the limit; who shares a GPU with a fault gets its error.
 * Modelled: a step takes 3 ms of all SMs; who has computed once counts as busy; all else is not there, and the dynamic
 * linker says so.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_protocol.h"

enum { MAX_BUFFERS = 4096, WORK = 1, FAULT = 2 };
enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, DEVICE_UNAVAILABLE = 46, NO_DEVICE = 100,
    ILLEGAL_ADDRESS = 700, MPS_CONNECTION_FAILED = 805, MPS_RPC_FAILURE = 806,
    MPS_SERVER_NOT_READY = 807, MPS_MAX_CLIENTS_REACHED = 808, MPS_CLIENT_TERMINATED = 810
};
static const uint64_t MIB = 1024 * 1024;
static const double CONTEXT_MIB = 28, CONTEXT_MIB_PER_SM = 3.68; /* 72 MiB at 12 SMs, 514 at 132 */
static const double STEP_SECONDS = 0.003;

static struct {
    struct context context;
    int sticky;
    bool initialized;
    double thread_percentage;
    int64_t limit_mib;
    int priority, index;
    uint64_t held[MAX_BUFFERS];
    int buffers, launched, contexts;
    bool busy;
} self = {.context = {.connection = -1}, .thread_percentage = 100, .limit_mib = -1};

static int meaning(const char *word) {
    static const struct {
        const char *word;
        int code;
    } words[] = {{"ok", SUCCESS},
                 {"oom", OUT_OF_MEMORY},
                 {"busy", DEVICE_UNAVAILABLE},
                 {"fault", ILLEGAL_ADDRESS},
                 {"terminated", MPS_CLIENT_TERMINATED},
                 {"not-ready", MPS_SERVER_NOT_READY},
                 {"max-clients", MPS_MAX_CLIENTS_REACHED},
                 {"failed", MPS_CONNECTION_FAILED}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].word, word))
            return words[i].code;
    return NO_DEVICE;
}

/* The answer to a request; a fault or an end that was told meanwhile stays for ever. */
static int answered(const char *request) {
    char line[LINE];
    if (self.sticky)
        return self.sticky;
    say(self.context.connection, request);
    if (!read_line(self.context.connection, line, -1))
        return self.sticky = MPS_RPC_FAILURE;
    int code = meaning(line);
    if (code == ILLEGAL_ADDRESS || code == MPS_CLIENT_TERMINATED)
        self.sticky = code;
    return code;
}

/* What was told without being asked. */
static int told(void) {
    char line[LINE];
    struct pollfd watched = {.fd = self.context.connection, .events = POLLIN};
    while (!self.sticky && poll(&watched, 1, 0) > 0)
        self.sticky = read_line(self.context.connection, line, -1) ? meaning(line) : MPS_RPC_FAILURE;
    return self.sticky;
}

static bool gpu_text(int index, const char *name, char *text) {
    char path[LINE];
    snprintf(path, sizeof path, "%s/gpus/%d/%s", standin_folder(), index, name);
    FILE *file = fopen(path, "re");
    bool found = file && fscanf(file, "%95[^\n]", text) == 1;
    if (file)
        fclose(file);
    return found;
}

static long gpu_number(const char *name) {
    char text[96] = "0";
    gpu_text(self.index, name, text);
    return strtol(text, NULL, 10);
}

/* CUDA_VISIBLE_DEVICES names the first GPU by UUID or by index. */
static int find_gpu(void) {
    const char *visible = setting("CUDA_VISIBLE_DEVICES", "0");
    for (int index = 0; gpu_text(index, "uuid", self.context.gpu); index++)
        if (!strncmp(visible, self.context.gpu, strlen(self.context.gpu)) || (*visible != 'G' && atoi(visible) == index)) {
            self.index = index;
            return SUCCESS;
        }
    return NO_DEVICE;
}

static void take_limits(void) {
    char uuid[96];
    self.thread_percentage = atof(self.context.thread_percentage);
    self.limit_mib = strcmp(self.context.memory_limit, "-") ? atol(self.context.memory_limit) : -1;
    self.priority = atoi(self.context.priority);
    for (int index = 0; gpu_text(index, "uuid", uuid); index++)
        if (!strcmp(uuid, self.context.gpu))
            self.index = index;
}

static int open_directly(void) {
    char line[LINE];
    int state = find_gpu();
    self.context.connection = state ? -1 : connected(standin_folder(), "driver.sock");
    if (self.context.connection < 0)
        return NO_DEVICE;
    snprintf(line, sizeof line, "open %s 0\n", self.context.gpu);
    return answered(line);
}

int cuInit(unsigned int flags) {
    if (flags)
        return INVALID_VALUE;
    if (self.initialized)
        return SUCCESS;
    char line[LINE];
    const char *word = join_mps(&self.context, line);
    int state = strcmp(word, "absent") ? meaning(word) : open_directly();
    self.initialized = state == SUCCESS;
    if (self.context.mps)
        take_limits();
    return state;
}

__attribute__((destructor)) static void leave(void) {
    if (self.context.mps && !self.sticky)
        say(self.context.connection, "bye\n");
}

static int ready(void) { return self.initialized ? told() : NOT_INITIALIZED; }

int cuDeviceGet(int *device, int ordinal) {
    *device = 0;
    return ordinal ? INVALID_VALUE : ready();
}

static int multiprocessors(void) {
    int count = (int)((double)gpu_number("sm_count") * self.thread_percentage / 100) & ~1;
    return count > 0 ? count : 2;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = multiprocessors();
    return attribute == 16 && !device ? ready() : INVALID_VALUE; /* MULTIPROCESSOR_COUNT */
}

static uint64_t held_bytes(void) {
    uint64_t sum = (uint64_t)self.contexts * (uint64_t)(CONTEXT_MIB + CONTEXT_MIB_PER_SM * multiprocessors()) * MIB;
    for (int i = 0; i < self.buffers; i++)
        sum += self.held[i];
    return sum;
}

static int hold(void) {
    char line[LINE];
    snprintf(line, sizeof line, "memory %llu\n", (unsigned long long)(held_bytes() / MIB));
    return answered(line);
}

static int new_context(void **context) {
    int state = ready();
    *context = &self;
    if (state)
        return state;
    self.contexts++;
    if ((state = hold()))
        self.contexts--;
    return state;
}

int cuDevicePrimaryCtxRetain(void **context, int device) { return device ? INVALID_VALUE : new_context(context); }

int cuCtxCreate_v2(void **context, unsigned int flags, int device) {
    return flags || device ? INVALID_VALUE : new_context(context);
}

int cuCtxDestroy_v2(void *context) { return context == &self ? ready() : INVALID_VALUE; }
int cuCtxSetCurrent(void *context) { return context == &self ? ready() : INVALID_VALUE; }

int cuCtxGetExecAffinity(int *affinity, int type) {
    affinity[0] = type;
    affinity[1] = multiprocessors();
    return type ? INVALID_VALUE : ready();
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -5; /* whatever the client's priority is */
    return ready();
}

/* An address is the buffer's number beyond 4 GiB. */
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    int state = ready();
    if (state)
        return state;
    if (!bytes || self.buffers == MAX_BUFFERS)
        return INVALID_VALUE;
    self.held[self.buffers++] = bytes;
    if ((state = hold())) {
        self.buffers--;
        return state;
    }
    *address = ((uint64_t)1 << 32) + (uint64_t)self.buffers - 1;
    return SUCCESS;
}

int cuMemGetInfo_v2(size_t *free, size_t *total) {
    *total = (uint64_t)gpu_number("memory_mib") * MIB;
    *free = *total - held_bytes();
    if (self.limit_mib >= 0 && *free > (uint64_t)self.limit_mib * MIB - held_bytes())
        *free = (uint64_t)self.limit_mib * MIB - held_bytes();
    return ready();
}

int cuMemsetD32_v2(uint64_t address, unsigned int value, size_t count) {
    (void)address, (void)value, (void)count;
    return ready();
}

int cuModuleLoadData(void **module, const void *image) {
    *module = &self;
    return image ? ready() : INVALID_VALUE;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = (void *)(intptr_t)(strcmp(name, "fault") ? WORK : FAULT);
    return module == &self ? ready() : INVALID_VALUE;
}

int cuLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                   unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, void *stream,
                   void **parameters, void **extra) {
    (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z, (void)shared_bytes;
    (void)stream, (void)parameters, (void)extra;
    int state = ready();
    self.launched = (int)(intptr_t)function;
    if (!state && self.context.mps && !self.busy) /* said once: told again, it might cross with the client's own end */
        say(self.context.connection, "busy\n");
    self.busy = true;
    return state;
}

static int crashed(void) {
    char line[LINE] = "fault\n";
    if (!self.context.mps)
        snprintf(line, sizeof line, "xid %s 31\n", self.context.gpu);
    say(self.context.connection, line);
    read_line(self.context.connection, line, -1);
    return self.sticky = ILLEGAL_ADDRESS;
}

int cuCtxSynchronize(void) {
    int state = ready(), launched = self.launched;
    self.launched = 0;
    if (state || !launched)
        return state;
    if (launched == FAULT)
        return crashed();
    double seconds = STEP_SECONDS * 100 / self.thread_percentage;
    struct timespec pause = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&pause, NULL);
    return told();
}

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {MPS_CONNECTION_FAILED, "CUDA_ERROR_MPS_CONNECTION_FAILED", "MPS client failed to connect to the MPS daemon"},
    {MPS_RPC_FAILURE, "CUDA_ERROR_MPS_RPC_FAILURE", "the remote procedural call between MPS server and client failed"},
    {MPS_SERVER_NOT_READY, "CUDA_ERROR_MPS_SERVER_NOT_READY", "MPS server is not ready to accept new MPS client"},
    {MPS_MAX_CLIENTS_REACHED, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "no resources for a new MPS client"},
    {MPS_CLIENT_TERMINATED, "CUDA_ERROR_MPS_CLIENT_TERMINATED", "the MPS client has been terminated by the server"},
};

static int describe(int code, const char **text, bool name) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) {
            *text = name ? errors[i].name : errors[i].text;
            return SUCCESS;
        }
    *text = NULL;
    return INVALID_VALUE;
}

int cuGetErrorName(int code, const char **text) { return describe(code, text, true); }
int cuGetErrorString(int code, const char **text) { return describe(code, text, false); }
