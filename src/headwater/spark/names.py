"""Names of Java packages and classes, each looked up once.

Py4J asks Java what a name stands for every time it is spelled: `jvm.org.apache.spark` is three questions, and for each
Java looks for a class of that name in all of Spark's 300 jars. That was a fifth of Java's time when views are planned.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaGateway, JavaPackage, JVMView


def keep_names(gateway: JavaGateway) -> None:
    """Makes a gateway remember what names stand for."""
    gateway.jvm = _Names(gateway._gateway_client, gateway.jvm._jvm_name, gateway.jvm._id)  # noqa: SLF001


class _Names(JVMView):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        return _keep(self, name, super().__getattr__(name))


class _Package(JavaPackage):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        return _keep(self, name, super().__getattr__(name))


def _keep(owner: object, name: str, found: Any) -> Any:
    """What a name stands for, as an attribute of its owner, so that it is not looked up again."""
    if isinstance(found, JavaPackage):
        found = _Package(found._fqn, found._gateway_client, found._jvm_id)  # noqa: SLF001
    vars(owner)[name] = found
    return found
