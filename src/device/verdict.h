/* What trying a driver in a child found, kept in the folder of the disk cache for the programs that follow. A verdict holds as long as the
 * machine runs, the libraries that were loaded are the same files, and the environment that libraries of devices read has not changed.
 * Whatever is wrong with the folder: there is no verdict. */
#ifndef BTI_DEVICE_VERDICT_H
#define BTI_DEVICE_VERDICT_H

#include "base/str.h"

typedef enum bti_verdict { BTI_NO_VERDICT, BTI_GOOD, BTI_BAD } bti_verdict;
bti_verdict bti_verdict_find(const char *driver, unsigned kinds, bti_str *reason);
/* `maps`: of /proc/PID/maps, of the child when it ended. */
void bti_verdict_keep(const char *driver, unsigned kinds, bti_verdict verdict, const char *reason, const char *maps);

#endif
