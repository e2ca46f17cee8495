// timeout: 300
#include "drivers/cpu/compiled/object.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/llvm_texts.h"
#include "drivers/cpu/compiled/llvm.h"

static const char *const names[] = {"bti_run", "bti_part", "bti_finish"};

/* The object of a text; skips the test where there is no LLVM. */
static bti_str object_of(const char *text, bti_target target) {
    bti_str str = {0}, object = {0};
    bti_str_add(&str, text);
    bt_status status = bti_llvm_compile(&str, target, &object);
    bti_str_free(&str);
    if (status == BT_UNAVAILABLE) {
        print_message("skipped: %s\n", bt_error_text());
        skip();
    }
    if (status != BT_OK) fail_msg("%s", bt_error_text());
    return object;
}

static bt_status load(const bti_str *object, size_t length, bti_target target, void *functions[3],
                      bti_code_object *loaded) {
    unsigned char *copy = malloc(length ? length : 1); /* so that a sanitizer sees the end */
    assert_non_null(copy);
    memcpy(copy, object->text, length);
    bt_status status = bti_object_load(copy, length, target, names, 3, functions, loaded);
    free(copy);
    return status;
}

static void expect_refused(const bti_str *object, bti_target target, bt_status expected, const char *text) {
    void *functions[3];
    bti_code_object loaded = {0};
    bt_status status = load(object, object->length, target, functions, &loaded);
    if (status != expected) fail_msg("%s, not %s", bt_status_name(status), bt_status_name(expected));
    if (!strstr(bt_error_text(), text)) fail_msg("\"%s\" does not say \"%s\"", bt_error_text(), text);
    assert_null(loaded.memory);
}

static void run_all(void *const functions[3]) {
    static const int64_t stair[] = {11, 9, 77, 256, -8, 1005, 1006};
    unsigned char from[300], over[300], to[1000];
    for (int i = 0; i < 300; i++) from[i] = (unsigned char)(i * 5);
    for (int64_t x = 0; x < 7; x++) {
        uint64_t scalar = 0, address[] = {(uintptr_t)from, (uintptr_t)over, (uintptr_t)to};
        memset(over, 0, sizeof over);
        memset(to, 0, sizeof to);
        ((bti_run_function *)functions[0])(&x, &scalar, address, NULL, NULL);
        assert_int_equal((int64_t)scalar, stair[x]);
        assert_memory_equal(from, over, 300);
        assert_memory_equal(from, to, 300);
        for (int i = 300; i < 1000; i++) assert_int_equal(to[i], 7);
    }
    uint64_t parts[2];
    float products[4];
    ((bti_part_function *)functions[1])(NULL, NULL, NULL, NULL, NULL, parts);
    memcpy(products, parts, sizeof products);
    assert_true(products[0] == 3 && products[1] == 7.5f && products[2] == 14 && products[3] == 22.5f);
}

static void code_runs_with_its_constants_and_calls(void **state) {
    for (bti_target target = BTI_LLVM_SSE2; target <= BTI_LLVM_NEON; target++) {
        if (!bti_cpu_has(target)) continue;
        bti_str object = object_of(ir_relocations, target);
        void *functions[3];
        bti_code_object loaded;
        if (load(&object, object.length, target, functions, &loaded) != BT_OK) fail_msg("%s", bt_error_text());
        assert_null(functions[2]);
        run_all(functions);
        bti_object_free(&loaded);
        assert_null(loaded.memory);
        bti_object_free(&loaded);
        bti_str_free(&object);
    }
}

static void no_page_is_both_written_and_run(void **state) {
    bti_target target = bti_cpu_target();
    bti_str object = object_of(ir_relocations, target);
    void *functions[3];
    bti_code_object loaded;
    assert_int_equal(load(&object, object.length, target, functions, &loaded), BT_OK);
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4300];
    int seen = 0;
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char rights[5];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || (uintptr_t)loaded.memory >= to ||
            (uintptr_t)loaded.memory + loaded.bytes <= from)
            continue;
        if (rights[1] != '-') fail_msg("%s", line);
        seen++;
    }
    fclose(maps);
    assert_int_equal(seen, 2); /* code, and constants that are not run */
    bti_object_free(&loaded);
    bti_str_free(&object);
}

/* Of the other machine: placed and relocated, not run. */
static void both_machines_objects_are_placed(void **state) {
    const bti_target targets[] = {BTI_LLVM_AVX512, BTI_LLVM_NEON};
    for (int i = 0; i < 2; i++) {
        bti_str object = object_of(ir_relocations, targets[i]);
        void *functions[3];
        bti_code_object loaded;
        if (load(&object, object.length, targets[i], functions, &loaded) != BT_OK) fail_msg("%s", bt_error_text());
        assert_true(functions[0] && functions[1] && !functions[2]);
        bti_object_free(&loaded);
        expect_refused(&object, targets[!i], BT_DATA_LOSS, "object: byte 18: for machine");
        bti_str_free(&object);
    }
}

static void what_is_missing_is_refused_by_name(void **state) {
    bti_str object = object_of("declare void @somewhere_else()\n"
                               "define void @bti_run() nounwind {\n  call void @somewhere_else()\n  ret void\n}\n",
                               BTI_LLVM_SSE2);
    expect_refused(&object, BTI_LLVM_SSE2, BT_INTERNAL, "the function \"somewhere_else\" is not defined");
    bti_str_free(&object);
    object = object_of("@counter = global i64 7\n"
                       "define i64 @bti_run() nounwind {\n  %x = load i64, ptr @counter\n  ret i64 %x\n}\n",
                       BTI_LLVM_SSE2);
    expect_refused(&object, BTI_LLVM_SSE2, BT_DATA_LOSS, "object: byte ");
    bti_str_free(&object);
}

/* Every length and every byte of the headers, of the tables and of the symbols: taken or refused, never more. */
static void damage_is_survived(bti_target target) {
    bti_str object = object_of(ir_relocations, target);
    void *functions[3];
    bti_code_object loaded;
    for (size_t length = 0; length < object.length; length++) {
        assert_int_equal(load(&object, length, target, functions, &loaded), BT_DATA_LOSS);
        assert_non_null(strstr(bt_error_text(), "object: byte "));
    }
    Elf64_Ehdr file;
    memcpy(&file, object.text, sizeof file);
    size_t refused = 0, tried = 0;
    for (size_t at = 0; at < object.length; at++) {
        const unsigned char flips[] = {0x01, 0x80, 0xff, 0x10};
        for (size_t f = 0; f < sizeof flips; f++) {
            object.text[at] = (char)((unsigned char)object.text[at] ^ flips[f]);
            bt_status status = load(&object, object.length, target, functions, &loaded);
            if (status == BT_OK)
                bti_object_free(&loaded);
            else
                refused++;
            if (status != BT_OK && status != BT_DATA_LOSS && status != BT_INTERNAL) fail_msg("%s", bt_error_text());
            object.text[at] = (char)((unsigned char)object.text[at] ^ flips[f]);
            tried++;
        }
    }
    assert_true(refused > tried / 20); /* most bytes are code, which can be anything */
    assert_int_equal(load(&object, object.length, target, functions, &loaded), BT_OK);
    bti_object_free(&loaded);
    bti_str_free(&object);
}
static void damaged_x86_objects_are_survived(void **state) { damage_is_survived(BTI_LLVM_AVX2); }
static void damaged_aarch64_objects_are_survived(void **state) { damage_is_survived(BTI_LLVM_NEON); }

static void short_memory_is_survived(void **state) {
    bti_str object = object_of(ir_relocations, BTI_LLVM_AVX2);
    void *functions[3];
    bti_code_object loaded = {0};
    bti_alloc_fail_at(1, false);
    bt_status status = bti_object_load(object.text, object.length, BTI_LLVM_AVX2, names, 3, functions, &loaded);
    bti_alloc_fail_at(0, false);
    assert_int_equal(status, BT_RESOURCE_EXHAUSTED);
    assert_null(loaded.memory);
    bti_str_free(&object);
}

/* --- relocations by themselves ------------------------------------------------------------------------------------ */

static void expect_word(uint32_t type, uint32_t before, int64_t distance, const char *fault, uint32_t after) {
    _Alignas(4096) static unsigned char memory[4096];
    memcpy(memory + 8, &before, sizeof before);
    const char *got = bti_relocate(true, type, memory + 8, 16, (uint64_t)(uintptr_t)(memory + 8) + (uint64_t)distance);
    uint32_t word;
    memcpy(&word, memory + 8, sizeof word);
    if (!fault != !got || (fault && !strstr(got, fault))) fail_msg("%u: \"%s\"", type, got ? got : "fine");
    if (!fault) assert_int_equal(word, after);
}

/* Words as the assembler of aarch64 writes them. */
static void aarch64_instructions_are_changed(void **state) {
    expect_word(R_AARCH64_CALL26, 0x94000000, 0x1000, NULL, 0x94000400);    /* bl +4096 */
    expect_word(R_AARCH64_CALL26, 0x94000000, -4, NULL, 0x97ffffff);        /* bl -4 */
    expect_word(R_AARCH64_JUMP26, 0x14000000, 0x7fffffc, NULL, 0x15ffffff); /* b, the farthest */
    expect_word(R_AARCH64_CALL26, 0x94000000, 0x8000000, "does not fit", 0);
    expect_word(R_AARCH64_CALL26, 0x94000000, 2, "not aligned", 0);
    expect_word(R_AARCH64_ADR_PREL_LO21, 0x10000000, 9, NULL, 0x30000040);  /* adr x0, +9 */
    expect_word(R_AARCH64_ADR_PREL_LO21, 0x10000001, -1, NULL, 0x70ffffe1); /* adr x1, -1 */
    expect_word(R_AARCH64_ADR_PREL_LO21, 0x10000001, 1 << 20, "does not fit", 0);
    expect_word(R_AARCH64_ADR_PREL_PG_HI21, 0x90000000, 0x5000, NULL, 0xb0000020); /* adrp x0, 5 pages on */
    expect_word(R_AARCH64_ADR_PREL_PG_HI21, 0x90000000, -9, NULL, 0xf0ffffe0);     /* adrp x0, the page before */
    expect_word(R_AARCH64_ADD_ABS_LO12_NC, 0x91000000, 0x123, NULL, 0x9104ac00);   /* add x0, x0, #0x12b */
    expect_word(R_AARCH64_LDST8_ABS_LO12_NC, 0x39400000, 3, NULL, 0x39402c00);     /* ldrb w0, [x0, #11] */
    expect_word(R_AARCH64_LDST16_ABS_LO12_NC, 0x79400000, 2, NULL, 0x79401400);    /* ldrh w0, [x0, #10] */
    expect_word(R_AARCH64_LDST32_ABS_LO12_NC, 0xb9400000, 8, NULL, 0xb9401000);    /* ldr w0, [x0, #16] */
    expect_word(R_AARCH64_LDST64_ABS_LO12_NC, 0xf9400000, 8, NULL, 0xf9400800);    /* ldr x0, [x0, #16] */
    expect_word(R_AARCH64_LDST128_ABS_LO12_NC, 0x3dc00000, 24, NULL, 0x3dc00800);  /* ldr q0, [x0, #32] */
    expect_word(R_AARCH64_LDST128_ABS_LO12_NC, 0x3dc00000, 16, "not aligned", 0);
    expect_word(R_AARCH64_PREL32, 0, -12, NULL, (uint32_t)-12);
    expect_word(R_AARCH64_PREL32, 0, INT64_C(1) << 31, "does not fit", 0);
    expect_word(R_AARCH64_COPY, 0, 0, "not known", 0);
}

static void x86_relocations_fit_or_are_refused(void **state) {
    unsigned char memory[16] = {0};
    uint64_t here = (uintptr_t)memory, wide;
    int32_t word;
    assert_null(bti_relocate(false, R_X86_64_PC32, memory, 16, here - 4));
    memcpy(&word, memory, sizeof word);
    assert_int_equal(word, -4);
    assert_non_null(bti_relocate(false, R_X86_64_PLT32, memory, 16, here + (UINT64_C(1) << 31)));
    assert_non_null(bti_relocate(false, R_X86_64_PC32, memory, 3, here));
    assert_null(bti_relocate(false, R_X86_64_64, memory, 8, UINT64_MAX - 5));
    memcpy(&wide, memory, sizeof wide);
    assert_true(wide == UINT64_MAX - 5);
    assert_non_null(bti_relocate(false, R_X86_64_64, memory, 7, 5));
    assert_null(bti_relocate(false, R_X86_64_PC64, memory, 8, here + 77));
    memcpy(&wide, memory, sizeof wide);
    assert_true(wide == 77);
    assert_null(bti_relocate(false, R_X86_64_32, memory, 4, UINT32_MAX));
    assert_non_null(bti_relocate(false, R_X86_64_32, memory, 4, UINT64_C(1) << 32));
    assert_null(bti_relocate(false, R_X86_64_32S, memory, 4, (uint64_t)-7));
    assert_non_null(bti_relocate(false, R_X86_64_32S, memory, 4, UINT32_MAX));
    assert_non_null(bti_relocate(false, R_X86_64_GOTPCREL, memory, 16, here));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_runs_with_its_constants_and_calls),
        cmocka_unit_test(no_page_is_both_written_and_run),
        cmocka_unit_test(both_machines_objects_are_placed),
        cmocka_unit_test(what_is_missing_is_refused_by_name),
        cmocka_unit_test(damaged_x86_objects_are_survived),
        cmocka_unit_test(damaged_aarch64_objects_are_survived),
        cmocka_unit_test(short_memory_is_survived),
        cmocka_unit_test(aarch64_instructions_are_changed),
        cmocka_unit_test(x86_relocations_fit_or_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
