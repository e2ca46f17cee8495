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
  %t10 = getelementptr i64, ptr %address, i64 2
  %t11 = load ptr, ptr %t10, align 8
  %t12 = getelementptr i64, ptr %stride, i64 16
  %t13 = load i64, ptr %t12, align 8
  %t14 = getelementptr i64, ptr %scalars, i64 0
  %t15 = load double, ptr %t14, align 8
  %t16 = fptrunc double %t15 to float
  %t17 = getelementptr i64, ptr %scalars, i64 1
  %t18 = load double, ptr %t17, align 8
  %t19 = fptrunc double %t18 to float
  %t20 = bitcast i64 0 to i64
  br label %b1
b1:
  %t22 = phi i64 [ %t20, %b0 ], [ %t21, %b2 ]
  %t23 = mul i64 %t22, %t7
  %t24 = getelementptr i8, ptr %t5, i64 %t23
  %t25 = mul i64 %t22, %t13
  %t26 = getelementptr i8, ptr %t11, i64 %t25
  %t27 = bitcast double 0x0000000000000000 to double
  %t28 = bitcast i64 0 to i64
  br label %b3
b3:
  %t31 = phi i64 [ %t28, %b1 ], [ %t29, %b4 ]
  %t32 = phi double [ %t27, %b1 ], [ %t30, %b4 ]
  %t33 = bitcast i64 16384 to i64
  %t34 = add i64 %t31, %t33
  %t35 = icmp slt i64 %t34, %t3
  %t36 = select i1 %t35, i64 %t34, i64 %t3
  %t37 = bitcast <32 x double> <double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000> to <32 x double>
  %t38 = sub i64 %t36, %t31
  %t39 = bitcast i64 -32 to i64
  %t40 = and i64 %t38, %t39
  %t41 = add i64 %t31, %t40
  %t42 = icmp slt i64 %t31, %t41
  br i1 %t42, label %b5, label %b6
b5:
  br label %b7
b7:
  %t45 = phi i64 [ %t31, %b5 ], [ %t43, %b8 ]
  %t46 = phi <32 x double> [ %t37, %b5 ], [ %t44, %b8 ]
  %t47 = getelementptr float, ptr %t24, i64 %t45
  %t48 = load <32 x float>, ptr %t47, align 4
  %t49 = fpext <32 x float> %t48 to <32 x double>
  %t50 = fadd <32 x double> %t46, %t49
  br label %b8
b8:
  %t44 = bitcast <32 x double> %t50 to <32 x double>
  %t43 = add nsw i64 %t45, 32
  %t51 = icmp slt i64 %t43, %t41
  br i1 %t51, label %b7, label %b9
b9:
  br label %b6
b6:
  %t52 = phi <32 x double> [ %t44, %b9 ], [ %t37, %b3 ]
  %t53 = icmp slt i64 %t41, %t36
  br i1 %t53, label %b10, label %b11
b10:
  %t54 = sub i64 %t36, %t41
  %t55 = trunc i64 %t54 to i8
  %t56 = insertelement <32 x i8> poison, i8 %t55, i64 0
  %t57 = shufflevector <32 x i8> %t56, <32 x i8> poison, <32 x i32> zeroinitializer
  %t58 = bitcast <32 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15, i8 16, i8 17, i8 18, i8 19, i8 20, i8 21, i8 22, i8 23, i8 24, i8 25, i8 26, i8 27, i8 28, i8 29, i8 30, i8 31> to <32 x i8>
  %t59 = icmp ult <32 x i8> %t58, %t57
  %t60 = getelementptr float, ptr %t24, i64 %t41
  %t61 = call <32 x float> @llvm.masked.load.v32f32.p0(ptr %t60, i32 4, <32 x i1> %t59, <32 x float> zeroinitializer)
  %t62 = fpext <32 x float> %t61 to <32 x double>
  %t63 = fadd <32 x double> %t52, %t62
  %t64 = select <32 x i1> %t59, <32 x double> %t63, <32 x double> %t52
  br label %b11
b11:
  %t65 = phi <32 x double> [ %t64, %b10 ], [ %t52, %b6 ]
  %t66 = shufflevector <32 x double> %t65, <32 x double> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %t67 = shufflevector <32 x double> %t65, <32 x double> poison, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %t68 = fadd <16 x double> %t66, %t67
  %t69 = shufflevector <16 x double> %t68, <16 x double> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %t70 = shufflevector <16 x double> %t68, <16 x double> poison, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %t71 = fadd <8 x double> %t69, %t70
  %t72 = shufflevector <8 x double> %t71, <8 x double> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t73 = shufflevector <8 x double> %t71, <8 x double> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t74 = fadd <4 x double> %t72, %t73
  %t75 = shufflevector <4 x double> %t74, <4 x double> poison, <2 x i32> <i32 0, i32 1>
  %t76 = shufflevector <4 x double> %t74, <4 x double> poison, <2 x i32> <i32 2, i32 3>
  %t77 = fadd <2 x double> %t75, %t76
  %t78 = extractelement <2 x double> %t77, i64 0
  %t79 = extractelement <2 x double> %t77, i64 1
  %t80 = fadd double %t78, %t79
  %t81 = fadd double %t32, %t80
  br label %b4
b4:
  %t30 = bitcast double %t81 to double
  %t29 = add nsw i64 %t31, 16384
  %t82 = icmp slt i64 %t29, %t3
  br i1 %t82, label %b3, label %b12
b12:
  %t83 = fptrunc double %t30 to float
  %t84 = fmul float %t83, %t16
  %t85 = insertelement <32 x float> poison, float %t84, i64 0
  %t86 = shufflevector <32 x float> %t85, <32 x float> poison, <32 x i32> zeroinitializer
  %t87 = bitcast double 0x0000000000000000 to double
  %t88 = bitcast i64 0 to i64
  br label %b13
b13:
  %t91 = phi i64 [ %t88, %b12 ], [ %t89, %b14 ]
  %t92 = phi double [ %t87, %b12 ], [ %t90, %b14 ]
  %t93 = bitcast i64 16384 to i64
  %t94 = add i64 %t91, %t93
  %t95 = icmp slt i64 %t94, %t3
  %t96 = select i1 %t95, i64 %t94, i64 %t3
  %t97 = bitcast <32 x double> <double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000> to <32 x double>
  %t98 = sub i64 %t96, %t91
  %t99 = bitcast i64 -32 to i64
  %t100 = and i64 %t98, %t99
  %t101 = add i64 %t91, %t100
  %t102 = icmp slt i64 %t91, %t101
  br i1 %t102, label %b15, label %b16
b15:
  br label %b17
b17:
  %t105 = phi i64 [ %t91, %b15 ], [ %t103, %b18 ]
  %t106 = phi <32 x double> [ %t97, %b15 ], [ %t104, %b18 ]
  %t107 = getelementptr float, ptr %t24, i64 %t105
  %t108 = load <32 x float>, ptr %t107, align 4
  %t109 = fsub <32 x float> %t108, %t86
  %t110 = fmul <32 x float> %t109, %t109
  %t111 = fpext <32 x float> %t110 to <32 x double>
  %t112 = fadd <32 x double> %t106, %t111
  br label %b18
b18:
  %t104 = bitcast <32 x double> %t112 to <32 x double>
  %t103 = add nsw i64 %t105, 32
  %t113 = icmp slt i64 %t103, %t101
  br i1 %t113, label %b17, label %b19
b19:
  br label %b16
b16:
  %t114 = phi <32 x double> [ %t104, %b19 ], [ %t97, %b13 ]
  %t115 = icmp slt i64 %t101, %t96
  br i1 %t115, label %b20, label %b21
b20:
  %t116 = sub i64 %t96, %t101
  %t117 = trunc i64 %t116 to i8
  %t118 = insertelement <32 x i8> poison, i8 %t117, i64 0
  %t119 = shufflevector <32 x i8> %t118, <32 x i8> poison, <32 x i32> zeroinitializer
  %t120 = bitcast <32 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15, i8 16, i8 17, i8 18, i8 19, i8 20, i8 21, i8 22, i8 23, i8 24, i8 25, i8 26, i8 27, i8 28, i8 29, i8 30, i8 31> to <32 x i8>
  %t121 = icmp ult <32 x i8> %t120, %t119
  %t122 = getelementptr float, ptr %t24, i64 %t101
  %t123 = call <32 x float> @llvm.masked.load.v32f32.p0(ptr %t122, i32 4, <32 x i1> %t121, <32 x float> zeroinitializer)
  %t124 = fsub <32 x float> %t123, %t86
  %t125 = fmul <32 x float> %t124, %t124
  %t126 = fpext <32 x float> %t125 to <32 x double>
  %t127 = fadd <32 x double> %t114, %t126
  %t128 = select <32 x i1> %t121, <32 x double> %t127, <32 x double> %t114
  br label %b21
b21:
  %t129 = phi <32 x double> [ %t128, %b20 ], [ %t114, %b16 ]
  %t130 = shufflevector <32 x double> %t129, <32 x double> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %t131 = shufflevector <32 x double> %t129, <32 x double> poison, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %t132 = fadd <16 x double> %t130, %t131
  %t133 = shufflevector <16 x double> %t132, <16 x double> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %t134 = shufflevector <16 x double> %t132, <16 x double> poison, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %t135 = fadd <8 x double> %t133, %t134
  %t136 = shufflevector <8 x double> %t135, <8 x double> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t137 = shufflevector <8 x double> %t135, <8 x double> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t138 = fadd <4 x double> %t136, %t137
  %t139 = shufflevector <4 x double> %t138, <4 x double> poison, <2 x i32> <i32 0, i32 1>
  %t140 = shufflevector <4 x double> %t138, <4 x double> poison, <2 x i32> <i32 2, i32 3>
  %t141 = fadd <2 x double> %t139, %t140
  %t142 = extractelement <2 x double> %t141, i64 0
  %t143 = extractelement <2 x double> %t141, i64 1
  %t144 = fadd double %t142, %t143
  %t145 = fadd double %t92, %t144
  br label %b14
b14:
  %t90 = bitcast double %t145 to double
  %t89 = add nsw i64 %t91, 16384
  %t146 = icmp slt i64 %t89, %t3
  br i1 %t146, label %b13, label %b22
b22:
  %t147 = fptrunc double %t90 to float
  %t148 = fmul float %t147, %t16
  %t149 = fadd float %t148, %t19
  %t150 = bitcast float 0x3FF0000000000000 to float
  %t151 = call float @llvm.sqrt.f32(float %t149)
  %t152 = fdiv float %t150, %t151
  %t153 = insertelement <32 x float> poison, float %t152, i64 0
  %t154 = shufflevector <32 x float> %t153, <32 x float> poison, <32 x i32> zeroinitializer
  %t155 = bitcast i64 0 to i64
  %t156 = sub i64 %t3, %t155
  %t157 = bitcast i64 -32 to i64
  %t158 = and i64 %t156, %t157
  %t159 = add i64 %t155, %t158
  %t160 = icmp slt i64 %t155, %t159
  br i1 %t160, label %b23, label %b24
b23:
  br label %b25
b25:
  %t162 = phi i64 [ %t155, %b23 ], [ %t161, %b26 ]
  %t163 = getelementptr float, ptr %t24, i64 %t162
  %t164 = load <32 x float>, ptr %t163, align 4
  %t165 = getelementptr float, ptr %t9, i64 %t162
  %t166 = load <32 x float>, ptr %t165, align 4
  %t167 = fsub <32 x float> %t164, %t86
  %t168 = fmul <32 x float> %t167, %t154
  %t169 = fmul <32 x float> %t168, %t166
  %t170 = getelementptr float, ptr %t26, i64 %t162
  store <32 x float> %t169, ptr %t170, align 4
  br label %b26
b26:
  %t161 = add nsw i64 %t162, 32
  %t171 = icmp slt i64 %t161, %t159
  br i1 %t171, label %b25, label %b27
b27:
  br label %b24
b24:
  %t172 = icmp slt i64 %t159, %t3
  br i1 %t172, label %b28, label %b29
b28:
  %t173 = sub i64 %t3, %t159
  %t174 = trunc i64 %t173 to i8
  %t175 = insertelement <32 x i8> poison, i8 %t174, i64 0
  %t176 = shufflevector <32 x i8> %t175, <32 x i8> poison, <32 x i32> zeroinitializer
  %t177 = bitcast <32 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15, i8 16, i8 17, i8 18, i8 19, i8 20, i8 21, i8 22, i8 23, i8 24, i8 25, i8 26, i8 27, i8 28, i8 29, i8 30, i8 31> to <32 x i8>
  %t178 = icmp ult <32 x i8> %t177, %t176
  %t179 = getelementptr float, ptr %t24, i64 %t159
  %t180 = call <32 x float> @llvm.masked.load.v32f32.p0(ptr %t179, i32 4, <32 x i1> %t178, <32 x float> zeroinitializer)
  %t181 = getelementptr float, ptr %t9, i64 %t159
  %t182 = call <32 x float> @llvm.masked.load.v32f32.p0(ptr %t181, i32 4, <32 x i1> %t178, <32 x float> zeroinitializer)
  %t183 = fsub <32 x float> %t180, %t86
  %t184 = fmul <32 x float> %t183, %t154
  %t185 = fmul <32 x float> %t184, %t182
  %t186 = getelementptr float, ptr %t26, i64 %t159
  call void @llvm.masked.store.v32f32.p0(<32 x float> %t185, ptr %t186, i32 4, <32 x i1> %t178)
  br label %b29
b29:
  br label %b2
b2:
  %t21 = add nsw i64 %t22, 1
  %t187 = icmp slt i64 %t21, %t1
  br i1 %t187, label %b1, label %b30
b30:
  ret void
}

declare <32 x float> @llvm.masked.load.v32f32.p0(ptr, i32, <32 x i1>, <32 x float>)
declare float @llvm.sqrt.f32(float)
declare void @llvm.masked.store.v32f32.p0(<32 x float>, ptr, i32, <32 x i1>)

attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64-v3" "target-features"="+cx8,+fxsr,+mmx,+sse,+sse2,+x87,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe" "prefer-vector-width"="256" "min-legal-vector-width"="256" }
