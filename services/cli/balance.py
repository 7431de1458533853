"""`headrace balance`: what would move and what it costs; then the moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...protocol.errors import ConfigError
from .admin import open_admin, raise_first
from .common import (
    PartialFailureError,
    Settings,
    bootstrap_option,
    changing_command,
    cluster_option,
    config_option,
    form_option,
)
from .completion import node_ids, topic_names
from .output import note, print_object, print_rows, size_text, write_line
from .progress import BYTES, progress_bar, quiet_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...clients.sync.admin_io import Admin
    from ..balance.execution import Outcome
    from ..balance.model import Facts, Imbalance, Limits, Plan, Spread
    from ..balance.requests import Pace

_MOVES = ("topic", "partition", "from", "to", "copies", "goal")
_GOALS = ("goal", "before", "after", "smallest", "mean", "largest")
SAMPLE_S = 2.0


def pace_options(command: Any) -> Any:
    """--throttle, --max-concurrent and --patience."""
    for option in reversed(
        (
            click.option(
                "--throttle",
                type=click.IntRange(min=1),
                metavar="BYTES",
                help="Limit of each node for sending, and for fetching, moved replicas, in bytes per second.",
            ),
            click.option(
                "--max-concurrent",
                type=click.IntRange(min=1),
                default=10,
                show_default=True,
                help="Partitions that move at the same time.",
            ),
            click.option(
                "--patience",
                "patience_s",
                type=click.FloatRange(min=1),
                default=60.0,
                show_default=True,
                help="Seconds to wait for a node or controller that is gone, before its moves are cancelled.",
            ),
        )
    ):
        command = option(command)
    return command


@click.command()
@click.argument("action", required=False, type=click.Choice(["cancel"]))
@click.option("--execute", "is_executed", is_flag=True, help="Carry out the moves.")
@click.option("--watch", "is_watching", is_flag=True, help="Keep the cluster balanced, until interrupted.")
@click.option("--max-moves", type=click.IntRange(min=1), metavar="N", help="Change at most N partitions.")
@pace_options
@click.option(
    "-t",
    "--topic",
    "topics",
    metavar="NAME",
    multiple=True,
    shell_complete=topic_names,
    help="Move only partitions of this topic; repeatable.",
)
@click.option(
    "--node",
    "nodes",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="ID",
    shell_complete=node_ids,
    help="Move only from or to this node; repeatable.",
)
@click.option(
    "--exclude-node",
    "excluded",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="ID",
    shell_complete=node_ids,
    help="Move nothing from or to this node; repeatable.",
)
@click.option(
    "--goal",
    "goals",
    type=click.Choice(["rack", "replicas", "disk", "leaders", "traffic"]),
    multiple=True,
    help="Work only on this goal; repeatable [default: all, in this order].",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0.01, max=1),
    default=0.1,
    show_default=True,
    help="How far disk usage and traffic of a node may be from the mean, as a share of it.",
)
@click.option(
    "--sample",
    "sample_s",
    type=click.FloatRange(min=0, max=3600),
    default=SAMPLE_S,
    show_default=True,
    metavar="SECONDS",
    help="How long the traffic is measured; 0 leaves it out.",
)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    help="Seconds between the rounds of --watch.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(min=0.02),
    default=0.25,
    show_default=True,
    help="With --watch: the imbalance that begins moves, as a share of the mean; --tolerance ends them.",
)
@click.option(
    "--settle",
    "settle_s",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    help="With --watch: seconds for which the cluster must have been healthy.",
)
@changing_command(bootstrap_option, cluster_option, config_option, form_option, quiet_option)
def balance(settings: Settings, *, action: str | None, is_executed: bool, **options: Any) -> None:
    """Propose moves that balance the cluster, with their cost; --execute carries them out.

    The goals in order: racks of each partition, replicas per node, disk usage, leaders, traffic. Without
    --execute nothing moves. `headrace balance cancel` cancels moves in progress and removes their throttles.
    """
    if options["is_watching"] and (is_executed or action):
        raise click.UsageError("--watch excludes --execute and cancel")
    if options["is_watching"] and options["threshold"] <= options["tolerance"]:
        raise click.UsageError("--threshold must be larger than --tolerance")
    limits = _limits(options)
    with open_admin(settings, settings.client_config()) as admin:
        if action == "cancel":
            _cancel(admin, settings, limits)
        elif options["is_watching"]:
            _watch(admin, limits, options)
        else:
            _once(admin, settings, limits, options, is_executed=is_executed)


def _once(
    admin: Admin, settings: Settings, limits: Limits, options: dict[str, Any], *, is_executed: bool
) -> None:
    from ..balance.execution import settle
    from ..balance.facts_io import facts_of
    from ..balance.planner import plan
    from ..balance.requests_io import AdminRequests, drive

    pace = pace_of(options)
    if is_executed:
        drive(settle(pace), AdminRequests(admin, note).perform)
    with progress_bar("measuring traffic"):
        facts = facts_of(admin, options["sample_s"])
    check_nodes(facts, (*limits.nodes, *limits.excluded))
    made = plan(facts.snapshot, limits, with_dirs=True)
    show_plan(settings, made, pace.throttle)
    left_out = sum(not each.is_movable for each in facts.snapshot.partitions)
    if left_out:
        note(f"{left_out} partitions are left out: not all their replicas are in sync, or they move already")
    if not made.moves and not made.dir_moves:
        note("nothing to move")
    elif is_executed:
        problem = facts.health.problem()
        if problem:
            note(f"warning: {problem}")
        execute(admin, made, pace, "headrace balance --execute")
    else:
        note("nothing was moved; --execute carries this out")


def _watch(admin: Admin, limits: Limits, options: dict[str, Any]) -> None:
    from ..balance.requests_io import AdminRequests, drive
    from ..balance.watching import Thresholds, Watch

    pace = pace_of(options)
    thresholds = Thresholds(
        options["threshold"],
        settle_s=options["settle_s"],
        interval_s=options["interval_s"],
        sample_s=options["sample_s"],
    )

    def carry_out(made: Plan) -> Outcome:
        return execute(admin, made, pace, "headrace balance --watch")

    drive(Watch(limits, thresholds, pace).steps(), AdminRequests(admin, note, carry_out=carry_out).perform)


def pace_of(options: dict[str, Any]) -> Pace:
    """The pace of the options of `pace_options`."""
    import time

    from ..balance.requests import Pace

    return Pace(time.monotonic, options["throttle"], options["max_concurrent"], options["patience_s"])


def check_nodes(facts: Facts, named: Iterable[int]) -> None:
    """Errors: ConfigError for a node that is not registered."""
    known = {node.node_id for node in facts.snapshot.nodes}
    for node_id in named:
        if node_id not in known:
            raise ConfigError(f"node {node_id} is not registered: the nodes are {sorted(known)}")


def show_plan(settings: Settings, made: Plan, throttle: int | None) -> None:
    """The moves, their cost, and the imbalance by goal."""
    moves = [_move_row(each) for each in made.moves]
    dirs = [
        {
            "topic": each.place.topic,
            "partition": each.place.partition,
            "node": each.node_id,
            "from": each.before,
            "to": each.after,
            "bytes": each.size_bytes,
        }
        for each in made.dir_moves
    ]
    goals = goal_rows(made.before, made.after)
    seconds = made.duration_s(throttle)
    copied = made.copied_bytes
    if not settings.is_text:
        print_object(
            {
                "moves": moves,
                "dir_moves": dirs,
                "copied_bytes": copied,
                "expected_s": None if seconds is None else round(seconds, 1),
                "goals": goals,
                "stuck": {str(place): why for place, why in made.stuck.items()},
            },
            settings.form,
        )
        return
    if moves:
        print_rows([{**row, "copies": size_text(row["copies"])} for row in moves], _MOVES, "text")
        write_line("")
    if dirs:
        rows = [
            {**row, "bytes": size_text(each.size_bytes)}
            for row, each in zip(dirs, made.dir_moves, strict=True)
        ]
        print_rows(rows, ("topic", "partition", "node", "from", "to", "bytes"), "text")
        write_line("")
    print_rows([_shown(row) for row in goals], _GOALS, "text")
    write_line("")
    took = "without a throttle" if seconds is None else f"at least {duration_text(seconds)} at the throttle"
    write_line(f"{len(moves)} partitions change, {size_text(copied)} are copied between nodes, {took}")


def goal_rows(before: Imbalance, after: Imbalance) -> list[dict[str, Any]]:
    """One row per goal: the imbalance before and after, and how the quantity is spread after."""
    rows: list[dict[str, Any]] = [
        {"goal": "rack", "before": before.rack_misses, "after": after.rack_misses, "unit": "missing racks"}
    ]
    for goal, unit in (
        ("replicas", "replicas per node"),
        ("disk", "share of the disks"),
        ("leaders", "leaders per node"),
        ("traffic", "bytes per second"),
    ):
        then: Spread = getattr(before, goal)
        now: Spread = getattr(after, goal)
        rows.append(
            {
                "goal": goal,
                "before": round(then.imbalance, 4),
                "after": round(now.imbalance, 4),
                "smallest": now.smallest,
                "mean": now.mean,
                "largest": now.largest,
                "unit": unit,
            }
        )
    return rows


def execute(admin: Admin, made: Plan, pace: Pace, again: str, *, ignored: Iterable[int] = ()) -> Outcome:
    """Carry out a plan with a progress bar. Errors: PartialFailureError; KeyboardInterrupt, after a message
    that says how to continue with the command `again`."""
    from ..balance.dir_runner_io import move_dirs
    from ..balance.execution import Execution
    from ..balance.requests_io import AdminRequests, drive

    failed: dict[str, str] = {}
    total = made.copied_bytes + sum(each.size_bytes for each in made.dir_moves)
    with progress_bar("moving replicas", total, BYTES) as advance:
        execution = Execution(made.moves, pace, advance, ignored=ignored)
        try:
            outcome = drive(execution.steps(), AdminRequests(admin, note).perform)
            if not outcome.stopped_by:
                failed = move_dirs(admin, made.dir_moves, pace, advance)
        except BaseException:
            _say(execution.outcome, len(made.moves))
            if execution.outcome.is_clean:
                note(f"moves in progress were cancelled and throttles removed; `{again}` continues")
            else:
                note(
                    "moves may still be in progress, and throttles set: `headrace balance cancel` removes"
                    f" both, `{again}` waits for the moves and continues"
                )
            raise
    _say(outcome, len(made.moves))
    failed |= {str(place): why for place, why in outcome.failed.items()}
    for name, why in failed.items():
        note(f"headrace: {name}: {why}")
    if outcome.stopped_by:
        note(f"stopped: {outcome.stopped_by}; `{again}` continues")
    if failed or outcome.left:
        count = len(failed) + len(outcome.left)
        raise PartialFailureError(f"{count} of {len(made.moves) + len(made.dir_moves)} moves were not done")
    return outcome


def duration_text(seconds: float) -> str:
    """Seconds in words, such as 2 h 5 min."""
    if seconds < 60:
        return f"{max(seconds, 1):.0f} s"
    minutes, hours = round(seconds / 60), int(seconds // 3600)
    return f"{minutes} min" if not hours else f"{hours} h {round(seconds % 3600 / 60)} min"


def _say(outcome: Outcome, total: int) -> None:
    note(f"{len(outcome.done)} of {total} partitions are done")


def _cancel(admin: Admin, settings: Settings, limits: Limits) -> None:
    from ..balance.execution import cancel_all
    from ..balance.requests_io import AdminRequests, drive

    count, refused = drive(cancel_all(limits.topics), AdminRequests(admin, note).perform)
    if settings.form != "text":
        print_object({"cancelled": count - len(refused)}, settings.form)
    note(f"cancelled {count - len(refused)} moves, and removed the throttles of replication")
    raise_first({str(place): error for place, error in refused.items()}, count, "moves")


def _limits(options: dict[str, Any]) -> Limits:
    from ..balance.model import GOALS, Limits

    both = set(options["nodes"]) & set(options["excluded"])
    if both:
        raise click.UsageError(f"node {min(both)} is given with --node and with --exclude-node")
    goals: tuple[str, ...] = options["goals"]
    return Limits(
        frozenset(options["topics"]) or None,
        frozenset(options["nodes"]),
        frozenset(options["excluded"]),
        max_moves=options["max_moves"],
        tolerance=options["tolerance"],
        goals=tuple(goal for goal in GOALS if not goals or goal in goals),
    )


def _move_row(move: Any) -> dict[str, Any]:
    return {
        "topic": move.place.topic,
        "partition": move.place.partition,
        "from": list(move.before),
        "to": list(move.after),
        "copies": move.copied_bytes,
        "goal": move.goal,
    }


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a goal as text."""
    goal = row["goal"]
    if goal == "rack":
        return {**row, "before": f"{row['before']} missing", "after": f"{row['after']} missing"}
    form: Callable[[float], str] = {
        "disk": lambda value: f"{value:.2%}" if value <= 1 else size_text(value),
        "traffic": lambda value: f"{size_text(value)}/s",
    }.get(goal, lambda value: f"{value:.1f}".removesuffix(".0"))
    texts = {name: form(row[name]) for name in ("smallest", "mean", "largest")}
    return {**row, "before": f"{row['before']:.1%}", "after": f"{row['after']:.1%}", **texts}
