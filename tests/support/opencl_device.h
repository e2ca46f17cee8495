/* A device of OpenCL under a driver's table, and primitives run on it against the interpreter. For tests with cmocka. */
#ifndef BERTH_TESTS_SUPPORT_OPENCL_DEVICE_H
#define BERTH_TESTS_SUPPORT_OPENCL_DEVICE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/opencl/device.h"
#include "ir/dtype.h"
#include "reference/interp.h"
#include "reference/operand.h"
#include "render/render.h"
#include "support/attr.h"

extern const bti_driver bti_driver_opencl;

static struct {
    const bti_driver *driver;
    void *device;
    bti_target target; /* what the device loads by itself */
} on;

/* --- the device --------------------------------------------------------------------------------------------------- */

static bt_status take_memory(int device, size_t bytes, uint64_t *address, void **block) {
    (void)device;
    size_t *kept = malloc(2 * sizeof *kept);
    assert_non_null(kept);
    BTI_TRY(on.driver->alloc(on.device, bytes, address));
    kept[0] = (size_t)*address;
    kept[1] = bytes;
    *block = kept;
    return BT_OK;
}

static void give_memory(int device, void *block) {
    (void)device;
    size_t *kept = block;
    on.driver->free(on.device, kept[0], kept[1]);
    free(kept);
}

static void give_scratch(bti_gpu *gpu) {
    for (int i = 0; i < BTI_GPU_SLOTS; i++)
        if (gpu->scratch[i].block) give_memory(0, gpu->scratch[i].block);
}

/* False, with the reason printed, where there is none. */
static inline bool open_first(void) {
    static const bti_allocator allocator = {.alloc = take_memory, .free = give_memory};
    bti_device_facts facts;
    bti_str reason = {0};
    int count = 0;
    on.driver = &bti_driver_opencl;
    bt_status status = on.driver->probe(~0u, &facts, 1, &count, &reason);
    if (status != BT_OK || !count) printf("skipped: %s\n", bti_str_text(&reason));
    bti_str_free(&reason);
    if (status != BT_OK || !count) return false;
    assert_int_equal(on.driver->open(facts.ordinal, &allocator, &on.device), BT_OK);
    on.target = ((bti_cl_device *)on.device)->gpu.target;
    return true;
}

static inline void close_first(void) {
    give_scratch(&((bti_cl_device *)on.device)->gpu);
    on.driver->close(on.device);
}

/* As if the device had no float64. */
static inline void without_f64(bool without) {
    ((bti_cl_device *)on.device)->gpu.target = without ? BTI_OPENCL_C_F32 : on.target;
}

/* As if it were a GPU, whose groups have threads that run together. */
static inline void with_groups(bool as_gpu) {
    bti_gpu *gpu = &((bti_cl_device *)on.device)->gpu;
    static bool is_cpu;
    if (as_gpu) is_cpu = gpu->is_cpu;
    gpu->is_cpu = as_gpu ? false : is_cpu;
}

/* --- operands ------------------------------------------------------------------------------------------------------ */

typedef enum layout {
    DENSE,
    TURNED,
    GAPS,
    BACKWARDS,
    SPREAD,
    LAYOUTS
} layout; /* SPREAD: inputs, one axis of stride 0 */
enum { GUARD = 64 };

typedef struct value {
    bti_operand operand; /* of this process */
    char *memory;
    size_t bytes;
    uint64_t on_device;
} value;

static uint64_t random_state = 1;
static inline uint64_t random_bits(void) {
    return (random_state = random_state * 6364136223846793005u + 1442695040888963407u) >> 20;
}

/* Elements that recur; floats are quarters of which sums are exact, and, where `odd`, what is no number or a zero. */
static inline void fill(char *memory, size_t bytes, bt_dtype dtype, bool odd) {
    size_t size = bt_dtype_size(dtype);
    for (size_t i = 0; i + size <= bytes; i += size) {
        uint64_t bits = random_bits();
        double number = (double)(int64_t)(bits % 17) / 4 - 2;
        if (dtype == BT_BOOL) bits &= 1;
        if (odd && bits % 16 == 3) number = (double[]){-0.0, HUGE_VAL, -HUGE_VAL, 0.0}[bits >> 8 & 3];
        if (odd && bti_dtype_is_float(dtype) && bits % 32 == 5)
            bits = bti_missing(dtype);
        else if (bti_dtype_is_float(dtype)) {
            bti_lane_block_write(BTI_LANE_F64, &number, dtype, memory + i, 0, 1);
            continue;
        } else if (bits >> 8 & 1)
            bits &= 7;
        memcpy(memory + i, &bits, size);
    }
}

static inline value make(bt_dtype dtype, int rank, const int64_t *shape, layout how) {
    value v = {.operand = {.dtype = dtype, .rank = rank}};
    int64_t count = how == GAPS ? 2 : 1, first = 0, size = (int64_t)bt_dtype_size(dtype), skip = random_bits() % 3;
    for (int i = 0; i < rank; i++) {
        int axis = how == TURNED ? i : rank - 1 - i;
        v.operand.shape[axis] = shape[axis];
        bool spread = how == SPREAD && axis == (int)(random_state >> 8 & 3) % rank;
        v.operand.stride[axis] = spread ? 0 : how == BACKWARDS ? -count : count;
        if (how == BACKWARDS && shape[axis] > 0) first += (shape[axis] - 1) * count;
        count *= (shape[axis] ? shape[axis] : 1) + (how == GAPS);
    }
    v.bytes = (size_t)((count + skip) * size) + 2 * GUARD;
    v.memory = malloc(v.bytes);
    assert_non_null(v.memory);
    fill(v.memory, v.bytes, dtype, false);
    v.operand.address = (uint64_t)(uintptr_t)(v.memory + GUARD + (first + skip) * size);
    return v;
}

static inline void drop(value *v) { free(v->memory); }

/* Indices of which some count from the end; where `beyond`, some are out of range. */
static inline void fill_indices(value *v, int64_t choices, bool beyond) {
    int64_t range = beyond ? choices + 2 : choices;
    for (size_t i = 0; i < v->bytes / bt_dtype_size(v->operand.dtype); i++) {
        int64_t index = range ? (int64_t)(random_bits() % (uint64_t)(2 * range)) - range : 0;
        if (v->operand.dtype == BT_I32)
            ((int32_t *)(void *)v->memory)[i] = (int32_t)index;
        else
            ((int64_t *)(void *)v->memory)[i] = index;
    }
}

/* --- running ------------------------------------------------------------------------------------------------------- */

static inline bti_operand carried(value *v) {
    bti_operand there = v->operand;
    assert_int_equal(on.driver->alloc(on.device, v->bytes, &v->on_device), BT_OK);
    assert_int_equal(on.driver->upload(on.device, v->on_device, v->memory, v->bytes), BT_OK);
    there.address = v->on_device + (v->operand.address - (uint64_t)(uintptr_t)v->memory);
    return there;
}

typedef struct program {
    bti_program_source source;
    void *handle;
} program;

static inline program load(bti_op op, int count, const bt_dtype *inputs, bt_dtype output) {
    program p = {.source = {.op = op}};
    for (int i = 0; i < count && i < BTI_SOURCE_DTYPES - 1; i++) p.source.dtypes[p.source.dtype_count++] = inputs[i];
    p.source.dtypes[p.source.dtype_count++] = output;
    assert_int_equal(on.driver->program_load(on.device, &p.source, &p.handle), BT_OK);
    return p;
}

/* With the texts that it lacks. */
static inline void launch_program(const program *p, const bti_work *work) {
    bti_text_wanted wanted;
    bt_status status = on.driver->launch(on.device, p->handle, work);
    while (status != BT_OK && on.driver->text_lacked(on.device, p->handle, &wanted)) {
        bti_str text = {0};
        if (wanted.kernel)
            assert_true(bti_render(&text, wanted.kernel, wanted.target, wanted.variant));
        else
            assert_true(bti_render_work(&text, p->source.op, p->source.dtypes, p->source.dtype_count, wanted.target,
                                        wanted.variant));
        assert_int_equal(on.driver->text_give(on.device, p->handle, &wanted, &text), BT_OK);
        bti_str_free(&text);
        status = on.driver->launch(on.device, p->handle, work);
    }
    assert_int_equal(status, BT_OK);
}

static inline void unload(program *p) { on.driver->program_free(on.device, &p->source, p->handle); }

/* Whether bytes are the same, or what is no number stands in both. */
static inline bool same(const char *a, const char *b, size_t bytes, bt_dtype dtype) {
    size_t size = bt_dtype_size(dtype);
    for (size_t i = 0; i + size <= bytes; i += size) {
        double x, y;
        if (!memcmp(a + i, b + i, size)) continue;
        if (!bti_dtype_is_float(dtype)) return false;
        bti_lane_block block;
        const bool wide = dtype == BT_F64;
        const void *at = bti_lane_block_read(&block, dtype, a + i, 0, 1);
        x = wide ? *(const double *)at : (double)*(const float *)at;
        at = bti_lane_block_read(&block, dtype, b + i, 0, 1);
        y = wide ? *(const double *)at : (double)*(const float *)at;
        if (x == x || y == y) return false;
    }
    return true;
}

static inline void describe(char *text, size_t size, const bti_operand *o) {
    int n = snprintf(text, size, "%s[", bt_dtype_name(o->dtype));
    for (int axis = 0; axis < o->rank; axis++)
        n += snprintf(text + n, size - (size_t)n, "%s%lld:%lld", axis ? ", " : "", (long long)o->shape[axis],
                      (long long)o->stride[axis]);
    snprintf(text + n, size - (size_t)n, "]");
}

static inline void expect_the_same_result(const bti_work *work, const value *output, const int64_t *numbers) {
    char text[8][160], *is = malloc(output->bytes);
    assert_non_null(is);
    assert_int_equal(on.driver->download(on.device, is, output->on_device, output->bytes), BT_OK);
    if (!same(is, output->memory, output->bytes, output->operand.dtype)) {
        describe(text[7], sizeof text[7], &output->operand);
        for (int i = 0; i < work->input_count; i++) describe(text[i], sizeof text[i], &work->inputs[i]);
        fail_msg("%s of %s %s %s to %s differs; its first attribute is %lld", bti_op_info(work->op)->name,
                 work->input_count ? text[0] : "", work->input_count > 1 ? text[1] : "",
                 work->input_count > 2 ? text[2] : "", text[7], numbers ? (long long)*numbers : 0);
    }
    free(is);
    on.driver->free(on.device, output->on_device, output->bytes);
}

/* Runs it here and there, into memory of equal bytes before: all bytes must be the same after. */
static inline void expect_the_same_of_all(const program *p, int count, value *inputs, int outputs, value *output,
                                          const int64_t *numbers, int number_count) {
    bti_attr attr = attr_of(p->source.op, number_count, numbers);
    bti_operand here[8], there[8], here_to[2], there_to[2];
    for (int i = 0; i < count; i++) {
        here[i] = inputs[i].operand;
        there[i] = carried(&inputs[i]);
    }
    for (int o = 0; o < outputs; o++) {
        here_to[o] = output[o].operand;
        there_to[o] = carried(&output[o]);
    }
    bti_work work = {.op = p->source.op,
                     .input_count = count,
                     .inputs = there,
                     .output = there_to[0],
                     .others = there_to + 1,
                     .other_count = outputs - 1,
                     .attr = &attr};
    launch_program(p, &work);
    assert_int_equal(on.driver->sync(on.device), BT_OK);
    work.inputs = here;
    work.output = here_to[0];
    work.others = here_to + 1;
    assert_int_equal(bti_interpret(&work), BT_OK);
    for (int o = 0; o < outputs; o++) expect_the_same_result(&work, &output[o], numbers);
    for (int i = 0; i < count; i++) on.driver->free(on.device, inputs[i].on_device, inputs[i].bytes);
}
static inline void expect_the_same(const program *p, int count, value *inputs, value *output, const int64_t *attr,
                                   int attr_count) {
    expect_the_same_of_all(p, count, inputs, 1, output, attr, attr_count);
}

/* An order of x along an axis: its results, of which only some may be read (bit 0: values, bit 1: indices). */
static inline void expect_the_same_order(const program *p, value *x, int64_t axis, int64_t k, unsigned read,
                                         layout how) {
    static const int64_t none[BTI_MAX_RANK];
    int64_t attr[2] = {axis, k}, shape[BTI_MAX_RANK];
    int rank = x->operand.rank;
    memcpy(shape, x->operand.shape, sizeof shape);
    if (p->source.op == BTI_OP_top_k) shape[axis] = k;
    value results[2] = {read & 1 ? make(x->operand.dtype, rank, shape, how) : make(BT_U8, 1, none, how),
                        read & 2 ? make(BT_I32, rank, shape, how) : make(BT_U8, 1, none, how)};
    expect_the_same_of_all(p, 1, x, 2, results, attr, 2);
    drop(&results[0]), drop(&results[1]);
}

#endif
