"""Errors of the lab. A coded one is the user's or the machine's; an uncoded one is a failed step."""


class LabError(Exception):
    """A usage or environment problem: exit code 2."""

    def __init__(self, code: str, what: str, next_step: str) -> None:
        """Keep *what* was found (with the value seen) and the *next_step* to take."""
        super().__init__(f"[{code}] {what}. {next_step}")
        self.code = code


class StepError(Exception):
    """A step that should have worked did not: exit code 1; the text names the log file."""
