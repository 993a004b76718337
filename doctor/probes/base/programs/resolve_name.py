"""Child program: resolve a host name (argument 1), or fetch the head of a URL (arguments: --fetch URL)."""

from __future__ import annotations

import json
import socket
import sys


def main() -> None:
    """Print the addresses, or the status of the answer."""
    if sys.argv[1] == "--fetch":
        import urllib.error
        import urllib.request

        request = urllib.request.Request(sys.argv[2], method="HEAD")  # noqa: S310 - the caller gives https only
        try:
            with urllib.request.urlopen(request, timeout=8) as answer:  # noqa: S310 - same
                print(json.dumps({"status": answer.status}))
        except urllib.error.HTTPError as error:
            print(json.dumps({"status": error.code}))  # a mirror that refuses HEAD is there all the same
        return
    found = socket.getaddrinfo(sys.argv[1], None, type=socket.SOCK_STREAM)
    print(json.dumps({"addresses": sorted({str(row[4][0]) for row in found})}))


if __name__ == "__main__":
    main()
