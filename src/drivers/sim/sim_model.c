#include "drivers/sim/sim_model.h"

#include <stdio.h>
#include <string.h>

#include "base/flagtext.h"
#include "base/quote.h"

static const bti_sim_model models[] = {
#define BTI_SIM_MODEL(name, device, device_kind, major, minor) \
    {.description = device " by a model", .kind = device_kind, .capability_major = major, .capability_minor = minor},
#include "drivers/sim/sim_model.def"
#undef BTI_SIM_MODEL
};
enum { MODELS = sizeof models / sizeof *models };
static const char *const model_names[] = {
#define BTI_SIM_MODEL(name, ...) #name,
#include "drivers/sim/sim_model.def"
#undef BTI_SIM_MODEL
};

static const struct figure {
    const char *name, *unit;
    size_t offset;
    double of[MODELS];
} figures[] = {
#define BTI_SIM_FIGURE(name, unit, doc, ...) {#name, unit, offsetof(bti_sim_model, name), {__VA_ARGS__}},
#include "drivers/sim/sim_model.def"
#undef BTI_SIM_FIGURE
};
enum { FIGURES = sizeof figures / sizeof *figures };

static double *place_of(bti_sim_model *model, int figure) {
    return (double *)(void *)((char *)model + figures[figure].offset);
}

/* Whether a figure says with 0 that there is no such thing. */
static bool may_be_none(int figure) {
    static const size_t such[] = {offsetof(bti_sim_model, link),           offsetof(bti_sim_model, cache),
                                  offsetof(bti_sim_model, unit_bandwidth), offsetof(bti_sim_model, record_ns),
                                  offsetof(bti_sim_model, submit_ns),      offsetof(bti_sim_model, product_ns)};
    for (size_t i = 0; i < sizeof such / sizeof *such; i++)
        if (figures[figure].offset == such[i]) return true;
    return false;
}

static bt_status refuse_figure(const char *part, size_t length, const char *why) {
    return bti_fail(BT_INVALID_ARGUMENT, "a model cannot have the figure \"%s\": %s",
                    bti_quote_bytes(part, length).text, why);
}

/* "units=64" */
static bt_status read_figure(const char *part, size_t length, bti_sim_model *model) {
    const char *equals = memchr(part, '=', length);
    size_t name = equals ? (size_t)(equals - part) : length;
    char known[512] = "the figures are ";
    double value;
    for (int f = 0; f < FIGURES; f++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", f ? ", " : "", figures[f].name);
        if (!bti_same_word(part, name, figures[f].name)) continue;
        if (!equals || !bti_read_float(equals + 1, length - name - 1, &value) || value < 0 || value > 1e9 ||
            (value < 1e-3 && !(may_be_none(f) && value == 0)))
            return refuse_figure(part, length,
                                 "after = comes a number from 0.001 to 1e9 (where there may be none 0, too)");
        *place_of(model, f) = value;
        return BT_OK;
    }
    return refuse_figure(part, length, known);
}

static bt_status read_figures(const char *text, size_t length, bti_sim_model *model) {
    for (const char *end = text + length; text < end;) {
        const char *slash = memchr(text, '/', (size_t)(end - text));
        const char *part_end = slash ? slash : end;
        BTI_TRY(read_figure(text, (size_t)(part_end - text), model));
        text = slash ? slash + 1 : end;
    }
    return BT_OK;
}

static size_t word_length(const char *text, size_t length) {
    size_t at = 0;
    while (at < length && !strchr("{*@", text[at])) at++;
    return at;
}

bt_status bti_sim_model_parse(const char *text, size_t length, bti_sim_model *model, size_t *used) {
    size_t word = word_length(text, length);
    int m = 0;
    *used = 0;
    while (m < MODELS && !bti_same_word(text, word, model_names[m])) m++;
    if (m == MODELS) return BT_OK;
    *model = models[m];
    for (int f = 0; f < FIGURES; f++) *place_of(model, f) = figures[f].of[m];
    *used = word;
    if (word == length || text[word] != '{') return BT_OK;
    const char *open = text + word + 1, *close = memchr(open, '}', length - word - 1);
    if (!close) return refuse_figure(open, length - word - 1, "the list has no } at its end");
    BTI_TRY(read_figures(open, (size_t)(close - open), model));
    size_t known = strlen(model->description);
    snprintf(model->description + known, sizeof model->description - known, " with %s",
             bti_quote_bytes(open, (size_t)(close - open)).text);
    *used = (size_t)(close + 1 - text);
    return BT_OK;
}
