#include "exec/texts.h"

#include "base/cores.h"
#include "render/render.h"

static bt_status supply(const bti_program *program, const bti_text_wanted *wanted) {
    const bti_program_source *source = &program->source;
    bti_str text = {0};
    bool written = true;
    if (wanted->kernel)
        written = bti_render(&text, wanted->kernel, wanted->target, wanted->variant);
    else if (source->custom)
        bti_render_c_custom(&text, source->custom, wanted->target);
    else if (source->factor.of.n)
        written = bti_render_c_factor(&text, source->factor.of.dtype, wanted->target);
    else if (bti_source_is_product(source))
        written = bti_render_product(&text, source->kernel, source->made, source->dtypes[2], wanted->target);
    else
        written =
            bti_render_work(&text, source->op, source->dtypes, source->dtype_count, wanted->target, wanted->variant);
    text.failed = text.failed || !written;
    bt_status status = bti_program_text_give(program, wanted, &text);
    bti_str_free(&text);
    return status;
}

bool bti_texts_supply(const bti_program *program, bt_status *status) {
    bti_text_wanted wanted;
    if (!bti_program_text_lacked(program, &wanted)) return false;
    *status = supply(program, &wanted);
    return true;
}

bt_status bti_texts_program(int device, const bti_program_source *source, const bti_box *box, int box_count,
                            bti_program **program) {
    bool made;
    bti_text_wanted wanted;
    bt_status status = bti_device_program(device, source, program, &made);
    if (status != BT_OK) return status;
    while (status == BT_OK && bti_program_text_wanted(*program, box, box_count, &wanted))
        status = supply(*program, &wanted);
    if (!made) bti_program_made(*program, status);
    if (status == BT_OK) return BT_OK;
    bti_program_release(*program);
    *program = NULL;
    return status;
}

/* --- several at once ---------------------------------------------------------------------------------------------------- */

static void free_want(bti_program_want *want) {
    bti_free(want->kernel);
    bti_free(want->segment);
    bti_free(want->box);
    bti_error_release(want->error);
}

bt_status bti_texts_want(bti_program_wants *wants, const bti_program_want *asked) {
    bti_program_want want = *asked;
    bt_status status = BT_OK;
    if (bti_device_compiles_early(want.device)) {
        if (bti_vec_push(wants, want)) return BT_OK;
        status = bti_no_memory();
    } else
        status = bti_texts_program(want.device, &want.source, want.box, want.box_count, want.program);
    free_want(&want);
    return status;
}

/* The call that all of them are made for: errors on other threads tell its place, unless it is quiet. */
typedef struct making {
    bti_program_wants *wants;
    bti_place place;
    bool quiet;
} making;

static void make_some(void *context, int64_t begin, int64_t end) {
    const making *m = context;
    bti_error *before = bti_error_last();
    bool quiet = bti_errors_quiet(m->quiet);
    int depth = bti_call_begin(NULL);
    bti_place place = bti_call_set_place(m->place);
    for (int64_t i = begin; i < end; i++) {
        bti_program_want *want = &m->wants->items[i];
        if (bti_texts_program(want->device, &want->source, want->box, want->box_count, want->program) != BT_OK)
            want->error = bti_error_last();
    }
    bti_call_set_place(place);
    bti_call_end(depth);
    bti_errors_quiet(quiet);
    bti_error_put_back(before);
}

bt_status bti_texts_programs(bti_program_wants *wants) {
    making m = {.wants = wants, .place = bti_call_place(), .quiet = bti_errors_quiet(true)};
    bti_errors_quiet(m.quiet);
    bti_parallel((int64_t)wants->count, 1, make_some, &m);
    for (size_t i = 0; i < wants->count; i++)
        if (wants->items[i].error) return bti_fail_with(wants->items[i].error);
    return BT_OK;
}

void bti_texts_wants_free(bti_program_wants *wants) {
    for (size_t i = 0; i < wants->count; i++) free_want(&wants->items[i]);
    bti_vec_free(wants);
}
