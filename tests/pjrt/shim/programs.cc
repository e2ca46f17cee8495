/* Programs: StableHLO as text, compiled and run. */
#include "shim.h"

#include <optional>
#include <utility>
#include <vector>

#include "xla/hlo/builder/xla_computation.h"
#include "xla/pjrt/proto/compile_options.pb.h"
#include "xla/tsl/platform/statusor.h"

namespace xla {
/* Its header needs MLIR's. */
absl::Status ParseMlirModuleStringAndConvertToXlaComputation(absl::string_view text, XlaComputation &computation,
                                                             bool use_tuple_args, bool return_tuple);
} // namespace xla

namespace shim {

static absl::StatusOr<xla::CompileOptions> read_options(const bti_pjrt_compile &args) {
    xla::CompileOptionsProto read;
    if (!read.ParseFromArray(args.options, static_cast<int>(args.option_bytes)))
        return absl::InvalidArgumentError("the compile options are no CompileOptionsProto");
    TF_ASSIGN_OR_RETURN(xla::CompileOptions options, xla::CompileOptions::FromProto(read));
    const xla::ExecutableBuildOptions &build = options.executable_build_options;
    if (build.num_replicas() != 1 || build.num_partitions() != 1) // XLA ends the process if there is none
        return absl::UnimplementedError(absl::StrCat(build.num_replicas(), " replicas of ", build.num_partitions(),
                                                     " partitions; there can be one of one"));
    return options;
}

absl::Status client_compile(bti_pjrt_compile &args) {
    const bti_pjrt_program_text &program = *args.program;
    TF_RETURN_IF_ERROR(check_size("PJRT_Program", program.size, BTI_PJRT_SIZE(bti_pjrt_program_text, format_bytes)));
    absl::string_view format(program.format, program.format_bytes);
    if (format != "mlir") return absl::UnimplementedError(absl::StrCat("programs of format \"", format, "\""));
    TF_ASSIGN_OR_RETURN(xla::CompileOptions options, read_options(args));
    xla::XlaComputation computation;
    TF_RETURN_IF_ERROR(xla::ParseMlirModuleStringAndConvertToXlaComputation(
        absl::string_view(program.text, program.bytes), computation, options.parameter_is_tupled_arguments, false));
    TF_ASSIGN_OR_RETURN(auto loaded, at<Client>(args.client).client->CompileAndLoad(computation, std::move(options)));
    args.executable = new Program{std::move(loaded)};
    return absl::OkStatus();
}

absl::Status loaded_destroy(bti_pjrt_one &args) {
    delete static_cast<Program *>(args.object);
    return absl::OkStatus();
}

absl::Status executable_destroy(bti_pjrt_one &args) { return loaded_destroy(args); }

absl::Status loaded_executable(bti_pjrt_get &args) {
    args.result = new Program(at<Program>(args.object));
    return absl::OkStatus();
}

absl::Status executable_outputs(bti_pjrt_size &args) {
    TF_ASSIGN_OR_RETURN(auto by_partition, at<Program>(args.object).loaded->GetOutputElementTypes());
    if (by_partition.empty()) return absl::InternalError("a program without a partition");
    args.result = by_partition[0].size();
    return absl::OkStatus();
}

/* --- running -------------------------------------------------------------------------------------------------------------- */

static absl::Status check_run(const bti_pjrt_execute &args) {
    TF_RETURN_IF_ERROR(
        check_size("PJRT_ExecuteOptions", args.options->size, BTI_PJRT_SIZE(bti_pjrt_execute_options, incarnations)));
    if (args.device_count != 1)
        return absl::UnimplementedError(absl::StrCat("a run on ", args.device_count, " devices"));
    if (args.options->send_count || args.options->receive_count) return absl::UnimplementedError("sends and receives");
    return absl::OkStatus();
}

absl::Status execute(bti_pjrt_execute &args) {
    TF_RETURN_IF_ERROR(check_run(args));
    const xla::PjRtLoadedExecutable &loaded = *at<Program>(args.executable).loaded;
    std::vector<xla::PjRtBuffer *> inputs;
    for (size_t i = 0; i < args.input_count; i++) inputs.push_back(static_cast<xla::PjRtBuffer *>(args.inputs[0][i]));
    xla::ExecuteOptions options;
    options.launch_id = args.options->launch;
    for (size_t i = 0; i < args.options->kept_count; i++)
        options.non_donatable_input_indices.insert(static_cast<int>(args.options->kept[i]));
    std::optional<xla::Future<>> done;
    auto *device = static_cast<xla::PjRtDevice *>(args.device);
    if (!device && loaded.addressable_devices().empty())
        return absl::InvalidArgumentError("a portable program is run without a device");
    TF_ASSIGN_OR_RETURN(auto outputs,
                        device ? loaded.ExecutePortable(inputs, device, options, done)
                               : loaded.ExecuteSharded(inputs, loaded.addressable_devices()[0], options, done));
    for (size_t i = 0; i < outputs.size(); i++) args.outputs[0][i] = outputs[i].release();
    if (args.events) args.events[0] = new Event{*std::move(done)};
    return absl::OkStatus();
}

} // namespace shim
