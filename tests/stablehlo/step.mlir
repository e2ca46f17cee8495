// Written by berth.
// argument 0: input, float32 (2, 3)
// argument 1: input, float32 (2, 1)
// argument 2: variable "weight", float32 (3, 1)
// argument 3: variable "calls", int32 ()
// result 0: output, float32 ()
// result 1: variable "weight", float32 (3, 1)
// result 2: variable "calls", int32 ()
module @berth {
  func.func public @main(%0: tensor<2x3xf32>, %1: tensor<2x1xf32>, %2: tensor<3x1xf32> {tf.aliasing_output = 1 : i32}, %3: tensor<i32> {tf.aliasing_output = 2 : i32}) -> (tensor<f32>, tensor<3x1xf32>, tensor<i32>) {
    %4 = "stablehlo.constant"() {value = dense<"0x0000803F0000004000004040"> : tensor<3xf32>} : () -> tensor<3xf32>
    %5 = "stablehlo.reshape"(%4) : (tensor<3xf32>) -> tensor<1x3xf32>
    %6 = "stablehlo.broadcast_in_dim"(%5) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<1x3xf32>) -> tensor<2x3xf32>
    %7 = "stablehlo.constant"() {value = dense<0x40000000> : tensor<f32>} : () -> tensor<f32>
    %8 = "stablehlo.reshape"(%7) : (tensor<f32>) -> tensor<1x1xf32>
    %9 = "stablehlo.constant"() {value = dense<0x3F800000> : tensor<f32>} : () -> tensor<f32>
    %10 = "stablehlo.reshape"(%9) : (tensor<f32>) -> tensor<1x1xf32>
    %11 = "stablehlo.divide"(%10, %8) : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
    %12 = "stablehlo.broadcast_in_dim"(%11) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<1x1xf32>) -> tensor<2x1xf32>
    %13 = "stablehlo.constant"() {value = dense<0x3FB999999999999A> : tensor<f64>} : () -> tensor<f64>
    %14 = "stablehlo.convert"(%13) : (tensor<f64>) -> tensor<f32>
    %15 = "stablehlo.reshape"(%14) : (tensor<f32>) -> tensor<1x1xf32>
    %16 = "stablehlo.broadcast_in_dim"(%15) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<1x1xf32>) -> tensor<3x1xf32>
    %17 = "stablehlo.constant"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
    %18 = "stablehlo.convert"(%17) : (tensor<i64>) -> tensor<i32>
    %19 = "stablehlo.multiply"(%0, %6) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %20 = "stablehlo.dot_general"(%19, %2) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<2x3xf32>, tensor<3x1xf32>) -> tensor<2x1xf32>
    %21 = "stablehlo.subtract"(%20, %1) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %22 = "stablehlo.multiply"(%21, %21) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %23 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
    %24 = "stablehlo.reduce"(%22, %23) ({
    ^bb0(%25: tensor<f32>, %26: tensor<f32>):
      %27 = "stablehlo.add"(%25, %26) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%27) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0, 1>} : (tensor<2x1xf32>, tensor<f32>) -> tensor<f32>
    %28 = "stablehlo.reshape"(%24) : (tensor<f32>) -> tensor<1x1xf32>
    %29 = "stablehlo.divide"(%28, %8) : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
    %30 = "stablehlo.reshape"(%29) : (tensor<1x1xf32>) -> tensor<f32>
    %31 = "stablehlo.multiply"(%12, %21) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %32 = "stablehlo.multiply"(%12, %21) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %33 = "stablehlo.add"(%31, %32) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %34 = "stablehlo.transpose"(%19) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %35 = "stablehlo.dot_general"(%34, %33) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<3x2xf32>, tensor<2x1xf32>) -> tensor<3x1xf32>
    %36 = "stablehlo.multiply"(%35, %16) : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
    %37 = "stablehlo.subtract"(%2, %36) : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
    %38 = "stablehlo.add"(%3, %18) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "func.return"(%30, %37, %38) : (tensor<f32>, tensor<3x1xf32>, tensor<i32>) -> ()
  }
}
