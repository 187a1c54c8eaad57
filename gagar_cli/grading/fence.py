"""The fence around everything that a candidate wrote: data for the grader, never instructions."""

from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from itertools import count


@dataclass(frozen=True, slots=True)
class Fence:
    """Marks text as data. Its code is drawn from the texts, so none of them can hold it."""

    code: str

    @classmethod
    def draw(cls, key: str, texts: Collection[str]) -> "Fence":
        """Draw a code from a key and the texts, the same for the same."""
        whole = "\0".join(texts)
        digest = sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
        codes = (sha256(f"{key}\0{digest}\0{n}".encode()).hexdigest()[:16] for n in count())
        return cls(next(code for code in codes if code not in whole))

    def around(self, text: str) -> str:
        """Return the text between the two marks; a code in it, as in a later one, is struck out."""
        inside = text.replace(self.code, "*" * len(self.code)).removesuffix("\n")
        return f"<data {self.code}>\n{inside}\n</data {self.code}>"
