// Written by berth.
// argument 0: input, float32 (2, 3)
// argument 1: input, float32 (2, 1)
// argument 2: variable "weight", float32 (3, 1)
// argument 3: variable "calls?"x"", int32 ()
// result 0: output, float32 ()
// result 1: variable "weight", float32 (3, 1)
// result 2: variable "calls?"x"", int32 ()
module @berth {
  func.func public @main(%0: tensor<2x3xf32>, %1: tensor<2x1xf32>, %2: tensor<3x1xf32> {tf.aliasing_output = 1 : i32}, %3: tensor<i32> {tf.aliasing_output = 2 : i32}) -> (tensor<f32>, tensor<3x1xf32>, tensor<i32>) {
    %4 = "stablehlo.constant"() {value = dense<"0x0000803F0000004000004040"> : tensor<3xf32>} : () -> tensor<3xf32>
    %5 = "stablehlo.constant"() {value = dense<"0x0000003F"> : tensor<1x1xf32>} : () -> tensor<1x1xf32>
    %6 = "stablehlo.reshape"(%4) : (tensor<3xf32>) -> tensor<1x3xf32>
    %7 = "stablehlo.broadcast_in_dim"(%6) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<1x3xf32>) -> tensor<2x3xf32>
    %8 = "stablehlo.constant"() {value = dense<0x40000000> : tensor<f32>} : () -> tensor<f32>
    %9 = "stablehlo.reshape"(%8) : (tensor<f32>) -> tensor<1x1xf32>
    %10 = "stablehlo.broadcast_in_dim"(%5) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<1x1xf32>) -> tensor<2x1xf32>
    %11 = "stablehlo.constant"() {value = dense<0x3FB999999999999A> : tensor<f64>} : () -> tensor<f64>
    %12 = "stablehlo.convert"(%11) : (tensor<f64>) -> tensor<f32>
    %13 = "stablehlo.reshape"(%12) : (tensor<f32>) -> tensor<1x1xf32>
    %14 = "stablehlo.broadcast_in_dim"(%13) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<1x1xf32>) -> tensor<3x1xf32>
    %15 = "stablehlo.constant"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
    %16 = "stablehlo.convert"(%15) : (tensor<i64>) -> tensor<i32>
    %17 = "stablehlo.multiply"(%0, %7) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %18 = "stablehlo.dot_general"(%17, %2) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<2x3xf32>, tensor<3x1xf32>) -> tensor<2x1xf32>
    %19 = "stablehlo.subtract"(%18, %1) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %20 = "stablehlo.multiply"(%19, %19) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %21 = "stablehlo.constant"() {value = dense<0x00000000> : tensor<f32>} : () -> tensor<f32>
    %22 = "stablehlo.reduce"(%20, %21) ({
    ^bb0(%23: tensor<f32>, %24: tensor<f32>):
      %25 = "stablehlo.add"(%23, %24) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%25) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0, 1>} : (tensor<2x1xf32>, tensor<f32>) -> tensor<f32>
    %26 = "stablehlo.reshape"(%22) : (tensor<f32>) -> tensor<1x1xf32>
    %27 = "stablehlo.optimization_barrier"(%9) : (tensor<1x1xf32>) -> tensor<1x1xf32>
    %28 = "stablehlo.divide"(%26, %27) : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
    %29 = "stablehlo.reshape"(%28) : (tensor<1x1xf32>) -> tensor<f32>
    %30 = "stablehlo.multiply"(%10, %19) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %31 = "stablehlo.multiply"(%10, %19) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %32 = "stablehlo.add"(%30, %31) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
    %33 = "stablehlo.transpose"(%17) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %34 = "stablehlo.dot_general"(%33, %32) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<3x2xf32>, tensor<2x1xf32>) -> tensor<3x1xf32>
    %35 = "stablehlo.multiply"(%34, %14) : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
    %36 = "stablehlo.subtract"(%2, %35) : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
    %37 = "stablehlo.add"(%3, %16) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "func.return"(%29, %36, %37) : (tensor<f32>, tensor<3x1xf32>, tensor<i32>) -> ()
  }
}
