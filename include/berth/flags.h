/* berth/flags.h: settings. They are set by `BERTH_FLAGS="key=value,key=value"` in the environment (lists inside a value
 * use `;`) or by bt_set_flag in the program, which overrides the environment. `berth config` prints each flag with its
 * value and where it was set; the table is src/base/flags.def. Every call here may be made from any thread and does not
 * block. */
#ifndef BERTH_FLAGS_H
#define BERTH_FLAGS_H

#include <berth/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets a flag by name: "soft_placement", "on". NOT_FOUND names the nearest flag; INVALID_ARGUMENT says what the value
 * must be; FAILED_PRECONDITION when the flag can no longer be set. In names case does not matter, and `-` stands for
 * `_`. */
BT_API BT_MUST_USE bt_status bt_set_flag(const char *name, const char *value);
#define bt_set_flag(...) BTI_AT_MUST(bt_set_flag(__VA_ARGS__))

/* Writes the flag's value as text to `text`, cut to `size` bytes including the terminating NUL. NOT_FOUND as above. */
BT_API BT_MUST_USE bt_status bt_get_flag(const char *name, char *text, size_t size);
#define bt_get_flag(...) BTI_AT_MUST(bt_get_flag(__VA_ARGS__))

/* The error of BERTH_FLAGS, found when the variable was first read; BT_OK when there was none. While there is one,
 * finding and opening devices fail with the same error, so a misspelt setting is never ignored. */
BT_API BT_MUST_USE bt_status bt_check_flags(void);
#define bt_check_flags(...) BTI_AT_MUST(bt_check_flags(__VA_ARGS__))

/* What is known of flag `index`, 0 to bt_flag_count() - 1; OUT_OF_RANGE past that. Initialise it with
 * BT_FLAG_INFO_INIT. The texts are constants of the library; bt_get_flag gives the value. */
typedef struct bt_flag_info {
    size_t size BTI_INITIALLY(sizeof(bt_flag_info));
    const char *name;
    const char *type;          /* "bool", "int", "float", "bytes", "text", "choice" */
    const char *range;         /* "on or off", "0 to 1", "copy, log or error"; "" for any text */
    const char *default_value; /* as bt_get_flag would write it */
    const char *origin;        /* where the value was set: "default", "BERTH_FLAGS", "BERTH_SYNC", "program" */
    const char *when;          /* "any time", "before the first device query", "before the first use of a device" */
    const char *doc;
} bt_flag_info;
#define BT_FLAG_INFO_INIT BTI_INFO_INIT(bt_flag_info)
BT_API int bt_flag_count(void);
BT_API BT_MUST_USE bt_status bt_flag_describe(int index, bt_flag_info *info);
#define bt_flag_describe(...) BTI_AT_MUST(bt_flag_describe(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
