/* Convolutions as matrix products. What the kernel meets at each place of y is written as a column: elements of the kernel, over the channels of a group, by places of y,
 * some lines of places at a time. y is w times the columns; w is y times the columns turned; and what w, turned, makes of y are columns that are added to x. */
#include "drivers/cpu/conv/columns.h"

#include "base/alloc.h"
#include "base/cores.h"
#include "drivers/cpu/copy.h"
#include "drivers/cpu/product/product.h"
#include "reference/classes.h"
#include "reference/operand.h"

enum { COLUMN_BYTES = 4 << 20 }; /* about as many are held at a time */

typedef struct columns {
    const bti_conv *c;
    int64_t size, kernel, rows; /* bytes of an element; elements of the kernel; all of them, over channels */
    int64_t line, lines;        /* the lines of y's last axis that are held: from one on, and how many */
    char *x;                    /* of an image and group */
    char *at;                   /* [rows][lines * places in a line] */
} columns;

static int64_t places_held(const columns *s) { return s->lines * s->c->y[2]; }

/* The places of the last axis at which element k of the kernel meets x: from *low on, before *high. */
static void span(const bti_conv *c, int64_t k, int64_t *low, int64_t *high) {
    int64_t first = c->before[2] - k * c->dilation[2], end = c->x[2] + first, stride = c->stride[2];
    *low = first > 0 ? (first - 1) / stride + 1 : 0;
    *high = end > 0 ? (end - 1) / stride + 1 : 0;
    if (*high > c->y[2]) *high = c->y[2];
    if (*low > *high) *low = *high;
}

/* One row of columns and x, one line of places after the other: the row is filled, or added to x. */
static void visit_row(const columns *s, int64_t row, bool add) {
    const bti_conv *c = s->c;
    int64_t channel = row / s->kernel, k = row % s->kernel, width = c->y[2], low, high;
    int64_t of[BTI_CONV_AXES] = {k / (c->w[1] * c->w[2]), k / c->w[2] % c->w[1], k % c->w[2]};
    const char *plane = s->x + channel * bti_conv_count(c->x) * s->size;
    char *at = s->at + row * places_held(s) * s->size;
    span(c, of[2], &low, &high);
    int64_t first = low * c->stride[2] - c->before[2] + of[2] * c->dilation[2];
    for (int64_t l = s->line; l < s->line + s->lines; l++, at += width * s->size) {
        int64_t met[2] = {bti_conv_met(c, 0, l / c->y[1], of[0]), bti_conv_met(c, 1, l % c->y[1], of[1])};
        bool inside = met[0] >= 0 && met[1] >= 0 && low < high;
        char *x = (char *)(uintptr_t)plane + (inside ? ((met[0] * c->x[1] + met[1]) * c->x[2] + first) * s->size : 0);
        int64_t step = c->stride[2] * s->size;
        if (add) {
            if (inside) bti_add_line(c->array[BTI_CONV_X].dtype, x, step, at + low * s->size, s->size, high - low);
            continue;
        }
        memset(at, 0, (size_t)((inside ? low : width) * s->size));
        if (!inside) continue;
        bti_copy_line(at + low * s->size, s->size, x, step, high - low, (size_t)s->size);
        memset(at + high * s->size, 0, (size_t)((width - high) * s->size));
    }
}

static void fill_rows(void *context, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++) visit_row(context, row, false);
}

/* A place of x is reached from several elements of the kernel, so a channel is one core's. */
static void add_channels(void *context, int64_t begin, int64_t end) {
    const columns *s = context;
    for (int64_t row = begin * s->kernel; row < end * s->kernel; row++) visit_row(s, row, true);
}

static bti_operand matrix(bt_dtype dtype, const char *at, int64_t rows, int64_t across, int64_t down, int64_t along) {
    return (bti_operand){(uint64_t)(uintptr_t)at, dtype, 2, {rows, across}, {down, along}};
}

static bt_status multiply(bti_operand a, bti_operand b, bti_operand out) {
    bti_operand inputs[] = {a, b};
    return bti_product(&(bti_work){.op = BTI_OP_matmul, .input_count = 2, .inputs = inputs, .output = out});
}

static void add_to(bti_operand to, const char *from) {
    int64_t size = (int64_t)bt_dtype_size(to.dtype);
    bti_add_line(to.dtype, bti_address(&to), size, from, size, to.shape[0] * to.shape[1]);
}

/* Of some lines of an image and group. w and y: the group's, y from the first line on. sum: room for w, or NULL where nothing was added yet. */
static bt_status step(columns *s, const char *w, const char *y, char *sum) {
    const bti_conv *c = s->c;
    bt_dtype dtype = c->array[BTI_CONV_X].dtype;
    int64_t places = places_held(s), all = bti_conv_count(c->y), outputs = c->outputs;
    int64_t grain = bti_copy_grain(places * s->size), channels = bti_copy_grain(places * s->size * s->kernel);
    bti_operand of_w = matrix(dtype, w, outputs, s->rows, s->rows, 1), of_y = matrix(dtype, y, outputs, places, all, 1),
                of_columns = matrix(dtype, s->at, s->rows, places, places, 1);
    if (c->made == BTI_CONV_X) {
        BTI_TRY(multiply(matrix(dtype, w, s->rows, outputs, 1, s->rows), of_y, of_columns));
        bti_parallel(c->channels, channels, add_channels, s);
        return BT_OK;
    }
    bti_parallel(s->rows, grain, fill_rows, s);
    if (c->made == BTI_CONV_Y) return multiply(of_w, of_columns, of_y);
    bti_operand to = of_w;
    if (sum) to.address = (uint64_t)(uintptr_t)sum;
    BTI_TRY(multiply(of_y, matrix(dtype, s->at, places, s->rows, 1, places), to));
    if (sum) add_to(of_w, sum);
    return BT_OK;
}

static bt_status visit_group(columns *s, int64_t image, int64_t group, char *sum) {
    const bti_conv *c = s->c;
    int64_t places = bti_conv_count(c->y), in_image = image * c->groups + group, most = s->lines;
    s->x = bti_address(&c->array[BTI_CONV_X]) + in_image * c->channels * bti_conv_count(c->x) * s->size;
    const char *w = bti_address(&c->array[BTI_CONV_W]) + group * c->outputs * s->rows * s->size,
               *y = bti_address(&c->array[BTI_CONV_Y]) + in_image * c->outputs * places * s->size;
    bt_status status = BT_OK;
    for (s->line = 0; s->line < c->y[0] * c->y[1] && status == BT_OK; s->line += s->lines) {
        s->lines = c->y[0] * c->y[1] - s->line < most ? c->y[0] * c->y[1] - s->line : most;
        status = step(s, w, y + s->line * c->y[2] * s->size, image || s->line ? sum : NULL);
    }
    s->lines = most;
    return status;
}

bt_status bti_conv_by_columns(const bti_conv *c) {
    const bti_operand *made = &c->array[c->made];
    columns s = {.c = c, .size = (int64_t)bt_dtype_size(made->dtype), .kernel = bti_conv_count(c->w)};
    s.rows = c->channels * s.kernel;
    int64_t lines = c->y[0] * c->y[1], line_bytes = s.rows * c->y[2] * s.size;
    bool is_sum = c->made != BTI_CONV_Y, empty = !c->images || !lines || !line_bytes || !c->outputs;
    if (is_sum || empty) memset(bti_address(made), 0, (size_t)bti_operand_count(made) * bt_dtype_size(made->dtype));
    if (empty) return BT_OK;
    s.lines = line_bytes < COLUMN_BYTES ? COLUMN_BYTES / line_bytes : 1;
    if (s.lines > lines) s.lines = lines;
    int64_t sum_bytes = c->made == BTI_CONV_W ? c->outputs * s.rows * s.size : 0;
    s.at = bti_alloc_aligned(64, (size_t)(s.lines * line_bytes + sum_bytes));
    if (!s.at) return bti_no_memory();
    char *sum = s.at + s.lines * line_bytes;
    bt_status status = BT_OK;
    for (int64_t image = 0; image < c->images && status == BT_OK; image++)
        for (int64_t group = 0; group < c->groups && status == BT_OK; group++)
            status = visit_group(&s, image, group, sum);
    bti_free(s.at);
    return status;
}

/* --- kernels of one element ------------------------------------------------------------------------------------------- */

bt_status bti_conv_by_product(const bti_conv *c) {
    bti_operand operands[3];
    bti_conv_product_operands(c, operands);
    return multiply(operands[0], operands[1], operands[2]);
}
