"""Writes python/sessile/errors.py: a class for each code of the C interface.

    python bindings/python/errors_from_header.py

A test compares the file with what this writes."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
HEADER = HERE.parents[1] / "crates" / "capi" / "include" / "sessile.h"
MODULE = HERE / "python" / "sessile" / "errors.py"
# Codes that are no failure of a store.
OTHERS = {"OK", "PANIC"}
ATTRIBUTES = {
    "LOCK_TIMEOUT": """
    holder_pid: int | None = None
    holder_host: str | None = None
    waited: float = 0.0
""",
    "TOO_LARGE": """
    size: int = 0
    limit: int = 0
""",
}
BEGINNING = '''\
"""The exceptions: one class for each kind of failure, with the code that logs and other
languages use. `str()` says which operation failed on which store, why, and what to do; it never
contains a session id.

Written by errors_from_header.py."""

from __future__ import annotations


class Error(Exception):
    """Any failure of a store."""

    code = "error"
'''


def module() -> str:
    enum = HEADER.read_text().split("} sessile_code;")[0].rsplit("{", 1)[1]
    text, names = BEGINNING, ["Error"]
    for told, code in re.findall(r"// (.*)\n +SESSILE_([A-Z_]+)", enum):
        if code in OTHERS:
            continue
        name = "".join(word.capitalize() for word in code.split("_"))
        names.append(name)
        word = code.lower().replace("_", "-")
        text += f'\n\nclass {name}(Error):\n    """{told}"""\n\n    code = "{word}"\n'
        text += ATTRIBUTES.get(code, "").removeprefix("\n")
    by_code = "{kind.code: kind for kind in Error.__subclasses__()}"
    text += f"\n\nBY_CODE: dict[str, type[Error]] = {by_code}\n"
    listed = "".join(f'    "{name}",\n' for name in sorted([*names, "BY_CODE"]))
    return f"{text}\n__all__ = [\n{listed}]\n"


if __name__ == "__main__":
    MODULE.write_text(module())
