#include "render/llvm.h"

#include <string.h>

#include "base/alloc.h"
#include "launch/turned.h"
#include "render/llvm_writer.h"

#define X86_COMMON "+cx8,+fxsr,+mmx,+sse,+sse2,+x87"
#define X86_AVX2 X86_COMMON ",+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"

static const struct {
    const char *triple, *attributes;
} targets[] = {
    [BTI_LLVM_SSE2] = {"x86_64-unknown-linux-gnu", "\"target-cpu\"=\"x86-64\" \"target-features\"=\"" X86_COMMON "\""},
    [BTI_LLVM_AVX2] = {"x86_64-unknown-linux-gnu",
                       "\"target-cpu\"=\"x86-64-v3\" \"target-features\"=\"" X86_AVX2 "\" "
                       "\"prefer-vector-width\"=\"256\" \"min-legal-vector-width\"=\"256\""},
    [BTI_LLVM_AVX512] = {"x86_64-unknown-linux-gnu",
                         "\"target-cpu\"=\"x86-64-v4\" \"target-features\"=\"" X86_AVX2
                         ",+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl\" "
                         "\"prefer-vector-width\"=\"512\" \"min-legal-vector-width\"=\"512\""},
    [BTI_LLVM_NEON] = {"aarch64-unknown-linux-gnu", "\"target-features\"=\"+neon,+fp-armv8\""},
};

/* --- maps ------------------------------------------------------------------------------------------------------------- */

static void map_body(bti_llvm *w, void *context) {
    (void)context;
    bti_llvm_values(w);
    bti_llvm_outputs(w, BTI_POINT);
}

/* Tiles: an operand that is strided along the line touches a cache line for every element, and the next rows may read the same
 * cache lines. So the loop over TILE_ROWS rows is inside the loop over the vectors of the line. */
enum { TILE_ROWS = 256 };

static bool wants_tiles(const bti_kernel *kernel) {
    for (int o = 0; o < bti_kernel_operands(kernel); o++)
        if (bti_kernel_may_cross(kernel, o)) return true;
    return false;
}

static void tile_body(bti_llvm *w, void *context) {
    const bti_temp *rows = context;
    bti_llvm_axis axis;
    w->lanes = 1;
    bti_llvm_axis_from(w, &axis, w->kernel->outer - 1, rows[0], rows[1], NULL);
    w->lanes = w->vector;
    map_body(w, NULL);
    w->lanes = 1;
    bti_llvm_axis_end(w, &axis);
    w->lanes = w->vector;
}

static void write_tiles(bti_llvm *w, int depth) {
    const bti_llvm_type i64 = BTI_LLVM_I64;
    bti_llvm_loop loop;
    bti_temp zero = bti_llvm_int(w, i64, 0);
    bti_llvm_loop_begin(w, &loop, zero, w->extent[depth], TILE_ROWS, NULL);
    bti_temp end = bti_llvm_least(w, bti_llvm_op_int(w, "add", i64, loop.index, TILE_ROWS), w->extent[depth]);
    bti_llvm_along(w, zero, w->extent[depth + 1], NULL, tile_body, (bti_temp[]){loop.index, end});
    bti_llvm_loop_end(w, &loop);
}

static void write_nest(bti_llvm *w, int depth) {
    if (depth == w->kernel->outer - 1 && wants_tiles(w->kernel))
        write_tiles(w, depth);
    else if (depth < w->kernel->outer) {
        bti_llvm_axis axis;
        bti_llvm_axis_begin(w, &axis, depth, NULL);
        write_nest(w, depth + 1);
        bti_llvm_axis_end(w, &axis);
    } else if (!w->kernel->reduced)
        bti_llvm_along(w, bti_llvm_int(w, BTI_LLVM_I64, 0), w->extent[depth], NULL, map_body, NULL);
    else if (bti_llvm_is_turned(w))
        bti_llvm_turned(w);
    else if (w->kernel->inner)
        bti_llvm_columns(w);
    else
        bti_llvm_rows(w);
}

/* --- functions ---------------------------------------------------------------------------------------------------- */

static void load_parameters(bti_llvm *w) {
    const bti_kernel *kernel = w->kernel;
    int line = bti_kernel_line(kernel);
    for (int axis = 0; axis <= line; axis++) w->extent[axis] = bti_llvm_parameter(w, "extent", BTI_LLVM_I64, axis);
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        const bti_kernel_operand *operand = &kernel->operands[o];
        w->at[o] = bti_llvm_parameter(w, "address", operand->index ? BTI_LLVM_I64 : BTI_LLVM_PTR, o);
        for (int axis = 0; axis <= line; axis++) {
            bool told = operand->moves >> axis & 1 && !(axis == line && operand->unit);
            w->stride[o][axis] =
                told ? bti_llvm_parameter(w, "stride", BTI_LLVM_I64, o * BTI_MAX_RANK + axis) : BTI_NO_TEMP;
        }
    }
}

/* Of a vector of the widest elements that there are. */
static int scratch_bytes(const bti_kernel *kernel) {
    size_t widest = 8;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        size_t size = bt_dtype_size((bt_dtype)kernel->operands[o].dtype);
        if (size > widest) widest = size;
    }
    return BTI_LANES * (int)widest;
}

static void write_function(bti_llvm *w, bti_llvm_mode mode) {
    static const char *const heads[] = {"bti_run(", "bti_part(", "bti_finish("};
    static const char *const more[] = {"", ", ptr %parts", ", ptr %parts, i64 %sets"};
    w->mode = mode;
    w->temps = w->labels = 0;
    w->block = w->labels++;
    w->lanes = 1;
    w->mask = w->rest = w->point = BTI_NO_TEMP;
    bti_llvm_place(w);
    bti_llvm_keep(w);
    bti_llvm_mark(w, 0);
    bti_str_addf(w->text,
                 "\ndefine void @%sptr noalias %%extent, ptr noalias %%scalars, ptr noalias %%address, ptr noalias "
                 "%%stride, ptr noalias %%functions%s) #0 {\nb0:\n",
                 heads[mode], more[mode]);
    bti_llvm_line(w, "%%scratch = alloca [%d x i8], align 64", scratch_bytes(w->kernel));
    bti_llvm_columns_memory(w);
    bti_llvm_turned_memory(w);
    load_parameters(w);
    if (mode == BTI_LLVM_PART || mode == BTI_LLVM_FINISH) {
        w->point = bti_llvm_int(w, BTI_LLVM_I64, 0);
        w->points = bti_llvm_int(w, BTI_LLVM_I64, 1);
        for (int axis = 0; axis <= bti_kernel_line(w->kernel); axis++)
            if (axis < w->kernel->outer || axis >= w->kernel->outer + w->kernel->reduced)
                w->points = bti_llvm_op(w, "mul", BTI_LLVM_I64, w->points, w->extent[axis]);
    }
    bti_llvm_values_at(w, 0);
    write_nest(w, 0);
    bti_str_add(w->text, "  ret void\n}\n");
}

/* --- modules ---------------------------------------------------------------------------------------------------------- */

/* Points of a vector along the line: in rows the number of lanes of a reduction, else the float32 elements of the widest register. */
static int lanes_of(const bti_kernel *kernel) { return kernel->reduced && !kernel->inner ? BTI_LANES : 16; }

static bool has_parts(const bti_kernel *kernel) {
    bool reduces = false;
    for (int i = 0; i < kernel->instr_count; i++) reduces = reduces || bti_instr_reduces(&kernel->instrs[i]);
    return reduces && bti_kernel_sweeps(kernel) == 1;
}

static bool write_module(bti_str *text, const bti_kernel *asked, const bti_kernel *kernel, bti_target target,
                         bti_cpu_text variant) {
    bti_llvm *w = bti_calloc(1, sizeof *w);
    if (!w) return false;
    w->text = text;
    w->kernel = kernel;
    w->asked = asked;
    w->target = target;
    w->stream = variant == BTI_TEXT_STREAM;
    w->narrow = variant == BTI_TEXT_NARROW;
    w->vector = lanes_of(kernel);
    bti_str_addf(text, "target triple = \"%s\"\n", targets[target].triple);
    write_function(w, BTI_LLVM_RUN);
    if (variant != BTI_TEXT_TURNED && has_parts(kernel)) {
        write_function(w, BTI_LLVM_PART);
        write_function(w, BTI_LLVM_FINISH);
    }
    bti_llvm_call_helpers(w);
    bti_llvm_memory_helpers(w);
    bti_str_addf(text, "\n%s\nattributes #0 = { nounwind \"no-builtins\" %s }\n", bti_str_text(&w->declared),
                 targets[target].attributes);
    if (w->stream) bti_str_add(text, "\n!0 = !{i32 1}\n");
    bool written = !text->failed && !w->declared.failed;
    bti_str_free(&w->declared);
    bti_free(w);
    return written;
}

bool bti_render_llvm(bti_str *text, const bti_kernel *kernel, bti_target target, bti_cpu_text variant) {
    if (variant != BTI_TEXT_TURNED) return write_module(text, kernel, kernel, target, variant);
    bti_kernel *turned = bti_alloc(sizeof *turned);
    if (!turned) return false;
    bti_kernel_turn(kernel, turned);
    bool written = write_module(text, kernel, turned, target, variant);
    bti_free(turned);
    return written;
}
