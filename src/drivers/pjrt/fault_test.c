// timeout: 120
/* Each call of a plugin fails once, each allocation, and tables and answers are wrong: what the driver says, and that nothing is left behind. */
#include "base/alloc.h"
#include "support/pjrt_stub.h"

enum { DEVICES = 2 };

/* --- a little of everything --------------------------------------------------------------------------------------------------- */

typedef struct scene {
    bti_pjrt_device *devices[DEVICES];
    void *programs[3];
    probed found;
    bool right; /* the numbers */
} scene;

static bt_status load(scene *s, int number) {
    bti_pjrt_device *device = s->devices[number == 1];
    const bti_type vector = FLOATS(4), square = FLOATS(2, 2), types[] = {vector, vector, vector};
    if (number == 2) return load_segment(device, stub_copy, 1, 1, (bti_type[]){square, square}, NULL, &s->programs[2]);
    return load_segment(device, stub_add_in_place, 2, 1, types, (int[]){0, -1}, &s->programs[number]);
}

static bt_status run_all(scene *s) {
    uint64_t x, y, z, w;
    size_t free_bytes, total_bytes;
    bti_event event;
    float got[4] = {0};
    bool done;
    bti_pjrt_device *a = s->devices[0], *b = s->devices[1];
    for (int i = 0; i < 3; i++) BTI_TRY(load(s, i));
    BTI_TRY(pjrt->alloc(a, BYTES, &x));
    BTI_TRY(pjrt->alloc(a, BYTES, &y));
    BTI_TRY(pjrt->alloc(a, BYTES, &z));
    BTI_TRY(pjrt->alloc(b, BYTES, &w));
    BTI_TRY(pjrt->upload(a, x, one, BYTES));
    BTI_TRY(pjrt->upload(a, y, ten, 8));
    BTI_TRY(pjrt->upload(a, y + 8, ten + 2, 8));
    BTI_TRY(pjrt->launch_segment(a, s->programs[0], (uint64_t[]){x, y, x}, NULL)); /* x = 11 22 33 44 */
    BTI_TRY(pjrt->launch_segment(a, s->programs[0], (uint64_t[]){x, y, x}, NULL)); /* x = 21 42 63 84 */
    BTI_TRY(pjrt->record(a, &event));
    BTI_TRY(pjrt->launch_segment(a, s->programs[2], (uint64_t[]){x, z}, NULL)); /* as another type */
    BTI_TRY(pjrt->copy(a, y, z, BYTES));
    BTI_TRY(pjrt->query(a, event, &done));
    BTI_TRY(pjrt->wait(a, event));
    BTI_TRY(pjrt->peer_copy(b, w, a, z, BYTES));
    BTI_TRY(pjrt->launch_segment(b, s->programs[1], (uint64_t[]){w, w, w}, NULL)); /* w = 42 84 126 168 */
    BTI_TRY(pjrt->fill(b, w + 12, 0, 4));
    BTI_TRY(pjrt->download(b, got, w, BYTES));
    s->right = got[0] == 42 && got[1] == 84 && got[2] == 126 && got[3] == 0;
    BTI_TRY(pjrt->sync(a));
    BTI_TRY(pjrt->sync(b));
    bt_status status = pjrt->memory(a, &free_bytes, &total_bytes);
    return status == BT_UNIMPLEMENTED ? BT_OK : status;
}

typedef struct opening {
    scene *scene;
    int device;
} opening;
static bt_status open_one(void *context) {
    static const bti_allocator none;
    opening *of = context;
    void *device = NULL;
    BTI_TRY(pjrt->open(of->scene->found.facts[of->device].ordinal, &none, &device));
    of->scene->devices[of->device] = device;
    return BT_OK;
}

static bt_status play(scene *s) {
    *s = (scene){0};
    BTI_TRY(bti_libraries_open(probe_in_opening, &s->found));
    if (s->found.count < DEVICES) return bti_fail(BT_UNAVAILABLE, "%s", bti_str_text(&s->found.reason));
    for (int d = 0; d < DEVICES; d++) BTI_TRY(bti_libraries_open(open_one, &(opening){s, d}));
    bti_str text = {0};
    pjrt->describe(s->devices[0], &text);
    bti_str_free(&text);
    return run_all(s);
}

static void clear(scene *s) {
    for (int p = 0; p < 3; p++)
        if (s->programs[p]) pjrt->program_free(s->devices[p == 1], NULL, s->programs[p]);
    for (int d = 0; d < DEVICES; d++)
        if (s->devices[d]) pjrt->close(s->devices[d]);
    bti_pjrt_plugins_begin(); /* a client that only the probe has made */
    for (int i = 0; i < BTI_PJRT_PLUGINS; i++)
        if (bti_pjrt_plugin_at(i) && bti_pjrt_plugin_at(i)->client)
            bti_pjrt_client_close(bti_pjrt_plugin_at(i)->client);
    bti_pjrt_plugins_end();
    bti_str_free(&s->found.reason);
}

/* Whether it went to its end. `words`: in the text of a failure. */
static bool play_and_check(const char *settings, const char *words) {
    static scene s;
    stub_set(settings);
    bt_error_clear();
    bt_status status = play(&s);
    if (status != BT_OK &&
        (!strstr(bt_error_text(), words) || !(strstr(bt_error_text(), "pjrt") || strstr(bt_error_text(), STUB))))
        fail_msg("%s: \"%s\" does not say \"%s\"", settings, bt_error_text(), words);
    if (status == BT_OK && !s.right) fail_msg("%s: wrong numbers", settings);
    stub_set("{}");
    clear(&s);
    close_stub(NULL, 0);
    return status == BT_OK;
}

static void each_call_fails(void **state) {
    (void)state;
    static const struct {
        int code, seed;
        const char *more;
    } ways[] = {{3, 0, ""},  {8, 3, ""}, {13, 4, ", \"platform\": \"cpu\""}, {99, 5, ", \"uses_up\": true"},
                {14, 6, ""}, {12, 7, ""}};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        int ends = 0, n = 1;
        for (; n < 400 && ends < 20;
             n++) { /* some failures are made good: statistics, versions; at the end no call fails any more */
            char settings[200];
            snprintf(settings, sizeof settings, "{\"limit\": 1000, \"fail_any\": [%d, %d], \"seed\": %d%s}", n,
                     ways[w].code, ways[w].seed, ways[w].more);
            ends = play_and_check(settings, "the stub fails in PJRT_") ? ends + 1 : 0;
        }
        assert_in_range(n, 60, 399);
    }
}

static void runs_fail_late(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++)
        for (int seed = 1; seed < 20; seed++) {
            char settings[100];
            snprintf(settings, sizeof settings, "{\"late\": [%d, 10], \"seed\": %d}", n, seed);
            assert_false(play_and_check(settings, "the stub fails late"));
            snprintf(settings, sizeof settings, "{\"late_upload\": [%d, 10], \"seed\": %d}", n, seed);
            (void)play_and_check(settings, "the stub fails late");
            snprintf(settings, sizeof settings, "{\"lost_after\": %d, \"seed\": %d}", n, seed);
            assert_false(play_and_check(settings, "the device is gone"));
        }
}

/* What is in flight when a run finds too little memory may hold some. */
static void memory_comes_back_with_work(void **state) {
    (void)state;
    const char refused[] = "{\"fail\": {\"PJRT_LoadedExecutable_Execute\": [2, 8]}, \"seed\": %d}";
    const char told[] = "the stub fails in PJRT_LoadedExecutable_Execute";
    int ends = 0;
    for (int seed = 0; seed < 20; seed++) {
        char settings[100];
        snprintf(settings, sizeof settings, refused, seed);
        bool ended = play_and_check(settings, told);
        if (!ended) assert_int_equal(bt_error_status(), BT_RESOURCE_EXHAUSTED);
        ends += ended;
    }
    assert_true(ends > 5);
}

static void each_allocation_fails(void **state) {
    (void)state;
    int ends = 0;
    for (uint64_t n = 1; n < 400 && ends < 30; n++) {
        static scene s;
        stub_set("{\"seed\": 2}");
        bti_alloc_fail_at(n, false);
        bt_status status = play(&s);
        bti_alloc_fail_at(0, false);
        ends = status == BT_OK ? ends + 1 : 0;
        if (status == BT_OK && !s.right) fail_msg("allocation %d: wrong numbers", (int)n);
        if (status != BT_OK && status != BT_RESOURCE_EXHAUSTED && status != BT_UNAVAILABLE)
            fail_msg("allocation %d: %s", (int)n, bt_error_text());
        clear(&s);
        close_stub(NULL, 0);
    }
    assert_int_equal(ends, 30);
}

/* --- tables: each of a copy of the stub, as a library's table is read once ------------------------------------------------------- */

static void copy_stub(const char *path) {
    char command[600];
    snprintf(command, sizeof command, "cp %s %s", STUB, path);
    assert_int_equal(system(command), 0);
}

/* The reason, when a plugin with these settings is opened first; "" if it has devices. */
static const char *reason_of(const char *settings) {
    static char reason[600];
    static int number;
    static probed found;
    char path[200], flag[220];
    snprintf(path, sizeof path, BERTH_BUILD_DIR "/fakes/pjrt_copy_%d.so", ++number);
    copy_stub(path);
    setenv("BERTH_FAKE_PJRT", settings, 1);
    snprintf(flag, sizeof flag, "acc:%s", path);
    set_plugins(flag);
    bool there = probe_devices(&found) > 0;
    snprintf(reason, sizeof reason, "%s", there ? "" : bti_str_text(&found.reason));
    bti_str_free(&found.reason);
    unlink(path);
    return reason;
}

static void expect_reason(const char *settings, const char *words) {
    const char *reason = reason_of(settings);
    if (!*words ? *reason != '\0' : !strstr(reason, words))
        fail_msg("%s: \"%s\" does not say \"%s\"", settings, reason, words);
}

static void tables_are_checked(void **state) {
    (void)state;
    expect_reason("{\"minor\": 57, \"entries\": 90}", ""); /* without CopyToMemory */
    expect_reason("{\"minor\": 150, \"entries\": 150}", "");
    expect_reason("{\"minor\": 56}", "it has version 0.56 of the PJRT C API; 0.57 or a later 0.x is needed");
    expect_reason("{\"major\": 1}", "it has version 1.81 of the PJRT C API");
    expect_reason("{\"entries\": 70}", "it lacks PJRT_Buffer_ToHostBuffer (version 0.81 of the PJRT C API)");
    expect_reason("{\"entries\": -1}", "its table of functions has only 32 bytes");
    expect_reason("{\"missing\": [\"PJRT_Event_Await\"]}", "it lacks PJRT_Event_Await");
    expect_reason("{\"fail\": {\"PJRT_Plugin_Initialize\": [1, 9]}}",
                  "its start: the stub fails in PJRT_Plugin_Initialize");
    expect_reason("{\"fail\": {\"PJRT_Client_Create\": [1, 5]}}", "a client: the stub fails in PJRT_Client_Create");
    expect_reason("{\"listed\": 1000000}", "it lists 1000000 devices; there can be 64");
    expect_reason("{\"listed\": -1}", "it lists 18446744073709551615 devices");
    expect_reason("{\"listed\": 0}", "0 devices");
}

/* What may be missing is done without. */
static void optional_entries_are_done_without(void **state) {
    (void)state;
    const char *settings =
        "{\"missing\": [\"PJRT_Event_OnReady\", \"PJRT_Client_PlatformVersion\", \"PJRT_Device_DefaultMemory\", "
        "\"PJRT_Device_MemoryStats\", \"PJRT_Buffer_IsDeleted\", \"PJRT_Buffer_CopyToDevice\", "
        "\"PJRT_Buffer_CopyToMemory\"]}";
    static scene s;
    char path[] = BERTH_BUILD_DIR "/fakes/pjrt_copy_bare.so", flag[300];
    copy_stub(path);
    setenv("BERTH_FAKE_PJRT", settings, 1);
    snprintf(flag, sizeof flag, "acc:%s", path);
    set_plugins(flag);
    OK(play(&s));
    assert_true(s.right);
    clear(&s);
    unlink(path);
}

static void files_that_are_no_plugins(void **state) {
    (void)state;
    static probed found;
    static const struct {
        const char *flag, *words;
    } cases[] = {{"tpu:/nowhere/libtpu.so", "/nowhere/libtpu.so: cannot open shared object file"},
                 {"tpu:libm.so.6", "libm.so.6: it has no function GetPjrtApi, so it is no PJRT plugin"},
                 {"tpu:" STUB ";acc:" BERTH_BUILD_DIR "/fakes/../fakes/libpjrt_stub.so", "is the same library as"},
                 {"gpu:" STUB, "a plugin is named by the kind of its devices, tpu: or acc:, and its path"},
                 {"tpu:", "there is no path behind the kind"},
                 {"tpu:a;;acc:b", "there is nothing between two ;"},
                 {"tpu:a;", "there is nothing between two ; or at an end"},
                 {"tpu:a;acc:a", "a path is named twice"},
                 {STUB, "a plugin is named by the kind"},
                 {"none", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_plugins(cases[i].flag);
        probe_devices(&found);
        if (!strstr(bti_str_text(&found.reason), cases[i].words))
            fail_msg("%s: \"%s\"", cases[i].flag, bti_str_text(&found.reason));
        assert_int_equal(found.count, i == 2 ? 2 : 0);
        bti_str_free(&found.reason);
    }
    static scene none;
    clear(&none);
}

static void sizes_that_cannot_be(void **state) {
    (void)state;
    static const struct {
        const char *settings;
        bt_status status;
        size_t free_bytes, total_bytes;
    } cases[] = {{"{\"limit\": 1000, \"used\": 10}", BT_OK, 990, 1000},
                 {"{\"limit\": -5}", BT_UNIMPLEMENTED, 0, 0},
                 {"{\"limit\": 1000, \"used\": 1001}", BT_UNIMPLEMENTED, 0, 1000},
                 {"{\"limit\": 1000, \"used\": -1}", BT_UNIMPLEMENTED, 0, 1000},
                 {"{}", BT_UNIMPLEMENTED, 0, 0}};
    bti_pjrt_device *device;
    open_stub("{}", &device, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t free_bytes = 1, total_bytes = 1;
        stub_set(cases[i].settings);
        assert_int_equal(pjrt->memory(device, &free_bytes, &total_bytes), cases[i].status);
        assert_int_equal(free_bytes, cases[i].free_bytes);
        assert_int_equal(total_bytes, cases[i].total_bytes);
    }
    close_stub(&device, 1);
}

/* Between the probe and the opening. */
static void devices_that_vanish(void **state) {
    (void)state;
    static probed found;
    static const bti_allocator none;
    bti_pjrt_device *device;
    void *opened;
    open_stub("{\"devices\": 2}", &device, 1);
    probe_devices(&found);
    bti_str_free(&found.reason);
    close_stub(&device, 1);
    stub_set("{\"devices\": 1}");
    FAILS(pjrt->open(found.facts[1].ordinal, &none, &opened), BT_UNAVAILABLE, "its device 1 no longer exists");
    FAILS(pjrt->open(99 << 16, &none, &opened), BT_UNAVAILABLE, "no plugin has number 99");
    static scene nothing;
    clear(&nothing);
    close_stub(NULL, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_fails),
                                       cmocka_unit_test(runs_fail_late),
                                       cmocka_unit_test(memory_comes_back_with_work),
                                       cmocka_unit_test(each_allocation_fails),
                                       cmocka_unit_test(sizes_that_cannot_be),
                                       cmocka_unit_test(devices_that_vanish),
                                       cmocka_unit_test(optional_entries_are_done_without),
                                       cmocka_unit_test(files_that_are_no_plugins),
                                       cmocka_unit_test(tables_are_checked)};
    setenv("BERTH_FAKE_PJRT", "{}", 1);
    reach_stub();
    set_plugins("tpu:" STUB);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
