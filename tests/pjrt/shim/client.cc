/* The client and its devices. */
#include "shim.h"

#include <stdlib.h>

#include "xla/pjrt/plugin/xla_cpu/xla_cpu_pjrt_client.h"
#include "xla/tsl/platform/statusor.h"

namespace shim {

enum { DEFAULT_DEVICES = 4, MOST_DEVICES = 64 };

static absl::Status count_devices(int *count) {
    const char *text = getenv("BERTH_PJRT_SHIM_DEVICES");
    *count = DEFAULT_DEVICES;
    if (!text || !*text) return absl::OkStatus();
    char *end;
    long wanted = strtol(text, &end, 10);
    if (*end || wanted < 1 || wanted > MOST_DEVICES)
        return absl::InvalidArgumentError(
            absl::StrCat("BERTH_PJRT_SHIM_DEVICES is \"", text, "\"; it is a number from 1 to ", int{MOST_DEVICES}));
    *count = static_cast<int>(wanted);
    return absl::OkStatus();
}

absl::Status client_create(bti_pjrt_client_options &args) {
    xla::CpuClientOptions options;
    int count;
    TF_RETURN_IF_ERROR(count_devices(&count));
    options.cpu_device_count = count;
    TF_ASSIGN_OR_RETURN(auto client, xla::GetXlaPjrtCpuClient(std::move(options)));
    args.client = new Client{std::move(client)};
    return absl::OkStatus();
}

absl::Status client_destroy(bti_pjrt_one &args) {
    delete static_cast<Client *>(args.object);
    return absl::OkStatus();
}

static absl::Status borrow(absl::string_view text, bti_pjrt_text &args) {
    args.text = text.data();
    args.length = text.size();
    return absl::OkStatus();
}

absl::Status client_platform(bti_pjrt_text &args) {
    return borrow(at<Client>(args.object).client->platform_name(), args);
}

absl::Status client_version(bti_pjrt_text &args) {
    return borrow(at<Client>(args.object).client->platform_version(), args);
}

absl::Status client_devices(bti_pjrt_list &args) {
    absl::Span<xla::PjRtDevice *const> devices = at<Client>(args.object).client->addressable_devices();
    args.items = reinterpret_cast<void *const *>(devices.data());
    args.count = devices.size();
    return absl::OkStatus();
}

/* --- devices -------------------------------------------------------------------------------------------------------------- */

absl::Status device_description(bti_pjrt_get &args) {
    args.result = const_cast<xla::PjRtDeviceDescription *>(&at<xla::PjRtDevice>(args.object).description());
    return absl::OkStatus();
}

absl::Status description_id(bti_pjrt_int &args) {
    args.result = at<xla::PjRtDeviceDescription>(args.object).id();
    return absl::OkStatus();
}

absl::Status description_kind(bti_pjrt_text &args) {
    return borrow(at<xla::PjRtDeviceDescription>(args.object).device_kind(), args);
}

absl::Status device_memory(bti_pjrt_get &args) {
    TF_ASSIGN_OR_RETURN(xla::PjRtMemorySpace * memory, at<xla::PjRtDevice>(args.object).default_memory_space());
    args.result = memory;
    return absl::OkStatus();
}

absl::Status device_memory_stats(bti_pjrt_memory_stats &args) {
    TF_ASSIGN_OR_RETURN(tsl::AllocatorStats stats, at<xla::PjRtDevice>(args.device).GetAllocatorStats());
    args.used_bytes = stats.bytes_in_use;
    args.limit_bytes = {stats.bytes_limit.value_or(0), stats.bytes_limit.has_value()};
    return absl::OkStatus();
}

} // namespace shim
