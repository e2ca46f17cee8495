target triple = "x86_64-unknown-linux-gnu"

define void @bti_run(ptr noalias %extent, ptr noalias %scalars, ptr noalias %address, ptr noalias %stride, ptr noalias %functions) #0 {
b0:
  %scratch = alloca [256 x i8], align 64
  %slots = alloca [1024 x i64], align 64
  %t0 = getelementptr i64, ptr %extent, i64 0
  %t1 = load i64, ptr %t0, align 8
  %t2 = getelementptr i64, ptr %extent, i64 1
  %t3 = load i64, ptr %t2, align 8
  %t4 = getelementptr i64, ptr %address, i64 0
  %t5 = load ptr, ptr %t4, align 8
  %t6 = getelementptr i64, ptr %stride, i64 0
  %t7 = load i64, ptr %t6, align 8
  %t8 = getelementptr i64, ptr %stride, i64 1
  %t9 = load i64, ptr %t8, align 8
  %t10 = getelementptr i64, ptr %address, i64 1
  %t11 = load ptr, ptr %t10, align 8
  %t12 = getelementptr i64, ptr %stride, i64 8
  %t13 = load i64, ptr %t12, align 8
  %t14 = getelementptr i64, ptr %stride, i64 9
  %t15 = load i64, ptr %t14, align 8
  %t16 = bitcast i64 0 to i64
  %t17 = sub i64 %t3, %t16
  %t18 = bitcast i64 -16 to i64
  %t19 = and i64 %t17, %t18
  %t20 = add i64 %t16, %t19
  %t21 = icmp slt i64 %t16, %t20
  br i1 %t21, label %b1, label %b2
b1:
  br label %b3
b3:
  %t23 = phi i64 [ %t16, %b1 ], [ %t22, %b4 ]
  %t24 = bitcast i64 0 to i64
  br label %b5
b5:
  %t26 = phi i64 [ %t24, %b3 ], [ %t25, %b6 ]
  %t27 = mul i64 %t26, %t7
  %t28 = getelementptr i8, ptr %t5, i64 %t27
  %t29 = mul i64 %t26, %t13
  %t30 = getelementptr i8, ptr %t11, i64 %t29
  %t31 = mul i64 %t23, %t9
  %t32 = getelementptr i8, ptr %t28, i64 %t31
  %t33 = load float, ptr %t32
  %t34 = insertelement <16 x float> poison, float %t33, i64 0
  %t35 = getelementptr i8, ptr %t32, i64 %t9
  %t36 = load float, ptr %t35
  %t37 = insertelement <16 x float> %t34, float %t36, i64 1
  %t38 = getelementptr i8, ptr %t35, i64 %t9
  %t39 = load float, ptr %t38
  %t40 = insertelement <16 x float> %t37, float %t39, i64 2
  %t41 = getelementptr i8, ptr %t38, i64 %t9
  %t42 = load float, ptr %t41
  %t43 = insertelement <16 x float> %t40, float %t42, i64 3
  %t44 = getelementptr i8, ptr %t41, i64 %t9
  %t45 = load float, ptr %t44
  %t46 = insertelement <16 x float> %t43, float %t45, i64 4
  %t47 = getelementptr i8, ptr %t44, i64 %t9
  %t48 = load float, ptr %t47
  %t49 = insertelement <16 x float> %t46, float %t48, i64 5
  %t50 = getelementptr i8, ptr %t47, i64 %t9
  %t51 = load float, ptr %t50
  %t52 = insertelement <16 x float> %t49, float %t51, i64 6
  %t53 = getelementptr i8, ptr %t50, i64 %t9
  %t54 = load float, ptr %t53
  %t55 = insertelement <16 x float> %t52, float %t54, i64 7
  %t56 = getelementptr i8, ptr %t53, i64 %t9
  %t57 = load float, ptr %t56
  %t58 = insertelement <16 x float> %t55, float %t57, i64 8
  %t59 = getelementptr i8, ptr %t56, i64 %t9
  %t60 = load float, ptr %t59
  %t61 = insertelement <16 x float> %t58, float %t60, i64 9
  %t62 = getelementptr i8, ptr %t59, i64 %t9
  %t63 = load float, ptr %t62
  %t64 = insertelement <16 x float> %t61, float %t63, i64 10
  %t65 = getelementptr i8, ptr %t62, i64 %t9
  %t66 = load float, ptr %t65
  %t67 = insertelement <16 x float> %t64, float %t66, i64 11
  %t68 = getelementptr i8, ptr %t65, i64 %t9
  %t69 = load float, ptr %t68
  %t70 = insertelement <16 x float> %t67, float %t69, i64 12
  %t71 = getelementptr i8, ptr %t68, i64 %t9
  %t72 = load float, ptr %t71
  %t73 = insertelement <16 x float> %t70, float %t72, i64 13
  %t74 = getelementptr i8, ptr %t71, i64 %t9
  %t75 = load float, ptr %t74
  %t76 = insertelement <16 x float> %t73, float %t75, i64 14
  %t77 = getelementptr i8, ptr %t74, i64 %t9
  %t78 = load float, ptr %t77
  %t79 = insertelement <16 x float> %t76, float %t78, i64 15
  %t81 = bitcast i64 32 to i64
  %t82 = add i64 %t26, %t81
  %t83 = bitcast i64 16 to i64
  %t84 = mul i64 %t82, %t83
  %t80 = getelementptr i64, ptr %slots, i64 %t84
  store <16 x float> %t79, ptr %t80, align 8
  %t85 = bitcast <16 x float> <float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000> to <16 x float>
  %t86 = fcmp ogt <16 x float> %t85, %t79
  %t87 = select <16 x i1> %t86, <16 x float> %t85, <16 x float> %t79
  %t88 = fcmp uno <16 x float> %t85, %t85
  %t89 = select <16 x i1> %t88, <16 x float> %t85, <16 x float> %t87
  %t91 = bitcast i64 0 to i64
  %t92 = add i64 %t26, %t91
  %t93 = bitcast i64 16 to i64
  %t94 = mul i64 %t92, %t93
  %t90 = getelementptr i64, ptr %slots, i64 %t94
  store <16 x float> %t89, ptr %t90, align 8
  br label %b6
b6:
  %t25 = add nsw i64 %t26, 1
  %t95 = icmp slt i64 %t25, %t1
  br i1 %t95, label %b5, label %b7
b7:
  %t96 = bitcast i64 8 to i64
  %t97 = icmp sgt i64 %t1, %t96
  br i1 %t97, label %b8, label %b9
b8:
  %t98 = sub i64 %t1, %t96
  %t99 = icmp slt i64 %t98, %t96
  %t100 = select i1 %t99, i64 %t98, i64 %t96
  %t101 = bitcast i64 0 to i64
  br label %b10
b10:
  %t103 = phi i64 [ %t101, %b8 ], [ %t102, %b11 ]
  %t104 = bitcast i64 8 to i64
  %t105 = add i64 %t103, %t104
  %t107 = bitcast i64 0 to i64
  %t108 = add i64 %t103, %t107
  %t109 = bitcast i64 16 to i64
  %t110 = mul i64 %t108, %t109
  %t106 = getelementptr i64, ptr %slots, i64 %t110
  %t111 = load <16 x float>, ptr %t106, align 8
  %t113 = bitcast i64 0 to i64
  %t114 = add i64 %t105, %t113
  %t115 = bitcast i64 16 to i64
  %t116 = mul i64 %t114, %t115
  %t112 = getelementptr i64, ptr %slots, i64 %t116
  %t117 = load <16 x float>, ptr %t112, align 8
  %t118 = fcmp ogt <16 x float> %t111, %t117
  %t119 = select <16 x i1> %t118, <16 x float> %t111, <16 x float> %t117
  %t120 = fcmp uno <16 x float> %t111, %t111
  %t121 = select <16 x i1> %t120, <16 x float> %t111, <16 x float> %t119
  %t123 = bitcast i64 0 to i64
  %t124 = add i64 %t103, %t123
  %t125 = bitcast i64 16 to i64
  %t126 = mul i64 %t124, %t125
  %t122 = getelementptr i64, ptr %slots, i64 %t126
  store <16 x float> %t121, ptr %t122, align 8
  br label %b11
b11:
  %t102 = add nsw i64 %t103, 1
  %t127 = icmp slt i64 %t102, %t100
  br i1 %t127, label %b10, label %b12
b12:
  br label %b9
b9:
  %t128 = bitcast i64 4 to i64
  %t129 = icmp sgt i64 %t1, %t128
  br i1 %t129, label %b13, label %b14
b13:
  %t130 = sub i64 %t1, %t128
  %t131 = icmp slt i64 %t130, %t128
  %t132 = select i1 %t131, i64 %t130, i64 %t128
  %t133 = bitcast i64 0 to i64
  br label %b15
b15:
  %t135 = phi i64 [ %t133, %b13 ], [ %t134, %b16 ]
  %t136 = bitcast i64 4 to i64
  %t137 = add i64 %t135, %t136
  %t139 = bitcast i64 0 to i64
  %t140 = add i64 %t135, %t139
  %t141 = bitcast i64 16 to i64
  %t142 = mul i64 %t140, %t141
  %t138 = getelementptr i64, ptr %slots, i64 %t142
  %t143 = load <16 x float>, ptr %t138, align 8
  %t145 = bitcast i64 0 to i64
  %t146 = add i64 %t137, %t145
  %t147 = bitcast i64 16 to i64
  %t148 = mul i64 %t146, %t147
  %t144 = getelementptr i64, ptr %slots, i64 %t148
  %t149 = load <16 x float>, ptr %t144, align 8
  %t150 = fcmp ogt <16 x float> %t143, %t149
  %t151 = select <16 x i1> %t150, <16 x float> %t143, <16 x float> %t149
  %t152 = fcmp uno <16 x float> %t143, %t143
  %t153 = select <16 x i1> %t152, <16 x float> %t143, <16 x float> %t151
  %t155 = bitcast i64 0 to i64
  %t156 = add i64 %t135, %t155
  %t157 = bitcast i64 16 to i64
  %t158 = mul i64 %t156, %t157
  %t154 = getelementptr i64, ptr %slots, i64 %t158
  store <16 x float> %t153, ptr %t154, align 8
  br label %b16
b16:
  %t134 = add nsw i64 %t135, 1
  %t159 = icmp slt i64 %t134, %t132
  br i1 %t159, label %b15, label %b17
b17:
  br label %b14
b14:
  %t160 = bitcast i64 2 to i64
  %t161 = icmp sgt i64 %t1, %t160
  br i1 %t161, label %b18, label %b19
b18:
  %t162 = sub i64 %t1, %t160
  %t163 = icmp slt i64 %t162, %t160
  %t164 = select i1 %t163, i64 %t162, i64 %t160
  %t165 = bitcast i64 0 to i64
  br label %b20
b20:
  %t167 = phi i64 [ %t165, %b18 ], [ %t166, %b21 ]
  %t168 = bitcast i64 2 to i64
  %t169 = add i64 %t167, %t168
  %t171 = bitcast i64 0 to i64
  %t172 = add i64 %t167, %t171
  %t173 = bitcast i64 16 to i64
  %t174 = mul i64 %t172, %t173
  %t170 = getelementptr i64, ptr %slots, i64 %t174
  %t175 = load <16 x float>, ptr %t170, align 8
  %t177 = bitcast i64 0 to i64
  %t178 = add i64 %t169, %t177
  %t179 = bitcast i64 16 to i64
  %t180 = mul i64 %t178, %t179
  %t176 = getelementptr i64, ptr %slots, i64 %t180
  %t181 = load <16 x float>, ptr %t176, align 8
  %t182 = fcmp ogt <16 x float> %t175, %t181
  %t183 = select <16 x i1> %t182, <16 x float> %t175, <16 x float> %t181
  %t184 = fcmp uno <16 x float> %t175, %t175
  %t185 = select <16 x i1> %t184, <16 x float> %t175, <16 x float> %t183
  %t187 = bitcast i64 0 to i64
  %t188 = add i64 %t167, %t187
  %t189 = bitcast i64 16 to i64
  %t190 = mul i64 %t188, %t189
  %t186 = getelementptr i64, ptr %slots, i64 %t190
  store <16 x float> %t185, ptr %t186, align 8
  br label %b21
b21:
  %t166 = add nsw i64 %t167, 1
  %t191 = icmp slt i64 %t166, %t164
  br i1 %t191, label %b20, label %b22
b22:
  br label %b19
b19:
  %t192 = bitcast i64 1 to i64
  %t193 = icmp sgt i64 %t1, %t192
  br i1 %t193, label %b23, label %b24
b23:
  %t194 = sub i64 %t1, %t192
  %t195 = icmp slt i64 %t194, %t192
  %t196 = select i1 %t195, i64 %t194, i64 %t192
  %t197 = bitcast i64 0 to i64
  br label %b25
b25:
  %t199 = phi i64 [ %t197, %b23 ], [ %t198, %b26 ]
  %t200 = bitcast i64 1 to i64
  %t201 = add i64 %t199, %t200
  %t203 = bitcast i64 0 to i64
  %t204 = add i64 %t199, %t203
  %t205 = bitcast i64 16 to i64
  %t206 = mul i64 %t204, %t205
  %t202 = getelementptr i64, ptr %slots, i64 %t206
  %t207 = load <16 x float>, ptr %t202, align 8
  %t209 = bitcast i64 0 to i64
  %t210 = add i64 %t201, %t209
  %t211 = bitcast i64 16 to i64
  %t212 = mul i64 %t210, %t211
  %t208 = getelementptr i64, ptr %slots, i64 %t212
  %t213 = load <16 x float>, ptr %t208, align 8
  %t214 = fcmp ogt <16 x float> %t207, %t213
  %t215 = select <16 x i1> %t214, <16 x float> %t207, <16 x float> %t213
  %t216 = fcmp uno <16 x float> %t207, %t207
  %t217 = select <16 x i1> %t216, <16 x float> %t207, <16 x float> %t215
  %t219 = bitcast i64 0 to i64
  %t220 = add i64 %t199, %t219
  %t221 = bitcast i64 16 to i64
  %t222 = mul i64 %t220, %t221
  %t218 = getelementptr i64, ptr %slots, i64 %t222
  store <16 x float> %t217, ptr %t218, align 8
  br label %b26
b26:
  %t198 = add nsw i64 %t199, 1
  %t223 = icmp slt i64 %t198, %t196
  br i1 %t223, label %b25, label %b27
b27:
  br label %b24
b24:
  %t224 = bitcast i64 0 to i64
  %t226 = bitcast i64 0 to i64
  %t227 = add i64 %t224, %t226
  %t228 = bitcast i64 16 to i64
  %t229 = mul i64 %t227, %t228
  %t225 = getelementptr i64, ptr %slots, i64 %t229
  %t230 = load <16 x float>, ptr %t225, align 8
  %t231 = bitcast <16 x float> <float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000> to <16 x float>
  %t232 = fcmp ogt <16 x float> %t231, %t230
  %t233 = select <16 x i1> %t232, <16 x float> %t231, <16 x float> %t230
  %t234 = fcmp uno <16 x float> %t231, %t231
  %t235 = select <16 x i1> %t234, <16 x float> %t231, <16 x float> %t233
  %t236 = bitcast i64 0 to i64
  br label %b28
b28:
  %t238 = phi i64 [ %t236, %b24 ], [ %t237, %b29 ]
  %t239 = mul i64 %t238, %t7
  %t240 = getelementptr i8, ptr %t5, i64 %t239
  %t241 = mul i64 %t238, %t13
  %t242 = getelementptr i8, ptr %t11, i64 %t241
  %t244 = bitcast i64 32 to i64
  %t245 = add i64 %t238, %t244
  %t246 = bitcast i64 16 to i64
  %t247 = mul i64 %t245, %t246
  %t243 = getelementptr i64, ptr %slots, i64 %t247
  %t248 = load <16 x float>, ptr %t243, align 8
  %t249 = fsub <16 x float> %t248, %t235
  %t250 = getelementptr i64, ptr %functions, i64 0
  %t251 = load ptr, ptr %t250, align 8
  %t252 = call <16 x float> %t251(<16 x float> %t249)
  %t254 = bitcast i64 48 to i64
  %t255 = add i64 %t238, %t254
  %t256 = bitcast i64 16 to i64
  %t257 = mul i64 %t255, %t256
  %t253 = getelementptr i64, ptr %slots, i64 %t257
  store <16 x float> %t252, ptr %t253, align 8
  %t258 = fpext <16 x float> %t252 to <16 x double>
  %t259 = bitcast <16 x double> <double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000> to <16 x double>
  %t260 = fadd <16 x double> %t259, %t258
  %t262 = bitcast i64 0 to i64
  %t263 = add i64 %t238, %t262
  %t264 = bitcast i64 16 to i64
  %t265 = mul i64 %t263, %t264
  %t261 = getelementptr i64, ptr %slots, i64 %t265
  store <16 x double> %t260, ptr %t261, align 8
  br label %b29
b29:
  %t237 = add nsw i64 %t238, 1
  %t266 = icmp slt i64 %t237, %t1
  br i1 %t266, label %b28, label %b30
b30:
  %t267 = bitcast i64 8 to i64
  %t268 = icmp sgt i64 %t1, %t267
  br i1 %t268, label %b31, label %b32
b31:
  %t269 = sub i64 %t1, %t267
  %t270 = icmp slt i64 %t269, %t267
  %t271 = select i1 %t270, i64 %t269, i64 %t267
  %t272 = bitcast i64 0 to i64
  br label %b33
b33:
  %t274 = phi i64 [ %t272, %b31 ], [ %t273, %b34 ]
  %t275 = bitcast i64 8 to i64
  %t276 = add i64 %t274, %t275
  %t278 = bitcast i64 0 to i64
  %t279 = add i64 %t274, %t278
  %t280 = bitcast i64 16 to i64
  %t281 = mul i64 %t279, %t280
  %t277 = getelementptr i64, ptr %slots, i64 %t281
  %t282 = load <16 x double>, ptr %t277, align 8
  %t284 = bitcast i64 0 to i64
  %t285 = add i64 %t276, %t284
  %t286 = bitcast i64 16 to i64
  %t287 = mul i64 %t285, %t286
  %t283 = getelementptr i64, ptr %slots, i64 %t287
  %t288 = load <16 x double>, ptr %t283, align 8
  %t289 = fadd <16 x double> %t282, %t288
  %t291 = bitcast i64 0 to i64
  %t292 = add i64 %t274, %t291
  %t293 = bitcast i64 16 to i64
  %t294 = mul i64 %t292, %t293
  %t290 = getelementptr i64, ptr %slots, i64 %t294
  store <16 x double> %t289, ptr %t290, align 8
  br label %b34
b34:
  %t273 = add nsw i64 %t274, 1
  %t295 = icmp slt i64 %t273, %t271
  br i1 %t295, label %b33, label %b35
b35:
  br label %b32
b32:
  %t296 = bitcast i64 4 to i64
  %t297 = icmp sgt i64 %t1, %t296
  br i1 %t297, label %b36, label %b37
b36:
  %t298 = sub i64 %t1, %t296
  %t299 = icmp slt i64 %t298, %t296
  %t300 = select i1 %t299, i64 %t298, i64 %t296
  %t301 = bitcast i64 0 to i64
  br label %b38
b38:
  %t303 = phi i64 [ %t301, %b36 ], [ %t302, %b39 ]
  %t304 = bitcast i64 4 to i64
  %t305 = add i64 %t303, %t304
  %t307 = bitcast i64 0 to i64
  %t308 = add i64 %t303, %t307
  %t309 = bitcast i64 16 to i64
  %t310 = mul i64 %t308, %t309
  %t306 = getelementptr i64, ptr %slots, i64 %t310
  %t311 = load <16 x double>, ptr %t306, align 8
  %t313 = bitcast i64 0 to i64
  %t314 = add i64 %t305, %t313
  %t315 = bitcast i64 16 to i64
  %t316 = mul i64 %t314, %t315
  %t312 = getelementptr i64, ptr %slots, i64 %t316
  %t317 = load <16 x double>, ptr %t312, align 8
  %t318 = fadd <16 x double> %t311, %t317
  %t320 = bitcast i64 0 to i64
  %t321 = add i64 %t303, %t320
  %t322 = bitcast i64 16 to i64
  %t323 = mul i64 %t321, %t322
  %t319 = getelementptr i64, ptr %slots, i64 %t323
  store <16 x double> %t318, ptr %t319, align 8
  br label %b39
b39:
  %t302 = add nsw i64 %t303, 1
  %t324 = icmp slt i64 %t302, %t300
  br i1 %t324, label %b38, label %b40
b40:
  br label %b37
b37:
  %t325 = bitcast i64 2 to i64
  %t326 = icmp sgt i64 %t1, %t325
  br i1 %t326, label %b41, label %b42
b41:
  %t327 = sub i64 %t1, %t325
  %t328 = icmp slt i64 %t327, %t325
  %t329 = select i1 %t328, i64 %t327, i64 %t325
  %t330 = bitcast i64 0 to i64
  br label %b43
b43:
  %t332 = phi i64 [ %t330, %b41 ], [ %t331, %b44 ]
  %t333 = bitcast i64 2 to i64
  %t334 = add i64 %t332, %t333
  %t336 = bitcast i64 0 to i64
  %t337 = add i64 %t332, %t336
  %t338 = bitcast i64 16 to i64
  %t339 = mul i64 %t337, %t338
  %t335 = getelementptr i64, ptr %slots, i64 %t339
  %t340 = load <16 x double>, ptr %t335, align 8
  %t342 = bitcast i64 0 to i64
  %t343 = add i64 %t334, %t342
  %t344 = bitcast i64 16 to i64
  %t345 = mul i64 %t343, %t344
  %t341 = getelementptr i64, ptr %slots, i64 %t345
  %t346 = load <16 x double>, ptr %t341, align 8
  %t347 = fadd <16 x double> %t340, %t346
  %t349 = bitcast i64 0 to i64
  %t350 = add i64 %t332, %t349
  %t351 = bitcast i64 16 to i64
  %t352 = mul i64 %t350, %t351
  %t348 = getelementptr i64, ptr %slots, i64 %t352
  store <16 x double> %t347, ptr %t348, align 8
  br label %b44
b44:
  %t331 = add nsw i64 %t332, 1
  %t353 = icmp slt i64 %t331, %t329
  br i1 %t353, label %b43, label %b45
b45:
  br label %b42
b42:
  %t354 = bitcast i64 1 to i64
  %t355 = icmp sgt i64 %t1, %t354
  br i1 %t355, label %b46, label %b47
b46:
  %t356 = sub i64 %t1, %t354
  %t357 = icmp slt i64 %t356, %t354
  %t358 = select i1 %t357, i64 %t356, i64 %t354
  %t359 = bitcast i64 0 to i64
  br label %b48
b48:
  %t361 = phi i64 [ %t359, %b46 ], [ %t360, %b49 ]
  %t362 = bitcast i64 1 to i64
  %t363 = add i64 %t361, %t362
  %t365 = bitcast i64 0 to i64
  %t366 = add i64 %t361, %t365
  %t367 = bitcast i64 16 to i64
  %t368 = mul i64 %t366, %t367
  %t364 = getelementptr i64, ptr %slots, i64 %t368
  %t369 = load <16 x double>, ptr %t364, align 8
  %t371 = bitcast i64 0 to i64
  %t372 = add i64 %t363, %t371
  %t373 = bitcast i64 16 to i64
  %t374 = mul i64 %t372, %t373
  %t370 = getelementptr i64, ptr %slots, i64 %t374
  %t375 = load <16 x double>, ptr %t370, align 8
  %t376 = fadd <16 x double> %t369, %t375
  %t378 = bitcast i64 0 to i64
  %t379 = add i64 %t361, %t378
  %t380 = bitcast i64 16 to i64
  %t381 = mul i64 %t379, %t380
  %t377 = getelementptr i64, ptr %slots, i64 %t381
  store <16 x double> %t376, ptr %t377, align 8
  br label %b49
b49:
  %t360 = add nsw i64 %t361, 1
  %t382 = icmp slt i64 %t360, %t358
  br i1 %t382, label %b48, label %b50
b50:
  br label %b47
b47:
  %t383 = bitcast i64 0 to i64
  %t385 = bitcast i64 0 to i64
  %t386 = add i64 %t383, %t385
  %t387 = bitcast i64 16 to i64
  %t388 = mul i64 %t386, %t387
  %t384 = getelementptr i64, ptr %slots, i64 %t388
  %t389 = load <16 x double>, ptr %t384, align 8
  %t390 = bitcast <16 x double> <double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000> to <16 x double>
  %t391 = fadd <16 x double> %t390, %t389
  %t392 = fptrunc <16 x double> %t391 to <16 x float>
  %t393 = bitcast i64 0 to i64
  br label %b51
b51:
  %t395 = phi i64 [ %t393, %b47 ], [ %t394, %b52 ]
  %t396 = mul i64 %t395, %t7
  %t397 = getelementptr i8, ptr %t5, i64 %t396
  %t398 = mul i64 %t395, %t13
  %t399 = getelementptr i8, ptr %t11, i64 %t398
  %t401 = bitcast i64 48 to i64
  %t402 = add i64 %t395, %t401
  %t403 = bitcast i64 16 to i64
  %t404 = mul i64 %t402, %t403
  %t400 = getelementptr i64, ptr %slots, i64 %t404
  %t405 = load <16 x float>, ptr %t400, align 8
  %t406 = fdiv <16 x float> %t405, %t392
  %t407 = mul i64 %t23, %t15
  %t408 = getelementptr i8, ptr %t399, i64 %t407
  %t409 = extractelement <16 x float> %t406, i64 0
  store float %t409, ptr %t408
  %t410 = extractelement <16 x float> %t406, i64 1
  %t411 = getelementptr i8, ptr %t408, i64 %t15
  store float %t410, ptr %t411
  %t412 = extractelement <16 x float> %t406, i64 2
  %t413 = getelementptr i8, ptr %t411, i64 %t15
  store float %t412, ptr %t413
  %t414 = extractelement <16 x float> %t406, i64 3
  %t415 = getelementptr i8, ptr %t413, i64 %t15
  store float %t414, ptr %t415
  %t416 = extractelement <16 x float> %t406, i64 4
  %t417 = getelementptr i8, ptr %t415, i64 %t15
  store float %t416, ptr %t417
  %t418 = extractelement <16 x float> %t406, i64 5
  %t419 = getelementptr i8, ptr %t417, i64 %t15
  store float %t418, ptr %t419
  %t420 = extractelement <16 x float> %t406, i64 6
  %t421 = getelementptr i8, ptr %t419, i64 %t15
  store float %t420, ptr %t421
  %t422 = extractelement <16 x float> %t406, i64 7
  %t423 = getelementptr i8, ptr %t421, i64 %t15
  store float %t422, ptr %t423
  %t424 = extractelement <16 x float> %t406, i64 8
  %t425 = getelementptr i8, ptr %t423, i64 %t15
  store float %t424, ptr %t425
  %t426 = extractelement <16 x float> %t406, i64 9
  %t427 = getelementptr i8, ptr %t425, i64 %t15
  store float %t426, ptr %t427
  %t428 = extractelement <16 x float> %t406, i64 10
  %t429 = getelementptr i8, ptr %t427, i64 %t15
  store float %t428, ptr %t429
  %t430 = extractelement <16 x float> %t406, i64 11
  %t431 = getelementptr i8, ptr %t429, i64 %t15
  store float %t430, ptr %t431
  %t432 = extractelement <16 x float> %t406, i64 12
  %t433 = getelementptr i8, ptr %t431, i64 %t15
  store float %t432, ptr %t433
  %t434 = extractelement <16 x float> %t406, i64 13
  %t435 = getelementptr i8, ptr %t433, i64 %t15
  store float %t434, ptr %t435
  %t436 = extractelement <16 x float> %t406, i64 14
  %t437 = getelementptr i8, ptr %t435, i64 %t15
  store float %t436, ptr %t437
  %t438 = extractelement <16 x float> %t406, i64 15
  %t439 = getelementptr i8, ptr %t437, i64 %t15
  store float %t438, ptr %t439
  br label %b52
b52:
  %t394 = add nsw i64 %t395, 1
  %t440 = icmp slt i64 %t394, %t1
  br i1 %t440, label %b51, label %b53
b53:
  %t441 = bitcast i64 0 to i64
  br label %b4
b4:
  %t22 = add nsw i64 %t23, 16
  %t442 = icmp slt i64 %t22, %t20
  br i1 %t442, label %b3, label %b54
b54:
  br label %b2
b2:
  %t443 = icmp slt i64 %t20, %t3
  br i1 %t443, label %b55, label %b56
b55:
  %t444 = sub i64 %t3, %t20
  %t445 = trunc i64 %t444 to i8
  %t446 = insertelement <16 x i8> poison, i8 %t445, i64 0
  %t447 = shufflevector <16 x i8> %t446, <16 x i8> poison, <16 x i32> zeroinitializer
  %t448 = bitcast <16 x i8> <i8 0, i8 1, i8 2, i8 3, i8 4, i8 5, i8 6, i8 7, i8 8, i8 9, i8 10, i8 11, i8 12, i8 13, i8 14, i8 15> to <16 x i8>
  %t449 = icmp ult <16 x i8> %t448, %t447
  %t450 = bitcast i64 0 to i64
  br label %b57
b57:
  %t452 = phi i64 [ %t450, %b55 ], [ %t451, %b58 ]
  %t453 = mul i64 %t452, %t7
  %t454 = getelementptr i8, ptr %t5, i64 %t453
  %t455 = mul i64 %t452, %t13
  %t456 = getelementptr i8, ptr %t11, i64 %t455
  %t457 = mul i64 %t20, %t9
  %t458 = getelementptr i8, ptr %t454, i64 %t457
  store <16 x float> zeroinitializer, ptr %scratch, align 64
  call void @copy_4(ptr %scratch, i64 4, ptr %t458, i64 %t9, i64 %t444)
  %t459 = load <16 x float>, ptr %scratch, align 64
  %t461 = bitcast i64 32 to i64
  %t462 = add i64 %t452, %t461
  %t463 = bitcast i64 16 to i64
  %t464 = mul i64 %t462, %t463
  %t460 = getelementptr i64, ptr %slots, i64 %t464
  store <16 x float> %t459, ptr %t460, align 8
  %t465 = bitcast <16 x float> <float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000> to <16 x float>
  %t466 = fcmp ogt <16 x float> %t465, %t459
  %t467 = select <16 x i1> %t466, <16 x float> %t465, <16 x float> %t459
  %t468 = fcmp uno <16 x float> %t465, %t465
  %t469 = select <16 x i1> %t468, <16 x float> %t465, <16 x float> %t467
  %t471 = bitcast i64 0 to i64
  %t472 = add i64 %t452, %t471
  %t473 = bitcast i64 16 to i64
  %t474 = mul i64 %t472, %t473
  %t470 = getelementptr i64, ptr %slots, i64 %t474
  store <16 x float> %t469, ptr %t470, align 8
  br label %b58
b58:
  %t451 = add nsw i64 %t452, 1
  %t475 = icmp slt i64 %t451, %t1
  br i1 %t475, label %b57, label %b59
b59:
  %t476 = bitcast i64 8 to i64
  %t477 = icmp sgt i64 %t1, %t476
  br i1 %t477, label %b60, label %b61
b60:
  %t478 = sub i64 %t1, %t476
  %t479 = icmp slt i64 %t478, %t476
  %t480 = select i1 %t479, i64 %t478, i64 %t476
  %t481 = bitcast i64 0 to i64
  br label %b62
b62:
  %t483 = phi i64 [ %t481, %b60 ], [ %t482, %b63 ]
  %t484 = bitcast i64 8 to i64
  %t485 = add i64 %t483, %t484
  %t487 = bitcast i64 0 to i64
  %t488 = add i64 %t483, %t487
  %t489 = bitcast i64 16 to i64
  %t490 = mul i64 %t488, %t489
  %t486 = getelementptr i64, ptr %slots, i64 %t490
  %t491 = load <16 x float>, ptr %t486, align 8
  %t493 = bitcast i64 0 to i64
  %t494 = add i64 %t485, %t493
  %t495 = bitcast i64 16 to i64
  %t496 = mul i64 %t494, %t495
  %t492 = getelementptr i64, ptr %slots, i64 %t496
  %t497 = load <16 x float>, ptr %t492, align 8
  %t498 = fcmp ogt <16 x float> %t491, %t497
  %t499 = select <16 x i1> %t498, <16 x float> %t491, <16 x float> %t497
  %t500 = fcmp uno <16 x float> %t491, %t491
  %t501 = select <16 x i1> %t500, <16 x float> %t491, <16 x float> %t499
  %t503 = bitcast i64 0 to i64
  %t504 = add i64 %t483, %t503
  %t505 = bitcast i64 16 to i64
  %t506 = mul i64 %t504, %t505
  %t502 = getelementptr i64, ptr %slots, i64 %t506
  store <16 x float> %t501, ptr %t502, align 8
  br label %b63
b63:
  %t482 = add nsw i64 %t483, 1
  %t507 = icmp slt i64 %t482, %t480
  br i1 %t507, label %b62, label %b64
b64:
  br label %b61
b61:
  %t508 = bitcast i64 4 to i64
  %t509 = icmp sgt i64 %t1, %t508
  br i1 %t509, label %b65, label %b66
b65:
  %t510 = sub i64 %t1, %t508
  %t511 = icmp slt i64 %t510, %t508
  %t512 = select i1 %t511, i64 %t510, i64 %t508
  %t513 = bitcast i64 0 to i64
  br label %b67
b67:
  %t515 = phi i64 [ %t513, %b65 ], [ %t514, %b68 ]
  %t516 = bitcast i64 4 to i64
  %t517 = add i64 %t515, %t516
  %t519 = bitcast i64 0 to i64
  %t520 = add i64 %t515, %t519
  %t521 = bitcast i64 16 to i64
  %t522 = mul i64 %t520, %t521
  %t518 = getelementptr i64, ptr %slots, i64 %t522
  %t523 = load <16 x float>, ptr %t518, align 8
  %t525 = bitcast i64 0 to i64
  %t526 = add i64 %t517, %t525
  %t527 = bitcast i64 16 to i64
  %t528 = mul i64 %t526, %t527
  %t524 = getelementptr i64, ptr %slots, i64 %t528
  %t529 = load <16 x float>, ptr %t524, align 8
  %t530 = fcmp ogt <16 x float> %t523, %t529
  %t531 = select <16 x i1> %t530, <16 x float> %t523, <16 x float> %t529
  %t532 = fcmp uno <16 x float> %t523, %t523
  %t533 = select <16 x i1> %t532, <16 x float> %t523, <16 x float> %t531
  %t535 = bitcast i64 0 to i64
  %t536 = add i64 %t515, %t535
  %t537 = bitcast i64 16 to i64
  %t538 = mul i64 %t536, %t537
  %t534 = getelementptr i64, ptr %slots, i64 %t538
  store <16 x float> %t533, ptr %t534, align 8
  br label %b68
b68:
  %t514 = add nsw i64 %t515, 1
  %t539 = icmp slt i64 %t514, %t512
  br i1 %t539, label %b67, label %b69
b69:
  br label %b66
b66:
  %t540 = bitcast i64 2 to i64
  %t541 = icmp sgt i64 %t1, %t540
  br i1 %t541, label %b70, label %b71
b70:
  %t542 = sub i64 %t1, %t540
  %t543 = icmp slt i64 %t542, %t540
  %t544 = select i1 %t543, i64 %t542, i64 %t540
  %t545 = bitcast i64 0 to i64
  br label %b72
b72:
  %t547 = phi i64 [ %t545, %b70 ], [ %t546, %b73 ]
  %t548 = bitcast i64 2 to i64
  %t549 = add i64 %t547, %t548
  %t551 = bitcast i64 0 to i64
  %t552 = add i64 %t547, %t551
  %t553 = bitcast i64 16 to i64
  %t554 = mul i64 %t552, %t553
  %t550 = getelementptr i64, ptr %slots, i64 %t554
  %t555 = load <16 x float>, ptr %t550, align 8
  %t557 = bitcast i64 0 to i64
  %t558 = add i64 %t549, %t557
  %t559 = bitcast i64 16 to i64
  %t560 = mul i64 %t558, %t559
  %t556 = getelementptr i64, ptr %slots, i64 %t560
  %t561 = load <16 x float>, ptr %t556, align 8
  %t562 = fcmp ogt <16 x float> %t555, %t561
  %t563 = select <16 x i1> %t562, <16 x float> %t555, <16 x float> %t561
  %t564 = fcmp uno <16 x float> %t555, %t555
  %t565 = select <16 x i1> %t564, <16 x float> %t555, <16 x float> %t563
  %t567 = bitcast i64 0 to i64
  %t568 = add i64 %t547, %t567
  %t569 = bitcast i64 16 to i64
  %t570 = mul i64 %t568, %t569
  %t566 = getelementptr i64, ptr %slots, i64 %t570
  store <16 x float> %t565, ptr %t566, align 8
  br label %b73
b73:
  %t546 = add nsw i64 %t547, 1
  %t571 = icmp slt i64 %t546, %t544
  br i1 %t571, label %b72, label %b74
b74:
  br label %b71
b71:
  %t572 = bitcast i64 1 to i64
  %t573 = icmp sgt i64 %t1, %t572
  br i1 %t573, label %b75, label %b76
b75:
  %t574 = sub i64 %t1, %t572
  %t575 = icmp slt i64 %t574, %t572
  %t576 = select i1 %t575, i64 %t574, i64 %t572
  %t577 = bitcast i64 0 to i64
  br label %b77
b77:
  %t579 = phi i64 [ %t577, %b75 ], [ %t578, %b78 ]
  %t580 = bitcast i64 1 to i64
  %t581 = add i64 %t579, %t580
  %t583 = bitcast i64 0 to i64
  %t584 = add i64 %t579, %t583
  %t585 = bitcast i64 16 to i64
  %t586 = mul i64 %t584, %t585
  %t582 = getelementptr i64, ptr %slots, i64 %t586
  %t587 = load <16 x float>, ptr %t582, align 8
  %t589 = bitcast i64 0 to i64
  %t590 = add i64 %t581, %t589
  %t591 = bitcast i64 16 to i64
  %t592 = mul i64 %t590, %t591
  %t588 = getelementptr i64, ptr %slots, i64 %t592
  %t593 = load <16 x float>, ptr %t588, align 8
  %t594 = fcmp ogt <16 x float> %t587, %t593
  %t595 = select <16 x i1> %t594, <16 x float> %t587, <16 x float> %t593
  %t596 = fcmp uno <16 x float> %t587, %t587
  %t597 = select <16 x i1> %t596, <16 x float> %t587, <16 x float> %t595
  %t599 = bitcast i64 0 to i64
  %t600 = add i64 %t579, %t599
  %t601 = bitcast i64 16 to i64
  %t602 = mul i64 %t600, %t601
  %t598 = getelementptr i64, ptr %slots, i64 %t602
  store <16 x float> %t597, ptr %t598, align 8
  br label %b78
b78:
  %t578 = add nsw i64 %t579, 1
  %t603 = icmp slt i64 %t578, %t576
  br i1 %t603, label %b77, label %b79
b79:
  br label %b76
b76:
  %t604 = bitcast i64 0 to i64
  %t606 = bitcast i64 0 to i64
  %t607 = add i64 %t604, %t606
  %t608 = bitcast i64 16 to i64
  %t609 = mul i64 %t607, %t608
  %t605 = getelementptr i64, ptr %slots, i64 %t609
  %t610 = load <16 x float>, ptr %t605, align 8
  %t611 = bitcast <16 x float> <float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000, float 0xFFF0000000000000> to <16 x float>
  %t612 = fcmp ogt <16 x float> %t611, %t610
  %t613 = select <16 x i1> %t612, <16 x float> %t611, <16 x float> %t610
  %t614 = fcmp uno <16 x float> %t611, %t611
  %t615 = select <16 x i1> %t614, <16 x float> %t611, <16 x float> %t613
  %t616 = bitcast i64 0 to i64
  br label %b80
b80:
  %t618 = phi i64 [ %t616, %b76 ], [ %t617, %b81 ]
  %t619 = mul i64 %t618, %t7
  %t620 = getelementptr i8, ptr %t5, i64 %t619
  %t621 = mul i64 %t618, %t13
  %t622 = getelementptr i8, ptr %t11, i64 %t621
  %t624 = bitcast i64 32 to i64
  %t625 = add i64 %t618, %t624
  %t626 = bitcast i64 16 to i64
  %t627 = mul i64 %t625, %t626
  %t623 = getelementptr i64, ptr %slots, i64 %t627
  %t628 = load <16 x float>, ptr %t623, align 8
  %t629 = fsub <16 x float> %t628, %t615
  %t630 = getelementptr i64, ptr %functions, i64 0
  %t631 = load ptr, ptr %t630, align 8
  %t632 = call <16 x float> %t631(<16 x float> %t629)
  %t634 = bitcast i64 48 to i64
  %t635 = add i64 %t618, %t634
  %t636 = bitcast i64 16 to i64
  %t637 = mul i64 %t635, %t636
  %t633 = getelementptr i64, ptr %slots, i64 %t637
  store <16 x float> %t632, ptr %t633, align 8
  %t638 = fpext <16 x float> %t632 to <16 x double>
  %t639 = bitcast <16 x double> <double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000> to <16 x double>
  %t640 = fadd <16 x double> %t639, %t638
  %t642 = bitcast i64 0 to i64
  %t643 = add i64 %t618, %t642
  %t644 = bitcast i64 16 to i64
  %t645 = mul i64 %t643, %t644
  %t641 = getelementptr i64, ptr %slots, i64 %t645
  store <16 x double> %t640, ptr %t641, align 8
  br label %b81
b81:
  %t617 = add nsw i64 %t618, 1
  %t646 = icmp slt i64 %t617, %t1
  br i1 %t646, label %b80, label %b82
b82:
  %t647 = bitcast i64 8 to i64
  %t648 = icmp sgt i64 %t1, %t647
  br i1 %t648, label %b83, label %b84
b83:
  %t649 = sub i64 %t1, %t647
  %t650 = icmp slt i64 %t649, %t647
  %t651 = select i1 %t650, i64 %t649, i64 %t647
  %t652 = bitcast i64 0 to i64
  br label %b85
b85:
  %t654 = phi i64 [ %t652, %b83 ], [ %t653, %b86 ]
  %t655 = bitcast i64 8 to i64
  %t656 = add i64 %t654, %t655
  %t658 = bitcast i64 0 to i64
  %t659 = add i64 %t654, %t658
  %t660 = bitcast i64 16 to i64
  %t661 = mul i64 %t659, %t660
  %t657 = getelementptr i64, ptr %slots, i64 %t661
  %t662 = load <16 x double>, ptr %t657, align 8
  %t664 = bitcast i64 0 to i64
  %t665 = add i64 %t656, %t664
  %t666 = bitcast i64 16 to i64
  %t667 = mul i64 %t665, %t666
  %t663 = getelementptr i64, ptr %slots, i64 %t667
  %t668 = load <16 x double>, ptr %t663, align 8
  %t669 = fadd <16 x double> %t662, %t668
  %t671 = bitcast i64 0 to i64
  %t672 = add i64 %t654, %t671
  %t673 = bitcast i64 16 to i64
  %t674 = mul i64 %t672, %t673
  %t670 = getelementptr i64, ptr %slots, i64 %t674
  store <16 x double> %t669, ptr %t670, align 8
  br label %b86
b86:
  %t653 = add nsw i64 %t654, 1
  %t675 = icmp slt i64 %t653, %t651
  br i1 %t675, label %b85, label %b87
b87:
  br label %b84
b84:
  %t676 = bitcast i64 4 to i64
  %t677 = icmp sgt i64 %t1, %t676
  br i1 %t677, label %b88, label %b89
b88:
  %t678 = sub i64 %t1, %t676
  %t679 = icmp slt i64 %t678, %t676
  %t680 = select i1 %t679, i64 %t678, i64 %t676
  %t681 = bitcast i64 0 to i64
  br label %b90
b90:
  %t683 = phi i64 [ %t681, %b88 ], [ %t682, %b91 ]
  %t684 = bitcast i64 4 to i64
  %t685 = add i64 %t683, %t684
  %t687 = bitcast i64 0 to i64
  %t688 = add i64 %t683, %t687
  %t689 = bitcast i64 16 to i64
  %t690 = mul i64 %t688, %t689
  %t686 = getelementptr i64, ptr %slots, i64 %t690
  %t691 = load <16 x double>, ptr %t686, align 8
  %t693 = bitcast i64 0 to i64
  %t694 = add i64 %t685, %t693
  %t695 = bitcast i64 16 to i64
  %t696 = mul i64 %t694, %t695
  %t692 = getelementptr i64, ptr %slots, i64 %t696
  %t697 = load <16 x double>, ptr %t692, align 8
  %t698 = fadd <16 x double> %t691, %t697
  %t700 = bitcast i64 0 to i64
  %t701 = add i64 %t683, %t700
  %t702 = bitcast i64 16 to i64
  %t703 = mul i64 %t701, %t702
  %t699 = getelementptr i64, ptr %slots, i64 %t703
  store <16 x double> %t698, ptr %t699, align 8
  br label %b91
b91:
  %t682 = add nsw i64 %t683, 1
  %t704 = icmp slt i64 %t682, %t680
  br i1 %t704, label %b90, label %b92
b92:
  br label %b89
b89:
  %t705 = bitcast i64 2 to i64
  %t706 = icmp sgt i64 %t1, %t705
  br i1 %t706, label %b93, label %b94
b93:
  %t707 = sub i64 %t1, %t705
  %t708 = icmp slt i64 %t707, %t705
  %t709 = select i1 %t708, i64 %t707, i64 %t705
  %t710 = bitcast i64 0 to i64
  br label %b95
b95:
  %t712 = phi i64 [ %t710, %b93 ], [ %t711, %b96 ]
  %t713 = bitcast i64 2 to i64
  %t714 = add i64 %t712, %t713
  %t716 = bitcast i64 0 to i64
  %t717 = add i64 %t712, %t716
  %t718 = bitcast i64 16 to i64
  %t719 = mul i64 %t717, %t718
  %t715 = getelementptr i64, ptr %slots, i64 %t719
  %t720 = load <16 x double>, ptr %t715, align 8
  %t722 = bitcast i64 0 to i64
  %t723 = add i64 %t714, %t722
  %t724 = bitcast i64 16 to i64
  %t725 = mul i64 %t723, %t724
  %t721 = getelementptr i64, ptr %slots, i64 %t725
  %t726 = load <16 x double>, ptr %t721, align 8
  %t727 = fadd <16 x double> %t720, %t726
  %t729 = bitcast i64 0 to i64
  %t730 = add i64 %t712, %t729
  %t731 = bitcast i64 16 to i64
  %t732 = mul i64 %t730, %t731
  %t728 = getelementptr i64, ptr %slots, i64 %t732
  store <16 x double> %t727, ptr %t728, align 8
  br label %b96
b96:
  %t711 = add nsw i64 %t712, 1
  %t733 = icmp slt i64 %t711, %t709
  br i1 %t733, label %b95, label %b97
b97:
  br label %b94
b94:
  %t734 = bitcast i64 1 to i64
  %t735 = icmp sgt i64 %t1, %t734
  br i1 %t735, label %b98, label %b99
b98:
  %t736 = sub i64 %t1, %t734
  %t737 = icmp slt i64 %t736, %t734
  %t738 = select i1 %t737, i64 %t736, i64 %t734
  %t739 = bitcast i64 0 to i64
  br label %b100
b100:
  %t741 = phi i64 [ %t739, %b98 ], [ %t740, %b101 ]
  %t742 = bitcast i64 1 to i64
  %t743 = add i64 %t741, %t742
  %t745 = bitcast i64 0 to i64
  %t746 = add i64 %t741, %t745
  %t747 = bitcast i64 16 to i64
  %t748 = mul i64 %t746, %t747
  %t744 = getelementptr i64, ptr %slots, i64 %t748
  %t749 = load <16 x double>, ptr %t744, align 8
  %t751 = bitcast i64 0 to i64
  %t752 = add i64 %t743, %t751
  %t753 = bitcast i64 16 to i64
  %t754 = mul i64 %t752, %t753
  %t750 = getelementptr i64, ptr %slots, i64 %t754
  %t755 = load <16 x double>, ptr %t750, align 8
  %t756 = fadd <16 x double> %t749, %t755
  %t758 = bitcast i64 0 to i64
  %t759 = add i64 %t741, %t758
  %t760 = bitcast i64 16 to i64
  %t761 = mul i64 %t759, %t760
  %t757 = getelementptr i64, ptr %slots, i64 %t761
  store <16 x double> %t756, ptr %t757, align 8
  br label %b101
b101:
  %t740 = add nsw i64 %t741, 1
  %t762 = icmp slt i64 %t740, %t738
  br i1 %t762, label %b100, label %b102
b102:
  br label %b99
b99:
  %t763 = bitcast i64 0 to i64
  %t765 = bitcast i64 0 to i64
  %t766 = add i64 %t763, %t765
  %t767 = bitcast i64 16 to i64
  %t768 = mul i64 %t766, %t767
  %t764 = getelementptr i64, ptr %slots, i64 %t768
  %t769 = load <16 x double>, ptr %t764, align 8
  %t770 = bitcast <16 x double> <double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000, double 0x0000000000000000> to <16 x double>
  %t771 = fadd <16 x double> %t770, %t769
  %t772 = fptrunc <16 x double> %t771 to <16 x float>
  %t773 = bitcast i64 0 to i64
  br label %b103
b103:
  %t775 = phi i64 [ %t773, %b99 ], [ %t774, %b104 ]
  %t776 = mul i64 %t775, %t7
  %t777 = getelementptr i8, ptr %t5, i64 %t776
  %t778 = mul i64 %t775, %t13
  %t779 = getelementptr i8, ptr %t11, i64 %t778
  %t781 = bitcast i64 48 to i64
  %t782 = add i64 %t775, %t781
  %t783 = bitcast i64 16 to i64
  %t784 = mul i64 %t782, %t783
  %t780 = getelementptr i64, ptr %slots, i64 %t784
  %t785 = load <16 x float>, ptr %t780, align 8
  %t786 = fdiv <16 x float> %t785, %t772
  %t787 = mul i64 %t20, %t15
  %t788 = getelementptr i8, ptr %t779, i64 %t787
  store <16 x float> %t786, ptr %scratch, align 64
  call void @copy_4(ptr %t788, i64 %t15, ptr %scratch, i64 4, i64 %t444)
  br label %b104
b104:
  %t774 = add nsw i64 %t775, 1
  %t789 = icmp slt i64 %t774, %t1
  br i1 %t789, label %b103, label %b105
b105:
  %t790 = bitcast i64 0 to i64
  br label %b56
b56:
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


attributes #0 = { nounwind "no-builtins" "target-cpu"="x86-64-v4" "target-features"="+cx8,+fxsr,+mmx,+sse,+sse2,+x87,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl" "prefer-vector-width"="512" "min-legal-vector-width"="512" }
