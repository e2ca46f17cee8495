/* emulated [OPTIONS] COMMAND [ARGUMENTS]...: runs a command on a machine with emulated GPUs: the fake machine of this folder, whose
 * kernels NVRTC compiles and the emulator of PTX (ptx/ptx.h) runs.
 *   --gpus N       how many (2)
 *   --model NAME   h200 (default), a100 or rtx4090: compute capability, multiprocessors, registers and shared memory
 *   --nvrtc PATH   the compiler; otherwise the one that support/find_nvrtc.h finds
 * The default device is the first GPU, unless BERTH_FLAGS says otherwise. BERTH_FAKE_SEED is the seed of orders and of approximate
 * instructions. BERTH_FAKE_WITHOUT leaves libraries out whose names contain it ("cudnn"). Compiled kernels are kept in the build's folder emulated/, apart from those for real GPUs. Exit code: the command's,
 * 128 and its signal, 77 where there is no NVRTC. */
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/find_nvrtc.h"

#define MOST_GPUS 8
#define PATH_BYTES 1024

typedef struct model {
    const char *option, *name, *capability;
    int multiprocessors;
    const char *memory;
} model;

/* NVIDIA's data sheets: multiprocessors and compute capability. The memory is this machine's own: emulated memory is the host's. */
static const model models[] = {
    {"h200", "Emulated H200", "[9, 0]", 132, "1073741824"},
    {"a100", "Emulated A100", "[8, 0]", 108, "1073741824"},
    {"rtx4090", "Emulated RTX 4090", "[8, 9]", 128, "1073741824"},
};

static const model *chosen_model = models;
static int gpus = 2;
static found_nvrtc compiler;
static char version[32], machine_folder[PATH_BYTES];

static int fail(const char *what, const char *which) {
    fprintf(stderr, "emulated: %s: %s\n", what, which);
    return 2;
}

/* --- the machine --------------------------------------------------------------------------------------------------------- */

static bool link_library(const char *name, const char *target) {
    char from[PATH_BYTES], to[2 * PATH_BYTES];
    snprintf(from, sizeof from, "%s/fakes/%s", BERTH_BUILD_DIR, target);
    snprintf(to, sizeof to, "%s/%s", machine_folder, name);
    return symlink(from, to) == 0;
}

static bool write_machine(void) {
    char path[2 * PATH_BYTES];
    snprintf(path, sizeof path, "%s/machine.json", machine_folder);
    FILE *file = fopen(path, "w");
    if (!file) return false;
    fprintf(file, "{\"cuda\": 13000, \"lists_own\": true, \"nvrtc_library\": \"%s\", \"devices\": [", compiler.path);
    for (int i = 0; i < gpus; i++)
        fprintf(file,
                "%s{\"name\": \"%s\", \"uuid\": \"GPU-e0000000-0000-0000-0000-%012d\", \"pci\": \"0000:%02x:00.0\", "
                "\"memory\": %s, \"capability\": %s, \"multiprocessors\": %d, \"island\": 1}",
                i ? ", " : "", chosen_model->name, i + 1, 0x10 + i, chosen_model->memory, chosen_model->capability,
                chosen_model->multiprocessors);
    fputs("]}\n", file);
    return fclose(file) == 0 && setenv("BERTH_FAKE_MACHINE", path, 1) == 0;
}

static bool make_machine(void) {
    const char *const names[] = {"libcuda.so.1",   "libnvidia-ml.so.1", "libcublasLt.so.13", "libcudnn.so.9",
                                 "libcufft.so.12", "libcusolver.so.12", "libnccl.so.2"};
    const char *without = getenv("BERTH_FAKE_WITHOUT");
    char compiler_name[32];
    mkdir(BERTH_BUILD_DIR "/emulated", 0777);
    snprintf(machine_folder, sizeof machine_folder, "%s/emulated/machine-XXXXXX", BERTH_BUILD_DIR);
    if (!mkdtemp(machine_folder)) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(without && *without && strstr(names[i], without)) && !link_library(names[i], names[i])) return false;
    snprintf(compiler_name, sizeof compiler_name, "libnvrtc.so.%d", compiler.major);
    return link_library(compiler_name, "libnvrtc.so.13") && write_machine();
}

static void remove_machine(void) {
    glob_t found = {0};
    char pattern[2 * PATH_BYTES];
    snprintf(pattern, sizeof pattern, "%s/*", machine_folder);
    glob(pattern, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) unlink(found.gl_pathv[i]);
    globfree(&found);
    rmdir(machine_folder);
}

/* Puts the flags before those that the variable has, which win. */
static void add_flags(const char *variable, const char *flags) {
    char all[8 * PATH_BYTES];
    const char *old = getenv(variable);
    snprintf(all, sizeof all, "%s%s%s", flags, old && *old ? "," : "", old ? old : "");
    setenv(variable, all, 1);
}

/* Tests set flags to their defaults, then to BERTH_TEST_FLAGS. All cases together compile more than the usual cache holds. */
static void set_environment(void) {
    char flags[4 * PATH_BYTES];
    snprintf(flags, sizeof flags, "probe=direct,cuda_path=%s,cache=%s/emulated/cache-%s-%s,cache_bytes=1G",
             machine_folder, BERTH_BUILD_DIR, chosen_model->option, version);
    add_flags("BERTH_TEST_FLAGS", flags);
    strncat(flags, ",default_device=gpu:0", sizeof flags - strlen(flags) - 1);
    add_flags("BERTH_FLAGS", flags);
    setenv("BERTH_EMULATED", version, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

/* --- the command --------------------------------------------------------------------------------------------------------- */

static int run_command(char **arguments) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        execvp(*arguments, arguments);
        fprintf(stderr, "emulated: %s: %s\n", *arguments, strerror(errno));
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (child < 0) return fail("no process could be made", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool choose_model(const char *option) {
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (strcmp(models[i].option, option)) continue;
        chosen_model = &models[i];
        return true;
    }
    return false;
}

int main(int argc, char **argv) {
    const char *told = NULL;
    int at = 1;
    for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2) {
        if (!strcmp(argv[at], "--gpus"))
            gpus = atoi(argv[at + 1]);
        else if (!strcmp(argv[at], "--nvrtc"))
            told = argv[at + 1];
        else if (strcmp(argv[at], "--model") || !choose_model(argv[at + 1]))
            return fail("unknown option", argv[at]);
    }
    if (at >= argc || gpus < 1 || gpus > MOST_GPUS)
        return fail("usage",
                    "emulated [--gpus 1..8] [--model h200|a100|rtx4090] [--nvrtc PATH] COMMAND [ARGUMENTS]...");
    if (told ? !try_nvrtc(told, &compiler) : !find_nvrtc(&compiler)) {
        printf("skipped: cuda-emulated: no NVRTC%s%s\n", told ? " is " : "", told ? told : "");
        return 77;
    }
    snprintf(version, sizeof version, "%d.%d", compiler.major, compiler.minor);
    int code = 2;
    if (make_machine()) {
        set_environment();
        code = run_command(argv + at);
    } else
        fail("the machine cannot be made", strerror(errno));
    remove_machine();
    return code;
}
