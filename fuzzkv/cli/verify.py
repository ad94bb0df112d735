"""``fuzzkv verify`` and ``fuzzkv shrink``: the solver on a composition of policies, and on one case."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fuzzkv.cli.pages import examples
from fuzzkv.cli.shared import (
    Live,
    allow_option,
    allowed,
    console,
    contract_option,
    corpus_option,
    device_option,
    invariant_names,
    max_time_option,
    no_color_option,
    output_options,
    policies_option,
    say,
)
from fuzzkv.errors import EXIT_CLEAN, EXIT_ENVIRONMENT, UsageError
from fuzzkv.policies import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuzzkv.semantics.policy import Policy
    from fuzzkv.solver.certify import Certificate
    from fuzzkv.solver.record_bounds import BoundRecorder
    from fuzzkv.solver.verify import Refuted, SetVerdict, Verified


@click.command(
    epilog=examples("fuzzkv verify --max-time 60s", "fuzzkv verify --contract enforce --max-time 10m")
)
@policies_option(",".join(DEFAULT))
@click.option(
    "--pages", type=click.IntRange(1, 8), default=6, show_default=True, help="Pages of a session, at most."
)
@click.option(
    "--requests", type=click.IntRange(1, 2), default=1, show_default=True, help="Sessions at once, at most."
)
@contract_option
@click.option("--faults", is_flag=True, help="Failed and late copies and ends of sessions as well.")
@max_time_option("30s", "Time for all sets together")
@click.option("--fresh", is_flag=True, help="Learn nothing from the corpus: everything is found anew.")
@click.option(
    "--keep",
    is_flag=True,
    help="Write what is shown of the lengths of the corpus's cases into it, as soon as it is.",
)
@corpus_option
@no_color_option
@output_options
def verify(
    policies: str,
    pages: int,
    requests: int,
    contract: str,
    faults: bool,
    max_time: str,
    fresh: bool,
    keep: bool,
    corpus: Path,
    no_color: bool,
) -> None:
    """Ask the solver whether policies break together, or prove they can't.

    Classes come from the corpus, a short compiled search and the solver's search of every schedule, event by event; each
    is run on the machine before it counts, and the solver is asked whether its schedule is the shortest. What it showed is
    kept in the corpus with --keep, and not asked again. Exit 1: a class is refuted; 3: nothing was, up to the depth that
    is printed, which proves nothing beyond it.

    With --contract enforce every invariant is proved instead, for schedules of any length, or the answer is unknown. Exit
    0: all are proved; 3: some aren't.
    """
    from fuzzkv.core.options import parse_policies, parse_seconds
    from fuzzkv.policies.registry import resolve
    from fuzzkv.semantics.schedule import Config
    from fuzzkv.simulator.symbolic.scope import Window
    from fuzzkv.solver.verify import Verification

    chosen = resolve(parse_policies(policies))
    if contract == "enforce":
        if keep:
            raise UsageError(
                code="FKV030",
                value="--keep",
                reason="with the contract enforced no case's length is looked at, so there is nothing to keep",
                cure="Leave out --keep, or --contract enforce.",
            )
        sys.exit(_prove(chosen, parse_seconds(max_time), no_color))
    config = Config()
    window = Window(
        requests=requests, pages=pages, device=config.device_frames, host=max(1, config.host_frames)
    )
    if not fresh and corpus.is_dir():
        from fuzzkv.cases.corpus import scan_corpus

        for error in scan_corpus(corpus)[1]:
            click.echo(f"left out: {error.render()}", err=True)
    live = Live()
    verification = Verification(chosen, config, window, faults=faults, tell=live)
    keeping = None
    if keep:
        from fuzzkv.solver.record_bounds import BoundRecorder

        keeping = BoundRecorder(verification, corpus)
        verification.settled = keeping.add
    result = verification.run(parse_seconds(max_time), None if fresh else corpus, seeded=True)
    live.end()
    if keeping is not None:
        for found in result.conflicts:
            keeping.add(found)
    _print(result, no_color)
    if keeping is not None:
        say(console(no_color), _kept(keeping))
    if result.interrupted:
        click.echo("Interrupted: this is what was known by then.", err=True)
    sys.exit(result.exit_code)


def _kept(keeping: BoundRecorder) -> str:
    from fuzzkv.core.glossary import counted

    noted = f"kept in {keeping.corpus}: {counted(len(keeping.noted), 'length')} shown to be the shortest"
    return noted + "".join(f"; a shorter case, {case}" for case in keeping.filed)


def _prove(policies: Sequence[Policy], seconds: float, no_color: bool) -> int:
    from fuzzkv.solver.induction import prove

    live = Live()
    began = time.monotonic()
    proofs = prove(policies, seconds=seconds, tell=lambda text, done, of: live(f"{text}: {done} of {of}"))
    live.end()
    out = console(no_color)
    window = proofs.window
    say(
        out,
        f"{' + '.join(proofs.policies)}, contract enforced, schedules of any length; {window.requests} x {window.pages} "
        f"pages, {window.device} device and {window.host} host frames, {window.copies} copies in flight",
    )
    for proof in proofs.proofs:
        name = invariant_names()[proof.invariant]
        whom = f" for {proof.breadth}" if proof.breadth not in (None, "nobody") else ""
        remark = "; nothing here can touch it" if proof.breadth == "nobody" else ""
        gaps = (
            "" if proof.verdict == "proved" else f": {proof.gaps[0].text} may break it" if proof.gaps else ""
        )
        say(out, f"  {proof.invariant:<4} {name:<17} {proof.verdict}{whom}{remark}{gaps}")
    say(out, "premises: " + " ".join(proofs.premises))
    proved = sum(proof.verdict == "proved" for proof in proofs.proofs)
    took = time.monotonic() - began
    say(out, f"{proved} of {len(proofs.proofs)} invariants proved, {proofs.goals} goals ({took:.0f} s)")
    return EXIT_CLEAN if proved == len(proofs.proofs) else EXIT_ENVIRONMENT


def _print(result: Verified, no_color: bool) -> None:
    out = console(no_color)
    window = result.window
    say(
        out,
        f"window: {window.requests} x {window.pages} pages, as many device frames at most, {window.copies} copies in flight; "
        "no idle time before the first act or session",
    )
    for each in result.sets:
        say(out, _line(each))
        for found in each.refuted:
            say(out, _class(found))
    count = len(result.conflicts)
    shortest = sum(found.settled for found in result.conflicts)
    classes = "class" if count == 1 else "classes"
    say(
        out,
        f"{count} {classes} of conflict, {shortest} of them shown to be at their shortest ({result.seconds:.0f} s)",
    )


def _line(each: SetVerdict) -> str:
    safe = "nothing found"
    if each.refuted:
        safe = (
            f"every schedule of up to {each.depth} events holds nothing else"
            if each.depth
            else "no depth was gone through"
        )
    spurious = f", {each.spurious} spurious of {each.questions}" if each.spurious else ""
    return f"{' + '.join(each.policies)}: {each.verdict}: {safe}; ended by the {each.ending}{spurious}"


_STANDING = {
    "proved": "the shortest in this window",
    "kept": "the shortest in this window, as shown before",
    "certified": "certified: the shortest on the whole machine",
    "known": "a shorter one isn't excluded",
}


def _class(found: Refuted) -> str:
    invariant, actor, primitive = found.target
    what = f"{invariant} ({invariant_names()[invariant]}) by {actor or 'nobody'}, {primitive}"
    standing = _STANDING[found.shortest]
    if found.needs is not None and found.shortest in ("proved", "kept"):
        standing = "none in this window is shorter; this one needs {} x {} pages".format(*found.needs)
    head = f"  {what}: {len(found.events)} events, {standing}"
    if found.case:
        return f"{head} ({found.case})"
    from fuzzkv.semantics.schedule import Schedule

    rows = Schedule(found.policies, found.events).as_json()
    return f"{head}\n    {'; '.join(' '.join(str(x) for x in row) for row in rows)}"


@click.command(epilog=examples("fuzzkv shrink S2", "fuzzkv shrink fkv-65e04cb4a865 --certify"))
@click.argument("case")
@click.option("--certify", is_flag=True, help="Let the solver show that there is none shorter.")
@max_time_option("10m", "Time for the solver")
@click.option(
    "--target",
    default=None,
    help="Of a case of a live engine: as of hunt.  [default: the release that it was found on]",
)
@device_option
@allow_option
@corpus_option
@no_color_option
@output_options
def shrink(
    case: str,
    certify: bool,
    max_time: str,
    target: str | None,
    device: str,
    policies: str,
    corpus: Path,
    no_color: bool,
) -> None:
    """Shrink a CASE again, or certify that none is shorter.

    CASE is an id, a file or a label. A shorter schedule of its class is filed beside it. With --certify the solver looks
    for one with fewer events until it has shown that there is none, and that no smaller set of the policies shows the
    class: then the case is certified. Exit 0: filed; 3: the solver couldn't tell in time, and the case says how far it came.
    A case of a live engine is shrunk on the engine; there is no certificate of one (exit 2).
    """
    from fuzzkv.cases.corpus import find_path, is_live, load_case, save_case, write_index
    from fuzzkv.core.options import parse_seconds
    from fuzzkv.solver.certify import certify as ask
    from fuzzkv.solver.certify import filed, outdone, shrunk

    path = find_path(case, corpus)
    old = load_case(path)
    if is_live(old) and certify:
        from fuzzkv.targets.base import require
        from fuzzkv.targets.vllm.target import CAN

        require(CAN, "certify", old["id"])
    chosen = () if is_live(old) else allowed(policies)
    if is_live(old):
        from fuzzkv.cli.live import shrink_one

        new = dict(shrink_one(old, target, device, policies))
    else:
        new = shrunk(old, chosen)
    certificate = None
    if certify:
        live = Live()
        certificate = ask(new, chosen, seconds=parse_seconds(max_time), tell=live)
        live.end()
        new = filed(new, certificate, chosen)
    folder = path.parent
    saved = save_case(new, folder)
    if certificate is not None and saved.case["id"] != old["id"]:
        save_case(outdone(old, saved.case, certificate), folder)
    write_index(folder)
    say(console(no_color), _told(old["id"], len(old["schedule"]), saved.case["id"], certificate, new))
    sys.exit(EXIT_CLEAN if certificate is None or certificate.certified else EXIT_ENVIRONMENT)


def _told(old: str, before: int, new: str, certificate: Certificate | None, case: dict[str, object]) -> str:
    after = len(case["schedule"])  # type: ignore[arg-type]
    lines = [f"{old}: {before} events; none of our passes makes it shorter"]
    if new != old:
        lines = [f"{new}: {after} events, filed beside {old} with its {before}"]
    if certificate is not None:
        verdict = "certified" if certificate.certified else "not certified"
        lines.append(f"{verdict} ({certificate.seconds:.0f} s): {certificate.reason}")
    return "\n".join(lines)
