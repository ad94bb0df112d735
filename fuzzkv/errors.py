"""Errors with a stable code, the offending value, the reason and the cure.

Every error that a user can meet is a :class:`FuzzkvError`. It carries a stable code, the offending value, the
reason and the cure, and renders as one line::

    FKV001: 'ofload': no policy of this name is registered. Did you mean 'offload'?

:data:`CODES` lists every code with its one meaning; a test checks that no code is used without an entry here.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

EXIT_CLEAN: Final = 0
EXIT_CONFLICT: Final = 1
EXIT_USAGE: Final = 2
EXIT_ENVIRONMENT: Final = 3
EXIT_INTERRUPTED: Final = 130

CODES: Final[dict[str, str]] = {
    # policies and their parameters
    "FKV001": "a policy name that nothing registers",
    "FKV002": "a policy list that is empty or names a policy twice",
    "FKV003": "a policy path pkg.module:Class that cannot be imported",
    "FKV004": "a policy without a manifest, or with one that is not valid",
    "FKV005": "a policy parameter that is unknown, of the wrong type or out of range",
    "FKV006": "a policy version other than the one a case was found with",
    "FKV007": "policies that a candidate can't be gated against: of its own kind only, too many, or with a broken rule",
    # case files and the corpus
    "FKV010": "a case file that does not exist or cannot be read",
    "FKV011": "a case file larger than the limit",
    "FKV012": "a case file that is not valid JSON",
    "FKV013": "a case file nested deeper than the limit",
    "FKV014": "a case that does not follow the shipped schema",
    "FKV015": "a case whose id is not the hash of its content",
    "FKV016": "a case id that is empty or not in the corpus, or a folder without a case",
    "FKV017": "a case id prefix that several cases share",
    "FKV018": "a case or index file that could not be written",
    "FKV019": "a corpus folder that does not exist or is not a folder",
    "FKV020": "a case of a schema version that this release does not know",
    "FKV021": "a corpus index that does not match the case files",
    "FKV022": "a value that has no canonical form (a float, or a key that is not a string)",
    "FKV023": "a case file that is misnamed or not in canonical form",
    "FKV024": "a case that fails no more, so that there is nothing to shrink",
    # options, configuration and schedules
    "FKV030": "an option value out of range or of the wrong form",
    "FKV031": "a choice that is not among those offered",
    "FKV032": "a configuration value of the machine that is unknown or out of range",
    "FKV033": "a schedule event that is not well formed",
    "FKV034": "a schedule event or operation that this release does not know",
    "FKV035": "a primitive or invariant name that the contract does not have",
    "FKV036": "a rule or text that leaves the vocabulary of the contract",
    "FKV037": "a policy's rule that raises while it runs",
    "FKV038": "a policy in ordinary Python where the state alone has to tell what comes next",
    # engines, models and workers
    "FKV050": "no engine is installed, so nothing can be confirmed on a real worker",
    "FKV051": "an engine version that was not tried with this release",
    "FKV052": "a worker that could not start, or died",
    "FKV053": "a worker that did not answer in time",
    "FKV054": "the small language model is not installed or could not be prepared",
    "FKV055": "a broken torchvision, torchaudio or torchcodec left beside torch",
    "FKV056": "a device that the engine does not have",
    "FKV057": "a replay job that is not well formed",
    "FKV058": "a worker's reply that is not well formed",
    "FKV059": "a context of fewer or more pages than a replay has",
    "FKV130": "a model whose vocabulary lacks a word of the recall task",
    "FKV131": "an engine that chose another block size than the replay's",
    "FKV132": "a session whose cached blocks the engine lost during a replay",
    "FKV133": "a number of bits to which a block can't be quantised",
    "FKV134": "a prefix cache that the engine could not empty",
    # the environment
    "FKV060": "a disk that is full or a folder that cannot be written",
    "FKV061": "a Python or library version that is too old",
    "FKV062": "a part of fuzzkv or a library that is not installed",
    # statistics
    "FKV070": "counts or a sample that a statistic is not defined for",
    "FKV071": "a thresholds file that is not valid",
    "FKV072": "too few samples for the claim",
    "FKV073": "two interpreters of the semantics that disagree on a schedule",
    "FKV076": "an acceptance file that can not be read",
    "FKV075": "a cache folder that can not be written",
    "FKV074": "a policy without a kept acceptance at its parameters",
    # verdicts and reports
    "FKV081": "a report that could not be written",
    # live engines
    "FKV100": "live policies that want different values of one setting of the engine",
    "FKV101": "a case of another target than the one that it is read for",
    "FKV102": "a live policy that fails alone under some schedules",
    "FKV103": "a live policy that this build of the engine lacks, or in which it does nothing",
    "FKV104": "a host tier that stored pages and never served one, though prompts came back",
    "FKV105": "a case of a live engine without the page-event log that it would be explained from",
    "FKV106": "a failure that a second run of the same schedule doesn't show",
    "FKV107": "a command that the target of a case can't do",
    # the live engine as a target
    "FKV110": "KV pages whose layout this build does not show, so that they can't be read",
    # code that plugs into the engine
    "FKV120": "an object of the engine whose calls can't be watched",
    "FKV121": "a class that is no cache policy, offloading spec or KV connector of the engine",
    # environments of targets
    "FKV135": "an environment of a target that can't be made, or in which nothing can run",
    "FKV136": "a fuzzkv.toml, or a [tool.fuzzkv], that is not valid",
    # never the user's fault
    "FKV090": "an internal fault of fuzzkv",
}


class FuzzkvError(Exception):
    """An error that names the value, why it is wrong and what to do.

    Parameters (keyword-only): ``code`` is a key of :data:`CODES`; ``value`` the offending value or a name
    for it (file, option, policy); ``reason`` why it is wrong, without a full stop; ``cure`` what to do, one
    sentence or more. ``exit_code`` (class attribute) is what the command line returns.
    """

    exit_code: ClassVar[int] = EXIT_USAGE

    def __init__(self, *, code: str, value: object, reason: str, cure: str) -> None:
        self.code = code
        self.value = value
        self.reason = reason
        self.cure = cure
        super().__init__(self.render())

    def render(self) -> str:
        """The error on one line: ``CODE: value: reason. cure``."""
        reason = self.reason.rstrip(". ")
        stop = "" if reason.endswith(("?", "!")) else "."
        return f"{self.code}: {self.value}: {reason}{stop} {self.cure}".rstrip()

    def as_dict(self) -> dict[str, str]:
        """The error as plain data, for machine-readable reports."""
        return {"code": self.code, "value": str(self.value), "reason": self.reason, "cure": self.cure}

    def __reduce__(self) -> tuple[Callable[..., FuzzkvError], tuple[Any, ...]]:
        # Keyword-only arguments would break the default pickling, and errors do cross process borders.
        return _rebuild, (type(self), self.code, str(self.value), self.reason, self.cure)


class UsageError(FuzzkvError):
    """Wrong use, configuration or input: exit code 2."""

    exit_code: ClassVar[int] = EXIT_USAGE


class EnvironmentFailure(FuzzkvError):
    """The environment failed (engine, worker, disk), or the run proves nothing: exit code 3."""

    exit_code: ClassVar[int] = EXIT_ENVIRONMENT


def _rebuild(cls: type[FuzzkvError], code: str, value: str, reason: str, cure: str) -> FuzzkvError:
    return cls(code=code, value=value, reason=reason, cure=cure)


def did_you_mean(value: str, choices: Iterable[str]) -> str:
    """A cure for a typo: the nearest choice, or the list of choices where none is near.

    >>> did_you_mean("ofload", ["offload", "quant"])
    "Did you mean 'offload'?"
    >>> did_you_mean("zzz", ["offload", "quant"])
    'Choose from: offload, quant.'
    """
    names = sorted(set(choices))
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(value.casefold(), list(folded), n=1, cutoff=0.6)
    if near:
        return f"Did you mean {folded[near[0]]!r}?"
    if not names:
        return "There is nothing to choose from."
    return f"Choose from: {', '.join(names)}."
