#include <string.h>

#include "drivers/cpu/block_program.h"
#include "ir/dtype.h"

/* Values of a dtype as loops take them: where they lie, or in the block. */
static const void *widened(const bti_vector_code *code, bti_block *block, bt_dtype dtype, const void *values,
                           int count) {
    if (dtype == BT_F16 || dtype == BT_BF16) {
        code->widen[dtype - BT_F16](count, 0, block, values, values, values, values);
        return block;
    }
    return bti_block_read(block, dtype, values, (int64_t)bt_dtype_size(dtype), count);
}

static void narrowed(const bti_vector_code *code, void *out, bt_dtype dtype, const void *values, int count) {
    if (dtype == BT_F16 || dtype == BT_BF16)
        code->narrow[dtype - BT_F16](count, 0, out, values, values, values, values);
    else
        bti_block_write(bti_lane_of(dtype), values, dtype, out, (int64_t)bt_dtype_size(dtype), count);
}

static __attribute__((noinline)) void widened_loop(bti_block_machine *m, const bti_block_step *step, char *out,
                                                   int count) {
    const bti_vector_code *code = m->blocks->code;
    bti_block block[2], result;
    const void *x[2];
    for (int a = 0; a < 2; a++) {
        x[a] = x[0];
        if (a < step->argument_count)
            x[a] = widened(code, &block[a], (bt_dtype)step->from, m->value[step->arg[a]], count);
    }
    if (bti_plain_is((bt_dtype)step->dtype)) { /* a comparison */
        step->loop(count, step->number, out, x[0], x[1], x[0], x[0]);
        return;
    }
    step->loop(count, step->number, &result, x[0], x[1], x[0], x[0]);
    narrowed(code, out, (bt_dtype)step->dtype, &result, count);
}

static __attribute__((noinline)) void recast(bti_block_machine *m, const bti_block_step *step, char *out, int count) {
    bti_block block;
    bt_dtype from = (bt_dtype)step->from;
    const void *values = bti_block_read(&block, from, m->value[step->arg[0]], (int64_t)bt_dtype_size(from), count);
    bti_block_write(bti_lane_of(from), values, (bt_dtype)step->dtype, out, 1 << step->size_log, count);
}

static __attribute__((noinline)) void count_up(bti_block_machine *m, const bti_block_step *step, char *out,
                                               int64_t start, int count) {
    uint64_t numbers[BTI_BLOCK], along = (uint64_t)m->step[step->operand];
    uint64_t first = m->at[step->operand] + (uint64_t)start * along;
    bool own = step->dtype == BT_I64;
    m->blocks->code->count(count, 0, own ? (void *)out : numbers, &first, &along, NULL, NULL);
    if (own) return;
    if (step->loop)
        step->loop(count, 0, out, numbers, numbers, numbers, numbers);
    else
        bti_block_write(BTI_LANE_I64, numbers, (bt_dtype)step->dtype, out, 1 << step->size_log, count);
}

static const void *load(bti_block_machine *m, const bti_block_step *step, char *slot, int64_t start, int count) {
    int64_t along = m->step[step->operand];
    const char *at = (const char *)(uintptr_t)m->at[step->operand] + start * along;
    bool dense = along == 1 << step->size_log || count == 1;
    if (dense && !(step->stored && m->in_place)) return at;
    const bti_vector_code *code = m->blocks->code;
    if (dense)
        memcpy(slot, at, (size_t)count << step->size_log);
    else if (along == 0)
        code->fill[step->size_log](count, 0, slot, at, at, at, at);
    else
        code->gather[step->size_log](count, 0, slot, at, &along, at, at);
    return slot;
}

static void store(bti_block_machine *m, const bti_block_step *step, int64_t start, int count) {
    int64_t along = m->step[step->operand];
    char *at = (char *)(uintptr_t)m->at[step->operand] + start * along;
    const void *value = m->value[step->value];
    if (along == 1 << step->size_log || count == 1) {
        if (at != value) memmove(at, value, (size_t)count << step->size_log);
    } else
        m->blocks->code->scatter[step->size_log](count, 0, at, value, &along, value, value);
}

static void fold(bti_block_machine *m, const bti_block_step *step, int count) {
    const bti_blocks *blocks = m->blocks;
    const bti_block_reduction *r = &blocks->reductions[step->reduction];
    const void *values = m->value[step->value];
    bti_block block;
    if (!bti_plain_is((bt_dtype)step->from))
        values = widened(blocks->code, &block, (bt_dtype)step->from, values, count);
    (blocks->kernel.inner ? r->fold->each : r->fold->line)(count, m->scratch + r->lanes, values);
}

/* The total, rounded to the dtype. */
static const void *total(bti_block_machine *m, const bti_block_step *step, char *slot, int count) {
    const bti_blocks *blocks = m->blocks;
    const bti_block_reduction *r = &blocks->reductions[step->reduction];
    const char *totals = m->scratch + r->total;
    bt_dtype dtype = (bt_dtype)step->dtype;
    if (bti_plain_is(dtype) && bti_plain_of(dtype) == r->accumulator) return totals;
    bti_lane lane = r->accumulator == BTI_PLAIN_F64 ? BTI_LANE_F64 : bti_lane_of(dtype);
    bti_block_write(lane, totals, dtype, slot, 1 << step->size_log, count);
    return slot;
}

void bti_block_steps(bti_block_machine *m, bti_block_range range, int64_t start, int count) {
    const bti_block_step *steps = m->blocks->steps;
    const void **value = m->value;
    for (const bti_block_step *step = steps + range.begin; step < steps + range.end; step++) {
        char *out = m->scratch + step->slot;
        if (step->stored && m->direct[step->operand]) /* never of a LOAD: that is an input */
            out = (char *)(uintptr_t)m->at[step->operand] + (start << step->size_log);
        const void *result = out;
        switch ((bti_block_kind)step->kind) {
        case BTI_BLOCK_LOOP:
            step->loop(count, step->number, out, value[step->arg[0]], value[step->arg[1]], value[step->arg[2]],
                       value[step->arg[3]]);
            break;
        case BTI_BLOCK_LOAD: result = load(m, step, out, start, count); break;
        case BTI_BLOCK_STORE: store(m, step, start, count); continue;
        case BTI_BLOCK_FOLD: fold(m, step, count); continue;
        case BTI_BLOCK_SPREAD: {
            int64_t length = m->box->extent[m->line];
            int most = length < m->blocks->block ? (int)length : m->blocks->block;
            uint64_t one = 0;
            memcpy(&one, value[step->value], (size_t)1 << step->size_log);
            m->blocks->code->fill[step->size_log](most, 0, out, &one, &one, &one, &one);
            break;
        }
        case BTI_BLOCK_TOTAL: result = total(m, step, out, count); break;
        case BTI_BLOCK_COPY: memcpy(out, value[step->arg[0]], (size_t)count << step->size_log); break;
        case BTI_BLOCK_WIDENED: widened_loop(m, step, out, count); break;
        case BTI_BLOCK_RECAST: recast(m, step, out, count); break;
        case BTI_BLOCK_IOTA: count_up(m, step, out, start, count); break;
        }
        value[step->value] = result;
    }
}
