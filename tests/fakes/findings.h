/* What the fake machine found to be wrong: races, reads of memory never written, accesses outside of allocations, things destroyed in
 * flight. Each finding is printed once. It makes the context of its device sticky, so that a call returns it, with its text from
 * cuGetErrorString. A finding whose text nobody asked for ends the process with exit code 99 when the library is unloaded. */
#ifndef BERTH_TESTS_FAKES_FINDINGS_H
#define BERTH_TESTS_FAKES_FINDINGS_H

#include "fakes/machine.h"

enum { FAKE_ILLEGAL_ADDRESS = 700, FAKE_MISALIGNED = 716, FAKE_LAUNCH_FAILED = 719 };

/* `code`: the CUresult that calls return from now on. device: of the machine; its context ends. */
FAKE_API void fake_find(int device, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The text of the last finding on this device, where it has this code; NULL: there is none. It counts as reported. */
FAKE_API const char *fake_finding_of(int device, int code);
/* A call that waits although its documentation does not say so: counted where work was in flight. */
FAKE_API void fake_count_wait(const char *call);

/* --- for tests, found by dlsym ------------------------------------------------------------------------------------- */
FAKE_API int
fake_findings(const char **text); /* their count, and their texts, one a line, in *text; they count as reported */
FAKE_API void fake_findings_clear(void);
FAKE_API const char *fake_waits_text(void); /* "cuMemFree 3", one line for each call that waited or may have */

#endif
