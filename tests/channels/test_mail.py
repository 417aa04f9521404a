"""Mail to a real SMTP server: at least once with a stable Message-ID, as text and HTML, one by one or as digests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from email import policy
from pathlib import Path
from typing import Any

import pytest

from headwater.connectors.mail.channel import Mail
from headwater.connectors.mail.smtp import Server, SmtpSender
from headwater.engine.sinks.channel import Message, Notice
from headwater.errors import MessageRefused, TargetFailed, UsageError
from headwater.model.secrets import Secret
from headwater.testing.clock import ManualClock
from tests.channels.mailbox import USER, Mailbox, certificate, html_of, receiving_mail, text_of
from tests.channels.posts import HUSH
from tests.channels.sending import OPS, telling
from tests.contract.sinks.feeding import Keyed
from tests.webhooks.receiver import until


@pytest.fixture
def box() -> Iterator[Mailbox]:
    with receiving_mail() as made:
        yield made


def mail(box: Mailbox, to: Any = OPS, **options: Any) -> Mail:
    return Mail(to, smtp=f"smtp://localhost:{box.port}", tls="none", **options)


def message(*keys: str, identity: str = "shop~tell_7_3:1") -> Message:
    row = {"id": 1, "text": "<b>&\r\nBcc: evil@example.com"}
    return Message(identity, tuple(Notice("tell", "v", "added", k, row, "3", "2026-01-02T03:04:05Z") for k in keys))


def test_rows_come_as_text_and_html(view: Keyed, box: Mailbox) -> None:
    with telling(view, mail(box)) as made:
        until(lambda: made.at() == 1)
        view.publish(k3="th<ree>", k4="four")
        until(lambda: made.at() == 2)
    (came,) = box.mails
    assert came["Subject"] == "tell: 2 added"
    assert (came["From"], came["To"]) == ("headwater <headwater@example.com>", OPS)
    assert came["Auto-Submitted"] == "auto-generated"
    assert "added: 3" in text_of(came)
    assert "text: th<ree>" in text_of(came)
    assert "th&lt;ree&gt;" in html_of(came)
    assert "four" in html_of(came)


def test_templates_write_subject_text_and_html(view: Keyed, box: Mailbox) -> None:
    channel = mail(box, subject="Row $key", text="It says $text.", html="<i>$text</i>", sender="Shop <shop@shop.test>")
    with telling(view, channel) as made:
        until(lambda: made.at() == 1)
        view.publish(k3="<three>")
        until(lambda: made.at() == 2)
    (came,) = box.mails
    assert (came["Subject"], came["From"]) == ("Row 3", "Shop <shop@shop.test>")
    assert text_of(came).strip() == "It says <three>."
    assert "<i>&lt;three&gt;</i>" in html_of(came)
    assert box.ids()[0].endswith("@shop.test>")


def test_values_put_no_header_into_a_mail(box: Mailbox) -> None:
    sender = mail(box, subject="$text").open()
    sender.send(message("k"))
    (came,) = box.mails
    assert came["Subject"] == "<b>& Bcc: evil@example.com"
    assert came["Bcc"] is None
    assert box.recipients == [[OPS]]


def test_the_same_message_is_the_same_mail(box: Mailbox) -> None:
    sender = mail(box).open()
    sender.send(message("k"))
    sender.send(message("k"))
    assert box.ids() == ["<shop~tell_7_3-1@example.com>"] * 2
    first, second = ({name: str(value) for name, value in each.items()} for each in box.mails)
    assert {**first, "Content-Type": ""} == {**second, "Content-Type": ""}


def test_a_digest_gathers_and_is_one_mail(view: Keyed, box: Mailbox) -> None:
    clock = ManualClock()
    with telling(view, mail(box, digest="5 minutes"), clock=clock) as made:
        until(lambda: made.at() == 1)
        for number in range(3, 9):
            view.publish(**{f"k{number}": f"row {number}"})
        until(lambda: made.feed.sink.waiting and len(made.feed.sink._due) == 6)  # type: ignore[attr-defined]
        clock.advance(timedelta(minutes=4))
        assert not box.mails
        assert made.at() == 1, "what is gathered has not arrived"
        clock.advance(timedelta(minutes=1))
        until(lambda: made.at() == 7)
    (came,) = box.mails
    assert came["Subject"] == "tell: 6 added"
    assert [line for line in text_of(came).splitlines() if "text:" in line] == [
        f"  text: row {number}" for number in range(3, 9)
    ]


def test_what_a_digest_had_gathered_comes_again_after_a_restart(view: Keyed, box: Mailbox) -> None:
    clock = ManualClock()
    channel = mail(box, digest="5 minutes")
    with telling(view, channel, clock=clock) as made:
        until(lambda: made.at() == 1)
        view.publish(k3="three")
        until(lambda: made.feed.sink.waiting)
    with telling(view, channel, clock=clock) as made:
        until(lambda: made.feed.sink.waiting)
        clock.advance(timedelta(minutes=5))
        until(lambda: made.at() == 2)
    assert [came["Subject"] for came in box.mails] == ["tell: 3 added"]


def test_a_mail_that_arrived_without_an_answer_comes_again_with_its_id(view: Keyed, box: Mailbox) -> None:
    channel = mail(box)
    with telling(view, channel) as made:
        until(lambda: made.at() == 1)
        box.answers += ["451 later", "421 busy", "451 later"]
        view.publish(k3="three")
        until(lambda: made.at() == 2)
        assert made.status().failures >= 3
    assert len(box.mails) == 1


def test_a_mail_that_is_refused_becomes_a_dead_letter(view: Keyed, box: Mailbox) -> None:
    with telling(view, mail(box)) as made:
        until(lambda: made.at() == 1)
        box.answers.append("554 looks like spam")
        view.publish(k3="three")
        view.publish(k4="four")
        until(lambda: made.at() == 3 and made.status().status == "running")
    letters = [dict(record.value or {}) for record in view.log.read("tell.dead_letters")]
    assert "answers 554 to the mail" in str(letters[0]["reason"])
    assert len(letters) + len(box.mails) >= 1


def test_recipients_that_are_refused_for_now_get_it_later_and_others_once(box: Mailbox) -> None:
    sender = mail(box, [OPS, "late@example.com"]).open()
    box.refused = {"late@example.com": "450 greylisted"}
    with pytest.raises(TargetFailed, match="1 of 2 recipients for now"):
        sender.send(message("k"))
    box.refused = {}
    sender.send(message("k"))
    assert box.recipients == [[OPS], ["late@example.com"]]
    box.refused = {"late@example.com": "550 unknown"}
    with pytest.raises(MessageRefused, match="has taken the mail for the others"):
        sender.send(message("k", identity="another"))
    box.refused |= {OPS: "550 unknown"}
    with pytest.raises(TargetFailed, match="answers 550 to the recipients") as raised:
        sender.send(message("k", identity="a third"))
    assert raised.value.kind == "refused"


@pytest.mark.parametrize("implicit", [False, True])
def test_tls_and_a_login_with_a_password_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, implicit: bool
) -> None:
    made = certificate(tmp_path)
    monkeypatch.setenv("MAIL_PASSWORD", HUSH)
    with receiving_mail(made, implicit=implicit) as box:
        url = f"{'smtps' if implicit else 'smtp'}://{USER}@localhost:{box.port}"
        channel = Mail(OPS, smtp=url, password=Secret.env("MAIL_PASSWORD"), ca_file=made[0])
        channel.open().send(message("k"))
        assert box.secure == [True]
        with pytest.raises(TargetFailed, match=r"certificate of localhost:.* is not valid") as raised:
            Mail(OPS, smtp=url, password=Secret.env("MAIL_PASSWORD")).open().send(message("k"))
        assert raised.value.kind == "refused"
        with pytest.raises(TargetFailed, match="answers 535 to the login"):
            Mail(OPS, smtp=url, password="wrong", ca_file=made[0]).open().send(message("k"))
    assert channel.address == f"{OPS} by localhost:{box.port}"
    assert HUSH not in repr(channel) + repr(channel.open())


def test_a_server_without_tls_is_not_sent_to_in_the_clear(box: Mailbox) -> None:
    with pytest.raises(TargetFailed, match="does not offer what is needed") as raised:
        Mail(OPS, smtp=f"smtp://localhost:{box.port}").open().send(message("k"))
    assert raised.value.kind == "refused"
    assert not box.mails


def test_a_server_that_never_answers_is_given_up(box: Mailbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = Server("127.0.0.1", silent.getsockname()[1], "none")
        sender = SmtpSender(server, mail(box)._writing, 0.3)
        with pytest.raises(TargetFailed) as raised:
            sender.send(message("k"))
        assert raised.value.kind == "passing"
        sender = SmtpSender(server, mail(box)._writing, 30)
        closing = threading.Timer(0.2, sender.close)
        closing.start()
        with pytest.raises(TargetFailed):
            sender.send(message("k"))
        closing.join()


def test_a_server_that_is_away_is_waited_for(view: Keyed) -> None:
    with receiving_mail() as box:
        port = box.port
    with telling(view, mail(box), "content") as made:
        until(lambda: made.status().status == "retrying")
        assert "Connection refused" in str(made.status().error)
        with receiving_mail(port=port) as back:
            until(lambda: made.at() == 1)
            assert [came["Subject"] for came in back.mails] == ["tell: 2 added"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"to": "nobody"}, "is not an email address"),
        ({"to": []}, "needs a recipient"),
        ({"smtp": f"http://x:{HUSH}@host"}, "URL of the SMTP server is not valid"),
        ({"smtp": f"smtp://x:{HUSH}@host:port"}, "URL of the SMTP server is not valid"),
        ({"smtp": f"smtp://x:{HUSH}@host", "tls": "none"}, "only sent over TLS"),
        ({"smtp": "smtp://x@host"}, "a user but no password"),
        ({"tls": "ssl"}, "Invalid tls='ssl'"),
        ({"digest": "soon"}, "Invalid digest"),
        ({"on": "sent"}, "Invalid on='sent'"),
        ({"subject": "$"}, "does not begin a placeholder"),
    ],
)
def test_wrong_settings_are_told_at_once_and_show_no_secret(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        Mail(**{"to": OPS, "smtp": "smtp://localhost", **wrong})
    assert HUSH not in f"{raised.value} {raised.value.hint}"


def test_a_mail_is_what_a_mail_program_reads(box: Mailbox) -> None:
    mail(box).open().send(message("k", "l"))
    raw = box.mails[0].as_bytes(policy=policy.SMTP)
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    assert box.mails[0].get_content_type() == "multipart/alternative"
