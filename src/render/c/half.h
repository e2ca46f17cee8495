/* Elements of 2 bytes, in the words of cuda.h or opencl.h. */
FUNCTION f32 f32_of_bf16(u16 x) { return f32_of_bits((u32)x << 16); }
FUNCTION u16 bf16_of_f32(f32 x) {
    u32 bits = bits_of_f32(x);
    if (x != x) return (u16)(bits >> 16 | 0x40);
    return (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
FUNCTION f32 rounded_f16(f32 x) { return f32_of_f16(f16_of_f32(x)); }
FUNCTION f32 rounded_bf16(f32 x) { return f32_of_bf16(bf16_of_f32(x)); }
