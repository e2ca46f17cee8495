#include "exec/segment.h"

#include <stdatomic.h>
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "exec/queue.h"
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

/* What is written of a segment. */
typedef struct written {
    const bti_plan *plan;
    const bti_step *step;
    int *aliases; /* by input, then -1 for the numbers */
    bti_str text;
    bti_hlo_numbers numbers; /* that the text leaves open */
} written;

/* With types and aliases behind it, and the text behind those. */
static bti_segment_source *new_source(const written *w) {
    int inputs = w->step->input_count, given = w->numbers.count > 0;
    size_t operands = (size_t)(inputs + given + w->step->output_count);
    bti_segment_source *source = bti_alloc(sizeof *source + operands * sizeof(bti_type) +
                                           (size_t)(inputs + given) * sizeof(int) + w->text.length + 1);
    if (!source) return NULL;
    bti_type *types = (bti_type *)(source + 1);
    int *aliases = (int *)(types + operands);
    char *text = (char *)(aliases + inputs + given);
    for (int o = 0; o < inputs + w->step->output_count; o++)
        types[o < inputs ? o : o + given] = bti_value_type(bti_plan_operand(w->plan, w->step, o));
    if (given) types[inputs] = (bti_type){.dtype = BT_U64, .rank = 1, .shape = {(int64_t)w->numbers.count}};
    memcpy(aliases, w->aliases, (size_t)(inputs + given) * sizeof *aliases);
    memcpy(text, bti_str_text(&w->text), w->text.length + 1);
    XXH128_hash_t hash = XXH3_128bits(text, w->text.length);
    *source = (bti_segment_source){.hash = {hash.low64, hash.high64},
                                   .text = text,
                                   .bytes = w->text.length,
                                   .input_count = inputs + given,
                                   .output_count = w->step->output_count,
                                   .types = types,
                                   .aliases = aliases};
    return source;
}

/* --- numbers ----------------------------------------------------------------------------------------------------------- */

enum { SETS = 256, WAYS = 4 };

/* Whether a text that leaves these numbers open came lately with others; remembers it. Threads that come at once may miss it: then a program is compiled for its numbers alone. */
static bool comes_with_others(const written *w) {
    static atomic_uint_fast64_t texts[SETS][WAYS], with[SETS][WAYS];
    static atomic_uint turn;
    uint64_t text = XXH3_64bits(bti_str_text(&w->text), w->text.length) | 1;
    uint64_t numbers = XXH3_64bits(w->numbers.items, w->numbers.count * sizeof *w->numbers.items) | 1;
    unsigned set = (unsigned)(text >> 1) % SETS;
    for (int way = 0; way < WAYS; way++) {
        if (atomic_load_explicit(&texts[set][way], memory_order_relaxed) != text) continue;
        if (atomic_load_explicit(&with[set][way], memory_order_relaxed) == numbers) return false;
        atomic_store_explicit(&with[set][way], 0, memory_order_relaxed); /* with several, from now on */
        return true;
    }
    unsigned way = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) % WAYS;
    atomic_store_explicit(&texts[set][way], text, memory_order_relaxed);
    atomic_store_explicit(&with[set][way], numbers, memory_order_relaxed);
    return false;
}

static bt_status write_module(written *w, bool open) {
    bool highest = bti_flag_choice(BTI_FLAG_matmul_precision) == BTI_MATMUL_HIGHEST;
    w->text.length = w->numbers.count = 0;
    return bti_stablehlo_segment(w->plan, w->step, w->aliases, highest, open ? &w->numbers : NULL, &w->text);
}

static bt_status write_segment(written *w) {
    BTI_TRY(write_module(w, true));
    return !w->numbers.count || comes_with_others(w) ? BT_OK
                                                     : write_module(w, false); /* none is open, or they are others */
}

static bt_status give_numbers(const written *w, bti_block **given) {
    int device = w->step->device;
    size_t bytes = w->numbers.count * sizeof *w->numbers.items;
    *given = NULL;
    if (!bytes) return BT_OK;
    BTI_TRY(bti_device_open(device));
    BTI_TRY(bti_block_alloc(device, bytes, bti_run_queue_completed(device), true, given));
    return bti_device_upload(device, (*given)->address, w->numbers.items, bytes);
}

/* --- making ready ------------------------------------------------------------------------------------------------------ */

static bt_status make_source(written *w, bti_block **given, bti_segment_source **source) {
    w->aliases = bti_alloc(((size_t)w->step->input_count + 1) * sizeof *w->aliases);
    if (!w->aliases) return bti_no_memory();
    for (int i = 0; i < w->step->input_count; i++) w->aliases[i] = alias_of(w->plan, w->step, i);
    w->aliases[w->step->input_count] = -1;
    BTI_TRY(write_segment(w));
    BTI_TRY(give_numbers(w, given));
    return (*source = new_source(w)) ? BT_OK : bti_no_memory();
}

bt_status bti_segment_ready(const bti_plan *plan, const bti_step *step, bti_program_wants *wants, bti_block **given,
                            bti_program **program) {
    bti_segment_source *segment = NULL;
    written w = {.plan = plan, .step = step};
    bt_status status = make_source(&w, given, &segment);
    bti_str_free(&w.text);
    bti_vec_free(&w.numbers);
    bti_free(w.aliases);
    if (status != BT_OK) return status;
    return bti_texts_want(
        wants, &(bti_program_want){
                   .device = step->device, .source = {.segment = segment}, .segment = segment, .program = program});
}
