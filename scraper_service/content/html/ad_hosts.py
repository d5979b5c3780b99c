"""The hosts of advertising, tracking and consent, built in; all their subdomains count."""

from __future__ import annotations

AD_HOSTS = frozenset(
    """
    2mdn.net adform.net adlightning.com admob.com adnxs.com adroll.com ads-twitter.com
    adsafeprotected.com adsrvr.org adsymptotic.com amazon-adsystem.com amplitude.com
    analytics.google.com analytics.tiktok.com app-measurement.com appnexus.com
    atdmt.com bat.bing.com bidswitch.net bluekai.com bounceexchange.com branch.io
    casalemedia.com chartbeat.com chartbeat.net clarity.ms connect.facebook.net
    contextweb.com cookiebot.com cookielaw.org crazyegg.com criteo.com criteo.net
    crwdcntrl.net demdex.net didomi.io doubleclick.net doubleverify.com everesttech.net
    exelator.com facebook.net flashtalking.com fullstory.com google-analytics.com
    googleadservices.com googlesyndication.com googletagmanager.com googletagservices.com
    gumgum.com heapanalytics.com hotjar.com hotjar.io imrworldwide.com indexww.com
    innovid.com intercom.io iubenda.com krxd.net lijit.com liveramp.com mathtag.com
    media.net mediavine.com mixpanel.com moatads.com mookie1.com mouseflow.com
    newrelic.com nr-data.net omnitagjs.com omtrdc.net onetrust.com openx.net
    optimizely.com outbrain.com parsely.com perfectaudience.com permutive.com
    pubmatic.com quantcast.com quantcount.com quantserve.com rlcdn.com rubiconproject.com
    scorecardresearch.com segment.com segment.io serving-sys.com sharethrough.com
    smartadserver.com smartlook.com spotxchange.com stackadapt.com statcounter.com
    taboola.com tapad.com teads.tv tremorhub.com tribalfusion.com trustarc.com
    truste.com tynt.com usercentrics.eu yieldmo.com zedo.com zemanta.com
    """.split()
)
