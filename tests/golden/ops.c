/* Runs operations: result and vector-Jacobian product of each case. */
#include "golden/golden.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --- attributes ------------------------------------------------------------------------------------------------------ */

const json_t *attr(call *c, const char *name) {
    if (c->asked_count < GOLDEN_MAX_ATTRS) c->asked[c->asked_count++] = name;
    const json_t *value = json_object_get(c->attrs, name);
    return json_is_null(value) ? NULL : value;
}

const char *golden_unknown_attr(const call *c) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)c->attrs, name, value) {
        int i = 0;
        while (i < c->asked_count && strcmp(c->asked[i], name)) i++;
        if (i == c->asked_count && !json_is_null(value)) return name;
    }
    return NULL;
}

/* Numbers; "NaN", "Infinity" and "-Infinity" come as texts. */
double json_double(const json_t *value) {
    return json_is_string(value)    ? strtod(json_string_value(value), NULL)
           : json_is_boolean(value) ? json_is_true(value)
                                    : json_number_value(value);
}

int64_t attr_int(call *c, const char *name, int64_t otherwise) {
    const json_t *value = attr(c, name);
    return json_is_integer(value) ? json_integer_value(value) : value ? (int64_t)json_double(value) : otherwise;
}
double attr_double(call *c, const char *name, double otherwise) {
    const json_t *value = attr(c, name);
    return value ? json_double(value) : otherwise;
}
bool attr_bool(call *c, const char *name, bool otherwise) {
    const json_t *value = attr(c, name);
    return json_is_boolean(value) ? json_is_true(value) : value ? json_double(value) != 0 : otherwise;
}
bt_dtype attr_dtype(call *c, const char *name, bt_dtype otherwise) {
    const char *text = json_string_value(attr(c, name));
    if (!text) return otherwise;
    bt_dtype dtype = bt_dtype_named(text);
    if (dtype == BT_DTYPE_COUNT) refuse(c, "berth has no dtype %s", text);
    return dtype;
}

bool attr_list(call *c, const char *name, int64_t *numbers, int capacity) {
    const json_t *value = attr(c, name);
    if (json_is_integer(value)) {
        for (int i = 0; i < capacity; i++) numbers[i] = json_integer_value(value);
        return true;
    }
    size_t count = json_array_size(value);
    if (!json_is_array(value) || count > (size_t)capacity) return false;
    for (size_t i = 0; i < count; i++) numbers[i] = json_integer_value(json_array_get(value, i));
    return true;
}

bt_shape attr_shape(call *c, const char *name) {
    const json_t *value = attr(c, name);
    bt_shape shape = {json_is_integer(value) ? 1 : (int)json_array_size(value), {0}};
    if (json_is_integer(value)) shape.size[0] = json_integer_value(value);
    for (int i = 0; json_is_array(value) && i < shape.rank && i < BT_MAX_RANK; i++)
        shape.size[i] = json_integer_value(json_array_get(value, (size_t)i));
    return shape;
}

bt_axes attr_axes(call *c) {
    const char *name = attr(c, "axes") ? "axes" : "axis";
    if (!attr(c, name)) return BT_ALL;
    bt_shape listed = attr_shape(c, name);
    return bti_axes_from_shape(listed);
}

bt_array *refuse(call *c, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!*c->refusal) vsnprintf(c->refusal, sizeof c->refusal, format, arguments);
    va_end(arguments);
    return NULL;
}

/* --- one case ------------------------------------------------------------------------------------------------------- */

typedef struct ops_case {
    const char *name, *op;
    const json_t *json;
    double rtol, atol;
} ops_case;

/* A tensor of the file by the name that stands there. NULL with the reason. */
static bt_array *tensor(bt_tensors *file, const json_t *name, char *why, size_t why_size) {
    const char *text = json_string_value(name);
    bt_array *array = text ? bt_tensors_get(file, text) : NULL;
    if (array && bt_peek_status(array) == BT_OK) return array;
    if (!array)
        snprintf(why, why_size, "the case names no tensor where one should be");
    else if (bt_block(array) != BT_OK)
        snprintf(why, why_size, "%s", bt_error_text());
    return NULL;
}

/* The tensors of a list, at most BT_MAX_RANK * 8 of them; -1 with the reason. */
static int tensors_of(bt_tensors *file, const json_t *names, bt_array **arrays, char *why, size_t why_size) {
    size_t count = json_array_size(names);
    if (count > GOLDEN_MAX_TENSORS) {
        snprintf(why, why_size, "%zu tensors; the runner takes %d", count, GOLDEN_MAX_TENSORS);
        return -1;
    }
    for (size_t i = 0; i < count; i++)
        if (!(arrays[i] = tensor(file, json_array_get(names, i), why, why_size))) return -1;
    return (int)count;
}

/* Gradients have the tolerance of their case; where that is 0 a float32 one has ten times what elementwise float32 has. */
static void gradient_tolerance(const ops_case *c, bt_dtype dtype, double *rtol, double *atol) {
    bool zero = c->rtol == 0 && c->atol == 0 && dtype == BT_F32;
    *rtol = zero ? 10 * 2e-6 : c->rtol;
    *atol = zero ? 10 * 1e-6 : c->atol;
}

static bool check_vjp(const ops_case *c, bt_tensors *file, bt_array *y, bt_array *const *in, int in_count, char *why,
                      size_t why_size) {
    const json_t *vjp = json_object_get(c->json, "vjp");
    if (!json_is_object(vjp)) return true;
    const json_t *of = json_object_get(vjp, "of");
    bt_array *wrt[GOLDEN_MAX_TENSORS], *theirs[GOLDEN_MAX_TENSORS], *ours[GOLDEN_MAX_TENSORS], *cotangent;
    int count = tensors_of(file, json_object_get(vjp, "grads"), theirs, why, why_size);
    if (count < 0 || !(cotangent = tensor(file, json_object_get(vjp, "cotangent"), why, why_size))) return false;
    for (int i = 0; i < count; i++) {
        json_int_t at = json_integer_value(json_array_get(of, (size_t)i));
        if ((size_t)count != json_array_size(of) || at < 0 || at >= in_count)
            return snprintf(why, why_size, "`of` does not name inputs"), false;
        wrt[i] = in[at];
    }
    if (bt_vjp(y, cotangent, wrt, count, ours) != BT_OK)
        return snprintf(why, why_size, "bt_vjp: %s", bt_error_text()), false;
    for (int i = 0; i < count; i++) {
        char label[64];
        double rtol, atol;
        snprintf(label, sizeof label, "gradient %d", (int)json_integer_value(json_array_get(of, (size_t)i)));
        gradient_tolerance(c, bt_dtype_of(theirs[i]), &rtol, &atol);
        if (!golden_agrees(label, ours[i], theirs[i], rtol, atol, why, why_size)) return false;
    }
    return true;
}

/* `pairs` lists the inputs that are complex numbers. */
bool golden_numbers_of(const json_t *pairs, bt_array *const *in, int in_count, bt_array **numbers) {
    for (int i = 0; i < in_count; i++) numbers[i] = in[i];
    size_t i;
    const json_t *number;
    json_array_foreach((json_t *)pairs, i, number) {
        json_int_t at = json_integer_value(number);
        if (at < 0 || at >= in_count) return false;
        numbers[at] = golden_of_pairs(in[at]);
    }
    return true;
}

static void export_case(const ops_case *c, bt_tensors *file, call *made, bt_array *const *in, int in_count,
                        bool gives_pairs) {
    static int number;
    const json_t *vjp = json_object_get(c->json, "vjp"), *of = json_object_get(vjp, "of");
    golden_gradient gradient = {.count = json_is_object(vjp) ? (int)json_array_size(of) : 0};
    char stem[512], why[640] = "";
    for (int i = 0; i < gradient.count; i++) gradient.of[i] = (int)json_integer_value(json_array_get(of, (size_t)i));
    if (gradient.count && !(gradient.cotangent = tensor(file, json_object_get(vjp, "cotangent"), why, sizeof why)))
        return;
    snprintf(stem, sizeof stem, "%s/case_%d", golden_export_folder, number++);
    bool done = golden_export_case(stem, c->op, made, in, in_count, &gradient, gives_pairs,
                                   json_object_get(c->json, "pairs"), why, sizeof why);
    printf("EXPORTED case_%d %s %g %g %s %s\n", number - 1, done ? "yes" : "no", c->rtol, c->atol, c->name, why);
}

static void run_case(const ops_case *c, bt_tensors *file, tally *t) {
    char why[640];
    bt_array *in[GOLDEN_MAX_TENSORS], *numbers[GOLDEN_MAX_TENSORS],
        *theirs = tensor(file, json_object_get(c->json, "output"), why, sizeof why);
    int in_count = tensors_of(file, json_object_get(c->json, "inputs"), in, why, sizeof why);
    if (!theirs || in_count < 0) {
        golden_failed(t, c->name, "%s", why);
        return;
    }
    if (!golden_numbers_of(json_object_get(c->json, "pairs"), in, in_count, numbers)) {
        golden_failed(t, c->name, "`pairs` does not name inputs");
        return;
    }
    bool gives_pairs = json_is_true(json_object_get(c->json, "gives_pairs"));
    bt_dtype out = bt_dtype_of(theirs), pair = out == BT_F64 ? BT_C128 : BT_C64;
    call made = {.attrs = json_object_get(c->json, "attrs"),
                 .in = numbers,
                 .in_count = in_count,
                 .out_dtype = gives_pairs ? pair : out};
    bt_array *ours = golden_call(c->op, &made);
    if (ours && gives_pairs) ours = golden_pairs_of(ours);
    const char *unknown = golden_unknown_attr(&made);
    if (*made.refusal)
        golden_skipped(t, c->name, "%s: %s", c->op, made.refusal);
    else if (!ours)
        golden_skipped(t, c->name, "berth has no operation %s", c->op);
    else if (unknown)
        golden_skipped(t, c->name, "%s: berth has no attribute %s", c->op, unknown);
    else if (!golden_agrees("result", ours, theirs, c->rtol, c->atol, why, sizeof why) ||
             !check_vjp(c, file, ours, in, in_count, why, sizeof why))
        golden_failed(t, c->name, "%s", why);
    else {
        golden_passed(t, c->name);
        if (golden_export_folder) export_case(c, file, &made, in, in_count, gives_pairs);
    }
}

bool golden_operations(const char *path, bt_tensors *tensors, golden_draw draw, tally *t) {
    const char *text = bt_tensors_metadata(tensors, "cases");
    char why[256];
    json_t *cases = golden_json(text, strlen(text), why, sizeof why), *json;
    if (!cases) return golden_unusable(path, "metadata `cases`: %s", why);
    bool usable = json_is_array(cases);
    if (!usable) golden_unusable(path, "metadata `cases` is no list");
    size_t i;
    json_array_foreach(cases, i, json) if ((int)(i % (size_t)draw.every) == draw.number) BT_SCOPE {
        char number[32];
        snprintf(number, sizeof number, "case %zu", i);
        ops_case c = {json_string_value(json_object_get(json, "name")), json_string_value(json_object_get(json, "op")),
                      json, json_double(json_object_get(json, "rtol")), json_double(json_object_get(json, "atol"))};
        if (!c.name) c.name = number;
        if (!c.op)
            golden_failed(t, c.name, "it names no operation");
        else
            run_case(&c, tensors, t);
        bt_error_clear();
    }
    json_decref(cases);
    return usable;
}
