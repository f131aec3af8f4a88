/* See cuda_protocol.h; what is said on the two sockets: cotenant_standin/driver.py and mps_daemon.py. */
#define _GNU_SOURCE
#include "cuda_protocol.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

volatile sig_atomic_t asked_to_end;

const char *setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

const char *standin_folder(void) {
    return setting("COTENANT_STANDIN", "/run/cotenant-standin");
}

int connected(const char *folder, const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof address.sun_path)
        return -1;
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection >= 0 && connect(connection, (struct sockaddr *)&address, sizeof address) == 0)
        return connection;
    if (connection >= 0)
        close(connection);
    return -1;
}

bool read_line(int connection, char *line, int milliseconds) {
    size_t length = 0;
    struct pollfd watched = {.fd = connection, .events = POLLIN};
    while (length < LINE - 1) {
        int ready = poll(&watched, 1, milliseconds);
        if (ready < 0 && errno == EINTR && !asked_to_end)
            continue;
        if (ready <= 0 || read(connection, line + length, 1) != 1)
            return false;
        if (line[length] == '\n')
            break;
        length++;
    }
    line[length] = 0;
    return true;
}

void say(int connection, const char *line) {
    if (send(connection, line, strlen(line), MSG_NOSIGNAL) < 0)
        return; /* the answer that does not come says it */
}

const char *answer(int connection, const char *request, char *line) {
    say(connection, request);
    return read_line(connection, line, -1) ? line : "silence";
}

const char *join_mps(struct context *context, char *line) {
    char status[16];
    context->connection = connected(setting("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"), "control");
    if (context->connection < 0)
        return "absent";
    snprintf(line, LINE, "client %s %s %s\n", setting("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "-"),
             setting("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "-"), setting("CUDA_MPS_CLIENT_PRIORITY", "-"));
    say(context->connection, line);
    if (!read_line(context->connection, line, -1))
        return "failed";
    if (sscanf(line, "%15s %15s %95s %15s %23s %7s", status, context->server, context->gpu,
               context->thread_percentage, context->memory_limit, context->priority) != 6)
        return strcmp(line, "ok") ? line : "failed";
    context->mps = true;
    return "ok";
}
