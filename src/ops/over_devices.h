/* A collective as tests of rules call it. */
#ifndef BTI_OPS_OVER_DEVICES_H
#define BTI_OPS_OVER_DEVICES_H

#include "device/device.h"
#include "ops/primitive.h"

/* The sum of both over two devices, as the second has it. */
static bt_array *over_devices(bt_array **parts) {
    const int devices[2] = {bti_device_id(bt_device_get(BT_GPU, 0)), bti_device_id(bt_device_get(BT_GPU, 1))};
    bt_array *sums[2];
    bti_all_reduce(devices, 2, parts, sums);
    return sums[1];
}

#endif
