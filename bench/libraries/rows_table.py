"""rows_table.py FILE...: what `berth bench --json` printed, as a table of Markdown."""
import json
import sys

from report import time_text

copy = 0
print("| row | median | rate | of copy | times | what it does |\n| --- | ---: | ---: | ---: | ---: | --- |")
for name in sys.argv[1:]:
    with open(name) as file:
        rows = json.load(file)
    for row in rows:
        rate, part = "", ""
        if "flop_per_s" in row:
            rate = f"{row['flop_per_s'] / 1e12:.3g} TFLOP/s"
        if "bytes_per_s" in row:
            rate, copy = f"{row['bytes_per_s'] / 1e9:.3g} GB/s", row["copy_bytes_per_s"]
            part = f"{row['bytes_per_s'] / copy:.2f}" if copy else ""
        print(f"| {row['row']} | {time_text(row['median_s'])} | {rate} | {part} | {row['repetitions']} | {row['does']} |")
if copy:
    print(f"\nA copy within the device's memory: {copy / 1e9:.1f} GB/s, read and written.")
