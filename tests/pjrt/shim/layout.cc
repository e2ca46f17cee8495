/* berth's declarations of the interface beside XLA's own header, of version 0.90, which the wheel contains: slots, sizes, offsets, numbers. Nothing to run. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <string_view>

#include "xla/pjrt/c/pjrt_c_api.h"

#define _Static_assert static_assert
#include "drivers/pjrt/api.h"

static_assert(PJRT_API_MAJOR == BTI_PJRT_MAJOR && PJRT_API_MINOR == 90, "another version than the wheel's");
static_assert(offsetof(bti_pjrt_table, version.major) == offsetof(PJRT_Api, pjrt_api_version.major_version));
static_assert(offsetof(bti_pjrt_table, version.minor) == offsetof(PJRT_Api, pjrt_api_version.minor_version));

/* --- slots: each entry has the place that the header gives its title ------------------------------------------------------ */

#define BTI_PJRT(slot, name, title, arguments, need) constexpr size_t slot_##name = slot;
#include "drivers/pjrt/entries.def"
#define BTI_PJRT(slot, name, title, arguments, need) constexpr std::string_view title_##name = title;
#include "drivers/pjrt/entries.def"

/* And its struct has the size that the header gives its arguments. */
#define ENTRY(name, theirs, ours, last)                                                                            \
    static_assert(title_##name == #theirs);                                                                        \
    static_assert(offsetof(bti_pjrt_table, entries) + slot_##name * sizeof(void *) == offsetof(PJRT_Api, theirs)); \
    static_assert(BTI_PJRT_SIZE(ours, last) == theirs##_Args_STRUCT_SIZE)

ENTRY(error_destroy, PJRT_Error_Destroy, bti_pjrt_one, object);
ENTRY(error_message, PJRT_Error_Message, bti_pjrt_text, length);
ENTRY(error_code, PJRT_Error_GetCode, bti_pjrt_int, result);
ENTRY(plugin_initialize, PJRT_Plugin_Initialize, bti_pjrt_none, extension);
ENTRY(event_destroy, PJRT_Event_Destroy, bti_pjrt_one, object);
ENTRY(event_is_ready, PJRT_Event_IsReady, bti_pjrt_bool, result);
ENTRY(event_await, PJRT_Event_Await, bti_pjrt_one, object);
ENTRY(event_on_ready, PJRT_Event_OnReady, bti_pjrt_on_ready, data);
ENTRY(client_create, PJRT_Client_Create, bti_pjrt_client_options, try_get);
ENTRY(client_destroy, PJRT_Client_Destroy, bti_pjrt_one, object);
ENTRY(client_platform, PJRT_Client_PlatformName, bti_pjrt_text, length);
ENTRY(client_version, PJRT_Client_PlatformVersion, bti_pjrt_text, length);
ENTRY(client_devices, PJRT_Client_AddressableDevices, bti_pjrt_list, count);
ENTRY(client_compile, PJRT_Client_Compile, bti_pjrt_compile, executable);
ENTRY(buffer_from_host, PJRT_Client_BufferFromHostBuffer, bti_pjrt_from_host, buffer);
ENTRY(description_id, PJRT_DeviceDescription_Id, bti_pjrt_int, result);
ENTRY(description_kind, PJRT_DeviceDescription_Kind, bti_pjrt_text, length);
ENTRY(device_description, PJRT_Device_GetDescription, bti_pjrt_get, result);
ENTRY(device_memory, PJRT_Device_DefaultMemory, bti_pjrt_get, result);
ENTRY(executable_destroy, PJRT_Executable_Destroy, bti_pjrt_one, object);
ENTRY(executable_outputs, PJRT_Executable_NumOutputs, bti_pjrt_size, result);
ENTRY(loaded_destroy, PJRT_LoadedExecutable_Destroy, bti_pjrt_one, object);
ENTRY(loaded_executable, PJRT_LoadedExecutable_GetExecutable, bti_pjrt_get, result);
ENTRY(execute, PJRT_LoadedExecutable_Execute, bti_pjrt_execute, device);
ENTRY(buffer_destroy, PJRT_Buffer_Destroy, bti_pjrt_one, object);
ENTRY(buffer_is_deleted, PJRT_Buffer_IsDeleted, bti_pjrt_bool, result);
ENTRY(buffer_to_device, PJRT_Buffer_CopyToDevice, bti_pjrt_copy_to, result);
ENTRY(buffer_to_host, PJRT_Buffer_ToHostBuffer, bti_pjrt_to_host, event);
ENTRY(buffer_ready, PJRT_Buffer_ReadyEvent, bti_pjrt_get, result);
ENTRY(buffer_to_memory, PJRT_Buffer_CopyToMemory, bti_pjrt_copy_to, result);
ENTRY(device_memory_stats, PJRT_Device_MemoryStats, bti_pjrt_memory_stats, after[5].is_set); /* it has grown since */

/* --- members ---------------------------------------------------------------------------------------------------------------- */

#define MEMBER(ours, member, theirs, its) \
    static_assert(offsetof(ours, member) == offsetof(theirs, its) && sizeof(ours::member) == sizeof(theirs::its))

MEMBER(bti_pjrt_memory_stats, used_bytes, PJRT_Device_MemoryStats_Args, bytes_in_use);
MEMBER(bti_pjrt_memory_stats, limit_bytes.value, PJRT_Device_MemoryStats_Args, bytes_limit);
MEMBER(bti_pjrt_memory_stats, limit_bytes.is_set, PJRT_Device_MemoryStats_Args, bytes_limit_is_set);
MEMBER(bti_pjrt_client_options, client, PJRT_Client_Create_Args, client);
MEMBER(bti_pjrt_on_ready, call, PJRT_Event_OnReady_Args, callback);
MEMBER(bti_pjrt_from_host, type, PJRT_Client_BufferFromHostBuffer_Args, type);
MEMBER(bti_pjrt_from_host, strides, PJRT_Client_BufferFromHostBuffer_Args, byte_strides);
MEMBER(bti_pjrt_from_host, semantics, PJRT_Client_BufferFromHostBuffer_Args, host_buffer_semantics);
MEMBER(bti_pjrt_from_host, device, PJRT_Client_BufferFromHostBuffer_Args, device);
MEMBER(bti_pjrt_from_host, layout, PJRT_Client_BufferFromHostBuffer_Args, device_layout);
MEMBER(bti_pjrt_from_host, done, PJRT_Client_BufferFromHostBuffer_Args, done_with_host_buffer);
MEMBER(bti_pjrt_layout, tiled.minor_to_major, PJRT_Buffer_MemoryLayout, tiled.minor_to_major);
MEMBER(bti_pjrt_layout, tiled.tile_count, PJRT_Buffer_MemoryLayout, tiled.num_tiles);
MEMBER(bti_pjrt_layout, type, PJRT_Buffer_MemoryLayout, type);
MEMBER(bti_pjrt_to_host, layout, PJRT_Buffer_ToHostBuffer_Args, host_layout);
MEMBER(bti_pjrt_to_host, bytes, PJRT_Buffer_ToHostBuffer_Args, dst_size);
MEMBER(bti_pjrt_program_text, format, PJRT_Program, format);
MEMBER(bti_pjrt_compile, options, PJRT_Client_Compile_Args, compile_options);
MEMBER(bti_pjrt_execute_options, launch, PJRT_ExecuteOptions, launch_id);
MEMBER(bti_pjrt_execute_options, kept, PJRT_ExecuteOptions, non_donatable_input_indices);
MEMBER(bti_pjrt_execute_options, kept_count, PJRT_ExecuteOptions, num_non_donatable_input_indices);
MEMBER(bti_pjrt_execute_options, incarnations, PJRT_ExecuteOptions, incarnation_ids);
MEMBER(bti_pjrt_execute, inputs, PJRT_LoadedExecutable_Execute_Args, argument_lists);
MEMBER(bti_pjrt_execute, outputs, PJRT_LoadedExecutable_Execute_Args, output_lists);
MEMBER(bti_pjrt_execute, events, PJRT_LoadedExecutable_Execute_Args, device_complete_events);
MEMBER(bti_pjrt_execute, device, PJRT_LoadedExecutable_Execute_Args, execute_device);

#define NUMBER(ours, theirs) static_assert(int{ours} == int{theirs})
NUMBER(BTI_PJRT_PRED, PJRT_Buffer_Type_PRED);
NUMBER(BTI_PJRT_BF16, PJRT_Buffer_Type_BF16);
NUMBER(BTI_PJRT_C128, PJRT_Buffer_Type_C128);
NUMBER(BTI_PJRT_F8E4M3FN, PJRT_Buffer_Type_F8E4M3FN);
NUMBER(BTI_PJRT_DURING_CALL, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall);
NUMBER(BTI_PJRT_UNTIL_COPIED, PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes);
NUMBER(BTI_PJRT_ZERO_COPY, PJRT_HostBufferSemantics_kImmutableZeroCopy);
