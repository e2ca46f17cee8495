/* Buffers: to the device, to the host, between devices. */
#include "shim.h"

#include <atomic>
#include <optional>
#include <utility>

#include "xla/literal.h"
#include "xla/shape_util.h"
#include "xla/tsl/platform/statusor.h"
#include "xla/xla_data.pb.h"

/* For tests: the code of an error that the next upload is to end with, after it was accepted. */
static std::atomic<int> next_upload_code;
extern "C" void berth_shim_fail_upload(int code) { next_upload_code = code; }

namespace shim {

static const xla::PrimitiveType types[] = {xla::PRIMITIVE_TYPE_INVALID,
                                           xla::PRED,
                                           xla::S8,
                                           xla::S16,
                                           xla::S32,
                                           xla::S64,
                                           xla::U8,
                                           xla::U16,
                                           xla::U32,
                                           xla::U64,
                                           xla::F16,
                                           xla::F32,
                                           xla::F64,
                                           xla::BF16,
                                           xla::C64,
                                           xla::C128,
                                           xla::F8E5M2,
                                           xla::F8E4M3FN};
static_assert(sizeof types / sizeof *types == BTI_PJRT_F8E4M3FN + 1, "a type for each number");

using Semantics = xla::PjRtClient::HostBufferSemantics;
static_assert(static_cast<int>(Semantics::kImmutableOnlyDuringCall) == BTI_PJRT_DURING_CALL);
static_assert(static_cast<int>(Semantics::kImmutableUntilTransferCompletes) == BTI_PJRT_UNTIL_COPIED);
static_assert(static_cast<int>(Semantics::kImmutableZeroCopy) == BTI_PJRT_ZERO_COPY);

static absl::Status memory_of(void *device, void *memory, xla::PjRtMemorySpace **space) {
    *space = static_cast<xla::PjRtMemorySpace *>(memory);
    if (*space) return absl::OkStatus();
    TF_ASSIGN_OR_RETURN(*space, at<xla::PjRtDevice>(device).default_memory_space());
    return absl::OkStatus();
}

/* --- to the device -------------------------------------------------------------------------------------------------------- */

static absl::Status check_upload(const bti_pjrt_from_host &args) {
    if (args.type <= 0 || args.type > BTI_PJRT_F8E4M3FN)
        return absl::UnimplementedError(absl::StrCat("elements of type ", args.type));
    if (args.layout) return absl::UnimplementedError("a layout of a buffer's own");
    if (args.semantics < BTI_PJRT_DURING_CALL || args.semantics > BTI_PJRT_ZERO_COPY)
        return absl::UnimplementedError(absl::StrCat("semantics ", args.semantics, " of the host's memory"));
    return absl::OkStatus();
}

/* As if the transfer had failed after it began. */
static absl::Status fail_later(int code, bti_pjrt_from_host &args, xla::PjRtMemorySpace *memory) {
    absl::Status error(static_cast<absl::StatusCode>(code), "the shim was told to fail this upload");
    xla::Shape shape = xla::ShapeUtil::MakeShape(types[args.type], absl::MakeSpan(args.shape, args.rank));
    TF_ASSIGN_OR_RETURN(auto buffer, at<Client>(args.client).client->CreateErrorBuffer(error, shape, memory));
    args.buffer = buffer.release();
    args.done = new Event{xla::Future<>(error)};
    return absl::OkStatus();
}

absl::Status buffer_from_host(bti_pjrt_from_host &args) {
    xla::PjRtMemorySpace *memory;
    TF_RETURN_IF_ERROR(check_upload(args));
    TF_RETURN_IF_ERROR(memory_of(args.device, args.memory, &memory));
    if (int code = next_upload_code.exchange(0)) return fail_later(code, args, memory);
    std::optional<absl::Span<const int64_t>> strides;
    if (args.strides) strides = absl::MakeSpan(args.strides, args.stride_count);
    auto [promise, done] = tsl::MakePromise<>();
    auto end = [promise = std::move(promise)]() mutable { promise.Set(absl::OkStatus()); };
    TF_ASSIGN_OR_RETURN(auto buffer, at<Client>(args.client)
                                         .client->BufferFromHostBuffer(args.data, types[args.type],
                                                                       absl::MakeSpan(args.shape, args.rank), strides,
                                                                       static_cast<Semantics>(args.semantics),
                                                                       std::move(end), memory, nullptr));
    args.buffer = buffer.release();
    args.done = new Event{std::move(done)};
    return absl::OkStatus();
}

/* --- to the host ---------------------------------------------------------------------------------------------------------- */

static absl::StatusOr<xla::Shape> shape_on_host(xla::PjRtBuffer &buffer, const bti_pjrt_layout *layout) {
    TF_ASSIGN_OR_RETURN(xla::Shape shape, buffer.HostShape());
    if (!layout) return shape;
    TF_RETURN_IF_ERROR(check_size("PJRT_Buffer_MemoryLayout", layout->size, BTI_PJRT_SIZE(bti_pjrt_layout, type)));
    if (layout->type != 0 || layout->tiled.tile_count)
        return absl::UnimplementedError("a layout with strides or tiles");
    if (layout->tiled.rank != shape.dimensions().size())
        return absl::InvalidArgumentError(
            absl::StrCat("a layout of ", layout->tiled.rank, " axes for a buffer of ", shape.dimensions().size()));
    return xla::ShapeUtil::MakeShapeWithDenseLayout(shape.element_type(), shape.dimensions(),
                                                    absl::MakeSpan(layout->tiled.minor_to_major, layout->tiled.rank));
}

absl::Status buffer_to_host(bti_pjrt_to_host &args) {
    auto &buffer = at<xla::PjRtBuffer>(args.buffer);
    TF_ASSIGN_OR_RETURN(xla::Shape shape, shape_on_host(buffer, args.layout));
    size_t bytes = static_cast<size_t>(xla::ShapeUtil::ByteSizeOf(shape));
    if (!args.host) {
        args.bytes = bytes;
        return absl::OkStatus();
    }
    if (args.bytes < bytes)
        return absl::InvalidArgumentError(absl::StrCat(args.bytes, " bytes for a buffer of ", bytes));
    auto literal = std::make_shared<xla::MutableBorrowingLiteral>(static_cast<char *>(args.host), shape);
    xla::Future<> done = buffer.ToLiteral(literal.get());
    done.OnReady([literal](const absl::Status &) {}); // it lives until then
    args.event = new Event{std::move(done)};
    return absl::OkStatus();
}

/* --- the rest ------------------------------------------------------------------------------------------------------------- */

absl::Status buffer_destroy(bti_pjrt_one &args) {
    delete static_cast<xla::PjRtBuffer *>(args.object);
    return absl::OkStatus();
}

absl::Status buffer_is_deleted(bti_pjrt_bool &args) {
    args.result = at<xla::PjRtBuffer>(args.object).IsDeleted();
    return absl::OkStatus();
}

absl::Status buffer_ready(bti_pjrt_get &args) {
    args.result = new Event{at<xla::PjRtBuffer>(args.object).GetReadyFuture()};
    return absl::OkStatus();
}

static absl::Status copy_into(bti_pjrt_copy_to &args, void *device, void *memory) {
    xla::PjRtMemorySpace *space;
    TF_RETURN_IF_ERROR(memory_of(device, memory, &space));
    TF_ASSIGN_OR_RETURN(auto copy, at<xla::PjRtBuffer>(args.buffer).CopyToMemorySpace(space));
    args.result = copy.release();
    return absl::OkStatus();
}

absl::Status buffer_to_device(bti_pjrt_copy_to &args) { return copy_into(args, args.target, nullptr); }
absl::Status buffer_to_memory(bti_pjrt_copy_to &args) { return copy_into(args, nullptr, args.target); }

} // namespace shim
