/* Preloaded into the test programs of `tests/chaos/run system`: a thread that starts another one, waits, wakes one, or
 * reads the clock through the C library may pause there for up to 80 ms, as if it was preempted on a machine with too
 * few cores. A test that fails because of this has assumed how fast a thread is, or the code has a window that is wide
 * only when cores are scarce. (Not covered: waits in epoll, and clocks that are read without the C library.)
 *
 * POSTROOM_CHAOS_SEED decides how often (one call of 8 to 256 that wait or wake), and for how long. After 400 pauses
 * there are no more, so that a program with very many such calls ends. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

static const int MOST_PAUSES = 400;
static const uint64_t LONGEST_NS = 80000000;

static _Atomic uint64_t drawn;
static _Atomic int pauses;
static uint64_t one_in;

typedef int Create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef long Syscall(long, ...);
typedef int GetTime(clockid_t, struct timespec *);

/* The functions that these replace. A program may call them before the constructor has run. */
static void *_Atomic create, *_Atomic call, *_Atomic get_time;

static void *found(void *_Atomic *function, const char *name) {
    if (!*function) *function = dlsym(RTLD_NEXT, name);
    return *function;
}

/* SplitMix64. */
static uint64_t draw(void) {
    uint64_t word = atomic_fetch_add(&drawn, 0x9E3779B97F4A7C15);
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
    return word ^ (word >> 31);
}

__attribute__((constructor)) static void begin(void) {
    const char *seed = getenv("POSTROOM_CHAOS_SEED");
    drawn = strtoull(seed ? seed : "0", NULL, 10) << 20;
    one_in = 8 << draw() % 6;
}

/* Pauses in one call of `calls`. Before the constructor has run, never. */
static void pause_in_one_of(uint64_t calls) {
    if (!calls || draw() % calls || atomic_fetch_add(&pauses, 1) >= MOST_PAUSES) return;
    struct timespec time = {0, draw() % LONGEST_NS};
    int error = errno;
    nanosleep(&time, NULL);
    errno = error;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    int result = ((Create *)found(&create, "pthread_create"))(thread, attributes, run, argument);
    pause_in_one_of(one_in / 4);
    return result;
}

/* The locks, condition variables and parks of the standard library. */
long syscall(long number, ...) {
    Syscall *next = (Syscall *)found(&call, "syscall");
    va_list rest;
    va_start(rest, number);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
    long d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
    if (number != SYS_futex) return next(number, a, b, c, d, e, f);
    pause_in_one_of(one_in);
    long result = next(number, a, b, c, d, e, f);
    pause_in_one_of(one_in);
    return result;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = ((GetTime *)found(&get_time, "clock_gettime"))(clock, time);
    pause_in_one_of(one_in * 64);
    return result;
}
