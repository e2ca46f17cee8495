/* Matrix products by CLBlast, if it is installed. The engine's own kernel computes what CLBlast does not support or fails at. CLBlast
 * compiles its kernels at the first product of a dtype, which takes seconds on a CPU: the flag clblast says which devices use it. */
#include <dlfcn.h>

#include "base/flags.h"
#include "base/libraries.h"
#include "base/lock.h"
#include "launch/gpu_product.h"
#include "drivers/opencl/device.h"

#define LIBRARY "libclblast.so.1"

/* Values of CLBlast's enums. */
enum { ROW_MAJOR = 101, TRANSPOSE_NO = 111, TRANSPOSE_YES = 112 };

typedef struct clblast_functions {
#define BTI_CLBLAST(letter, type)                                                                                      \
    int (*letter##gemm)(int layout, int a_transpose, int b_transpose, size_t m, size_t n, size_t k, type alpha,        \
                        cl_mem a, size_t a_offset, size_t a_leading, cl_mem b, size_t b_offset, size_t b_leading,      \
                        type beta, cl_mem c, size_t c_offset, size_t c_leading, cl_command_queue *, cl_event *);       \
    int (*letter##gemmStridedBatched)(int layout, int a_transpose, int b_transpose, size_t m, size_t n, size_t k,      \
                                      type alpha, cl_mem a, size_t a_offset, size_t a_leading, size_t a_step,          \
                                      cl_mem b, size_t b_offset, size_t b_leading, size_t b_step, type beta, cl_mem c, \
                                      size_t c_offset, size_t c_leading, size_t c_step, size_t batch,                  \
                                      cl_command_queue *, cl_event *);
#include "drivers/opencl/clblast.def"
} clblast_functions;

BTI_STATIC_LOCK(clblast_lock, opencl_clblast) /* of what follows; `clblast` does not change once LOADED */
static clblast_functions clblast;
static enum { UNTRIED, LOADED, MISSING } clblast_state;

static bool open_clblast(void) {
    static const char *const names[] = {
#define BTI_CLBLAST(letter, type) "CLBlast" #letter "gemm", "CLBlast" #letter "gemmStridedBatched",
#include "drivers/opencl/clblast.def"
    };
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL), **at = (void **)&clblast;
    if (!library) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(at[i] = dlsym(library, names[i]))) return dlclose(library), false;
    return true;
}

bool bti_cl_has_clblast(const bti_cl_device *device) {
    int choice = bti_flag_choice(BTI_FLAG_clblast); /* auto|on|off */
    if (choice == 2 || (choice == 0 && !device->is_gpu)) return false;
    bti_lock_take(&clblast_lock);
    if (clblast_state == UNTRIED) clblast_state = open_clblast() ? LOADED : MISSING;
    bool loaded = clblast_state == LOADED;
    bti_lock_give(&clblast_lock);
    return loaded;
}

typedef struct clblast_call {
    bti_cl_device *device;
    const bti_gpu_product *product;
    bt_dtype dtype;
    int status; /* CLBlast's: 0, OpenCL's, or one of its own */
} clblast_call;

static bt_status call_clblast(void *data, uint64_t left, uint64_t right, uint64_t out) {
    clblast_call *l = data;
    const bti_gpu_product *p = l->product;
    cl_mem memory[3];
    size_t at[3], size = bt_dtype_size(l->dtype);
    if (l->status) return BT_OK;
    BTI_TRY(bti_cl_find_buffer(l->device, left, &memory[0], &at[0]));
    BTI_TRY(bti_cl_find_buffer(l->device, right, &memory[1], &at[1]));
    BTI_TRY(bti_cl_find_buffer(l->device, out, &memory[2], &at[2]));
    int a = p->left.transposed ? TRANSPOSE_YES : TRANSPOSE_NO, b = p->right.transposed ? TRANSPOSE_YES : TRANSPOSE_NO;
    size_t m = (size_t)p->rows, n = (size_t)p->columns, k = (size_t)p->inner, batch = (size_t)p->batch;
    size_t a_leading = (size_t)p->left.leading, b_leading = (size_t)p->right.leading,
           c_leading = (size_t)p->out.leading;
    size_t a_step = (size_t)p->left.batch_step, b_step = (size_t)p->right.batch_step,
           c_step = (size_t)p->out.batch_step;
    cl_command_queue queue = l->device->queue;
#define RUN(letter)                                                                                                \
    l->status =                                                                                                    \
        batch == 1                                                                                                 \
            ? clblast.letter##gemm(ROW_MAJOR, a, b, m, n, k, 1, memory[0], at[0] / size, a_leading, memory[1],     \
                                   at[1] / size, b_leading, 0, memory[2], at[2] / size, c_leading, &queue, NULL)   \
            : clblast.letter##gemmStridedBatched(ROW_MAJOR, a, b, m, n, k, 1, memory[0], at[0] / size, a_leading,  \
                                                 a_step, memory[1], at[1] / size, b_leading, b_step, 0, memory[2], \
                                                 at[2] / size, c_leading, c_step, batch, &queue, NULL)
    if (l->dtype == BT_F64)
        RUN(D);
    else
        RUN(S);
#undef RUN
    return BT_OK;
}

/* A shortage of memory may be over at the next product. */
static bool is_temporary(int status) {
    return status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_RESOURCES ||
           status == CL_OUT_OF_HOST_MEMORY;
}

static bool steps_forward(const bti_gpu_matrix *matrix) { return matrix->batch_step >= 0; }

bool bti_cl_has_product(void *opened, bt_dtype dtype) {
    bti_cl_device *device = opened;
    return (dtype == BT_F32 || dtype == BT_F64) && !(device->products_refused >> dtype & 1) &&
           bti_cl_has_clblast(device);
}

bt_status bti_cl_product(void *opened, const bti_work *work, bool *done) {
    bti_cl_device *device = opened;
    bti_gpu_product product;
    bt_dtype dtype = work->output.dtype;
    *done = false;
    if (!bti_cl_has_product(device, dtype) || !bti_gpu_product_of(work, &product) || !steps_forward(&product.left) ||
        !steps_forward(&product.right) || !steps_forward(&product.out))
        return BT_OK;
    BTI_TRY(bti_cl_check(device));
    static bti_library_calls calls;
    if (!bti_libraries_enter(&calls)) return BT_OK; /* the process is ending, and it compiles its kernels */
    clblast_call l = {.device = device, .product = &product, .dtype = dtype};
    bt_status status = bti_gpu_product_each(work, &product, call_clblast, &l);
    bti_libraries_leave();
    BTI_TRY(status);
    *done = !l.status;
    if (l.status && !is_temporary(l.status)) device->products_refused |= 1u << dtype;
    return BT_OK;
}
