/* The digits that `berth demo` learns from. */
#ifndef BTI_CLI_DEMO_DATA_H
#define BTI_CLI_DEMO_DATA_H

#include <berth.h>

/* Scanned digits, N for training and M held out: pixels [N, 64] float32 from 0 to 1, classes [N] int32. */
typedef struct demo_digits {
    bt_array *train_x, *train_y; /* four fifths of the file, and of each digit in it, drawn by bt_key(0) */
    bt_array *test_x, *test_y;   /* the rest */
    int64_t train_count, test_count;
} demo_digits;

/* Reads a CSV file with 64 pixels from 0 to 16 and the digit in each row; NULL: the 1,797 digits that are part of the command. Prints the
 * error when it fails. */
bool demo_load_digits(char **argv, const char *path, demo_digits *digits);

#endif
