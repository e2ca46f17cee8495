#include "exec/segment.h"

#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "render/stablehlo.h"

/* The output that may get the memory of an input: where a run may be given it to give up. */
static int alias_of(const bti_plan *plan, const bti_step *step, int input) {
    int32_t given = bti_plan_operand(plan, step, input)->storage;
    for (size_t d = 0; d < plan->donations.count; d++) {
        const bti_donation *donation = &plan->donations.items[d];
        for (int o = 0; o < step->output_count && donation->given == given; o++)
            if (bti_plan_output(plan, step, o)->storage == donation->output) return o;
    }
    return -1;
}

static bti_type type_of(const bti_value *value) {
    bti_type type = {.dtype = value->dtype, .rank = value->rank};
    memcpy(type.shape, value->shape, sizeof type.shape);
    return type;
}

/* With types and aliases behind it, and the text behind those. */
static bti_segment_source *new_source(const bti_plan *plan, const bti_step *step, const int *aliases,
                                      const bti_str *text) {
    size_t operands = (size_t)step->input_count + (size_t)step->output_count;
    bti_segment_source *source = bti_alloc(sizeof *source + operands * sizeof(bti_type) +
                                           (size_t)step->input_count * sizeof *aliases + text->length + 1);
    if (!source) return NULL;
    bti_type *types = (bti_type *)(source + 1);
    int *kept = (int *)(types + operands);
    char *at = (char *)(kept + step->input_count);
    for (size_t o = 0; o < operands; o++) types[o] = type_of(bti_plan_operand(plan, step, (int)o));
    if (step->input_count) memcpy(kept, aliases, (size_t)step->input_count * sizeof *aliases);
    memcpy(at, bti_str_text(text), text->length + 1);
    XXH128_hash_t hash = XXH3_128bits(at, text->length);
    *source = (bti_segment_source){.hash = {hash.low64, hash.high64},
                                   .text = at,
                                   .bytes = text->length,
                                   .input_count = step->input_count,
                                   .output_count = step->output_count,
                                   .types = types,
                                   .aliases = kept};
    return source;
}

static bt_status write_source(const bti_plan *plan, const bti_step *step, bti_segment_source **source) {
    int *aliases = bti_alloc(((size_t)step->input_count + 1) * sizeof *aliases);
    bti_str text = {0};
    if (!aliases) return bti_no_memory();
    for (int i = 0; i < step->input_count; i++) aliases[i] = alias_of(plan, step, i);
    bool highest = bti_flag_choice(BTI_FLAG_matmul_precision) == BTI_MATMUL_HIGHEST;
    bt_status status = bti_stablehlo_segment(plan, step, aliases, highest, &text);
    if (status == BT_OK && !(*source = new_source(plan, step, aliases, &text))) status = bti_no_memory();
    bti_str_free(&text);
    bti_free(aliases);
    return status;
}

bt_status bti_segment_ready(const bti_plan *plan, const bti_step *step, bti_program_wants *wants,
                            bti_program **program) {
    bti_segment_source *segment;
    BTI_TRY(write_source(plan, step, &segment));
    return bti_texts_want(
        wants, &(bti_program_want){
                   .device = step->device, .source = {.segment = segment}, .segment = segment, .program = program});
}
