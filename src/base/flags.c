#include "base/flags.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/flagtext.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/sized.h"
#include "base/str.h"

enum { BOOL, INT, FLOAT, BYTES, TEXT, CHOICE };
typedef enum origin { DEFAULT, ENVIRONMENT, ENVIRONMENT_SYNC, PROGRAM } origin;

static const char *const type_names[] = {"bool", "int", "float", "bytes", "text", "choice"};
static const char *const origin_names[] = {"default", "BERTH_FLAGS", "BERTH_SYNC", "program"};
static const char *const when_names[] = {"any time", "before the first device query",
                                         "before the first use of a device"};

static const struct {
    const char *name;
    int type;
    const char *standard;
    double low, high;
    const char *choices;
    bti_flag_when when;
    const char *doc;
} rows[] = {
#define BTI_FLAG(name, type, standard, low, high, choices, when, doc) \
    {#name, type, standard, low, high, choices, BTI_##when, doc},
#include "base/flags.def"
#undef BTI_FLAG
};

atomic_bool bti_flags_ready_;
_Atomic int64_t bti_flag_values_[BTI_FLAG_COUNT];

/* All below under the lock. */
BTI_STATIC_LOCK_RECURSIVE(flags_lock, flags) /* an error handler may ask for flags */
static char *texts[BTI_FLAG_COUNT];          /* of TEXT flags; NULL: the default */
static origin origins[BTI_FLAG_COUNT];
static _Atomic uint64_t changes[BTI_FLAG_COUNT], all_changes;
static char ranges[BTI_FLAG_COUNT][80];
static bool passed[3]; /* moments */
static bti_error *fault;
static bti_str notices; /* faults to log, one a line */

static void follow_strict(void) { bti_errors_set_strict(bti_flag_bool(BTI_FLAG_strict)); }
static bti_flag_watcher *_Atomic watchers[BTI_FLAG_COUNT] = {[BTI_FLAG_strict] = follow_strict};

/* --- one value ---------------------------------------------------------------------------------------------------- */

static void write_number(int type, double number, char *text, size_t size) {
    if (type == BYTES)
        bti_write_bytes(text, size, (int64_t)number);
    else
        bti_write_float(text, size, number);
}

/* "on or off", "0 to 1", "copy, log or error" */
static void write_range(int flag, char *text, size_t size) {
    char low[32], high[32];
    bti_str out = {0};
    switch (rows[flag].type) {
    case BOOL: snprintf(text, size, "on or off"); break;
    case TEXT: snprintf(text, size, "%s", ""); break;
    case CHOICE:
        for (const char *c = rows[flag].choices; *c; c++)
            if (*c == '|')
                bti_str_add(&out, strchr(c + 1, '|') ? ", " : " or ");
            else
                bti_str_add_bytes(&out, c, 1);
        snprintf(text, size, "%s", bti_str_text(&out));
        bti_str_free(&out);
        break;
    default:
        write_number(rows[flag].type, rows[flag].low, low, sizeof low);
        write_number(INT, rows[flag].high, high, sizeof high);
        snprintf(text, size, "%s to %s", low, high);
    }
}

static bool read_choice(const char *choices, const char *value, size_t length, int64_t *number) {
    for (int64_t i = 0; *choices; i++) {
        size_t word = strcspn(choices, "|");
        if (word == length && bti_edit_distance(choices, word, value, length) == 0) return *number = i, true;
        choices += word + (choices[word] == '|');
    }
    return false;
}

/* The number that a value means to a flag of any type but TEXT; false when it is none of its values. */
static bool read_value(int flag, const char *value, size_t length, int64_t *number) {
    bool truth;
    double real;
    switch (rows[flag].type) {
    case BOOL:
        if (!bti_read_bool(value, length, &truth)) return false;
        *number = truth;
        return true;
    case CHOICE: return length <= 64 && read_choice(rows[flag].choices, value, length, number);
    case FLOAT:
        if (!bti_read_float(value, length, &real) || real < rows[flag].low || real > rows[flag].high) return false;
        memcpy(number, &real, sizeof real);
        return true;
    default:
        if (!(rows[flag].type == INT ? bti_read_int : bti_read_bytes)(value, length, number)) return false;
        return (double)*number >= rows[flag].low && (double)*number <= rows[flag].high;
    }
}

static void write_value(int flag, char *text, size_t size) {
    int64_t number = atomic_load(&bti_flag_values_[flag]);
    double real;
    memcpy(&real, &number, sizeof real);
    const char *choice = rows[flag].choices;
    switch (rows[flag].type) {
    case BOOL: snprintf(text, size, "%s", number ? "on" : "off"); break;
    case FLOAT: bti_write_float(text, size, real); break;
    case BYTES: bti_write_bytes(text, size, number); break;
    case CHOICE:
        for (; number > 0; number--) choice = strchr(choice, '|') + 1;
        snprintf(text, size, "%.*s", (int)strcspn(choice, "|"), choice);
        break;
    default: snprintf(text, size, "%" PRId64, number);
    }
}

/* --- names -------------------------------------------------------------------------------------------------------- */

static int find(const char *name, size_t length) {
    for (int flag = 0; flag < BTI_FLAG_COUNT; flag++) {
        const char *known = rows[flag].name;
        size_t i = 0;
        for (; i < length && known[i]; i++) {
            char c = name[i] == '-' ? '_' : name[i];
            if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != known[i]) break;
        }
        if (i == length && !known[i]) return flag;
    }
    return -1;
}

static bti_error *unknown(const char *prefix, const char *name, size_t length) {
    int nearest = 0, least = 1000;
    for (int flag = 0; flag < BTI_FLAG_COUNT; flag++) {
        int distance = bti_edit_distance(name, length, rows[flag].name, strlen(rows[flag].name));
        if (distance < least) least = distance, nearest = flag;
    }
    if (2 * (size_t)least > length)
        return bti_error_new(BT_NOT_FOUND, "%sunknown flag \"%s\"; \"berth config\" lists them", prefix,
                             bti_quote_bytes(name, length).text);
    return bti_error_new(BT_NOT_FOUND, "%sunknown flag \"%s\"; did you mean \"%s\"?", prefix,
                         bti_quote_bytes(name, length).text, rows[nearest].name);
}

/* --- setting ------------------------------------------------------------------------------------------------------ */

/* Under the lock. The error is the caller's. */
static bti_error *set(const char *prefix, const char *name, size_t name_length, const char *value, size_t length,
                      origin from) {
    int flag = find(name, name_length);
    int64_t number = 0;
    char *text = NULL;
    if (flag < 0) return unknown(prefix, name, name_length);
    if (from == PROGRAM && passed[rows[flag].when])
        return bti_error_new(BT_FAILED_PRECONDITION, "flag \"%s\" must be set %s", rows[flag].name,
                             when_names[rows[flag].when]);
    if (rows[flag].type == TEXT) {
        text = bti_alloc(length + 1);
        if (!text) return bti_no_memory_new();
        memcpy(text, value, length);
        text[length] = '\0';
        bti_free(texts[flag]);
        texts[flag] = text;
        number = length > 0;
    } else if (!read_value(flag, value, length, &number)) {
        return bti_error_new(BT_INVALID_ARGUMENT, "%sflag \"%s\" cannot be \"%s\": it takes %s%s", prefix,
                             rows[flag].name, bti_quote_bytes(value, length).text, ranges[flag],
                             rows[flag].type == BYTES ? " bytes, such as 8G, 512M or 1GiB" : "");
    }
    atomic_store(&bti_flag_values_[flag], number);
    origins[flag] = from;
    changes[flag]++;
    all_changes++;
    return NULL;
}

static void trim(const char **text, size_t *length) {
    while (*length && strchr(" \t\r\n", **text)) (*text)++, (*length)--;
    while (*length && strchr(" \t\r\n", (*text)[*length - 1])) (*length)--;
}

static void note_fault(bti_error *error) {
    if (!error) return;
    bti_str_addf(&notices, "%s\n", bti_error_message(error));
    if (!fault)
        fault = error;
    else
        bti_error_release(error);
}

/* The flag that follows a `;` as if that stood between flags; -1: it joins the parts of one value. */
static int entry_within(const char *value, size_t length) {
    const char *end = value + length;
    for (const char *at = value; (at = memchr(at, ';', (size_t)(end - at))) != NULL; at++) {
        const char *name = at + 1, *equals = memchr(name, '=', (size_t)(end - name));
        size_t name_length = equals ? (size_t)(equals - name) : 0;
        trim(&name, &name_length);
        int flag = name_length ? find(name, name_length) : -1;
        if (flag >= 0) return flag;
    }
    return -1;
}

static bti_error *set_entry(const char *entry, size_t length) {
    trim(&entry, &length);
    if (!length) return NULL;
    const char *equals = memchr(entry, '=', length);
    if (!equals)
        return bti_error_new(
            BT_INVALID_ARGUMENT,
            "BERTH_FLAGS: \"%s\" has no value; write name=value, and join what is in one value by \";\"",
            bti_quote_bytes(entry, length).text);
    const char *name = entry, *value = equals + 1;
    size_t name_length = (size_t)(equals - entry), value_length = length - name_length - 1;
    trim(&name, &name_length);
    trim(&value, &value_length);
    int next = entry_within(value, value_length);
    if (next >= 0)
        return bti_error_new(BT_INVALID_ARGUMENT,
                             "BERTH_FLAGS: \"%s\": flags are separated by \",\", not by \";\": write \",%s=...\"",
                             bti_quote_bytes(entry, length).text, rows[next].name);
    return set("BERTH_FLAGS: ", name, name_length, value, value_length, ENVIRONMENT);
}

static void read_environment(void) {
    const char *sync = getenv("BERTH_SYNC"), *entries = getenv("BERTH_FLAGS");
    if (sync && *sync) note_fault(set("BERTH_SYNC: ", "sync", 4, sync, strlen(sync), ENVIRONMENT_SYNC));
    while (entries && *entries) {
        size_t length = strcspn(entries, ",");
        note_fault(set_entry(entries, length));
        entries += length + (entries[length] == ',');
    }
}

static void read_locked(void) {
    static bool reading; /* an error handler may come back here */
    if (atomic_load(&bti_flags_ready_) || reading) return;
    reading = true;
    for (int flag = 0; flag < BTI_FLAG_COUNT; flag++) {
        int64_t number = 0;
        write_range(flag, ranges[flag], sizeof ranges[flag]);
        if (rows[flag].type != TEXT) read_value(flag, rows[flag].standard, strlen(rows[flag].standard), &number);
        atomic_store(&bti_flag_values_[flag], number);
    }
    bti_without_site without_site = bti_without_site_begin();
    read_environment();
    bti_without_site_end(without_site);
    atomic_store_explicit(&bti_flags_ready_, true, memory_order_release);
    reading = false;
}

void bti_flag_watch(bti_flag flag, bti_flag_watcher *watcher) { atomic_store(&watchers[flag], watcher); }

/* Not under the lock: a watcher asks for flags. */
static void tell_watcher(int flag) {
    bti_flag_watcher *watcher = atomic_load(&watchers[flag]);
    if (watcher) watcher();
}

void bti_flags_read_(void) {
    if (atomic_load_explicit(&bti_flags_ready_, memory_order_acquire)) return;
    bti_lock_take(&flags_lock);
    read_locked();
    char *lines = notices.length ? bti_str_take(&notices) : NULL;
    bti_lock_give(&flags_lock);
    char *rest = NULL; /* a log sink may ask for flags: not under the lock */
    for (char *line = lines ? strtok_r(lines, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
        bti_log("%s", line);
    bti_free(lines);
    for (int flag = 0; flag < BTI_FLAG_COUNT; flag++) tell_watcher(flag);
}

/* --- the public face ---------------------------------------------------------------------------------------------- */

bt_status bt_set_flag(const char *name, const char *value) {
    BTI_CALL("bt_set_flag");
    if (!name || !value) return bti_fail(BT_INVALID_ARGUMENT, "name and value must not be NULL");
    size_t length = strlen(value);
    trim(&value, &length);
    bti_flags_read_();
    bti_lock_take(&flags_lock);
    bti_error *error = set("", name, strlen(name), value, length, PROGRAM);
    bti_lock_give(&flags_lock);
    if (!error) tell_watcher(find(name, strlen(name)));
    bt_status status = bti_fail_with(error);
    bti_error_release(error);
    return status;
}

bt_status bt_get_flag(const char *name, char *text, size_t size) {
    BTI_CALL("bt_get_flag");
    if (!name || (!text && size)) return bti_fail(BT_INVALID_ARGUMENT, "name and text must not be NULL");
    bti_flags_read_();
    int flag = find(name, strlen(name));
    if (flag < 0) {
        bti_error *error = unknown("", name, strlen(name));
        bt_status status = bti_fail_with(error);
        bti_error_release(error);
        return status;
    }
    char *value = bti_flag_text((bti_flag)flag);
    if (!value) return bti_no_memory();
    if (size) snprintf(text, size, "%s", value);
    bti_free(value);
    return BT_OK;
}

char *bti_flag_text(bti_flag flag) {
    char number[64];
    bti_flags_read_();
    if (rows[flag].type != TEXT) {
        write_value((int)flag, number, sizeof number);
        return bti_strdup(number);
    }
    bti_lock_take(&flags_lock);
    char *copy = bti_strdup(texts[flag] ? texts[flag] : rows[flag].standard);
    bti_lock_give(&flags_lock);
    return copy;
}

uint64_t bti_flag_changes(bti_flag flag) {
    bti_flags_read_();
    return atomic_load(&changes[flag]);
}

uint64_t bti_flags_changes(void) {
    bti_flags_read_();
    return atomic_load(&all_changes);
}

bt_status bt_check_flags(void) {
    BTI_CALL("bt_check_flags");
    bti_error *error = bti_flags_fault();
    bt_status status = bti_fail_with(error);
    bti_error_release(error);
    return status;
}

bti_error *bti_flags_fault(void) {
    bti_flags_read_();
    bti_lock_take(&flags_lock);
    bti_error *error = bti_error_retain(fault);
    bti_lock_give(&flags_lock);
    return error;
}

int bt_flag_count(void) { return BTI_FLAG_COUNT; }

#define MEMBER(name) BTI_MEMBER(bt_flag_info, name)
static const bti_member flag_info_members[] = {MEMBER(size),          MEMBER(name),   MEMBER(type), MEMBER(range),
                                               MEMBER(default_value), MEMBER(origin), MEMBER(when), MEMBER(doc)};
#undef MEMBER
static const bti_sized_type flag_info_layout =
    BTI_SIZED_TYPE(bt_flag_info, "contents of info", "bt_flag_info info = BT_FLAG_INFO_INIT", flag_info_members, NULL);

bt_status bt_flag_describe(int index, bt_flag_info *info) {
    BTI_TRY(bti_sized_check(&flag_info_layout, "bt_flag_describe", info));
    BTI_CALL("bt_flag_describe");
    if (index < 0 || index >= BTI_FLAG_COUNT)
        return bti_fail(BT_OUT_OF_RANGE, "there are %d flags, not number %d", BTI_FLAG_COUNT, index);
    bti_flags_read_();
    bti_lock_take(&flags_lock);
    origin from = origins[index];
    bti_lock_give(&flags_lock);
    bt_flag_info known = {sizeof known,         rows[index].name,   type_names[rows[index].type], ranges[index],
                          rows[index].standard, origin_names[from], when_names[rows[index].when], rows[index].doc};
    bti_info_give(&flag_info_layout, &known, info);
    return BT_OK;
}

void bti_flags_pass(bti_flag_when moment) {
    bti_lock_take(&flags_lock);
    if (moment == BTI_ANY_TIME)
        passed[BTI_BEFORE_QUERY] = passed[BTI_BEFORE_OPEN] = false;
    else
        passed[moment] = true;
    bti_lock_give(&flags_lock);
}

void bti_flags_reset(void) {
    bti_lock_take(&flags_lock);
    for (int flag = 0; flag < BTI_FLAG_COUNT; flag++) {
        bti_free(texts[flag]);
        texts[flag] = NULL;
        origins[flag] = DEFAULT;
        changes[flag]++;
    }
    all_changes++;
    memset(passed, 0, sizeof passed);
    bti_errors_set_strict(false);
    bti_error_release(fault);
    fault = NULL;
    atomic_store(&bti_flags_ready_, false);
    bti_lock_give(&flags_lock);
}
