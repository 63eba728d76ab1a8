"""A page that shows a run: `views` of segments, `systems` compared, and the `page` of both."""
