"""The memory of large webhook bodies while they are sent."""

from __future__ import annotations

import asyncio

from scraper_service.services.webhooks import SLICE_BYTES, _Room

PART = 2 * SLICE_BYTES


def test_the_largest_body_is_not_starved_by_smaller_bodies():
    """Smaller ones that come later must not take the room that it waits for."""

    async def main():
        room = _Room(4 * PART)
        sent = await room.take(3 * PART)
        largest = asyncio.ensure_future(room.take(4 * PART))
        await asyncio.sleep(0)
        assert room.take_now(PART) is None
        smaller = asyncio.ensure_future(room.take(PART))
        assert room.take_now(SLICE_BYTES) == 0
        room.give_back(sent)
        assert await asyncio.wait_for(largest, 10) == 4 * PART
        assert not smaller.done()
        room.give_back(4 * PART)
        assert await asyncio.wait_for(smaller, 10) == PART
        assert room.take_now(3 * PART) == 3 * PART

    asyncio.run(main())
