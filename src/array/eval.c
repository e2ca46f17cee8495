#include "array/eval.h"

#include <pthread.h>
#include <string.h>

#include "array/claim.h"
#include "array/plan_cache.h"
#include "array/plan_log.h"
#include "array/plan_store.h"
#include "array/step.h"
#include "base/flags.h"
#include "base/guest.h"
#include "base/thread.h"
#include "base/trace.h"
#include "exec/exec.h"
#include "exec/host.h"

typedef struct recorded {
    uint64_t nodes, bytes;    /* since the last evaluation */
    uint64_t call;            /* the last node's, by bti_public_calls */
    BTI_VEC(bti_node *) sets; /* retained */
    bool flushing, checking;
    bool held;     /* it neither flushes nor waits for earlier work */
    bti_place cut; /* of the operation that the last flush came after */
    uint8_t cut_op;
} recorded;
static _Thread_local recorded own_record;

/* --- before planning ------------------------------------------------------------------------------------------------ */

static void fail_node(bti_node *node, bti_error *error) {
    node->error = bti_error_retain(error);
    atomic_store(&node->state, BTI_FAILED);
}

static bti_error *failed_input(const bti_node *node) {
    int count = node->input_count;
    for (int k = 0; k < count; k++)
        if (atomic_load(&node->inputs[k]->state) == BTI_FAILED) return node->inputs[k]->error;
    return NULL;
}

/* What depends on a failed node fails with its cause and is taken out. */
static void drop_failed(bti_order *order) {
    size_t first = 0;
    while (first < order->count && !failed_input(order->items[first])) first++;
    size_t kept = first;
    for (size_t i = first; i < order->count; i++) {
        bti_node *node = order->items[i];
        bti_error *cause = failed_input(node);
        if (cause) {
            fail_node(node, cause);
            atomic_store(&node->claim, 0);
            continue;
        }
        if (bti_is_claimed(node, order)) node->claimed = (int64_t)kept;
        order->items[kept++] = node;
    }
    order->count = kept;
}

bti_fusing bti_fusing_now(void) {
    if (bti_flag_choice(BTI_FLAG_kernels) == BTI_KERNELS_INTERPRETER) return BTI_PRIMITIVES;
    return bti_flag_bool(BTI_FLAG_fuse) ? BTI_FUSED : BTI_SINGLE;
}

bti_planning bti_planning_with(bti_fusing fusing, bti_str *passes) {
    return (bti_planning){.fusing = fusing,
                          .share = bti_flag_bool(BTI_FLAG_memory_pool),
                          .target = bti_device_target,
                          .text = passes,
                          .device_name = bti_plan_device_name};
}

/* --- evaluation ----------------------------------------------------------------------------------------------------- */

typedef struct evaluation {
    bti_order order;
    bti_plan_key key;        /* empty: it is planned each time */
    bti_node *const *nodes;  /* what the plan's stand-ins stand for; NULL: it has none */
    bti_submitted submitted; /* .prepared NULL: nothing was */
} evaluation;

static bt_status plan_order(const bti_order *order, bti_node *const *wanted, size_t count, bti_prepared **prepared) {
    bti_plan plan = {0};
    uint64_t planning = bti_trace_begin();
    bti_str passes = {0};
    bool explained = bti_flag_choice(BTI_FLAG_explain) == BTI_EXPLAIN_PASSES;
    bti_planning how = bti_planning_with(bti_fusing_now(), explained ? &passes : NULL);
    bti_plan_store_note_made();
    bt_status status = bti_compile(order, wanted, count, &how, &plan);
    bti_trace_end(BTI_TRACE_PLAN, "plan", planning);
    if (status == BT_OK) {
        bti_log_order(order);
        bti_log_plan(&plan, &passes);
        status = bti_exec_prepare(&plan, prepared);
    }
    bti_plan_free(&plan);
    bti_str_free(&passes);
    return status;
}

/* The plan that was made for an equal evaluation, or a new one. */
static bt_status find_plan(evaluation *e, bti_node *const *wanted, size_t count, bti_prepared **prepared) {
    bool fits = bti_plan_key_write(&e->order, wanted, count, &e->key);
    if (fits && (*prepared = bti_plan_cache_find(&e->key))) {
        e->nodes = e->key.nodes;
        bti_log_order(&e->order);
        if (e->key.logs_copies) bti_log_copies(bti_prepared_plan(*prepared), e->nodes);
        return BT_OK;
    }
    BTI_TRY(plan_order(&e->order, wanted, count, prepared));
    if (fits && bti_plan_cache_keep(&e->key, &e->order, *prepared)) e->nodes = e->key.nodes;
    return BT_OK;
}

static bt_status submit_order(evaluation *e, bti_node *const *wanted, size_t count, bool behind) {
    bti_prepared *prepared;
    bti_error *error = NULL;
    BTI_TRY(find_plan(e, wanted, count, &prepared));
    for (size_t i = 0; i < e->order.count; i++) {
        bti_node *node = e->order.items[i];
        if (bti_is_claimed(node, &e->order)) node->passed = node->passed || node->tuple || atomic_load(&node->handles);
    }
    bt_status status = bti_exec_submit(prepared, e->nodes, behind, &e->submitted, &error);
    bti_error_release(error); /* the thread's record has it */
    bti_prepared_release(prepared);
    return status;
}

static bti_node *result_at(const evaluation *e, size_t r) {
    const bti_plan *plan = e->submitted.prepared ? bti_prepared_plan(e->submitted.prepared) : NULL;
    return plan && r < plan->results.count ? bti_run_node(e->nodes, plan->results.items[r].node) : NULL;
}

static void retain_results(const evaluation *e) {
    bti_node *node;
    for (size_t r = 0; (node = result_at(e, r)); r++) bti_node_retain(node);
}

/* Those that forget how they were made could not while they were claimed. */
static void release_results(const evaluation *e) {
    bti_node *node;
    for (size_t r = 0; (node = result_at(e, r)); r++) {
        if (atomic_load(&node->forget) && atomic_load(&node->state) == BTI_DONE) bti_node_forget(node);
        bti_node_release(node);
    }
}

static bti_result_check *_Atomic result_check;
void bti_eval_set_check(bti_result_check *check) { atomic_store(&result_check, check); }

static bool are_results_checked(void) {
    return bti_flag_choice(BTI_FLAG_check_nan) != BTI_CHECK_OFF && !own_record.checking;
}

/* What is set meanwhile belongs to no evaluation of the check's. */
static bt_status check_results(const evaluation *e) {
    recorded before = own_record;
    BTI_VEC(bti_node *) results = {0};
    bti_node *node;
    bt_status status = BT_OK;
    for (size_t r = 0; (node = result_at(e, r)) && status == BT_OK; r++)
        if (!bti_vec_push(&results, node)) status = bti_no_memory();
    own_record = (recorded){.flushing = true, .checking = true};
    if (status == BT_OK) status = atomic_load(&result_check)(results.items, (int)results.count);
    own_record = before;
    bti_vec_free(&results);
    return status;
}

static bt_status evaluate(bti_node *const *wanted, size_t count, bool behind) {
    evaluation e = {0};
    bool deferred = bti_errors_defer(); /* the handler may evaluate */
    bt_status status = bti_claim(wanted, count, &e.order);
    if (status == BT_OK) drop_failed(&e.order);
    for (size_t i = 0; i < e.order.count && status == BT_OK; i++)
        if (e.order.items[i]->symbolic)
            status = bti_fail(BT_FAILED_PRECONDITION,
                              "this array depends on a function's input, or on what a loop or a branch is given, and "
                              "has no value outside of a call (bt_call)");
    if (status == BT_OK && e.order.count) status = submit_order(&e, wanted, count, behind);
    retain_results(&e);
    bti_claim_end(&e.order);
    bti_prepared *checked = status == BT_OK && e.submitted.prepared && are_results_checked()
                                ? bti_prepared_retain(e.submitted.prepared)
                                : NULL;
    if (!checked) release_results(&e);
    bti_errors_tell_deferred(deferred);
    bti_exec_begin_submitted(&e.submitted);
    if (checked) {
        e.submitted.prepared = checked;
        status = check_results(&e);
        release_results(&e);
        bti_prepared_release(checked);
    }
    bti_plan_key_free(&e.key);
    return status;
}

/* When the whole could not be planned, because of what is read or of one variable, each variable is planned alone. A variable that
 * fails then is taken back, so that no later read tries it again. */
static void finish_sets(bt_status status) {
    bti_error *first = bti_error_last();
    for (size_t i = 0; i < own_record.sets.count; i++) {
        bti_node *node = own_record.sets.items[i];
        if (status != BT_OK && atomic_load(&node->state) == BTI_PENDING && evaluate(&node, 1, true) != BT_OK) {
            bti_error *error = bti_error_last();
            if (bti_claim_node(node)) {
                fail_node(node, error);
                bti_claim_end_node(node);
            }
            bti_error_release(error);
        }
        bti_node_release(node);
    }
    own_record.sets.count = 0;
    bti_error_put_back(first);
}

bt_status bti_eval_wanted(bti_node *const *nodes, int count, bti_nodes *wanted) {
    if (!bti_vec_reserve(wanted, (size_t)count + own_record.sets.count)) return bti_no_memory();
    for (int i = 0; i < count; i++) wanted->items[wanted->count++] = nodes[i];
    for (size_t i = 0; i < own_record.sets.count; i++) wanted->items[wanted->count++] = own_record.sets.items[i];
    return BT_OK;
}

bt_status bti_eval_nodes(bti_node *const *nodes, int count, bool behind) {
    bool pending = own_record.sets.count > 0;
    for (int i = 0; i < count && !pending; i++) pending = atomic_load(&nodes[i]->state) == BTI_PENDING;
    if (!pending) return BT_OK;
    BTI_NO_CANCEL;
    BTI_TRY(bti_device_check_fork());
    BTI_TRY(bti_host_check());
    bti_nodes wanted = {0};
    BTI_TRY(bti_eval_wanted(nodes, count, &wanted));
    bt_status status = evaluate(wanted.items, wanted.count, behind);
    finish_sets(status);
    own_record.nodes = own_record.bytes = 0;
    bti_vec_free(&wanted);
    if (behind && !own_record.held) bti_exec_throttle();
    return status;
}

static pthread_key_t sets_key;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;
static void forget_sets(void *unused) {
    (void)unused;
    for (size_t i = 0; i < own_record.sets.count; i++) bti_node_release(own_record.sets.items[i]);
    bti_vec_free(&own_record.sets);
}
static void make_thread_end(void) { pthread_key_create(&sets_key, forget_sets); }

bool bti_eval_note_set(bti_node *node) {
    if (atomic_load(&node->state) != BTI_PENDING) return true;
    pthread_once(&thread_end_once, make_thread_end);
    pthread_setspecific(sets_key, &own_record);
    if (!bti_vec_push(&own_record.sets, node)) return false;
    bti_node_retain(node);
    return true;
}

/* --- flushing ------------------------------------------------------------------------------------------------------- */

typedef BTI_VEC(bti_node *) held_nodes;

static void add_pending(held_nodes *held, bti_node *node) {
    bool waits = !node->symbolic && node->input_count && atomic_load(&node->state) == BTI_PENDING;
    if (waits) (void)bti_vec_push(held, node);
}

static void add_held(bt_array *array, void *held) { add_pending(held, bti_node_of(array)); }

/* Keeps those that no other pending operation reads: computing them computes the others too. */
static void keep_unread(held_nodes *held) {
    bti_order order;
    bool *is_read = NULL;
    if (bti_claim(held->items, held->count, &order) != BT_OK || !(is_read = bti_calloc(order.count + 1, 1)))
        bt_error_clear();
    for (size_t i = 0; i < order.count && is_read; i++)
        for (int k = 0; k < order.items[i]->input_count; k++)
            if (bti_is_claimed(order.items[i]->inputs[k], &order)) is_read[order.items[i]->inputs[k]->claimed] = true;
    size_t kept = 0;
    for (size_t i = 0; i < held->count; i++)
        if (!is_read || !bti_is_claimed(held->items[i], &order) || !is_read[held->items[i]->claimed])
            held->items[kept++] = held->items[i];
    held->count = kept;
    bti_claim_end(&order);
    bti_free(is_read);
}

static void flush_held(const bti_node *newest) {
    BTI_NO_CANCEL; /* nodes are claimed */
    held_nodes held = {0};
    bti_each_new_held(add_held, &held); /* a flush has evaluated those before */
    for (int i = 0; i < newest->input_count; i++) add_pending(&held, newest->inputs[i]);
    bti_error *before = bti_error_last();
    keep_unread(&held);
    if (bti_eval_nodes(held.items, (int)held.count, true) == BT_OK)
        bti_error_release(before);
    else
        bti_error_put_back(before); /* a later read reports it */
    bti_vec_free(&held);
}

#define FUSED_SHARE \
    16 /* results inside of fused kernels are mostly not stored: they count as this part of their bytes */
#define LARGE_CALL \
    64 /* times flush_bytes: more is evaluated in the midst of a call too, which may be a loop of the user's */

#define CUT_SLACK 8 /* a flush may be that part later than it is due */

/* Behind the operation that the last flush came after: each flush of a loop has the same operations then, and so a plan that is kept. */
static bool is_same_cut(const recorded *own, const bti_node *node) {
    return own->cut_op == node->op && own->cut.name == node->place.name &&
           own->cut.site.line == node->place.site.line && own->cut.site.file == node->place.site.file;
}

/* What a public call makes for its own use is not kept once it has returned: large results are waited for until then. */
static bool is_flush_due(const recorded *own, const bti_node *node, bool between_calls) {
    uint64_t most = (uint64_t)bti_flag_int(BTI_FLAG_flush_bytes), nodes = (uint64_t)bti_flag_int(BTI_FLAG_flush_nodes);
    if (own->nodes < nodes && own->bytes < most) return false;
    bool counts = between_calls || own->bytes / LARGE_CALL >= most;
    if (own->nodes >= nodes + nodes / CUT_SLACK || (counts && own->bytes >= most + most / CUT_SLACK)) return true;
    return (own->nodes >= nodes || (counts && own->bytes >= most)) && is_same_cut(own, node);
}

void bti_eval_recorded(const bti_node *node) {
    recorded *own = BTI_THREAD_OWN(own_record);
    bti_class class = bti_op_info((bti_op)node->op)->class;
    bool fused = class == BTI_ELEMENTWISE || class == BTI_MOVEMENT || class == BTI_SOURCE;
    uint64_t call = bti_public_calls();
    own->nodes++;
    if (!node->symbolic) own->bytes += (uint64_t)bti_node_bytes(node) / (fused ? FUSED_SHARE : 1);
    bool between_calls = own->call != call;
    own->call = call;
    if (own->flushing || own->held || !is_flush_due(own, node, between_calls) || bti_host_is_inside()) return;
    own->flushing = true;
    own->cut = node->place;
    own->cut_op = node->op;
    flush_held(node);
    own->nodes = own->bytes = 0;
    own->flushing = false;
}

bool bti_eval_hold(bool holds) {
    recorded *own = BTI_THREAD_OWN(own_record);
    bool before = own->held;
    own->held = holds;
    return before;
}

void bti_eval_sync(bt_array *array) {
    if (!array || bti_array_error(array) || bti_node_of(array)->symbolic) return;
    (void)!bti_block_node(bti_node_of(array));
}

/* --- reading -------------------------------------------------------------------------------------------------------- */

static bt_status wait_for_member(bti_set_member member) {
    BTI_TRY(bti_host_check());
    bti_node *node = member.node;
    if (node && atomic_load(&node->state) == BTI_PENDING) { /* another call set it; its failure takes it back */
        if (!bti_eval_note_set(node)) return bti_no_memory();
        bt_status status = bti_eval_nodes(NULL, 0, false);
        if (atomic_load(&node->state) == BTI_PENDING) return status != BT_OK ? status : BT_INTERNAL;
    }
    if (node && atomic_load(&node->state) == BTI_FAILED) return BT_OK;
    BTI_TRY(bti_device_check_fork());
    bti_error *before = bti_error_last();
    (void)!bti_buffer_wait(node ? node->buffer : member.buffer); /* its error is the step's */
    bti_error_put_back(before);
    return BT_OK;
}

bt_status bti_gate_wait(bti_gate *gate) {
    while (gate && atomic_load(&gate->outcome) == BTI_UNKNOWN) {
        bti_set_member member;
        if (!bti_set_step_open_member((bti_set_step *)gate, &member)) continue;
        bt_status status = wait_for_member(member);
        bti_set_member_drop(&member);
        BTI_TRY(status);
    }
    return bti_fail_with(bti_gate_error(gate));
}

bt_status bti_block_node(bti_node *node) {
    BTI_TRY(bti_eval_nodes(&node, 1, false));
    if (atomic_load(&node->state) == BTI_FAILED) return bti_fail_with(node->error);
    BTI_TRY(bti_buffer_wait(node->buffer));
    return node->gate ? bti_gate_wait(node->gate) : BT_OK;
}

/* The node's elements lie densely in its buffer, or in that of *dense (retained; NULL: itself). Computes and waits. */
static bt_status make_dense(bti_node *node, bti_node **dense) {
    *dense = NULL;
    BTI_TRY(bti_eval_nodes(&node, 1, false));
    if (atomic_load(&node->state) == BTI_FAILED) return bti_fail_with(node->error);
    if (bti_layout_is_dense(node->rank, node->shape, &node->layout)) return bti_block_node(node);
    bti_node *copy = bti_node_new(BTI_OP_copy, (bt_dtype)node->dtype, node->rank, node->shape, 1, &node, NULL);
    if (!copy) return bti_no_memory();
    copy->device = node->device;
    copy->place = node->place;
    bt_status status = bti_block_node(copy);
    if (status == BT_OK)
        *dense = copy;
    else
        bti_node_release(copy);
    return status;
}

bt_status bti_read_node(bti_node *node, void *data) {
    bti_node *dense;
    BTI_TRY(make_dense(node, &dense));
    const bti_node *from = dense ? dense : node;
    bt_status status = bti_buffer_read(from->buffer, (size_t)from->layout.offset * bt_dtype_size((bt_dtype)from->dtype),
                                       data, (size_t)bti_node_bytes(from));
    bti_node_release(dense);
    return status;
}

static bt_status check_array(const bt_array *x) {
    bti_error *error = bti_array_error(x);
    return error ? bti_fail_with(error) : BT_OK;
}

bt_status bt_eval_all(bt_array *const *arrays, int count) {
    BTI_PUBLIC_WAITING("bt_eval_all");
    BTI_TRY(bti_check_list(arrays, count, "arrays"));
    BTI_VEC(bti_node *) nodes = {0};
    bt_status status = BT_OK;
    for (int i = 0; i < count && status == BT_OK; i++) {
        if (!arrays[i]) continue;
        status = check_array(arrays[i]);
        if (status == BT_OK && !bti_vec_push(&nodes, bti_node_of(arrays[i]))) status = bti_no_memory();
    }
    if (status == BT_OK) status = bti_eval_nodes(nodes.items, (int)nodes.count, true);
    bti_vec_free(&nodes);
    return status;
}

bt_status bt_eval(bt_array *x) {
    BTI_PUBLIC_WAITING("bt_eval");
    BTI_TRY(check_array(x));
    return bt_eval_all(&x, 1);
}

bt_status bt_block(bt_array *x) {
    BTI_PUBLIC_WAITING("bt_block");
    BTI_TRY(check_array(x));
    return bti_block_node(bti_node_of(x));
}

bt_status bt_read(bt_array *x, void *data, size_t bytes) {
    BTI_PUBLIC_WAITING("bt_read");
    BTI_TRY(check_array(x));
    bti_node *node = bti_node_of(x);
    if (!node->symbolic && bytes != (size_t)bti_node_bytes(node)) {
        bti_str shape = {0};
        bti_shape_text(&shape, node->rank, node->shape);
        bt_status status = bti_fail(BT_INVALID_ARGUMENT, "%s %s has %lld bytes, the destination %zu",
                                    bt_dtype_name((bt_dtype)node->dtype), bti_str_text(&shape),
                                    (long long)bti_node_bytes(node), bytes);
        bti_str_free(&shape);
        return status;
    }
    if (!node->symbolic && bytes && !data) return bti_fail(BT_INVALID_ARGUMENT, "the destination is NULL");
    return bti_read_node(node, data);
}

bt_status bt_peek_status(const bt_array *x) { return bti_error_code(bti_array_error(x)); }
