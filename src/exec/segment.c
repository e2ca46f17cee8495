#include "exec/segment.h"

#include <stdatomic.h>
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/log.h"
#include "exec/queue.h"
#include "exec/varying.h"
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
    bti_varying varying;     /* in size */
} written;

static bti_type type_of_numbers(const written *w) {
    return (bti_type){.dtype = BT_U64, .rank = 1, .shape = {(int64_t)w->numbers.count}};
}
/* As the text has it. */
static bti_type padded_type(const written *w, int operand) {
    uint32_t axes = w->varying.axes ? w->varying.axes[w->plan->operands.items[w->step->first_operand + operand]] : 0;
    return bti_hlo_padded_type(bti_plan_operand(w->plan, w->step, operand), axes);
}

static int64_t bytes_of(bti_type type) {
    int64_t bytes = (int64_t)bt_dtype_size(type.dtype);
    for (int a = 0; a < type.rank; a++) bytes *= type.shape[a];
    return bytes;
}

/* Of arrays that are as long in the text. */
static void choose_aliases(written *w) {
    int inputs = w->step->input_count;
    for (int i = 0; i < inputs; i++) {
        int output = alias_of(w->plan, w->step, i);
        bool fits = output >= 0 && bytes_of(padded_type(w, i)) == bytes_of(padded_type(w, inputs + output));
        w->aliases[i] = fits ? output : -1;
    }
    w->aliases[inputs] = -1;
}

/* The types of the arrays themselves, and of the numbers; NULL: they are as in the text. */
static bt_status list_types(const written *w, bti_type **types) {
    int inputs = w->step->input_count, given = w->numbers.count > 0;
    *types = NULL;
    if (!w->varying.axes) return BT_OK;
    *types = bti_alloc((size_t)(inputs + given + w->step->output_count) * sizeof **types);
    if (!*types) return bti_no_memory();
    for (int o = 0; o < inputs + w->step->output_count; o++)
        (*types)[o < inputs ? o : o + given] = bti_value_type(bti_plan_operand(w->plan, w->step, o));
    if (given) (*types)[inputs] = type_of_numbers(w);
    return BT_OK;
}

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
    for (int o = 0; o < inputs + w->step->output_count; o++) types[o < inputs ? o : o + given] = padded_type(w, o);
    if (given) types[inputs] = type_of_numbers(w);
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
    const bti_hlo_varying varying = {w->varying.axes, w->varying.numbers};
    return bti_stablehlo_segment(w->plan, w->step, w->aliases, highest, varying.axes ? &varying : NULL,
                                 open ? &w->numbers : NULL, &w->text);
}

/* An operation without a rule is told once for all segments that do the same. Each size has a program then. */
static void give_up_padding(written *w) {
    bti_log("pad_sizes: %s: a program is compiled for each size", bt_error_text());
    bti_varying_give_up(&w->varying);
    bti_varying_free(&w->varying);
}

/* *done: the text is for sizes up to the next powers of two. */
static bt_status write_padded(written *w, bool *done) {
    *done = false;
    if (!bti_flag_int(BTI_FLAG_pad_sizes)) return BT_OK;
    BTI_TRY(bti_varying_see(w->plan, w->step, &w->varying));
    if (!w->varying.axes) return BT_OK;
    choose_aliases(w);
    bti_errors_aside aside = bti_errors_aside_begin();
    bt_status status = write_module(w, true);
    if (status == BT_UNIMPLEMENTED) give_up_padding(w);
    bti_error *cause = status == BT_OK || status == BT_UNIMPLEMENTED ? NULL : bti_error_last();
    bti_errors_aside_end(aside);
    if (cause) bti_error_put_back(cause);
    *done = status == BT_OK;
    return status == BT_UNIMPLEMENTED ? BT_OK : status;
}

static bt_status write_segment(written *w) {
    bool padded;
    BTI_TRY(write_padded(w, &padded));
    if (padded) return BT_OK;
    choose_aliases(w);
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

static bt_status make_source(written *w, bti_block **given, bti_type **types, bti_segment_source **source) {
    w->aliases = bti_alloc(((size_t)w->step->input_count + 1) * sizeof *w->aliases);
    if (!w->aliases) return bti_no_memory();
    BTI_TRY(write_segment(w));
    BTI_TRY(list_types(w, types));
    BTI_TRY(give_numbers(w, given));
    return (*source = new_source(w)) ? BT_OK : bti_no_memory();
}

bt_status bti_segment_ready(const bti_plan *plan, const bti_step *step, bti_program_wants *wants, bti_block **given,
                            bti_type **types, bti_program **program) {
    bti_segment_source *segment = NULL;
    written w = {.plan = plan, .step = step};
    bt_status status = make_source(&w, given, types, &segment);
    bti_str_free(&w.text);
    bti_vec_free(&w.numbers);
    bti_free(w.aliases);
    bti_varying_free(&w.varying);
    if (status != BT_OK) return status;
    return bti_texts_want(
        wants, &(bti_program_want){
                   .device = step->device, .source = {.segment = segment}, .segment = segment, .program = program});
}
