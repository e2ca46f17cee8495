/* Numbers that the text of a segment leaves open: its last argument has their bits. */
#include "ir/dtype.h"
#include "render/stablehlo/segment_writer.h"

bti_hlo_value bti_hlo_give(bti_hlo_segment *s, bt_dtype dtype, uint64_t bits) {
    static const bt_dtype words[] = {[1] = BT_U8, [2] = BT_U16, [4] = BT_U32, [8] = BT_U64};
    bti_hlo *w = &s->w;
    bti_type one = {.dtype = BT_U64, .rank = 1, .shape = {1}};
    const int64_t at = (int64_t)s->numbers->count, end = at + 1, step = 1;
    if (!bti_vec_push(s->numbers, bits)) w->status = bti_no_memory();
    bti_hlo_value word = bti_hlo_reshape(w, bti_hlo_slice(w, s->given, one, &at, &end, &step), 0, NULL);
    word = bti_hlo_convert(w, word, words[bt_dtype_size(dtype)]);
    return word.type.dtype == dtype ? word : bti_hlo_line(w, "bitcast_convert", bti_hlo_scalar(dtype), 1, &word);
}

bti_hlo_value bti_hlo_size(bti_hlo_segment *s, const bti_step *step, int operand, int axis) {
    int64_t size = bti_plan_operand(s->plan, step, operand)->shape[axis];
    int *known = &bti_hlo_made_of(s, step, operand)->sizes[axis];
    if (!(bti_hlo_axes(s, step, operand) >> axis & 1))
        return bti_hlo_bits(&s->w, bti_hlo_scalar(BT_I32), (uint64_t)size);
    if (!*known) *known = bti_hlo_give(s, BT_I32, (uint64_t)size).id;
    return (bti_hlo_value){*known, -1, bti_hlo_scalar(BT_I32)};
}

static int64_t power_of_two(int64_t size) {
    int64_t power = 1;
    while (power < size) power *= 2;
    return power;
}

bti_type bti_hlo_padded_type(const bti_value *value, uint32_t axes) {
    bti_type type = bti_value_type(value);
    for (int a = 0; a < type.rank; a++)
        if (axes >> a & 1) type.shape[a] = power_of_two(type.shape[a]);
    return type;
}
