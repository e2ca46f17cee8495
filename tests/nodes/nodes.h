/* A second engine of tasks, for tests: "nodes", three simulated machines.
 *
 * It stands on the two tables of the engine "local" (bti_engine_local in the program, bti_engine_worker in workers), as the engine of a cluster
 * stands on what runs calls on each machine, and uses nothing else of it. What it adds is what a cluster has and one machine has not:
 *
 *     ids        references, actors and groups have ids of their own (table.h), which differ from those of the inner engine. An id that is stale or
 *                foreign is an error. In packed values stand these ids: the inner engine is given them as bytes, with its own references
 *                beside (wrap.h), so that it knows what a call waits for and what a value keeps.
 *     network    a call is a frame of bytes (frame.h). It is on its way for a while (net.h), is read on the other side from these bytes alone, and
 *                stays in the order in which its process sent it. The handle is there at once. Replies have delays of their own: results
 *                are seen done in another order than they were.
 *     nodes      each worker process belongs to a node. A node may be lost: its processes are killed, replies of it that are on their way
 *                are dropped, values that were made there and copied nowhere are gone. What ran there is run again on another where
 *                `.max_retries` and `.max_restarts` say so, else it fails (BT_FAILURE_NODE_DIED). Who made the call of a lost value makes it
 *                once more while `.max_retries` allow it, else it fails (BT_FAILURE_OBJECT_LOST).
 *
 * The libberth in which it is (tests/CMakeLists.txt, berth_nodes) is put into the place of the other when a test is run (LD_LIBRARY_PATH): all
 * programs of a test then run on it, also those that are started by exec.
 *
 * BERTH_NODES_SEED: the delays. `ctest -R '^nodes' -LE '^long$'` runs the tests of tasks on nodes with seed 1, a long check with others too.
 *
 * What the seam (task/engine.h, task/run.h) had to be given for this engine: values that are packed already (bti_values), for an engine that stands on another
 * has no handles of that one; reading as a place (bti_reading). What it does by itself, as the seam says nothing of it: that a value is read is no longer
 * told by the bytes of a reply, so small values count as copied when their reply comes; links and items of streams go to who waits for them and are
 * not lost; who made no call of a lost value (it got the reference from another process) cannot have it made again. Numbers of resources, GPUs and views are the
 * inner engine's. */
#ifndef BERTH_TESTS_NODES_NODES_H
#define BERTH_TESTS_NODES_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODES_API __attribute__((visibility("default")))

enum { NODES_COUNT = 3 };

/* Node 1 to NODES_COUNT; false when it is lost already, or is the last one. Its processes have ended when this returns. In the program. */
NODES_API bool nodes_lose(int node);
/* It can run calls again. */
NODES_API bool nodes_return(int node);
/* In a task: the node that runs it; 0 in the program. */
NODES_API int nodes_here(void);
/* How many frames have come so far in this process, and how many replies were seen before one of a call that was done earlier. */
NODES_API uint64_t nodes_frames(void);
NODES_API uint64_t nodes_reordered(void);
/* Bytes come as a frame to this process. False: it is none, and the cause is in the error record. One that is a call is made. */
NODES_API bool nodes_receive(const void *bytes, size_t size);
/* A frame of a call as it is sent: its bytes into `bytes`; how many it has. For tests that break it. */
NODES_API size_t nodes_sample(void *bytes, size_t size);

#endif
