/* libberth-nest.so. A program that has threads in bt_runtime_init is started again with this library loaded before all others (LD_PRELOAD).
 * It maps the memory of the runtime at its address, lets all constructors run, and begins the nest in place of main. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "task/preload/begin.h"

typedef int main_function(int argc, char **argv, char **environment);
typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int __libc_start_main(main_function *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                               void (*rtld_fini)(void), void *stack_end);
/* libberth checks by this symbol that the program will call our __libc_start_main. */
EXPORTED extern start_function *const bti_nest_preloaded;
start_function *const bti_nest_preloaded = __libc_start_main;

static struct {
    int memory, pipe;
    uint64_t address, bytes, state;
    char library[4096];
    int is_nest;
} nest = {.memory = -1, .pipe = -1};

static _Noreturn void give_up(char why) {
    if (write(nest.pipe, &why, 1) < 0) _exit(2);
    _exit(1);
}

/* Removes what neither the program nor its workers should see. */
static void restore_environment(void) {
    const char *before = getenv(BTI_BEGIN_PRELOADED);
    if (before)
        setenv("LD_PRELOAD", before, 1);
    else
        unsetenv("LD_PRELOAD");
    unsetenv(BTI_BEGIN_PRELOADED);
    unsetenv(BTI_BEGIN_VARIABLE);
}

static void map_memory(void) {
    void *wanted = (void *)(uintptr_t)nest.address;
    void *memory = mmap(wanted, nest.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
                        nest.memory, 0);
    if (memory != wanted) give_up(BTI_BEGIN_TAKEN);
    madvise(memory, nest.bytes, MADV_DONTDUMP);
    close(nest.memory);
}

/* Runs before constructors of the program, though perhaps after those of libraries: if the address is not free and the program is started
 * once more, the program's constructors still run only once. */
__attribute__((constructor(101))) static void prepare(void) {
    const char *text = getenv(BTI_BEGIN_VARIABLE);
    int length = 0;
    if (!text || sscanf(text, BTI_BEGIN_FORMAT ",%n", &nest.memory, &nest.pipe, &nest.address, &nest.bytes, &nest.state,
                        &length) != 5)
        return;
    snprintf(nest.library, sizeof nest.library, "%s", text + length);
    nest.is_nest = 1;
    restore_environment();
    map_memory();
}

/* A program that opens libberth by dlopen has not opened it yet. */
static int begin_nest(int argc, char **argv, char **environment) {
    (void)argc;
    (void)argv;
    (void)environment;
    bti_begin_function *run = (bti_begin_function *)(uintptr_t)dlsym(RTLD_DEFAULT, BTI_BEGIN_ENTRY);
    void *library = run ? NULL : dlopen(nest.library, RTLD_NOW | RTLD_LOCAL);
    if (library) run = (bti_begin_function *)(uintptr_t)dlsym(library, BTI_BEGIN_ENTRY);
    if (run) run(nest.state, nest.pipe);
    return 1;
}

int __libc_start_main(main_function *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end) {
    start_function *next = (start_function *)(uintptr_t)dlsym(RTLD_NEXT, "__libc_start_main");
    if (!next) _exit(1);
    return next(nest.is_nest ? begin_nest : main, argc, argv, init, fini, rtld_fini, stack_end);
}
