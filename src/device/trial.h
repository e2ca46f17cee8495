/* A driver that opens third-party libraries is tried in a child process first. If its library hangs, crashes or ends the process, only the child
 * is lost, and the program gets the reason. The flag `probe` says when drivers are tried, `probe_seconds` how long a child may take. */
#ifndef BTI_DEVICE_TRIAL_H
#define BTI_DEVICE_TRIAL_H

#include "drivers/driver.h"

/* Whether the driver may be asked for its devices in this process; if not, the reason. Blocks until the child has ended. `unready`:
 * why its devices cannot be opened, if the child could tell. */
bool bti_trial(const bti_driver *driver, unsigned kinds, bti_str *reason, bti_str *unready);

/* With the flag probe=open: opens and describes the driver's devices of these kinds in another child, each within probe_seconds. Sets `details`
 * to "<ordinal> <bytes>\n" and that many bytes of text per device. If the child ends before it has described all, `reason` says how. No device
 * is opened in this process. */
void bti_trial_open(const bti_driver *driver, unsigned kinds, bti_str *details, bti_str *reason);
/* The text about one device; NULL: the child did not reach it. Yours to bti_free. */
char *bti_trial_details(const bti_str *details, int ordinal);

/* Call first in a child that is forked to open third-party libraries: faults end it, and the program's own signal and exit handlers do not run.
 * Its output goes to the file descriptor `output`, unless that is -1. */
void bti_trial_begin_child(int output);

#endif
