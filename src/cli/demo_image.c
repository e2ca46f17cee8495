#include "cli/demo_image.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

enum { COLOURS = 3, SHORTER = 256, SIDE = 224, MOST_SIDE = 30000 };

/* --- .ppm ----------------------------------------------------------------------------------------------------------- */

/* A number of the head, behind spaces and comments; -1: there is none. */
static int head_number(FILE *file) {
    int c = getc(file), value = 0, digits = 0;
    while (isspace(c) || c == '#') {
        while (c == '#' && (c = getc(file)) != '\n' && c != EOF) c = '#';
        c = getc(file);
    }
    for (; isdigit(c) && digits < 6; digits++, c = getc(file)) value = 10 * value + (c - '0');
    return digits && isspace(c) ? value : -1;
}

/* Bytes [H, W, 3]; NULL: `why` says it, or the array is poisoned. */
static bt_array *read_pixels(FILE *file, const char **why) {
    struct stat about;
    int width = head_number(file), height = head_number(file), most = head_number(file);
    long begin = ftell(file);
    if (width < 1 || height < 1 || width > MOST_SIDE || height > MOST_SIDE || most != 255) {
        *why = "its head is not P6, a width and a height up to 30000, and 255";
        return NULL;
    }
    size_t bytes = (size_t)width * (size_t)height * COLOURS;
    if (fstat(fileno(file), &about) || about.st_size - begin < (off_t)bytes) {
        *why = "it is shorter than its head says";
        return NULL;
    }
    unsigned char *pixels = malloc(bytes);
    bt_array *image = NULL;
    if (pixels && fread(pixels, 1, bytes, file) == bytes)
        image = bt_from(pixels, BT_U8, BT_SHAPE(height, width, COLOURS));
    else
        *why = pixels ? "it cannot be read" : "out of memory";
    free(pixels);
    return image;
}

static bt_array *read_ppm(char **argv, const char *path) {
    const char *why = NULL;
    FILE *file = fopen(path, "rb");
    if (!file) return cli_failure(argv, path), NULL;
    bt_array *image = NULL;
    if (getc(file) == 'P' && getc(file) == '6')
        image = read_pixels(file, &why);
    else
        why = "it is neither .npy nor a binary .ppm (P6)";
    fclose(file);
    if (why) fprintf(stderr, "%s: %s: %s\n", argv[0], path, why);
    return image;
}

/* --- its size ------------------------------------------------------------------------------------------------------- */

/* [out, in]: each row makes one pixel, of a triangle around its place; of pixels farther away where the image becomes smaller. `first`, `out`: of `resized` pixels these. */
static bt_array *weights(int64_t in, int64_t resized, int64_t first, int64_t out) {
    double scale = (double)in / (double)resized, reach = fmax(scale, 1);
    float *w = calloc((size_t)(in * out), sizeof *w);
    if (!w) return bt_from(NULL, BT_F32, BT_SHAPE(out, in));
    for (int64_t o = 0; o < out; o++) {
        double place = ((double)(o + first) + 0.5) * scale, sum = 0;
        int64_t begin = (int64_t)fmax(place - reach + 0.5, 0), end = (int64_t)fmin(place + reach + 0.5, (double)in);
        for (int64_t i = begin; i < end; i++) sum += fmax(1 - fabs(((double)i + 0.5 - place) / reach), 0);
        for (int64_t i = begin; i < end; i++)
            w[o * in + i] = (float)(fmax(1 - fabs(((double)i + 0.5 - place) / reach), 0) / sum);
    }
    bt_array *array = bt_from(w, BT_F32, BT_SHAPE(out, in));
    free(w);
    return array;
}

static bt_array *axis_weights(int64_t in, int64_t shorter) {
    int64_t resized = SHORTER * in / shorter;
    return weights(in, resized, (int64_t)rint((double)(resized - SIDE) / 2), SIDE);
}

/* Bytes [H, W, 3] -> [1, 3, 224, 224]. */
static bt_array *cut_out(bt_array *bytes) {
    int64_t height = bt_size(bytes, 0), width = bt_size(bytes, 1), shorter = height < width ? height : width;
    bt_array *x = bt_permute(bt_div(bt_cast(bytes, BT_F32), 255), 2, 0, 1); /* [3, H, W] */
    x = bt_matmul(axis_weights(height, shorter), bt_matmul_t(x, axis_weights(width, shorter), false, true));
    bt_array *mean = BT_ARRAY(float, (3, 1, 1), 0.485f, 0.456f, 0.406f),
             *deviation = BT_ARRAY(float, (3, 1, 1), 0.229f, 0.224f, 0.225f);
    return bt_reshape(bt_div(bt_sub(x, mean), deviation), 1, COLOURS, SIDE, SIDE);
}

bt_array *demo_read_image(char **argv, const char *path) {
    size_t length = strlen(path);
    bool npy = length > 4 && !strcmp(path + length - 4, ".npy");
    bt_array *image = npy ? bt_load_npy(path) : read_ppm(argv, path);
    if (!image) return NULL;
    if (bt_block(image) != BT_OK) return cli_error(argv, "the image cannot be read"), NULL;
    int rank = bt_rank(image);
    bool floats = bt_dtype_of(image) == BT_F32 || bt_dtype_of(image) == BT_F64, bytes = bt_dtype_of(image) == BT_U8;
    if (floats && rank == 3 && bt_size(image, 0) == COLOURS) image = bt_expand_dims(image, 0);
    if (floats && bt_rank(image) == 4 && bt_size(image, 0) == 1 && bt_size(image, 1) == COLOURS)
        return bt_cast(image, BT_F32);
    if (bytes && rank == 3 && bt_size(image, 2) == COLOURS && bt_count(image)) return cut_out(image);
    fprintf(stderr, "%s: %s: an image is bytes [H, W, 3], or floats [3, H, W]\n", argv[0], path);
    return NULL;
}
