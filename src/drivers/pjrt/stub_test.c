// timeout: 120
// labels: valgrind
/* The driver on the stub plugin: slots, types, copies, memory that is given, programs. */
#include <inttypes.h>
#include <stdio.h>

#include "support/pjrt_stub.h"

/* --- memory ------------------------------------------------------------------------------------------------------------------- */

static void slots_have_addresses(void **state) {
    (void)state;
    bti_pjrt_device *device;
    uint64_t a, b, again;
    size_t offset;
    bti_pjrt_slot *slot;
    open_stub("{}", &device, 1);
    a = new_memory(device, 100), b = new_memory(device, (size_t)1 << 36);
    assert_int_equal(a, UINT64_C(1) << 36);
    assert_int_equal(b, UINT64_C(2) << 36);
    OK(bti_pjrt_find(device, a + 60, 40, &slot, &offset));
    assert_int_equal(offset, 60);
    FAILS(bti_pjrt_find(device, a + 60, 41, &slot, &offset), BT_INTERNAL, "do not lie within memory of this device");
    FAILS(bti_pjrt_find(device, UINT64_C(3) << 36, 0, &slot, &offset), BT_INTERNAL, "pjrt0:0 (Stub v1): ");
    FAILS(bti_pjrt_find(device, 0, 0, &slot, &offset), BT_INTERNAL, "do not lie");
    FAILS(bti_pjrt_alloc(device, ((size_t)1 << 36) + 1, &again), BT_RESOURCE_EXHAUSTED,
          "there can be 64 GiB in one piece");
    pjrt->free(device, a, 100);
    FAILS(bti_pjrt_find(device, a, 1, &slot, &offset), BT_INTERNAL, "do not lie");
    assert_int_equal(new_memory(device, 5), a);
    float got;
    FAILS(pjrt->download(device, &got, a, 4), BT_INTERNAL, "4 bytes are asked for where 0 were written");
    close_stub(&device, 1);
}

static void parts_are_uploaded_and_downloaded(void **state) {
    (void)state;
    bti_pjrt_device *device;
    char got[16] = "";
    open_stub("{}", &device, 1);
    uint64_t x = new_memory(device, 16);
    OK(pjrt->upload(device, x + 4, "abcd", 4));
    OK(pjrt->upload(device, x + 8, "efgh", 4));
    OK(pjrt->fill(device, x + 12, 'z', 4));
    OK(pjrt->download(device, got, x, 16));
    assert_memory_equal(got, "\0\0\0\0abcdefghzzzz", 16);
    OK(pjrt->download(device, got, x + 6, 4));
    assert_memory_equal(got, "cdef", 4);
    OK(pjrt->fill(device, x, 'y', 16));
    OK(pjrt->download(device, got, x, 16));
    assert_memory_equal(got, "yyyyyyyyyyyyyyyy", 16);
    assert_int_equal(stub_count().live[STUB_BUFFER], 0); /* nothing has asked for an array */
    close_stub(&device, 1);
}

/* A part that is written into an array of the plugin's: the rest is fetched. */
static void a_part_of_a_result_is_written(void **state) {
    (void)state;
    bti_pjrt_device *device;
    open_stub("{\"seed\": 3}", &device, 1);
    void *program = load_add(device, false);
    uint64_t x = new_array(device, one, BYTES), y = new_array(device, ten, BYTES), z = new_memory(device, BYTES);
    OK(pjrt->launch_segment(device, program, (uint64_t[]){x, y, z}, NULL));
    OK(pjrt->upload(device, z + 4, &ten[0], 4));
    expect_floats(device, z, (float[]){11, 10, 33, 44}, 4);
    OK(pjrt->launch_segment(device, program, (uint64_t[]){z, y, z}, NULL));
    OK(pjrt->fill(device, z + 8, 0, 8));
    expect_floats(device, z, (float[]){21, 30, 0, 0}, 4);
    OK(pjrt->launch_segment(device, program, (uint64_t[]){x, y, z}, NULL));
    float got[4];
    for (int i = 0; i < 4; i++) OK(pjrt->download(device, got + i, z + 4 * (unsigned)i, 4));
    assert_memory_equal(got, sum, BYTES);
    finish(device);
    pjrt->program_free(device, NULL, program);
    close_stub(&device, 1);
}

/* What a launch in flight reads stays: an upload, a copy or a fill puts other contents into the slot. */
static void launches_keep_what_they_read(void **state) {
    (void)state;
    for (int seed = 1; seed < 30; seed++) {
        bti_pjrt_device *device;
        char settings[80];
        snprintf(settings, sizeof settings, "{\"seed\": %d, \"platform\": \"%s\"}", seed, seed % 2 ? "cpu" : "tpu");
        open_stub(settings, &device, 1);
        void *program = load_add(device, false);
        uint64_t x = new_array(device, one, BYTES), y = new_array(device, ten, BYTES), z = new_memory(device, BYTES),
                 w = new_memory(device, BYTES);
        OK(pjrt->launch_segment(device, program, (uint64_t[]){x, y, z}, NULL));
        OK(pjrt->upload(device, y, one, BYTES));
        OK(pjrt->launch_segment(device, program, (uint64_t[]){x, y, w}, NULL));
        OK(pjrt->fill(device, x, 0, BYTES));
        OK(pjrt->copy(device, y, x, BYTES));
        expect_floats(device, w, (float[]){2, 4, 6, 8}, 4);
        expect_floats(device, z, sum, 4);
        expect_floats(device, y, (float[]){0, 0, 0, 0}, 4);
        for (int i = 0; i < 20; i++) {
            OK(pjrt->launch_segment(device, program, (uint64_t[]){w, z, w}, NULL));
            if (i == 10) pjrt->free(device, z, BYTES), z = new_array(device, one, BYTES);
        }
        expect_floats(device, w, (float[]){2 + 11 * 11 + 9, 4 + 22 * 11 + 18, 6 + 33 * 11 + 27, 8 + 44 * 11 + 36}, 4);
        finish(device);
        pjrt->program_free(device, NULL, program);
        close_stub(&device, 1);
    }
}

static void another_type_is_made_anew(void **state) {
    (void)state;
    bti_pjrt_device *device;
    void *copy;
    open_stub("{}", &device, 1);
    void *program = load_add(device, false);
    OK(load_segment(device, stub_copy, 1, 1, (bti_type[]){FLOATS(2, 2), FLOATS(2, 2)}, NULL, &copy));
    uint64_t x = new_array(device, one, BYTES), y = new_memory(device, BYTES), z = new_memory(device, BYTES);
    OK(pjrt->launch_segment(device, copy, (uint64_t[]){x, y}, NULL)); /* bytes that had no type yet */
    assert_int_equal(atomic_load(&device->retyped), 0);
    OK(pjrt->launch_segment(device, program, (uint64_t[]){y, y, z}, NULL));
    assert_int_equal(atomic_load(&device->retyped), 1); /* and y keeps the new type */
    OK(pjrt->launch_segment(device, program, (uint64_t[]){y, y, z}, NULL));
    assert_int_equal(atomic_load(&device->retyped), 1);
    expect_floats(device, z, (float[]){2, 4, 6, 8}, 4);
    expect_floats(device, y, one, 4);
    finish(device);
    pjrt->program_free(device, NULL, program);
    pjrt->program_free(device, NULL, copy);
    close_stub(&device, 1);
}

/* [3, 2] in a buffer of [4, 4], and [2, 3] beside it: one program. */
static void arrays_may_be_shorter_than_the_program_s(void **state) {
    (void)state;
    bti_pjrt_device *devices[2];
    void *copy, *exact;
    char other[sizeof stub_copy + 1];
    const float a[6] = {1, 2, 3, 4, 5, 6};
    const bti_type held[] = {FLOATS(4, 4), FLOATS(4, 4)}, tall[] = {FLOATS(3, 2), FLOATS(3, 2)},
                   flat[] = {FLOATS(2, 3), FLOATS(2, 3)};
    open_stub("{}", devices, 2);
    bti_pjrt_device *device = devices[0];
    OK(load_segment(device, stub_copy, 1, 1, held, NULL, &copy));
    snprintf(other, sizeof other, "%s\n", stub_copy); /* programs of one text are one */
    OK(load_segment(device, other, 1, 1, tall, NULL, &exact));
    uint64_t x = new_array(device, a, sizeof a), y = new_memory(device, sizeof a), z = new_memory(device, sizeof a);
    uint64_t away = new_memory(devices[1], sizeof a);
    OK(pjrt->launch_segment(device, copy, (uint64_t[]){x, y}, tall));
    OK(pjrt->launch_segment(device, copy, (uint64_t[]){y, z}, tall));
    expect_floats(device, z, a, 6);
    expect_floats(device, z + 4, a + 1, 3); /* a part */
    expect_floats(device, z, a, 6);
    assert_int_equal(atomic_load(&device->retyped), 0);
    OK(pjrt->peer_copy(devices[1], away, device, y, sizeof a));
    expect_floats(devices[1], away, a, 6);
    OK(pjrt->launch_segment(device, copy, (uint64_t[]){y, z}, flat)); /* other rows of as many bytes */
    assert_int_equal(atomic_load(&device->retyped), 1);
    expect_floats(device, z, a, 6);
    OK(pjrt->launch_segment(device, exact, (uint64_t[]){z, x}, NULL)); /* a buffer of its length */
    assert_int_equal(atomic_load(&device->retyped), 2);
    expect_floats(device, x, a, 6);
    finish(device);
    pjrt->program_free(device, NULL, copy);
    pjrt->program_free(device, NULL, exact);
    close_stub(devices, 2);
}

static void rows_come_in_their_order(void **state) {
    (void)state;
    bti_pjrt_device *device;
    void *copy;
    const float a[6] = {1, 2, 3, 4, 5, 6};
    open_stub("{}", &device, 1);
    OK(load_segment(device, stub_copy, 1, 1, (bti_type[]){FLOATS(2, 3), FLOATS(2, 3)}, NULL, &copy));
    uint64_t x = new_array(device, a, sizeof a), y = new_memory(device, sizeof a);
    OK(pjrt->launch_segment(device, copy, (uint64_t[]){x, y}, NULL));
    expect_floats(device, y, a, 6);
    finish(device);
    pjrt->program_free(device, NULL, copy);
    close_stub(&device, 1);
}

static void all_dtypes_have_types(void **state) {
    (void)state;
    bti_pjrt_device *device;
    open_stub("{}", &device, 1);
    for (int dtype = 0; dtype < BT_DTYPE_COUNT; dtype++) {
        void *copy;
        unsigned char sent[64], got[64];
        size_t bytes = 4 * bt_dtype_size((bt_dtype)dtype);
        const bti_type type = type_of((bt_dtype)dtype, 1, (int64_t[]){4});
        for (size_t i = 0; i < bytes; i++) sent[i] = (unsigned char)(i * 3 + 1);
        OK(load_segment(device, stub_copy, 1, 1, (bti_type[]){type, type}, NULL, &copy));
        uint64_t x = new_array(device, sent, bytes), y = new_memory(device, bytes);
        OK(pjrt->launch_segment(device, copy, (uint64_t[]){x, y}, NULL));
        OK(pjrt->download(device, got, y, bytes));
        assert_memory_equal(got, sent, bytes);
        pjrt->program_free(device, NULL, copy);
    }
    close_stub(&device, 1);
}

/* --- giving memory ------------------------------------------------------------------------------------------------------------ */

static void memory_is_given_where_it_can_be(void **state) {
    (void)state;
    bti_pjrt_device *device;
    open_stub("{\"seed\": 5}", &device, 1);
    void *program = load_add(device, true);
    uint64_t x = new_array(device, one, BYTES), y = new_array(device, ten, BYTES), z = new_memory(device, BYTES);
    int before = stub_count().given;
    OK(pjrt->launch_segment(device, program, (uint64_t[]){x, y, z}, NULL)); /* another address */
    assert_int_equal(stub_count().given, before);
    expect_floats(device, z, sum, 4);
    OK(pjrt->launch_segment(device, program, (uint64_t[]){z, y, z}, NULL));
    assert_int_equal(stub_count().given, before + 1);
    OK(pjrt->copy(device, x, z, BYTES)); /* a second owner */
    OK(pjrt->launch_segment(device, program, (uint64_t[]){z, y, z}, NULL));
    assert_int_equal(stub_count().given, before + 1);
    expect_floats(device, x, more, 4);
    expect_floats(device, z, (float[]){31, 62, 93, 124}, 4);
    OK(pjrt->launch_segment(device, program, (uint64_t[]){z, z, z}, NULL)); /* read twice */
    assert_int_equal(stub_count().given, before + 1);
    expect_floats(device, z, (float[]){62, 124, 186, 248}, 4);
    finish(device);
    pjrt->program_free(device, NULL, program);
    close_stub(&device, 1);
}

static void a_refused_run_changes_nothing(void **state) {
    (void)state;
    bti_pjrt_device *device;
    open_stub("{}", &device, 1);
    void *program = load_add(device, true);
    uint64_t x = new_array(device, one, BYTES), y = new_array(device, ten, BYTES);
    stub_set("{\"fail\": {\"PJRT_LoadedExecutable_Execute\": [1, 13]}}");
    FAILS(pjrt->launch_segment(device, program, (uint64_t[]){x, y, x}, NULL), BT_INTERNAL,
          "pjrt0:0 (Stub v1): running a segment: the stub fails in PJRT_LoadedExecutable_Execute");
    expect_floats(device, x, one, 4);
    OK(pjrt->launch_segment(device, program, (uint64_t[]){x, y, x}, NULL));
    expect_floats(device, x, sum, 4);
    finish(device);
    pjrt->program_free(device, NULL, program);
    close_stub(&device, 1);
}

/* A plugin that has used up what it was given before it refuses. */
static void lost_elements_are_said_to_be(void **state) {
    (void)state;
    bti_pjrt_device *device;
    void *program;
    float got[4];
    open_stub("{\"uses_up\": true}", &device, 1);
    OK(load_segment(device, stub_add_in_place, 2, 1, (bti_type[]){FLOATS(4), FLOATS(3), FLOATS(4)}, (int[]){0, -1},
                    &program));
    uint64_t x = new_array(device, one, BYTES), y = new_array(device, ten, 12);
    FAILS(pjrt->launch_segment(device, program, (uint64_t[]){x, y, x}, NULL), BT_INVALID_ARGUMENT,
          "arrays of other sizes");
    FAILS(pjrt->download(device, got, x, BYTES), BT_INTERNAL,
          "these elements are lost: their memory was given to a segment that failed: ");
    FAILS(pjrt->launch_segment(device, program, (uint64_t[]){x, y, x}, NULL), BT_INTERNAL, "arrays of other sizes");
    FAILS(pjrt->upload(device, x + 4, one, 4), BT_INTERNAL, "lost");
    OK(pjrt->upload(device, x, one, BYTES));
    expect_floats(device, x, one, 4);
    pjrt->program_free(device, NULL, program);
    close_stub(&device, 1);
}

/* --- programs ------------------------------------------------------------------------------------------------------------------- */

static void programs_are_checked(void **state) {
    (void)state;
    bti_pjrt_device *device;
    void *program;
    open_stub("{}", &device, 1);
    FAILS(load_segment(device, "no rule", 2, 1, ADD_TYPES, NULL, &program), BT_INVALID_ARGUMENT,
          "pjrt0:0 (Stub v1): compiling a segment: in \"no rule\": error: expected a rule of the stub\n  at line 1");
    static char long_text[9000]; /* of what a message repeats of it, the end is left out; the reason stays */
    memset(long_text, 'x', sizeof long_text - 1);
    FAILS(load_segment(device, long_text, 2, 1, ADD_TYPES, NULL, &program), BT_INVALID_ARGUMENT, "in \"xxxx");
    assert_non_null(strstr(bt_error_text(), "x (5052 bytes left out) x"));
    assert_non_null(strstr(bt_error_text(), "xxx\": error: expected a rule of the stub\n  at line 1"));
    stub_set("{\"results\": 3}");
    FAILS(load_segment(device, stub_add, 2, 1, ADD_TYPES, NULL, &program), BT_INTERNAL,
          "the compiled segment has 3 results; the plan has 1");
    stub_set("{\"no_results\": true}");
    OK(load_segment(device, stub_add, 2, 1, ADD_TYPES, NULL, &program));
    uint64_t x = new_array(device, one, BYTES), z = new_memory(device, BYTES);
    FAILS(pjrt->launch_segment(device, program, (uint64_t[]){x, x, z}, NULL), BT_INTERNAL,
          "running a segment gave too few results");
    FAILS(pjrt->launch_segment(device, program, (uint64_t[]){x, x + 4, z}, NULL), BT_INTERNAL, "do not lie within");
    FAILS(pjrt->launch_segment(device, program, (uint64_t[]){x, z, z}, NULL), BT_INTERNAL,
          "16 bytes are asked for where 0 were written");
    pjrt->program_free(device, NULL, program);
    bti_program_source source = {.op = BTI_OP_matmul};
    FAILS(pjrt->program_load(device, &source, &program), BT_UNIMPLEMENTED, "runs segments of plans and nothing else");
    FAILS(pjrt->launch(device, NULL, NULL), BT_UNIMPLEMENTED, "runs segments of plans and nothing else");
    FAILS(pjrt->launch_kernel(device, NULL, NULL), BT_UNIMPLEMENTED, "runs segments of plans and nothing else");
    close_stub(&device, 1);
}

/* --- modules as files: the flag pjrt_dump ---------------------------------------------------------------------------------------- */

static int lines_logged;
static void count_line(const char *line, void *data) {
    (void)data;
    lines_logged += strstr(line, "a module was not written: ") != NULL;
}

static void compile_with_dump(const char *folder, const char *text) {
    bti_pjrt_device *device;
    void *program;
    open_stub("{}", &device, 1);
    OK(bt_set_flag("pjrt_dump", folder));
    OK(load_segment(device, text, 2, 1, ADD_TYPES, NULL, &program));
    OK(bt_set_flag("pjrt_dump", ""));
    pjrt->program_free(device, NULL, program);
    close_stub(&device, 1);
}

static void modules_are_written(void **state) {
    (void)state;
    char root[] = "/tmp/berth-dump-XXXXXX", folder[64], path[128], got[sizeof stub_add];
    assert_non_null(mkdtemp(root));
    snprintf(folder, sizeof folder, "%s/modules", root);
    for (int i = 0; i < 2; i++) compile_with_dump(folder, stub_add); /* the second time it is there already */
    snprintf(path, sizeof path, "%s/%016" PRIx64 "%016x.mlir", folder, XXH3_64bits(stub_add, strlen(stub_add)), 0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(got, 1, sizeof got, file), strlen(stub_add));
    assert_memory_equal(got, stub_add, strlen(stub_add));
    fclose(file);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else is left */
    assert_int_equal(rmdir(root), 0);
    bt_set_log_sink(count_line, NULL);
    for (int i = 0; i < 2; i++) compile_with_dump(folder, stub_add);
    bt_set_log_sink(NULL, NULL);
    assert_int_equal(lines_logged, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(slots_have_addresses),
                                       cmocka_unit_test(parts_are_uploaded_and_downloaded),
                                       cmocka_unit_test(a_part_of_a_result_is_written),
                                       cmocka_unit_test(launches_keep_what_they_read),
                                       cmocka_unit_test(another_type_is_made_anew),
                                       cmocka_unit_test(rows_come_in_their_order),
                                       cmocka_unit_test(all_dtypes_have_types),
                                       cmocka_unit_test(memory_is_given_where_it_can_be),
                                       cmocka_unit_test(a_refused_run_changes_nothing),
                                       cmocka_unit_test(lost_elements_are_said_to_be),
                                       cmocka_unit_test(programs_are_checked),
                                       cmocka_unit_test(modules_are_written),
                                       cmocka_unit_test(arrays_may_be_shorter_than_the_program_s)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
