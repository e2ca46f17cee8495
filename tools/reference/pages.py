"""The pages of the reference: rows for the command `berth`, man pages in mdoc(7), HTML."""
import re
import textwrap
from html import escape

WIDTH = 96
DATE = "November 26, 2026"  # of the form of the pages


def code(text):
    """A declaration in lines that are not too long, which end behind a parameter."""
    whole = re.sub(r"(?<!,) ", "\0", text)
    return [line.replace("\0", " ") for line in textwrap.wrap(whole, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)]


def prose(text, indent=""):
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def synopsis(operation):
    return [line for form in operation.synopsis for line in code(form)]


def details(pairs):
    """Declarations and what is said of each: the members of options, the types of functions."""
    return [line for declaration, comment in pairs for line in code(declaration) + prose(comment, "    ")]


def example(operation):
    functions = operation.example.functions
    return functions + [""] * bool(functions) + operation.example.statements


# --- rows of src/cli/pages.def ------------------------------------------------------------------------------------------------


def literal(lines):
    quoted = ['"' + line.replace("\\", "\\\\").replace('"', '\\"').replace("??", "?\\?") + '\\n"' for line in lines]
    return "".join(f"\n         {line}" for line in quoted) if quoted else ' ""'


def table(operations):
    rows = ["/* One row per public operation, in alphabetical order: what the reference says of it. Made by `python3 tools/reference --table` of the\n"
            " * headers and docs/reference; the test docs.reference checks that it is up to date.\n"
            " * CLI_ROW(name, header, section, summary, synopsis, description, options, types of functions, example, what it prints, see also) */\n"]
    for name in sorted(operations):
        o = operations[name]
        description = [line for i, text in enumerate(o.paragraphs) for line in ([""] if i else []) + prose(text)]
        head = ", ".join('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in (name, o.header, o.section, o.summary))
        fields = [synopsis(o), description, details(o.options), details(o.types), example(o), o.example.output, prose(", ".join(o.see))]
        rows.append(f"CLI_ROW({head},{','.join(literal(field) for field in fields)})\n")
    return "".join(rows)


# --- man pages ------------------------------------------------------------------------------------------------------------------


def roff(text):
    """Text as roff prints it, whatever it begins with."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").replace("^", "\\(ha").replace("~", "\\(ti").replace('"', "\\(dq")
    return "\\&" + text if text[:1] in (".", "\\") else text


def argument(text):
    """Text behind a macro: words that are names of macros, such as No, are words."""
    return re.sub(r"\b([A-Z][a-z]{1,2})\b", r"\\&\1", roff(text))


def display(lines, offset=" -offset indent"):
    return [f".Bd -literal{offset}", *map(roff, lines), ".Ed"]


def man(o):
    lines = [f".Dd {DATE}", f".Dt {o.name.upper()} 3", ".Os", ".Sh NAME", f".Nm {o.name}", f".Nd {argument(o.summary)}", ".Sh SYNOPSIS", f".In {o.header}",
             *display(synopsis(o), ""), ".Sh DESCRIPTION"]
    for i, text in enumerate(o.paragraphs or [o.summary]):
        lines += [".Pp"] * bool(i) + [roff(text)]
    if o.options:
        lines += [".Ss Options", *display(details(o.options))]
    if o.types:
        lines += [".Ss Types of functions", *display(details(o.types))]
    if o.primitive:
        lines += [".Ss Primitive", roff(row(o.primitive))]
    lines += [".Sh EXAMPLES", *display(example(o)), "It prints", *display(o.example.output), ".Sh SEE ALSO", ".Xr berth 1 ,"]
    lines += [f".Xr {name} 3 ," for name in o.see]
    lines[-1] = lines[-1].removesuffix(" ,")
    return "\n".join(lines) + "\n"


def row(primitive):
    return (f"The primitive {primitive.name}: {primitive.doc}. Class {primitive.family}, dtypes: {primitive.dtypes}, "
            f"{'no gradient' if primitive.gradient == 'none' else 'rule of its gradient: ' + primitive.gradient}.")


# --- HTML: a page for each header, and one that lists them ---------------------------------------------------------------------

STYLE = """body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 sans-serif; color: #222; background: #fff }
h1, h2, h3 { line-height: 1.2 } h2 { margin-top: 3rem } h3 { margin-top: 2.5rem; border-top: 1px solid #ccc; padding-top: .75rem }
pre { background: #f4f4f4; padding: .6rem .8rem; overflow-x: auto } pre.output { background: #fff; border-left: 3px solid #bbb }
code, pre { font: .9rem/1.4 monospace } dt { float: left; clear: left; min-width: 16rem } dd { margin-left: 17rem }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } pre { background: #262626 } pre.output { background: #181818 } a { color: #8bf } }"""


def page_name(header):
    return header.removeprefix("berth/").removesuffix(".h") + ".html"


def document(title, body):
    return (f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n<meta name="viewport" content="width=device-width"/>\n'
            f"<title>{escape(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n{body}</body>\n</html>\n")


def linked(text, operations):
    """Escaped text in which names of operations are links, and what stands between ` is code."""
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))
    return re.sub(r"\bbt_\w+", lambda m: f'<a href="{page_name(operations[m[0]].header)}#{m[0]}">{m[0]}</a>' if m[0] in operations else m[0], text)


def block(lines, kind=""):
    attribute = f' class="{kind}"' if kind else ""
    return f"<pre{attribute}>{escape(chr(10).join(lines), quote=False)}</pre>\n"


def article(o, operations):
    parts = [f'<h3 id="{o.name}">{o.name}</h3>\n', block(synopsis(o))]
    if o.primitive and not (o.paragraphs and o.summary in o.paragraphs[0]):
        parts.append(f"<p>{linked(o.summary, operations)}</p>\n")
    parts += [f"<p>{linked(text, operations)}</p>\n" for text in o.paragraphs]
    for title, pairs in (("Options", o.options), ("Types of functions", o.types)):
        if pairs:
            parts += [f"<p>{title}:</p>\n", block(details(pairs))]
    if o.primitive:
        parts.append(f"<p>{linked(row(o.primitive), operations)}</p>\n")
    parts += [block(example(o)), block(o.example.output, "output"), f"<p>In the placement log: {o.log_name}. See also: {linked(', '.join(o.see), operations)}.</p>\n"]
    return "".join(parts)


def html_header(header, operations):
    parts = [f'<p><a href="index.html">All operations</a></p>\n<h1>{header.name}</h1>\n<p>{escape(header.title)}.</p>\n']
    parts += [f"<p>{linked(text, operations)}</p>\n" for text in header.paragraphs]
    section = ""
    for o in operations.values():
        if o.header != header.name:
            continue
        if o.section != section:
            section = o.section
            parts.append(f"<h2>{escape(section)}</h2>\n")
        parts.append(article(o, operations))
    return document(header.name, "".join(parts))


def html_index(headers, operations):
    parts = ["<h1>Operations of berth</h1>\n"]
    for header in headers:
        own = [o for o in operations.values() if o.header == header.name]
        if own:
            parts.append(f'<h2><a href="{page_name(header.name)}">{header.name}</a>: {escape(header.title)}</h2>\n<dl>\n')
            parts += [f'<dt><a href="{page_name(o.header)}#{o.name}">{o.name}</a></dt><dd>{escape(o.summary, quote=False)}</dd>\n' for o in own]
            parts.append("</dl>\n")
    return document("Operations of berth", "".join(parts))


def all_pages(headers, operations):
    """Path below the folder of the reference -> text."""
    pages = {f"man3/{name}.3": man(o) for name, o in operations.items()}
    pages["html/index.html"] = html_index(headers, operations)
    for header in headers:
        if any(o.header == header.name for o in operations.values()):
            pages[f"html/{page_name(header.name)}"] = html_header(header, operations)
    return pages
