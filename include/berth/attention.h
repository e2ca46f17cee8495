/* berth/attention.h: scaled dot product attention. */
#ifndef BERTH_ATTENTION_H
#define BERTH_ATTENTION_H

#include <berth/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options of attention; 0 and NULL mean the default in brackets. By name: `bt_attention(q, k, v, .causal = true)`. */
typedef struct bt_attention_options {
    size_t size BTI_INITIALLY(sizeof(bt_attention_options)); /* set by the macro */
    BTI_BY_NAME
    bool causal BTI_INITIALLY(false); /* query i reads keys 0 to i, as PyTorch's is_causal [all keys] */
    bool from_end BTI_INITIALLY(
        false); /* with causal: the last query reads up to the last key, the one before it one less (a KV cache) [false] */
    double scale BTI_INITIALLY(0); /* of the scores [1 / sqrt(depth)] */
    bt_array *mask BTI_INITIALLY(
        NULL); /* bool: true where a key is read; floats: added to the scores. Broadcast to [..., heads, L, keys] [none] */
    /* Integers, broadcast to the batch: so many keys are there, those behind them are neither read nor counted; less than 0 is none, more than `keys` all [all]. */
    bt_array *lengths BTI_INITIALLY(NULL);
} bt_attention_options;
#define BT_ATTENTION(...) BTI_OPTIONS(bt_attention_options, __VA_ARGS__)

/* Scaled dot product attention, softmax(q k^T * scale + mask) v: q [batch..., heads, L, depth], k [batch..., kv_heads, keys, depth], v [batch..., kv_heads, keys, depth_v] ->
 * [batch..., heads, L, depth_v]; two axes are one head. The number of heads is a multiple of kv_heads: head h reads those of h / (heads / kv_heads). Memory is
 * linear in L and keys, of gradients too, unless the gradient of a mask is asked for. Floats; float16 and bfloat16 are computed in float32. A query that reads no key gives
 * 0. A value that is infinite or NaN may reach queries that `causal` or a mask keeps from reading its key, since 0 times it is NaN; what lies behind `lengths` is not read. In functions the depths
 * have known sizes, not 0, and so have the heads where keys have fewer of them. With a cache of a fixed size, whose first `n` keys are there: `bt_attention(q, keys, values, .causal = true, .from_end = true, .lengths = n)`; of the function itself NULL means the defaults. */
BT_API bt_array *bt_attention(bt_array *q, bt_array *k, bt_array *v, const bt_attention_options *options);
#ifndef BERTH_BUILDING
#define BTI_ATTENTION(q, k, v, ...) bt_attention(q, k, v, BT_ATTENTION(__VA_ARGS__))
#define bt_attention(...) BTI_AT(bt_array *, BTI_ATTENTION(__VA_ARGS__, ))
#endif

#ifdef __cplusplus
}
#endif
#endif
