/* The runtimes of other programs. */
#ifndef BTI_TASK_PEERS_H
#define BTI_TASK_PEERS_H

#include <stdint.h>

/* What the runtime of a program answers within the time for it ("json", "timeline"); NULL. Yours to bti_free. */
char *bti_peer_text(int32_t program, const char *what);

#endif
