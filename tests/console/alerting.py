"""Alerts on the stage: some that fire and some that have cleared, with receivers of which one does not answer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headwater.connectors.http.slack import Slack
from headwater.connectors.mail.channel import Mail
from headwater.engine.alerts.told import Told, ToldFile
from tests.console.stage import Stage

NAME = "orders stuck"


def alarm(stage: Stage) -> None:
    """Declares alerts, and lets something happen to them."""
    to = [Mail("ops@example.com", smtp="smtp://mail.example.com"), Slack("https://hooks.slack.com/services/hush")]
    stage.app.alert(NAME, view="revenue", to=to, after="2 minutes", repeat="1 hour", quiet=("22:00", "07:00"))
    stage.app.alert("no visits", view="visits")
    begin = datetime.now(UTC) - timedelta(minutes=42)
    for number, (key, event) in enumerate((("DE", "fired"), ("FR", "fired"), ("DE", "cleared"), ("IT", "fired"))):
        record = {
            "id": f"shop.{NAME}_{key}", "alert": NAME, "view": "revenue", "key": key, "event": event,
            "at": begin + timedelta(minutes=9 * number), "since": begin - timedelta(minutes=2), "position": "12",
            "row": f'{{"country":"{key}","orders":{number + 3},"revenue":"12{number}.50"}}',
        }  # fmt: skip
        stage.app.log.append("shop.alerts", [record])
    mail, slack = stage.app.alerts[NAME].notifiers
    mail._path.parent.mkdir(parents=True, exist_ok=True)
    ToldFile(mail._path).save(Told(begun=True, offset=4, number=4))
    waiting = Told(begun=True, offset=4, number=2, status="retrying", failures=7, queue=[{}, {}])
    waiting.error = "https://hooks.slack.com answers 503 Service Unavailable"
    ToldFile(slack._path).save(waiting)
