"""Beside: a Spark job that runs while the driver does something else.

Spark gives its cores first to the job that started first. So the caller plans its own job, which
matters more, before it starts the other one. Then its own job is the first, and the other one gets
the cores that are left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Self, TypeVar
from uuid import uuid4

from pyspark import InheritableThread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

_CANCEL_EVERY_S = 0.1


class Beside(Generic[T]):
    """Runs `work`, which starts jobs, in a thread; leaving the block waits for it.

    If the block fails, its jobs are cancelled and their errors ignored.
    """

    def __init__(self, session: SparkSession, work: Callable[[], T]) -> None:
        self._context = session.sparkContext
        self._tag = f"sojourn-{uuid4()}"
        self._work = work
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._thread = InheritableThread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None:
            while self._thread.is_alive():  # a job that starts only now is cancelled, too
                self._context.cancelJobsWithTag(self._tag)
                self._thread.join(_CANCEL_EVERY_S)
        self._thread.join()

    def result(self) -> T:
        """What `work` returned; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _run(self) -> None:
        self._context.addJobTag(self._tag)
        try:
            self._results.append(self._work())
        except BaseException as error:  # it is raised where the result is asked for
            self._error = error


def planned(df: DataFrame) -> DataFrame:
    """The same, whose job starts without delay when it is asked for rows."""
    df._jdf.queryExecution().executedPlan()
    return df
