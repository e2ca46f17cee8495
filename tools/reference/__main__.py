"""The reference of the public operations, made of the headers, the tables of operations and docs/reference.

    python3 tools/reference --table             writes src/cli/pages.def, which the command has in it
    python3 tools/reference --pages FOLDER      writes FOLDER/man3/*.3 and FOLDER/html/*.html
    python3 tools/reference --program FILE.c    writes the examples as one program
    python3 tools/reference --write PROGRAM     runs it, and puts what it prints into docs/reference
    python3 tools/reference --check PROGRAM     runs it, and fails if an example prints something else, an HTML page is malformed or pages.def is old
    python3 tools/reference --check-man         fails if groff cannot format the man pages; 77 without groff"""
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.dont_write_bytecode = True  # the sources may be read-only
import examples
import pages
from headers import ROOT
from operations import Mistake, load

TABLE = ROOT / "src/cli/pages.def"
ALONE = ("--table", "--check-man")  # without an argument
SKIPPED = 77


def write_all(folder, texts):
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def check_html(texts):
    """Well-formed, and each link leads to an element that is there."""
    trees = {}
    for path, text in texts.items():
        if path.endswith(".html"):
            try:
                trees[Path(path).name] = ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
            except ElementTree.ParseError as error:
                raise Mistake(f"{path}: {error}") from error
    places = {f"{name}#{element.get('id')}" for name, tree in trees.items() for element in tree.iter() if element.get("id")} | set(trees)
    for name, tree in trees.items():
        for link in tree.iter("a"):
            if link.get("href") not in places:
                raise Mistake(f"{name}: a link leads to {link.get('href')}, which is not there")


def check_man(texts, operations):
    """groff formats the pages without a warning, and each line of code and output is there."""
    if not shutil.which("groff"):
        print("reference: skipped: no groff")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        write_all(Path(folder), texts)
        files = sorted(str(path) for path in Path(folder).glob("man3/*.3"))
        done = subprocess.run(["groff", "-mdoc", "-ww", "-Tascii", "-Kutf8", "-P-cbou", *files], capture_output=True, text=True, check=False)
    if done.returncode or done.stderr:
        raise Mistake(f"groff: {done.stderr[:2000]}")
    printed = {line.strip() for line in done.stdout.splitlines()}
    for operation in operations.values():
        for line in pages.synopsis(operation) + pages.example(operation) + operation.example.output:
            if line.strip() not in printed:
                raise Mistake(f"{operation.name}.3, formatted, lacks the line: {line}")
    print(f"reference: {len(files)} man pages")


def check(headers, operations, program):
    if not TABLE.exists() or TABLE.read_text() != pages.table(operations):
        raise Mistake("src/cli/pages.def is not what tools/reference makes of the headers and docs/reference; run python3 tools/reference --table")
    check_html(pages.all_pages(headers, operations))
    skipped = examples.compare(operations, examples.run(program))
    without = f"; {skipped} skipped: no LAPACK" if skipped else ""
    print(f"reference: {len(operations)} operations, {len(operations) - skipped} examples ran{without}")


def main(arguments):
    if len(arguments) not in (1, 2) or (arguments[0] in ALONE) != (len(arguments) == 1):
        raise Mistake(__doc__)
    what, argument = arguments[0], arguments[-1]
    headers, operations, mistakes = load(examples.read())
    if mistakes and what in ("--table", "--check", "--check-man"):
        raise Mistake("\n".join(mistakes))
    if what == "--table":
        TABLE.write_text(pages.table(operations))
    elif what == "--pages":
        write_all(Path(argument), pages.all_pages(headers, operations))
    elif what == "--program":
        Path(argument).write_text(examples.program(operations))
    elif what == "--write":
        examples.write(examples.run(argument))
    elif what == "--check":
        check(headers, operations, argument)
    elif what == "--check-man":
        check_man(pages.all_pages(headers, operations), operations)
    else:
        raise Mistake(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Mistake as mistake:
        sys.exit(f"reference: {mistake}")
