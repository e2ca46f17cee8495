/* Images for models that were trained on ImageNet. */
#ifndef BTI_CLI_DEMO_IMAGE_H
#define BTI_CLI_DEMO_IMAGE_H

#include <berth.h>

/* [1, 3, H, W] float32. A binary .ppm (P6), and a .npy of bytes [H, W, 3]: its shorter side becomes 256 pixels (bilinear, with antialiasing), the 224 x 224 in the middle are taken, and colours are
 * scaled by ImageNet's means and deviations, as torchvision's transforms do. A .npy of floats [3, H, W] or [1, 3, H, W] is taken as it is. NULL: the error was printed. */
bt_array *demo_read_image(char **argv, const char *path);

#endif
