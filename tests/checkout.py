"""Where the checkout is: its `docs` and `examples`, and where modules of `tests` are run.

subprocess.run([sys.executable, "-m", "tests.core.misuse"], cwd=ROOT)
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
