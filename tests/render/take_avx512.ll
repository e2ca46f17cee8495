target triple = "x86_64-unknown-linux-gnu"

define void @bti_run(ptr noalias %extent, ptr noalias %scalars, ptr noalias %address, ptr noalias %stride, ptr noalias %functions) #0 {
b0:
  %scratch = alloca [256 x i8], align 64
  %t0 = getelementptr i64, ptr %extent, i64 0
  %t1 = load i64, ptr %t0, align 8
  %t2 = getelementptr i64, ptr %extent, i64 1
  %t3 = load i64, ptr %t2, align 8
  %t4 = getelementptr i64, ptr %address, i64 0
  %t5 = load ptr, ptr %t4, align 8
  %t6 = getelementptr i64, ptr %stride, i64 0
  %t7 = load i64, ptr %t6, align 8
  %t8 = getelementptr i64, ptr %address, i64 1
  %t9 = load ptr, ptr %t8, align 8
  %t10 = getelementptr i64, ptr %stride, i64 8
  %t11 = load i64, ptr %t10, align 8
  %t12 = getelementptr i64, ptr %address, i64 2
  %t13 = load ptr, ptr %t12, align 8
  %t14 = getelementptr i64, ptr %address, i64 3
  %t15 = load ptr, ptr %t14, align 8
  %t16 = getelementptr i64, ptr %stride, i64 24
  %t17 = load i64, ptr %t16, align 8
  %t18 = getelementptr i64, ptr %scalars, i64 0
  %t19 = load i64, ptr %t18, align 8
  %t20 = getelementptr i64, ptr %scalars, i64 1
  %t21 = load i64, ptr %t20, align 8
  %t22 = bitcast i64 0 to i64
  br label %b1
b1:
  %t24 = phi i64 [ %t22, %b0 ], [ %t23, %b2 ]
  %t25 = mul i64 %t24, %t7
  %t26 = getelementptr i8, ptr %t5, i64 %t25
  %t27 = mul i64 %t24, %t11
  %t28 = getelementptr i8, ptr %t9, i64 %t27
  %t29 = mul i64 %t24, %t17
  %t30 = getelementptr i8, ptr %t15, i64 %t29
  %t31 = load i32, ptr %t26, align 4
  %t32 = bitcast i64 0 to i64
  %t33 = sub i64 %t3, %t32
  %t34 = bitcast i64 -16 to i64
  %t35 = and i64 %t33, %t34
  %t36 = add i64 %t32, %t35
  %t37 = icmp slt i64 %t32, %t36
  br i1 %t37, label %b3, label %b4
b3:
  br label %b5
b5:
  %t39 = phi i64 [ %t32, %b3 ], [ %t38, %b6 ]
  %t40 = getelementptr float, ptr %t28, i64 %t39
  %t41 = load <16 x float>, ptr %t40, align 4
  %t42 = sext i32 %t31 to i64
  %t43 = add i64 %t42, %t19
  %t44 = bitcast i64 0 to i64
  %t45 = icmp slt i64 %t42, %t44
  %t46 = select i1 %t45, i64 %t43, i64 %t42
  %t47 = icmp ult i64 %t46, %t19
  %t48 = bitcast i64 0 to i64
  %t49 = mul i64 %t46, %t21
  %t50 = select i1 %t47, i64 %t49, i64 %t48
  %t51 = getelementptr i8, ptr %t13, i64 %t50
  %t52 = getelementptr float, ptr %t51, i64 %t39
  %t53 = load <16 x float>, ptr %t52, align 4
  %t54 = insertelement <16 x i1> poison, i1 %t47, i64 0
  %t55 = shufflevector <16 x i1> %t54, <16 x i1> poison, <16 x i32> zeroinitializer
  %t56 = bitcast <16 x i32> <i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344> to <16 x i32>
  %t57 = bitcast <16 x i32> %t56 to <16 x float>
  %t58 = select <16 x i1> %t55, <16 x float> %t53, <16 x float> %t57
  %t59 = fadd <16 x float> %t58, %t41
  %t60 = getelementptr float, ptr %t30, i64 %t39
  store <16 x float> %t59, ptr %t60, align 4
  br label %b6
b6:
  %t38 = add nsw i64 %t39, 16
  %t61 = icmp slt i64 %t38, %t36
  br i1 %t61, label %b5, label %b7
b7:
  br label %b4
b4:
  %t62 = icmp slt i64 %t36, %t3
  br i1 %t62, label %b8, label %b9
b8:
  %t63 = sub i64 %t3, %t36
  %t64 = trunc i64 %t63 to i8
  %t65 = insertelement <16 x i8> poison, i8 %t64, i64 0
  %t66 = shufflevector <16 x i8> %t65, <16 x i8> poison, <16 x i32> zeroinitializer
  %t67 = bitcast <16 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15> to <16 x i8>
  %t68 = icmp ult <16 x i8> %t67, %t66
  %t69 = getelementptr float, ptr %t28, i64 %t36
  %t70 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %t69, i32 4, <16 x i1> %t68, <16 x float> zeroinitializer)
  %t71 = sext i32 %t31 to i64
  %t72 = add i64 %t71, %t19
  %t73 = bitcast i64 0 to i64
  %t74 = icmp slt i64 %t71, %t73
  %t75 = select i1 %t74, i64 %t72, i64 %t71
  %t76 = icmp ult i64 %t75, %t19
  %t77 = bitcast i64 0 to i64
  %t78 = mul i64 %t75, %t21
  %t79 = select i1 %t76, i64 %t78, i64 %t77
  %t80 = getelementptr i8, ptr %t13, i64 %t79
  %t81 = getelementptr float, ptr %t80, i64 %t36
  %t82 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %t81, i32 4, <16 x i1> %t68, <16 x float> zeroinitializer)
  %t83 = insertelement <16 x i1> poison, i1 %t76, i64 0
  %t84 = shufflevector <16 x i1> %t83, <16 x i1> poison, <16 x i32> zeroinitializer
  %t85 = bitcast <16 x i32> <i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344, i32 2143289344> to <16 x i32>
  %t86 = bitcast <16 x i32> %t85 to <16 x float>
  %t87 = select <16 x i1> %t84, <16 x float> %t82, <16 x float> %t86
  %t88 = fadd <16 x float> %t87, %t70
  %t89 = getelementptr float, ptr %t30, i64 %t36
  call void @llvm.masked.store.v16f32.p0(<16 x float> %t88, ptr %t89, i32 4, <16 x i1> %t68)
  br label %b9
b9:
  br label %b2
b2:
  %t23 = add nsw i64 %t24, 1
  %t90 = icmp slt i64 %t23, %t1
  br i1 %t90, label %b1, label %b10
b10:
  ret void
}

declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, i32, <16 x i1>, <16 x float>)
declare void @llvm.masked.store.v16f32.p0(<16 x float>, ptr, i32, <16 x i1>)

attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64-v4" "target-features"="+cx8,+fxsr,+mmx,+sse,+sse2,+x87,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl" "prefer-vector-width"="512" "min-legal-vector-width"="512" }
