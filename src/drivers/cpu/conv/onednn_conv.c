/* Convolutions of float32 by oneDNN. Images, groups, or outputs (channels, where x is made) are cut into equal parts, as the sizes say. Each is one call of a primitive, on one
 * core; what several parts read in another layout is brought into it before. */
#include "drivers/cpu/conv/onednn_conv.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "drivers/cpu/product/dnnl.h"
#include "reference/operand.h"

enum { IMAGES, GROUPS, OUTPUTS, CUTS }; /* what is cut; OUTPUTS: channels where x is made */
/* Multiplications worth a core; as many take as long as moving an element into another layout and back. */
enum { PART_WORK = 1 << 22, MOVE_WORK = 32, MOST_PARTS = 32, LEAST_OUTPUTS = 32, VECTOR = 16, SUM_GRAIN = 4096 };

typedef struct parts {
    const bti_conv *c;
    const bti_dnnl_primitive *primitive;
    int64_t count[CUTS], size[CUTS];     /* how many parts, and how much each has */
    int64_t step[BTI_CONV_ARRAYS][CUTS]; /* elements from one part to the next; 0: they share it */
    char *sums;                          /* a w for each part of the images; NULL: there is one part */
    char *shared
        [BTI_CONV_ARRAYS]; /* in the layout of the primitive, a part after the other; NULL: each part makes its own, or takes it as it lies */
    int64_t shared_operand;
    atomic_int status;
} parts;

/* --- cutting ---------------------------------------------------------------------------------------------------------- */

/* The greatest number of equal parts, at most `most`, that are each a multiple of `of` and at least `least`; 1 if there is none. */
static int64_t equal_parts(int64_t count, int64_t most, int64_t of, int64_t least) {
    for (int64_t n = most < count ? most : count; n > 1; n--)
        if (count % n == 0 && count / n % of == 0 && count / n >= least) return n;
    return 1;
}

/* As many parts as are worth a core each: by multiplications, and by elements that are moved. */
static int64_t most_parts(const bti_conv *c) {
    double each = (double)bti_conv_count(c->w) * (double)bti_conv_count(c->y), moved = 0;
    double work = (double)c->images * (double)c->groups * (double)c->outputs * (double)c->channels * each;
    for (int i = 0; i < BTI_CONV_ARRAYS; i++) moved += (double)bti_operand_count(&c->array[i]);
    double most = (work + MOVE_WORK * moved) / PART_WORK;
    return most < MOST_PARTS ? (int64_t)most : MOST_PARTS;
}

/* Images of one w are added up in their order, part by part, if that moves less than x and y are. */
static int64_t parts_of_sum(const bti_conv *c, int64_t most) {
    int64_t moved = bti_operand_count(&c->array[BTI_CONV_X]) + bti_operand_count(&c->array[BTI_CONV_Y]),
            count = equal_parts(c->images, most, 1, 1);
    return count * bti_operand_count(&c->array[BTI_CONV_W]) <= moved ? count : 1;
}

static void cut(parts *p) {
    const bti_conv *c = p->c;
    int64_t all[CUTS] = {c->images, c->groups, c->made == BTI_CONV_X ? c->channels : c->outputs}, most = most_parts(c);
    for (int i = 0; i < CUTS; i++) p->count[i] = 1;
    if (c->made != BTI_CONV_W) p->count[IMAGES] = equal_parts(c->images, most, 1, 1);
    most /= p->count[IMAGES];
    if (c->groups == 1)
        p->count[OUTPUTS] = equal_parts(all[OUTPUTS], most, VECTOR, LEAST_OUTPUTS);
    else if (c->outputs % VECTOR == 0 && c->channels % VECTOR == 0)
        p->count[GROUPS] = equal_parts(c->groups, most, 1, 1);
    else
        p->count[GROUPS] = equal_parts(c->groups, most, VECTOR, VECTOR);
    if (c->made == BTI_CONV_W) p->count[IMAGES] = parts_of_sum(c, most / p->count[OUTPUTS] / p->count[GROUPS]);
    for (int i = 0; i < CUTS; i++) p->size[i] = all[i] / p->count[i];
}

static void set_steps(parts *p) {
    const bti_conv *c = p->c;
    int64_t x = bti_conv_count(c->x), w = bti_conv_count(c->w), y = bti_conv_count(c->y);
    bool of_channels = c->made == BTI_CONV_X;
    const int64_t *size = p->size;
    int64_t step[BTI_CONV_ARRAYS][CUTS] = {
        [BTI_CONV_X] = {size[IMAGES] * c->groups * c->channels * x, size[GROUPS] * c->channels * x,
                        of_channels ? size[OUTPUTS] * x : 0},
        [BTI_CONV_W] = {p->count[IMAGES] > 1 && c->made == BTI_CONV_W ? bti_operand_count(&c->array[BTI_CONV_W]) : 0,
                        size[GROUPS] * c->outputs * c->channels * w,
                        size[OUTPUTS] * (of_channels ? w : c->channels * w)},
        [BTI_CONV_Y] = {size[IMAGES] * c->groups * c->outputs * y, size[GROUPS] * c->outputs * y,
                        of_channels ? 0 : size[OUTPUTS] * y}};
    memcpy(p->step, step, sizeof step);
}

/* --- the primitive ---------------------------------------------------------------------------------------------------- */

static void add_axis(bti_dnnl_tensor *tensor, int64_t size, int64_t stride) {
    tensor->shape[tensor->rank] = size;
    tensor->stride[tensor->rank++] = stride;
}

static void add_places(bti_dnnl_tensor *tensor, const int64_t *places, int first) {
    for (int i = first; i < BTI_CONV_AXES; i++) {
        int64_t stride = 1;
        for (int j = i + 1; j < BTI_CONV_AXES; j++) stride *= places[j];
        add_axis(tensor, places[i], stride);
    }
}

/* oneDNN has two axes of places, or three. */
static bti_dnnl_key key_of(const parts *p) {
    static const bti_dnnl_kind kinds[] = {
        [BTI_CONV_X] = BTI_DNNL_CONV_DATA, [BTI_CONV_W] = BTI_DNNL_CONV_WEIGHTS, [BTI_CONV_Y] = BTI_DNNL_CONV};
    const bti_conv *c = p->c;
    int64_t x = bti_conv_count(c->x), w = bti_conv_count(c->w), y = bti_conv_count(c->y), groups = p->size[GROUPS];
    int64_t channels = c->made == BTI_CONV_X ? p->size[OUTPUTS] : c->channels,
            outputs = c->made == BTI_CONV_X ? c->outputs : p->size[OUTPUTS];
    int first = c->x[0] == 1 && c->w[0] == 1 && c->y[0] == 1;
    bti_dnnl_key key = {.kind = kinds[c->made], .type = BTI_DNNL_F32, .takes_any = 1};
    add_axis(&key.operand[BTI_CONV_X], p->size[IMAGES], c->groups * c->channels * x);
    add_axis(&key.operand[BTI_CONV_X], groups * channels, x);
    if (groups > 1) add_axis(&key.operand[BTI_CONV_W], groups, c->outputs * c->channels * w);
    add_axis(&key.operand[BTI_CONV_W], outputs, c->channels * w);
    add_axis(&key.operand[BTI_CONV_W], channels, w);
    add_axis(&key.operand[BTI_CONV_Y], p->size[IMAGES], c->groups * c->outputs * y);
    add_axis(&key.operand[BTI_CONV_Y], groups * outputs, y);
    add_places(&key.operand[BTI_CONV_X], c->x, first);
    add_places(&key.operand[BTI_CONV_W], c->w, first);
    add_places(&key.operand[BTI_CONV_Y], c->y, first);
    for (int i = first; i < BTI_CONV_AXES; i++) {
        int64_t needed = (c->y[i] - 1) * c->stride[i] + (c->w[i] - 1) * c->dilation[i] + 1 - c->before[i];
        key.stride[i - first] = c->stride[i];
        key.dilation[i - first] = c->dilation[i];
        key.before[i - first] = c->before[i];
        key.after[i - first] = needed > c->x[i] ? needed - c->x[i] : 0;
    }
    return key;
}

/* --- running ---------------------------------------------------------------------------------------------------------- */

static size_t aligned(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

/* Of an array: which of its own parts a part of the work is about, and where that begins. */
typedef struct place {
    int64_t number, offset;
} place;

static place place_of(const parts *p, int array, int64_t part) {
    place at = {0, 0};
    int64_t digit[CUTS];
    for (int i = CUTS - 1; i >= 0; part /= p->count[i], i--) digit[i] = part % p->count[i];
    for (int i = 0; i < CUTS; i++) {
        if (!p->step[array][i]) continue;
        at.number = at.number * p->count[i] + digit[i];
        at.offset += digit[i] * p->step[array][i];
    }
    return at;
}

static char *lies_at(const parts *p, int array, int64_t offset) {
    char *first = p->sums && array == (int)p->c->made ? p->sums : bti_address(&p->c->array[array]);
    return first + offset * (int64_t)sizeof(float);
}

/* room: for the operands in other layouts, then the primitive's scratch. */
static int run_part(const parts *p, int64_t part, char *room) {
    const bti_dnnl_primitive *primitive = p->primitive;
    void *operand[BTI_CONV_ARRAYS];
    int status = 0, made = (int)p->c->made;
    for (int i = 0; i < BTI_CONV_ARRAYS && !status; i++) {
        place at = place_of(p, i, part);
        operand[i] = lies_at(p, i, at.offset);
        if (!primitive->reorder[i]) continue;
        void *lies = operand[i];
        operand[i] = p->shared[i] ? p->shared[i] + (size_t)at.number * aligned(primitive->bytes[i]) : room;
        if (p->shared[i]) continue;
        room += aligned(primitive->bytes[i]);
        if (i != made) status = bti_dnnl_reorder(primitive, i, lies, operand[i]);
    }
    if (!status) status = bti_dnnl_run(primitive, operand, room);
    if (!status && primitive->reorder[made])
        status = bti_dnnl_reorder(primitive, made, operand[made], lies_at(p, made, place_of(p, made, part).offset));
    return status;
}

static size_t room_of(const parts *p) {
    size_t bytes = aligned(p->primitive->scratch_bytes) + 64;
    for (int i = 0; i < BTI_CONV_ARRAYS; i++)
        if (p->primitive->reorder[i] && !p->shared[i]) bytes += aligned(p->primitive->bytes[i]);
    return bytes;
}

static bti_library_calls calls;
enum { ENDING = -1 }; /* beside oneDNN's statuses */

static void run_parts(void *context, int64_t begin, int64_t end) {
    parts *p = context;
    bti_guest guest;
    char *room = bti_alloc_aligned(64, room_of(p));
    int status = room ? 0 : BTI_DNNL_NO_MEMORY;
    if (room && bti_library_visit(&calls, &guest)) {
        for (int64_t i = begin; i < end && !status; i++) status = run_part(p, i, room);
        bti_library_part(&guest);
    } else if (room) {
        status = ENDING;
    }
    bti_free(room);
    if (status) atomic_store(&p->status, status);
}

/* Each part of p->shared_operand into the layout of the primitive. */
static void share_parts(void *context, int64_t begin, int64_t end) {
    parts *p = context;
    int array = (int)p->shared_operand;
    bti_guest guest;
    bool entered = bti_library_visit(&calls, &guest);
    int status = entered ? 0 : ENDING;
    for (int64_t n = begin; n < end && !status; n++) {
        int64_t rest = n, offset = 0;
        for (int i = CUTS - 1; i >= 0; i--) {
            if (!p->step[array][i]) continue;
            offset += rest % p->count[i] * p->step[array][i];
            rest /= p->count[i];
        }
        status = bti_dnnl_reorder(p->primitive, array, lies_at(p, array, offset),
                                  p->shared[array] + (size_t)n * aligned(p->primitive->bytes[array]));
    }
    if (entered) bti_library_part(&guest);
    if (status) atomic_store(&p->status, status);
}

/* What several parts read, and no other layout but the primitive's will do for. */
static bool share(parts *p, int64_t all) {
    for (int i = 0; i < BTI_CONV_ARRAYS; i++) {
        int64_t own = 1;
        for (int cut_axis = 0; cut_axis < CUTS; cut_axis++)
            if (p->step[i][cut_axis]) own *= p->count[cut_axis];
        if (i == (int)p->c->made || own == all || !p->primitive->reorder[i]) continue;
        p->shared[i] = bti_alloc_aligned(64, (size_t)own * aligned(p->primitive->bytes[i]));
        if (!p->shared[i]) return false;
        p->shared_operand = i;
        bti_parallel(own, 1, share_parts, p);
    }
    return true;
}

/* The parts of w, one after the other. */
static void fold_sums(void *context, int64_t begin, int64_t end) {
    const parts *p = context;
    const float *sums = (const float *)(const void *)p->sums;
    float *w = (float *)(void *)bti_address(&p->c->array[BTI_CONV_W]);
    int64_t count = bti_operand_count(&p->c->array[BTI_CONV_W]);
    for (int64_t i = begin; i < end; i++) {
        float sum = sums[i];
        for (int64_t part = 1; part < p->count[IMAGES]; part++) sum += sums[part * count + i];
        w[i] = sum;
    }
}

static bool make_sums(parts *p) {
    if (!p->step[BTI_CONV_W][IMAGES]) return true;
    size_t count = (size_t)(p->count[IMAGES] * p->step[BTI_CONV_W][IMAGES]);
    p->sums = bti_alloc_aligned(64, count * sizeof(float));
    return p->sums;
}

static bt_status run(parts *p, bool *done) {
    int64_t all = p->count[IMAGES] * p->count[GROUPS] * p->count[OUTPUTS];
    if (!make_sums(p) || !share(p, all)) atomic_store(&p->status, BTI_DNNL_NO_MEMORY);
    if (!atomic_load(&p->status)) bti_parallel(all, 1, run_parts, p);
    if (!atomic_load(&p->status) && p->sums) bti_parallel(p->step[BTI_CONV_W][IMAGES], SUM_GRAIN, fold_sums, p);
    bti_free(p->sums);
    for (int i = 0; i < BTI_CONV_ARRAYS; i++) bti_free(p->shared[i]);
    int status = atomic_load(&p->status);
    *done = !status;
    if (!status || status == ENDING) return BT_OK;
    if (status == BTI_DNNL_NO_MEMORY) return bti_no_memory();
    return bti_fail(BT_INTERNAL, "oneDNN fails in a convolution (its status is %d)", status);
}

bt_status bti_conv_by_onednn(const bti_conv *c, bool *done) {
    parts p = {.c = c};
    int status;
    *done = false;
    if (!bti_operand_count(&c->array[BTI_CONV_X]) || !bti_operand_count(&c->array[BTI_CONV_W]) ||
        !bti_operand_count(&c->array[BTI_CONV_Y]) || !bti_dnnl_has_primitives())
        return BT_OK;
    cut(&p);
    set_steps(&p);
    bti_dnnl_key key = key_of(&p);
    bti_guest guest;
    if (!bti_library_visit(&calls, &guest)) return BT_OK;
    bti_dnnl_primitive *primitive = bti_dnnl_acquire(&key, &status);
    bti_library_part(&guest);
    if (!primitive) return bti_no_memory();
    p.primitive = primitive;
    bt_status ended = primitive->refused ? BT_OK : run(&p, done);
    bti_dnnl_release(primitive);
    return ended;
}
