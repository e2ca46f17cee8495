/* Translates a kernel into the steps of the block interpreter. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "drivers/cpu/block_program.h"
#include "drivers/cpu/blocks.h"
#include "ir/dtype.h"
#include "ir/half.h"

/* --- reductions --------------------------------------------------------------------------------------------------- */

static const uint8_t fold_of[BTI_OP_COUNT] = {[BTI_OP_sum] = BTI_FOLD_SUM,
                                              [BTI_OP_prod] = BTI_FOLD_PROD,
                                              [BTI_OP_max] = BTI_FOLD_MAX,
                                              [BTI_OP_min] = BTI_FOLD_MIN};

static uint64_t extreme_value(bti_plain plain, int bits, bool least) {
    static const uint32_t infinite = 0x7F800000;
    bool whole = plain == BTI_PLAIN_I32 || plain == BTI_PLAIN_I64;
    switch (plain) {
    case BTI_PLAIN_F32: return infinite | (uint32_t)least << 31;
    case BTI_PLAIN_F64: return (uint64_t)0x7FF << 52 | (uint64_t)least << 63;
    case BTI_PLAIN_BOOL: return !least;
    default: break;
    }
    uint64_t top = UINT64_MAX >> (64 - bits);
    return whole ? least ? ~(top >> 1) : top >> 1 : least ? 0 : top;
}

static void make_reduction(const bti_blocks *blocks, bti_block_reduction *r, const bti_instr *instr) {
    int which = fold_of[instr->op];
    bool sums = which == BTI_FOLD_SUM || which == BTI_FOLD_PROD;
    bti_plain plain = bti_plain_of((bt_dtype)instr->dtype);
    static const uint8_t size_log[] = {2, 3, 2, 2, 3, 3, 0};
    r->op = instr->op, r->dtype = instr->dtype, r->stage = instr->stage;
    r->accumulator = sums && plain == BTI_PLAIN_F32 ? BTI_PLAIN_F64 : plain;
    r->size_log = size_log[r->accumulator];
    r->fold = &blocks->code->folds[which][plain];
    r->merge = &blocks->code->folds[which][r->accumulator];
    if (!sums)
        r->start = extreme_value(plain, bti_dtype_bits((bt_dtype)instr->dtype), which == BTI_FOLD_MAX);
    else if (which == BTI_FOLD_PROD)
        r->start = r->accumulator == BTI_PLAIN_F64 ? bti_f64_bits(1) : 1;
}

/* --- slots of scratch, in bytes per point until the block size is known ------------------------------------------- */

typedef struct slots {
    uint32_t top, most;
    uint32_t free[3][BTI_KERNEL_INSTRS]; /* of up to 4, of 8, of 16 bytes */
    int free_count[3];
} slots;

static int slot_class(int size_log) { return size_log < 3 ? 0 : size_log - 2; }

static uint32_t alloc_slot(slots *s, int size_log) {
    int class = slot_class(size_log);
    if (s->free_count[class]) return s->free[class][--s->free_count[class]];
    uint32_t slot = s->top;
    s->top += 4u << class;
    if (s->top > s->most) s->most = s->top;
    return slot;
}

static void free_slot(slots *s, int size_log, uint32_t slot) {
    int class = slot_class(size_log);
    s->free[class][s->free_count[class]++] = slot;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

typedef struct block_maker {
    bti_blocks *blocks;
    const bti_kernel *kernel;
    slots slots;
    uint32_t row_slot[BTI_KERNEL_INSTRS];
    uint16_t reduction_of[BTI_KERNEL_INSTRS];
    bool spread[BTI_KERNEL_INSTRS]; /* a ROW value that POINT values or folds use */
    bool wanted[BTI_KERNEL_INSTRS]; /* in the sweep */
    bool along[BTI_KERNEL_INSTRS];  /* differs along the line */
    int last_use[BTI_KERNEL_INSTRS];
    uint32_t slot_of[BTI_KERNEL_INSTRS];
} block_maker;

static void choose_cast(const bti_vector_code *code, bti_block_step *step) {
    bt_dtype from = (bt_dtype)step->from, to = (bt_dtype)step->dtype;
    step->kind = BTI_BLOCK_LOOP;
    if (from == to)
        step->kind = BTI_BLOCK_COPY;
    else if (bti_plain_is(from) && bti_plain_is(to))
        step->loop = code->cast[bti_plain_of(from)][bti_plain_of(to)];
    else if (to == BT_F32 && bti_dtype_bits(from) == 16 && bti_dtype_is_float(from))
        step->loop = code->widen[from == BT_BF16];
    else if (from == BT_F32 && bti_dtype_bits(to) == 16 && bti_dtype_is_float(to))
        step->loop = code->narrow[to == BT_BF16];
    else
        step->kind = BTI_BLOCK_RECAST;
}

/* The step of an instruction, without its slot. */
static bti_block_step step_of(const block_maker *m, int index) {
    const bti_instr *instr = &m->kernel->instrs[index];
    const bti_vector_code *code = m->blocks->code;
    bti_block_step step = {.value = (uint16_t)index,
                           .dtype = instr->dtype,
                           .from = instr->dtype,
                           .size_log = (uint8_t)bti_size_log((bt_dtype)instr->dtype),
                           .argument_count = (uint8_t)bti_instr_arguments(instr)};
    for (int a = 0; a < step.argument_count; a++) step.arg[a] = instr->arg[a];
    for (int a = step.argument_count; a < 4; a++) step.arg[a] = step.arg[0];
    if (step.argument_count) step.from = m->kernel->instrs[instr->arg[0]].dtype;
    step.number = (uint8_t)bti_dtype_bits((bt_dtype)step.from);
    switch (instr->op) {
    case BTI_OP_leaf: step.kind = BTI_BLOCK_LOAD, step.operand = (uint8_t)instr->arg[0]; break;
    case BTI_OP_iota:
        step.kind = BTI_BLOCK_IOTA, step.operand = (uint8_t)instr->arg[0];
        if (bti_plain_is((bt_dtype)instr->dtype))
            step.loop = code->cast[BTI_PLAIN_I64][bti_plain_of((bt_dtype)instr->dtype)];
        break;
    case BTI_OP_take:
        step.kind = BTI_BLOCK_TAKE, step.operand = instr->attr, step.each = m->along[instr->arg[0]];
        break;
    case BTI_OP_where: step.kind = BTI_BLOCK_LOOP, step.loop = code->where[step.size_log]; break;
    case BTI_OP_cast: choose_cast(code, &step); break;
    case BTI_OP_bitcast: step.kind = BTI_BLOCK_COPY; break;
    case BTI_OP_complex: step.kind = BTI_BLOCK_JOIN; break;
    case BTI_OP_real: step.kind = BTI_BLOCK_PART, step.number = 0; break;
    case BTI_OP_imag: step.kind = BTI_BLOCK_PART, step.number = (uint8_t)(1 << step.size_log); break;
    case BTI_OP_threefry:
        step.number = instr->attr;
        /* fall through */
    default:
        step.kind = bti_plain_is((bt_dtype)step.from) ? BTI_BLOCK_LOOP : BTI_BLOCK_WIDENED;
        step.loop = code->elementwise[instr->op][bti_plain_of((bt_dtype)step.from)];
    }
    if (bti_instr_reduces(instr)) step.kind = BTI_BLOCK_TOTAL, step.reduction = m->reduction_of[index];
    return step;
}

/* The first output that stores a value; 0 if there is none. */
static uint8_t output_of(const bti_kernel *kernel, int value) {
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++)
        if (kernel->operands[o].value == value) return (uint8_t)o;
    return 0;
}

static void add_step(block_maker *m, bti_block_step step) { m->blocks->steps[m->blocks->step_count++] = step; }

static void make_rows(block_maker *m, int stage) {
    const bti_kernel *kernel = m->kernel;
    bti_block_range *range = &m->blocks->sweep[stage].rows;
    range->begin = m->blocks->step_count;
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        if (instr->level != BTI_ROW || instr->stage != stage || instr->op == BTI_OP_const) continue;
        bti_block_step step = step_of(m, i);
        step.slot = m->row_slot[i];
        step.stored = step.kind == BTI_BLOCK_LOAD && output_of(kernel, i);
        add_step(m, step);
        if (!m->spread[i] || kernel->inner) continue;
        step.kind = BTI_BLOCK_SPREAD;
        add_step(m, step);
    }
    range->end = m->blocks->step_count;
}

static bool folded_in(const bti_instr *instr, int sweep) {
    return bti_instr_reduces(instr) && instr->stage == sweep + 1;
}

static bool stored_in(const block_maker *m, int output, int sweep) {
    const bti_instr *value = &m->kernel->instrs[m->kernel->operands[output].value];
    return value->level == BTI_POINT && value->stage == sweep;
}

/* Which values the sweep needs, and the last POINT value or store that uses each. */
static void find_last_uses(block_maker *m, int sweep) {
    const bti_kernel *kernel = m->kernel;
    bti_kernel_needs(kernel, sweep, NULL, m->wanted);
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        m->last_use[i] = i;
        if (!m->wanted[i] || instr->level != BTI_POINT) continue;
        for (int a = 0; a < bti_instr_arguments(instr); a++) m->last_use[instr->arg[a]] = i;
    }
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++)
        if (stored_in(m, o, sweep)) m->last_use[kernel->operands[o].value] = BTI_KERNEL_INSTRS;
}

static void add_folds(block_maker *m, int sweep, int argument) {
    for (int i = 0; i < m->kernel->instr_count; i++) {
        const bti_instr *instr = &m->kernel->instrs[i];
        if (!folded_in(instr, sweep) || instr->arg[0] != argument) continue;
        add_step(m, (bti_block_step){.kind = BTI_BLOCK_FOLD,
                                     .value = (uint16_t)argument,
                                     .from = instr->dtype,
                                     .reduction = m->reduction_of[i]});
        m->blocks->sweep[sweep].folds = true;
    }
}

static void add_store(block_maker *m, int output) {
    const bti_kernel_operand *operand = &m->kernel->operands[output];
    add_step(m, (bti_block_step){.kind = BTI_BLOCK_STORE,
                                 .value = operand->value,
                                 .operand = (uint8_t)output,
                                 .size_log = (uint8_t)bti_size_log((bt_dtype)operand->dtype)});
}

static void make_point(block_maker *m, int index) {
    const bti_instr *instr = &m->kernel->instrs[index];
    bti_block_step step = step_of(m, index);
    step.slot = m->slot_of[index] = alloc_slot(&m->slots, step.size_log);
    bool reads = step.kind == BTI_BLOCK_LOAD || step.kind == BTI_BLOCK_IOTA || step.kind == BTI_BLOCK_TAKE;
    step.stored = m->last_use[index] == BTI_KERNEL_INSTRS;
    if (step.stored && !reads) step.operand = output_of(m->kernel, index);
    add_step(m, step);
    for (int a = 0; a < step.argument_count; a++) {
        const bti_instr *argument = &m->kernel->instrs[instr->arg[a]];
        if (argument->level != BTI_POINT || argument->op == BTI_OP_const || m->last_use[instr->arg[a]] != index)
            continue;
        free_slot(&m->slots, bti_size_log((bt_dtype)argument->dtype), m->slot_of[instr->arg[a]]);
        m->last_use[instr->arg[a]] = -1; /* once */
    }
}

static void make_points(block_maker *m, int sweep) {
    const bti_kernel *kernel = m->kernel;
    slots before = m->slots;
    find_last_uses(m, sweep);
    bti_block_range *range = &m->blocks->sweep[sweep].points;
    range->begin = m->blocks->step_count;
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        if (!m->wanted[i]) continue;
        bool computed = instr->level == BTI_POINT && instr->op != BTI_OP_const;
        if (computed) make_point(m, i);
        add_folds(m, sweep, i);
        if (computed && m->last_use[i] == i) free_slot(&m->slots, bti_size_log((bt_dtype)instr->dtype), m->slot_of[i]);
    }
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++)
        if (stored_in(m, o, sweep)) add_store(m, o);
    range->end = m->blocks->step_count;
    before.most = m->slots.most;
    m->slots = before;
}

/* --- the program -------------------------------------------------------------------------------------------------- */

/* Slots that are used during the whole run: constants, ROW values, accumulators. */
static void alloc_permanent_slots(block_maker *m) {
    bti_blocks *blocks = m->blocks;
    for (int i = 0; i < m->kernel->instr_count; i++) {
        const bti_instr *instr = &m->kernel->instrs[i];
        int size_log = bti_size_log((bt_dtype)instr->dtype);
        if (instr->op == BTI_OP_const) {
            blocks->constants[blocks->constant_count++] = (bti_block_constant){
                alloc_slot(&m->slots, size_log), (uint16_t)i, instr->arg[0], instr->dtype, (uint8_t)size_log};
            continue;
        }
        if (instr->level == BTI_ROW) m->row_slot[i] = alloc_slot(&m->slots, size_log);
        for (int a = 0; a < bti_instr_arguments(instr); a++)
            if (instr->level == BTI_POINT || bti_instr_reduces(instr)) m->spread[instr->arg[a]] = true;
        if (!bti_instr_reduces(instr)) continue;
        bti_block_reduction *r = &blocks->reductions[blocks->reduction_count];
        make_reduction(blocks, r, instr);
        r->lanes = alloc_slot(&m->slots, 3);
        r->total = alloc_slot(&m->slots, 3);
        m->reduction_of[i] = (uint16_t)blocks->reduction_count++;
    }
}

/* Converts slots from bytes per point to bytes. */
static void place_slots(bti_blocks *blocks, uint32_t bytes_per_point) {
    blocks->block = BTI_BLOCK;
    while (blocks->block > BTI_BLOCK_LEAST && (size_t)blocks->block * bytes_per_point > BTI_BLOCK_CACHED)
        blocks->block /= 2;
    uint32_t points = (uint32_t)blocks->block;
    for (int i = 0; i < blocks->step_count; i++) blocks->steps[i].slot *= points;
    for (int i = 0; i < blocks->constant_count; i++) blocks->constants[i].slot *= points;
    for (int i = 0; i < blocks->reduction_count; i++)
        blocks->reductions[i].lanes *= points, blocks->reductions[i].total *= points;
}

/* Nanoseconds per point, measured on float32 and AVX-512. */
static double cost_of_op(int op) {
    switch (op) {
#define BTI_VECTOR_FUNCTION(name, arity) case BTI_OP_##name:
#define BTI_SCALAR_FUNCTION(name, ...)
#include "launch/functions.def"
    case BTI_OP_sigmoid: return 0.5;
    case BTI_OP_floor_div:
    case BTI_OP_mod: return 2;
    case BTI_OP_threefry:
    case BTI_OP_random_word: return 0.8;
    default: return 0.06;
    }
}

static double cost_per_point(const bti_blocks *blocks) {
    double cost = 0;
    for (int s = 0; s < blocks->sweeps; s++)
        for (int i = blocks->sweep[s].points.begin; i < blocks->sweep[s].points.end; i++) {
            const bti_block_step *step = &blocks->steps[i];
            bool widened = step->kind == BTI_BLOCK_WIDENED || step->kind == BTI_BLOCK_RECAST;
            bool computed = widened || step->kind == BTI_BLOCK_LOOP;
            cost += cost_of_op(computed ? blocks->kernel.instrs[step->value].op : BTI_OP_leaf) + (widened ? 1 : 0);
        }
    return cost;
}

static bool alloc_program(bti_blocks *blocks) {
    size_t instrs = blocks->kernel.instr_count, sweeps = (size_t)blocks->sweeps, reductions = 0, constants = 0;
    for (size_t i = 0; i < instrs; i++) {
        reductions += bti_instr_reduces(&blocks->kernel.instrs[i]);
        constants += blocks->kernel.instrs[i].op == BTI_OP_const;
    }
    size_t steps = instrs * (sweeps + 2) + (size_t)bti_kernel_operands(&blocks->kernel);
    blocks->steps = bti_calloc(steps, sizeof *blocks->steps);
    blocks->sweep = bti_calloc(sweeps + 1, sizeof *blocks->sweep);
    blocks->constants = bti_calloc(constants, sizeof *blocks->constants);
    blocks->reductions = bti_calloc(reductions, sizeof *blocks->reductions);
    return blocks->steps && blocks->sweep && blocks->constants && blocks->reductions;
}

static void make_program(block_maker *m) {
    bti_blocks *blocks = m->blocks;
    alloc_permanent_slots(m);
    for (int s = 0; s <= blocks->sweeps; s++) {
        make_rows(m, s);
        if (s < blocks->sweeps) make_points(m, s);
    }
    blocks->row_stores.begin = blocks->step_count;
    for (int o = m->kernel->input_count; o < bti_kernel_operands(m->kernel); o++)
        if (m->kernel->instrs[m->kernel->operands[o].value].level == BTI_ROW) add_store(m, o);
    blocks->row_stores.end = blocks->step_count;
    place_slots(blocks, m->slots.most);
    blocks->cost = cost_per_point(blocks);
}

bt_status bti_blocks_make(const bti_kernel *kernel, bti_target target, bti_blocks **made) {
    bti_blocks *blocks = bti_calloc(1, sizeof *blocks);
    block_maker *m = bti_calloc(1, sizeof *m);
    if (blocks) {
        blocks->kernel = *kernel;
        blocks->code = bti_vector_code_of(target);
        blocks->sweeps = bti_kernel_sweeps(kernel);
    }
    bool enough = blocks && m && alloc_program(blocks);
    if (enough) {
        m->blocks = blocks;
        m->kernel = &blocks->kernel;
        bti_kernel_along_line(m->kernel, m->along);
        make_program(m);
        *made = blocks;
    } else
        bti_blocks_free(blocks);
    bti_free(m);
    return enough ? BT_OK : bti_no_memory();
}

void bti_blocks_free(bti_blocks *blocks) {
    if (!blocks) return;
    bti_free(blocks->steps);
    bti_free(blocks->sweep);
    bti_free(blocks->constants);
    bti_free(blocks->reductions);
    bti_free(blocks);
}

double bti_blocks_cost(const bti_blocks *blocks, double points) {
    return 20 + 4 * blocks->step_count + blocks->cost * points;
}
