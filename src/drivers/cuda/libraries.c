#include "drivers/cuda/libraries.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/lock.h"
#include "base/str.h"
#include "base/trace.h"

bti_cuda_driver_api bti_cu;
bti_nvml_api bti_nvml;
bti_nvrtc_api bti_nvrtc;
bti_cublaslt_api bti_cublaslt;
bti_cudnn_api bti_cudnn;
bti_cufft_api bti_cufft;
bti_cusolver_api bti_cusolver;
bti_nccl_api bti_nccl;

typedef struct symbol {
    const char *name;
    void **at;
    bool optional;
} symbol;

#define BTI_SYMBOL(result, name, symbol, arguments) {symbol, (void **)&API.name, false},
#define BTI_SYMBOL_OPTIONAL(result, name, symbol, arguments) {symbol, (void **)&API.name, true},
#define API bti_cu
static const symbol driver_symbols[] = {
#include "drivers/cuda/driver_api.def"
    {0}};
#undef API
#define API bti_nvml
static const symbol nvml_symbols[] = {
#include "drivers/cuda/nvml.def"
    {0}};
#undef API
#define API bti_nvrtc
static const symbol nvrtc_symbols[] = {
#include "drivers/cuda/nvrtc.def"
    {0}};
#undef API
#define API bti_cublaslt
static const symbol cublaslt_symbols[] = {
#include "drivers/cuda/cublaslt.def"
    {0}};
#undef API
#define API bti_cudnn
static const symbol cudnn_symbols[] = {
#include "drivers/cuda/cudnn.def"
    {0}};
#undef API
#define API bti_cufft
static const symbol cufft_symbols[] = {
#include "drivers/cuda/cufft.def"
    {0}};
#undef API
#define API bti_cusolver
static const symbol cusolver_symbols[] = {
#include "drivers/cuda/cusolver.def"
    {0}};
#undef API
#define API bti_nccl
static const symbol nccl_symbols[] = {
#include "drivers/cuda/nccl.def"
    {0}};
#undef API
#undef BTI_SYMBOL
#undef BTI_SYMBOL_OPTIONAL

typedef struct cuda_library {
    const char *names[4]; /* tried in this order */
    const symbol *symbols;
    bool of_driver;
    bool by_version; /* the names are those of CUDA 13 and 12 */
    const char *install;
    void (*ask_version)(bti_cuda_library_state *state);
    void *handle;
    atomic_int found; /* 0: not tried yet; 1: open; -1: not available */
    bti_cuda_library_state state;
} cuda_library;

/* --- versions ----------------------------------------------------------------------------------------------------- */

static void set_version(bti_cuda_library_state *state, int major, int minor, int patch) {
    state->major = major;
    state->minor = minor;
    if (patch < 0)
        snprintf(state->version, sizeof state->version, "%d.%d", major, minor);
    else
        snprintf(state->version, sizeof state->version, "%d.%d.%d", major, minor, patch);
}
static void ask_driver(bti_cuda_library_state *state) {
    int version = 0;
    if (bti_cu.cuDriverGetVersion(&version) == CUDA_SUCCESS)
        set_version(state, version / 1000, version % 1000 / 10, -1);
}
static void ask_nvrtc(bti_cuda_library_state *state) {
    int major = 0, minor = 0;
    if (bti_nvrtc.nvrtcVersion(&major, &minor) == NVRTC_SUCCESS) set_version(state, major, minor, -1);
}
static void ask_cublaslt(bti_cuda_library_state *state) {
    int version = (int)bti_cublaslt.cublasLtGetVersion(); /* 13.0.2 as 130002, 12.4.5 as 120405 */
    set_version(state, version / 10000, version % 10000 / 100, version % 100);
}
static void ask_cudnn(bti_cuda_library_state *state) {
    int version = (int)bti_cudnn.cudnnGetVersion(); /* 9.1.0 as 90100 */
    set_version(state, version / 10000, version % 10000 / 100, version % 100);
}
static void ask_cufft(bti_cuda_library_state *state) {
    int version = 0; /* 12.0.0 as 12000, 11.2.1 as 11201 */
    if (bti_cufft.cufftGetVersion(&version) == CUFFT_SUCCESS)
        set_version(state, version / 1000, version % 1000 / 100, version % 100);
}
static void ask_cusolver(bti_cuda_library_state *state) {
    int version = 0; /* 12.4.1 as 12401 */
    if (bti_cusolver.cusolverGetVersion(&version) == CUSOLVER_STATUS_SUCCESS)
        set_version(state, version / 1000, version % 1000 / 100, version % 100);
}
static void ask_nccl(bti_cuda_library_state *state) {
    int version = 0; /* 2.18.3 as 21803 */
    if (bti_nccl.ncclGetVersion(&version) == ncclSuccess)
        set_version(state, version / 10000, version % 10000 / 100, version % 100);
}

#define WITH_DRIVER "it comes with NVIDIA's driver (on Debian the packages nvidia-driver and nvidia-smi)"
static cuda_library libraries[BTI_CUDA_LIBRARIES] = {
    [BTI_CUDA_DRIVER] =
        {{"libcuda.so.1"}, driver_symbols, true, false, WITH_DRIVER, ask_driver, .state.title = "libcuda"},
    [BTI_CUDA_NVML] = {{"libnvidia-ml.so.1"}, nvml_symbols, true, false, WITH_DRIVER, NULL, .state.title = "NVML"},
    [BTI_CUDA_NVRTC] =
        {{"libnvrtc.so.13", "libnvrtc.so.12"},
         nvrtc_symbols,
         false,
         true,
         "install CUDA's run-time compiler: NVIDIA's package cuda-nvrtc-13-0 or cuda-nvrtc-12-9, on Debian "
         "libnvrtc12, or Python's nvidia-cuda-nvrtc (then set the flag cuda_path to its folder "
         "site-packages/nvidia)",
         ask_nvrtc,
         .state.title = "NVRTC"},
    [BTI_CUDA_CUBLASLT] = {{"libcublasLt.so.13", "libcublasLt.so.12"},
                           cublaslt_symbols,
                           false,
                           true,
                           "without it products run on kernels of ours; NVIDIA's package libcublas-13-0 or "
                           "libcublas-12-9, or Python's nvidia-cublas",
                           ask_cublaslt,
                           .state.title = "cuBLASLt"},
    [BTI_CUDA_CUDNN] = {{"libcudnn.so.9"},
                        cudnn_symbols,
                        false,
                        false,
                        "without it convolutions run on kernels of ours; NVIDIA's package libcudnn9-cuda-13 or "
                        "libcudnn9-cuda-12, or Python's nvidia-cudnn-cu13",
                        ask_cudnn,
                        .state.title = "cuDNN"},
    [BTI_CUDA_CUFFT] = {{"libcufft.so.12", "libcufft.so.11"},
                        cufft_symbols,
                        false,
                        true,
                        "without it the host computes Fourier transforms; NVIDIA's package libcufft-13-0 or "
                        "libcufft-12-9, or Python's nvidia-cufft",
                        ask_cufft,
                        .state.title = "cuFFT"},
    [BTI_CUDA_CUSOLVER] = {{"libcusolver.so.12", "libcusolver.so.11"},
                           cusolver_symbols,
                           false,
                           true,
                           "without it the host computes linear algebra; NVIDIA's package libcusolver-13-0 or "
                           "libcusolver-12-9, or Python's nvidia-cusolver",
                           ask_cusolver,
                           .state.title = "cuSOLVER"},
    [BTI_CUDA_NCCL] = {{"libnccl.so.2"},
                       nccl_symbols,
                       false,
                       false,
                       "without it sums over GPUs go by copies; NVIDIA's package libnccl2, or Python's nvidia-nccl",
                       ask_nccl,
                       .state.title = "NCCL"},
};

/* --- opening ------------------------------------------------------------------------------------------------------ */

BTI_STATIC_LOCK(lock, cuda_libraries) /* of opening; a library does not change once it is found */

static const char *resolve_symbols(const cuda_library *l, void *handle) {
    const char *missing = NULL;
    for (const symbol *s = l->symbols; s->name; s++) {
        *s->at = dlsym(handle, s->name);
        if (!*s->at && !s->optional && !missing) missing = s->name;
    }
    return missing;
}

/* The ith name to try: that of CUDA 12 first if the driver does not support 13. */
static const char *library_name(const cuda_library *l, int i) {
    int major = libraries[BTI_CUDA_DRIVER].state.major;
    return l->names[l->by_version && major && major < 13 && i < 2 ? 1 - i : i];
}

static bool try_path(cuda_library *l, const char *path, bti_str *reason) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *said = dlerror();
        bti_str_addf(reason, "%s; ", said ? said : path);
        return false;
    }
    const char *missing = resolve_symbols(l, handle);
    if (missing) {
        bti_str_addf(reason, "%s has no %s: it is too old, or another library; ", path, missing);
        dlclose(handle);
        return false;
    }
    l->handle = handle;
    snprintf(l->state.path, sizeof l->state.path, "%s", path);
    return true;
}

/* Opens the library by any of its names in the folders that match a pattern. */
static bool try_pattern(cuda_library *l, const char *folder, size_t length, const char *below, bti_str *reason) {
    bool found = false;
    for (int i = 0; library_name(l, i) && !found; i++) {
        bti_str pattern = {0};
        glob_t paths;
        bti_str_add_bytes(&pattern, folder, length);
        bti_str_addf(&pattern, "%s/%s", below, library_name(l, i));
        if (!pattern.failed && !glob(pattern.text, 0, NULL, &paths)) {
            for (size_t p = paths.gl_pathc; p-- > 0 && !found;) found = try_path(l, paths.gl_pathv[p], reason);
            globfree(&paths);
        }
        bti_str_free(&pattern);
    }
    return found;
}

static bool try_folders(cuda_library *l, const char *folders, bti_str *reason) {
    static const char *const below[] = {"", "/lib64", "/lib", "/*/lib", "/nvidia/*/lib"};
    for (const char *at = folders; *at;) {
        size_t length = strcspn(at, ":");
        for (size_t b = 0; length && b < sizeof below / sizeof *below; b++)
            if (try_pattern(l, at, length, below[b], reason)) return true;
        at += length + (at[length] == ':');
    }
    bti_str_addf(reason, "%s is not below %s; ", l->names[0], folders);
    return false;
}

static bool try_loader(cuda_library *l, bti_str *reason) {
    for (int i = 0; library_name(l, i); i++)
        if (try_path(l, library_name(l, i), reason)) return true;
    return false;
}

static bool search_library(cuda_library *l, bti_str *reason) {
    char *folders = bti_flag_text(BTI_FLAG_cuda_path);
    bool found = false;
    if (!folders)
        bti_str_add(reason, "out of host memory; ");
    else if (*folders)
        found = try_folders(l, folders, reason) || (l->of_driver && try_loader(l, reason));
    else
        found = try_loader(l, reason) || (!l->of_driver && (try_pattern(l, "/usr/local/cuda", 15, "/lib64", reason) ||
                                                            try_pattern(l, "/usr/local/cuda-*", 17, "/lib64", reason)));
    bti_free(folders);
    return found;
}

/* Under the lock. */
static void open_library(cuda_library *l) {
    bti_str reason = {0};
    uint64_t start = bti_trace_begin();
    bool found = search_library(l, &reason);
    if (found) {
        bti_trace_end(BTI_TRACE_LIBRARY, l->state.title, start);
        if (l->ask_version) l->ask_version(&l->state);
    } else {
        snprintf(l->state.reason, sizeof l->state.reason, "%s%s", bti_str_text(&reason), l->install);
    }
    bti_str_free(&reason);
    atomic_store(&l->found, found ? 1 : -1);
}

bool bti_cuda_has(bti_cuda_library which) {
    cuda_library *l = &libraries[which];
    int found = atomic_load_explicit(&l->found, memory_order_acquire);
    if (found) return found > 0;
    if (l->by_version) (void)bti_cuda_has(BTI_CUDA_DRIVER);
    bti_lock_take(&lock);
    if (!atomic_load(&l->found)) open_library(l);
    bti_lock_give(&lock);
    return atomic_load(&l->found) > 0;
}

bt_status bti_cuda_need(bti_cuda_library which) {
    if (bti_cuda_has(which)) return BT_OK;
    return bti_fail(BT_UNAVAILABLE, "%s is not available: %s", libraries[which].state.title,
                    libraries[which].state.reason);
}

const bti_cuda_library_state *bti_cuda_library_look(bti_cuda_library which) {
    bti_cuda_has(which);
    return &libraries[which].state;
}

int bti_cuda_driver_version(void) {
    const bti_cuda_library_state *state = bti_cuda_library_look(BTI_CUDA_DRIVER);
    return state->major * 1000 + state->minor * 10;
}

void bti_cuda_libraries_reset(void) {
    bti_lock_take(&lock);
    for (int i = BTI_CUDA_LIBRARIES; i-- > 0;) {
        cuda_library *l = &libraries[i];
        if (l->handle) dlclose(l->handle);
        l->handle = NULL;
        l->state = (bti_cuda_library_state){.title = l->state.title};
        atomic_store(&l->found, 0);
    }
    bti_lock_give(&lock);
}
