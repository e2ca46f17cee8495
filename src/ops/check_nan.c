/* The flag check_nan: which operation made the first NaN. An evaluation runs as it does without the flag; then its results are read, and if one
 * holds a NaN, all that it was made of in between is computed once more and kept, and the way goes back from NaN to NaN to an operation whose
 * inputs have none. A NaN that no result has (of the branch that bt_where did not take) is of no concern. Same bits by any plan: what is computed
 * again has the NaN that the results have. */
#include <berth/control.h>

#include <math.h>
#include <string.h>

#include "array/eval.h"
#include "array/place.h"
#include "base/alloc.h"
#include "base/flags.h"
#include "exec/buffer.h"
#include "ir/region.h"
#include "ir/walk.h"
#include "ops/check.h"
#include "ops/elements.h"
#include "ops/primitive.h"
#include "ops/region.h"

/* --- the search ------------------------------------------------------------------------------------------------------- */

typedef struct met {
    bti_node *node; /* retained */
    int64_t bad;    /* the first element; -1: there is none; UNKNOWN */
    bool on_way;    /* from NaN to NaN */
} met;
enum { UNKNOWN = -2 };

typedef struct search {
    bool infinities;
    bti_numbers numbers; /* places in `all` */
    BTI_VEC(met) all;
    bti_str *within;     /* loops and branches around it */
    const char *reached; /* which results have one; borrowed */
    bti_node *origin;
    int64_t at;
} search;

static void end_search(search *s) {
    for (size_t i = 0; i < s->all.count; i++) bti_node_release(s->all.items[i].node);
    bti_vec_free(&s->all);
    bti_numbers_free(&s->numbers);
}

/* What the program wrote as a number, however it is repeated. */
static bool is_constant(const bti_node *node) {
    while (node->op != BTI_OP_const) {
        bti_class class = bti_op_info((bti_op)node->op)->class;
        if ((class != BTI_MOVEMENT && node->op != BTI_OP_cast && class != BTI_EFFECT) || node->input_count != 1)
            return false;
        node = node->inputs[0];
    }
    return true;
}

/* What it was made of: a result of a tuple of what that was. */
static const bti_node *maker_of(const bti_node *node) {
    return node->op == BTI_OP_result && node->input_count ? node->inputs[0] : node;
}

/* NULL: memory is short. Valid until the next one. */
static met *met_at(search *s, bti_node *node) {
    int64_t number = bti_number_of(&s->numbers, node);
    if (number >= 0) return &s->all.items[number];
    met fresh = {.node = node, .bad = UNKNOWN};
    if (!bti_number_put(&s->numbers, node, (int64_t)s->all.count) || !bti_vec_push(&s->all, fresh)) return NULL;
    bti_node_retain(node);
    return &s->all.items[s->all.count - 1];
}

static bt_status bad_of(search *s, bti_node *node, int64_t *bad) {
    met *m = met_at(s, node);
    *bad = -1;
    if (!m) return bti_no_memory();
    bool none = !bti_node_has_gradient(node) || is_constant(node) || atomic_load(&node->state) == BTI_FAILED;
    if (m->bad == UNKNOWN && none) m->bad = -1;
    if (m->bad == UNKNOWN) BTI_TRY(bti_find_bad(node, s->infinities, &m->bad));
    *bad = m->bad;
    return BT_OK;
}

/* Computes all that may lie on the way and was not kept, in one plan. */
static bt_status compute_way(search *s, bti_node *const *from, size_t count) {
    bti_nodes pending = {0};
    bt_status status = BT_OK;
    for (size_t i = 0; i < count && status == BT_OK; i++) status = met_at(s, from[i]) ? BT_OK : bti_no_memory();
    for (size_t next = 0; next < s->all.count && status == BT_OK; next++) {
        const bti_node *maker = maker_of(s->all.items[next].node);
        int inputs = maker->input_count;
        if (s->all.items[next].bad == -1) continue;
        for (int i = 0; i < inputs && status == BT_OK; i++) {
            bti_node *input = maker->inputs[i];
            int64_t bad;
            bool fresh = bti_number_of(&s->numbers, input) < 0;
            bool waits = atomic_load(&input->state) == BTI_PENDING && bti_node_has_gradient(input);
            if (waits && fresh && !is_constant(input))
                status = met_at(s, input) && bti_vec_push(&pending, input) ? BT_OK : bti_no_memory();
            else if (!waits)
                status = bad_of(s, input, &bad);
        }
    }
    if (status == BT_OK && pending.count) status = bti_eval_nodes(pending.items, (int)pending.count, false);
    bti_vec_free(&pending);
    return status;
}

/* Of the operations on the way whose inputs have no NaN the one that was recorded first. */
typedef BTI_VEC(bti_node *) node_list; /* borrowed */

static bt_status put_on_way(search *s, bti_node *node, node_list *way) {
    met *m = met_at(s, node);
    if (!m || (!m->on_way && !bti_vec_push(way, node))) return bti_no_memory();
    m->on_way = true;
    return BT_OK;
}

static bt_status pass_on(search *s, const bti_node *node, node_list *way, bool *comes_from_inputs) {
    const bti_node *maker = maker_of(node);
    int inputs = maker->input_count;
    for (int i = 0; i < inputs; i++) {
        int64_t bad;
        BTI_TRY(bad_of(s, maker->inputs[i], &bad));
        if (bad < 0) continue;
        *comes_from_inputs = true;
        BTI_TRY(put_on_way(s, maker->inputs[i], way));
    }
    return BT_OK;
}

static bt_status find_origin(search *s, bti_node *const *from, size_t count) {
    node_list way = {0};
    bt_status status = BT_OK;
    for (size_t i = 0; i < count && status == BT_OK; i++) status = put_on_way(s, from[i], &way);
    for (size_t next = 0; next < way.count && status == BT_OK; next++) {
        bti_node *node = way.items[next];
        bool comes_from_inputs = false;
        status = pass_on(s, node, &way, &comes_from_inputs);
        if (!comes_from_inputs && (!s->origin || node->sequence < s->origin->sequence)) s->origin = node;
    }
    if (s->origin && status == BT_OK) status = bad_of(s, s->origin, &s->at);
    bti_vec_free(&way);
    return status;
}

static bt_status search_from(search *s, bti_node *const *from, size_t count) {
    BTI_TRY(compute_way(s, from, count));
    return find_origin(s, from, count);
}

/* --- loops and branches ----------------------------------------------------------------------------------------------- */

typedef bt_status origin_teller(search *s, bti_error **error);
static origin_teller tell_origin;

/* The region's outputs of these inputs. *error: the origin, if one of them has a NaN. */
static bt_status run_region(search *s, const bti_region *region, bt_array *const *inputs, bt_array **outputs,
                            bti_error **error) {
    BTI_TRY(bti_region_inline(region, true, inputs, outputs));
    for (int o = 0; o < region->output_count && !*error; o++) {
        int64_t bad;
        bti_node *output = bti_node_of(outputs[o]);
        BTI_TRY(bti_find_bad(output, s->infinities, &bad));
        if (bad < 0 || is_constant(output)) continue;
        search inside = {.infinities = s->infinities, .within = s->within, .reached = s->reached};
        bt_status status = search_from(&inside, &output, 1);
        if (status == BT_OK && inside.origin) status = tell_origin(&inside, error);
        end_search(&inside);
        BTI_TRY(status);
    }
    return BT_OK;
}

static bt_status read_truth(bti_node *node, bool *truth) { return bti_read_node(node, truth); }

/* step: -1: of a branch. Returns what forget_within takes. */
static size_t say_within(const search *s, const bti_node *tuple, int64_t step) {
    size_t length = s->within->length;
    if (step >= 0)
        bti_str_addf(s->within, ", in step %lld (from 0) of the loop", (long long)step);
    else
        bti_str_add(s->within, ", in the branch that was taken");
    if (tuple->place.site.file)
        bti_str_addf(s->within, " at %s:%d", bti_site_file(tuple->place.site), tuple->place.site.line);
    return length;
}
static void forget_within(const search *s, size_t length) {
    if (s->within->text) s->within->text[s->within->length = length] = '\0';
}

/* given: of the region: what is carried, what is given by rows, the rest. */
static void take_rows(const bti_node *tuple, int64_t step, bt_array **given) {
    int first = tuple->attr->scan.carried;
    int64_t row = tuple->attr->scan.reverse ? tuple->attr->scan.length - 1 - step : step;
    for (int i = first; i < first + tuple->attr->scan.by_row; i++)
        given[i] = bti_drop_axes(bt_slice_axis(bti_array_on(tuple->inputs[i]), 0, row, row + 1, 1), 1);
}

static bt_status run_loop_step(search *s, const bti_node *tuple, int64_t step, bt_array **given, bt_array **outputs,
                               bool *goes_on, bti_error **error) {
    const bti_tuple *of = tuple->tuple;
    size_t length = say_within(s, tuple, step);
    int carried = tuple->op == BTI_OP_scan ? tuple->attr->scan.carried : (int)tuple->attr->loop.carried;
    bt_status status = BT_OK;
    BT_SCOPE {
        if (tuple->op == BTI_OP_scan)
            take_rows(tuple, step, given);
        else {
            status = run_region(s, of->regions[0], given, outputs, error);
            if (status == BT_OK) status = read_truth(bti_node_of(outputs[0]), goes_on);
        }
        if (status == BT_OK && *goes_on && !*error)
            status = run_region(s, of->regions[of->region_count - 1], given, outputs, error);
        for (int i = 0; i < carried && status == BT_OK && *goes_on; i++) bt_assign(&given[i], outputs[i]);
    }
    forget_within(s, length);
    return status;
}

static bt_status run_loop(search *s, const bti_node *tuple, bt_array **given, bt_array **outputs, bti_error **error) {
    bool scans = tuple->op == BTI_OP_scan, goes_on = true;
    int carried = scans ? tuple->attr->scan.carried : (int)tuple->attr->loop.carried;
    int64_t most = scans ? tuple->attr->scan.length : tuple->attr->loop.most ? tuple->attr->loop.most : INT64_MAX;
    bt_status status = BT_OK;
    for (int i = 0; i < tuple->input_count; i++) given[i] = bti_array_on(tuple->inputs[i]);
    for (int i = 0; i < carried; i++) bt_retain(given[i]); /* each step assigns another */
    for (int64_t step = 0; step < most && goes_on && status == BT_OK && !*error; step++)
        status = run_loop_step(s, tuple, step, given, outputs, &goes_on, error);
    for (int i = 0; i < carried; i++) bt_assign(&given[i], NULL);
    return status;
}

static bt_status run_branch(search *s, const bti_node *tuple, bt_array **given, bt_array **outputs, bti_error **error) {
    bool truth = false;
    BTI_TRY(read_truth(tuple->inputs[0], &truth));
    for (int i = 1; i < tuple->input_count; i++) given[i - 1] = bti_array_on(tuple->inputs[i]);
    size_t length = say_within(s, tuple, -1);
    bt_status status = run_region(s, tuple->tuple->regions[!truth], given, outputs, error);
    forget_within(s, length);
    return status;
}

/* Runs a loop or a branch step by step, on inputs without NaN. */
static bt_status look_inside(search *s, const bti_node *tuple, bti_error **error) {
    int outputs = 1;
    for (int r = 0; r < tuple->tuple->region_count; r++)
        if (tuple->tuple->regions[r]->output_count > outputs) outputs = tuple->tuple->regions[r]->output_count;
    bt_array **arrays = bti_calloc((size_t)(tuple->input_count + outputs), sizeof *arrays);
    if (!arrays) return bti_no_memory();
    bti_recording_context before = bti_enter_context_of(tuple, false);
    bt_status status = BT_OK;
    BT_SCOPE
        status =
            (tuple->op == BTI_OP_cond ? run_branch : run_loop)(s, tuple, arrays, arrays + tuple->input_count, error);
    bti_leave_context(before);
    bti_free(arrays);
    return status;
}

/* --- the message ------------------------------------------------------------------------------------------------------ */

static void add_type(bti_str *text, const bti_node *node) {
    bti_str_addf(text, "%s ", bt_dtype_name((bt_dtype)node->dtype));
    bti_shape_text(text, node->rank, node->shape);
}

static void add_index(bti_str *text, const bti_node *node, int64_t at) {
    int64_t index[BTI_MAX_RANK];
    for (int d = node->rank; d-- > 0; at /= node->shape[d]) index[d] = at % node->shape[d];
    bti_str_add(text, "[");
    for (int d = 0; d < node->rank; d++) bti_str_addf(text, "%s%lld", d ? ", " : "", (long long)index[d]);
    bti_str_add(text, "]");
}

static void add_number(bti_str *text, double x) {
    if (isnan(x))
        bti_str_add(text, "nan"); /* whatever its sign */
    else
        bti_str_addf(text, "%g", x);
}

static void add_element(bti_str *text, const bti_elements *e, bool complex, int64_t at) {
    if (complex) {
        bti_str_add(text, "(");
        add_number(text, bti_element_at(e, 2 * at));
        bti_str_add(text, ", ");
        add_number(text, bti_element_at(e, 2 * at + 1));
        bti_str_add(text, ")");
    } else
        add_number(text, bti_element_at(e, at));
}

static void add_range(bti_str *text, const bti_elements *e) {
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < e->count; i++) {
        double x = bti_element_at(e, i);
        if (x < low) low = x;
        if (x > high) high = x;
    }
    if (e->count) bti_str_addf(text, " from %g to %g", low, high);
}

/* at: of an element; -1: the range of all. */
static bt_status add_values(bti_str *text, bti_node *node, int64_t at) {
    bti_elements e;
    bt_status status = bti_elements_read(node, &e);
    if (status == BT_OK && at >= 0)
        add_element(text, &e, bti_dtype_is_complex((bt_dtype)node->dtype), at);
    else if (status == BT_OK) {
        add_type(text, node);
        add_range(text, &e);
    }
    bti_free(e.data);
    return status;
}

/* "log(-1)", or the types and ranges of what it was given where elements do not correspond. */
static bt_status add_call_of(bti_str *text, const bti_node *origin, int64_t at) {
    const bti_node *maker = maker_of(origin);
    bool each = bti_op_info((bti_op)maker->op)->class == BTI_ELEMENTWISE;
    bti_str_addf(text, each ? "%s(" : "%s of ", bti_op_info((bti_op)maker->op)->name);
    for (int i = 0; i < maker->input_count; i++) {
        bti_node *input = maker->inputs[i];
        if (i) bti_str_add(text, ", ");
        if (input->tuple)
            bti_str_addf(text, "results of %s", bti_op_info((bti_op)input->op)->name);
        else
            BTI_TRY(add_values(text, input, each ? at : -1));
    }
    bti_str_add(text, each ? ") = " : " gives ");
    return BT_OK;
}

/* What has no inputs: data of the program's, or what was made without being looked at. */
static const char *source_of(const bti_node *origin) {
    switch ((bti_op)origin->op) {
    case BTI_OP_value: return "the variable's value has ";
    case BTI_OP_call: return "the call ran before check_nan was set, and its result has ";
    case BTI_OP_leaf: return "the data given here has ";
    default: return "what is known of the array begins here, and it has ";
    }
}

static bt_status add_origin(const search *s, bti_str *text, bool given) {
    bti_node *origin = s->origin;
    size_t length = text->length;
    if (given)
        bti_str_add(text, source_of(origin));
    else if (bti_takes_by_index(maker_of(origin)))
        BTI_TRY(bti_add_index_fault(text, maker_of(origin)));
    if (text->length > length && !given) return BT_OK;
    if (!given) bti_str_add(text, atomic_load(&origin->in_gradient) ? "made here, in the gradient: " : "made here: ");
    if (!given) BTI_TRY(add_call_of(text, origin, s->at));
    BTI_TRY(add_values(text, origin, s->at));
    if (origin->rank) bti_str_add(text, " at ");
    if (origin->rank) add_index(text, origin, s->at);
    bti_str_add(text, " of ");
    add_type(text, origin);
    return BT_OK;
}

static bt_status add_origin_and_place(const search *s, bti_str *text) {
    const bti_node *origin = s->origin;
    BTI_TRY(add_origin(s, text, !maker_of(origin)->input_count));
    const char *label = maker_of(origin)->place.label;
    if (label) bti_str_addf(text, ", as \"%s\"", label);
    bti_str_addf(text, ", on %s%s%s", bt_device_name(bti_device_at(origin->device)), bti_str_text(s->within),
                 s->reached);
    return text->failed ? bti_no_memory() : BT_OK;
}

/* *error: what the search found, or what a search inside of it found. */
static bt_status tell_origin(search *s, bti_error **error) {
    const bti_node *maker = maker_of(s->origin);
    if (bti_op_info((bti_op)maker->op)->class == BTI_CONTROL && maker->tuple) BTI_TRY(look_inside(s, maker, error));
    if (*error) return BT_OK;
    bti_str text = {0};
    bt_status status = add_origin_and_place(s, &text);
    if (status == BT_OK) *error = bti_error_at(maker->place, BT_OUT_OF_RANGE, "check_nan: %s", bti_str_text(&text));
    bti_str_free(&text);
    return status;
}

bt_status bti_add_nan(bti_str *text, bt_array *x) {
    int64_t at;
    bti_node *node = bti_node_of(x);
    BTI_TRY(bti_find_bad(node, false, &at));
    if (at < 0) return BT_OK;
    bti_str_add(text, "nan at ");
    add_index(text, node, at);
    bti_str_add(text, " of ");
    add_type(text, node);
    return text->failed ? bti_no_memory() : BT_OK;
}

/* --- results ---------------------------------------------------------------------------------------------------------- */

/* Not where its memory is that of something which was there before. */
static void fail_result(bti_node *node, bti_error *error) {
    const bti_node *root = node;
    while (root->input_count == 1 && bti_op_info((bti_op)root->op)->class == BTI_MOVEMENT) root = root->inputs[0];
    if (root == node || root->buffer != node->buffer) bti_buffer_fail(node->buffer, error);
}

enum { NAMED_RESULTS = 4 };

/* "; it comes to 2 of 3 results: bt_cross_entropy at main.c:20, 0.weight" */
static void add_reached(bti_str *text, bti_node *const *results, const bool *bad, int count) {
    int reached = 0, named = 0;
    for (int i = 0; i < count; i++) reached += bad[i];
    if (count > 1) bti_str_addf(text, "; it comes to %d of %d results", reached, count);
    for (int i = 0; i < count && named < NAMED_RESULTS && count > 1; i++) {
        const bti_node *result = results[i];
        while (bti_op_info((bti_op)result->op)->class == BTI_EFFECT && result->input_count == 1 && !result->place.label)
            result = result->inputs[0];
        if (!bad[i]) continue;
        bti_place place = result->place;
        bti_str_add(text, named++ ? ", " : ": ");
        if (place.label)
            bti_str_add(text, place.label);
        else
            bti_str_addf(text, "%s at %s:%d", place.name ? place.name : "", bti_site_file(place.site), place.site.line);
    }
    if (named && reached > named) bti_str_add(text, "...");
}

static bt_status tell_first(bti_node *const *results, const bool *bad, int count, bool infinities) {
    node_list from = {0};
    bool room = bti_vec_reserve(&from, (size_t)count);
    for (int i = 0; i < count && room; i++)
        if (bad[i]) from.items[from.count++] = results[i];
    bti_str reached = {0}, within = {0};
    bti_error *error = NULL;
    add_reached(&reached, results, bad, count);
    search s = {.infinities = infinities, .within = &within, .reached = bti_str_text(&reached)};
    int walk = bti_walk_begin();
    bt_status status = room ? search_from(&s, from.items, from.count) : bti_no_memory();
    if (status == BT_OK && s.origin) status = tell_origin(&s, &error);
    end_search(&s);
    bti_str_free(&within);
    bti_str_free(&reached);
    bti_vec_free(&from);
    bti_walk_end(walk);
    if (!error) error = bti_error_last();
    for (int i = 0; i < count; i++)
        if (bad[i]) fail_result(results[i], error);
    status = bti_fail_with(error);
    bti_error_release(error);
    return status;
}

static bt_status check_results(bti_node *const *results, int count) {
    bool infinities = bti_flag_choice(BTI_FLAG_check_nan) == BTI_CHECK_INFINITIES, any = false;
    bool *bad = bti_calloc((size_t)count + 1, sizeof *bad);
    if (!bad) return bti_no_memory();
    bt_status status = BT_OK;
    for (int i = 0; i < count && status == BT_OK; i++) {
        int64_t at = -1;
        if (atomic_load(&results[i]->state) == BTI_DONE && !results[i]->tuple && !is_constant(results[i]))
            status = bti_find_bad(results[i], infinities, &at);
        bad[i] = at >= 0;
        any = any || bad[i];
    }
    if (status == BT_OK && any) status = tell_first(results, bad, count, infinities);
    bti_free(bad);
    return status;
}

__attribute__((constructor)) static void tell_eval(void) { bti_eval_set_check(check_results); }
