/* CUDA_VISIBLE_DEVICES, as CUDA defines it. The cases stand in docs/visibility.md; visibility_test.c runs that table. */
#ifndef BTI_DEVICE_VISIBILITY_H
#define BTI_DEVICE_VISIBILITY_H

/* Which of `count` devices a mask shows, in its order, into visible[] (room for `count`); returns how many. uuids[i] is
 * "GPU-...", "MIG-..." of an instance, or "" where a device has none. mask NULL (unset): all. Pure. */
int bti_visible_devices(const char *mask, const char *const *uuids, int count, int *visible);

#endif
