/* A fake cuDNN (NVIDIA, "cuDNN API", libraries cudnn_ops and cudnn_cnn): it checks what it is asked for as the library documents, and libcudnn_conv.c
 * computes it. A wrong parameter is a finding. Which algorithms a shape has, in which order, with which workspace and kind of
 * products, is drawn from the shape and BERTH_FAKE_SEED; some small shapes have none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/findings.h"
#include "fakes/libcudnn.h"

struct cudnnContext {
    CUstream stream;
};
fake_stream *fake_stream_of(CUstream stream);
int fake_current_device(void);

#define ENTER(name)                               \
    do {                                          \
        int fake_code_ = fake_call(#name, false); \
        if (fake_code_) return fake_code_;        \
    } while (0)
#define MAKE(to)                                                               \
    do {                                                                       \
        *(to) = calloc(1, sizeof **(to));                                      \
        if (!*(to)) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED; \
        fake_live(1);                                                          \
    } while (0)
#define DROP(what) (free(what), fake_live(-1), 0)
#define WORKSPACE_ALIGNED 256
#define ALIGNED 16
#define SMALL (1 << 16) /* elements */
#define HUGE_WORKSPACE ((uint64_t)1 << 32)

/* What no caller should ask for. */
static cudnnStatus_t misuse(cudnnStatus_t status, const char *call, const char *what) {
    fake_find(fake_current_device(), FAKE_LAUNCH_FAILED, "%s: %s", call, what);
    return status;
}
static cudnnStatus_t bad(const char *call, const char *what) { return misuse(CUDNN_STATUS_BAD_PARAM, call, what); }

FAKE_API size_t cudnnGetVersion(void) { return 91302; }
FAKE_API const char *cudnnGetErrorString(cudnnStatus_t status) {
    return status / 1000 == 2   ? "CUDNN_STATUS_BAD_PARAM"
           : status / 1000 == 3 ? "CUDNN_STATUS_NOT_SUPPORTED"
           : status / 1000 == 4 ? "CUDNN_STATUS_INTERNAL_ERROR"
                                : "CUDNN_STATUS";
}

/* --- handles --------------------------------------------------------------------------------------------------------- */

FAKE_API cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    ENTER(cudnnCreate);
    if (fake_current_device() < 0) return CUDNN_STATUS_NOT_INITIALIZED;
    MAKE(handle);
    return 0;
}
FAKE_API cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return DROP(handle); }
FAKE_API cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, CUstream stream) {
    ENTER(cudnnSetStream);
    if (!handle) return bad("cudnnSetStream", "there is no handle");
    handle->stream = stream;
    return 0;
}

/* --- descriptors ------------------------------------------------------------------------------------------------------ */

static bool shape_makes_sense(int type, int axes, const int *shape) {
    int64_t count = 1;
    if ((type != CUDNN_DATA_FLOAT && type != CUDNN_DATA_DOUBLE) || axes < 4 || axes > 2 + FAKE_DNN_AXES) return false;
    for (int i = 0; i < axes; i++)
        if (shape[i] < 1 || (count *= shape[i]) > INT32_MAX) return false;
    return true;
}

FAKE_API cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *tensor) {
    ENTER(cudnnCreateTensorDescriptor);
    MAKE(tensor);
    return 0;
}
FAKE_API cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) { return DROP(tensor); }
FAKE_API cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, int type, int axes, const int *shape,
                                                  const int *strides) {
    ENTER(cudnnSetTensorNdDescriptor);
    if (!tensor || !shape_makes_sense(type, axes, shape)) return bad("cudnnSetTensorNdDescriptor", "what tensor?");
    fake_dnn_array *a = &tensor->array;
    *a = (fake_dnn_array){.is_set = true, .type = type, .axes = axes};
    memcpy(a->shape, shape, (size_t)axes * sizeof *shape);
    memcpy(a->stride, strides, (size_t)axes * sizeof *strides);
    return 0;
}
FAKE_API cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *filter) {
    ENTER(cudnnCreateFilterDescriptor);
    MAKE(filter);
    (*filter)->array.is_filter = true;
    return 0;
}
FAKE_API cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) { return DROP(filter); }
FAKE_API cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter, int type, int format, int axes,
                                                  const int *shape) {
    ENTER(cudnnSetFilterNdDescriptor);
    if (!filter || format != CUDNN_TENSOR_NCHW || !shape_makes_sense(type, axes, shape))
        return bad("cudnnSetFilterNdDescriptor", "what filter?");
    fake_dnn_array *a = &filter->array;
    *a = (fake_dnn_array){.is_filter = true, .is_set = true, .type = type, .axes = axes};
    memcpy(a->shape, shape, (size_t)axes * sizeof *shape);
    for (int i = axes - 1, step = 1; i >= 0; i--) a->stride[i] = step, step *= shape[i];
    return 0;
}
FAKE_API cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *conv) {
    ENTER(cudnnCreateConvolutionDescriptor);
    MAKE(conv);
    (*conv)->groups = 1;
    return 0;
}
FAKE_API cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t conv) { return DROP(conv); }
FAKE_API cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t conv, int axes, const int *pads,
                                                       const int *strides, const int *dilations, int mode, int type) {
    ENTER(cudnnSetConvolutionNdDescriptor);
    bool good = conv && axes >= 2 && axes <= FAKE_DNN_AXES && mode == CUDNN_CROSS_CORRELATION;
    for (int i = 0; i < axes && good; i++) good = pads[i] >= 0 && strides[i] >= 1 && dilations[i] >= 1;
    if (!good) return bad("cudnnSetConvolutionNdDescriptor", "what convolution?");
    *conv = (struct cudnnConvolutionStruct){.is_set = true, .axes = axes, .type = type, .groups = conv->groups};
    memcpy(conv->pad, pads, (size_t)axes * sizeof *pads);
    memcpy(conv->stride, strides, (size_t)axes * sizeof *strides);
    memcpy(conv->dilation, dilations, (size_t)axes * sizeof *dilations);
    return 0;
}
FAKE_API cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv, int groups) {
    ENTER(cudnnSetConvolutionGroupCount);
    if (!conv || groups < 1) return bad("cudnnSetConvolutionGroupCount", "how many groups?");
    conv->groups = groups;
    return 0;
}
FAKE_API cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv, int math) {
    ENTER(cudnnSetConvolutionMathType);
    if (!conv || math < CUDNN_DEFAULT_MATH || math > CUDNN_FMA_MATH)
        return bad("cudnnSetConvolutionMathType", "what kind of products?");
    conv->math = math;
    return 0;
}

/* --- what may be convolved -------------------------------------------------------------------------------------------- */

/* The arrays in the order of each operation's arguments; the last is made. */
static const int arguments[FAKE_ARRAYS][FAKE_ARRAYS] = {
    [FAKE_X] = {FAKE_W, FAKE_Y, FAKE_X}, [FAKE_W] = {FAKE_X, FAKE_Y, FAKE_W}, [FAKE_Y] = {FAKE_X, FAKE_W, FAKE_Y}};

static const char *why_no_conv(const fake_dnn_array *const *all, const struct cudnnConvolutionStruct *conv) {
    const int *x = all[FAKE_X]->shape, *w = all[FAKE_W]->shape, *y = all[FAKE_Y]->shape;
    for (int i = 0; i < FAKE_ARRAYS; i++) {
        if (!all[i]->is_set || all[i]->is_filter != (i == FAKE_W)) return "a descriptor is not set, or of another kind";
        if (all[i]->axes != conv->axes + 2 || all[i]->type != all[0]->type) return "axes or types differ";
    }
    if (!conv->is_set || conv->type != all[0]->type) return "the convolution is not set, or of another type";
    if (x[0] != y[0] || x[1] != w[1] * conv->groups || y[1] != w[0] || w[0] % conv->groups)
        return "images, channels, outputs or groups do not fit";
    for (int i = 0; i < conv->axes; i++) {
        int64_t span = (int64_t)(w[2 + i] - 1) * conv->dilation[i] + 1, padded = x[2 + i] + 2 * (int64_t)conv->pad[i];
        if (padded < span || (padded - span) / conv->stride[i] + 1 != y[2 + i]) return "places do not fit";
    }
    return NULL;
}

/* Fills in the convolution's shape. */
static cudnnStatus_t read_conv(const char *call, int made, cudnnHandle_t handle, bti_cudnn_array first,
                               bti_cudnn_array second, cudnnConvolutionDescriptor_t conv, bti_cudnn_array third,
                               fake_conv *c) {
    const fake_dnn_array *all[FAKE_ARRAYS];
    if (!handle || !first || !second || !third || !conv) return bad(call, "an argument is missing");
    all[arguments[made][0]] = first, all[arguments[made][1]] = second, all[arguments[made][2]] = third;
    const char *why = why_no_conv(all, conv);
    if (why) return bad(call, why);
    *c = (fake_conv){.made = made, .type = conv->type, .math = conv->math, .groups = conv->groups};
    for (int i = 0, lacking = FAKE_DNN_AXES - conv->axes; i < FAKE_DNN_AXES; i++) {
        c->pad[i] = i < lacking ? 0 : conv->pad[i - lacking];
        c->stride[i] = i < lacking ? 1 : conv->stride[i - lacking];
        c->dilation[i] = i < lacking ? 1 : conv->dilation[i - lacking];
        for (int a = 0; a < FAKE_ARRAYS; a++) {
            c->shape[a][2 + i] = i < lacking ? 1 : all[a]->shape[2 + i - lacking];
            if (i < 2) c->shape[a][i] = all[a]->shape[i];
        }
    }
    for (int a = 0; a < FAKE_ARRAYS; a++)
        for (int i = all[a]->axes - 1, step = 1; i >= 0; step *= all[a]->shape[i--])
            if (all[a]->stride[i] != step) return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
    return 0;
}

static uint64_t mix(uint64_t hash, const int64_t *numbers, int count) {
    for (int i = 0; i < count; i++)
        hash = (hash ^ (uint64_t)numbers[i]) * UINT64_C(0x9fb21c651e98df25), hash ^= hash >> 29;
    return hash;
}

uint64_t fake_conv_hash(const fake_conv *c) {
    const int64_t numbers[] = {c->made, c->type, c->groups};
    uint64_t hash = mix(fake_seed() + 1, numbers, 3);
    for (int i = 0; i < FAKE_ARRAYS; i++) hash = mix(hash, c->shape[i], 2 + FAKE_DNN_AXES);
    hash = mix(hash, c->pad, FAKE_DNN_AXES);
    hash = mix(hash, c->stride, FAKE_DNN_AXES);
    return mix(hash, c->dilation, FAKE_DNN_AXES);
}

/* --- algorithms ------------------------------------------------------------------------------------------------------- */

static const int algorithm_counts[FAKE_ARRAYS] = {
    [FAKE_X] = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
    [FAKE_W] = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT,
    [FAKE_Y] = CUDNN_CONVOLUTION_FWD_ALGO_COUNT,
};

/* Those that NVIDIA's documentation calls not deterministic, and those that do not add up the sum's own products. */
static bool is_deterministic(int made, int algorithm) {
    return made == FAKE_Y || (algorithm != 0 && (made == FAKE_X || algorithm != 3));
}
static bool is_coarse(int made, int algorithm) {
    return made == FAKE_Y ? algorithm > 3 : made == FAKE_X ? algorithm > 1 : algorithm == 2 || algorithm > 3;
}

/* What the shape has of an algorithm. A float that may be converted has products of every kind; one call may ask for one alone. */
static bti_cudnn_algorithm algorithm_of(const fake_conv *c, int algorithm, int asked_math) {
    uint64_t hash = fake_conv_hash(c), own = hash * (uint64_t)(2 * algorithm + 3) >> 7;
    static const uint64_t sizes[] = {0, 256, 1000, 1 << 16};
    bool few = hash % 8 == 0 && fake_conv_count(c, FAKE_X) < SMALL; /* only algorithms that berth does not take */
    bool is_there = few ? !is_deterministic(c->made, algorithm) || is_coarse(c->made, algorithm) : own % 4 != 0;
    if (!few && algorithm == 1) is_there = true;
    bti_cudnn_algorithm made = {.algo = algorithm, .time = -1, .mathType = asked_math};
    made.status = is_there ? 0 : CUDNN_STATUS_NOT_SUPPORTED;
    made.determinism = is_deterministic(c->made, algorithm);
    made.memory = algorithm != 1 && own % 5 == 0 ? HUGE_WORKSPACE : sizes[own / 8 % 4];
    if (c->type == CUDNN_DATA_FLOAT && asked_math != CUDNN_FMA_MATH)
        made.mathType = own / 64 % 3 == 0 ? CUDNN_FMA_MATH : own / 64 % 3 == 1 ? CUDNN_TENSOR_OP_MATH : asked_math;
    return made;
}

/* Whether the algorithm, which was found for one of two kinds of products, may run with those that the descriptor has now. */
static bool runs(const fake_conv *c, int algorithm) {
    static const int asked[] = {CUDNN_FMA_MATH, CUDNN_DEFAULT_MATH};
    if (algorithm < 0 || algorithm >= algorithm_counts[c->made]) return false;
    for (int i = 0; i < 2; i++) {
        bti_cudnn_algorithm found = algorithm_of(c, algorithm, asked[i]);
        if (!found.status && found.mathType == c->math) return true;
    }
    return false;
}

static cudnnStatus_t find_algorithms(const fake_conv *c, int wanted, int *count, bti_cudnn_algorithm *to) {
    int all = algorithm_counts[c->made], first = (int)(fake_conv_hash(c) >> 40) % all;
    *count = 0;
    if (first < 0) first += all;
    for (int there = 1; there >= 0; there--) /* those that are not there come last */
        for (int i = 0; i < all && *count < wanted; i++) {
            bti_cudnn_algorithm found = algorithm_of(c, (first + i) % all, c->math);
            if ((found.status == 0) == (there == 1)) to[(*count)++] = found;
        }
    fake_log("algorithms %d %d %d", c->made, c->type, c->math);
    return 0;
}

/* --- convolving ------------------------------------------------------------------------------------------------------- */

static double scale_of(const void *number, int type) {
    return type == CUDNN_DATA_DOUBLE ? *(const double *)number : (double)*(const float *)number;
}

static const char *why_no_memory(const fake_conv *c) {
    uint64_t size = c->type == CUDNN_DATA_DOUBLE ? 8 : 4, made = c->address[c->made],
             made_end = made + (uint64_t)fake_conv_count(c, c->made) * size;
    for (int i = 0; i < FAKE_ARRAYS; i++) {
        uint64_t bytes = (uint64_t)fake_conv_count(c, i) * size;
        if (c->address[i] % ALIGNED || !fake_memory_exists(c->address[i], bytes)) return "an array is not in memory";
        if (i != c->made && c->address[i] < made_end && made < c->address[i] + bytes) return "arrays overlap";
    }
    if (c->workspace_bytes && !fake_memory_exists(c->workspace, c->workspace_bytes))
        return "the workspace is no memory";
    return c->workspace % WORKSPACE_ALIGNED ? "the workspace is not aligned" : NULL;
}

static cudnnStatus_t add_conv(const char *call, cudnnHandle_t handle, fake_conv *c) {
    if (!runs(c, c->algorithm)) return CUDNN_STATUS_NOT_SUPPORTED;
    if (c->workspace_bytes < algorithm_of(c, c->algorithm, c->math).memory)
        return misuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, call, "the workspace is too small");
    const char *why = why_no_memory(c);
    if (why) return misuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, call, why);
    c->coarse = is_coarse(c->made, c->algorithm);
    c->deterministic = is_deterministic(c->made, c->algorithm);
    fake_work work = {.run = fake_run_conv};
    snprintf(work.name, sizeof work.name, "%s", call);
    fake_lock();
    fake_stream_add_work(fake_stream_of(handle->stream), &work, c, sizeof *c);
    fake_unlock();
    return 0;
}

#define DEFINE_OPERATION(made, name)                                                                              \
    FAKE_API cudnnStatus_t cudnnGetConvolution##name##Algorithm_v7(                                               \
        cudnnHandle_t handle, bti_cudnn_array first, bti_cudnn_array second, cudnnConvolutionDescriptor_t conv,   \
        bti_cudnn_array third, int wanted, int *count, bti_cudnn_algorithm *algorithms) {                         \
        fake_conv c;                                                                                              \
        ENTER(cudnnGetConvolution##name##Algorithm_v7);                                                           \
        cudnnStatus_t status =                                                                                    \
            read_conv("cudnnGetConvolution" #name "Algorithm_v7", made, handle, first, second, conv, third, &c);  \
        return status ? status : find_algorithms(&c, wanted, count, algorithms);                                  \
    }                                                                                                             \
    FAKE_API cudnnStatus_t cudnnGetConvolution##name##WorkspaceSize(                                              \
        cudnnHandle_t handle, bti_cudnn_array first, bti_cudnn_array second, cudnnConvolutionDescriptor_t conv,   \
        bti_cudnn_array third, int algorithm, size_t *bytes) {                                                    \
        fake_conv c;                                                                                              \
        ENTER(cudnnGetConvolution##name##WorkspaceSize);                                                          \
        cudnnStatus_t status =                                                                                    \
            read_conv("cudnnGetConvolution" #name "WorkspaceSize", made, handle, first, second, conv, third, &c); \
        if (!status && !runs(&c, algorithm)) status = CUDNN_STATUS_NOT_SUPPORTED;                                 \
        if (!status) *bytes = algorithm_of(&c, algorithm, c.math).memory;                                         \
        return status;                                                                                            \
    }                                                                                                             \
    FAKE_API cudnnStatus_t cudnnConvolution##name(                                                                \
        cudnnHandle_t handle, const void *alpha, bti_cudnn_array first_array, const void *first,                  \
        bti_cudnn_array second_array, const void *second, cudnnConvolutionDescriptor_t conv, int algorithm,       \
        void *workspace, size_t workspace_bytes, const void *beta, bti_cudnn_array third_array, void *third) {    \
        fake_conv c;                                                                                              \
        ENTER(cudnnConvolution##name);                                                                            \
        cudnnStatus_t status =                                                                                    \
            read_conv("cudnnConvolution" #name, made, handle, first_array, second_array, conv, third_array, &c);  \
        if (status) return status;                                                                                \
        const void *const all[] = {first, second, third};                                                         \
        for (int i = 0; i < FAKE_ARRAYS; i++) c.address[arguments[made][i]] = (uint64_t)(uintptr_t)all[i];        \
        c.algorithm = algorithm;                                                                                  \
        c.workspace = (uint64_t)(uintptr_t)workspace, c.workspace_bytes = workspace_bytes;                        \
        c.alpha = scale_of(alpha, c.type), c.beta = scale_of(beta, c.type);                                       \
        return add_conv("cudnnConvolution" #name, handle, &c);                                                    \
    }
DEFINE_OPERATION(FAKE_Y, Forward)
DEFINE_OPERATION(FAKE_X, BackwardData)
DEFINE_OPERATION(FAKE_W, BackwardFilter)
