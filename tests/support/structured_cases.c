/* Reductions, movement, gathers and products, each against loops over indices. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/conformance.h"

/* want[i] = x[source(i)] for every index of want. */
typedef int64_t source_fn(const host *x, const int64_t *index, void *data);
static host gathered(const host *x, bt_shape shape, source_fn *source, void *data) {
    host want = host_new(x->dtype, shape);
    int64_t index[BT_MAX_RANK] = {0};
    if (want.count) do
            want.at[host_offset(shape, index)] = x->at[source(x, index, data)];
        while (host_next(shape, index));
    return want;
}

/* --- reductions ----------------------------------------------------------------------------------------------------------- */

typedef struct reduction {
    const char *name;
    double start;
    double (*fold)(double sum, double x);
} reduction;
static double plus(double a, double b) { return a + b; }
static double times(double a, double b) { return a * b; }
static const reduction reductions[] = {
    {"sum", 0, plus}, {"prod", 1, times}, {"max", -INFINITY, fmax}, {"min", INFINITY, fmin}};

static bt_array *reduce(const char *name, bt_array *x, bt_axes axes, bool keep) {
    if (!strcmp(name, "sum")) return bt_sum_as(x, axes, keep, bt_dtype_of(x));
    if (!strcmp(name, "prod")) return bt_prod_as(x, axes, keep, bt_dtype_of(x));
    return !strcmp(name, "max") ? bt_max(x, axes, keep) : bt_min(x, axes, keep);
}

static host reduced(const host *x, const reduction *r, unsigned mask, bool keep) {
    bt_shape shape = {0}, kept = x->shape;
    for (int i = 0; i < x->shape.rank; i++) {
        if (mask >> i & 1) kept.size[i] = 1;
        if (keep || !(mask >> i & 1)) shape.size[shape.rank++] = kept.size[i];
    }
    host want = host_new(x->dtype, shape);
    for (int64_t i = 0; i < want.count; i++) want.at[i] = r->start;
    int64_t index[BT_MAX_RANK] = {0}, folded[BT_MAX_RANK];
    if (x->count) do {
            for (int i = 0; i < kept.rank; i++) folded[i] = mask >> i & 1 ? 0 : index[i];
            double *to = &want.at[host_offset(kept, folded)];
            *to = r->fold(*to, x->at[host_offset(x->shape, index)]);
        } while (host_next(x->shape, index));
    return want;
}

static void run_reduce(const row *of) {
    static const bt_shape shapes[] = {
        {0}, {1, {7}}, {2, {3, 5}}, {3, {2, 3, 4}}, {2, {0, 3}}, {8, {2, 1, 2, 1, 2, 1, 2, 3}}};
    const reduction *r = reductions;
    unsigned seed = 7;
    while (strcmp(r->name, of->name)) r++;
    EACH_DTYPE(dtype, of)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (unsigned mask = 0; mask < 1u << shapes[s].rank; mask += shapes[s].rank == 8 ? 37 : 1) EACH_LAYOUT(lies) {
                if (s == 4 && mask & 1 && r->start != 0 && r->start != 1) continue; /* no elements: an error */
                if (!case_begin("%s/%s/%s %s over %u", of->name, bt_dtype_name(dtype), layout_names[lies],
                                shape_text(shapes[s]), mask))
                    continue;
                host x = host_draw(dtype, shapes[s], of->low, of->high, (layout)lies, &seed);
                bt_axes axes = mask ? BT_ALL : BT_AXES();
                for (int i = 0; i < shapes[s].rank; i++)
                    if (mask >> i & 1) axes.axis[axes.count++] = i % 2 ? i - shapes[s].rank : i;
                host want = reduced(&x, r, mask, mask & 1);
                BT_SCOPE
                    case_end(reduce(of->name, host_place(&x, (layout)lies), axes, mask & 1), &want, of->tolerance * 10);
            }
}

/* Where the greatest and the least is. */
static void run_index_of(const row *of) {
    bool most = !strcmp(of->name, "max");
    unsigned seed = 8;
    EACH_DTYPE(dtype, of)
    for (int axis = 0; axis < 3; axis++) EACH_LAYOUT(lies) {
            if (!case_begin("%s/%s/%s index along %d", of->name, bt_dtype_name(dtype), layout_names[lies], axis))
                continue;
            host x = host_draw(dtype, BT_SHAPE(3, 4, 5), of->low, of->high, (layout)lies, &seed);
            bt_shape shape = {2, {axis == 0 ? 4 : 3, axis == 2 ? 4 : 5}};
            host want = host_new(BT_I32, shape);
            int64_t index[BT_MAX_RANK] = {0};
            do {
                int64_t full[3], best = 0;
                for (int i = 0, k = 0; i < 3; i++) full[i] = i == axis ? 0 : index[k++];
                double value = x.at[host_offset(x.shape, full)];
                for (full[axis] = 1; full[axis] < x.shape.size[axis]; full[axis]++) {
                    double one = x.at[host_offset(x.shape, full)];
                    if (most ? one > value : one < value) value = one, best = full[axis];
                }
                want.at[host_offset(shape, index)] = (double)best;
            } while (host_next(shape, index));
            BT_SCOPE {
                bt_array *placed = host_place(&x, (layout)lies);
                case_end(most ? bt_argmax(placed, axis - 3) : bt_argmin(placed, axis), &want, 0);
            }
        }
}

static void run_extreme(const row *of) {
    run_reduce(of);
    run_index_of(of);
}

static bt_array *running(const char *name, bt_array *x, int axis, bool reverse) {
    if (!strcmp(name, "cumsum")) return bt_cumsum(x, axis, reverse);
    if (!strcmp(name, "cumprod")) return bt_cumprod(x, axis, reverse);
    return !strcmp(name, "cummax") ? bt_cummax(x, axis, reverse) : bt_cummin(x, axis, reverse);
}

static void run_running(const row *of) {
    static const char *const names[] = {"cumsum", "cumprod", "cummax", "cummin"};
    unsigned seed = 9;
    int fold = 0;
    while (strcmp(names[fold], of->name)) fold++;
    EACH_DTYPE(dtype, of)
    for (int axis = 0; axis < 4; axis++) EACH_LAYOUT(lies) {
            bool is_long = axis == 3, reverse = lies % 2;
            if (is_long && lies > FLIPPED) continue;
            if (!case_begin("%s/%s/%s along %d", of->name, bt_dtype_name(dtype), layout_names[lies], axis)) continue;
            host x = host_draw(dtype, is_long ? BT_SHAPE(2, 1, 1, 250) : BT_SHAPE(3, 1, 5), of->low, of->high,
                               (layout)lies, &seed),
                 want = x;
            int64_t index[BT_MAX_RANK] = {0}, n = x.shape.size[axis];
            do {
                int64_t before[BT_MAX_RANK];
                memcpy(before, index, sizeof before);
                double total = reductions[fold].start;
                for (before[axis] = reverse ? index[axis] : 0; before[axis] < (reverse ? n : index[axis] + 1);
                     before[axis]++)
                    total = reductions[fold].fold(total, x.at[host_offset(x.shape, before)]);
                want.at[host_offset(x.shape, index)] = total;
            } while (host_next(x.shape, index));
            BT_SCOPE
                case_end(running(of->name, host_place(&x, (layout)lies), axis, reverse), &want, 1e-5);
        }
}

/* --- movement ------------------------------------------------------------------------------------------------------------- */

static void run_reshape(const row *of) {
    static const bt_shape to[] = {
        {1, {24}}, {2, {4, 6}}, {3, {2, 1, 12}}, {8, {1, 2, 1, 3, 1, 2, 1, 2}}, {4, {3, 2, 2, 2}}};
    unsigned seed = 10;
    EACH_DTYPE(dtype, of)
    for (size_t s = 0; s < sizeof to / sizeof *to; s++) EACH_LAYOUT(lies) {
            if (!case_begin("reshape/%s/%s to %s", bt_dtype_name(dtype), layout_names[lies], shape_text(to[s])))
                continue;
            host x = host_draw(dtype, BT_SHAPE(2, 3, 4), of->low, of->high, (layout)lies, &seed), want = x;
            want.shape = to[s];
            BT_SCOPE
                case_end(bt_reshape_to(host_place(&x, (layout)lies), to[s]), &want, 0);
        }
    if (case_begin("reshape/float32 of nothing")) {
        host want = host_new(BT_F32, BT_SHAPE(5, 0));
        BT_SCOPE
            case_end(bt_reshape(bt_zeros(BT_F32, 0, 3), 5, 0), &want, 0);
    }
}

static int64_t permuted(const host *x, const int64_t *index, void *axes) {
    int64_t source[BT_MAX_RANK];
    for (int i = 0; i < x->shape.rank; i++) source[((int64_t *)axes)[i]] = index[i];
    return host_offset(x->shape, source);
}

static void run_permute(const row *of) {
    static const bt_axes orders[] = {
        {NULL, 3, {0, 1, 2}}, {NULL, 3, {2, 1, 0}}, {NULL, 3, {1, 2, 0}}, {NULL, 3, {0, 2, 1}}};
    unsigned seed = 11;
    EACH_DTYPE(dtype, of)
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) EACH_LAYOUT(lies) {
            if (!case_begin("permute/%s/%s order %zu", bt_dtype_name(dtype), layout_names[lies], o)) continue;
            host x = host_draw(dtype, BT_SHAPE(2, 3, 4), of->low, of->high, (layout)lies, &seed);
            bt_axes axes = orders[o];
            bt_shape shape =
                BT_SHAPE(x.shape.size[axes.axis[0]], x.shape.size[axes.axis[1]], x.shape.size[axes.axis[2]]);
            host want = gathered(&x, shape, permuted, axes.axis);
            BT_SCOPE
                case_end(bt_permute_axes(host_place(&x, (layout)lies), axes), &want, 0);
        }
}

static int64_t repeated(const host *x, const int64_t *index, void *skip) {
    int64_t source[BT_MAX_RANK];
    for (int i = 0; i < x->shape.rank; i++) source[i] = x->shape.size[i] == 1 ? 0 : index[i + *(int *)skip];
    return host_offset(x->shape, source);
}

static void run_expand(const row *of) {
    static const bt_shape pairs[][2] = {{{0}, {2, {2, 3}}},
                                        {{2, {1, 3}}, {2, {4, 3}}},
                                        {{1, {3}}, {3, {2, 1, 3}}},
                                        {{2, {2, 1}}, {2, {2, 0}}},
                                        {{3, {2, 1, 3}}, {8, {1, 1, 1, 2, 2, 2, 5, 3}}}};
    unsigned seed = 12;
    EACH_DTYPE(dtype, of)
    for (size_t s = 0; s < sizeof pairs / sizeof *pairs; s++) EACH_LAYOUT(lies) {
            const bt_shape *p = pairs[s];
            if (!case_begin("expand/%s/%s %s to %s", bt_dtype_name(dtype), layout_names[lies], shape_text(p[0]),
                            shape_text(p[1])))
                continue;
            host x = host_draw(dtype, p[0], of->low, of->high, (layout)lies, &seed);
            int skip = p[1].rank - p[0].rank;
            host want = gathered(&x, p[1], repeated, &skip);
            BT_SCOPE
                case_end(bt_broadcast_shape(host_place(&x, (layout)lies), p[1]), &want, 0);
        }
}

typedef struct cut {
    int64_t start[2], stop[2], step[2], first[2], count[2]; /* as Python says it; and what that is of (5, 7) */
} cut;
static int64_t sliced(const host *x, const int64_t *index, void *data) {
    const cut *c = data;
    return host_offset(x->shape, (int64_t[]){c->first[0] + index[0] * c->step[0], c->first[1] + index[1] * c->step[1]});
}

static void run_slice(const row *of) {
    static cut cuts[] = {
        {{0, 0}, {5, 7}, {1, 1}, {0, 0}, {5, 7}},           {{1, 2}, {4, 6}, {1, 1}, {1, 2}, {3, 4}},
        {{0, 1}, {5, 7}, {2, 3}, {0, 1}, {3, 2}},           {{-1, -2}, {-6, -8}, {-1, -2}, {4, 5}, {5, 3}},
        {{-3, 0}, {INT64_MAX, 99}, {1, 5}, {2, 0}, {3, 2}}, {{3, 0}, {3, 7}, {1, 1}, {3, 0}, {0, 7}},
    };
    unsigned seed = 13;
    EACH_DTYPE(dtype, of)
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) EACH_LAYOUT(lies) {
            if (!case_begin("slice/%s/%s number %zu", bt_dtype_name(dtype), layout_names[lies], c)) continue;
            host x = host_draw(dtype, BT_SHAPE(5, 7), of->low, of->high, (layout)lies, &seed);
            host want = gathered(&x, BT_SHAPE(cuts[c].count[0], cuts[c].count[1]), sliced, &cuts[c]);
            BT_SCOPE
                case_end(bt_slice(host_place(&x, (layout)lies), cuts[c].start, cuts[c].stop, cuts[c].step), &want, 0);
        }
}

/* --- gathers -------------------------------------------------------------------------------------------------------------- */

static void run_pad(const row *of) {
    unsigned seed = 14;
    EACH_DTYPE(dtype, of)
    for (int s = 0; s < 3; s++) EACH_LAYOUT(lies) {
            const int64_t low[] = {s, 2 - s}, high[] = {0, s};
            bt_shape shape = s == 2 ? BT_SHAPE(0, 3) : BT_SHAPE(2, 3);
            if (!case_begin("pad/%s/%s %s number %d", bt_dtype_name(dtype), layout_names[lies], shape_text(shape), s))
                continue;
            host x = host_draw(dtype, shape, of->low, of->high, (layout)lies, &seed);
            host want = host_new(dtype, BT_SHAPE(shape.size[0] + low[0] + high[0], shape.size[1] + low[1] + high[1]));
            for (int64_t i = 0; i < want.count; i++) want.at[i] = 1;
            for (int64_t i = 0; i < x.count; i++)
                want.at[(i / 3 + low[0]) * want.shape.size[1] + i % 3 + low[1]] = x.at[i];
            BT_SCOPE
                case_end(bt_pad(host_place(&x, (layout)lies), low, high, 1), &want, 0);
        }
}

static void run_concat(const row *of) {
    unsigned seed = 15;
    EACH_DTYPE(dtype, of)
    for (int axis = 0; axis < 2; axis++) EACH_LAYOUT(lies) {
            if (!case_begin("concat/%s/%s along %d", bt_dtype_name(dtype), layout_names[lies], axis)) continue;
            host parts[3], want = host_new(dtype, axis ? BT_SHAPE(3, 6) : BT_SHAPE(6, 3));
            int64_t at = 0;
            bt_array *placed[3];
            BT_SCOPE {
                for (int p = 0; p < 3; p++) { /* 2, 0 and 4 wide */
                    int64_t n = p == 0 ? 2 : p == 1 ? 0 : 4;
                    parts[p] = host_draw(dtype, axis ? BT_SHAPE(3, n) : BT_SHAPE(n, 3), of->low, of->high, (layout)lies,
                                         &seed);
                    for (int64_t i = 0; i < parts[p].count; i++)
                        want.at[axis ? i / n * 6 + at + i % n : at * 3 + i] = parts[p].at[i];
                    at += n;
                    placed[p] = host_place(&parts[p], (layout)lies);
                }
                case_end(bt_concat(placed, 3, axis - 2), &want, 0);
            }
        }
}

static const double rows_wanted[] = {2, 0, -1, 2, 9, -9}; /* of four rows: two are out of range */
static host row_numbers(bt_dtype dtype) {
    host i = host_new(dtype, BT_SHAPE(6));
    memcpy(i.at, rows_wanted, sizeof rows_wanted);
    return i;
}

static void run_take(const row *of) {
    unsigned seed = 16;
    for (bt_dtype dtype = BT_BOOL; dtype < COMPUTED_DTYPES; dtype++) EACH_LAYOUT(lies) {
            if (!case_begin("take/%s/%s", bt_dtype_name(dtype), layout_names[lies])) continue;
            host x = host_draw(dtype, BT_SHAPE(4, 3), of->low, of->high, (layout)lies, &seed),
                 i = row_numbers(lies % 2 ? BT_I32 : BT_I64);
            host want = host_new(dtype, BT_SHAPE(6, 3));
            for (int64_t k = 0; k < 18; k++) {
                int64_t from = (int64_t)rows_wanted[k / 3] + (rows_wanted[k / 3] < 0 ? 4 : 0);
                want.at[k] = from >= 0 && from < 4 ? x.at[from * 3 + k % 3] : dtype_is_float(dtype) ? NAN : 0;
            }
            BT_SCOPE
                case_end(bt_take(host_place(&x, (layout)lies), host_place(&i, FLIPPED), 0), &want, 0);
        }
}

static void run_scatter_add(const row *of) {
    unsigned seed = 17;
    for (bt_dtype dtype = BT_U8; dtype < COMPUTED_DTYPES; dtype++) EACH_LAYOUT(lies) {
            if (!case_begin("scatter_add/%s/%s", bt_dtype_name(dtype), layout_names[lies])) continue;
            host x = host_draw(dtype, BT_SHAPE(3, 4), of->low, of->high, (layout)lies, &seed), want = x,
                 i = row_numbers(BT_I32);
            host add = host_draw(dtype, BT_SHAPE(3, 6), of->low, of->high, (layout)lies, &seed);
            for (int64_t k = 0; k < 18; k++) {
                int64_t to = (int64_t)rows_wanted[k % 6] + (rows_wanted[k % 6] < 0 ? 4 : 0);
                if (to >= 0 && to < 4) want.at[k / 6 * 4 + to] += add.at[k];
            }
            BT_SCOPE
                case_end(bt_scatter_add(host_place(&x, (layout)lies), host_place(&i, DENSE),
                                        host_place(&add, (layout)lies), 1),
                         &want, 1e-6);
        }
}

/* Both ways: the part is cut out again. */
static void run_update_slice(const row *of) {
    unsigned seed = 19;
    static const double starts[] = {0, 2, -1, 9, -9};
    for (bt_dtype dtype = BT_BOOL; dtype < COMPUTED_DTYPES; dtype++) EACH_LAYOUT(lies)
    for (int s = 0; s < 5; s++) {
        if (!case_begin("update_slice/%s/%s from %g", bt_dtype_name(dtype), layout_names[lies], starts[s])) continue;
        host x = host_draw(dtype, BT_SHAPE(3, 5, 2), of->low, of->high, (layout)lies, &seed), want = x;
        host z = host_draw(dtype, BT_SHAPE(3, 2, 2), of->low, of->high, (layout)lies, &seed);
        host i = host_new(s % 2 ? BT_I32 : BT_I64, BT_SHAPE(1));
        int64_t from = (int64_t)starts[s] + (starts[s] < 0 ? 5 : 0);
        i.at[0] = starts[s];
        from = from < 0 ? 0 : from > 3 ? 3 : from;
        for (int64_t k = 0; k < 12; k++) want.at[k / 4 * 10 + from * 2 + k % 4] = z.at[k];
        BT_SCOPE {
            bt_array *start = host_place(&i, DENSE);
            bt_array *updated =
                bt_update_slice_axis(host_place(&x, (layout)lies), host_place(&z, (layout)lies), start, 1);
            bt_array *part = bt_dynamic_slice_axis(updated, start, 2, 1);
            case_end(bt_update_slice_axis(updated, part, start, 1), &want, 0);
        }
    }
}

/* The place of an element: how many come before, ties by index. NaN is the greatest. */
static int64_t place_in_order(const double *line, int64_t length, int64_t i, bool descending) {
    int64_t place = 0;
    double own = line[i];
    for (int64_t k = 0; k < length; k++) {
        double other = line[k];
        bool below = other < own || (own != own && other == other),
             equal = other == own || (own != own && other != other);
        place += equal ? k < i : below != descending;
    }
    return place;
}

static void run_order(const row *of) {
    unsigned seed = 18;
    bool top = !strcmp(of->name, "top_k");
    EACH_DTYPE(dtype, of)
    for (int lies = 0; lies <= LAYOUT_COUNT; lies++) /* the last one: long lines */
        for (int what = 0; what < 3; what++) {       /* values, indices, both in one plan */
            static const char *const results[] = {"values", "indices", "both"};
            const char *name = lies < LAYOUT_COUNT ? layout_names[lies] : "long";
            if (!case_begin("%s/%s/%s %s", of->name, bt_dtype_name(dtype), name, results[what])) continue;
            int64_t rows = lies < LAYOUT_COUNT ? 3 : 2, length = lies < LAYOUT_COUNT ? 9 : 250;
            int64_t kept = !top ? length : lies < LAYOUT_COUNT ? 4 : 90;
            layout how = lies < LAYOUT_COUNT ? (layout)lies : DENSE;
            host x = host_draw(dtype, BT_SHAPE(rows, length), of->low, of->high, how, &seed),
                 order = host_new(BT_I32, BT_SHAPE(rows, kept)), want = host_new(dtype, BT_SHAPE(rows, kept));
            if (dtype_is_float(dtype) && how == DENSE) x.at[2] = NAN, x.at[4] = -INFINITY, x.at[5] = NAN;
            for (int64_t r = 0; r < rows; r++)
                for (int64_t i = 0; i < length; i++) {
                    int64_t place = place_in_order(x.at + r * length, length, i, top);
                    if (place >= kept) continue;
                    order.at[r * kept + place] = (double)i;
                    want.at[r * kept + place] = x.at[r * length + i];
                }
            BT_SCOPE {
                bt_array *placed = host_place(&x, how);
                bt_array *values = top ? bt_top_k(placed, kept) : bt_sort(placed, -1);
                bt_array *indices = top ? bt_top_k_indices(placed, kept) : bt_argsort(placed, -1);
                if (what == 2) /* the values again, by their indices; both are read by the same plan */
                    case_end(bt_maximum(values, bt_take_along_axis(placed, indices, -1)), &want, 0);
                else
                    case_end(what ? indices : values, what ? &order : &want, 0);
            }
        }
}

static double last(double there, double z) { return (void)there, z; }
static const struct {
    const char *name;
    double (*combine)(double there, double z);
    bt_array *(*call)(bt_array *x, bt_array *indices, bt_array *updates, int axis);
} scatters[] = {{"scatter_axis", plus, (bt_scatter_add_along_axis)},
                {"scatter_set", last, (bt_scatter_set_along_axis)},
                {"scatter_max", fmax, (bt_scatter_max_along_axis)},
                {"scatter_min", fmin, (bt_scatter_min_along_axis)},
                {NULL, NULL, NULL}};

static void run_along_axis(const row *of) {
    int kind = 0;
    while (scatters[kind].name && strcmp(scatters[kind].name, of->name)) kind++;
    bool scatter = scatters[kind].name;
    unsigned seed = 19;
    for (bt_dtype dtype = BT_U8; dtype < COMPUTED_DTYPES; dtype++)
        for (int lies = 0; lies <= LAYOUT_COUNT; lies++) {
            const char *name = lies < LAYOUT_COUNT ? layout_names[lies] : "long";
            if (!case_begin("%s/%s/%s", of->name, bt_dtype_name(dtype), name)) continue;
            int64_t rows = lies < LAYOUT_COUNT ? 6 : 150;
            layout how = lies < LAYOUT_COUNT ? (layout)lies : DENSE;
            host x = host_draw(dtype, BT_SHAPE(4, 3), of->low, of->high, how, &seed);
            host i = host_draw(BT_I32, BT_SHAPE(rows, 3), -4, 3, how, &seed),
                 z = host_draw(dtype, BT_SHAPE(rows, 3), of->low, of->high, DENSE, &seed);
            host want = scatter ? x : host_new(dtype, BT_SHAPE(rows, 3));
            for (int64_t k = 0; k < rows * 3; k++) {
                int64_t at = ((int64_t)i.at[k] + 4) % 4 * 3 + k % 3;
                if (scatter)
                    want.at[at] = scatters[kind].combine(want.at[at], z.at[k]);
                else
                    want.at[k] = x.at[at];
            }
            BT_SCOPE {
                bt_array *placed = host_place(&x, how), *index = host_place(&i, how);
                case_end(scatter ? scatters[kind].call(placed, index, host_place(&z, DENSE), 0)
                                 : bt_take_along_axis(placed, index, 0),
                         &want, 1e-6);
            }
        }
}

/* --- products ------------------------------------------------------------------------------------------------------------- */

static void run_matmul(const row *of) {
    static const int64_t sizes[][3] = {{1, 1, 1}, {2, 3, 4}, {5, 1, 3}, {7, 8, 9}, {3, 0, 2}, {0, 3, 2}}; /* m, k, n */
    unsigned seed = 20;
    EACH_DTYPE(dtype, of)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int64_t batch = 0; batch < 3; batch++) /* without; one for all; of its own */
            EACH_LAYOUT(lies) {
                int64_t m = sizes[s][0], k = sizes[s][1], n = sizes[s][2], each = batch ? 2 : 1;
                if (!case_begin("matmul/%s/%s %lldx%lldx%lld batch %lld", bt_dtype_name(dtype), layout_names[lies],
                                (long long)m, (long long)k, (long long)n, (long long)batch))
                    continue;
                host a = host_draw(dtype, batch ? BT_SHAPE(2, m, k) : BT_SHAPE(m, k), of->low, of->high, (layout)lies,
                                   &seed);
                host b = host_draw(dtype, batch == 2 ? BT_SHAPE(2, k, n) : BT_SHAPE(k, n), of->low, of->high,
                                   (layout)lies, &seed);
                host want = host_new(dtype, batch ? BT_SHAPE(2, m, n) : BT_SHAPE(m, n));
                for (int64_t i = 0; i < each * m * n; i++) {
                    int64_t which = i / (m * n), r = i / n % m, c = i % n;
                    for (int64_t q = 0; q < k; q++)
                        want.at[i] += a.at[(which * m + r) * k + q] * b.at[((batch == 2 ? which * k : 0) + q) * n + c];
                }
                BT_SCOPE
                    case_end(bt_matmul(host_place(&a, (layout)lies),
                                       host_place(&b, (layout)((lies + 1) % LAYOUT_COUNT == EXPANDED ? DENSE : lies))),
                             &want, 1e-5);
            }
}

const cases structured_cases[] = {
    {"sum", run_reduce},
    {"prod", run_reduce},
    {"max", run_extreme},
    {"min", run_extreme},
    {"cumsum", run_running},
    {"cumprod", run_running},
    {"cummax", run_running},
    {"cummin", run_running},
    {"reshape", run_reshape},
    {"permute", run_permute},
    {"expand", run_expand},
    {"slice", run_slice},
    {"pad", run_pad},
    {"concat", run_concat},
    {"take", run_take},
    {"scatter_add", run_scatter_add},
    {"update_slice", run_update_slice},
    {"sort", run_order},
    {"top_k", run_order},
    {"gather_axis", run_along_axis},
    {"scatter_axis", run_along_axis},
    {"scatter_set", run_along_axis},
    {"scatter_max", run_along_axis},
    {"scatter_min", run_along_axis},
    {"matmul", run_matmul},
    {NULL, NULL},
};
