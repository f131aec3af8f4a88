/* What the stand-in's CUDA program and its libcuda.so.1 share: how both talk to the driver and to an MPS daemon. */
#ifndef COTENANT_STANDIN_CUDA_PROTOCOL_H
#define COTENANT_STANDIN_CUDA_PROTOCOL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

enum { LINE = 512, PATH = 256, MOST_GPUS = 64 };

struct context {
    int connection;
    bool mps;
    char gpu[96], thread_percentage[16], memory_limit[24], priority[8], server[16];
};

#pragma GCC visibility push(hidden)

/* Set by whoever is told to end: waiting for an answer then ends. */
extern volatile sig_atomic_t asked_to_end;

/* An environment variable; one that is empty counts as absent. */
const char *setting(const char *name, const char *otherwise);
/* $COTENANT_STANDIN. */
const char *standin_folder(void);
/* A connection to the socket of this name; -1: nobody listens. */
int connected(const char *folder, const char *name);
/* The next line, without its end; false: the other side is gone, or was silent for so long (-1: for ever). */
bool read_line(int connection, char *line, int milliseconds);
void say(int connection, const char *line);
/* The answer to a request into `line`, of LINE bytes; "silence": the other side is gone. */
const char *answer(int connection, const char *request, char *line);
/* Become a client of the daemon in CUDA_MPS_PIPE_DIRECTORY, waiting for its server as long as it takes; "absent": there
 * is no daemon, and CUDA runs on without. Else the daemon's word, in `line`: "ok" alone means that `context` is set. */
const char *join_mps(struct context *context, char *line);

#pragma GCC visibility pop

#endif
