// labels: threads
// timeout: 300
/* The store between processes that are killed while they put, read and spill values. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "task/ended.h"
#include "task/engine.h"
#include "task/object.h"
#include "task/placement.h"
#include "task/process.h"
#include "task/room.h"
#include "task/settle.h"
#include "task/spill.h"
#include "task/store.h"
#include "task/value.h"

enum { MOST = 1 << 12, PLACES = 24, LARGEST = 2 << 20, STORE = 16 << 20, CROWDED = 9 << 20, KILLS = 150, WORKERS = 3 };

static bti_arena *arena;
static bti_state *shared;
static bti_object **places; /* who holds these is nobody's process */

static void *records_at(int kind, uint32_t i) {
    const bti_records *r = &arena->records[kind];
    return r->first + i * r->bytes;
}

/* --- a runtime without a nest --------------------------------------------------------------------------------------------- */

/* Who waits long for a move looks whether the nest lives: this process stands in for it. */
static void seem_alive(pthread_mutex_t *lock) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    pthread_mutex_lock(lock);
}

static void open_state(uint64_t store_bytes, const char *folder, uint64_t spill_bytes) {
    static const size_t bytes[] = {
        [BTI_CLIENTS] = sizeof(bti_client), [BTI_OBJECTS] = sizeof(bti_object), [BTI_TASKS] = sizeof(bti_task_record),
        [BTI_HOLDS] = sizeof(bti_hold),     [BTI_WAITS] = sizeof(bti_wait),     [BTI_LINKS] = sizeof(bti_link),
        [BTI_SLOTS] = sizeof(bti_slot)};
    assert_int_equal(bti_arena_open(((uint64_t)4 << 30) + bti_store_address_space(store_bytes), &arena), BT_OK);
    assert_int_equal(bti_arena_room(arena, sizeof *shared, (void **)&shared), BT_OK);
    assert_int_equal(bti_arena_room(arena, PLACES * sizeof(bti_object *), (void **)&places), BT_OK);
    shared->arena = arena;
    shared->spill_file = -1;
    seem_alive(&shared->nest_lives);
    for (int kind = 0; kind < (int)(sizeof bytes / sizeof *bytes); kind++)
        if (bytes[kind]) assert_int_equal(bti_arena_reserve(arena, kind, bytes[kind], MOST), BT_OK);
    assert_int_equal(bti_store_open(shared, store_bytes), BT_OK);
    assert_int_equal(bti_spill_open(shared, folder, spill_bytes), BT_OK);
    bti_arena_lock(arena);
    bti_client *program = bti_record_new(arena, BTI_CLIENTS);
    program->is_program = true;
    shared->clients = program;
    bti_arena_unlock(arena);
    bti_process_now = (bti_process){shared, program, 1};
}

static void close_state(void) {
    bti_spill_close(shared);
    bti_process_now = (bti_process){0};
    bti_arena_close(arena);
}

static bti_client *new_client(void) {
    bti_arena_lock(arena);
    bti_client *client = bti_record_new(arena, BTI_CLIENTS);
    client->next = shared->clients;
    BTI_SET(arena, shared->clients->before, client);
    BTI_SET(arena, shared->clients, client);
    BTI_SET(arena, shared->worker_count, shared->worker_count + 1);
    bti_arena_unlock(arena);
    return client;
}

static void free_hold(bti_hold *hold) {
    bti_wakes wakes = {0};
    bti_arena_lock(arena);
    bti_hold_free(shared, hold, &wakes);
    bti_arena_unlock(arena);
    bti_store_tidy(shared);
}

/* --- values that tell whether they are whole --------------------------------------------------------------------------------- */

static void fill(uint64_t *words, size_t count, uint64_t seed) {
    for (size_t i = 0; i < count; i++) words[i] = seed + i * 0x9e3779b97f4a7c15u;
}

static bool is_whole(const uint64_t *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (words[i] != words[0] + i * 0x9e3779b97f4a7c15u) return false;
    return true;
}

/* NULL with the cause in the error record. */
static bti_hold *put(const void *data, size_t bytes) {
    bt_item_value value = bti_of_bytes((bt_bytes){data, bytes});
    return bti_engine_local.put(&(bti_values){&value, 1, NULL, 0});
}

static bool read_whole(bti_object *object) {
    bti_hold *hold = bti_object_pinned(shared, object);
    if (!hold) return false;
    bti_unpacked_value value = bti_unpack(bti_object_value(object), 0);
    bool whole = is_whole(value.data, value.head.as.bytes / 8);
    free_hold(hold);
    return whole;
}

/* --- what must be so, whoever died -------------------------------------------------------------------------------------------- */

static void check_blocks(void) {
    uint64_t memory = 0, free_memory = 0, disk = 0, dirty = 0;
    uint32_t on_disk = 0;
    for (int order = 14; order < BTI_ORDERS; order++) {
        int kind = BTI_BLOCKS + order - BTI_SMALLEST_BLOCK;
        const bti_store_block *newer = NULL;
        for (uint32_t i = 0; kind < BTI_KINDS_OF_RECORDS && i < arena->records[kind].used; i++)
            memory += ((bti_store_block *)records_at(kind, i))->memory;
        for (const bti_store_block *b = shared->store->warm[order].newest; b; newer = b, b = b->older) {
            assert_ptr_equal(b->newer, newer);
            free_memory += b->memory;
        }
        assert_ptr_equal(shared->store->warm[order].oldest, newer);
    }
    assert_int_equal(memory, shared->store_memory);
    assert_true(free_memory <= memory);
    for (const bti_slot *s = shared->store->dirty; s; s = s->next) dirty += s->dirty;
    assert_int_equal(dirty, shared->store->dirty_bytes);
    for (uint32_t i = 0; i < arena->records[BTI_OBJECTS].used; i++) {
        const bti_object *object = records_at(BTI_OBJECTS, i);
        if (object->holders && object->slot) disk += object->slot->bytes, on_disk++;
    }
    assert_int_equal(disk, shared->spilled_bytes);
    assert_int_equal(on_disk, shared->spilled_count);
}

static void check_objects(void) {
    uint64_t used = 0;
    uint32_t live = 0, resting = 0, listed = 0;
    for (uint32_t i = 0; i < arena->records[BTI_OBJECTS].used; i++) {
        const bti_object *object = records_at(BTI_OBJECTS, i);
        if (!object->holders) continue;
        live++;
        if (object->value) used += object->bytes;
        assert_null(object->reader);
        assert_int_equal(object->pins, 0);
        if (!object->value == !object->slot)
            fail_msg("object %u: state %u, value %p, slot %p, holders %u, bytes %llu, recoveries %llu", i,
                     atomic_load(&object->state), (void *)object->value, (void *)object->slot, object->holders,
                     (unsigned long long)object->bytes, (unsigned long long)arena->recoveries);
        resting += object->value != NULL;
    }
    const bti_object *newer = NULL;
    for (const bti_object *o = shared->store->newest; o; newer = o, o = o->older, listed++)
        assert_ptr_equal(o->newer, newer);
    assert_ptr_equal(shared->store->oldest, newer);
    assert_int_equal(listed, resting);
    assert_int_equal(live, arena->records[BTI_OBJECTS].live);
    assert_int_equal(used, shared->store_used);
    assert_int_equal(shared->store->moving_out, 0);
    assert_true(shared->store_used <= shared->store_limit);
}

/* --- many processes ------------------------------------------------------------------------------------------------------------- */

static void change_place(uint64_t *words, uint64_t random, bti_object **place) {
    size_t count = (size_t)(random >> 20) % (LARGEST / 8) + 8;
    if (random >> 60 & 1) count = count % 512 + 8;
    fill(words, count, random);
    bti_hold *hold = put(words, count * 8);
    if (!hold) _exit(3);
    bti_wakes wakes = {0};
    bti_arena_lock(arena);
    bti_object *before = *place;
    BTI_SET(arena, *place, hold->object);
    bti_object_retain(shared, hold->object);
    if (before) bti_object_drop(shared, before, &wakes);
    bti_arena_unlock(arena);
    free_hold(hold);
}

static void read_place(bti_object *const *place) {
    bti_arena_lock(arena);
    bti_hold *hold = *place ? bti_hold_new(shared, bti_process_now.me, *place) : NULL;
    bti_arena_unlock(arena);
    if (!hold) return;
    if (!read_whole(hold->object)) {
        fprintf(stderr, "%s\n", bt_error_text());
        _exit(4);
    }
    free_hold(hold);
}

static _Noreturn void work(bti_client *me, uint64_t random) {
    uint64_t *words = malloc(LARGEST + 64);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it works until it is killed */
    bti_process_now = (bti_process){shared, me, 1};
    for (;;) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        bti_object **place = &places[(random >> 33) % PLACES];
        if ((random >> 40) % 3 == 0)
            change_place(words, random, place);
        else
            read_place(place);
    }
}

static void values_stay_whole_whoever_is_killed(void **state) {
    (void)state;
    open_state(CROWDED, NULL, (uint64_t)1 << 30);
    bool spilled = false;
    uint64_t *words = malloc(LARGEST + 64);
    for (uint64_t i = 0; i < PLACES; i++) change_place(words, (i * 5001) << 20, &places[i]);
    free(words);
    for (int round = 0; round < KILLS; round++) {
        bti_client *clients[WORKERS];
        pid_t children[WORKERS];
        bti_wakes wakes = {0};
        fflush(NULL);
        for (int i = 0; i < WORKERS; i++) {
            clients[i] = new_client();
            children[i] = fork();
            assert_true(children[i] >= 0);
            if (!children[i]) work(clients[i], (uint64_t)round * WORKERS + (uint64_t)i);
        }
        usleep((useconds_t)(round * 977 % 30000));
        for (int i = 0; i < WORKERS; i++) {
            int status;
            kill(children[i], SIGKILL);
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            if (WIFEXITED(status)) fail_msg("round %d: worker %d gave up: %d", round, i, WEXITSTATUS(status));
            bti_arena_lock(arena);
            bti_client_gone(shared, clients[i], "killed", &wakes);
            bti_arena_unlock(arena);
        }
        check_blocks();
        check_objects();
        spilled = spilled || shared->spilled_bytes;
    }
    assert_true(spilled);
    for (int i = 0; i < PLACES; i++)
        if (places[i]) assert_true(read_whole(places[i]));
    close_state();
}

/* --- one process ------------------------------------------------------------------------------------------------------------------ */

static void the_values_that_were_used_last_stay_in_memory(void **state) {
    (void)state;
    enum { COUNT = 12, WORDS = (2 << 20) / 8 };
    static uint64_t words[WORDS];
    bti_hold *holds[COUNT];
    open_state(STORE, NULL, (uint64_t)1 << 30);
    for (int i = 0; i < 7; i++) {
        fill(words, WORDS, (uint64_t)i);
        assert_non_null(holds[i] = put(words, sizeof words));
    }
    assert_int_equal(shared->spilled_count, 0);
    assert_true(read_whole(holds[0]->object));
    for (int i = 7; i < COUNT; i++) {
        fill(words, WORDS, (uint64_t)i);
        assert_non_null(holds[i] = put(words, sizeof words));
    }
    assert_non_null(holds[0]->object->value); /* 7 fit: 0 and the last ones; not those before */
    assert_non_null(holds[COUNT - 1]->object->value);
    assert_null(holds[1]->object->value);
    assert_int_equal(shared->spilled_count, COUNT - 7);
    for (int i = 0; i < COUNT; i++) {
        assert_true(read_whole(holds[i]->object));
        assert_non_null(holds[i]->object->value);
    }
    for (int i = 0; i < COUNT; i++) free_hold(holds[i]);
    check_blocks();
    check_objects();
    assert_int_equal(shared->store_used, 0);
    assert_int_equal(shared->spilled_bytes, 0);
    assert_int_equal(shared->store->dirty_bytes, 0);
    close_state();
}

static void memory_of_free_blocks_is_used_again_and_bounded(void **state) {
    (void)state;
    static uint64_t words[(4 << 20) / 8];
    open_state((uint64_t)256 << 20, NULL, 0);
    bti_hold *hold = put(words, sizeof words);
    const char *value = hold->object->value;
    uint64_t memory = shared->store_memory;
    free_hold(hold);
    assert_int_equal(shared->store_memory, memory);
    hold = put(words, sizeof words);
    assert_ptr_equal(hold->object->value, value);
    assert_int_equal(shared->store_memory, memory);
    free_hold(hold);
    bti_hold *holds[40];
    for (int i = 0; i < 40; i++) assert_non_null(holds[i] = put(words, sizeof words));
    for (int i = 0; i < 40; i++) free_hold(holds[i]);
    assert_int_equal(shared->store_used, 0);
    assert_true(shared->store_memory <= (48 << 20));
    assert_true(shared->store_memory >= (8 << 20));
    unsigned char there[sizeof words / 4096];
    uint64_t resident = 0;
    for (uint32_t i = 0; i < 40; i++) { /* what is said to be given back is */
        char *block = records_at(BTI_BLOCKS + 23 - BTI_SMALLEST_BLOCK, i);
        assert_int_equal(mincore(block, sizeof words, there), 0);
        for (size_t page = 0; page < sizeof there; page++) resident += (there[page] & 1) * (uint64_t)4096;
    }
    assert_true(resident <= shared->store_memory);
    check_blocks();
    close_state();
}

static void who_finds_no_room_hears_why(void **state) {
    (void)state;
    static uint64_t words[LARGEST / 8];
    open_state(3 * LARGEST, "/nonexistent", 0);
    assert_null(put(words, 4 * (size_t)LARGEST)); /* it is not even read */
    assert_int_equal(bt_error_status(), BT_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(bt_error_text(), "ever hold: 6291456"));
    bti_hold *first = put(words, sizeof words), *second = put(words, sizeof words);
    assert_non_null(second);
    assert_null(put(words, sizeof words));
    assert_non_null(strstr(bt_error_text(), "of 6291456 are in memory"));
    assert_non_null(strstr(bt_error_text(), "/nonexistent"));
    assert_non_null(strstr(bt_error_text(), "No such file"));
    free_hold(first);
    assert_non_null(first = put(words, sizeof words)); /* everything else goes on */
    check_blocks();
    check_objects();
    close_state();

    open_state(3 * LARGEST, NULL, LARGEST + 4096);
    assert_non_null(first = put(words, sizeof words));
    assert_non_null(second = put(words, sizeof words));
    assert_non_null(put(words, sizeof words)); /* the first is on disk */
    assert_int_equal(shared->spilled_count, 1);
    assert_null(put(words, sizeof words));
    assert_non_null(strstr(bt_error_text(), "of 2101248 are on disk"));
    free_hold(first);
    assert_non_null(put(words, sizeof words));
    check_blocks();
    check_objects();
    bti_hold *pinned = bti_object_pinned(shared, second->object);
    assert_null(pinned); /* it is the one on disk, and there is no room to change places */
    check_objects();
    close_state();
}

/* A limit on files stands for a disk that is full in the middle of a value. */
static void a_full_disk_loses_nothing(void **state) {
    (void)state;
    static uint64_t words[LARGEST / 8];
    struct rlimit before, full;
    bti_hold *holds[3];
    open_state(3 * LARGEST, NULL, (uint64_t)1 << 30);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    full = (struct rlimit){LARGEST / 2, before.rlim_max};

    for (int i = 0; i < 2; i++) {
        fill(words, LARGEST / 8, (uint64_t)i);
        assert_non_null(holds[i] = put(words, sizeof words));
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    assert_null(put(words, sizeof words));
    assert_int_equal(bt_error_status(), BT_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(bt_error_text(), "File too large"));
    check_blocks();
    check_objects();
    for (int i = 0; i < 2; i++) assert_true(read_whole(holds[i]->object));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_non_null(holds[2] = put(words, sizeof words)); /* there is room again */
    assert_int_equal(shared->spilled_count, 1);
    for (int i = 0; i < 3; i++) assert_true(read_whole(holds[i]->object));
    check_objects();
    close_state();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_stay_whole_whoever_is_killed),
        cmocka_unit_test(the_values_that_were_used_last_stay_in_memory),
        cmocka_unit_test(memory_of_free_blocks_is_used_again_and_bounded),
        cmocka_unit_test(who_finds_no_room_hears_why),
        cmocka_unit_test(a_full_disk_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
