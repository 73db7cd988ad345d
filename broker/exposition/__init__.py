"""What the broker shows of itself: one table of metrics, and their text for Prometheus.

All of it is read when it is asked for; nothing outside is called back. Read family, scrape_view,
the tables (`*_families`), then text_format.
"""
