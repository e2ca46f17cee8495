/* Convolutions of float32 by oneDNN. Images, groups, or outputs (channels, where x is made) are cut into equal parts, as the sizes say. Each is one call of a primitive, on one
 * core; what several parts read in another layout is brought into it before. Primitives take images with their channels last, however they lie: so their bits do not depend on
 * that. Where oneDNN has none that is as fast, it chooses the layout. */
#include "drivers/cpu/conv/onednn_conv.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "drivers/cpu/copy.h"
#include "drivers/cpu/product/dnnl.h"
#include "reference/operand.h"

enum { IMAGES, GROUPS, OUTPUTS, CUTS }; /* what is cut; OUTPUTS: channels where x is made */
/* Multiplications worth a core; as many take as long as moving an element into another layout and back. */
enum {
    PART_WORK = 1 << 22,
    MOVE_WORK = 32,
    MOST_PARTS = 32,
    ENOUGH_PARTS = 8,
    LEAST_OUTPUTS = 32,
    VECTOR = 16,
    SUM_GRAIN = 4096
};

typedef struct parts {
    const bti_conv *c;
    const bti_dnnl_primitive *primitive;
    bool last;                           /* the primitive takes images with their channels last */
    int64_t count[CUTS], size[CUTS];     /* how many parts, and how much each has */
    int64_t step[BTI_CONV_ARRAYS][CUTS]; /* elements from one part to the next; 0: they share it */
    void *turned; /* an image of which all parts read all channels, with its channels last; NULL */
    char *sums;   /* a w for each part of the images; NULL: there is one part */
    char *shared
        [BTI_CONV_ARRAYS]; /* in the layout of the primitive, a part after the other; NULL: each part makes its own, or takes it as it lies */
    const bti_work_packed *packed;      /* room for w in the layout of the primitive, which may be there; NULL */
    bti_operand image[BTI_CONV_ARRAYS]; /* as parts read or write it: x and y */
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

/* Images are cut first. Parts of one image read it several times, so where images make enough parts they are left whole. */
static void cut(parts *p) {
    const bti_conv *c = p->c;
    int64_t all[CUTS] = {c->images, c->groups, c->made == BTI_CONV_X ? c->channels : c->outputs}, most = most_parts(c);
    for (int i = 0; i < CUTS; i++) p->count[i] = 1;
    if (c->made != BTI_CONV_W) p->count[IMAGES] = equal_parts(c->images, most, 1, 1);
    most = p->count[IMAGES] < ENOUGH_PARTS ? most / p->count[IMAGES] : 1;
    if (c->groups == 1)
        p->count[OUTPUTS] = equal_parts(all[OUTPUTS], most, VECTOR, LEAST_OUTPUTS);
    else if (c->outputs % VECTOR == 0 && c->channels % VECTOR == 0)
        p->count[GROUPS] = equal_parts(c->groups, most, 1, 1);
    else
        p->count[GROUPS] = equal_parts(c->groups, most, VECTOR, VECTOR);
    if (c->made == BTI_CONV_W) p->count[IMAGES] = parts_of_sum(c, most / p->count[OUTPUTS] / p->count[GROUPS]);
    for (int i = 0; i < CUTS; i++) p->size[i] = all[i] / p->count[i];
}

/* Elements from one channel to the next. */
static int64_t channel_step(const parts *p, bti_conv_array array) {
    const bti_operand *image = &p->image[array];
    return bti_conv_lies_last(image) ? 1 : bti_conv_count(image->shape + 2);
}

static void set_steps(parts *p) {
    const bti_conv *c = p->c;
    int64_t places_x = bti_conv_count(c->x), w = bti_conv_count(c->w), places_y = bti_conv_count(c->y);
    int64_t x = channel_step(p, BTI_CONV_X), y = channel_step(p, BTI_CONV_Y);
    bool of_channels = c->made == BTI_CONV_X;
    const int64_t *size = p->size;
    int64_t step[BTI_CONV_ARRAYS][CUTS] = {
        [BTI_CONV_X] = {size[IMAGES] * c->groups * c->channels * places_x, size[GROUPS] * c->channels * x,
                        of_channels ? size[OUTPUTS] * x : 0},
        [BTI_CONV_W] = {p->count[IMAGES] > 1 && c->made == BTI_CONV_W ? bti_operand_count(&c->array[BTI_CONV_W]) : 0,
                        size[GROUPS] * c->outputs * c->channels * w,
                        size[OUTPUTS] * (of_channels ? w : c->channels * w)},
        [BTI_CONV_Y] = {size[IMAGES] * c->groups * c->outputs * places_y, size[GROUPS] * c->outputs * y,
                        of_channels ? 0 : size[OUTPUTS] * y}};
    memcpy(p->step, step, sizeof step);
}

/* --- the primitive ---------------------------------------------------------------------------------------------------- */

static void add_axis(bti_dnnl_tensor *tensor, int64_t size, int64_t stride) {
    tensor->shape[tensor->rank] = size;
    tensor->stride[tensor->rank++] = stride;
}

static void add_places(bti_dnnl_tensor *tensor, const int64_t *places, int first, int64_t step) {
    for (int i = first; i < BTI_CONV_AXES; i++) {
        int64_t stride = step;
        for (int j = i + 1; j < BTI_CONV_AXES; j++) stride *= places[j];
        add_axis(tensor, places[i], stride);
    }
}

/* A part of x or y as the primitive takes it, else as it lies. */
static void add_image(const parts *p, bti_dnnl_tensor *tensor, bti_conv_array array, int64_t channels, int first) {
    const bti_operand *image = &p->image[array];
    const int64_t *places = image->shape + 2;
    bool last = p->last || bti_conv_lies_last(image);
    int64_t count = bti_conv_count(places), all = p->last ? channels : image->shape[1];
    add_axis(tensor, p->size[IMAGES], all * count);
    add_axis(tensor, channels, last ? 1 : count);
    add_places(tensor, places, first, last ? all : 1);
}

/* oneDNN has two axes of places, or three. */
static bti_dnnl_key key_of(const parts *p) {
    static const bti_dnnl_kind kinds[] = {
        [BTI_CONV_X] = BTI_DNNL_CONV_DATA, [BTI_CONV_W] = BTI_DNNL_CONV_WEIGHTS, [BTI_CONV_Y] = BTI_DNNL_CONV};
    const bti_conv *c = p->c;
    int64_t w = bti_conv_count(c->w), groups = p->size[GROUPS];
    int64_t channels = c->made == BTI_CONV_X ? p->size[OUTPUTS] : c->channels,
            outputs = c->made == BTI_CONV_X ? c->outputs : p->size[OUTPUTS];
    int first = c->x[0] == 1 && c->w[0] == 1 && c->y[0] == 1;
    bti_dnnl_key key = {
        .kind = kinds[c->made], .type = BTI_DNNL_F32, .chooses = p->last ? 1 << BTI_CONV_W : BTI_DNNL_ALL};
    add_image(p, &key.operand[BTI_CONV_X], BTI_CONV_X, groups * channels, first);
    if (groups > 1) add_axis(&key.operand[BTI_CONV_W], groups, c->outputs * c->channels * w);
    add_axis(&key.operand[BTI_CONV_W], outputs, c->channels * w);
    add_axis(&key.operand[BTI_CONV_W], channels, w);
    add_places(&key.operand[BTI_CONV_W], c->w, first, 1);
    add_image(p, &key.operand[BTI_CONV_Y], BTI_CONV_Y, groups * outputs, first);
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
    char *first = p->sums && array == (int)p->c->made ? p->sums : bti_address(&p->image[array]);
    return first + offset * (int64_t)sizeof(float);
}

/* How many channels a part has of an image. */
static int64_t channels_of(const parts *p, int array) {
    const bti_dnnl_tensor *tensor = &p->primitive->key.operand[array];
    return tensor->shape[1];
}

/* Whether parts have to bring an image into their order of elements: all channels of a part that lies so follow each other. */
static bool is_turned(const parts *p, int array) {
    const bti_operand *image = &p->image[array];
    if (!p->last || array == BTI_CONV_W) return false;
    return !bti_conv_lies_last(image) || channels_of(p, array) != image->shape[1];
}

static bool is_moved(const parts *p, int array) {
    return (p->primitive->reorder[array] && !p->shared[array]) || is_turned(p, array);
}

/* Some channels of some images from where they lie to where they are last, or back. Axes are those of what is written: images, then places or channels. */
static void turn(const bti_operand *image, int64_t images, int64_t channels, char *lies, char *room, bool back) {
    int64_t places = bti_conv_count(image->shape + 2), all = image->shape[1];
    bool last = bti_conv_lies_last(image);
    int of_channels = back && !last ? 1 : 2, of_places = 3 - of_channels;
    bti_operand there = {(uint64_t)(uintptr_t)lies, BT_F32, 3, {images}, {all * places}};
    there.shape[of_places] = places, there.shape[of_channels] = channels;
    bti_operand here = there;
    here.address = (uint64_t)(uintptr_t)room;
    there.stride[of_places] = last ? all : 1, there.stride[of_channels] = last ? 1 : places;
    here.stride[0] = channels * places, here.stride[of_places] = channels, here.stride[of_channels] = 1;
    bti_cpu_copy(back ? &there : &here, back ? &here : &there);
}

static int bring(const parts *p, int array, char *lies, char *room, bool back) {
    if (!is_turned(p, array)) return bti_dnnl_reorder(p->primitive, array, back ? room : lies, back ? lies : room);
    turn(&p->image[array], p->size[IMAGES], channels_of(p, array), lies, room, back);
    return 0;
}

/* room: for the operands in other layouts, then the primitive's scratch. */
static int run_part(const parts *p, int64_t part, char *room) {
    const bti_dnnl_primitive *primitive = p->primitive;
    void *operand[BTI_CONV_ARRAYS];
    int status = 0, made = (int)p->c->made;
    for (int i = 0; i < BTI_CONV_ARRAYS && !status; i++) {
        place at = place_of(p, i, part);
        char *lies = lies_at(p, i, at.offset);
        operand[i] = p->shared[i] ? p->shared[i] + (size_t)at.number * aligned(primitive->bytes[i]) : lies;
        if (!is_moved(p, i)) continue;
        operand[i] = room;
        if (i != made) status = bring(p, i, lies, room, false);
        room += aligned(primitive->bytes[i]);
    }
    if (!status) status = bti_dnnl_run(primitive, operand, room);
    if (!status && is_moved(p, made))
        status = bring(p, made, lies_at(p, made, place_of(p, made, part).offset), operand[made], true);
    return status;
}

static size_t room_of(const parts *p) {
    size_t bytes = aligned(p->primitive->scratch_bytes) + 64;
    for (int i = 0; i < BTI_CONV_ARRAYS; i++)
        if (is_moved(p, i)) bytes += aligned(p->primitive->bytes[i]);
    return bytes;
}

static char *pointer_to(uint64_t address) { return (char *)(uintptr_t)address; }

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

/* How many parts of the array there are. */
static int64_t own_parts(const parts *p, int array) {
    int64_t own = 1;
    for (int i = 0; i < CUTS; i++)
        if (p->step[array][i]) own *= p->count[i];
    return own;
}

/* w as it was left before, or is left now, in the layout of the primitive. While another launch is leaving it, this one does without. */
static void share_packed(parts *p) {
    uint64_t form = BTI_PACKED_REFUSED + 1 + bti_dnnl_uses(), none = 0;
    int64_t own = own_parts(p, BTI_CONV_W);
    size_t bytes = (size_t)own * aligned(p->primitive->bytes[BTI_CONV_W]);
    bool fits = p->primitive->reorder[BTI_CONV_W] && bytes <= p->packed->bytes;
    if (atomic_load(p->packed->form) == form) {
        p->shared[BTI_CONV_W] = pointer_to(p->packed->address);
        return;
    }
    if (!atomic_compare_exchange_strong(p->packed->form, &none, fits ? 1 : BTI_PACKED_REFUSED) || !fits) return;
    p->shared[BTI_CONV_W] = pointer_to(p->packed->address);
    p->shared_operand = BTI_CONV_W;
    bti_parallel(own, 1, share_parts, p);
    atomic_store(p->packed->form, atomic_load(&p->status) ? 0 : form);
}

/* What several parts read, and no other layout but the primitive's will do for. */
static bool share(parts *p, int64_t all) {
    if (p->packed && p->c->made != BTI_CONV_W) share_packed(p);
    for (int i = 0; i < BTI_CONV_ARRAYS; i++) {
        int64_t own = own_parts(p, i);
        if (i == (int)p->c->made || own == all || !p->primitive->reorder[i] || p->shared[i]) continue;
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

/* An image of which several parts read all channels is turned once for all. */
static bool share_image(parts *p) {
    int array = p->c->made == BTI_CONV_X ? BTI_CONV_Y : BTI_CONV_X;
    bti_operand *image = &p->image[array], turned = *image;
    if (!p->last || p->count[OUTPUTS] == 1 || bti_conv_lies_last(image)) return true;
    bti_conv_lay_last(&turned);
    p->turned = bti_alloc_aligned(64, (size_t)bti_operand_count(image) * sizeof(float));
    if (!p->turned) return false;
    turned.address = (uint64_t)(uintptr_t)p->turned;
    turn(image, image->shape[0], image->shape[1], bti_address(image), p->turned, false);
    *image = turned;
    return true;
}

static bt_status run(parts *p, bool *done) {
    int64_t all = p->count[IMAGES] * p->count[GROUPS] * p->count[OUTPUTS];
    bool room = share_image(p);
    set_steps(p);
    if (!room || !make_sums(p) || !share(p, all)) atomic_store(&p->status, BTI_DNNL_NO_MEMORY);
    if (!atomic_load(&p->status)) bti_parallel(all, 1, run_parts, p);
    if (!atomic_load(&p->status) && p->sums) bti_parallel(p->step[BTI_CONV_W][IMAGES], SUM_GRAIN, fold_sums, p);
    bti_free(p->sums);
    bti_free(p->turned);
    bool is_packed = p->packed && p->shared[BTI_CONV_W] == pointer_to(p->packed->address);
    for (int i = 0; i < BTI_CONV_ARRAYS; i++)
        if (i != BTI_CONV_W || !is_packed) bti_free(p->shared[i]);
    int status = atomic_load(&p->status);
    *done = !status;
    if (!status || status == ENDING) return BT_OK;
    if (status == BTI_DNNL_NO_MEMORY) return bti_no_memory();
    return bti_fail(BT_INTERNAL, "oneDNN fails in a convolution (its status is %d)", status);
}

bt_status bti_conv_by_onednn(const bti_conv *c, bool last, const bti_work_packed *packed, bool *done) {
    parts p = {.c = c, .last = last, .packed = packed};
    int status;
    *done = false;
    if (!bti_operand_count(&c->array[BTI_CONV_X]) || !bti_operand_count(&c->array[BTI_CONV_W]) ||
        !bti_operand_count(&c->array[BTI_CONV_Y]) || !bti_dnnl_has_primitives())
        return BT_OK;
    memcpy(p.image, c->array, sizeof p.image);
    cut(&p);
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
