"""How much may be sent to an address before it has shown that it receives what is sent there.

The source of a datagram can be forged. Who answers, and sends requests again until they are
confirmed, would send to a stranger many times what the forger spent. So, as in QUIC, an address
that has proved nothing is sent at most FACTOR times the bytes that came from it. It proves itself
by confirming a request of ours, whose transmission id can't be guessed, or by repeating a token
that was sent to it. From then on there is no limit, until a request to it is given up: then
nobody is there, or it is another by now, and it has to prove itself again.

What is not sent for lack of credit is as good as lost on the way. It is sent again when its time
comes, and whatever the peer says meanwhile is credit.

**Addresses of this host** (loopback) can't be forged from elsewhere: systems drop packets that
come in from outside with such a source. There answers and the first copy of each request always
go out, since a client of the plain dialogue adds a task with a hundred bytes, may get a thousand
back, and says nothing meanwhile. Only what is sent again is limited, to the same credit and one
large packet more.

Memory is bounded. Addresses that proved themselves are kept apart, so that a flood of forged ones
pushes out none of them. Pure: no clock, no socket. Spec: docs/spec/udp.md.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address

from shunter.wire.udp.peers import UdpAddress

FACTOR = 3
LOOPBACK_CREDIT = 1200
MAX_ADDRESSES = 50_000
"""So many are remembered of each kind; who was forgotten begins anew."""


class _Account:
    __slots__ = ("credit", "is_loopback")

    def __init__(self, *, is_loopback: bool) -> None:
        self.is_loopback = is_loopback
        self.credit = LOOPBACK_CREDIT if is_loopback else 0


class AddressValidation:
    """What came from each address, what may still go there, and which have proved themselves."""

    def __init__(self, *, max_addresses: int = MAX_ADDRESSES) -> None:
        self._max_addresses = max_addresses
        self._unproven: OrderedDict[UdpAddress, _Account] = OrderedDict()
        self._proven: OrderedDict[UdpAddress, _Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._unproven) + len(self._proven)

    def is_proven(self, address: UdpAddress) -> bool:
        """True if there is no limit to what may be sent there."""
        return address in self._proven

    def heard(self, address: UdpAddress, size: int) -> None:
        """Note a datagram of so many bytes, whatever is in it."""
        self._account(address).credit += FACTOR * size

    def proved(self, address: UdpAddress) -> None:
        """Note that something came back that was sent there, and that nobody else could know."""
        if address not in self._proven:
            self._proven[address] = self._account(address)
            del self._unproven[address]
            self._keep_within_bounds(self._proven)

    def doubted(self, address: UdpAddress) -> None:
        """Note that a request was given up: nobody there has confirmed it."""
        if (account := self._proven.pop(address, None)) is not None:
            self._unproven[address] = account
            self._keep_within_bounds(self._unproven)

    def may_send(self, address: UdpAddress, size: int, *, is_repeat: bool) -> bool:
        """True if so many bytes may go out; they are then counted as sent."""
        account = self._account(address)
        if account.is_loopback and not is_repeat:
            return True
        if account.credit < size and address not in self._proven:
            return False
        account.credit = max(0, account.credit - size)
        return True

    def _account(self, address: UdpAddress) -> _Account:
        for table in (self._proven, self._unproven):
            if (known := table.get(address)) is not None:
                table.move_to_end(address)
                return known
        made = self._unproven[address] = _Account(is_loopback=is_loopback(address[0]))
        self._keep_within_bounds(self._unproven)
        return made

    def _keep_within_bounds(self, table: OrderedDict[UdpAddress, _Account]) -> None:
        while len(table) > self._max_addresses:
            table.popitem(last=False)


def is_loopback(host: str) -> bool:
    """True if a numeric address is one by which a host reaches itself alone."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback
