#!/usr/bin/env python3
"""Mutants: mistakes made on purpose in kernels, in the driver of CUDA and above it, which the tests on emulated GPUs and random programs must notice.

Each *.patch of this folder changes files of src/ and begins with the lines
    What: one sentence
    Run: the tests that must fail: a command in the build's folder, with variables before it if need be
    Says: (optional) what their output must hold besides
    Missed: (optional) why it cannot be noticed
A mutant is caught by a finding of the emulator or by a wrong result; a crash, or a test that does not end, catches nothing.
The mutants' libraries, and tests that have the library in them, are made from the build's own objects: only what a patch touches is
compiled. Every command is run without a mutant first, and must pass. A mutant that goes unnoticed is run again with other seeds."""
import argparse
import concurrent.futures
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
INTERNAL = "libberth_internal.a"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patches", nargs="*", type=Path, help="all when none is named")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="a build with everything in it (%(default)s)")
    parser.add_argument("--draw", type=int, metavar="N", help="N of them; other ones when the sources of the driver have changed")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=int, default=300, help="limit of one command (%(default)s)")
    parser.add_argument("--apply-only", action="store_true", help="says whether all patches apply to the sources, and runs nothing")
    parser.add_argument("--verbose", action="store_true", help="shows what the tests said")
    return parser.parse_args()


def split_command(command):
    """Its variables, its program, and that program's arguments."""
    return re.fullmatch(r"((?:\w+=\S+ )*)(\S+)(.*)", command).groups()


class Mutant:
    def __init__(self, path):
        self.path, self.name = path.resolve(), path.stem
        text = path.read_text()
        header = {key: value.strip() for key, value in re.findall(r"^(What|Run|Says|Missed): (.*)$", text, re.M)}
        if "What" not in header or "Run" not in header:
            sys.exit(f"{path}: it does not begin with What: and Run:")
        self.changed = re.findall(r"^\+\+\+ b/(\S+)", text, re.M)
        self.what, self.command, self.says = header["What"], header["Run"], header.get("Says", "")
        self.known_miss = "Missed" in header
        self.program = split_command(self.command)[1]


# ---- the library of a mutant

class Build:
    """What ninja knows of a build: commands, and which objects depend on a file."""

    def __init__(self, folder):
        self.folder = folder
        self.link = self.commands("libberth.so.0.2.0")[-1]
        self.dependents = {}
        current = None
        for line in subprocess.run(["ninja", "-C", folder, "-t", "deps"], capture_output=True, text=True).stdout.splitlines():
            if not line.startswith(" "):
                current = line.split(":")[0]
            elif line.strip() and "berth_objects.dir" in (current or ""):
                file = (folder / line.strip()).resolve()
                if file.is_relative_to(ROOT):
                    self.dependents.setdefault(str(file.relative_to(ROOT)), set()).add(current)

    def commands(self, target):
        told = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", target], capture_output=True, text=True, check=True)
        return [line for line in told.stdout.splitlines() if line]

    def objects_of(self, file):
        """The objects to compile for a changed file; texts of kernels become bytes in generated/ first."""
        words = re.fullmatch(r"src/render/c/(\w+)\.h", file)
        if words:
            file = f"{self.folder.relative_to(ROOT)}/generated/c_{words[1]}.inc"
        return self.dependents.get(file, set())

    def make_library(self, mutant, work):
        """Patches a copy of the sources in `work`, where libberth.so.1 is made, and `test` if the mutant's test needs no library."""
        for part in ("src", "include"):
            shutil.copytree(ROOT / part, work / part)
        shutil.copytree(self.folder / "generated", work / "generated")
        subprocess.run(["patch", "-p1", "--quiet", "--fuzz=0", "-i", mutant.path], cwd=work, check=True)
        objects = set().union(*(self.objects_of(file) for file in mutant.changed))
        if not objects:
            raise RuntimeError("no object depends on " + ", ".join(mutant.changed))
        for words in mutant.changed:
            if re.fullmatch(r"src/render/c/\w+\.h", words):
                name = Path(words).stem
                subprocess.run(["cmake", f"-DINPUT={work / words}", f"-DOUTPUT={work}/generated/c_{name}.inc", "-P",
                                ROOT / "cmake/bytes.cmake"], check=True)
        link, made_objects = self.link, []
        for number, target in enumerate(sorted(objects)):
            command = self.commands(target)[-1].replace(f"{self.folder}/generated", f"{work}/generated")
            command = command.replace(f"{ROOT}/src", f"{work}/src").replace(f"{ROOT}/include", f"{work}/include")
            made = f"{work}/{number}.o"
            command = re.sub(r" -MD -MT \S+ -MF \S+", "", command).replace(f"-o {target}", f"-Wno-error -o {made}")
            subprocess.run(command, shell=True, cwd=self.folder, check=True, capture_output=True, text=True)
            link = link.replace(f" {target} ", f" {made} ")
            made_objects.append(made)
        link = re.sub(r"-o libberth\.so\.0\.2\.0", f"-o {work}/libberth.so.1", link)
        subprocess.run(link, shell=True, cwd=self.folder, check=True, capture_output=True)
        link = self.commands(mutant.program)[-1]
        if INTERNAL in link:
            link = link.replace(INTERNAL, " ".join([*made_objects, INTERNAL])).replace(f"-o {mutant.program}", f"-o {work}/test")
            subprocess.run(link, shell=True, cwd=self.folder, check=True, capture_output=True)


# ---- running

SEEDS = range(1, 4)  # each draws other orders; a mistake may need one of them, and none may raise a false alarm


def gpus(arguments):
    """Options of tests/emulated: random programs on emulated GPUs need three."""
    return "--gpus 3 " if "--gpus" in arguments else ""


def run(command, build, seconds, seed, library=None):
    """(exit code, output) of a command on emulated GPUs."""
    environment = dict(os.environ, BERTH_FAKE_SEED=str(seed))
    if library:
        environment["LD_LIBRARY_PATH"] = str(library)
    variables, program, arguments = split_command(command)
    if library and (library / "test").exists():
        program = library / "test"
    words = ["bash", "-c", f"{variables}exec tests/emulated {gpus(arguments)}{program}{arguments}"]
    try:
        done = subprocess.run(words, cwd=build.folder, env=environment, capture_output=True, text=True, errors="replace",
                              timeout=seconds, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as expired:
        return 124, (expired.stdout or b"").decode(errors="replace") + "\nout of time"


def first_line_of_failure(output):
    for pattern in (r"^fake machine: ", r"error|ERROR", r"FAILED|not |never|out of time"):
        for line in output.splitlines():
            if re.search(pattern, line):
                return line.strip()[:200]
    return ""


def judge(mutant, code, output):
    """What a mutant's tests came to; `caught` counts the first two."""
    if code == 124:
        return "OUT OF TIME"
    if code == 0 or mutant.says not in output:
        return "known miss" if mutant.known_miss else "MISSED"
    if re.search(r"^fake machine: ", output, re.M):
        return "by a finding"
    crashed = code >= 126 or re.search(r"exception: |AddressSanitizer", output)  # 126 and 127: not begun; 128 and more: a signal
    return "CRASH" if crashed or not re.search(r"\[  FAILED  \]|^[1-9]\d* .*failed", output, re.M) else "by a result"


def try_mutant(mutant, build, chosen):
    with tempfile.TemporaryDirectory(prefix="berth-mutant-") as folder:
        try:
            library = Path(folder)
            build.make_library(mutant, library)
        except subprocess.CalledProcessError as error:
            return "does not build", (error.stderr or str(error))[-300:]
        except RuntimeError as error:
            return "does not build", str(error)
        for seed in SEEDS:
            code, output = run(mutant.command, build, chosen.seconds, seed, library)
            if chosen.verbose:
                print(output)
            word = judge(mutant, code, output)
            if word not in ("MISSED", "known miss"):
                break
    if code == 77:
        return "skipped", output.strip()[:160]
    return word, first_line_of_failure(output) if code else "everything passed"


def apply_only(mutants):
    bad = [mutant.name for mutant in mutants
           if subprocess.run(["patch", "-p1", "--dry-run", "--quiet", "--fuzz=0", "-i", mutant.path], cwd=ROOT).returncode]
    print(f"{len(mutants)} mutants: {len(bad)} do not apply: {' '.join(bad)}" if bad else f"{len(mutants)} mutants apply")
    sys.exit(1 if bad else 0)


def draw(mutants, count):
    """The same ones as long as what they change stays as it is."""
    sources = sorted({ROOT / file for mutant in mutants for file in mutant.changed})
    text = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    return random.Random(text).sample(mutants, min(count, len(mutants)))


def main():
    chosen = parse()
    chosen.build = chosen.build.resolve()
    mutants = [Mutant(path) for path in sorted(chosen.patches or HERE.glob("*.patch"))]
    if chosen.apply_only:
        apply_only(mutants)
    if chosen.draw:
        mutants = draw([mutant for mutant in mutants if not mutant.known_miss], chosen.draw)
    build = Build(chosen.build)
    counts = {}
    alarms = 0
    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        commands = [(command, seed) for command in sorted({mutant.command for mutant in mutants}) for seed in SEEDS]
        runs = pool.map(lambda c: run(c[0], build, chosen.seconds, c[1]), commands)
        for (command, seed), (code, output) in zip(commands, runs):
            if code == 77:
                print(output.strip()[:200])
                sys.exit(77)
            if code:
                alarms += 1
                print(f"FALSE ALARM without a mutant, seed {seed}: {command}: {first_line_of_failure(output)}")
        for mutant, (word, why) in zip(mutants, pool.map(lambda m: try_mutant(m, build, chosen), mutants)):
            counts[word] = counts.get(word, 0) + 1
            print(f"{word:15} {mutant.name}: {mutant.what}\n{'':15} {why}", flush=True)
    caught = counts.get("by a finding", 0) + counts.get("by a result", 0)
    told = ", ".join(f"{number} {word}" for word, number in sorted(counts.items()))
    print(f"{len(mutants)} mutants, {caught} caught: {told}; {alarms} false alarms")
    sys.exit(1 if alarms or caught + counts.get("known miss", 0) < len(mutants) else 0)


if __name__ == "__main__":
    main()
