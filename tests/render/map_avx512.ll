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
  %t19 = load double, ptr %t18, align 8
  %t20 = fptrunc double %t19 to float
  %t21 = bitcast i64 0 to i64
  br label %b1
b1:
  %t23 = phi i64 [ %t21, %b0 ], [ %t22, %b2 ]
  %t24 = mul i64 %t23, %t7
  %t25 = getelementptr i8, ptr %t5, i64 %t24
  %t26 = mul i64 %t23, %t11
  %t27 = getelementptr i8, ptr %t9, i64 %t26
  %t28 = mul i64 %t23, %t17
  %t29 = getelementptr i8, ptr %t15, i64 %t28
  %t30 = load float, ptr %t27, align 4
  %t31 = fmul float %t30, %t20
  %t32 = getelementptr i64, ptr %functions, i64 6
  %t33 = load ptr, ptr %t32, align 8
  %t34 = insertelement <16 x float> poison, float %t31, i64 0
  %t35 = shufflevector <16 x float> %t34, <16 x float> poison, <16 x i32> zeroinitializer
  %t36 = call <16 x float> %t33(<16 x float> %t35)
  %t37 = extractelement <16 x float> %t36, i64 0
  %t38 = insertelement <16 x float> poison, float %t37, i64 0
  %t39 = shufflevector <16 x float> %t38, <16 x float> poison, <16 x i32> zeroinitializer
  %t40 = bitcast i64 0 to i64
  %t41 = sub i64 %t3, %t40
  %t42 = bitcast i64 -16 to i64
  %t43 = and i64 %t41, %t42
  %t44 = add i64 %t40, %t43
  %t45 = icmp slt i64 %t40, %t44
  br i1 %t45, label %b3, label %b4
b3:
  br label %b5
b5:
  %t47 = phi i64 [ %t40, %b3 ], [ %t46, %b6 ]
  %t48 = getelementptr float, ptr %t25, i64 %t47
  %t49 = load <16 x float>, ptr %t48, align 4
  %t50 = getelementptr i8, ptr %t13, i64 %t47
  %t51 = load <16 x i8>, ptr %t50, align 1
  %t52 = bitcast <16 x i8> <i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0> to <16 x i8>
  %t53 = icmp ne <16 x i8> %t51, %t52
  %t54 = call <16 x float> @llvm.fabs.v16f32(<16 x float> %t49)
  %t55 = call <16 x float> @llvm.sqrt.v16f32(<16 x float> %t54)
  %t56 = fsub <16 x float> %t55, %t39
  %t57 = select <16 x i1> %t53, <16 x float> %t56, <16 x float> %t49
  %t58 = getelementptr float, ptr %t29, i64 %t47
  store <16 x float> %t57, ptr %t58, align 64, !nontemporal !0
  br label %b6
b6:
  %t46 = add nsw i64 %t47, 16
  %t59 = icmp slt i64 %t46, %t44
  br i1 %t59, label %b5, label %b7
b7:
  br label %b4
b4:
  %t60 = icmp slt i64 %t44, %t3
  br i1 %t60, label %b8, label %b9
b8:
  %t61 = sub i64 %t3, %t44
  %t62 = trunc i64 %t61 to i8
  %t63 = insertelement <16 x i8> poison, i8 %t62, i64 0
  %t64 = shufflevector <16 x i8> %t63, <16 x i8> poison, <16 x i32> zeroinitializer
  %t65 = bitcast <16 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15> to <16 x i8>
  %t66 = icmp ult <16 x i8> %t65, %t64
  %t67 = getelementptr float, ptr %t25, i64 %t44
  %t68 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %t67, i32 4, <16 x i1> %t66, <16 x float> zeroinitializer)
  %t69 = getelementptr i8, ptr %t13, i64 %t44
  %t70 = call <16 x i8> @llvm.masked.load.v16i8.p0(ptr %t69, i32 1, <16 x i1> %t66, <16 x i8> zeroinitializer)
  %t71 = bitcast <16 x i8> <i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0> to <16 x i8>
  %t72 = icmp ne <16 x i8> %t70, %t71
  %t73 = call <16 x float> @llvm.fabs.v16f32(<16 x float> %t68)
  %t74 = call <16 x float> @llvm.sqrt.v16f32(<16 x float> %t73)
  %t75 = fsub <16 x float> %t74, %t39
  %t76 = select <16 x i1> %t72, <16 x float> %t75, <16 x float> %t68
  %t77 = getelementptr float, ptr %t29, i64 %t44
  call void @llvm.masked.store.v16f32.p0(<16 x float> %t76, ptr %t77, i32 4, <16 x i1> %t66)
  br label %b9
b9:
  br label %b2
b2:
  %t22 = add nsw i64 %t23, 1
  %t78 = icmp slt i64 %t22, %t1
  br i1 %t78, label %b1, label %b10
b10:
  ret void
}

declare <16 x float> @llvm.fabs.v16f32(<16 x float>)
declare <16 x float> @llvm.sqrt.v16f32(<16 x float>)
declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, i32, <16 x i1>, <16 x float>)
declare <16 x i8> @llvm.masked.load.v16i8.p0(ptr, i32, <16 x i1>, <16 x i8>)
declare void @llvm.masked.store.v16f32.p0(<16 x float>, ptr, i32, <16 x i1>)

attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64-v4" "target-features"="+cx8,+fxsr,+mmx,+sse,+sse2,+x87,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl" "prefer-vector-width"="512" "min-legal-vector-width"="512" }

!0 = !{i32 1}
