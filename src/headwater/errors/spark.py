"""What can go wrong with Spark's processes, and what these report to the driver."""

from __future__ import annotations

from headwater.errors.kinds import Determinate, ExternalError, InternalError, UsageError


class SparkNotStarted(ExternalError):
    """Spark's Java virtual machine did not come up."""

    code = "spark_not_started"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Spark could not be started: {reason}.",
            hint="Spark needs Java 17 or newer: install it, or set JAVA_HOME to its location.",
        )
        self.reason = reason


class SparkStopped(Determinate):
    """The Java process that runs the views is gone; the batch that it was in has not happened."""

    code = "spark_stopped"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Spark's Java process does not answer: {reason}.",
            hint="Nothing is lost: run the application again. If it stops again, check whether memory is running out.",
        )
        self.reason = reason


class WorkerLost(Determinate):
    """A process that works for Spark is gone; the batch that it was in has not happened."""

    code = "worker_lost"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Spark lost a worker process: {reason}.",
            hint="Nothing is lost: run the application again. If that repeats, check whether memory is running out.",
        )
        self.reason = reason


class FunctionFailed(UsageError):
    """What a function raised, as a worker reports it: the driver finds the function's name in the text."""

    code = "function_failed"


class OperatorFailed(UsageError):
    """What a kernel refuses, as a worker reports it: the driver finds the operator in the text."""

    code = "operator_failed"


class OperatorBroken(InternalError):
    """A bug that a kernel noticed, as a worker reports it: the driver finds the operator in the text."""

    code = "operator_broken"
