"""The meaning of a requested field, from its name, description, type and format.

Each line of ``VOCABULARY`` is a concept: its name, the shape of its values and its
English phrases for field names and labels, the best first. ``@`` starts properties of
schema.org, as paths from the subject of the page. ``#`` starts names of ``<meta>``
elements. A property with the name of the field needs no entry, nor does a label.
"""

from __future__ import annotations

import re
from functools import lru_cache

from attrs import frozen

from scraper_service.options.json_schema import Field

VOCABULARY = """
title name | title, headline, heading, name, subject, topic, caption, called @ name headline title # og:title twitter:title
description prose | description, short description, summary, standfirst, deck, long description, meta description, abstract, about, overview, excerpt, teaser, blurb, synopsis, lead, intro, introduction, subtitle, tagline, snippet @ description abstract # description og:description twitter:description
body prose | body, content, text, article text, full text, main text, message, comment, post, article body, answer text, transcript, review text, quote @ articleBody text reviewBody commentText
author person | author, byline, writer, by, started by, thread starter, written by, posted by, creator, contributor, reporter, journalist, poster, username, user, asker, asked by, answered by, reviewer, reviewed by, submitter, submitted by, uploader, artist, speaker, presenter, instructor, owner, developer, op @ author creator # author article:author dc.creator
published date | published, date, publish date, publication date, published at, published on, publish time, posted, posted on, posted at, post date, date posted, created, created at, created on, release date, released, launch date, upload date, submitted, submitted on, asked, asked on, asked at, timestamp, listed on @ datePublished datePosted dateCreated uploadDate releaseDate
modified date | modified, updated, last updated, updated at, updated on, last modified, modified at, update date, last edited, edited, last update, revised, last revised, last reviewed @ dateModified
language word | language, lang, locale, in language @ inLanguage
site name | site, site name, publisher, website, website name, source, publication, newspaper, outlet, platform @ publisher isPartOf # og:site_name application-name
section word | section, category, categories, genre, department, article section, primary category @ articleSection category genre # article:section
tags words | tags, keywords, topics, labels, hashtags, subjects @ keywords about # keywords article:tag news_keywords
domain word | domain, domain name, source domain, host, hostname
url url | url, link, href, permalink, canonical url, canonical, web address, source url, website url, homepage, apply url, apply link @ url @id # og:url
image image | image, picture, photo, thumbnail, cover, icon, avatar, img, featured image, cover image, main image @ image thumbnailUrl primaryImageOfPage # og:image twitter:image
logo image | logo @ logo publisher.logo
video url | video, trailer, embed url @ video contentUrl embedUrl # og:video
price price | price, current price, sale price, selling price, unit price, cost, price usd, price eur, price gbp, amount, fee, fees, tuition, tuition fee, rate, ticket price, listing price, our price, asking price, monthly price, price per month, now, total cost, total price, starting price, price from, admission @ offers.price offers.priceSpecification.price offers.lowPrice offers.offers.price price lowPrice # product:price:amount og:price:amount
high_price price | high price, max price, maximum price, highest price @ offers.highPrice
low_price price | low price, min price, minimum price, lowest price @ offers.lowPrice
old_price price | old price, list price, original price, regular price, was price, rrp, msrp, retail price, full price, price before discount, was, compare at price, previous price, crossed out price, standard price @ offers.priceSpecification.listPrice
currency currency | currency, price currency, currency code @ offers.priceCurrency offers.priceSpecification.priceCurrency offers.offers.priceCurrency priceCurrency # product:price:currency og:price:currency
availability stock | availability, in stock, stock, available, stock status, inventory status, out of stock, sold out @ offers.availability offers.offers.availability availability # product:availability og:availability
brand name | brand, manufacturer, make, maker, vendor, brand name, producer @ brand manufacturer # product:brand og:brand
sku code | sku, product code, item number, item no, article number, item code, product id, model number, part number, mpn, article no, stock code, style number, product number, item id, reference, part no, catalog number @ sku mpn productID # product:retailer_item_id
gtin code | gtin, ean, upc, barcode, gtin13, gtin12, ean13 @ gtin13 gtin gtin12 gtin14 gtin8
isbn code | isbn, isbn 13, isbn 10, isbn13, isbn10 @ isbn # book:isbn
color name | color, colour, colorway @ color # product:color
material text | material, materials, fabric, composition, made of, made from @ material
weight quantity | weight, net weight, shipping weight, mass @ weight
depth quantity | depth, length @ depth
condition word | condition @ itemCondition offers.itemCondition # product:condition
warranty text | warranty, guarantee @ warranty offers.warranty
features texts | features, key features, about this item, bullet points, highlights, feature list, benefits, key benefits, what you get, advantages, includes, included, whats included, in the box, whats in the box, package contents
specs pairs | specifications, specs, attributes, technical details, technical specifications, tech specs, details, properties, parameters, facts @ additionalProperty
rating rating | rating, ratings average, stars, average rating, score, star rating, rating value, review score, user rating, overall rating, review rating, customer rating @ aggregateRating.ratingValue reviewRating.ratingValue ratingValue
reviews_count count | reviews, ratings, review count, reviews count, number of reviews, rating count, ratings count, number of ratings, total reviews, total ratings, customer reviews @ aggregateRating.reviewCount aggregateRating.ratingCount reviewCount ratingCount
reviews records | reviews, customer reviews, user reviews, testimonials, quotes @ review reviews
seller name | seller, sold by, merchant, store, shop, retailer, supplier @ offers.seller seller
start date | start date, start, starts, starts at, date start, from date, begin, begins, event date, when, start time, date and time, starts on, event start, dates @ startDate
end date | end date, end, ends, ends at, until, to date, event end, end time, valid through, deadline, closing date, application deadline, expires, apply by, closes @ endDate validThrough
venue place | venue, location name, place, where @ location
location place | location, city, place name, region, job location, based in, locality, town, area, office @ jobLocation.address location.address location address applicantLocationRequirements
organizer name | organizer, organiser, organized by, host, hosted by, presented by @ organizer
performers persons | performers, performer, artists, speakers, presenters, lineup, cast, actors @ performer performers actor
company name | company, employer, hiring organization, organization, organisation, company name, business name, firm, hiring company, business, institution, university, school, provider @ hiringOrganization provider # og:site_name
salary salary | salary, pay, compensation, wage, salary range, remuneration, pay range @ baseSalary estimatedSalary
job_type word | employment type, job type, contract type, work type @ employmentType
remote flag | remote, work from home, remote allowed, remote work @ jobLocationType
experience text | experience, experience level, seniority, level, difficulty @ experienceRequirements educationalLevel
requirements texts | requirements, qualifications, skills required, required skills, must have, minimum qualifications, what you need, prerequisites, admission requirements, eligibility @ qualifications skills coursePrerequisites
responsibilities texts | responsibilities, duties, tasks, what you will do, job duties, key responsibilities
perks texts | perks, job benefits, we offer, what we offer @ jobBenefits
skills texts | skills, technologies, tech stack, tools, topics covered, what you will learn, learning outcomes, outcomes @ skills teaches
ingredients texts | ingredients, ingredient, ingredient list @ recipeIngredient ingredients
steps texts | instructions, steps, directions, method, procedure, preparation steps, preparation, how to, how to make @ recipeInstructions step
prep_time duration | prep time, preparation time, prep, hands on time @ prepTime
cook_time duration | cook time, cooking time, bake time, baking time, cook, bake @ cookTime
total_time duration | total time, ready in, time, total, time required @ totalTime timeRequired
yield text | yield, servings, serves, portions, makes, serving size, number of servings, yields @ recipeYield
calories quantity | calories, kcal, energy, calories per serving @ nutrition.calories
cuisine word | cuisine @ recipeCuisine
course word | course, meal type, dish type, recipe category @ recipeCategory
nutrition pairs | nutrition, nutrition facts, nutritional information @ nutrition
duration duration | duration, runtime, running time, run time, reading time, read time, course length, program length, estimated time, time to complete, play time @ duration timeRequired
pages count | pages, page count, number of pages, print length @ numberOfPages
edition word | edition, version, current version, latest version, latest release, release @ bookEdition softwareVersion version
format word | format, book format, file format, delivery format, delivery method, delivery mode, mode @ bookFormat encodingFormat
os words | operating system, platforms, os, supported platforms @ operatingSystem
publisher name | publisher name, publisher, published by, imprint @ publisher
director persons | director, directed by, directors @ director
genres words | genres, genre list @ genre
year year | year, release year, publication year, year published, founded year, year founded
founded year | founded, established, founded in, year established, founding date, since, founding year, in business since, established in @ foundingDate
founder person | founder, founded by, founders, ceo @ founder
employees count | employees, number of employees, team size, staff, company size, headcount @ numberOfEmployees
email email | email, e mail, email address, contact email, mail @ email contactPoint.email
phone phone | phone, telephone, phone number, tel, telephone number, contact number, mobile, call, hotline, toll free, call us, phone no @ telephone contactPoint.telephone
fax phone | fax, fax number @ faxNumber
address address | address, postal address, mailing address, full address, headquarters, hq, office address, visit us, head office @ address location.address
street text | street address, street, address line, address line 1 @ address.streetAddress location.address.streetAddress streetAddress
city name | city, town, locality @ address.addressLocality location.address.addressLocality jobLocation.address.addressLocality addressLocality
state name | state, region, province, county @ address.addressRegion location.address.addressRegion jobLocation.address.addressRegion addressRegion
postcode code | zip, zip code, postal code, postcode, zipcode @ address.postalCode location.address.postalCode postalCode
country name | country, nation, country of origin, nationality @ address.addressCountry location.address.addressCountry addressCountry countryOfOrigin
hours texts | opening hours, hours, business hours, working hours, office hours, hours of operation @ openingHours openingHoursSpecification
social urls | social, social links, social media, social profiles, same as @ sameAs
service_area text | service area, area served, areas served, service areas, locations served, coverage area @ areaServed
services texts | services, services offered, our services, offerings, what we do, treatments @ hasOfferCatalog makesOffer
comments_count count | comments, comment count, comments count, number of comments, total comments @ commentCount
answers_count count | answers, answer count, answers count, number of answers, total answers @ answerCount
replies_count count | replies, reply count, replies count, number of replies, responses, total replies, posts, post count, number of posts, posts count @ commentCount answerCount
views_count count | views, view count, views count, number of views, viewed, times viewed, hits, visits
votes_count count | votes, vote count, upvotes, points, score, vote, number of votes, likes, like count, likes count, hearts, karma @ upvoteCount
stars_count count | stars, star count, stargazers
results_count count | results, total results, result count, number of results, number of products, product count, total products, items count, number of items, total items, total @ numberOfItems mainEntity.numberOfItems
questions records | faq, faqs, questions, frequently asked questions, questions and answers, q and a @ mainEntity
question name | question, q, question title, question text @ name
answer prose | answer, accepted answer, solution, best answer, top answer, response, reply text @ acceptedAnswer.text suggestedAnswer.text
answers records | answers, replies, responses, posts, comments @ acceptedAnswer suggestedAnswer comment
headings words | headings, sections, section titles, subheadings, section headings, outline, table of contents, toc, chapters
images images | images, photos, pictures, gallery, screenshots @ image
links urls | links, urls, outbound links, references, external links
emails emails | emails, email addresses, contact emails @ email
phones phones | phones, phone numbers, telephone numbers, contact numbers @ telephone
code text | code, code example, example, example code, code sample, sample, syntax, signature, usage
rank number | rank, position, ranking, no, number, index, pos @ position
discount text | discount, savings, you save, save, percent off
"""

# Names of units in the singular, with the short name of each.
UNITS = {
    name: names.split(",")[0]
    for names in (
        "mm,millimeter,millimetre cm,centimeter,centimetre m,meter,metre km,kilometer,kilometre "
        "mi,mile in,inch ft,foot,feet mg g,gram kg,kilogram oz,ounce lb,lbs,pound "
        "ml,milliliter,millilitre cl dl l,liter,litre"
    ).split()
    for name in names.split(",")
}
CURRENCIES = frozenset(
    "usd eur gbp chf cad aud nzd sek nok dkk pln czk jpy inr brl zar sgd hkd".split()
)
_WORDS = re.compile(r"[^\W_]+")


@frozen
class Concept:
    """A meaning that fields may have."""

    #: Name of the concept.
    name: str
    #: How a value is written, such as ``price`` or ``date``.
    shape: str
    #: Phrases of lower-case words, the best first.
    words: tuple[str, ...]
    #: Properties of schema.org below the page's subject, the best first.
    paths: tuple[str, ...] = ()
    #: Lower-case names of ``<meta>`` elements.
    metas: tuple[str, ...] = ()


def _concept(line: str) -> Concept:
    head, _, tail = line.partition(" | ")
    tail, _, metas = tail.partition(" # ")
    words, _, paths = tail.partition(" @ ")
    name, shape = head.split()
    phrases = tuple(words.split(", "))
    return Concept(name, shape, phrases, tuple(paths.split()), tuple(metas.split()))


CONCEPTS = tuple(map(_concept, VOCABULARY.strip().split("\n")))
BY_NAME = {concept.name: concept for concept in CONCEPTS}
_BY_PHRASE: dict[str, list[Concept]] = {}
for _each in CONCEPTS:
    for _phrase in _each.words:
        _BY_PHRASE.setdefault(_phrase, []).append(_each)

# Shapes that fit a JSON type, the preferred shapes first.
_CONCEPT_SHAPES = {
    "array": "texts words records urls images persons pairs emails phones",
    "object": "pairs place address name person salary rating quantity",
    "boolean": "stock flag",
    "integer": "count number year rating price duration quantity salary",
    "number": "price rating number count quantity salary year duration",
    "string": "title prose person date name text word code url image price currency stock "
    "place address phone email quantity duration rating year salary number count flag "
    "texts words persons",
}
_RANKS = {
    kind: {shape: rank for rank, shape in enumerate(shapes.split())}
    for kind, shapes in _CONCEPT_SHAPES.items()
}


@lru_cache(maxsize=4096)
def words_of(text: str) -> tuple[str, ...]:
    """Return the lower-case words of a name or label; ``reviewCount`` has two words."""
    spaced = re.sub(r"['\u2019](?=s\b|re\b|t\b)", "", text)
    spaced = re.sub(r"(?<=[a-zà-ÿ])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_", " ", spaced)
    return tuple(word.lower() for word in _WORDS.findall(spaced))


def phrase_of(text: str) -> str:
    """Return the words of a name or label, joined with spaces."""
    return " ".join(words_of(text))


def singular(word: str) -> str:
    """Return a word without an English plural ending, by simple rules."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


@lru_cache(maxsize=2048)
def concept_of(phrase: str, kind: str) -> Concept | None:
    """Return the concept of a phrase that best fits a JSON type, None if unknown.

    For texts, the concept that lists the phrase earliest is the best.
    """
    *before, last = phrase.split() or [""]
    other = " ".join((*before, singular(last)))
    found = next(
        (_BY_PHRASE[p] for p in (phrase, other, other + "s") if p in _BY_PHRASE), []
    )
    ranks = _RANKS.get(kind, {})
    if kind in {"integer", "number", "boolean", "array"}:
        fitting = [concept for concept in found if concept.shape in ranks]
        return min(fitting, key=lambda c: ranks[c.shape], default=None)
    return min(
        found,
        key=lambda c: (
            c.shape not in ranks,
            c.words.index(phrase) if phrase in c.words else 99,
        ),
        default=None,
    )


# Things that a field may belong to; they are no part of its meaning.
SUBJECTS = frozenset(
    "product article item page post job event recipe company book movie film thread listing "
    "blog story news document entry record paper hotel restaurant program programme business "
    "app game topic house property vacancy main full primary list site shop store current "
    "displayed exact visible question course organization organisation institution "
    "repository package song album person profile conference discussion message".split()
)
_FILLERS = frozenset(
    "str string value text information info data field usd eur gbp chf in on at the a an raw "
    "dollars euros euro pounds cents array all of iso formatted per each any found shown as minutes "
    "hours seconds mins available".split()
)
_MEASURES = frozenset(
    "score count number total num of amount rating value quantity supported reached".split()
)
_NUMBERS = frozenset({"integer", "number"})
_TIMES = frozenset("seconds minutes mins hours".split())
_LENGTHS = frozenset("height width depth length diameter thickness".split())
_CODES = frozenset("id identifier number no code".split())
LINK_FORMATS = frozenset({"uri", "url", "uri-reference", "iri"})
_FORMATS = {
    "date": "published",
    "date-time": "published",
    "email": "email",
    "idn-email": "email",
    "duration": "duration",
    "phone": "phone",
}
_COUNT_OF = re.compile(
    r"^(?:num|number|count|total number|total|amount|no|nb)(?: of)?(?: the)? (?P<things>.+)$"
)
_COUNT = re.compile(r"^(?P<things>.+) (?:counts?|total|number)$")
_TITLE = re.compile(r"^(?:title|name|headline|heading)(?: of (?:the |a |an )?.+)?$")
_STOP = frozenset(
    "the a an of for to in on and or is are was were be been this that it its with from by as at "
    "which what who whose when where how they we you your our their has have had will can all "
    "per each one some any only not if shown given listed mentioned e g i eg ie etc page".split()
)
_SHAPES = {
    "integer": "number",
    "number": "number",
    "boolean": "flag",
    "array": "texts",
    "object": "pairs",
}


@frozen(eq=False)
class RequestedField:
    """A field of a schema with its meaning."""

    #: The field of the schema.
    field: Field
    #: Phrases that a label of the field may have, the field's own phrases first.
    phrases: tuple[str, ...]
    #: Number of the field's own phrases at the start of ``phrases``.
    own_count: int
    #: The concept of the vocabulary, None for an unknown name.
    concept: Concept | None
    #: How a value is written, such as ``price`` or ``date``.
    shape: str
    #: Words for the counted things, if the field is a count.
    counted: tuple[str, ...] = ()
    #: True for a name such as ``recipe`` that may stand for the thing's title.
    is_subject: bool = False
    #: The unit or currency at the end of the name, as in ``height_cm``, or empty.
    unit: str = ""

    @property
    def name(self) -> str:
        return self.field.name

    @property
    def own_phrases(self) -> tuple[str, ...]:
        return self.phrases[: self.own_count]

    @property
    def concept_name(self) -> str:
        """The name of the concept, empty without a concept."""
        return self.concept.name if self.concept else ""

    @property
    def content_words(self) -> frozenset[str]:
        """Words of name and description without stop words, in the singular."""
        return content_words_of(phrase_of(f"{self.name} {self.field.description}"))


@lru_cache(maxsize=1024)
def interpret_field(field: Field, around: str = "") -> RequestedField:
    """Return a field with its meaning.

    ``around`` is the name of the object that contains the field.
    """
    name, description = phrase_of(field.name), phrase_of(field.description)
    kind = field.kind or "string"
    subjects = SUBJECTS | {singular(word) for word in words_of(around)}
    unit = _unit_of(name, kind)
    bare_name = _without_subject(name.rpartition(" ")[0] if unit else name, subjects)
    concept = _concept_by_name(name, bare_name, kind)
    counted = _counted_words(name, description, kind, is_known=concept is not None)
    if concept and concept.shape in {"price", "salary"} and unit in UNITS:
        unit = ""  # a currency such as pounds
    is_unlike = kind == "string" and concept is not None and concept.shape == "count"
    if is_unlike or concept is None or concept.shape in {"texts", "words", "records"}:
        concept = _concept_by_description(description, kind) or concept
    if concept is None and kind == "string" and bare_name in subjects:
        concept = BY_NAME["title"]
    concept = _concept_by_format(concept, field)
    is_other = counted and concept is not None and concept.shape != "count"
    own = _own_phrases(name, bare_name, description, kind)
    others = concept.words if concept and not is_other else ()
    shape = concept.shape if concept else _SHAPES.get(kind, "text")
    if concept is None and unit in _TIMES:
        shape = "duration"
    elif counted and (concept is None or shape != "number"):
        shape = "count"
    elif concept is None and field.format in LINK_FORMATS:
        shape = "url"
    return RequestedField(
        field,
        tuple(dict.fromkeys((*own, *others))),
        len(own),
        concept,
        shape,
        counted,
        kind == "string"
        and not field.format
        and bare_name in SUBJECTS
        and (concept is None or concept.shape in {"title", "word"}),
        "" if unit in _TIMES else unit,
    )


def _unit_of(name: str, kind: str) -> str:
    """Return the unit, currency or period that ends the name of a number, or nothing."""
    *before, last = name.split() or [""]
    unit = singular(last)
    if last in _TIMES:
        return last
    is_unit = before and before[-1] != "per" and kind in _NUMBERS
    is_unit = is_unit and (unit != "in" or before[-1] in _LENGTHS)
    return unit if is_unit and (unit in UNITS or unit in CURRENCIES) else ""


def _own_phrases(name: str, bare_name: str, description: str, kind: str) -> list[str]:
    words, own = name.split(), [name]
    if len(description.split()) <= 6:
        own.append(description)
    own.append(bare_name)
    if len(words) > 1 and words[-1] in _CODES and words[0] not in SUBJECTS:
        own.append(" ".join(words[:-1]))
    if kind == "array" and bare_name:
        *before, last = bare_name.split()
        own.append(" ".join((*before, singular(last))))
    if kind in {"integer", "number"}:
        own.append(" ".join(w for w in words if w not in _MEASURES))
    return [
        phrase for phrase in dict.fromkeys(own) if phrase and phrase not in SUBJECTS
    ]


def content_words_of(phrase: str) -> frozenset[str]:
    """Return the words of a phrase without stop words, in the singular."""
    return frozenset(singular(w) for w in phrase.split() if w not in _STOP)


def _without_subject(name: str, subjects: frozenset[str]) -> str:
    """Return a name without its subject and fillers.

    A name of such words alone keeps the subject or, if it has none, the fillers.
    """
    bare = [w for w in name.split() if w not in _FILLERS]
    kept = [w for w in bare if w not in subjects]
    return " ".join(kept or bare) or name


def _concept_by_name(name: str, bare_name: str, kind: str) -> Concept | None:
    """Return the concept of a name, or of the part that carries the meaning."""
    phrases = [name, bare_name]
    if match := _COUNT_OF.match(name):
        phrases.append(f"{match['things']} count")
    words = bare_name.split()
    if len(words) == 2 and words[1] in {"name", "names", "title"}:
        phrases.append(words[0])
    if len(words) >= 2 and words[-1] in {"date", "url", "email", "phone", "address"}:
        phrases.append(words[-1])
    if words and words[0] == "is":
        phrases.append(" ".join(words[1:]))
    return next(filter(None, (concept_of(phrase, kind) for phrase in phrases)), None)


def _concept_by_description(description: str, kind: str) -> Concept | None:
    """Return the concept that a description names first."""
    if kind == "string" and _TITLE.match(description) and len(description.split()) <= 8:
        _head, _, tail = description.partition(" of ")
        of = concept_of(_without_subject(tail, SUBJECTS), kind)
        return of if of and of.shape in {"name", "person"} else BY_NAME["title"]
    words = [w for w in description.split() if w not in _STOP and w not in _FILLERS][:5]
    for size in (3, 2, 1):
        for start in range(len(words) - size + 1):
            phrase = " ".join(words[start : start + size])
            found = concept_of(phrase, kind) if phrase not in SUBJECTS else None
            if found:
                return found
    return None


def _counted_words(
    name: str, description: str, kind: str, *, is_known: bool
) -> tuple[str, ...]:
    matches = [_COUNT.match(name)]
    if kind in {"integer", "number"}:
        matches += [_COUNT_OF.match(name), _COUNT_OF.match(description)]
    elif kind != "string" or not name.endswith(" count"):
        return ()
    things = next((match["things"] for match in matches if match), "")
    is_plural = any(word.endswith("s") for word in name.split())
    is_count = kind == "integer" and is_plural and (" " not in name or not is_known)
    things = things or (name if is_count else "")
    return tuple(word for word in things.split() if word not in _STOP)[:3]


def _concept_by_format(concept: Concept | None, field: Field) -> Concept | None:
    """Return the concept that agrees with the field's format.

    The format takes precedence over a name with another meaning.
    """
    shape = concept.shape if concept else ""
    if field.format in LINK_FORMATS and shape not in {"url", "image", "urls"}:
        return concept if field.kind == "array" else None
    named = _FORMATS.get(field.format)
    if named and (concept is None or named in {"email", "phone"}):
        return BY_NAME[named]
    return BY_NAME["published"] if named == "published" and shape != "date" else concept
