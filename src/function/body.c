/* Recording a call makes the function's nodes anew, with sizes, inputs and the variables' values of that call in place, and leaves
 * the rest to evaluation like any other work. */
#include "function/body.h"

#include "array/graph.h"
#include "array/move.h"
#include "array/place.h"
#include "ir/region.h"
#include "ops/primitive.h"

/* By the recorded order of the nodes. */
int bti_body_place(const bt_function *f, const bti_node *node) {
    size_t low = 0, high = f->body.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (f->body.items[middle]->sequence < node->sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->body.count && f->body.items[low] == node ? (int)low : -1;
}

bti_node *bti_call_stand_in(const bti_body_call *c, bti_node *node) {
    for (int i = 0; i < c->function->input_count; i++)
        if (c->function->inputs[i] == node) return c->stand_ins[i];
    int place = bti_body_place(c->function, node);
    return place >= 0 && place < (int)c->known ? c->stand_ins[c->function->input_count + place]
                                               : node; /* a constant of the function */
}

bt_array *bti_call_argument(const bt_function *f, int index, bt_array *argument) {
    const bti_node *input = f->inputs[index];
    if (bti_array_error(argument)) return bti_poisoned_by(&argument, 1);
    if (bti_node_of(argument)->weak) argument = bti_cast(argument, (bt_dtype)input->dtype);
    if (bti_node_of(argument)->device != input->device && atomic_load(&input->committed))
        argument = bti_move(argument, input->device, false);
    return argument;
}

/* Two sizes of the arguments must be the same, and are not: says which. */
static bt_status sizes_disagree(const bti_body_call *c, int index, int axis, int64_t size, int64_t other) {
    int first = index, first_axis = axis;
    for (int i = index; i >= 0; i--)
        for (int d = i == index ? axis : c->function->inputs[i]->rank - 1; d >= 0; d--)
            if (c->function->inputs[i]->shape[d] == c->function->inputs[index]->shape[axis]) first = i, first_axis = d;
    bti_str sizes[2] = {{0}, {0}};
    bti_size_text(&sizes[0], size);
    bti_size_text(&sizes[1], other);
    bt_status status =
        bti_fail(BT_INVALID_ARGUMENT,
                 "argument %d has %s elements along axis %d and argument %d has %s along axis %d; they "
                 "are one size of the function, so they must be equal",
                 index + 1, bti_str_text(&sizes[0]), axis, first + 1, bti_str_text(&sizes[1]), first_axis);
    bti_str_free(&sizes[0]);
    bti_str_free(&sizes[1]);
    return status;
}

/* The symbol of an input's axis stands for this size; several axes may have one symbol (the batch axes of bt_vmap). */
static bt_status bind_size(bti_body_call *c, int index, int axis, int64_t size) {
    int64_t symbol = c->function->inputs[index]->shape[axis];
    for (size_t i = 0; i < c->symbols.count; i++)
        if (c->symbols.items[i] == symbol)
            return c->sizes.items[i] == size ? BT_OK : sizes_disagree(c, index, axis, size, c->sizes.items[i]);
    return bti_vec_push(&c->symbols, symbol) && bti_vec_push(&c->sizes, size) ? BT_OK : bti_no_memory();
}

bt_status bti_call_bind(bti_body_call *c, int index, bti_node *node) {
    const bti_node *input = c->function->inputs[index];
    bool fits = node->dtype == input->dtype && node->rank == input->rank;
    for (int d = 0; d < input->rank && fits; d++) {
        fits = bti_size_is_symbolic(input->shape[d]) || input->shape[d] == node->shape[d];
        if (fits && bti_size_is_symbolic(input->shape[d])) BTI_TRY(bind_size(c, index, d, node->shape[d]));
    }
    if (!fits) {
        bti_str wants = {0}, is = {0};
        bti_shape_text(&wants, input->rank, input->shape);
        bti_shape_text(&is, node->rank, node->shape);
        bt_status status = bti_fail(BT_INVALID_ARGUMENT, "argument %d is %s %s, the function's input %s %s", index + 1,
                                    bt_dtype_name((bt_dtype)node->dtype), bti_str_text(&is),
                                    bt_dtype_name((bt_dtype)input->dtype), bti_str_text(&wants));
        bti_str_free(&wants);
        bti_str_free(&is);
        return status;
    }
    c->stand_ins[index] = bti_node_retain(node);
    return BT_OK;
}

/* What the rule of its shape says, where it has words for it. */
static void add_reason(bti_str *text, const bti_node *made) {
    bti_str why = {0};
    bti_type type = bti_type_of(made);
    if (!made->tuple) (void)bti_op_shape((bti_op)made->op, made->input_count, made->inputs, made->attr, &type, &why);
    if (why.length) bti_str_addf(text, "; %s", bti_str_text(&why));
    bti_str_free(&why);
}

static bt_status sizes_do_not_fit(const bti_node *made) {
    bti_str text = {0};
    for (int i = 0; i < made->input_count; i++) {
        bti_str_add(&text, i ? ", " : "");
        bti_shape_text(&text, made->inputs[i]->rank, made->inputs[i]->shape);
    }
    if (made->op == BTI_OP_expand || made->op == BTI_OP_reshape || made->op == BTI_OP_iota) {
        bti_str_add(&text, " to ");
        bti_shape_text(&text, made->rank, made->shape);
    }
    add_reason(&text, made);
    bti_error *error = bti_error_at(made->place, BT_INVALID_ARGUMENT,
                                    "in a call of the function the sizes do not fit: %s of shapes %s",
                                    bti_op_info((bti_op)made->op)->name, bti_str_text(&text));
    bt_status status = bti_fail_with(error);
    bti_error_release(error);
    bti_str_free(&text);
    return status;
}

static bt_status size_unknown(const bti_body_call *c, const bti_node *node) {
    bti_str text = {0}, arguments = {0};
    bti_shape_text(&text, node->rank, node->shape);
    for (int i = 0; i < c->function->input_count; i++) {
        bti_str_add(&arguments, i ? ", " : "");
        bti_shape_text(&arguments, c->stand_ins[i]->rank, c->stand_ins[i]->shape);
    }
    bti_error *error = bti_error_at(
        node->place, BT_INVALID_ARGUMENT,
        "in a call of the function the sizes do not fit: %s to %s, whose sizes the arguments of shapes %s do not give",
        bti_op_info((bti_op)node->op)->name, bti_str_text(&text), bti_str_text(&arguments));
    bt_status status = bti_fail_with(error);
    bti_error_release(error);
    bti_str_free(&text);
    bti_str_free(&arguments);
    return status;
}

/* Under transfers=error: whether the inputs may go where the function has the operation. */
static bt_status check_transfers_of(const bti_node *pattern, const bti_node *made) {
    if (bti_may_cross(pattern)) return BT_OK;
    for (int i = 0; i < made->input_count; i++) {
        const bti_node *input = made->inputs[i];
        if (bti_transfer_refused(input, made->device)) return bti_refuse_input(input, made, "in the function");
    }
    return BT_OK;
}

/* The block of this call for one of the body: calls of one function share none. NULL when memory is short. */
static bti_checkpoint *block_of_call(bti_body_call *c, bti_checkpoint *block) {
    for (size_t i = 0; i < c->blocks.count; i += 2)
        if (c->blocks.items[i] == block) return c->blocks.items[i + 1];
    bti_checkpoint *outer = block->outer ? block_of_call(c, block->outer) : bti_checkpoint_now();
    if ((block->outer && !outer) || !bti_vec_reserve(&c->blocks, 2)) return NULL;
    bti_checkpoint *made = bti_checkpoint_new(outer);
    if (!made) return NULL;
    c->blocks.items[c->blocks.count++] = block;
    c->blocks.items[c->blocks.count++] = made;
    return made;
}

static bt_status put_in_block(bti_body_call *c, const bti_node *pattern, bti_node *made) {
    bti_checkpoint *block = pattern->checkpoint ? block_of_call(c, pattern->checkpoint) : bti_checkpoint_now();
    if (pattern->checkpoint && !block) return bti_no_memory();
    bti_checkpoint_release(made->checkpoint);
    made->checkpoint = bti_checkpoint_retain(block);
    return BT_OK;
}

/* The node of this call for one of the body. */
static bt_status record_again(bti_body_call *c, const bti_node *node, bti_node **made) {
    bti_binding binding = {c->symbols.items, c->sizes.items, (int)c->symbols.count};
    bti_node **inputs = bti_alloc((size_t)node->input_count * sizeof *inputs);
    if (!inputs) return bti_no_memory();
    for (int i = 0; i < node->input_count; i++) inputs[i] = bti_call_stand_in(c, node->inputs[i]);
    bt_status status = c->sequence ? bti_node_again_untold(node, inputs, &binding, made) /* the history of a run */
                                   : bti_node_again(node, inputs, &binding, made);
    bti_free(inputs);
    if (status == BT_INVALID_ARGUMENT) return size_unknown(c, node);
    BTI_TRY(status);
    BTI_TRY(put_in_block(c, node, *made));
    bt_transfers policy = bti_transfers_now();
    if (policy == BT_TRANSFERS_LOG) (*made)->log_copies = true;
    if (policy == BT_TRANSFERS_ERROR && !c->sequence) BTI_TRY(check_transfers_of(node, *made));
    return (*made)->symbolic || bti_node_fits(*made) ? BT_OK : sizes_do_not_fit(*made);
}

bt_status bti_call_begin_recording(bti_body_call *c) {
    size_t count = (size_t)c->function->input_count + c->function->body.count;
    c->stand_ins = bti_calloc(count, sizeof *c->stand_ins);
    return c->stand_ins ? BT_OK : bti_no_memory();
}

void bti_call_set_values(bti_body_call *c, bti_node *const *values) {
    const bt_function *f = c->function;
    size_t count = 0;
    for (size_t i = 0; i < f->body.count; i++)
        if (f->body.items[i]->op == BTI_OP_value)
            c->stand_ins[(size_t)f->input_count + i] = bti_node_retain(values[count++]);
}

/* A node that is one of the results of the call from now on. */
static void note_results(bti_body_call *c, size_t index, bti_node **made) {
    bti_history_number(*made, c->sequence + 2 * index);
    for (int o = 0; o < c->function->output_count; o++) {
        if (c->function->places.items[o] != (int)index || !c->results[o]) continue;
        c->made[o] = *made;
        *made = bti_node_retain(c->results[o]);
        return;
    }
}

bt_status bti_call_body(bti_body_call *c) {
    const bt_function *f = c->function;
    for (size_t i = 0; i < f->body.count; i++) {
        bti_node **made = &c->stand_ins[(size_t)f->input_count + i];
        if (f->body.items[i]->op != BTI_OP_value) {
            BTI_TRY(record_again(c, f->body.items[i], made));
            if (c->sequence) note_results(c, i, made);
        }
        c->known = i + 1;
    }
    return BT_OK;
}

void bti_call_end_recording(bti_body_call *c) {
    for (size_t i = 0; c->stand_ins && i < (size_t)c->function->input_count + c->function->body.count; i++)
        bti_node_release(c->stand_ins[i]);
    bti_free(c->stand_ins);
    bti_vec_free(&c->symbols);
    bti_vec_free(&c->sizes);
    for (size_t i = 0; i < c->blocks.count; i += 2) bti_checkpoint_release(c->blocks.items[i + 1]);
    bti_vec_free(&c->blocks);
}
