#include "task/ray/entries.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "task/handles.h"
#include "task/wake.h"

enum { LEAST_BUCKETS = 1024, MOST_RELEASES = 64, FIRST_AHEAD = 8, SMALL_VALUE = 4 << 10 };

const bti_ray_side *bti_ray_side_now;

/* protects the entries, the requests and what follows here; frames that want no answer are sent under it */
BTI_STATIC_LOCK(entries_lock, task_ray_entries)
static struct {
    bti_ray_entry **buckets;
    uint64_t bucket_count, count;
    bti_ray_entry *first, *last; /* pending results, in the order of their calls */
    uint64_t sequence, read;     /* of the last entry; of the last that was waited for */
    int ahead;
    uint64_t releases[MOST_RELEASES];
    int release_count;
    bti_ray_answer *asked;
    uint64_t requests;
    bt_status lost;
    char why[600];
} table;

static _Atomic uint64_t ids_given, ids_seed;

/* --- blocks ------------------------------------------------------------------------------------------------------------- */

bti_ray_block *bti_ray_block_new(uint64_t bytes) {
    bti_ray_block *b = bytes < UINT64_MAX / 2 ? bti_alloc_aligned(64, sizeof *b + (bytes + 63) / 64 * 64) : NULL;
    if (!b) return NULL;
    memset(b, 0, sizeof *b);
    atomic_init(&b->users, 1);
    b->packed = b->own;
    b->bytes = bytes;
    return b;
}

void bti_ray_block_retain(bti_ray_block *block) { atomic_fetch_add(&block->users, 1); }

void bti_ray_block_release(void *block) {
    bti_ray_block *b = block;
    if (!b || atomic_fetch_sub(&b->users, 1) != 1) return;
    if (b->unmap) b->unmap(&b->shown);
    bti_free(b);
}

/* --- ids ---------------------------------------------------------------------------------------------------------------- */

/* A bijection whose results are spread over all numbers (splitmix64). */
static uint64_t spread(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Each process counts from a random number. */
uint64_t bti_ray_ids_new(int count) {
    uint64_t seed = atomic_load(&ids_seed), random;
    if (!seed && getrandom(&random, sizeof random, 0) == (ssize_t)sizeof random)
        atomic_compare_exchange_strong(&ids_seed, &seed, random | 1);
    return atomic_load(&ids_seed) + atomic_fetch_add(&ids_given, (uint64_t)count);
}
uint64_t bti_ray_id_of(uint64_t first, int index) {
    uint64_t id = spread(first + (uint64_t)index);
    return id ? id : 1;
}

/* --- the table; with the lock -------------------------------------------------------------------------------------------- */

static bti_ray_entry **bucket_of(uint64_t id) { return &table.buckets[id & (table.bucket_count - 1)]; }

static bti_ray_entry *entry_at(uint64_t id) {
    if (!table.buckets) return NULL;
    bti_ray_entry *e = *bucket_of(id);
    while (e && e->id != id) e = e->next;
    return e;
}

static bool grow(void) {
    uint64_t before = table.bucket_count, wanted = before ? before * 2 : LEAST_BUCKETS;
    if (table.count < before) return true;
    bti_ray_entry **old = table.buckets, **buckets = bti_calloc(wanted, sizeof(bti_ray_entry *));
    if (!buckets) return before != 0;
    table.buckets = buckets;
    table.bucket_count = wanted;
    for (uint64_t b = 0; b < before; b++)
        for (bti_ray_entry *e = old[b], *next; e; e = next) {
            next = e->next;
            e->next = *bucket_of(e->id);
            *bucket_of(e->id) = e;
        }
    bti_free(old);
    return true;
}

static void list_pending(bti_ray_entry *e) {
    e->is_listed = true;
    e->sequence = ++table.sequence;
    e->before = table.last;
    if (table.last)
        table.last->after = e;
    else
        table.first = e;
    table.last = e;
}

static void unlist(bti_ray_entry *e) {
    if (!e->is_listed) return;
    e->is_listed = false;
    if (e->before)
        e->before->after = e->after;
    else
        table.first = e->after;
    if (e->after)
        e->after->before = e->before;
    else
        table.last = e->before;
    e->before = e->after = NULL;
}

static bti_ray_entry *insert_entry(uint64_t id) {
    bti_ray_entry *e = grow() ? bti_calloc(1, sizeof *e) : NULL;
    if (!e) return NULL;
    e->id = id;
    e->users = 1;
    e->next = *bucket_of(id);
    *bucket_of(id) = e;
    table.count++;
    return e;
}

static void free_entry(bti_ray_entry *e) {
    for (bti_ray_entry **at = bucket_of(e->id); *at; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            break;
        }
    table.count--;
    unlist(e);
    if (e->results && !--e->results->users) bti_free(e->results);
    bti_free(e->text);
    bti_free(e);
}

/* Frames that were held back go first, so that Python sees all in order. */
static void send_releases(void) {
    bti_str frame = {0};
    size_t count = (size_t)table.release_count;
    table.release_count = 0;
    if (!count || !bti_ray_side_now) return;
    bti_ray_begin(&frame, BTI_RAY_RELEASE, 0);
    bti_str_add_bytes(&frame, table.releases, count * sizeof *table.releases);
    if (bti_ray_finish(&frame)) (void)bti_ray_side_now->send(frame.text, frame.length);
    bti_str_free(&frame);
}

static void send_hold(uint64_t id) {
    bti_str frame = {0};
    send_releases();
    bti_ray_begin(&frame, BTI_RAY_HOLD, 0);
    bti_ray_add64(&frame, id);
    if (bti_ray_finish(&frame) && bti_ray_side_now) (void)bti_ray_side_now->send(frame.text, frame.length);
    bti_str_free(&frame);
}

/* --- entries ------------------------------------------------------------------------------------------------------------ */

bti_ray_entry *bti_ray_entry_new(uint64_t id, bool listed) {
    bti_lock_take(&entries_lock);
    bti_ray_entry *e = insert_entry(id);
    if (e && listed) list_pending(e);
    bti_lock_give(&entries_lock);
    if (!e) (void)bti_no_memory();
    return e;
}

/* With the lock. */
static bti_ray_entry *hold_entry(uint64_t id) {
    bti_ray_entry *e = entry_at(id);
    if (e)
        e->users++;
    else if ((e = insert_entry(id)))
        send_hold(id);
    return e;
}

bti_ray_entry *bti_ray_entry_hold(uint64_t id) {
    bti_lock_take(&entries_lock);
    bti_ray_entry *e = hold_entry(id);
    bti_lock_give(&entries_lock);
    if (!e) (void)bti_no_memory();
    return e;
}

bti_ray_entry *bti_ray_entry_result(bti_ray_entry *e, int index) {
    bti_lock_take(&entries_lock);
    bti_ray_results *r = e->results;
    int count = r ? r->count : 1;
    uint64_t id = r && index < count ? bti_ray_id_of(r->first, index) : e->id;
    bool is_new = r && index < count && !r->taken[index];
    bti_ray_entry *result = index >= count ? NULL : is_new ? hold_entry(id) : entry_at(id);
    if (result && !is_new) result->users++;
    if (result && is_new) {
        r->taken[index] = true;
        r->users++;
        result->results = r;
    }
    bti_lock_give(&entries_lock);
    if (index >= count)
        (void)bti_fail(BT_OUT_OF_RANGE, "result %d of a call that has %d (.num_returns)", index, count);
    else if (!result && is_new)
        (void)bti_no_memory();
    else if (!result)
        (void)bti_fail(BT_NOT_FOUND, "nobody has result %d any more: it was freed", index);
    return result;
}

/* Releases of small values wait for others; what costs memory or processes is told at once. */
void bti_ray_entry_release(bti_ray_entry *e) {
    bti_ray_block *block = NULL;
    bti_lock_take(&entries_lock);
    if (!--e->users) {
        bool waits = e->state == BTI_RAY_VALUE && e->bytes <= SMALL_VALUE && !e->is_actor && !e->is_group;
        table.releases[table.release_count++] = e->id;
        block = e->block;
        free_entry(e);
        if (!waits || table.release_count == MOST_RELEASES) send_releases();
    }
    bti_lock_give(&entries_lock);
    bti_ray_block_release(block);
}

bti_ray_state bti_ray_entry_state(const bti_ray_entry *e) {
    bti_lock_take(&entries_lock);
    bti_ray_state state = e->state;
    bti_lock_give(&entries_lock);
    return state;
}

bt_status bti_ray_entry_fail(const bti_ray_entry *e) {
    return bti_fail(e->status, "%s", e->text ? e->text : bt_status_name(e->status));
}

void bti_ray_entry_settle(bti_ray_entry *e, bti_ray_block *block) {
    bti_lock_take(&entries_lock);
    bti_ray_block *twice = e->block ? block : NULL;
    if (!e->block) {
        e->block = block;
        e->bytes = block->bytes;
        e->state = BTI_RAY_VALUE;
        unlist(e);
    }
    bti_lock_give(&entries_lock);
    bti_ray_block_release(twice);
}

int bti_ray_entries_ahead(const bti_ray_entry *e, uint64_t ids[BTI_RAY_MOST_AHEAD]) {
    int count = 0;
    bti_lock_take(&entries_lock);
    bool in_order = e->is_listed && e->sequence > table.read && e->sequence <= table.read + BTI_RAY_MOST_AHEAD + 1;
    table.ahead = !in_order ? 0 : table.ahead ? table.ahead * 2 : FIRST_AHEAD;
    if (table.ahead > BTI_RAY_MOST_AHEAD) table.ahead = BTI_RAY_MOST_AHEAD;
    if (e->is_listed) table.read = e->sequence;
    for (const bti_ray_entry *next = e->after; e->is_listed && next && count < table.ahead; next = next->after)
        ids[count++] = next->id;
    bti_lock_give(&entries_lock);
    return count;
}

void bti_ray_entries_forget(void) {
    atomic_store(&ids_seed, 0);
    table.asked = NULL;
}

void bti_ray_entries_begin(void) {
    bti_lock_take(&entries_lock);
    table.lost = BT_OK;
    table.ahead = table.release_count = 0;
    bti_lock_give(&entries_lock);
}

void bti_ray_entries_end(void) {
    for (uint64_t b = 0; b < table.bucket_count; b++)
        while (table.buckets[b]) {
            bti_ray_block *block = table.buckets[b]->block;
            free_entry(table.buckets[b]);
            bti_ray_block_release(block);
        }
    bti_free(table.buckets);
    table.buckets = NULL;
    table.bucket_count = 0;
    table.release_count = 0;
}

/* --- requests ----------------------------------------------------------------------------------------------------------- */

void bti_ray_ask_begin(bti_ray_answer *answer) {
    memset(answer, 0, sizeof *answer);
    bti_lock_take(&entries_lock);
    answer->request = ++table.requests;
    bti_lock_give(&entries_lock);
}

bt_status bti_ray_send(bti_str *frame) {
    bt_status status = bti_ray_finish(frame) ? BT_OK : bt_error_status();
    bti_lock_take(&entries_lock);
    send_releases();
    bti_lock_give(&entries_lock);
    if (status == BT_OK) status = bti_ray_side_now->send(frame->text, frame->length);
    bti_str_free(frame);
    return status;
}

/* Whether it was still waited for. With the lock. */
static bool forget_request(const bti_ray_answer *answer) {
    for (bti_ray_answer **at = &table.asked; *at; at = &(*at)->next)
        if (*at == answer) return *at = answer->next, true;
    return false;
}

bt_status bti_ray_ask(bti_str *frame, bti_ray_answer *answer, double seconds) {
    uint64_t until = bti_until_ns(seconds);
    bti_lock_take(&entries_lock);
    bool is_lost = table.lost != BT_OK;
    answer->next = table.asked;
    if (!is_lost) table.asked = answer;
    bti_lock_give(&entries_lock);
    bt_status status = is_lost ? (bti_str_free(frame), bti_ray_lost()) : bti_ray_send(frame);
    if (status == BT_OK && bti_ray_side_now->in_worker && !atomic_load(&answer->answered))
        status = bti_fail(BT_INTERNAL, "the Python of this worker did not answer; its output says why");
    if (status != BT_OK) {
        bti_lock_take(&entries_lock);
        (void)forget_request(answer);
        bti_lock_give(&entries_lock);
        return status;
    }
    if (!bti_sleep_on(&answer->answered, 0, until)) {
        bti_lock_take(&entries_lock);
        bool is_late = forget_request(answer);
        bti_lock_give(&entries_lock);
        if (is_late) return bti_fail(BT_DEADLINE_EXCEEDED, "Ray did not answer within %g seconds", seconds);
        (void)bti_sleep_on(&answer->answered, 0, 0); /* it is being answered */
    }
    return answer->status == BT_OK
               ? BT_OK
               : bti_fail(answer->status, "%s", answer->text ? answer->text : bt_status_name(answer->status));
}

/* With the lock; the last touch of the answer, whose thread may return then. */
static void tell_answered(bti_ray_answer *answer) {
    atomic_store(&answer->answered, 1);
    bti_wake_now(&answer->answered);
}

void bti_ray_lose(bt_status status, const char *why) {
    bti_lock_take(&entries_lock);
    if (table.lost == BT_OK) {
        table.lost = status;
        snprintf(table.why, sizeof table.why, "%s", why);
    }
    for (bti_ray_answer *a = table.asked, *next; a; a = next) {
        next = a->next;
        a->status = table.lost;
        a->text = bti_strdup(table.why);
        tell_answered(a);
    }
    table.asked = NULL;
    bti_lock_give(&entries_lock);
}

bt_status bti_ray_lost(void) {
    char why[sizeof table.why];
    bti_lock_take(&entries_lock);
    bt_status status = table.lost;
    memcpy(why, table.why, sizeof why);
    bti_lock_give(&entries_lock);
    return status == BT_OK ? BT_OK : bti_fail(status, "%s", why);
}

/* --- answers ------------------------------------------------------------------------------------------------------------ */

/* As the frame has it. */
typedef struct settling {
    uint64_t id, bytes;
    uint32_t state, failure, text_bytes;
    bt_status status;
    const char *text;
} settling;

static char *copy_text(const char *text, uint32_t bytes) {
    char *copy = bti_alloc((size_t)bytes + 1);
    if (!copy) return NULL;
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    return copy;
}

/* With the lock. False: the frame is none. */
static bool settle_entry(const settling *s) {
    bti_ray_entry *e = entry_at(s->id);
    if (s->state < BTI_RAY_VALUE || s->state > BTI_RAY_FAILED || s->failure > BT_FAILURE_NODE_DIED) return false;
    if (!e || e->state != BTI_RAY_PENDING) return true;
    bti_ray_block *block = s->state == BTI_RAY_VALUE ? bti_ray_block_new(s->text_bytes) : NULL;
    e->state = (bti_ray_state)s->state;
    e->bytes = s->bytes;
    e->failure = (bt_failure)s->failure;
    e->status = s->status;
    if (e->state == BTI_RAY_FAILED) e->text = copy_text(s->text, s->text_bytes);
    if (block) memcpy(block->own, s->text, s->text_bytes);
    if (s->state == BTI_RAY_VALUE && !block) {
        e->state = BTI_RAY_FAILED;
        e->status = BT_RESOURCE_EXHAUSTED;
        e->failure = BT_FAILURE_REFUSED;
    }
    e->block = block;
    unlist(e);
    return true;
}

static bool read_answer(bti_ray_reader *reader, uint64_t request) {
    bti_ray_answer said = {.status = (bt_status)bti_ray_read32(reader)};
    said.failure = (bt_failure)bti_ray_read32(reader);
    said.number = bti_ray_read64(reader);
    said.real = bti_ray_read_real(reader);
    uint32_t text_bytes, count;
    const char *text = bti_ray_read_text(reader, &text_bytes);
    count = bti_ray_read32(reader);
    bool good = bti_is_status((int64_t)said.status);
    bti_lock_take(&entries_lock);
    for (uint32_t i = 0; i < count && good && !reader->is_short; i++) {
        settling s = {.id = bti_ray_read64(reader), .state = bti_ray_read32(reader)};
        s.status = (bt_status)bti_ray_read32(reader);
        s.failure = bti_ray_read32(reader);
        s.bytes = bti_ray_read64(reader);
        s.text = bti_ray_read_text(reader, &s.text_bytes);
        good = !reader->is_short && bti_is_status((int64_t)s.status) && settle_entry(&s);
    }
    good = good && !reader->is_short && !reader->left;
    bti_ray_answer *a = table.asked;
    while (a && a->request != request) a = a->next;
    if (a && good) {
        (void)forget_request(a);
        a->status = said.status;
        a->failure = said.failure;
        a->number = said.number;
        a->real = said.real;
        a->text = copy_text(text, text_bytes);
        tell_answered(a);
    }
    bti_lock_give(&entries_lock);
    return good;
}

bool bti_ray_receive_frame(const char *frame, uint64_t bytes) {
    bti_ray_reader reader = {frame, bytes, false};
    (void)bti_ray_read32(&reader);
    uint32_t kind = bti_ray_read32(&reader);
    uint64_t request = bti_ray_read64(&reader);
    return !reader.is_short && kind == BTI_RAY_ANSWER && read_answer(&reader, request);
}
