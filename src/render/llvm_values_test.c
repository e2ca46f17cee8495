// labels: slow
// timeout: 600
/* Kernels drawn at random, compiled with the tools of LLVM where they are installed, against a plain evaluation of what
 * ir/kernel.h says, one instruction after the other by the interpreter. On every target that this machine runs.
 * BERTH_RENDER_SEEDS=FROM-TO draws others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/test_depth.h"
#include "ir/scalar.h"
#include "support/render_evaluate.h"

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

static float erfinvf(float x) { return bti_erfinv_f32(x); }
static double(erfinv)(double x) { return bti_erfinv_f64(x); } /* the name is a macro too */

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
#include "base/test_depth.h"
#include "ir/scalar.h"
#include "launch/functions.def"
#undef BTI_FUNCTION
#define BTI_FUNCTION(function) function
#define BTI_VECTOR_FUNCTION(name, arity) ARITY_##arity(name, f64x8, "avx512f") ARITY_##arity(name, f64x4, "avx2")
#define BTI_SCALAR_FUNCTION(...)
#include "launch/functions.def"

#define SCALARS [BTI_CALL_fmod_f32] = (void *)fmodf, [BTI_CALL_fmod_f64] = (void *)fmod, [BTI_CALL_ipow] = (void *)ipow
static const void *const functions[3][BTI_CALL_COUNT] = {{
#define BTI_VECTOR_FUNCTION(name, arity) \
    [BTI_CALL_##name##_f32] = (void *)name##f, [BTI_CALL_##name##_f64] = (void *)name,
#define BTI_SCALAR_FUNCTION(...)
#include "launch/functions.def"
                                                             SCALARS},
                                                         {
#define BTI_VECTOR_FUNCTION(name, arity) \
    [BTI_CALL_##name##_f32] = (void *)name##_f32x8, [BTI_CALL_##name##_f64] = (void *)name##_f64x4,
#define BTI_SCALAR_FUNCTION(...)
#include "launch/functions.def"
                                                             SCALARS},
                                                         {
#define BTI_VECTOR_FUNCTION(name, arity) \
    [BTI_CALL_##name##_f32] = (void *)name##_f32x16, [BTI_CALL_##name##_f64] = (void *)name##_f64x8,
#define BTI_SCALAR_FUNCTION(...)
#include "launch/functions.def"
                                                             SCALARS}};

/* --- compiling and running ---------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/berth-render-XXXXXX";

static void *compiled(const bti_kernel *kernel, bti_target target, bti_cpu_text variant, const char *name) {
    char path[128], command[512];
    bti_str text = {0};
    assert_true(bti_render_llvm(&text, kernel, target, variant));
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

/* An output that lies where an input lies, element for element. */
static void run_in_place(const launch *l, bti_run_function *run, const void *const *table, const char *name,
                         uint64_t seed) {
    const bti_kernel *kernel = l->kernel;
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++)
        for (int i = 0; i < kernel->input_count; i++) {
            const bti_kernel_operand *in = &kernel->operands[i], *out = &kernel->operands[o];
            bool same = in->dtype == out->dtype && in->moves == out->moves && !in->index;
            if (!same || memcmp(l->box.stride[i], l->box.stride[o], sizeof l->box.stride[i]) != 0) continue;
            launch copy;
            copy_outputs(l, &copy);
            for (int64_t p = 0; p < l->points; p++) /* the gaps stay as copy_outputs filled them */
                memcpy(copy.memory[o] + offset(l, o, p), l->memory[i] + offset(l, i, p),
                       bt_dtype_size((bt_dtype)in->dtype));
            copy.box.address[i] = copy.box.address[o];
            run(copy.box.extent, copy.box.scalars, copy.box.address, *copy.box.stride, table);
            check(l, &copy, name, "in place", seed);
            free_outputs(&copy);
            return;
        }
}

static void run_on(const launch *l, bti_target target, bool in_place, uint64_t seed) {
    static const char *const names[] = {"sse2", "avx2", "avx512"};
    char name[64];
    snprintf(name, sizeof name, "%s", names[target]);
    void *library = compiled(l->kernel, target, false, name);
    bti_run_function *run = (bti_run_function *)dlsym(library, "bti_run");
    launch copy;
    copy_outputs(l, &copy);
    run(copy.box.extent, copy.box.scalars, copy.box.address, *copy.box.stride, functions[target]);
    check(l, &copy, name, "whole", seed);
    free_outputs(&copy);
    if (bti_kernel_sweeps(l->kernel) == 1 || in_place) run_in_place(l, run, functions[target], name, seed);
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
    unsigned long long from = 0, to = test_is_long() ? 200 : 20;
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
            if (runs(target)) run_on(&l, target, false, seed);
        clean(&l);
    }
}

/* Random words in halves, with both words of a block at once. */
static void in_halves(void **state) {
    static bti_kernel kernel, halved;
    for (bti_target target = BTI_LLVM_SSE2; target <= BTI_LLVM_AVX512; target++)
        for (int stream = 0; runs(target) && stream < 2; stream++) {
            launch l, copy;
            uint64_t random = 5;
            double one = 1;
            random_kernel(&kernel);
            prepare(&l, &kernel, &random);
            clean(&l);
            l.box.extent[0] = l.points = l.kept = stream ? 1152 : 1110;
            for (int o = 0; o < 4; o++) place_operand(&l, o, &random);
            l.box.address[0] = 0;
            memcpy(l.scalars, (uint64_t[]){(uint64_t)l.points, 9, 0x3F800000}, 24);
            memcpy(&l.scalars[3], &one, sizeof one);
            evaluate(&l);
            copy_outputs(&l, &copy);
            char *aligned = aligned_alloc(64, (l.bytes[3] + 63) / 64 * 64), *own = copy.memory[3];
            memset(aligned, 0x5A, l.bytes[3]);
            copy.memory[3] = aligned;
            copy.box.address[3] = (uintptr_t)aligned;
            assert_int_equal(bti_halves_axis(&kernel, &copy.box), 0);
            bti_halves_kernel(&kernel, 0, &halved);
            void *library = compiled(&halved, target, stream, "halves");
            bti_run_function *run = (bti_run_function *)dlsym(library, "bti_run");
            bti_box box = copy.box;
            bti_halves_box(&kernel, 0, &box);
            run(box.extent, box.scalars, box.address, *box.stride, functions[target]);
            check(&l, &copy, "halves", "whole", (uint64_t)target);
            dlclose(library);
            free(own);
            free_outputs(&copy);
            clean(&l);
        }
}

/* Subtracts a label from a softmax. The label is the first input, so it is the one that the output lies on. */
static void gradient_kernel(bti_kernel *kernel) {
    *kernel = (bti_kernel){.outer = 1, .reduced = 1};
    int label = add_input(kernel, BT_F32, 3, true, false), x = add_input(kernel, BT_F32, 3, true, false);
    int power = add_instr(kernel, BTI_OP_exp, BT_F32, x, 0, 0, 0);
    int sum = add_instr(kernel, BTI_OP_sum, BT_F32, power, 0, 0, 0);
    int part = add_instr(kernel, BTI_OP_div, BT_F32, power, sum, 0, 0);
    add_output(kernel, add_instr(kernel, BTI_OP_sub, BT_F32, part, label, 0, 0), true);
}

/* What is kept between sweeps lies in the output, here where an input is; but not where that input is still to be read. */
static void kept_in_place(void **state) {
    static bti_kernel kernel;
    uint64_t random = 11;
    for (int round = 0; round < 6; round++) {
        launch l;
        (round % 2 ? gradient_kernel : softmax_kernel)(&kernel);
        prepare(&l, &kernel, &random);
        int out = kernel.input_count;
        memcpy(l.box.stride[out], l.box.stride[0], sizeof l.box.stride[0]);
        l.memory[out] = realloc(l.memory[out], l.bytes[out] = l.bytes[0]);
        assert_non_null(l.memory[out]);
        evaluate(&l);
        for (bti_target target = BTI_LLVM_SSE2; target <= BTI_LLVM_AVX512; target++)
            if (runs(target)) run_on(&l, target, true, (uint64_t)round);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_halves), cmocka_unit_test(kept_in_place),
                                       cmocka_unit_test(kernels_drawn)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
