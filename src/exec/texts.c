#include "exec/texts.h"

#include "render/render.h"

bool bti_texts_supply(const bti_program *program, bool launched, bt_status *status) {
    bti_text_wanted wanted;
    if (!bti_program_text_wanted(program, launched, &wanted)) return false;
    const bti_program_source *source = &program->source;
    bti_str text = {0};
    bool written = true;
    if (wanted.kernel)
        written = bti_render(&text, wanted.kernel, wanted.target, wanted.variant);
    else if (source->custom)
        bti_render_c_custom(&text, source->custom, wanted.target);
    else if (bti_source_is_product(source))
        written = bti_render_product(&text, source->kernel, source->made, source->dtypes[2], wanted.target);
    else
        written = bti_render_work(&text, source->op, source->dtypes, source->dtype_count, wanted.target);
    text.failed = text.failed || !written;
    *status = bti_program_text_give(program, &wanted, &text);
    bti_str_free(&text);
    return true;
}

bt_status bti_texts_program(int device, const bti_program_source *source, bti_program **program) {
    bt_status status = bti_device_program(device, source, program);
    while (status == BT_OK && bti_texts_supply(*program, false, &status)) {
    }
    if (status == BT_OK || !*program) return status;
    bti_program_release(*program);
    *program = NULL;
    return status;
}
