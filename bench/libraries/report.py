"""What is to be reached, and tables of what was."""
import datetime
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

# Row: (what, how many times as fast as that): a peer's name, "best" of the row's peers, "copy" of as many bytes in memory, or
# "seconds", where the figure is the time itself.
EVERY_ROW = [("best", 1 / 1.2)]
MUST = {
    "elementwise": [("jax", 8)],
    "elementwise_compiled": [("tensorflow_xla", 1 / 1.2)],
    "linspace": [("jax", 15)],
    "random100m": [("jax_jit", 15)],
    "random100m_mixed": [("jax_jit", 5)],
    "matmul1024": [("best", 1)],
    "matmul2048": [("best", 1)],
    "matmul4096": [("best", 1)],
    "softmax": [("best", 2)],
    "sum": [("best", 1 / 1.2)],
    "dependent_adds": [("torch", 1.07 / 1.0)],
    "compile": [("jax_jit", 31 / 10)],
    "startup": [("tensorflow", 3.9 / 0.05)],
    "sort4m": [("best", 1)],
    "sort_rows": [("best", 1)],
    "topk": [("best", 1)],
    "permutation": [("jax_jit", 5)],
    "normal": [("best", 1.5)],
    "step_small": [("jax_jit", 51 / 25)],
    "step_medium": [("best", 1)],
    "step_large": [("best", 1)],
    "resnet18": [("best", 1.2)],
    "kv_cache": [("best", 1.2)],
    "gpt_step": [("best", 1)],
    "gpt_step_bf16": [("torch", 1.8)],
}
MUST |= {row: [("best", 1)] for row in ("conv3x3 conv7x7s2 conv_depthwise conv_grad attention attention_causal attention_grad scatter_rows embedding_grad short_rows "
                                        "gru_forward gru_step cholesky fft").split()}
AIM = {
    "elementwise": [("copy", 1 / 1.3)],
    "elementwise_compiled": [("copy", 1 / 1.3)],
    "linspace": [("seconds", 0.0025)],
    "random100m": [("jax_jit", 40)],
    "softmax": [("copy", 1 / 1.5)],
    "sum": [("copy", 1)],
    "dependent_adds": [("torch", 1.07 / 0.3)],
    "compile": [("jax_jit", 31 / 3)],
    "startup": [("tensorflow", 3.9 / 0.02)],
    "step_small": [("jax_jit", 51 / 15)],
}
# Of tasks (bench/tasks.py).
MUST |= {"task_round_trip": [("ray", 40)], "task_batch": [("ray", 100)], "actor_round_trip": [("ray", 40)],
         "actor_batch": [("ray", 40)], "first_task": [("seconds", 0.020)], "first_actor": [("seconds", 0.005)]}
AIM |= {"task_round_trip": [("seconds", 30e-6)], "task_batch": [("seconds", 0.050)], "actor_batch": [("seconds", 0.050)],
        "put_100mb": [("copy", 1 / 1.2)], "ref_100mb": [("seconds", 0.001)], "queue_1000000": [("seconds", 5)]}
# On devices: products beside cuBLAS, what moves memory beside a copy, steps beside JAX.
MOVING = [("copy", 0.9), ("best", 1)]
DEVICE_MUST = {f"large_{row}": MOVING for row in "elementwise sum softmax layer_norm transpose_add gather".split()}
DEVICE_MUST |= {f"matmul_{kind}_{n}": [("cublas", 0.97)] for kind in ("f32", "tf32", "fast_bf16", "bf16")
                for n in (1024, 2048, 4096, 8192, 16384)}
DEVICE_MUST |= {f"step_{size}": [("jax_jit", 1)] for size in ("small", "medium", "large")}


def targets_of(row, device):
    """What it must reach, and what it aims at."""
    return (MUST.get(row, EVERY_ROW), AIM.get(row, [])) if device == "cpu" else (DEVICE_MUST.get(row, []), [])


def reached(figures, targets, copy):
    """'8 x jax: 9.3' for each target, with 'no' where it is missed."""
    texts = []
    for what, times in targets:
        if what == "seconds":
            good, text = figures["berth_s"] <= times, f"{time_text(times)}: {time_text(figures['berth_s'])}"
        else:
            peers = {**figures["peers"], **({"copy": figures["bytes"] / copy} if copy and figures["bytes"] else {})}
            if figures["peers"]:
                peers["best"] = min(figures["peers"].values())
            if what not in peers:
                continue
            faster = peers[what] / figures["berth_s"]
            good, text = faster >= times, f"{times:.3g} x {what}: {faster:.3g}"
        texts.append(text + (" yes" if good else " no"))
    return "; ".join(texts)


def time_text(seconds):
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)):
        if seconds * scale >= 0.9995 or unit == "ns":
            value = seconds * scale
            return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"


def rate_text(figures):
    if figures["flops"]:
        return f"{figures['flops'] / figures['berth_s'] / 1e12:.3g} TFLOP/s"
    if figures.get("calls"):
        return f"{figures['calls'] / figures['berth_s']:,.0f}/s"
    return f"{figures['bytes'] / figures['berth_s'] / 1e9:.3g} GB/s" if figures["bytes"] else ""


def table(found, copy, device):
    peers = []
    for figures in found:
        peers += [peer for peer in figures["peers"] if peer not in peers]
    rows = [["row", "berth", "rate", *peers, "best / berth", "must", "aim"]]
    for figures in found:
        times = [time_text(figures["peers"][peer]) if peer in figures["peers"] else "" for peer in peers]
        ratio = f"{figures['ratio']:.2f}" if figures["ratio"] else ""
        rows.append([figures["row"], time_text(figures["berth_s"]), rate_text(figures), *times, ratio + ("" if figures["agrees"] else " (results differ)"),
                     *(reached(figures, targets, copy) for targets in targets_of(figures["row"], device))])
    return rows


def memory_table(found):
    """The most of a process that runs the row; in brackets what it has before."""
    peers, rows = [], []
    for figures in found:
        peers += [name for name, *_ in figures.get("memory", []) if name not in peers]
    for figures in found:
        texts = {name: f"{most / 1e6:.0f} MB ({before / 1e6:.0f})" for name, before, most in figures.get("memory", [])}
        rows.append([figures["row"], *(texts.get(peer, "") for peer in peers)])
    return [["row", *peers], *rows] if peers else []


def print_rows(rows, left):
    """In columns; those whose numbers are in `left` begin at the left."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        cells = [cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def print_table(found, copy, device):
    rows = table(found, copy, device)
    print_rows(rows, (0, len(rows[0]) - 2, len(rows[0]) - 1))
    print(f"a copy within memory: {copy / 1e9:.1f} GB/s, read and written")
    memory = memory_table(found)
    if memory:
        print("the most resident memory of a process that runs the row, in brackets what it has before:")
        print_rows(memory, (0,))


def machine():
    cpus = Path("/proc/cpuinfo").read_text(errors="replace")
    model = re.search(r"^model name\s*:\s*(.*)$", cpus, re.M)
    flags = set((re.search(r"^flags\s*:\s*(.*)$", cpus, re.M) or [""])[0].split())
    vector = next((name for name, flag in (("AVX-512", "avx512f"), ("AVX2", "avx2"), ("SSE2", "sse2")) if flag in flags), "")
    return " ".join(filter(None, [model.group(1) if model else platform.machine(), vector and f"({vector})"]))


def card():
    """The first GPU and its driver, as NVIDIA's tool tells them; "" without."""
    if not shutil.which("nvidia-smi"):
        return ""
    told = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], stdout=subprocess.PIPE, text=True)
    return ", driver ".join(told.stdout.splitlines()[0].split(", ")) + "; " if told.stdout.strip() else ""


def write_results(file, found, copy, versions, chosen, problems):
    rows, threads = table(found, copy, chosen.device), chosen.threads
    where = "" if chosen.device == "cpu" else f"device {chosen.device}, " + (card() if chosen.peer_device == "cuda" else "")
    where += f"large rows {chosen.shrink} times smaller, " if chosen.shrink > 1 else ""
    lines = [f"# berth beside {', '.join(f'{name} {version}' for name, version in versions.items())}", "",
             f"{datetime.date.today()}, {where}{machine()}, {threads} of {os.cpu_count()} cores for each side; a copy within memory: "
             f"{copy / 1e9:.1f} GB/s, read and written. Medians of {min(figures['repetitions'] for figures in found)} or more "
             "repetitions, the sides in turn; results compared. `bench/README.md` says what the rows are; the columns must and "
             "aim say how many times as fast as what berth is to be, how many times it was, and whether that will do.", ""]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(len(lines) - len(rows) + 1, "| --- |" + " ---: |" * (len(rows[0]) - 3) + " --- | --- |")
    memory = memory_table(found)
    if memory:
        lines += ["", "The most resident memory of a process that runs the row; in brackets what it has before.", ""]
        lines += ["| " + " | ".join(row) + " |" for row in memory]
        lines.insert(len(lines) - len(memory) + 1, "| --- |" + " ---: |" * (len(memory[0]) - 1))
    lines += [""] + [f"- {problem}" for problem in problems]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines).rstrip() + "\n")
