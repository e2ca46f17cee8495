/* Operations of the program's: made, called, asked for shapes, run; and their derivatives and batches. */
#include <stdatomic.h>
#include <string.h>

#include <berth/control.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/sized.h"
#include "ir/print.h"
#include "ops/application.h"

enum { LONGEST_NAME = 63 };

/* What recorded calls hold. */
typedef struct operation {
    bti_host_function head;
    bt_custom_options given;
} operation;

struct bt_custom {
    bti_owned head;
    operation *of;
};

static bt_custom_args args_of(const operation *of, const bti_attr *attr) {
    return (bt_custom_args){attr->custom.number, (int)attr->custom.count, of->given.data};
}

/* --- names -------------------------------------------------------------------------------------------------------------- */

/* Places of traces and errors outlive operations, so names are never freed; each is there once, or more often when threads meet. */
typedef struct name {
    struct name *next;
    char text[LONGEST_NAME + 1];
} name;
static _Atomic(name *) names;

static const char *kept_name(const char *text) {
    for (const name *n = atomic_load(&names); n; n = n->next)
        if (!strcmp(n->text, text)) return n->text;
    name *made = bti_calloc(1, sizeof *made);
    if (!made) return NULL;
    strncpy(made->text, text, LONGEST_NAME);
    made->next = atomic_load(&names);
    while (!atomic_compare_exchange_weak(&names, &made->next, made)) {
    }
    return made->text;
}

static bool is_name(const char *text) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";
    size_t length = strspn(text, letters);
    return length && length <= LONGEST_NAME && !text[length];
}

/* --- shapes ------------------------------------------------------------------------------------------------------------- */

static bt_elements described(const bti_node *node) {
    return (bt_elements){.dtype = (bt_dtype)node->dtype, .shape = bti_shape_of(node->shape, node->rank)};
}

/* What the shape rule says. Asked while a call is recorded: no lock is held. */
static bt_status ask_shape(const operation *of, bti_node *const *inputs, int count, const bti_attr *attr,
                           bt_elements *output) {
    bt_elements few[8] = {{.data = NULL}}, *of_inputs = few;
    if (count > 8 && !(of_inputs = bti_alloc((size_t)count * sizeof *of_inputs))) return bti_no_memory();
    for (int i = 0; i < count; i++) of_inputs[i] = described(inputs[i]);
    *output = of_inputs[0];
    bt_custom_args args = args_of(of, attr);
    bt_status status = of->given.shape(of_inputs, count, output, &args);
    if (of_inputs != few) bti_free(of_inputs);
    return status;
}

static bool custom_fits(bti_host_function *function, const bti_node *node) {
    bt_elements output;
    bt_status status = ask_shape((const operation *)function, node->inputs, node->input_count, node->attr, &output);
    return status == BT_OK && output.dtype == (bt_dtype)node->dtype &&
           bti_shapes_may_equal(output.shape.rank, output.shape.size, node->rank, node->shape);
}

static bt_array *shape_refused(const operation *of, bt_status status, bti_node *const *inputs, int count) {
    bti_str text = {0};
    for (int i = 0; i < count; i++) {
        bti_str_addf(&text, "%s%s ", i ? ", " : "", bt_dtype_name((bt_dtype)inputs[i]->dtype));
        bti_shape_text(&text, inputs[i]->rank, inputs[i]->shape);
    }
    bt_array *poison = bti_poisonf(bti_is_status(status) ? status : BT_UNKNOWN,
                                   "the shape rule of the operation \"%s\" refuses inputs of %s (%s)", of->head.name,
                                   bti_str_text(&text), bt_status_name(status));
    bti_str_free(&text);
    return poison;
}

static bool is_size_of_inputs(int64_t size, bti_node *const *inputs, int count) {
    for (int i = 0; i < count; i++)
        for (int d = 0; d < inputs[i]->rank; d++)
            if (inputs[i]->shape[d] == size) return true;
    return false;
}

/* NULL: an array can be like that. */
static bt_array *check_output(const operation *of, const bt_elements *output, bti_node *const *inputs, int count) {
    for (int d = 0; d < output->shape.rank && d < BT_MAX_RANK; d++)
        if (output->shape.size[d] < 0 && !is_size_of_inputs(output->shape.size[d], inputs, count))
            return bti_poisonf(BT_INVALID_ARGUMENT,
                               "the shape rule of the operation \"%s\" gives axis %d the size %lld; a negative size "
                               "stands for one that is not known yet, and can only be passed on from an input",
                               of->head.name, d, (long long)output->shape.size[d]);
    bt_array *poison = bti_check_shape(output->dtype, output->shape, false);
    if (!poison) return NULL;
    const bti_error *why = bti_array_error(poison);
    return bti_poisonf(BT_INVALID_ARGUMENT, "the shape rule of the operation \"%s\" gives what no array can be: %s",
                       of->head.name, bti_error_message(why));
}

/* --- calls -------------------------------------------------------------------------------------------------------------- */

/* None of the inputs is poisoned. */
static bt_array *record_custom(operation *of, bt_array *const *inputs, int count, const bti_attr *attr) {
    bti_node *few[8] = {NULL}, **nodes = few;
    if (count > 8 && !(nodes = bti_alloc((size_t)count * sizeof *nodes))) return bti_array_new(NULL);
    for (int i = 0; i < count; i++) nodes[i] = bti_node_of(inputs[i]);
    bt_elements output;
    bt_status status = ask_shape(of, nodes, count, attr, &output);
    bt_array *made =
        status == BT_OK ? check_output(of, &output, nodes, count) : shape_refused(of, status, nodes, count);
    if (nodes != few) bti_free(nodes);
    if (made) return made;
    made = bti_record(BTI_OP_custom, output.dtype, false, output.shape.rank, output.shape.size, inputs, count, attr);
    if (bti_node_of(made)->op == BTI_OP_custom) bti_node_of(made)->host = bti_host_retain(&of->head);
    return made;
}

bt_array *bt_custom_call(bt_custom *op, bt_array *const *inputs, int count, const int64_t *attributes,
                         int attribute_count) {
    BTI_PUBLIC("bt_custom_call");
    bti_error *error = bti_handle_error(BTI_OWNED_CUSTOM, op, "bt_custom_call");
    if (error) BTI_RETURN(bti_poison(bti_error_retain(error)));
    if (count < 1 || !inputs)
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "%d inputs%s; the operation \"%s\" needs at least one", count,
                               inputs ? "" : " in a list that is NULL", op->of->head.name));
    if (attribute_count < 0 || attribute_count > BT_MAX_CUSTOM_ATTRIBUTES || (attribute_count && !attributes))
        BTI_RETURN(bti_poisonf(BT_INVALID_ARGUMENT, "%d attributes%s; a call can have 0 to %d", attribute_count,
                               attributes ? "" : " in a list that is NULL", BT_MAX_CUSTOM_ATTRIBUTES));
    BTI_NEED_ALL(inputs, count);
    bti_attr attr = {.custom = {attribute_count, {0}}};
    for (int i = 0; i < attribute_count; i++) attr.custom.number[i] = attributes[i];
    bt_array *made = record_custom(op->of, inputs, count, &attr);
    if (bti_node_of(made)->op == BTI_OP_custom) bti_node_of(made)->place.name = op->of->head.name;
    BTI_RETURN(made);
}

static bt_status run_failed(const operation *of, bt_status status, bti_error *before) {
    bti_error *last = bti_error_last();
    bool said = last && last != before && bti_error_code(last) == status;
    bt_status known = bti_is_status(status) ? status : BT_UNKNOWN;
    known = bti_fail(known, "the function of the operation \"%s\" fails with %s%s%s", of->head.name,
                     bt_status_name(status), said ? ": " : "", said ? bti_error_message(last) : "");
    bti_error_release(last);
    return known;
}

static bt_status run_custom(bti_host_function *function, const bt_elements *inputs, int count,
                            const bt_elements *output, const bti_attr *attr) {
    const operation *of = (const operation *)function;
    bt_custom_args args = args_of(of, attr);
    bool had_scopes = bti_thread_has_scopes();
    bti_error *before = bti_error_last();
    bt_status status = BT_OK;
    BT_SCOPE
        status = of->given.run(inputs, count, output, &args);
    if (status != BT_OK) status = run_failed(of, status, before);
    bti_error_release(before);
    if (!had_scopes) bti_leave_thread();
    return status;
}

/* --- operations --------------------------------------------------------------------------------------------------------- */

static void free_operation(bti_host_function *function) {
    operation *of = (operation *)function;
    if (of->given.release) of->given.release(of->given.data);
    bti_free(of);
}

static void clear_custom(void *custom) {
    bt_custom *op = custom;
    if (op->of) bti_host_release(&op->of->head);
    op->of = NULL;
}
static bt_custom custom_without_memory = {.head = BTI_NO_MEMORY};
static const bti_handle_class custom_class = {BTI_OWNED_CUSTOM, sizeof(bt_custom), clear_custom,
                                              &custom_without_memory};

#define MEMBER(name) BTI_MEMBER(bt_custom_options, name)
static const bti_member option_members[] = {MEMBER(size),     MEMBER(name),    MEMBER(run),   MEMBER(shape),
                                            MEMBER(gradient), MEMBER(tangent), MEMBER(batch), MEMBER(data),
                                            MEMBER(release),  MEMBER(impure)};
#undef MEMBER
static const bti_sized_type options_layout =
    BTI_SIZED_TYPE(bt_custom_options, "options", "BT_CUSTOM(.name = \"norm\", .run = norm, .shape = norm_shape)",
                   option_members, NULL);

static bt_status check_given(const bt_custom_options *given) {
    if (!given->name || !is_name(given->name))
        return bti_fail(BT_INVALID_ARGUMENT, "the name is %s%s%s; it needs 1 to %d letters, digits and _ . : -",
                        given->name ? "\"" : "", given->name ? given->name : "NULL", given->name ? "\"" : "",
                        LONGEST_NAME);
    if (!given->run) return bti_fail(BT_INVALID_ARGUMENT, "the operation \"%s\" has no .run function", given->name);
    if (!given->shape) return bti_fail(BT_INVALID_ARGUMENT, "the operation \"%s\" has no .shape rule", given->name);
    return BT_OK;
}

/* NULL: the error record says why, and the data are released. */
static operation *new_operation(const bt_custom_options *options) {
    bt_custom_options given = {0};
    if (bti_options_take(&options_layout, "bt_custom_new", options, &given) != BT_OK) return NULL;
    operation *of = NULL;
    if (check_given(&given) == BT_OK) {
        const char *kept = kept_name(given.name);
        of = kept ? bti_calloc(1, sizeof *of) : NULL;
        if (of) {
            of->head = (bti_host_function){.refs = 1,
                                           .free = free_operation,
                                           .run = run_custom,
                                           .name = kept,
                                           .fits = custom_fits,
                                           .impure = given.impure};
            given.name = kept;
            of->given = given;
        } else {
            (void)!bti_no_memory();
        }
    }
    if (!of && given.release) given.release(given.data);
    return of;
}

bt_custom *bt_custom_new(const bt_custom_options *options) {
    BTI_CALL("bt_custom_new");
    operation *of = new_operation(options);
    bt_custom *op = of ? bti_owned_new(BTI_OWNED_CUSTOM, sizeof *op) : NULL;
    if (op)
        op->of = of;
    else if (of) {
        bti_host_release(&of->head);
        (void)!bti_no_memory();
    }
    return bti_scope_own(&custom_class, op);
}

bt_custom *bt_custom_retain(bt_custom *op) { return bti_handle_retain(&custom_class, op, "bt_custom_retain"); }
void bt_custom_release(bt_custom *op) { bti_handle_release(&custom_class, op, "bt_custom_release"); }
bt_status bt_custom_status(const bt_custom *op) { return bti_handle_check(BTI_OWNED_CUSTOM, op, "bt_custom_status"); }

/* --- derivatives -------------------------------------------------------------------------------------------------------- */

static operation *operation_of(const bti_node *node) { return (operation *)node->host; }

static bt_array *has_no(const operation *of, const char *what, const char *member) {
    return bti_poisonf(BT_UNIMPLEMENTED,
                       "the operation \"%s\" has no %s (.%s of its options); bt_stop_gradient ends it", of->head.name,
                       what, member);
}

/* What a rule handed back, or poison when it is not like `like`. */
static bt_array *checked(const operation *of, const char *rule, bt_array *made, const bti_node *like, int rank,
                         const int64_t *shape) {
    if (!made)
        return bti_poisonf(BT_INVALID_ARGUMENT, "the %s rule of the operation \"%s\" hands back NULL", rule,
                           of->head.name);
    if (bti_array_error(made)) return bti_poisoned_by(&made, 1);
    const bti_node *node = bti_node_of(made);
    bool fits = bti_shapes_may_equal(node->rank, node->shape, rank, shape);
    if (fits && bti_node_is_float(node) && bti_node_is_float(like)) return bti_cast(made, (bt_dtype)like->dtype);
    if (fits && node->dtype == like->dtype) return made;
    return bti_poisonf(BT_INVALID_ARGUMENT, "the %s rule of the operation \"%s\" hands back %s %s, not %s %s", rule,
                       of->head.name, bt_dtype_name((bt_dtype)node->dtype),
                       bti_sizes_string(node->rank, node->shape).text, bt_dtype_name((bt_dtype)like->dtype),
                       bti_sizes_string(rank, shape).text);
}

void bti_gradient_custom(bti_backward *b) {
    const operation *of = operation_of(b->node);
    bt_custom_args args = args_of(of, b->attr);
    if (of->given.gradient) of->given.gradient(b->x, b->count, b->y, b->g, b->gx, &args);
    for (int i = 0; i < b->count; i++) {
        const bti_node *x = bti_node_of(b->x[i]);
        if (!b->wanted[i] || !bti_node_is_float(x))
            b->gx[i] = NULL;
        else if (!of->given.gradient)
            b->gx[i] = has_no(of, "gradient rule", "gradient");
        else if (b->gx[i])
            b->gx[i] = checked(of, "gradient", b->gx[i], x, x->rank, x->shape);
    }
}

void bti_tangent_custom(bti_application *a) {
    const operation *of = operation_of(a->node);
    bt_custom_args args = args_of(of, a->node->attr);
    if (!bti_node_is_float(a->node)) return;
    a->made[0] = of->given.tangent ? of->given.tangent(a->x, a->count, a->y, a->image, &args)
                                   : has_no(of, "tangent rule", "tangent");
    if (a->made[0] && of->given.tangent)
        a->made[0] = checked(of, "tangent", a->made[0], a->node, a->node->rank, a->node->shape);
}

/* --- batches ------------------------------------------------------------------------------------------------------------ */

typedef struct rows {
    const bti_application *a;
    bt_array **inputs; /* room for those of one row */
} rows;

/* One row: the batched inputs are given, the others read from outside. */
static void call_for_row(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const rows *r = data;
    const bti_node *node = r->a->node;
    (void)carry;
    for (int i = 0, given = 0; i < r->a->count; i++) r->inputs[i] = r->a->image[i] ? x[given++] : r->a->x[i];
    y[0] = record_custom(operation_of(node), r->inputs, r->a->count, node->attr);
}

static bt_array *call_by_row(const bti_application *a) {
    bt_array **room = bti_calloc(2 * (size_t)a->count, sizeof *room), *made;
    if (!room) return bti_array_new(NULL);
    rows r = {a, room + a->count};
    int batched = 0;
    for (int i = 0; i < a->count; i++)
        if (a->image[i]) room[batched++] = a->image[i];
    (void)bt_scan(call_for_row, &r, BT_ALL_ROWS, NULL, 0, room, batched, &made, 1);
    bti_free(room);
    return made;
}

static bt_array *call_batch_rule(const operation *of, const bti_application *a) {
    bt_custom_args args = args_of(of, a->node->attr);
    bt_array **inputs = bti_alloc((size_t)a->count * sizeof *inputs);
    bool *batched = bti_alloc((size_t)a->count * sizeof *batched);
    bt_array *made = inputs && batched ? NULL : bti_array_new(NULL);
    for (int i = 0; i < a->count && !made; i++) {
        batched[i] = a->image[i] != NULL;
        inputs[i] = batched[i] ? a->image[i] : a->x[i];
    }
    if (!made) made = of->given.batch(inputs, batched, a->count, &args);
    bti_free(inputs);
    bti_free(batched);
    int64_t shape[BT_MAX_RANK + 1] = {a->size};
    for (int d = 0; d < a->node->rank; d++) shape[d + 1] = a->node->shape[d];
    return checked(of, "batching", made, a->node, a->node->rank + 1, shape);
}

void bti_batch_custom(bti_application *a) {
    const operation *of = operation_of(a->node);
    a->made[0] = of->given.batch ? call_batch_rule(of, a) : call_by_row(a);
}
