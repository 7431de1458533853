"""`headrace quorum` on three controllers in this process: a voter is taken out and put in again."""

import json
from collections.abc import Callable
from typing import Any

from command_line import CommandLine
from headrace.services.local_io import local
from waiting import wait_for

QUORUM = {
    "controller_quorum_auto_join_enable": False,  # a removed controller would join again
    "controller_quorum_election_timeout_ms": 500,
    "controller_quorum_fetch_timeout_ms": 1_500,
    "controller_quorum_election_backoff_max_ms": 100,
}


def roles(found: Any) -> dict[int, str]:
    return {each["id"]: each["role"] for each in [*found["voters"], *found["observers"]]}


def test_voter_is_removed_and_added(command_line: CommandLine) -> None:
    """From three down to one, which cannot be removed; errors give the reason."""
    with local(nodes=1, controllers=3, **QUORUM) as cluster:

        def shell(*arguments: str) -> tuple[int, str]:
            code, out, err = command_line.at(cluster.bootstrap)("quorum", *arguments)
            return code, out + err

        def status() -> Any:
            return json.loads(shell("status", "-o", "json")[1])

        before = status()
        follower = next(each for each in before["voters"] if each["role"] == "follower")
        number = str(follower["id"])
        check_errors(shell, follower)

        assert shell("remove-voter", number) == (0, f"removed controller {number} from the voters\n")
        wait_for(lambda: roles(status()).get(follower["id"]) == "observer", "it is an observer")
        assert len(status()["voters"]) == 2
        code, said = shell("remove-voter", number)
        assert (code, f"controller {number} is not a voter" in said) == (3, True)
        code, said = shell("remove-voter", number, "--directory", follower["directory"])
        assert (code, "VoterNotFoundError" in said) == (3, True)

        wait_for(lambda: has_caught_up(status(), follower["id"]), "it has caught up")
        assert shell("add-voter", number, follower["endpoint"]) == (
            0,
            f"added controller {number} to the voters\n",
        )
        wait_for(lambda: sorted(roles(status())) == [1, 2, 3], "three again")
        found = status()
        assert {row["id"]: row["directory"] for row in found["voters"]} == {
            row["id"]: row["directory"] for row in before["voters"]
        }
        assert (
            next(r for r in found["voters"] if r["id"] == follower["id"])["endpoint"] == follower["endpoint"]
        )

        leader = str(found["leader_id"])
        assert shell("remove-voter", leader)[0] == 0, "another one leads then"
        wait_for(lambda: status()["leader_id"] not in (int(leader), -1), "another one leads")
        (other,) = (row["id"] for row in status()["voters"] if row["id"] != status()["leader_id"])
        assert shell("remove-voter", str(other))[0] == 0
        code, said = shell("remove-voter", str(status()["leader_id"]))
        assert (code, "the only voter cannot be removed" in said) == (1, True)
        assert len(status()["voters"]) == 1


def has_caught_up(found: Any, controller_id: int) -> bool:
    return any(row["id"] == controller_id and row["lag"] == 0 for row in found["observers"])


def check_errors(shell: Callable[..., tuple[int, str]], follower: Any) -> None:
    number, endpoint = str(follower["id"]), follower["endpoint"]
    for arguments, code, what in (
        (("remove-voter", "9"), 3, "controller 9 is not a voter"),
        (("remove-voter", "-1"), 2, "-1"),
        (("remove-voter", number, "--directory", "00" * 16), 3, "VoterNotFoundError"),
        (("remove-voter", number, "--directory", "abc"), 2, "32 hex digits"),
        (("add-voter", number, endpoint), 1, f"controller {number} is a voter already"),
        (("add-voter", number, endpoint, "--directory", "00" * 16), 1, "DuplicateVoterError"),
        (("add-voter", "9", endpoint), 3, "start it first"),
        (("add-voter", "9", "nowhere"), 2, "not HOST:PORT"),
        (("add-voter", "9", "a:1,b:2"), 2, "not HOST:PORT"),
        (("add-voter", "9", "host:70000"), 2, "bad port"),
    ):
        found, said = shell(*arguments)
        assert (found, what in said) == (code, True), (arguments, said)
    # no controller has this directory id, so it never catches up: the command times out with the reason
    code, said = shell(
        "add-voter", "9", endpoint, "--directory", "11" * 16, "-X", "default.api.timeout.ms=5000"
    )
    assert (code, "has not caught up" in said) == (1, True), said
