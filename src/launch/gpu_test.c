/* The GPU engine on a device that only records its calls. */
#include "launch/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "ir/attention.h"
#include "reference/operand.h"

/* --- a device that notes ------------------------------------------------------------------------------------------ */

typedef struct launch {
    char name[24];
    uint32_t groups, threads;
    bool local;
    size_t local_bytes;
    int words;
    uint64_t last_word;
} launch;

typedef struct machine {
    int modules, functions, blocks; /* that are there */
    int builds, waits, launch_count;
    launch launches[16];
    int calls, fails_at; /* the nth call of any kind fails; 0: none */
    int threads, groups; /* of functions */
    size_t free_bytes, block_bytes;
    char names[16][24];
} machine;

static machine on;
static bti_gpu gpu;

static bt_status count_call(const char *name) {
    return ++on.calls == on.fails_at ? bti_fail(BT_INTERNAL, "no %s", name) : BT_OK;
}

static bt_status build(void *device, const char *name, const bti_str *text, void **module) {
    assert_ptr_equal(device, &on);
    assert_true(text->length > 0 && *name);
    BTI_TRY(count_call("build"));
    *module = bti_alloc(1);
    if (!*module) return bti_no_memory();
    on.builds++;
    on.modules++;
    return BT_OK;
}
static void unload(void *device, void *module) {
    on.modules--;
    bti_free(module);
}
static bt_status find(void *device, void *module, const char *name, bti_gpu_function *function) {
    assert_non_null(module);
    BTI_TRY(count_call("find"));
    snprintf(on.names[on.functions], sizeof on.names[0], "%s", name);
    *function = (bti_gpu_function){.handle = on.names[on.functions++], .threads = on.threads, .groups = on.groups};
    return BT_OK;
}
static void forget(void *device, bti_gpu_function *function) { on.functions--; }
static bt_status start(void *device, const bti_gpu_launch *asked) {
    BTI_TRY(count_call("launch"));
    launch *noted = &on.launches[on.launch_count++];
    *noted = (launch){.groups = asked->groups,
                      .threads = asked->threads,
                      .local = asked->local,
                      .local_bytes = asked->local_bytes,
                      .words = asked->words->count,
                      .last_word = asked->words->word[asked->words->count - 1]};
    snprintf(noted->name, sizeof noted->name, "%s", (const char *)asked->function->handle);
    return BT_OK;
}
static bt_status wait(void *device) {
    on.waits++;
    return count_call("wait");
}
static const bti_gpu_driver driver = {
    .build = build, .unload = unload, .find_function = find, .free_function = forget, .launch = start, .wait = wait};

static bt_status take(int device, size_t bytes, uint64_t *address, void **block) {
    BTI_TRY(count_call("take"));
    if (bytes > on.free_bytes) return bti_fail(BT_RESOURCE_EXHAUSTED, "no memory");
    on.blocks++;
    on.block_bytes = bytes;
    *address = 0x10000 * (uint64_t)on.calls;
    *block = &on;
    return BT_OK;
}
static void give(int device, void *block) { on.blocks--; }

static int begin(void **state) {
    on = (machine){.free_bytes = SIZE_MAX};
    gpu = (bti_gpu){.lock = BTI_LOCK_INIT(gpu),
                    .driver = &driver,
                    .device = &on,
                    .name = "Card",
                    .target = BTI_CUDA_C,
                    .units = 4,
                    .threads = 1024,
                    .local_bytes = 48 << 10,
                    .allocator = {.alloc = take, .free = give}};
    return 0;
}

/* Whether its last launch lacked a text: it has one now. */
static bool give_text(void *program, bt_status *status) {
    bti_text_wanted wanted;
    if (!bti_gpu_text_lacked(&gpu, program, &wanted)) return false;
    bti_str text = {0};
    bti_str_add(&text, "text");
    *status = bti_gpu_text_give(&gpu, program, &wanted, &text);
    bti_str_free(&text);
    return *status == BT_OK;
}

static bt_status load(const bti_kernel *kernel, void **program) {
    *program = NULL;
    return bti_gpu_load(&gpu, &(bti_program_source){.kernel = kernel}, program);
}

static bt_status launch_kernel(void *program, const bti_box *box) {
    bt_status status = bti_gpu_launch_kernel(&gpu, program, box);
    while (status != BT_OK && give_text(program, &status)) status = bti_gpu_launch_kernel(&gpu, program, box);
    return status;
}

static bt_status launch_boxes(void *program, const bti_box *boxes, int count) {
    bt_status status = bti_gpu_launch_boxes(&gpu, program, boxes, count);
    while (status != BT_OK && give_text(program, &status)) status = bti_gpu_launch_boxes(&gpu, program, boxes, count);
    return status;
}

#define OK(call)                                              \
    do {                                                      \
        if ((call) != BT_OK) fail_msg("%s", bt_error_text()); \
    } while (0)

/* Loads and launches it; the first launch, after nothing else is left. */
static launch only_launch(const bti_kernel *kernel, const bti_box *box) {
    void *program;
    on.launch_count = 0;
    OK(load(kernel, &program));
    OK(launch_kernel(program, box));
    bti_gpu_unload(&gpu, NULL, program);
    assert_int_equal(on.modules + on.functions, 0);
    assert_int_equal(on.launch_count, 1);
    return on.launches[0];
}

static void expect(launch got, const char *name, uint32_t groups, uint32_t threads, size_t local_bytes) {
    assert_string_equal(got.name, name);
    assert_int_equal(got.groups, groups);
    assert_int_equal(got.threads, threads);
    assert_int_equal(got.local, local_bytes > 0);
    assert_int_equal(got.local_bytes, local_bytes);
}

/* Dense operands of float32, but for those whose `moves` says that they stand still. */
static bti_box dense_box(const bti_kernel *kernel, const int64_t *extent) {
    bti_box box = {.scalars = (const uint64_t[8]){0}};
    int axes = bti_kernel_axes(kernel);
    memcpy(box.extent, extent, (size_t)axes * sizeof *extent);
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        int64_t stride = (int64_t)bt_dtype_size((bt_dtype)kernel->operands[o].dtype);
        if (kernel->operands[o].index) stride = 1;
        box.address[o] = kernel->operands[o].index ? 0 : 4096 * (uint64_t)(o + 1);
        for (int axis = axes - 1; axis >= 0; axis--) {
            if (!(kernel->operands[o].moves >> axis & 1)) continue;
            box.stride[o][axis] = stride;
            stride *= box.extent[axis];
        }
    }
    return box;
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

static uint16_t add_instr(bti_kernel *kernel, bti_op op, bt_dtype dtype, int a, int b, int c, int d) {
    kernel->instrs[kernel->instr_count] = (bti_instr){
        .op = (uint8_t)op, .dtype = (uint8_t)dtype, .arg = {(uint16_t)a, (uint16_t)b, (uint16_t)c, (uint16_t)d}};
    return kernel->instr_count++;
}

static int add_input(bti_kernel *kernel, bt_dtype dtype, unsigned moves, bool unit, bool index) {
    kernel->operands[kernel->input_count] = (bti_kernel_operand){
        .dtype = (uint8_t)(index ? BT_I64 : dtype), .moves = (uint8_t)moves, .unit = unit, .index = index};
    return add_instr(kernel, index ? BTI_OP_iota : BTI_OP_leaf, dtype, kernel->input_count++, 0, 0, 0);
}

static void add_output(bti_kernel *kernel, int value, unsigned moves, bool unit) {
    kernel->operands[bti_kernel_operands(kernel)] = (bti_kernel_operand){
        .dtype = kernel->instrs[value].dtype, .moves = (uint8_t)moves, .unit = unit, .value = (uint16_t)value};
    kernel->output_count++;
    bti_kernel_set_stages(kernel);
    assert_null(bti_kernel_verify(kernel));
}

/* x[i, j] + y[j] */
static void map_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.outer = 1, .inner = 1};
    int x = add_input(kernel, BT_F32, 3, true, false), y = add_input(kernel, BT_F32, 2, true, false);
    add_output(kernel, add_instr(kernel, BTI_OP_add, BT_F32, x, y, 0, 0), 3, true);
}

/* x[i, j, k] + y[i, j, k]: y moves by one element along the line, x may leap. */
static void three_axes(bti_kernel *kernel) {
    *kernel = (bti_kernel){.outer = 2, .inner = 1};
    int x = add_input(kernel, BT_F32, 7, false, false), y = add_input(kernel, BT_F32, 7, true, false);
    add_output(kernel, add_instr(kernel, BTI_OP_add, BT_F32, x, y, 0, 0), 7, true);
}

/* x - max(x) */
static void softmax_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.outer = 1, .reduced = 1};
    int x = add_input(kernel, BT_F32, 3, true, false), most = add_instr(kernel, BTI_OP_max, BT_F32, x, 0, 0, 0);
    add_output(kernel, add_instr(kernel, BTI_OP_sub, BT_F32, x, most, 0, 0), 3, true);
}

static void column_sum_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.reduced = 1, .inner = 1};
    int x = add_input(kernel, BT_F32, 3, true, false);
    add_output(kernel, add_instr(kernel, BTI_OP_sum, BT_F32, x, 0, 0, 0), 2, true);
}

static void row_sum_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.outer = 1, .reduced = 1};
    int x = add_input(kernel, BT_F32, 3, true, false);
    add_output(kernel, add_instr(kernel, BTI_OP_sum, BT_F32, x, 0, 0, 0), 1, false);
}

/* --- maps --------------------------------------------------------------------------------------------------------- */

static void maps_are_wide_where_they_lie_well(void **state) {
    static bti_kernel kernel;
    map_kernel(&kernel);
    bti_box box = dense_box(&kernel, (const int64_t[]){100, 256});
    expect(only_launch(&kernel, &box), "bti_run_wide", 100 * 256 / 4 / BTI_GROUP, BTI_GROUP, 0);
    box.address[0] += 4;
    expect(only_launch(&kernel, &box), "bti_run", 100, BTI_GROUP, 0);
    gpu.target = BTI_OPENCL_C;
    expect(only_launch(&kernel, &box), "bti_run", 100, BTI_GROUP, 0);
}

static void groups_are_as_many_as_the_device_makes_use_of(void **state) {
    static bti_kernel kernel;
    map_kernel(&kernel);
    bti_box box = dense_box(&kernel, (const int64_t[]){1 << 14, 1 << 14});
    expect(only_launch(&kernel, &box), "bti_run_wide", 1 << 18, BTI_GROUP, 0);
    on.groups = 100;
    expect(only_launch(&kernel, &box), "bti_run_wide", 800, BTI_GROUP, 0);
}

static void leaps_go_in_tiles_with_the_axis_turned_to_its_place(void **state) {
    static bti_kernel kernel;
    void *program;
    three_axes(&kernel);
    bti_box box = dense_box(&kernel, (const int64_t[]){64, 50, 96});
    OK(load(&kernel, &program));
    const int64_t strides[][3] = {{4 * 96 * 50, 4, 200}, {4, 4 * 64 * 96, 256}, {9600, 8, 400}, {4, 4 * 64 * 96, 256}};
    for (int i = 0; i < 4; i++) {
        memcpy(box.stride[0], strides[i], sizeof strides[i]);
        OK(launch_kernel(program, &box));
    }
    expect(on.launches[0], "bti_run_tiled", 64 * 1 * 2, BTI_GROUP, 0);
    expect(on.launches[1], "bti_run_tiled", 50 * 1 * 2, BTI_GROUP, 0);
    expect(on.launches[2], "bti_run", 64 * 50 * 96 / BTI_GROUP, BTI_GROUP, 0); /* by one element along no axis */
    expect(on.launches[3], "bti_run_tiled", 50 * 1 * 2, BTI_GROUP, 0);
    assert_int_equal(on.builds, 3); /* tiles, those of the turned kernel, which was kept, and bti_run */
    bti_gpu_unload(&gpu, NULL, program);
    assert_int_equal(on.modules + on.functions, 0);
}

/* The text that the launch to come needs, and no other, can be given before; what a turned kernel needs is asked for by its launch. */
static void texts_are_wanted_before_a_launch(void **state) {
    static bti_kernel kernel;
    bti_text_wanted wanted;
    void *program;
    map_kernel(&kernel);
    bti_box box = dense_box(&kernel, (const int64_t[]){100, 256});
    OK(load(&kernel, &program));
    assert_false(bti_gpu_text_wanted(&gpu, program, NULL, 0, &wanted));
    assert_true(bti_gpu_text_wanted(&gpu, program, &box, 3, &wanted));
    assert_int_equal(wanted.variant, BTI_ENTRY_BOXES);
    assert_true(bti_gpu_text_wanted(&gpu, program, &box, 1, &wanted));
    assert_int_equal(wanted.variant, BTI_ENTRY_WIDE);
    bti_str text = {0};
    bti_str_add(&text, "text");
    OK(bti_gpu_text_give(&gpu, program, &wanted, &text));
    OK(bti_gpu_text_give(&gpu, program, &wanted, &text)); /* of another thread, too late */
    bti_str_free(&text);
    assert_int_equal(on.modules, 1);
    assert_false(bti_gpu_text_wanted(&gpu, program, &box, 1, &wanted));
    OK(bti_gpu_launch_kernel(&gpu, program, &box));
    box.address[0] += 4;
    assert_int_equal(bti_gpu_launch_kernel(&gpu, program, &box), BT_FAILED_PRECONDITION);
    bt_error_clear();
    assert_true(bti_gpu_text_lacked(&gpu, program, &wanted));
    assert_int_equal(wanted.variant, BTI_ENTRY_RUN);
    bti_gpu_unload(&gpu, NULL, program);
    assert_int_equal(on.modules + on.functions, 0);
}

/* Those that go in 16 bytes by one launch, the others by another; transposed ones alone. */
static void boxes_are_launched_together(void **state) {
    static bti_kernel kernel;
    static bti_box boxes[6];
    void *program;
    map_kernel(&kernel);
    for (int b = 0; b < 6; b++) boxes[b] = dense_box(&kernel, (const int64_t[]){10 * (b + 1), 256});
    boxes[1].address[0] += 4;
    boxes[4].address[1] += 8;
    OK(load(&kernel, &program));
    OK(launch_boxes(program, boxes, 6));
    assert_int_equal(on.launch_count, 2);
    expect(on.launches[0], "bti_run_boxes_wide", 3 + 8 + 10 + 15, BTI_GROUP, 0);
    expect(on.launches[1], "bti_run_boxes", 20 + 50, BTI_GROUP, 0);
    OK(launch_boxes(program, boxes, 1));
    expect(on.launches[2], "bti_run_wide", 3, BTI_GROUP, 0);
    boxes[2] =
        dense_box(&kernel, (const int64_t[]){100000, 256}); /* as many as the device makes use of, one for each box */
    OK(launch_boxes(program, boxes + 2, 2));
    expect(on.launches[3], "bti_run_boxes_wide", 255 + 1, BTI_GROUP, 0);
    assert_int_equal(on.builds, 2);
    bti_gpu_unload(&gpu, NULL, program);
    assert_int_equal(on.modules + on.functions, 0);
}

/* --- reductions --------------------------------------------------------------------------------------------------- */

static void rows_stay_in_local_memory_when_it_is_enough(void **state) {
    static bti_kernel kernel;
    softmax_kernel(&kernel);
    bti_box box = dense_box(&kernel, (const int64_t[]){1000, 1024});
    expect(only_launch(&kernel, &box), "bti_run_kept", 125, BTI_GROUP, 8 * 4096);
    box = dense_box(&kernel, (const int64_t[]){1000, 512});
    expect(only_launch(&kernel, &box), "bti_run_rows", 63, 128, 16 * 2048);
    box = dense_box(&kernel, (const int64_t[]){1000, 256});
    expect(only_launch(&kernel, &box), "bti_run_rows", 32, BTI_GROUP, 32 * 1024);
    box = dense_box(&kernel, (const int64_t[]){1000, 4096});
    expect(only_launch(&kernel, &box), "bti_run_kept", 500, 64, 2 * 16384);
    box = dense_box(&kernel, (const int64_t[]){1000, 12 << 10});
    expect(only_launch(&kernel, &box), "bti_run_kept", 1000, 32, 48 << 10);
    box = dense_box(&kernel, (const int64_t[]){1000, 13 << 10});
    expect(only_launch(&kernel, &box), "bti_run", 125, BTI_GROUP, 0);
    gpu.target = BTI_OPENCL_C;
    expect(only_launch(&kernel, &box), "bti_run", 1000, 32, 0);
}

static void few_columns_are_cut_into_parts(void **state) {
    static bti_kernel kernel;
    void *program;
    column_sum_kernel(&kernel);
    bti_box box = dense_box(&kernel, (const int64_t[]){10 * BTI_COLUMN_CHUNK, 20});
    OK(load(&kernel, &program));
    OK(launch_kernel(program, &box));
    assert_int_equal(on.launch_count, 2);
    expect(on.launches[0], "bti_part", 640 * 20 / BTI_GROUP, BTI_GROUP, 0); /* of 16 points */
    expect(on.launches[1], "bti_finish", 20 / BTI_ACROSS_SECTOR, BTI_GROUP, 0);
    assert_int_equal(on.launches[0].last_word, gpu.scratch[0].address);
    assert_int_equal(on.launches[1].last_word, gpu.scratch[0].address);
    assert_true(gpu.scratch[0].bytes >= 640 * 20 * 8);
    box.extent[0] = BTI_WHOLE_COLUMN; /* one chunk */
    OK(launch_kernel(program, &box));
    expect(on.launches[2], "bti_run", 1, BTI_GROUP, 0);
    bti_gpu_unload(&gpu, NULL, program);
}

static void many_rows_are_not(void **state) {
    static bti_kernel kernel;
    row_sum_kernel(&kernel);
    bti_box box = dense_box(&kernel, (const int64_t[]){2, 3 * BTI_ROW_CHUNK});
    void *program;
    OK(load(&kernel, &program));
    OK(launch_kernel(program, &box));
    expect(on.launches[0], "bti_part_wide", 6, 64, 0); /* as many groups as multiprocessors at least */
    expect(on.launches[1], "bti_finish", 1, BTI_GROUP, 0);
    box.extent[0] = 10000;
    OK(launch_kernel(program, &box));
    assert_int_equal(on.launch_count, 3);
    expect(on.launches[2], "bti_run_rows", 313, BTI_GROUP, 0);
    box.address[0] += 4;
    OK(launch_kernel(program, &box));
    expect(on.launches[3], "bti_run", 1250, BTI_GROUP, 0);
    box.extent[0] = 2;
    OK(launch_kernel(program, &box));
    expect(on.launches[4], "bti_part", 6, BTI_GROUP, 0);
    box = dense_box(&kernel,
                    (const int64_t[]){10000, BTI_LONG_ROW + 4}); /* always in parts: the same bits on each card */
    OK(launch_kernel(program, &box));
    assert_string_equal(on.launches[on.launch_count - 2].name, "bti_part_wide");
    expect(on.launches[on.launch_count - 1], "bti_finish", 10000 / 32 + 1, BTI_GROUP, 0);
    bti_gpu_unload(&gpu, NULL, program);
}

/* --- scratch ------------------------------------------------------------------------------------------------------ */

static void scratch_grows_and_is_kept(void **state) {
    uint64_t first, second;
    OK(bti_gpu_scratch(&gpu, 1, 1000, &first));
    assert_int_equal(on.block_bytes, 1500);
    OK(bti_gpu_scratch(&gpu, 1, 1500, &second));
    assert_int_equal(first, second);
    assert_int_equal(on.blocks, 1);
    assert_int_equal(on.waits, 0);
    OK(bti_gpu_scratch(&gpu, 2, 10, &second));
    assert_int_equal(on.blocks, 2);
    OK(bti_gpu_scratch(&gpu, 1, 1501, &second));
    assert_int_equal(on.blocks, 2);
    assert_int_equal(on.waits, 1); /* for what still uses the old one */
    assert_int_equal(gpu.scratch_moves, 1);
    bti_gpu_trim(&gpu);
    assert_int_equal(on.blocks, 0);
    assert_int_equal(on.waits, 2);
    assert_int_equal(gpu.scratch_moves, 2);
    bti_gpu_trim(&gpu); /* there is none */
    assert_int_equal(on.waits, 2);
}

static void scratch_is_as_large_as_asked_when_memory_is_short(void **state) {
    uint64_t address;
    on.free_bytes = 1200;
    OK(bti_gpu_scratch(&gpu, 1, 1000, &address));
    assert_int_equal(on.block_bytes, 1000);
    assert_int_equal(bti_gpu_scratch(&gpu, 1, 1300, &address), BT_RESOURCE_EXHAUSTED);
    assert_int_equal(on.blocks, 0);
    OK(bti_gpu_scratch(&gpu, 1, 100, &address));
    assert_int_equal(on.blocks, 1);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static void no_float64_without_its_extension(void **state) {
    static bti_kernel kernel;
    void *program;
    kernel = (bti_kernel){.inner = 1};
    int x = add_input(&kernel, BT_F32, 1, true, false);
    add_output(&kernel, add_instr(&kernel, BTI_OP_cast, BT_F64, x, 0, 0, 0), 1, true);
    gpu.target = BTI_OPENCL_C_F32;
    assert_int_equal(load(&kernel, &program), BT_UNIMPLEMENTED);
    assert_non_null(strstr(bt_error_text(), "Card has no float64"));
    const bti_program_source work = {.op = BTI_OP_matmul, .dtype_count = 3, .dtypes = {BT_F64, BT_F64, BT_F64}};
    assert_int_equal(bti_gpu_load(&gpu, &work, &program), BT_UNIMPLEMENTED);
    assert_int_equal(on.builds, 0);
}

static void groups_that_are_too_large_are_refused(void **state) {
    static bti_kernel kernel;
    void *program;
    map_kernel(&kernel);
    bti_box box = dense_box(&kernel, (const int64_t[]){8, 8});
    on.threads = 128;
    OK(load(&kernel, &program));
    assert_int_equal(launch_kernel(program, &box), BT_UNIMPLEMENTED);
    assert_non_null(strstr(bt_error_text(), "Card takes 128 threads a group for bti_run_wide, which has 256"));
    bti_gpu_unload(&gpu, NULL, program);
}

/* --- attention ---------------------------------------------------------------------------------------------------- */

typedef struct attention_sizes {
    int64_t heads, shared, rows, keys, depth;
    int reads;
} attention_sizes;

static bti_operand dense_operand(int rank, int64_t heads, int64_t rows, int64_t depth) {
    static uint64_t at = 1 << 20;
    bti_operand x = {.address = at += 1 << 20, .dtype = BT_F32, .rank = rank, .shape = {1, heads, rows, depth}};
    bti_operand_make_dense(&x);
    return x;
}

/* Of attention, or of its gradient. */
static bt_status launch_attention(bool gradient, attention_sizes s) {
    const bti_program_source source = {.op = gradient ? BTI_OP_attention_gradient : BTI_OP_attention,
                                       .dtype_count = 4,
                                       .dtypes = {BT_F32, BT_F32, BT_F32, BT_F32}};
    bti_attr attr = {.attention = {.scale = 1, .reads = s.reads}};
    bti_operand q = dense_operand(4, s.heads * s.shared, s.rows, s.depth),
                k = dense_operand(4, s.heads, s.keys, s.depth);
    bti_operand lse = dense_operand(3, s.heads * s.shared, s.rows, 1), inputs[] = {q, k, k, q, lse, q},
                others[] = {k, k};
    bti_work work = {.op = source.op,
                     .input_count = gradient ? 6 : 3,
                     .inputs = inputs,
                     .output = q,
                     .attr = &attr,
                     .other_count = gradient ? 2 : 1,
                     .others = gradient ? others : &lse};
    void *program = NULL;
    BTI_TRY(bti_gpu_load(&gpu, &source, &program));
    on.launch_count = 0;
    bt_status status = bti_gpu_launch_work(&gpu, program, &work);
    while (status != BT_OK && give_text(program, &status)) status = bti_gpu_launch_work(&gpu, program, &work);
    bti_gpu_unload(&gpu, NULL, program);
    return status;
}

static void keys_of_few_queries_are_cut_into_parts(void **state) {
    OK(launch_attention(false, (attention_sizes){12, 1, 1, 1024, 64, .reads = BTI_READS_FROM_END}));
    assert_int_equal(on.launch_count, 2);
    expect(on.launches[0], "bti_attend", 12 * 16, 32, on.launches[0].local_bytes);
    expect(on.launches[1], "bti_attend_join", 12 * 64 / BTI_GROUP, BTI_GROUP, 0);
    OK(launch_attention(false, (attention_sizes){2, 4, 3, 5000, 64, .reads = BTI_READS_ALL})); /* 12 rows: two blocks */
    assert_int_equal(on.launch_count, 2);
    assert_int_equal(on.launches[0].groups, 2 * 2 * 16); /* of 5 tiles */
    OK(launch_attention(false, (attention_sizes){12, 1, 1, 60, 64, .reads = BTI_READS_ALL}));
    assert_int_equal(on.launch_count, 1);
    assert_int_equal(on.launches[0].groups, 12);
}

static void tiles_are_what_local_memory_has_room_for(void **state) {
    const attention_sizes many = {.heads = 200, .shared = 1, .rows = 200, .keys = 100, .depth = 64},
                          deep = {2, 1, 70, 100, 128, 0};
    static const struct {
        size_t has, needs, needs_deep, needs_gradient;
    } cards[] = {{227 << 10, 105472, 175104, 90112}, {99 << 10, 52736, 52736, 90112}, {48 << 10, 18432, 18432, 16896}};
    for (int i = 0; i < 3; i++) {
        gpu.local_bytes = cards[i].has;
        OK(launch_attention(false, many));
        assert_int_equal(on.launches[0].local_bytes, cards[i].needs);
        OK(launch_attention(false, deep));
        assert_int_equal(on.launches[0].local_bytes, cards[i].needs_deep);
        OK(launch_attention(true, many));
        assert_int_equal(on.launch_count, 3);
        expect(on.launches[0], "bti_attend_means", 200 * 200 / 16, BTI_GROUP, 0);
        assert_string_equal(on.launches[1].name, "bti_attend_queries");
        assert_string_equal(on.launches[2].name, "bti_attend_keys");
        for (int l = 1; l < 3; l++) assert_int_equal(on.launches[l].local_bytes, cards[i].needs_gradient);
    }
}

/* Everything twice: what failed works the next time, and nothing is left behind. */
static bt_status run_through(void) {
    static bti_kernel columns, leaps;
    void *program = NULL;
    column_sum_kernel(&columns);
    three_axes(&leaps);
    bti_box column_box = dense_box(&columns, (const int64_t[]){10 * BTI_COLUMN_CHUNK, 20});
    bti_box leap_box = dense_box(&leaps, (const int64_t[]){64, 50, 96});
    leap_box.stride[0][0] = 4, leap_box.stride[0][2] = 256;
    on.launch_count = 0;
    BTI_TRY(load(&columns, &program));
    bt_status status = launch_kernel(program, &column_box);
    column_box.extent[0] *= 2;
    if (status == BT_OK) status = launch_kernel(program, &column_box);
    bti_gpu_unload(&gpu, NULL, program);
    if (status != BT_OK) return status;
    BTI_TRY(load(&leaps, &program));
    status = launch_kernel(program, &leap_box);
    bti_gpu_unload(&gpu, NULL, program);
    if (status != BT_OK) return status;
    return launch_attention(false, (attention_sizes){2, 1, 1, 200, 8, .reads = BTI_READS_ALL});
}

static void each_call_may_fail(void **state) {
    OK(run_through());
    int calls = on.calls;
    assert_true(calls > 10);
    for (int nth = 1; nth <= calls; nth++) {
        begin(NULL);
        on.fails_at = nth;
        assert_int_equal(run_through(), BT_INTERNAL);
        assert_int_equal(on.modules + on.functions, 0);
        OK(run_through());
        assert_int_equal(on.modules + on.functions, 0);
        assert_int_equal(on.blocks, 3);
    }
}

static void each_allocation_may_fail(void **state) {
    bti_alloc_count();
    OK(run_through());
    uint64_t count = bti_alloc_count();
    for (uint64_t nth = 1; nth <= count; nth++) {
        begin(NULL);
        bti_alloc_fail_at(nth, false);
        bt_status status = run_through();
        bti_alloc_fail_at(0, false);
        if (status != BT_OK) assert_int_equal(status, BT_RESOURCE_EXHAUSTED);
        assert_int_equal(on.modules + on.functions, 0);
        OK(run_through());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(maps_are_wide_where_they_lie_well, begin),
        cmocka_unit_test_setup(groups_are_as_many_as_the_device_makes_use_of, begin),
        cmocka_unit_test_setup(texts_are_wanted_before_a_launch, begin),
        cmocka_unit_test_setup(boxes_are_launched_together, begin),
        cmocka_unit_test_setup(leaps_go_in_tiles_with_the_axis_turned_to_its_place, begin),
        cmocka_unit_test_setup(rows_stay_in_local_memory_when_it_is_enough, begin),
        cmocka_unit_test_setup(few_columns_are_cut_into_parts, begin),
        cmocka_unit_test_setup(many_rows_are_not, begin),
        cmocka_unit_test_setup(scratch_grows_and_is_kept, begin),
        cmocka_unit_test_setup(scratch_is_as_large_as_asked_when_memory_is_short, begin),
        cmocka_unit_test_setup(no_float64_without_its_extension, begin),
        cmocka_unit_test_setup(groups_that_are_too_large_are_refused, begin),
        cmocka_unit_test_setup(keys_of_few_queries_are_cut_into_parts, begin),
        cmocka_unit_test_setup(tiles_are_what_local_memory_has_room_for, begin),
        cmocka_unit_test_setup(each_call_may_fail, begin),
        cmocka_unit_test_setup(each_allocation_may_fail, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
