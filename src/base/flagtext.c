#include "base/flagtext.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static char lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool bti_same_word(const char *a, size_t a_length, const char *b) {
    if (strlen(b) != a_length) return false;
    for (size_t i = 0; i < a_length; i++)
        if (lower(a[i]) != lower(b[i])) return false;
    return true;
}

bool bti_read_bool(const char *text, size_t length, bool *value) {
    static const char *const words[] = {"off", "on", "false", "true", "no", "yes", "0", "1"};
    for (int i = 0; i < 8; i++)
        if (bti_same_word(text, length, words[i])) return *value = i % 2, true;
    return false;
}

bool bti_read_int(const char *text, size_t length, int64_t *value) {
    size_t i = 0;
    bool negative = length && text[0] == '-';
    if (length && (text[0] == '-' || text[0] == '+')) i++;
    if (i == length) return false;
    int64_t sum = 0;
    for (; i < length; i++) {
        int digit = text[i] - '0';
        if (!is_digit(text[i]) || __builtin_mul_overflow(sum, 10, &sum)) return false;
        if (__builtin_add_overflow(sum, negative ? -digit : digit, &sum)) return false;
    }
    *value = sum;
    return true;
}

/* Digits with a point among them, from *at on. Exact up to 15 digits, then within one unit in the last place or so. */
static bool read_decimal(const char *text, size_t length, size_t *at, double *value) {
    double sum = 0, scale = 1;
    bool point = false, any = false;
    size_t i = *at;
    for (; i < length; i++) {
        if (text[i] == '.' && !point) {
            point = true;
        } else if (is_digit(text[i])) {
            any = true;
            if (point && scale > 1e300) continue;
            sum = sum * 10 + (text[i] - '0');
            if (point) scale *= 10;
        } else {
            break;
        }
    }
    *at = i;
    *value = sum / scale;
    return any && isfinite(*value);
}

bool bti_read_float(const char *text, size_t length, double *value) {
    size_t at = 0;
    double number;
    bool negative = length && text[0] == '-';
    if (length && (text[0] == '-' || text[0] == '+')) at++;
    if (!read_decimal(text, length, &at, &number)) return false;
    if (at < length) {
        int64_t exponent;
        if (lower(text[at]) != 'e' || !bti_read_int(text + at + 1, length - at - 1, &exponent)) return false;
        if (exponent < -400 || exponent > 400) return false;
        double power = pow(10, (double)(exponent < 0 ? -exponent : exponent));
        number = exponent < 0 ? number / power : number * power;
    }
    if (!isfinite(number)) return false;
    *value = negative ? -number : number;
    return true;
}

static const char units[] = "KMGTPE";

bool bti_read_bytes(const char *text, size_t length, int64_t *value) {
    size_t at = 0, digits = 0;
    double number;
    int64_t whole = 0;
    while (digits < length && is_digit(text[digits])) digits++;
    if (!read_decimal(text, length, &at, &number)) return false;
    bool exact = at == digits && bti_read_int(text, digits, &whole);
    int shift = 0;
    const char *unit = at < length ? strchr(units, lower(text[at]) - 'a' + 'A') : NULL;
    if (unit && *unit) {
        shift = 10 * (int)(unit - units + 1);
        at++;
        if (at + 1 < length && lower(text[at]) == 'i' && lower(text[at + 1]) == 'b') at++;
    }
    if (at < length && lower(text[at]) == 'b') at++;
    if (at != length) return false;
    if (exact) {
        if (whole > INT64_MAX >> shift) return false;
        *value = whole << shift;
        return true;
    }
    double bytes = ldexp(number, shift);
    if (!(bytes < 9.2e18)) return false;
    *value = (int64_t)bytes;
    return true;
}

void bti_write_float(char *text, size_t size, double value) {
    if (fabs(value) < 1e6 && value == floor(value)) { /* 60, not 6e+01 */
        snprintf(text, size, "%.0f", value);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, value);
        for (char *c = text; *c; c++) /* a locale may have put its own point there */
            if (!is_digit(*c) && *c != '-' && *c != '+' && *c != 'e') *c = '.';
        double back;
        if (bti_read_float(text, strlen(text), &back) && back == value) return;
    }
}

void bti_write_bytes(char *text, size_t size, int64_t value) {
    int unit = 0;
    while (value && value % 1024 == 0 && unit < 6) value /= 1024, unit++;
    if (unit)
        snprintf(text, size, "%" PRId64 "%c", value, units[unit - 1]);
    else
        snprintf(text, size, "%" PRId64, value);
}

int bti_edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    int row[65];
    if (a_length > 64) a_length = 64;
    if (b_length > 64) b_length = 64;
    for (size_t j = 0; j <= b_length; j++) row[j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            int replaced = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
            diagonal = row[j];
            int best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            row[j] = replaced < best ? replaced : best;
        }
    }
    return row[b_length];
}
