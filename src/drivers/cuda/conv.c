/* Convolutions by cuDNN. It takes dense arrays [N, C, places...] with two or three axes of places, and as many zeros behind x as before it. Algorithms are those that
 * add up the products of the sum itself, in the same order each time: Winograd's and those of Fourier transforms round otherwise, and one
 * infinity or NaN reaches elements that do not depend on it. */
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/lru.h"
#include "drivers/cuda/device.h"
#include "reference/conv.h"
#include "reference/operand.h"

#define KEPT 256                           /* shapes */
#define MOST_WORKSPACE ((size_t)256 << 20) /* bytes */
#define ALIGNED 16                         /* bytes: the widest loads of its kernels */
#define MOST_AXES (2 + BTI_CONV_AXES)
#define MOST_ALGORITHMS CUDNN_CONVOLUTION_FWD_ALGO_COUNT

typedef struct conv_key { /* compared by memcmp */
    int32_t made, type, math, groups;
    int32_t axes; /* of places */
    int32_t shape[BTI_CONV_ARRAYS][MOST_AXES];
    int32_t before[BTI_CONV_AXES], stride[BTI_CONV_AXES], dilation[BTI_CONV_AXES];
} conv_key;

typedef struct known_conv {
    bti_lru_entry entry; /* first */
    conv_key shape;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    int algorithm;
    size_t workspace_bytes;
    bool refused; /* cuDNN does not support it */
} known_conv;

struct bti_cuda_convs {
    cudnnHandle_t handle;  /* NULL: cuDNN does not start here */
    cudnnStatus_t started; /* why */
    CUstream stream;       /* of the handle: compute; NULL: it must be set */
    bti_lru known;         /* used by the thread that runs the device's queue */
};

/* --- the shape of a convolution ----------------------------------------------------------------------------------- */

/* TF32 has the digits of all small floats. */
static bool read_types(const bti_work *work, conv_key *s) {
    bt_dtype dtype = work->output.dtype;
    bool whole = bti_flag_choice(BTI_FLAG_matmul_precision) == 0 && !work->attr->window.narrow;
    s->type = dtype == BT_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    s->math = dtype == BT_F32 && whole ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
    return dtype == BT_F32 || dtype == BT_F64;
}

/* cuDNN has elements, all of whose places have 31 bits. */
static bool read_array(const bti_operand *o, conv_key *s, bti_conv_array array) {
    int64_t count = bti_operand_count(o);
    int lacking = BTI_CONV_AXES - s->axes;
    for (int i = 0; i < 2 + s->axes; i++) s->shape[array][i] = (int32_t)o->shape[i < 2 ? i : i + lacking];
    return count > 0 && count <= INT32_MAX && o->address % ALIGNED == 0 && bti_operand_is_dense(o);
}

/* Along an axis, all places of y that the kernel has in x with as many zeros behind it as before it. */
static bool is_symmetric(const bti_conv *c, int axis) {
    int64_t span = (c->w[axis] - 1) * c->dilation[axis] + 1, places = c->x[axis] + 2 * c->before[axis] - span;
    return c->before[axis] < span && places >= 0 && places / c->stride[axis] + 1 == c->y[axis];
}

/* False: it is none of cuDNN's. */
static bool read_shape(const bti_work *work, conv_key *s) {
    memset(s, 0, sizeof *s);
    if (!read_types(work, s)) return false;
    bti_conv c = bti_conv_of(work);
    s->made = (int32_t)c.made;
    s->axes = c.x[0] == 1 && c.w[0] == 1 && c.y[0] == 1 && !c.before[0] ? 2 : 3;
    for (int array = 0; array < BTI_CONV_ARRAYS; array++)
        if (!read_array(&c.array[array], s, (bti_conv_array)array)) return false;
    s->groups = (int32_t)c.groups; /* there are no more than channels */
    for (int i = 0, from = BTI_CONV_AXES - s->axes; i < s->axes; i++, from++) {
        if (!is_symmetric(&c, from) || c.stride[from] > INT32_MAX || c.dilation[from] > INT32_MAX) return false;
        s->before[i] = (int32_t)c.before[from];
        s->stride[i] = (int32_t)c.stride[from];
        s->dilation[i] = (int32_t)c.dilation[from];
    }
    return true;
}

/* --- known shapes ------------------------------------------------------------------------------------------------- */

static bool is_out_of_memory(cudnnStatus_t status) {
    return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
           status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}
/* What it does not support, which some versions call a wrong parameter, and what it lacks: some parts of it are loaded when they are first needed. */
static bool is_refusal(cudnnStatus_t status) { return status && status < CUDNN_STATUS_INTERNAL_ERROR; }

static bt_status fail_cudnn(const bti_cuda_device *device, const char *call, cudnnStatus_t status) {
    return bti_fail(is_out_of_memory(status) ? BT_RESOURCE_EXHAUSTED : BT_INTERNAL, "%s: %s: cuDNN's status is %d (%s)",
                    device->name, call, status, bti_cudnn.cudnnGetErrorString(status));
}

/* The arguments of an operation's functions: two arrays and the one that is made. */
typedef struct conv_operation {
    bti_conv_array first, second;
    cudnnStatus_t (**find)(cudnnHandle_t, bti_cudnn_array, bti_cudnn_array, cudnnConvolutionDescriptor_t,
                           bti_cudnn_array, int, int *, bti_cudnn_algorithm *);
    cudnnStatus_t (**measure)(cudnnHandle_t, bti_cudnn_array, bti_cudnn_array, cudnnConvolutionDescriptor_t,
                              bti_cudnn_array, int, size_t *);
    cudnnStatus_t (**run)(cudnnHandle_t, const void *, bti_cudnn_array, const void *, bti_cudnn_array, const void *,
                          cudnnConvolutionDescriptor_t, int, void *, size_t, const void *, bti_cudnn_array, void *);
    const char *found_by, *measured_by, *run_by;
    int algorithms;  /* that there are */
    unsigned direct; /* those that add up the sum's products: bits */
} conv_operation;
#define OPERATION(first, second, name, algorithms, direct)                                           \
    {                                                                                                \
        first, second, &bti_cudnn.cudnnGetConvolution##name##Algorithm_v7,                           \
            &bti_cudnn.cudnnGetConvolution##name##WorkspaceSize, &bti_cudnn.cudnnConvolution##name,  \
            "cudnnGetConvolution" #name "Algorithm_v7", "cudnnGetConvolution" #name "WorkspaceSize", \
            "cudnnConvolution" #name, algorithms, direct                                             \
    }
static const conv_operation operations[BTI_CONV_ARRAYS] = {
    [BTI_CONV_Y] = OPERATION(BTI_CONV_X, BTI_CONV_W, Forward, CUDNN_CONVOLUTION_FWD_ALGO_COUNT,
                             1u << CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM |
                                 1u << CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM |
                                 1u << CUDNN_CONVOLUTION_FWD_ALGO_GEMM | 1u << CUDNN_CONVOLUTION_FWD_ALGO_DIRECT),
    [BTI_CONV_X] = OPERATION(BTI_CONV_W, BTI_CONV_Y, BackwardData, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
                             1u << CUDNN_CONVOLUTION_BWD_DATA_ALGO_1),
    [BTI_CONV_W] = OPERATION(BTI_CONV_X, BTI_CONV_Y, BackwardFilter, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT,
                             1u << CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1),
};

static bti_cudnn_array descriptor_of(const known_conv *entry, bti_conv_array array) {
    return array == BTI_CONV_W ? (bti_cudnn_array)entry->w : array == BTI_CONV_X ? entry->x : entry->y;
}

static bool is_known(const bti_lru_entry *entry, const void *key) {
    return !memcmp(&((const known_conv *)entry)->shape, key, sizeof(conv_key));
}

static void free_known(bti_lru_entry *freed) {
    known_conv *entry = (known_conv *)freed;
    if (entry->conv) (void)bti_cudnn.cudnnDestroyConvolutionDescriptor(entry->conv);
    if (entry->w) (void)bti_cudnn.cudnnDestroyFilterDescriptor(entry->w);
    if (entry->y) (void)bti_cudnn.cudnnDestroyTensorDescriptor(entry->y);
    if (entry->x) (void)bti_cudnn.cudnnDestroyTensorDescriptor(entry->x);
    bti_free(entry);
}

/* Goes on to the next call, whose name is *call. */
#define DNN_NEXT(call, function, ...)                                \
    do {                                                             \
        *(call) = #function;                                         \
        cudnnStatus_t dnn_status_ = bti_cudnn.function(__VA_ARGS__); \
        if (dnn_status_) return dnn_status_;                         \
    } while (0)

static cudnnStatus_t make_tensor(const conv_key *s, bti_conv_array array, cudnnTensorDescriptor_t *tensor,
                                 const char **call) {
    int strides[MOST_AXES], step = 1;
    for (int i = 2 + s->axes - 1; i >= 0; i--) strides[i] = step, step *= s->shape[array][i];
    DNN_NEXT(call, cudnnCreateTensorDescriptor, tensor);
    DNN_NEXT(call, cudnnSetTensorNdDescriptor, *tensor, s->type, 2 + s->axes, s->shape[array], strides);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t make_descriptors(known_conv *entry, const char **call) {
    const conv_key *s = &entry->shape;
    cudnnStatus_t status = make_tensor(s, BTI_CONV_X, &entry->x, call);
    if (!status) status = make_tensor(s, BTI_CONV_Y, &entry->y, call);
    if (status) return status;
    DNN_NEXT(call, cudnnCreateFilterDescriptor, &entry->w);
    DNN_NEXT(call, cudnnSetFilterNdDescriptor, entry->w, s->type, CUDNN_TENSOR_NCHW, 2 + s->axes, s->shape[BTI_CONV_W]);
    DNN_NEXT(call, cudnnCreateConvolutionDescriptor, &entry->conv);
    DNN_NEXT(call, cudnnSetConvolutionNdDescriptor, entry->conv, s->axes, s->before, s->stride, s->dilation,
             CUDNN_CROSS_CORRELATION, s->type);
    DNN_NEXT(call, cudnnSetConvolutionGroupCount, entry->conv, s->groups);
    DNN_NEXT(call, cudnnSetConvolutionMathType, entry->conv, s->math);
    return CUDNN_STATUS_SUCCESS;
}

/* Of float32 either the products of float32 itself, or at most those of TF32: the conversion that cuDNN may be allowed besides is to float16, whose range is
 * less. */
static bool is_wanted(const conv_key *s, const conv_operation *operation, const bti_cudnn_algorithm *found) {
    bool is_math = s->math == CUDNN_FMA_MATH ? found->mathType == CUDNN_FMA_MATH
                                             : found->mathType != CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
    return !found->status && found->determinism == CUDNN_DETERMINISTIC && is_math && found->algo >= 0 &&
           found->algo < operation->algorithms && operation->direct >> found->algo & 1 &&
           found->memory <= MOST_WORKSPACE;
}

/* Whether the algorithm fits into the workspace, which depends on the kind of its products. */
static cudnnStatus_t try_algorithm(const bti_cuda_device *device, const bti_cudnn_algorithm *found, known_conv *entry,
                                   const char **call) {
    const conv_operation *operation = &operations[entry->shape.made];
    DNN_NEXT(call, cudnnSetConvolutionMathType, entry->conv, found->mathType);
    *call = operation->measured_by;
    entry->algorithm = found->algo;
    cudnnStatus_t status = (*operation->measure)(
        device->convs->handle, descriptor_of(entry, operation->first), descriptor_of(entry, operation->second),
        entry->conv, descriptor_of(entry, (bti_conv_array)entry->shape.made), found->algo, &entry->workspace_bytes);
    return status || entry->workspace_bytes <= MOST_WORKSPACE ? status : CUDNN_STATUS_NOT_SUPPORTED;
}

/* The first of those that cuDNN believes to be the fastest. Times are never measured: the choice would not be the same on each run. */
static cudnnStatus_t choose_algorithm(const bti_cuda_device *device, known_conv *entry, const char **call) {
    const conv_operation *operation = &operations[entry->shape.made];
    bti_cudnn_algorithm found[MOST_ALGORITHMS] = {{0}};
    int count = 0;
    *call = operation->found_by;
    cudnnStatus_t status = (*operation->find)(
        device->convs->handle, descriptor_of(entry, operation->first), descriptor_of(entry, operation->second),
        entry->conv, descriptor_of(entry, (bti_conv_array)entry->shape.made), operation->algorithms, &count, found);
    if (status) return status;
    for (int i = 0; i < count; i++) {
        if (!is_wanted(&entry->shape, operation, &found[i])) continue;
        status = try_algorithm(device, &found[i], entry, call);
        if (!is_refusal(status)) return status;
    }
    return CUDNN_STATUS_NOT_SUPPORTED;
}

static bt_status make_known(const bti_cuda_device *device, known_conv *new) {
    const char *call = "";
    cudnnStatus_t status = make_descriptors(new, &call);
    if (!status) status = choose_algorithm(device, new, &call);
    new->refused = is_refusal(status);
    return status && !new->refused ? fail_cudnn(device, call, status) : BT_OK;
}

/* The caller releases *found. */
static bt_status find_known(bti_cuda_device *device, const conv_key *s, known_conv **found) {
    bti_lru *known = &device->convs->known;
    uint64_t hash = XXH3_64bits(s, sizeof *s);
    *found = bti_lru_find(known, hash, s);
    if (*found) return BT_OK;
    known_conv *new = bti_calloc(1, sizeof *new);
    if (!new) return bti_no_memory();
    bti_lru_entry_init(&new->entry);
    new->shape = *s;
    bt_status status = make_known(device, new);
    if (status == BT_OK) {
        bti_lru_add(known, &new->entry, hash, 0);
        *found = new;
    } else
        bti_lru_release(known, &new->entry);
    return status;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* With the context current. A cuDNN that does not start, of whose parts one is missing, is done without; but for want of memory it may start later. */
static bt_status open_convs(bti_cuda_device *device) {
    if (device->convs) return BT_OK;
    struct bti_cuda_convs *convs = bti_calloc(1, sizeof *convs);
    if (!convs) return bti_no_memory();
    convs->started = bti_cudnn.cudnnCreate(&convs->handle);
    if (is_out_of_memory(convs->started)) {
        bt_status status = fail_cudnn(device, "cudnnCreate", convs->started);
        bti_free(convs);
        return status;
    }
    if (convs->started) convs->handle = NULL;
    convs->known = (bti_lru){.equal = is_known, .free = free_known, .most_count = KEPT};
    device->convs = convs;
    return BT_OK;
}

static uint64_t address_of(const bti_work *work, bti_conv_array array) {
    return work->inputs[bti_conv_input(work->op, 0) == array ? 0 : 1].address;
}

static cudnnStatus_t call_cudnn(const bti_cuda_device *device, const known_conv *entry, const bti_work *work,
                                uint64_t workspace) {
    static const float one = 1, zero = 0;
    static const double one_double = 1, zero_double = 0;
    const conv_operation *operation = &operations[entry->shape.made];
    bool is_double = entry->shape.type == CUDNN_DATA_DOUBLE;
    return (*operation->run)(
        device->convs->handle, is_double ? (const void *)&one_double : &one, descriptor_of(entry, operation->first),
        (const void *)(uintptr_t)address_of(work, operation->first), descriptor_of(entry, operation->second),
        (const void *)(uintptr_t)address_of(work, operation->second), entry->conv, entry->algorithm,
        (void *)(uintptr_t)workspace, entry->workspace_bytes, is_double ? (const void *)&zero_double : &zero,
        descriptor_of(entry, (bti_conv_array)entry->shape.made), (void *)(uintptr_t)work->output.address);
}

/* A stream that is recorded is destroyed after the recording, and another one may have its address. */
static bt_status call_on_stream(bti_cuda_device *device, known_conv *entry, const bti_work *work, uint64_t workspace) {
    struct bti_cuda_convs *convs = device->convs;
    CUstream stream = bti_cuda_stream(device);
    if (bti_cuda_cannot_update(device)) return BT_OK;
    cudnnStatus_t status =
        convs->stream == stream ? CUDNN_STATUS_SUCCESS : bti_cudnn.cudnnSetStream(convs->handle, stream);
    convs->stream = !status && stream == device->compute ? stream : NULL;
    if (status) return fail_cudnn(device, "cudnnSetStream", status);
    status = call_cudnn(device, entry, work, workspace);
    entry->refused = is_refusal(status);
    return status && !entry->refused ? fail_cudnn(device, operations[entry->shape.made].run_by, status) : BT_OK;
}

static bt_status convolve_by_cudnn(bti_cuda_device *device, const bti_work *work, const conv_key *s, bool *done) {
    known_conv *entry;
    uint64_t workspace = 0;
    BTI_TRY(open_convs(device));
    if (!device->convs->handle) return BT_OK;
    BTI_TRY(find_known(device, s, &entry));
    bt_status status = BT_OK;
    if (!entry->refused && entry->workspace_bytes)
        status = bti_gpu_scratch(&device->gpu, BTI_GPU_WORKSPACE, entry->workspace_bytes, &workspace);
    if (!entry->refused && status == BT_OK) status = call_on_stream(device, entry, work, workspace);
    *done = !entry->refused && status == BT_OK;
    bti_lru_release(&device->convs->known, &entry->entry);
    return status;
}

bt_status bti_cuda_conv(void *opened, const bti_work *work, bool *done) {
    bti_cuda_device *device = opened;
    conv_key s;
    *done = false;
    if (!read_shape(work, &s) || !bti_cuda_has(BTI_CUDA_CUDNN)) return BT_OK;
    BTI_TRY(bti_cuda_enter(device));
    return bti_cuda_leave(convolve_by_cudnn(device, work, &s, done));
}

void bti_cuda_convs_free(bti_cuda_device *device) {
    struct bti_cuda_convs *convs = device->convs;
    if (!convs) return;
    bti_lru_clear(&convs->known);
    if (convs->handle && !atomic_load(&device->lost)) (void)bti_cudnn.cudnnDestroy(convs->handle);
    bti_free(convs);
    device->convs = NULL;
}

/* All but the launch of a convolution as ResNets have it. */
static cudnnStatus_t try_conv(const bti_cuda_device *device, const char **call) {
    known_conv *tried = bti_calloc(1, sizeof *tried);
    if (!tried) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    bti_lru_entry_init(&tried->entry);
    tried->shape = (conv_key){.made = BTI_CONV_Y,
                              .type = CUDNN_DATA_FLOAT,
                              .math = CUDNN_FMA_MATH,
                              .groups = 1,
                              .axes = 2,
                              .shape = {{8, 64, 56, 56}, {64, 64, 3, 3}, {8, 64, 56, 56}},
                              .before = {1, 1},
                              .stride = {1, 1},
                              .dilation = {1, 1}};
    cudnnStatus_t status = make_descriptors(tried, call);
    if (!status) status = choose_algorithm(device, tried, call);
    bti_lru_release(&device->convs->known, &tried->entry);
    return status;
}

void bti_cuda_convs_describe(bti_cuda_device *device, bti_str *text) {
    if (!bti_cuda_has(BTI_CUDA_CUDNN) || bti_cuda_enter(device) != BT_OK) return;
    const char *call = "cudnnCreate";
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    bti_lock_take(&device->gpu.lock);
    bt_status opened = open_convs(device);
    if (opened == BT_OK) status = device->convs->started;
    if (opened == BT_OK && !status) status = try_conv(device, &call);
    bti_lock_give(&device->gpu.lock);
    if (bti_cuda_leave(opened) != BT_OK)
        bti_str_addf(text, "cuDNN does not start: %s\n", bt_error_text());
    else if (status)
        bti_str_addf(text, "cuDNN does not work, and convolutions run on kernels of ours: %s: status %d (%s)\n", call,
                     status, bti_cudnn.cudnnGetErrorString(status));
}
