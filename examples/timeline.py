"""The home timeline: for every user the posts of those they follow, kept up to date as people post and follow.

headwater run examples/timeline.py
"""

import headwater as hw

app = hw.App("timeline", log="./timeline-data")
app.topic("posts", "id bigint, author bigint, text string, at timestamp", key="id")
app.topic("follows", "follower bigint, followed bigint", key=["follower", "followed"])

app.view(
    "timeline",
    """
    SELECT f.follower AS user, array_agg(named_struct('at', p.at, 'post', p.id, 'author', p.author)) AS posts
    FROM follows f JOIN posts p ON p.author = f.followed
    GROUP BY f.follower
    """,
)
app.view("popular", "SELECT followed AS user, count(*) AS followers FROM follows GROUP BY followed")
