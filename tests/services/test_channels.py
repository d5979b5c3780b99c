"""The setting of channels."""

from __future__ import annotations

import pytest

from scraper_service.services.monitoring.notifications import Channels


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("entries", "text"),
    [
        (["team"], "NAME=URL"),
        (["team=nothing://x"], "the URL of 'team'"),
        (["a=syslog://"], "'a' would use other programs"),
        (["a=json://x.example", "a=json://y.example"], "two channels 'a'"),
    ],
)
def test_a_wrong_channel_is_refused(entries, text):
    with pytest.raises(ValueError, match="SCRAPER_NOTIFICATION_CHANNELS") as error:
        Channels.parse(entries, ())
    assert text in str(error.value)
    assert "://x" not in str(error.value)


def test_a_url_may_have_commas():
    channels = Channels.parse(["a=json://x.example/b", "c=d", "e=json://y.example"], ())
    assert channels.names == ("a", "e")
    assert channels.urls["a"] == "json://x.example/b,c=d"
    assert "x.example" not in repr(channels)
