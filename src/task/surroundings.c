#include "task/surroundings.h"

#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "task/state.h"

static struct {
    char folder[PATH_MAX];
    mode_t umask;
    char **names; /* the environment, ended by NULL; NULL: not kept */
    bool kept;
} before;

static char **copy_names(char **names) {
    size_t count = 0;
    while (names && names[count]) count++;
    char **copy = bti_calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy && i < count; i++) copy[i] = names[i];
    return copy;
}

void bti_surroundings_keep(void) {
    umask(before.umask = umask(022));
    if (!getcwd(before.folder, sizeof before.folder)) before.folder[0] = 0;
    before.names = copy_names(environ);
    before.kept = true;
}

static bool environment_is_same(void) {
    char **now = environ, **then = before.names;
    if (!now) return !*then;
    while (*now && *now == *then) now++, then++;
    return !*now && !*then;
}

void bti_surroundings_put_back(void) {
    char folder[PATH_MAX];
    sigset_t none;
    if (!before.kept) return;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(before.umask);
    if (before.folder[0] && (!getcwd(folder, sizeof folder) || strcmp(folder, before.folder) != 0) &&
        chdir(before.folder) != 0)
        before.folder[0] = 0; /* the folder is gone */
    if (!before.names || environment_is_same()) return;
    clearenv();
    for (char **name = before.names; *name; name++) putenv(*name);
}

/* --- threads ------------------------------------------------------------------------------------------------------------ */

/* OpenMP's library has read the variable when it was loaded, so it is told directly. */
static void tell_openmp(int threads) {
    void (*set)(int) = NULL;
    int (*count)(void) = NULL;
    *(void **)&set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    *(void **)&count = dlsym(RTLD_DEFAULT, "omp_get_num_procs");
    if (set && (threads || count)) set(threads ? threads : count());
}

void bti_surroundings_cpus(int64_t units) {
    static const char name[] = "OMP_NUM_THREADS";
    static int64_t told = -1;
    static bool is_users;
    char number[16];
    if (units == told) return;
    if (told < 0) is_users = getenv(name) != NULL;
    told = units;
    if (is_users) return;
    int threads = units > 0 && units < BTI_UNIT ? 1 : units / BTI_UNIT < INT_MAX ? (int)(units / BTI_UNIT) : INT_MAX;
    snprintf(number, sizeof number, "%d", threads);
    if (threads ? setenv(name, number, 1) : unsetenv(name)) return;
    tell_openmp(threads);
    if (!before.kept) return;
    bti_free(before.names);
    before.names = copy_names(environ);
}
