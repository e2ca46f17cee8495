/* Fourier transforms by a fake cuFFT: how the driver calls it, and what is left to the host. */
#include <complex.h>
#include <math.h>

#include "support/cuda_library.h"

#define MACHINE "{\"devices\": [" CARD_A "," CARD_B "]}"
#define MOST (1 << 14) /* bytes of an array */

/* --- one transform ------------------------------------------------------------------------------------------------ */

typedef struct problem {
    bti_fft_lines lines;
    bti_cuda_device *device;
    void *transform; /* NULL: cuFFT does not have it */
    char from[MOST]; /* what was uploaded */
    uint64_t memory[2];
} problem;

static double _Complex element(const void *memory, bt_dtype part, bool real, int64_t i) {
    const float *narrow = memory;
    const double *wide = memory;
    int64_t at = real ? i : 2 * i;
    double re = part == BT_F64 ? wide[at] : (double)narrow[at], im = 0;
    if (!real) im = part == BT_F64 ? wide[at + 1] : (double)narrow[at + 1];
    return re + I * im;
}

static bt_status make(problem *p, bti_cuda_device *device, bti_fft_lines lines) {
    *p = (problem){.lines = lines, .device = device};
    for (int i = 0; i < MOST / (lines.part == BT_F64 ? 8 : 4); i++) {
        double value = sin(1 + i * 0.37); /* of all digits */
        if (lines.part == BT_F64)
            ((double *)(void *)p->from)[i] = value;
        else
            ((float *)(void *)p->from)[i] = (float)value;
    }
    for (int side = 0; side < 2; side++) OK(bti_driver_cuda.alloc(device, MOST, &p->memory[side]));
    return bti_cuda_fft_new(device, &lines, &p->transform);
}

static void upload(const problem *p) { OK(bti_driver_cuda.upload(p->device, p->memory[0], p->from, MOST)); }

static void drop(problem *p) {
    if (p->transform) bti_cuda_held_release(p->device, p->transform);
    for (int side = 0; side < 2; side++) bti_driver_cuda.free(p->device, p->memory[side], MOST);
}

/* Point k of a line, by definition. */
static double _Complex by_definition(const problem *p, int64_t first, int64_t step, int64_t k) {
    const bti_fft_lines *l = &p->lines;
    int sign = l->kind == BTI_FFT_FORWARD || l->kind == BTI_FFT_HALF ? -1 : 1;
    double _Complex sum = 0;
    for (int64_t j = 0; j < l->n; j++) {
        bool mirrored = l->kind == BTI_FFT_WHOLE && j > l->n / 2;
        double _Complex x =
            element(p->from, l->part, l->kind == BTI_FFT_HALF, first + (mirrored ? l->n - j : j) * step);
        if (mirrored) x = conj(x);
        sum += x * cexp(sign * 2 * M_PI * I * (double)(j * k % l->n) / (double)l->n);
    }
    return sum;
}

/* The largest difference of what is on the device now. */
static double difference(const problem *p) {
    const bti_fft_lines *l = &p->lines;
    int64_t read = bti_fft_points_read(l), written = bti_fft_points_written(l);
    char got[MOST];
    double most = 0;
    size_t part = l->part == BT_F64 ? 8 : 4, element_bytes = l->kind == BTI_FFT_WHOLE ? part : 2 * part;
    OK(bti_driver_cuda.download(p->device, got, p->memory[1], (size_t)(l->outer * written * l->inner) * element_bytes));
    for (int64_t line = 0; line < l->outer * l->inner; line++)
        for (int64_t k = 0; k < written; k++) {
            int64_t row = line / l->inner * l->inner, column = line % l->inner;
            double _Complex want = by_definition(p, row * read + column, l->inner, k);
            double _Complex is =
                element(got, l->part, l->kind == BTI_FFT_WHOLE, (row * written + column) + k * l->inner);
            most = fmax(most, cabs(is - want));
        }
    return most;
}

/* The ends of half lines as they are in symmetric ones. */
static void make_symmetric(problem *p) {
    const bti_fft_lines *l = &p->lines;
    for (int64_t line = 0; line < l->outer * l->inner; line++)
        for (int end = 0; end < 2 - (int)(l->n % 2); end++) {
            int64_t at = line / l->inner * l->inner * (l->n / 2 + 1) + line % l->inner + end * (l->n / 2) * l->inner;
            if (l->part == BT_F64)
                ((double *)(void *)p->from)[2 * at + 1] = 0;
            else
                ((float *)(void *)p->from)[2 * at + 1] = 0;
        }
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static void transforms_of_every_kind(void **state) {
    static const int64_t sizes[][3] = {{1, 1, 1},  {1, 2, 1},  {5, 12, 1}, {1, 12, 5},  {1, 13, 7},
                                       {3, 30, 1}, {1, 64, 3}, {2, 97, 1}, {1, 250, 2}, {7, 1, 1}};
    (void)state;
    int done = 0, refused = 0;
    for (int seed = 1; seed < 4; seed++) {
        char text[16];
        snprintf(text, sizeof text, "%d", seed);
        setenv("BERTH_FAKE_SEED", text, 1);
        machine(MACHINE, NULL);
        bti_cuda_device *d = open_one(0);
        for (size_t which = 0; which < 8 * sizeof sizes / sizeof *sizes; which++) {
            const int64_t *s = sizes[which / 8];
            bti_fft_lines lines = {(bti_fft_kind)(which % 4), which / 4 % 2 ? BT_F64 : BT_F32, s[0], s[1], s[2]};
            problem p;
            bt_status status = make(&p, d, lines);
            if (status == BT_OK) {
                if (lines.kind == BTI_FFT_WHOLE) make_symmetric(&p);
                upload(&p);
                OK(bti_cuda_fft(d, p.transform, p.memory[0], p.memory[1]));
                OK(bti_driver_cuda.sync(d));
                double most = difference(&p);
                if (most > (lines.part == BT_F64 ? 1e-11 : 1e-4))
                    fail_msg("seed %d, number %zu: %g", seed, which, most);
            } else
                expect_error(status, BT_UNIMPLEMENTED, "cufftMakePlanMany64: cuFFT's result is 8");
            done += status == BT_OK, refused += status != BT_OK;
            drop(&p);
        }
        close_one(d);
    }
    unsetenv("BERTH_FAKE_SEED");
    assert_true(done > 4 * refused);
    assert_true(refused > 0); /* the fake has none of some */
}

static const bti_fft_lines usual = {BTI_FFT_FORWARD, BT_F32, 4, 150, 1};

static void without_the_library_the_host_computes(void **state) {
    (void)state;
    problem p;
    machine(MACHINE, "cufft");
    bti_cuda_device *d = open_one(0);
    expect_error(make(&p, d, usual), BT_UNIMPLEMENTED, "there is no cuFFT");
    drop(&p);
    close_one(d);
}

/* --- plans in use ------------------------------------------------------------------------------------------------- */

static void plans_outlive_their_work(void **state) {
    (void)state;
    problem p;
    machine(MACHINE, NULL);
    bti_cuda_device *d = open_one(0);
    OK(make(&p, d, usual));
    upload(&p);
    for (int i = 0; i < 3; i++) OK(bti_cuda_fft(d, p.transform, p.memory[0], p.memory[1]));
    bti_cuda_held_release(d, p.transform);
    p.transform = NULL;
    assert_int_equal(count_of("fft 41"), 0);
    OK(bti_driver_cuda.sync(d));
    assert_int_equal(count_of("fft 41"), 3);
    assert_true(difference(&p) < 1e-4);
    drop(&p);
    close_one(d);
}

/* The plan leaves before the recording; and when that is freed, later work goes to the stream of launches. */
static void transforms_are_recorded(void **state) {
    (void)state;
    problem p;
    void *graph, *plan;
    bool stale;
    machine(MACHINE, NULL);
    bti_cuda_device *d = open_one(0);
    OK(make(&p, d, usual));
    upload(&p);
    OK(bti_driver_cuda.graph_begin(d));
    OK(bti_cuda_fft(d, p.transform, p.memory[0], p.memory[1]));
    OK(bti_driver_cuda.graph_end(d, &graph));
    assert_non_null(graph);
    OK(bti_driver_cuda.sync(d));
    assert_int_equal(count_of("fft 41"), 0);
    OK(bti_cuda_fft(d, p.transform, p.memory[0], p.memory[1]));
    OK(bti_driver_cuda.sync(d));
    assert_true(difference(&p) < 1e-4);
    plan = p.transform, p.transform = NULL;
    bti_cuda_held_release(d, plan);
    for (int i = 0; i < 3; i++) {
        OK(bti_driver_cuda.fill(d, p.memory[1], 0, MOST));
        OK(bti_driver_cuda.graph_run(d, graph, NULL, &stale));
        assert_false(stale);
        OK(bti_driver_cuda.sync(d));
        assert_true(difference(&p) < 1e-4);
    }
    bti_driver_cuda.graph_free(d, graph);
    assert_int_equal(count_of("fft 41"), 4);
    drop(&p);
    close_one(d);
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

static void json_with_fault(char *json, size_t size, const char *call, int n, int code) {
    snprintf(json, size, "{\"fail\": {\"%s\": [%d, %d]}, \"devices\": [" CARD_A "," CARD_B "]}", call, n, code);
}

/* For want of memory, and by a failure inside. What cannot be planned is the host's. */
static void every_call_of_cufft_may_fail(void **state) {
    static const char *const calls[] = {"cufftCreate", "cufftMakePlanMany64", "cufftSetStream", "cufftXtExec"};
    (void)state;
    for (int i = 0; i < 8; i++) {
        bool plans = i / 2 < 2, no_memory = i % 2;
        char json[1200];
        problem p;
        json_with_fault(json, sizeof json, calls[i / 2], 1, no_memory ? CUFFT_ALLOC_FAILED : CUFFT_INTERNAL_ERROR);
        machine(json, NULL);
        bti_cuda_device *d = open_one(0);
        bt_status status = make(&p, d, usual);
        upload(&p);
        if (!plans) {
            OK(status);
            status = bti_cuda_fft(d, p.transform, p.memory[0], p.memory[1]);
        }
        expect_error(status, no_memory ? BT_RESOURCE_EXHAUSTED : plans ? BT_UNIMPLEMENTED : BT_INTERNAL, calls[i / 2]);
        if (plans) OK(bti_cuda_fft_new(d, &usual, &p.transform)); /* nothing of the failure is kept */
        OK(bti_cuda_fft(d, p.transform, p.memory[0], p.memory[1]));
        OK(bti_driver_cuda.sync(d));
        assert_true(difference(&p) < 1e-4);
        drop(&p);
        close_one(d);
    }
}

static void doctors_try_it(void **state) {
    (void)state;
    char json[1200];
    for (int fails = 0; fails < 2; fails++) {
        bti_str text = {0};
        json_with_fault(json, sizeof json, "cufftMakePlanMany64", fails ? 1 : 99, CUFFT_SETUP_FAILED);
        machine(json, NULL);
        bti_cuda_device *d = open_one(0);
        bti_driver_cuda.describe(d, &text);
        expect_text(text.text, "cuFFT 12.0.0 (Fourier transforms): ");
        static const char told[] =
            "cuFFT does not work, and the host computes Fourier transforms: cufftMakePlanMany64: result 7";
        assert_true((strstr(text.text, told) != NULL) == fails);
        bti_str_free(&text);
        close_one(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transforms_of_every_kind),     cmocka_unit_test(without_the_library_the_host_computes),
        cmocka_unit_test(plans_outlive_their_work),     cmocka_unit_test(transforms_are_recorded),
        cmocka_unit_test(every_call_of_cufft_may_fail), cmocka_unit_test(doctors_try_it),
    };
    return cmocka_run_group_tests(tests, NULL, no_machine);
}
