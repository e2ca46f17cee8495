/* A branch as an operation: bt_cond. */
#include "array/place.h"
#include "base/alloc.h"
#include "ops/body.h"
#include "ops/primitive.h"

typedef struct branch {
    int arg_count, result_count;
    bt_array *predicate, **arguments;
    int device;
    bti_body ways[2];
} branch;

static bt_status begin_branch(branch *b, bt_array *predicate, bt_array *const *args, bt_array **results, bool called) {
    BTI_CALL("bt_cond");
    if (!called) return bti_fail(BT_INVALID_ARGUMENT, "a branch is NULL");
    BTI_TRY(bti_check_list(results, b->result_count, "results"));
    BTI_TRY(bti_check_list(args, b->arg_count, "args"));
    if (!(b->arguments = bti_calloc((size_t)b->arg_count + 1, sizeof *b->arguments))) return bti_no_memory();
    BTI_TRY(bti_body_arguments(&predicate, 1, "predicate", b->arguments));
    if (bt_dtype_of(predicate) != BT_BOOL || bt_rank(predicate) != 0)
        return bti_fail(BT_INVALID_ARGUMENT,
                        "the predicate is %s with %d axes; it must be a bool scalar (bt_any, bt_all)",
                        bt_dtype_name(bt_dtype_of(predicate)), bt_rank(predicate));
    BTI_TRY(bti_body_arguments(args, b->arg_count, "args", b->arguments + 1));
    bti_placement placement;
    bt_array *poison = bti_choose_device(b->arguments, b->arg_count + 1, &placement);
    if (poison) return bti_fail_with(bti_array_error(poison));
    b->device = placement.device;
    for (int way = 0; way < 2; way++) {
        BTI_TRY(bti_body_begin(&b->ways[way], way ? "the second branch" : "the first branch", b->arg_count,
                               b->result_count));
        b->ways[way].whole = true; /* nothing of it is computed where the other way is taken */
        for (int i = 0; i < b->arg_count; i++) {
            bti_type type = bti_type_of(bti_node_of(b->arguments[i + 1]));
            BTI_TRY(bti_body_input(&b->ways[way], i, &type, b->device, bti_node_of(args[i])->weak));
        }
    }
    return BT_OK;
}

static bool is_there(const bt_array *x) { return x && !bti_array_error(x); }

/* A weak scalar of the first branch takes the dtype that the second one has; integers take any but bool. */
static void match_weak(branch *b, int result) {
    bt_array **x = &b->ways[0].outputs[result], *other = b->ways[1].outputs[result];
    if (!is_there(*x) || !is_there(other) || !bti_node_of(*x)->weak) return;
    if (bti_takes_weak(bti_dtype(*x), bti_dtype(other))) *x = bti_cast(*x, bti_dtype(other));
}

static bt_status check_branch(branch *b) {
    for (int i = 0; i < b->result_count; i++) {
        match_weak(b, i);
        BTI_TRY(bti_body_output(&b->ways[0], i, "results", i));
        bti_type type = bti_type_of(b->ways[0].made[i]);
        BTI_TRY(bti_body_output_like(&b->ways[1], i, &type, "results", i, "that of the first is"));
    }
    return BT_OK;
}

static bt_status record_branch(branch *b, bt_array **results) {
    bti_type *types = bti_alloc(((size_t)b->result_count + 1) * sizeof *types);
    if (!types) return bti_no_memory();
    for (int i = 0; i < b->result_count; i++) types[i] = bti_type_of(b->ways[0].made[i]);
    bti_body_operation of = {.op = BTI_OP_cond,
                             .bodies = (bti_body *[]){&b->ways[0], &b->ways[1]},
                             .body_count = 2,
                             .arguments = b->arguments,
                             .argument_count = b->arg_count + 1,
                             .types = types,
                             .result_count = b->result_count};
    bt_status status = bti_body_record(&of, results);
    bti_free(types);
    return status;
}

static bt_status finish_branch(branch *b, bt_array **results) {
    BTI_PUBLIC("bt_cond");
    bt_status status = check_branch(b);
    if (status == BT_OK) status = record_branch(b, results);
    for (int i = 0; i < b->result_count && status == BT_OK; i++) bti_public_keep(&bti_public_, results[i]);
    return status;
}

bt_status bt_cond(bt_array *predicate, bt_branch_fn *yes, bt_branch_fn *no, void *data, bt_array *const *args,
                  int arg_count, bt_array **results, int result_count) {
    branch b = {arg_count, result_count, .device = 0};
    bt_array **made = result_count >= 0 ? bti_calloc((size_t)result_count + 1, sizeof *made) : NULL;
    bt_status status = BT_OK;
    BT_SCOPE {
        status = begin_branch(&b, predicate, args, results, yes && no);
        if (status == BT_OK && !made) status = bti_no_memory();
        if (status == BT_OK) {
            yes(b.ways[0].inputs, b.ways[0].outputs, data);
            no(b.ways[1].inputs, b.ways[1].outputs, data);
            status = finish_branch(&b, made);
        }
        for (int i = 0; i < result_count && status == BT_OK; i++) results[i] = bt_keep(made[i]);
    }
    if (status != BT_OK) (void)bti_body_poison(status, results, result_count);
    bti_body_end(&b.ways[0]);
    bti_body_end(&b.ways[1]);
    bti_free(b.arguments);
    bti_free(made);
    return status;
}
