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
  %t12 = bitcast i64 0 to i64
  br label %b1
b1:
  %t14 = phi i64 [ %t12, %b0 ], [ %t13, %b2 ]
  %t15 = mul i64 %t14, %t7
  %t16 = getelementptr i8, ptr %t5, i64 %t15
  %t17 = mul i64 %t14, %t11
  %t18 = getelementptr i8, ptr %t9, i64 %t17
  %t19 = bitcast float 0xFFF0000000000000 to float
  %t20 = bitcast i64 0 to i64
  br label %b3
b3:
  %t23 = phi i64 [ %t20, %b1 ], [ %t21, %b4 ]
  %t24 = phi float [ %t19, %b1 ], [ %t22, %b4 ]
  %t25 = bitcast i64 16384 to i64
  %t26 = add i64 %t23, %t25
  %t27 = icmp slt i64 %t26, %t3
  %t28 = select i1 %t27, i64 %t26, i64 %t3
  %t29 = bitcast <32 x float> <float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000> to <32 x float>
  %t30 = sub i64 %t28, %t23
  %t31 = bitcast i64 -32 to i64
  %t32 = and i64 %t30, %t31
  %t33 = add i64 %t23, %t32
  %t34 = icmp slt i64 %t23, %t33
  br i1 %t34, label %b5, label %b6
b5:
  br label %b7
b7:
  %t37 = phi i64 [ %t23, %b5 ], [ %t35, %b8 ]
  %t38 = phi <32 x float> [ %t29, %b5 ], [ %t36, %b8 ]
  %t39 = getelementptr float, ptr %t16, i64 %t37
  %t40 = load <32 x float>, ptr %t39, align 4
  %t41 = fcmp ogt <32 x float> %t38, %t40
  %t42 = select <32 x i1> %t41, <32 x float> %t38, <32 x float> %t40
  %t43 = fcmp uno <32 x float> %t38, %t38
  %t44 = select <32 x i1> %t43, <32 x float> %t38, <32 x float> %t42
  br label %b8
b8:
  %t36 = bitcast <32 x float> %t44 to <32 x float>
  %t35 = add nsw i64 %t37, 32
  %t45 = icmp slt i64 %t35, %t33
  br i1 %t45, label %b7, label %b9
b9:
  br label %b6
b6:
  %t46 = phi <32 x float> [ %t36, %b9 ], [ %t29, %b3 ]
  %t47 = icmp slt i64 %t33, %t28
  br i1 %t47, label %b10, label %b11
b10:
  %t48 = sub i64 %t28, %t33
  %t49 = trunc i64 %t48 to i8
  %t50 = insertelement <32 x i8> poison, i8 %t49, i64 0
  %t51 = shufflevector <32 x i8> %t50, <32 x i8> poison, <32 x i32> zeroinitializer
  %t52 = bitcast <32 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15, i8 16, i8 17, i8 18, i8 19, i8 20, i8 21, i8 22, i8 23, i8 24, i8 25, i8 26, i8 27, i8 28, i8 29, i8 30, i8 31> to <32 x i8>
  %t53 = icmp ult <32 x i8> %t52, %t51
  %t54 = getelementptr float, ptr %t16, i64 %t33
  %t55 = call <32 x float> @llvm.masked.load.v32f32.p0(ptr %t54, i32 4, <32 x i1> %t53, <32 x float> zeroinitializer)
  %t56 = fcmp ogt <32 x float> %t46, %t55
  %t57 = select <32 x i1> %t56, <32 x float> %t46, <32 x float> %t55
  %t58 = fcmp uno <32 x float> %t46, %t46
  %t59 = select <32 x i1> %t58, <32 x float> %t46, <32 x float> %t57
  %t60 = select <32 x i1> %t53, <32 x float> %t59, <32 x float> %t46
  br label %b11
b11:
  %t61 = phi <32 x float> [ %t60, %b10 ], [ %t46, %b6 ]
  %t62 = shufflevector <32 x float> %t61, <32 x float> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %t63 = shufflevector <32 x float> %t61, <32 x float> poison, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %t64 = fcmp ogt <16 x float> %t62, %t63
  %t65 = select <16 x i1> %t64, <16 x float> %t62, <16 x float> %t63
  %t66 = fcmp uno <16 x float> %t62, %t62
  %t67 = select <16 x i1> %t66, <16 x float> %t62, <16 x float> %t65
  %t68 = shufflevector <16 x float> %t67, <16 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %t69 = shufflevector <16 x float> %t67, <16 x float> poison, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %t70 = fcmp ogt <8 x float> %t68, %t69
  %t71 = select <8 x i1> %t70, <8 x float> %t68, <8 x float> %t69
  %t72 = fcmp uno <8 x float> %t68, %t68
  %t73 = select <8 x i1> %t72, <8 x float> %t68, <8 x float> %t71
  %t74 = shufflevector <8 x float> %t73, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t75 = shufflevector <8 x float> %t73, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t76 = fcmp ogt <4 x float> %t74, %t75
  %t77 = select <4 x i1> %t76, <4 x float> %t74, <4 x float> %t75
  %t78 = fcmp uno <4 x float> %t74, %t74
  %t79 = select <4 x i1> %t78, <4 x float> %t74, <4 x float> %t77
  %t80 = shufflevector <4 x float> %t79, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t81 = shufflevector <4 x float> %t79, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t82 = fcmp ogt <2 x float> %t80, %t81
  %t83 = select <2 x i1> %t82, <2 x float> %t80, <2 x float> %t81
  %t84 = fcmp uno <2 x float> %t80, %t80
  %t85 = select <2 x i1> %t84, <2 x float> %t80, <2 x float> %t83
  %t86 = extractelement <2 x float> %t85, i64 0
  %t87 = extractelement <2 x float> %t85, i64 1
  %t88 = fcmp ogt float %t86, %t87
  %t89 = select i1 %t88, float %t86, float %t87
  %t90 = fcmp uno float %t86, %t86
  %t91 = select i1 %t90, float %t86, float %t89
  %t92 = fcmp ogt float %t24, %t91
  %t93 = select i1 %t92, float %t24, float %t91
  %t94 = fcmp uno float %t24, %t24
  %t95 = select i1 %t94, float %t24, float %t93
  br label %b4
b4:
  %t22 = bitcast float %t95 to float
  %t21 = add nsw i64 %t23, 16384
  %t96 = icmp slt i64 %t21, %t3
  br i1 %t96, label %b3, label %b12
b12:
  %t97 = insertelement <32 x float> poison, float %t22, i64 0
  %t98 = shufflevector <32 x float> %t97, <32 x float> poison, <32 x i32> zeroinitializer
  %t99 = bitcast double 0x0000000000000000 to double
  %t100 = bitcast i64 0 to i64
  br label %b13
b13:
  %t103 = phi i64 [ %t100, %b12 ], [ %t101, %b14 ]
  %t104 = phi double [ %t99, %b12 ], [ %t102, %b14 ]
  %t105 = bitcast i64 16384 to i64
  %t106 = add i64 %t103, %t105
  %t107 = icmp slt i64 %t106, %t3
  %t108 = select i1 %t107, i64 %t106, i64 %t3
  %t109 = bitcast <32 x double> <double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000> to <32 x double>
  %t110 = sub i64 %t108, %t103
  %t111 = bitcast i64 -32 to i64
  %t112 = and i64 %t110, %t111
  %t113 = add i64 %t103, %t112
  %t114 = icmp slt i64 %t103, %t113
  br i1 %t114, label %b15, label %b16
b15:
  br label %b17
b17:
  %t117 = phi i64 [ %t103, %b15 ], [ %t115, %b18 ]
  %t118 = phi <32 x double> [ %t109, %b15 ], [ %t116, %b18 ]
  %t119 = getelementptr float, ptr %t16, i64 %t117
  %t120 = load <32 x float>, ptr %t119, align 4
  %t121 = fsub <32 x float> %t120, %t98
  %t122 = getelementptr i64, ptr %functions, i64 0
  %t123 = load ptr, ptr %t122, align 8
  %t124 = shufflevector <32 x float> %t121, <32 x float> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %t125 = call <16 x float> %t123(<16 x float> %t124)
  %t126 = shufflevector <32 x float> %t121, <32 x float> poison, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %t127 = call <16 x float> %t123(<16 x float> %t126)
  %t128 = shufflevector <16 x float> %t125, <16 x float> %t127, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %t129 = fpext <32 x float> %t128 to <32 x double>
  %t130 = fadd <32 x double> %t118, %t129
  %t131 = getelementptr float, ptr %t18, i64 %t117
  store <32 x float> %t128, ptr %t131, align 4
  br label %b18
b18:
  %t116 = bitcast <32 x double> %t130 to <32 x double>
  %t115 = add nsw i64 %t117, 32
  %t132 = icmp slt i64 %t115, %t113
  br i1 %t132, label %b17, label %b19
b19:
  br label %b16
b16:
  %t133 = phi <32 x double> [ %t116, %b19 ], [ %t109, %b13 ]
  %t134 = icmp slt i64 %t113, %t108
  br i1 %t134, label %b20, label %b21
b20:
  %t135 = sub i64 %t108, %t113
  %t136 = trunc i64 %t135 to i8
  %t137 = insertelement <32 x i8> poison, i8 %t136, i64 0
  %t138 = shufflevector <32 x i8> %t137, <32 x i8> poison, <32 x i32> zeroinitializer
  %t139 = bitcast <32 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15, i8 16, i8 17, i8 18, i8 19, i8 20, i8 21, i8 22, i8 23, i8 24, i8 25, i8 26, i8 27, i8 28, i8 29, i8 30, i8 31> to <32 x i8>
  %t140 = icmp ult <32 x i8> %t139, %t138
  %t141 = getelementptr float, ptr %t16, i64 %t113
  %t142 = call <32 x float> @llvm.masked.load.v32f32.p0(ptr %t141, i32 4, <32 x i1> %t140, <32 x float> zeroinitializer)
  %t143 = fsub <32 x float> %t142, %t98
  %t144 = getelementptr i64, ptr %functions, i64 0
  %t145 = load ptr, ptr %t144, align 8
  %t146 = shufflevector <32 x float> %t143, <32 x float> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %t147 = call <16 x float> %t145(<16 x float> %t146)
  %t148 = shufflevector <32 x float> %t143, <32 x float> poison, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %t149 = call <16 x float> %t145(<16 x float> %t148)
  %t150 = shufflevector <16 x float> %t147, <16 x float> %t149, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %t151 = fpext <32 x float> %t150 to <32 x double>
  %t152 = fadd <32 x double> %t133, %t151
  %t153 = select <32 x i1> %t140, <32 x double> %t152, <32 x double> %t133
  %t154 = getelementptr float, ptr %t18, i64 %t113
  call void @llvm.masked.store.v32f32.p0(<32 x float> %t150, ptr %t154, i32 4, <32 x i1> %t140)
  br label %b21
b21:
  %t155 = phi <32 x double> [ %t153, %b20 ], [ %t133, %b16 ]
  %t156 = shufflevector <32 x double> %t155, <32 x double> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %t157 = shufflevector <32 x double> %t155, <32 x double> poison, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %t158 = fadd <16 x double> %t156, %t157
  %t159 = shufflevector <16 x double> %t158, <16 x double> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %t160 = shufflevector <16 x double> %t158, <16 x double> poison, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %t161 = fadd <8 x double> %t159, %t160
  %t162 = shufflevector <8 x double> %t161, <8 x double> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t163 = shufflevector <8 x double> %t161, <8 x double> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t164 = fadd <4 x double> %t162, %t163
  %t165 = shufflevector <4 x double> %t164, <4 x double> poison, <2 x i32> <i32 0, i32 1>
  %t166 = shufflevector <4 x double> %t164, <4 x double> poison, <2 x i32> <i32 2, i32 3>
  %t167 = fadd <2 x double> %t165, %t166
  %t168 = extractelement <2 x double> %t167, i64 0
  %t169 = extractelement <2 x double> %t167, i64 1
  %t170 = fadd double %t168, %t169
  %t171 = fadd double %t104, %t170
  br label %b14
b14:
  %t102 = bitcast double %t171 to double
  %t101 = add nsw i64 %t103, 16384
  %t172 = icmp slt i64 %t101, %t3
  br i1 %t172, label %b13, label %b22
b22:
  %t173 = fptrunc double %t102 to float
  %t174 = insertelement <32 x float> poison, float %t173, i64 0
  %t175 = shufflevector <32 x float> %t174, <32 x float> poison, <32 x i32> zeroinitializer
  %t176 = bitcast i64 0 to i64
  %t177 = sub i64 %t3, %t176
  %t178 = bitcast i64 -32 to i64
  %t179 = and i64 %t177, %t178
  %t180 = add i64 %t176, %t179
  %t181 = icmp slt i64 %t176, %t180
  br i1 %t181, label %b23, label %b24
b23:
  br label %b25
b25:
  %t183 = phi i64 [ %t176, %b23 ], [ %t182, %b26 ]
  %t184 = getelementptr float, ptr %t18, i64 %t183
  %t185 = load <32 x float>, ptr %t184, align 4
  %t186 = fdiv <32 x float> %t185, %t175
  %t187 = getelementptr float, ptr %t18, i64 %t183
  store <32 x float> %t186, ptr %t187, align 4
  br label %b26
b26:
  %t182 = add nsw i64 %t183, 32
  %t188 = icmp slt i64 %t182, %t180
  br i1 %t188, label %b25, label %b27
b27:
  br label %b24
b24:
  %t189 = icmp slt i64 %t180, %t3
  br i1 %t189, label %b28, label %b29
b28:
  %t190 = sub i64 %t3, %t180
  %t191 = trunc i64 %t190 to i8
  %t192 = insertelement <32 x i8> poison, i8 %t191, i64 0
  %t193 = shufflevector <32 x i8> %t192, <32 x i8> poison, <32 x i32> zeroinitializer
  %t194 = bitcast <32 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15, i8 16, i8 17, i8 18, i8 19, i8 20, i8 21, i8 22, i8 23, i8 24, i8 25, i8 26, i8 27, i8 28, i8 29, i8 30, i8 31> to <32 x i8>
  %t195 = icmp ult <32 x i8> %t194, %t193
  %t196 = getelementptr float, ptr %t18, i64 %t180
  %t197 = call <32 x float> @llvm.masked.load.v32f32.p0(ptr %t196, i32 4, <32 x i1> %t195, <32 x float> zeroinitializer)
  %t198 = fdiv <32 x float> %t197, %t175
  %t199 = getelementptr float, ptr %t18, i64 %t180
  call void @llvm.masked.store.v32f32.p0(<32 x float> %t198, ptr %t199, i32 4, <32 x i1> %t195)
  br label %b29
b29:
  br label %b2
b2:
  %t13 = add nsw i64 %t14, 1
  %t200 = icmp slt i64 %t13, %t1
  br i1 %t200, label %b1, label %b30
b30:
  ret void
}

declare <32 x float> @llvm.masked.load.v32f32.p0(ptr, i32, <32 x i1>, <32 x float>)
declare void @llvm.masked.store.v32f32.p0(<32 x float>, ptr, i32, <32 x i1>)

attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64-v4" "target-features"="+cx8,+fxsr,+mmx,+sse,+sse2,+x87,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl" "prefer-vector-width"="512" "min-legal-vector-width"="512" }
