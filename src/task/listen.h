/* How other processes see a runtime: the nest listens on an abstract socket, of which nothing is left when it dies.
 *
 * A client sends the name of a view ("json", "text", "timeline") and closes its sending side; the answer is a head and the text. Each client is
 * answered by a process of its own within a few seconds, so that no client can keep the nest from its work. */
#ifndef BTI_TASK_LISTEN_H
#define BTI_TASK_LISTEN_H

#include <sys/socket.h>
#include <sys/un.h>
#include <uv.h>

#include "task/state.h"

#define BTI_LISTEN_NAME "berth-runtime-"

typedef struct bti_listen_head {
    char magic[8]; /* "berth 1" */
    uint64_t bytes;
} bti_listen_head;
#define BTI_LISTEN_MAGIC "berth 1"

enum { BTI_LISTEN_SECONDS = 5 }; /* for a whole answer */

/* The address of a program's runtime; returns its length. */
socklen_t bti_listen_address(struct sockaddr_un *address, uid_t user, int32_t program);
/* Whether the process at the other end is of this user or root: it may see views, and is believed. */
bool bti_listen_is_friend(int socket);
/* Waits for `events` until the time has come (0: no limit); false: it has. */
bool bti_listen_wait(int socket, short events, uint64_t until_ns);

/* In the nest. Without a socket the runtime works too, but cannot be seen. */
void bti_listen_start(bti_state *state, uv_loop_t *loop);
/* The program is this user now, who may see it too; no effect if it was this user before. */
void bti_listen_user(uid_t user);
/* A child that is no worker has ended. */
void bti_listen_ended(pid_t pid);
/* Ends those that still answer. */
void bti_listen_end(void);

#endif
