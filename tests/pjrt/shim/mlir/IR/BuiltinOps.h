/* In place of MLIR's header, which needs LLVM's, and those the wheel lacks: XLA's client only passes modules on. */
#ifndef BERTH_TESTS_PJRT_SHIM_BUILTIN_OPS_H
#define BERTH_TESTS_PJRT_SHIM_BUILTIN_OPS_H

namespace mlir {
class ModuleOp {
    void *state;
};
} // namespace mlir

#endif
