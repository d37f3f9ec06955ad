# ruff: noqa: RUF001 - words of several languages, some of whose letters look alike
"""Units of measurement and magnitudes in six languages. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: its dimension, and its relation to the base unit (`base = value * factor + offset`)."""

    dimension: str
    factor: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)


# Names by dimension and factor.
_TABLE: Mapping[str, Mapping[str, str]] = {
    "mass": {
        "1/1000000": (
                "µg μg mcg ug microgram micrograms mikrogramm microgramme microgrammes microgramo "
                "microgramos mikrogram"
            ),
        "1/1000": (
                "mg milligram milligrams milligramm milligramme milligrammes miligramo miligramos miligram "
                "ملغ مغ ملغم مليغرام ملليغرام"
            ),
        "1": "g gr gram grams gramm gramme grammes gramo gramos غ غرام جرام",
        "1000": (
                "kg kilo kilos kilogram kilograms kilogramm kilogramme kilogrammes kilogramo kilogramos كغ "
                "كجم كيلوغرام كيلوجرام"
            ),
        "1000000": "tonne tonnes ton tons tonnen tonelada toneladas طن أطنان",
        "56699/2000": "oz ounce ounces",
        "45359237/100000": "lb lbs pound pounds pfund livre livres libra libras",
    },
    "length": {
        "1/1000000": "µm μm micron microns micrometer micrometre mikrometer",
        "1/1000": (
                "mm millimeter millimeters millimetre millimetres millimètre millimètres milímetro "
                "milímetros milimetre مم مليمتر ملم"
            ),
        "1/100": (
                "cm centimeter centimeters centimetre centimetres zentimeter centimètre centimètres "
                "centímetro centímetros santimetre سم سنتيمتر"
            ),
        "1": "m meter meters metre metres metern mètre mètres metro metros متر أمتار مترا",
        "1000": (
                "km kilometer kilometers kilometre kilometres kilometern kilomètre kilomètres kilómetro "
                "kilómetros كم كيلومتر كيلومترا"
            ),
        "127/5000": "inch inches zoll pouce pouces pulgada pulgadas inç",
        "381/1250": "ft foot feet fuß pied pieds pie pies",
        "1143/1250": "yd yard yards",
        "201168/125": "mi mile miles meile meilen milla millas",
    },
    "volume": {
        "1/1000": (
                "ml milliliter milliliters millilitre millilitres mililitro mililitros mililitre مل "
                "ملليلتر"
            ),
        "1/100": "cl centiliter centilitre",
        "1/10": "dl deciliter decilitre",
        "1": "l liter liters litre litres litern litro litros لتر لترا",
        "473176473/125000000": "gal gallon gallons",
    },
    "time": {
        "1/1000": (
                "ms millisecond milliseconds millisekunde millisekunden milliseconde millisecondes "
                "milisegundo milisegundos milisaniye"
            ),
        "1": (
                "s sec secs second seconds sekunde sekunden seconde secondes segundo segundos saniye ثانية "
                "ثوان ثواني"
            ),
        "60": "min mins minute minutes minuten minuto minutos dakika دقيقة دقائق",
        "3600": "h hr hrs hour hours stunde stunden heure heures hora horas saat ساعة ساعات",
        "86400": "day days tag tage tagen jour jours día días dia dias gün يوم أيام يوما",
        "604800": "week weeks woche wochen semaine semaines semana semanas hafta أسبوع أسابيع",
    },
    "months": {
        "1": "month months monat monate monaten mois mes meses ay شهر أشهر شهرا",
        "12": "year years yr yrs jahr jahre jahren an ans année années año años yıl سنة سنوات عام أعوام",
        "120": "decade decades jahrzehnt jahrzehnte décennie décennies década décadas عقد عقود",
        "1200": "century centuries jahrhundert jahrhunderte siècle siècles siglo siglos yüzyıl قرن قرون",
    },
    "share": {
        "1": "% ٪ percent pct prozent yüzde percentage",
        "1/10": "‰ permille promille",
    },
    "difference of shares": {"1": "pp prozentpunkt prozentpunkte prozentpunkten"},
    "information": {
        "1": "byte bytes", "1000": "kb kilobyte kilobytes", "1000000": "mb megabyte megabytes",
        "1000000000": "gb gigabyte gigabytes", "1000000000000": "tb terabyte terabytes",
    },
    "energy": {"1": "j joule joules", "1000": "kj kilojoule kilojoules",
        "4184": "kcal kilocalorie kilocalories", "3600000": "kwh"},
    "power": {"1": "w watt watts", "1000": "kw kilowatt kilowatts", "1000000": "mw megawatt megawatts",
        "1000000000": "gw gigawatt gigawatts"},
    "frequency": {"1": "hz hertz", "1000": "khz", "1000000": "mhz", "1000000000": "ghz"},
    "speed": {"5/18": "km/h kmh kph", "1": "m/s", "1397/3125": "mph"},
    "area": {"1": "m² qm sqm", "10000": "ha hectare hectares hektar hectárea hectáreas هكتار",
        "1000000": "km²"},
    "voltage": {"1/1000": "mv", "1": "v volt volts", "1000": "kv"},
    "US dollars": {"1": "$ usd dollar dollars dólar dólares dolar دولار", "1/100": "cent cents"},
    "euros": {"1": "€ eur euro euros avro يورو"},
    "pounds sterling": {"1": "£ gbp"},
    "yen": {"1": "¥ jpy yen"},
    "rupees": {"1": "₹ inr rupee rupees"},
    "Turkish liras": {"1": "₺ lira tl liras"},
}  # fmt: skip

UNITS: Mapping[str, Unit] = {
    name: Unit(dimension, Fraction(factor))
    for dimension, factors in _TABLE.items()
    for factor, names in factors.items()
    for name in names.split()
} | {
    "°c": Unit("temperature"),
    "celsius": Unit("temperature"),
    "°f": Unit("temperature", Fraction(5, 9), Fraction(-160, 9)),
    "fahrenheit": Unit("temperature", Fraction(5, 9), Fraction(-160, 9)),
}
"""Units by lower-case name."""

CURRENCY_SIGNS = frozenset("$€£¥₹₺")
"""Units that may precede their number."""

_MAGNITUDES = {
    100: "hundred hundert cent ciento yüz مئة مائة",
    1000: "thousand k tsd tausend mille mil bin ألف آلاف الف 千",
    10_000: "万 萬 만",
    100_000: "lakh lakhs",
    1_000_000: "million millions mio mn millionen millón millones milyon مليون ملايين",
    10_000_000: "crore crores",
    100_000_000: "億 亿 억",
    1_000_000_000: "billion billions bn mrd milliarde milliarden milliard milliards milyar مليار مليارات",
    1_000_000_000_000: "trillion trillions trn billionen billones trilyon تريليون",
}
MAGNITUDES: Mapping[str, int] = {
    name: value for value, names in _MAGNITUDES.items() for name in names.split()
}
"""Factors of magnitude words. "Billion" has its English value."""

AMBIGUOUS: Mapping[str, tuple[int, ...]] = {
    "m": (1_000_000,),
    "b": (1_000_000_000,),
    "t": (1_000_000_000_000,),
    "mm": (1_000_000,),
}
"""Words that may be a magnitude, a unit or neither."""
