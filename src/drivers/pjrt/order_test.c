// timeout: 120
// labels: valgrind threads
/* The driver on the stub plugin: events and late errors, several devices of a client, several threads. */
#include <pthread.h>

#include "support/pjrt_stub.h"

/* --- events ------------------------------------------------------------------------------------------------------------------- */

/* The error of a run is that of the next event, and of what reads its results. */
static void late_errors_are_the_events(void **state) {
    (void)state;
    for (int seed = 1; seed < 20; seed++) {
        bti_pjrt_device *device;
        char settings[60];
        float got[4];
        bti_event events[4];
        snprintf(settings, sizeof settings, "{\"seed\": %d, \"late\": [2, 8]}", seed);
        open_stub(settings, &device, 1);
        void *program = load_add(device, false);
        uint64_t x = new_array(device, one, BYTES), y = new_array(device, ten, BYTES), at[4];
        for (int i = 0; i < 4; i++) {
            at[i] = new_memory(device, BYTES);
            OK(pjrt->launch_segment(device, program, (uint64_t[]){i == 2 ? at[1] : x, y, at[i]}, NULL));
            OK(pjrt->record(device, &events[i]));
        }
        OK(pjrt->wait(device, events[3]));
        OK(pjrt->wait(device, events[0]));
        FAILS(pjrt->wait(device, events[1]), BT_RESOURCE_EXHAUSTED,
              "pjrt0:0 (Stub v1): work that was launched: the stub fails late");
        OK(pjrt->wait(device, events[1])); /* told once */
        FAILS(pjrt->sync(device), BT_RESOURCE_EXHAUSTED, "fails late");
        FAILS(pjrt->wait(device, events[2]), BT_RESOURCE_EXHAUSTED, "fails late");
        OK(pjrt->sync(device));
        FAILS(pjrt->download(device, got, at[1], BYTES), BT_RESOURCE_EXHAUSTED, "a download: the stub fails late");
        expect_floats(device, at[3], sum, 4);
        pjrt->program_free(device, NULL, program);
        close_stub(&device, 1);
    }
}

static void events_are_complete_with_all_before(void **state) {
    (void)state;
    for (int seed = 1; seed < 30; seed++) {
        bti_pjrt_device *device;
        char settings[60];
        bti_event first, second;
        bool done;
        snprintf(settings, sizeof settings, "{\"seed\": %d}", seed);
        open_stub(settings, &device, 1);
        void *program = load_add(device, false);
        uint64_t x = new_array(device, one, BYTES), y = new_array(device, ten, BYTES), at[8];
        OK(pjrt->record(device, &first)); /* after nothing */
        OK(pjrt->query(device, first, &done));
        assert_true(done);
        OK(pjrt->wait(device, first));
        for (int i = 0; i < 8; i++) {
            at[i] = new_memory(device, BYTES);
            OK(pjrt->launch_segment(device, program, (uint64_t[]){x, y, at[i]}, NULL));
            if (i == 3) OK(pjrt->record(device, &first));
        }
        OK(pjrt->record(device, &second));
        int looks = 0;
        do {
            OK(pjrt->query(device, second, &done));
        } while (!done && ++looks < 10000);
        assert_true(done);
        OK(pjrt->query(device, first, &done));
        assert_true(done);
        assert_true(bti_pjrt_is_idle(device));
        OK(pjrt->wait(device, second));
        OK(pjrt->wait(device, first));
        pjrt->program_free(device, NULL, program);
        close_stub(&device, 1);
    }
}

static void a_late_upload_fails_what_reads_it(void **state) {
    (void)state;
    bti_pjrt_device *device;
    bti_event event;
    open_stub("{\"late_upload\": [2, 8], \"seed\": 2}", &device, 1);
    void *program = load_add(device, false);
    uint64_t x = new_array(device, one, BYTES), y = new_array(device, ten, BYTES), z = new_memory(device, BYTES);
    OK(pjrt->launch_segment(device, program, (uint64_t[]){x, y, z}, NULL));
    OK(pjrt->record(device, &event));
    FAILS(pjrt->wait(device, event), BT_RESOURCE_EXHAUSTED, "fails late");
    pjrt->program_free(device, NULL, program);
    close_stub(&device, 1);
}

static void a_lost_device_stays_lost(void **state) {
    (void)state;
    bti_pjrt_device *devices[2];
    float got[4];
    uint64_t address;
    open_stub("{\"lost_after\": 2}", devices, 2);
    void *program = load_add(devices[0], false);
    uint64_t x = new_array(devices[0], one, BYTES), z = new_memory(devices[0], BYTES),
             other = new_array(devices[1], one, BYTES);
    OK(pjrt->launch_segment(devices[0], program, (uint64_t[]){x, x, z}, NULL));
    FAILS(pjrt->launch_segment(devices[0], program, (uint64_t[]){x, x, z}, NULL), BT_UNAVAILABLE, "the device is gone");
    const char *words = "pjrt0:0 (Stub v1) is lost since an earlier failure (";
    FAILS(pjrt->launch_segment(devices[0], program, (uint64_t[]){x, x, z}, NULL), BT_UNAVAILABLE, words);
    FAILS(pjrt->upload(devices[0], x, one, 4), BT_UNAVAILABLE, words);
    FAILS(pjrt->download(devices[0], got, z, BYTES), BT_UNAVAILABLE, "the device is gone");
    FAILS(pjrt->alloc(devices[0], 4, &address), BT_UNAVAILABLE, words);
    FAILS(pjrt->fill(devices[0], x, 0, 4), BT_UNAVAILABLE, words);
    FAILS(pjrt->copy(devices[0], x, z, 4), BT_UNAVAILABLE, words);
    FAILS(pjrt->peer_copy(devices[1], other, devices[0], z, BYTES), BT_UNAVAILABLE, words);
    FAILS(pjrt->sync(devices[0]), BT_UNAVAILABLE, "pjrt0:0 (Stub v1)");
    OK(pjrt->download(devices[1], got, other, BYTES)); /* what lies on the host */
    pjrt->program_free(devices[0], NULL, program);
    close_stub(devices, 2);
}

/* --- several devices ------------------------------------------------------------------------------------------------------------ */

static void copies_between(const char *settings, bool moved) {
    bti_pjrt_device *devices[2];
    open_stub(settings, devices, 2);
    void *program = load_add(devices[0], false);
    uint64_t x = new_array(devices[0], one, BYTES), y = new_array(devices[0], ten, BYTES),
             z = new_memory(devices[0], BYTES);
    uint64_t there = new_memory(devices[1], BYTES), raw = new_memory(devices[1], BYTES);
    OK(pjrt->launch_segment(devices[0], program, (uint64_t[]){x, y, z}, NULL));
    finish(devices[0]);
    int buffers = stub_count().live[STUB_BUFFER];
    OK(pjrt->peer_copy(devices[1], there, devices[0], z, BYTES));
    assert_int_equal(stub_count().live[STUB_BUFFER], buffers + moved);
    expect_floats(devices[1], there, sum, 4);
    x = new_array(devices[0], ten, BYTES);
    OK(pjrt->peer_copy(devices[1], raw, devices[0], x, BYTES)); /* bytes without a type */
    OK(pjrt->upload(devices[0], x, one, BYTES));
    expect_floats(devices[1], raw, ten, 4);
    OK(pjrt->peer_copy(devices[1], raw + 4, devices[0], z + 4, 8));
    expect_floats(devices[1], raw, (float[]){10, 22, 33, 40}, 4);
    pjrt->program_free(devices[0], NULL, program);
    close_stub(devices, 2);
}

static void devices_of_a_client_copy(void **state) {
    (void)state;
    copies_between("{\"seed\": 9}", true);
    copies_between("{\"copies\": \"memory\"}", true);
    copies_between("{\"copies\": \"none\"}", false);
}

/* One compilation for all, where the plugin can; else one for each. */
static void programs_are_shared(void **state) {
    (void)state;
    static const char *const settings[] = {"{\"devices\": 3}", "{\"devices\": 3, \"portable\": \"compile\"}",
                                           "{\"devices\": 3, \"portable\": \"run\"}"};
    for (int s = 0; s < 3; s++) {
        bti_pjrt_device *devices[3];
        void *programs[3];
        open_stub(settings[s], devices, 3);
        int before = stub_count().compilations;
        for (int d = 0; d < 3; d++) programs[d] = load_add(devices[d], false);
        assert_int_equal(stub_count().compilations, before + (s == 1 ? 3 : 1));
        for (int round = 0; round < 2; round++)
            for (int d = 0; d < 3; d++) {
                uint64_t x = new_array(devices[d], one, BYTES), y = new_array(devices[d], ten, BYTES),
                         z = new_memory(devices[d], BYTES);
                OK(pjrt->launch_segment(devices[d], programs[d], (uint64_t[]){x, y, z}, NULL));
                expect_floats(devices[d], z, sum, 4);
            }
        void *later = load_add(devices[2], false);
        uint64_t x = new_array(devices[2], one, BYTES), z = new_memory(devices[2], BYTES);
        OK(pjrt->launch_segment(devices[2], later, (uint64_t[]){x, x, z}, NULL));
        pjrt->program_free(devices[2], NULL, later);
        for (int d = 0; d < 3; d++) pjrt->program_free(devices[d], NULL, programs[d]);
        close_stub(devices, 3);
    }
}

/* --- threads --------------------------------------------------------------------------------------------------------------------- */

typedef struct copier {
    bti_pjrt_device *device;
    pthread_t thread;
    float first;
} copier;

/* Arrays of its own, while other threads launch and copy on the same device. */
static void *copy_arrays(void *context) {
    const copier *of = context;
    for (int i = 0; i < 200; i++) {
        const float values[4] = {of->first, (float)i, 2, 3};
        uint64_t x = new_array(of->device, values, BYTES), y = new_memory(of->device, BYTES);
        OK(pjrt->upload(of->device, y, values + 2, 8));
        OK(pjrt->upload(of->device, y + 8, values, 8));
        expect_floats(of->device, x, values, 4);
        expect_floats(of->device, y, (float[]){2, 3, of->first, (float)i}, 4);
        pjrt->free(of->device, x, BYTES);
        pjrt->free(of->device, y, BYTES);
    }
    return NULL;
}

static void threads_use_a_device(void **state) {
    (void)state;
    enum { COPIERS = 3 };
    bti_pjrt_device *device;
    copier copiers[COPIERS];
    bti_event event;
    bool done;
    open_stub("{\"seed\": 11}", &device, 1);
    void *program = load_add(device, true);
    uint64_t x = new_array(device, one, BYTES), y = new_array(device, ten, BYTES), z = new_memory(device, BYTES);
    for (int i = 0; i < COPIERS; i++) {
        copiers[i] = (copier){.device = device, .first = (float)(100 + i)};
        assert_int_equal(pthread_create(&copiers[i].thread, NULL, copy_arrays, &copiers[i]), 0);
    }
    for (int i = 0; i < 200; i++) {
        OK(pjrt->launch_segment(device, program, (uint64_t[]){x, y, x}, NULL));
        if (i % 3 == 0) OK(pjrt->copy(device, z, x, BYTES));
        OK(pjrt->record(device, &event));
        OK(pjrt->query(device, event, &done));
        if (i % 16 == 0) OK(pjrt->wait(device, event));
    }
    for (int i = 0; i < COPIERS; i++) pthread_join(copiers[i].thread, NULL);
    expect_floats(device, x, (float[]){2001, 4002, 6003, 8004}, 4);
    finish(device);
    pjrt->program_free(device, NULL, program);
    close_stub(&device, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(late_errors_are_the_events),
                                       cmocka_unit_test(events_are_complete_with_all_before),
                                       cmocka_unit_test(a_late_upload_fails_what_reads_it),
                                       cmocka_unit_test(a_lost_device_stays_lost),
                                       cmocka_unit_test(devices_of_a_client_copy),
                                       cmocka_unit_test(programs_are_shared),
                                       cmocka_unit_test(threads_use_a_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
