# ruff: noqa: RUF001 - words of several languages, some of whose letters look alike
"""Detect otherwise equal sentences that differ by a negation, an antonym, or yes and no. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from judge.text.contradictions.reading import Token, fold, opening, tokens

MAX_WORDS: Final = 200
"""Limit of words of a compared sentence."""
MAX_OPENING_CHARS: Final = 60
"""Characters of a text that are searched for yes or no."""
MAX_DIFFERENCE: Final = 4
"""Maximum surplus words of one sentence before inflections are compared."""


def _folded(words: str) -> frozenset[str]:
    return frozenset(map(fold, words.split()))


NEGATIONS: Final = _folded("""
    not no never cannot neither nor without none
    nicht kein keine keinen keiner keinem keines nie niemals ohne
    pas jamais aucun aucune sans non
    nunca jamás sin tampoco ningún ninguna ninguno
    değil değildir değiller değildi hiç لا ليس ليست ليسوا لم لن غير بدون دون
    não nem mai nessun nessuna senza niet geen не нет без 不 没 沒 無 无 未 非
""")
"""Negations, folded."""
_NEGATED: Final = ("n't",)
# Auxiliaries beside a negation, and articles.
_FILLERS: Final = _folded("""
    do does did is are was were am be been being has have had a an the any
    ne n wird werden wurde wurden ist sind war waren hat haben ein eine einen einem einer der die das den dem
    des
    est sont était étaient a ont le la les un une de du des
    es son está están fue ser el los las una
    bir dir dır dur dür هو هي كان كانت ان
""") | _folded("can could will would shall should")  # fmt: skip
_ELIDED: Final = frozenset({"l", "d", "n", "qu", "s", "c", "j", "m"})
_NOT_ONLY: Final = _folded("only just merely nur seulement solo sólo sadece yalnızca solamente فقط until bis simply "  # noqa: E501
        "necessarily unbedingt"
    " nécessairement necesariamente mutlaka")  # fmt: skip
_PREFIXES: Final = ("un", "in", "im", "ir", "il", "non", "dis")
_OPPOSITES: Final = """
    increase/decrease increases/decreases increased/decreased increasing/decreasing rise/fall rises/falls
    rose/fell rising/falling
    raise/lower raises/lowers raised/lowered higher/lower highest/lowest more/less more/fewer most/least
    maximum/minimum
    before/after always/never true/false with/without safe/dangerous legal/forbidden allowed/forbidden
    allowed/prohibited
    permitted/prohibited accept/reject accepts/rejects accepted/rejected succeeded/failed succeeds/fails
    won/lost win/lose alive/dead
    inside/outside above/below left/right north/south northern/southern east/west eastern/western hot/cold
    positive/negative
    open/closed opens/closes opened/closed enabled/disabled enable/disable start/stop starts/stops
    started/stopped same/different
    early/late earlier/later earliest/latest good/bad better/worse best/worst largest/smallest larger/smaller
    longest/shortest
    longer/shorter faster/slower old/new older/younger oldest/youngest first/last everyone/nobody
    everything/nothing all/none
    steigt/sinkt steigen/sinken stieg/sank erlaubt/verboten vor/nach mit/ohne höher/niedriger mehr/weniger
    immer/nie
    größer/kleiner erhöht/senkt offen/geschlossen gut/schlecht links/rechts richtig/falsch wahr/falsch
    augmente/diminue augmenté/diminué avant/après avec/sans plus/moins toujours/jamais vrai/faux
    autorisé/interdit ouvert/fermé
    aumenta/disminuye aumentó/disminuyó antes/después con/sin más/menos siempre/nunca verdadero/falso
    permitido/prohibido
    abierto/cerrado mejor/peor mayor/menor
    artar/azalır arttı/azaldı artırır/azaltır önce/sonra var/yok doğru/yanlış açık/kapalı güvenli/tehlikeli
    yasal/yasak büyük/küçük
    يزيد/ينقص ارتفع/انخفض قبل/بعد دائما/أبدا صحيح/خطأ مسموح/ممنوع آمن/خطير أكبر/أصغر اكثر/اقل مع/بدون
"""
_OPPOSITE: Final[dict[str, set[str]]] = {}
for _pair in _OPPOSITES.split():
    _one, _other = map(fold, _pair.split("/"))
    _OPPOSITE.setdefault(_one, set()).add(_other)
    _OPPOSITE.setdefault(_other, set()).add(_one)

_YES: Final = _folded("yes yep yeah ja oui si sí evet نعم أجل да sim はい 是")
_ALSO_OTHER_WORDS: Final = _folded("si ja да 是")
_NO: Final = _folded("no nope nein non hayır لا كلا нет não いいえ 否")
_TRUE: Final = _folded("true correct richtig wahr vrai verdadero cierto correcto doğru صحيح")
_FALSE: Final = _folded("false incorrect wrong falsch faux falso incorrecto yanlış خطأ خاطئ")
_AFTER_ANSWER: Final = frozenset(",.;:!-") | {"\u3002", "\uff0c", "\u3001"}
_TURKISH: Final = frozenset("ışğİ")
_TURKISH_NEGATION: Final = ("ma", "me", "mi", "mu", "may", "mey", "m")


def answers_differ(one: str, other: str) -> bool:
    """Return whether one text starts with yes and the other with no."""
    mine, its = _answer(one), _answer(other)
    return mine is not None and its is not None and mine != its


def _answer(text: str) -> bool | None:
    """Return True if a text starts with yes, False for no, else None."""
    row = opening(text[:MAX_OPENING_CHARS])
    if not row or row[0].kind != "word":
        return None
    alone = _stands_alone(row)
    word = row[0].text
    if not alone and not (word in _YES and word not in _ALSO_OTHER_WORDS):
        return None
    if word in _YES or (word in _TRUE and alone):
        return True
    if word in _NO or (word in _FALSE and alone):
        return False
    return None


def _from_first_word(row: Sequence[Token]) -> Sequence[Token]:
    while row and row[0].kind == "sign":
        row = row[1:]
    return row


def _stands_alone(row: Sequence[Token]) -> bool:
    """Return whether the first word is followed by a sign or the end."""
    return len(row) == 1 or (row[1].kind == "sign" and row[1].text in _AFTER_ANSWER)


def polarity_differs(one: str, other: str) -> bool:
    """Return whether two sentences with the same words differ by a negation or an antonym.

    False for questions, and for "not only" and similar phrases.
    """
    mine, its = _said(one), _said(other)
    if not mine.is_comparable or not its.is_comparable:
        return False
    if abs(len(mine.words) - len(its.words)) > MAX_DIFFERENCE:
        return False
    if max(len(mine.different - its.different), len(its.different - mine.different)) > MAX_DIFFERENCE:
        return False
    flipped = mine.negations % 2 != its.negations % 2
    turkish = mine.is_turkish or its.is_turkish
    counts = Counter(mine.words), Counter(its.words)
    left = list((counts[0] - counts[1]).elements())
    right = list((counts[1] - counts[0]).elements())
    left, right = _without_forms(left, right, turkish=turkish)
    if not left and not right:
        return flipped
    if len(left) == len(right) == 1 and len(mine.words) == len(its.words):
        opposite = are_opposites(left[0], right[0]) or (turkish and _turkish_negation(left[0], right[0]))
        return opposite and not flipped and (len(mine.words) > 1)
    return False


def negations(text: str) -> int:
    """Return the number of negations in a text; 0 if it is longer than a sentence."""
    return _said(text).negations


@lru_cache(maxsize=64)
def _said(text: str) -> _Said:
    """Cached, because each sentence is compared with several."""
    return _Said(text)


class _Said:
    """The words of a sentence without negations and a leading yes or no."""

    def __init__(self, text: str) -> None:
        row = _from_first_word(tokens(text))
        if len(row) > 1 and row[0].text in _YES | _NO and _stands_alone(row):
            row = row[1:]
        self.words: list[str] = []
        self.negations = 0
        unclear = len(row) > MAX_WORDS or text.rstrip().endswith(("?", "\u061f", "\uff1f"))
        earlier = ""
        for token in row:
            if token.kind == "sign":
                continue
            for part in _parts(token.text) if "'" in token.text else (token.text,):
                if part in NEGATIONS or part.endswith(_NEGATED):
                    self.negations += 1
                elif part in _NOT_ONLY and (earlier in NEGATIONS or earlier.endswith(_NEGATED)):
                    unclear = True
                elif part not in _FILLERS:
                    self.words.append(part)
                earlier = part
        self.different = frozenset(self.words)
        self.is_comparable = not unclear and bool(self.words)
        self.is_turkish = not _TURKISH.isdisjoint(text)


def _parts(word: str) -> Sequence[str]:
    """Split an elided word: "n'est" is "n" and "est"."""
    before, sign, after = word.partition("'")
    if sign and before in _ELIDED and after != "t":
        return before, after
    return (word,)


def _without_forms(left: list[str], right: list[str], *, turkish: bool) -> tuple[list[str], list[str]]:
    """Return the words without an inflected form among the others ("works" and "work")."""
    if max(len(left), len(right)) > MAX_DIFFERENCE:
        return left, right
    rest = list(right)
    kept = []
    for word in left:
        form = next((one for one in rest if _are_forms(word, one, turkish=turkish)), None)
        if form is None:
            kept.append(word)
        else:
            rest.remove(form)
    return kept, rest


def _are_forms(one: str, other: str, *, turkish: bool) -> bool:
    short, long = sorted((one, other), key=len)
    if len(short) >= 4 and short.endswith("y") and long == f"{short[:-1]}ies":
        return True
    if not long.startswith(short):
        return False
    rest = long[len(short) :]
    if turkish:
        return len(short) >= 3 and rest in {"dir", "dur", "tir", "tur"}
    if not short.isascii():
        return len(short) >= 3 and len(rest) <= 2
    return len(short) >= 3 and rest in {"s", "es", "d", "ed", "e", "en", "t", "n", "er"}


def are_opposites(one: str, other: str) -> bool:
    """Return whether two folded words are antonyms: "safe" and "unsafe", "before" and "after"."""
    if other in _OPPOSITE.get(one, ()):
        return True
    short, long = sorted((one, other), key=len)
    return len(short) >= 4 and any(long == prefix + short for prefix in _PREFIXES)


def _turkish_negation(one: str, other: str) -> bool:
    """Return whether one verb is the other with a negating infix: "geldi" and "gelmedi"."""
    short, long = sorted((one, other), key=len)
    common = 0
    for mine, its in zip(short, long, strict=False):
        if mine != its:
            break
        common += 1
    if common < 3:
        return False
    for at in range(max(common - 3, 2), common + 1):
        for infix in _TURKISH_NEGATION:
            if long.startswith(infix, at) and long[:at] + long[at + len(infix) :] == short:
                return True
    endings = short[common:], long[common:]
    aorist = ("r", "ir", "ur", "ar", "er")
    return any(negated in {"maz", "mez"} and plain in aorist for negated, plain in (endings, endings[::-1]))
