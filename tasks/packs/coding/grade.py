"""grade.py PROJECT STEP: run the hidden tests of steps 1 to STEP on the project's module in the current folder, and print passed if all do."""

import sys
import unittest
from pathlib import Path

project, step = sys.argv[1], int(sys.argv[2])
# The module comes last, so that no file beside it can stand in for the tests or the standard library.
sys.path[:0] = [str(Path(__file__).resolve().parent / project)]
sys.path.append(str(Path.cwd()))
names = [f"hidden_{number}" for number in range(1, step + 1)]
result = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromNames(names))
if result.wasSuccessful() and result.testsRun:
    print("passed")
