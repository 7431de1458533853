"""Fuzz a running cluster for a while: `make fuzz SECONDS=600 SEED=7 KIND=requests FIRST=320`.

Prints the seed and where it is, so that a case that ends the process can be played again; ends in one line of
result and exits with 1 if a law was broken.
"""

import argparse
import asyncio
import logging
import sys
import time
import traceback
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "fakes")]

from fuzzing import LOT, Fuzzer, fuzzed_cluster  # noqa: E402
from headrace.runtime.loop_io import new_event_loop  # noqa: E402
from hostile_rig import MIB, Probe, rss_bytes  # noqa: E402
from logins import LOGIN_KINDS, LoginFuzzer, probe_of, secured_cluster  # noqa: E402

# Bound: of what the allocator and the kernel's caches of a process keep over any number of cases.
MAX_GROWTH_BYTES = 256 * MIB


async def fuzz(fuzzer: Fuzzer | LoginFuzzer, kinds: list[str], seed: int, first: int, seconds: float) -> int:
    """How many cases there were. Errors: whatever breaks a law."""
    await fuzzer.prepare()
    cases, growth_from = 0, 0
    ends_at = time.monotonic() + seconds
    number = first
    while time.monotonic() < ends_at:
        for kind in kinds:
            print(f"{kind} from {number}", end="   \r", flush=True)
            try:
                await fuzzer.lot(kind, seed, number)
            except BaseException:
                print(f"\nthis again: make fuzz KIND={kind} SEED={seed} FIRST={number} SECONDS=1")
                raise
            cases += LOT
        number += LOT
        growth_from = growth_from or rss_bytes()
        growth = rss_bytes() - growth_from
        assert growth < MAX_GROWTH_BYTES, f"{growth / MIB:.0f} MiB more memory after {cases} cases"
    return cases


def main() -> int:
    """Parse the arguments, fuzz, print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    more = f"at a cluster with users: logins for all of {', '.join(LOGIN_KINDS)}, or one of them"
    parser.add_argument("--kind", help=f"valid, frames, requests, own or batches; else all in turn; {more}")
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    logging.getLogger("headrace").setLevel(logging.ERROR)  # that requests are bad is no news

    async def attack(fuzzer: Fuzzer | LoginFuzzer, probe: Probe) -> int:
        await probe.prepare()
        kinds = [args.kind] if args.kind in fuzzer.kinds else list(fuzzer.kinds)
        return await fuzz(fuzzer, kinds, args.seed, args.first, args.seconds)

    has_users = args.kind in ("logins", *LOGIN_KINDS)
    new_cluster = secured_cluster if has_users else fuzzed_cluster
    with new_cluster() as cluster, asyncio.Runner(loop_factory=new_event_loop) as runner:
        probe = probe_of(cluster) if has_users else Probe(cluster)
        before = rss_bytes()
        fuzzer = LoginFuzzer(cluster, probe) if has_users else Fuzzer(cluster, probe)
        try:
            cases = runner.run(attack(fuzzer, probe))
        except Exception:  # noqa: BLE001 -- a bug may raise anything; it is shown
            traceback.print_exc()
            print(f"fuzz: FAILED, seed {args.seed}")
            return 1
        growth = (rss_bytes() - before) / MIB
    print(f"fuzz: ok, {cases} cases, seed {args.seed}, {growth:.0f} MiB more than at the start")
    return 0


if __name__ == "__main__":
    sys.exit(main())
