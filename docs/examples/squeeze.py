"""A worked example: `Squeeze` halves the memory of idle pages by rewriting them at 8 bits."""

from fuzzkv.api import *


class Squeeze(Custom):
    """Rewrites a page in place at 8 bits once nobody has asked about it for a while."""

    kind = "quant"
    parameters = {"idle": 12}
    actions = does("quantise", reversibility="lossy-with-backup")
    evidence = Evidence(
        target="reconstruction",
        horizon=1,
        confidence=950,
        provenance="ticks since the last access",
        calibrated_on="8 bits a value, one scale a token and head",
    )

    def ready(self, page: Page) -> bool:
        return page.on_device

    def act(self, cache: Cache) -> None:
        for page in cache.pages:
            if self.ready(page) and page.idle >= cache.parameter("idle") and not page.newest:
                if cache.quantise(page, INT8):
                    return


class SqueezeRepaired(Squeeze):
    """Keeps the exact bytes: rewrites only a page that the host has too, that no copy is reading, and that
    nobody was promised.
    """

    name = "Squeeze"
    version = "2"

    def ready(self, page: Page) -> bool:
        return page.on_device and page.on_host and not page.in_flight and not page.promised
