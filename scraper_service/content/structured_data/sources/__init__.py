"""Where values come from: structured data, texts with labels, records, marked places."""
