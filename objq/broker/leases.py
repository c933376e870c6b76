"""When the holder of each claim was last heard: what S5 needs to end a claim.

Times are seconds on this process's own monotonic clock and are passed in; two machines' clocks are
never compared. A claim is silent when no frame that names its token was heard for the timeout.
Tokens stand in the order in which they were heard, so the silent ones are found at the front
without looking at the others.

After a take-over, a pause or an outage, `restart` gives every claim a full timeout from that
moment: until then nothing is silent, however long ago it was heard. What is heard before or after
counts from its own time, but never ends before that moment."""

from __future__ import annotations

from collections.abc import Iterable


class Leases:
    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._heard: dict[str, float] = {}
        self._not_before = float("-inf")

    def __contains__(self, token: str) -> bool:
        return token in self._heard

    def __len__(self) -> int:
        return len(self._heard)

    def hear(self, token: str, now: float) -> None:
        """Note that a frame named the token."""
        self._heard.pop(token, None)  # to the end: most recently heard
        self._heard[token] = now

    def forget(self, token: str) -> None:
        self._heard.pop(token, None)

    def restart(self, now: float, timeout_s: float | None = None) -> None:
        """Let nothing be silent before `now` + timeout (`timeout_s` where that is larger)."""
        wait_s = max(self.timeout_s, timeout_s or 0.0)
        self._not_before = max(self._not_before, now + wait_s)

    def settled(self, now: float) -> bool:
        """Tell whether the time that `restart` gave to every claim is over."""
        return now >= self._not_before

    def keep(self, tokens: Iterable[str], now: float) -> None:
        """Hold exactly these tokens; those not known yet count as heard now."""
        known = self._heard
        kept = {token: known.get(token, now) for token in tokens}
        self._heard = dict(sorted(kept.items(), key=lambda item: item[1]))

    def silent(self, now: float) -> list[str]:
        """Return the tokens that were not heard for the timeout, longest ago first."""
        if not self.settled(now):
            return []
        found = []
        for token, heard in self._heard.items():
            if heard + self.timeout_s > now:
                break
            found.append(token)
        return found

    def next_silence(self) -> float | None:
        """Return when the first claim would be silent (monotonic seconds), or None."""
        for heard in self._heard.values():
            return max(self._not_before, heard + self.timeout_s)
        return None

    def heard_ago_s(self, token: str, now: float) -> float | None:
        """Return how long ago the token was heard (seconds), or None if it is not known."""
        heard = self._heard.get(token)
        return None if heard is None else now - heard
