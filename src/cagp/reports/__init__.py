"""Pages for people: how HTML reports are made. ``cagp.fit_report`` has what a user calls."""
