"""The browser: where Chromium is, how it runs, what a page of it does."""
