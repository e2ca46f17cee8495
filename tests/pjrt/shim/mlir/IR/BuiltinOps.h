/* In place of MLIR's header, which includes LLVM's, and the wheel has none of these. XLA's headers pass modules on and do no more; the shim gives XLA text. */
#ifndef BERTH_TESTS_PJRT_SHIM_BUILTIN_OPS_H
#define BERTH_TESTS_PJRT_SHIM_BUILTIN_OPS_H

namespace mlir {
class ModuleOp {
    void *state;
};
} // namespace mlir

#endif
