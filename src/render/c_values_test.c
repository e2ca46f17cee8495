// timeout: 1800
/* Kernels as OpenCL C, run by the OpenCL that is installed, against the plain evaluation: by every entry that their box allows.
 * Drawn ones bit for bit, with other operations in the place of mathematics; that alone, within what ops.def allows.
 * BERTH_RENDER_SEEDS=FROM-TO chooses what is drawn. A kernel takes a second to compile: fewer of them without BERTH_TEST_LONG. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/test_depth.h"
#include "render/c.h"
#include "support/render_evaluate.h"
#include "support/opencl_front.h"

/* --- runs --------------------------------------------------------------------------------------------------------- */

typedef struct run {
    const launch *l;
    void *program;
    bti_target target;
    void *memory[BTI_KERNEL_OPERANDS]; /* of operands; inputs first */
    char *after[BTI_KERNEL_OPERANDS];  /* outputs read back */
    int same[BTI_KERNEL_OPERANDS];     /* the input that an output lies on; else -1 */
    size_t groups;
    uint64_t seed;
    const double *tolerance; /* of each operand, relative; NULL: bit for bit */
    double least;            /* for numbers of `least` and more */
} run;

enum { OFFSET = 64 }; /* of operands in their memories */

static void place_memories(run *r) {
    const bti_kernel *kernel = r->l->kernel;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        if (kernel->operands[o].index) continue;
        size_t bytes = r->l->bytes[o] + OFFSET;
        char *from = malloc(bytes);
        assert_non_null(from);
        memset(from, 0x5A, bytes);
        int input = o < kernel->input_count ? o : r->same[o];
        if (o < kernel->input_count)
            memcpy(from + OFFSET, r->l->memory[o], r->l->bytes[o]);
        else if (input >= 0)
            for (int64_t p = 0; p < r->l->points; p++)
                memcpy(from + OFFSET + offset(r->l, o, p), r->l->memory[input] + offset(r->l, input, p),
                       bt_dtype_size((bt_dtype)kernel->operands[o].dtype));
        r->memory[o] = opencl_memory(bytes, from);
        r->after[o] = from;
    }
}

static void free_memories(run *r) {
    for (int o = 0; o < bti_kernel_operands(r->l->kernel); o++) {
        if (r->memory[o]) cl.clReleaseMemObject(r->memory[o]);
        free(r->after[o]);
        r->memory[o] = r->after[o] = NULL;
    }
}

/* How many rows a group keeps in local memory. */
static size_t local_rows(const bti_kernel *kernel, bti_entry entry) {
    return (size_t)(BTI_LANES / bti_entry_unit_threads(kernel, entry));
}

static void launch_entry(const run *r, bti_entry entry, void *more) {
    const bti_kernel *kernel = r->l->kernel;
    static bti_words words;
    void *memories[BTI_KERNEL_OPERANDS + 1];
    int count = 0;
    bti_box box = r->l->box;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        if (kernel->operands[o].index) continue;
        int on = o;
        for (int out = kernel->input_count; o < kernel->input_count && out < bti_kernel_operands(kernel); out++)
            if (r->same[out] == o) on = out;
        memories[count++] = r->memory[on];
        box.address[o] = OFFSET;
    }
    if (more) memories[count++] = more;
    bti_words_of(kernel, entry, &box, 0, &words);
    bool keeps = entry == BTI_ENTRY_KEPT || (entry == BTI_ENTRY_ROWS && bti_entry_exists(kernel, BTI_ENTRY_KEPT));
    size_t local = keeps ? bti_entry_local(kernel, &box) * local_rows(kernel, entry) : 0;
    opencl_run(r->program, bti_entry_name(entry), (size_t)bti_entry_threads(kernel, entry, r->target), r->groups,
               memories, local, &words, r->target);
}

/* --- checks ------------------------------------------------------------------------------------------------------- */

static bool is_near(const run *r, int operand, const char *expected, const char *got) {
    bt_dtype dtype = (bt_dtype)r->l->kernel->operands[operand].dtype;
    double a, b;
    if (same_element(dtype, expected, got)) return true;
    if (!bti_dtype_is_float(dtype) || !r->tolerance) return false;
    convert(dtype, expected, BT_F64, &a);
    convert(dtype, got, BT_F64, &b);
    return isfinite(a) && fabs(a - b) <= r->tolerance[operand] * fmax(fabs(a), r->least);
}

static void check(const run *r, bti_entry entry) {
    const launch *l = r->l;
    for (int o = l->kernel->input_count; o < bti_kernel_operands(l->kernel); o++) {
        size_t size = bt_dtype_size((bt_dtype)l->kernel->operands[o].dtype), bytes = l->bytes[o] + OFFSET;
        char *got = malloc(bytes), *touched = calloc(1, bytes);
        int64_t wrong = 0, first = 0;
        assert_int_equal(cl.clEnqueueReadBuffer(cl.queue, r->memory[o], CL_BLOCKING, 0, bytes, got, 0, NULL, NULL), 0);
        for (int64_t p = 0; p < l->points; p++) {
            const char *expected = (char *)l->values[l->kernel->operands[o].value] + (size_t)p * size;
            int64_t at = OFFSET + offset(l, o, p);
            memset(touched + at, 1, size);
            if (!is_near(r, o, expected, got + at) && !wrong++) first = p;
        }
        for (size_t i = 0; i < bytes; i++) wrong += !touched[i] && got[i] != 0x5A;
        if (wrong) {
            bti_str text = {0};
            bti_kernel_text(&text, l->kernel);
            print_error("%s", bti_str_text(&text));
            for (int axis = 0; axis < bti_kernel_axes(l->kernel); axis++)
                print_error("extent %lld\n", (long long)l->box.extent[axis]);
            const char *expected = (char *)l->values[l->kernel->operands[o].value] + (size_t)first * size;
            uint64_t a = 0, b = 0;
            memcpy(&a, expected, size);
            memcpy(&b, got + OFFSET + offset(l, o, first), size);
            fail_msg("seed %llu, %s: output %d: %lld elements differ or gaps were written, the first is point %lld: "
                     "%#llx, not %#llx",
                     (unsigned long long)r->seed, bti_entry_name(entry), o, (long long)wrong, (long long)first,
                     (unsigned long long)b, (unsigned long long)a);
        }
        free(got);
        free(touched);
    }
}

/* --- entries ------------------------------------------------------------------------------------------------------ */

static unsigned exercised; /* bit per entry */

static void run_entry(run *r, bti_entry entry) {
    const bti_kernel *kernel = r->l->kernel;
    if (entry == BTI_ENTRY_FINISH || !bti_entry_fits(kernel, entry, r->target, &r->l->box)) return;
    if (!bti_entry_is_written(kernel, entry, r->target)) return;
    bool keeps = entry == BTI_ENTRY_KEPT || entry == BTI_ENTRY_ROWS;
    if (keeps && bti_entry_local(kernel, &r->l->box) * local_rows(kernel, entry) > 200000) return;
    void *parts = NULL;
    place_memories(r);
    exercised |= 1u << entry;
    if (entry == BTI_ENTRY_PART || entry == BTI_ENTRY_PART_WIDE) {
        int64_t count =
            bti_entry_sets(kernel, &r->l->box, bti_kernel_chunk(kernel)) * bti_entry_points(kernel, &r->l->box);
        parts = opencl_memory((size_t)(count * bti_entry_reductions(kernel)) * 8, NULL);
    }
    launch_entry(r, entry, parts);
    if (parts) {
        exercised |= 1u << BTI_ENTRY_FINISH;
        launch_entry(r, BTI_ENTRY_FINISH, parts);
        cl.clReleaseMemObject(parts);
    }
    check(r, entry);
    free_memories(r);
}

/* An output that lies where an input lies, element for element. */
static bool find_same(run *r) {
    const bti_kernel *kernel = r->l->kernel;
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++)
        for (int i = 0; i < kernel->input_count; i++) {
            const bti_kernel_operand *in = &kernel->operands[i], *out = &kernel->operands[o];
            bool same = in->dtype == out->dtype && in->moves == out->moves && !in->index && !in->taken;
            if (!same || memcmp(r->l->box.stride[i], r->l->box.stride[o], sizeof r->l->box.stride[i]) != 0) continue;
            r->same[o] = i;
            return true;
        }
    return false;
}

static bool has_f64(const bti_kernel *kernel) {
    for (int i = 0; i < kernel->instr_count; i++)
        if (kernel->instrs[i].dtype == BT_F64) return true;
    return false;
}

static void run_all(const launch *l, bti_target target, uint64_t seed, const double *tolerance, double least) {
    run r = {.l = l, .target = target, .seed = seed, .tolerance = tolerance, .least = least};
    r.groups = seed % 3 ? 3 : 1;
    bti_str text = {0};
    assert_true(bti_render_c(&text, l->kernel, BTI_ENTRY_END, target));
    r.program = opencl_built(text.text);
    bti_str_free(&text);
    for (int o = 0; o < BTI_KERNEL_OPERANDS; o++) r.same[o] = -1;
    for (int entry = 0; entry < BTI_ENTRY_COUNT; entry++) run_entry(&r, (bti_entry)entry);
    if ((bti_kernel_sweeps(l->kernel) == 1) && find_same(&r))
        for (int entry = 0; entry < BTI_ENTRY_COUNT; entry++) run_entry(&r, (bti_entry)entry);
    cl.clReleaseProgram(r.program);
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

/* Operations whose last bits are the device's own. */
static bool is_inexact(bti_op op) {
    static const bool inexact[BTI_OP_COUNT] = {
#define BTI_SCALAR_MATH(name, ...) [BTI_OP_##name] = true,
#define BTI_SCALAR_MATH_NUMBER(name, ...) [BTI_OP_##name] = true,
#include "ir/scalar.def"
    };
    return inexact[op];
}

static void make_exact(bti_kernel *kernel) {
    for (int i = 0; i < kernel->instr_count; i++) {
        bti_instr *instr = &kernel->instrs[i];
        if (!is_inexact((bti_op)instr->op) || !bti_dtype_is_float((bt_dtype)instr->dtype)) continue;
        instr->op = bti_op_info((bti_op)instr->op)->arity == 2 ? BTI_OP_maximum : BTI_OP_floor;
    }
}

/* Operands that may leap along the line do, and go by one element along the axis before it. */
static void cross(launch *l, uint64_t *state) {
    int line = bti_kernel_axes(l->kernel) - 1;
    for (int o = 0; o < bti_kernel_operands(l->kernel); o++) {
        if (!bti_kernel_may_cross(l->kernel, o)) continue;
        bt_dtype dtype = (bt_dtype)l->kernel->operands[o].dtype;
        int64_t step = (int64_t)bt_dtype_size(dtype), *stride = l->box.stride[o];
        stride[line - 1] = step;
        stride[line] = step * (l->box.extent[line - 1] + (int64_t)draw(state, 3));
        int64_t reach = stride[line] * l->box.extent[line];
        for (int axis = line - 2; axis >= 0; axis--) {
            if (!(l->kernel->operands[o].moves >> axis & 1)) continue;
            stride[axis] = reach;
            reach *= l->box.extent[axis];
        }
        free(l->memory[o]);
        l->bytes[o] = (size_t)reach;
        l->memory[o] = calloc(1, l->bytes[o]);
        assert_non_null(l->memory[o]);
        l->box.address[o] = (uintptr_t)l->memory[o];
        fill(l->memory[o], l->bytes[o], dtype, state);
    }
}

static void kernels_drawn(void **state) {
    unsigned long long from = 0, to = test_is_long() ? 150 : 2;
    const char *seeds = getenv("BERTH_RENDER_SEEDS");
    if (seeds) assert_int_equal(sscanf(seeds, "%llu-%llu", &from, &to), 2);
    for (uint64_t seed = from; seed < to; seed++) {
        uint64_t random = seed * 7919 + 17;
        static bti_kernel kernel;
        launch l;
        draw_kernel(&kernel, &random);
        make_exact(&kernel);
        prepare(&l, &kernel, &random);
        if (seed % 2) cross(&l, &random);
        l.parts_in_lanes = true;
        l.f32_accumulators = seed % 4 == 0 && !has_f64(&kernel);
        evaluate(&l);
        run_all(&l, l.f32_accumulators ? BTI_OPENCL_C_F32 : BTI_OPENCL_C, seed, NULL, 0);
        clean(&l);
    }
}

static void kernels_written(void **state) {
    static const struct {
        void (*make)(bti_kernel *kernel);
        double tolerance, least;
    } kernels[] = {{map_kernel, 4e-6, 1},     {softmax_kernel, 4e-6, 1e-30}, {layer_norm_kernel, 0, 0},
                   {column_sum_kernel, 0, 0}, {small_floats_kernel, 0, 0},   {transpose_add_kernel, 0, 0}};
    for (uint64_t seed = 0; seed < 4; seed++)
        for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
            if (!test_is_long() && (k % 2 == 0 || seed != (k / 2 + 1) % 2)) continue;
            static bti_kernel kernel;
            double tolerance[BTI_KERNEL_OPERANDS];
            launch l;
            uint64_t random = seed * 31 + k;
            kernels[k].make(&kernel);
            for (int o = 0; o < BTI_KERNEL_OPERANDS; o++) tolerance[o] = kernels[k].tolerance;
            prepare(&l, &kernel, &random);
            if (seed % 2) cross(&l, &random);
            l.parts_in_lanes = true;
            evaluate(&l);
            run_all(&l, BTI_OPENCL_C, seed, tolerance, kernels[k].least);
            clean(&l);
        }
}

/* Sums of lines whose strides allow loads of 16 bytes. */
static void wide_rows(void **state) {
    static bti_kernel kernel;
    launch l;
    uint64_t random = 3;
    kernel = (bti_kernel){.outer = 1, .reduced = 1};
    int x = add_input(&kernel, BT_F32, 3, true, false);
    add_output(&kernel, add_instr(&kernel, BTI_OP_sum, BT_F32, x, 0, 0, 0), false);
    prepare(&l, &kernel, &random);
    l.box.extent[0] = l.kept = 9;
    l.box.extent[1] = 1028;
    l.points = 9 * 1028;
    for (int tries = 0; tries < 100; tries++) {
        clean(&l);
        for (int o = 0; o < 2; o++) place_operand(&l, o, &random);
        if (bti_entry_fits(&kernel, BTI_ENTRY_ROWS, BTI_OPENCL_C, &l.box)) break;
    }
    assert_true(bti_entry_fits(&kernel, BTI_ENTRY_ROWS, BTI_OPENCL_C, &l.box));
    l.parts_in_lanes = true;
    evaluate(&l);
    run_all(&l, BTI_OPENCL_C, 1, NULL, 0);
    clean(&l);
}

static double tolerance_of(bti_op op, bt_dtype dtype) {
    switch (dtype) {
    case BT_F16: return 0x1p-10;
    case BT_BF16: return 0x1p-7;
    case BT_F64: return 4e-15;
    default: return bti_op_info(op)->tolerance;
    }
}

/* Several functions at once, each of inputs of its own. */
typedef struct function_set {
    bti_kernel kernel;
    int count, input[16][2], value[16];
    bti_op op[16];
} function_set;

static bool add_function(function_set *set, bti_op op, bt_dtype dtype) {
    if (set->count == 16) return false;
    int *input = set->input[set->count], values[2];
    for (int i = 0; i < bti_op_info(op)->arity; i++) {
        input[i] = set->kernel.input_count;
        values[i] = add_input(&set->kernel, dtype, 1, true, false);
    }
    int second = bti_op_info(op)->arity == 2 ? values[1] : 0;
    set->op[set->count] = op;
    set->value[set->count++] = add_instr(&set->kernel, op, dtype, values[0], second, 0, 0);
    return true;
}

static void run_functions(function_set *set, bt_dtype dtype) {
    static const double special[] = {0, -0.0, 1, INFINITY, -INFINITY, NAN};
    double tolerance[BTI_KERNEL_OPERANDS];
    launch l;
    uint64_t random = set->op[0];
    for (int f = 0; f < set->count; f++) add_output(&set->kernel, set->value[f], true);
    prepare(&l, &set->kernel, &random);
    clean(&l);
    l.box.extent[0] = l.points = l.kept = 2000;
    for (int o = 0; o < bti_kernel_operands(&set->kernel); o++) place_operand(&l, o, &random);
    for (int f = 0; f < set->count; f++) {
        bti_op_row row = *bti_op_info(set->op[f]);
        tolerance[set->kernel.input_count + f] = tolerance_of(set->op[f], dtype);
        for (int i = 0; i < row.arity; i++)
            for (int64_t p = 0; p < l.points; p++) {
                double x = row.low + (row.high - row.low) * draw(&random, 100001) / 100000;
                if (p < 6) x = special[p];
                convert(BT_F64, &x, dtype, l.memory[set->input[f][i]] + offset(&l, set->input[f][i], p));
            }
    }
    evaluate(&l);
    run_all(&l, BTI_OPENCL_C, set->op[0], tolerance, 1e-4);
    clean(&l);
}

/* Each function of mathematics, over the range of its row in ops.def. */
static void functions(void **state) {
    static const bt_dtype dtypes[] = {BT_F32, BT_F64, BT_F16, BT_BF16};
    static function_set set;
    for (size_t d = 0; d < (test_is_long() ? 4 : 1); d++) {
        set = (function_set){.kernel = {.inner = 1}};
        for (bti_op op = BTI_OP_neg; op <= BTI_OP_atan2; op++) {
            if (!is_inexact(op) || add_function(&set, op, dtypes[d])) continue;
            run_functions(&set, dtypes[d]);
            set = (function_set){.kernel = {.inner = 1}};
            add_function(&set, op, dtypes[d]);
        }
        run_functions(&set, dtypes[d]);
    }
}

static void all_exercised(void **state) { assert_int_equal(exercised, (1u << BTI_ENTRY_COUNT) - 1); }

int main(void) {
    const char *missing = opencl_open();
    if (missing) {
        printf("skipped: %s\n", missing);
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_written), cmocka_unit_test(wide_rows),
                                       cmocka_unit_test(functions), cmocka_unit_test(kernels_drawn),
                                       cmocka_unit_test(all_exercised)};
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    opencl_close();
    return rc;
}
