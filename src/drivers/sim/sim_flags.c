#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/flagtext.h"
#include "base/lock.h"
#include "base/quote.h"
#include "drivers/sim/sim_flags.h"

/* --- devices ------------------------------------------------------------------------------------------------------ */

static bti_sim_spec configured; /* under the registry's lock */

void bti_sim_configure(const bti_sim_spec *spec) { configured = *spec; }
const bti_sim_spec *bti_sim_configured(void) { return &configured; }
bool bti_sim_has_models(const bti_sim_spec *spec) {
    for (int kind = 0; kind < BT_KIND_COUNT; kind++)
        if (spec->count[kind] && bti_sim_has_model(spec, kind, 0)) return true;
    return false;
}

void bti_sim_host_works(const bti_sim_spec *spec, uint64_t ns[BTI_HOST_WORKS]) {
    const bti_sim_model *model = &spec->models[BT_CPU][0]; /* all 0 where there is none */
    ns[BTI_HOST_RECORDS] = (uint64_t)llround(model->record_ns);
    ns[BTI_HOST_SUBMITS] = (uint64_t)llround(model->submit_ns);
}

static bt_status refuse_devices(const char *part, size_t length, const char *why) {
    return bti_fail(BT_INVALID_ARGUMENT, "devices cannot be \"%s\": %s", bti_quote_bytes(part, length).text, why);
}

/* "gpu" or "a100{units=64}": the kind, the model if there is one, and in *used the length. */
static bt_status parse_kind(const char *at, size_t length, int *kind, bti_sim_model *model, size_t *used) {
    *model = (bti_sim_model){0};
    BTI_TRY(bti_sim_model_parse(at, length, model, used));
    *kind = model->kind;
    if (*used) return BT_OK;
    *used = 3;
    for (*kind = 0; *kind < BT_KIND_COUNT; ++*kind)
        if (length >= 3 && bti_same_word(at, 3, bti_kind_name((bt_kind)*kind))) break;
    return BT_OK;
}

/* "sim:gpu*4@512M" */
static bt_status parse_devices(const char *part, size_t length, bti_sim_spec *spec) {
    const char *at = part, *end = part + length;
    if (length < 4 || !bti_same_word(part, 4, "sim:"))
        return refuse_devices(part, length, "each part is sim:KIND*COUNT, such as sim:gpu*4");
    at += 4;
    int kind;
    bti_sim_model model;
    size_t used;
    BTI_TRY(parse_kind(at, (size_t)(end - at), &kind, &model, &used));
    if (kind == BT_KIND_COUNT)
        return refuse_devices(
            part, length,
            "the kind must be cpu, gpu, tpu or acc, or a model: of a GPU h200, a100 or rtx4090, of a CPU zen3");
    at += used;
    int64_t count = 1, bytes = 0;
    const char *memory = memchr(at, '@', (size_t)(end - at)), *count_end = memory ? memory : end;
    if (at < count_end && (*at != '*' || !bti_read_int(at + 1, (size_t)(count_end - at - 1), &count)))
        return refuse_devices(part, length, "after the kind comes * and how many");
    if (count < 0 || count > BTI_SIM_MAX - spec->count[kind])
        return refuse_devices(part, length, "there can be 0 to 32 of a kind");
    if (memory && (!bti_read_bytes(memory + 1, (size_t)(end - memory - 1), &bytes) || bytes < 64))
        return refuse_devices(part, length, "after @ comes the memory of each, such as 512M");
    if (kind == BT_CPU && count == 0) return refuse_devices(part, length, "there must be a CPU");
    if (spec->count[kind] && count && !*model.description == bti_sim_has_model(spec, kind, 0))
        return refuse_devices(part, length,
                              kind == BT_CPU ? "either all simulated CPUs have a model, or none has"
                                             : "either all simulated GPUs have a model, or none has");
    spec->named[kind] = true;
    for (int64_t i = 0; i < count; i++) spec->models[kind][spec->count[kind] + i] = model;
    for (int64_t i = 0; i < count; i++) spec->bytes[kind][spec->count[kind]++] = (size_t)bytes;
    return BT_OK;
}

bt_status bti_sim_spec_parse(const char *text, bti_sim_spec *spec) {
    bti_sim_spec parsed = {0};
    while (*text) {
        size_t length = strcspn(text, ";"), from = 0, to = length;
        while (from < to && text[from] == ' ') from++;
        while (to > from && text[to - 1] == ' ') to--;
        if (to > from) BTI_TRY(parse_devices(text + from, to - from, &parsed));
        text += length + (text[length] == ';');
    }
    *spec = parsed;
    return BT_OK;
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

#define MAX_FAULTS 32

/* The nth call of an entry, on one device or on any, fails: this call alone, or all from there on. */
typedef struct fault {
    const char *entry;
    bool any_device;
    bt_kind kind;
    int index;
    int64_t nth, calls;
    bool and_after;
} fault;

static const char *const entries[] = {"open",         "alloc",     "upload",     "download", "copy",  "fill",
                                      "program_load", "launch",    "record",     "wait",     "query", "sync",
                                      "memory",       "peer_copy", "all_reduce", "follow",   "hang"};

BTI_STATIC_LOCK(faults_lock, sim_faults) /* of what follows */
static fault faults[MAX_FAULTS];
static int fault_count;
static bool bad_faults;
static uint64_t parsed_change = UINT64_MAX; /* the change count of the flag when `faults` was parsed */

static bt_status refuse_fault(const char *part, size_t length, const char *why) {
    return bti_fail(BT_INVALID_ARGUMENT, "flag \"sim_fault\" cannot be \"%s\": %s", bti_quote_bytes(part, length).text,
                    why);
}

/* "gpu1/upload:3+" */
static bt_status parse_fault(const char *part, size_t length, fault *out) {
    *out = (fault){.any_device = true};
    const char *at = part, *end = part + length;
    const char *slash = memchr(part, '/', length);
    if (slash) {
        int64_t index;
        int kind = 0;
        while (kind < BT_KIND_COUNT && (slash - at < 4 || !bti_same_word(at, 3, bti_kind_name((bt_kind)kind)))) kind++;
        if (kind == BT_KIND_COUNT) return refuse_fault(part, length, "before the / comes a device such as gpu1");
        at += 3 + (at[3] == ':');
        if (!bti_read_int(at, (size_t)(slash - at), &index) || index < 0 || index >= BTI_SIM_MAX)
            return refuse_fault(part, length, "before the / comes a device such as gpu1");
        out->any_device = false;
        out->kind = (bt_kind)kind;
        out->index = (int)index;
        at = slash + 1;
    }
    const char *colon = memchr(at, ':', (size_t)(end - at));
    for (size_t i = 0; colon && i < sizeof entries / sizeof *entries; i++)
        if (bti_same_word(at, (size_t)(colon - at), entries[i])) out->entry = entries[i];
    if (!out->entry)
        return refuse_fault(
            part, length,
            "it takes ENTRY:NTH, the entry one of open, alloc, upload, download, copy, fill, "
            "program_load, launch, record, wait, query, sync, memory, peer_copy, all_reduce, follow, or hang");
    out->and_after = end > colon + 1 && end[-1] == '+';
    size_t digits = (size_t)(end - colon - 1) - out->and_after;
    if (!bti_read_int(colon + 1, digits, &out->nth) || out->nth < 1)
        return refuse_fault(part, length, "after the : comes the number of the call that fails, from 1 on");
    return BT_OK;
}

static bt_status parse_faults(const char *text, fault *out, int *count) {
    for (*count = 0; *text;) {
        size_t length = strcspn(text, ";"), from = 0, to = length;
        while (from < to && text[from] == ' ') from++;
        while (to > from && text[to - 1] == ' ') to--;
        if (to > from) {
            if (*count == MAX_FAULTS) return refuse_fault(text, length, "there can be 32 faults");
            BTI_TRY(parse_fault(text + from, to - from, &out[*count]));
            ++*count;
        }
        text += length + (text[length] == ';');
    }
    return BT_OK;
}

bt_status bti_sim_fault_check(const char *text) {
    fault parsed[MAX_FAULTS];
    int count;
    return parse_faults(text, parsed, &count);
}

/* Under the lock. A new value starts all counts again. */
static bt_status load_faults(void) {
    uint64_t change = bti_flag_changes(BTI_FLAG_sim_fault);
    char *text = bti_flag_text(BTI_FLAG_sim_fault);
    if (!text) return bti_no_memory();
    bt_status status = parse_faults(text, faults, &fault_count);
    bti_free(text);
    bad_faults = status != BT_OK;
    parsed_change = change;
    return status;
}

static bool is_due(fault *r, const char *entry, bt_kind kind, int index) {
    if (strcmp(r->entry, entry) || (!r->any_device && (r->kind != kind || r->index != index))) return false;
    r->calls++;
    return r->calls == r->nth || (r->and_after && r->calls > r->nth);
}

/* *call: the number of this call if it is due; else 0. */
static bt_status find_due(const char *entry, bt_kind kind, int index, int64_t *call) {
    bt_status status = BT_OK;
    *call = 0;
    if (!bti_flag_bool(BTI_FLAG_sim_fault)) return BT_OK;
    bti_lock_take(&faults_lock);
    if (parsed_change != bti_flag_changes(BTI_FLAG_sim_fault) || bad_faults) status = load_faults();
    for (int i = 0; status == BT_OK && i < fault_count; i++)
        if (is_due(&faults[i], entry, kind, index)) *call = faults[i].calls;
    bti_lock_give(&faults_lock);
    return status;
}

bt_status bti_sim_hang(bt_kind kind, int index, bool *hangs) {
    int64_t call;
    BTI_TRY(find_due("hang", kind, index, &call));
    *hangs = call > 0;
    return BT_OK;
}

bt_status bti_sim_fault(const char *entry, bt_kind kind, int index) {
    int64_t call;
    BTI_TRY(find_due(entry, kind, index, &call));
    if (!call) return BT_OK;
    bt_status code = strcmp(entry, "alloc") ? BT_INTERNAL : BT_RESOURCE_EXHAUSTED;
    return bti_fail(code, "injected fault: call %" PRId64 " of %s on %s:%d (flag sim_fault)", call, entry,
                    bti_kind_name(kind), index);
}
