/* Matrix products: c/matmul.h with what stores a tile in the place of STORE_TILE. */
#include <stdio.h>
#include <string.h>

#include "render/c_writer.h"

static const char matmul[] = {
#include "c_matmul.inc"
    0};
static const char conv[] = {
#include "c_conv.inc"
    0};
static const char store_tile[] = "STORE_TILE;";

/* What stands before the store of the tile, and after it. */
static void add_before(bti_str *text) {
    bti_str_add_bytes(text, matmul, (size_t)(strstr(matmul, store_tile) - matmul));
}
static void add_after(bti_str *text) { bti_str_add(text, strstr(matmul, store_tile) + sizeof store_tile - 1); }

void bti_c_plain_product(bti_str *text) {
    bti_str_addf(text,
                 "struct words { i64 at[%d]; };\n"
                 "#define WORDS const struct words words\n"
                 "#define W(number) words.at[number]\n"
                 "#define MEMORIES MEMORY(2)\n",
                 BTI_PRODUCT_WORDS + 4);
    add_before(text);
    bti_str_addf(text,
                 "GLOBAL T *y = (GLOBAL T *)ADDRESS(2, %d) + matrix * W(%d);\n"
                 "        UNROLL\n"
                 "        for (i32 i = 0; i < EACH; i++)\n"
                 "            for (i32 j = 0; j < EACH; j++) {\n"
                 "                const i64 at_row = i0 + row + i, at_column = j0 + column + 16 * j;\n"
                 "                if (at_row < rows && at_column < columns) y[at_row * W(%d) + at_column * W(%d)] = "
                 "STORED(total[i][j]);\n"
                 "            }",
                 BTI_PRODUCT_WORDS, BTI_PRODUCT_WORDS + 1, BTI_PRODUCT_WORDS + 2, BTI_PRODUCT_WORDS + 3);
    add_after(text);
}

void bti_c_conv(bti_str *text) {
    bti_str_addf(text,
                 "struct words { i64 at[%d]; };\n"
                 "#define WORDS const struct words words\n"
                 "#define W(number) words.at[number]\n"
                 "#define MEMORIES MEMORY(2)\n",
                 BTI_CONV_WORDS);
    bti_str_add(text, conv);
    add_before(text);
    bti_str_addf(text,
                 "GLOBAL T *made = (GLOBAL T *)ADDRESS(2, %d);\n"
                 "        UNROLL\n"
                 "        for (i32 i = 0; i < EACH; i++)\n"
                 "            for (i32 j = 0; j < EACH; j++) {\n"
                 "                const i64 at_row = i0 + row + i, at_column = j0 + column + 16 * j;\n"
                 "                if (at_row < rows && at_column < columns) made[MADE_AT(at_row, at_column)] = "
                 "STORED(total[i][j]);\n"
                 "            }",
                 BTI_CONV_WORDS - 1);
    add_after(text);
}

/* The epilogue's words stand behind those of the matrices. */
static void define_words_of_both(bti_c *w) {
    int words = BTI_PRODUCT_WORDS + w->places.count, memories = BTI_PRODUCT_MEMORIES + w->places.address_count;
    bool by_value = bti_words_by_value(words, memories, w->target);
    if (by_value) bti_str_addf(w->text, "struct words { i64 at[%d]; };\n", words);
    bti_str_addf(w->text, "#define WORDS %s\n", by_value ? "const struct words words" : "WORDS_IN_MEMORY");
    bti_str_addf(w->text, "#define W(number) words%s[number]\n#define MEMORIES", by_value ? ".at" : "");
    for (int m = BTI_PRODUCT_MEMORIES; m < memories; m++) bti_str_addf(w->text, " MEMORY(%d)", m);
    bti_str_add(w->text, "\n");
    add_before(w->text);
    bti_str_addf(w->text, "\n#undef W\n#define W(number) words%s[%d + (number)]\n", by_value ? ".at" : "",
                 BTI_PRODUCT_WORDS);
}

/* The element at c<row>, c<column>, whose product is in a register: rounded as if it were stored and loaded. */
static void write_element(bti_c *w, int made) {
    bti_c_places(w, "a", "l", 1u << bti_kernel_line(w->kernel));
    for (int i = 0; i < w->kernel->instr_count; i++) {
        const bti_instr *instr = &w->kernel->instrs[i];
        if (instr->op == BTI_OP_leaf && instr->arg[0] == made)
            bti_c_loaded(w, i, "STORED(total[i][j])");
        else
            bti_c_instr(w, i, "a", -1, NULL);
    }
    for (int o = w->kernel->input_count; o < bti_kernel_operands(w->kernel); o++) bti_c_output(w, o, "a", -1, NULL);
}

void bti_c_epilogue(bti_c *w, int made) {
    int line = bti_kernel_line(w->kernel), row = line - 1;
    bti_word_places_of(w->kernel, BTI_ENTRY_RUN, &w->places);
    w->entry = BTI_ENTRY_RUN;
    w->first_memory = BTI_PRODUCT_MEMORIES;
    define_words_of_both(w);
    w->depth = 2;
    for (int i = 0; i < w->kernel->instr_count; i++)
        if (w->kernel->instrs[i].op == BTI_OP_const) bti_c_constant(w, i);
    if (row) bti_c_line(w, "i64 rest = matrix;");
    bti_c_coordinates(w, (1u << row) - 1);
    bti_c_places(w, "m", NULL, (1u << row) - 1);
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 i = 0; i < EACH; i++)");
    bti_c_line(w, "const i64 c%d = i0 + row + i;", row);
    bti_c_places(w, "l", "m", 1u << row);
    bti_c_line(w, "UNROLL");
    bti_c_open(w, "for (i32 j = 0; j < EACH; j++)");
    bti_c_line(w, "const i64 c%d = j0 + column + 16 * j;", line);
    bti_c_open(w, "if (c%d < rows && c%d < columns)", row, line);
    write_element(w, made);
    for (int i = 0; i < 3; i++) bti_c_close(w);
    add_after(w->text);
}
