/* LLVM IR written by hand, for tests of the compiler, the loader and the cache. */
#ifndef BERTH_TESTS_SUPPORT_LLVM_TEXTS_H
#define BERTH_TESTS_SUPPORT_LLVM_TEXTS_H

#include "base/str.h"
#include "drivers/cpu/target.h"

/* The first `count` of 4 or more float32: sqrt(|(a + b) * a - b|) of operands 0 and 1 into 2, by vectors of the target and a rest. */
static inline void ir_five_operations(bti_str *text, bti_target target) {
    int lanes = bti_target_lanes(target, false) > 1 ? bti_target_lanes(target, false) : 4;
    bti_str_add(
        text, "define void @bti_run(ptr %extent, ptr %scalars, ptr %address, ptr %stride, ptr %functions) nounwind {\n"
              "entry:\n"
              "  %n = load i64, ptr %extent\n");
    for (int i = 0; i < 3; i++)
        bti_str_addf(text,
                     "  %%slot%d = getelementptr i64, ptr %%address, i64 %d\n  %%number%d = load i64, ptr %%slot%d\n"
                     "  %%base%d = inttoptr i64 %%number%d to ptr\n",
                     i, i, i, i, i, i);
    bti_str_addf(text,
                 "  %%whole = and i64 %%n, -%d\n  %%any = icmp ne i64 %%whole, 0\n"
                 "  br i1 %%any, label %%loop, label %%rest\n",
                 lanes);
    for (int rest = 0; rest < 2; rest++) {
        int width = rest ? 1 : lanes;
        const char *s = rest ? "r" : "";
        if (rest)
            bti_str_add(text,
                        "rest:\n  %more.r = icmp ult i64 %whole, %n\n  br i1 %more.r, label %loopr, label %end\n");
        bti_str_addf(text, "loop%s:\n  %%i%s = phi i64 [ %s, %%%s ], [ %%next%s, %%loop%s ]\n", s, s,
                     rest ? "%whole" : "0", rest ? "rest" : "entry", s, s);
        for (int i = 0; i < 3; i++)
            bti_str_addf(text, "  %%p%d%s = getelementptr float, ptr %%base%d, i64 %%i%s\n", i, s, i, s);
        char type[32], suffix[32];
        snprintf(type, sizeof type, rest ? "float" : "<%d x float>", width);
        snprintf(suffix, sizeof suffix, rest ? "f32" : "v%df32", width);
        for (int i = 0; i < 2; i++) bti_str_addf(text, "  %%x%d%s = load %s, ptr %%p%d%s, align 4\n", i, s, type, i, s);
        bti_str_addf(text,
                     "  %%a%s = fadd %s %%x0%s, %%x1%s\n  %%m%s = fmul %s %%a%s, %%x0%s\n"
                     "  %%d%s = fsub %s %%m%s, %%x1%s\n",
                     s, type, s, s, s, type, s, s, s, type, s, s);
        bti_str_addf(text,
                     "  %%u%s = call %s @llvm.fabs.%s(%s %%d%s)\n  %%q%s = call %s @llvm.sqrt.%s(%s %%u%s)\n"
                     "  store %s %%q%s, ptr %%p2%s, align 4\n",
                     s, type, suffix, type, s, s, type, suffix, type, s, type, s, s);
        bti_str_addf(text,
                     "  %%next%s = add i64 %%i%s, %d\n  %%more%s = icmp ult i64 %%next%s, %s\n"
                     "  br i1 %%more%s, label %%loop%s, label %%%s\n",
                     s, s, width, s, s, rest ? "%n" : "%whole", s, s, rest ? "end" : "rest");
    }
    bti_str_addf(text, "end:\n  ret void\n}\n");
    bti_str_addf(
        text,
        "declare <%d x float> @llvm.fabs.v%df32(<%d x float>)\ndeclare <%d x float> @llvm.sqrt.v%df32(<%d x float>)\n"
        "declare float @llvm.fabs.f32(float)\ndeclare float @llvm.sqrt.f32(float)\n",
        lanes, lanes, lanes, lanes, lanes, lanes);
}

/* Constants in memory, a table of jumps, a call between functions, and memset, memcpy and memmove:
 * bti_run does scalars[0] = stair(extent[0]) and copies 300 bytes from address[0] over address[1] to address[2]; bti_part is there. */
static const char ir_relocations[] =
    "define internal i64 @stair(i64 %x) noinline nounwind {\n"
    "  switch i64 %x, label %other [ i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d i64 4, label %e "
    "]\n"
    "a:\n  %fa = call i64 asm sideeffect \"\", \"=r,0\"(i64 11)\n  ret i64 %fa\n"
    "b:\n  %fb = call i64 asm sideeffect \"\", \"=r,0\"(i64 3)\n  %gb = mul i64 %fb, %fb\n  ret i64 %gb\n"
    "c:\n  %fc = call i64 asm sideeffect \"\", \"=r,0\"(i64 7)\n  %gc = add i64 %fc, 70\n  ret i64 %gc\n"
    "d:\n  %fd = call i64 asm sideeffect \"\", \"=r,0\"(i64 8)\n  %gd = shl i64 %fd, 5\n  ret i64 %gd\n"
    "e:\n  %fe = call i64 asm sideeffect \"\", \"=r,0\"(i64 9)\n  %ge = sub i64 1, %fe\n  ret i64 %ge\n"
    "other:\n  %h = load i64, ptr getelementptr ([3 x i64], ptr @table, i64 0, i64 2)\n  %o = add i64 %h, %x\n  ret "
    "i64 %o\n"
    "}\n"
    "@table = private unnamed_addr constant [3 x i64] [i64 5, i64 6, i64 1000], align 64\n"
    "@bytes = private unnamed_addr constant [4 x float] [float 1.5, float 2.5, float 3.5, float 4.5], align 16\n"
    "define void @bti_run(ptr %extent, ptr %scalars, ptr %address, ptr %stride, ptr %functions) nounwind {\n"
    "  %x = load i64, ptr %extent\n"
    "  %y = call i64 @stair(i64 %x)\n"
    "  store i64 %y, ptr %scalars\n"
    "  %second = getelementptr i64, ptr %address, i64 1\n"
    "  %third = getelementptr i64, ptr %address, i64 2\n"
    "  %a = load ptr, ptr %address\n"
    "  %b = load ptr, ptr %second\n"
    "  %c = load ptr, ptr %third\n"
    "  call void @llvm.memset.p0.i64(ptr %c, i8 7, i64 1000, i1 false)\n"
    "  call void @llvm.memcpy.p0.p0.i64(ptr %b, ptr %a, i64 300, i1 false)\n"
    "  call void @llvm.memmove.p0.p0.i64(ptr %c, ptr %b, i64 300, i1 false)\n"
    "  ret void\n"
    "}\n"
    "define void @bti_part(ptr %extent, ptr %scalars, ptr %address, ptr %stride, ptr %functions, ptr %parts) nounwind "
    "{\n"
    "  %v = load <4 x float>, ptr @bytes\n"
    "  %w = fmul <4 x float> %v, <float 2.0, float 3.0, float 4.0, float 5.0>\n"
    "  store <4 x float> %w, ptr %parts, align 4\n"
    "  ret void\n"
    "}\n"
    "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
    "declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)\n";

#endif
