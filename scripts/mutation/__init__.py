"""`make mutants`: change the sources in small ways, one at a time, and see whether a test fails.

    python -m scripts.mutation [MODULE]… [--match TEXT] [--sample N --seed S] [--jobs N] [--again]

A change that no test notices, a survivor, is a gap in the tests, or makes no difference to anybody;
then `explained.toml` says why. `modules.toml` says what is changed and which tests judge it.

    mutants.py    the changes, from the syntax tree of a source
    reach.py      which tests run which lines, so that a mutant is judged only by tests that run it
    trial.py      runs of tests in forked processes, with limits
    stage.py      how a mutant comes to stand where its module was
    score.py      the results on disk, the explanations, the report

Why not mutmut or cosmic-ray, which are both maintained (3.8 and 8.7 as of 2026). cosmic-ray writes
each mutant into the source file and starts a new pytest for it. Here that takes two seconds of
processor time before the first test runs; and each mutant that is tried at the same time needs a
copy of the tree. mutmut forks a warm process, as we do. But it chooses a mutant when a function is
called, by a wrapper. So it changes nothing outside functions, and no function with a decorator,
which leaves out every property and setter here. It also does not know that `if cython.compiled` is
always false in the build it tests: every mutant in there would survive, unless each of about thirty
places in the sources gets a pragma.
"""
