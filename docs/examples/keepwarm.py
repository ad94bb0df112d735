"""A worked example: `keepwarm` frees device memory by moving idle pages to the host."""

from fuzzkv.api import *


class KeepWarm(Custom):
    """Moves a page to the host once nobody has asked about it for a while, and brings it back by itself."""

    kind = "offload"
    source = "our serving team's connector"
    fidelity = "[R] one page an act"
    parameters = {"idle": 12, "copies": 1}
    actions = does("begin_store", "drop_device", "drop_host")
    evidence = Evidence(
        target="near-reuse",
        horizon=1,
        confidence=900,
        provenance="ticks since the last access",
        calibrated_on="chat sessions",
    )

    def act(self, cache: Cache) -> None:
        for page in cache.pages:
            # Back on the device, because a reader wanted it: the host copy is only in the way.
            if page.on_device and page.on_host and page.mark == MOVED:
                cache.withdraw(page)
                cache.drop_host(page)
                page.mark = 0
            elif page.on_device and page.on_host:
                # The copy has ended, so the device can let go: from now on the host has the page.
                cache.promise(page)
                if cache.drop_device(page):
                    page.mark = MOVED
            elif page.on_device and page.idle >= cache.parameter("idle") and not page.newest:
                if cache.own_copies < cache.parameter("copies") and not page.in_flight:
                    cache.begin_store(page)


MOVED = 1
