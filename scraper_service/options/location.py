"""The location that a page sees: a country with its time zone and language.

Each country has the zone of most of its people (IANA tz database, zone.tab) and its
likely language (Unicode CLDR, likelySubtags).
"""

from __future__ import annotations

import re

from attrs import field, frozen

DEFAULT_COUNTRY = "US"
GENERIC_COUNTRY = "US-generic"

_LANGUAGE = re.compile(r"(\*|[A-Za-z0-9]{1,8}([-_][A-Za-z0-9]{1,8}){0,7})", re.ASCII)
# ISO 3166-1 alpha-2, and the user-assigned code of Kosovo.
_TABLE = """
AD Europe/Andorra ca; AE Asia/Dubai ar; AF Asia/Kabul fa; AG America/Antigua en;
AI America/Anguilla en; AL Europe/Tirane sq; AM Asia/Yerevan hy; AO Africa/Luanda pt;
AQ Antarctica/McMurdo en; AR America/Argentina/Buenos_Aires es;
AS Pacific/Pago_Pago sm; AT Europe/Vienna de; AU Australia/Sydney en;
AW America/Aruba nl; AX Europe/Mariehamn sv; AZ Asia/Baku az; BA Europe/Sarajevo bs;
BB America/Barbados en; BD Asia/Dhaka bn; BE Europe/Brussels nl;
BF Africa/Ouagadougou fr; BG Europe/Sofia bg; BH Asia/Bahrain ar;
BI Africa/Bujumbura rn; BJ Africa/Porto-Novo fr; BL America/St_Barthelemy fr;
BM Atlantic/Bermuda en; BN Asia/Brunei ms; BO America/La_Paz es;
BQ America/Kralendijk pap; BR America/Sao_Paulo pt; BS America/Nassau en;
BT Asia/Thimphu dz; BV UTC no; BW Africa/Gaborone en; BY Europe/Minsk be;
BZ America/Belize en; CA America/Toronto en; CC Indian/Cocos ms;
CD Africa/Kinshasa fr; CF Africa/Bangui sg; CG Africa/Brazzaville fr;
CH Europe/Zurich de; CI Africa/Abidjan fr; CK Pacific/Rarotonga en;
CL America/Santiago es; CM Africa/Douala fr; CN Asia/Shanghai zh;
CO America/Bogota es; CR America/Costa_Rica es; CU America/Havana es;
CV Atlantic/Cape_Verde pt; CW America/Curacao pap; CX Indian/Christmas en;
CY Asia/Nicosia el; CZ Europe/Prague cs; DE Europe/Berlin de; DJ Africa/Djibouti fr;
DK Europe/Copenhagen da; DM America/Dominica en; DO America/Santo_Domingo es;
DZ Africa/Algiers ar; EC America/Guayaquil es; EE Europe/Tallinn et;
EG Africa/Cairo ar; EH Africa/El_Aaiun ar; ER Africa/Asmara ti; ES Europe/Madrid es;
ET Africa/Addis_Ababa am; FI Europe/Helsinki fi; FJ Pacific/Fiji en;
FK Atlantic/Stanley en; FM Pacific/Pohnpei en; FO Atlantic/Faroe fo;
FR Europe/Paris fr; GA Africa/Libreville fr; GB Europe/London en;
GD America/Grenada en; GE Asia/Tbilisi ka; GF America/Cayenne fr;
GG Europe/Guernsey en; GH Africa/Accra ak; GI Europe/Gibraltar en; GL America/Nuuk kl;
GM Africa/Banjul en; GN Africa/Conakry fr; GP America/Guadeloupe fr;
GQ Africa/Malabo es; GR Europe/Athens el; GS Atlantic/South_Georgia en;
GT America/Guatemala es; GU Pacific/Guam en; GW Africa/Bissau pt;
GY America/Guyana en; HK Asia/Hong_Kong zh; HM UTC en; HN America/Tegucigalpa es;
HR Europe/Zagreb hr; HT America/Port-au-Prince ht; HU Europe/Budapest hu;
ID Asia/Jakarta id; IE Europe/Dublin en; IL Asia/Jerusalem he;
IM Europe/Isle_of_Man en; IN Asia/Kolkata hi; IO Indian/Chagos en; IQ Asia/Baghdad ar;
IR Asia/Tehran fa; IS Atlantic/Reykjavik is; IT Europe/Rome it; JE Europe/Jersey en;
JM America/Jamaica en; JO Asia/Amman ar; JP Asia/Tokyo ja; KE Africa/Nairobi sw;
KG Asia/Bishkek ky; KH Asia/Phnom_Penh km; KI Pacific/Tarawa en; KM Indian/Comoro ar;
KN America/St_Kitts en; KP Asia/Pyongyang ko; KR Asia/Seoul ko; KW Asia/Kuwait ar;
KY America/Cayman en; KZ Asia/Almaty ru; LA Asia/Vientiane lo; LB Asia/Beirut ar;
LC America/St_Lucia en; LI Europe/Vaduz de; LK Asia/Colombo si; LR Africa/Monrovia en;
LS Africa/Maseru st; LT Europe/Vilnius lt; LU Europe/Luxembourg fr; LV Europe/Riga lv;
LY Africa/Tripoli ar; MA Africa/Casablanca ar; MC Europe/Monaco fr;
MD Europe/Chisinau ro; ME Europe/Podgorica sr; MF America/Marigot fr;
MG Indian/Antananarivo mg; MH Pacific/Majuro en; MK Europe/Skopje mk;
ML Africa/Bamako bm; MM Asia/Yangon my; MN Asia/Ulaanbaatar mn; MO Asia/Macau zh;
MP Pacific/Saipan en; MQ America/Martinique fr; MR Africa/Nouakchott ar;
MS America/Montserrat en; MT Europe/Malta mt; MU Indian/Mauritius fr;
MV Indian/Maldives dv; MW Africa/Blantyre en; MX America/Mexico_City es;
MY Asia/Kuala_Lumpur ms; MZ Africa/Maputo pt; NA Africa/Windhoek af;
NC Pacific/Noumea fr; NE Africa/Niamey ha; NF Pacific/Norfolk en; NG Africa/Lagos en;
NI America/Managua es; NL Europe/Amsterdam nl; NO Europe/Oslo nb;
NP Asia/Kathmandu ne; NR Pacific/Nauru en; NU Pacific/Niue en; NZ Pacific/Auckland en;
OM Asia/Muscat ar; PA America/Panama es; PE America/Lima es; PF Pacific/Tahiti fr;
PG Pacific/Port_Moresby tpi; PH Asia/Manila fil; PK Asia/Karachi ur;
PL Europe/Warsaw pl; PM America/Miquelon fr; PN Pacific/Pitcairn en;
PR America/Puerto_Rico es; PS Asia/Gaza ar; PT Europe/Lisbon pt; PW Pacific/Palau pau;
PY America/Asuncion gn; QA Asia/Qatar ar; RE Indian/Reunion fr;
RO Europe/Bucharest ro; RS Europe/Belgrade sr; RU Europe/Moscow ru;
RW Africa/Kigali rw; SA Asia/Riyadh ar; SB Pacific/Guadalcanal en; SC Indian/Mahe fr;
SD Africa/Khartoum ar; SE Europe/Stockholm sv; SG Asia/Singapore en;
SH Atlantic/St_Helena en; SI Europe/Ljubljana sl; SJ Arctic/Longyearbyen nb;
SK Europe/Bratislava sk; SL Africa/Freetown en; SM Europe/San_Marino it;
SN Africa/Dakar wo; SO Africa/Mogadishu so; SR America/Paramaribo nl;
SS Africa/Juba ar; ST Africa/Sao_Tome pt; SV America/El_Salvador es;
SX America/Lower_Princes en; SY Asia/Damascus ar; SZ Africa/Mbabane en;
TC America/Grand_Turk en; TD Africa/Ndjamena ar; TF Indian/Kerguelen fr;
TG Africa/Lome fr; TH Asia/Bangkok th; TJ Asia/Dushanbe tg; TK Pacific/Fakaofo tkl;
TL Asia/Dili pt; TM Asia/Ashgabat tk; TN Africa/Tunis ar; TO Pacific/Tongatapu to;
TR Europe/Istanbul tr; TT America/Port_of_Spain en; TV Pacific/Funafuti tvl;
TW Asia/Taipei zh; TZ Africa/Dar_es_Salaam sw; UA Europe/Simferopol uk;
UG Africa/Kampala sw; UM Pacific/Wake en; US America/New_York en;
UY America/Montevideo es; UZ Asia/Samarkand uz; VA Europe/Vatican it;
VC America/St_Vincent en; VE America/Caracas es; VG America/Tortola en;
VI America/St_Thomas en; VN Asia/Ho_Chi_Minh vi; VU Pacific/Efate bi;
WF Pacific/Wallis fr; WS Pacific/Apia sm; XK Europe/Belgrade sq; YE Asia/Aden ar;
YT Indian/Mayotte fr; ZA Africa/Johannesburg en; ZM Africa/Lusaka en;
ZW Africa/Harare sn;
"""


def accept_language(tags: tuple[str, ...]) -> str:
    """Return ``Accept-Language`` for languages in the order of preference, or ""."""
    weights = (max(0.1, 1 - place / 10) for place in range(len(tags)))
    return ",".join(
        tag if weight == 1 else f"{tag};q={weight:.1f}"
        for tag, weight in zip(tags, weights, strict=True)
    )


TIME_ZONES: dict[str, str] = {}
LANGUAGES: dict[str, str] = {}
for _row in _TABLE.replace("\n", " ").split(";"):
    if _row.strip():
        _code, _zone, _language = _row.split()
        TIME_ZONES[_code], LANGUAGES[_code] = _zone, _language


def country_code(text: str) -> str:
    """Return a country in the form of :class:`Location`, else raise ValueError."""
    if text.lower() == GENERIC_COUNTRY.lower():
        return GENERIC_COUNTRY
    if (code := text.upper()) not in TIME_ZONES:
        raise ValueError(
            f"country must be an ISO 3166-1 alpha-2 code or {GENERIC_COUNTRY}, "
            f"got {text[:20]!r}"
        )
    return code


def language_tag(text: str) -> str:
    """Return ``text`` if it is valid in ``Accept-Language``, else raise ValueError."""
    if not _LANGUAGE.fullmatch(text):
        raise ValueError(f"not a language tag: {text[:20]!r}")
    return text


def _each_language(tags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(language_tag(tag) for tag in tags)


@frozen
class Location:
    """The country and the languages of the visitor."""

    #: ISO 3166-1 alpha-2 in upper case, or ``US-generic``.
    country: str = field(converter=country_code)
    #: The value of ``Accept-Language``, in the order of preference.
    languages: tuple[str, ...] = field(default=(), converter=_each_language)
