"""Files that callers send instead of an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.http import Response

if TYPE_CHECKING:
    from scrapy import Request

    from scraper_service.items import Upload


class UploadedFiles:
    """Answer a request that has a file (``meta["upload"]``) with it.

    The first of the downloader middlewares: nothing of the network is touched.
    """

    def process_request(self, request: Request) -> Response | None:
        upload: Upload | None = request.meta.get("upload")
        if upload is None:
            return None
        return Response(
            request.url,
            headers={"Content-Type": upload.content_type},
            body=upload.body,
            request=request,
        )
