"""The runner of one environment's checks: functions whose names begin with check_, each given a folder of its own."""
import gc
import sys
import tempfile
import traceback
from pathlib import Path

import berth

SHAPES = [(), (1,), (5,), (2, 3), (3, 0, 2), (2, 1, 3, 2), (1, 2, 1, 2, 1, 2, 1, 2)]


def refused(call, *words):
    """That a call fails with all of these words."""
    try:
        call()
    except berth.Failure as failure:
        missing = [word for word in words if word not in str(failure)]
        assert not missing, f"{failure} lacks {missing}"
        return
    raise AssertionError("it was not refused")


def run(module):
    names = [name for name in vars(module) if name.startswith("check_")]
    failed = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                getattr(module, name)(Path(folder))
            except Exception:
                failed += 1
                print(f"FAILED {module.__name__}.{name}", file=sys.stderr)
                traceback.print_exc()
    gc.collect()
    live = berth.library.bt_live_arrays()
    if live and not failed:
        failed += 1
        print(f"FAILED {module.__name__}: {live} arrays are left", file=sys.stderr)
    print(f"{len(names) + (1 if failed and live else 0) - failed} passed, {failed} failed")
    return 1 if failed else 0
