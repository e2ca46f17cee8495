// timeout: 600
/* An OpenCL device whose platform fails: the errors, and that the CPU still works. */
#include <berth.h>

#include <dlfcn.h>
#include <unistd.h>

#include "support/opencl_product.h"

static bti_cl_device *device;
static bti_cl_functions *live; /* what all devices call */

/* --- text --------------------------------------------------------------------------------------------------------- */

static void text_that_does_not_compile_is_shown(void **state) {
    void *module = NULL;
    bti_str text = {0};
    bti_str_add(&text, "__kernel void right(__global int *x) { x[0] = 1; }\n"
                       "__kernel void wrong(__global int *x) { x[0] = nothing; }\n");
    assert_int_equal(bti_cl_gpu_driver.build(device, "add+mul", &text, &module), BT_INTERNAL);
    const char *told = bt_error_text();
    assert_non_null(strstr(told, "the text of kernel add+mul does not compile"));
    assert_non_null(strstr(told, "line 2: __kernel void wrong(__global int *x) { x[0] = nothing; }"));
    assert_non_null(strstr(told, "--- the text:\n__kernel void right("));
    bti_str_free(&text);
}

/* --- dtypes ------------------------------------------------------------------------------------------------------- */

static void without_float64_it_is_unsupported(void **state) {
    void *program;
    bti_program_source source = {.op = BTI_OP_matmul, .dtype_count = 3, .dtypes = {BT_F64, BT_F64, BT_F64}};
    bti_target own = device->gpu.target;
    device->gpu.target = BTI_OPENCL_C_F32;
    assert_int_equal(bti_driver_opencl.program_load(device, &source, &program), BT_UNIMPLEMENTED);
    assert_non_null(strstr(bt_error_text(), "has no float64; use float32 there, or the CPU"));
    source = (bti_program_source){.op = BTI_OP_matmul, .dtype_count = 3, .dtypes = {BT_F16, BT_F16, BT_F16}};
    assert_int_equal(bti_driver_opencl.program_load(device, &source, &program), BT_OK);
    bti_driver_opencl.program_free(device, &source, program);
    device->gpu.target = own;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static cl_mem no_buffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *error) {
    *error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return NULL;
}

static cl_int migrates_nothing(cl_command_queue queue, cl_uint count, const cl_mem *memory, cl_mem_migration_flags how,
                               cl_uint waits, const cl_event *events, cl_event *event) {
    return CL_OUT_OF_RESOURCES;
}

static void expect_no_memory(size_t bytes, const char *told) {
    uint64_t address;
    size_t buffers = device->buffers.count;
    assert_int_equal(bti_cl_alloc(device, bytes, &address), BT_RESOURCE_EXHAUSTED);
    if (!strstr(bt_error_text(), told)) fail_msg("%s", bt_error_text());
    assert_int_equal(device->buffers.count, buffers);
}

static void memory_that_is_short_is_said(void **state) {
    const bti_cl_functions own = *live;
    expect_no_memory(device->largest_buffer + 1, "CL_DEVICE_MAX_MEM_ALLOC_SIZE");
    live->clCreateBuffer = no_buffer;
    expect_no_memory(1000, "1000 bytes: CL_MEM_OBJECT_ALLOCATION_FAILURE");
    *live = own;
    live->clEnqueueMigrateMemObjects = migrates_nothing;
    expect_no_memory(1000, "1000 bytes: CL_OUT_OF_RESOURCES");
    *live = own;
    uint64_t address;
    assert_int_equal(bti_cl_alloc(device, 1000, &address), BT_OK);
    bti_cl_free(device, address, 1000);
}

/* --- a whole program ---------------------------------------------------------------------------------------------- */

static bt_status double_on(const char *where, double *sum) {
    bt_status status = BT_OK;
    BT_SCOPE
        BT_ON(where) {
            bt_array *x = bt_arange(0, 100, 1, BT_F32), *y = bt_sum(bt_add(x, x), BT_ALL, false);
            status = bt_block(y);
            if (status == BT_OK) *sum = bt_item(y);
        }
    return status;
}

static cl_int launches_nothing(cl_command_queue queue, cl_kernel kernel, cl_uint rank, const size_t *offset,
                               const size_t *all, const size_t *group, cl_uint waits, const cl_event *events,
                               cl_event *event) {
    return CL_DEVICE_NOT_AVAILABLE;
}

static void a_lost_device_stays_alone(void **state) {
    const bti_cl_functions own = *live;
    const char *where = device->is_gpu ? "gpu:0" : "acc:0";
    double sum = 0;
    assert_int_equal(double_on(where, &sum), BT_OK);
    assert_true(sum == 9900);
    live->clEnqueueNDRangeKernel = launches_nothing;
    assert_int_equal(double_on(where, &sum), BT_UNAVAILABLE);
    assert_non_null(strstr(bt_error_text(), "CL_DEVICE_NOT_AVAILABLE"));
    *live = own;
    assert_int_equal(double_on(where, &sum), BT_UNAVAILABLE);
    assert_non_null(strstr(bt_error_text(), "is lost since an earlier failure"));
    sum = 0;
    assert_int_equal(double_on("cpu:0", &sum), BT_OK);
    assert_true(sum == 9900);
    bt_error_clear();
}

/* --- marks ---------------------------------------------------------------------------------------------------------- */

static cl_int no_times(cl_event event, cl_profiling_info what, size_t bytes, void *value, size_t *told) {
    return CL_PROFILING_INFO_NOT_AVAILABLE;
}

static cl_int no_barrier(cl_command_queue queue, cl_uint waits, const cl_event *events, cl_event *event) {
    return CL_OUT_OF_RESOURCES;
}

static cl_int no_marker(cl_command_queue queue, cl_uint waits, const cl_event *events, cl_event *event) {
    return CL_OUT_OF_RESOURCES;
}

#define DONE(call) assert_int_equal((call), BT_OK)

/* The bytes are `byte` when all that was launched is complete. Nothing is timed from here on. */
static void expect_filled(uint64_t address, size_t bytes, int byte) {
    bti_event event;
    unsigned char got = 0;
    DONE(bti_driver_opencl.record(device, &event));
    DONE(bti_driver_opencl.wait(device, event));
    DONE(bti_driver_opencl.download(device, &got, address + bytes - 1, 1));
    assert_int_equal(got, byte);
    assert_ptr_equal(device->queue, device->queues[0]);
}

/* What is timed is in another queue, and in the order of all launches. */
static void marks_tell_when_work_ran(void **state) {
    const size_t bytes = 4 << 20;
    uint64_t address, begin_ns, end_ns;
    bti_mark begin, end;
    DONE(bti_cl_alloc(device, bytes, &address));
    for (int i = 0; i < 20; i++) {
        DONE(bti_cl_fill(device, address, 3, bytes));
        DONE(bti_driver_opencl.mark(device, true, &begin));
        DONE(bti_cl_fill(device, address, i, bytes));
        DONE(bti_driver_opencl.mark(device, false, &end));
        expect_filled(address, bytes, i);
        begin_ns = bti_driver_opencl.read_mark(device, begin);
        end_ns = bti_driver_opencl.read_mark(device, end);
        assert_true(begin_ns && end_ns > begin_ns);
    }
    bti_cl_free(device, address, bytes);
}

static void marks_may_fail(void **state) {
    const bti_cl_functions own = *live;
    uint64_t address;
    bti_mark mark;
    DONE(bti_cl_alloc(device, 1000, &address));
    live->clEnqueueMarkerWithWaitList = no_marker;
    assert_int_equal(bti_driver_opencl.mark(device, true, &mark), BT_RESOURCE_EXHAUSTED);
    *live = own;
    live->clEnqueueBarrierWithWaitList = no_barrier;
    assert_int_equal(bti_driver_opencl.mark(device, true, &mark), BT_RESOURCE_EXHAUSTED);
    *live = own;
    DONE(bti_cl_fill(device, address, 5, 1000));
    expect_filled(address, 1000, 5);
    DONE(bti_driver_opencl.mark(device, true, &mark));
    DONE(bti_cl_fill(device, address, 6, 1000));
    expect_filled(address, 1000, 6);
    live->clGetEventProfilingInfo = no_times;
    assert_int_equal(bti_driver_opencl.read_mark(device, mark), 0);
    *live = own;
    bti_cl_free(device, address, 1000);
    bt_error_clear();
}

static int finished;
static cl_int (*own_finish)(cl_command_queue queue);
static cl_int count_and_finish(cl_command_queue queue) {
    finished++;
    return own_finish(queue);
}
static cl_int no_flush(cl_command_queue queue) { return CL_OUT_OF_RESOURCES; }

/* The memory of work without an event serves others. */
static void a_record_that_fails_waits(void **state) {
    const bti_cl_functions own = *live;
    bti_event event;
    own_finish = own.clFinish;
    for (int i = 0; i < 2; i++) {
        finished = 0;
        live->clFinish = count_and_finish;
        if (i)
            live->clFlush = no_flush;
        else
            live->clEnqueueMarkerWithWaitList = no_marker;
        assert_int_equal(bti_driver_opencl.record(device, &event), BT_RESOURCE_EXHAUSTED);
        *live = own;
        assert_true(finished >= 1);
    }
    bt_error_clear();
}

/* --- work that is not completed ------------------------------------------------------------------------------------- */

static cl_event gate; /* of the test; events come after it */
static cl_int (*own_marker)(cl_command_queue queue, cl_uint waits, const cl_event *events, cl_event *event);

static cl_int marker_after_gate(cl_command_queue queue, cl_uint waits, const cl_event *events, cl_event *event) {
    return own_marker(queue, 1, &gate, event);
}

static void a_device_that_does_not_complete_is_late(void **state) {
    const bti_cl_functions own = *live;
    const char *where = device->is_gpu ? "gpu:0" : "acc:0";
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_NOLOAD);
    cl_event (*create)(cl_context context, cl_int * error);
    cl_int (*set)(cl_event event, cl_int state), error;
    assert_non_null(library);
    *(void **)(void *)&create = dlsym(library, "clCreateUserEvent");
    *(void **)(void *)&set = dlsym(library, "clSetUserEventStatus");
    double sum = 0;
    assert_int_equal(double_on(where, &sum), BT_OK);
    assert_int_equal(bt_set_flag("device_seconds", "0.1"), BT_OK);
    gate = create(device->context, &error);
    assert_int_equal(error, CL_SUCCESS);
    own_marker = own.clEnqueueMarkerWithWaitList;
    live->clEnqueueMarkerWithWaitList = marker_after_gate;
    assert_int_equal(double_on(where, &sum), BT_DEADLINE_EXCEEDED);
    assert_non_null(strstr(bt_error_text(), "has not completed the work that begins with this operation"));
    assert_int_equal(bt_shutdown(), BT_DEADLINE_EXCEEDED);
    assert_int_equal(double_on("cpu:0", &sum), BT_OK);
    *live = own;
    assert_int_equal(set(gate, CL_COMPLETE), CL_SUCCESS);
    for (int ms = 0; double_on(where, &sum) == BT_DEADLINE_EXCEEDED && ms < 60000; ms++) usleep(1000);
    assert_int_equal(double_on(where, &sum), BT_OK);
    assert_true(sum == 9900);
    own.clReleaseEvent(gate);
    assert_int_equal(bt_set_flag("device_seconds", "0"), BT_OK);
    dlclose(library);
    bt_error_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(text_that_does_not_compile_is_shown),
                                       cmocka_unit_test(without_float64_it_is_unsupported),
                                       cmocka_unit_test(memory_that_is_short_is_said),
                                       cmocka_unit_test(marks_tell_when_work_ran),
                                       cmocka_unit_test(marks_may_fail),
                                       cmocka_unit_test(a_record_that_fails_waits),
                                       cmocka_unit_test(a_device_that_does_not_complete_is_late),
                                       cmocka_unit_test(a_lost_device_stays_alone)};
    bti_str reason = {0};
    device = open_first();
    if (!device) return 77;
    live = (bti_cl_functions *)(uintptr_t)bti_cl(&reason);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    bti_driver_opencl.close(device);
    bt_status ended = bt_shutdown(); /* tells of the device once more */
    return rc ? rc : ended != BT_OK && ended != BT_UNAVAILABLE;
}
