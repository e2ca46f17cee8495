/* Shared by the files of the fake NVRTC. */
#ifndef BERTH_TESTS_FAKES_LIBNVRTC_H
#define BERTH_TESTS_FAKES_LIBNVRTC_H

#include "drivers/cuda/nvrtc.h"
#include "fakes/machine.h"

struct _nvrtcProgram {
    char *text, name[96], *log, *code;
    nvrtcProgram real;
};

FAKE_API nvrtcResult nvrtcVersion(int *major, int *minor);
/* The NVRTC that the machine names; NULL: it names none. A library that cannot be used has functions that return an error. */
const bti_nvrtc_api *fake_real_nvrtc(void);
/* Compiles program->real and fills log and code: PTX behind comment lines that say what the compiler's log says. */
nvrtcResult fake_compile_real(nvrtcProgram program, int option_count, const char *const *options);

#endif
