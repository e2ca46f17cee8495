/* The table, sizes of structs, errors. The parts are one translation unit, since XLA's headers take most of a minute to read. */
#include "shim.h"

#include <exception>

#include "buffers.cc"
#include "client.cc"
#include "events.cc"
#include "programs.cc"

namespace shim {

/* --- the least size of a struct: up to its last member that is used ----------------------------------------------------- */

template <class T> constexpr size_t least_bytes = 0;
#define LEAST(type, last) template <> constexpr size_t least_bytes<type> = BTI_PJRT_SIZE(type, last)
LEAST(bti_pjrt_none, extension);
LEAST(bti_pjrt_one, object);
LEAST(bti_pjrt_get, result);
LEAST(bti_pjrt_bool, result);
LEAST(bti_pjrt_int, result);
LEAST(bti_pjrt_size, result);
LEAST(bti_pjrt_text, length);
LEAST(bti_pjrt_list, count);
LEAST(bti_pjrt_on_ready, data);
LEAST(bti_pjrt_client_options, try_get);
LEAST(bti_pjrt_memory_stats, after[5].is_set);
LEAST(bti_pjrt_from_host, buffer);
LEAST(bti_pjrt_to_host, event);
LEAST(bti_pjrt_copy_to, result);
LEAST(bti_pjrt_compile, executable);
LEAST(bti_pjrt_execute, device);
#undef LEAST

/* --- errors --------------------------------------------------------------------------------------------------------------- */

absl::Status error_destroy(bti_pjrt_one &args) {
    delete static_cast<bti_pjrt_error *>(args.object);
    return absl::OkStatus();
}

absl::Status error_message(bti_pjrt_text &args) {
    absl::string_view message = at<bti_pjrt_error>(args.object).status.message();
    args.text = message.data();
    args.length = message.size();
    return absl::OkStatus();
}

absl::Status error_code(bti_pjrt_int &args) {
    args.result = static_cast<int>(at<bti_pjrt_error>(args.object).status.code());
    return absl::OkStatus();
}

absl::Status plugin_initialize(bti_pjrt_none &) { return absl::OkStatus(); }

/* --- the table ------------------------------------------------------------------------------------------------------------ */

template <class T> bti_pjrt_error *answer(const char *title, absl::Status (*entry)(T &), T *args) {
    static_assert(least_bytes<T> > 0, "a struct without a size");
    absl::Status status;
    try {
        status = check_size(title, args->size, least_bytes<T>);
        if (status.ok()) status = entry(*args);
    } catch (const std::exception &exception) {
        status = absl::InternalError(absl::StrCat(title, ": ", exception.what()));
    }
    return status.ok() ? nullptr : new bti_pjrt_error{status};
}

#define BTI_PJRT(slot, name, title, arguments, need) \
    static bti_pjrt_error *entry_##name(arguments *args) { return answer<arguments>(title, name, args); }
#include "drivers/pjrt/entries.def"

constexpr size_t slot_count() {
    size_t count = 0;
#define BTI_PJRT(slot, name, title, arguments, need) count = slot + 1 > count ? slot + 1 : count;
#include "drivers/pjrt/entries.def"
    return count;
}

/* Entries that berth does not use are NULL. */
static const bti_pjrt_table *make_table() {
    enum { MINOR = 90 }; // of XLA's own header in the wheel (layout.cc)
    alignas(
        bti_pjrt_table) static unsigned char memory[offsetof(bti_pjrt_table, entries) + slot_count() * sizeof(void *)];
    auto *table = reinterpret_cast<bti_pjrt_table *>(memory);
    table->size = sizeof memory;
    table->version.size = sizeof table->version;
    table->version.major = BTI_PJRT_MAJOR;
    table->version.minor = MINOR;
#define BTI_PJRT(slot, name, title, arguments, need) table->entries[slot] = reinterpret_cast<void *>(entry_##name);
#include "drivers/pjrt/entries.def"
    return table;
}

} // namespace shim

extern "C" const bti_pjrt_table *GetPjrtApi() {
    static const bti_pjrt_table *const table = shim::make_table();
    return table;
}
