#include "random_programs/chance.h"
#include "random_programs/program.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --- values ---------------------------------------------------------------------------------------------------------- */

typedef struct value {
    bt_array *array;
    bool exact; /* small whole numbers made by operations that do not round: they may be compared, floored, sorted */
} value;

typedef struct program {
    chance c;
    int now;
    value values[MOST_INSTRUCTIONS];
    FILE *print;
    const char *perturb;
    leaves *leaves; /* of a pure program; NULL: it is none */
} program;

static bool is_float(bt_dtype dtype) { return dtype >= BT_F16; }
static bool is_float_value(const value *v) { return is_float(bt_dtype_of(v->array)); }

static int random_shape(chance *c, int64_t *shape) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 33};
    int rank = below(c, 10) ? below(c, 4) : below(c, 6);
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        shape[i] = below(c, 40) ? sizes[below(c, 11)] : 0;
        if (count * shape[i] > 4000) shape[i] = 1;
        count *= shape[i];
    }
    if (rank && below(c, 25) == 0 && count * 40 < 100000) shape[rank - 1] *= 40; /* longer lines now and then */
    return rank;
}

static bt_dtype random_dtype(chance *c) {
    static const bt_dtype often[] = {BT_F32, BT_F32, BT_F32, BT_F64, BT_I32};
    return below(c, 3) ? often[below(c, 5)] : (bt_dtype)below(c, BT_F8E4M3);
}

/* Small whole numbers, or halves and thirds of such, as that dtype. */
static bt_array *random_leaf(chance *c, bt_dtype dtype, bt_shape shape, bool whole) {
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++) count *= shape.size[i];
    double *data = malloc((size_t)(count + 1) * sizeof *data);
    for (int64_t i = 0; i < count; i++) {
        double x = below(c, 9) - 4;
        if (dtype < BT_I8) x = fabs(x);
        data[i] = whole || !is_float(dtype) ? x : x / 3 + below(c, 7) / 7.0;
    }
    bt_array *wide = bt_from(data, BT_F64, shape);
    free(data);
    return bt_cast(wide, dtype);
}

/* An earlier value: the one at a random place, or the nearest before it that is there; NULL when there is none. */
static value *pick(program *p) {
    if (!p->now) return NULL;
    int first = p->now - 1 - below(&p->c, p->now < 8 || below(&p->c, 4) == 0 ? p->now : 8);
    for (int i = 0; i < p->now; i++) {
        value *v = &p->values[(first - i + p->now) % p->now];
        if (v->array) return v;
    }
    return NULL;
}
static int number_of(const program *p, const value *v) { return (int)(v - p->values); }

__attribute__((format(printf, 2, 3))) static void say(program *p, const char *format, ...) {
    if (!p->print) return;
    va_list args;
    va_start(args, format);
    fprintf(p->print, "    bt_array *v%d = ", p->now);
    vfprintf(p->print, format, args);
    fprintf(p->print, ";");
    va_end(args);
}

/* --- instructions: each gives a value, or none --------------------------------------------------------------------------- */

/* Of leaves that are alike, whole ones or not, the first may stand for all. */
static int first_alike(const leaves *given, const bt_array *leaf, bool whole) {
    for (int i = 0; i < given->count; i++) {
        const bt_array *other = given->leaf[i];
        bool alike =
            given->whole[i] == whole && bt_dtype_of(other) == bt_dtype_of(leaf) && bt_rank(other) == bt_rank(leaf);
        for (int k = 0; alike && k < bt_rank(leaf); k++) alike = bt_size(other, k) == bt_size(leaf, k);
        if (alike) return i;
    }
    return given->count;
}

/* What the program computes with: the leaf, an input in its place, or an earlier one. */
static bt_array *give_leaf(leaves *given, bt_array *leaf, bool whole) {
    int i = given->count, alike = first_alike(given, leaf, whole);
    if (given->stand_in) leaf = given->stand_in[i];
    given->leaf[i] = leaf;
    given->whole[i] = whole;
    given->alike[i] = alike;
    given->count++;
    if (given->how == LEAVES_ARE_SHARED) return given->leaf[alike];
    if (given->how == LEAVES_AS_THEY_ARE) return given->change ? given->change(leaf, i) : leaf;
    bt_shape shape = {.rank = bt_rank(leaf)};
    for (int k = 0; k < shape.rank; k++) shape.size[k] = bt_size(leaf, k);
    return given->input[i] = bt_input_shape(bt_dtype_of(leaf), shape);
}

static value make_leaf(program *p) {
    int64_t size[BT_MAX_RANK];
    int rank = random_shape(&p->c, size);
    bt_dtype dtype = random_dtype(&p->c);
    bool whole = below(&p->c, 2) || !is_float(dtype);
    bt_shape shape = {.rank = rank};
    memcpy(shape.size, size, sizeof size);
    say(p, "leaf of %s, %s numbers", bt_dtype_name(dtype), whole ? "whole" : "broken");
    bt_array *leaf = random_leaf(&p->c, dtype, shape, whole);
    return (value){p->leaves ? give_leaf(p->leaves, leaf, whole) : leaf, whole};
}

static value make_random(program *p) {
    int64_t size[BT_MAX_RANK];
    bt_shape shape = {.rank = random_shape(&p->c, size)};
    memcpy(shape.size, size, sizeof size);
    bt_array *key = bt_key(below(&p->c, 1000));
    switch (below(&p->c, 4)) {
    case 0: say(p, "bt_normal(key, BT_F32)"); return (value){bt_normal_shape(key, BT_F32, shape), false};
    case 1: say(p, "bt_randint(key, -3, 5)"); return (value){bt_randint_shape(key, -3, 5, BT_I32, shape), true};
    case 2: say(p, "bt_arange(0, 24, 1)"); return (value){bt_arange(0, 24, 1, random_dtype(&p->c)), true};
    default: say(p, "bt_uniform(key)"); return (value){bt_uniform_shape(key, 0, 1, BT_F32, shape), false};
    }
}

typedef struct unary {
    const char *name;
    bt_array *(*of)(bt_array *x);
    bool exact; /* keeps small whole numbers what they are */
    bool jumps; /* may only be asked of exact ones */
} unary;

static bt_array *tame_exp(bt_array *x) { return bt_exp(bt_neg(bt_abs(x))); }
static bt_array *tame_log(bt_array *x) { return bt_log(bt_add(bt_abs(x), bt_num(0.5))); }
/* Away from where a root is steep: noise must stay noise. */
static bt_array *tame_sqrt(bt_array *x) { return bt_sqrt(bt_add(bt_abs(x), bt_num(0.25))); }
static bt_array *half_power(bt_array *x) { return bt_pow(bt_add(bt_abs(x), bt_num(0.25)), bt_num(0.5)); }
static bt_array *second_power(bt_array *x) { return bt_pow(bt_sin(x), bt_num(2)); }
static bt_array *third_power(bt_array *x) { return bt_pow(bt_tanh(x), bt_num(3)); }
static bt_array *not_a_number(bt_array *x) { return bt_where(bt_isnan(x), bt_num(7), x); }

static const unary unaries[] = {
    {"bt_neg", (bt_neg), true, false},
    {"bt_abs", (bt_abs), true, false},
    {"bt_relu", (bt_relu), true, false},
    {"bt_sign", (bt_sign), true, true},
    {"bt_floor", (bt_floor), true, true},
    {"bt_tanh", (bt_tanh), false, false},
    {"bt_sigmoid", (bt_sigmoid), false, false},
    {"bt_sin", (bt_sin), false, false},
    {"exp(-|x|)", tame_exp, false, false},
    {"log(|x| + 0.5)", tame_log, false, false},
    {"sqrt(|x| + 1/4)", tame_sqrt, false, false},
    {"(|x| + 1/4)**0.5", half_power, false, false},
    {"sin(x)**2", second_power, false, false},
    {"tanh(x)**3", third_power, false, false},
    {"isnan(x) ? 7 : x", not_a_number, true, false},
    {"bt_gelu", (bt_gelu), false, false},
    {"bt_erf", (bt_erf), false, false},
    {"bt_identity", (bt_identity), true, false},
};

static value make_unary(program *p) {
    value *x = pick(p);
    if (!x) return (value){0};
    const unary *u = &unaries[below(&p->c, (int)(sizeof unaries / sizeof *unaries))];
    if (u->jumps && !x->exact) return (value){0};
    if (bt_dtype_of(x->array) == BT_BOOL && u->exact) return (value){0};
    say(p, "%s of v%d", u->name, number_of(p, x));
    return (value){u->of(x->array), u->exact && x->exact};
}

typedef struct binary {
    const char *name;
    bt_array *(*of)(bt_array *x, bt_array *y);
    bool exact, jumps;
} binary;

static bt_array *tame_mul(bt_array *x, bt_array *y) { return bt_mul(bt_tanh(x), y); }
static bt_array *tame_div(bt_array *x, bt_array *y) { return bt_div(x, bt_add(bt_abs(y), bt_num(1))); }
static bt_array *smaller(bt_array *x, bt_array *y) { return bt_where(bt_lt(x, y), x, y); }

static const binary binaries[] = {
    {"bt_add", (bt_add), true, false},
    {"bt_sub", (bt_sub), true, false},
    {"tanh(x) * y", tame_mul, false, false},
    {"x / (|y| + 1)", tame_div, false, false},
    {"bt_maximum", (bt_maximum), true, false},
    {"bt_minimum", (bt_minimum), true, false},
    {"x < y ? x : y", smaller, true, true},
    {"bt_lt", (bt_lt), true, true},
    {"bt_eq", (bt_eq), true, true},
    {"bt_atan2", (bt_atan2), false, true},
};

static value make_binary(program *p) {
    value *x = pick(p), *y = pick(p);
    if (!x) return (value){0};
    const binary *b = &binaries[below(&p->c, (int)(sizeof binaries / sizeof *binaries))];
    bool exact = x->exact && y->exact;
    if (b->jumps && !exact) return (value){0};
    int64_t shape[BT_MAX_RANK];
    int rank = bt_rank(x->array);
    for (int i = 0; i < rank; i++) shape[i] = bt_size(x->array, i);
    bool fits = rank == bt_rank(y->array);
    for (int i = 0; i < rank && fits; i++) fits = bt_size(y->array, i) == shape[i];
    if (!fits && below(&p->c, 3) == 0) { /* refused in every mode, or broadcast */
        say(p, "%s of v%d, v%d as they are", b->name, number_of(p, x), number_of(p, y));
        return (value){b->of(x->array, y->array), b->exact && exact};
    }
    bt_array *other = fits ? y->array : bt_sum(y->array, BT_ALL, false); /* else a scalar of it */
    if (!fits && !is_float_value(y)) other = bt_max(bt_cast(bt_reshape(y->array, -1), BT_I32), BT_ALL, false);
    if (!fits && is_float_value(y)) other = bt_tanh(other), exact = false;
    if (!fits && (b->jumps || (!is_float_value(y) && bt_count(y->array) == 0))) return (value){0};
    say(p, "%s of v%d, %sv%d", b->name, number_of(p, x), fits ? "" : "a scalar of ", number_of(p, y));
    return (value){b->of(x->array, other), b->exact && exact};
}

static value make_reduction(program *p) {
    value *x = pick(p);
    if (!x || bt_rank(x->array) == 0) return (value){0};
    int rank = bt_rank(x->array), kind = below(&p->c, 7), count = 0;
    bt_axes axes = {0};
    for (int i = 0; i < rank; i++)
        if (below(&p->c, 2)) axes.axis[count++] = i;
    axes.count = count;
    if (!count) axes = BT_ALL;
    bool keep = below(&p->c, 2), whole = x->exact;
    bt_array *a = bt_dtype_of(x->array) == BT_BOOL ? bt_cast(x->array, BT_I32) : x->array;
    say(p, "reduction %d of v%d over %d axes", kind, number_of(p, x), count);
    switch (kind) {
    case 0: return (value){bt_mean(a, axes, keep), false};
    case 1: return (value){bt_max(a, axes, keep), whole};
    case 2: return (value){bt_min(a, axes, keep), whole};
    case 3: return (value){bt_prod(bt_cos(a), axes, keep), false};
    case 4: return (value){bt_tanh(bt_var(a, axes, keep, 0)), false};
    case 5: return (value){bt_logsumexp(a, axes, keep), false};
    default: return (value){bt_div(bt_sum(a, axes, keep), bt_num(8)), false};
    }
}

static value make_row(program *p) {
    value *x = pick(p);
    if (!x || bt_rank(x->array) == 0) return (value){0};
    int axis = below(&p->c, bt_rank(x->array)), kind = below(&p->c, 5);
    say(p, "row operation %d of v%d along axis %d", kind, number_of(p, x), axis);
    switch (kind) {
    case 0: return (value){bt_softmax(x->array, axis), false};
    case 1: return (value){bt_log_softmax(x->array, axis), false};
    case 2: return (value){bt_layer_norm(x->array, NULL, NULL, 1e-3), false};
    case 3:
        if (x->exact) return (value){bt_argmax(x->array, axis), true};
        return (value){bt_div(bt_cumsum(bt_cast(x->array, BT_F32), axis, below(&p->c, 2)), bt_num(8)), false};
    default:
        if (x->exact) return (value){bt_sort(x->array, axis), true};
        return (value){bt_std(x->array, BT_AXES(axis), true, 0), false};
    }
}

static value make_view(program *p) {
    value *x = pick(p);
    if (!x) return (value){0};
    bt_array *a = x->array;
    int rank = bt_rank(a), kind = below(&p->c, 8), axis = rank ? below(&p->c, rank) : 0;
    if (!rank && kind != 0 && kind != 4) return (value){0};
    say(p, "view %d of v%d, axis %d", kind, number_of(p, x), axis);
    switch (kind) {
    case 0: return (value){bt_reshape(a, -1), x->exact};
    case 1: {
        bt_axes order = {.count = rank};
        for (int i = 0; i < rank; i++) order.axis[i] = (i + axis) % rank;
        return (value){bt_permute_axes(a, order), x->exact};
    }
    case 2: return (value){bt_flip(a, BT_AXES(axis)), x->exact};
    case 3: return (value){bt_slice_axis(a, axis, below(&p->c, 2), bt_size(a, axis), 1 + below(&p->c, 3)), x->exact};
    case 4: return (value){bt_expand_dims(a, axis), x->exact};
    case 5: return (value){bt_concat(((bt_array *[]){a, a}), 2, axis), x->exact};
    case 6: {
        int64_t low[BT_MAX_RANK] = {0}, high[BT_MAX_RANK] = {0};
        low[axis] = below(&p->c, 3), high[axis] = below(&p->c, 3);
        return (value){bt_pad(a, low, high, 1), x->exact};
    }
    default: {
        if (bt_size(a, axis) == 0) return (value){0};
        int32_t last = (int32_t)bt_size(a, axis) - 1, index[3] = {0, -1, last};
        return (value){bt_take(a, bt_from(index, BT_I32, BT_SHAPE(3)), axis), x->exact};
    }
    }
}

static value make_product(program *p) {
    value *x = pick(p);
    if (!x || bt_rank(x->array) < 2) return (value){0};
    bt_array *a = is_float_value(x) ? bt_tanh(x->array) : bt_tanh(bt_cast(x->array, BT_F32));
    say(p, "tanh(v%d) times its transpose", number_of(p, x));
    int64_t depth = bt_size(a, bt_rank(a) - 1);
    return (value){bt_div(bt_matmul_t(a, a, false, true), bt_num(depth ? (double)depth : 1)), false};
}

static value make_cast(program *p) {
    value *x = pick(p);
    if (!x) return (value){0};
    bt_dtype to = random_dtype(&p->c);
    bool narrow = !is_float(to) && !x->exact;
    if (narrow) return (value){0};
    say(p, "bt_cast(v%d, %s)", number_of(p, x), bt_dtype_name(to));
    return (value){bt_cast(x->array, to), x->exact && to != BT_BOOL && (is_float(to) || to >= BT_I8)};
}

bool moves_to_tpus;

static value make_move(program *p) {
    static const char *const gpus[] = {"gpu:0", "gpu:1", "gpu:2", "cpu"}, *const tpus[] = {"tpu:0", "tpu:1", "tpu:2",
                                                                                           "cpu"};
    value *x = pick(p);
    if (!x) return (value){0};
    int drawn = below(&p->c, 4);
    if (drawn < 3 && drawn >= bt_device_count(moves_to_tpus ? BT_TPU : BT_GPU)) drawn = 0; /* where there are fewer */
    const char *device = (moves_to_tpus ? tpus : gpus)[drawn];
    say(p, "bt_to(v%d, \"%s\")", number_of(p, x), device);
    return (value){bt_to(x->array, device), x->exact};
}

static value make_read(program *p) {
    value *x = pick(p);
    if (!x) return (value){0};
    if (p->print) fprintf(p->print, "    bt_eval(v%d);", number_of(p, x));
    if (below(&p->c, 2))
        (void)!bt_eval(x->array);
    else
        (void)!bt_block(x->array);
    return (value){0};
}

static value make_release(program *p) {
    value *x = pick(p);
    if (!x || p->now < 4) return (value){0};
    if (p->print) fprintf(p->print, "    v%d is let go of", number_of(p, x));
    x->array = NULL; /* the scope has it still; no later instruction reads it, nor is it compared */
    return (value){0};
}

static value make_shared(program *p) {
    value *x = pick(p);
    if (!x) return (value){0};
    bt_array *a = bt_cast(x->array, BT_F32);
    say(p, "a variable of v%d, set to tanh(itself) + 1, twice", number_of(p, x));
    bt_shared *w = bt_shared_new(a, NULL);
    if (!w) return (value){0};
    for (int i = 0; i < 2; i++) (void)!bt_set(w, bt_add(bt_tanh(bt_value(w)), bt_num(1)));
    return (value){bt_value(w), false};
}

/* f(x, y) = sum over the last axis of softmax(x * w) + y, of unknown sizes, called with two sizes and the first again. */
static value make_function(program *p) {
    value *x = pick(p);
    if (!x || bt_rank(x->array) != 2 || !bt_size(x->array, 0) || !bt_size(x->array, 1)) return (value){0};
    bt_array *a = bt_tanh(bt_cast(x->array, BT_F32));
    say(p, "a function of v%d, of its part, and of it again", number_of(p, x));
    bt_shared *w = bt_shared_new(bt_f32(0.5f), NULL);
    bt_array *input = bt_input(BT_F32, -1, -1);
    bt_array *soft = bt_softmax(bt_mul(input, bt_value(w)), -1);
    bt_array *output = bt_sum(bt_add(soft, bt_sin(input)), BT_AXES(-1), false);
    bt_update update = {w, bt_add(bt_value(w), bt_num(0.25))};
    bt_function *f = bt_function_new(&input, 1, &output, 1, &update, 1);
    if (!f) return (value){0};
    bt_array *part = bt_slice_axis(a, 0, 0, (bt_size(a, 0) + 1) / 2, 1);
    bt_array *first = bt_call1(f, &a, 1), *second = bt_call1(f, &part, 1), *third = bt_call1(f, &a, 1);
    return (value){bt_concat(((bt_array *[]){first, second, third}), 3, 0), false};
}

static value make_gradient(program *p) {
    value *x = pick(p);
    if (!x) return (value){0};
    bt_array *a = bt_stop_gradient(bt_cast(x->array, BT_F32)), *leaf = bt_identity(a), *y = bt_tanh(leaf);
    int kind = below(&p->c, 4);
    say(p, "gradient %d of v%d", kind, number_of(p, x));
    if (kind == 1 && bt_rank(a)) y = bt_softmax(leaf, -1);
    if (kind == 2 && bt_rank(a)) y = bt_layer_norm(leaf, NULL, NULL, 1e-2);
    if (kind == 3 && bt_rank(a) >= 2) y = bt_matmul_t(y, y, false, true);
    bt_array *loss = bt_mean(bt_square(bt_add(y, bt_num(0.5))), BT_ALL, false);
    return (value){bt_grad1(loss, leaf), false};
}

static value (*const makers[])(program *p) = {
    make_leaf,   make_leaf,      make_random,    make_unary,  make_unary,    make_unary,   make_binary,  make_binary,
    make_binary, make_reduction, make_reduction, make_row,    make_view,     make_view,    make_product, make_cast,
    make_move,   make_read,      make_release,   make_shared, make_function, make_gradient};

/* --- running --------------------------------------------------------------------------------------------------------- */

static void keep_outcome(const value *v, outcome *out) {
    bt_array *x = v->array;
    *out = (outcome){.exact = v->exact, .status = bt_peek_status(x)};
    if (out->status != BT_OK) return;
    out->dtype = bt_dtype_of(x);
    out->rank = bt_rank(x);
    for (int i = 0; i < out->rank; i++) out->shape[i] = bt_size(x, i);
    out->bytes = (size_t)bt_count(x) * bt_dtype_size(out->dtype);
    out->data = malloc(out->bytes + 1);
    out->status = bt_read(x, out->data, out->bytes);
}

enum { KINDS = sizeof makers / sizeof *makers };

static bool is_pure(int kind) {
    return makers[kind] != make_read && makers[kind] != make_release && makers[kind] != make_shared &&
           makers[kind] != make_function;
}

/* The instructions; how many there are. */
static int record(program *p, uint64_t seed, const bool *skip) {
    chance length = {seed};
    int count = 1 + below(&length, MOST_INSTRUCTIONS);
    for (p->now = 0; p->now < count; p->now++) {
        p->c = (chance){seed * 1000003 + (uint64_t)p->now * 7919};
        int kind = p->now < 2 ? 0 : below(&p->c, KINDS);
        if ((skip && skip[p->now]) || (p->leaves && !is_pure(kind))) continue;
        value v = makers[kind](p);
        if (v.array && p->perturb && makers[kind] == make_reduction) v.array = bt_add(v.array, bt_num(1));
        if (v.array && bt_peek_status(v.array) == BT_OK && bt_count(v.array) > 20000) v.array = NULL;
        if (p->print && v.array)
            fprintf(p->print, "  // %s, rank %d", bt_dtype_name(bt_dtype_of(v.array)), bt_rank(v.array));
        if (p->print) fprintf(p->print, "\n");
        p->values[p->now] = v;
    }
    return count;
}

void run_program(uint64_t seed, const bool *skip, FILE *print, const char *perturb, outcomes *out) {
    program p = {.print = print, .perturb = perturb};
    out->count = 0;
    BT_SCOPE {
        int count = record(&p, seed, skip);
        for (int i = 0; i < count; i++)
            if (p.values[i].array) keep_outcome(&p.values[i], &out->of[out->count++]);
    }
    bt_error_clear();
}

int record_pure(uint64_t seed, leaves *given, bt_array **results, bool *exact) {
    program p = {.leaves = given};
    int count = record(&p, seed, NULL), kept = 0;
    for (int i = 0; i < count; i++) {
        if (!p.values[i].array || bt_peek_status(p.values[i].array) != BT_OK) continue;
        exact[kept] = p.values[i].exact;
        results[kept++] = p.values[i].array;
    }
    bt_error_clear();
    return kept;
}

void keep_results(bt_array *const *results, const bool *exact, int count, outcomes *out) {
    out->count = count;
    for (int i = 0; i < count; i++) keep_outcome(&(value){results[i], exact[i]}, &out->of[i]);
}

void free_outcomes(outcomes *out) {
    for (int i = 0; i < out->count; i++) free(out->of[i].data);
    out->count = 0;
}
