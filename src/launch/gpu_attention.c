#include "launch/gpu_attention.h"

#include "base/compare.h"
#include "ir/dtype.h"
#include "launch/attention_tile.h"
#include "reference/attention.h"

/* Numbers of addresses, as the text has them. */
enum { FIRST, SECOND, FROM_Q, FROM_K, FROM_V, LENGTHS, MASK, LSE, SLOPE, MEANS, ADDRESSES };

/* Groups of many queries and of few that are enough for a large card: with less of them, keys are cut into parts of some tiles, of few queries into SMALL_PARTS whatever they have. Sizes
 * alone decide. */
enum { GROUPS_WANTED = 256, SMALL_GROUPS_WANTED = 2048, LEAST_TILES = 4, SMALL_PARTS = 16 };
enum { NOMINAL_ROWS = 128, LARGE_GROUPS = 132 }; /* with less groups of so many rows, they get less rows */
enum { WIDE_DEPTH = 64, FEW_ROWS = 64 }; /* more makes a tile wide; up to so many queries make it a middle one */
enum { MOST_PACKED = 64, MOST_PACKED_ROWS = 16 }; /* queries of heads that share keys, of one head */
enum { AS_THEY_LIE, FROM_LAST, PAIRED };          /* orders of blocks, as the text has them */

typedef struct attention_launch {
    bti_gpu_job *job;
    bti_attention a;
    uint64_t address[ADDRESSES];
    const bti_operand *made[2]; /* NULL: not wanted */
    int64_t parts, part_keys, part_step[2];
    int64_t wide; /* bits: by the number of the address */
} attention_launch;

/* --- words ----------------------------------------------------------------------------------------------------------- */

/* Whether rows are whole pieces of 16 bytes, which begin at multiples of them. */
static bool has_wide_rows(const bti_operand *x) {
    int64_t in_piece = 16 / (int64_t)bt_dtype_size(x->dtype);
    bool wide = x->rank == 4 && x->stride[3] == 1 && x->address % 16 == 0 && x->shape[3] % in_piece == 0;
    for (int i = 0; i < 3 && wide; i++) wide = x->shape[i] == 1 || x->stride[i] % in_piece == 0;
    return wide;
}

/* What has no memory gets any address. */
static void set_address(attention_launch *s, int number, const bti_operand *x, uint64_t otherwise) {
    bool given = x && bti_operand_count(x);
    s->address[number] = given ? x->address : otherwise;
    if (given && has_wide_rows(x)) s->wide |= INT64_C(1) << number;
}

static void add_strides(attention_launch *s, const bti_operand *x, int count) {
    for (int i = 0; i < count; i++) bti_words_add(&s->job->words, x && i < x->rank ? (uint64_t)x->stride[i] : 0);
}

static int64_t scale_bits(const attention_launch *s) {
    union {
        float f32;
        double f64;
        uint64_t bits;
    } scale = {.bits = 0};
    if (s->a.in[0].dtype == BT_F64)
        scale.f64 = s->a.scale;
    else
        scale.f32 = (float)s->a.scale;
    return (int64_t)scale.bits;
}

static void set_words(attention_launch *s, int64_t units, int64_t order) {
    const bti_attention *a = &s->a;
    const bti_operand *in = a->in;
    bti_gpu_job_set_addresses(s->job, ADDRESSES, s->address);
    BTI_GPU_NUMBERS(s->job, units, a->heads, a->shared, a->rows, a->keys, a->depth, a->value_depth, scale_bits(s),
                    a->reads,
                    !a->has_mask               ? 0
                    : a->mask.dtype == BT_BOOL ? 1
                                               : 2,
                    a->has_lengths, (s->made[0] ? 1 : 0) | (s->made[1] ? 2 : 0));
    for (int i = 0; i < 2; i++) add_strides(s, s->made[i], 4);
    for (int i = 0; i < 3; i++) add_strides(s, &in[i], 4);
    add_strides(s, &a->lengths, 1);
    add_strides(s, &a->mask, 4);
    add_strides(s, &in[BTI_ATTENTION_LSE], 3);
    add_strides(s, &in[BTI_ATTENTION_SLOPE], 4);
    BTI_GPU_NUMBERS(s->job, s->parts, s->part_keys, s->part_step[0], s->part_step[1], s->wide, order);
}

/* The results of one launch; NULL, or without elements: nobody reads it. */
static bool set_results(attention_launch *s, const bti_operand *first, const bti_operand *second) {
    s->made[0] = first && bti_operand_count(first) ? first : NULL;
    s->made[1] = second && bti_operand_count(second) ? second : NULL;
    const bti_operand *any = s->made[0] ? s->made[0] : s->made[1];
    const bti_operand *lse = &s->a.in[BTI_ATTENTION_LSE], *slope = &s->a.in[BTI_ATTENTION_SLOPE];
    if (!any) return false;
    s->wide = 0;
    set_address(s, FIRST, s->made[0], any->address);
    set_address(s, SECOND, s->made[1], any->address);
    for (int i = 0; i < 3; i++) set_address(s, FROM_Q + i, &s->a.in[i], any->address);
    set_address(s, LENGTHS, s->a.has_lengths ? &s->a.lengths : NULL, any->address);
    set_address(s, MASK, s->a.has_mask ? &s->a.mask : NULL, any->address);
    set_address(s, LSE, lse->rank ? lse : NULL, any->address);
    set_address(s, SLOPE, slope->rank ? slope : NULL, any->address);
    if (!s->a.is_gradient) s->address[MEANS] = any->address;
    return true;
}

/* --- launches -------------------------------------------------------------------------------------------------------- */

static const char *const entry_names[] = {[BTI_ATTEND] = "bti_attend",
                                          [BTI_ATTEND_PAIR] = "bti_attend",
                                          [BTI_ATTEND_FEW] = "bti_attend",
                                          [BTI_ATTEND_SEVERAL] = "bti_attend",
                                          [BTI_ATTEND_JOIN] = "bti_attend_join",
                                          [BTI_ATTEND_MEANS] = "bti_attend_means",
                                          [BTI_ATTEND_QUERIES] = "bti_attend_queries",
                                          [BTI_ATTEND_KEYS] = "bti_attend_keys"};

/* A text with its tile, loaded. */
typedef struct loaded_text {
    bti_attention_text text;
    bti_attention_tile tile;
    bti_gpu_module *module;
} loaded_text;

/* The best one that the device has room for. few_groups: for large tiles. */
static bti_attention_size size_for(const attention_launch *s, bti_attention_text text, bool few_groups) {
    const bti_gpu *gpu = s->job->gpu;
    bt_dtype dtype = s->a.in[0].dtype;
    int64_t depth = s->a.is_gradient ? bti_larger_of(s->a.depth, s->a.value_depth) : s->a.value_depth;
    if (gpu->target != BTI_CUDA_C) return BTI_TILE_SMALL;
    int size = depth > WIDE_DEPTH ? BTI_TILE_WIDE : few_groups ? BTI_TILE_MIDDLE : BTI_TILE_LARGE;
    while (size < BTI_TILE_SMALL && bti_attention_tile_of(text, size, dtype).local_bytes > gpu->local_bytes) size++;
    return size;
}

/* All texts of an operation are loaded before the first is launched. */
static bt_status load(const attention_launch *s, bti_attention_text text, bool few_groups, loaded_text *loaded) {
    bti_attention_size size = size_for(s, text, few_groups);
    *loaded = (loaded_text){.text = text, .tile = bti_attention_tile_of(text, size, s->a.in[0].dtype)};
    return bti_gpu_work_module(s->job->gpu, s->job->work, bti_attention_variant(text, size), &loaded->module);
}

static bt_status launch(attention_launch *s, const loaded_text *loaded, int64_t units, int64_t at_once, int64_t order) {
    bti_gpu_grid grid = {.name = entry_names[loaded->text],
                         .units = units,
                         .at_once = at_once,
                         .threads = loaded->tile.threads,
                         .local = loaded->tile.local_bytes > 0,
                         .local_bytes = loaded->tile.local_bytes};
    if (!units) return BT_OK;
    set_words(s, units, order);
    return bti_gpu_module_launch(s->job->gpu, loaded->module, &grid, &s->job->words);
}

/* Of causal queries, the long blocks come first; where all run at once, each multiprocessor has a long one and a short one. */
static int64_t order_of(const attention_launch *s, int64_t units) {
    if (s->a.reads == BTI_READS_ALL) return AS_THEY_LIE;
    return units <= 2 * s->job->gpu->units ? PAIRED : FROM_LAST;
}

/* --- forward --------------------------------------------------------------------------------------------------------- */

/* Queries of heads that share keys, where they are few, are the rows of one block. */
static bti_attention_text text_for(const bti_attention *a) {
    int64_t packed = a->rows * a->shared;
    if (a->rows > MOST_PACKED_ROWS || packed > MOST_PACKED) return BTI_ATTEND;
    return packed <= 2 ? BTI_ATTEND_PAIR : packed <= 4 ? BTI_ATTEND_FEW : BTI_ATTEND_SEVERAL;
}

static void cut_keys(attention_launch *s, const bti_attention_tile *tile, int64_t groups, bool many) {
    int64_t tiles = bti_larger_of(1, bti_pieces_of(s->a.keys, tile->columns)), most = tiles / LEAST_TILES;
    if (!many) most = bti_smaller_of(tiles, bti_larger_of(most, SMALL_PARTS));
    int64_t parts = bti_smaller_of((many ? GROUPS_WANTED : SMALL_GROUPS_WANTED) / bti_larger_of(1, groups), most);
    s->part_keys = bti_pieces_of(tiles, bti_larger_of(1, parts)) * tile->columns;
    s->parts = bti_larger_of(1, bti_pieces_of(s->a.keys, s->part_keys));
}

/* A dense array of the parts of a result, one behind the other. */
static bt_status room_for_parts(attention_launch *s, int number, int slot, bti_operand *room) {
    int64_t sizes[] = {s->a.batch, s->a.heads, s->a.rows, s->a.value_depth};
    *room = (bti_operand){.dtype = s->a.in[0].dtype, .rank = number ? 3 : 4};
    for (int i = 0; i < room->rank; i++) room->shape[i] = sizes[i];
    bti_operand_make_dense(room);
    s->part_step[number] = bti_operand_count(room);
    return bti_gpu_scratch(s->job->gpu, slot, (size_t)(s->parts * s->part_step[number]) * bt_dtype_size(room->dtype),
                           &room->address);
}

static int64_t forward_units(const attention_launch *s, const loaded_text *attend) {
    const bti_attention *a = &s->a;
    bool packed = attend->text != BTI_ATTEND;
    int64_t lines = packed ? a->rows * a->shared : a->rows, heads = packed ? a->heads / a->shared : a->heads;
    int64_t outs = bti_larger_of(1, bti_pieces_of(a->value_depth, attend->tile.width));
    return a->batch * heads * bti_pieces_of(lines, attend->tile.rows) * outs * s->parts;
}

static bt_status join_parts(attention_launch *s, const loaded_text *join, const bti_operand *out,
                            const bti_operand *lse) {
    const bti_attention *a = &s->a;
    s->a.in[BTI_ATTENTION_SLOPE] = *out;
    s->a.in[BTI_ATTENTION_LSE] = *lse;
    if (!set_results(s, &s->a.made[0], &s->a.made[1])) return BT_OK;
    return launch(s, join, a->batch * a->heads * a->rows * a->value_depth, BTI_GROUP, AS_THEY_LIE);
}

static bt_status launch_forward(attention_launch *s) {
    const bti_attention *a = &s->a;
    loaded_text attend, join;
    bti_operand out, lse;
    bti_attention_text text = text_for(a);
    bool many = text == BTI_ATTEND;
    if (!set_results(s, &a->made[0], &a->made[1])) return BT_OK;
    bti_attention_tile tile = bti_attention_tile_of(text, size_for(s, text, false), a->in[0].dtype);
    int64_t groups = many ? a->batch * a->heads * bti_pieces_of(a->rows, NOMINAL_ROWS)
                          : a->batch * (a->heads / a->shared) * bti_pieces_of(a->rows * a->shared, tile.rows);
    cut_keys(s, &tile, groups, many);
    BTI_TRY(load(s, text, a->rows <= FEW_ROWS || groups * s->parts < LARGE_GROUPS, &attend));
    int64_t units = forward_units(s, &attend);
    if (s->parts == 1 || !a->value_depth) return launch(s, &attend, units, 1, order_of(s, units));
    BTI_TRY(load(s, BTI_ATTEND_JOIN, false, &join));
    BTI_TRY(room_for_parts(s, 0, BTI_GPU_KEYS, &out));
    BTI_TRY(room_for_parts(s, 1, BTI_GPU_ORDERS, &lse));
    if (!set_results(s, &out, &lse)) return BT_OK;
    BTI_TRY(launch(s, &attend, units, 1, AS_THEY_LIE));
    return join_parts(s, &join, &out, &lse);
}

/* --- backward -------------------------------------------------------------------------------------------------------- */

static bt_status launch_backward(attention_launch *s) {
    const bti_attention *a = &s->a;
    const bti_operand *out = &a->in[BTI_ATTENTION_OUT];
    loaded_text means, queries, keys;
    int64_t all = a->batch * a->heads * a->rows, widest = bti_larger_of(a->depth, a->value_depth);
    int64_t heads = a->batch * a->heads, of_keys = a->shared ? heads / a->shared : 0;
    BTI_TRY(load(s, BTI_ATTEND_MEANS, false, &means));
    BTI_TRY(load(s, BTI_ATTEND_QUERIES, heads * bti_pieces_of(a->rows, NOMINAL_ROWS) < LARGE_GROUPS, &queries));
    BTI_TRY(load(s, BTI_ATTEND_KEYS, of_keys * bti_pieces_of(a->keys, NOMINAL_ROWS) < LARGE_GROUPS, &keys));
    if (all)
        BTI_TRY(
            bti_gpu_scratch(s->job->gpu, BTI_GPU_KEYS, (size_t)all * bt_dtype_size(out->dtype), &s->address[MEANS]));
    if (set_results(s, out, NULL)) BTI_TRY(launch(s, &means, all, BTI_GROUP / 16, AS_THEY_LIE));
    if (set_results(s, &a->made[0], NULL)) {
        int64_t units = heads * bti_pieces_of(a->rows, queries.tile.rows) * bti_pieces_of(a->depth, queries.tile.width);
        BTI_TRY(launch(s, &queries, units, 1, a->reads == BTI_READS_ALL ? AS_THEY_LIE : FROM_LAST));
    }
    if (!all) s->address[MEANS] = a->made[1].address;
    if (set_results(s, &a->made[1], &a->made[2])) {
        int64_t units = of_keys * bti_pieces_of(a->keys, keys.tile.rows) * bti_pieces_of(widest, keys.tile.width);
        BTI_TRY(launch(s, &keys, units, 1, AS_THEY_LIE));
    }
    return BT_OK;
}

bt_status bti_gpu_launch_attention(bti_gpu_job *j) {
    attention_launch s = {.job = j, .a = bti_attention_of(j->asked), .parts = 1, .part_keys = INT64_MAX / 2};
    return s.a.is_gradient ? launch_backward(&s) : launch_forward(&s);
}
