"""What a tenant's process is told, and what it must not inherit."""

from cotenant_predictor.profiling import mechanisms


def test_a_client_gets_its_limits_and_the_daemons_pipe() -> None:
    found = mechanisms.client_environment(
        pipe_directory="pipe", thread_percentage=40, memory_limit_mib=512, client_priority=1
    )
    assert found == {
        "CUDA_MPS_PIPE_DIRECTORY": "pipe",
        "CUDA_VISIBLE_DEVICES": "0",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "40",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=512M",
        "CUDA_MPS_CLIENT_PRIORITY": "1",
    }


def test_without_limits_none_are_set() -> None:
    found = mechanisms.client_environment(
        pipe_directory="pipe", thread_percentage=None, memory_limit_mib=None, client_priority=0
    )
    assert set(found) == {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_CLIENT_PRIORITY"}


def test_a_process_without_mps_looks_for_a_daemon_where_there_is_none() -> None:
    found = mechanisms.plain_environment(gpu_uuid="GPU-1", empty_directory="empty")
    assert found == {"CUDA_MPS_PIPE_DIRECTORY": "empty", "CUDA_VISIBLE_DEVICES": "GPU-1"}


def test_settings_of_whoever_measures_do_not_reach_the_tenants() -> None:
    environment = {"PATH": "/bin", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "5", "CUDA_VISIBLE_DEVICES": "3"}
    assert mechanisms.inherited(environment) == {"PATH": "/bin"}
