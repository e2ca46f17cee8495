/* ResNet-18 (He et al. 2016) of berth's layers, which takes the weights of torchvision's: resnet18.c is what it takes, to be read or copied into a program. */
#ifndef MODELS_RESNET18_H
#define MODELS_RESNET18_H

#include <berth.h>

/* Images [B, 3, H, W] -> logits [B, classes]; 32 pixels a side at least. `width`: channels of the first stage, 64 in torchvision's. Weights are drawn as torchvision draws them. */
bt_layer *resnet18_new(int64_t width, int64_t classes, bt_array *key);

/* *model: the one that a file has weights of, on the device of the BT_ON block or the default device. The file is what PyTorch's `state_dict` of torchvision's resnet18 has, as safetensors (also in shards), .pt or
 * .npz. Width and classes are those of its tensors; float16 and bfloat16 become float32. The counts num_batches_tracked are taken where they are there; inference does not need them. Errors are those of
 * bt_load_model, which lists all tensors that are missing, too many, or of another shape; the error record has the text. */
BT_MUST_USE bt_status resnet18_open(const char *path, bt_layer **model);

/* Writes what torchvision's resnet18 loads: `model.load_state_dict(safetensors.torch.load_file(path))`. */
BT_MUST_USE bt_status resnet18_save(const char *path, const bt_layer *model);

#endif
