"""Failures of calls: what a function returned, or why it did not run, as exceptions of Ray and as berth's statuses."""
import json
import re

from ray import exceptions

(OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED,
 FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS) = range(16)
# bt_failure
NONE, RETURNED, REFUSED, WAS_CANCELLED, DEADLINE, PROCESS_DIED, OUT_OF_MEMORY, OWNER_DIED, OBJECT_LOST, NODE_DIED = range(10)


class Failure(Exception):
    """A status with its text and its kind (bt_failure). Each status has a class of its own, since Ray retries by class."""

    status = UNKNOWN

    def __init__(self, kind, text):
        super().__init__(kind, text)
        self.kind, self.text = kind, text

    def __str__(self):
        return json.dumps([self.kind, self.text])


BY_STATUS = {status: type(f"Failure{status}", (Failure,), {"status": status, "__module__": __name__}) for status in range(1, 17)}
globals().update({kind.__name__: kind for kind in BY_STATUS.values()})
IN_TEXT = re.compile(r"Failure(\d+): (\[\d+, \".*\"\])")


def failure(status, kind, text):
    return BY_STATUS.get(status, Failure)(kind, text)


def in_text(text):
    """The failure that a text of Ray's quotes, as those of dead actors do; or None."""
    found = IN_TEXT.findall(text)
    try:
        kind, said = json.loads(found[-1][1]) if found else (0, "")
    except ValueError:
        return None
    return (int(found[-1][0]), kind, said) if found else None


def first_line(error):
    return str(error).strip().split("\n")[0]


def of_actor(error, was_killed):
    text = str(error)
    if was_killed or "killed by `ray.kill`" in text:
        return CANCELLED, WAS_CANCELLED, "the actor was killed (bt_actor_kill)"
    known = in_text(text)
    if known:
        return known
    if isinstance(error, exceptions.ActorUnschedulableError):
        return RESOURCE_EXHAUSTED, REFUSED, first_line(error)
    is_node = "node" in text and "dead" in text.split("The actor is dead because")[-1] and "its node has died" in text
    why = text.split("The actor is dead because", 1)[-1].strip().split("\n")[0] if "The actor is dead because" in text else first_line(error)
    return ABORTED, NODE_DIED if is_node else PROCESS_DIED, f"the process of the actor died: {why}"


# The first that fits: an exception of Ray, the status, the kind.
KINDS = [(exceptions.TaskCancelledError, CANCELLED, WAS_CANCELLED, "the call was cancelled before it began"),
         (exceptions.OutOfMemoryError, ABORTED, OUT_OF_MEMORY, "its process was ended because memory ran out: "),
         (exceptions.OwnerDiedError, DATA_LOSS, OWNER_DIED, "the process that owned the value died: "),
         (exceptions.ObjectStoreFullError, RESOURCE_EXHAUSTED, REFUSED, "Ray's object store is full: "),
         (exceptions.NodeDiedError, ABORTED, NODE_DIED, "its node died: "),
         (exceptions.LocalRayletDiedError, ABORTED, NODE_DIED, "its node died: "),
         (exceptions.WorkerCrashedError, ABORTED, PROCESS_DIED, "its process died: "),
         (exceptions.ObjectLostError, DATA_LOSS, OBJECT_LOST, "the value was lost: "),
         (exceptions.TaskUnschedulableError, RESOURCE_EXHAUSTED, REFUSED, ""),
         (exceptions.RuntimeEnvSetupError, FAILED_PRECONDITION, REFUSED, ""),
         (exceptions.GetTimeoutError, DEADLINE_EXCEEDED, DEADLINE, "")]


def reason(error, ended=False, was_killed=False):
    """(status, kind, text) of an exception; `ended`: the call was cancelled by force."""
    cause = getattr(error, "cause", None) if isinstance(error, exceptions.RayTaskError) else error
    if isinstance(cause, Failure):
        return cause.status, cause.kind, cause.text
    if ended and isinstance(cause, (exceptions.WorkerCrashedError, exceptions.TaskCancelledError)):
        return CANCELLED, WAS_CANCELLED, "the call was cancelled; its process was ended if it ran"
    if isinstance(cause, getattr(exceptions, "ActorAlreadyExistsError", ())):
        name = first_line(cause).removeprefix("The name ").split(" (namespace", 1)[0]
        return ALREADY_EXISTS, REFUSED, f'there is an actor "{name}" already (.name, .get_if_exists)'
    if isinstance(cause, exceptions.RayActorError):
        return of_actor(cause, was_killed)
    for kind, status, failed, text in KINDS:
        if isinstance(cause, kind):
            return status, failed, text + (first_line(cause) if not text or text.endswith(": ") else "")
    return in_text(str(error)) or (UNKNOWN, RETURNED, f"{type(cause).__name__}: {first_line(cause)}")
