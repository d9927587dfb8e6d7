/* Preloaded into every program that tests/sanitizers/run starts under ThreadSanitizer.
 *
 * Mio registers a socket with a duplicate of its epoll's descriptor, and waits with the original. The sanitizer knows
 * that a registration happens before the wait that it ends, and that descriptors made by `dup` are one; but it does not
 * know `fcntl(F_DUPFD_CLOEXEC)`, with which the standard library duplicates. So it reports Tokio's record of a socket,
 * whose address goes through the kernel, as memory that one thread writes and another reads without synchronization.
 * This file makes the duplicate with `dup`. (A suppression of those reports would hide our own races: wakers run in the
 * same functions of Tokio.)
 *
 * The lowest number that the caller asks for is ignored: the standard library asks for 3, and 0 to 2 are open. Between
 * the two calls, a program that another test starts can inherit the copy, which keeps a socket open until that program
 * ends. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

int fcntl(int descriptor, int command, ...) {
    static int (*next)(int, int, ...);
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (!next) next = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl");
    if (command != F_DUPFD_CLOEXEC) return next(descriptor, command, argument);
    int copy = dup(descriptor);
    if (copy >= 0) next(copy, F_SETFD, FD_CLOEXEC);
    return copy;
}
