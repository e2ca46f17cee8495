#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/flagtext.h"
#include "base/fork.h"
#include "base/quote.h"
#include "drivers/sim/sim.h"

#define MAX_RULES 32

/* The nth call of an entry, of one device or of any, fails; once or from there on. */
typedef struct rule {
    const char *entry;
    bool any_device;
    bt_kind kind;
    int index;
    int64_t nth, calls;
    bool and_after;
} rule;

static const char *const entries[] = {"open",  "alloc",        "upload", "download",  "copy",
                                      "fill",  "program_load", "launch", "record",    "wait",
                                      "query", "sync",         "memory", "peer_copy", "all_reduce"};
static const char *const kinds[BT_KIND_COUNT] = {"cpu", "gpu", "tpu", "acc"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
BTI_RENEW_IN_CHILD(lock)
static rule rules[MAX_RULES];
static int rule_count;
static bool bad_rules;
static uint64_t rules_of = UINT64_MAX; /* the change of the flag that the rules come from */

static bt_status refuse(const char *part, size_t length, const char *why) {
    return bti_fail(BT_INVALID_ARGUMENT, "flag \"sim_fault\" cannot be \"%s\": %s", bti_quote_bytes(part, length).text,
                    why);
}

/* "gpu1/upload:3+" */
static bt_status parse_rule(const char *part, size_t length, rule *out) {
    *out = (rule){.any_device = true};
    const char *at = part, *end = part + length;
    const char *slash = memchr(part, '/', length);
    if (slash) {
        int64_t index;
        int kind = 0;
        while (kind < BT_KIND_COUNT && (slash - at < 4 || !bti_same_word(at, 3, kinds[kind]))) kind++;
        if (kind == BT_KIND_COUNT) return refuse(part, length, "before the / stands a device such as gpu1");
        at += 3 + (at[3] == ':');
        if (!bti_read_int(at, (size_t)(slash - at), &index) || index < 0 || index >= BTI_SIM_MAX)
            return refuse(part, length, "before the / stands a device such as gpu1");
        out->any_device = false;
        out->kind = (bt_kind)kind;
        out->index = (int)index;
        at = slash + 1;
    }
    const char *colon = memchr(at, ':', (size_t)(end - at));
    for (size_t i = 0; colon && i < sizeof entries / sizeof *entries; i++)
        if (bti_same_word(at, (size_t)(colon - at), entries[i])) out->entry = entries[i];
    if (!out->entry)
        return refuse(part, length,
                      "it takes ENTRY:NTH, the entry one of open, alloc, upload, download, copy, fill, "
                      "program_load, launch, record, wait, query, sync, memory, peer_copy, all_reduce");
    out->and_after = end > colon + 1 && end[-1] == '+';
    size_t digits = (size_t)(end - colon - 1) - out->and_after;
    if (!bti_read_int(colon + 1, digits, &out->nth) || out->nth < 1)
        return refuse(part, length, "after the : stands which call fails, from 1 on");
    return BT_OK;
}

static bt_status parse_rules(const char *text, rule *out, int *count) {
    for (*count = 0; *text;) {
        size_t length = strcspn(text, ";"), from = 0, to = length;
        while (from < to && text[from] == ' ') from++;
        while (to > from && text[to - 1] == ' ') to--;
        if (to > from) {
            if (*count == MAX_RULES) return refuse(text, length, "there can be 32 faults");
            BTI_TRY(parse_rule(text + from, to - from, &out[*count]));
            ++*count;
        }
        text += length + (text[length] == ';');
    }
    return BT_OK;
}

bt_status bti_sim_fault_check(const char *text) {
    rule parsed[MAX_RULES];
    int count;
    return parse_rules(text, parsed, &count);
}

/* Under the lock. A new value starts all counts again. */
static bt_status load_rules(void) {
    uint64_t change = bti_flag_changes(BTI_FLAG_sim_fault);
    char *text = bti_flag_text(BTI_FLAG_sim_fault);
    if (!text) return bti_no_memory();
    bt_status status = parse_rules(text, rules, &rule_count);
    bti_free(text);
    bad_rules = status != BT_OK;
    rules_of = change;
    return status;
}

static bool is_due(rule *r, const char *entry, bt_kind kind, int index) {
    if (strcmp(r->entry, entry) || (!r->any_device && (r->kind != kind || r->index != index))) return false;
    r->calls++;
    return r->calls == r->nth || (r->and_after && r->calls > r->nth);
}

bt_status bti_sim_fault(const char *entry, bt_kind kind, int index) {
    if (!bti_flag_bool(BTI_FLAG_sim_fault)) return BT_OK;
    bt_status status = BT_OK;
    pthread_mutex_lock(&lock);
    if (rules_of != bti_flag_changes(BTI_FLAG_sim_fault) || bad_rules) status = load_rules();
    int64_t call = 0;
    for (int i = 0; status == BT_OK && i < rule_count; i++)
        if (is_due(&rules[i], entry, kind, index)) call = rules[i].calls;
    pthread_mutex_unlock(&lock);
    if (!call) return status;
    bt_status code = strcmp(entry, "alloc") ? BT_INTERNAL : BT_RESOURCE_EXHAUSTED;
    return bti_fail(code, "injected fault: call %" PRId64 " of %s on %s:%d (flag sim_fault)", call, entry,
                    bt_kind_name(kind), index);
}
