"""The dashboard in the chart: off unless asked for, and then behind the API server's authentication."""

from chart import rendering

NAME = "cotenant-dashboard"


def test_it_is_off_unless_asked_for() -> None:
    assert not [item for item in rendering.objects("default") if item["metadata"]["name"].startswith(NAME)]


def test_who_opens_it_has_to_show_a_token() -> None:
    (container,) = rendering.one("everything", "Deployment", NAME)["spec"]["template"]["spec"]["containers"]
    assert "--authenticate" in container["args"]
    assert "--allow-host=gpus.test" in container["args"]


def test_it_may_read_and_ask_who_may_and_nothing_else() -> None:
    bindings = [
        item for item in rendering.objects("everything") if item["kind"] in {"ClusterRoleBinding", "RoleBinding"}
    ]
    own = [item["roleRef"]["name"] for item in bindings if any(one["name"] == NAME for one in item.get("subjects", ()))]
    assert sorted(own) == ["cotenant-viewer", "system:auth-delegator"]
