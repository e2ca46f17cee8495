"""Files that calls need on other nodes, by their content: libberth, the program, modules. They lie in Ray's object store; a node writes each once into a folder of the
user's, unless it has the file where the program has it."""
import hashlib
import os
import tempfile

import ray

import berth_failures as failures
from berth_failures import failure


def digest(data):
    return hashlib.sha256(data).hexdigest()


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Files:
    """The files of this process: content, 0 for the program, to (path, digest, Ray's object); "berth": libberth; "flags": those of the program (BERTH_FLAGS)."""

    def __init__(self, known=None, open_program=None):
        self.known, self.open_program = dict(known or {}), open_program
        self.paths = {}

    def add(self, content, path, data):
        self.known[content] = (path, digest(data), ray.put(data))

    def learn(self, module):
        """A module's key, which has its path and content (modules.c)."""
        path, _, rest = module.rpartition("\n")
        if path:
            self.paths[int(rest[16:], 16)] = path

    def need(self, content):
        """Reads the file, the first time."""
        if content in self.known:
            return
        if content == 0:
            if not self.open_program:
                raise failure(failures.FAILED_PRECONDITION, failures.REFUSED, "workers of Ray do not have the program's own functions")
            return self.add(0, *self.open_program())
        path = self.paths.get(content)
        try:
            data = read(path)
        except (OSError, TypeError) as error:
            raise failure(failures.NOT_FOUND, failures.REFUSED, f"module {path} cannot be read: {error}") from None
        self.add(content, path, data)

    def of(self, content):
        """What calls of that module's functions are sent: a picture of now."""
        if content and 0 not in self.known and self.open_program:
            try:
                self.need(0)  # its functions may be called by those of the module
            except Exception:
                self.open_program = None
        return {key: file for key, file in self.known.items() if key in ("berth", "flags", 0, content)}


def folder():
    """Of this user, where nobody else writes."""
    place = os.path.join(os.environ.get("BERTH_RAY_FOLDER") or tempfile.gettempdir(), f"berth-ray-{os.getuid()}")
    os.makedirs(place, mode=0o700, exist_ok=True)
    if os.stat(place).st_uid != os.getuid() or os.stat(place).st_mode & 0o022:
        raise failure(failures.PERMISSION_DENIED, failures.REFUSED, f"{place} is not this user's alone: BERTH_RAY_FOLDER names another folder")
    return place


def local(file):
    """The path of a file with that content on this node."""
    path, wanted, object = file
    for there in (path, os.path.join(folder(), wanted[:32], os.path.basename(path))):
        try:
            if digest(read(there)) == wanted:
                return there
        except OSError:
            pass
    os.makedirs(os.path.dirname(there), mode=0o700, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(there), delete=False) as written:
        written.write(ray.get(object))
    os.chmod(written.name, 0o500)
    os.rename(written.name, there)
    return there
