// labels: slow
// timeout: 600
/* Kernels drawn at random, compiled with the tools of LLVM where they are installed, against a plain evaluation of what
 * ir/kernel.h says, one instruction after the other by the interpreter. On every target that this machine runs.
 * BERTH_RENDER_SEEDS=FROM-TO draws others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "ir/interp.h"
#include "ir/interp_parts.h"
#include "render/test_kernels.h"

enum { MOST_POINTS = 1 << 17, MOST_SETS = 64 };

/* --- a launch: memory for the operands of a kernel ---------------------------------------------------------------- */

typedef struct launch {
    const bti_kernel *kernel;
    int64_t points, kept;
    bti_box box;
    uint64_t scalars[BTI_KERNEL_INSTRS];
    char *memory[BTI_KERNEL_OPERANDS]; /* NULL of indices */
    size_t bytes[BTI_KERNEL_OPERANDS];
    void *values[BTI_KERNEL_INSTRS]; /* of the plain evaluation: for all points, row-major */
} launch;

static bool is_reduced(const bti_kernel *kernel, int axis) {
    return axis >= kernel->outer && axis < kernel->outer + kernel->reduced;
}

static double some_real(uint64_t *state) {
    static const double special[] = {0, -0.0, 1, -1, 0.5, 1e30, -1e30, 1e-40, 3e9, 65519.99, 0.49999997, 2147483648.0};
    if (draw(state, 8) == 0) return special[draw(state, 12)];
    if (draw(state, 40) == 0) return draw(state, 2) ? NAN : draw(state, 2) ? INFINITY : -INFINITY;
    return (draw(state, 80001) - 40000.0) / 10000.0;
}

static void convert(bt_dtype from, const void *x, bt_dtype to, void *y) {
    bti_work work = {.op = BTI_OP_cast, .input_count = 1, .output = {.address = (uintptr_t)y, .dtype = to}};
    work.inputs = &(bti_operand){.address = (uintptr_t)x, .dtype = from};
    assert_int_equal(bti_interpret(&work), BT_OK);
}

static void fill(char *memory, size_t bytes, bt_dtype dtype, uint64_t *state) {
    size_t size = bt_dtype_size(dtype);
    for (size_t i = 0; i + size <= bytes; i += size) {
        int64_t whole = (int64_t)draw(state, 20) - 8;
        if (draw(state, 6) == 0)
            for (int k = 0; k < 3; k++) whole = whole << 22 ^ (int64_t)draw(state, 1u << 30);
        double real = some_real(state);
        if (bti_dtype_is_float(dtype))
            convert(BT_F64, &real, dtype, memory + i);
        else
            convert(BT_I64, &whole, dtype, memory + i);
    }
}

static void place_operand(launch *l, int operand, uint64_t *state) {
    const bti_kernel_operand *o = &l->kernel->operands[operand];
    int axes = bti_kernel_axes(l->kernel);
    int64_t step = o->index ? 1 : (int64_t)bt_dtype_size((bt_dtype)o->dtype), reach = step;
    for (int axis = axes - 1; axis >= 0; axis--) {
        if (!(o->moves >> axis & 1)) continue;
        int64_t stride = reach;
        if (axis == axes - 1 && !o->unit) stride = step * (1 + (int64_t)draw(state, 3));
        l->box.stride[operand][axis] = stride;
        reach = stride * l->box.extent[axis] + step * (int64_t)draw(state, 3);
    }
    if (o->index) {
        l->box.address[operand] = draw(state, 3) ? 0 : draw(state, 1000) - 500u;
        return;
    }
    l->bytes[operand] = (size_t)(reach + 2 * step);
    l->memory[operand] = calloc(1, l->bytes[operand]);
    assert_non_null(l->memory[operand]);
    l->box.address[operand] = (uintptr_t)l->memory[operand];
    fill(l->memory[operand], l->bytes[operand], (bt_dtype)o->dtype, state);
}

static void prepare(launch *l, const bti_kernel *kernel, uint64_t *state) {
    static const int64_t lengths[] = {1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 64, 65, 100, 1029, 2050};
    *l = (launch){.kernel = kernel, .points = 1, .kept = 1};
    int axes = bti_kernel_axes(kernel);
    for (int axis = axes - 1; axis >= 0; axis--) {
        int64_t most = axis == axes - 1 ? 15 : 6;
        if (is_reduced(kernel, axis) && draw(state, 4) == 0) most = 15;
        int64_t extent = lengths[draw(state, (uint32_t)most)];
        if (axis == axes - 1 && is_reduced(kernel, axis) && draw(state, 12) == 0) extent = 16384 + 40;
        if (l->points * extent > MOST_POINTS) extent = 2;
        l->box.extent[axis] = extent;
        l->points *= extent;
        if (!is_reduced(kernel, axis)) l->kept *= extent;
    }
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        if (instr->op != BTI_OP_const) continue;
        double real = some_real(state);
        int64_t whole = draw(state, 2) ? (int64_t)draw(state, 100) : (int64_t)draw(state, UINT32_MAX) << 20;
        memcpy(&l->scalars[instr->arg[0]], bti_dtype_is_float((bt_dtype)instr->dtype) ? (void *)&real : (void *)&whole,
               8);
    }
    l->box.scalars = l->scalars;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) place_operand(l, o, state);
}

static void clean(launch *l) {
    for (int o = 0; o < BTI_KERNEL_OPERANDS; o++) free(l->memory[o]);
    for (int i = 0; i < BTI_KERNEL_INSTRS; i++) free(l->values[i]);
    memset(l->memory, 0, sizeof l->memory);
    memset(l->values, 0, sizeof l->values);
}

/* --- the plain evaluation ----------------------------------------------------------------------------------------- */

static void coordinates(const launch *l, int64_t point, int64_t *at) {
    for (int axis = bti_kernel_axes(l->kernel) - 1; axis >= 0; axis--) {
        at[axis] = point % l->box.extent[axis];
        point /= l->box.extent[axis];
    }
}

static int64_t offset(const launch *l, int operand, int64_t point) {
    int64_t at[BTI_MAX_RANK], sum = 0;
    coordinates(l, point, at);
    for (int axis = 0; axis < bti_kernel_axes(l->kernel); axis++) sum += at[axis] * l->box.stride[operand][axis];
    return sum;
}

static bti_operand dense(const launch *l, const void *values, bt_dtype dtype) {
    return (bti_operand){.address = (uintptr_t)values, .dtype = dtype, .rank = 1, .shape = {l->points}, .stride = {1}};
}

static void interpret(const launch *l, bti_op op, int attr, bt_dtype out, void *to, int count,
                      const bti_operand *inputs) {
    bti_work work = {.op = op, .input_count = count, .inputs = inputs, .output = dense(l, to, out)};
    work.attr = (int64_t[]){attr};
    work.attr_count = 1;
    assert_int_equal(bti_interpret(&work), BT_OK);
}

typedef union number {
    double f;
    int64_t i;
    uint64_t u;
} number;
enum { REAL, SIGNED, UNSIGNED };

static number fold(bti_op op, int kind, number a, number x) {
#define FOLD(member)                                                            \
    op == BTI_OP_sum    ? (number){.member = a.member + x.member}               \
    : op == BTI_OP_prod ? (number){.member = a.member * x.member}               \
    : op == BTI_OP_max  ? (a.member > x.member || a.member != a.member ? a : x) \
                        : (a.member < x.member || a.member != a.member ? a : x)
    if (kind == REAL) return FOLD(f);
    if (kind == UNSIGNED || op == BTI_OP_sum || op == BTI_OP_prod) return FOLD(u);
    return FOLD(i);
}

static number start(bti_op op, int kind) {
    int one = op == BTI_OP_prod;
    bool most = op == BTI_OP_max;
    if (op == BTI_OP_sum || one) return kind == REAL ? (number){.f = one} : (number){.i = one};
    if (kind == REAL) return (number){.f = most ? -INFINITY : INFINITY};
    if (kind == SIGNED) return (number){.i = most ? INT64_MIN : INT64_MAX};
    return (number){.u = most ? 0 : UINT64_MAX};
}

static number part_of(const launch *l, bti_op op, int kind, const number *x, int64_t count, int64_t step) {
    number lanes[BTI_LANES], all = start(op, kind);
    if (l->kernel->inner) {
        for (int64_t i = 0; i < count; i++) all = fold(op, kind, all, x[i * step]);
        return all;
    }
    for (int lane = 0; lane < BTI_LANES; lane++) lanes[lane] = all;
    for (int64_t i = 0; i < count; i++) lanes[i % BTI_LANES] = fold(op, kind, lanes[i % BTI_LANES], x[i * step]);
    for (int width = BTI_LANES / 2; width; width /= 2)
        for (int lane = 0; lane < width; lane++) lanes[lane] = fold(op, kind, lanes[lane], lanes[lane + width]);
    return lanes[0];
}

/* Points that differ along reduced axes only: for each outer one, `reduced` x `inner` of them lie together. */
static void reduce(const launch *l, const bti_instr *instr, const void *values, void *to) {
    const bti_kernel *kernel = l->kernel;
    bt_dtype dtype = (bt_dtype)instr->dtype;
    int kind = bti_dtype_is_float(dtype) ? REAL : bti_dtype_is_signed(dtype) ? SIGNED : UNSIGNED;
    bt_dtype wide = kind == REAL ? BT_F64 : kind == SIGNED ? BT_I64 : BT_U64;
    number *x = malloc((size_t)l->points * sizeof *x);
    assert_non_null(x);
    interpret(l, BTI_OP_cast, 0, wide, x, 1, (bti_operand[]){dense(l, values, dtype)});
    int last = kernel->outer + kernel->reduced - 1;
    int64_t inner = kernel->inner ? l->box.extent[last + 1] : 1, length = l->box.extent[last], rows = l->points / inner;
    int64_t lines = 1, most = kernel->inner ? BTI_COLUMN_CHUNK : BTI_ROW_CHUNK;
    for (int axis = kernel->outer; axis < last; axis++) lines *= l->box.extent[axis];
    for (int64_t row = 0; row < rows; row += lines * length)
        for (int64_t column = 0; column < inner; column++) {
            number total = start((bti_op)instr->op, kind);
            for (int64_t line = 0; line < lines; line++)
                for (int64_t chunk = 0; chunk < length; chunk += most) {
                    const number *at = x + (row + line * length + chunk) * inner + column;
                    int64_t count = length - chunk < most ? length - chunk : most;
                    total = fold((bti_op)instr->op, kind, total, part_of(l, (bti_op)instr->op, kind, at, count, inner));
                }
            for (int64_t i = 0; i < lines * length; i++) x[(row + i) * inner + column] = total;
        }
    interpret(l, BTI_OP_cast, 0, dtype, to, 1, (bti_operand[]){dense(l, x, wide)});
    free(x);
}

static void evaluate(launch *l) {
    const bti_kernel *kernel = l->kernel;
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        bt_dtype dtype = (bt_dtype)instr->dtype;
        size_t size = bt_dtype_size(dtype);
        char *to = l->values[i] = malloc((size_t)l->points * size);
        bti_operand inputs[4];
        assert_non_null(to);
        for (int a = 0; a < 4; a++)
            inputs[a] = dense(l, l->values[instr->arg[a]], (bt_dtype)kernel->instrs[instr->arg[a]].dtype);
        for (int64_t p = 0; p < l->points; p++) {
            int64_t counted = (int64_t)l->box.address[instr->arg[0] % BTI_KERNEL_OPERANDS];
            bool real = bti_dtype_is_float(dtype);
            if (instr->op == BTI_OP_leaf)
                memcpy(to + (size_t)p * size, l->memory[instr->arg[0]] + offset(l, instr->arg[0], p), size);
            else if (instr->op == BTI_OP_iota)
                counted += offset(l, instr->arg[0], p), convert(BT_I64, &counted, dtype, to + (size_t)p * size);
            else if (instr->op == BTI_OP_const)
                convert(real ? BT_F64 : BT_I64, &l->scalars[instr->arg[0]], dtype, to + (size_t)p * size);
        }
        if (instr->op == BTI_OP_leaf || instr->op == BTI_OP_iota || instr->op == BTI_OP_const) continue;
        if (bti_op_info((bti_op)instr->op)->class == BTI_REDUCE)
            reduce(l, instr, l->values[instr->arg[0]], to);
        else
            interpret(l, (bti_op)instr->op, instr->attr, dtype, to, bti_op_info((bti_op)instr->op)->arity, inputs);
    }
}

static bool same_element(bt_dtype dtype, const char *x, const char *y) {
    double a, b;
    if (memcmp(x, y, bt_dtype_size(dtype)) == 0) return true;
    if (!bti_dtype_is_float(dtype)) return false;
    convert(dtype, x, BT_F64, &a);
    convert(dtype, y, BT_F64, &b);
    return isnan(a) && isnan(b);
}

static int64_t differences(const launch *l, char *const *memory, int64_t *first) {
    const bti_kernel *kernel = l->kernel;
    int64_t count = 0;
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++)
        for (int64_t p = 0; p < l->points; p++) {
            bt_dtype dtype = (bt_dtype)kernel->operands[o].dtype;
            const char *expected = (char *)l->values[kernel->operands[o].value] + (size_t)p * bt_dtype_size(dtype);
            if (!same_element(dtype, expected, memory[o] + offset(l, o, p)) && !count++) *first = p;
        }
    return count;
}

/* --- the table of functions: the interpreter's, on vectors -------------------------------------------------------- */

#define LANES(type, width, target_text, suffix)                       \
    typedef type vector_##suffix __attribute__((vector_size(width))); \
    enum { LANES_##suffix = width / sizeof(type) };
LANES(float, 64, "avx512f", f32x16)
LANES(double, 64, "avx512f", f64x8)
LANES(float, 32, "avx2", f32x8)
LANES(double, 32, "avx2", f64x4)
typedef float vector_f32x1;
typedef double vector_f64x1;

#define ONE(function, suffix, target_text)                                                               \
    __attribute__((target(target_text))) static vector_##suffix function##_##suffix(vector_##suffix x) { \
        for (int i = 0; i < LANES_##suffix; i++) x[i] = BTI_FUNCTION(function)(x[i]);                    \
        return x;                                                                                        \
    }
#define TWO(function, suffix, target_text)                                                               \
    __attribute__((target(target_text))) static vector_##suffix function##_##suffix(vector_##suffix x,   \
                                                                                    vector_##suffix y) { \
        for (int i = 0; i < LANES_##suffix; i++) x[i] = BTI_FUNCTION(function)(x[i], y[i]);              \
        return x;                                                                                        \
    }
#define ARITY_1 ONE
#define ARITY_2 TWO
#define BTI_FUNCTION(function) function##f
#define BTI_VECTOR_FUNCTION(name, arity) ARITY_##arity(name, f32x16, "avx512f") ARITY_##arity(name, f32x8, "avx2")
#define BTI_SCALAR_FUNCTION(...)
#include "ir/functions.def"
#undef BTI_FUNCTION
#define BTI_FUNCTION(function) function
#define BTI_VECTOR_FUNCTION(name, arity) ARITY_##arity(name, f64x8, "avx512f") ARITY_##arity(name, f64x4, "avx2")
#define BTI_SCALAR_FUNCTION(...)
#include "ir/functions.def"

static uint64_t ipow(uint64_t x, uint64_t y) {
    uint64_t product = 1;
    for (; y; y >>= 1, x *= x)
        if (y & 1) product *= x;
    return product;
}

#define SCALARS                                                                                     \
    [BTI_CALL_erfinv_f32] = (void *)bti_erfinv_f32, [BTI_CALL_erfinv_f64] = (void *)bti_erfinv_f64, \
    [BTI_CALL_fmod_f32] = (void *)fmodf, [BTI_CALL_fmod_f64] = (void *)fmod, [BTI_CALL_ipow] = (void *)ipow
static const void *const functions[3][BTI_CALL_COUNT] = {{
#define BTI_VECTOR_FUNCTION(name, arity) \
    [BTI_CALL_##name##_f32] = (void *)name##f, [BTI_CALL_##name##_f64] = (void *)name,
#define BTI_SCALAR_FUNCTION(...)
#include "ir/functions.def"
                                                             SCALARS},
                                                         {
#define BTI_VECTOR_FUNCTION(name, arity) \
    [BTI_CALL_##name##_f32] = (void *)name##_f32x8, [BTI_CALL_##name##_f64] = (void *)name##_f64x4,
#define BTI_SCALAR_FUNCTION(...)
#include "ir/functions.def"
                                                             SCALARS},
                                                         {
#define BTI_VECTOR_FUNCTION(name, arity) \
    [BTI_CALL_##name##_f32] = (void *)name##_f32x16, [BTI_CALL_##name##_f64] = (void *)name##_f64x8,
#define BTI_SCALAR_FUNCTION(...)
#include "ir/functions.def"
                                                             SCALARS}};

/* --- compiling and running ---------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/berth-render-XXXXXX";

static void *compiled(const bti_kernel *kernel, bti_target target, const char *name) {
    char path[128], command[512];
    bti_str text = {0};
    assert_true(bti_render_llvm(&text, kernel, target));
    snprintf(path, sizeof path, "%s/%s.ll", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text.text, 1, text.length, file), text.length);
    fclose(file);
    bti_str_free(&text);
    snprintf(command, sizeof command,
             "cd %s && llc-16 -O2 -filetype=obj -relocation-model=pic %s.ll -o k.o && ld -shared -z defs k.o -o %s.so "
             "&& rm k.o",
             folder, name, name);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof path, "%s/%s.so", folder, name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    return library;
}

/* The outputs as they were before a run, in memory of their own. */
static void copy_outputs(const launch *l, launch *copy) {
    *copy = *l;
    for (int o = l->kernel->input_count; o < bti_kernel_operands(l->kernel); o++) {
        copy->memory[o] = malloc(l->bytes[o]);
        assert_non_null(copy->memory[o]);
        memset(copy->memory[o], 0x5A, l->bytes[o]);
        copy->box.address[o] = (uintptr_t)copy->memory[o];
    }
}

static void free_outputs(launch *copy) {
    for (int o = copy->kernel->input_count; o < bti_kernel_operands(copy->kernel); o++) free(copy->memory[o]);
}

/* What lies between the elements must stay as it was. */
static bool gaps_untouched(const launch *l) {
    for (int o = l->kernel->input_count; o < bti_kernel_operands(l->kernel); o++) {
        size_t size = bt_dtype_size((bt_dtype)l->kernel->operands[o].dtype);
        char *touched = calloc(1, l->bytes[o]);
        for (int64_t p = 0; p < l->points; p++) memset(touched + offset(l, o, p), 1, size);
        bool good = true;
        for (size_t i = 0; i < l->bytes[o]; i++) good = good && (touched[i] || l->memory[o][i] == 0x5A);
        free(touched);
        if (!good) return false;
    }
    return true;
}

static void run_parts(const launch *l, void *library, const void *const *table) {
    const bti_kernel *kernel = l->kernel;
    bti_part_function *part = (bti_part_function *)dlsym(library, "bti_part");
    bti_finish_function *finish = (bti_finish_function *)dlsym(library, "bti_finish");
    int last = kernel->outer + kernel->reduced - 1, reductions = 0;
    for (int i = 0; i < kernel->instr_count; i++)
        reductions += bti_op_info((bti_op)kernel->instrs[i].op)->class == BTI_REDUCE;
    int64_t lines = 1, chunk = kernel->inner ? BTI_COLUMN_CHUNK : BTI_ROW_CHUNK, sets = 0;
    int64_t chunks = (l->box.extent[last] + chunk - 1) / chunk;
    for (int axis = kernel->outer; axis < last; axis++) lines *= l->box.extent[axis];
    uint64_t *parts = malloc((size_t)(lines * chunks * reductions * l->kept) * sizeof *parts);
    assert_non_null(parts);
    for (int64_t line = 0; line < lines; line++)
        for (int64_t c = 0; c < chunks; c++, sets++) {
            bti_box box = l->box;
            int64_t at[BTI_MAX_RANK] = {0}, left = line;
            for (int axis = last - 1; axis >= kernel->outer; left /= l->box.extent[axis--]) {
                at[axis] = left % l->box.extent[axis];
                box.extent[axis] = 1;
            }
            at[last] = c * chunk;
            if (box.extent[last] - at[last] < chunk) chunk = box.extent[last] - at[last];
            box.extent[last] = chunk;
            for (int o = 0; o < bti_kernel_operands(kernel); o++)
                for (int axis = kernel->outer; axis <= last; axis++)
                    box.address[o] += (uint64_t)(at[axis] * box.stride[o][axis]);
            part(box.extent, box.scalars, box.address, *box.stride, table, parts + sets * reductions * l->kept);
            chunk = kernel->inner ? BTI_COLUMN_CHUNK : BTI_ROW_CHUNK;
        }
    finish(l->box.extent, l->box.scalars, l->box.address, *l->box.stride, table, parts, sets);
    free(parts);
}

static void check(const launch *l, const launch *copy, const char *name, const char *how, uint64_t seed) {
    int64_t first = 0, wrong = differences(l, copy->memory, &first);
    if (!wrong && gaps_untouched(copy)) return;
    bti_str text = {0};
    bti_kernel_text(&text, l->kernel);
    print_error("%s", bti_str_text(&text));
    for (int axis = 0; axis < bti_kernel_axes(l->kernel); axis++)
        print_error("extent %lld\n", (long long)l->box.extent[axis]);
    fail_msg("seed %llu, %s, %s: %lld elements differ, the first of point %lld (or a gap was written)",
             (unsigned long long)seed, name, how, (long long)wrong, (long long)first);
}

static void run_on(const launch *l, bti_target target, uint64_t seed) {
    static const char *const names[] = {"sse2", "avx2", "avx512"};
    char name[64];
    snprintf(name, sizeof name, "%s", names[target]);
    void *library = compiled(l->kernel, target, name);
    bti_run_function *run = (bti_run_function *)dlsym(library, "bti_run");
    launch copy;
    copy_outputs(l, &copy);
    run(copy.box.extent, copy.box.scalars, copy.box.address, *copy.box.stride, functions[target]);
    check(l, &copy, name, "whole", seed);
    free_outputs(&copy);
    if (dlsym(library, "bti_part")) {
        copy_outputs(l, &copy);
        run_parts(&copy, library, functions[target]);
        check(l, &copy, name, "in parts", seed);
        free_outputs(&copy);
    }
    dlclose(library);
}

static bool runs(bti_target target) {
    if (target == BTI_LLVM_AVX2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (target == BTI_LLVM_AVX512) return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    return target == BTI_LLVM_SSE2;
}

static void kernels_drawn(void **state) {
    unsigned long long from = 0, to = 40;
    const char *seeds = getenv("BERTH_RENDER_SEEDS");
    if (seeds) assert_int_equal(sscanf(seeds, "%llu-%llu", &from, &to), 2);
    for (uint64_t seed = from; seed < to; seed++) {
        uint64_t random = seed * 7919 + 17;
        static bti_kernel kernel;
        launch l;
        draw_kernel(&kernel, &random);
        prepare(&l, &kernel, &random);
        evaluate(&l);
        for (bti_target target = BTI_LLVM_SSE2; target <= BTI_LLVM_AVX512; target++)
            if (runs(target)) run_on(&l, target, seed);
        clean(&l);
    }
}

/* Random words with both of a block at once: the first half of the line in two pieces, as a driver cuts it. */
static void pairs(void **state) {
    static bti_kernel kernel;
    for (bti_target target = BTI_LLVM_SSE2; target <= BTI_LLVM_AVX512; target++)
        for (int stream = 0; runs(target) && stream < 2; stream++) {
            launch l, copy;
            uint64_t random = 5;
            double one = 1;
            random_kernel(&kernel);
            kernel.stream = (uint8_t)stream;
            prepare(&l, &kernel, &random);
            clean(&l);
            l.box.extent[0] = l.points = l.kept = stream ? 1152 : 1110;
            for (int o = 0; o < 4; o++) place_operand(&l, o, &random);
            l.box.address[0] = 0;
            memcpy(l.scalars, (uint64_t[]){(uint64_t)l.points, 9, 0x3F800000}, 24);
            memcpy(&l.scalars[3], &one, sizeof one);
            int64_t half = bti_kernel_half(&kernel, &l.box), first = 64;
            assert_int_equal(half, l.points / 2);
            evaluate(&l);
            copy_outputs(&l, &copy);
            char *aligned = aligned_alloc(64, (l.bytes[3] + 63) / 64 * 64), *own = copy.memory[3];
            memset(aligned, 0x5A, l.bytes[3]);
            copy.memory[3] = aligned;
            copy.box.address[3] = (uintptr_t)aligned;
            void *library = compiled(&kernel, target, "pair");
            bti_run_pair_function *run = (bti_run_pair_function *)dlsym(library, "bti_run_pair");
            bti_box box = copy.box;
            box.extent[0] = first;
            run(box.extent, box.scalars, box.address, *box.stride, functions[target], half);
            box.extent[0] = half - first;
            box.address[0] += (uint64_t)first;
            box.address[3] += (uint64_t)first * 4;
            run(box.extent, box.scalars, box.address, *box.stride, functions[target], half);
            check(&l, &copy, "pair", "in two pieces", (uint64_t)target);
            dlclose(library);
            free(own);
            free_outputs(&copy);
            clean(&l);
        }
}

static int make_folder(void **state) { return mkdtemp(folder) ? 0 : -1; }

static int remove_folder(void **state) {
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void) {
    if (system("llc-16 --version >/dev/null 2>&1 && ld --version >/dev/null 2>&1") != 0) {
        puts("llc-16 is not installed");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs), cmocka_unit_test(kernels_drawn)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
