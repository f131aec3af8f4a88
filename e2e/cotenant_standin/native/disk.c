/* A disk that hangs, to be loaded before the C library (LD_PRELOAD): fsync of a folder waits while it holds a file
 * named `hangs`. What was renamed there is what a reader finds already, and whoever wrote it does not know yet.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int hangs(int descriptor) {
    struct stat about;
    return fstat(descriptor, &about) == 0 && S_ISDIR(about.st_mode) && faccessat(descriptor, "hangs", F_OK, 0) == 0;
}

int fsync(int descriptor) {
    const struct timespec moment = {.tv_nsec = 5000000};
    while (hangs(descriptor))
        nanosleep(&moment, NULL);
    return (int)syscall(SYS_fsync, descriptor);
}
