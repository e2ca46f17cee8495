/* The parts of `berth doctor`. */
#ifndef BTI_CLI_DOCTOR_H
#define BTI_CLI_DOCTOR_H

#include "cli/cli.h"

/* The machine: its CPUs, which of them this process may use (affinity), how much of them and of memory (cgroup). */
void doctor_print_machine(void);

/* Whether the kind has a device; each step that was tried, a line each. */
bool doctor_check_kind(bt_kind kind);
/* What a child process that opened the devices told of each. */
void doctor_print_opened(void);
/* Both as JSON; the exit code. */
int doctor_print_json(void);

/* "  what      text" */
void doctor_line(const char *what, const char *format, ...) BT_PRINTF(2, 3);

#endif
