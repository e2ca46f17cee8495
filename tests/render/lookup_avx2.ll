target triple = "x86_64-unknown-linux-gnu"

define void @bti_run(ptr noalias %extent, ptr noalias %scalars, ptr noalias %address, ptr noalias %stride, ptr noalias %functions) #0 {
b0:
  %scratch = alloca [256 x i8], align 64
  %t0 = getelementptr i64, ptr %extent, i64 0
  %t1 = load i64, ptr %t0, align 8
  %t2 = getelementptr i64, ptr %address, i64 0
  %t3 = load ptr, ptr %t2, align 8
  %t4 = getelementptr i64, ptr %address, i64 1
  %t5 = load ptr, ptr %t4, align 8
  %t6 = getelementptr i64, ptr %address, i64 2
  %t7 = load ptr, ptr %t6, align 8
  %t8 = getelementptr i64, ptr %scalars, i64 0
  %t9 = load i64, ptr %t8, align 8
  %t10 = getelementptr i64, ptr %scalars, i64 1
  %t11 = load i64, ptr %t10, align 8
  %t12 = bitcast i64 0 to i64
  %t13 = sub i64 %t1, %t12
  %t14 = bitcast i64 -16 to i64
  %t15 = and i64 %t13, %t14
  %t16 = add i64 %t12, %t15
  %t17 = icmp slt i64 %t12, %t16
  br i1 %t17, label %b1, label %b2
b1:
  br label %b3
b3:
  %t19 = phi i64 [ %t12, %b1 ], [ %t18, %b4 ]
  %t20 = getelementptr i64, ptr %t3, i64 %t19
  %t21 = load <16 x i64>, ptr %t20, align 8
  %t22 = add <16 x i64> %t21, %t21
  %t23 = insertelement <16 x i64> poison, i64 %t9, i64 0
  %t24 = shufflevector <16 x i64> %t23, <16 x i64> poison, <16 x i32> zeroinitializer
  %t25 = insertelement <16 x i64> poison, i64 %t11, i64 0
  %t26 = shufflevector <16 x i64> %t25, <16 x i64> poison, <16 x i32> zeroinitializer
  %t27 = add <16 x i64> %t22, %t24
  %t28 = bitcast <16 x i64> <i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0> to <16 x i64>
  %t29 = icmp slt <16 x i64> %t22, %t28
  %t30 = select <16 x i1> %t29, <16 x i64> %t27, <16 x i64> %t22
  %t31 = icmp ult <16 x i64> %t30, %t24
  %t32 = bitcast <16 x i64> <i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0> to <16 x i64>
  %t33 = mul <16 x i64> %t30, %t26
  %t34 = select <16 x i1> %t31, <16 x i64> %t33, <16 x i64> %t32
  %t35 = extractelement <16 x i64> %t34, i64 0
  %t36 = getelementptr i8, ptr %t5, i64 %t35
  %t37 = load i16, ptr %t36
  %t38 = insertelement <16 x i16> poison, i16 %t37, i64 0
  %t39 = extractelement <16 x i64> %t34, i64 1
  %t40 = getelementptr i8, ptr %t5, i64 %t39
  %t41 = load i16, ptr %t40
  %t42 = insertelement <16 x i16> %t38, i16 %t41, i64 1
  %t43 = extractelement <16 x i64> %t34, i64 2
  %t44 = getelementptr i8, ptr %t5, i64 %t43
  %t45 = load i16, ptr %t44
  %t46 = insertelement <16 x i16> %t42, i16 %t45, i64 2
  %t47 = extractelement <16 x i64> %t34, i64 3
  %t48 = getelementptr i8, ptr %t5, i64 %t47
  %t49 = load i16, ptr %t48
  %t50 = insertelement <16 x i16> %t46, i16 %t49, i64 3
  %t51 = extractelement <16 x i64> %t34, i64 4
  %t52 = getelementptr i8, ptr %t5, i64 %t51
  %t53 = load i16, ptr %t52
  %t54 = insertelement <16 x i16> %t50, i16 %t53, i64 4
  %t55 = extractelement <16 x i64> %t34, i64 5
  %t56 = getelementptr i8, ptr %t5, i64 %t55
  %t57 = load i16, ptr %t56
  %t58 = insertelement <16 x i16> %t54, i16 %t57, i64 5
  %t59 = extractelement <16 x i64> %t34, i64 6
  %t60 = getelementptr i8, ptr %t5, i64 %t59
  %t61 = load i16, ptr %t60
  %t62 = insertelement <16 x i16> %t58, i16 %t61, i64 6
  %t63 = extractelement <16 x i64> %t34, i64 7
  %t64 = getelementptr i8, ptr %t5, i64 %t63
  %t65 = load i16, ptr %t64
  %t66 = insertelement <16 x i16> %t62, i16 %t65, i64 7
  %t67 = extractelement <16 x i64> %t34, i64 8
  %t68 = getelementptr i8, ptr %t5, i64 %t67
  %t69 = load i16, ptr %t68
  %t70 = insertelement <16 x i16> %t66, i16 %t69, i64 8
  %t71 = extractelement <16 x i64> %t34, i64 9
  %t72 = getelementptr i8, ptr %t5, i64 %t71
  %t73 = load i16, ptr %t72
  %t74 = insertelement <16 x i16> %t70, i16 %t73, i64 9
  %t75 = extractelement <16 x i64> %t34, i64 10
  %t76 = getelementptr i8, ptr %t5, i64 %t75
  %t77 = load i16, ptr %t76
  %t78 = insertelement <16 x i16> %t74, i16 %t77, i64 10
  %t79 = extractelement <16 x i64> %t34, i64 11
  %t80 = getelementptr i8, ptr %t5, i64 %t79
  %t81 = load i16, ptr %t80
  %t82 = insertelement <16 x i16> %t78, i16 %t81, i64 11
  %t83 = extractelement <16 x i64> %t34, i64 12
  %t84 = getelementptr i8, ptr %t5, i64 %t83
  %t85 = load i16, ptr %t84
  %t86 = insertelement <16 x i16> %t82, i16 %t85, i64 12
  %t87 = extractelement <16 x i64> %t34, i64 13
  %t88 = getelementptr i8, ptr %t5, i64 %t87
  %t89 = load i16, ptr %t88
  %t90 = insertelement <16 x i16> %t86, i16 %t89, i64 13
  %t91 = extractelement <16 x i64> %t34, i64 14
  %t92 = getelementptr i8, ptr %t5, i64 %t91
  %t93 = load i16, ptr %t92
  %t94 = insertelement <16 x i16> %t90, i16 %t93, i64 14
  %t95 = extractelement <16 x i64> %t34, i64 15
  %t96 = getelementptr i8, ptr %t5, i64 %t95
  %t97 = load i16, ptr %t96
  %t98 = insertelement <16 x i16> %t94, i16 %t97, i64 15
  %t99 = bitcast <16 x i16> <i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256> to <16 x i16>
  %t100 = select <16 x i1> %t31, <16 x i16> %t98, <16 x i16> %t99
  %t101 = bitcast <16 x i16> %t100 to <16 x half>
  %t102 = fpext <16 x half> %t101 to <16 x float>
  %t103 = getelementptr i16, ptr %t7, i64 %t19
  store <16 x i16> %t100, ptr %t103, align 2
  br label %b4
b4:
  %t18 = add nsw i64 %t19, 16
  %t104 = icmp slt i64 %t18, %t16
  br i1 %t104, label %b3, label %b5
b5:
  br label %b2
b2:
  %t105 = icmp slt i64 %t16, %t1
  br i1 %t105, label %b6, label %b7
b6:
  %t106 = sub i64 %t1, %t16
  %t107 = trunc i64 %t106 to i8
  %t108 = insertelement <16 x i8> poison, i8 %t107, i64 0
  %t109 = shufflevector <16 x i8> %t108, <16 x i8> poison, <16 x i32> zeroinitializer
  %t110 = bitcast <16 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15> to <16 x i8>
  %t111 = icmp ult <16 x i8> %t110, %t109
  %t112 = getelementptr i64, ptr %t3, i64 %t16
  %t113 = call <16 x i64> @llvm.masked.load.v16i64.p0(ptr %t112, i32 8, <16 x i1> %t111, <16 x i64> zeroinitializer)
  %t114 = add <16 x i64> %t113, %t113
  %t115 = insertelement <16 x i64> poison, i64 %t9, i64 0
  %t116 = shufflevector <16 x i64> %t115, <16 x i64> poison, <16 x i32> zeroinitializer
  %t117 = insertelement <16 x i64> poison, i64 %t11, i64 0
  %t118 = shufflevector <16 x i64> %t117, <16 x i64> poison, <16 x i32> zeroinitializer
  %t119 = add <16 x i64> %t114, %t116
  %t120 = bitcast <16 x i64> <i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0> to <16 x i64>
  %t121 = icmp slt <16 x i64> %t114, %t120
  %t122 = select <16 x i1> %t121, <16 x i64> %t119, <16 x i64> %t114
  %t123 = icmp ult <16 x i64> %t122, %t116
  %t124 = bitcast <16 x i64> <i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0> to <16 x i64>
  %t125 = mul <16 x i64> %t122, %t118
  %t126 = select <16 x i1> %t123, <16 x i64> %t125, <16 x i64> %t124
  %t127 = bitcast <16 x i64> <i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0> to <16 x i64>
  %t128 = select <16 x i1> %t111, <16 x i64> %t126, <16 x i64> %t127
  %t129 = extractelement <16 x i64> %t128, i64 0
  %t130 = getelementptr i8, ptr %t5, i64 %t129
  %t131 = load i16, ptr %t130
  %t132 = insertelement <16 x i16> poison, i16 %t131, i64 0
  %t133 = extractelement <16 x i64> %t128, i64 1
  %t134 = getelementptr i8, ptr %t5, i64 %t133
  %t135 = load i16, ptr %t134
  %t136 = insertelement <16 x i16> %t132, i16 %t135, i64 1
  %t137 = extractelement <16 x i64> %t128, i64 2
  %t138 = getelementptr i8, ptr %t5, i64 %t137
  %t139 = load i16, ptr %t138
  %t140 = insertelement <16 x i16> %t136, i16 %t139, i64 2
  %t141 = extractelement <16 x i64> %t128, i64 3
  %t142 = getelementptr i8, ptr %t5, i64 %t141
  %t143 = load i16, ptr %t142
  %t144 = insertelement <16 x i16> %t140, i16 %t143, i64 3
  %t145 = extractelement <16 x i64> %t128, i64 4
  %t146 = getelementptr i8, ptr %t5, i64 %t145
  %t147 = load i16, ptr %t146
  %t148 = insertelement <16 x i16> %t144, i16 %t147, i64 4
  %t149 = extractelement <16 x i64> %t128, i64 5
  %t150 = getelementptr i8, ptr %t5, i64 %t149
  %t151 = load i16, ptr %t150
  %t152 = insertelement <16 x i16> %t148, i16 %t151, i64 5
  %t153 = extractelement <16 x i64> %t128, i64 6
  %t154 = getelementptr i8, ptr %t5, i64 %t153
  %t155 = load i16, ptr %t154
  %t156 = insertelement <16 x i16> %t152, i16 %t155, i64 6
  %t157 = extractelement <16 x i64> %t128, i64 7
  %t158 = getelementptr i8, ptr %t5, i64 %t157
  %t159 = load i16, ptr %t158
  %t160 = insertelement <16 x i16> %t156, i16 %t159, i64 7
  %t161 = extractelement <16 x i64> %t128, i64 8
  %t162 = getelementptr i8, ptr %t5, i64 %t161
  %t163 = load i16, ptr %t162
  %t164 = insertelement <16 x i16> %t160, i16 %t163, i64 8
  %t165 = extractelement <16 x i64> %t128, i64 9
  %t166 = getelementptr i8, ptr %t5, i64 %t165
  %t167 = load i16, ptr %t166
  %t168 = insertelement <16 x i16> %t164, i16 %t167, i64 9
  %t169 = extractelement <16 x i64> %t128, i64 10
  %t170 = getelementptr i8, ptr %t5, i64 %t169
  %t171 = load i16, ptr %t170
  %t172 = insertelement <16 x i16> %t168, i16 %t171, i64 10
  %t173 = extractelement <16 x i64> %t128, i64 11
  %t174 = getelementptr i8, ptr %t5, i64 %t173
  %t175 = load i16, ptr %t174
  %t176 = insertelement <16 x i16> %t172, i16 %t175, i64 11
  %t177 = extractelement <16 x i64> %t128, i64 12
  %t178 = getelementptr i8, ptr %t5, i64 %t177
  %t179 = load i16, ptr %t178
  %t180 = insertelement <16 x i16> %t176, i16 %t179, i64 12
  %t181 = extractelement <16 x i64> %t128, i64 13
  %t182 = getelementptr i8, ptr %t5, i64 %t181
  %t183 = load i16, ptr %t182
  %t184 = insertelement <16 x i16> %t180, i16 %t183, i64 13
  %t185 = extractelement <16 x i64> %t128, i64 14
  %t186 = getelementptr i8, ptr %t5, i64 %t185
  %t187 = load i16, ptr %t186
  %t188 = insertelement <16 x i16> %t184, i16 %t187, i64 14
  %t189 = extractelement <16 x i64> %t128, i64 15
  %t190 = getelementptr i8, ptr %t5, i64 %t189
  %t191 = load i16, ptr %t190
  %t192 = insertelement <16 x i16> %t188, i16 %t191, i64 15
  %t193 = bitcast <16 x i16> <i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256, i16 32256> to <16 x i16>
  %t194 = select <16 x i1> %t123, <16 x i16> %t192, <16 x i16> %t193
  %t195 = bitcast <16 x i16> %t194 to <16 x half>
  %t196 = fpext <16 x half> %t195 to <16 x float>
  %t197 = getelementptr i16, ptr %t7, i64 %t16
  store <16 x i16> %t194, ptr %scratch, align 64
  call void @copy_2(ptr %t197, i64 2, ptr %scratch, i64 2, i64 %t106)
  br label %b7
b7:
  ret void
}

define internal void @copy_2(ptr %to, i64 %to_step, ptr %from, i64 %from_step, i64 %count) #0 {
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %from_offset = mul i64 %i, %from_step
  %from_at = getelementptr i8, ptr %from, i64 %from_offset
  %element = load i16, ptr %from_at
  %to_offset = mul i64 %i, %to_step
  %to_at = getelementptr i8, ptr %to, i64 %to_offset
  store i16 %element, ptr %to_at
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}

declare <16 x i64> @llvm.masked.load.v16i64.p0(ptr, i32, <16 x i1>, <16 x i64>)

attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64-v3" "target-features"="+cx8,+fxsr,+mmx,+sse,+sse2,+x87,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe" "prefer-vector-width"="256" "min-legal-vector-width"="256" }
