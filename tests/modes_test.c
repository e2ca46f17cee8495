// labels: threads
/* The caller's floating-point modes change nothing: not what is computed, by whichever thread, nor what is printed and parsed; and they are
 * as they were afterwards. */
#include <berth.h>
#include <fenv.h>
#include <math.h>
#include <unistd.h>

#include "support/programs.h"

#if defined __x86_64__
static unsigned control(void) {
    unsigned short x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (__builtin_ia32_stmxcsr() & ~0x3fu) | (unsigned)x87 << 16;
}
static void flush_subnormals(void) { __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040); }
#elif defined __aarch64__
static unsigned control(void) {
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return (unsigned)fpcr;
}
static void flush_subnormals(void) { __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)(control() | 1u << 24))); }
#else
static unsigned control(void) { return (unsigned)fegetround(); }
static void flush_subnormals(void) {}
#endif

/* --- what is computed -------------------------------------------------------------------------------------------------- */

static uint64_t sum;

static bool add_bytes(const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) sum = (sum ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return true;
}

static bool add(bt_array *x) {
    size_t bytes = (size_t)bt_count(x) * bt_dtype_size(bt_dtype_of(x));
    void *data = malloc(bytes);
    bool right = data && bt_read(x, data, bytes) == BT_OK && add_bytes(data, bytes);
    if (!right) fprintf(stderr, "%s\n", bt_error_text());
    free(data);
    return right;
}

static bool add_text(bt_array *x) {
    char *text = bt_to_text(x);
    bool right = text && add_bytes(text, strlen(text));
    bt_free(text);
    return right;
}

/* Subnormal numbers, quotients that round, overflows, divisions by zero and NaNs, for few and for many elements. */
static bool of_numbers(bt_dtype dtype, int64_t count) {
    bt_array *i = bt_cast(bt_arange(0, (double)count, 1, BT_F64), dtype),
             *small = bt_mul(bt_add(i, bt_num(3)), bt_num(1e-41));
    bt_array *third = bt_div(bt_add(i, bt_num(1)), bt_num(3));
    bool right = add(bt_mul(small, bt_num(0.5))) && add(bt_add(third, small)) && add(bt_div(i, bt_sub(i, i)));
    right = right && add(bt_exp(bt_mul(i, bt_num(100)))) && add(bt_sqrt(bt_sub(bt_num(1), i)));
    right = right && add(bt_sum(third, BT_ALL, false)) && add(bt_sum(small, BT_ALL, false));
    right = right && add(bt_cast(bt_div(i, bt_num(7)), BT_F16)) && add(bt_cast(bt_mul(third, bt_num(1.7)), BT_I32));
    return right && add(bt_softmax(third, 0)) && add(bt_floor(third)) && add(bt_sin(third));
}

static bool of_products(bt_dtype dtype) {
    bt_array *x = bt_cast(bt_div(bt_reshape(bt_arange(0, 80 * 80, 1, BT_F64), 80, 80), bt_num(6400 * 3)), dtype);
    bt_array *few = bt_slice_axis(x, 0, 0, 5, 1), *small = bt_mul(x, bt_num(1e-41));
    return add(bt_matmul(x, x)) && add(bt_matmul(few, x)) && add(bt_matmul(small, x));
}

/* Constants that are rounded when they are recorded, numbers printed and parsed. */
static bool of_texts(void) {
    bt_array *x = BT_ARRAY(double, (4), 0.1, 1e-310, 1.0 / 3, 1e300);
    bool right = add(bt_full(0.1, BT_F32, 3)) && add(bt_full(1e-41, BT_F32, 3)) && add(bt_full(0.1, BT_BF16, 2));
    right = right && add(bt_add(bt_num(0.1), bt_num(0.2))) && add(bt_pow(bt_num(1e-20), bt_num(2)));
    right = right && add_text(x) && add_text(bt_cast(x, BT_F32)) && add_text(bt_num(2.0 / 3));
    double item = bt_item(bt_mul(bt_full(1e-20, BT_F32, 1), bt_num(1e-20)));
    return right && add_bytes(&item, sizeof item);
}

static bool of_files(const char *folder) {
    char path[200];
    snprintf(path, sizeof path, "%s/modes.csv", folder);
    FILE *file = fopen(path, "we");
    if (!file) return false;
    fputs("0.1,1e-41,3.3333333333333335\n16777217,1e-310,0.30000001192092896\n", file);
    fclose(file);
    bool right = add(bt_load_csv(path, BT_F32)) && add(bt_load_csv(path, BT_F64));
    unlink(path);
    return right;
}

static bool all(void) {
    const char *folder = getenv("TMPDIR");
    bool right = true;
    sum = 1;
    BT_SCOPE {
        right = of_numbers(BT_F32, 7) && of_numbers(BT_F64, 7) && of_numbers(BT_F32, 1 << 16) &&
                of_numbers(BT_F64, 1 << 16);
        right = right && of_products(BT_F32) && of_products(BT_F64) && of_products(BT_F16) && of_products(BT_BF16);
        right = right && of_texts() && of_files(folder ? folder : "/tmp");
        right = right && add(bt_normal(bt_key(7), BT_F32, 1000));
    }
    return right;
}

/* --- in each mode ------------------------------------------------------------------------------------------------------ */

static int same_in(void (*set)(void)) {
    fenv_t usual;
    CHECK(bt_set_flag("threads", "3") == BT_OK);
    CHECK(!fegetenv(&usual));
    set(); /* first: threads are made in it */
    unsigned odd = control();
    bool right = all(), kept = control() == odd;
    uint64_t in_odd = sum;
    fesetenv(&usual);
    CHECK(right && kept);
    CHECK(all());
    CHECK(in_odd == sum);
    CHECK(bt_set_flag("kernels", "compiled") == BT_OK);
    set();
    right = all();
    kept = control() == odd;
    in_odd = sum;
    fesetenv(&usual);
    CHECK(right && kept && all());
    CHECK(in_odd == sum);
    return 0;
}

static void round_up(void) { fesetround(FE_UPWARD); }
static void round_to_zero(void) { fesetround(FE_TOWARDZERO); }
static void trap_all(void) { feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT); }

static int flushing(void) { return same_in(flush_subnormals); }
static int rounding_up(void) { return same_in(round_up); }
static int rounding_to_zero(void) { return same_in(round_to_zero); }
static int trapping(void) {
    trap_all();
    if (fegetexcept() == 0) return -1; /* this machine cannot */
    fedisableexcept(FE_ALL_EXCEPT);
    return same_in(trap_all);
}

/* What work raises is not the caller's. */
static int flags_are_kept(void) {
    CHECK(all());
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(FE_DIVBYZERO);
    BT_SCOPE {
        bt_array *x = bt_full(-1, BT_F32, 1000);
        CHECK(bt_block(bt_sqrt(x)) == BT_OK && bt_block(bt_exp(bt_mul(x, bt_num(-1000)))) == BT_OK);
    }
    CHECK(fetestexcept(FE_INVALID | FE_OVERFLOW | FE_DIVBYZERO) == FE_DIVBYZERO);
    return 0;
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {"flushing", flushing, NULL, 0, 1, 40},
        {"rounding_up", rounding_up, NULL, 0, 1, 40},
        {"rounding_to_zero", rounding_to_zero, NULL, 0, 1, 40},
        {"trapping", trapping, NULL, 0, 1, 40},
        {"flags_are_kept", flags_are_kept, NULL, 0, 1, 40},
    };
    return run_test_programs(argc, argv, programs, sizeof programs / sizeof *programs);
}
