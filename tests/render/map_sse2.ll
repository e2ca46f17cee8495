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
  %t34 = call float %t33(float %t31)
  %t35 = insertelement <16 x float> poison, float %t34, i64 0
  %t36 = shufflevector <16 x float> %t35, <16 x float> poison, <16 x i32> zeroinitializer
  %t37 = bitcast i64 0 to i64
  %t38 = sub i64 %t3, %t37
  %t39 = bitcast i64 -16 to i64
  %t40 = and i64 %t38, %t39
  %t41 = add i64 %t37, %t40
  %t42 = icmp slt i64 %t37, %t41
  br i1 %t42, label %b3, label %b4
b3:
  br label %b5
b5:
  %t44 = phi i64 [ %t37, %b3 ], [ %t43, %b6 ]
  %t45 = getelementptr float, ptr %t25, i64 %t44
  %t46 = load <16 x float>, ptr %t45, align 4
  %t47 = getelementptr i8, ptr %t13, i64 %t44
  %t48 = load <16 x i8>, ptr %t47, align 1
  %t49 = bitcast <16 x i8> <i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0> to <16 x i8>
  %t50 = icmp ne <16 x i8> %t48, %t49
  %t51 = call <16 x float> @llvm.fabs.v16f32(<16 x float> %t46)
  %t52 = call <16 x float> @llvm.sqrt.v16f32(<16 x float> %t51)
  %t53 = fsub <16 x float> %t52, %t36
  %t54 = select <16 x i1> %t50, <16 x float> %t53, <16 x float> %t46
  %t55 = getelementptr float, ptr %t29, i64 %t44
  store <16 x float> %t54, ptr %t55, align 4
  br label %b6
b6:
  %t43 = add nsw i64 %t44, 16
  %t56 = icmp slt i64 %t43, %t41
  br i1 %t56, label %b5, label %b7
b7:
  br label %b4
b4:
  %t57 = icmp slt i64 %t41, %t3
  br i1 %t57, label %b8, label %b9
b8:
  %t58 = sub i64 %t3, %t41
  %t59 = trunc i64 %t58 to i8
  %t60 = insertelement <16 x i8> poison, i8 %t59, i64 0
  %t61 = shufflevector <16 x i8> %t60, <16 x i8> poison, <16 x i32> zeroinitializer
  %t62 = bitcast <16 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15> to <16 x i8>
  %t63 = icmp ult <16 x i8> %t62, %t61
  %t64 = getelementptr float, ptr %t25, i64 %t41
  store <16 x float> zeroinitializer, ptr %scratch, align 64
  call void @copy_4(ptr %scratch, i64 4, ptr %t64, i64 4, i64 %t58)
  %t65 = load <16 x float>, ptr %scratch, align 64
  %t66 = getelementptr i8, ptr %t13, i64 %t41
  store <16 x i8> zeroinitializer, ptr %scratch, align 64
  call void @copy_1(ptr %scratch, i64 1, ptr %t66, i64 1, i64 %t58)
  %t67 = load <16 x i8>, ptr %scratch, align 64
  %t68 = bitcast <16 x i8> <i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0, i8 0> to <16 x i8>
  %t69 = icmp ne <16 x i8> %t67, %t68
  %t70 = call <16 x float> @llvm.fabs.v16f32(<16 x float> %t65)
  %t71 = call <16 x float> @llvm.sqrt.v16f32(<16 x float> %t70)
  %t72 = fsub <16 x float> %t71, %t36
  %t73 = select <16 x i1> %t69, <16 x float> %t72, <16 x float> %t65
  %t74 = getelementptr float, ptr %t29, i64 %t41
  store <16 x float> %t73, ptr %scratch, align 64
  call void @copy_4(ptr %t74, i64 4, ptr %scratch, i64 4, i64 %t58)
  br label %b9
b9:
  br label %b2
b2:
  %t22 = add nsw i64 %t23, 1
  %t75 = icmp slt i64 %t22, %t1
  br i1 %t75, label %b1, label %b10
b10:
  ret void
}

define internal void @copy_1(ptr %to, i64 %to_step, ptr %from, i64 %from_step, i64 %count) #0 {
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %from_offset = mul i64 %i, %from_step
  %from_at = getelementptr i8, ptr %from, i64 %from_offset
  %element = load i8, ptr %from_at
  %to_offset = mul i64 %i, %to_step
  %to_at = getelementptr i8, ptr %to, i64 %to_offset
  store i8 %element, ptr %to_at
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}

define internal void @copy_4(ptr %to, i64 %to_step, ptr %from, i64 %from_step, i64 %count) #0 {
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %from_offset = mul i64 %i, %from_step
  %from_at = getelementptr i8, ptr %from, i64 %from_offset
  %element = load i32, ptr %from_at
  %to_offset = mul i64 %i, %to_step
  %to_at = getelementptr i8, ptr %to, i64 %to_offset
  store i32 %element, ptr %to_at
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}

declare <16 x float> @llvm.fabs.v16f32(<16 x float>)
declare <16 x float> @llvm.sqrt.v16f32(<16 x float>)

attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64" "target-features"="+cx8,+fxsr,+mmx,+sse,+sse2,+x87" }
