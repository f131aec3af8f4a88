/* A stand-in for a CUDA program: opens a GPU as the driver would, says in one line of JSON what it really has, holds it.
 *
 * As documented of CUDA: a process connects to the MPS daemon in CUDA_MPS_PIPE_DIRECTORY, and if there is none it runs
 * on without MPS and without any limit (nvidia-cuda-mps-control(1)): then only the compute mode stands in its way.
 * Errors are those of CUDA and PyTorch, on stderr and in /dev/termination-log. --crash: after the time of --hold it does
 * what is fatal to every client of its GPU, unless it was told to end before.
 *
 *   cuda_client [--memory MIB] [--hold SECONDS] [--busy] [--crash] [--ignore-faults] [--ignore-term]
 *
 * COTENANT_STANDIN: the stand-in's folder. COTENANT_STANDIN_GPU: UUIDs of the GPUs that this process sees, by commas;
 * absent: as with a real driver those whose device /dev/nvidiaN it has, and where it has none all of the folder.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda_protocol.h"

struct options {
    long memory_mib;
    double hold_seconds;
    bool busy, crash, ignore_faults, ignore_term;
};

static void on_term(int number) {
    (void)number;
    asked_to_end = 1;
}

static void fail(const char *text) {
    fprintf(stderr, "%s (stand-in)\n", text);
    int log = open("/dev/termination-log", O_WRONLY | O_TRUNC);
    if (log >= 0) {
        dprintf(log, "%s (stand-in)\n", text);
        close(log);
    }
    exit(1);
}

static void obey(const char *word) {
    if (!strcmp(word, "fault"))
        fail("CUDA error: an illegal memory access was encountered (an MPS client of this GPU had a fatal fault)");
    if (!strcmp(word, "terminated"))
        fail("CUDA error: CUDA_ERROR_MPS_CLIENT_TERMINATED: the MPS client has been terminated by the server");
    if (!strcmp(word, "busy"))
        fail("CUDA error: all CUDA-capable devices are busy or unavailable");
    if (!strcmp(word, "oom"))
        fail("torch.cuda.OutOfMemoryError: CUDA out of memory");
    if (!strcmp(word, "not-ready"))
        fail("CUDA error: CUDA_ERROR_MPS_SERVER_NOT_READY: the MPS server is not ready to accept new client requests");
    if (!strcmp(word, "max-clients"))
        fail("CUDA error: CUDA_ERROR_MPS_MAX_CLIENTS_REACHED: no resources for a further MPS client");
    if (!strcmp(word, "failed"))
        fail("CUDA error: CUDA_ERROR_MPS_CONNECTION_FAILED: the MPS server could not be started");
    if (!strcmp(word, "lost"))
        fail("CUDA error: the GPU is lost");
    if (strcmp(word, "ok"))
        fail("CUDA error: no CUDA-capable device is detected");
}

static void ask(int connection, const char *request) {
    char line[LINE];
    const char *word = answer(connection, request, line);
    if (!strcmp(word, "silence"))
        fail("CUDA error: CUDA_ERROR_MPS_RPC_FAILURE: the connection to the server was lost");
    obey(word);
}

/* Device 0 of what this process sees. */
static void first_gpu(const char *folder, char *gpu, size_t room) {
    const char *visible = getenv("COTENANT_STANDIN_GPU");
    if (visible) {
        snprintf(gpu, room, "%.*s", (int)strcspn(visible, ","), visible);
        return;
    }
    char path[PATH];
    int index = 0;
    for (int number = 0; number < MOST_GPUS; number++) {
        snprintf(path, sizeof path, "/dev/nvidia%d", number);
        if (!access(path, F_OK)) {
            index = number;
            break;
        }
    }
    snprintf(path, sizeof path, "%s/gpus/%d/uuid", folder, index);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%95s", gpu) != 1)
        fail("CUDA error: no CUDA-capable device is detected");
    fclose(file);
}

/* False: there is no daemon. A server may be another user's for now: then this waits, or until it is told to end. */
static bool open_mps(struct context *context) {
    char line[LINE];
    const char *word = join_mps(context, line);
    if (!strcmp(word, "absent"))
        return false;
    if (asked_to_end && !strcmp(word, "failed"))
        exit(0);
    obey(word);
    if (!strcmp(context->memory_limit, "-"))
        strcpy(context->memory_limit, "null");
    return true;
}

static void open_directly(struct context *context, const char *folder) {
    char line[LINE];
    context->connection = connected(folder, "driver.sock");
    if (context->connection < 0)
        fail("CUDA error: no CUDA-capable device is detected");
    first_gpu(folder, context->gpu, sizeof context->gpu);
    snprintf(line, sizeof line, "open %s 0\n", context->gpu);
    ask(context->connection, line);
    strcpy(context->thread_percentage, "100");
    strcpy(context->memory_limit, "null");
    strcpy(context->priority, "0");
    strcpy(context->server, "null");
}

static void report(const struct context *context, const struct options *options) {
    printf("{\"standin\": true, \"gpu\": \"%s\", \"mps\": %s, \"server\": %s, \"threadPercentage\": %s, "
           "\"memoryLimitMiB\": %s, \"clientPriority\": %s, \"memoryMiB\": %ld, \"pid\": %d}\n",
           context->gpu, context->mps ? "true" : "false", context->server, context->thread_percentage,
           context->memory_limit, context->priority, options->memory_mib, (int)getpid());
    fflush(stdout);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void hold(struct context *context, const struct options *options) {
    char line[LINE];
    double end = now() + options->hold_seconds;
    while (!asked_to_end && now() < end) {
        struct pollfd watched = {.fd = context->connection, .events = POLLIN};
        if (poll(&watched, 1, (int)(1000 * (end - now())) + 1) <= 0)
            continue;
        if (read_line(context->connection, line, 1000)) {
            if (!options->ignore_faults)
                obey(line);
            continue;
        }
        if (!options->ignore_faults)
            fail("CUDA error: CUDA_ERROR_MPS_RPC_FAILURE: the connection to the server was lost");
        close(context->connection);
        context->connection = -1; /* poll ignores it: the process stays, without a GPU */
    }
}

static void leave(const struct context *context) {
    if (context->mps && context->connection >= 0)
        say(context->connection, "bye\n");
}

static void crash(const struct context *context) {
    char line[LINE] = "fault\n";
    if (!context->mps)
        snprintf(line, sizeof line, "xid %s 31\n", context->gpu);
    say(context->connection, line);
    read_line(context->connection, line, 1000);
    fail("CUDA error: an illegal memory access was encountered");
}

static struct options parsed(int count, char **words) {
    struct options options = {.memory_mib = 100};
    for (int at = 1; at < count; at++) {
        bool more = at + 1 < count;
        if (!strcmp(words[at], "--memory") && more)
            options.memory_mib = strtol(words[++at], NULL, 10);
        else if (!strcmp(words[at], "--hold") && more)
            options.hold_seconds = strtod(words[++at], NULL);
        else if (!strcmp(words[at], "--busy"))
            options.busy = true;
        else if (!strcmp(words[at], "--crash"))
            options.crash = true;
        else if (!strcmp(words[at], "--ignore-faults"))
            options.ignore_faults = true;
        else if (!strcmp(words[at], "--ignore-term"))
            options.ignore_term = true;
        else {
            fprintf(stderr, "cuda_client: unknown argument %s\n", words[at]);
            exit(2);
        }
    }
    return options;
}

int main(int count, char **words) {
    struct options options = parsed(count, words);
    struct context context = {.connection = -1};
    struct sigaction action = {.sa_handler = options.ignore_term ? SIG_IGN : on_term};
    sigaction(SIGTERM, &action, NULL);
    if (!open_mps(&context))
        open_directly(&context, standin_folder());
    char line[LINE];
    snprintf(line, sizeof line, "memory %ld\n", options.memory_mib);
    ask(context.connection, line);
    if (context.mps && options.busy)
        say(context.connection, "busy\n");
    report(&context, &options);
    hold(&context, &options);
    if (options.crash && !asked_to_end)
        crash(&context);
    leave(&context);
    return 0;
}
