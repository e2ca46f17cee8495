/* Frames as bytes: what was written is read; what is cut or damaged is refused and read no further. */
#include "task/ray/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "task/ray/entries.h"

static void write_answer(bti_str *f, uint64_t id, const char *value) {
    bti_ray_begin(f, BTI_RAY_ANSWER, 7);
    bti_ray_add32(f, 0);
    bti_ray_add32(f, 0);
    bti_ray_add64(f, 42);
    bti_ray_add_real(f, 2.5);
    bti_ray_add_text(f, "text");
    bti_ray_add32(f, 1);
    bti_ray_add64(f, id);
    bti_ray_add32(f, BTI_RAY_VALUE);
    bti_ray_add32(f, 0);
    bti_ray_add32(f, 0);
    bti_ray_add64(f, strlen(value));
    bti_ray_add_text(f, value);
    assert_true(bti_ray_finish(f));
}

static void test_written_is_read(void **state) {
    (void)state;
    bti_str f = {0};
    uint32_t bytes;
    write_answer(&f, 3, "value");
    assert_int_equal(bti_ray_frame_bytes(f.text, f.length), f.length);
    bti_ray_reader r = {f.text + BTI_RAY_HEAD, f.length - BTI_RAY_HEAD, false};
    assert_int_equal(bti_ray_read64(&r), 0);
    assert_int_equal(bti_ray_read64(&r), 42);
    assert_true(bti_ray_read_real(&r) > 2.4 && !r.is_short);
    const char *text = bti_ray_read_text(&r, &bytes);
    assert_int_equal(bytes, 4);
    assert_memory_equal(text, "text", 4);
    bti_str_free(&f);
}

static void test_past_the_end(void **state) {
    (void)state;
    const char four[4] = {1, 0, 0, 0};
    uint32_t bytes;
    bti_ray_reader r = {four, 4, false};
    assert_int_equal(bti_ray_read64(&r), 0);
    assert_true(r.is_short);
    assert_int_equal(bti_ray_read32(&r), 0); /* nothing more, although 4 bytes were there */
    r = (bti_ray_reader){four, 4, false};
    assert_string_equal(bti_ray_read_text(&r, &bytes), "");
    assert_true(r.is_short && !bytes);
}

static void test_sizes_of_frames(void **state) {
    (void)state;
    const unsigned char none[] = {0xff, 0xff, 0xff, 0xff, 1}, small[] = {3, 0, 0, 0, 1};
    assert_int_equal(bti_ray_frame_bytes((const char *)none, sizeof none), -1);
    assert_int_equal(bti_ray_frame_bytes((const char *)small, sizeof small), -1);
    assert_int_equal(bti_ray_frame_bytes((const char *)small, 3), 0);
}

/* An answer settles an entry; each beginning of it is refused, and changes nothing. */
static void test_answers(void **state) {
    (void)state;
    bti_str f = {0};
    bti_ray_entry *e = bti_ray_entry_new(99, true);
    assert_non_null(e);
    write_answer(&f, 99, "bytes of a value");
    for (size_t cut = 0; cut < f.length - 20; cut++) {
        assert_false(bti_ray_receive_frame(f.text, cut));
        assert_int_equal(bti_ray_entry_state(e), BTI_RAY_PENDING);
    }
    assert_true(bti_ray_receive_frame(f.text, f.length));
    assert_int_equal(bti_ray_entry_state(e), BTI_RAY_VALUE);
    assert_memory_equal(e->block->packed, "bytes of a value", 16);
    assert_true((uintptr_t)e->block->packed % 64 == 0);
    bti_ray_entry_release(e);
    bti_str_free(&f);
}

/* Frames with bytes that were changed at random are read to their ends, or refused. */
static void test_damaged(void **state) {
    (void)state;
    srandom(5);
    for (int round = 0; round < 3000; round++) {
        bti_str f = {0};
        bti_ray_entry *e = bti_ray_entry_new(99, round % 2);
        write_answer(&f, 99, "bytes of a value");
        for (int n = 0; n < 3; n++) f.text[(size_t)random() % f.length] = (char)random();
        (void)bti_ray_receive_frame(f.text, f.length);
        bti_ray_entry_release(e);
        bti_str_free(&f);
    }
}

static void test_ids_differ(void **state) {
    (void)state;
    uint64_t first = bti_ray_ids_new(3), second = bti_ray_ids_new(1);
    assert_true(bti_ray_id_of(first, 0) != bti_ray_id_of(first, 1));
    assert_true(bti_ray_id_of(first, 2) != bti_ray_id_of(second, 0));
    assert_int_equal(first + 3, second);
}

/* Results that are read in the order of their calls are read ahead, more and more of them. */
static void test_reading_ahead(void **state) {
    (void)state;
    enum { COUNT = 100 };
    bti_ray_entry *all[COUNT];
    uint64_t ids[BTI_RAY_MOST_AHEAD];
    int counts[3];
    for (uint64_t i = 0; i < COUNT; i++) all[i] = bti_ray_entry_new(1000 + i, true);
    for (int i = 0; i < 3; i++) {
        counts[i] = bti_ray_entries_ahead(all[i], ids);
        assert_true(!counts[i] || ids[0] == 1001 + (uint64_t)i);
    }
    assert_true(counts[0] < counts[1] && counts[1] < counts[2]);
    for (int i = 0; i < COUNT; i++) bti_ray_entry_release(all[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_is_read), cmocka_unit_test(test_past_the_end),
        cmocka_unit_test(test_sizes_of_frames), cmocka_unit_test(test_answers),
        cmocka_unit_test(test_damaged),         cmocka_unit_test(test_ids_differ),
        cmocka_unit_test(test_reading_ahead),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bti_ray_entries_end();
    return failed;
}
