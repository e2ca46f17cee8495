/* The folder of the disk cache: where it is, whether it may be trusted. */
#ifndef BTI_DRIVERS_FOLDER_H
#define BTI_DRIVERS_FOLDER_H

#include "base/str.h"

/* The folder that the flag `cache` and the environment name; false, with the reason, when they name none. */
bool bti_folder_path(bti_str *path, bti_str *reason);

/* Opens the folder: a directory that is this user's and that nobody else may write to; -1, with the reason, otherwise. `make`:
 * it and the folder it stands in are made (mode 0700) when they are missing; else a missing one gives -1 without reason. */
int bti_folder_open(const char *path, bool make, bti_str *reason);

/* For tests: the environment is read again at the next use. */
void bti_folder_reset(void);

#endif
