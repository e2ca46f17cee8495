/* Events: XLA's futures. */
#include "shim.h"

namespace shim {

absl::Status event_destroy(bti_pjrt_one &args) {
    delete static_cast<Event *>(args.object);
    return absl::OkStatus();
}

absl::Status event_is_ready(bti_pjrt_bool &args) {
    args.result = at<Event>(args.object).future.IsReady();
    return absl::OkStatus();
}

absl::Status event_await(bti_pjrt_one &args) { return at<Event>(args.object).future.Await(); }

absl::Status event_on_ready(bti_pjrt_on_ready &args) {
    at<Event>(args.event).future.OnReady([call = args.call, data = args.data](const absl::Status &status) {
        call(status.ok() ? nullptr : new bti_pjrt_error{status}, data);
    });
    return absl::OkStatus();
}

} // namespace shim
