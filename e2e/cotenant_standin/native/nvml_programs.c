/*
 * What NVIDIA's own programs ask beside the node agent: nvidia-ctk and NVIDIA's device plugin look for MIG devices on
 * every GPU, the plugin for links between them. Both end where a function that they call is missing. The stand-in has
 * GPUs in MIG mode and no MIG device on them, and no link between any two GPUs.
 */
#include "nvml.h"

enum { TOPOLOGY_SYSTEM = 50 }; /* nvmlGpuTopologyLevel_t: all memory of the machine is between them */

/* 0 where MIG is not supported, or is off. */
int nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
    int state = ready_gpu(device, count);
    if (!state)
        *count = 0;
    return state;
}

int nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig) {
    int state = ready_gpu(device, is_mig);
    if (!state)
        *is_mig = 0;
    return state;
}

int nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, int *level) {
    int state = ready_gpu(one, level);
    if (!state)
        state = ready_gpu(other, level);
    if (!state)
        *level = TOPOLOGY_SYSTEM;
    return state;
}

int nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, unsigned int *active) {
    int state = ready_gpu(device, active);
    (void)link;
    return state ? state : NOT_SUPPORTED;
}
