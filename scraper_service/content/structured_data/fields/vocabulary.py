"""What fields are called, and where pages say it: one line for each meaning.

The shape of its values comes first (see ``concepts.py``), then the words for it in field
names and labels, best first; ``@`` are properties of schema.org, as paths from the thing
that a page is about; ``#`` names of ``<meta>``. Words of other languages are those that
labels have.
"""

VOCABULARY = """
title name | title, headline, heading, name, subject, topic, caption, titel, titre, título, titolo, called
  @ name headline title # og:title twitter:title
description prose | description, short description, summary, standfirst, deck, long description, product description, page description, meta description, abstract, about, overview, excerpt, teaser, blurb, synopsis, lead, intro, introduction, subtitle, tagline, snippet, beschreibung, descripción, descrizione, omschrijving
  @ description abstract # description og:description twitter:description
body prose | body, content, text, article text, full text, main text, message, comment, post, article body, answer text, transcript, review text, quote, testimonial
  @ articleBody text reviewBody commentText
author person | author, byline, writer, by, started by, topic starter, thread starter, author username, written by, posted by, creator, contributor, reporter, journalist, author name, poster, username, user, user name, asker, asked by, answered by, reviewer, reviewed by, submitter, submitted by, uploader, artist, speaker, presenter, owner, developer, op, autor, auteur, autore, verfasser, von, par
  @ author creator # author article:author dc.creator
published date | published, date, publish date, publication date, published date, date published, published at, published on, publish time, published time, posted, posted on, posted at, post date, posted date, date posted, created, created at, created on, creation date, date created, release date, released, released on, launch date, upload date, written on, submitted on, submitted, asked, asked on, asked at, timestamp, veröffentlicht, datum, fecha, data, publié, fecha de publicación, erscheinungsdatum, listed on
  @ datePublished datePosted dateCreated uploadDate releaseDate
modified date | modified, updated, last updated, updated at, updated on, last modified, date modified, modified at, modified date, update date, last edited, edited, last update, revised, last revised, last reviewed, aktualisiert, mis à jour
  @ dateModified
language word | language, lang, locale, inlanguage, in language, sprache, langue, idioma
  @ inLanguage
site name | site, site name, publisher, website, website name, source, publication, newspaper, outlet, blog name, platform
  @ publisher isPartOf # og:site_name application-name
section word | section, category, categories, genre, department, kategorie, catégorie, categoría, article section, product category, breadcrumb category, primary category
  @ articleSection category genre # article:section
tags words | tags, keywords, topics, labels, hashtags, subjects, themen, étiquettes
  @ keywords about # keywords article:tag news_keywords
domain word | domain, domain name, source domain, site domain, host, hostname
url url | url, link, address url, href, page url, permalink, canonical url, canonical, web address, product url, product link, source url, detail url, website url, homepage, apply url, apply link, application url
  @ url @id # og:url
image image | image, picture, photo, image url, photo url, thumbnail, cover, cover image, featured image, hero image, main image, primary image, icon, avatar, bild, logo image, img, thumbnail url, picture url
  @ image thumbnailUrl primaryImageOfPage # og:image twitter:image
logo image | logo, logo url, brand logo, company logo
  @ logo publisher.logo
video url | video, video url, trailer, embed url
  @ video contentUrl embedUrl # og:video
price price | price, current price, sale price, selling price, unit price, cost, price usd, price eur, price gbp, amount, fee, fees, tuition, tuition fee, rate, preis, prix, precio, prezzo, prijs, preço, cena, ticket price, listing price, our price, asking price, price amount, monthly price, price per month, now, total cost, total price, starting price, buy price, from price, price from, admission
  @ offers.price offers.priceSpecification.price offers.lowPrice offers.offers.price price lowPrice # product:price:amount og:price:amount
high_price price | high price, max price, maximum price, highest price, price max
  @ offers.highPrice
low_price price | low price, min price, minimum price, lowest price, price min
  @ offers.lowPrice
old_price price | old price, list price, original price, regular price, was price, rrp, msrp, retail price, full price, price before discount, was, compare at price, previous price, strike price, uvp, ancien prix, before price, crossed out price, standard price
  @ offers.priceSpecification.listPrice
currency currency | currency, price currency, currency code, währung, devise, moneda, valuta
  @ offers.priceCurrency offers.priceSpecification.priceCurrency offers.offers.priceCurrency priceCurrency # product:price:currency og:price:currency
availability stock | availability, in stock, stock, available, stock status, is available, availability status, is in stock, inventory status, verfügbarkeit, disponibilité, disponibilidad, lagerstand, out of stock, sold out
  @ offers.availability offers.offers.availability availability # product:availability og:availability
brand name | brand, manufacturer, make, maker, vendor, brand name, marke, hersteller, marque, fabricant, marca, merk, producer, label name
  @ brand manufacturer # product:brand og:brand
sku code | sku, product code, item number, item no, article number, item code, product id, model number, part number, mpn, article no, artikelnummer, référence, reference, stock code, style number, product number, item id, item sku, product reference, artikelnr, art nr, item, part no, mfr part, codice, referencia, catalog number, style code
  @ sku mpn productID # product:retailer_item_id
gtin code | gtin, ean, upc, barcode, gtin13, gtin12, ean code, ean13, upc code
  @ gtin13 gtin gtin12 gtin14 gtin8
isbn code | isbn, isbn 13, isbn 10, isbn13, isbn10
  @ isbn # book:isbn
model name | model, model name, modell, modèle, modelo
  @ model
color name | color, colour, farbe, couleur, kleur, colore, cor, colorway
  @ color # product:color
size text | size, größe, taille, talla, grösse
  @ size
material text | material, materials, fabric, composition, matériau, matière, materiale, made of, made from, materiaal
  @ material
weight quantity | weight, gewicht, poids, peso, item weight, product weight, net weight, shipping weight, mass
  @ weight
dimensions text | dimensions, product dimensions, measurements, size dimensions, abmessungen, maße, dimensiones, dimensioni, afmetingen
width quantity | width, breite, largeur, ancho, breedte
  @ width
height quantity | height, höhe, hauteur, alto, hoogte
  @ height
depth quantity | depth, tiefe, profondeur, length, länge
  @ depth
condition word | condition, item condition, zustand, état
  @ itemCondition offers.itemCondition # product:condition
warranty text | warranty, guarantee, garantie, garantía
  @ warranty offers.warranty
features texts | features, key features, about this item, bullet points, highlights, feature list, bullet points, product features, benefits, key benefits, what you get, advantages, includes, included, whats included, in the box, whats in the box, package contents, about this item, merkmale, caractéristiques
specs pairs | specifications, specs, attributes, technical details, technical specifications, tech specs, product details, details, properties, parameters, facts, product information, technische daten
  @ additionalProperty
rating rating | rating, ratings average, stars, average rating, score, star rating, rating value, review score, user rating, avg rating, overall rating, review rating, bewertung, note, valoración, customer rating, rating average, rating stars, average score
  @ aggregateRating.ratingValue reviewRating.ratingValue ratingValue
rating_max number | best rating, rating scale, max rating, maximum rating, rating max, out of
  @ aggregateRating.bestRating reviewRating.bestRating
reviews_count count | reviews, ratings, review count, reviews count, number of reviews, num reviews, rating count, ratings count, number of ratings, total reviews, reviews number, reviews total, num ratings, total ratings, ratings number, bewertungen, avis, customer reviews
  @ aggregateRating.reviewCount aggregateRating.ratingCount reviewCount ratingCount
reviews records | reviews, customer reviews, user reviews, testimonials, quotes
  @ review reviews
seller name | seller, sold by, merchant, store, shop, retailer, seller name, verkäufer, vendeur, supplier, store name
  @ offers.seller seller
shipping text | shipping, delivery, shipping info, delivery time, shipping cost, lieferzeit, livraison, versand, delivery info
start date | start date, start, starts, starts at, date start, from date, begin, begins, event date, when, start time, date and time, date time, starts on, beginn, datetime, event start, dates, termin
  @ startDate
end date | end date, end, ends, ends at, until, to date, event end, end time, valid through, deadline, closing date, application deadline, expires, apply by, expiry date, closes, registration deadline
  @ endDate validThrough
venue place | venue, venue name, location name, place, where, ort, lieu, lugar, veranstaltungsort
  @ location
location place | location, city, place name, region, job location, based in, standort, locality, town, area, office, ubicación, city state
  @ jobLocation.address location.address location address applicantLocationRequirements
organizer name | organizer, organiser, organized by, host, hosted by, presented by, veranstalter, organisateur
  @ organizer
performers persons | performers, performer, artists, speakers, presenters, lineup, cast, actors
  @ performer performers actor
company name | company, employer, hiring organization, organization, organisation, company name, business name, firm, employer name, hiring company, business, org, institution, university, school, provider, unternehmen, entreprise, empresa
  @ hiringOrganization provider
salary salary | salary, pay, compensation, wage, salary range, base salary, gehalt, salaire, salario, remuneration, pay range, earnings
  @ baseSalary estimatedSalary
job_type word | employment type, job type, contract type, type of employment, work type, schedule type, commitment, position type, anstellungsart
  @ employmentType
remote flag | remote, is remote, work from home, remote allowed, remote work, telecommute
  @ jobLocationType
experience text | experience, experience level, seniority, years of experience, level, skill level, difficulty, difficulty level
  @ experienceRequirements educationalLevel
requirements texts | requirements, qualifications, skills required, required skills, must have, minimum qualifications, what you need, what we look for, prerequisites, anforderungen, admission requirements, eligibility
  @ qualifications skills coursePrerequisites
responsibilities texts | responsibilities, duties, tasks, what you will do, job duties, role, key responsibilities, aufgaben
  @ responsibilities
perks texts | perks, job benefits, we offer, what we offer
  @ jobBenefits
skills texts | skills, technologies, tech stack, stack, tools, topics covered, what you will learn, learning outcomes, skills gained, outcomes, what youll learn
  @ skills teaches
ingredients texts | ingredients, ingredient, zutaten, ingrédients, ingredientes, ingredienti, ingredient list
  @ recipeIngredient ingredients
steps texts | instructions, steps, directions, method, recipe instructions, procedure, preparation steps, zubereitung, préparation, preparation, how to, how to make
  @ recipeInstructions step
prep_time duration | prep time, preparation time, prep, vorbereitungszeit, temps de préparation, hands on time
  @ prepTime
cook_time duration | cook time, cooking time, bake time, baking time, cook, kochzeit, temps de cuisson, bake
  @ cookTime
total_time duration | total time, ready in, time, total, gesamtzeit, time required
  @ totalTime timeRequired
yield text | yield, servings, serves, portions, makes, serving size, portionen, number of servings, yields, recipe yield, rendimiento
  @ recipeYield
calories quantity | calories, kcal, energy, kalorien, calories per serving
  @ nutrition.calories
cuisine word | cuisine, küche, cuisine type
  @ recipeCuisine
course word | course, meal type, dish type, recipe category
  @ recipeCategory
nutrition pairs | nutrition, nutrition facts, nutritional information, nährwerte
  @ nutrition
duration duration | duration, length of time, runtime, running time, run time, reading time, read time, course length, dauer, durée, duración, program length, estimated time, time to complete, play time, playtime, course duration, program duration
  @ duration timeRequired
pages count | pages, page count, number of pages, print length, seiten, num pages
  @ numberOfPages
edition text | edition, version, current version, latest version, release, software version, latest release
  @ bookEdition softwareVersion version
format word | format, book format, file format, delivery format, delivery method, delivery mode, mode, attendance mode
  @ bookFormat encodingFormat
license word | license, licence, lizenz
  @ license
os words | operating system, platforms, platform, os, supported platforms, system requirements
  @ operatingSystem
publisher name | publisher name, publisher, published by, verlag, éditeur, editorial, publishing house, imprint
  @ publisher
director persons | director, directed by, directors
  @ director
genres words | genres, genre list
  @ genre
year year | year, release year, publication year, year published, jahr, année, año, founded year, year founded, established year
founded year | founded, established, founded in, year established, founding date, since, founding year, in business since, established in, gegründet, established on
  @ foundingDate
founder person | founder, founded by, founders, ceo, owner name
  @ founder
employees count | employees, number of employees, team size, staff, company size, headcount, employee count, mitarbeiter
  @ numberOfEmployees
email email | email, e mail, email address, contact email, mail, support email, e mail address
  @ email contactPoint.email
phone phone | phone, telephone, phone number, tel, telephone number, contact number, mobile, call, telefon, téléphone, teléfono, contact phone, hotline, toll free, call us, phone no
  @ telephone contactPoint.telephone
fax phone | fax, fax number
  @ faxNumber
address address | address, postal address, mailing address, full address, headquarters, hq, adresse, dirección, indirizzo, office address, visit us, physical address, head office, location address
  @ address location.address
street text | street address, street, street name, address line, address line 1, straße, rue, street address line
  @ address.streetAddress location.address.streetAddress streetAddress
city name | city, town, locality, stadt, ville, ciudad
  @ address.addressLocality location.address.addressLocality jobLocation.address.addressLocality addressLocality
state name | state, region, province, county, bundesland
  @ address.addressRegion location.address.addressRegion jobLocation.address.addressRegion addressRegion
postcode code | zip, zip code, postal code, postcode, plz, code postal, zipcode
  @ address.postalCode location.address.postalCode postalCode
country name | country, land, pays, país, nation, country of origin, nationality
  @ address.addressCountry location.address.addressCountry addressCountry countryOfOrigin
hours texts | opening hours, hours, business hours, working hours, öffnungszeiten, horaires, horario, office hours, hours of operation
  @ openingHours openingHoursSpecification
social urls | social, social links, social media, social profiles, same as, social media links
  @ sameAs
service_area text | service area, area served, areas served, serves areas, service areas, locations served, coverage area
  @ areaServed
services texts | services, services offered, our services, offerings, what we do, leistungen, solutions, treatments, service list
  @ hasOfferCatalog makesOffer
comments_count count | comments, comment count, comments count, number of comments, num comments, total comments, kommentare, commentaires
  @ commentCount
answers_count count | answers, answer count, answers count, number of answers, num answers, total answers
  @ answerCount
replies_count count | replies, reply count, replies count, number of replies, num replies, responses, response count, total replies, posts, post count, number of posts, posts count
  @ commentCount answerCount
views_count count | views, view count, views count, number of views, num views, viewed, times viewed, pageviews, hits, visits, aufrufe, vues
votes_count count | votes, vote count, upvotes, points, score, vote, number of votes, num votes, net votes, likes, like count, likes count, hearts, thumbs up, karma, upvote count
  @ upvoteCount
shares_count count | shares, share count
followers_count count | followers, follower count, subscribers, number of followers
stars_count count | stars, star count, stargazers, github stars, total stars
forks_count count | forks, fork count
downloads_count count | downloads, download count, installs, number of downloads
results_count count | results, total results, result count, number of results, results count, number of products, product count, total products, items count, number of items, total items, total
  @ numberOfItems mainEntity.numberOfItems
participants_count count | participants, users count, number of participants, attendees, enrolled, students, number of students, enrollment, learners
members_count count | members, member count, number of members
questions records | faq, faqs, questions, frequently asked questions, questions and answers, q and a, qa
  @ mainEntity
question name | question, faq question, q, question title, question text
  @ name
answer prose | answer, accepted answer, solution, best answer, top answer, a, response, reply text, antwort
  @ acceptedAnswer.text suggestedAnswer.text
answers records | answers, replies, responses, posts, comments
  @ acceptedAnswer suggestedAnswer comment
breadcrumbs words | breadcrumbs, breadcrumb, category path, breadcrumb trail, navigation path
headings words | headings, sections, section titles, subheadings, section headings, outline, table of contents, toc, chapters, subheads, h2 headings, topics covered list, section names
images images | images, image urls, photos, pictures, gallery, image list, picture urls, screenshots, image links, photo urls
links urls | links, urls, outbound links, references, external links
emails emails | emails, email addresses, contact emails
phones phones | phones, phone numbers, telephone numbers, contact numbers
code text | code, code example, example, example code, code sample, snippet code, sample, syntax, signature, usage
codes texts | code examples, examples, code snippets, code samples, snippets
rank number | rank, position, ranking, place in list, no, number, index, pos
  @ position
discount text | discount, savings, you save, save, percent off, discount percentage, discount percent, rabatt, ersparnis
wins number | wins, w, won, victories
losses number | losses, l, lost, defeats
percentage number | win percentage, pct, percentage, percent, win pct, win rate
pros texts | pros, advantages, upsides, strengths, what we like, likes, the good
cons texts | cons, disadvantages, downsides, weaknesses, drawbacks, what we dont like, dislikes, the bad
"""
