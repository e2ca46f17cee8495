target triple = "x86_64-unknown-linux-gnu"

define void @bti_run(ptr noalias %extent, ptr noalias %scalars, ptr noalias %address, ptr noalias %stride, ptr noalias %functions) #0 {
b0:
  %scratch = alloca [256 x i8], align 64
  %block_totals = alloca [4096 x i64], align 64
  %block_parts = alloca [4096 x i64], align 64
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
  %t10 = bitcast i64 0 to i64
  br label %b1
b1:
  %t12 = phi i64 [ %t10, %b0 ], [ %t11, %b2 ]
  %t13 = bitcast i64 4096 to i64
  %t14 = add i64 %t12, %t13
  %t15 = icmp slt i64 %t14, %t3
  %t16 = select i1 %t15, i64 %t14, i64 %t3
  %t17 = sub i64 %t16, %t12
  %t18 = bitcast i64 0 to i64
  br label %b3
b3:
  %t20 = phi i64 [ %t18, %b1 ], [ %t19, %b4 ]
  %t21 = bitcast <16 x double> <double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000> to <16 x double>
  %t22 = getelementptr i64, ptr %block_totals, i64 0
  %t23 = getelementptr double, ptr %t22, i64 %t20
  store <16 x double> %t21, ptr %t23, align 8
  br label %b4
b4:
  %t19 = add nsw i64 %t20, 16
  %t24 = icmp slt i64 %t19, %t17
  br i1 %t24, label %b3, label %b5
b5:
  %t25 = bitcast i64 0 to i64
  br label %b6
b6:
  %t27 = phi i64 [ %t25, %b5 ], [ %t26, %b7 ]
  %t28 = bitcast i64 1024 to i64
  %t29 = add i64 %t27, %t28
  %t30 = icmp slt i64 %t29, %t1
  %t31 = select i1 %t30, i64 %t29, i64 %t1
  %t32 = sub i64 %t16, %t12
  %t33 = bitcast i64 0 to i64
  br label %b8
b8:
  %t35 = phi i64 [ %t33, %b6 ], [ %t34, %b9 ]
  %t36 = bitcast <16 x double> <double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000> to <16 x double>
  %t37 = getelementptr i64, ptr %block_parts, i64 0
  %t38 = getelementptr double, ptr %t37, i64 %t35
  store <16 x double> %t36, ptr %t38, align 8
  br label %b9
b9:
  %t34 = add nsw i64 %t35, 16
  %t39 = icmp slt i64 %t34, %t32
  br i1 %t39, label %b8, label %b10
b10:
  br label %b11
b11:
  %t41 = phi i64 [ %t27, %b10 ], [ %t40, %b12 ]
  %t42 = mul i64 %t41, %t7
  %t43 = getelementptr i8, ptr %t5, i64 %t42
  %t44 = sub i64 %t16, %t12
  %t45 = bitcast i64 -16 to i64
  %t46 = and i64 %t44, %t45
  %t47 = add i64 %t12, %t46
  %t48 = icmp slt i64 %t12, %t47
  br i1 %t48, label %b13, label %b14
b13:
  br label %b15
b15:
  %t50 = phi i64 [ %t12, %b13 ], [ %t49, %b16 ]
  %t51 = sub i64 %t50, %t12
  %t52 = getelementptr float, ptr %t43, i64 %t50
  %t53 = load <16 x float>, ptr %t52, align 4
  %t54 = getelementptr i64, ptr %block_parts, i64 0
  %t55 = getelementptr double, ptr %t54, i64 %t51
  %t56 = load <16 x double>, ptr %t55, align 8
  %t57 = fpext <16 x float> %t53 to <16 x double>
  %t58 = fadd <16 x double> %t56, %t57
  %t59 = getelementptr i64, ptr %block_parts, i64 0
  %t60 = getelementptr double, ptr %t59, i64 %t51
  store <16 x double> %t58, ptr %t60, align 8
  br label %b16
b16:
  %t49 = add nsw i64 %t50, 16
  %t61 = icmp slt i64 %t49, %t47
  br i1 %t61, label %b15, label %b17
b17:
  br label %b14
b14:
  %t62 = icmp slt i64 %t47, %t16
  br i1 %t62, label %b18, label %b19
b18:
  %t63 = sub i64 %t16, %t47
  %t64 = trunc i64 %t63 to i8
  %t65 = insertelement <16 x i8> poison, i8 %t64, i64 0
  %t66 = shufflevector <16 x i8> %t65, <16 x i8> poison, <16 x i32> zeroinitializer
  %t67 = bitcast <16 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15> to <16 x i8>
  %t68 = icmp ult <16 x i8> %t67, %t66
  %t69 = sub i64 %t47, %t12
  %t70 = getelementptr float, ptr %t43, i64 %t47
  %t71 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %t70, i32 4, <16 x i1> %t68, <16 x float> zeroinitializer)
  %t72 = getelementptr i64, ptr %block_parts, i64 0
  %t73 = getelementptr double, ptr %t72, i64 %t69
  %t74 = load <16 x double>, ptr %t73, align 8
  %t75 = fpext <16 x float> %t71 to <16 x double>
  %t76 = fadd <16 x double> %t74, %t75
  %t77 = getelementptr i64, ptr %block_parts, i64 0
  %t78 = getelementptr double, ptr %t77, i64 %t69
  store <16 x double> %t76, ptr %t78, align 8
  br label %b19
b19:
  br label %b12
b12:
  %t40 = add nsw i64 %t41, 1
  %t79 = icmp slt i64 %t40, %t31
  br i1 %t79, label %b11, label %b20
b20:
  %t80 = sub i64 %t16, %t12
  %t81 = bitcast i64 0 to i64
  br label %b21
b21:
  %t83 = phi i64 [ %t81, %b20 ], [ %t82, %b22 ]
  %t84 = getelementptr i64, ptr %block_totals, i64 0
  %t85 = getelementptr double, ptr %t84, i64 %t83
  %t86 = load <16 x double>, ptr %t85, align 8
  %t87 = getelementptr i64, ptr %block_parts, i64 0
  %t88 = getelementptr double, ptr %t87, i64 %t83
  %t89 = load <16 x double>, ptr %t88, align 8
  %t90 = fadd <16 x double> %t86, %t89
  %t91 = getelementptr i64, ptr %block_totals, i64 0
  %t92 = getelementptr double, ptr %t91, i64 %t83
  store <16 x double> %t90, ptr %t92, align 8
  br label %b22
b22:
  %t82 = add nsw i64 %t83, 16
  %t93 = icmp slt i64 %t82, %t80
  br i1 %t93, label %b21, label %b23
b23:
  br label %b7
b7:
  %t26 = add nsw i64 %t27, 1024
  %t94 = icmp slt i64 %t26, %t1
  br i1 %t94, label %b6, label %b24
b24:
  %t95 = sub i64 %t16, %t12
  %t96 = bitcast i64 -16 to i64
  %t97 = and i64 %t95, %t96
  %t98 = add i64 %t12, %t97
  %t99 = icmp slt i64 %t12, %t98
  br i1 %t99, label %b25, label %b26
b25:
  br label %b27
b27:
  %t101 = phi i64 [ %t12, %b25 ], [ %t100, %b28 ]
  %t102 = sub i64 %t101, %t12
  %t103 = getelementptr i64, ptr %block_totals, i64 0
  %t104 = getelementptr double, ptr %t103, i64 %t102
  %t105 = load <16 x double>, ptr %t104, align 8
  %t106 = fptrunc <16 x double> %t105 to <16 x float>
  %t107 = getelementptr float, ptr %t9, i64 %t101
  store <16 x float> %t106, ptr %t107, align 4
  br label %b28
b28:
  %t100 = add nsw i64 %t101, 16
  %t108 = icmp slt i64 %t100, %t98
  br i1 %t108, label %b27, label %b29
b29:
  br label %b26
b26:
  %t109 = icmp slt i64 %t98, %t16
  br i1 %t109, label %b30, label %b31
b30:
  %t110 = sub i64 %t16, %t98
  %t111 = trunc i64 %t110 to i8
  %t112 = insertelement <16 x i8> poison, i8 %t111, i64 0
  %t113 = shufflevector <16 x i8> %t112, <16 x i8> poison, <16 x i32> zeroinitializer
  %t114 = bitcast <16 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15> to <16 x i8>
  %t115 = icmp ult <16 x i8> %t114, %t113
  %t116 = sub i64 %t98, %t12
  %t117 = getelementptr i64, ptr %block_totals, i64 0
  %t118 = getelementptr double, ptr %t117, i64 %t116
  %t119 = load <16 x double>, ptr %t118, align 8
  %t120 = fptrunc <16 x double> %t119 to <16 x float>
  %t121 = getelementptr float, ptr %t9, i64 %t98
  call void @llvm.masked.store.v16f32.p0(<16 x float> %t120, ptr %t121, i32 4, <16 x i1> %t115)
  br label %b31
b31:
  br label %b2
b2:
  %t11 = add nsw i64 %t12, 4096
  %t122 = icmp slt i64 %t11, %t3
  br i1 %t122, label %b1, label %b32
b32:
  ret void
}

define void @bti_part(ptr noalias %extent, ptr noalias %scalars, ptr noalias %address, ptr noalias %stride, ptr noalias %functions, ptr %parts) #0 {
b0:
  %scratch = alloca [256 x i8], align 64
  %block_totals = alloca [4096 x i64], align 64
  %block_parts = alloca [4096 x i64], align 64
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
  %t10 = bitcast i64 0 to i64
  %t11 = bitcast i64 1 to i64
  %t12 = mul i64 %t11, %t3
  %t13 = bitcast i64 0 to i64
  br label %b1
b1:
  %t15 = phi i64 [ %t13, %b0 ], [ %t14, %b2 ]
  %t16 = bitcast i64 4096 to i64
  %t17 = add i64 %t15, %t16
  %t18 = icmp slt i64 %t17, %t3
  %t19 = select i1 %t18, i64 %t17, i64 %t3
  %t20 = bitcast i64 0 to i64
  br label %b3
b3:
  %t22 = phi i64 [ %t20, %b1 ], [ %t21, %b4 ]
  %t23 = bitcast i64 1024 to i64
  %t24 = add i64 %t22, %t23
  %t25 = icmp slt i64 %t24, %t1
  %t26 = select i1 %t25, i64 %t24, i64 %t1
  %t27 = sub i64 %t19, %t15
  %t28 = bitcast i64 0 to i64
  br label %b5
b5:
  %t30 = phi i64 [ %t28, %b3 ], [ %t29, %b6 ]
  %t31 = bitcast <16 x double> <double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000> to <16 x double>
  %t32 = getelementptr i64, ptr %block_parts, i64 0
  %t33 = getelementptr double, ptr %t32, i64 %t30
  store <16 x double> %t31, ptr %t33, align 8
  br label %b6
b6:
  %t29 = add nsw i64 %t30, 16
  %t34 = icmp slt i64 %t29, %t27
  br i1 %t34, label %b5, label %b7
b7:
  br label %b8
b8:
  %t36 = phi i64 [ %t22, %b7 ], [ %t35, %b9 ]
  %t37 = mul i64 %t36, %t7
  %t38 = getelementptr i8, ptr %t5, i64 %t37
  %t39 = sub i64 %t19, %t15
  %t40 = bitcast i64 -16 to i64
  %t41 = and i64 %t39, %t40
  %t42 = add i64 %t15, %t41
  %t43 = icmp slt i64 %t15, %t42
  br i1 %t43, label %b10, label %b11
b10:
  br label %b12
b12:
  %t45 = phi i64 [ %t15, %b10 ], [ %t44, %b13 ]
  %t46 = sub i64 %t45, %t15
  %t47 = getelementptr float, ptr %t38, i64 %t45
  %t48 = load <16 x float>, ptr %t47, align 4
  %t49 = getelementptr i64, ptr %block_parts, i64 0
  %t50 = getelementptr double, ptr %t49, i64 %t46
  %t51 = load <16 x double>, ptr %t50, align 8
  %t52 = fpext <16 x float> %t48 to <16 x double>
  %t53 = fadd <16 x double> %t51, %t52
  %t54 = getelementptr i64, ptr %block_parts, i64 0
  %t55 = getelementptr double, ptr %t54, i64 %t46
  store <16 x double> %t53, ptr %t55, align 8
  br label %b13
b13:
  %t44 = add nsw i64 %t45, 16
  %t56 = icmp slt i64 %t44, %t42
  br i1 %t56, label %b12, label %b14
b14:
  br label %b11
b11:
  %t57 = icmp slt i64 %t42, %t19
  br i1 %t57, label %b15, label %b16
b15:
  %t58 = sub i64 %t19, %t42
  %t59 = trunc i64 %t58 to i8
  %t60 = insertelement <16 x i8> poison, i8 %t59, i64 0
  %t61 = shufflevector <16 x i8> %t60, <16 x i8> poison, <16 x i32> zeroinitializer
  %t62 = bitcast <16 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15> to <16 x i8>
  %t63 = icmp ult <16 x i8> %t62, %t61
  %t64 = sub i64 %t42, %t15
  %t65 = getelementptr float, ptr %t38, i64 %t42
  %t66 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %t65, i32 4, <16 x i1> %t63, <16 x float> zeroinitializer)
  %t67 = getelementptr i64, ptr %block_parts, i64 0
  %t68 = getelementptr double, ptr %t67, i64 %t64
  %t69 = load <16 x double>, ptr %t68, align 8
  %t70 = fpext <16 x float> %t66 to <16 x double>
  %t71 = fadd <16 x double> %t69, %t70
  %t72 = getelementptr i64, ptr %block_parts, i64 0
  %t73 = getelementptr double, ptr %t72, i64 %t64
  store <16 x double> %t71, ptr %t73, align 8
  br label %b16
b16:
  br label %b9
b9:
  %t35 = add nsw i64 %t36, 1
  %t74 = icmp slt i64 %t35, %t26
  br i1 %t74, label %b8, label %b17
b17:
  %t75 = sub i64 %t19, %t15
  %t76 = bitcast i64 -16 to i64
  %t77 = and i64 %t75, %t76
  %t78 = add i64 %t15, %t77
  %t79 = icmp slt i64 %t15, %t78
  br i1 %t79, label %b18, label %b19
b18:
  br label %b20
b20:
  %t81 = phi i64 [ %t15, %b18 ], [ %t80, %b21 ]
  %t82 = sub i64 %t81, %t15
  %t83 = mul i64 %t10, %t3
  %t84 = add i64 %t83, %t81
  %t85 = getelementptr i64, ptr %block_parts, i64 0
  %t86 = getelementptr double, ptr %t85, i64 %t82
  %t87 = load <16 x double>, ptr %t86, align 8
  %t88 = bitcast i64 0 to i64
  %t90 = mul i64 %t88, %t12
  %t91 = add i64 %t90, %t84
  %t89 = getelementptr i64, ptr %parts, i64 %t91
  %t92 = bitcast <16 x double> %t87 to <16 x i64>
  store <16 x i64> %t92, ptr %t89, align 8
  br label %b21
b21:
  %t80 = add nsw i64 %t81, 16
  %t93 = icmp slt i64 %t80, %t78
  br i1 %t93, label %b20, label %b22
b22:
  br label %b19
b19:
  %t94 = icmp slt i64 %t78, %t19
  br i1 %t94, label %b23, label %b24
b23:
  %t95 = sub i64 %t19, %t78
  %t96 = trunc i64 %t95 to i8
  %t97 = insertelement <16 x i8> poison, i8 %t96, i64 0
  %t98 = shufflevector <16 x i8> %t97, <16 x i8> poison, <16 x i32> zeroinitializer
  %t99 = bitcast <16 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15> to <16 x i8>
  %t100 = icmp ult <16 x i8> %t99, %t98
  %t101 = sub i64 %t78, %t15
  %t102 = mul i64 %t10, %t3
  %t103 = add i64 %t102, %t78
  %t104 = getelementptr i64, ptr %block_parts, i64 0
  %t105 = getelementptr double, ptr %t104, i64 %t101
  %t106 = load <16 x double>, ptr %t105, align 8
  %t107 = bitcast i64 0 to i64
  %t109 = mul i64 %t107, %t12
  %t110 = add i64 %t109, %t103
  %t108 = getelementptr i64, ptr %parts, i64 %t110
  %t111 = bitcast <16 x double> %t106 to <16 x i64>
  call void @llvm.masked.store.v16i64.p0(<16 x i64> %t111, ptr %t108, i32 8, <16 x i1> %t100)
  br label %b24
b24:
  br label %b4
b4:
  %t21 = add nsw i64 %t22, 1024
  %t112 = icmp slt i64 %t21, %t1
  br i1 %t112, label %b3, label %b25
b25:
  br label %b2
b2:
  %t14 = add nsw i64 %t15, 4096
  %t113 = icmp slt i64 %t14, %t3
  br i1 %t113, label %b1, label %b26
b26:
  ret void
}

define void @bti_finish(ptr noalias %extent, ptr noalias %scalars, ptr noalias %address, ptr noalias %stride, ptr noalias %functions, ptr %parts, i64 %sets) #0 {
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
  %t10 = bitcast i64 0 to i64
  %t11 = bitcast i64 1 to i64
  %t12 = mul i64 %t11, %t3
  %t13 = bitcast i64 0 to i64
  %t14 = sub i64 %t3, %t13
  %t15 = bitcast i64 -16 to i64
  %t16 = and i64 %t14, %t15
  %t17 = add i64 %t13, %t16
  %t18 = icmp slt i64 %t13, %t17
  br i1 %t18, label %b1, label %b2
b1:
  br label %b3
b3:
  %t20 = phi i64 [ %t13, %b1 ], [ %t19, %b4 ]
  %t21 = bitcast <16 x double> <double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000> to <16 x double>
  %t22 = mul i64 %t10, %t3
  %t23 = add i64 %t22, %t20
  %t24 = add i64 %sets, 0
  %t25 = bitcast i64 0 to i64
  %t26 = icmp sgt i64 %t24, %t25
  br i1 %t26, label %b5, label %b6
b5:
  br label %b7
b7:
  %t29 = phi i64 [ %t25, %b5 ], [ %t27, %b8 ]
  %t30 = phi <16 x double> [ %t21, %b5 ], [ %t28, %b8 ]
  %t31 = bitcast i64 0 to i64
  %t33 = bitcast i64 1 to i64
  %t34 = mul i64 %t29, %t33
  %t35 = add i64 %t34, %t31
  %t36 = mul i64 %t35, %t12
  %t37 = add i64 %t36, %t23
  %t32 = getelementptr i64, ptr %parts, i64 %t37
  %t38 = load <16 x i64>, ptr %t32, align 8
  %t39 = bitcast <16 x i64> %t38 to <16 x double>
  %t40 = fadd <16 x double> %t30, %t39
  br label %b8
b8:
  %t28 = bitcast <16 x double> %t40 to <16 x double>
  %t27 = add nsw i64 %t29, 1
  %t41 = icmp slt i64 %t27, %t24
  br i1 %t41, label %b7, label %b9
b9:
  br label %b6
b6:
  %t42 = phi <16 x double> [ %t28, %b9 ], [ %t21, %b3 ]
  %t43 = fptrunc <16 x double> %t42 to <16 x float>
  %t44 = getelementptr float, ptr %t9, i64 %t20
  store <16 x float> %t43, ptr %t44, align 4
  br label %b4
b4:
  %t19 = add nsw i64 %t20, 16
  %t45 = icmp slt i64 %t19, %t17
  br i1 %t45, label %b3, label %b10
b10:
  br label %b2
b2:
  %t46 = icmp slt i64 %t17, %t3
  br i1 %t46, label %b11, label %b12
b11:
  %t47 = sub i64 %t3, %t17
  %t48 = trunc i64 %t47 to i8
  %t49 = insertelement <16 x i8> poison, i8 %t48, i64 0
  %t50 = shufflevector <16 x i8> %t49, <16 x i8> poison, <16 x i32> zeroinitializer
  %t51 = bitcast <16 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15> to <16 x i8>
  %t52 = icmp ult <16 x i8> %t51, %t50
  %t53 = bitcast <16 x double> <double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000> to <16 x double>
  %t54 = mul i64 %t10, %t3
  %t55 = add i64 %t54, %t17
  %t56 = add i64 %sets, 0
  %t57 = bitcast i64 0 to i64
  %t58 = icmp sgt i64 %t56, %t57
  br i1 %t58, label %b13, label %b14
b13:
  br label %b15
b15:
  %t61 = phi i64 [ %t57, %b13 ], [ %t59, %b16 ]
  %t62 = phi <16 x double> [ %t53, %b13 ], [ %t60, %b16 ]
  %t63 = bitcast i64 0 to i64
  %t65 = bitcast i64 1 to i64
  %t66 = mul i64 %t61, %t65
  %t67 = add i64 %t66, %t63
  %t68 = mul i64 %t67, %t12
  %t69 = add i64 %t68, %t55
  %t64 = getelementptr i64, ptr %parts, i64 %t69
  %t70 = call <16 x i64> @llvm.masked.load.v16i64.p0(ptr %t64, i32 8, <16 x i1> %t52, <16 x i64> zeroinitializer)
  %t71 = bitcast <16 x i64> %t70 to <16 x double>
  %t72 = fadd <16 x double> %t62, %t71
  br label %b16
b16:
  %t60 = bitcast <16 x double> %t72 to <16 x double>
  %t59 = add nsw i64 %t61, 1
  %t73 = icmp slt i64 %t59, %t56
  br i1 %t73, label %b15, label %b17
b17:
  br label %b14
b14:
  %t74 = phi <16 x double> [ %t60, %b17 ], [ %t53, %b11 ]
  %t75 = fptrunc <16 x double> %t74 to <16 x float>
  %t76 = getelementptr float, ptr %t9, i64 %t17
  call void @llvm.masked.store.v16f32.p0(<16 x float> %t75, ptr %t76, i32 4, <16 x i1> %t52)
  br label %b12
b12:
  ret void
}

declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, i32, <16 x i1>, <16 x float>)
declare void @llvm.masked.store.v16f32.p0(<16 x float>, ptr, i32, <16 x i1>)
declare void @llvm.masked.store.v16i64.p0(<16 x i64>, ptr, i32, <16 x i1>)
declare <16 x i64> @llvm.masked.load.v16i64.p0(ptr, i32, <16 x i1>, <16 x i64>)

attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64-v4" "target-features"="+cx8,+fxsr,+mmx,+sse,+sse2,+x87,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl" "prefer-vector-width"="512" "min-legal-vector-width"="512" }
