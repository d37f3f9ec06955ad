"""Detect the sentences of an answer that make a claim, to find omitted ones. Pure.

Greetings, headings, introductions, questions, offers and refusals make no claim. In doubt, a sentence with a
citation does, and one without does not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from judge.text.languages import fold
from judge.text.normal import is_unspaced
from judge.text.quantities import tokens
from judge.text.sentences import sentences
from judge.text.words import content_words, has_words

MIN_CLAIM_WORDS = 3
"""Minimum content words of a claim without a citation."""
MIN_BARE_WORDS = 5
"""The same for a line without a full stop, which may be a heading."""
MIN_UNSPACED_CHARS = 8
"""Minimum letters of such a claim in a script without spaces."""
MAX_CHARS = 4000
"""Maximum characters of a sentence that are examined."""

_OPENINGS = """
    hi|hello|hey|dear|thanks|thank you|sure|certainly|of course|absolutely|great question|good question
    happy to help|glad to|i hope
    hope this|hope that|let me know|feel free|please|if you have any|if you need|if you would like
    if you'd like|if there is anything|would you like
    is there anything|anything else|here is|here are|here's|below is|below are|below you|the following
    in the following|in this answer|i can|i could
    i would|i'll|i will|i am|i'm|i have|i've|let's|let us|let me|you're welcome|no problem|you are welcome
    good luck|have a|sorry|unfortunately, i
    based on the|according to the provided|according to the context|according to the documents|as an ai
    i don't|i do not|i cannot|i can't
    to answer|in answer to|as follows|overview|note that this|disclaimer|this answer|this response|we hope
    we are happy|don't hesitate|do not hesitate
    hallo|guten tag|guten morgen|liebe|gerne|gern|naturlich|selbstverstandlich|klar|ich hoffe|lassen sie
    lass mich|falls sie|wenn sie fragen
    wenn du fragen|bei fragen|bei weiteren fragen|bei ruckfragen|hier ist|hier sind|hier finden|im folgenden
    vielen dank|danke|bitte|ich kann|ich bin|ich habe|leider
    gibt es noch|kann ich|zusammengefasst|basierend auf den|auf grundlage der|laut den|viele grusse
    mit freundlichen|viel erfolg|melden sie|zogern sie
    bonjour|salut|bien sur|voici|j'espere|n'hesitez|merci|si vous avez|si tu as|je peux|je suis|je vous|je n
    avec plaisir|ci-dessous|d'apres les|selon les documents
    puis-je|y a-t-il|est-ce que|malheureusement, je|desole|bonne journee|cordialement|pour repondre
    hola|claro|por supuesto|buenos dias|buenas|espero que|no dude|no dudes|gracias|si tiene|si tienes
    si necesita|si necesitas|puedo|estoy|lo siento|a continuacion
    aqui tiene|aqui esta|aqui estan|con gusto|segun los documentos|segun el contexto|hay algo mas|quiere
    quieres|un saludo|saludos|encantado
    merhaba|selam|tabii|elbette|iste|umarim|lutfen|tesekkur|baska bir|baska sorunuz|yardimci olabilir
    memnuniyetle|asagida|uzgunum|maalesef|sorulariniz|sorunuz|iyi gunler
    verilen|saglanan belge|belgelere gore|rica ederim|kolay gelsin
    مرحبا|اهلا|السلام|بالتاكيد|بالطبع|بكل سرور|امل ان|اتمني|ارجو|لا تتردد|شكرا|اليك|فيما يلي|اذا كان لديك
    اذا كنت|هل|عذرا|للاسف|يسعدني|يمكنني|من فضلك|بناء علي
    وفقا للسياق|وفقا للمستندات|على الرحب|تحياتي
    this is not medical|this is not legal|this is not financial|this is no substitute
    this is general information|this information is not|this information is general
    this information is for|this does not replace|not medical advice|enjoy|take care|stay safe
    stay healthy|best regards|kind regards|all the best|best wishes|good day|get well|cheers
    das ist keine medizinische|dies ist keine medizinische|dies ist keine beratung
    das ist kein arztlicher|das ersetzt keine|dies ersetzt keine|alles gute|gute besserung|schonen tag
    einen schonen|ich wunsche|wir wunschen
    ceci n'est pas un|ceci ne constitue|ceci ne remplace|cela ne remplace|ces informations ne
    bonne chance|bon courage|bonne soiree|passez une|prenez soin
    que tengas|que tenga|que tengan|que le vaya|que te vaya|que te mejores|cuidate|cuidese|suerte
    mucha suerte|esto no constituye|esto no es un consejo|esta informacion no|esto no sustituye
    gecmis olsun|iyi aksamlar|basarilar|saglikli gunler|hosca kal|bu tibbi|bu bilgi tibbi
    bu bilgiler tibbi|bu yanit
    نتمنى لك|أتمنى لك|بالتوفيق|هذه ليست نصيحة|هذه ليست استشارة|لا تعد هذه نصيحة|مع أطيب
"""
_OPENING = re.compile(
    rf"\W*(?:{'|'.join(re.escape(fold(part.strip())) for line in _OPENINGS.strip().splitlines() for part in line.split('|') if part.strip())})(?![^\W_])"  # noqa: E501
)
_SOURCES_SAY_NOTHING = re.compile(
    r"(?:context|pages?|documents?|sources?|text|information|kontext|dokumente?n?|quellen?|contexte|documents|contexto|documentos?|baglam|belge\w{0,6}|السياق|المستندات)"
    r"[^.]{0,60}?(?:does not|do not|doesn't|don't|did not|no information|not (?:contain|provide|mention|include|specify)|enthalt\w{0,3} kein|nennt kein|ne (?:contient|mentionne|precise)"  # noqa: E501
    r"|no (?:contiene|menciona|incluye|indica)|yer almiyor|bulunmuyor|icermiyor|لا (?:يذكر|يحتوي|يتضمن))"
)
# First and second person: courtesy as likely as a claim.
_PERSONS = frozenset(
    fold(word)
    for word in [
        "i",
        "we",
        "you",
        "your",
        "yours",
        "our",
        "ours",
        "my",
        "me",
        "us",
        "ich",
        "wir",
        "du",
        "dir",
        "dich",
        "dein",
        "deine",
        "uns",
        "unser",
        "unsere",
        "unserem",
        "unseren",
        "mir",
        "mich",
        "je",
        "nous",
        "vous",
        "votre",
        "vos",
        "notre",
        "nos",
        "tu",
        "toi",
        "moi",
        "yo",
        "nosotros",
        "usted",
        "ustedes",
        "te",
        "nos",
        "le",
        "siz",
        "size",
        "sizi",
        "sizin",
        "biz",
        "bize",
        "bizim",
        "نحن",
        "لك",
        "لكم",
        "لديك",
        "لديكم",
        "انت",
        "انتم",
    ]
)
_PERSON_ENDINGS = ("siniz", "iniz", "unuz", "iyoruz", "uyoruz", "ariz", "eriz")
_FORMAL = re.compile(r"(?<=\s)(?:Sie|Ihnen|Ihr(?:e[nmrs]?)?)\b")
MAX_POLITE_WORDS = 8
"""A sentence to the reader with this many content words, or with a number, makes a claim."""
_STOPS = ".!\u3002\uff01\u061f\u06d4\u0964\u2026"
_CLOSING = "\"'\u201d\u2019\u00bb)]*_ "
_HEADING = re.compile(r"\s{0,3}#{1,6}\s|\s{0,3}(?:\*\*|__)[^*_\n]{1,120}(?:\*\*|__):?\s*\Z")


def claims_nothing(sentence: str) -> bool:
    """Return whether a sentence certainly makes no claim (greeting, heading, question, offer, refusal)."""
    text = sentence[:MAX_CHARS].strip()
    if not has_words(text):
        return True
    ending = text.rstrip(_CLOSING)[-1:]
    if ending in {":", "\uff1a", "?", "\uff1f", "\u061f", ";"} or _HEADING.match(text):
        return True
    folded = fold(text)
    if _SOURCES_SAY_NOTHING.search(folded) is not None:
        return True
    return _OPENING.match(folded) is not None and not _claims_beside(folded)


def _claims_beside(folded: str) -> bool:
    """Return whether a number or many words follow an opening: "Sure, it opens at 9" is a claim."""
    return any(map(str.isdigit, folded)) or len(content_words(folded)) > 12


def claims_surely(sentence: str) -> bool:
    """Return whether a sentence without citation certainly makes a claim."""
    text = sentence[:MAX_CHARS].strip()
    if claims_nothing(text):
        return False
    said = content_words(text)
    if len(said) < MAX_POLITE_WORDS and not any(map(str.isdigit, text)) and _speaks_to_reader(text):
        return False
    ends = text.rstrip(_CLOSING)[-1:] in _STOPS
    if said and is_unspaced(said[0].text):
        return ends and len(said) >= MIN_UNSPACED_CHARS
    titled = sum(text[word.start].isupper() for word in said)
    if ends:
        # All words capitalised: a name or a title.
        return len(said) >= MIN_CLAIM_WORDS and titled < len(said)
    return len(said) >= MIN_BARE_WORDS and 2 * titled < len(said)


def _speaks_to_reader(text: str) -> bool:
    folded = [token.text for token in tokens(text) if token.kind == "word"]
    if not folded:
        return False
    return (
        not _PERSONS.isdisjoint(part for word in folded for part in word.split("'"))
        or any(word.endswith(_PERSON_ENDINGS) for word in folded)
        or folded[0].endswith(("amos", "emos", "imos"))
        or _FORMAL.search(text) is not None
    )


def claiming_parts(text: str, *, surely: bool) -> Sequence[tuple[int, int]]:
    """Return start and end (exclusive) of the sentences of a text that make a claim.

    Args:
        text: A part of an answer.
        surely: Whether doubtful sentences count as no claim; else they do.
    """
    return [
        (start, end)
        for start, end in sentences(text)
        if (claims_surely(text[start:end]) if surely else not claims_nothing(text[start:end]))
    ]
