"""The command: ``python -m tessella.checker``, or ``python checker`` where the folder is copied."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

if __package__:
    from .check import main
else:  # a folder that is run: make it a package, so that its files can import one another
    here = Path(__file__).resolve().parent
    spec: Any = importlib.util.spec_from_file_location("checker", here / "__init__.py")
    package = importlib.util.module_from_spec(spec)
    sys.modules["checker"] = package
    spec.loader.exec_module(package)
    main = package.main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
