#include "launch/gpu_attention.h"

#include "ir/dtype.h"
#include "reference/attention.h"

/* Numbers of addresses, as the text has them. */
enum { FIRST, SECOND, FROM_Q, FROM_K, FROM_V, LENGTHS, MASK, LSE, SLOPE, MEANS, ADDRESSES };

typedef struct attention_launch {
    bti_gpu_job *job;
    bti_attention a;
    int64_t side; /* of a tile */
    uint64_t address[ADDRESSES];
    const bti_operand *made[2]; /* NULL: not wanted */
} attention_launch;

/* What has no memory gets any address. */
static void set_address(attention_launch *s, int number, const bti_operand *x, uint64_t otherwise) {
    s->address[number] = x && bti_operand_count(x) ? x->address : otherwise;
}

static void add_strides(attention_launch *s, const bti_operand *x, int count) {
    for (int i = 0; i < count; i++) bti_words_add(&s->job->words, x && i < x->rank ? (uint64_t)x->stride[i] : 0);
}

static bt_status launch(attention_launch *s, bti_gpu_text_entry entry, int64_t units) {
    const bti_attention *a = &s->a;
    const bti_operand *in = a->in;
    union {
        float f32;
        double f64;
        uint64_t bits;
    } scale = {.bits = 0};
    if (!units) return BT_OK;
    if (in[0].dtype == BT_F64)
        scale.f64 = a->scale;
    else
        scale.f32 = (float)a->scale;
    bti_gpu_job_set_addresses(s->job, ADDRESSES, s->address);
    BTI_GPU_NUMBERS(s->job, units, a->heads, a->shared, a->rows, a->keys, a->depth, a->value_depth, (int64_t)scale.bits,
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
    return bti_gpu_job_launch(s->job, entry, units);
}

/* The results of one launch; NULL, or without elements: nobody reads it. */
static bool set_results(attention_launch *s, const bti_operand *first, const bti_operand *second) {
    s->made[0] = first && bti_operand_count(first) ? first : NULL;
    s->made[1] = second && bti_operand_count(second) ? second : NULL;
    const bti_operand *any = s->made[0] ? s->made[0] : s->made[1];
    if (!any) return false;
    set_address(s, FIRST, s->made[0], any->address);
    set_address(s, SECOND, s->made[1], any->address);
    for (int i = 0; i < 3; i++) set_address(s, FROM_Q + i, &s->a.in[i], any->address);
    set_address(s, LENGTHS, s->a.has_lengths ? &s->a.lengths : NULL, any->address);
    set_address(s, MASK, s->a.has_mask ? &s->a.mask : NULL, any->address);
    set_address(s, LSE, s->a.is_gradient ? &s->a.in[BTI_ATTENTION_LSE] : NULL, any->address);
    set_address(s, SLOPE, s->a.is_gradient ? &s->a.in[BTI_ATTENTION_SLOPE] : NULL, any->address);
    if (!s->a.is_gradient) s->address[MEANS] = any->address;
    return true;
}

static int64_t sides(const attention_launch *s, int64_t count) { return bti_pieces_of(count, s->side); }

static bt_status launch_forward(attention_launch *s) {
    static const bti_gpu_text_entry attend = {0, "bti_attend", 1};
    const bti_attention *a = &s->a;
    int64_t parts = a->value_depth > s->side ? sides(s, a->value_depth) : 1;
    if (!set_results(s, &a->made[0], &a->made[1])) return BT_OK;
    return launch(s, attend, a->batch * a->heads * sides(s, a->rows) * parts);
}

static bt_status launch_backward(attention_launch *s) {
    static const bti_gpu_text_entry means = {0, "bti_attend_means", BTI_GROUP}, queries = {1, "bti_attend_queries", 1},
                                    keys = {2, "bti_attend_keys", 1};
    const bti_attention *a = &s->a;
    const bti_operand *out = &a->in[BTI_ATTENTION_OUT];
    int64_t all = a->batch * a->heads * a->rows, widest = a->depth > a->value_depth ? a->depth : a->value_depth;
    int64_t of_keys = a->shared ? a->batch * a->heads / a->shared : 0;
    if (all)
        BTI_TRY(
            bti_gpu_scratch(s->job->gpu, BTI_GPU_KEYS, (size_t)all * bt_dtype_size(out->dtype), &s->address[MEANS]));
    if (set_results(s, out, NULL)) BTI_TRY(launch(s, means, all));
    if (set_results(s, &a->made[0], NULL))
        BTI_TRY(launch(s, queries, a->batch * a->heads * sides(s, a->rows) * sides(s, a->depth)));
    if (!all) s->address[MEANS] = a->made[1].address;
    if (set_results(s, &a->made[1], &a->made[2]))
        BTI_TRY(launch(s, keys, of_keys * sides(s, a->keys) * sides(s, widest)));
    return BT_OK;
}

bt_status bti_gpu_launch_attention(bti_gpu_job *j) {
    attention_launch s = {.job = j, .a = bti_attention_of(j->asked)};
    s.side = bti_attention_side(j->gpu->target, s.a.in[0].dtype);
    BTI_TRY(bti_gpu_work_module(j->gpu, j->work, &j->module));
    return s.a.is_gradient ? launch_backward(&s) : launch_forward(&s);
}
