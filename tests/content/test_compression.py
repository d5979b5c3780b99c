"""What the database stores is read again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from scraper_service.content.stored_pages import compress, decompress

TEXT = b"a page with a title and a text " * 500


@pytest.mark.parametrize("data", [b"", b"x", TEXT])
def test_compressed_bytes_are_read_again(data):
    assert decompress(compress(data)) == data


def test_texts_of_several_threads_do_not_mix():
    texts = [b"%d " % n * (n % 50) for n in range(500)]
    with ThreadPoolExecutor(4) as threads:
        assert [*map(decompress, threads.map(compress, texts))] == texts


def test_an_input_that_cannot_be_compressed_does_not_spoil_the_next_call():
    with pytest.raises(TypeError):
        compress("a text")
    assert decompress(compress(TEXT)) == TEXT


def test_a_page_becomes_smaller():
    assert len(compress(TEXT)) < len(TEXT) / 10
