/* A PJRT plugin over the XLA of tensorflow-cpu's library: what its parts share.
 *
 * Each entry of entries.def is a function of its name that returns a status; plugin.cc makes the table of them. */
#ifndef BERTH_TESTS_PJRT_SHIM_H
#define BERTH_TESTS_PJRT_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "xla/future.h"
#include "xla/pjrt/pjrt_client.h"
#include "xla/pjrt/pjrt_executable.h"

#define _Static_assert static_assert
#include "drivers/pjrt/api.h"

struct bti_pjrt_error {
    absl::Status status;
};

namespace shim {

struct Event {
    xla::Future<> future;
};

struct Client {
    std::unique_ptr<xla::PjRtClient> client;
};

/* Of a loaded program, or of what is known of it: either may be destroyed first. */
struct Program {
    std::shared_ptr<xla::PjRtLoadedExecutable> loaded;
};

/* Devices, memories and buffers are XLA's own objects. */
template <class T> T &at(void *object) { return *static_cast<T *>(object); }

inline absl::Status check_size(const char *title, size_t size, size_t least) {
    if (size >= least) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("Unexpected ", title, " size: expected ", least, ", got ", size));
}

#define BTI_PJRT(slot, name, title, arguments, need) absl::Status name(arguments &args);
#include "drivers/pjrt/entries.def"

} // namespace shim

#endif
