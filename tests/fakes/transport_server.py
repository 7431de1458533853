"""A server in a separate process, for tests that kill, stop or abandon it. Prints its port.

Usage: transport_server.py [hold]   with `hold` it answers only the handshake.
"""

import sys

from transport_kit import run_for_ever, serving


async def main() -> None:
    async with serving() as served:
        served.is_holding = "hold" in sys.argv
        sys.stdout.write(f"{served.router.port}\n")
        sys.stdout.flush()
        await served.router.run()


if __name__ == "__main__":
    run_for_ever(main())
