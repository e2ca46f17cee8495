/* Fourier transforms: operations that the host computes by FFTW, as operations of a program's are (ops/custom.h), each along one axis and without scale; and the
 * public operations, which are composed of them. */
#include <berth/fft.h>

#include <math.h>
#include <pthread.h>

#include "base/sized.h"
#include "drivers/cpu/fft/fftw.h"
#include "ops/application.h"
#include "ops/complex.h"
#include "ops/custom.h"

/* --- one axis ------------------------------------------------------------------------------------------------------- */

/* Attributes: a bti_fft_kind, the axis from the end (1: the last), the points of the line. Leading axes are a batch. */
enum { KIND, FROM_END, POINTS, ATTRIBUTES };

static bti_fft_lines lines_of(const bt_elements *in, const int64_t *attributes) {
    int rank = in->shape.rank, axis = rank - (int)attributes[FROM_END];
    bti_fft_lines lines = {(bti_fft_kind)attributes[KIND], bti_dtype_of_part(in->dtype), 1, attributes[POINTS], 1};
    for (int i = 0; i < axis; i++) lines.outer *= in->shape.size[i];
    for (int i = axis + 1; i < rank; i++) lines.inner *= in->shape.size[i];
    return lines;
}

static void tell_lines(const bt_elements *in, const bti_attr *attr, bti_fft_lines *lines) {
    *lines = lines_of(in, attr->custom.number);
}

static bt_status run_transform(const bt_elements *in, int count, const bt_elements *out, const bt_custom_args *args) {
    (void)count;
    const bti_fft_lines lines = lines_of(in, args->attributes);
    return bti_fft_run(&lines, in->data, out->data);
}

static bt_status shape_transform(const bt_elements *in, int count, bt_elements *out, const bt_custom_args *args) {
    (void)count;
    bti_fft_kind kind = (bti_fft_kind)args->attributes[KIND];
    int64_t points = args->attributes[POINTS], *size = &out->shape.size[in->shape.rank - args->attributes[FROM_END]];
    if (kind == BTI_FFT_HALF) *size = points / 2 + 1, out->dtype = bti_dtype_of_parts(in->dtype);
    if (kind == BTI_FFT_WHOLE) *size = points, out->dtype = bti_dtype_of_part(in->dtype);
    return BT_OK;
}

static bt_custom_gradient_fn gradient_transform;
static bt_custom_tangent_fn tangent_transform;
static bt_custom_batch_fn batch_transform;
static void keep_static(bti_host_function *function) { (void)function; /* it is static */ }
static bti_custom_operation transform = {
    .head = {.refs = 1, .free = keep_static, .name = "fft", .lines = tell_lines, .in_graphs = true},
    .given = {.name = "fft",
              .results = 1,
              .run = run_transform,
              .shape = shape_transform,
              .gradient = gradient_transform,
              .tangent = tangent_transform,
              .batch = batch_transform}};
static void fill_transform(void) { bti_custom_fill(&transform); }

/* A line of one point is what it was. */
static bt_array *point_alone(bti_fft_kind kind, bt_array *x) {
    if (kind == BTI_FFT_HALF) return bti_complex((bti_parts){x, NULL}, false);
    return kind == BTI_FFT_WHOLE ? bti_own_parts(x).re : x;
}

static bt_array *record_line(bti_fft_kind kind, bt_array *x, int64_t from_end, int64_t points) {
    static pthread_once_t filled = PTHREAD_ONCE_INIT;
    if (bti_array_error(x)) return x;
    if (points == 1) return point_alone(kind, x);
    bti_attr attr = {.custom = {ATTRIBUTES, {kind, from_end, points}}};
    bt_array *result;
    pthread_once(&filled, fill_transform);
    (void)!bti_record_custom(&transform, &x, 1, &attr, &result);
    return result;
}

/* --- rules ---------------------------------------------------------------------------------------------------------- */

/* A half line times `inside`, but for places that are their own conjugates: 0, and the last one of an even number of points. */
static bt_array *weighted_inside(bt_array *half, int64_t from_end, int64_t points, double inside) {
    if (bti_array_error(half)) return half;
    int rank = bti_rank(half), axis = rank - (int)from_end;
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < rank; i++) shape[i] = i == axis ? bti_shape(half)[i] : 1;
    bt_array *place = bti_reshape(bti_iota(points / 2 + 1, BT_I64), rank, shape);
    bt_array *twice = bti_binary(BTI_OP_mul, place, bti_scalar(2, BT_I64));
    bt_array *own = bti_binary(BTI_OP_or, bti_binary(BTI_OP_eq, place, bti_scalar(0, BT_I64)),
                               bti_binary(BTI_OP_eq, twice, bti_scalar_bits((uint64_t)points, BT_I64)));
    bt_dtype part = bti_dtype_of_part(bti_dtype(half));
    return bti_binary(BTI_OP_mul, half, bti_where(own, bti_scalar(1, part), bti_scalar(inside, part)));
}

/* Each is linear: its adjoint. A half line stands for a whole one, whose places inside of it it has once of twice. */
static void gradient_transform(bt_array *const *x, int count, bt_array *const *y, bt_array *const *g, bt_array **gx,
                               const bt_custom_args *args) {
    (void)x, (void)count, (void)y;
    int64_t from_end = args->attributes[FROM_END], points = args->attributes[POINTS];
    switch ((bti_fft_kind)args->attributes[KIND]) {
    case BTI_FFT_FORWARD: gx[0] = record_line(BTI_FFT_BACKWARD, g[0], from_end, points); break;
    case BTI_FFT_BACKWARD: gx[0] = record_line(BTI_FFT_FORWARD, g[0], from_end, points); break;
    case BTI_FFT_HALF:
        gx[0] = record_line(BTI_FFT_WHOLE, weighted_inside(g[0], from_end, points, 0.5), from_end, points);
        break;
    case BTI_FFT_WHOLE:
        gx[0] = weighted_inside(record_line(BTI_FFT_HALF, g[0], from_end, points), from_end, points, 2);
        break;
    }
}

static void tangent_transform(bt_array *const *x, int count, bt_array *const *y, bt_array *const *t, bt_array **made,
                              const bt_custom_args *args) {
    (void)x, (void)count, (void)y;
    made[0] =
        record_line((bti_fft_kind)args->attributes[KIND], t[0], args->attributes[FROM_END], args->attributes[POINTS]);
}

static void batch_transform(bt_array *const *inputs, const bool *batched, int count, bt_array **outputs,
                            const bt_custom_args *args) {
    (void)batched, (void)count;
    outputs[0] = record_line((bti_fft_kind)args->attributes[KIND], inputs[0], args->attributes[FROM_END],
                             args->attributes[POINTS]);
}

/* --- calls ---------------------------------------------------------------------------------------------------------- */

#define MEMBER(name) BTI_MEMBER(bt_fft_options, name)
static const bti_member fft_option_members[] = {MEMBER(size), MEMBER(by_name), MEMBER(sizes), MEMBER(axes),
                                                MEMBER(norm)};
#undef MEMBER
static const bti_sized_type fft_options_layout =
    BTI_SIZED_TYPE(bt_fft_options, "options", "BT_FFT(.sizes = {64})", fft_option_members, NULL);

/* What a public operation is asked. */
typedef struct call {
    bt_array *x;
    const char *name;
    int axes;     /* of the default: so many last ones; 0: all */
    bool inverse; /* of the whole transform */
    bool half;    /* the last axis is real on one side */
    int count, axis[BT_MAX_RANK];
    int64_t points[BT_MAX_RANK]; /* of the whole line */
    double scale;
} call;

static bool refuse_call(bt_array **poison, bt_array *made) { return *poison = made, false; }

static bool take_axes(call *c, const bt_axes *given, bt_array **poison) {
    int rank = bti_rank(c->x);
    uint32_t mask;
    if (given->count == 0) {
        c->count = c->axes ? c->axes : rank;
        if (rank < c->axes || rank == 0)
            return refuse_call(poison, bti_poisonf(BT_INVALID_ARGUMENT, "x has shape %s; it must have %d axes or more",
                                                   bti_shape_string(c->x).text, c->axes ? c->axes : 1));
        for (int i = 0; i < c->count; i++) c->axis[i] = rank - c->count + i;
        return true;
    }
    if (!bti_axes_mask(c->x, *given, &mask, poison)) return false;
    c->count = given->count == BTI_NO_AXES ? 0 : given->count;
    if (c->count == 0 || (c->axes && c->count != c->axes))
        return refuse_call(poison, bti_poisonf(BT_INVALID_ARGUMENT, "%d axes; it transforms %d%s", c->count,
                                               c->axes ? c->axes : 1, c->axes ? "" : " or more"));
    for (int i = 0; i < c->count; i++)
        if (!bti_axis(c->x, given->axis[i], &c->axis[i], poison)) return false;
    return true;
}

/* The points of each axis, and x cut or filled up to them. */
static bool take_fft_sizes(call *c, const int64_t *sizes, bt_array **poison) {
    double all = 1;
    for (int i = 0; i < BT_MAX_RANK; i++)
        if (sizes[i] < 0 || (i >= c->count && sizes[i]))
            return refuse_call(poison,
                               bti_poisonf(BT_INVALID_ARGUMENT,
                                           i < c->count ? "size %lld of axis number %d is negative"
                                                        : "a size %lld for axis number %d, which is not transformed",
                                           (long long)sizes[i], i));
    for (int i = 0; i < c->count; i++) {
        bool whole = c->half && c->inverse && i == c->count - 1;
        int64_t has = bti_shape(c->x)[c->axis[i]], low[BT_MAX_RANK] = {0}, high[BT_MAX_RANK] = {0};
        if (bti_size_is_symbolic(has))
            return refuse_call(
                poison,
                bti_poisonf(BT_UNIMPLEMENTED, "axis %d, which is transformed, has no known size here", c->axis[i]));
        int64_t points = sizes[i] ? sizes[i] : whole ? 2 * (has - 1) : has, wants = whole ? points / 2 + 1 : points;
        if (points < 1)
            return refuse_call(poison,
                               bti_poisonf(BT_INVALID_ARGUMENT, "%lld points along axis %d; there must be one or more",
                                           (long long)points, c->axis[i]));
        c->points[i] = points;
        all *= (double)points;
        if (wants < has) c->x = bti_slice_part(c->x, c->axis[i], 0, 1, wants);
        if (bti_array_error(c->x)) return refuse_call(poison, c->x);
        high[c->axis[i]] = wants - has;
        if (wants > has) c->x = bti_pad(c->x, low, high, bti_scalar(0, bti_dtype(c->x)));
        if (bti_array_error(c->x)) return refuse_call(poison, c->x);
    }
    c->scale = all;
    return true;
}

static double scale_of(const call *c, bt_fft_norm norm) {
    if (norm == BT_FFT_ORTHO) return 1 / sqrt(c->scale);
    return (norm == BT_FFT_BACKWARD) == c->inverse ? 1 / c->scale : 1;
}

/* x as the dtype that is transformed. */
static bool take_dtype(call *c, bt_array **poison) {
    bool real = c->half && !c->inverse;
    bt_dtype dtype = bti_dtype(c->x);
    if (bti_is_complex(c->x) && real)
        return refuse_call(poison,
                           bti_poisonf(BT_INVALID_ARGUMENT, "x is %s; half a transform is one of real numbers: bt_fft",
                                       bt_dtype_name(dtype)));
    if (!bti_is_complex(c->x)) {
        c->x = bti_widen(bti_float(c->x));
        if (!real && !bti_array_error(c->x)) c->x = bti_cast(c->x, bti_dtype_of_parts(bti_dtype(c->x)));
    }
    return !bti_array_error(c->x) || refuse_call(poison, c->x);
}

static bt_array *transformed(const call *c) {
    int rank = bti_rank(c->x), last = c->count - 1;
    bti_fft_kind whole = c->inverse ? BTI_FFT_BACKWARD : BTI_FFT_FORWARD;
    bt_array *x = c->x;
    if (c->half && !c->inverse) x = record_line(BTI_FFT_HALF, x, rank - c->axis[last], c->points[last]);
    for (int i = last - (int)c->half; i >= 0; i--) x = record_line(whole, x, rank - c->axis[i], c->points[i]);
    if (c->half && c->inverse) x = record_line(BTI_FFT_WHOLE, x, rank - c->axis[last], c->points[last]);
    return x;
}

static bt_array *transform_of(call c, const bt_fft_options *given) {
    bt_fft_options options = {0};
    bt_array *poison;
    if (given && bti_options_take(&fft_options_layout, c.name, given, &options) != BT_OK)
        return bti_poison(bti_error_last());
    if ((unsigned)options.norm > BT_FFT_FORWARD)
        return bti_poisonf(BT_INVALID_ARGUMENT, "norm %d; there are BT_FFT_BACKWARD, BT_FFT_ORTHO and BT_FFT_FORWARD",
                           (int)options.norm);
    if (!take_axes(&c, &options.axes, &poison) || !take_dtype(&c, &poison) ||
        !take_fft_sizes(&c, options.sizes, &poison))
        return poison;
    double scale = scale_of(&c, options.norm);
    bt_array *y = transformed(&c);
    if (scale == 1 || bti_array_error(y)) return y;
    return bti_binary(BTI_OP_mul, y, bti_scalar(scale, bti_dtype_of_part(bti_dtype(y))));
}

#define TRANSFORM(title, axis_count, is_inverse, is_half)                                                     \
    bt_array *bt_##title(bt_array *x, const bt_fft_options *options) {                                        \
        BTI_PUBLIC("bt_" #title);                                                                             \
        BTI_NEED(x);                                                                                          \
        BTI_RETURN(transform_of(                                                                              \
            (call){.x = x, .name = "bt_" #title, .axes = axis_count, .inverse = is_inverse, .half = is_half}, \
            options));                                                                                        \
    }

TRANSFORM(fft, 1, false, false)
TRANSFORM(ifft, 1, true, false)
TRANSFORM(rfft, 1, false, true)
TRANSFORM(irfft, 1, true, true)
TRANSFORM(fft2, 2, false, false)
TRANSFORM(ifft2, 2, true, false)
TRANSFORM(rfft2, 2, false, true)
TRANSFORM(irfft2, 2, true, true)
TRANSFORM(fftn, 0, false, false)
TRANSFORM(ifftn, 0, true, false)
TRANSFORM(rfftn, 0, false, true)
TRANSFORM(irfftn, 0, true, true)

/* --- frequencies ---------------------------------------------------------------------------------------------------- */

static bt_array *frequencies(int64_t n, double spacing, bt_dtype dtype, bool half) {
    bt_array *poison = bti_check_shape(dtype, BT_SHAPE(n), false);
    if (poison) return poison;
    if (!bti_dtype_is_float(dtype) || n < 1 || bti_size_is_symbolic(n) || spacing == 0 || !isfinite(spacing))
        return bti_poisonf(
            BT_INVALID_ARGUMENT,
            "n is %lld, the spacing %g, the dtype %s; n must be 1 or more, the spacing not 0, the dtype one of floats",
            (long long)n, spacing, bt_dtype_name(dtype));
    bt_array *place = bti_iota(half ? n / 2 + 1 : n, BT_I64);
    if (!half) {
        bt_array *above = bti_binary(BTI_OP_lt, place, bti_scalar_bits((uint64_t)((n + 1) / 2), BT_I64));
        place = bti_where(above, place, bti_binary(BTI_OP_sub, place, bti_scalar_bits((uint64_t)n, BT_I64)));
    }
    bt_array *by = bti_scalar((double)n * spacing, BT_F64);
    return bti_cast(bti_binary(BTI_OP_div, bti_cast(place, BT_F64), by), dtype);
}

bt_array *bt_fftfreq(int64_t n, double spacing, bt_dtype dtype) {
    BTI_PUBLIC("bt_fftfreq");
    BTI_RETURN(frequencies(n, spacing, dtype, false));
}

bt_array *bt_rfftfreq(int64_t n, double spacing, bt_dtype dtype) {
    BTI_PUBLIC("bt_rfftfreq");
    BTI_RETURN(frequencies(n, spacing, dtype, true));
}

static bt_array *shifted(bt_array *x, bt_axes axes, bool back) {
    uint32_t mask;
    bt_array *poison;
    if (!bti_axes_mask(x, axes, &mask, &poison)) return poison;
    for (int axis = 0; axis < bti_rank(x); axis++) {
        if (!(mask >> axis & 1)) continue;
        int64_t size = bti_shape(x)[axis];
        if (bti_size_is_symbolic(size)) return bti_poisonf(BT_UNIMPLEMENTED, "axis %d has no known size here", axis);
        x = bt_roll(x, back ? -(size / 2) : size / 2, axis);
        if (bti_array_error(x)) return x;
    }
    return x;
}

bt_array *bt_fftshift(bt_array *x, bt_axes axes) {
    BTI_PUBLIC("bt_fftshift");
    BTI_NEED(x);
    BTI_RETURN(shifted(x, axes, false));
}

bt_array *bt_ifftshift(bt_array *x, bt_axes axes) {
    BTI_PUBLIC("bt_ifftshift");
    BTI_NEED(x);
    BTI_RETURN(shifted(x, axes, true));
}
