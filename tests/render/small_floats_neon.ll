target triple = "aarch64-unknown-linux-gnu"

define void @bti_run(ptr noalias %extent, ptr noalias %scalars, ptr noalias %address, ptr noalias %stride, ptr noalias %functions) #0 {
b0:
  %scratch = alloca [256 x i8], align 64
  %t0 = getelementptr i64, ptr %extent, i64 0
  %t1 = load i64, ptr %t0, align 8
  %t2 = getelementptr i64, ptr %address, i64 0
  %t3 = load ptr, ptr %t2, align 8
  %t4 = getelementptr i64, ptr %address, i64 1
  %t5 = load ptr, ptr %t4, align 8
  %t6 = getelementptr i64, ptr %stride, i64 8
  %t7 = load i64, ptr %t6, align 8
  %t8 = getelementptr i64, ptr %address, i64 2
  %t9 = load ptr, ptr %t8, align 8
  %t10 = getelementptr i64, ptr %address, i64 3
  %t11 = load ptr, ptr %t10, align 8
  %t12 = getelementptr i64, ptr %stride, i64 24
  %t13 = load i64, ptr %t12, align 8
  %t14 = bitcast i64 0 to i64
  %t15 = sub i64 %t1, %t14
  %t16 = bitcast i64 -16 to i64
  %t17 = and i64 %t15, %t16
  %t18 = add i64 %t14, %t17
  %t19 = icmp slt i64 %t14, %t18
  br i1 %t19, label %b1, label %b2
b1:
  br label %b3
b3:
  %t21 = phi i64 [ %t14, %b1 ], [ %t20, %b4 ]
  %t22 = getelementptr i16, ptr %t3, i64 %t21
  %t23 = load <16 x i16>, ptr %t22, align 2
  %t24 = bitcast <16 x i16> %t23 to <16 x half>
  %t25 = fpext <16 x half> %t24 to <16 x float>
  %t26 = mul i64 %t21, %t7
  %t27 = getelementptr i8, ptr %t5, i64 %t26
  %t28 = load i16, ptr %t27
  %t29 = insertelement <16 x i16> poison, i16 %t28, i64 0
  %t30 = getelementptr i8, ptr %t27, i64 %t7
  %t31 = load i16, ptr %t30
  %t32 = insertelement <16 x i16> %t29, i16 %t31, i64 1
  %t33 = getelementptr i8, ptr %t30, i64 %t7
  %t34 = load i16, ptr %t33
  %t35 = insertelement <16 x i16> %t32, i16 %t34, i64 2
  %t36 = getelementptr i8, ptr %t33, i64 %t7
  %t37 = load i16, ptr %t36
  %t38 = insertelement <16 x i16> %t35, i16 %t37, i64 3
  %t39 = getelementptr i8, ptr %t36, i64 %t7
  %t40 = load i16, ptr %t39
  %t41 = insertelement <16 x i16> %t38, i16 %t40, i64 4
  %t42 = getelementptr i8, ptr %t39, i64 %t7
  %t43 = load i16, ptr %t42
  %t44 = insertelement <16 x i16> %t41, i16 %t43, i64 5
  %t45 = getelementptr i8, ptr %t42, i64 %t7
  %t46 = load i16, ptr %t45
  %t47 = insertelement <16 x i16> %t44, i16 %t46, i64 6
  %t48 = getelementptr i8, ptr %t45, i64 %t7
  %t49 = load i16, ptr %t48
  %t50 = insertelement <16 x i16> %t47, i16 %t49, i64 7
  %t51 = getelementptr i8, ptr %t48, i64 %t7
  %t52 = load i16, ptr %t51
  %t53 = insertelement <16 x i16> %t50, i16 %t52, i64 8
  %t54 = getelementptr i8, ptr %t51, i64 %t7
  %t55 = load i16, ptr %t54
  %t56 = insertelement <16 x i16> %t53, i16 %t55, i64 9
  %t57 = getelementptr i8, ptr %t54, i64 %t7
  %t58 = load i16, ptr %t57
  %t59 = insertelement <16 x i16> %t56, i16 %t58, i64 10
  %t60 = getelementptr i8, ptr %t57, i64 %t7
  %t61 = load i16, ptr %t60
  %t62 = insertelement <16 x i16> %t59, i16 %t61, i64 11
  %t63 = getelementptr i8, ptr %t60, i64 %t7
  %t64 = load i16, ptr %t63
  %t65 = insertelement <16 x i16> %t62, i16 %t64, i64 12
  %t66 = getelementptr i8, ptr %t63, i64 %t7
  %t67 = load i16, ptr %t66
  %t68 = insertelement <16 x i16> %t65, i16 %t67, i64 13
  %t69 = getelementptr i8, ptr %t66, i64 %t7
  %t70 = load i16, ptr %t69
  %t71 = insertelement <16 x i16> %t68, i16 %t70, i64 14
  %t72 = getelementptr i8, ptr %t69, i64 %t7
  %t73 = load i16, ptr %t72
  %t74 = insertelement <16 x i16> %t71, i16 %t73, i64 15
  %t75 = zext <16 x i16> %t74 to <16 x i32>
  %t76 = bitcast <16 x i32> <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16> to <16 x i32>
  %t77 = shl <16 x i32> %t75, %t76
  %t78 = bitcast <16 x i32> %t77 to <16 x float>
  %t79 = fmul <16 x float> %t25, %t25
  %t80 = fptrunc <16 x float> %t79 to <16 x half>
  %t81 = bitcast <16 x half> %t80 to <16 x i16>
  %t82 = bitcast <16 x i16> %t81 to <16 x half>
  %t83 = fpext <16 x half> %t82 to <16 x float>
  %t84 = fpext <16 x float> %t78 to <16 x double>
  %t85 = bitcast <16 x double> %t84 to <16 x i64>
  %t86 = bitcast <16 x i64> <i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48> to <16 x i64>
  %t87 = lshr <16 x i64> %t85, %t86
  %t88 = bitcast <16 x i64> <i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807> to <16 x i64>
  %t89 = and <16 x i64> %t85, %t88
  %t90 = bitcast <16 x i64> <i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45> to <16 x i64>
  %t91 = lshr <16 x i64> %t89, %t90
  %t92 = bitcast <16 x i64> <i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1> to <16 x i64>
  %t93 = and <16 x i64> %t91, %t92
  %t94 = add <16 x i64> %t89, %t93
  %t95 = bitcast <16 x i64> <i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001> to <16 x i64>
  %t96 = add <16 x i64> %t94, %t95
  %t97 = bitcast <16 x i64> <i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45> to <16 x i64>
  %t98 = lshr <16 x i64> %t96, %t97
  %t99 = bitcast <16 x i64> <i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232> to <16 x i64>
  %t100 = bitcast <16 x i64> %t99 to <16 x double>
  %t101 = bitcast <16 x i64> %t89 to <16 x double>
  %t102 = fadd <16 x double> %t101, %t100
  %t103 = bitcast <16 x double> %t102 to <16 x i64>
  %t104 = bitcast <16 x i64> <i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232> to <16 x i64>
  %t105 = sub <16 x i64> %t103, %t104
  %t106 = bitcast <16 x i64> <i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127> to <16 x i64>
  %t107 = and <16 x i64> %t91, %t106
  %t108 = bitcast <16 x i64> <i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704> to <16 x i64>
  %t109 = or <16 x i64> %t107, %t108
  %t110 = bitcast <16 x i64> <i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912> to <16 x i64>
  %t111 = icmp ult <16 x i64> %t89, %t110
  %t112 = select <16 x i1> %t111, <16 x i64> %t105, <16 x i64> %t98
  %t113 = bitcast <16 x i64> <i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640> to <16 x i64>
  %t114 = bitcast <16 x i64> <i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896> to <16 x i64>
  %t115 = icmp uge <16 x i64> %t89, %t114
  %t116 = select <16 x i1> %t115, <16 x i64> %t113, <16 x i64> %t112
  %t117 = fcmp uno <16 x double> %t84, %t84
  %t118 = select <16 x i1> %t117, <16 x i64> %t109, <16 x i64> %t116
  %t119 = bitcast <16 x i64> <i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768> to <16 x i64>
  %t120 = and <16 x i64> %t87, %t119
  %t121 = or <16 x i64> %t118, %t120
  %t122 = trunc <16 x i64> %t121 to <16 x i16>
  %t123 = zext <16 x i16> %t122 to <16 x i32>
  %t124 = bitcast <16 x i32> <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16> to <16 x i32>
  %t125 = shl <16 x i32> %t123, %t124
  %t126 = bitcast <16 x i32> %t125 to <16 x float>
  %t127 = getelementptr i16, ptr %t9, i64 %t21
  store <16 x i16> %t81, ptr %t127, align 2
  %t128 = mul i64 %t21, %t13
  %t129 = getelementptr i8, ptr %t11, i64 %t128
  %t130 = extractelement <16 x i16> %t122, i64 0
  store i16 %t130, ptr %t129
  %t131 = extractelement <16 x i16> %t122, i64 1
  %t132 = getelementptr i8, ptr %t129, i64 %t13
  store i16 %t131, ptr %t132
  %t133 = extractelement <16 x i16> %t122, i64 2
  %t134 = getelementptr i8, ptr %t132, i64 %t13
  store i16 %t133, ptr %t134
  %t135 = extractelement <16 x i16> %t122, i64 3
  %t136 = getelementptr i8, ptr %t134, i64 %t13
  store i16 %t135, ptr %t136
  %t137 = extractelement <16 x i16> %t122, i64 4
  %t138 = getelementptr i8, ptr %t136, i64 %t13
  store i16 %t137, ptr %t138
  %t139 = extractelement <16 x i16> %t122, i64 5
  %t140 = getelementptr i8, ptr %t138, i64 %t13
  store i16 %t139, ptr %t140
  %t141 = extractelement <16 x i16> %t122, i64 6
  %t142 = getelementptr i8, ptr %t140, i64 %t13
  store i16 %t141, ptr %t142
  %t143 = extractelement <16 x i16> %t122, i64 7
  %t144 = getelementptr i8, ptr %t142, i64 %t13
  store i16 %t143, ptr %t144
  %t145 = extractelement <16 x i16> %t122, i64 8
  %t146 = getelementptr i8, ptr %t144, i64 %t13
  store i16 %t145, ptr %t146
  %t147 = extractelement <16 x i16> %t122, i64 9
  %t148 = getelementptr i8, ptr %t146, i64 %t13
  store i16 %t147, ptr %t148
  %t149 = extractelement <16 x i16> %t122, i64 10
  %t150 = getelementptr i8, ptr %t148, i64 %t13
  store i16 %t149, ptr %t150
  %t151 = extractelement <16 x i16> %t122, i64 11
  %t152 = getelementptr i8, ptr %t150, i64 %t13
  store i16 %t151, ptr %t152
  %t153 = extractelement <16 x i16> %t122, i64 12
  %t154 = getelementptr i8, ptr %t152, i64 %t13
  store i16 %t153, ptr %t154
  %t155 = extractelement <16 x i16> %t122, i64 13
  %t156 = getelementptr i8, ptr %t154, i64 %t13
  store i16 %t155, ptr %t156
  %t157 = extractelement <16 x i16> %t122, i64 14
  %t158 = getelementptr i8, ptr %t156, i64 %t13
  store i16 %t157, ptr %t158
  %t159 = extractelement <16 x i16> %t122, i64 15
  %t160 = getelementptr i8, ptr %t158, i64 %t13
  store i16 %t159, ptr %t160
  br label %b4
b4:
  %t20 = add nsw i64 %t21, 16
  %t161 = icmp slt i64 %t20, %t18
  br i1 %t161, label %b3, label %b5
b5:
  br label %b2
b2:
  %t162 = icmp slt i64 %t18, %t1
  br i1 %t162, label %b6, label %b7
b6:
  %t163 = sub i64 %t1, %t18
  %t164 = trunc i64 %t163 to i8
  %t165 = insertelement <16 x i8> poison, i8 %t164, i64 0
  %t166 = shufflevector <16 x i8> %t165, <16 x i8> poison, <16 x i32> zeroinitializer
  %t167 = bitcast <16 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15> to <16 x i8>
  %t168 = icmp ult <16 x i8> %t167, %t166
  %t169 = getelementptr i16, ptr %t3, i64 %t18
  store <16 x i16> zeroinitializer, ptr %scratch, align 64
  call void @copy_2(ptr %scratch, i64 2, ptr %t169, i64 2, i64 %t163)
  %t170 = load <16 x i16>, ptr %scratch, align 64
  %t171 = bitcast <16 x i16> %t170 to <16 x half>
  %t172 = fpext <16 x half> %t171 to <16 x float>
  %t173 = mul i64 %t18, %t7
  %t174 = getelementptr i8, ptr %t5, i64 %t173
  store <16 x i16> zeroinitializer, ptr %scratch, align 64
  call void @copy_2(ptr %scratch, i64 2, ptr %t174, i64 %t7, i64 %t163)
  %t175 = load <16 x i16>, ptr %scratch, align 64
  %t176 = zext <16 x i16> %t175 to <16 x i32>
  %t177 = bitcast <16 x i32> <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16> to <16 x i32>
  %t178 = shl <16 x i32> %t176, %t177
  %t179 = bitcast <16 x i32> %t178 to <16 x float>
  %t180 = fmul <16 x float> %t172, %t172
  %t181 = fptrunc <16 x float> %t180 to <16 x half>
  %t182 = bitcast <16 x half> %t181 to <16 x i16>
  %t183 = bitcast <16 x i16> %t182 to <16 x half>
  %t184 = fpext <16 x half> %t183 to <16 x float>
  %t185 = fpext <16 x float> %t179 to <16 x double>
  %t186 = bitcast <16 x double> %t185 to <16 x i64>
  %t187 = bitcast <16 x i64> <i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48, i64 48> to <16 x i64>
  %t188 = lshr <16 x i64> %t186, %t187
  %t189 = bitcast <16 x i64> <i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807, i64 9223372036854775807> to <16 x i64>
  %t190 = and <16 x i64> %t186, %t189
  %t191 = bitcast <16 x i64> <i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45> to <16 x i64>
  %t192 = lshr <16 x i64> %t190, %t191
  %t193 = bitcast <16 x i64> <i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1, i64 1> to <16 x i64>
  %t194 = and <16 x i64> %t192, %t193
  %t195 = add <16 x i64> %t190, %t194
  %t196 = bitcast <16 x i64> <i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001, i64 -4035207673937920001> to <16 x i64>
  %t197 = add <16 x i64> %t195, %t196
  %t198 = bitcast <16 x i64> <i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45, i64 45> to <16 x i64>
  %t199 = lshr <16 x i64> %t197, %t198
  %t200 = bitcast <16 x i64> <i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232> to <16 x i64>
  %t201 = bitcast <16 x i64> %t200 to <16 x double>
  %t202 = bitcast <16 x i64> %t190 to <16 x double>
  %t203 = fadd <16 x double> %t202, %t201
  %t204 = bitcast <16 x double> %t203 to <16 x i64>
  %t205 = bitcast <16 x i64> <i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232, i64 4242390848983007232> to <16 x i64>
  %t206 = sub <16 x i64> %t204, %t205
  %t207 = bitcast <16 x i64> <i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127, i64 127> to <16 x i64>
  %t208 = and <16 x i64> %t192, %t207
  %t209 = bitcast <16 x i64> <i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704, i64 32704> to <16 x i64>
  %t210 = or <16 x i64> %t208, %t209
  %t211 = bitcast <16 x i64> <i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912, i64 4039728865751334912> to <16 x i64>
  %t212 = icmp ult <16 x i64> %t190, %t211
  %t213 = select <16 x i1> %t212, <16 x i64> %t206, <16 x i64> %t199
  %t214 = bitcast <16 x i64> <i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640, i64 32640> to <16 x i64>
  %t215 = bitcast <16 x i64> <i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896, i64 5183643171103440896> to <16 x i64>
  %t216 = icmp uge <16 x i64> %t190, %t215
  %t217 = select <16 x i1> %t216, <16 x i64> %t214, <16 x i64> %t213
  %t218 = fcmp uno <16 x double> %t185, %t185
  %t219 = select <16 x i1> %t218, <16 x i64> %t210, <16 x i64> %t217
  %t220 = bitcast <16 x i64> <i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768, i64 32768> to <16 x i64>
  %t221 = and <16 x i64> %t188, %t220
  %t222 = or <16 x i64> %t219, %t221
  %t223 = trunc <16 x i64> %t222 to <16 x i16>
  %t224 = zext <16 x i16> %t223 to <16 x i32>
  %t225 = bitcast <16 x i32> <i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16, i32 16> to <16 x i32>
  %t226 = shl <16 x i32> %t224, %t225
  %t227 = bitcast <16 x i32> %t226 to <16 x float>
  %t228 = getelementptr i16, ptr %t9, i64 %t18
  store <16 x i16> %t182, ptr %scratch, align 64
  call void @copy_2(ptr %t228, i64 2, ptr %scratch, i64 2, i64 %t163)
  %t229 = mul i64 %t18, %t13
  %t230 = getelementptr i8, ptr %t11, i64 %t229
  store <16 x i16> %t223, ptr %scratch, align 64
  call void @copy_2(ptr %t230, i64 %t13, ptr %scratch, i64 2, i64 %t163)
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


attributes #0 = { nounwind "no-builtins" "target-features"="+neon,+fp-armv8" }
